"""Collections of garbage: their messages, their processes, and the limit of memory."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good, own

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def figures(message: Any) -> dict[str, int]:
    assert all(isinstance(key, inviso.Atom) and type(value) is int for key, value in message[3])
    return {str(key): value for key, value in message[3]}


def test_a_full_collection_is_major(session: trace.Session) -> None:
    me = own(session, ["garbage_collection"])
    gc.collect()
    session.process(me, False, ["garbage_collection"])
    gc.collect()
    begin, end = session.drain()
    assert begin[:3] == ("trace", me, "gc_major_start")
    assert end[:3] == ("trace", me, "gc_major_end")
    assert figures(begin) == {"generation": 2}
    assert set(figures(end)) >= {"generation", "collected", "uncollectable", "duration", "resident_size"}
    assert 100_000 < figures(end)["resident_size"] < 1 << 40
    assert figures(end)["generation"] == 2


@pytest.mark.parametrize("generation", [0, 1])
def test_young_ones_are_minor(session: trace.Session, generation: int) -> None:
    own(session, ["garbage_collection"])
    gc.collect(generation)
    begin, end = session.drain()
    assert (begin[2], end[2]) == ("gc_minor_start", "gc_minor_end")
    assert figures(begin)["generation"] == figures(end)["generation"] == generation


def test_what_was_collected_is_counted(session: trace.Session) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            Cycle()
        own(session, ["garbage_collection", "monotonic_timestamp"])
        gc.collect()
    finally:
        gc.enable()
    begin, end = session.drain()
    assert figures(end)["collected"] >= 100
    assert figures(end)["uncollectable"] == 0
    assert 0 < figures(end)["duration"] <= end[4] - begin[4] + 1_000_000


@pytest.mark.skipif(FREE_THREADED, reason="a free-threaded build collects at times of its own")
def test_an_automatic_collection(session: trace.Session) -> None:
    own(session, ["garbage_collection"])
    for _ in range(20_000):
        Cycle()
    messages = session.drain()
    assert len(messages) >= 4
    assert [str(m[2])[-3:] for m in messages] == ["art", "end"] * (len(messages) // 2)


def test_a_collection_belongs_to_the_process_that_triggered_it(session: trace.Session) -> None:
    async def collect() -> inviso.Pid:
        gc.collect()
        return inviso.self()

    async def main() -> inviso.Pid:
        return await asyncio.create_task(collect())

    session.process("all", True, ["garbage_collection"])
    gc.disable()
    try:
        task = asyncio.run(main())
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        gc.collect()
    finally:
        gc.enable()
    pids = [m[1] for m in session.drain() if m[2] == "gc_major_end"]
    assert pids[0] == task
    assert [pid.kind for pid in pids] == ["task", "thread", "thread"]
    assert pids[2] == inviso.self() != pids[1]


def test_sessions_with_and_without(make: Any) -> None:
    one, other = make("one"), make("other")
    own(one, ["garbage_collection"])
    own(other, ["call"])
    gc.collect()
    assert len(one.drain()) == 2
    assert other.drain() == []


def test_the_callback_is_there_while_it_is_needed() -> None:
    before = list(gc.callbacks)
    with trace.session_create("gc") as session:
        own(session, ["call"])
        assert gc.callbacks == before
        own(session, ["garbage_collection"])
        assert len(gc.callbacks) == len(before) + 1
        own(session, ["garbage_collection", "running"])
        session.system("long_gc", 1)
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before


def test_clearing_the_callbacks_disturbs_nothing(session: trace.Session) -> None:
    before = list(gc.callbacks)
    own(session, ["garbage_collection"])
    gc.callbacks[:] = before
    gc.collect()
    session.destroy()
    assert gc.callbacks == before


def test_other_callbacks_stay_and_are_never_compared(session: trace.Session) -> None:
    class Callback:
        def __call__(self, phase: str, info: dict[str, int]) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        __hash__ = None  # type: ignore[assignment]

    callback = Callback()
    gc.callbacks.insert(0, callback)
    try:
        own(session, ["garbage_collection"])
        gc.collect()
        session.destroy()
        assert gc.callbacks[0] is callback
    finally:
        del gc.callbacks[0]


def test_odd_calls_of_the_callback_do_no_harm(session: trace.Session) -> None:
    own(session, ["garbage_collection"])
    callback = gc.callbacks[-1]
    for arguments in [(), ("start",), ("start", None), (1, {}), ("other", {}), ("stop", {"generation": "x"})]:
        assert callback(*arguments) is None
    assert session.drain() == []


def test_destructors_run_as_usual(session: trace.Session) -> None:
    gone = []

    class Last(Cycle):
        def __del__(self) -> None:
            gone.append(inviso.self())

    own(session, ["garbage_collection", "call"])
    gc.collect()
    session.drain()
    Last()
    gc.collect()
    assert gone == [inviso.self()]
    assert len(session.drain()) == 2


# the limit


@pytest.mark.parametrize("again", ["session", "system", "flags"])
def test_a_callback_that_was_taken_out_is_put_back(session: trace.Session, again: str) -> None:
    me, before = own(session, ["garbage_collection"]), list(gc.callbacks)
    gc.callbacks.clear()
    gc.collect()
    assert session.drain() == []
    with trace.session_create("later") as later:
        if again == "session":
            later.process(me, True, ["garbage_collection"])
        elif again == "system":
            later.system("long_gc", 1000)
        else:
            session.process(me, True, ["garbage_collection"])
        gc.collect()
    assert gc.callbacks == [before[-1]]
    gc.callbacks[:] = before
    assert [message[2] for message in session.drain()] == ["gc_major_start", "gc_major_end"]


def test_max_heap_size(session: trace.Session) -> None:
    own(session, ["garbage_collection"])
    assert inviso.process_flag("max_heap_size", 1) == 0
    try:
        gc.collect()
        assert [str(m[2]) for m in session.drain()] == ["gc_major_start", "gc_max_heap_size", "gc_major_end"]
        gc.collect(0)
        begin, limit, end = session.drain()
        assert (begin[2], limit[2], end[2]) == ("gc_minor_start", "gc_max_heap_size", "gc_minor_end")
        resident = figures(limit).pop("resident_size")
        assert 100_000 < resident < 1 << 40
        assert inviso.process_flag("max_heap_size", resident * 1000) == 1
        gc.collect()
        assert len(session.drain()) == 2
    finally:
        assert inviso.process_flag("max_heap_size", 0) != 0


@pytest.mark.parametrize("value", [-1, True, 1.5, "1", None, 1 << 63])
def test_a_wrong_limit(value: Any) -> None:
    with pytest.raises(inviso.BadArg):
        inviso.process_flag("max_heap_size", value)
    assert inviso.process_flag("max_heap_size", 0) == 0


def test_other_flags_of_a_process() -> None:
    assert inviso.process_flag("trap_exit", True) is False
    assert inviso.process_flag("trap_exit", False) is True
    with pytest.raises(inviso.BadArg):
        inviso.process_flag("priority", "high")  # type: ignore[arg-type]


def test_under_threads_and_sessions_that_come_and_go() -> None:
    text = """
import gc, sys, threading, inviso
from inviso import trace
stop = threading.Event()
class Cycle:
    def __init__(self): self.itself = self
def work():
    while not stop.is_set():
        for _ in range(1000): Cycle()
        gc.collect(0)
        stop.wait(0.001)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
seen = 0
for n in range(int(sys.argv[1])):
    with trace.session_create("s") as session:
        session.process("all", True, ["garbage_collection", "running", "procs", "call"])
        session.function((__name__, "Cycle.__init__", 1), True, ["local"])
        Cycle()
        gc.collect()
        seen += len(session.drain())
stop.set()
for thread in threads: thread.join()
assert seen and gc.callbacks == []
"""
    # each collection of a free-threaded build stops all threads
    assert good(text, "2" if FREE_THREADED else "30") == ""


SEARCH = """
import gc, threading, time
from inviso import trace

def fall(depth, *rest):
    return depth and fall(depth - 1, *rest)

def work():
    sizes = 0
    while not done.is_set():
        sizes = (sizes + 1) % 11
        scope = {}
        names = "=".join(f"n{i}" for i in range(sizes + 1))
        exec(f"def fall(depth):\\n {names} = True\\n return depth and fall(depth - 1)", scope)
        for _ in range(20):
            scope["fall"](100)

done = threading.Event()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
me = threading.get_ident()
gc.callbacks.append(lambda *_: threading.get_ident() == me and time.sleep(0.0001))
gc.set_threshold(10, 1000, 1000)
with trace.session_create("short") as session:
    for _ in range(8):
        session.function(("__main__", "fall", "_"), True, ["call_count"])
    gc.set_threshold(1000)
    print(session.function(("__main__", "fall", "_"), False, ["call_count"]))
done.set()
"""


def test_other_threads_go_on_in_one_while_functions_are_looked_for() -> None:
    assert good(SEARCH) == "1\n"


STEPS = """
import gc, threading
from inviso import trace
from subjects import services

class Cycle:
    def __init__(self): self.itself = self
    def __del__(self):
        if threading.get_ident() == me and not busy.is_set():
            busy.set()
            done.wait(30)

def ask():
    while busy.wait(30) and rounds:
        found.add(session.function(("subjects.services", "_", "_"), True, ["call_count"]))
        done.set()
        busy.clear()

me, rounds, found = threading.get_ident(), 1, set()
busy, done = threading.Event(), threading.Event()
with trace.session_create("steps") as session:
    found.add(session.function(("subjects.services", "_", "_"), True, ["call_count"]))
    asker = threading.Thread(target=ask)
    asker.start()
    for _ in range(300):
        done.clear()
        kept = [Cycle() if n % 50 == 0 else [n] for n in range(5000)]
    rounds = 0
    busy.set()
    asker.join()
    print(len(found))
"""


def test_functions_are_found_while_a_collection_runs_finalizers() -> None:
    assert good(STEPS) == "1\n"
