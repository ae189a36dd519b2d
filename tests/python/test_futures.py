"""Results of futures that the program sets itself: one message, to the process that waits or through the future."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import sys
import threading
import weakref
from collections import Counter
from concurrent.futures import Future
from typing import Any

import inviso
import pytest
from inviso import trace
from test_executors import told, traced
from trace_tools import in_threads
from waiting import until


def waits_in_result(future: Future[Any]) -> bool:
    """Whether a thread waits in ``future.result``."""
    return bool(future._condition._waiters)  # type: ignore[attr-defined]


def test_through_the_future(session: trace.Session) -> None:
    me = traced(session)
    future: Future[Any] = Future()
    future.set_result({"a": 1})
    assert future.result() == {"a": 1}
    assert future.result() == {"a": 1}
    assert future.exception() is None
    first, second = told(session)
    assert first[:3] == (me, "send", {"a": 1})
    assert first[3].kind == "queue"
    assert second == (me, "receive", {"a": 1})


def test_an_exception(session: trace.Session) -> None:
    me = traced(session)
    one, other = Future[Any](), Future[Any]()
    one.set_exception(KeyError("k"))
    other.set_exception(OSError(2, "gone"))
    with pytest.raises(KeyError):
        one.result()
    assert isinstance(other.exception(), OSError)
    assert [m[:3] for m in told(session)] == [
        (me, "send", ("KeyError", ("k",))),
        (me, "send", ("FileNotFoundError", (2, "gone"))),
        (me, "receive", ("KeyError", ("k",))),
        (me, "receive", ("FileNotFoundError", (2, "gone"))),
    ]


def test_to_the_thread_that_waits(session: trace.Session) -> None:
    me = traced(session)
    session.process("new", True, ["send", "receive"])
    future: Future[Any] = Future()
    pids = []

    def wait() -> None:
        pids.append(inviso.self())
        assert future.result(30) == "go"

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: waits_in_result(future))
    future.set_result("go")
    thread.join()
    assert told(session) == [(me, "send", "go", pids[0]), (pids[0], "receive", "go")]


def test_several_that_wait_get_it_through_the_future(session: trace.Session) -> None:
    me = traced(session)
    session.process("new", True, ["send", "receive"])
    future: Future[Any] = Future()
    threads = [threading.Thread(target=future.result) for _ in range(3)]
    wrapped = [threading.Thread(target=lambda: future.result()) for _ in range(3)]
    for thread in threads + wrapped:
        thread.start()
    until(lambda: len(future._condition._waiters) == 6)  # type: ignore[attr-defined]
    future.set_result(1)
    for thread in threads + wrapped:
        thread.join()
    messages = told(session)
    assert messages[0][:3] == (me, "send", 1)
    assert messages[0][3].kind == "queue"
    assert [m[1] for m in messages] == ["send", "receive"]


def test_time_outs(session: trace.Session) -> None:
    me = traced(session)
    future: Future[Any] = Future()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.001)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.exception(0)
    future.set_exception(TimeoutError("mine"))
    with pytest.raises(TimeoutError):
        future.result()
    assert [m[:3] for m in told(session)] == [
        (me, "receive", "timeout"), (me, "receive", "timeout"),
        (me, "send", ("TimeoutError", ("mine",))), (me, "receive", ("TimeoutError", ("mine",))),
    ]  # fmt: skip


def test_a_time_out_has_the_clock_as_sender(session: trace.Session) -> None:
    traced(session)
    session.recv([([inviso.Atom("clock_service"), "_", inviso.Atom("timeout")], [], [])])
    future: Future[Any] = Future()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0)
    future.set_result("timeout")
    future.result()
    assert [m[1:] for m in told(session) if m[1] == "receive"] == [("receive", "timeout")]


def test_cancelled_or_set_twice(session: trace.Session) -> None:
    me = traced(session)
    future: Future[Any] = Future()
    future.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_result(1)
    future = Future()
    future.set_result(1)
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_result(2)
    assert [m[:3] for m in told(session)] == [(me, "send", 1)]


def test_set_before_tracing(session: trace.Session) -> None:
    future: Future[Any] = Future()
    future.set_result(1)
    me = traced(session)
    future.result()
    future.result()
    assert told(session) == [(me, "receive", 1)]


def test_many_futures_between_threads(session: trace.Session) -> None:
    traced(session)
    session.process("new", True, ["send", "receive"])
    futures = [[Future[Any]() for _ in range(100)] for _ in range(4)]

    def body(n: int) -> None:
        if n < 4:
            for i, future in enumerate(futures[n]):
                future.set_result((n, i))
        else:
            assert [f.result(30) for f in futures[n - 4]] == [(n - 4, i) for i in range(100)]

    in_threads(8, body)
    messages = told(session)
    every = Counter((n, i) for n in range(4) for i in range(100))
    assert Counter(m[2] for m in messages if m[1] == "send") == every
    assert Counter(m[2] for m in messages if m[1] == "receive") == every
    place: dict[Any, list[str]] = {}
    for message in messages:
        place.setdefault(message[2], []).append(message[1])
    assert set(map(tuple, place.values())) == {("send", "receive")}


def test_futures_are_not_kept(session: trace.Session) -> None:
    traced(session)
    alive = []
    for n in range(50):
        future: Future[Any] = Future()
        future.set_result(n)
        future.result()
        alive.append(weakref.ref(future))
    del future
    gc.collect()
    assert [r for r in alive if r() is not None] == []


# asyncio's


def run(session: trace.Session, main: Any) -> list[Any]:
    traced(session)
    session.process("new", True, ["send", "receive"])
    asyncio.run(main())
    return told(session)


def test_to_the_task_that_waits(session: trace.Session) -> None:
    pids: dict[str, inviso.Pid] = {}

    async def main() -> None:
        pids["main"] = inviso.self()
        future = asyncio.get_running_loop().create_future()

        async def wait() -> None:
            pids["task"] = inviso.self()
            assert await future == 42
            assert future.result() == 42

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        future.set_result(42)
        await task

    assert run(session, main) == [
        (pids_of(pids, "main"), "send", 42, pids_of(pids, "task")), (pids_of(pids, "task"), "receive", 42)
    ]  # fmt: skip


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("error", [False, True])
def test_the_first_of_several_tasks_that_wait_gets_it(session: trace.Session, error: bool, wrapped: bool) -> None:
    pids: dict[str, inviso.Pid] = {}

    async def wait(name: str, future: Any) -> None:
        pids[name] = inviso.self()
        try:
            assert await (asyncio.wrap_future(future) if wrapped else future) == "x"
        except ValueError:
            assert error

    async def look(future: Any) -> None:
        assert future.exception() if error else future.result() == "x"

    async def main() -> None:
        future: Any = Future() if wrapped else asyncio.get_running_loop().create_future()
        waiting = [asyncio.create_task(wait(name, future)) for name in ("first", "second", "third")]
        await asyncio.sleep(0)
        future.set_exception(ValueError("x")) if error else future.set_result("x")
        pids["setter"] = inviso.self()
        await asyncio.wait(waiting)
        await asyncio.create_task(look(future))

    value: Any = ("ValueError", ("x",)) if error else "x"
    found = [m for m in run(session, main) if m[2] == value]
    assert found == [
        (pids["setter"], "send", value, pids["first"]),
        (pids["first"], "receive", value),
    ]


def pids_of(pids: dict[str, inviso.Pid], name: str) -> Any:
    class Later:
        def __eq__(self, other: object) -> bool:
            return pids[name] == other

    return Later()


@pytest.mark.parametrize("how", ["await", "wait_for", "result", "exception"])
@pytest.mark.parametrize("error", [False, True])
def test_a_future_that_is_done_already(session: trace.Session, how: str, error: bool) -> None:
    pids: list[inviso.Pid] = []

    async def main() -> None:
        pids.append(inviso.self())
        future: Any = asyncio.get_running_loop().create_future()
        if error:
            future.set_exception(LookupError("l"))
        else:
            future.set_result("r")
        try:
            if how == "await":
                await future
            elif how == "wait_for":
                await asyncio.wait_for(future, 30)
            elif how == "result":
                future.result()
                future.result()
            else:
                future.exception()
        except LookupError:
            assert error
        future.exception()

    messages = run(session, main)
    message = ("LookupError", ("l",)) if error else "r"
    assert messages[0][:3] == (pids[0], "send", message)
    assert messages[0][3].kind == "queue"
    taken = how != "exception" or error
    assert messages[1:] == [(pids[0], "receive", message)] * taken


OUTSIDE: dict[str, Any] = {
    "gather": lambda future: asyncio.gather(future),
    "gather of two": lambda future: asyncio.gather(asyncio.sleep(0), future, return_exceptions=True),
    "shield": lambda future: asyncio.shield(future),
    "shield of gather": lambda future: asyncio.shield(asyncio.gather(future)),
    "gather of shield": lambda future: asyncio.gather(asyncio.shield(future)),
    "gather of gather": lambda future: asyncio.gather(asyncio.gather(future)),
    "wait_for of gather": lambda future: asyncio.wait_for(asyncio.gather(future), 30),
}


def all_in(result: Any) -> Any:
    """The innermost, last elements of lists."""
    while isinstance(result, list):
        result = result[-1]
    return result


# a `shield` around a `gather`, awaited when both are done: its contents have no receiver
WAYS = [(outside, when) for outside in OUTSIDE for when in ("before", "between", "while it waits")]
WAYS.remove(("shield of gather", "between"))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize(("outside", "when"), WAYS)
def test_by_way_of_another_future(session: trace.Session, outside: str, when: str, error: bool, wrapped: bool) -> None:
    pids: dict[str, inviso.Pid] = {}

    async def main() -> None:
        pids["main"] = inviso.self()
        loop = asyncio.get_running_loop()
        source: Any = Future() if wrapped else loop.create_future()

        async def set_it() -> None:
            pids["setter"] = inviso.self()
            source.set_exception(LookupError("l")) if error else source.set_result("r")

        future = asyncio.wrap_future(source) if wrapped else source
        if when == "before":
            await asyncio.create_task(set_it())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        outer = OUTSIDE[outside](future)
        task = asyncio.create_task(set_it()) if when != "before" else None
        if when == "between":
            for _ in range(6):
                await asyncio.sleep(0)
        try:
            result = all_in(await outer)
            assert isinstance(result, LookupError) if error else result == "r"
        except LookupError:
            assert error
        if task:
            await task

    message = ("LookupError", ("l",)) if error else "r"
    sent, taken = (m for m in run(session, main) if m[2] == message)
    assert sent[:3] == (pids["setter"], "send", message)
    assert taken == (pids["main"], "receive", message)
    direct = when == "while it waits" and not (outside.startswith("wait_for") and sys.version_info < (3, 12))
    assert sent[3] == pids["main"] if direct else sent[3].kind == "queue" or outside.startswith("wait_for")


def test_a_result_that_is_gathered_and_thrown_away_is_received_by_nobody(session: trace.Session) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        failing, late, cancelled = loop.create_future(), loop.create_future(), loop.create_future()
        both = asyncio.gather(failing, late, cancelled)
        failing.set_exception(LookupError("first"))
        late.set_result("late")
        cancelled.cancel()
        with pytest.raises(LookupError):
            await both
        with pytest.raises(LookupError):
            both.result()

    messages = run(session, main)
    assert [m[1:3] for m in messages] == [
        ("send", ("LookupError", ("first",))),
        ("send", "late"),
        ("receive", ("LookupError", ("first",))),
    ]


@pytest.mark.parametrize("how", ["result", "exception"])
def test_a_thread_that_waits_when_the_session_begins(how: str) -> None:
    future: Future[Any] = Future()
    pids = []

    def wait() -> None:
        getattr(future, how)()
        pids.append(inviso.self())

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: waits_in_result(future))
    with trace.session_create("late", None) as session:
        me = traced(session)
        session.process("existing", True, ["send", "receive"])
        future.set_result("r") if how == "result" else future.set_exception(LookupError("l"))
        thread.join()
        sent, *taken = told(session)
    message = "r" if how == "result" else ("LookupError", ("l",))
    assert sent[:3] == (me, "send", message)
    if how == "result" or sys.version_info >= (3, 12):
        assert taken == [(pids[0], "receive", message)]


def test_run_until_complete_takes_the_result(session: trace.Session) -> None:
    me = traced(session)
    loop = asyncio.new_event_loop()
    try:
        future = loop.create_future()
        loop.call_soon(future.set_result, 7)
        assert loop.run_until_complete(future) == 7
    finally:
        loop.close()
    sent, taken = told(session)
    assert sent[:3] == (me, "send", 7) and taken == (me, "receive", 7)


def test_set_by_a_callback(session: trace.Session) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, "soon")
        assert await future == "soon"

    loop_thread = inviso.self()
    first, second = run(session, main)
    assert first[:3] == (loop_thread, "send", "soon")
    assert second == (first[3], "receive", "soon")
    assert first[3].kind == "task"


def test_from_another_thread_through_wrap_future(session: trace.Session) -> None:
    pids = []

    async def main() -> None:
        pids.append(inviso.self())
        future: Future[Any] = Future()
        waiter = asyncio.ensure_future(asyncio.sleep(0))

        def set_it() -> None:
            until(waiter.done)
            future.set_result("far")

        thread = threading.Thread(target=set_it)
        thread.start()
        assert await asyncio.wrap_future(future) == "far"
        thread.join()

    first, second = run(session, main)
    assert first[1:] == ("send", "far", pids[0])
    assert second == (pids[0], "receive", "far")


def test_an_unset_or_cancelled_one_says_nothing(session: trace.Session) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        future.cancel()
        with pytest.raises(asyncio.InvalidStateError):
            future.set_result(1)
        with pytest.raises(asyncio.CancelledError):
            future.result()
        with pytest.raises(TypeError):
            loop.create_future().set_result()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            loop.create_future().set_result(result=1)  # type: ignore[call-arg]

    assert run(session, main) == []


def test_many_tasks_and_futures(session: trace.Session) -> None:
    count = 300

    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(count)]

        async def wait(n: int) -> None:
            assert await futures[n] == n

        tasks = [asyncio.ensure_future(wait(n)) for n in range(count)]
        await asyncio.sleep(0)
        for n, future in enumerate(futures):
            future.set_result(n)
        await asyncio.gather(*tasks)

    messages = run(session, main)
    assert [m[1:3] for m in messages] == [pair for n in range(count) for pair in [("send", n), ("receive", n)]]
    assert len({m[0] for m in messages if m[1] == "receive"}) == count
    assert all(sent[3] == got[0] for sent, got in zip(messages[::2], messages[1::2], strict=True))


def test_exceptions_and_tracebacks_are_untouched(session: trace.Session) -> None:
    traced(session)

    async def main() -> Any:
        future: Any = asyncio.get_running_loop().create_future()
        error = ZeroDivisionError("z")
        future.set_exception(error)
        try:
            await future
        except ZeroDivisionError as caught:
            assert caught is error
            assert caught.__traceback__ is not None
            assert caught.__context__ is None
        return sys.exc_info()

    assert asyncio.run(main()) == (None, None, None)


def test_a_future_class_of_the_program_outlives_the_session(make: Any) -> None:
    session = make()
    traced(session)

    class Mine(asyncio.Future):  # type: ignore[type-arg]
        pass

    async def main() -> int:
        future = Mine()
        future.set_result(4)
        return future.result()  # type: ignore[no-any-return]

    assert asyncio.run(main()) == 4
    assert [m[1:3] for m in told(session)] == [("send", 4), ("receive", 4)]
    session.destroy()
    assert asyncio.run(main()) == 4
