"""Sequential tracing: tokens, serials, carriers, and things that carry none."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import inviso
import pytest
from inviso import Atom, seq_trace, trace
from inviso.propagate import asgi, wsgi
from trace_tools import good
from waiting import until, until_blocked

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def tracer() -> Iterator[inviso.Pid]:
    """The test's own process gets the events; afterwards there is neither token nor tracer."""
    seq_trace.set_system_tracer(False)
    keeper = inviso.spawn(inviso.receive, "over")
    seq_trace.set_system_tracer(keeper)
    yield keeper
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)
    inviso.send(keeper, "over")
    until(lambda: not keeper.is_alive())
    while inviso.peek():
        inviso.receive(timeout=0)


def begin(label: Any = 17, *flags: str) -> None:
    seq_trace.set_token("label", label)
    for flag in flags or ("send", "receive", "print"):
        seq_trace.set_token(flag, True)


def events(tracer: inviso.Pid, label: Any = 17) -> list[Any]:
    return [message[2] for message in inviso.peek(tracer) if message[0] == "seq_trace" and message[1] == label]


def in_process(body: Any, *args: Any) -> inviso.Pid:
    """Runs a process of its own to its end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            body(*args)
        except BaseException as error:
            errors.append(error)

    pid = inviso.spawn(run)
    until(lambda: not pid.is_alive())
    if errors:
        raise errors[0]
    return pid


# -- seq_trace.md's own example


def test_the_call_server(tracer: inviso.Pid) -> None:
    def call_server() -> None:
        port_controller, message = inviso.receive(timeout=PATIENCE)
        ack = (Atom("received"), message)
        seq_trace.print(17, "We are here now")
        inviso.send(port_controller, (Atom("ack"), ack))

    def loop() -> None:
        inviso.receive(("port", "_"), timeout=PATIENCE)
        begin(17, "receive", "print")
        seq_trace.print(17, "**** Trace Started ****")
        inviso.send("call_server", (inviso.self(), Atom("the_message")))
        inviso.receive(("ack", "_"), timeout=PATIENCE)

    server = inviso.spawn(call_server)
    inviso.register("call_server", server)
    client = inviso.spawn(loop)
    inviso.send(client, (Atom("port"), Atom("message")))
    until(lambda: not client.is_alive() and not server.is_alive())
    assert events(tracer) == [
        ("print", (0, 1), client, [], "**** Trace Started ****"),
        ("receive", (0, 2), client, server, (client, "the_message")),
        ("print", (2, 3), server, [], "We are here now"),
        ("receive", (2, 4), server, client, ("ack", ("received", "the_message"))),
    ]


# -- carriers


@pytest.mark.parametrize("kind", [queue.Queue, queue.PriorityQueue, queue.SimpleQueue])
def test_queues_carry_tokens(tracer: inviso.Pid, kind: Any) -> None:
    box, back = kind(), kind()
    waiting: list[threading.Thread] = []

    def worker() -> None:
        waiting.append(threading.current_thread())
        item = box.get(timeout=PATIENCE)
        assert seq_trace.get_token()[1] == "order"
        back.put(item + 1)

    def client() -> None:
        begin("order")
        box.put(1)
        assert back.get(timeout=PATIENCE) == 2

    taker = inviso.spawn(worker)
    until(lambda: waiting)
    until_blocked(waiting[0])  # it waits already when the first token comes
    maker = in_process(client)
    until(lambda: not taker.is_alive())
    got = events(tracer, "order")
    assert [(event[0], event[1], event[4]) for event in got] == [
        ("send", (0, 1), 1), ("receive", (0, 1), 1), ("send", (1, 2), 2), ("receive", (1, 2), 2),
    ]  # fmt: skip
    assert got[0][2] == maker and got[0][3].kind == "queue" and got[1][2:4] == (maker, taker)


def test_asyncio_queues_and_tasks_carry_tokens(tracer: inviso.Pid) -> None:
    labels: list[Any] = []

    async def child(box: Any) -> None:
        labels.append(seq_trace.get_token("label"))
        await box.put("item")

    async def main() -> None:
        box: asyncio.Queue[Any] = asyncio.Queue()
        begin("task")
        task = asyncio.create_task(child(box))
        assert await box.get() == "item"
        await task
        labels.append(seq_trace.get_token("label"))

    asyncio.run(main())
    assert labels == [("label", "task")] * 2
    kinds = [event[0] for event in events(tracer, "task")]
    assert kinds == ["send", "receive", "send", "receive", "send", "receive"]  # the spawn's four, and the item's two


def test_a_token_does_not_leak_into_other_tasks() -> None:
    seen: dict[str, Any] = {}

    async def marked() -> None:
        begin("mine")
        await asyncio.sleep(0.01)
        seen["mine"] = seq_trace.get_token("label")

    async def plain() -> None:
        await asyncio.sleep(0)
        seen["plain"] = seq_trace.get_token()
        await asyncio.sleep(0.02)
        seen["later"] = seq_trace.get_token()

    async def main() -> None:
        await asyncio.gather(marked(), plain())
        seen["main"] = seq_trace.get_token()

    asyncio.run(main())
    assert seen == {"mine": ("label", "mine"), "plain": None, "later": None, "main": None}


def test_a_thread_inherits_and_one_without_a_token_does_not() -> None:
    seen: list[Any] = []

    def child() -> None:
        seen.append(seq_trace.get_token("label"))

    def parent() -> None:
        for label in ("one", None):
            if label is None:
                seq_trace.set_token(None)
            else:
                begin(label)
            thread = threading.Thread(target=child)
            thread.start()
            thread.join()

    in_process(parent)
    assert seen == [("label", "one"), None]


def test_a_message_without_a_token_clears_and_a_timer_does_not(tracer: inviso.Pid) -> None:
    def body() -> None:
        me = inviso.self()
        begin(1)
        inviso.send_after(0, me, "tick")
        assert inviso.receive(timeout=PATIENCE) == "tick" and seq_trace.get_token("label") == ("label", 1)
        child = inviso.spawn(lambda: (seq_trace.set_token(None), inviso.send(me, "plain")))
        assert inviso.receive("plain", timeout=PATIENCE) == "plain"
        assert seq_trace.get_token() is None
        until(lambda: not child.is_alive())

    in_process(body)


def test_a_pool_of_objects_carries_nothing_unless_told(tracer: inviso.Pid) -> None:
    pool: queue.LifoQueue[Any] = queue.LifoQueue()

    def puts() -> None:
        begin("putter")
        pool.put("connection")

    def takes(expected: Any) -> None:
        assert pool.get(timeout=PATIENCE) == "connection"
        assert seq_trace.get_token("label") == expected

    in_process(puts)
    in_process(takes, None)
    seq_trace.carrier(pool, True)
    in_process(puts)
    in_process(takes, ("label", "putter"))


def test_reset_reaches_messages_under_way(tracer: inviso.Pid) -> None:
    box: queue.Queue[Any] = queue.Queue()
    stop = inviso.spawn(inviso.receive, "stop")

    def puts() -> None:
        begin(5)
        box.put("old")
        inviso.send(stop, "letter")

    in_process(puts)
    seq_trace.reset_trace()

    def takes() -> None:
        begin(6)
        assert box.get() == "old"
        assert seq_trace.get_token() is None

    in_process(takes)
    assert [event[0] for event in events(tracer, 5)] == ["send", "send"]
    inviso.send(stop, "stop")


def test_match_specifications_see_tokens(make: Any) -> None:
    session = make()

    def traced(n: int) -> int:
        return n

    def body() -> None:
        traced(0)
        begin("spec")
        traced(1)

    spec = [(["_"], [("is_seq_trace",)], [("message", ("get_seq_token",))])]
    session.function((__name__, traced.__qualname__, 1), spec, ["local"])
    session.process("new", True, ["call"])
    pid = in_process(body)
    (message,) = session.drain()
    assert message[3][2] == [1] and message[4] == (7, "spec", 0, pid, 0)


def test_many_labels_are_each_a_tree(tracer: inviso.Pid) -> None:
    """Each event but the first of a label has exactly one event that it follows."""
    hops, labels = 6, 40
    boxes = [queue.Queue() for _ in range(4)]
    done = threading.Semaphore(0)

    def worker(n: int) -> None:
        while True:
            item = boxes[n].get()
            if item is None:
                return
            label, left = item
            token = seq_trace.get_token("label")
            assert token == ("label", label), (token, label)
            if left:
                boxes[(n + left) % 4].put((label, left - 1))
            else:
                done.release()

    workers = [inviso.spawn(worker, n) for n in range(4)]
    for label in range(labels):

        def start(label: int = label) -> None:
            begin(label, "send", "receive")
            boxes[label % 4].put((label, hops - 1))

        in_process(start)
    for _ in range(labels):
        assert done.acquire(timeout=PATIENCE)
    for box in boxes:
        seq_trace.set_token(None)
        box.put(None)
    until(lambda: not any(pid.is_alive() for pid in workers))
    for label in range(labels):
        got = events(tracer, label)
        sends = {event[1]: event for event in got if event[0] == "send"}
        receives = {event[1]: event for event in got if event[0] == "receive"}
        assert len(sends) == hops == len(receives) and sends.keys() == receives.keys()
        chain = sorted(sends)
        assert all(later[0] == earlier[1] for earlier, later in pairwise(chain))


# -- labels


@pytest.mark.parametrize(
    "label",
    [
        "x" * 20_000, b"x" * 20_000, list(range(5_000)), {n: str(n) for n in range(1_000)}, frozenset(range(1_000)),
        1 << 100_000,
        [[[[[[[[[["deep"]]]]]]]]]], ("x" * 1_025, 1),
    ],
    ids=lambda label: type(label).__name__,
)  # fmt: skip
def test_a_label_is_kept_whole(tracer: inviso.Pid, label: Any) -> None:
    begin(label, "print", "send")
    assert seq_trace.get_token("label") == ("label", label)
    seq_trace.print(label, "here")
    seq_trace.print([label], "not here")
    inviso.send(inviso.spawn(inviso.receive), "hello")
    seq_trace.set_token(seq_trace.set_token(None))
    assert seq_trace.get_token("label") == ("label", label)
    tags = [event[0] for event in events(tracer, label)]
    assert tags.count("print") == 1 and tags[-1] == "send"


def test_long_labels_that_differ_at_their_ends_are_two(tracer: inviso.Pid) -> None:
    one, other = "x" * 1_024 + "A", "x" * 1_024 + "B"
    begin(one, "print")
    seq_trace.print(other, "other")
    seq_trace.print(one, "one")
    assert [event[4] for event in events(tracer, one)] == ["one"]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (frozenset([0, 8]), frozenset([8, 0])),
        ([{1: {0, 8}, 2: 0}], [{2: 0, 1: {8, 0}}]),
        ({"a": 1, b"a": 2}, {b"a": 2, "a": 1}),
    ],
)
def test_labels_are_compared_as_terms(tracer: inviso.Pid, one: Any, same: Any) -> None:
    begin(one, "print")
    seq_trace.print(same, "same")
    for other in (1, True, 1.0, "a"):
        seq_trace.print([one, other], "other")
    assert [event[4] for event in events(tracer, one)] == ["same"]


def test_1_and_1_0_are_two_labels(tracer: inviso.Pid) -> None:
    begin(1, "print")
    seq_trace.print(1.0, "other")
    seq_trace.print(1, "same")
    assert [event[4] for event in events(tracer, 1)] == ["same"]


def test_a_task_that_is_done_is_no_system_tracer() -> None:
    async def main() -> asyncio.Task[Any]:
        task = asyncio.create_task(inviso.areceive("stop"))
        await asyncio.sleep(0)
        pid = inviso.pid(task)
        seq_trace.set_system_tracer(pid)
        assert seq_trace.get_system_tracer() == pid
        inviso.send(pid, "stop")
        await task
        return task

    task = asyncio.run(main())
    assert task.done()
    assert seq_trace.get_system_tracer() is False
    task = asyncio.run(main())
    assert seq_trace.set_system_tracer(False) is False


def deep(depth: int) -> Any:
    label: Any = 0
    for _ in range(depth):
        label = [label]
    return label


@pytest.mark.parametrize("label", ["x" * 33_000, b"x" * (1 << 20), [0] * 100_000, 1 << 300_000, deep(61)], ids=type)
def test_a_label_that_is_too_long_is_refused(tracer: inviso.Pid, label: Any) -> None:
    begin(1, "print")
    for call in (lambda: seq_trace.set_token("label", label), lambda: seq_trace.set_token((7, label, 0, None, 0))):
        with pytest.raises(inviso.BadArg, match="too long or too deep"):
            call()
    seq_trace.print(label, "nobody has it")
    assert seq_trace.get_token("label") == ("label", 1) and events(tracer, 1) == []


def test_a_long_label_goes_on_by_headers_as_far_as_they_reach() -> None:
    begin("x" * 5_900)
    headers = seq_trace.inject({})
    assert len(headers) == 1 and seq_trace.extract(headers)
    assert seq_trace.get_token("label") == ("label", "x" * 5_900)
    begin("x" * 7_000)
    before = seq_trace.rejected()
    assert seq_trace.inject({}) == {} and seq_trace.rejected() == before + 1


def test_the_deepest_label_goes_on_by_headers() -> None:
    begin(deep(60))
    assert seq_trace.extract(seq_trace.inject({}))
    assert seq_trace.get_token("label") == ("label", deep(60))


# -- bad input


@pytest.mark.parametrize(
    ("flags", "has"), [(-1, 63), (65535, 63), (64, 0), (1 << 70, 0), ((1 << 70) + 5, 5), (-(1 << 70), 0)]
)
def test_of_the_flags_of_a_token_the_known_ones_are_taken(flags: int, has: int) -> None:
    """As OTP does."""
    seq_trace.set_token((flags, 17, 1, inviso.self(), 0))
    assert seq_trace.get_token()[:3] == (has, 17, 1)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("component", lambda: seq_trace.set_token("labels", 1)),
        ("component", lambda: seq_trace.get_token(5)),
        ("value", lambda: seq_trace.set_token("send", 1)),
        ("value", lambda: seq_trace.set_token("serial", (1.0, 2))),
        ("value", lambda: seq_trace.set_token("serial", (1, 1 << 63))),
        ("token", lambda: seq_trace.set_token("label")),
        ("token", lambda: seq_trace.set_token((1, 2, 3))),
        ("tracer", lambda: seq_trace.set_system_tracer(5)),
        ("tracer", lambda: seq_trace.set_system_tracer(True)),
        ("label", lambda: seq_trace.print(Atom("a"), 1)),
        ("info", lambda: seq_trace.print()),
        ("on", lambda: seq_trace.carrier(queue.Queue(), 1)),
        ("queue", lambda: seq_trace.carrier(5, True)),
    ],
)
def test_wrong_arguments(argument: str, call: Any) -> None:
    before = seq_trace.get_token(), seq_trace.get_system_tracer()
    with pytest.raises(inviso.BadArg) as refused:
        call()
    assert refused.value.argument == argument
    assert (seq_trace.get_token(), seq_trace.get_system_tracer()) == before


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("odd", [Unshown(), 10**5000], ids=["no repr", "too many digits"])
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("value", lambda odd: seq_trace.set_token("send", odd)),
        ("value", lambda odd: seq_trace.set_token("serial", (0, odd))),
        ("component", lambda odd: seq_trace.set_token(odd, 1)),
        ("token", lambda odd: seq_trace.set_token(odd)),
        ("component", lambda odd: seq_trace.get_token(odd)),
        ("tracer", lambda odd: seq_trace.set_system_tracer(odd)),
        ("tracer", lambda odd: seq_trace.set_system_tracer((odd, 1))),
        ("without", lambda odd: seq_trace.extract({}, without=odd)),
        ("carrier", lambda odd: seq_trace.extract([odd])),
        ("getter", lambda odd: seq_trace.extract({}, odd)),
        ("setter", lambda odd: seq_trace.inject({}, odd)),
        ("env", lambda odd: seq_trace.to_environment(odd)),
        ("queue", lambda odd: seq_trace.carrier(odd, True)),
        ("on", lambda odd: seq_trace.carrier(queue.Queue(), odd)),
        ("outputs", lambda odd: seq_trace.merge(odd)),
        ("node", lambda odd: seq_trace.Output(odd, (0, 0))),
        ("events", lambda odd: seq_trace.Output("a@b", (0, 0), [odd])),
        ("events", lambda odd: seq_trace.chart([odd])),
        ("events", lambda odd: seq_trace.chart(odd)),
        ("names", lambda odd: seq_trace.chart([], names=odd)),
        ("event", lambda odd: seq_trace.format(odd)),
        ("file", lambda odd: seq_trace.printer(odd)),
        ("destination", lambda odd: inviso.send(odd, 1)),
        ("pid", lambda odd: inviso.register("somebody", odd)),
        ("application", lambda odd: wsgi.Middleware(odd)),
        ("application", lambda odd: asgi.Middleware(odd)),
    ],
)
def test_what_can_t_be_shown_is_refused_as_any_other(argument: str, call: Any, odd: Any) -> None:
    with pytest.raises(inviso.BadArg) as refused:
        call(odd)
    assert refused.value.argument == argument and " object at 0x" in str(refused.value)


def test_the_serial_of_an_empty_token_is_that_of_a_new_one() -> None:
    """As OTP answers: the last serial that the process took, and 0."""

    def body() -> None:
        assert seq_trace.set_token("serial", (0, 0)) == (0, 0)
        seq_trace.set_token("serial", (3, 7))
        token = seq_trace.set_token(None)
        assert token is not None and seq_trace.set_token("serial", (0, 0)) == (3, 0)
        assert seq_trace.set_token("serial", (1, 2)) == (0, 0)

    in_process(body)


def test_a_serial_at_its_end_is_counted() -> None:
    def body() -> None:
        begin(9)
        seq_trace.set_token("serial", (5, (1 << 63) - 2))
        for _ in range(4):
            seq_trace.print("to the end, and beyond")
        assert seq_trace.get_token("serial")[1][1] == (1 << 63) - 1

    before = seq_trace.overflows()
    in_process(body)
    assert seq_trace.overflows() == before + 3


def test_the_library_is_itself_again() -> None:
    put = queue.SimpleQueue.put, queue.Queue._put

    def body() -> None:
        begin(3)
        assert (queue.SimpleQueue.put, queue.Queue._put) == put

    in_process(body)
    seq_trace.reset_trace()
    assert (queue.SimpleQueue.put, queue.Queue._put) == put
    assert trace.session_info("all") == []


def test_a_fork_and_an_exit_with_tokens() -> None:
    text = """
import inviso, os, queue, warnings
from inviso import seq_trace
seq_trace.set_system_tracer(inviso.spawn(inviso.receive, "over"))
seq_trace.set_token("label", 1), seq_trace.set_token("send", True)
box = queue.Queue()
box.put(1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pid = os.fork()
if pid == 0:
    assert seq_trace.get_system_tracer() is False and seq_trace.get_token() is None
    box.put(2), box.get()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert seq_trace.get_token("label") == ("label", 1)
print("good")
"""
    assert good(text) == "good\n"


def test_a_label_holds_for_a_block_and_gives_the_token_before_back(tracer: inviso.Pid) -> None:
    begin("outer", "print")
    outer = seq_trace.get_token()
    with seq_trace.label("order 7", events=["send", "print"], timestamp="monotonic_timestamp"):
        assert seq_trace.get_token("label") == ("label", "order 7")
        assert [
            seq_trace.get_token(flag)[1] for flag in ("send", "receive", "print", "timestamp", "monotonic_timestamp")
        ] == [
            True,
            False,
            True,
            False,
            True,
        ]
    assert seq_trace.get_token()[:2] == outer[:2]
    seq_trace.set_token(None)
    with seq_trace.label("all of them"):
        assert all(seq_trace.get_token(flag)[1] for flag in ("send", "receive", "print"))
    assert seq_trace.get_token() is None
    with pytest.raises(ZeroDivisionError), seq_trace.label("fails"):
        raise ZeroDivisionError
    assert seq_trace.get_token() is None


def test_a_label_s_message_carries_it_on_after_the_block() -> None:
    box: queue.Queue[str] = queue.Queue()
    with seq_trace.label("order 8"):
        box.put("item")
    assert seq_trace.get_token() is None
    assert box.get() == "item"
    assert seq_trace.get_token("label") == ("label", "order 8")


@pytest.mark.parametrize(
    ("events", "timestamp", "text"),
    [
        ("sent", None, "events: unknown event 'sent'"),
        (["print", "all"], None, "events: unknown event 'all'"),
        (7, None, "events: 7 is not a list"),
        ("all", "time", "timestamp: 'time' is not a kind of timestamp"),
    ],
)
def test_a_label_with_wrong_arguments_changes_nothing(events: Any, timestamp: Any, text: str) -> None:
    begin("stays", "print")
    with pytest.raises(inviso.BadArg, match=text):
        seq_trace.label("order 9", events, timestamp=timestamp)
    with pytest.raises(inviso.BadArg, match="label of type str is too long"), seq_trace.label("x" * 40_000):
        pass
    assert seq_trace.get_token("label") == ("label", "stays")
    assert seq_trace.get_token("print") == ("print", True)
