"""The costs of messages, task switches, ports and collections, traced and untraced: all in one process, in turns.

    python -m benches.python.passing ROUNDS

Each round times each kind of work (``WORK``) four times: with no session, with one that asks for nothing, with one
that traces another process, and with one that traces it; the order goes on by one in each round. Each time is the best
of up to 5 runs within 50 ms, so that events that happen once (the first page of a ring) are not measured. The last line
is JSON: nanoseconds of one piece of work with no session, and three ratios to that, each the median of the rounds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import queue
import socket
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import inviso
from inviso import trace

from .tools import Wrong

MODES = ("untraced", "idle", "other", "traced")
_SPARE = 60  # messages of the program around the work: its main task, for example
_RUNS, _ENOUGH = 5, 0.05


@dataclass(frozen=True)
class Work:
    """One kind of work.

    Attributes:
        about: one piece of it, and the traced events.
        run: does it this number of times; returns the seconds.
        times: the number of repetitions in one run.
        flags: flags of processes, and of ports if there are any.
        events: the number of messages of one piece.
        bar: the largest ratio that is good enough, if there is one.
    """

    about: str
    run: Callable[[int], float]
    times: int
    flags: tuple[str, ...]
    events: int
    bar: float | None = None
    ports: tuple[str, ...] = ()


def _queue_of_asyncio(times: int) -> float:
    async def main() -> float:
        items: asyncio.Queue[int] = asyncio.Queue()
        start = time.perf_counter()
        for n in range(times):
            await items.put(n)
            await items.get()
        return time.perf_counter() - start

    return asyncio.run(main())


def _queue_of_threads(items: Any, times: int) -> float:
    start = time.perf_counter()
    for n in range(times):
        items.put(n)
        items.get()
    return time.perf_counter() - start


def _mailbox(times: int) -> float:
    me, send, receive = inviso.self(), inviso.send, inviso.receive
    start = time.perf_counter()
    for n in range(times):
        send(me, n)
        receive()
    return time.perf_counter() - start


def _executor(times: int) -> float:
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()
        start = time.perf_counter()
        for n in range(times):
            executor.submit(abs, n).result()
        return time.perf_counter() - start


async def _nothing() -> None:
    pass


def _tasks(times: int) -> float:
    async def main() -> float:
        start = time.perf_counter()
        for _ in range(times):
            await asyncio.create_task(_nothing())
        return time.perf_counter() - start

    return asyncio.run(main())


def _turns(times: int) -> float:
    async def main() -> float:
        sleep: Callable[[int], Awaitable[None]] = asyncio.sleep
        start = time.perf_counter()
        for _ in range(times):
            await sleep(0)
        return time.perf_counter() - start

    return asyncio.run(main())


def _sockets(times: int) -> float:
    one, other = socket.socketpair()
    with one, other:
        start = time.perf_counter()
        for _ in range(times):
            one.send(b"0123456789")
            other.recv(64)
        return time.perf_counter() - start


def _collections(times: int) -> float:
    alive: list[Any] = [[n] for n in range(10_000)]
    collect = gc.collect
    start = time.perf_counter()
    for _ in range(times):
        collect()
    assert len(alive) == 10_000
    return time.perf_counter() - start


_BOTH = ("send", "receive")
WORK = {
    "asyncio.Queue": Work("put and get, awaited: send, receive", _queue_of_asyncio, 10_000, _BOTH, 2),
    "queue.Queue": Work("put and get: send, receive", lambda n: _queue_of_threads(queue.Queue(), n), 10_000, _BOTH, 2),
    "queue.SimpleQueue": Work(
        "put and get: send, receive", lambda n: _queue_of_threads(queue.SimpleQueue(), n), 50_000, _BOTH, 2
    ),
    "mailbox": Work("send and receive: send, receive", _mailbox, 10_000, _BOTH, 2),
    "executor": Work("submit and result: send, receive, twice", _executor, 1_000, _BOTH, 4),
    "tasks": Work("create_task, awaited: in, out, of both tasks", _tasks, 3_000, ("running",), 4, 1.15),
    "turns": Work("sleep(0), awaited: out, in", _turns, 5_000, ("running",), 2),
    "sockets": Work("send and recv: send, receive, of process and port", _sockets, 5_000, _BOTH, 4, None, _BOTH),
    "collections": Work("gc.collect of 10,000 lists: start, end", _collections, 200, ("garbage_collection",), 2),
}


def best(run: Callable[[], float]) -> tuple[float, int]:
    """The fewest seconds of up to 5 runs within 50 ms, and the number of runs."""
    seconds: list[float] = []
    while len(seconds) < _RUNS and sum(seconds) < _ENOUGH:
        seconds.append(run())
    return min(seconds), len(seconds)


def measured(work: Work, mode: str, other: inviso.Pid) -> float:
    """Seconds of one run, the best of several.

    Raises:
        Wrong: the work was traced, and the number of messages is wrong; or it was not traced, and messages came.
    """
    if mode == "untraced":
        return best(lambda: work.run(work.times))[0]
    with trace.session_create("passing", None, {"overflow": "overwrite"}) as session:
        if mode == "other":
            session.process(other, True, work.flags)
        elif mode == "traced":
            session.process("all", True, work.flags)
            if work.ports:
                session.port("all", True, work.ports)
        seconds, runs = best(lambda: work.run(work.times))
        session.process("all", False, ["all"])
        session.port("all", False, ["all"])
        due = work.events * work.times * runs if mode == "traced" else 0
        came = sum(message[0] == "trace" for message in session.drain()) + session.info("session", "dropped")[1]
        if not due <= came <= due + _SPARE * runs * (due > 0):
            raise Wrong(f"{work.about}, {mode}: {came} messages, not {due}")
    return seconds


def main(rounds: str, names: str = "") -> None:
    """Measures as the docstring of the module tells."""
    stop = threading.Event()
    idle = threading.Thread(target=stop.wait)
    idle.start()
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    chosen = {name: work for name, work in WORK.items() if not names or name in names.split(",")}
    gc.collect()
    gc.freeze()  # all other objects
    for turn in range(int(rounds) + 1):
        for name, work in chosen.items():
            for step in range(len(MODES)):
                mode = MODES[(turn + step) % len(MODES)]
                spent = measured(work, mode, inviso.pid(idle))
                if turn:  # the first turn warms up
                    seconds[name, mode].append(spent)
    stop.set()
    idle.join()
    answer = {name: figures(work, {mode: seconds[name, mode] for mode in MODES}) for name, work in chosen.items()}
    print(json.dumps(answer))


def figures(work: Work, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """The figures of one kind of work, from its rounds."""
    plain = seconds["untraced"]
    ratios = {
        mode: round(statistics.median(one / bare for one, bare in zip(seconds[mode], plain, strict=True)), 3)
        for mode in MODES[1:]
    }
    ns = round(statistics.median(plain) / work.times * 1e9, 1)
    return {"about": work.about, "ns": ns, **ratios, "bar": work.bar}


if __name__ == "__main__":
    main(*sys.argv[1:])
