"""The names of flags, kinds of patterns, items and events, with their bits in the native half."""

from __future__ import annotations

from typing import Any

COUNT, TIME, MEMORY, LATENCY, LOCAL, GLOBAL, META = (1 << n for n in range(7))
KINDS = {
    "global": GLOBAL,
    "local": LOCAL,
    "meta": META,
    "call_count": COUNT,
    "call_time": TIME,
    "call_memory": MEMORY,
    "call_latency": LATENCY,
}
MESSAGES = LOCAL | GLOBAL | META
FLAGS = {name: 1 << bit for bit, name in enumerate((
    "call", "return_to", "arity", "silent", "procs", "send", "receive", "running", "running_procs", "running_ports",
    "exiting", "garbage_collection", "ports", "set_on_spawn", "set_on_first_spawn", "set_on_link", "set_on_first_link",
    "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp", "scheduler_id", "cpu_timestamp",
))}  # fmt: skip
ALL = (1 << 21) - 1
SETTABLE = FLAGS | {"all": ALL}
ITEMS = ("traced", "match_spec", "meta", "meta_match_spec", "call_memory", "call_time", "call_count")
EVENTS = ("long_gc", "long_message_queue", "long_schedule", "large_heap", "busy_port", "busy_dist_port")
OPTIONS: dict[str, Any] = {
    "ring_bytes": 1 << 20,
    "overflow": "drop",
    "block_ms": 1000,
    "ended_processes": 1024,
    "capture": None,
    "repr": False,
    "clock": "fast",
    "share": 1,
    "dump_to": None,
    "dump_signal": None,
    "dump_on": None,
    "dump_slower": None,
    "dump_every": 10.0,
}
# The words for all processes or ports of a kind.
GROUPS = {
    "procs": {
        word: word.removesuffix("_processes")
        for word in ("all", "existing", "new", "existing_processes", "new_processes")
    }
    | {"processes": "all"},
    "ports": {word: word.removesuffix("_ports") for word in ("all", "existing", "new", "existing_ports", "new_ports")}
    | {"ports": "all"},
}
# Limits for copies of a call's arguments: containers inside each other, items of one container, bytes of one text or
# int, bytes of all arguments.
CAPTURE = {"depth": 8, "items": 100, "bytes": 1024, "total": 4096}
