"""Programs with `queue.Queue` and `asyncio.Queue` behave the same while their messages are traced or carry tokens."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import queue
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import inviso
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inviso import seq_trace, trace
from trace_tools import good, own

METHODS = ("put", "get", "_put", "_get")
NOWAIT = ("put_nowait", "get_nowait", "_put", "_get")


@pytest.fixture(autouse=True)
def no_tokens() -> Iterator[None]:
    """No token is in use before a test, nor after it. After the last one, its carriers may stay instrumented for a
    second.
    """
    seq_trace.reset_trace()
    yield
    seq_trace.reset_trace()


def copy(function: Any) -> Any:
    """The same function in another module, with code of its own, and not instrumented."""
    scope = {**function.__globals__, "__name__": "copies"}
    same = types.FunctionType(function.__code__.replace(), scope, function.__name__, function.__defaults__)
    same.__qualname__ = function.__qualname__
    return same


class Plain(queue.Queue):  # type: ignore[type-arg]
    """`queue.Queue` without instruments."""

    put, get, _put, _get = (copy(vars(queue.Queue)[name]) for name in METHODS)  # type: ignore[assignment]


class PlainAsync(asyncio.Queue):  # type: ignore[type-arg]
    """`asyncio.Queue` without instruments."""

    put_nowait, get_nowait, _put, _get = (copy(vars(asyncio.Queue)[name]) for name in NOWAIT)  # type: ignore[assignment]


def answer(coroutine: Any) -> Any:
    """The result of a coroutine that doesn't wait."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


HOOK: list[Callable[..., Any]] = []


def hooked(function: Any) -> Any:
    """A function that takes the same arguments and calls the hook."""
    namespace: dict[str, Any] = {}
    names = ", ".join(function.__code__.co_varnames[: function.__code__.co_argcount])
    exec(f"def changed({names}):\n    import {__name__} as m\n    return m.HOOK[0]({names})\n", namespace)
    return namespace["changed"]


def events(session: trace.Session) -> list[Any]:
    return [message[2:4] for message in session.drain() if message[2] in ("send", "receive")]


def state(box: Any) -> Any:
    lists = [list(box.queue), box.unfinished_tasks, box.maxsize, getattr(box, "is_shutdown", None), box.mutex.locked()]
    return [*lists, *(len(getattr(box, name)._waiters) for name in ("not_empty", "not_full", "all_tasks_done"))]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return ("answers", call())
    except Exception as error:
        return (type(error), error.args)


def test_the_functions_are_what_they_were(session: trace.Session) -> None:
    before = [vars(queue.Queue)[name] for name in METHODS]
    own(session, ["send", "receive"])
    assert all(vars(queue.Queue)[name] is function for name, function in zip(METHODS, before, strict=True))
    assert pickle.loads(pickle.dumps(queue.Queue.put)) is queue.Queue.put
    assert (queue.Queue.put.__defaults__, queue.Queue.get.__defaults__) == ((True, None), (True, None))


class Undecided:
    """An object that is neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError("undecided")


@pytest.mark.parametrize("given_to", ["put", "get"])
def test_arguments_of_every_kind(session: trace.Session, given_to: str) -> None:
    values = [True, False, 0, 1, -1, 0.0, 2.5, -2.5, float("nan"), 10**30, None, "a", [], [1], Undecided()]
    own(session, ["send", "receive"])
    first = ("item",) if given_to == "put" else ()
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {}), (first * 2, {}), (first, {"other": 1})]
    for one, two in itertools.product([*values, ...], repeat=2):
        named = {name: value for name, value in (("block", one), ("timeout", two)) if value is not ...}
        ways += [
            (first, named),
            ((*first, one), {"timeout": two}),
            ((*first, one, two), {}),
            ((*first, one, two, 3), {}),
        ]
        ways += [((*first, one), {"block": two}), ((), {"item": "item", **named})]
    for args, kwargs in ways:
        boxes = [queue.Queue(4), Plain(4)]
        found = []
        for box in boxes:
            queue.Queue.put(box, 0)
            call = lambda box=box: getattr(box, given_to)(*args, **kwargs)  # type: ignore[misc]  # noqa: B023, E731
            found.append((outcome(call), state(box)))
        assert found[0] == found[1], (args, kwargs)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "put_nowait"]), st.integers()),
        st.tuples(st.sampled_from(["get", "get_nowait", "task_done", "qsize", "full", "empty"])),
        st.tuples(
            st.sampled_from(["refuse", "shadow", "restore", "count", "replace", "shut", "wide", "dict", "again"])
        ),
        st.tuples(st.just("maxsize"), st.sampled_from([-1, 0, 1, 2, 3, 10**30, 2.5])),
    ),
    max_size=40,
)


def operate(box: Any, operation: tuple[Any, ...]) -> Any:
    """One step of a program that uses a queue in ordinary and in strange ways; it never waits."""
    name, *args = operation
    if name == "put":
        return box.put(*args, block=False)
    if name == "get":
        return box.get(False)
    if name == "refuse":
        box.queue = []
    elif name == "shadow":
        box._qsize = lambda: 1
    elif name == "restore":
        vars(box).pop("_qsize", None)
    elif name == "count":
        box.unfinished_tasks = 2**62
    elif name == "replace":
        box.queue = deque([1, 2], 3)
    elif name == "shut":
        return box.shutdown() if hasattr(box, "shutdown") else None
    elif name == "wide":
        box.more = vars(box).get("more", 0) + 1
    elif name == "dict":
        vars(box)["unfinished_tasks"] = 7
    elif name == "again":
        box.__init__(2)
    elif name == "maxsize":
        box.maxsize = args[0]
    else:
        return getattr(box, name)(*args)
    return None


@pytest.mark.skipif(sys.version_info < (3, 13), reason="queues are shut down from 3.13 on")
@pytest.mark.parametrize("kind", [queue.Queue, asyncio.Queue])
def test_a_queue_is_shut_down(session: trace.Session, kind: Any) -> None:
    own(session, ["send", "receive"])
    box: Any = kind()
    for number in range(3):
        box.put_nowait(number)
    assert box.get_nowait() == 0
    box.shutdown()
    ended = {queue.Queue: "ShutDown", asyncio.Queue: "QueueShutDown"}[kind]
    for call in (lambda: box.put_nowait(3), lambda: box.put_nowait(4)):
        with pytest.raises(Exception) as raised:
            call()
        assert type(raised.value).__name__ == ended
    assert [box.get_nowait(), box.get_nowait()] == [1, 2]
    with pytest.raises(Exception) as raised:
        box.get_nowait()
    assert type(raised.value).__name__ == ended


OWN: list[tuple[Any, Callable[[Any], Any], str]] = [
    (queue.Queue, lambda box: box, "_qsize"), (queue.Queue, lambda box: box, "_put"),
    (queue.Queue, lambda box: box.not_empty, "notify"), (queue.Queue, lambda box: box.not_empty, "_is_owned"),
    (asyncio.Queue, lambda box: box, "full"), (asyncio.Queue, lambda box: box, "_put"),
    (asyncio.Queue, lambda box: box, "_wakeup_next"), (asyncio.Queue, lambda box: box._finished, "clear"),
]  # fmt: skip


@pytest.mark.parametrize("kind, part, name", OWN)
def test_an_instance_has_a_method_of_its_own(session: trace.Session, kind: Any, part: Any, name: str) -> None:
    own(session, ["send", "receive"])
    box = kind(9)
    box.put_nowait(0)
    called: list[str] = []
    original = getattr(part(box), name)
    setattr(part(box), name, lambda *args: (called.append(name), original(*args))[1])
    for _ in range(2):
        called.clear()
        box.put_nowait(1)
        assert called
    assert [box.get_nowait() for _ in range(3)] == [0, 1, 1]


@settings(max_examples=1000, deadline=None)
@given(OPERATIONS, st.booleans())
def test_a_queue_is_what_it_would_be_without(operations: list[Any], carried: bool) -> None:
    found = []
    with trace.session_create("differential") as session:
        own(session, ["send", "receive"])
        for box in (queue.Queue(2), Plain(2)):
            if carried:
                seq_trace.set_token("label", 1)
            found.append([(outcome(lambda: operate(box, operation)), state(box)) for operation in operations])  # noqa: B023
            seq_trace.set_token([])
    assert found[0] == found[1]


def operate_async(box: Any, operation: tuple[Any, ...]) -> Any:
    """One step of a program that uses an `asyncio.Queue` in the same way, outside a loop."""
    name, *args = operation
    if name == "put":
        coroutine = box.put(*args)
    elif name == "get":
        coroutine = box.get()
    else:
        if name == "refuse":
            box._queue = []
        elif name == "shadow":
            box.full = lambda: False
        elif name == "restore":
            vars(box).pop("full", None)
        elif name == "count":
            box._unfinished_tasks = 2**62
        elif name == "replace":
            box._queue = deque([1, 2], 3)
        elif name == "shut":
            return box.shutdown() if hasattr(box, "shutdown") else None
        elif name == "wide":
            box._loop = None
        elif name == "dict":
            vars(box)["_unfinished_tasks"] = 7
        elif name == "again":
            box.__init__(2)
        elif name == "maxsize":
            box._maxsize = args[0]
        else:
            return getattr(box, name)(*args)
        return None
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()  # it would wait
    return "waits"


def state_async(box: Any) -> Any:
    finished = (box._finished._value, len(box._finished._waiters))
    lists = [list(box._queue), box._unfinished_tasks, box._maxsize, getattr(box, "_is_shutdown", None), finished]
    return [*lists, len(box._getters), len(box._putters)]


@settings(max_examples=1000, deadline=None)
@given(OPERATIONS, st.booleans())
def test_an_asyncio_queue_is_what_it_would_be_without(operations: list[Any], carried: bool) -> None:
    async def run(box: Any) -> list[Any]:
        if carried:
            seq_trace.set_token("label", 1)
        steps = [(outcome(lambda: operate_async(box, operation)), state_async(box)) for operation in operations]  # noqa: B023
        seq_trace.set_token([])
        return steps

    with trace.session_create("differential") as session:
        own(session, ["send", "receive"])
        session.process("new", True, ["send", "receive"])
        found = [asyncio.run(run(box)) for box in (asyncio.Queue(2), PlainAsync(2))]
    assert found[0] == found[1]


def test_tasks_that_wait_are_woken(session: trace.Session) -> None:
    session.process("all", True, ["send", "receive", "set_on_spawn"])

    async def run() -> None:
        box: asyncio.Queue[int] = asyncio.Queue(1)
        back: asyncio.Queue[int] = asyncio.Queue(1)

        async def serve() -> None:
            while (number := await box.get()) >= 0:
                await back.put(number + 1)
                box.task_done()
            box.task_done()

        server = asyncio.create_task(serve())
        for number in range(500):
            await box.put(number)
            assert await back.get() == number + 1
        await box.put(-1)
        await asyncio.wait_for(box.join(), 10)
        await server
        for number in range(3):  # more items than fit, without a reader
            if number:
                asyncio.get_running_loop().call_soon(back.get_nowait)
            await asyncio.wait_for(back.put(number), 10)
        assert back.get_nowait() == 2 and back.empty()

    asyncio.run(run())


ASYNC: list[tuple[Any, str]] = [
    (asyncio.Queue, "put_nowait"), (asyncio.Queue, "full"), (asyncio.Queue, "qsize"), (asyncio.Queue, "_put"),
    (asyncio.Queue, "_wakeup_next"), (asyncio.Event, "clear"),
]  # fmt: skip


@pytest.mark.parametrize("owner, name", ASYNC)
@pytest.mark.parametrize("how", ["method", "code"])
def test_what_asyncio_changes_holds_at_once(session: trace.Session, owner: Any, name: str, how: str) -> None:
    own(session, ["send", "receive"])
    box: asyncio.Queue[Any] = asyncio.Queue(5)
    box.put_nowait(0)
    called: list[str] = []
    function = vars(owner)[name]
    same = copy(function)
    HOOK[:] = [lambda *args: (called.append(name), same(*args))[1]]
    changed = hooked(function)
    if how == "method":
        setattr(owner, name, changed)
    else:
        original, function.__code__ = function.__code__, changed.__code__
    try:
        for _ in range(2):
            called.clear()
            box.put_nowait(1)
            assert name in called
    finally:
        if how == "method":
            setattr(owner, name, function)
        else:
            function.__code__ = original
    called.clear()
    box.put_nowait(2)
    assert not called and [box.get_nowait() for _ in range(4)] == [0, 1, 1, 2]
    if name != "_put":  # the original `_put` is watched; another one is not
        assert [kind for kind, _ in events(session)] == ["send"] * 4 + ["receive"] * 4


@pytest.mark.parametrize("held", [False, True])
def test_a_coroutine_ends_as_it_would(session: trace.Session, held: bool) -> None:
    """Also one whose frame is referenced before it runs."""
    own(session, ["send", "receive"])
    found = []
    for box in (asyncio.Queue(3), PlainAsync(3)):
        for coroutine in (box.put([1]), box.get()):
            frame = coroutine.cr_frame if held else None
            result = answer(coroutine)
            left = (frame.f_lasti, frame.f_lineno, sorted(frame.f_locals)) if frame else None
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                coroutine.send(None)
            found.append(
                (result, left, coroutine.cr_frame, coroutine.cr_running, result is None or sys.getrefcount(result))
            )
    assert found[:2] == found[2:] and [found[0][0], found[1][0]] == [None, [1]]


def test_a_task_made_of_put_or_get_alone(session: trace.Session) -> None:
    """Its process begins and ends as any."""
    flags = ["procs", "running", "running_procs", "send", "receive", "set_on_spawn"]
    found = []
    for kind in (asyncio.Queue, PlainAsync):

        async def run(kind: Any = kind) -> None:
            box = kind(3)
            session.process(inviso.self(), True, flags)
            assert await asyncio.create_task(box.put("item")) is None
            assert await asyncio.create_task(box.get()) == "item"
            session.process(inviso.self(), False, flags)

        asyncio.run(run())
        messages = session.drain()
        pids = list(dict.fromkeys(message[1] for message in messages))
        found.append([[message[2] for message in messages if message[1] == pid] for pid in pids[1:]])
    assert found[0] == found[1] == [["spawned", "in", kind, "exit", "out"] for kind in ("send", "receive")]


def test_events_are_those_of_every_put_and_get(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue(2)
    assert [box.put(1), box.put_nowait(2)] == [None, None]
    with pytest.raises(queue.Full):
        box.put(3, False)
    assert [box.get(), box.get(timeout=1)] == [1, 2]
    with pytest.raises(queue.Empty):
        box.get_nowait()
    assert events(session) == [("send", 1), ("send", 2), ("receive", 1), ("receive", 2), ("receive", "timeout")]


def test_what_a_class_changes_holds_at_once(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[Any] = queue.Queue(5)
    box.put(0)
    called: list[str] = []

    def noting(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            called.append(name)
            return original(*args, **kwargs)

        setattr(owner, name, noted)

    for owner, name in [
        (queue.Queue, "_qsize"), (queue.Queue, "_put"), (threading.Condition, "notify"),
        (threading.Condition, "__enter__"), (threading.Condition, "__exit__"), (threading.Condition, "_is_owned"),
    ]:  # fmt: skip
        original = vars(owner)[name]
        noting(owner, name)
        try:
            called.clear()
            box.put(1)
            assert name in called
        finally:
            setattr(owner, name, original)
        called.clear()
        box.put(2)
        assert not called and [box.get(), box.get()] == [0, 1] and not box.put(0)
        box.queue = deque([0])
    events(session)


CODES: list[tuple[Any, str]] = [
    (queue.Queue, "put"), (queue.Queue, "_put"), (queue.Queue, "_qsize"), (threading.Condition, "notify"),
    (threading.Condition, "_is_owned"), (threading.Condition, "__enter__"),
]  # fmt: skip


@pytest.mark.parametrize("owner, name", CODES)
def test_a_function_gets_another_code(session: trace.Session, owner: Any, name: str) -> None:
    function, original = vars(owner)[name], copy(vars(owner)[name])
    called: list[str] = []
    HOOK[:] = [lambda *args: (called.append(name), original(*args))[1]]
    own(session, ["send"])
    box: queue.Queue[Any] = queue.Queue(100)
    box.put(0)
    function.__code__ = hooked(function).__code__
    try:
        for _ in range(3):
            called.clear()
            box.put(1)
            assert name in called
    finally:
        function.__code__ = original.__code__
    called.clear()
    box.put(2)
    assert not called and list(box.queue) == [0, 1, 1, 1, 2]


def test_a_function_gets_other_defaults(session: trace.Session) -> None:
    own(session, ["send"])
    box: queue.Queue[Any] = queue.Queue(1)
    box.put(0)
    queue.Queue.put.__defaults__ = (False, None)
    try:
        for _ in range(2):
            with pytest.raises(queue.Full):
                box.put(1)
        assert box.get() == 0
        queue.Queue.put.__defaults__ = ("not a bool", -1)  # type: ignore[assignment]
        with pytest.raises(ValueError, match="non-negative"):
            box.put(1)
    finally:
        queue.Queue.put.__defaults__ = (True, None)


def test_other_tools_see_the_calls(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    put = ["put", "__enter__", "_put", "notify", "_is_owned", "__exit__"]
    for _ in range(3):
        seen: list[str] = []
        sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)  # noqa: B023
        try:
            box.put(1)
            box.get()
        finally:
            sys.setprofile(None)
        assert [name for name in seen if name in put] == [*put, *(name for name in put if name not in ("put", "_put"))]
        assert [name for name in seen if name in ("put", "get", "_get")] == ["put", "get", "_get"]
        box.put(2)
        box.get()
    assert len(events(session)) == 12


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize("function", [
    queue.Queue.put, queue.Queue._put, threading.Condition.notify, threading.Condition._is_owned,  # type: ignore[attr-defined]
], ids=lambda function: function.__name__)  # fmt: skip
def test_tools_of_monitoring_see_the_calls(session: trace.Session, function: Any) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    monitoring: Any = sys.monitoring
    seen: list[Any] = []
    monitoring.use_tool_id(0, "test")
    try:
        monitoring.register_callback(0, monitoring.events.PY_START, lambda code, _: seen.append(code))
        for events_of in (
            lambda how: monitoring.set_events(0, how),
            lambda how: monitoring.set_local_events(0, function.__code__, how),
        ):
            for _ in range(3):
                seen.clear()
                events_of(monitoring.events.PY_START)
                box.put(1)
                events_of(0)
                assert seen.count(function.__code__) == 1
                box.put(2)
                assert seen.count(function.__code__) == 1
    finally:
        monitoring.free_tool_id(0)
    assert [item for _, item in events(session)] == [1, 2] * 6


def test_sessions_that_trace_calls_see_them(session: trace.Session, make: Any) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    box.put(0)
    counting = make("counting")
    assert counting.function(("queue", "Queue.put", 4), True, ["call_count", "local"]) >= 1
    own(counting, ["call"])
    for number in range(1, 4):
        box.put(number)
    assert counting.info(("queue", "Queue.put", 4), "call_count") == ("call_count", 3)
    assert [message[3][2][1] for message in counting.drain()] == [1, 2, 3]
    counting.destroy()
    box.put(4)
    assert events(session) == [("send", number) for number in range(5)]


def test_who_waits_is_woken(session: trace.Session) -> None:
    session.process("all", True, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue(1)
    back: queue.Queue[int] = queue.Queue(1)

    def serve() -> None:
        while (number := box.get()) >= 0:
            back.put(number + 1)
            box.task_done()
        box.task_done()

    server = threading.Thread(target=serve)
    server.start()
    for number in range(2000):
        box.put(number)
        assert back.get(timeout=10) == number + 1
    box.put(-1)
    box.join()
    server.join(10)
    assert not server.is_alive() and box.unfinished_tasks == 0


def test_a_lock_that_another_thread_holds_is_waited_for(session: trace.Session) -> None:
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    box.put(0)
    for call, left in ((lambda: box.put(1), [0, 1]), (box.get, [1])):
        held, go = threading.Event(), threading.Event()

        def hold(held: threading.Event = held, go: threading.Event = go) -> None:
            with box.mutex:
                held.set()
                go.wait(10)

        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(10)
        threading.Timer(0.05, go.set).start()
        call()
        assert go.is_set() and list(box.queue) == left
        holder.join()
    assert events(session) == [("send", 0), ("send", 1), ("receive", 0)]


def test_many_threads_lose_nothing(session: trace.Session) -> None:
    session.process("all", True, ["send", "receive"])
    small: queue.Queue[int] = queue.Queue(2)
    threads, each = 4, 500
    taken: list[int] = []
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def produce(start: int) -> None:
        for number in range(start, start + each):
            small.put(number)

    def consume() -> None:
        for _ in range(each):
            taken.append(small.get())
            small.task_done()

    try:
        work = [threading.Thread(target=produce, args=(n * each,)) for n in range(threads)]
        work += [threading.Thread(target=consume) for _ in range(threads)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(60)
        small.join()
    finally:
        sys.setswitchinterval(was)
    assert sorted(taken) == list(range(threads * each)) and small.unfinished_tasks == 0


def test_sessions_come_and_go_while_threads_pass_messages(make: Any) -> None:
    stop, wrong = threading.Event(), []

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


def test_the_stack_of_a_message_begins_where_the_queue_is_used(session: trace.Session) -> None:
    """With and without the queue's own frames."""
    own(session, ["send"])
    session.send([("_", [], [("message", ("process_dump",))])])
    monitoring: Any = getattr(sys, "monitoring", None)
    box: queue.Queue[int] = queue.Queue(1)
    box.put(1)
    box.get()
    if monitoring is not None:
        monitoring.use_tool_id(0, "test")
        monitoring.register_callback(0, monitoring.events.PY_START, lambda code, _: None)
        monitoring.set_events(0, monitoring.events.PY_START)
    try:
        box.put_nowait(1)
    finally:
        if monitoring is not None:
            monitoring.set_events(0, 0)
            monitoring.free_tool_id(0)
    for message in session.drain():
        stack = str(message[-1]).split("Stack:")[1].replace("\\n", "\n").split("\n")[1]
        assert "test_the_stack_of_a_message_begins_where" in stack


@pytest.mark.skipif(sys.version_info < (3, 12), reason="on 3.11 it stands in front of ours: test_pep523")
def test_another_evaluation_function_sees_the_frames(session: trace.Session) -> None:
    evaluation: Any = pytest.importorskip("_testinternalcapi")
    if not hasattr(evaluation, "set_eval_frame_record"):
        pytest.skip("this interpreter has no such tool")
    own(session, ["send", "receive"])
    box: queue.Queue[int] = queue.Queue()
    box.put(0)
    box.put(1), box.get()
    names: list[str] = []
    evaluation.set_eval_frame_record(names)
    try:
        box.put(2)
        box.get()
    finally:
        evaluation.set_eval_frame_default()
    seen = [name for name in names if name in ("put", "_put", "notify", "get", "_get")]
    assert seen == ["put", "_put", "notify", "get", "_get", "notify"]
    assert len(events(session)) == 5


@pytest.mark.parametrize("owner, name", [
    (queue.Queue, "maxsize"), (threading.Condition, "_waiters"), (asyncio.Queue, "_maxsize"), (asyncio.Event, "_value"),
    (queue.Queue, "__del__"), (threading.Condition, "__del__"), (asyncio.Queue, "__del__"), (asyncio.Event, "__del__"),
])  # fmt: skip
def test_nothing_that_a_class_defines_is_run_to_take_its_methods(session: trace.Session, owner: Any, name: str) -> None:
    """A descriptor or a finaliser that the program has put into the class."""
    seen: list[Any] = []

    class Noting:
        def __set__(self, instance: Any, value: Any) -> None:
            seen.append(instance)

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            seen.append(instance)
            return self

    setattr(owner, name, (lambda instance: seen.append(type(instance))) if name == "__del__" else Noting())
    try:
        own(session, ["send", "receive"])
        assert not seen
        session.destroy()
    finally:
        delattr(owner, name)


def test_a_put_in_a_finaliser_and_in_a_signal(session: trace.Session) -> None:
    """These calls may come anywhere in the interpreter."""
    text = """
import gc, queue, signal, inviso
from inviso import trace

box = queue.Queue()
class Ends:
    def __del__(self):
        box.put("ended")

with trace.session_create("anywhere") as session:
    session.process(inviso.self(), True, ["send", "receive"])
    signal.signal(signal.SIGUSR1, lambda *_: box.put("signal"))
    for _ in range(200):
        Ends()
        signal.raise_signal(signal.SIGUSR1)
        assert sorted([box.get(), box.get()]) == ["ended", "signal"]
    circle = Ends()
    circle.me = circle
    del circle
    gc.collect()
    print(box.get(), len([m for m in session.drain() if m[2] in ("send", "receive")]))
"""
    assert good(text, limit=60) == "ended 802\n"
