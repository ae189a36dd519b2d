"""Messages: mailboxes, queues, patterns; in trace.md's shapes and beyond."""

from __future__ import annotations

import asyncio
import collections
import copy
import functools
import multiprocessing.connection
import pickle
import queue
import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import inviso
import pytest
from inviso import Atom, seq_trace, trace
from trace_tools import Computing, good, in_threads, own

PATIENCE = 10.0


@pytest.fixture
def other() -> Iterator[inviso.Pid]:
    """A process that lives as long as the test."""
    stop = threading.Event()
    pid = inviso.spawn(stop.wait)
    yield pid
    stop.set()


def events(session: trace.Session, *tags: str) -> list[Any]:
    return [message[2:] for message in session.drain() if not tags or message[2] in tags]


# -- the examples of trace.md


def test_the_opening_session() -> None:
    seen: list[Any] = []
    session = trace.session_create("my_session", seen.append, [])
    assert trace.process(session, inviso.self(), True, ["call"]) == 1
    assert trace.function(session, (__name__, "seq", 2), [], []) == 1
    assert caller.seq(1, 10) == list(range(1, 11))
    assert session.delivered().wait(PATIENCE)
    assert trace.session_destroy(session) is True
    assert seen == [("trace", inviso.self(), "call", (__name__, "seq", [1, 10]))]


def seq(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


class caller:  # a caller from another module: the pattern is global
    seq = staticmethod(eval("lambda *a: f(*a)", {"__name__": "elsewhere", "f": seq}))


def test_send_to_a_process_only(session: trace.Session, other: inviso.Pid) -> None:
    own(session, ["send"])
    assert trace.send(session, [([other, "_"], [], [])], []) == 1
    inviso.send(other, 1)
    inviso.send(inviso.self(), 2)
    assert events(session) == [("send", 1, other)]


def test_send_of_a_kind_only(session: trace.Session, other: inviso.Pid) -> None:
    own(session, ["send"])
    assert trace.send(session, [(["_", (Atom("reply"), "_")], [], [])], []) == 1
    for message in (Atom("reply"), 1), (Atom("query"), 1), Atom("reply"):
        inviso.send(other, message)
    assert events(session) == [("send", ("reply", 1), other)]


def test_send_to_the_sender_itself(session: trace.Session, other: inviso.Pid) -> None:
    me = own(session, ["send"])
    assert trace.send(session, [(["$1", "_"], [("=:=", "$1", ("self",))], [])], []) == 1
    inviso.send(other, 1)
    inviso.send(me, 2)
    assert events(session) == [("send", 2, me)]


def test_send_to_other_nodes(session: trace.Session, other: inviso.Pid) -> None:
    own(session, ["send"])
    assert trace.send(session, [(["$1", "_"], [("=/=", ("node", "$1"), ("node",))], [])], []) == 1
    inviso.send(other, 1)
    assert events(session) == []


def test_receive_from_a_process_only(session: trace.Session) -> None:
    me = own(session, ["receive"])
    sender = inviso.spawn(lambda: (inviso.receive(), inviso.send(me, "theirs")))
    assert trace.recv(session, [(["_", sender, "_"], [], [])], []) == 1
    inviso.send(me, "mine")
    inviso.send(sender, "go")
    assert inviso.receive("theirs", timeout=PATIENCE) == "theirs"
    assert events(session) == [("receive", "theirs")]


def test_receive_of_a_kind_only(session: trace.Session) -> None:
    me = own(session, ["receive"])
    assert trace.recv(session, [(["_", "_", (Atom("reply"), "_")], [], [])], []) == 1
    for message in (Atom("reply"), 1), (Atom("query"), 1):
        inviso.send(me, message)
    assert events(session) == [("receive", ("reply", 1))]


def test_receive_from_other_nodes(session: trace.Session) -> None:
    me = own(session, ["receive"])
    assert trace.recv(session, [(["$1", "_", "_"], [("=/=", "$1", ("node",))], [])], []) == 1
    inviso.send(me, 1)
    assert events(session) == []


# -- patterns


def test_patterns_are_each_sessions_own(make: Callable[..., trace.Session], other: inviso.Pid) -> None:
    one, two = make("one"), make("two")
    for session in (one, two):
        own(session, ["send"])
    one.send([(["_", "$1"], [("is_integer", "$1")], [("message", (("seen", "$1"),))])])
    two.send(False)
    assert one.info("send", "match_spec")[1] != two.info("send", "match_spec")[1]
    assert [s.name for s in trace.session_info("send")] == ["one"]
    assert {s.name for s in trace.session_info("receive")} == {"one", "two"}
    inviso.send(other, 5)
    inviso.send(other, "text")
    assert events(one) == [("send", 5, other, ("seen", 5))] and events(two) == []
    two.send(True)
    inviso.send(other, 6)
    assert events(two) == [("send", 6, other)]


def test_a_pattern_goes_with_its_session(make: Callable[..., trace.Session], other: inviso.Pid) -> None:
    for _ in range(5):
        session = make()
        session.send([(["_", 1], [], [])])
        session.recv(False)
        session.destroy()
    fresh = make()
    assert fresh.info("send", "match_spec") == ("match_spec", True) == fresh.info("receive", "match_spec")


def test_patterns_change_while_messages_pass(make: Callable[..., trace.Session]) -> None:
    session = make(ring_bytes=1 << 24)
    session.process("all", True, ["send"])
    stop = threading.Event()

    def body(n: int) -> None:
        if n == 0:
            for round_ in range(150):
                session.send([(["_", "$1"], [(">", "$1", round_)], [])] if round_ % 3 else round_ % 2 == 0)
            stop.set()
            return
        box: queue.Queue[int] = queue.Queue()
        while not stop.is_set():
            box.put(1000)
            box.get()

    in_threads(3, body)
    # on a busy machine a ring may be full
    assert all(m[2:4] == ("send", 1000) for m in session.drain() if m[0] == "trace")


def test_extra_elements_stand_before_the_time_stamp(session: trace.Session, other: inviso.Pid) -> None:
    own(session, ["send", "monotonic_timestamp"])
    session.send([("_", [], [("message", "note")])])
    inviso.send(other, 1)
    (message,) = session.drain()
    assert message[0] == "trace_ts" and message[2:5] == ("send", 1, other) and message[5] == "note"
    assert isinstance(message[6], int)


def test_time_outs(session: trace.Session) -> None:
    own(session, ["receive"])
    for wait in (
        lambda: inviso.receive(timeout=0),
        lambda: queue.Queue().get(timeout=0.001),
        lambda: queue.SimpleQueue().get(block=False),
    ):
        with pytest.raises((TimeoutError, queue.Empty)):
            wait()
    assert events(session) == [("receive", "timeout")] * 3


def test_a_message_to_a_process_that_has_ended(session: trace.Session) -> None:
    own(session, ["send"])
    gone = inviso.spawn(lambda: None)
    while gone.is_alive():
        pass
    inviso.send(gone, "late")
    assert events(session) == [("send_to_non_existing_process", "late", gone)]


def test_names_are_shown(session: trace.Session) -> None:
    me = own(session, ["send", "procs"])
    inviso.register("named", me)
    inviso.send("named", 1)
    inviso.send(("named", inviso.node()), 2)
    inviso.unregister("named")
    with pytest.raises(inviso.BadArg):
        inviso.send("named", 3)
    assert events(session) == [
        ("register", "named"),
        ("send", 1, "named"),
        ("send", 2, ("named", inviso.node())),
        ("unregister", "named"),
        ("send", 3, "named"),
    ]


@pytest.mark.parametrize("opts", [{"capture": "ref"}, {"repr": True}])
def test_objects_and_their_texts(make: Callable[..., trace.Session], other: inviso.Pid, opts: Any) -> None:
    session = make(**opts)
    own(session, ["send", "receive"])
    order = Order()
    inviso.send(other, order)
    inviso.send("nobody_at_all", order) if False else None
    box: queue.Queue[Any] = queue.Queue()
    box.put(order)
    box.get()
    values = [message[1] for message in events(session)]
    assert len(values) == 3
    if opts.get("repr"):
        assert [value.text for value in values] == ["<an order>"] * 3
    else:
        assert all(value is order for value in values)


class Order:
    def __repr__(self) -> str:
        return "<an order>"


# -- queues

KINDS = [queue.Queue, queue.LifoQueue, queue.PriorityQueue, queue.SimpleQueue]


@pytest.mark.parametrize("kind", KINDS)
def test_a_put_is_a_send_and_a_get_a_receive(session: trace.Session, kind: Any) -> None:
    own(session, ["send", "receive"])
    box = kind()
    box.put(1)
    box.put(item=2) if kind is queue.SimpleQueue else box.put(2)
    box.put_nowait(3)
    taken = [box.get(), box.get(True, 1), box.get_nowait()]
    got = events(session)
    pid = got[0][2]
    assert pid.kind == "queue" and pid.is_alive()
    assert got[:3] == [("send", n, pid) for n in (1, 2, 3)]
    assert got[3:] == [("receive", n) for n in taken]
    assert pid.name.endswith(kind.__name__)
    del box
    assert not pid.is_alive()


@pytest.mark.parametrize("kind", [queue.Queue, queue.SimpleQueue])
def test_a_receiver_that_waited_before_the_session_receives(kind: Any) -> None:
    good(f"""
import queue, threading
from inviso import trace
from waiting import until_blocked
box = queue.{kind.__name__}()
thread = threading.Thread(target=box.get)
thread.start()
until_blocked(thread)
with trace.session_create("late") as session:
    session.process(thread, True, ["receive"])
    box.put("item")
    thread.join()
    messages = [message for message in session.drain() if message[2] == "receive"]
    assert [message[3] for message in messages] == ["item"], messages
""")


@pytest.mark.parametrize("kind", [asyncio.Queue, asyncio.LifoQueue, asyncio.PriorityQueue])
def test_asyncio_queues(session: trace.Session, kind: Any) -> None:
    pids: list[inviso.Pid] = []

    async def produce(box: Any) -> None:
        pids.append(inviso.self())
        for n in range(20):
            await box.put(n)

    async def consume(box: Any) -> None:
        pids.append(inviso.self())
        for _ in range(20):
            await box.get()

    async def main() -> None:
        box = kind(3)
        await asyncio.gather(produce(box), consume(box))
        with pytest.raises(asyncio.QueueEmpty):
            box.get_nowait()

    session.process("new", True, ["send", "receive"])
    asyncio.run(main())
    producer, consumer = pids
    messages = session.drain()
    assert [m[3] for m in messages if m[1] == producer and m[2] == "send"] == list(range(20))
    received = [m[3] for m in messages if m[1] == consumer]
    assert Counter(received) == Counter(range(20))
    assert received == list(range(20)) or kind is asyncio.LifoQueue
    assert len(messages) == 41  # and one time-out


def test_queues_of_the_programs_own_classes(session: trace.Session) -> None:
    class Wrapped(queue.Queue):  # type: ignore[type-arg]
        def _put(self, item: Any) -> None:
            super()._put(("wrapped", item))

        def _get(self) -> Any:
            return super()._get()[1]

    class Whole(queue.Queue):  # type: ignore[type-arg]
        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            super().put([item], block, timeout)

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            return super().get(block, timeout)[0]

    class Captured(queue.Queue):  # type: ignore[type-arg]
        def _put(self, item: Any) -> None:
            self.queue.append((lambda: item)())

    own(session, ["send", "receive"])
    later = type("Later", (queue.LifoQueue,), {"_get": lambda self: self.queue.pop()})
    for kind in (Wrapped, Whole, Captured, later):
        box = kind()
        box.put(7)
        assert box.get() == 7
    plain = [m[:2] for m in events(session)]
    assert plain == [
        ("send", 7), ("receive", 7), ("send", [7]), ("receive", [7]), ("send", 7), ("receive", 7), ("send", 7),
        ("receive", 7),
    ]  # fmt: skip


def timed(function: Any) -> Any:
    """An everyday decorator: all functions that it makes share one code object."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@timed
def unrelated(*args: Any) -> Any:
    return args


@pytest.mark.parametrize("methods", [["_put"], ["_get"], ["_put", "_get"]])
@pytest.mark.parametrize("base", [queue.Queue, queue.LifoQueue])
def test_a_decorator_of_a_queues_methods_is_also_others(session: trace.Session, base: Any, methods: list[str]) -> None:
    class Jobs(base):  # type: ignore[misc]
        def _put(self, item: Any) -> None:
            super()._put(item)

        def _get(self) -> Any:
            return super()._get()

    for name in methods:
        setattr(Jobs, name, timed(getattr(Jobs, name)))
    own(session, ["send", "receive"])
    box = Jobs()
    box.put("job")
    assert box.get() == "job"
    for args in [(), (5,), (box,), (box, 7)]:
        unrelated(*args)
    assert [m[:2] for m in events(session)] == [("send", "job"), ("receive", "job")]


@pytest.mark.parametrize("base", [queue.Queue, asyncio.Queue])
def test_items_among_any_number_of_arguments(session: trace.Session, base: Any) -> None:
    field = "queue" if base is queue.Queue else "_queue"

    class Rest(base):  # type: ignore[misc]
        def _put(self, *args: Any) -> None:
            super()._put(*args)

    class All(base):  # type: ignore[misc]
        def _put(*args: Any) -> None:
            getattr(args[0], field).append(args[1])
            del args

    class Passed(base):  # type: ignore[misc]
        def _put(*args: Any, **kwargs: Any) -> None:
            base._put(*args, **kwargs)

    class Named(base):  # type: ignore[misc]
        def _put(self, item: Any, *, log: bool = False) -> None:
            getattr(self, field).append(item)

    own(session, ["send", "receive"])
    for kind in (Rest, All, Passed, Named):
        box = kind()
        box.put_nowait(("a", 7))
        assert box.get_nowait() == ("a", 7)
        assert [m[:2] for m in events(session)] == [("send", ("a", 7)), ("receive", ("a", 7))]


class Around:
    """A decorator that is a class."""

    def __init__(self, function: Any) -> None:
        self.inner = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return functools.partial(self, instance)

    def __call__(self, *args: Any) -> Any:
        return self.inner(*args)


inner: Any = None


def by_name(*args: Any) -> Any:
    return inner(*args)


def named(function: Any) -> Any:
    global inner
    inner = function
    return by_name


WRAPPINGS = {
    "wraps": timed,
    "closure": lambda function: lambda *args: function(*args),
    "twice": lambda function: timed(timed(function)),
    "default": lambda function: eval("lambda *args, f=f: f(*args)", {"f": function}),
    "class": Around,
    "partial": lambda function: timed(functools.partial(function)),
    "name": named,
}

WRAPPED = [
    (queue.Queue, "_put"),
    (queue.Queue, "_get"),
    (queue.Queue, "put"),
    (queue.LifoQueue, "_put"),
    (asyncio.Queue, "_put"),
    (asyncio.Queue, "get_nowait"),
    (threading.Thread, "start"),
    (threading.Thread, "_bootstrap"),
    (threading.Thread, "_bootstrap_inner"),
    (Future, "set_result"),
    (Future, "result"),
    (asyncio.BaseEventLoop, "call_soon_threadsafe"),
    (asyncio.Handle, "_run"),
    (multiprocessing.connection._ConnectionBase, "send"),
    (multiprocessing.connection._ConnectionBase, "recv"),
]


async def awaits() -> None:
    box: asyncio.Queue[int] = asyncio.Queue()
    await box.put(5)
    assert await box.get() == 5
    waited = threading.Event()  # until this task has been scheduled out, whichever thread is faster
    asyncio.get_running_loop().call_soon(waited.set)
    assert await asyncio.to_thread(waited.wait)
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon_threadsafe(done.set)
    await done.wait()


def passes_messages() -> None:
    for kind in (queue.Queue, queue.LifoQueue):
        box: Any = kind()
        box.put("item")
        box.get()
    thread = threading.Thread(target=len, args=("x",))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(len, "x").result() == 1
    future: Future[str] = Future()
    future.set_result("result")
    future.result()
    asyncio.run(awaits())
    here, there = multiprocessing.connection.Pipe()
    here.send("through")
    there.recv()
    unrelated()
    unrelated(box, 1)
    for end in (here, there):
        end.close()


def told(make: Callable[..., trace.Session]) -> Counter[str]:
    with make() as session:
        for who in ("all", "new"):
            session.process(who, True, ["send", "receive", "procs", "running"])
        passes_messages()
        assert inviso.self().is_alive()
        pid = "a pid"
        shown = [tuple(pid if isinstance(part, inviso.Pid) else part for part in m[1:]) for m in session.drain()]
    return Counter(re.sub("0x[0-9a-f]+", "", repr(message)) for message in shown)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_the_program_has_wrapped_in_the_library_is_seen(
    make: Callable[..., trace.Session], monkeypatch: pytest.MonkeyPatch, wrapping: str
) -> None:
    plain = told(make)
    for owner, name in WRAPPED:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, WRAPPINGS[wrapping](getattr(owner, name)))
            assert told(make) == plain, name


def test_what_replaces_a_function_of_the_library_is_not_taken_for_it(
    make: Callable[..., trace.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", timed(lambda thread: None))
    with make() as session:
        session.process("all", True, ["procs", "running"])
        unrelated()
        assert inviso.self().is_alive()
        assert events(session) == []


def test_queues_that_are_wrapped_while_a_session_is_on(session: trace.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    own(session, ["send", "receive"])
    for name in ("_put", "_get"):
        monkeypatch.setattr(queue.Queue, name, timed(getattr(queue.Queue, name)))
    box: queue.Queue[str] = queue.Queue()
    box.put("item")
    assert box.get() == "item"
    assert [m[:2] for m in events(session)] == [("send", "item"), ("receive", "item")]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the wrapper's own frame is the first that is seen")
def test_threads_whose_bootstrap_is_wrapped_while_a_session_is_on(
    session: trace.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("all", "new"):
        session.process(who, True, ["procs"])
    monkeypatch.setattr(threading.Thread, "_bootstrap", timed(threading.Thread._bootstrap))  # type: ignore[attr-defined]
    in_threads(1, lambda _: None)
    assert Counter(m[2] for m in session.drain()) == {"spawn": 1, "spawned": 1, "exit": 1}


@pytest.mark.parametrize("kind", [queue.Queue, queue.SimpleQueue, queue.LifoQueue])
def test_senders_are_right_under_many_producers_and_consumers(make: Callable[..., trace.Session], kind: Any) -> None:
    session = make(ring_bytes=1 << 24)
    session.recv([(["_", "$1", "$2"], [], [("message", "$1")])])
    session.process("new", True, ["send", "receive"])
    box = kind()
    per = 1500

    def produce(n: int) -> None:
        for i in range(per):
            box.put((n, i % 7))

    def consume() -> None:
        for _ in range(per):
            assert box.get(timeout=PATIENCE) is not None

    makers = [inviso.spawn(produce, n) for n in range(4)]
    takers = [inviso.spawn(consume) for _ in range(4)]
    while any(pid.is_alive() for pid in makers + takers):
        inviso.receive(timeout=0.01) if inviso.peek() else threading.Event().wait(0.01)
    got = session.drain()
    sent = Counter((m[1], m[3]) for m in got if m[2] == "send")
    received = Counter((m[4], m[3]) for m in got if m[2] == "receive")
    assert sum(sent.values()) == 4 * per
    assert sent == received
    assert {pid for pid, _ in received} == set(makers)


def test_the_order_of_each_process_is_that_of_its_program(make: Callable[..., trace.Session]) -> None:
    session = make(ring_bytes=1 << 24)
    session.process("new", True, ["send", "receive"])
    boxes = [queue.Queue() for _ in range(3)]
    logs: dict[inviso.Pid, list[Any]] = {}

    def body(n: int) -> None:
        log = logs.setdefault(inviso.self(), [])
        chance = random.Random(n)
        for i in range(800):
            box = chance.choice(boxes)
            if chance.random() < 0.6:
                log.append(("send", (n, i)))
                box.put((n, i))
            else:
                try:
                    log.append(("receive", box.get_nowait()))
                except queue.Empty:
                    log.append(("receive", "timeout"))

    in_threads(4, body)
    got: dict[inviso.Pid, list[Any]] = {}
    for message in session.drain():
        got.setdefault(message[1], []).append(message[2:4])
    assert {pid: got[pid] for pid in logs} == logs


def test_ten_thousand_tasks_and_their_messages(make: Callable[..., trace.Session]) -> None:
    session = make(ring_bytes=1 << 22)
    tasks, each = 1000, 20

    async def worker(n: int, mine: Any, theirs: Any) -> None:
        for i in range(each):
            await theirs.put((n, i))
            await mine.get()

    async def main() -> None:
        boxes = [asyncio.Queue() for _ in range(tasks)]
        session.process("new", True, ["send", "receive"])
        await asyncio.gather(*(worker(n, boxes[n], boxes[(n + 1) % tasks]) for n in range(tasks)))

    asyncio.run(main())
    messages = session.drain()
    lost = sum(m[1] for m in messages if m[0] == "drop")
    kept = [m for m in messages if m[0] == "trace"]
    assert len(kept) + lost == 2 * tasks * each and session.info("session", "dropped")[1] == lost
    if not lost:
        sends: dict[Any, list[int]] = {}
        for _, pid, tag, value, *_ in kept:
            if tag == "send":
                sends.setdefault(pid, []).append(value[1])
        assert all(order == list(range(each)) for order in sends.values()) and len(sends) == tasks


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.SimpleQueue])
def test_long_queues(make: Callable[..., trace.Session], kind: Any) -> None:
    session = make()
    session.system("long_message_queue", (2, 5))
    box = kind()
    for _ in range(2):
        for n in range(7):
            box.put(n)
        for _ in range(7):
            box.get()
    long = session.drain()
    assert [m[0] for m in long] == ["monitor"] * 4 and {m[2] for m in long} == {"long_message_queue"}
    assert [m[3] for m in long] == [True, False, True, False] and long[0][1].kind == "queue"
    for _ in range(6):
        inviso.send(inviso.self(), 1)
    while inviso.peek():
        inviso.receive()
    assert [(m[1], m[3]) for m in session.drain()] == [(inviso.self(), True), (inviso.self(), False)]


@pytest.mark.parametrize("base", [queue.Queue, asyncio.Queue])
def test_a_put_that_raises_is_no_send(session: trace.Session, base: Any) -> None:
    class Picky(base):  # type: ignore[misc]
        def _put(self, item: Any) -> None:
            if item < 0:
                raise ValueError(item)
            item = str(item)
            super()._put(item)

    session.process(inviso.self(), True, ["send", "receive"])
    session.system("long_message_queue", (0, 2))
    box = Picky()
    box.put_nowait(1)
    with pytest.raises(ValueError):
        box.put_nowait(-1)
    box.put_nowait(2)
    assert box.get_nowait() == "1"
    told = [m[2:] for m in session.drain()]
    number = told[0][2]
    assert told == [
        ("send", 1, number),
        ("send", 2, number),
        ("long_message_queue", True),
        ("receive", "1"),
    ]


@pytest.mark.parametrize("kind", [queue.PriorityQueue, asyncio.PriorityQueue])
def test_an_item_that_cannot_be_ordered_is_sent_because_it_is_in_the_queue(session: trace.Session, kind: Any) -> None:
    session.process(inviso.self(), True, ["send", "receive"])
    box = kind()
    box.put_nowait(1)
    with pytest.raises(TypeError):
        box.put_nowait("b")
    assert box.qsize() == 2
    assert [m[2:4] for m in session.drain()] == [("send", 1), ("send", "b")]


class InASet(queue.Queue[Any]):
    def _init(self, maxsize: int) -> None:
        self.queue: Any = set()

    def _put(self, item: Any) -> None:
        self.queue.add(item)

    def _get(self) -> Any:
        return self.queue.pop()


class InADict(asyncio.Queue[Any]):
    def _init(self, maxsize: int) -> None:
        self._queue = collections.OrderedDict[Any, Any]()

    def _put(self, item: Any) -> None:
        self._queue[item] = item

    def _get(self) -> Any:
        return self._queue.popitem()[0]

    @property
    def queue(self) -> Any:
        raise AssertionError("nobody but the program asks this")


class InADequeOfItsOwn(queue.Queue[Any]):
    def _init(self, maxsize: int) -> None:
        class Own(collections.deque[Any]):
            def __len__(self) -> int:
                raise AssertionError("nor this")

        self.queue = Own()

    def _qsize(self) -> int:
        return sum(1 for _ in self.queue)


class Elsewhere(queue.Queue[Any]):
    def _init(self, maxsize: int) -> None:
        self.items: list[Any] = []

    def _qsize(self) -> int:
        return len(self.items)

    def _put(self, item: Any) -> None:
        self.items.append(item)

    def _get(self) -> Any:
        return self.items.pop()


@pytest.mark.parametrize("kind", [InASet, InADict, InADequeOfItsOwn, Elsewhere])
def test_long_queues_of_other_containers(session: trace.Session, kind: Any) -> None:
    session.system("long_message_queue", (0, 2))
    box = kind()
    for n in range(3):
        box.put_nowait(n)
    assert {box.get_nowait() for _ in range(3)} == {0, 1, 2}
    assert [m[3] for m in session.drain()] == ([] if kind is Elsewhere else [True, False])


class OfThePrograms(queue.Queue[Any]):
    def _get(self) -> Any:
        return super()._get()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="shutdown is of 3.13")
@pytest.mark.parametrize("kind", [queue.Queue, queue.PriorityQueue, asyncio.Queue, asyncio.LifoQueue, OfThePrograms])
def test_what_a_shutdown_throws_away_is_received_by_nobody(session: trace.Session, kind: Any) -> None:
    session.process(inviso.self(), True, ["send", "receive"])
    session.system("long_message_queue", (0, 2))
    box = kind()
    box.put_nowait(1)
    box.put_nowait(2)
    seq_trace.set_token("label", 1)
    box.put_nowait(3)
    serial = seq_trace.get_token("serial")
    box.shutdown(immediate=True)
    assert seq_trace.get_token("serial") == serial
    seq_trace.reset_trace()
    told = session.drain()
    assert [(m[2], m[3]) for m in told if m[0] == "trace"] == [("send", 1), ("send", 2), ("send", 3)]
    assert [m[3] for m in told if m[0] == "monitor"] == [True, False]


# -- parts of the library that stay, and messages of the library itself


def test_the_standard_library_is_itself_before_and_after(make: Callable[..., trace.Session]) -> None:
    def things() -> list[Any]:
        return [
            queue.Queue.put, queue.Queue._put, queue.Queue._get, queue.SimpleQueue.put, queue.SimpleQueue.get,
            asyncio.Queue.put, asyncio.Queue._put, asyncio.Queue._get, threading.Thread.start, asyncio.Task.__init__,
        ]  # fmt: skip

    before = things()
    session = make()
    session.process("all", True, ["all"])
    session.port("all", True, ["all"])
    assert all(one is other for one, other in zip(before, things(), strict=True))
    box = copy.copy(queue.SimpleQueue.put)
    assert pickle.loads(pickle.dumps(queue.Queue)) is queue.Queue and box is queue.SimpleQueue.put
    assert issubclass(type("Q", (queue.SimpleQueue,), {}), queue.SimpleQueue)
    session.destroy()
    assert all(one is other for one, other in zip(before, things(), strict=True))


def test_a_fork_and_an_exit_with_everything_on() -> None:
    text = """
import asyncio, inviso, os, queue, threading, warnings
from inviso import trace
session = trace.session_create("all")
session.process("all", True, ["all"])
session.port("all", True, ["all"])
box = queue.SimpleQueue()
other = queue.Queue()
def spin():
    while box.empty():
        other.put(1)
        other.get()
threads = [threading.Thread(target=spin, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(5):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        box.put(1), box.get()
        fresh = queue.Queue()
        fresh.put(2), fresh.get()
        assert trace.session_info("all") == []
        async def main():
            q = asyncio.Queue()
            await q.put(1)
            return await q.get()
        assert asyncio.run(main()) == 1
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
print("good")
"""
    assert good(text) == "good\n"


@pytest.mark.parametrize("wrapped", [(), ("_put", "_get"), ("put_nowait", "get_nowait")])
def test_queues_that_the_library_uses_inside_are_silent(
    session: trace.Session, monkeypatch: pytest.MonkeyPatch, wrapped: tuple[str, ...]
) -> None:
    for name in wrapped:
        monkeypatch.setattr(asyncio.Queue, name, timed(getattr(asyncio.Queue, name)))

    async def one(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def main() -> None:
        items: asyncio.Queue[int] = asyncio.Queue()
        session.process("all", True, ["send", "receive"])
        assert sorted([await done for done in asyncio.as_completed([one(1), one(2)])]) == [1, 2]
        with pytest.raises(TimeoutError):
            for done in asyncio.as_completed([asyncio.sleep(60)], timeout=0.001):
                await done
        assert events(session) == []
        await items.put(3)
        assert await asyncio.wait_for(items.get(), PATIENCE) == 3
        assert [event[:2] for event in events(session)] == [("send", 3), ("receive", 3)]
        session.process("all", False, ["all"])

    asyncio.run(main())


def but_wakes(session: trace.Session) -> list[Any]:
    return [event for event in events(session) if event != ("receive", True)]


def test_a_get_that_runs_out_of_time_in_wait_for_is_a_time_out(session: trace.Session) -> None:
    async def other() -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        items: asyncio.Queue[int] = asyncio.PriorityQueue()
        session.process(inviso.self(), True, ["receive"])
        for wait in [items.get(), other(), asyncio.get_running_loop().create_future(), items.join(), items.get()]:
            items._unfinished_tasks += 1
            items._finished.clear()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wait, 0.005)
        getting = asyncio.ensure_future(items.get())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(getting, 0.005)
        await items.put(3)
        assert await items.get() == 3
        session.process("all", False, ["all"])
        assert but_wakes(session) == [
            *[("receive", inviso.Atom("timeout"))] * 3,
            ("receive", 3),
        ]

    asyncio.run(main())


@pytest.mark.parametrize("delay", [0, 0.005])
def test_a_get_that_runs_out_of_time_in_timeout_is_a_time_out(session: trace.Session, delay: float) -> None:
    async def fetch(items: asyncio.Queue[int]) -> int:
        async with asyncio.timeout(60):
            return await items.get()

    async def main() -> None:
        items: asyncio.Queue[int] = asyncio.LifoQueue()
        session.process(inviso.self(), True, ["receive"])
        for wait in [items.get, lambda: asyncio.sleep(60), lambda: fetch(items)]:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(delay):
                    await wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay):
                try:
                    await items.get()
                finally:
                    await asyncio.sleep(0)
        with pytest.raises(TimeoutError):  # one that is the program's own
            async with asyncio.timeout(delay):
                try:
                    await items.get()
                except asyncio.CancelledError:
                    raise TimeoutError from None
        async with asyncio.timeout(60):
            await items.put(3)
            assert await items.get() == 3
        session.process("all", False, ["all"])
        assert but_wakes(session) == [
            *[("receive", inviso.Atom("timeout"))] * 3,
            ("receive", 3),
        ]

    asyncio.run(main())


def test_who_waits_for_a_coroutine_that_gets_in_vain_is_told(session: trace.Session) -> None:
    async def fetch(items: asyncio.Queue[int]) -> int:
        return await items.get()

    async def main() -> None:
        items: asyncio.Queue[int] = asyncio.Queue()
        session.process(inviso.self(), True, ["receive"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetch(items), 0.005)
        session.process("all", False, ["all"])
        assert but_wakes(session) == [("receive", inviso.Atom("timeout"))]

    asyncio.run(main())


def test_a_task_that_waits_in_vain_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    wake = inviso.process._wake
    monkeypatch.setattr(inviso.process, "_wake", lambda *arguments: calls.append(wake(*arguments)))

    async def main() -> None:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await inviso.areceive(timeout=0.03)
        me = inviso.self()
        asyncio.get_running_loop().call_later(0.2, inviso.send, me, "here")
        assert await inviso.areceive() == "here"
        inviso.send(me, "odd")
        asyncio.get_running_loop().call_later(0.05, inviso.send, me, "wanted")
        assert await inviso.areceive("wanted") == "wanted"
        assert inviso.peek() == ["odd"]

    asyncio.run(main())
    assert 0 < len(calls) <= 3


def test_whoever_waits_for_a_mailbox_is_told_while_others_send() -> None:
    """Each of them runs Python, and none waits for another."""
    text = """
import threading, inviso
from inviso import _native

def told():
    other = threading.Thread(target=inviso.send, args=(me, "second"))
    other.start()
    other.join(20)
    print(other.is_alive())

me = inviso.self()
_native.mailbox.wait(told, 0)
_native.mailbox.wait(lambda: print("too"), 0)
inviso.send(me, "first")
print(inviso.receive(), inviso.receive())
"""
    assert good(text) == "False\ntoo\nfirst second\n"


def test_messages_are_looked_for_while_messages_are_made() -> None:
    """A signal's handler may do so inside it. A handler that raises there loses no message."""
    text = """
import inviso
from inviso import trace
from inviso.terms import Atom

class Nosy(dict):
    def get(self, name):
        inviso.peek()
        if name == "f0" and not raised:
            raised.append(name)
            raise KeyboardInterrupt
        return super().get(name)

raised = []
def f0(): pass
def f1(): pass
def f2(): pass
def work():
    f0(), f1(), f2()

Atom._all = Nosy(Atom._all)
with trace.session_create("made", inviso.self()) as session:
    session.process("new", True, ["call"])
    for name in ("f0", "f1", "f2"):
        session.function(("__main__", name, 0), True, ["local"])
    inviso.spawn(work)
    got = []
    while len(got) < 3:
        try:
            got.append(str(inviso.receive(timeout=20)[3][1]))
        except KeyboardInterrupt:
            pass
print(got, raised)
"""
    assert good(text) == "['f0', 'f1', 'f2'] ['f0']\n"


def test_an_exception_is_the_first_that_is_seen_of_a_thread() -> None:
    text = """
import queue, threading
from inviso import trace

def work():
    ready.set()
    go.acquire()
    threading.Thread.marker = 1  # what the interpreter knew of the class's attributes it has forgotten
    try:
        box.get_nowait()
    except queue.Empty:
        print("empty")

box, ready, go = queue.SimpleQueue(), threading.Event(), threading.Lock()
go.acquire()
thread = threading.Thread(target=work)
thread.start()
ready.wait()
with trace.session_create("first") as session:
    session.process("all", True, ["receive"])
    go.release()
    thread.join()
    print([message[2:] for message in session.drain()])
"""
    assert good(text) == "empty\n[('receive', 'timeout')]\n"


@pytest.mark.parametrize("overflow", ["block", "overwrite"])
def test_alarms_of_long_mailboxes_wait_for_room_and_hold_nobody_up(overflow: str) -> None:
    text = """
import sys, threading, time, inviso
from inviso import trace

sys.setswitchinterval(1e-5)
me, send, receive = inviso.self(), inviso.send, inviso.receive
def work():
    for n in range(1000):
        send(me, n)
with trace.session_create("long", None, {"overflow": sys.argv[1], "ring_bytes": 1 << 14, "block_ms": 2}) as session:
    session.system("long_message_queue", (0, 1))
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3000):
        receive(timeout=20)
        if sys.argv[1] == "block":
            session.drain()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    send(me, "last")
    print({message[0] for message in session.drain()} >= {"monitor"})
"""
    assert good(text, overflow) == "True\n"


# -- beside a thread that computes


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads run in parallel here")
def test_what_waits_is_taken_without_giving_the_gil_away() -> None:
    """A release of the GIL costs a switch interval for each message, however short the call is."""
    with trace.session_create("beside", inviso.self()):
        for n in range(100):
            inviso.send(inviso.self(), n)
        with Computing() as beside:
            inviso.receive(timeout=PATIENCE)  # has the GIL now
            seen = beside.steps
            for _ in range(99):
                inviso.receive(timeout=PATIENCE)
            assert beside.steps == seen
