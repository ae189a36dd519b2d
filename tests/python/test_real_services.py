"""Whole services, pools and many tasks under load, all traced: they work as without, and messages are consistent."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import BadArg, trace
from subjects import consistent, services
from trace_tools import good
from waiting import until

METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]

# A child, because any output on standard error is a fault.
HEAD = """
import logging, warnings
from subjects import consistent, services
# in debug mode asyncio warns of callbacks that take long, as they do on a machine with other work
logging.getLogger("asyncio").setLevel("ERROR")
# forking beside threads is what these programs do
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
"""


def told(call: str, check: str = "", **options: Any) -> Counter[str]:
    """The messages of a service, grouped by subject."""
    text = f"""{HEAD}
if __name__ == "__main__":
    with consistent.whole() as seen:
        services.{call}
    seen.check({check})
    print(*(message[1] for message in seen.messages))
"""
    return Counter(good(text, **options).split())


@pytest.mark.parametrize("clients", [1, 20])
def test_a_server_of_streams(clients: int) -> None:
    tags = told(f"streams({clients}, 20)")
    # a request and its answer, each a command to the client's or server's socket, and data from the other one
    assert tags["send"] == tags["receive"] == clients * 20 * 2 * 2
    # the listening socket, and both ends of each connection
    assert tags["open"] == tags["closed"] == 1 + 2 * clients


def test_a_server_of_streams_in_debug_mode() -> None:
    assert told("streams(5, 5)", flags=["-X", "dev", "-W", "error", "-W", "ignore::ResourceWarning"])["send"] == 100


def test_aiohttp() -> None:
    pytest.importorskip("aiohttp")
    # its client sets some futures at the end, with or without a waiter
    tags = told("aiohttp(10, 10)", "untaken=[None]")
    assert tags["send"] >= tags["receive"] >= 10 * 10 * 2 * 2
    assert tags["open"] == tags["closed"] >= 1 + 2 * 10


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_starlette_behind_uvicorn(loop: str) -> None:
    for package in ("starlette", "uvicorn", "h11", *(["uvloop"] if loop == "uvloop" else [])):
        pytest.importorskip(package)
    tags = told(f"starlette(10, 10, {loop!r})", "untaken=[None]")
    assert tags["spawn"] > 10
    assert tags["open"] == tags["closed"] > 0
    if loop == "asyncio":  # uvloop's transports are C
        assert tags["send"] >= 10 * 10 * 2 * 2


def test_threads_and_queues() -> None:
    tags = told("threads(4, 200)")
    # through the queue there and back, with the ends; a call of the executor and its result, for each of the two loads
    assert tags["send"] == tags["receive"] == 200 * 2 + 4 + 200 * 2 * 2
    assert tags["spawned"] == tags["exit"] == 4 + 3


def test_threads_and_a_loop() -> None:
    tags = told("blocking(5, 20)")
    # each is a call in a thread and its result, a coroutine in the loop and its result
    assert tags["send"] == tags["receive"] == 5 * 20 * 4


@pytest.mark.parametrize("method", METHODS)
def test_pools_of_processes(method: str) -> None:
    tags = told(f"pool({method!r}, 40)", "paired=False")
    # calls of the pool one by one, and those of the executor; the other process is not traced
    single = 10 + 40
    # two calls for many items: 14 chunks of one come back, and 40 items of the other
    assert (tags["send"], tags["receive"]) == (single + 2, single + 14 + 40)
    assert tags["spawned"] == tags["exit"] > 3


def test_all_at_once() -> None:
    text = f"""{HEAD}
import threading
if __name__ == "__main__":
    calls = [lambda: services.streams(5, 20), lambda: services.threads(2, 100), lambda: services.blocking(3, 10),
             lambda: services.ring(100, 5000)]
    failed = []
    threading.excepthook = failed.append
    with consistent.whole() as seen:
        crew = [threading.Thread(target=call) for call in calls]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
    seen.check()
    print(len(failed), sum(message[1] == "send" for message in seen.messages))
"""
    assert good(text) == f"0 {5 * 20 * 4 + 100 * 6 + 2 + 3 * 10 * 4 + 5000}\n"


def test_sessions_come_and_go_under_load() -> None:
    text = f"""{HEAD}
import threading, time
if __name__ == "__main__":
    before, done = consistent.standard(), threading.Event()
    def come_and_go():
        while not done.is_set():
            with consistent.trace.session_create("short") as session:
                session.process("all", True, consistent.PROCESSES)
                session.port("all", True, consistent.PORTS)
                time.sleep(0.005)
    other = threading.Thread(target=come_and_go)
    other.start()
    for _ in range(5):
        services.streams(5, 20)
        services.threads(2, 100)
        services.blocking(3, 10)
        services.ring(50, 2000)
    done.set()
    other.join()
    consistent.same(before)
    print("ok")
"""
    assert good(text) == "ok\n"


# the checks themselves


def test_nothing_can_be_missing() -> None:
    with consistent.whole() as seen:
        services.streams(2, 3)
        services.threads(1, 3)
        gc.collect()
    seen.check()
    every = seen.messages
    tags = {str(message[1]) for message in every}
    assert tags >= {"send", "receive", "spawn", "spawned", "exit", "in", "out", "out_exited", "open", "closed"}
    for n, message in enumerate(every):
        if message[1] not in ("link", "getting_linked", "getting_unlinked"):
            seen.messages = every[:n] + every[n + 1 :]
            with pytest.raises(AssertionError):
                seen.check()
                print(message, "can be missing")


@pytest.mark.parametrize("flag", ["send", "receive", "procs", "running", "garbage_collection"])
def test_what_stays_behind_is_found(flag: str, session: trace.Session) -> None:
    before = consistent.standard()
    session.process("all", True, [flag])
    with pytest.raises(AssertionError):
        consistent.same(before)
    session.destroy()
    consistent.same(before)


# many tasks, many messages


class Order:
    """A tracer that checks that each task sends and receives its numbers in turn, and counts them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.next: dict[tuple[Any, str], int] = defaultdict(int)
        self.lost = self.gaps = self.wrong = 0

    def __call__(self, message: Any) -> None:
        if message[0] == "drop":
            self.lost += message[1]
            return
        _, who, tag, *more = message
        self.counts[str(tag)] += 1
        if tag in ("send", "receive") and who.kind == "task":
            due = self.next[who, str(tag)]
            self.wrong += more[0] < due
            self.gaps += more[0] - due
            self.next[who, str(tag)] = more[0] + 1


def ring(tasks: int, messages: int, flags: list[str], **options: Any) -> tuple[Order, int]:
    """The result of a ring of tasks, and the session's number of lost messages."""
    order = Order()
    with trace.session_create("ring", order, options) as session:
        session.process("all", True, flags)
        assert services.ring(tasks, messages) == messages
        session.process("all", False, flags)
        assert session.delivered().wait(120)
        dropped = session.info("session", "dropped")[1]
    assert order.wrong == 0
    return order, dropped


EVENTS = ["send", "receive", "procs", "running"]


def whole_ring(tasks: int, messages: int) -> None:
    order, dropped = ring(tasks, messages, EVENTS, ring_bytes=1 << 26, overflow="block", block_ms=60_000)
    counts = order.counts
    assert (dropped, order.lost, order.gaps) == (0, 0, 0)
    assert counts["send"] == counts["receive"] == messages
    assert counts["spawned"] == counts["exit"] == tasks + 3  # and main, and two that `asyncio.run` ends with
    assert counts["in"] == counts["out"] >= messages


def test_a_thousand_tasks_and_all_their_messages() -> None:
    whole_ring(1000, 50_000)


@pytest.mark.slow
def test_ten_thousand_tasks_and_a_million_messages() -> None:
    whole_ring(10_000, 1_000_000)


@pytest.mark.parametrize("overflow", ["drop", "overwrite"])
def test_every_loss_is_counted(overflow: str) -> None:
    order, dropped = ring(100, 20_000, ["send", "receive"], ring_bytes=1 << 16, overflow=overflow)
    assert dropped > 0
    assert order.counts["send"] + order.counts["receive"] + dropped == 2 * 20_000
    assert order.lost <= dropped
    assert order.gaps <= dropped


@pytest.mark.slow
@pytest.mark.parametrize("overflow", ["drop", "overwrite"])
def test_every_loss_of_a_million_messages_is_counted(overflow: str) -> None:
    order, dropped = ring(10_000, 1_000_000, ["send", "receive"], ring_bytes=1 << 20, overflow=overflow)
    assert order.counts["send"] + order.counts["receive"] + dropped == 2 * 1_000_000


# ends


def test_a_loop_that_is_closed_with_its_tasks_pending(session: trace.Session) -> None:
    session.process("all", True, [*EVENTS, "exiting"])
    loop = asyncio.new_event_loop()

    async def waits(items: asyncio.Queue[int]) -> None:
        while True:
            items.put_nowait(await items.get() + 1)
            await asyncio.sleep(3600)

    queues = [asyncio.Queue[int]() for _ in range(100)]
    tasks = [loop.create_task(waits(items)) for items in queues]
    for n, items in enumerate(queues):
        items.put_nowait(n)
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    pids = [inviso.pid(task) for task in tasks]
    assert all(pid.is_alive() for pid in pids)
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    del tasks, task, loop
    gc.collect()
    until(lambda: not any(pid.is_alive() for pid in pids))
    messages = [message for message in session.drain() if message[0] != "drop"]
    assert session.info("session", "dropped")[1] == 0
    told = Counter(str(message[2]) for message in messages if message[1] in set(pids))
    assert told["spawned"] == told["receive"] == told["send"] == 100
    assert told["in"] == told["out"] >= 100
    assert all(session.info(pid, "flags") is None for pid in pids)
    asyncio.run(asyncio.sleep(0))
    assert {"spawned", "in", "exit", "out_exited"} <= {str(message[2]) for message in session.drain()}


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_tracee_that_dies_while_its_flags_are_set(kind: str, make: Callable[..., trace.Session]) -> None:
    one, other = make("one"), make("other")
    # on 3.11 the end of a call that runs at the first session's begin is not seen
    one.process(inviso.self(), True, ["exiting"])
    items: queue.Queue[int] = queue.Queue()
    pids: list[inviso.Pid] = []

    def last_words() -> None:
        for session in (one, other):
            session.process(inviso.self(), True, ["send", "procs", "exiting"])
        pids.append(inviso.self())
        items.put(1)

    async def main() -> None:
        last_words()

    for _ in range(100):
        if kind == "thread":
            thread = threading.Thread(target=last_words)
            thread.start()
            thread.join()
        else:
            asyncio.run(main())
    assert len(set(pids)) == 100
    until(lambda: not any(pid.is_alive() for pid in pids))  # one that was joined may be about to end
    for session in (one, other):
        by_pid = defaultdict(list)
        for message in session.drain():
            by_pid[message[1]].append(str(message[2]))
        assert dict(by_pid) == {pid: ["send", "exit", "out_exited"] for pid in pids}
        assert all(session.info(pid, "flags") is None for pid in pids)
        with pytest.raises(BadArg, match="has ended"):
            session.process(pids[0], True, ["send"])
    assert items.qsize() == 100
