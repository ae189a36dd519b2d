"""``multiprocessing``: messages of queues, connections and pools, by the outer call only."""

from __future__ import annotations

import array
import multiprocessing
import multiprocessing.pool
import pickle
import queue
from collections import Counter
from typing import Any

import inviso
import pytest
from inviso import trace
from test_executors import told, traced
from trace_tools import good, in_threads

# where a pool's processes can be started by fork, too
METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def work(a: Any, b: Any = 2) -> Any:
    return a * b


def fails(*args: Any) -> None:
    raise LookupError(*args)


class Putting:
    """Puts something, too, while it is pickled."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __reduce__(self) -> Any:
        self.queue.put("inner")
        return (str, ("outer",))


def echo_connection(connection: Any) -> None:
    while (item := connection.recv()) is not None:
        connection.send(item)
    connection.close()


def echo_queue(requests: Any, replies: Any) -> None:
    while (item := requests.get()) is not None:
        replies.put(item)


# the following tests run programs of their own: these start processes

HEAD = """
import inviso, multiprocessing, queue, sys, warnings
from inviso import trace
from test_multiprocess import echo_connection, echo_queue, work, fails
warnings.simplefilter("ignore", DeprecationWarning)

def traced():
    s = trace.session_create("s")
    s.process("all", True, ["send", "receive"])
    s.process("new", True, ["send", "receive"])
    return s

def told(s):
    return [m[1:] for m in s.drain()]
"""


def program(text: str, method: str) -> None:
    body = "\n".join("    " + line for line in text.strip().splitlines())
    main = (
        f"\nif __name__ == '__main__':\n    context = multiprocessing.get_context({method!r})\n    me = inviso.self()\n"
    )
    good(HEAD + main + body + "\n    s.destroy()\n")


@pytest.mark.parametrize("method", METHODS)
def test_a_pipe_to_another_process(method: str) -> None:
    program(
        """
ours, theirs = context.Pipe()
child = context.Process(target=echo_connection, args=(theirs,))
child.start()
s = traced()
for n in range(100):
    ours.send((n, "x" * n))
    assert ours.recv() == (n, "x" * n)
ours.send(None)
child.join()
messages = told(s)
pid = messages[0][3]
assert pid.kind == "queue"
expected = [m for n in range(100) for m in [(me, "send", (n, "x" * n), pid), (me, "receive", (n, "x" * n))]]
assert messages == expected + [(me, "send", None, pid)], messages
""",
        method,
    )


@pytest.mark.parametrize("method", METHODS)
def test_queues_to_another_process(method: str) -> None:
    program(
        """
requests, replies = context.Queue(), context.Queue(5)
child = context.Process(target=echo_queue, args=(requests, replies))
child.start()
s = traced()
for n in range(20):
    requests.put(n)
assert [replies.get(timeout=30) for _ in range(20)] == list(range(20))
requests.put(None)
child.join()
messages = told(s)
assert [m[:3] for m in messages if m[1] == "send"] == [(me, "send", n) for n in [*range(20), None]]
assert len({m[3] for m in messages if m[1] == "send"}) == 1
assert [m for m in messages if m[1] == "receive"] == [(me, "receive", n) for n in range(20)]
assert len(messages) == 41
""",
        method,
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_pool(method: str) -> None:
    program(
        """
s = traced()
with context.Pool(2) as pool:
    assert pool.apply(work, (3,), {"b": 4}) == 12
    assert pool.apply_async(work, [5]).get() == 10
    try:
        pool.apply_async(fails, ("x", 1)).get()
    except LookupError:
        pass
    try:
        pool.apply_async(__import__("time").sleep, (5,)).get(0.001)
    except multiprocessing.TimeoutError:
        pass
    messages = told(s)
pid = messages[0][3]
assert messages == [
    (me, "send", ("test_multiprocess", "work", [3, {"b": 4}]), pid), (me, "receive", 12),
    (me, "send", ("test_multiprocess", "work", [5]), pid), (me, "receive", 10),
    (me, "send", ("test_multiprocess", "fails", ["x", 1]), pid), (me, "receive", ("LookupError", ("x", 1))),
    (me, "send", ("time", "sleep", [5]), pid), (me, "receive", "timeout"),
], messages
""",
        method,
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_that_maps(method: str) -> None:
    program(
        """
s = traced()
WORK = ("test_multiprocess", "work")
def asked(name, items):  # each call is one message, and each piece that comes back is one
    request, *replies = told(s)
    assert request[:3] == (me, "send", ("multiprocessing.pool", "Pool." + name, [WORK, items])), request
    assert all(m[:2] == (me, "receive") for m in replies), replies
    return [m[2] for m in replies]
with context.Pool(2) as pool:
    assert pool.map(work, [1, 2, 3], chunksize=2) == [2, 4, 6]
    assert sorted(asked("map", [1, 2, 3])) == [[2, 4], [6]]
    assert pool.map_async(work, [1, 2], chunksize=2).get() == [2, 4]
    assert asked("map", [1, 2]) == [[2, 4]]
    assert pool.starmap(work, [(1, 2), (3, 4)], chunksize=1) == [2, 12]
    assert sorted(asked("starmap", [(1, 2), (3, 4)])) == [[2], [12]]
    assert list(pool.imap(work, [1, 2, 3])) == [2, 4, 6]
    assert sorted(asked("imap", [1, 2, 3])) == [2, 4, 6]
    assert list(pool.imap(work, [1, 2, 3], chunksize=2)) == [2, 4, 6]
    assert sorted(asked("imap", [1, 2, 3])) == [[2, 4], [6]]
    assert sorted(pool.imap_unordered(work, [1, 2, 3])) == [2, 4, 6]
    assert sorted(asked("imap_unordered", [1, 2, 3])) == [2, 4, 6]
    assert pool.map(work, []) == [] and asked("map", []) == []
    for items in pool.map, pool.imap:
        try:
            list(items(fails, [1]))
            raise AssertionError
        except LookupError:
            pass
        request, reply = told(s)
        assert request[1] == "send" and reply == (me, "receive", ("LookupError", (1,)))
    late = pool.imap(__import__("time").sleep, [2])
    try:
        late.next(timeout=0.001)
        raise AssertionError
    except multiprocessing.TimeoutError:
        pass
    assert told(s)[1:] == [(me, "receive", "timeout")]
    assert next(late) is None and told(s) == [(me, "receive", None)]
""",
        method,
    )


@pytest.mark.parametrize("method", METHODS)
def test_an_executor_of_processes(method: str) -> None:
    program(
        """
from concurrent.futures import ProcessPoolExecutor
s = traced()
s.recv([(["_", "$1", "$2"], [], [("message", "$1")])])
with ProcessPoolExecutor(1, mp_context=context) as executor:
    assert executor.submit(work, 3, b=4).result() == 12
    try:
        executor.submit(fails, "x").result()
    except LookupError:
        pass
    messages = told(s)
pid = messages[0][3]
# nobody knows which process has sent the result
assert messages == [
    (me, "send", ("test_multiprocess", "work", [3, {"b": 4}]), pid), (me, "receive", 12, None),
    (me, "send", ("test_multiprocess", "fails", ["x"]), pid), (me, "receive", ("LookupError", ("x",)), None),
], messages
""",
        method,
    )


# in this process


def test_both_ends_here(session: trace.Session) -> None:
    me = traced(session)
    one, other = multiprocessing.Pipe()
    one.send({"a": [1]})
    assert other.recv() == {"a": [1]}
    other.send_bytes(b"bytes")
    assert one.recv_bytes() == b"bytes"
    one.send_bytes(b"0123456789", 2, 3)
    buffer = bytearray(10)
    assert other.recv_bytes_into(buffer, 4) == 3
    messages = told(session)
    assert [m[:3] for m in messages] == [
        (me, "send", {"a": [1]}), (me, "receive", {"a": [1]}),
        (me, "send", b"bytes"), (me, "receive", b"bytes"),
        (me, "send", b"234"), (me, "receive", b"234"),
    ]  # fmt: skip
    assert messages[0][3] == messages[4][3] != messages[2][3]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda it: array.array("H", it)])
def test_what_is_sent_of_a_buffer_is_bytes(session: trace.Session, kind: Any) -> None:
    me = traced(session)
    one, other = multiprocessing.Pipe()
    whole = b"abcdef" * 2
    for sent in ((), (2,), (2, 4), (0, 12)):
        one.send_bytes(kind(whole), *sent)
        into = bytearray(14)
        size = other.recv_bytes_into(memoryview(into), 2)
        expected = whole[sent[0] if sent else 0 :][: sent[1] if len(sent) == 2 else None]
        assert into[2 : 2 + size] == expected
        assert [m[:3] for m in told(session)] == [(me, "send", expected), (me, "receive", expected)]


def test_what_cannot_be_sent(session: trace.Session) -> None:
    traced(session)
    one, other = multiprocessing.Pipe(False)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        other.send(lambda: 0)
    with pytest.raises(OSError):
        one.send(1)
    with pytest.raises(ValueError):
        other.send_bytes(b"abc", -1)
    other.close()
    with pytest.raises(EOFError):
        one.recv()
    with pytest.raises(OSError):
        other.send(1)
    assert told(session) == []


def test_queues_here(session: trace.Session) -> None:
    me = traced(session)
    made: list[Any] = [multiprocessing.Queue(), multiprocessing.JoinableQueue(), multiprocessing.SimpleQueue()]
    for items in made:
        items.put("item")
        assert items.get() == "item"
        sent, got = told(session)
        assert sent[:3] == (me, "send", "item")
        assert sent[3].kind == "queue"
        assert got == (me, "receive", "item")


def test_time_outs_and_full_queues(session: trace.Session) -> None:
    me = traced(session)
    items: Any = multiprocessing.Queue(2)
    with pytest.raises(queue.Empty):
        items.get(timeout=0.001)
    with pytest.raises(queue.Empty):
        items.get_nowait()
    items.put_nowait(1)
    items.put(2, timeout=1)
    with pytest.raises(queue.Full):
        items.put(3, False)
    with pytest.raises(queue.Full):
        items.put(3, timeout=0.001)
    assert [items.get(timeout=30), items.get(timeout=30)] == [1, 2]
    items.close()
    with pytest.raises(ValueError):
        items.put(4)
    with pytest.raises(ValueError):
        items.get()
    assert [m[:3] for m in told(session)] == [
        (me, "receive", "timeout"), (me, "receive", "timeout"),
        (me, "send", 1), (me, "send", 2), (me, "receive", 1), (me, "receive", 2),
    ]  # fmt: skip


def test_a_simple_queue_that_cannot_take_an_object_is_sent_nothing(session: trace.Session) -> None:
    me = traced(session)
    items: Any = multiprocessing.SimpleQueue()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        items.put(lambda: None)
    inner: Any = multiprocessing.SimpleQueue()
    items.put(Putting(inner))
    sent = told(session)
    assert sent[0][:3] == (me, "send", "inner")
    assert (sent[1][1], "Putting" in repr(sent[1][2]), sent[1][3] != sent[0][3]) == ("send", True, True)
    items.close()
    with pytest.raises(OSError, match="closed"):
        items.put(1)
    inner.put("last")
    assert [m[:3] for m in told(session)] == [(me, "send", "last")]


def test_who_has_sent_it(session: trace.Session) -> None:
    traced(session)
    session.recv([(["_", "$1", "_"], [], [("message", "$1")])])
    items: Any = multiprocessing.SimpleQueue()
    one, other = multiprocessing.Pipe()
    items.put(1)
    items.get()
    one.send(2)
    other.recv()
    put, got, sent, received = told(session)
    assert got[3] == put[3]
    assert received[3].kind == "queue"
    assert received[3] != sent[3]


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
def test_many_producers_and_consumers(session: trace.Session, kind: str) -> None:
    traced(session)
    session.process("new", True, ["send", "receive"])
    items: Any = getattr(multiprocessing, kind)()
    each = 40
    pids: dict[int, inviso.Pid] = {}

    def body(n: int) -> None:
        pids[n] = inviso.self()
        for i in range(each):
            if n < 3:
                items.put((n, i))
            else:
                items.get()

    in_threads(6, body)
    messages = told(session)
    every = Counter((n, i) for n in range(3) for i in range(each))
    assert Counter(m[2] for m in messages if m[1] == "send") == every
    assert Counter(m[2] for m in messages if m[1] == "receive") == every
    assert len(messages) == 6 * each
    for n in range(3):
        assert [m[2] for m in messages if m[0] == pids[n]] == [(n, i) for i in range(each)]
        assert Counter(m[1] for m in messages if m[0] == pids[n + 3]) == {"receive": each}
    place: dict[Any, list[str]] = {}
    for message in messages:
        place.setdefault(message[2], []).append(message[1])
    assert set(map(tuple, place.values())) == {("send", "receive")}


def test_a_pool_of_threads(session: trace.Session) -> None:
    me = traced(session)
    session.process("new", True, ["send", "receive"])
    with multiprocessing.pool.ThreadPool(2) as pool:
        assert pool.apply(work, (4,)) == 8
        items = list(range(10))
        assert pool.map(work, items) == [2 * n for n in items]
    request, reply, many, *pieces = told(session)
    assert request[:3] == (me, "send", (__name__, "work", [4]))
    assert reply == (me, "receive", 8)
    assert many[:3] == (me, "send", ("multiprocessing.pool", "Pool.map", [(__name__, "work"), items]))
    assert sorted(n for _, _, piece in pieces for n in piece) == [2 * n for n in items]


def test_what_a_manager_does_inside_is_silent() -> None:
    good(
        HEAD
        + """
if __name__ == "__main__":
    s = traced()
    with multiprocessing.get_context("spawn").Manager() as manager:
        made = manager.dict()
        made["a"] = 1
        assert made["a"] == 1
    assert told(s) == []
    s.destroy()
"""
    )


def test_a_connection_that_is_slow_to_take() -> None:
    good("""
import multiprocessing, threading, time
import inviso
from inviso import trace
reader, writer = multiprocessing.Pipe(False)
me = inviso.self()
told = []
s = trace.session_create("busy", told.append)
s.system("busy_dist_port", True)
writer.send(b"quick")
assert reader.recv() == b"quick"
def read():
    time.sleep(0.1)
    reader.recv()
thread = threading.Thread(target=read)
thread.start()
writer.send(b"x" * 10_000_000)
thread.join()
assert s.delivered().wait(30)
((word, pid, event, port),) = [m for m in told if m[0] == "monitor"]
assert (word, pid, event) == ("monitor", me, "busy_dist_port")
assert port.kind == "queue"
s.system("busy_dist_port", False)
thread = threading.Thread(target=read)
thread.start()
writer.send(b"x" * 10_000_000)
thread.join()
assert s.delivered().wait(30)
assert len([m for m in told if m[0] == "monitor"]) == 1
""")


def test_the_functions_stay_what_they_were() -> None:
    good("""
import pickle, sys
import multiprocessing.pool as pool, multiprocessing.queues as queues, multiprocessing.connection as connection
import inviso
from inviso import trace
def found():
    return [queues.Queue.put, queues.Queue.get, queues.SimpleQueue.put, queues.JoinableQueue.put,
            connection.Connection.send, connection.Connection.recv, connection.Connection._send_bytes,
            pool.Pool.apply_async, pool.ApplyResult._set]
before = found()
codes = [f.__code__ for f in before]
for _ in range(3):
    s = trace.session_create("s", inviso.self())
    s.process("all", True, ["send", "receive"])
    s.system("busy_dist_port", True)
    assert all(a is b for a, b in zip(before, found()))
    assert all(c is f.__code__ for c, f in zip(codes, found()))
    assert pickle.loads(pickle.dumps(queues.Queue.put)) is before[0]
    s.destroy()
    assert all(a is b for a, b in zip(before, found()))
    if sys.version_info >= (3, 12):
        used = [t for t in range(6) if sys.monitoring.get_tool(t)]
        tools = [sys.monitoring.get_local_events(t, f.__code__) for f in before for t in used]
        assert not any(tools), tools
""")
