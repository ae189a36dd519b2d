"""Exactness under load: threads call, other sessions come and go, and every count is right.

python -m tests.python.stress --seconds 60 --threads 8
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from contextlib import suppress

import inviso
from inviso import trace


def counted(n: int) -> int:
    return n


def other(n: int) -> int:
    return counted(n)


def generated(n: int):
    yield from range(n)


def work(calls: int) -> None:
    for n in range(calls):
        counted(n)
        if n % 64 == 0:
            other(n)
            for _ in generated(3):
                pass
    with suppress(KeyError):
        fails(20)


def fails(depth: int) -> None:
    if depth == 0:
        raise KeyError
    fails(depth - 1)


def disturb(stop: threading.Event, seed: int) -> None:
    """Makes, pauses, restarts and destroys sessions on the same functions, until it is stopped."""
    dice = random.Random(seed)
    kinds = ["call_count", "call_time", "call_memory", "call_latency", "local", "meta"]
    while not stop.is_set():
        with trace.session_create("disturb", None, {"ring_bytes": 1 << 14, "overflow": "overwrite"}) as session:
            session.process("all", True, ["call", "return_to", "arity"])
            for _ in range(dice.randrange(1, 6)):
                kind = dice.choice(kinds)
                how = dice.choice([True, True, "pause", "restart", False])
                session.function((__name__, dice.choice(["counted", "other", "generated", "fails"]), 1), how, [kind])
            session.drain()


def run(seconds: float, threads: int, calls: int, seed: int = 1) -> int:
    """Runs rounds until the time is over; returns the number of checked calls."""
    end = time.monotonic() + seconds
    checked = 0
    while True:
        stop = threading.Event()
        noise = [threading.Thread(target=disturb, args=(stop, seed + n)) for n in range(2)]
        with trace.session_create("exact") as exact, trace.session_create("timed") as timed:
            exact.function((__name__, "counted", 1), True, ["call_count"])
            exact.function((__name__, "fails", 1), True, ["call_count"])
            exact.function((__name__, "generated", 1), True, ["call_count"])
            timed.process("all", True, ["call"])
            timed.function((__name__, "counted", 1), True, ["call_time"])
            for thread in noise:
                thread.start()
            workers = [threading.Thread(target=work, args=(calls,)) for _ in range(threads)]
            for thread in workers:
                thread.start()
            for thread in workers:
                thread.join()
            stop.set()
            for thread in noise:
                thread.join()
            extra = (calls + 63) // 64
            expected = {"counted": threads * (calls + extra), "fails": threads * 21, "generated": threads * extra}
            for name, number in expected.items():
                seen = exact.info((__name__, name, 1), "call_count")[1]
                assert seen == number, f"{name}: {seen} calls counted, {number} made"
            by_process = timed.info((__name__, "counted", 1), "call_time")[1]
            assert sum(row[1] for row in by_process) == expected["counted"], by_process
            assert len(by_process) == threads, by_process
            checked += sum(expected.values())
        seed += 2
        if time.monotonic() >= end:
            return checked


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    print(run(options.seconds, options.threads, options.calls), "calls checked;", inviso.self())
