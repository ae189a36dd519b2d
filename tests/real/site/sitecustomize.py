"""Begins a session or a token in each interpreter that has ``INVISO_REAL_MODE`` in its environment, before the program.

It lasts until the interpreter's end. Then ``PID.json`` in the folder ``INVISO_REAL_SEEN`` gets the counts of messages.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from inviso import seq_trace, trace

STEP = ("__main__", "step", 1)
# All but "silent", which would take the call messages away.
FLAGS = [
    "call", "return_to", "arity", "procs", "send", "receive", "running", "running_procs", "running_ports", "exiting",
    "garbage_collection", "ports", "set_on_spawn", "set_on_first_spawn", "set_on_link", "set_on_first_link",
    "strict_monotonic_timestamp", "scheduler_id",
]  # fmt: skip
COUNTERS = ["call_count", "call_time", "call_memory", "call_latency"]
SPEC = [("_", [], [("message", ("caller",)), ("return_trace",), ("exception_trace",)])]


def watch(session: trace.Session, flags: list[str]) -> None:
    session.process("all", True, flags)
    session.port("all", True, ["all"])
    for event in ("long_gc", "long_schedule", "large_heap"):
        session.system(event, 1)
    session.system("long_message_queue", (1, 3))
    session.system("busy_port", True)


def flags() -> Callable[[], dict[str, Any]]:
    """Each flag of a process and of a port, and the system's events; a thread of the tracer's takes the messages."""
    tags: Counter[str] = Counter()

    def tell(message: Any) -> None:
        tags[message[2] if message[0] in ("trace", "trace_ts") else message[0]] += 1

    session = trace.session_create("flags", tell)
    session.function(("_", "_", "_"), True, ["call_count"])
    session.function("on_load", True, ["call_count"])
    watch(session, ["all", "cpu_timestamp"])

    def seen() -> dict[str, Any]:
        count = session.info(STEP, "call_count")[1]
        return {"arrived": session.delivered().wait(60), "steps": count, "tags": tags}

    return seen


def calls() -> Callable[[], dict[str, Any]]:
    """All calls with their callers, returns and exceptions, all counters and flags; the rings keep the newest."""
    session = trace.session_create("calls", None, {"overflow": "overwrite"})
    for functions in (("_", "_", "_"), "on_load"):
        session.function(functions, SPEC, ["local", *COUNTERS])
        session.function(functions, True, ["meta"])
    watch(session, FLAGS)

    def seen() -> dict[str, Any]:
        count = session.info(STEP, "call_count")[1]
        # a program that this one starts may lack this function
        rows = {item: session.info(STEP, item)[1] or () for item in ("call_time", "call_memory", "call_latency")}
        totals = [sum(row[1] for row in rows[item]) for item in ("call_time", "call_memory")]
        tags = Counter(message[2] for message in session.drain() if message[0].startswith("trace"))
        return {"steps": count, "totals": totals, "latencies": bool(rows["call_latency"]), "tags": tags}

    return seen


def tokens() -> Callable[[], dict[str, Any]]:
    """The main thread has a token, which goes with all that it starts and sends."""
    collector = seq_trace.Collector()
    collector.__enter__()
    seq_trace.set_token("label", "real")
    for flag in ("send", "receive", "print", "strict_monotonic_timestamp"):
        seq_trace.set_token(flag, True)

    def seen() -> dict[str, Any]:
        seq_trace.print("end")
        kinds = Counter(
            event[2][0][0] if isinstance(event[2][0], tuple) else str(event[2][0])
            for event in collector.output().events
        )
        return {"token": seq_trace.get_token("label"), "tags": kinds}

    return seen


def everything() -> Callable[[], dict[str, Any]]:
    """All of these in one process."""
    parts = [tokens(), flags(), calls()]

    def seen() -> dict[str, Any]:
        several = [part() for part in parts]
        return {**several[0], **several[1], **several[2], "tags": sum((part["tags"] for part in several), Counter())}

    return seen


MODES = {"flags": flags, "calls": calls, "tokens": tokens, "everything": everything}


def begin(mode: str, folder: str) -> None:
    seen = MODES[mode]()
    pid = os.getpid()

    def end() -> None:
        if os.getpid() == pid:  # not a forked child's
            with open(os.path.join(folder, f"{pid}.json"), "w") as file:
                json.dump(seen(), file, default=repr)

    atexit.register(end)


if "INVISO_REAL_MODE" in os.environ:
    begin(os.environ["INVISO_REAL_MODE"], os.environ["INVISO_REAL_SEEN"])
