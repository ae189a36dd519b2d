"""A callable tracer's share of the interpreter's time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import inviso
import pytest
from inviso import trace


def one(n: int) -> int:
    return n


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Slow:
    """A tracer that takes a millisecond for each message; its messages, and the time of its thread."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.took = 0.0

    def __call__(self, message: Any) -> None:
        self.seen.append(message)
        burn(0.001)
        self.took = time.thread_time()


def traced(tracer: Any, **options: Any) -> trace.Session:
    session = trace.session_create("share", tracer, options)
    session.process(inviso.self(), True, ["call"])
    session.function((__name__, "one", 1), True, ["local"])
    return session


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_tracer_takes_its_share_and_what_is_over_it_is_counted_at_its_place(share: float) -> None:
    tracer = Slow()
    session = traced(tracer, share=share, ring_bytes=1 << 16)
    begun = time.monotonic()
    sent = 0
    while len(tracer.seen) < 200 * share / 0.05:
        for _ in range(100):
            one(sent)
            sent += 1
    took, passed = tracer.took, time.monotonic() - begun
    assert took < share * (passed + 0.1) + 0.05, (took, passed)
    session.destroy()  # pending messages are handled now, without a rest
    place = 0
    for message in tracer.seen:
        if message[0] == "drop":
            place += message[1]
        else:
            assert message[3][2] == [place]
            place += 1
    dropped = sent - sum(message[0] != "drop" for message in tracer.seen)
    assert dropped > 0 and place + (dropped - sum(m[1] for m in tracer.seen if m[0] == "drop")) == sent


def test_a_tracer_without_a_share_misses_nothing_that_fits() -> None:
    seen: list[Any] = []
    with traced(seen.append, share=1) as session:
        for n in range(1000):
            one(n)
        assert session.delivered().wait(20)
        assert session.info("session", "dropped") == ("dropped", 0)
    assert [message[3][2] for message in seen] == [[n] for n in range(1000)]


def test_what_is_over_is_in_the_sessions_count() -> None:
    tracer = Slow()
    with traced(tracer, share=0.01, ring_bytes=1 << 14) as session:
        for n in range(20_000):
            one(n)
        dropped = session.info("session", "dropped")[1]
        assert dropped > 10_000


def test_nobody_waits_for_a_tracer_that_rests() -> None:
    """Neither a fork nor the end: a thousand messages of a millisecond at a hundredth would be a hundred seconds."""
    text = f"""
import os, sys, time
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_share
tracer = test_share.Slow()
session = test_share.traced(tracer, share=0.01)
for n in range(1000): test_share.one(n)
begun = time.monotonic()
child = os.fork() if hasattr(os, "fork") else None
if child == 0: os._exit(0)
child and os.waitpid(child, 0)
session.destroy()
print(time.monotonic() - begun < 20, len(tracer.seen))
"""
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "True 1000\n"), done.stderr


def test_a_program_that_ends_has_its_messages_handled_without_a_rest() -> None:
    """As without a share: 300 messages of a millisecond at a hundredth would be 30 seconds, and the end waits for 5."""
    text = f"""
import atexit, os, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
atexit.register(lambda: print(len(tracer.seen)))
import test_share
tracer = test_share.Slow()
session = test_share.traced(tracer, share=0.01)
for n in range(300): test_share.one(n)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


@pytest.mark.parametrize(
    ("tracer", "options", "why"),
    [
        (print, {"share": 0}, "share 0 is not a share"),
        (print, {"share": -0.5}, "share -0.5 is not a share"),
        (print, {"share": 1.5}, "share 1.5 is not a share"),
        (print, {"share": True}, "share True is not a share"),
        (print, {"share": "all"}, "share 'all' is not a share"),
        (print, {"share": float("nan")}, "share nan is not a share"),
        (None, {"share": 0.5}, "share limits the time of a callable tracer"),
        (inviso.self(), {"share": 0.5}, "share limits the time of a callable tracer"),
        (print, {"share": 0.5, "overflow": "block"}, "overflow 'block' waits"),
    ],
)
def test_refused(tracer: Any, options: dict[str, Any], why: str) -> None:
    before = trace.session_info("all"), threading.active_count()
    with pytest.raises(inviso.BadArg, match=why) as found:
        trace.session_create("share", tracer, options)
    assert found.value.argument == "opts"
    assert (trace.session_info("all"), threading.active_count()) == before
