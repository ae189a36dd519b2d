"""Functions written in C: in every thread, and beside the program's profile function (on 3.11 both need one place)."""

from __future__ import annotations

import _thread
import cProfile
import math
import pstats
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import count, good, own

FACTORIAL = ("math", "factorial", 1)
OLD_WAY = sys.version_info < (3, 12)


def work(n: int) -> int:
    return math.factorial(n)


def items(session: trace.Session) -> list[Any]:
    return [m[3] for m in session.drain() if m[2] == "call"]


@pytest.fixture
def counting(session: trace.Session) -> Iterator[trace.Session]:
    assert session.function(("math", "factorial", "_"), True, ["call_count"]) == 1
    yield session
    assert session.function(("math", "factorial", "_"), False, ["call_count"]) == 1


def test_what_messages_say_of_arguments(session: trace.Session) -> None:
    for function in (("math", "factorial"), ("builtins", "list.append"), ("time", "monotonic")):
        assert session.function((*function, "_"), True, ["local"]) == 1
    own(session)
    some: list[int] = [7]
    math.factorial(3)
    some.append(8)
    time.monotonic()
    factorial, append, monotonic = items(session)
    assert append[:2] == ("builtins", "list.append")
    assert append[2][0] == [7]
    assert isinstance(append[2][1], inviso.Cut)
    assert monotonic == ("time", "monotonic", [])
    if OLD_WAY:  # a profile function gets the bound object of a method and nothing else
        assert factorial == FACTORIAL
    else:
        assert factorial[2][0] == 3


def test_return_to_and_other_counters(session: trace.Session) -> None:
    session.function(("builtins", "str.zfill", "_"), True, ["local", "call_time", "call_memory", "call_latency"])
    me = own(session, ["call", "return_to", "arity"])

    def pads() -> int:
        return len("1".zfill(80_000))

    assert pads() == 80_000
    name = ("builtins", "str.zfill", 1)
    called, *returned = session.drain()
    assert called[2:] == ("call", name)
    assert [m[2:] for m in returned] == [("return_to", (__name__, pads.__qualname__, 0))]
    ((pid, calls, words),) = session.info(name, "call_memory")[1]
    assert (pid, calls) == (me, 1)
    assert words >= 10_000
    ((pid, calls, _s, _us),) = session.info(name, "call_time")[1]
    assert (pid, calls) == (me, 1)


def test_threads_that_run_already_and_threads_that_come(session: trace.Session) -> None:
    go, done = _thread.allocate_lock(), _thread.allocate_lock()
    go.acquire()
    done.acquire()

    def waits() -> None:
        go.acquire()
        for _ in range(10):
            math.factorial(3)
        done.release()

    _thread.start_new_thread(waits, ())
    session.function(("math", "factorial", "_"), True, ["call_count"])
    go.release()
    done.acquire()
    assert count(session, FACTORIAL) == 10
    threads = [threading.Thread(target=work, args=(3,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(session, FACTORIAL) == 14


def profiled(session: trace.Session | None) -> tuple[list[Any], Any]:
    """The events of a profile function while a pattern comes and goes, and whether `sys.getprofile` shows it."""
    seen: list[Any] = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code in (work.__code__, body.__code__):
            seen.append((frame.f_code.co_name, event, getattr(arg, "__name__", arg)))

    def body() -> None:
        work(3)
        math.factorial(4)

    sys.setprofile(profile)
    try:
        body()
        if session:
            session.function(("math", "factorial", "_"), True, ["call_count"])
        body()
        here = sys.getprofile()
        if session:
            assert count(session, FACTORIAL) == 2
            session.function(("math", "factorial", "_"), False, ["call_count"])
        body()
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    return seen, here is profile


def test_a_profile_function_of_the_program_sees_what_it_would(session: trace.Session) -> None:
    alone, _ = profiled(None)
    assert profiled(session) == (alone, True)
    assert len(alone) == 3 * 8


def test_a_profile_function_that_comes_later(counting: trace.Session) -> None:
    assert sys.getprofile() is None
    seen = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code is work.__code__:
            seen.append(event)

    work(3)
    sys.setprofile(profile)
    work(3)
    assert sys.getprofile() is profile
    sys.setprofile(None)
    assert sys.getprofile() is None
    work(3)
    assert seen == ["call", "c_call", "c_return", "return"]
    assert count(counting, FACTORIAL) == 3


def everything() -> list[Any]:
    """All events of profile functions that are set, exchanged and removed."""
    seen: list[Any] = []

    def one(frame: Any, event: str, arg: Any) -> None:
        seen.append(("one", frame.f_code.co_name, event, getattr(arg, "__name__", None)))

    def two(frame: Any, event: str, arg: Any) -> None:
        seen.append(("two", frame.f_code.co_name, event, getattr(arg, "__name__", None)))

    sys.setprofile(one)
    math.factorial(2)
    sys.setprofile(two)
    math.factorial(2)
    sys.setprofile(one)
    sys.setprofile(None)
    math.factorial(2)
    list(map(sys.setprofile, [one]))
    math.factorial(2)
    sys.setprofile(None)
    return seen


@pytest.mark.skipif(not OLD_WAY, reason="later versions keep tools apart themselves")
def test_profile_functions_see_no_more_and_no_less(session: trace.Session) -> None:
    alone = everything()
    session.function(("math", "factorial", "_"), True, ["call_count"])
    assert everything() == alone
    assert count(session, FACTORIAL) == 4
    session.function(("math", "factorial", "_"), False, ["call_count"])
    assert everything() == alone


def test_a_profile_function_that_raises(counting: trace.Session) -> None:
    def raises(frame: Any, event: str, arg: Any) -> None:
        if event == "c_call" and arg is math.factorial:
            raise KeyError("mine")

    sys.setprofile(raises)
    try:
        with pytest.raises(KeyError, match="mine"):
            work(3)
        assert sys.getprofile() is None
    finally:
        sys.setprofile(None)
    work(3)
    assert count(counting, FACTORIAL) == 1  # the call that the profile function stopped doesn't count


def test_a_profile_function_for_new_threads(counting: trace.Session) -> None:
    seen = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code is work.__code__:
            seen.append(event)

    threading.setprofile(profile)
    try:
        thread = threading.Thread(target=work, args=(3,))
        thread.start()
        thread.join()
    finally:
        threading.setprofile(None)
    assert seen == ["call", "c_call", "c_return", "return"]
    assert count(counting, FACTORIAL) == 1


def calls(profile: cProfile.Profile, part: str) -> int:
    stats: Any = pstats.Stats(profile)
    return sum(n for (_file, _line, name), (_, n, *_rest) in stats.stats.items() if part in name)


def test_beside_cprofile(session: trace.Session) -> None:
    before = cProfile.Profile()
    before.enable()
    session.function(("math", "factorial", "_"), True, ["call_count"])
    for _ in range(5):
        work(3)
    before.disable()
    assert (calls(before, "factorial"), calls(before, "work")) == (5, 5)
    later = cProfile.Profile()
    with later:
        for _ in range(5):
            work(3)
        session.function(("math", "factorial", "_"), False, ["call_count"])
        work(3)
    work(3)
    assert (calls(later, "factorial"), calls(later, "work")) == (6, 6)


def test_calls_are_counted_under_cprofile(counting: trace.Session) -> None:
    work(3)
    with cProfile.Profile():
        work(3)
    work(3)
    assert count(counting, FACTORIAL) == 3


def test_an_audit_hook_may_refuse() -> None:
    text = """
import math, sys
from inviso import trace
refusing = True
def hook(event, args):
    if refusing and event in ("sys.setprofile", "sys.monitoring.register_callback"): raise PermissionError(event)
sys.addaudithook(hook)
s = trace.session_create("audited")
try: s.function(("math", "factorial", "_"), True, ["call_count"])
except PermissionError as e: print("refused")
refusing = False
print(s.function(("math", "factorial", "_"), True, ["call_count"]))
"""
    assert good(text) == "refused\n1\n"


def test_nothing_stays_behind_in_a_forked_child() -> None:
    text = """
import math, os, sys
from inviso import trace
s = trace.session_create("forks")
s.function(("math", "factorial", "_"), True, ["call_count"])
child = os.fork()
if not child:
    math.factorial(3)
    os._exit(0 if sys.getprofile() is None else 1)
print(os.waitpid(child, 0)[1])
"""
    assert good(text) == "0\n"
