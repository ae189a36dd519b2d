"""System events: long collections, large memory, long steps of tasks and long callbacks."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import trace
from waiting import until

LONG = 0.03


async def slow() -> None:
    await asyncio.sleep(0)
    time.sleep(LONG)
    await asyncio.sleep(0)


def of(messages: list[Any], event: str) -> list[Any]:
    found = [m for m in messages if m[0] == "monitor" and m[2] == event]
    assert all(len(m) == 4 for m in found)
    return found


def steps(session: trace.Session, *expected: tuple[Any, list[Any]]) -> list[Any]:
    """The messages of the expected long steps, each a process or port and two places.

    A pause of the system makes any step long, so that others may be among the messages.
    """
    messages = of(session.drain(), "long_schedule")
    assert all(tag == "timeout" and 20 <= milliseconds for *_, ((tag, milliseconds), *_) in messages)
    found = [(pid, info[1:]) for _, pid, _, info in messages]
    places = []
    for one in expected:
        assert one in found, (one, messages)
        places.append(found.index(one))
        found[places[-1]] = None
    return [messages[place] for place in places]


def test_a_long_step_of_a_task(session: trace.Session) -> None:
    session.system("long_schedule", 20)
    pids: list[inviso.Pid] = []
    begun = time.monotonic()

    async def main() -> None:
        task = asyncio.create_task(slow())
        pids.append(inviso.pid(task))
        await task

    asyncio.run(main())
    place = ("asyncio.tasks", "__sleep0", 0)
    ((word, _, event, (timeout, *_)),) = steps(session, (pids[0], [("in", place), ("out", place)]))
    assert (word, event) == ("monitor", "long_schedule")
    assert LONG * 1000 <= timeout[1] <= (time.monotonic() - begun) * 1000


def test_a_long_first_and_last_step(session: trace.Session) -> None:
    session.system("long_schedule", 20)

    async def slow_at_once() -> None:
        time.sleep(LONG)

    async def main() -> inviso.Pid:
        task = asyncio.create_task(slow_at_once())
        pid = inviso.pid(task)
        await task
        return pid

    pid = asyncio.run(main())
    place = (__name__, "test_a_long_first_and_last_step.<locals>.slow_at_once", 0)
    steps(session, (pid, [("in", place), ("out", place)]))


def test_a_long_callback(session: trace.Session) -> None:
    session.system("long_schedule", 20)

    async def main() -> None:
        over = asyncio.Event()
        asyncio.get_running_loop().call_soon(time.sleep, LONG)
        asyncio.get_running_loop().call_later(0.001, lambda: (time.sleep(LONG), over.set()))
        await over.wait()

    asyncio.run(main())
    first = ("time", "sleep", 1)
    second = (__name__, "test_a_long_callback.<locals>.main.<locals>.<lambda>", 0)
    steps(session, *[(inviso.self(), [("in", place), ("out", place)]) for place in (first, second)])


def test_a_long_callback_of_a_transport_is_its_ports(session: trace.Session) -> None:
    session.system("long_schedule", 20)
    ports: dict[str, Any] = {}
    lost: list[str] = []
    arrived, over = asyncio.Event(), asyncio.Event()

    class Slow(asyncio.Protocol):
        def __init__(self, name: str) -> None:
            self.name = name

        def connection_made(self, transport: Any) -> None:
            ports[self.name] = inviso.port(transport)
            time.sleep(LONG)
            if self.name == "client":
                transport.write(b"x")

        def data_received(self, data: bytes) -> None:
            time.sleep(LONG)
            arrived.set()

        def connection_lost(self, error: Exception | None) -> None:
            time.sleep(LONG)
            lost.append(self.name)
            if len(lost) == 2:
                over.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Slow("server"), "127.0.0.1", 0)
        transport, _ = await loop.create_connection(lambda: Slow("client"), *server.sockets[0].getsockname()[:2])
        await arrived.wait()
        transport.close()
        await over.wait()
        server.close()

    asyncio.run(main())
    client, server = ports["client"], ports["server"]
    event, input = [("port_op", "event")], [("port_op", "input")]
    steps(session, (client, event), (client, event), (server, event), (server, event), (server, input))


def test_a_long_callback_of_a_pipe_is_its_ports(session: trace.Session) -> None:
    session.system("long_schedule", 20)

    class Slow(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            ports.append(inviso.port(transport))

        def data_received(self, data: bytes) -> None:
            time.sleep(LONG)

        def connection_lost(self, error: Exception | None) -> None:
            over.set()

    ports: list[Any] = []
    over = asyncio.Event()

    async def main() -> None:
        reader, writer = os.pipe()
        with open(reader, "rb") as file:
            await asyncio.get_running_loop().connect_read_pipe(Slow, file)
            os.write(writer, b"x")
            os.close(writer)
            await over.wait()

    asyncio.run(main())
    steps(session, (ports[0], [("port_op", "input")]))


def test_what_a_protocol_of_the_programs_own_has_is_not_asked_for(session: trace.Session) -> None:
    session.system("long_schedule", 20)
    asked = []

    class Odd:
        _protocol = property(lambda self: asked.append(self))
        _sock = _transport = _protocol

        def slow(self, other: Odd) -> None:
            time.sleep(LONG)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(Odd().slow, Odd())
        await asyncio.sleep(0)

    asyncio.run(main())
    name = f"{test_what_a_protocol_of_the_programs_own_has_is_not_asked_for.__name__}.<locals>.Odd.slow"
    steps(session, (inviso.self(), [("in", (__name__, name, 2)), ("out", (__name__, name, 2))]))
    assert asked == []


def test_short_steps_and_bare_threads_are_not_told(session: trace.Session) -> None:
    session.system("long_schedule", 1_000_000)

    async def main() -> None:
        await asyncio.create_task(slow())

    asyncio.run(main())
    session.system("long_schedule", 1)
    time.sleep(LONG)
    assert of(session.drain(), "long_schedule") == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks_are_timed_on_their_own(session: trace.Session) -> None:
    session.system("long_schedule", 20)

    async def child() -> None:
        time.sleep(LONG)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        await asyncio.create_task(child())

    def long() -> list[str]:
        asyncio.run(main())
        return [m[3][1][1][1].rpartition(".")[2] for m in of(session.drain(), "long_schedule")]

    # If the task that begins it were timed as well, each run would have two messages. A pause of the system adds some,
    # too.
    assert ["child"] in (long() for _ in range(20))


def test_each_session_has_its_own_limit(make: Callable[..., trace.Session]) -> None:
    low, high, off = make("low"), make("high"), make("off")
    low.system("long_schedule", 20)
    high.system("long_schedule", 1_000_000)
    off.system("long_schedule", 5)
    off.system("long_schedule", False)

    async def main() -> None:
        time.sleep(LONG)

    asyncio.run(main())
    assert [bool(of(s.drain(), "long_schedule")) for s in (low, high, off)] == [True, False, False]


def test_long_gc(session: trace.Session) -> None:
    session.system("long_gc", 1)
    many: list[Any] = [[] for _ in range(400_000)]
    gc.collect()
    session.system("long_gc", False)
    gc.collect()
    del many
    found = of(session.drain(), "long_gc")
    assert found
    for word, pid, _, info in found:
        assert word == "monitor" and pid == inviso.self()
        info = dict(info)
        assert info["timeout"] >= 1
        assert info["duration"] // 1_000_000 == info["timeout"]
        assert {"generation", "collected", "uncollectable"} <= set(info)


def test_a_limit_that_no_collection_reaches(session: trace.Session) -> None:
    session.system("long_gc", 100_000)
    session.system("large_heap", 1 << 40)
    gc.collect()
    assert session.drain() == []


def test_large_heap(session: trace.Session) -> None:
    session.system("large_heap", 1000)
    gc.collect()
    session.system("large_heap", False)
    gc.collect()
    (message,) = of(session.drain(), "large_heap")
    assert message[1] == inviso.self()
    info = dict(message[3])
    assert info["resident_size"] > 1000
    assert "timeout" not in info


def test_to_a_pid_and_to_a_callable(make: Callable[..., trace.Session]) -> None:
    def collect() -> None:
        gc.collect()

    got: list[Any] = []
    called = make("called", got.append)
    called.system("large_heap", 1)
    mine = make("mine", inviso.self())
    mine.system("large_heap", 1)

    async def main() -> inviso.Pid:
        collect()
        return inviso.self()

    task = asyncio.run(main())
    until(lambda: got)
    assert got[0][:3] == ("monitor", task, "large_heap")
    message = inviso.receive(lambda m: m[0] == "monitor", timeout=10)
    assert message[:3] == ("monitor", task, "large_heap")


def test_a_tracer_is_not_told_of_itself(make: Callable[..., trace.Session]) -> None:
    session = make("mine", inviso.self())
    session.system("large_heap", 1)
    gc.collect()
    assert inviso.peek() == []


def test_no_process_needs_a_flag(session: trace.Session) -> None:
    session.system("large_heap", 1)
    session.system("long_schedule", 1)

    async def main() -> None:
        gc.collect()
        time.sleep(LONG)

    asyncio.run(main())
    assert {str(m[2]) for m in session.drain()} == {"large_heap", "long_schedule"}


def test_nothing_is_left() -> None:
    run, before = asyncio.Handle._run, list(gc.callbacks)
    with trace.session_create("system") as session:
        for event in ("long_gc", "long_schedule", "large_heap"):
            session.system(event, 1000)
        for event in ("long_gc", "long_schedule", "large_heap"):
            session.system(event, False)
        assert session.info("system", "all") == ("system", [])
    assert gc.callbacks == before
    assert asyncio.Handle._run is run
    if sys.version_info >= (3, 12):
        assert not any(sys.monitoring.get_local_events(n, run.__code__) for n in (3, 4) if sys.monitoring.get_tool(n))  # type: ignore[attr-defined]
