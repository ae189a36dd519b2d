"""A receipt has the number of its sending: queues, futures, executors, event loops, mailboxes, ports; also in logs."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import analysis, log, trace, trace_ports

FLAGS = ["send", "receive", "monotonic_timestamp"]


@pytest.fixture
def session() -> Iterator[inviso.Session]:
    with trace.session_create("numbers") as session:
        session.process("all", True, FLAGS)
        session.process("new", True, FLAGS)
        yield session


def received(session: inviso.Session) -> list[tuple[str, str]]:
    """The received message, and the way in which its sending was found."""
    rows = analysis.tables(session).messages.rows()
    for row in rows:
        if row["pairing"] == "exact":
            assert row["wait_ns"] >= 0 and row["sender_id"] is not None
    return [(row["content"], row["pairing"]) for row in rows if row["receiver_id"] is not None]


def put_and_get(box: Any) -> None:
    for n in (3, 1, 2):
        box.put(n)
    for _ in range(3):
        box.get()


@pytest.mark.parametrize(
    ("make", "order"),
    [
        (queue.Queue, "312"),
        (queue.SimpleQueue, "312"),
        (queue.LifoQueue, "213"),
        (queue.PriorityQueue, "123"),
    ],
)
def test_queues(session: inviso.Session, make: Callable[[], Any], order: str) -> None:
    put_and_get(make())
    assert received(session) == [(n, "exact") for n in order]


def test_equal_items_are_told_apart(session: inviso.Session) -> None:
    one, two = queue.Queue[str](), queue.Queue[str]()
    one.put("job")
    two.put("job")
    two.get()
    one.get()
    first, second = analysis.tables(session).messages.rows()
    assert (first["pairing"], second["pairing"]) == ("exact", "exact")
    assert first["sent_mono_ns"] > second["sent_mono_ns"] and first["channel_id"] != second["channel_id"]


def test_a_queue_of_the_programs_own(session: inviso.Session) -> None:
    class Sorted(queue.Queue[int]):
        def _init(self, maxsize: int) -> None:
            self.queue: list[int] = []  # type: ignore[assignment]

        def _put(self, item: int) -> None:
            self.queue.append(item)
            self.queue.sort()

        def _get(self) -> int:
            return self.queue.pop(0)

    put_and_get(Sorted())
    assert received(session) == [("1", "exact"), ("2", "exact"), ("3", "exact")]


def test_what_was_put_in_before_has_no_number() -> None:
    box: queue.Queue[str] = queue.Queue()
    box.put("before")
    with trace.session_create("late") as session:
        session.process("all", True, FLAGS)
        box.get()
        assert received(session) == [("'before'", "none")]


def test_asyncio(session: inviso.Session) -> None:
    async def main() -> None:
        box: asyncio.Queue[str] = asyncio.Queue()
        taker = asyncio.create_task(box.get(), name="taker")
        await asyncio.sleep(0)
        await box.put("item")
        await taker
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, "set")
        await future

    asyncio.run(main())
    found = received(session)
    assert ("'item'", "exact") in found and ("'set'", "exact") in found


def test_executors_and_futures(session: inviso.Session) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(pow, 2, 5).result() == 32
    kept: Future[str] = Future()
    kept.set_result("kept")
    kept.result()
    found = received(session)
    assert found == [("('builtins', 'pow', [2, 5])", "exact"), ("32", "exact"), ("'kept'", "exact")]


def test_event_loops(session: inviso.Session) -> None:
    async def work(n: int) -> int:
        return n + 1

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    done = threading.Event()
    loop.call_soon_threadsafe(done.set)
    assert done.wait(20)
    assert asyncio.run_coroutine_threadsafe(work(1), loop).result(20) == 2
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    found = received(session)
    calls = [pairing for content, pairing in found if "work" in content or "Event" in content or "stop" in content]
    assert len(calls) == 3 and set(calls) == {"exact"}
    assert ("2", "exact") in found


def test_mailboxes(session: inviso.Session) -> None:
    inviso.send(inviso.self(), "hello")
    inviso.receive(timeout=20)
    assert received(session) == [("'hello'", "exact")]


def test_ports() -> None:
    one, two = socket.socketpair()
    with trace.session_create("ports") as session, one, two:
        session.process("all", True, FLAGS)
        session.port("all", True, FLAGS)
        one.sendall(b"ping")
        two.recv(4)
        rows = analysis.tables(session).messages.rows()
    assert [row["pairing"] for row in rows if "ping" in row["content"]] == ["exact", "exact"]


@pytest.mark.parametrize("form", ["erlang", "blocks"])
def test_logs(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "t.log"
    port = trace_ports.trace_port("file", str(path), compress=form == "blocks")()
    with trace.session_create("log", port) as session:
        session.process(inviso.self(), True, FLAGS)
        for n in range(3):
            box: queue.LifoQueue[str] = queue.LifoQueue()
            box.put("same")
            box.put("same")
            box.get()
            box.get()
            del box, n
        session.delivered().wait(20)
    port.close()
    rows = analysis.tables(path).messages.rows()
    assert [row["pairing"] for row in rows] == ["exact"] * 6
    assert next(log.read(path))[0] == "trace_ts"


def test_several_sessions_have_the_same_number(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    logs = []
    with trace.session_create("one") as one, trace.session_create("two") as two:
        for session in (one, two):
            session.process(inviso.self(), True, FLAGS)
        box: queue.Queue[int] = queue.Queue()
        box.put(1)
        box.get()
        for session in (one, two):
            logs.append(analysis.tables(session).events.to_arrow()["message"].to_pylist())
    assert logs[0] == logs[1] and logs[0][0] == logs[0][1] is not None


def test_only_who_sends_is_traced() -> None:
    """Numbers that no receipt will need are dropped, and a later session doesn't take them for its own."""
    box: queue.Queue[int] = queue.Queue()
    with trace.session_create("sends") as session:
        session.process(inviso.self(), True, ["send"])
        box.put(1)
        [row] = analysis.tables(session).messages.rows()
        assert (row["receiver_id"], row["pairing"], row["received"]) == (None, "none", None)
    with trace.session_create("receives") as session:
        session.process(inviso.self(), True, ["receive"])
        box.get()
        assert received(session) == [("1", "none")]
