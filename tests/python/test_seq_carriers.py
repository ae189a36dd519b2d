"""Tokens travel with messages of executors, futures and event loops, and with nothing else."""

from __future__ import annotations

import asyncio
import multiprocessing.reduction
import queue
import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
import inviso
import pytest
from inviso import seq_trace, trace
from seq_tools import begin, label, system_tracer
from trace_tools import child
from waiting import until

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def tracer() -> Iterator[inviso.Pid]:
    with system_tracer() as keeper:
        yield keeper


def events(tracer: inviso.Pid, label: Any) -> list[Any]:
    return [message[2] for message in inviso.peek(tracer) if message[0] == "seq_trace" and message[1] == label]


def shape(events: list[Any]) -> list[Any]:
    """Tags and serials; those of a send and its receive are the same."""
    return [event[:2] for event in events]


def is_one_chain(events: list[Any]) -> bool:
    """Each event follows an earlier one of the same label, or begins it, and each receive has its send."""
    numbers = {event[1][1] for event in events if event[0] != "receive"}
    sends = {(event[1], event[2]) for event in events if event[0] == "send"}
    first = min(event[1] for event in events)
    return all(event[1] == first or event[1][0] in numbers for event in events) and all(
        (event[1], event[2]) in sends for event in events if event[0] == "receive"
    )


def test_a_call_by_an_executor_and_its_result(tracer: inviso.Pid) -> None:
    with ThreadPoolExecutor(1) as pool:
        begin("call")
        me = inviso.self()
        worker = pool.submit(lambda: (seq_trace.print("call", "inside"), inviso.self())[1]).result(PATIENCE)
        seq_trace.print("call", "back")
        found = events(tracer, "call")
    assert shape(found) == [
        ("send", (0, 1)), ("receive", (0, 1)), ("print", (1, 2)),
        ("send", (1, 3)), ("receive", (1, 3)), ("print", (3, 4)),
    ]  # fmt: skip
    assert [event[2] for event in found] == [me, me, worker, worker, worker, me]
    assert found[1][3] == worker and found[3][3] == me == found[4][3]


def test_a_worker_s_token_is_that_of_its_item(tracer: inviso.Pid) -> None:
    """Neither the thread's start nor the item before leaves it one; a task that takes a result without a token has
    none.
    """
    with ThreadPoolExecutor(1) as pool:
        begin("first")
        assert pool.submit(label).result() == "first"
        seq_trace.set_token(None)
        assert pool.submit(label).result() is None
        begin("second")
        assert pool.submit(label).result() == "second" == label()
        before = pool.submit(lambda: seq_trace.set_token(None))
        before.result()
        assert label() is None, "the result came without a token"
        assert [event[0] for event in events(tracer, "second")] == ["send", "receive"] * 3


def test_a_pool_that_maps(tracer: inviso.Pid) -> None:
    with ThreadPoolExecutor(1) as pool:
        begin("map")
        results = pool.map(lambda n: begin(n) if n else seq_trace.set_token(None), [1, 0])
        seq_trace.set_token(None)
        next(results)
        assert label() == 1, "the process that takes the result has its token"
        next(results)
        assert label() is None
        begin("left")
        assert list(pool.map(label, [1, 2])) == ["left", "left"] and label() == "left"
    assert [event[0] for event in events(tracer, 1)] == ["send", "receive"]
    tags = [event[0] for event in events(tracer, "left")]
    assert sorted(tags) == [*["receive"] * 4, *["send"] * 4], "of two calls, and of two results"


@pytest.mark.parametrize("kind", [queue.Queue, queue.PriorityQueue, queue.SimpleQueue, asyncio.Queue])
@pytest.mark.parametrize("looks_at_senders", [False, True])
def test_an_item_of_before_tokens_clears_the_taker_s(kind: Any, looks_at_senders: bool) -> None:
    """Also while a match specification asks for the sender."""
    seq_trace.reset_trace()
    with trace.session_create("senders", None, []) as session:
        session.process(inviso.self(), True, ["receive"])
        if looks_at_senders:
            session.recv([(["_", "$1", "_"], [], [("message", ["$1"])])])
        box = kind()
        box.put_nowait("early")
        begin("late")
        assert box.get_nowait() == "early" and label() is None


def takes(kind: str) -> Any:
    """The label of the token that the running process sends along by one kind of carrier."""
    if kind == "thread":
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(label()))
        thread.start()
        thread.join()
        return found[0]
    if kind == "executor":
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(label).result(PATIENCE)
    items = getattr(queue, kind)()
    items.put(1)
    seq_trace.set_token(None)
    items.get()
    return label()


def labels(name: Any) -> None:
    """A match spec takes it for a label."""


SETS = [(["$1"], [], [("set_seq_token", "label", "$1")])]


@pytest.mark.parametrize("kind", ["Queue", "PriorityQueue", "SimpleQueue", "thread", "executor"])
def test_a_token_of_a_match_spec_s_travels_as_any_other(kind: str) -> None:
    seq_trace.reset_trace()
    with trace.session_create("labels", None, []) as session:
        session.process(inviso.self(), True, ["call"])
        session.function((__name__, "labels", 1), SETS, ["local"])
        for again in range(2):
            labels("spec")
            assert takes(kind) == "spec", again
            seq_trace.set_token("label", "set")
            assert takes(kind) == "set", again
            seq_trace.reset_trace()
    seq_trace.set_token("label", "after")
    assert takes(kind) == "after"


@pytest.mark.parametrize("how", ["function", "on_load", "send"])
def test_messages_are_not_watched_if_nobody_can_set_a_token(how: str) -> None:
    seq_trace.reset_trace()
    plain = multiprocessing.reduction.ForkingPickler.loads
    with trace.session_create("labels", None, []) as session:
        for spec, watched in ((SETS, True), (True, False), (SETS, True)):
            if how == "function":
                session.function((__name__, "labels", 1), spec, ["local"])
            elif how == "on_load":
                session.function("on_load", spec if watched else False, ["local"])
            else:
                session.send([(["_", "$1"], [], SETS[0][2])] if watched else True)
            assert (multiprocessing.reduction.ForkingPickler.loads is not plain) == watched
        begin("kept")
    assert multiprocessing.reduction.ForkingPickler.loads is not plain
    seq_trace.reset_trace()
    assert multiprocessing.reduction.ForkingPickler.loads is plain


def test_what_carries_tokens_is_watched_until_a_reset() -> None:
    """The last process with a token ends, or empties it; sent messages keep their own."""
    seq_trace.reset_trace()
    plain = multiprocessing.reduction.ForkingPickler.loads
    near, far = multiprocessing.Pipe()

    def work() -> None:
        begin("left")
        near.send("under way")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert label() is None and multiprocessing.reduction.ForkingPickler.loads is not plain
    assert far.recv() == "under way" and label() == "left"
    seq_trace.set_token(None)
    assert multiprocessing.reduction.ForkingPickler.loads is not plain
    seq_trace.reset_trace()
    assert multiprocessing.reduction.ForkingPickler.loads is plain


def test_exceptions_and_cancelled_calls(tracer: inviso.Pid) -> None:
    def fails() -> None:
        raise KeyError("no")

    with ThreadPoolExecutor(1) as pool:
        begin("fails")
        future = pool.submit(fails)
        assert isinstance(future.exception(PATIENCE), KeyError)
        assert events(tracer, "fails")[-1][4] == ("KeyError", ("no",))
        gate = threading.Event()
        pool.submit(gate.wait)
        cancelled = pool.submit(fails)
        assert cancelled.cancel()
        gate.set()
        assert pool.submit(label).result() == "fails" == label()


def test_a_result_is_received_once_and_by_who_takes_it(tracer: inviso.Pid) -> None:
    future: Future[int] = Future()
    begin("sent")
    future.set_result(1)
    seq_trace.set_token(None)
    taken: list[Any] = []
    for _ in range(2):
        pid = inviso.spawn(lambda: taken.append((future.result(), label())))
        until(lambda pid=pid: not pid.is_alive())  # type: ignore[misc]
    assert taken == [(1, "sent"), (1, None)]
    assert [event[0] for event in events(tracer, "sent")] == ["send", "receive"]


def test_a_reset_reaches_a_result_under_way(tracer: inviso.Pid) -> None:
    future: Future[int] = Future()
    begin("before")
    future.set_result(1)
    seq_trace.reset_trace()
    begin("after")
    assert future.result() == 1
    assert label() is None, "messages from before the reset carry an empty token"


@pytest.mark.parametrize("wait_first", [True, False])
def test_a_future_between_tasks(tracer: inviso.Pid, wait_first: bool) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def answers() -> None:
            begin("answer")
            future.set_result(7)

        async def asks() -> Any:
            assert await future == 7
            return label()

        both = [answers(), asks()]
        tasks = [asyncio.create_task(each) for each in (reversed(both) if wait_first else both)]
        assert "answer" in await asyncio.gather(*tasks)
        assert label() is None

    asyncio.run(main())
    assert shape(events(tracer, "answer")) == [("send", (0, 1)), ("receive", (0, 1))]


@pytest.mark.parametrize("kind", [asyncio.Lock, asyncio.Semaphore, anyio.Lock, lambda: anyio.Semaphore(1)])
def test_who_waits_for_a_lock_does_not_get_the_token_of_who_releases_it(tracer: inviso.Pid, kind: Any) -> None:
    async def holder(lock: Any, own: Any) -> Any:
        if own:
            begin(own)
        async with lock:
            await asyncio.sleep(0.001)
        return label()

    async def main() -> None:
        lock, own = kind(), ["a", None, "b", None]
        assert await asyncio.gather(*(asyncio.create_task(holder(lock, one)) for one in own)) == own

    asyncio.run(main())
    assert events(tracer, "a") == [] == events(tracer, "b")


@pytest.mark.parametrize("kind", [asyncio.TaskGroup, anyio.create_task_group])
@pytest.mark.parametrize("own", ["child", None])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_waits_for_a_group_keeps_its_token(kind: Any, own: Any, loop: str) -> None:
    async def child() -> None:
        seq_trace.set_token(None)
        if own:
            begin(own)
        await asyncio.sleep(0)

    async def main() -> None:
        begin("parent")
        async with kind() as group:
            if kind is anyio.create_task_group:
                group.start_soon(child)
            else:
                group.create_task(child())
        assert label() == "parent"

    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())


def test_calls_from_a_task_to_a_thread(tracer: inviso.Pid) -> None:
    async def main() -> None:
        begin("task")
        assert await asyncio.to_thread(label) == "task"
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, label) == "task" == label()
        calls = [asyncio.to_thread(label) for _ in range(3)]
        assert await asyncio.gather(*calls) == ["task"] * 3

    asyncio.run(main())
    assert label() is None
    assert is_one_chain(events(tracer, "task"))


@pytest.mark.parametrize("when", ["before", "between", "while it waits"])
@pytest.mark.parametrize("outside", ["gather", "shield", "shield of gather", "gather of shield", "wait_for of gather"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_is_gathered_brings_its_token(tracer: inviso.Pid, loop: str, outside: str, when: str) -> None:
    ways: dict[str, Any] = {
        "gather": lambda future: asyncio.gather(future),
        "shield": asyncio.shield,
        "shield of gather": lambda future: asyncio.shield(asyncio.gather(future)),
        "gather of shield": lambda future: asyncio.gather(asyncio.shield(future)),
        "wait_for of gather": lambda future: asyncio.wait_for(asyncio.gather(future), 30),
    }

    if (outside, when) == ("shield of gather", "between"):
        pytest.skip("a shield that is awaited when the gather inside is done is not seen")

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def set_it() -> None:
            begin("set")
            future.set_result(1)

        if when == "before":
            await asyncio.create_task(set_it())
        outer = ways[outside](future)
        task = asyncio.create_task(set_it()) if when != "before" else None
        if when == "between":
            for _ in range(6):
                await asyncio.sleep(0)
        assert label() is None
        assert await outer in (1, [1])
        assert label() == "set"
        if task:
            await task

    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())
    assert [event[0] for event in events(tracer, "set")] == ["send", "receive"]
    assert is_one_chain(events(tracer, "set"))


@pytest.mark.parametrize("kind", [queue.Queue, queue.SimpleQueue, queue.LifoQueue])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_objects_again_and_again_each_bring_what_they_were_put_with(kind: Any, seed: int) -> None:
    chance = random.Random(seed)
    box, things = kind(), [object() for _ in range(3)]
    if kind is queue.LifoQueue:
        seq_trace.carrier(box, True)
    inside: list[tuple[object, int]] = []
    for n in range(1000):
        if chance.random() < (0.7 if n % 100 < 30 else 0.4):
            thing = chance.choice(things)
            seq_trace.set_token("label", n)
            box.put(thing)
            inside.append((thing, n))
        elif inside:
            thing, put = inside.pop(-1 if kind is queue.LifoQueue else 0)
            seq_trace.set_token(None)
            assert box.get() is thing and label() == put


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_task_s_callbacks_have_its_token(tracer: inviso.Pid, loop: str) -> None:
    found = []

    async def job(name: str) -> None:
        begin(name)
        await asyncio.sleep(0.001)

    async def main() -> None:
        tasks = [asyncio.create_task(job(name)) for name in "ab"]
        for task in tasks:
            task.add_done_callback(lambda _: found.append(label()))
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    begin("start-up")
    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())
    assert sorted(found) == ["a", "b"]


def test_a_thread_that_waits_for_a_result_before_tokens_are_in_use(tracer: inviso.Pid) -> None:
    future: Future[int] = Future()
    found = []
    thread = threading.Thread(target=lambda: (future.result(), found.append(label())))
    thread.start()
    until(lambda: bool(future._condition._waiters))  # type: ignore[attr-defined]
    begin("late")
    future.set_result(1)
    thread.join()
    assert found == ["late"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_results_of_executors_that_are_gathered(tracer: inviso.Pid, loop: str) -> None:
    def work(n: int) -> int:
        assert label() == "all"
        return n

    async def main() -> None:
        begin("all")
        loop = asyncio.get_running_loop()
        assert await asyncio.gather(*(loop.run_in_executor(None, work, n) for n in range(5))) == list(range(5))
        assert await asyncio.shield(loop.run_in_executor(None, work, 7)) == 7

    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())
    found = events(tracer, "all")
    assert [sum(event[0] == tag for event in found) for tag in ("send", "receive")] == [12, 12]
    assert {event[1] for event in found if event[0] == "send"} == {event[1] for event in found if event[0] == "receive"}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_waits_for_a_coroutine_has_the_token_that_came_there(tracer: inviso.Pid, loop: str) -> None:
    async def get(items: asyncio.Queue[int]) -> int:
        item = await items.get()
        if item < 0:
            raise ValueError(item)
        return item

    async def fill(items: asyncio.Queue[int], name: Any, item: int) -> None:
        await asyncio.sleep(0.01)
        begin(name) if name else seq_trace.set_token(None)
        await items.put(item)

    async def main() -> None:
        items: asyncio.Queue[int] = asyncio.Queue()
        own = asyncio.current_task()
        begin("before")
        for name, item in [("first", 1), ("second", -1), (None, 3), ("third", 4)]:
            filling = asyncio.create_task(fill(items, name, item))
            if item < 0:
                with pytest.raises(ValueError):
                    await asyncio.wait_for(get(items), PATIENCE)
            else:
                assert await asyncio.wait_for(asyncio.wait_for(get(items), PATIENCE), PATIENCE) == item
            assert label() == name and asyncio.current_task() is own
            await filling
        getting = asyncio.create_task(get(items))  # a task of the program's own keeps its token
        await asyncio.wait_for(fill(items, "fourth", 5), PATIENCE)
        begin("own")
        assert await asyncio.wait_for(getting, PATIENCE) == 5 and label() == "own"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(get(items), 0.01)
        assert label() == "own"
        seq_trace.print("own", "here")

    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())
    assert label() is None
    for name in ("first", "second", "third", "own"):
        assert is_one_chain(events(tracer, name))


def test_callbacks_have_the_token_of_who_scheduled_them_for_once(tracer: inviso.Pid) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []

        def note() -> None:
            seen.append(label())

        def later() -> None:
            note()
            loop.call_soon(note)
            seq_trace.set_token("label", "its own")

        begin("soon")
        loop.call_soon(later)
        loop.call_later(0.01, note)
        seq_trace.set_token(None)
        loop.call_soon(note)
        loop.call_at(loop.time() + 0.02, note)
        while len(seen) < 5:
            await asyncio.sleep(0.001)
        assert seen == ["soon", None, "soon", "soon", None]

    asyncio.run(main())
    assert label() is None


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_callbacks_of_a_result_that_the_library_hands_on_have_its_token(loop: str) -> None:
    async def main() -> None:
        running = asyncio.get_running_loop()
        called: asyncio.Queue[Any] = asyncio.Queue()

        def note(future: Any) -> None:
            called.put_nowait(label())

        for name in ("first", None, "second"):
            seq_trace.set_token(None) if name is None else begin(name)
            go = threading.Event()
            future = running.run_in_executor(None, go.wait)
            future.add_done_callback(note)
            seq_trace.set_token(None)
            go.set()
            assert await called.get() == name == label()
            seq_trace.set_token(None)
            assert await future and label() == name

    begin("before")
    (asyncio if loop == "asyncio" else pytest.importorskip("uvloop")).run(main())


def test_what_an_event_loop_does_for_itself_is_no_message_and_nobody_s_child(tracer: inviso.Pid) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.getaddrinfo("127.0.0.1", 80) and label() == "own"
        child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        assert await child.communicate(b"x") == (b"x", None) and label() == "own"
        assert await loop.run_in_executor(None, label) == "own", "and nothing is left in the worker"
        seq_trace.set_token(None)
        await loop.getaddrinfo("127.0.0.1", 80)
        assert label() is None

    begin("own")
    with trace.session_create("own") as session:
        session.process("all", True, ["send", "receive"])
        asyncio.run(main())
        told = [message[2:4] for message in session.drain() if message[1] != tracer and message[3] != "own"]
    assert [(tag, call[:2]) for tag, call in told] == [(tag, ("seq_tools", "label")) for tag in ("send", "receive")], (
        "a session has the message of the program's call alone"
    )
    found = [event[4] for event in events(tracer, "own") if event[0] == "send"]
    assert [message[0] for message in found] == ["spawn_request", "spawn_reply", "seq_tools", "o"]
    assert found[0][4][1].endswith("main")


def test_sockets_carry_none_and_clear_none(tracer: inviso.Pid) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)
        seen: list[Any] = []
        begin("reader")
        answer = loop.create_future()

        def readable() -> None:
            seen.append(label())
            answer.set_result(near.recv(10))
            loop.remove_reader(near)

        loop.add_reader(near, readable)
        far.send(b"x")
        assert await answer == b"x"
        assert label() == "reader" and seen == [None]
        near.close(), far.close()
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b"" and label() == "reader"
        writer.close()
        server.close()

    asyncio.run(main())


def test_what_other_threads_hand_to_a_loop(tracer: inviso.Pid) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def work() -> Any:
        seq_trace.print("handed", "inside")
        return label()

    async def look() -> Any:
        return label()

    try:
        begin("handed")
        assert asyncio.run_coroutine_threadsafe(work(), loop).result(PATIENCE) == "handed" == label()
        done: Future[Any] = Future()
        loop.call_soon_threadsafe(lambda: done.set_result(label()))
        assert done.result(PATIENCE) == "handed" == label()
        found = events(tracer, "handed")
        assert is_one_chain(found)
        assert [event[0] for event in found].count("print") == 1
        seq_trace.set_token(None)
        assert asyncio.run_coroutine_threadsafe(look(), loop).result(PATIENCE) is None
        begin("called back")
        go, calls = asyncio.Event(), queue.SimpleQueue[Any]()
        asked = asyncio.run_coroutine_threadsafe(go.wait(), loop)
        asked.add_done_callback(calls.put)
        seq_trace.set_token(None)
        loop.call_soon_threadsafe(go.set)
        assert calls.get() is asked and label() == "called back"
        seq_trace.set_token(None)
        plain: Future[Any] = Future()
        loop.call_soon_threadsafe(lambda: plain.set_result(label()))
        assert plain.result(PATIENCE) is None
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def many(labels: int, messages: int) -> dict[Any, list[Any]]:
    """Labels at once over shared workers, loops and queues: the events of each."""
    found: dict[Any, list[Any]] = defaultdict(list)

    def keep() -> None:
        while (message := inviso.receive(timeout=60)) != "over":
            assert message[0] == "seq_trace", message
            found[message[1]].append(message[2])

    keeper = inviso.spawn(keep)
    seq_trace.set_system_tracer(keeper)

    async def main() -> None:
        shared: asyncio.Queue[Any] = asyncio.Queue()

        async def serve() -> None:
            while True:
                answer, n = await shared.get()
                answer.set_result((n, label()))

        async def request(n: int) -> None:
            begin(n)
            for turn in range(messages // 4):
                answer = asyncio.get_running_loop().create_future()
                await shared.put((answer, turn))
                assert await answer == (turn, n)
                if turn % 16 == 0:
                    assert await asyncio.to_thread(label) == n
                assert label() == n

        servers = [asyncio.create_task(serve()) for _ in range(8)]
        await asyncio.gather(*(request(n) for n in range(labels)))
        for server in servers:
            server.cancel()

    asyncio.run(main())
    inviso.send(keeper, "over")
    until(lambda: not keeper.is_alive(), 600)
    return found


def check(found: dict[Any, list[Any]], labels: int, messages: int) -> None:
    assert sorted(found) == list(range(labels)), "each label, and no other"
    for own in found.values():
        tags = [event[0] for event in own]
        turns = messages // 4
        passed = 2 * turns + 2 * ((turns + 15) // 16)
        assert tags.count("send") == tags.count("receive") == passed, "no event is missing, no event is foreign"
        assert is_one_chain(own)
        serials = [event[1][1] for event in own if event[0] == "send"]
        assert serials == sorted(set(serials)), "each send is an event of its own, after the one before"


def test_who_lags_behind_the_events_loses_none() -> None:
    """A system tracer that takes one event where two come, until there are more than a ring can hold."""
    rounds, printed = 24, 16_000
    text, step = "x" * 250, threading.Barrier(2)
    found: list[int] = []

    def take(count: int) -> None:
        for _ in range(count):
            message = inviso.receive(timeout=60)
            assert message[:2] == ("seq_trace", "many"), message
            found.append(message[2][4][0])

    def keep() -> None:
        for _ in range(rounds):
            step.wait(60)
            take(printed // 2)
            step.wait(60)
        take(rounds * printed // 2)

    keeper = inviso.spawn(keep)
    seq_trace.set_system_tracer(keeper)
    try:
        begin("many")
        for number in range(rounds):
            for n in range(printed):
                seq_trace.print((number * printed + n, text))
            step.wait(60)
            step.wait(60)
        seq_trace.set_token(None)
        until(lambda: not keeper.is_alive(), 60)
    finally:
        step.abort()
    assert found == list(range(rounds * printed))


def test_many_labels_at_once() -> None:
    check(many(200, 40), 200, 40)


@pytest.mark.slow
def test_ten_thousand_labels_over_a_million_messages() -> None:
    began = time.monotonic()
    check(many(10_000, 200), 10_000, 200)
    print(f"{time.monotonic() - began:.0f} s")


LEFT = """
import asyncio, os, queue, resource, sys
from concurrent.futures import Future
from inviso import seq_trace

def fill(n=100):
    items = KIND()
    for i in range(n):
        seq_trace.set_token("label", os.urandom(30000))
        if KIND is Future:
            items.append(future := Future())
            future.set_result(i)
        else:
            items.put_nowait(i)
    seq_trace.set_token(None)
    return items

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

fill()
before = peak()
"""


@pytest.mark.parametrize("kind", ["queue.Queue", "queue.SimpleQueue", "asyncio.Queue", "Future"])
@pytest.mark.parametrize(
    "how",
    [
        "others = []\nfor _ in range(40): fill(); others.append(KIND())",
        "kept = [fill() for _ in range(20)]; seq_trace.reset_trace(); more = [fill() for _ in range(20)]",
    ],
)
def test_what_is_left_in_a_queue_goes_with_it_or_with_a_reset(kind: str, how: str) -> None:
    """40 times 3 MB, of which there are 20 at most at once."""
    program = f"{LEFT}\n{how}\nprint(peak() - before)"
    done = child(program.replace("KIND()", "[]" if kind == "Future" else "KIND()").replace("KIND", kind))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 90


END = """
import asyncio, ctypes, queue, threading, time, inviso
from inviso import seq_trace, trace
from waiting import until_blocked

def word():
    "The address of the C function behind a method."
    definition = ctypes.c_void_p.from_address(id(queue.SimpleQueue.put) + object.__basicsize__ + 24).value
    return ctypes.c_void_p.from_address(definition + 8).value

def own():
    "Whether the queue is the standard library's own."
    return word() == first

def soon():
    "Whether it comes to be, as the main thread goes on."
    end = time.monotonic() + 20
    while not own() and time.monotonic() < end:
        time.sleep(0.001)
    return own()

async def settle():
    for _ in range(3):
        await asyncio.sleep(0)

def wait(event):
    event.wait()

first = word()
"""


@pytest.mark.parametrize(
    "program",
    [
        "seq_trace.set_token('label', 1); assert not own(); seq_trace.set_token(None); assert own()",
        # a process ends with it
        "t = threading.Thread(target=seq_trace.set_token, args=('label', 1)); t.start(); t.join(); assert soon()",
        # a task, and the reader of its result
        "async def work(): seq_trace.set_token('label', 1); await settle(); assert not own()\nasync def main():\n"
        "    t = asyncio.create_task(work()); await t; seq_trace.set_token(None); assert not own(); del t; "
        "await settle(); assert own()\nasyncio.run(main())",
        # it is under way, then taken, then gone
        "q = queue.Queue(); seq_trace.set_token('label', 1); q.put(2); seq_trace.set_token(None); assert not own(); "
        "q.get()\n"
        "assert seq_trace.get_token()[1] == 1 and not own(); seq_trace.set_token(None); assert own()",
        "q = queue.Queue(); seq_trace.set_token('label', 1); q.put(2); seq_trace.set_token(None); assert not own(); "
        "del q; assert own()",
        # inside code that can't import, as a namedtuple's is
        "q = queue.Queue(); seq_trace.set_token('label', 1); q.put(2); seq_trace.set_token(None); kept = [q]; del q\n"
        "eval('lambda f: [f() for _ in (1, 2, 3)]', {'__builtins__': {}})(kept.clear); assert own()",
        # another node may send it back
        "seq_trace.set_token('label', 1); seq_trace.inject({}); seq_trace.set_token(None); assert not own()\n"
        "seq_trace.reset_trace(); assert own()",
        # another thread waits, and is seen when it goes on, though all instruments were removed meanwhile
        "q = queue.SimpleQueue(); got = []\ndef take(): got.append((q.get(), seq_trace.get_token('label')))\n"
        "t = threading.Thread(target=take); t.start(); until_blocked(t); seq_trace.set_token('label', 1)\n"
        "seq_trace.reset_trace(); assert own(); seq_trace.set_token('label', 2); q.put(3); t.join()\n"
        "assert got == [(3, ('label', 2))], got; seq_trace.set_token(None); assert soon()",
        # another thread may be inside something
        "e = threading.Event(); t = threading.Thread(target=wait, args=(e,)); t.start(); "
        "seq_trace.set_token('label', 1)\n"
        "seq_trace.set_token(None); assert not own(); e.set(); t.join(); assert soon()",
        # so are a pool's
        "from multiprocessing.pool import ThreadPool\npool = ThreadPool(2)\n"
        "for thread in pool._pool: until_blocked(thread)\nseq_trace.set_token('label', 1)\n"
        "assert pool.apply(seq_trace.get_token, ('label',)) == ('label', 1) == seq_trace.get_token('label')\n"
        "pool.close(); pool.join()",
        # a match specification may set one
        "s = trace.session_create('s'); s.function(('__main__', 'wait', 1), "
        "[(['_'], [], [('set_seq_token', 'label', 1)])])\n"
        "assert not own(); seq_trace.set_token('label', 1); seq_trace.set_token(None); assert not own(); s.destroy(); "
        "assert own()",
        # no more often than is worth it, and counters go on
        "seq_trace.set_token('serial', (0, 3))\n"
        "for n in range(40): seq_trace.set_token('label', n); seq_trace.set_token(None)\n"
        "assert not own(); seq_trace.set_token('label', 1); assert seq_trace.get_token()[2:] == (0, inviso.self(), 0)\n"
        "seq_trace.reset_trace(); assert own()",
    ],
)
def test_what_carries_tokens_goes_with_the_last_one(program: str) -> None:
    done = child(f"{END}\n{program}\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_tokens_that_several_threads_set_at_once_are_carried() -> None:
    """The first one installs the instruments, and the others wait for that."""
    lost: list[Any] = []

    def work(number: int, ready: threading.Barrier) -> None:
        queues: list[Any] = [queue.Queue(), queue.SimpleQueue()]
        ready.wait()
        seq_trace.set_token("label", number)
        for box in queues:
            box.put(1)
            seq_trace.set_token(None)
            box.get()
            if label() != number:
                lost.append((box, label()))
        seq_trace.set_token(None)

    for _ in range(30):
        seq_trace.reset_trace()
        ready = threading.Barrier(4)
        threads = [threading.Thread(target=work, args=(number, ready)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seq_trace.reset_trace()
    assert lost == []
