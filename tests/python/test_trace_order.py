"""The order of messages of several threads, with time stamps and without."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import own

ROUNDS = 300


def ping_pong(rounds: int) -> None:
    """Two threads send each other a number, and each adds one; in between each works on its own."""
    there: queue.SimpleQueue[int] = queue.SimpleQueue()
    back: queue.SimpleQueue[int] = queue.SimpleQueue()

    def other() -> None:
        for _ in range(rounds):
            number = there.get()
            step(number + 1)
            step(number + 2)
            back.put(number + 3)

    thread = threading.Thread(target=other)
    thread.start()
    number = 0
    for _ in range(rounds):
        step(number)
        there.put(number)
        number = back.get()
    thread.join()


def step(number: int) -> None:
    """A step of two threads' work."""


@pytest.mark.parametrize("stamp", [[], ["monotonic_timestamp"], ["strict_monotonic_timestamp"], ["timestamp"]])
def test_what_the_program_orders_comes_in_that_order(make: Callable[..., trace.Session], stamp: list[str]) -> None:
    session = make(ring_bytes=1 << 22)
    session.function((__name__, "step", 1), True, ["local"])
    session.process("all", True, ["call", *stamp])
    ping_pong(ROUNDS)
    numbers = [message[3][2][0] for message in session.drain()]
    assert numbers == list(range(3 * ROUNDS))


@pytest.mark.parametrize("stamp", [[], ["monotonic_timestamp"]])
def test_order_is_kept_however_many_messages_one_thread_is_ahead(
    make: Callable[..., trace.Session], stamp: list[str]
) -> None:
    """More than one read takes, with some of another thread in between."""
    session = make(ring_bytes=1 << 24)
    session.function((__name__, "step", 1), True, ["local"])
    session.process("all", True, ["call", *stamp])
    for number in range(100_000):
        if number % 4_000 == 3_999:
            other = threading.Thread(target=step, args=(number,))
            other.start()
            other.join()
        else:
            step(number)
    numbers = [message[3][2][0] for message in session.drain()]
    assert numbers == list(range(100_000))


@pytest.mark.parametrize("stamp", [[], ["monotonic_timestamp"]])
def test_order_is_kept_while_messages_are_read(make: Callable[..., trace.Session], stamp: list[str]) -> None:
    session = make(ring_bytes=1 << 22)
    session.function((__name__, "step", 1), True, ["local"])
    session.process("all", True, ["call", *stamp])
    working = threading.Thread(target=ping_pong, args=(10 * ROUNDS,))
    working.start()
    messages = []
    while working.is_alive():
        messages += session.drain()
    messages += session.drain()
    assert [message[3][2][0] for message in messages] == list(range(30 * ROUNDS))


def test_time_stamps_are_right_after_messages_without_stamps(
    session: trace.Session, make: Callable[..., trace.Session]
) -> None:
    """A session without timestamps has emitted many messages when another asks for timestamps."""
    session.function((__name__, "step", 1), True, ["local"])
    own(session, ["call"])
    step(0)
    time.sleep(0.05)
    step(1)
    timed = make("timed")
    timed.function((__name__, "step", 1), True, ["local"])
    own(timed, ["call", "monotonic_timestamp"])
    before = time.monotonic_ns()
    step(2)
    after = time.monotonic_ns()
    ((*_, stamp),) = timed.drain()
    assert before - 1_000_000 <= stamp <= after + 1_000_000
    assert [message[3][2] for message in session.drain()] == [[0], [1], [2]]


def test_measured_time_is_right_beside_messages(session: trace.Session) -> None:
    """call_time of one function, messages of another."""

    def nap() -> None:
        step(1)
        time.sleep(0.03)
        step(2)

    session.function((__name__, "step", 1), True, ["local"])
    own(session, ["call"])
    step(0)
    session.function((__name__, nap.__qualname__, 0), True, ["call_time"])
    nap()
    _, [(_, count, seconds, micros)] = session.info((__name__, nap.__qualname__, 0), "call_time")
    assert count == 1 and 0.02 < seconds + micros / 1e6 < 5
    assert [message[3][2] for message in session.drain()] == [[0], [1], [2]]


def test_two_sessions_of_one_tracer_have_their_messages_in_order(make: Callable[..., trace.Session]) -> None:
    """Of one event the newer session's comes first, stamped or not."""
    received: list[Any] = []
    done = threading.Event()

    def tracer() -> None:
        while (message := inviso.receive()) != "over":
            received.append(message)
        done.set()

    pid = inviso.spawn(tracer)
    for stamp in ([], ["monotonic_timestamp"]):
        older, newer = make("older", pid), make("newer", pid)
        for session, flags in ((older, ["arity"]), (newer, stamp)):
            session.function((__name__, "step", 1), True, ["local"])
            own(session, ["call", *flags])
        for number in range(50):
            step(number)
        for session in (older, newer):
            session.delivered().wait(10)
            session.destroy()
    inviso.send(pid, "over")
    assert done.wait(10)
    told = [message[3][2] for message in received if message[0] in ("trace", "trace_ts") and message[2] == "call"]
    assert told == [[number] if first else 1 for number in range(50) for first in (True, False)] * 2


def test_a_message_to_a_tracer_stands_after_all_that_was_traced(make: Callable[..., trace.Session]) -> None:
    """More events than one step takes; the tracer doesn't read meanwhile."""
    calls = 70_000
    over = threading.Event()
    tracer = inviso.spawn(over.wait)
    session = make("long", tracer, ring_bytes=1 << 24)
    session.function((__name__, "step", 1), True, ["local"])
    own(session, ["call"])
    for number in range(calls):
        step(number)
    inviso.send(tracer, "marker")
    box = inviso.peek(tracer)
    over.set()
    assert (len(box), box[-1], box[-2][3][2]) == (calls + 1, "marker", [calls - 1])
