"""Sessions come and go at random, with any flags and patterns, beside services under load."""

from __future__ import annotations

import logging
import queue
import random
import sys
import threading
import time
import warnings
from typing import Any

from inviso import seq_trace, trace
from subjects import consistent, services

FLAGS = [
    "send", "receive", "procs", "running", "running_procs", "exiting", "garbage_collection", "call", "return_to",
    "arity", "silent", "set_on_spawn", "set_on_first_spawn", "set_on_link",
]  # fmt: skip
STAMPS = ["timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"]
SPECS: list[Any] = [
    True,
    [("_", [], [("return_trace",)])],
    [("_", [], [("exception_trace",)])],
    [("_", [], [("message", ("caller",))])],
]
LIBRARY = ["queue", "asyncio.tasks", "asyncio.base_events", "threading", "subjects.services"]
ALARMS: list[Any] = [
    ("long_schedule", 1), ("long_message_queue", (1, 5)), ("busy_port", True), ("long_gc", 1), ("large_heap", 100),
]  # fmt: skip


def ask(session: trace.Session, chance: random.Random) -> None:
    """Makes a random request to a session."""
    match chance.randrange(8):
        case 0 | 1 | 2:
            flags = chance.sample(FLAGS, chance.randrange(1, 8)) + chance.sample(STAMPS, chance.randrange(2))
            session.process(chance.choice(["all", "existing", "new"]), chance.random() < 0.8, flags)
        case 3:
            session.port(chance.choice(["all", "existing", "new"]), True, consistent.PORTS)
        case 4:
            session.process("all", True, ["call"])
            session.function(("subjects.services", "_", "_"), chance.choice(SPECS), ["local"])
        case 5:
            kind = chance.choice(["call_count", "call_time", "call_memory", "local", "global"])
            session.function((chance.choice(LIBRARY), "_", "_"), True, [kind])
        case 6:
            session.system(*chance.choice(ALARMS))
        case _:
            session.send([(["$1", "_"], [("==", "$1", "$1")] if chance.random() < 0.5 else [], [])])
            session.recv([(["$1", "$2", "_"], [("is_pid", "$2")], [])])


def come_and_go(chance: random.Random, done: threading.Event) -> None:
    while not done.is_set():
        options = chance.choice([{}, {"overflow": "overwrite"}, {"overflow": "block", "block_ms": 2}])
        with trace.session_create("short", None, options) as session:
            for _ in range(chance.randrange(1, 5)):
                ask(session, chance)
                if chance.random() < 0.3:
                    session.drain()
            time.sleep(chance.random() * 0.01)


def tokens(chance: random.Random, done: threading.Event) -> None:
    while not done.is_set():
        seq_trace.set_token("label", 17)
        seq_trace.set_token("send", True)
        box: queue.Queue[int] = queue.Queue()
        box.put(1)
        box.get()
        time.sleep(chance.random() * 0.01)
        seq_trace.set_token([])
        if chance.random() < 0.2:
            seq_trace.reset_trace()


def main(seed: int) -> None:
    """Prints errors, or ``ok``. With an odd seed, tokens are used, and threads switch as often as possible."""
    logging.getLogger("asyncio").setLevel("ERROR")
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    before, done = consistent.standard(), threading.Event()
    odd = seed % 2 == 1
    if odd:
        sys.setswitchinterval(1e-5)
    works = [come_and_go, come_and_go, *([tokens] if odd else [])]
    threads = [threading.Thread(target=work, args=(random.Random(seed + n), done)) for n, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        services.streams(5, 10)
        services.threads(2, 50)
        services.blocking(3, 5)
        services.ring(30, 500)
    done.set()
    for thread in threads:
        thread.join()
    if not odd:  # tokens stay in use
        consistent.same(before)
    print("ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
