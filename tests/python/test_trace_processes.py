"""Process flags, their inheritance, and the messages spawn, spawned and exit."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good, local, mfa, own
from waiting import until


def work(n: int = 0) -> int:
    return n


async def step(n: int = 0) -> int:
    work(n)
    await asyncio.sleep(0)
    return work(n)


class Waiting:
    """A thread that waits for a job."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.job: Callable[[], Any] = work
        self.thread = threading.Thread(target=self.run, name="waiting")
        self.thread.start()
        assert self.begun.wait(30)
        self.pid = inviso.pid(self.thread)

    def run(self) -> None:
        self.begun.set()
        self.go.wait(30)
        self.job()

    def finish(self) -> None:
        self.go.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def earlier_threads_have_ended() -> None:
    """``Thread.join`` returns a moment before the thread's process ends, which would be seen by the next test."""
    until(lambda: sum(pid.kind == "thread" for pid in inviso.processes()) <= threading.active_count())


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    thread = Waiting()
    yield thread
    thread.finish()


def procs(session: trace.Session, pid: Any = "all", *more: str) -> None:
    session.process(pid, True, ["procs", *more])


def tags(messages: list[Any]) -> list[Any]:
    """``(pid, tag, rest)`` of messages about processes, without those about the loop's own helper tasks."""
    helpers = {m[3] for m in messages if m[2] == "spawn" and m[4][0].startswith("asyncio.")}
    return [
        (m[1], str(m[2]), *m[3:]) for m in messages if m[1] not in helpers and not (m[2] == "spawn" and m[3] in helpers)
    ]


# which processes


def test_one_process_only(session: trace.Session, waiting: Waiting) -> None:
    local(session, work)
    assert session.process(waiting.pid, True, ["call"]) == 1
    work(1)
    waiting.finish()
    assert [(m[1], m[3][2]) for m in session.drain()] == [(waiting.pid, [0])]


def test_a_group_without_flags_matches_none(session: trace.Session) -> None:
    for how in (True, False):
        assert [session.process(who, how, []) for who in ("all", "existing", "new", inviso.self())] == [0, 0, 0, 1]
        assert [session.port(who, how, []) for who in ("all", "existing", "new")] == [0, 0, 0]
    assert session.process("existing", False, ["call"]) >= 1


def test_existing_takes_those_that_are_there(session: trace.Session, waiting: Waiting) -> None:
    local(session, work)
    most = len(inviso.processes())  # messages of earlier tests may come meanwhile
    matched = session.process("existing", True, ["call"])
    assert len(inviso.processes()) <= matched <= most
    assert session.info(waiting.pid, "flags") == ("flags", ["call"])
    assert session.info("new", "flags") == ("flags", [])
    later = threading.Thread(target=work, args=(5,))
    later.start()
    later.join()
    work(1)
    waiting.finish()
    assert [m[3][2] for m in session.drain()] == [[1], [0]]


def test_new_takes_those_to_come(session: trace.Session, waiting: Waiting) -> None:
    local(session, work)
    assert session.process("new", True, ["call"]) == 0
    assert session.info("new", "flags") == session.info("new_processes", "flags") == ("flags", ["call"])
    assert session.info("new_ports", "flags") == ("flags", [])
    assert session.info(waiting.pid, "flags") == ("flags", [])
    later = threading.Thread(target=work, args=(5,))
    later.start()
    later.join()
    waiting.finish()
    work(1)
    assert [m[3][2] for m in session.drain()] == [[5]]


def test_all_takes_both_and_gives_both_back(session: trace.Session, waiting: Waiting) -> None:
    local(session, work)
    most = len(inviso.processes())  # messages of earlier tests may come meanwhile
    matched = session.process("all", True, ["call", "arity"])
    assert len(inviso.processes()) <= matched <= most
    assert session.info(waiting.pid, "flags") == session.info("new", "flags")
    later = threading.Thread(target=work)
    later.start()
    later.join()
    waiting.finish()
    work()
    assert len(session.drain()) == 3
    session.process("all", False, ["call"])
    work()
    assert session.drain() == []
    assert session.info(inviso.self(), "flags") == ("flags", ["arity"])
    session.process("all", False, ["all"])
    assert session.info(inviso.self(), "flags") == session.info("new", "flags") == ("flags", [])


def test_threads_that_existed_before_the_session_are_known(waiting: Waiting) -> None:
    assert waiting.pid in inviso.processes()
    assert waiting.pid.name == "waiting"
    with trace.session_create("late") as session:
        session.function(mfa(work), True, ["call_time"])
        session.process("existing", True, ["call"])
        waiting.finish()
        ((pid, calls, _, _),) = session.info(mfa(work), "call_time")[1]
        assert (pid, calls) == (waiting.pid, 1)


def test_a_tracer_is_never_traced_by_its_own_session(make: Any) -> None:
    seen: list[Any] = []

    def tracer(message: Any) -> None:
        work(99)
        seen.append(message)

    session = make("own tracer", tracer)
    local(session, work)
    session.process("all", True, ["call"])
    work(1)
    assert session.delivered().wait(30)
    work(2)
    assert session.delivered().wait(30)
    assert [m[3][2] for m in seen] == [[1], [2]]


def test_a_tracer_of_another_session_is_no_new_process(make: Any, session: trace.Session) -> None:
    flags = ["procs", "running", "exiting"]
    for who in ("all", "new"):
        session.process(who, True, flags)
    before = set(inviso.processes())
    other = make("other", lambda message: None)
    (pid,) = set(inviso.processes()) - before
    assert session.info(pid, "flags") == ("flags", [])
    other.destroy()
    until(lambda: not pid.is_alive())
    assert session.drain() == []


def test_threads_that_threading_does_not_know_are_processes(session: trace.Session) -> None:
    import _thread

    done = threading.Lock()
    done.acquire()

    def bare() -> None:
        work(7)
        done.release()

    local(session, work)
    session.process("all", True, ["call"])
    _thread.start_new_thread(bare, ())
    assert done.acquire(timeout=30)
    (message,) = session.drain()
    assert message[3][2] == [7]
    assert message[1] != inviso.self()
    assert message[1].kind == "thread"


# inheritance


@pytest.mark.parametrize(("flag", "generations"), [("set_on_spawn", 3), ("set_on_first_spawn", 2), (None, 1)])
def test_flags_are_inherited(session: trace.Session, flag: str | None, generations: int) -> None:
    def live(n: int) -> None:
        work(n)
        if n < 3:
            child = threading.Thread(target=live, args=(n + 1,))
            child.start()
            child.join()

    local(session, work)
    own(session, ["call", *filter(None, [flag])])
    live(1)
    assert [m[3][2] for m in session.drain()] == [[n] for n in range(1, generations + 1)]
    assert ("set_on_spawn" in session.info(inviso.self(), "flags")[1]) == (flag == "set_on_spawn")


@pytest.mark.parametrize(("flag", "generations"), [("set_on_spawn", 3), ("set_on_first_spawn", 2)])
def test_flags_are_inherited_by_tasks(session: trace.Session, flag: str, generations: int) -> None:
    async def live(n: int) -> None:
        work(n)
        if n < 3:
            await asyncio.create_task(live(n + 1))

    local(session, work)

    async def main() -> None:
        own(session, ["call", flag])
        await live(1)

    asyncio.run(main())
    assert [m[3][2] for m in session.drain()] == [[n] for n in range(1, generations + 1)]


def test_first_spawn_is_the_first_only(session: trace.Session) -> None:
    local(session, work)
    own(session, ["call", "set_on_first_spawn"])
    for n in range(3):
        child = threading.Thread(target=work, args=(n,))
        child.start()
        child.join()
    assert [m[3][2] for m in session.drain()] == [[0]]
    assert session.info(inviso.self(), "flags") == ("flags", ["call"])


# spawn, spawned, exit


def test_a_thread(session: trace.Session) -> None:
    procs(session)
    me = inviso.self()
    child = threading.Thread(target=work, args=(1,))
    child.start()
    child.join()
    sent = session.drain()
    pid = sent[0][3]
    run = (__name__, "work", [1])
    assert sorted(sent, key=lambda m: m[1]) == [
        ("trace", me, "spawn", pid, run), ("trace", pid, "spawned", me, run), ("trace", pid, "exit", "normal")
    ]  # fmt: skip


def test_inviso_spawn(session: trace.Session) -> None:
    procs(session)
    me = inviso.self()
    pid = inviso.spawn(lambda: inviso.send(me, "done"))
    inviso.receive("done", 30)
    sent = session.drain()
    while not any(m[2] == "exit" for m in sent):
        sent.append(session.receive(30))
    assert {(m[1], m[2]) for m in sent} == {(me, "spawn"), (pid, "spawned"), (pid, "exit")}
    until(lambda: not pid.is_alive())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("x", 1), ("ValueError", ["x", 1])), (SystemExit(3), ("SystemExit", [3])),
        (KeyError(), ("KeyError", []))
    ],
)  # fmt: skip
def test_exit_reasons_of_threads(session: trace.Session, error: BaseException, reason: Any) -> None:
    def dies() -> None:
        raise error

    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        procs(session)
        child = threading.Thread(target=dies)
        child.start()
        child.join()
    finally:
        threading.excepthook = hook
    (told,) = [m[3] for m in session.drain() if m[2] == "exit"]
    if isinstance(error, SystemExit):
        assert told == "normal" or (told[0], list(told[1])) == reason
    else:
        assert (told[0], list(told[1])) == reason


def test_tasks(session: trace.Session) -> None:
    async def main() -> int:
        task = asyncio.create_task(step(5), name="five")
        pids.append(inviso.self())
        pids.append(inviso.pid(task))
        assert (pids[0].kind, pids[1].kind, pids[1].name) == ("task", "task", "five")
        return await task

    pids: list[inviso.Pid] = []
    procs(session)
    assert asyncio.run(main()) == 5
    me, (parent, child) = inviso.self(), pids
    run = (__name__, "step", [5])
    top = (__name__, "test_tasks.<locals>.main", [])
    assert tags(session.drain()) == [
        (me, "spawn", parent, top), (parent, "spawned", me, top), (parent, "spawn", child, run),
        (child, "spawned", parent, run), (child, "exit", "normal"), (parent, "exit", "normal"),
    ]  # fmt: skip


class Derived(asyncio.Task[Any]):
    pass


class Further(Derived):
    __slots__ = ("mine",)

    def get_name(self) -> str:
        raise RuntimeError("nobody asks")


class Initialised(asyncio.Task[Any]):
    def __init__(self, coro: Any, **options: Any) -> None:
        self.options = options
        super().__init__(coro, **options)


class Mixed(Initialised, Further):
    def __init__(self, coro: Any, **options: Any) -> None:
        asyncio.Task.__init__(self, coro, **options)


def told_of_tasks(make: Callable[..., Any], how: str) -> list[Any]:
    """Messages about tasks that a factory makes by ``make``; pids by the order of their first message."""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("no")

    async def main() -> None:
        made = make() if how == "while traced" else make
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **options: made(coro, loop=loop, **options))
        one = asyncio.create_task(step(1))
        pid = inviso.pid(one)
        assert session.info(pid, "flags")[1] == session.info(inviso.self(), "flags")[1]
        await asyncio.wait([one])
        assert [m[2] for m in session.drain() if m[1] == pid][-2:] == ["exit", "out_exited"]
        assert not pid.is_alive()
        async with asyncio.TaskGroup() as group:
            group.create_task(step(2))
        failing, cancelled = asyncio.create_task(fails()), asyncio.create_task(fails())
        await asyncio.sleep(0)
        cancelled.cancel("enough")
        await asyncio.gather(failing, cancelled, return_exceptions=True)

    with trace.session_create("told") as session:
        session.process(inviso.self(), True, ["procs", "exiting", "running", "set_on_spawn"])
        asyncio.run(main())
        sent = session.drain()
    pids: dict[inviso.Pid, int] = {}

    def numbered(part: Any) -> Any:
        if isinstance(part, tuple) and part[0].startswith("asyncio."):
            return part[:2]  # not with which loop
        return pids.setdefault(part, len(pids)) if isinstance(part, inviso.Pid) else part

    return [tuple(numbered(part) for part in m[1:]) for m in sent]


@pytest.mark.parametrize("make", [Derived, Further, Initialised, Mixed], ids=lambda make: make.__name__)
def test_tasks_of_derived_classes_are_told_as_others(make: Any) -> None:
    told = told_of_tasks(asyncio.Task, "before")
    assert {m[1] for m in told} >= {"spawn", "spawned", "link", "getting_linked", "exit", "in", "out", "out_exited"}
    assert told_of_tasks(make, "before") == told


@pytest.mark.parametrize("bases", [(asyncio.Task,), (Derived,), (Initialised,)], ids=lambda bases: bases[0].__name__)
def test_so_are_those_of_classes_that_are_made_later(bases: Any) -> None:
    assert told_of_tasks(lambda: type("Later", bases, {}), "while traced") == told_of_tasks(asyncio.Task, "before")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_whose_own_initialiser_raises(session: trace.Session, when: str) -> None:
    class Raising(asyncio.Task[Any]):
        def __init__(self, coro: Any, **options: Any) -> None:
            if when == "after":
                super().__init__(coro, **options)
            raise LookupError("mine")

    async def main() -> None:
        coroutine = step(7)
        with pytest.raises(LookupError, match="mine"):
            Raising(coroutine, loop=asyncio.get_running_loop())
        for _ in range(3):
            await asyncio.sleep(0)
        coroutine.close()

    procs(session)
    asyncio.run(main())
    run = (__name__, "step", [7])
    sent = tags(session.drain())
    pids = [m[2] for m in sent if m[1] == "spawn" and m[3] == run]
    assert len(pids) == (when == "after")  # then it is there, and runs
    for pid in pids:
        assert [m[1:] for m in sent if m[0] == pid] == [("spawned", sent[0][2], run), ("exit", "normal")]
        assert not pid.is_alive()


def test_exit_reasons_of_tasks(session: trace.Session) -> None:
    async def fails() -> None:
        raise LookupError("no")

    async def divides() -> None:
        1 // len("")

    async def waits() -> None:
        await asyncio.sleep(100)

    async def fails_twice() -> None:
        raise ExceptionGroup("both", [LookupError()])

    async def main() -> None:
        done = [asyncio.create_task(fails(), name="fails"), asyncio.create_task(waits(), name="cancelled")]
        done.append(asyncio.create_task(divides(), name="divides"))
        done.append(asyncio.create_task(fails_twice(), name="fails twice"))
        names.update({inviso.pid(t): t.get_name() for t in done})
        await asyncio.sleep(0)
        done[1].cancel()
        await asyncio.gather(*done, return_exceptions=True)

    names: dict[inviso.Pid, str] = {}
    procs(session)
    asyncio.run(main())
    reasons = {names[m[0]]: m[2] for m in tags(session.drain()) if m[1] == "exit" and m[0] in names}
    assert (reasons["fails"][0], list(reasons["fails"][1])) == ("LookupError", ["no"])
    assert reasons["divides"][0] == "ZeroDivisionError"
    assert len(reasons["divides"][1]) == 1
    assert reasons["cancelled"][0].endswith("CancelledError")
    assert (reasons["fails twice"][0], reasons["fails twice"][1][0]) == ("ExceptionGroup", "both")


@pytest.mark.parametrize("message", [(), ("late",)])
def test_a_task_that_is_cancelled_in_its_last_step_ends_by_that(session: trace.Session, message: Any) -> None:
    async def last() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel(*message)
        return 3

    async def main() -> None:
        task = asyncio.create_task(last())
        pids.append(inviso.pid(task))
        inviso.monitor(task)
        await asyncio.wait([task])
        assert task.cancelled()
        down.append(inviso.receive(timeout=10)[4])

    pids: list[inviso.Pid] = []
    down: list[Any] = []
    procs(session)
    asyncio.run(main())
    (reason,) = [m[2] for m in tags(session.drain()) if m[:2] == (pids[0], "exit")]
    assert reason == down[0] == ("asyncio.exceptions.CancelledError", message)


def test_a_task_cancelled_before_its_first_step_ends(session: trace.Session) -> None:
    async def main() -> None:
        task = asyncio.create_task(step())
        pids.append(inviso.pid(task))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    pids: list[inviso.Pid] = []
    procs(session)
    asyncio.run(main())
    about = [m[1] for m in tags(session.drain()) if m[0] == pids[0]]
    assert about[-1] == "exit"
    assert not pids[0].is_alive()


def test_a_task_of_a_coroutine_that_was_closed_before(session: trace.Session) -> None:
    async def main() -> None:
        closed = step()
        closed.close()
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await asyncio.Task(closed)
        await asyncio.create_task(step())

    procs(session)
    asyncio.run(main())
    assert [m[1] for m in tags(session.drain()) if m[1] == "spawn"], "the task after it is still seen"


def test_a_task_group_and_gather(session: trace.Session) -> None:
    async def main() -> None:
        me.append(inviso.self())
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(step(n))
        await asyncio.gather(step(3), step(4))

    me: list[inviso.Pid] = []
    local(session, work)
    procs(session, "all", "call")
    asyncio.run(main())
    sent = session.drain()
    children = [m[3] for m in sent if m[2] == "spawn" and m[1] == me[0]]
    assert len(set(children)) == 5
    calls = [(m[1], m[3][2][0]) for m in sent if m[2] == "call"]
    assert sorted(calls, key=lambda c: c[1]) == [(pid, n) for n, pid in enumerate(children) for _ in range(2)]
    assert sorted(m[1] for m in sent if m[2] == "exit" and m[1] in children) == sorted(children)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks(session: trace.Session) -> None:
    async def child(n: int) -> int:
        work(n)
        seen.append(inviso.self())
        await asyncio.sleep(0)
        work(n)
        assert inviso.self() == seen[-1]
        return n

    async def ends_at_once(n: int) -> int:
        seen.append(inviso.self())
        return work(n)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        here = inviso.self()
        await asyncio.create_task(child(1))
        await asyncio.create_task(ends_at_once(2))
        assert inviso.self() == here
        seen.append(here)

    seen: list[inviso.Pid] = []
    local(session, work)
    procs(session, "all", "call")
    asyncio.run(main())
    sent = tags(session.drain())
    first, second, parent = seen
    assert len({first, second, parent}) == 3
    assert [(m[0], m[2][2]) for m in sent if m[1] == "call"] == [(first, [1]), (first, [1]), (second, [2])]
    for pid in (first, second):
        assert [m[1] for m in sent if m[0] == pid and m[1] != "call"] == ["spawned", "exit"]
        assert [m[0] for m in sent if m[1] == "spawn" and m[2] == pid] == [parent]


def test_to_thread_and_executors(session: trace.Session) -> None:
    async def main() -> None:
        assert await asyncio.to_thread(work, 1) == 1
        with ThreadPoolExecutor(1) as pool:
            assert await asyncio.get_running_loop().run_in_executor(pool, work, 2) == 2

    local(session, work)
    session.process("all", True, ["call"])
    asyncio.run(main())
    sent = session.drain()
    assert [m[3][2] for m in sent] == [[1], [2]]
    assert {m[1].kind for m in sent} == {"thread"}
    assert inviso.self() not in {m[1] for m in sent}


def test_several_loops_in_several_threads(session: trace.Session) -> None:
    async def main(n: int) -> None:
        pids.add(inviso.self())
        await asyncio.gather(*(step(n) for _ in range(10)))

    pids: set[inviso.Pid] = set()
    session.function(mfa(work), True, ["call_count", "call_time"])
    session.process("all", True, ["call"])
    threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(pids) == 3
    times = session.info(mfa(work), "call_time")[1]
    assert {pid.kind for pid, *_ in times} == {"task"}
    assert [calls for _, calls, *_ in times] == [2] * 30
    assert session.info(mfa(work), "call_count")[1] == 60


def test_callbacks_of_a_loop_belong_to_its_thread(session: trace.Session) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(lambda: done.set_result(work(3)))
        await done
        work(4)
        assert inviso.self().kind == "task"

    local(session, work)
    session.process("all", True, ["call"])
    asyncio.run(main())
    (callback, task) = session.drain()
    assert callback[1] == inviso.self()
    assert task[1].kind == "task"


def test_names_of_what_threads_run(session: trace.Session) -> None:
    class Own(threading.Thread):
        def run(self) -> None:
            work()

    class Method:
        def go(self, n: int) -> None:
            work(n)

    procs(session)
    for thread in (Own(), threading.Thread(target=Method().go, args=(1,)), threading.Thread(target=len, args=((),))):
        thread.start()
        thread.join()
    runs = [m[4] for m in session.drain() if m[2] == "spawn"]
    assert [run[1].rsplit("<locals>.")[-1] for run in runs] == ["Own.run", "Method.go", "len"]


class Runner(threading.Thread):
    def run(self) -> None:
        work()


def test_a_thread_whose_class_says_what_it_runs_is_its_argument() -> None:
    """As with any bound method, the spawned function is the called one."""
    with trace.session_create("runner", None) as session:
        session.process(inviso.self(), True, ["procs", "set_on_spawn", "call"])
        session.function(("test_trace_processes", "Runner.run", 1), True, ["local"])
        thread = Runner()
        thread.start()
        thread.join()
        shown = {
            m[2]: m[3] if m[2] == "call" else m[4] for m in session.drain() if m[2] in ("spawn", "spawned", "call")
        }
    assert set(shown) == {"spawn", "spawned", "call"}
    module, function, arguments = shown["call"]
    assert (module, function, len(arguments)) == (Runner.__module__, "Runner.run", 1)
    assert shown["spawn"] == shown["spawned"] == shown["call"]


def test_a_thread_that_cannot_start_is_no_process() -> None:
    text = """
import threading, resource, inviso
from inviso import trace
from waiting import until
def f(): pass
with trace.session_create("s") as s:
    s.process("all", True, ["procs"])
    t = threading.Thread(target=f)
    t.start(); t.join()
    try: t.start()
    except RuntimeError as e: pass
    until(lambda: len(inviso.processes()) == 1)  # 3.11 lets a joiner go on before the thread is gone
    sent = s.drain()
    assert sorted(m[2] for m in sent) == ["exit", "spawn", "spawned"], sent
print("ok")
"""
    assert good(text) == "ok\n"


STARTER = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"


@pytest.mark.parametrize("link", [False, True])
def test_a_thread_that_the_system_refuses_ends_at_once(
    session: trace.Session, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    me, before = inviso.self(), set(inviso.processes())
    session.process(me, True, ["procs", "set_on_spawn"])
    monkeypatch.setattr(threading, STARTER, refuse)
    with pytest.raises(RuntimeError, match="start new"):
        inviso.spawn(print, link=link, monitor=True)
    monkeypatch.undo()
    messages = session.drain()
    child = messages[0][3]
    assert messages[0] == ("trace", me, "spawn", child, ("builtins", "print", []))
    assert ("trace", child, "exit", ("RuntimeError", ("can't start new thread",))) in messages
    # a process that has the exception has no signal, nor a message
    told = [message[2:] for message in messages[1:] if message[1] == me]
    assert told == ([("link", child), ("getting_unlinked", child)] if link else [])
    assert set(inviso.processes()) == before
    assert not child.is_alive()
    assert inviso.peek() == []


def test_a_thread_that_was_never_made_is_no_process(session: trace.Session) -> None:
    class Unmade(threading.Thread):
        def __init__(self) -> None:
            pass

    session.process("all", True, ["procs"])
    with pytest.raises(RuntimeError):
        Unmade().start()
    assert session.drain() == []


def test_a_start_that_is_broken_off_is_a_start(session: trace.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Callable[[], Any]] = []
    real = getattr(threading, STARTER)

    def late(*args: Any, **more: Any) -> None:
        starts.append(lambda: real(*args, **more))

    def interrupted() -> bool:
        raise KeyboardInterrupt

    thread = threading.Thread(target=int)
    before = set(inviso.processes())
    session.process("all", True, ["procs"])
    monkeypatch.setattr(threading, STARTER, late)
    monkeypatch.setattr(thread._started, "wait", interrupted)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        thread.start()
    monkeypatch.undo()
    starts[0]()
    until(thread._started.is_set)  # type: ignore[attr-defined]
    thread.join()
    until(lambda: set(inviso.processes()) <= before)
    first, *rest = session.drain()
    assert first[2] == "spawn"
    told = [message[2:4] for message in rest if message[1] == first[3]]
    assert told == [("spawned", inviso.self()), ("exit", "normal")]


@pytest.mark.parametrize("flag", [None, "send", "running"])
def test_a_task_that_is_done_has_ended_whatever_is_traced(session: trace.Session, flag: str | None) -> None:
    class Derived(asyncio.Task[Any]):
        def done(self) -> bool:
            asked.append(self)
            return super().done()

    async def main() -> None:
        for make in (asyncio.create_task, Derived):
            task, later = make(step()), make(step())
            pid = inviso.pid(task)
            inviso.monitor(inviso.self())  # tasks are not watched for that
            assert pid.is_alive() and pid in inviso.processes()
            await asyncio.gather(task, later)
            asked.clear()
            assert not pid.is_alive() and pid not in inviso.processes() and pid.name == task.get_name()
            assert session.info(pid, "flags") is None
            with pytest.raises(inviso.BadArg):
                session.process(pid, True, ["send"])
            with pytest.raises(inviso.BadArg):
                inviso.pid(later)
            session.drain()
            assert inviso.send(pid, "late") == "late"
            if flag == "send":
                assert [m[2] for m in session.drain()] == ["send_to_non_existing_process"]
            reference = inviso.monitor(pid)
            assert inviso.receive(("DOWN", reference, "_", "_", "_"), timeout=30)[4] == "noproc"
            assert not asked, "the program's own code is not asked"

    async def count() -> tuple[int, int]:
        before = session.process("existing", True, ["call"])
        task = asyncio.create_task(step())
        inviso.pid(task)
        await task
        return before, session.process("existing", True, ["call"])

    asked: list[Any] = []
    if flag is not None:
        session.process("all", True, [flag])
    before, after = asyncio.run(count())
    assert before == after
    asyncio.run(main())


class Awaitable(Coroutine[Any, Any, Any]):
    """An object that runs a coroutine, of a class that is not one of Python's own."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self.inner = inner

    def send(self, value: Any) -> Any:
        return self.inner.send(value)

    def throw(self, *error: Any) -> Any:
        return self.inner.throw(*error)

    def close(self) -> None:
        self.inner.close()

    def __await__(self) -> Any:
        return self.inner.__await__()


@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=pytest.mark.skipif("sys.version_info < (3, 12)"))])
def test_tasks_of_objects_that_are_no_coroutines(session: trace.Session, eager: bool) -> None:
    async def fails() -> None:
        raise LookupError("no")

    async def waits() -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        if eager:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        me.append(inviso.self())
        session.process(me[0], True, ["procs", "exiting", "set_on_spawn"])
        for body in (step, fails, waits):
            task = asyncio.create_task(Awaitable(body()))
            if not task.done():
                reference = inviso.monitor(inviso.pid(task))
            await asyncio.sleep(0)
            if body is waits:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not eager or body is not fails:
                told.append((await inviso.areceive(("DOWN", reference, "_", "_", "_"), timeout=30))[4])
        with pytest.raises(TypeError, match="coroutine was expected"):
            asyncio.Task(42)  # type: ignore[arg-type]

    me: list[inviso.Pid] = []
    told: list[Any] = []
    asyncio.run(main())
    sent = session.drain()
    children = [m[3] for m in sent if m[2] == "spawn" and m[1] == me[0]]
    assert [m[4] for m in sent if m[2] == "spawn" and m[1] == me[0]] == [(__name__, "Awaitable", [])] * 3
    reasons = ["normal", ("LookupError", ("no",)), ("asyncio.exceptions.CancelledError", ())]
    assert [m[3] for m in sent if m[2] == "exit" and m[1] in children] == reasons
    assert told == (reasons if not eager else [reasons[0], reasons[2]])
    for child in children:
        tags = [str(m[2]) for m in sent if m[1] == child and m[2] != "in_exiting"]
        assert tags == ["spawned", "exit", "out_exited"]


def test_such_a_task_that_waits_already_is_seen_to_end(session: trace.Session) -> None:
    from subjects.consistent import same, standard

    async def main() -> None:
        task = asyncio.create_task(Awaitable(step()))
        pid = inviso.pid(task)
        await asyncio.sleep(0)
        session.process(pid, True, ["procs"])
        await task
        assert [m[1:] for m in session.drain()] == [(pid, "exit", "normal")]

    before = standard()
    asyncio.run(main())
    session.destroy()
    same(before)


@pytest.mark.parametrize("kind", ["asyncio's own", "derived"])
def test_a_task_that_is_destroyed_while_it_waits_ends(session: trace.Session, kind: str) -> None:
    class Derived(asyncio.Task[Any]):
        pass

    loop = asyncio.new_event_loop()
    session.process("new", True, ["procs", "exiting"])
    task = (asyncio.Task if kind == "asyncio's own" else Derived)(asyncio.sleep(60), loop=loop)
    pid = inviso.pid(task)
    assert inviso.register("waiter", pid)
    reference = inviso.monitor(pid)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    session.drain()
    del task
    gc.collect()
    assert not pid.is_alive() and inviso.whereis("waiter") is None
    assert inviso.receive(("DOWN", reference, "_", "_", "_"), timeout=30)[4] == "normal"
    sent = [m[2:] for m in session.drain() if m[1] == pid]
    assert sent == [("exit", "normal"), ("unregister", "waiter"), ("out_exited", 0)]


def test_a_task_that_is_destroyed_in_the_midst_of_something_else_is_told_soon(session: trace.Session) -> None:
    class Destroys(asyncio.Task[Any]):
        def get_loop(self) -> Any:  # an exit signal asks for it
            waiting.clear()
            gc.collect()
            return super().get_loop()

    async def main() -> None:
        task = Destroys(asyncio.sleep(60))
        signalled = inviso.pid(task)
        await asyncio.sleep(0)
        inviso.exit(signalled, "stop")
        await asyncio.wait([task])

    loop = asyncio.new_event_loop()
    session.process("new", True, ["procs", "exiting"])
    waiting = [loop.create_task(asyncio.sleep(60))]
    pid = inviso.pid(waiting[0])
    waiting[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    assert inviso.register("waiter", pid)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    session.drain()
    asyncio.run(main())
    sent = [m[2:] for m in session.drain() if m[1] == pid]
    assert sent == [("exit", "normal"), ("unregister", "waiter"), ("out_exited", 0)]


@pytest.mark.parametrize("kind", ["asyncio's own", "derived", "with a finaliser"])
def test_the_end_of_a_task_of_any_class_is_seen(session: trace.Session, kind: str) -> None:
    class Derived(asyncio.Task[Any]):
        if kind == "with a finaliser":

            def __del__(self) -> None:
                finalised.append(self.get_name())

    async def main() -> None:
        make = asyncio.Task if kind == "asyncio's own" else Derived
        for n in range(5):
            task = make(step(), name=f"task {n}")
            pids.append(inviso.pid(task))
            await task
            del task

    finalised: list[str] = []
    pids: list[inviso.Pid] = []
    procs(session)
    asyncio.run(main())
    gc.collect()
    assert not any(pid.is_alive() for pid in pids) and len(set(pids)) == 5
    assert [pid.name for pid in pids] == [f"task {n}" for n in range(5)]
    assert len(finalised) == (5 if kind == "with a finaliser" else 0)
    session.destroy()
    pids.clear()
    asyncio.run(main())
    gc.collect()
    assert not any(pid.is_alive() for pid in pids)


def test_tasks_that_live_on_after_the_session_are_seen_to_end() -> None:
    from subjects.consistent import same, standard

    async def main() -> inviso.Pid:
        before = standard()
        gate = asyncio.Event()
        with trace.session_create("s") as session:
            procs(session)
            task = asyncio.create_task(gate.wait())
            await asyncio.sleep(0)
            pid = inviso.pid(task)
        same(before)  # though the task lives
        assert pid.is_alive()
        gate.set()
        await task
        return pid

    pid = asyncio.run(main())
    gc.collect()
    assert not pid.is_alive()


def test_a_task_that_its_finaliser_revived_is_a_new_process() -> None:
    text = """
import asyncio, gc, inviso
from inviso import trace

revived = []


async def waits(future):
    await future


async def main():
    def keep(loop, context):
        revived.append(context["task"])

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(keep)
    task = loop.create_task(waits(loop.create_future()))
    await asyncio.sleep(0)
    first = inviso.pid(task)
    del task
    gc.collect()
    assert len(revived) == 1 and not first.is_alive()
    second = inviso.pid(revived[0])
    assert second != first and second.is_alive()
    revived.clear()
    gc.collect()
    assert not second.is_alive()
    assert inviso.pid(loop.create_task(asyncio.sleep(0))) not in (first, second)


with trace.session_create("s") as s:
    s.process("all", True, ["running"])
    asyncio.run(main())
print("ok")
"""
    assert good(text) == "ok\n"


def test_a_session_begins_while_a_task_is_made() -> None:
    """asyncio asks the loop something while it makes one: it has no coroutine yet."""
    text = """
import asyncio
import inviso.process
from inviso import trace

sessions = []
class Loop(asyncio.SelectorEventLoop):
    def get_debug(self):
        if self.is_running() and len(sessions) < 20:
            sessions.append(trace.session_create("midst"))
            sessions[-1].process("all", True, ["all"])
            assert len(inviso.process.processes()) > 1
        return super().get_debug()

async def nothing():
    pass

async def main():
    for _ in range(20):
        await asyncio.create_task(nothing())

never_set_up = asyncio.Task.__new__(asyncio.Task)
loop = Loop()
loop.run_until_complete(main())
loop.close()
print(len(sessions), {message[2] for session in sessions for message in session.drain()} >= {"in", "out", "exit"})
for session in sessions:
    session.destroy()
"""
    assert good(text) == "20 True\n"


def test_many_short_tasks_leave_nothing_behind() -> None:
    text = """
import asyncio, inviso
from inviso import trace
async def short(): pass
async def main(n):
    for _ in range(n):
        await asyncio.gather(*(short() for _ in range(100)))
def used():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
s = trace.session_create("short", None, {"ended_processes": 10})
s.function(("__main__", "short", 0), True, ["call_time"])
s.process("all", True, ["call"])
asyncio.run(main(100))
before = used()
asyncio.run(main(1000))
grown = used() - before
assert grown < 1 << 20, grown
value = s.info(("__main__", "short", 0), "call_time")[1]
assert sum(calls for _, calls, _, _ in value) == 110_000, value
assert len(value) <= 12, len(value)
shown = lambda pid: repr(pid).lower() + str(pid.name).lower() + pid.kind
folded = [pid for pid, *_ in value if not pid.is_alive() and "fold" in shown(pid)]
assert len(folded) == 1, value
print("ok")
"""
    assert good(text) == "ok\n"


@pytest.mark.parametrize(
    ("thread", "arguments"),
    [
        ({"target": work, "args": (1,), "kwargs": {"n": 5}}, [1, {"n": 5}]),
        ({"target": functools.partial(work, 1, n=3), "args": [2]}, [1, 2, {"n": 3}]),
        ({"target": functools.partial(work, n=3), "kwargs": {"n": 4}}, [{"n": 4}]),
        ({"target": contextvars.copy_context().run, "args": (work, 7)}, [7]),
        ({"target": work}, []),
        ({"target": work, "args": range(2)}, []),
    ],
)
def test_all_arguments_of_what_a_thread_runs(session: trace.Session, thread: Any, arguments: list[Any]) -> None:
    me = own(session, ["procs"])
    started = threading.Thread(**thread)
    started.run = lambda: None  # type: ignore[method-assign]
    started.start()
    started.join()
    [spawn] = [m for m in session.drain() if m[2] == "spawn"]
    assert spawn[1] == me and spawn[4] == (__name__, "work", arguments)


def test_keywords_of_what_spawn_starts(session: trace.Session) -> None:
    own(session, ["procs"])
    inviso.spawn(work, n=4)
    [spawn] = [m for m in session.drain() if m[2] == "spawn"]
    assert spawn[4] == (__name__, "work", [{"n": 4}])


def test_nobody_is_told_of_threads_and_tasks_of_ours(session: trace.Session) -> None:
    me = own(session, ["procs", "set_on_first_spawn"])
    session.process("new", True, ["procs", "running"])
    before = set(inviso.processes())
    inviso.send_after(1, me, "tick")
    assert inviso.receive("tick", 30) == "tick"
    with trace.session_create("other", lambda message: None) as other:
        tracer = other._worker.pid  # type: ignore[union-attr]
        assert other.delivered().wait(30)
        assert inviso.receive(("trace_delivered", "all", "_"), 30)
        assert set(inviso.processes()) - before == {tracer}
    assert [m for m in session.drain() if m[1] != tracer] == []
    assert session.info(me, "flags")[1] == ["procs", "set_on_first_spawn"]

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await inviso.areceive(timeout=0.05)

    asyncio.run(main())
    names = [m[4][1] for m in session.drain() if m[2] == "spawn"]
    assert [name for name in names if not name.startswith(("BaseEventLoop", main.__qualname__))] == []
