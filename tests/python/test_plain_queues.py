"""Queues whose methods are done without their frames: nobody sees a difference."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import queue
import sys
import sysconfig
import threading
from collections import deque
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good, own

METHODS = [(queue.Queue, "_put"), (queue.Queue, "_get"), (asyncio.Queue, "_put"), (asyncio.Queue, "_get")]


is_plain = sys.version_info >= (3, 12) and not (sysconfig.get_config_var("Py_GIL_DISABLED") or 0)


def events(session: trace.Session) -> list[Any]:
    return [message[2:4] for message in session.drain() if message[2] in ("send", "receive")]


def pass_through(box: Any, *items: Any) -> list[Any]:
    for item in items:
        box._put(item)
    return [box._get() for _ in items]


@pytest.mark.parametrize("kind", [queue.Queue, asyncio.Queue])
def test_what_a_method_answers_and_raises(session: trace.Session, kind: Any) -> None:
    plain = kind()
    own(session, ["send", "receive"])
    for box in (plain, kind()):
        assert box._put(1) is None
        assert box._put(item=2) is None
        assert [box._get(), box._get()] == [1, 2]
        with pytest.raises(IndexError):
            box._get()
        for wrong in ((), (1, 2)):
            with pytest.raises(TypeError, match="_put"):
                box._put(*wrong)
        with pytest.raises(TypeError, match="_get"):
            box._get(1)
    assert events(session) == [("send", 1), ("send", 2), ("receive", 1), ("receive", 2)] * 2


@pytest.mark.skipif(not is_plain, reason="from 3.12 on, with the GIL")
def test_the_functions_need_no_events(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    for owner, name in METHODS:
        for tool in range(6):
            if sys.monitoring.get_tool(tool) is not None:
                assert sys.monitoring.get_local_events(tool, getattr(owner, name).__code__) == 0


def test_the_functions_are_what_they_were(session: trace.Session) -> None:
    before = [getattr(owner, name) for owner, name in METHODS]
    shown = [(f.__name__, f.__qualname__, inspect.signature(f), f.__code__, f.__defaults__) for f in before]
    own(session, ["send", "receive"])
    during = [getattr(owner, name) for owner, name in METHODS]
    assert all(a is b for a, b in zip(before, during, strict=True))
    assert shown == [(f.__name__, f.__qualname__, inspect.signature(f), f.__code__, f.__defaults__) for f in during]
    assert pickle.loads(pickle.dumps(queue.Queue._put)) is queue.Queue._put
    session.destroy()
    assert pass_through(queue.Queue(), 1, 2) == [1, 2]


def test_items_of_another_kind_go_their_own_way(session: trace.Session) -> None:
    class Listed:
        """What a queue's items may be as well."""

        def __init__(self) -> None:
            self.items: list[Any] = []

        def append(self, item: Any) -> None:
            self.items.append(("kept", item))

        def popleft(self) -> Any:
            return self.items.pop(0)

    class Small(deque):  # type: ignore[type-arg]
        def append(self, item: Any) -> None:
            super().append(("small", item))

    class Elsewhere(queue.Queue):  # type: ignore[type-arg]
        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, "other" if name == "queue" else name)

        def _init(self, maxsize: int) -> None:
            self.other: Any = Listed()

    own(session, ["send", "receive"])
    box: Any = queue.Queue()
    box.queue = Listed()
    assert pass_through(box, 1) == [("kept", 1)]
    box.queue = Small()
    assert pass_through(box, 2) == [("small", 2)]
    assert pass_through(Elsewhere(), 3) == [("kept", 3)]
    assert [kind for kind, _ in events(session)] == ["send", "receive"] * 3


def test_items_are_taken_from_where_they_are_now(session: trace.Session) -> None:
    """However the program changes a queue, or its class, that has been met before."""

    class Kind(queue.Queue):  # type: ignore[type-arg]
        pass

    def fresh() -> Any:
        box = Kind()
        assert pass_through(box, 0) == [0]
        return box

    own(session, ["send", "receive"])
    replaced, told, detached, crowded, emptied = (fresh() for _ in range(5))
    replaced.queue = deque([7])
    assert [replaced._get(), *pass_through(replaced, 1)] == [7, 1]
    vars(told)["queue"] = deque([8])
    assert [told._get(), *pass_through(told, 1)] == [8, 1]
    detached.__dict__ = {**vars(detached), "queue": deque([9])}
    assert [detached._get(), *pass_through(detached, 1)] == [9, 1]
    for n in range(100):
        setattr(crowded, f"more_{n}", n)
    crowded.queue = deque([10])
    assert [crowded._get(), *pass_through(crowded, 1)] == [10, 1]
    del emptied.queue
    for call in (lambda: emptied._put(1), emptied._get):
        with pytest.raises(AttributeError, match="queue"):
            call()
    changed, same = fresh(), fresh()
    items = deque([11])
    Kind.queue = property(lambda box: items)  # type: ignore[assignment]
    assert [changed._get(), *pass_through(changed, 1)] == [11, 1]
    assert [*items] == []
    del Kind.queue
    assert pass_through(same, 1) == [1]
    for n in range(30):
        several = [type(f"Kind{n}", (queue.Queue,), {})() for n in range(n % 10 + 1)]
        assert [pass_through(box, box) == [box] for box in several] == [True] * len(several)
    with_slots = type("WithSlots", (queue.Queue,), {"__slots__": ("queue",)})
    assert pass_through(with_slots(), 1, 2) == [1, 2]


def test_other_tools_see_the_calls(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    for _ in range(3):
        seen: list[str] = []
        sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
        try:
            box.put(1)
            box.get()
        finally:
            sys.setprofile(None)
        assert [name for name in seen if name in ("_put", "_get")] == ["_put", "_get"]
        box.put(2)
        box.get()
    assert len(events(session)) == 12


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_tools_of_monitoring_see_the_calls(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    monitoring: Any = sys.monitoring
    seen: list[str] = []
    monitoring.use_tool_id(0, "test")
    try:
        monitoring.register_callback(0, monitoring.events.PY_START, lambda code, _: seen.append(code.co_name))
        for events_of in (
            lambda how: monitoring.set_events(0, how),
            lambda how: monitoring.set_local_events(0, queue.Queue._put.__code__, how),
        ):
            for _ in range(3):
                seen.clear()
                events_of(monitoring.events.PY_START)
                box.put(1)
                events_of(0)
                assert seen.count("_put") == 1
                box.put(2)
                assert seen.count("_put") == 1
    finally:
        monitoring.free_tool_id(0)
    assert [item for _, item in events(session)] == [1, 2] * 6


def test_sessions_that_trace_calls_see_them(session: trace.Session, make: Any) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    box.put(0)
    counting = make("counting")
    assert counting.function(("queue", "Queue._put", 2), True, ["call_count", "local"]) == 1
    own(counting, ["call"])
    for number in range(1, 4):
        box.put(number)
    assert counting.info(("queue", "Queue._put", 2), "call_count") == ("call_count", 3)
    assert [message[3][2][1] for message in counting.drain()] == [1, 2, 3]
    counting.destroy()
    box.put(4)
    assert events(session) == [("send", number) for number in range(5)]


def test_functions_that_change_while_they_are_taken(make: Any) -> None:
    """A class's method is replaced, or gets another code, while messages are traced: it stays so afterwards."""
    original, code = queue.Queue._put, queue.Queue._put.__code__
    box: queue.Queue[Any] = queue.Queue()
    try:
        session = make("first")
        own(session, ["send"])
        original.__code__ = (lambda self, item: self.queue.append(("changed", item))).__code__
        box.put(1)
        session.destroy()
        box.put(2)
        assert [box.get(), box.get()] == [("changed", 1), ("changed", 2)]
    finally:
        original.__code__ = code
    box.put(3)
    assert box.get() == 3


def test_sessions_come_and_go_while_threads_pass_messages(make: Any) -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        box: queue.Queue[int] = queue.Queue()
        number = 0
        while not stop.is_set():
            box.put(number)
            if box.get() != number:
                wrong.append(number)
            number += 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        session = make("short")
        session.process("all", True, ["send", "receive"])
        session.destroy()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert inviso.self().is_alive()


def test_a_queue_is_made_while_functions_are_taken() -> None:
    """What is run to find out how functions are called runs while nothing is locked that others need."""
    text = """
import builtins, queue, threading
from inviso import trace

evaluate, made = builtins.eval, []
def slowly(*arguments):
    if threading.current_thread() is not threading.main_thread():
        return evaluate(*arguments)
    maker = threading.Thread(target=lambda: made.append(queue.Queue()))
    maker.start()
    maker.join(10)
    assert not maker.is_alive()
    return evaluate(*arguments)

queue.Queue()
builtins.eval = slowly
with trace.session_create("taking") as session:
    session.process("all", True, ["send"])
    print(bool(made))
"""
    assert good(text, limit=60) in ("True\n", "False\n" if not is_plain else "True\n")
