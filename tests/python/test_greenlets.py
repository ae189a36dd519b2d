"""Greenlets that take turns on one thread: each call ends once, and has its own time."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import inviso
import pytest
from inviso import tprof, trace

greenlet = pytest.importorskip("greenlet")


def inner(turns: int) -> None:
    for _ in range(turns):
        greenlet.getcurrent().parent.switch()


def work(turns: int) -> int:
    inner(turns)
    return turns


@pytest.mark.parametrize("turns", [1, 3])
def test_each_call_ends_once(session: trace.Session, turns: int) -> None:
    spec = [("_", [], [("return_trace",)])]
    for name in ("inner", "work"):
        session.function((__name__, name, 1), spec, ["local"])
    session.process(inviso.self(), True, ["call"])
    several = [greenlet.greenlet(work) for _ in range(4)]
    for one in several:
        one.switch(turns)
    while not all(one.dead for one in several):
        for one in several:
            one.switch() if not one.dead else None
    seen: Counter[Any] = Counter((m[2], m[3][1]) for m in session.drain())
    assert seen == {(tag, name): 4 for tag in ("call", "return_from") for name in ("inner", "work")}
    session.destroy()
    greenlet.greenlet(lambda: None).switch()
    assert greenlet.gettrace() is None


def burn(seconds: float) -> None:
    for _ in range(3):
        end = time.perf_counter() + seconds / 3
        while time.perf_counter() < end:
            pass
        greenlet.getcurrent().parent.switch()


def short() -> None:
    burn(0.03)


def test_own_times_are_of_the_greenlet_that_runs() -> None:
    def turns() -> None:
        one, other = greenlet.greenlet(burn), greenlet.greenlet(short)
        one.switch(0.12), other.switch()
        while not (one.dead and other.dead):
            for it in (one, other):
                it.switch() if not it.dead else None

    profile = tprof.profile(turns, type="call_time", pattern=__name__)
    took = profile[f"{__name__}:burn/1"].measurement / 1e6
    assert 140 < took < 400 and profile[f"{__name__}:short/0"].measurement / 1e6 < 30
