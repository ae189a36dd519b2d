"""The running process at each time: tasks and threads, ended ones, and callbacks of a loop."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good, in_threads
from waiting import until

NEW = sys.version_info >= (3, 12)
eager = pytest.mark.skipif(not NEW, reason="eager tasks came with 3.12")


async def leaf(n: int = 0) -> int:
    await asyncio.sleep(0)
    return n


async def middle() -> int:
    return await leaf(1)


async def twice() -> None:
    await leaf()
    await leaf()


async def nothing() -> None:
    pass


def turns(messages: list[Any], pid: inviso.Pid | None = None) -> list[Any]:
    """``(tag, function)`` of each message about scheduling."""
    tags = ("in", "out", "in_exiting", "out_exiting", "out_exited")
    found = [m for m in messages if m[2] in tags and pid in (None, m[1])]
    return [(str(m[2]), m[3] if m[3] == 0 else m[3][1].rsplit("<locals>.")[-1]) for m in found]


def strict(messages: list[Any]) -> dict[inviso.Pid, int]:
    """Checks that each task's ``in`` and ``out`` alternate, from ``in`` to ``out``. Returns the steps of each."""
    by_pid: dict[inviso.Pid, list[str]] = {}
    for message in messages:
        if message[2] in ("in", "out") and message[1].kind == "task":
            by_pid.setdefault(message[1], []).append(str(message[2]))
    for pid, tags in by_pid.items():
        assert tags == ["in", "out"] * (len(tags) // 2), (pid, tags)
    return {pid: len(tags) // 2 for pid, tags in by_pid.items()}


def traced(
    session: trace.Session, main: Callable[[], Coroutine[Any, Any, Any]], flags: tuple[str, ...] = ("running",)
) -> list[Any]:
    """The messages of a program of tasks, traced from its beginning to its end."""
    assert session.process("all", True, flags) > 0
    asyncio.run(main())
    session.process("all", False, flags)
    return session.drain()


# steps


def test_a_task_is_in_and_out_once_a_step(session: trace.Session) -> None:
    found: list[inviso.Pid] = []

    async def main() -> None:
        task = asyncio.create_task(twice())
        found.append(inviso.pid(task))
        await task

    messages = traced(session, main)
    assert turns(messages, found[0]) == [
        ("in", "twice"), ("out", "__sleep0"),
        ("in", "__sleep0"), ("out", "__sleep0"),
        ("in", "__sleep0"), ("out", "twice"),
    ]  # fmt: skip
    assert strict(messages)[found[0]] == 3


def test_places_have_a_module_and_an_arity(session: trace.Session) -> None:
    async def outer(a: int, *, b: int = 2) -> int:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 3)
        return await future + a + b

    async def main() -> None:
        await asyncio.create_task(outer(1))

    places = {m[3] for m in traced(session, main)}
    name = f"{test_places_have_a_module_and_an_arity.__name__}.<locals>"
    assert places == {(__name__, f"{name}.outer", 2), (__name__, f"{name}.main", 0)} | {
        place for place in places if place[0] == "asyncio.runners" or place[0].startswith("asyncio.")
    }
    assert (__name__, f"{name}.outer", 2) in places


def test_a_process_that_begins_its_own_tracing_is_out_first(session: trace.Session) -> None:
    async def main() -> list[Any]:
        session.process(inviso.self(), True, ["running"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        session.process(inviso.self(), False, ["running"])
        return session.drain()

    tags = [tag for tag, _ in turns(asyncio.run(main()))]
    # 3.11 does not see the end of a frame that ran before
    assert tags == (["out", "in", "out", "in"] if NEW else ["in", "out", "in"])


def test_steps_of_a_process_that_begins_its_own_tracing_beside_another(make: Callable[..., trace.Session]) -> None:
    first, second = make("first"), make("second")

    async def main() -> list[Any]:
        task = asyncio.create_task(twice())
        first.process(inviso.pid(task), True, ["running"])
        await asyncio.sleep(0)
        second.process(inviso.self(), True, ["running"])
        await asyncio.sleep(0)
        await task
        return second.drain()

    tags = [tag for tag, _ in turns(asyncio.run(main()))]
    assert tags == ["out", "in"] * (len(tags) // 2)
    assert strict(first.drain())


def test_only_traced_processes_have_messages(session: trace.Session) -> None:
    async def main() -> None:
        one, other = asyncio.create_task(twice()), asyncio.create_task(twice())
        pid = inviso.pid(one)
        session.process(pid, True, ["running"])
        await asyncio.gather(one, other)
        assert {m[1] for m in session.drain()} == {pid}

    asyncio.run(main())


def test_tasks_that_wait_already(session: trace.Session) -> None:
    async def main() -> None:
        task = asyncio.create_task(twice())
        await asyncio.sleep(0)
        session.process(inviso.pid(task), True, ["running"])
        await task
        assert [tag for tag, _ in turns(session.drain())] == ["in", "out", "in", "out"]

    asyncio.run(main())


def test_gather_and_groups(session: trace.Session) -> None:
    async def main() -> None:
        await asyncio.gather(*(twice() for _ in range(50)))
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(leaf(n))

    steps = list(strict(traced(session, main)).values())
    # besides these there are the main task, and two that `asyncio.run` ends with
    assert (steps.count(2), steps.count(3), len(steps)) == (50, 51, 103)


def test_many_tasks(make: Callable[..., trace.Session]) -> None:
    session = make(ring_bytes=1 << 24)

    async def main() -> None:
        for _ in range(20):
            await asyncio.gather(*(leaf(n) for n in range(500)))

    messages = traced(session, main)
    assert session.info("session", "dropped") == ("dropped", 0)
    steps = strict(messages)
    assert len(steps) == 10_003
    assert list(steps.values()).count(2) == 10_000


def test_wait_for_and_timeouts(session: trace.Session) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(60), 0.001)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        assert await asyncio.wait_for(middle(), 60) == 1

    strict(traced(session, main))


def test_exceptions_end_a_step_like_any_other(session: trace.Session) -> None:
    async def bad() -> None:
        await asyncio.sleep(0)
        raise ValueError("bad")

    async def main() -> None:
        tasks = [asyncio.create_task(bad()) for _ in range(3)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in done] == [ValueError] * 3

    messages = traced(session, main)
    assert sorted(strict(messages).values())[2:5] == [2, 2, 2]


def test_a_step_that_ends_the_loop(session: trace.Session) -> None:
    async def leave() -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    async def main() -> None:
        await asyncio.create_task(leave())

    session.process("all", True, ["running"])
    with pytest.raises(SystemExit):
        asyncio.run(main())
    strict(session.drain())


def test_generators_inside_coroutines(session: trace.Session) -> None:
    import types

    @types.coroutine
    def bare() -> Any:
        yield

    async def outer() -> None:
        await bare()

    found = []

    async def main() -> None:
        task = asyncio.create_task(outer())
        found.append(inviso.pid(task))
        await task

    assert turns(traced(session, main), found[0]) == [
        ("in", "outer"), ("out", "bare"), ("in", "bare"), ("out", "outer")
    ]  # fmt: skip


def test_async_generators_hide_what_is_inside(session: trace.Session) -> None:
    async def numbers() -> Any:
        for n in range(2):
            await asyncio.sleep(0)
            yield n

    async def main() -> int:
        return sum([n async for n in numbers()])

    messages = traced(session, main)
    assert strict(messages)
    assert {place for _, place in turns(messages)} >= {"main"}


def test_deep_coroutines(session: trace.Session) -> None:
    async def deep(n: int) -> None:
        await (deep(n - 1) if n else asyncio.sleep(0))

    async def main() -> None:
        await deep(200)

    assert strict(traced(session, main))


class Derived(asyncio.Task[Any]):
    pass


class Initialised(asyncio.Task[Any]):
    def __init__(self, coro: Any, **options: Any) -> None:
        super().__init__(coro, **options)


@eager
@pytest.mark.parametrize("kind", [asyncio.Task, Derived, Initialised], ids=lambda kind: kind.__name__)
def test_eager_tasks_begin_inside_their_makers_step(session: trace.Session, kind: Any) -> None:
    found: list[inviso.Pid] = []

    async def ends_at_once() -> None:
        found.append(inviso.self())

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.create_eager_task_factory(kind))  # type: ignore[attr-defined]
        task = asyncio.create_task(twice())
        found.extend([inviso.self(), inviso.pid(task)])
        await task
        assert asyncio.create_task(ends_at_once()).done()

    messages = traced(session, main)
    strict(messages)
    me, child, second = found
    order = [(str(m[2]), found.index(m[1])) for m in messages if m[1] in found]
    assert order[:5] == [("in", 0), ("out", 0), ("in", 1), ("out", 1), ("in", 0)]
    assert turns(messages, child) == [
        ("in", "twice"), ("out", "__sleep0"),
        ("in", "__sleep0"), ("out", "__sleep0"),
        ("in", "__sleep0"), ("out", "twice"),
    ]  # fmt: skip
    assert me != child and second in found


@eager
def test_eager_tasks_inside_each_other(session: trace.Session) -> None:
    async def nest(n: int) -> None:
        if n:
            await asyncio.create_task(nest(n - 1))
        await asyncio.sleep(0)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        await nest(20)

    assert len(strict(traced(session, main))) >= 21


# the end


async def stubborn() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)


async def cancelled(coroutine: Coroutine[Any, Any, Any]) -> inviso.Pid:
    task = asyncio.create_task(coroutine)
    pid = inviso.pid(task)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return pid


def test_steps_after_a_cancellation_are_exiting(session: trace.Session) -> None:
    async def main() -> inviso.Pid:
        return await cancelled(stubborn())

    session.process("all", True, ["running", "exiting"])
    pid = asyncio.run(main())
    assert [tag for tag, _ in turns(session.drain(), pid)] == [
        "in", "out", "in_exiting", "out_exiting", "in_exiting", "out_exited"
    ]  # fmt: skip


def test_exiting_alone_tells_nothing_else(session: trace.Session) -> None:
    async def main() -> inviso.Pid:
        return await cancelled(stubborn())

    session.process("all", True, ["exiting"])
    pid = asyncio.run(main())
    assert turns(session.drain(), pid) == [
        ("in_exiting", "sleep"), ("out_exiting", "__sleep0"), ("in_exiting", "__sleep0"), ("out_exited", 0)
    ]  # fmt: skip


def test_running_alone_tells_of_them_as_of_others(session: trace.Session) -> None:
    async def main() -> inviso.Pid:
        return await cancelled(stubborn())

    session.process("all", True, ["running"])
    pid = asyncio.run(main())
    assert [tag for tag, _ in turns(session.drain(), pid)] == ["in", "out"] * 3


def test_a_cancellation_that_is_swallowed_inside(session: trace.Session) -> None:
    async def inner() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    async def outer() -> None:
        await inner()
        await asyncio.sleep(0)

    async def main() -> inviso.Pid:
        return await cancelled(outer())

    session.process("all", True, ["running"])
    pid = asyncio.run(main())
    assert [tag for tag, _ in turns(session.drain(), pid)] == ["in", "out"] * 4


def test_a_timeout_that_is_over_is_no_end(session: trace.Session) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            pass
        await asyncio.sleep(0)

    messages = traced(session, main, ("running", "exiting"))
    assert "in_exiting" in [tag for tag, _ in turns(messages)]
    main_task = next(m[1] for m in messages if m[1].kind == "task")
    assert [tag for tag, _ in turns(messages, main_task)] == [
        "in", "out", "in_exiting", "out_exiting", "in", "out_exited"
    ]  # fmt: skip


def test_cancelled_before_its_first_step(session: trace.Session) -> None:
    async def main() -> inviso.Pid:
        task = asyncio.create_task(stubborn())
        task.cancel()
        pid = inviso.pid(task)
        await asyncio.wait([task])
        return pid

    session.process("all", True, ["running", "exiting"])
    pid = asyncio.run(main())
    assert turns(session.drain(), pid) == [("in_exiting", "stubborn"), ("out_exited", 0)]


def test_exit_comes_before_out_exited(session: trace.Session) -> None:
    async def main() -> inviso.Pid:
        task = asyncio.create_task(leaf())
        pid = inviso.pid(task)
        await task
        return pid

    session.process("all", True, ["procs", "exiting", "running"])
    pid = asyncio.run(main())
    assert [str(m[2]) for m in session.drain() if m[1] == pid] == [
        "spawned", "in", "out", "in", "exit", "out_exited"
    ]  # fmt: skip


# threads


def test_a_thread_is_in_when_it_begins_and_out_when_it_ends(session: trace.Session) -> None:
    session.process("new", True, ["running"])
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()
    assert [m[2:] for m in session.drain()] == [("in", ("time", "sleep", 1)), ("out", ("time", "sleep", 1))]


def test_a_thread_class_with_its_own_run(session: trace.Session) -> None:
    class Worker(threading.Thread):
        def run(self) -> None:
            pass

    session.process("new", True, ["running"])
    worker = Worker()
    worker.start()
    worker.join()
    assert turns(session.drain()) == [("in", "Worker.run"), ("out", "Worker.run")]


def test_a_thread_that_exits(session: trace.Session) -> None:
    session.process("new", True, ["procs", "exiting"])
    thread = threading.Thread(target=sys.exit, args=(3,))
    hook, threading.excepthook = threading.excepthook, lambda _: None
    thread.start()
    thread.join()
    threading.excepthook = hook
    assert [str(m[2]) for m in session.drain()] == ["spawned", "exit", "out_exited"]


@pytest.mark.parametrize(
    ("target", "args", "keywords", "place"),
    [
        (functools.partial(print, "", end=""), (), {}, ("builtins", "print", 2)),
        (functools.partial(print, end=""), ("",), {"flush": True}, ("builtins", "print", 2)),
        (functools.partial(functools.partial(print, ""), ""), ("",), {}, ("builtins", "print", 3)),
        ([].append, (1,), {}, ("builtins", "list.append", 1)),
        (functools.partial(strict, []), (), {}, (__name__, "strict", 1)),
    ],
)
def test_the_place_of_a_thread_is_that_of_its_spawn(
    session: trace.Session, target: Any, args: Any, keywords: Any, place: Any
) -> None:
    session.process("new", True, ["running", "procs"])
    before = len(inviso.processes())
    thread = threading.Thread(target=target, args=args, kwargs=keywords)
    thread.start()
    thread.join()
    until(lambda: len(inviso.processes()) <= before)  # 3.11 lets a joiner go on before the thread is gone
    messages = session.drain()
    assert [m[3] for m in messages if m[2] in ("in", "out")] == [place] * 2
    spawned = next(m[4] for m in messages if m[2] == "spawned")
    assert (*spawned[:2], len(spawned[2])) == place


# callbacks of a loop


def test_callbacks_are_in_and_out_of_the_loops_thread(session: trace.Session) -> None:
    called: list[int] = []

    def callback(n: int) -> None:
        called.append(n)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(callback, 1)
        await asyncio.sleep(0.001)

    thread = inviso.self()
    messages = traced(session, main, ("running_procs",))
    assert called == [1]
    found = turns(messages, thread)
    assert found.count(("in", "callback")) == found.count(("out", "callback")) == 1
    assert [tag for tag, _ in found] == ["in", "out"] * (len(found) // 2)
    assert strict(messages)


def test_callbacks_are_no_business_of_running(session: trace.Session) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(list)
        await asyncio.sleep(0.001)

    assert turns(traced(session, main), inviso.self()) == []


def test_transports_and_protocols(session: trace.Session) -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()
        await writer.wait_closed()
        server.close()

    messages = traced(session, main, ("running_procs",))
    assert any("_read_ready" in place for _, place in turns(messages, inviso.self()))
    strict(messages)


# around it


def test_loops_in_threads(make: Callable[..., trace.Session]) -> None:
    session = make(ring_bytes=1 << 23)
    session.process("new", True, ["running"])

    def body(n: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(twice() for _ in range(100)))

        asyncio.run(main())

    in_threads(4, body)
    steps = strict(session.drain())
    assert sorted(steps.values()).count(3) == 400


def test_a_loop_that_is_closed_with_tasks_pending(session: trace.Session) -> None:
    session.process("all", True, ["running", "exiting"])
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(60))
    pid = inviso.pid(task)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    gc.collect()
    assert turns(session.drain(), pid) == [("in", "sleep"), ("out", "sleep"), ("out_exited", 0)]


def test_nothing_stays_behind(session: trace.Session) -> None:
    from _asyncio import Task

    init, run = Task.__init__, asyncio.Handle._run

    async def main() -> None:
        await asyncio.create_task(nothing())

    assert traced(session, main, ("running_procs", "exiting"))
    session.destroy()
    assert Task.__init__ is init
    assert asyncio.Handle._run is run
    if NEW:
        assert sys.monitoring.get_local_events(4, asyncio.Handle._run.__code__) == 0  # type: ignore[attr-defined]
        assert sys.monitoring.get_local_events(3, asyncio.Handle._run.__code__) == 0  # type: ignore[attr-defined]
    asyncio.run(main())


def test_sessions_come_and_go_in_the_midst(make: Callable[..., trace.Session]) -> None:
    async def main() -> None:
        for n in range(30):
            session = make()
            session.process("all", True, ["running", "exiting", "running_procs"])
            tasks = [asyncio.create_task(twice()) for _ in range(5)]
            await asyncio.sleep(0)
            if n % 2:
                session.destroy()
            await asyncio.gather(*tasks)
            if not n % 2:
                assert len(turns(session.drain())) > 10
                session.destroy()

    asyncio.run(main())


def test_names_of_tasks_go_on_as_they_would(session: trace.Session) -> None:
    out = good("""
import asyncio, inviso
from inviso import trace
async def main():
    with trace.session_create("s") as session:
        session.process("all", True, ["running"])
        task = asyncio.create_task(asyncio.sleep(0))
        print(asyncio.current_task().get_name(), task.get_name())
        print(len(asyncio.all_tasks()))
        await task
asyncio.run(main())
""")
    assert out == "Task-1 Task-2\n2\n"


def test_debug_mode_and_errors_as_warnings() -> None:
    text = """
import asyncio, gc, inviso
from inviso import trace
async def child(): await asyncio.sleep(0)
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # of a machine with other work nothing is said
    with trace.session_create("s") as session:
        session.process("all", True, ["running", "exiting", "running_procs", "garbage_collection"])
        await asyncio.gather(*(child() for _ in range(10)))
        gc.collect()
        assert len(session.drain()) > 20
asyncio.run(main(), debug=True)
"""
    assert good(text, flags=["-X", "dev", "-W", "error"]) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_a_step() -> None:
    text = """
import asyncio, os, warnings, inviso
from inviso import trace
warnings.simplefilter("ignore")
session = trace.session_create("s")
session.process("all", True, ["running", "exiting", "running_procs", "garbage_collection"])
async def child():
    pid = os.fork()
    if not pid:
        with trace.session_create("inside") as inside:
            inside.process("all", True, ["running"])
            loop = asyncio.new_event_loop()
            asyncio._set_running_loop(None)
        os._exit(7)
    await asyncio.sleep(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
async def main():
    return await asyncio.create_task(child())
assert asyncio.run(main()) == 7
assert len(session.drain()) > 4
"""
    assert good(text) == ""


def test_at_the_end_of_the_interpreter() -> None:
    text = """
import asyncio, inviso, threading, time
from inviso import trace
session = trace.session_create("s")
session.process("all", True, ["running", "exiting", "running_procs", "garbage_collection"])
async def main(): await asyncio.sleep(0)
asyncio.run(main())
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
loop = asyncio.new_event_loop()
task = loop.create_task(asyncio.sleep(60))
task._log_destroy_pending = False
loop.run_until_complete(asyncio.sleep(0))
"""
    good(text, flags=["-W", "ignore"])


def test_uvloop(session: trace.Session) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        await asyncio.gather(*(twice() for _ in range(10)))

    session.process("all", True, ["running"])
    uvloop.run(main())
    assert list(strict(session.drain()).values()).count(3) >= 10


def test_handles_whose_fields_are_properties(session: trace.Session) -> None:
    class Odd(asyncio.Handle):
        @property
        def _callback(self) -> Any:
            turns([])
            gc.collect()
            return ran.append

        @_callback.setter
        def _callback(self, value: Any) -> None:
            pass

    ran: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for n in range(100):
            loop._ready.append(Odd(ran.append, (n,), loop))  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    session.function((__name__, "_", "_"), True, ["local"])
    traced(session, main, ("running_procs", "call"))
    assert ran == list(range(100))
