"""Calls that are submitted to executors and event loops: one message there, one back, and nothing from inside."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import functools
import gc
import pickle
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good, in_threads
from waiting import until

HERE = __name__


def work(a: Any, b: Any = 2, **more: Any) -> Any:
    return (a, b)


def fails(*args: Any) -> None:
    raise LookupError(*args)


class Stack(list[Any]):
    """A list with an `append` of its own."""

    def append(self, item: Any) -> None:
        raise AssertionError

    @property
    def push(self) -> Any:
        return super().append


class Callable:
    def method(self, a: int) -> int:
        return a

    def __call__(self, a: int, b: int = 2) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a


class Derived(Callable):
    pass


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@logged
def decorated(a: int) -> int:
    return a


@functools.singledispatch
def dispatched(a: int) -> int:
    return a


def renamed(a: int) -> int:
    return a


renamed.__qualname__ = "another"
WRAPPER = (HERE, "logged.<locals>.wrapper")


def traced(session: trace.Session, *flags: str) -> inviso.Pid:
    """Traces messages of all processes, later ones too."""
    session.process("all", True, list(flags or ("send", "receive")))
    return inviso.self()


def told(session: trace.Session) -> list[tuple[Any, ...]]:
    """Messages without ``trace``."""
    return [message[1:] for message in session.drain()]


def test_submit_is_a_message_there_and_one_back(session: trace.Session) -> None:
    me = traced(session)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(work, 1).result() == (1, 2)
        first, second, third, fourth = told(session)
    assert first[:3] == (me, "send", (HERE, "work", [1]))
    assert first[3].kind == "queue"
    worker = second[0]
    assert worker.kind == "thread"
    assert worker != me
    assert second == (worker, "receive", (HERE, "work", [1]))
    assert third == (worker, "send", (1, 2), me)
    assert fourth == (me, "receive", (1, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((work, 1, 2), (HERE, "work", [1, 2])),
        ((functools.partial(work, 1), 2), (HERE, "work", [1, 2])),
        ((functools.partial(functools.partial(work, b=5), 1),), (HERE, "work", [1, {"b": 5}])),
        ((contextvars.copy_context().run, work, 1), (HERE, "work", [1])),
        ((max, 1, 2), ("builtins", "max", [1, 2])),
        ((int, "5"), ("builtins", "int", ["5"])),
        ((str.upper, "a"), ("builtins", "str.upper", ["a"])),
        (([].append, 1), ("builtins", "list.append", [1])),
        ((Stack().extend, [1]), ("builtins", "list.extend", [[1]])),
        ((Stack().push, 1), ("builtins", "list.append", [1])),
        (({}.__setitem__, 1, 2), ("builtins", "dict.__setitem__", [1, 2])),
        ((dict.__setitem__, {}, 1, 2), ("builtins", "dict.__setitem__", [{}, 1, 2])),
        ((dict.fromkeys, [1]), ("builtins", "dict.fromkeys", [[1]])),
        ((collections.OrderedDict.fromkeys, [1]), ("collections", "OrderedDict.fromkeys", [[1]])),
        ((str.maketrans, {}), ("builtins", "str.maketrans", [{}])),
        ((int.mro,), ("builtins", "type.mro", [])),
        ((collections.deque().append, 1), ("collections", "deque.append", [1])),
    ],
)
def test_the_message_is_the_call(session: trace.Session, call: Any, message: Any) -> None:
    traced(session)
    with ThreadPoolExecutor(1) as executor:
        executor.submit(*call).result()
        executor.submit(work, 0, b=1, c=2).result()
    sent = [m[2] for m in told(session) if m[1] == "send" and m[3].kind == "queue"]
    assert sent == [message, (HERE, "work", [0, {"b": 1, "c": 2}])]


@pytest.mark.parametrize(
    ("function", "name", "arity", "bound"),
    [
        (decorated, WRAPPER, 1, None),
        (functools.partial(functools.lru_cache(maxsize=0)(decorated)), WRAPPER, 1, None),
        (dispatched, ("functools", "singledispatch.<locals>.wrapper"), 2, None),
        (renamed, (HERE, "another"), 1, None),
        (Derived(), (HERE, "Callable.__call__"), 3, "Derived"),
        (Derived().method, (HERE, "Callable.method"), 2, "Derived"),
        (Derived.of_class, (HERE, "Callable.of_class"), 2, "type"),
    ],
)
def test_names_and_arities_are_those_of_messages_of_calls(
    session: trace.Session, function: Any, name: tuple[str, str], arity: int, bound: str | None
) -> None:
    async def later() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(function, 1)
        loop.call_soon(function, 1)
        await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.create_task(later())

    flags = ("procs", "running", "running_procs", "send", "call", "arity")
    traced(session, *flags)
    session.process("new", True, list(flags))
    session.function((*name, "_"), True, ["local"])
    inviso.spawn(asyncio.run, main())
    thread = threading.Thread(target=function, args=(1,))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(function, 1).result()
    seen: list[tuple[Any, ...]] = []
    until(lambda: seen.extend(told(session)) or sum(m[1:3] == ("call", (*name, arity)) for m in seen) == 4)  # type: ignore[func-returns-value]
    places = [(m[1], part) for m in seen for part in m[2:] if isinstance(part, tuple)]
    about = [(tag, part) for tag, part in places if part[:2] == name]
    assert {tag for tag, _ in about} == {"call", "in", "out", "spawn", "spawned", "send"}
    for tag, called in about:
        if isinstance(called[2], int):
            assert called[2] == arity, tag
        else:
            first = [repr(argument) for argument in called[2][:-1]]
            assert called[2][-1] == 1
            assert (bound is None and not first) or (len(first) == 1 and bound in first[0])


@pytest.mark.parametrize("how", ["plain", "wrapped"])
def test_a_task_goes_by_what_its_code_is_called(session: trace.Session, how: str) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    def wrapping(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper() -> None:
            await function()

        return wrapper

    async def main() -> None:
        await asyncio.create_task(wrapping(work)() if how == "wrapped" else work())

    traced(session, "procs", "running", "set_on_spawn")
    asyncio.run(main())
    here = test_a_task_goes_by_what_its_code_is_called.__qualname__ + ".<locals>"
    name = f"{here}.wrapping.<locals>.wrapper" if how == "wrapped" else f"{here}.work"
    names = {(m[1], p[1]) for m in told(session) for p in m[2:] if isinstance(p, tuple) and p[0] == HERE}
    assert {("spawn", name), ("spawned", name), ("in", name)} <= names


def test_an_exception_goes_back_as_type_and_arguments(session: trace.Session) -> None:
    me = traced(session)
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(LookupError):
            executor.submit(fails, "x", 3).result()
        back = told(session)[2:]
    assert [m[1:3] for m in back] == [("send", ("LookupError", ("x", 3))), ("receive", ("LookupError", ("x", 3)))]
    assert back[1][0] == me


def test_map_is_a_message_for_each_call(session: trace.Session) -> None:
    me = traced(session)
    with ThreadPoolExecutor(3) as executor:
        assert list(executor.map(work, range(5))) == [(n, 2) for n in range(5)]
    messages = told(session)
    assert [m[2] for m in messages if m[:2] == (me, "send")] == [(HERE, "work", [n]) for n in range(5)]
    assert sorted(m[2] for m in messages if m[:2] == (me, "receive")) == [(n, 2) for n in range(5)]
    assert len(messages) == 20


def test_a_cancelled_call_is_never_received(session: trace.Session) -> None:
    traced(session)
    started, go = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        go.wait(30)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(block)
        assert started.wait(30)
        future = executor.submit(work, "cancelled")
        assert future.cancel()
        go.set()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()
    messages = [m for m in told(session) if m[2] == (HERE, "work", ["cancelled"])]
    assert [m[1] for m in messages] == ["send"]


def test_a_submit_that_fails_sends_nothing(session: trace.Session) -> None:
    traced(session)
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(RuntimeError):
        executor.submit(work, 1)
    assert told(session) == []


def test_a_result_for_a_process_that_has_ended_waits_in_the_future(session: trace.Session) -> None:
    me = traced(session)
    session.process("new", True, ["send", "receive"])
    go = threading.Event()
    futures = []
    pids = []

    def block() -> str:
        go.wait(30)
        return "late"

    with ThreadPoolExecutor(1) as executor:

        def submit() -> None:
            pids.append(inviso.self())
            futures.append(executor.submit(block))

        thread = threading.Thread(target=submit)
        thread.start()
        thread.join()
        until(lambda: not pids[0].is_alive())
        go.set()
        concurrent.futures.wait(futures, 30)
        assert futures[0].result() == "late"
    late = [m for m in told(session) if m[2] == "late"]
    assert [m[1] for m in late] == ["send", "receive"]
    assert late[0][3].kind == "queue"
    assert late[1][0] == me


def test_a_result_for_a_task_whose_end_nobody_watched_waits_in_the_future(session: trace.Session) -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.to_thread(lambda: go.wait(30) and "late"))
        pids.append(inviso.pid(task))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        kept.append(task)

    go = threading.Event()
    pids: list[inviso.Pid] = []
    kept: list[object] = []
    traced(session)
    session.process("new", True, ["send", "receive"])
    asyncio.run(main())
    (late,) = [m for m in told(session) if m[2] == "late"]
    assert (late[1], late[3].kind) == ("send", "queue")
    assert not any(m[0] == pids[0] and m[1] == "receive" for m in told(session))


def test_many_submitters_and_workers(session: trace.Session) -> None:
    traced(session)
    session.process("new", True, ["send", "receive"])
    threads, calls = 6, 60
    pids: dict[int, inviso.Pid] = {}
    with ThreadPoolExecutor(4) as executor:

        def body(n: int) -> None:
            pids[n] = inviso.self()
            futures = [executor.submit(work, (n, i)) for i in range(calls)]
            assert [f.result() for f in futures] == [((n, i), 2) for i in range(calls)]

        in_threads(threads, body)
    messages = told(session)
    names = {pid: n for n, pid in pids.items()}
    requests = [m for m in messages if m[1] == "send" and m[3].kind == "queue"]
    replies = [m for m in messages if m[1] == "send" and m[3].kind == "thread"]
    begun = [m for m in messages if m[1] == "receive" and isinstance(m[2][1], str)]
    arrived = [m for m in messages if m[1] == "receive" and not isinstance(m[2][1], str)]
    every = Counter((n, i) for n in range(threads) for i in range(calls))
    assert Counter(m[2][2][0] for m in requests) == every
    assert Counter(m[2][2][0] for m in begun) == every
    assert Counter(m[2][0] for m in replies) == every
    assert Counter(m[2][0] for m in arrived) == every
    assert len(messages) == 4 * threads * calls
    # by the right processes, and each process's own in its own order
    assert all(names[m[0]] == m[2][2][0][0] for m in requests)
    assert all(names[m[0]] == m[2][0][0] for m in arrived)
    assert all(names[m[3]] == m[2][0][0] for m in replies)
    for n, pid in pids.items():
        assert [m[2][2][0] for m in requests if m[0] == pid] == [(n, i) for i in range(calls)]
    place: dict[Any, list[int]] = {}
    for at, message in enumerate(messages):
        key = message[2][2][0] if isinstance(message[2][1], str) else message[2][0]
        place.setdefault(key, []).append(at)
    assert all(len(at) == 4 and at == sorted(at) for at in place.values())


def test_only_traced_processes_have_messages(session: trace.Session) -> None:
    session.process(inviso.self(), True, ["receive"])
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work, 1).result()
    assert told(session) == [(inviso.self(), "receive", (1, 2))]


def test_a_match_spec_sees_the_sender(session: trace.Session) -> None:
    traced(session)
    me = inviso.self()
    session.recv([(["_", me, ("_", "_", "$1")], [], [("message", "$1")])])
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work, 7).result()
    received = [m for m in told(session) if m[1] == "receive"]
    assert [m[2:] for m in received] == [((HERE, "work", [7]), [7])]


def test_what_the_program_runs_there_is_its_own(session: trace.Session) -> None:
    traced(session)
    mine: concurrent.futures.Future[int] = concurrent.futures.Future()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(mine.set_result, 5).result()
        assert mine.result() == 5
    messages = [m for m in told(session) if m[2] == 5]
    assert [m[1] for m in messages] == ["send", "receive"]


def test_run_in_executor(session: trace.Session) -> None:
    traced(session)
    session.process("new", True, ["send", "receive"])
    pids = []

    async def main() -> None:
        pids.append(inviso.self())
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, work, 1) == (1, 2)
        assert await asyncio.to_thread(work, 3, b=4) == (3, 4)
        with pytest.raises(LookupError):
            await loop.run_in_executor(None, fails)

    asyncio.run(main())
    (task,) = pids
    messages = told(session)
    assert [m[1] for m in messages] == ["send", "receive"] * 6
    assert [m[2] for m in messages if m[:2] == (task, "send")] == [
        (HERE, "work", [1]), (HERE, "work", [3, {"b": 4}]), (HERE, "fails", []),
    ]  # fmt: skip
    assert [m[2] for m in messages if m[:2] == (task, "receive")] == [(1, 2), (3, 4), ("LookupError", ())]


def test_calls_of_a_loop_from_other_threads(session: trace.Session) -> None:
    me = traced(session)
    session.process("new", True, ["send", "receive"])
    threads, calls = 4, 25
    pids: dict[int, inviso.Pid] = {}

    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[tuple[int, int]] = []
        done = asyncio.Event()

        def body(n: int) -> None:
            pids[n] = inviso.self()
            for i in range(calls):
                loop.call_soon_threadsafe(seen.append, (n, i))
                assert asyncio.run_coroutine_threadsafe(double(i), loop).result(30) == 2 * i

        def run() -> None:
            in_threads(threads, body)
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=run).start()
        await done.wait()
        assert len(seen) == threads * calls

    asyncio.run(main())
    messages = told(session)
    for pid in pids.values():
        own = [m[1:] for m in messages if m[0] == pid]
        expected = []
        for i in range(calls):
            n = next(n for n, p in pids.items() if p == pid)
            expected += [
                ("send", ("builtins", "list.append", [(n, i)]), me),
                ("send", (HERE, double.__qualname__, [i]), me),
                ("receive", 2 * i),
            ]
        assert own == expected
    callbacks = Counter(m[2][2][0] for m in messages if m[:2] == (me, "receive") and m[2][1] == "list.append")
    assert callbacks == Counter((n, i) for n in range(threads) for i in range(calls))
    coroutines = Counter(m[2][2][0] for m in messages if m[:2] == (me, "receive") and m[2][1] == double.__qualname__)
    assert coroutines == Counter({i: threads for i in range(calls)})
    # the replies, and the last callback there and back
    assert len(messages) == threads * calls * 6 + 2


def test_a_closed_loop_is_sent_nothing(session: trace.Session) -> None:
    traced(session)
    loop = asyncio.new_event_loop()
    loop.close()

    async def never() -> None: ...

    coroutine = never()
    with pytest.raises(RuntimeError):
        loop.call_soon_threadsafe(print)
    with pytest.raises(RuntimeError):
        asyncio.run_coroutine_threadsafe(coroutine, loop)
    coroutine.close()
    assert told(session) == []


def test_calls_of_the_loop_itself_are_silent(session: trace.Session) -> None:
    traced(session)

    worked: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(worked.append, 1)
        loop.call_later(0.001, worked.append, 2)
        while len(worked) < 2:
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.sleep(0.001), 5)
        await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(3)))

    asyncio.run(main())
    assert told(session) == []


def test_nothing_is_replaced() -> None:
    good("""
import concurrent.futures, concurrent.futures.thread as thread, concurrent.futures._base as base, asyncio, pickle
import inviso
from inviso import trace
def found():
    return [thread.ThreadPoolExecutor.submit, thread._WorkItem.run, thread._WorkItem.__init__, base.Future.set_result,
            base.Future.result, asyncio.run_coroutine_threadsafe, asyncio.events.Handle._run, asyncio.Future.set_result,
            asyncio.Future.result, asyncio.Future.__await__]
before = found()
codes = [getattr(f, "__code__", None) for f in before]
s = trace.session_create("s")
s.process("all", True, ["send", "receive"])
assert all(a is b for a, b in zip(before, found()))
assert all(c is getattr(f, "__code__", None) for c, f in zip(codes, found()))
assert pickle.loads(pickle.dumps(thread.ThreadPoolExecutor.submit)) is before[0]
class Mine(asyncio.Future): pass
class Own(concurrent.futures.Future):
    def set_result(self, value): super().set_result((value, value))
assert isinstance(Mine(loop=asyncio.new_event_loop()), asyncio.Future)
f = Own(); f.set_result(3); assert f.result() == (3, 3)
assert [m[2:3] for m in s.drain()] == [("send",), ("receive",)]
s.destroy()
assert all(a is b for a, b in zip(before, found()))
import sys
if sys.version_info >= (3, 12):
    tools = [sys.monitoring.get_local_events(t, f.__code__) for f in before if hasattr(f, "__code__")
             for t in range(6) if sys.monitoring.get_tool(t)]
    assert not any(tools), tools
async def main():
    f = Mine(); f.set_result(4)
    return await f
assert asyncio.run(main()) == 4
""")


def test_nothing_is_imported_and_what_comes_later_is_seen() -> None:
    text = good("""
import sys
import inviso
from inviso import trace
before = {m for m in sys.modules if m.startswith(("asyncio", "concurrent", "multiprocessing"))}
s = trace.session_create("s")
s.process("all", True, ["send", "receive"])
print({m for m in sys.modules if m.startswith(("asyncio", "concurrent", "multiprocessing"))} - before)
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as executor:
    executor.submit(len, "abc").result()
print([m[2:4] for m in s.drain() if m[1] == inviso.self()])
""")
    assert text == "set()\n[('send', ('builtins', 'len', ['abc'])), ('receive', 3)]\n"


def test_a_pickled_message_is_plain(session: trace.Session) -> None:
    traced(session)
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work, 1).result()
    messages = [m[:4] for m in session.drain()]
    assert pickle.loads(pickle.dumps([m[3] for m in messages])) == [m[3] for m in messages]


def test_a_forked_child_is_silent_and_works() -> None:
    good("""
import os, asyncio, concurrent.futures, sys
if not hasattr(os, "fork"):
    sys.exit()
import inviso, warnings
from inviso import trace
warnings.simplefilter("ignore")
s = trace.session_create("s")
s.process("all", True, ["send", "receive"])
async def main():
    f = asyncio.get_running_loop().create_future()
    f.set_result(1)
    return await f, f.result(), await asyncio.to_thread(len, "ab")
child = os.fork()
if child == 0:
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert executor.submit(len, "abc").result() == 3
    assert asyncio.run(main()) == (1, 1, 2)
    t = trace.session_create("t")
    t.process("all", True, ["send", "receive"])
    assert asyncio.run(main()) == (1, 1, 2)
    assert len(t.drain()) >= 4
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert asyncio.run(main()) == (1, 1, 2)
assert len(s.drain()) >= 4
""")


class Hostile:
    """An object on which any call ends the test."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise SystemExit("repr")

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)

    def __iter__(self) -> Any:
        raise SystemExit("iter")


class HostileError(Exception):
    args = property(lambda self: (_ for _ in ()).throw(SystemExit("args")))  # type: ignore[assignment]

    def __str__(self) -> str:
        raise SystemExit("str")


def test_none_of_the_programs_code_runs(session: trace.Session) -> None:
    traced(session)
    hostile = Hostile()

    def raises(*_: Any) -> None:
        raise HostileError(1)

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(work, hostile, b=hostile).result()[0] is hostile
        assert type(executor.submit(raises, hostile).exception()) is HostileError
    sent = [m[2] for m in told(session) if m[1] == "send"]
    assert isinstance(sent[0][2][0], inviso.Opaque)
    assert sent[3] == (f"{HERE}.HostileError", (1,))


def test_objects_are_not_kept(session: trace.Session) -> None:
    traced(session)

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work, thing).result()
        del thing
        executor.submit(work, 1).result()
    gc.collect()
    assert gone() is None
    assert len(told(session)) == 8


def test_an_executor_of_the_programs_own(session: trace.Session) -> None:
    me = traced(session)

    class Own(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
            return super().submit(function, "first", *args, **keywords)

    with Own(1) as executor:
        assert executor.submit(work, 2).result() == ("first", 2)
    messages = told(session)
    assert [m[1] for m in messages] == ["send", "receive"] * 2
    assert messages[0][:3] == (me, "send", (HERE, "work", ["first", 2]))


def test_uvloop(session: trace.Session) -> None:
    uvloop = pytest.importorskip("uvloop")
    traced(session)
    session.process("new", True, ["send", "receive"])
    pids = []

    async def double(n: int) -> int:
        return 2 * n

    async def main() -> None:
        pids.append(inviso.self())
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, work, 1) == (1, 2)
        future = loop.create_future()
        loop.call_soon(lambda: future.set_result("set"))
        assert await future == "set"
        call = asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(double(21), loop).result())
        assert await call == 42

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    messages = told(session)
    assert Counter(m[1] for m in messages) == {"send": 7, "receive": 7}
    assert [m[2] for m in messages if m[:2] == (pids[0], "receive")] == [(1, 2), "set", 42]
