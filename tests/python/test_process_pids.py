"""Pids: the names of ended processes, and pids that leave their process."""

from __future__ import annotations

import asyncio
import copy
import gc
import multiprocessing
import multiprocessing.queues
import pickle
import queue
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good
from waiting import until


def test_an_ended_task_keeps_its_name() -> None:
    pids: list[inviso.Pid] = []

    async def child() -> None:
        pids.append(inviso.self())

    async def main() -> None:
        first = asyncio.create_task(child(), name="first")
        second = asyncio.create_task(child())
        third = asyncio.create_task(child(), name="third")
        third.set_name("renamed")
        await asyncio.gather(first, second, third)
        assert [p.name for p in pids][::2] == ["first", "renamed"]

    asyncio.run(main())
    gc.collect()
    names = [p.name for p in pids]
    assert [names[0], names[2]] == ["first", "renamed"]
    assert names[1].startswith("Task-")
    assert not any(p.is_alive() for p in pids)
    assert {p.kind for p in pids} == {"task"}


def test_a_name_that_is_set_when_all_is_done() -> None:
    pids: list[inviso.Pid] = []

    async def child() -> None:
        pids.append(inviso.self())

    async def main() -> None:
        task = asyncio.create_task(child())
        await task
        task.set_name("at the end ✓")

    asyncio.run(main())
    gc.collect()
    assert pids[0].name == "at the end ✓"


def test_a_task_whose_end_was_told_has_its_name_at_once(session: trace.Session) -> None:
    session.process("all", True, ["procs"])
    pids: list[inviso.Pid] = []

    async def child() -> None:
        pids.append(inviso.self())

    async def main() -> None:
        task = asyncio.create_task(child(), name="told")
        await task
        assert not pids[0].is_alive()
        assert pids[0].name == "told"

    asyncio.run(main())
    gc.collect()
    assert pids[0].name == "told"


def test_counters_of_ended_tasks_have_names(session: trace.Session) -> None:
    def work() -> None:
        pass

    async def child() -> None:
        work()

    async def main() -> None:
        await asyncio.gather(*[asyncio.create_task(child(), name=f"worker {n}") for n in range(50)])

    session.process("all", True, ["call"])
    session.function((__name__, work.__qualname__, 0), True, ["call_time"])
    asyncio.run(main())
    gc.collect()
    rows = session.info((__name__, work.__qualname__, 0), "call_time")[1]
    assert sorted(pid.name for pid, *_ in rows) == sorted(f"worker {n}" for n in range(50))


def test_only_so_many_names_are_kept() -> None:
    pids: list[inviso.Pid] = []

    async def child() -> None:
        pids.append(inviso.self())

    async def main() -> None:
        for n in range(5000):
            await asyncio.create_task(child(), name=f"t{n}")

    asyncio.run(main())
    gc.collect()
    assert pids[-1].name == "t4999"
    assert pids[0].name == ""


def test_an_ended_thread_keeps_the_name_that_it_was_given() -> None:
    pid = inviso.spawn(lambda: None, name="given")
    until(lambda: not pid.is_alive())
    assert pid.name == "given"


def test_a_task_written_in_python_has_no_part_in_it() -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **_: asyncio.tasks._PyTask(coro, loop=loop))  # type: ignore[attr-defined]
        return await asyncio.create_task(child())

    async def child() -> str:
        return inviso.self().kind

    assert asyncio.run(main()) in ("task", "thread")
    gc.collect()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pid_that_comes_back_is_the_same(protocol: int) -> None:
    me = inviso.self()
    again = pickle.loads(pickle.dumps(me, protocol))
    assert again == me
    assert hash(again) == hash(me)
    assert again.is_local()
    assert again.is_alive()
    assert {me: 1}[again] == 1
    assert copy.deepcopy([me]) == [me]
    inviso.send(again, "hello")
    assert inviso.receive() == "hello"


def elsewhere(text: str) -> Any:
    """The pickle of another process."""
    program = f"import pickle, sys, inviso\n{text}\nsys.stdout.buffer.write(pickle.dumps(value))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return pickle.loads(done.stdout)


def test_a_pid_of_another_process_is_of_another_node(session: trace.Session) -> None:
    one, two = elsewhere("inviso.set_node('one@there'); value = [inviso.self(), inviso.self()]")
    (three,) = elsewhere("inviso.set_node('two@there'); value = [inviso.self()]")
    me = inviso.self()
    assert one == two
    assert one != three
    assert one != me
    assert len({one, two, three, me}) == 3
    assert sorted([three, me, one]) == sorted([me, one, three])
    assert (one.node, three.node) == ("one@there", "two@there")
    assert not one.is_local()
    assert not one.is_alive()
    assert one.name == ""
    assert one.kind == "thread"
    assert repr(one)[1] != "0"
    assert repr(one) != repr(three)
    assert pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(one)).node == "one@there"
    for refused in (
        lambda: session.process(one, True, ["call"]),
        lambda: trace.session_create("x", one),
        lambda: session.delivered(one),
        lambda: inviso.send(one, 1),
        lambda: inviso.peek(one),
        lambda: inviso.register("n", one),
    ):
        with pytest.raises(inviso.BadArg, match="another node"):
            refused()


def test_a_pid_that_goes_there_and_back() -> None:
    text = """
import pickle, subprocess, sys, inviso
program = "import pickle, sys, inviso; p = pickle.load(sys.stdin.buffer); inviso.self(); assert not p.is_local(); " \\
    "pickle.dump(p, sys.stdout.buffer)"
me = inviso.self()
done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(me), capture_output=True, check=True)
back = pickle.loads(done.stdout)
print(back == me, back.is_local(), back.is_alive())
"""
    assert good(text) == "True True True\n"


def test_pids_after_a_fork() -> None:
    text = """
import os, pickle, sys, inviso
parent = inviso.self()
data = pickle.dumps(parent)
def child():
    ours, theirs = inviso.self(), pickle.loads(data)
    assert theirs == parent and not theirs.is_local() and theirs != ours, (theirs, ours)
    assert repr(theirs)[1] != "0" and repr(ours)[1] == "0"
    return pickle.dumps((ours, parent))
readers = []
for _ in range(2):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, child())
        os._exit(0)
    os.close(write)
    readers.append(read)
answers = [pickle.loads(os.read(read, 10000)) for read in readers]
for _ in readers: assert os.wait()[1] == 0
(one, back), (two, again) = answers
assert back == again == parent and back.is_local()
assert len({one, two, parent}) == 3 and not one.is_local()
print("ok")
"""
    assert good(text, flags=["-W", "ignore"]) == "ok\n"


def test_a_foreign_pid_among_arguments_is_not_taken_for_one_of_ours(session: trace.Session) -> None:
    (foreign,) = elsewhere("value = [inviso.self()]")

    def traced(*pids: inviso.Pid) -> None:
        """The called function."""

    session.process(inviso.self(), True, ["call"])
    session.function((__name__, traced.__qualname__, 1), True, ["local"])
    traced(foreign, inviso.self())
    taken, mine = session.drain()[0][3][2][0]
    assert mine == inviso.self()
    assert taken == foreign and not taken.is_local()


@pytest.mark.parametrize("word", ["link", "monitor", "name"])
def test_names_that_spawn_keeps(word: str) -> None:
    seen: queue.Queue[Any] = queue.Queue()
    inviso.spawn(partial(lambda **given: seen.put(given), **{word: 5}))
    assert seen.get(timeout=30) == {word: 5}


def queues() -> list[Any]:
    return [
        queue.Queue(), queue.LifoQueue(), queue.PriorityQueue(), queue.SimpleQueue(), asyncio.Queue(),
        asyncio.LifoQueue(),
        multiprocessing.Queue(), multiprocessing.SimpleQueue(),
    ]  # fmt: skip


@pytest.mark.parametrize("box", queues(), ids=lambda box: f"{type(box).__module__}.{type(box).__name__}")
def test_the_pid_of_a_queue_is_that_of_its_messages(session: trace.Session, box: Any) -> None:
    session.process(inviso.self(), True, ["send"])
    pid = inviso.pid(box)
    (box.put_nowait if isinstance(box, asyncio.Queue) else box.put)("item")
    assert [message[2:] for message in session.drain()] == [("send", "item", pid)]
    assert pid.kind == "queue" and inviso.pid(box) == pid and inviso.process.object_of(pid) is box
    if isinstance(box, multiprocessing.queues.Queue):
        box.cancel_join_thread()
        box.close()


def test_executors_and_futures_are_queues(session: trace.Session) -> None:
    session.process(inviso.self(), True, ["send"])
    future: Future[int] = Future()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(len, "")
        future.set_result(5)
        assert {m[4] for m in session.drain()} == {inviso.pid(pool), inviso.pid(future)}


def test_threads_and_tasks_go_where_their_pids_do(session: trace.Session) -> None:
    seen: list[Any] = []

    def takes() -> None:
        for _ in range(3):
            seen.append(inviso.receive(timeout=30))
        inviso.trap_exit(True)
        inviso.send(me, "ready")
        seen.append(inviso.receive(timeout=30)[2])

    me = inviso.self()
    thread = threading.Thread(target=takes)
    thread.start()
    pid = inviso.pid(thread)
    reference = inviso.monitor(thread)
    assert inviso.links(thread) == [] and isinstance(inviso.peek(thread), list)
    with trace.session_create("to", thread) as to:
        assert to.process(me, True, ["send"]) == 1
        assert to.info(me, "tracer") == ("tracer", pid)
        inviso.send(thread, 1)
        inviso.send_after(1, thread, 2)
        assert inviso.receive("ready", 30) == "ready"
    assert session.delivered(thread).wait(30)
    assert inviso.receive(("trace_delivered", pid, "_"), 30)
    assert inviso.exit(thread, "enough")
    assert inviso.receive(("DOWN", reference, "process", pid, "_"), 30)
    assert seen[3] == "enough" and {1, 2} < {m if isinstance(m, int) else m[2] for m in seen}

    async def main() -> None:
        async def echo() -> None:
            inviso.send(back, await inviso.areceive())
            inviso.send(back, await inviso.areceive())
            await asyncio.sleep(30)

        back = inviso.self()
        task = asyncio.create_task(echo())
        inviso.send(task, "first")
        inviso.send_after(1, task, "second")
        assert [await inviso.areceive(timeout=30), await inviso.areceive(timeout=30)] == ["first", "second"]
        inviso.exit(task, "enough")
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_objects_in_the_heads_of_match_specs(session: trace.Session) -> None:
    box: queue.Queue[int] = queue.Queue()
    other: queue.Queue[int] = queue.Queue()
    me = inviso.self()
    session.process(me, True, ["send", "receive"])
    session.send([([box, "_"], [], [])])
    session.recv([(["_", threading.current_thread(), "_"], [], [])])
    other.put(1)
    box.put(2)
    inviso.send(me, 3)
    assert other.get() == 1 and box.get() == 2 and inviso.receive(3, 30) == 3
    assert [m[2:4] for m in session.drain()] == [("send", 2), ("receive", 3), ("receive", 1), ("receive", 2)]


def test_what_has_ended_or_not_begun_is_nothing(session: trace.Session) -> None:
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    closed = socket.socket()
    closed.close()
    for gone in (ended, threading.Thread(), closed):
        assert session.info(gone, "flags") is None and session.info(gone, "tracer") is None
        assert trace.session_info(gone) is None
    with pytest.raises(inviso.BadArg, match="has not begun, or has ended"):
        session.process(ended, True, ["send"])


def test_a_queue_is_no_process(session: trace.Session) -> None:
    box: queue.Queue[int] = queue.Queue()
    for given in (box, inviso.pid(box)):
        for call in (
            lambda given=given: session.process(given, True, ["send"]),
            lambda given=given: session.info(given, "flags"),
            lambda given=given: session.delivered(given),
            lambda given=given: trace.session_create("to", given),
            lambda given=given: inviso.send(given, 5),
            lambda given=given: inviso.register("box", given),
        ):
            with pytest.raises(inviso.BadArg, match="is a queue, which doesn't run"):
                call()


def test_a_thread_that_begins_and_ends_as_its_session_ends_is_no_process_any_more() -> None:
    # in a program of its own: the other tests' threads are processes, too
    text = """
import threading, time, inviso
from inviso import trace

stop = False
def churn():
    while not stop:
        with trace.session_create("short") as session:
            session.process("all", True, ["procs"])

churning = [threading.Thread(target=churn) for _ in range(2)]
for thread in churning:
    thread.start()
for _ in range(4000):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
stop = True
for thread in churning:
    thread.join()
# before 3.13 a join can return before the system has the thread off its list
end = time.monotonic() + 60
while inviso.processes() != [inviso.self()] and time.monotonic() < end:
    time.sleep(0.01)
assert inviso.processes() == [inviso.self()], inviso.processes()
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


def test_a_process_that_is_started_is_the_same_for_who_looks_while_it_begins() -> None:
    text = """
import sys, threading, inviso

begun, seen = threading.Event(), threading.Event()

def hold(*event):
    sys.setprofile(None)
    begun.set()
    seen.wait(60)

said = []
threading.setprofile(hold)
child, reference = inviso.spawn(lambda: said.append(inviso.self()), monitor=True)
threading.setprofile(None)
assert begun.wait(60)
assert sorted(inviso.processes()) == sorted([inviso.self(), child])
seen.set()
inviso.receive(("DOWN", reference, "_", "_", "_"), timeout=60)
assert said == [child]
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


@pytest.mark.parametrize("seen", ["running", "started", "in a session"])
def test_a_thread_that_has_ended_where_nobody_watched_is_dead(seen: str) -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    if seen == "in a session":
        with trace.session_create("short", None) as session:
            session.process("all", True, ["procs"])
            thread.start()
            pid = inviso.pid(thread)
    elif seen == "started":
        with trace.session_create("short", None) as session:
            session.process("new", True, ["procs"])
            thread.start()
        pid = inviso.pid(thread)
    else:
        thread.start()
        pid = inviso.pid(thread)
    assert pid is not None and pid.is_alive()
    assert inviso.send(pid, "early") == "early"
    go.set()
    thread.join()
    until(lambda: not pid.is_alive())
    reference = inviso.monitor(pid)
    assert inviso.receive() == ("DOWN", reference, "process", pid, "noproc")
    assert pid not in inviso.processes()
