"""The time until event loops run a callback: measured without a trace, and a reason to suspend."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import inviso
import pytest
from inviso import runtime, seq_trace, trace
from inviso._native.interpreter import LoopProbe, event_loops
from inviso.runtime._loops import Loops
from waiting import until

LIMIT = 30


def asyncios() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def uvloops() -> asyncio.AbstractEventLoop:
    made: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return made


@contextmanager
def running(make: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that a thread runs."""
    begun: list[asyncio.AbstractEventLoop] = []
    done: list[asyncio.Event] = []

    async def main() -> None:
        done.append(asyncio.Event())
        begun.append(asyncio.get_running_loop())
        await done[0].wait()

    def work() -> None:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(main())

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: begun)
    try:
        yield begun[0]
    finally:
        begun[0].call_soon_threadsafe(done[0].set)
        thread.join(LIMIT)
        assert not thread.is_alive()


@pytest.fixture(params=[asyncios, uvloops])
def event_loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    if request.param is uvloops:
        pytest.importorskip("uvloop")  # here, as the loop is made in a thread
    with running(request.param) as made:
        yield made


def test_loops_that_run_are_found_once(event_loop: asyncio.AbstractEventLoop) -> None:
    with running(asyncios) as other:
        found = event_loops()
        assert sorted(map(id, found)) == sorted([id(event_loop), id(other)])
    assert event_loops() == [event_loop]


def test_a_loop_that_does_not_run_is_not_found() -> None:
    made = asyncio.new_event_loop()
    assert event_loops() == []
    made.close()


def test_the_callback_is_in_no_trace(event_loop: asyncio.AbstractEventLoop) -> None:
    with trace.session_create("lag") as session:
        session.process("all", True, ["send", "receive", "running_procs"])
        session.system("long_schedule", 0)
        event_loop.call_soon_threadsafe(probe := LoopProbe())
        until(lambda: probe.came)
        seen = threading.Event()
        event_loop.call_soon_threadsafe(seen.set)
        assert seen.wait(LIMIT)
        messages = session.drain()
    assert "LoopProbe" not in repr(messages)
    assert [m for m in messages if m[2] == "receive" and "set" in repr(m)], "the program's own callback is in the trace"


def test_it_takes_no_token(event_loop: asyncio.AbstractEventLoop) -> None:
    seq_trace.set_system_tracer(inviso.self())
    try:
        seq_trace.set_token("label", 17)
        seq_trace.set_token("send", True)
        seq_trace.set_token("receive", True)
        event_loop.call_soon_threadsafe(probe := LoopProbe())
        until(lambda: probe.came)
        assert seq_trace.get_token("serial") == ("serial", (0, 0))
    finally:
        seq_trace.set_token([])
        seq_trace.set_system_tracer(False)
    with pytest.raises(TimeoutError):
        inviso.receive(timeout=0)


def block(event_loop: asyncio.AbstractEventLoop) -> threading.Event:
    """Makes the loop run a callback until the returned event is set."""
    begun, end = threading.Event(), threading.Event()
    event_loop.call_soon_threadsafe(lambda: (begun.set(), end.wait(LIMIT)))
    assert begun.wait(LIMIT)
    return end


def all_came(loops: Loops) -> bool:
    return all(probe.came for probe in loops._probes.values())


def test_the_lag_is_that_of_the_slowest(event_loop: asyncio.AbstractEventLoop) -> None:
    loops = Loops()
    with running(asyncios):
        assert loops.lag() == 0  # nothing was asked yet
        until(lambda: all_came(loops) and loops.lag() < 20)
        until(lambda: all_came(loops))
        begun = time.monotonic()
        end = block(event_loop)
        loops.lag()  # asks the blocked loop
        until(lambda: loops.lag() >= 20)
        assert time.monotonic() - begun >= 0.02
        end.set()
        until(lambda: all_came(loops))
        assert loops.lag() >= 20, "the duration of the callback, after its end"
        until(lambda: all_came(loops) and loops.lag() < 20)


def test_what_lagged_before_is_not_counted(event_loop: asyncio.AbstractEventLoop) -> None:
    end = block(event_loop)
    loops = Loops()
    assert loops.lag() == 0
    until(lambda: min(probe.waited for probe in loops._probes.values()) > 20_000_000)
    assert loops.lag() == 0
    end.set()


def test_a_loop_that_ends_is_forgotten() -> None:
    loops = Loops()
    with running(asyncios):
        loops.lag()
        assert len(loops._probes) == 1
    assert loops.lag() == 0
    assert loops._probes == {}


def test_a_lag_suspends(event_loop: asyncio.AbstractEventLoop) -> None:
    listener = runtime.local()
    settings = [("overload", 5), ("protect", {"lag": 50, "cpu": None})]
    listener.run(lambda: listener.host.start("test", settings))
    try:
        assert runtime.init_tracing("collector")[0] == "ok"
        checks = listener.host.component._overload._loops
        until(lambda: checks._answered)
        assert runtime.get_status() == ("ok", ("tracing", "running"))
        end = block(event_loop)
        status = until(lambda: runtime.get_status()[1][1] != "running" and runtime.get_status())
        end.set()
        assert status[1][1][0] == "suspended"
        reason, lag = status[1][1][1]
        assert reason == inviso.Atom("lag") and 50 < lag < LIMIT * 1000
    finally:
        runtime.stop_listening()
