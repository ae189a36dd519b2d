"""Tokens between operating system processes: queues, connections, pools and their processes, by each start method."""

from __future__ import annotations

import ast
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import seq_trace
from seq_tools import begin, label, system_tracer
from trace_tools import child
from waiting import until

METHODS = ["spawn", "forkserver", pytest.param("fork", marks=pytest.mark.filterwarnings("ignore:.*fork.*"))]
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def tracer() -> Iterator[inviso.Pid]:
    with system_tracer() as keeper:
        yield keeper


def serial(*_: Any) -> Any:
    return seq_trace.get_token("serial")


def shape(tracer: inviso.Pid, label: Any) -> list[Any]:
    return [m[2][:2] for m in inviso.peek(tracer) if m[0] == "seq_trace" and m[1] == label]


def echo(taken: Any, answers: Any) -> None:
    """A child: it sends each item back, with its token."""
    answers.put(("begun", label()))
    while (item := taken.get()) is not None:
        answers.put((item, label()))


def echo_connection(connection: Any) -> None:
    while (item := connection.recv()) is not None:
        connection.send((item, label()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_queues_and_processes(tracer: inviso.Pid, method: str, kind: str) -> None:
    context = multiprocessing.get_context(method)
    there, back = getattr(context, kind)(), getattr(context, kind)()
    begin("queue")
    process = context.Process(target=echo, args=(there, back))
    process.start()
    assert "_inviso" not in vars(process)
    assert back.get() == ("begun", "queue"), "the child's main thread inherits"
    there.put(1)
    assert back.get() == (1, "queue") and label() == "queue"
    seq_trace.set_token(None)
    there.put(1)
    assert back.get() == (1, None) and label() is None, "a message without a token clears"
    begin("another")
    for n in range(20):
        there.put(n % 2)  # the same objects again and again
    assert [back.get() for _ in range(20)] == [(n % 2, "another") for n in range(20)]
    there.put(None)
    process.join(PATIENCE)
    assert process.exitcode == 0
    # sends and receives of the child are events there, without a tracer
    assert shape(tracer, "queue") == [("send", (0, 1)), ("receive", (1, 2)), ("send", (2, 3)), ("receive", (3, 4))]


@pytest.mark.parametrize("method", METHODS)
def test_connections(tracer: inviso.Pid, method: str) -> None:
    context = multiprocessing.get_context(method)
    begin("pipe")
    near, far = context.Pipe()
    process = context.Process(target=echo_connection, args=(far,))
    process.start()
    seq_trace.set_token(None)
    near.send("none")
    assert near.recv() == ("none", None)
    begin("connection")
    near.send({"a": 1})
    assert near.recv() == ({"a": 1}, "connection")
    near.send(None)
    process.join(PATIENCE)
    assert process.exitcode == 0
    near.send_bytes(b"left as it is")
    assert far.recv_bytes() == b"left as it is"


@pytest.mark.parametrize("kind", ["Pipe", "Queue", "SimpleQueue"])
def test_a_reset_reaches_objects_under_way(kind: str) -> None:
    made: Any = getattr(multiprocessing, kind)()
    put, get = (made[0].send, made[1].recv) if kind == "Pipe" else (made.put, made.get)
    begin("old")
    put("under way")
    if kind == "Queue":
        until(lambda: not made.empty())
    seq_trace.reset_trace()
    begin("new")
    assert get() == "under way" and label() is None
    begin("new")
    put("next")
    seq_trace.set_token(None)
    assert get() == "next" and label() == "new"


@pytest.mark.parametrize("method", METHODS)
def test_process_pool_executor(tracer: inviso.Pid, method: str) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        begin("pool")
        first = pool.submit(label, 1)
        assert first.result(PATIENCE) == "pool" == label()
        seq_trace.set_token(None)
        calls = []
        for n in range(20):
            if n % 3:
                begin(n)
            else:
                seq_trace.set_token(None)
            calls.append((n, pool.submit(label, n)))
        seq_trace.set_token(None)
        assert [call.result(PATIENCE) for _, call in calls] == [n if n % 3 else None for n in range(20)]
        begin("map")
        results = pool.map(label, range(6), chunksize=2)
        seq_trace.set_token(None)
        assert next(results) == "map" == label()
        begin("another")
        assert list(results) == ["map"] * 5 and label() == "map"
    found = shape(tracer, "pool")
    assert [tag for tag, _ in found] == ["send", "receive"]
    assert found[0][1] == (0, 1) and found[1][1] == (1, 2), "the result is an event of the worker's"


@pytest.mark.parametrize("method", METHODS)
def test_pool(tracer: inviso.Pid, method: str) -> None:
    begin("before")
    with multiprocessing.get_context(method).Pool(2) as pool:
        seq_trace.set_token(None)
        assert pool.apply(label) is None, "a worker inherits nothing"
        begin("apply")
        assert pool.apply(label) == "apply" == label()
        result = pool.apply_async(label)
        seq_trace.set_token(None)
        assert result.get(PATIENCE) == "apply" == label(), "the process that takes the result has its token"
        seq_trace.set_token(None)
        assert pool.apply(label) is None
        with pytest.raises(ZeroDivisionError):
            pool.apply(divmod, (1, 0))


def labelled(n: Any, *_: Any) -> Any:
    if n == "bad":
        raise LookupError(n, label())
    return n, label()


@pytest.mark.parametrize("kind", [*METHODS, "threads"])
def test_a_pool_that_maps(tracer: inviso.Pid, kind: str) -> None:
    begin("before")
    threads = kind == "threads"
    with ThreadPool(2) if threads else multiprocessing.get_context(kind).Pool(2) as pool:
        seq_trace.set_token(None)
        items = list(range(5))

        def each(label: Any) -> list[Any]:
            return [(n, label) for n in items]

        for name, ask in {
            "map": lambda: pool.map(labelled, items, chunksize=2),
            "map_async": lambda: pool.map_async(labelled, items).get(PATIENCE),
            "starmap": lambda: pool.starmap(labelled, [(n, n) for n in items]),
            "imap": lambda: list(pool.imap(labelled, iter(items))),
            "imap in chunks": lambda: list(pool.imap(labelled, items, chunksize=2)),
            "imap_unordered": lambda: sorted(pool.imap_unordered(labelled, items)),
        }.items():
            begin(name)
            before = serial()[1][1]
            assert ask() == each(name) and label() == name, name
            assert serial()[1][1] >= before + 2, "a call and its results"
            seq_trace.set_token(None)
            assert ask() == each(None) and label() is None, name
            begin("taken later")
            late = pool.imap(labelled, items)
            seq_trace.set_token(None)
            assert next(late) == (0, "taken later") and label() == "taken later"
            seq_trace.set_token(None)
            assert list(late) == each("taken later")[1:]
            seq_trace.set_token(None)
        begin("fails")
        with pytest.raises(LookupError, match="fails"):
            pool.map(labelled, ["bad", 1], chunksize=1)
        seq_trace.set_token(None)
        begin("one fails")
        late = pool.imap(labelled, ["bad", 1])
        with pytest.raises(LookupError):
            next(late)
        assert next(late) == (1, "one fails")
        with pytest.raises(StopIteration):
            next(late)
    sends = [m for m in inviso.peek(tracer) if m[0] == "seq_trace" and m[1] == "map" and m[2][0] == "send"]
    assert sends[0][2][4] == ("multiprocessing.pool", "Pool.map", [(__name__, "labelled"), items])
    if not threads:  # one call, and the results of its three chunks
        assert [tag for tag, _ in shape(tracer, "map")] == ["send", "receive", "receive", "receive"]


def test_a_pool_of_threads(tracer: inviso.Pid) -> None:
    begin("before")
    with ThreadPool(1) as pool:
        begin("first")
        assert pool.apply(labelled, (1,)) == (1, "first")
        seq_trace.set_token(None)
        assert pool.apply(labelled, (2,)) == (2, None), "nothing is left in the thread"
        assert pool.apply_async(label).get(PATIENCE) is None
    # the request, the task to the thread, its result: a chain
    found = shape(tracer, "first")
    assert [tag for tag, _ in found] == ["send", "receive", "send", "receive"]
    assert found[0][1] == found[1][1] and found[2][1] == found[3][1] == (found[0][1][1], found[0][1][1] + 1)


def fails(n: int, **_: Any) -> None:
    raise LookupError(n)


def test_both_ends_of_a_pool_are_told_of_the_same_messages(tracer: inviso.Pid) -> None:
    def told() -> list[Any]:
        return [(m[2][0], m[2][4]) for m in inviso.peek(tracer) if m[0] == "seq_trace" and m[1] == "pool"]

    with ThreadPool(1) as pool:
        begin("pool")
        pool.apply(labelled, (1,))  # a worker thread that waits already misses this one
        before = len(told())
        with pytest.raises(LookupError):
            pool.apply(fails, (1,), {"a": 2})
        pool.starmap(labelled, [(1, 2)])
    call, raised = (__name__, "fails", [1, {"a": 2}]), ("LookupError", (1,))
    whole, piece = ((*STARMAP, [(__name__, "labelled"), items]) for items in ([(1, 2)], ((1, 2),)))
    answer = [(1, "pool")]
    assert told()[before:] == [
        ("send", call), ("receive", call), ("send", raised), ("receive", raised),
        ("send", whole), ("receive", piece), ("send", answer), ("receive", answer),
    ]  # fmt: skip


STARMAP = ("multiprocessing.pool", "Pool.starmap")

IN_THE_WORKER = """
import multiprocessing, inviso
from inviso import seq_trace

def told(_):
    return [e for e in inviso.peek(keeper)]

def set_up():
    global keeper
    import threading
    keeper = inviso.spawn(threading.Event().wait)
    seq_trace.set_system_tracer(keeper)

if __name__ == "__main__":
    seq_trace.set_token("label", "w")
    seq_trace.set_token("receive", True)
    seq_trace.set_token("send", True)
    with multiprocessing.get_context("fork").Pool(1, set_up) as pool:
        pool.apply(abs, (-1,))
        pool.map(abs, [-2, -3], 2)
        events = pool.apply(told, (0,))
    print([(e[2][0], e[2][4]) for e in events])
"""


def test_what_a_worker_process_takes_and_answers() -> None:
    done = child(IN_THE_WORKER, flags=["-W", "ignore"])
    assert done.returncode == 0, done.stderr
    told = ast.literal_eval(done.stdout)
    assert told == [
        ("receive", ("builtins", "abs", [-1])),
        ("send", 1),
        ("receive", ("multiprocessing.pool", "Pool.map", [("builtins", "abs"), (-2, -3)])),
        ("send", [2, 3]),
        ("receive", ("__main__", "told", [0])),
    ]


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_callbacks_of_a_pool_have_the_token_of_the_result(kind: str) -> None:
    begin("before")
    taken: queue.Queue[Any] = queue.Queue()
    with ThreadPool(2) if kind == "threads" else multiprocessing.get_context("fork").Pool(2) as pool:
        had: list[Any] = []

        def called(value: object) -> None:
            had.append((label(), serial()))
            taken.put(value)

        asks: dict[str, Callable[[], Any]] = {
            "value": lambda: pool.apply_async(abs, (-1,), callback=called),
            "error": lambda: pool.apply_async(abs, ("x",), error_callback=called),
            "map": lambda: pool.map_async(abs, range(4), 1, callback=called),
            "map's error": lambda: pool.map_async(abs, ["x", 1], 1, error_callback=called),
        }
        for name, ask in asks.items():
            begin(name)
            result = ask()
            seq_trace.set_token(None)
            taken.get(timeout=PATIENCE)
            assert label() == name, "messages of a callback have its token"
            seq_trace.set_token(None)
            result.wait(PATIENCE)
            assert result.ready() and label() is None
            if not name.endswith("error"):
                result.get(PATIENCE)
                assert had[-1] == (name, serial()), "the caller takes the same"
            seq_trace.set_token(None)
            ask()
            taken.get(timeout=PATIENCE)
            assert label() is None and had[-1][0] is None, "nothing is left in the library's thread"


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_callbacks_of_a_process_pool_executor_have_the_token_of_the_result() -> None:
    begin("before")
    reader, writer = os.pipe()
    done: queue.Queue[Any] = queue.Queue()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        for name in ("first", None, "second"):
            seq_trace.set_token(None) if name is None else begin(name)
            future = pool.submit(os.read, reader, 1)
            seq_trace.set_token(None)
            seen: list[Any] = []
            future.add_done_callback(lambda it, seen=seen: [seen.append(label()), done.put(it)])  # type: ignore[misc]
            os.write(writer, b".")
            assert done.get(timeout=PATIENCE) is future and [label()] == seen == [name]
            seq_trace.set_token(None)
            assert future.result() == b"." and label() == name
            seq_trace.set_token(None)
    os.close(reader)
    os.close(writer)


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_pools_and_managers_that_come_and_go_are_no_messages(tracer: inviso.Pid) -> None:
    fork = multiprocessing.get_context("fork")
    begin("own")
    for make in (lambda: fork.Pool(1), lambda: ThreadPool(1)):
        with make():
            pass
        pool = make()
        pool.close()
        pool.join()
    manager = fork.Manager()
    assert label() == "own" and serial() == ("serial", (0, 0)) and shape(tracer, "own") == []
    manager.shutdown()


def nap(began: Path) -> None:
    """Reports its beginning by a file."""
    began.touch()
    time.sleep(1.5)


def receives(tracer: inviso.Pid) -> list[Any]:
    return [event for event in shape(tracer, "own") if event[0] == "receive"]


@pytest.mark.parametrize(
    "make", [lambda: multiprocessing.get_context("fork").Pool(1), lambda: ThreadPool(1)], ids=["processes", "threads"]
)
@pytest.mark.parametrize("carried", [True, False])
def test_what_a_terminated_pool_throws_away_is_no_message(
    tracer: inviso.Pid, make: Any, carried: bool, tmp_path: Path
) -> None:
    """It takes tasks out of its own pipe, in the thread that terminates it, with tokens and without."""
    if carried:
        begin("own")
    pool = make()
    for _ in range(5):
        pool.apply_async(nap, (tmp_path / "began",))
    if not carried:
        begin("own")
    # one is received, and the others are under way
    until(lambda: (tmp_path / "began").exists() and pool._taskqueue.empty() and not pool._inqueue.empty())
    before, received = serial(), receives(tracer)
    pool.terminate()
    pool.join()
    assert (label(), serial(), receives(tracer)) == ("own", before, received)


def into(shared: Any, answers: Any) -> None:
    shared["there"] = label()
    answers.put(("there", label()))


@pytest.mark.parametrize("method", METHODS)
def test_managers(tracer: inviso.Pid, method: str) -> None:
    context = multiprocessing.get_context(method)
    begin("before")
    with context.Manager() as manager:
        seq_trace.set_token(None)
        shared, answers = manager.dict(), manager.Queue()
        assert label() is None
        begin("managed")
        process = context.Process(target=into, args=(shared, answers))
        process.start()
        shared["here"] = label()
        assert answers.get(timeout=PATIENCE) == ("there", "managed") and label() == "managed"
        process.join(PATIENCE)
        assert shared.copy() == {"here": "managed", "there": "managed"} and label() == "managed"
        seq_trace.set_token(None)
        assert len(shared) == 2 and label() is None, "an answer to a request without a token has no token"


def test_serials_go_through_a_child() -> None:
    begin("serial")
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        before = serial()[1][1]
        there = pool.apply(serial)
        assert there[1] == (before, before + 1)
        assert serial()[1] == (before + 1, before + 2)


def test_nothing_is_changed_without_tokens_and_all_is_given_back() -> None:
    from multiprocessing import process, reduction

    def now() -> list[Any]:
        pickler = vars(reduction.ForkingPickler)
        return [pickler["dumps"], pickler["loads"], vars(process.BaseProcess)["start"]]

    before = now()
    begin("x")
    there = now()
    assert all(one is not other for one, other in zip(before, there, strict=True))
    assert process.BaseProcess.start.__name__ == "start" and process.BaseProcess.start.__doc__ == before[2].__doc__
    seq_trace.reset_trace()
    assert now() == before


def test_what_the_program_has_put_over_ours_stays_and_ours_go_when_that_goes() -> None:
    from multiprocessing import process, reduction

    pickler, base = reduction.ForkingPickler, process.BaseProcess
    dumps, start = vars(pickler)["dumps"], vars(base)["start"]
    one, other = multiprocessing.Pipe()
    begin("over")
    ours = base.start

    def program_s(self: Any) -> None:
        ours(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "start", program_s)
        inner = pickler.dumps
        patch.setattr(pickler, "dumps", classmethod(lambda _, obj, protocol=None: inner(obj, protocol)))
        one.send("with a token")
        seq_trace.set_token(None)
        assert other.recv() == "with a token" and label() == "over"
        seq_trace.reset_trace()
        assert vars(base)["start"] is program_s and vars(pickler)["dumps"] is not dumps
        one.send("none")
        assert other.recv() == "none" and label() is None
        begin("again")  # ours are over the program's now, and under it, and one of them acts
        one.send("with one")
        seq_trace.set_token(None)
        assert other.recv() == "with one" and label() == "again"
        seq_trace.reset_trace()
        assert vars(base)["start"] is program_s
    one.send(1)  # the first call of ours that finds nothing over it
    assert other.recv() == 1 and vars(pickler)["dumps"] is dumps
    begin("last")
    seq_trace.reset_trace()
    assert vars(pickler)["dumps"] is dumps and vars(base)["start"] is start


class Strict(multiprocessing.Process):
    def __setattr__(self, name: str, value: Any) -> None:
        assert name != "_inviso"
        super().__setattr__(name, value)


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_process_class_sees_nothing_of_what_goes_along() -> None:
    begin("strict")
    answers = multiprocessing.SimpleQueue()
    process = Strict(target=put_label, args=(answers,))
    process.start()
    assert answers.get() == "strict"
    process.join()
    assert not hasattr(process, "_inviso")


def put_label(answers: Any) -> None:
    answers.put(label())


def test_a_peer_without_tokens_sees_an_ordinary_pickle() -> None:
    from multiprocessing.reduction import ForkingPickler

    near, far = multiprocessing.Pipe()
    begin("x")
    near.send([1, 2])
    data = far.recv_bytes()
    assert pickle.loads(data) == [1, 2] and b"inviso seq_trace" in data
    seq_trace.set_token(None)
    assert ForkingPickler.loads(data) == [1, 2]
    assert label() == "x"


@pytest.mark.parametrize("behind", [b"", b"\x83h\x00", b"\xff" * 30, b"\x83" + b"l\xff\xff\xff\xff" * 10])
def test_what_is_no_token_is_ignored_and_counted(behind: bytes) -> None:
    from multiprocessing.reduction import ForkingPickler

    begin("x")
    seq_trace.set_token(None)
    before = seq_trace.rejected()
    data = pickle.dumps("y") + behind + len(behind).to_bytes(4, "big") + b"\x00inviso seq_trace 1\x00"
    assert ForkingPickler.loads(data) == "y" and label() is None
    assert ForkingPickler.loads(pickle.dumps("y") + b"\xff\xff\xff\xff\x00inviso seq_trace 1\x00") == "y"
    assert seq_trace.rejected() == before + 2


@pytest.mark.parametrize("kind", [multiprocessing.Queue, multiprocessing.JoinableQueue])
def test_what_is_not_put_is_not_sent(tracer: inviso.Pid, kind: Any) -> None:
    items = kind(1)
    seq_trace.set_token("label", "full")
    seq_trace.set_token("send", True)
    seq_trace.set_token("receive", True)
    items.put("one", block=False)
    for options in ({"block": False}, {"timeout": 0.001}):
        with pytest.raises(queue.Full):
            items.put("one", **options)
    assert seq_trace.get_token("serial") == ("serial", (0, 1))
    assert items.get(timeout=30) == "one"
    assert seq_trace.get_token("serial") == ("serial", (0, 1))
    items.close()
    with pytest.raises(ValueError):
        items.put("late")
    assert seq_trace.get_token("serial") == ("serial", (0, 1))
    seq_trace.set_token([])
    assert shape(tracer, "full") == [("send", (0, 1)), ("receive", (0, 1))]


@pytest.mark.parametrize("kind", [multiprocessing.Queue, multiprocessing.JoinableQueue, multiprocessing.SimpleQueue])
@pytest.mark.parametrize("options", [{}, {"block": False}])
def test_a_queue_that_carries_nothing(tracer: inviso.Pid, kind: Any, options: dict[str, Any]) -> None:
    items: Any = kind() if kind is multiprocessing.SimpleQueue else kind(9)
    put_options = {} if kind is multiprocessing.SimpleQueue else options
    begin("put")
    items.put(1, **put_options)  # with a token, as another process does that says nothing
    seq_trace.carrier(items, False)
    items.put(2, **put_options)
    seq_trace.set_token(None)
    begin("own")
    assert [items.get(), items.get()] == [1, 2] and label() == "own"
    seq_trace.carrier(items, True)
    items.put(3, **put_options)
    seq_trace.set_token(None)
    assert items.get() == 3 and label() == "own"
    assert shape(tracer, "put") == [("send", (0, 1))]


def test_a_manager_s_queue_is_refused() -> None:
    with multiprocessing.get_context("spawn").Manager() as manager, pytest.raises(inviso.BadArg, match="queue: a "):
        seq_trace.carrier(manager.Queue(), False)


def broken_connection() -> None:
    near, far = multiprocessing.Pipe()
    far.close()
    near.send("lost")


def broken_queue() -> None:
    items: Any = multiprocessing.SimpleQueue()
    items.close()
    items.put("lost")


def broken_start() -> None:
    multiprocessing.get_context("spawn").Process(target=lambda: None).start()


@pytest.mark.parametrize("fails", [broken_connection, broken_queue, broken_start])
def test_what_fails_to_be_sent_is_not_sent(tracer: inviso.Pid, fails: Any) -> None:
    begin("x")
    token = seq_trace.get_token()
    with pytest.raises(Exception, match=r"(?i)pipe|closed|pickle|local"):
        fails()
    assert seq_trace.get_token() == token and shape(tracer, "x") == []
    near, far = multiprocessing.Pipe()
    near.send("next")
    assert far.recv() == "next" and shape(tracer, "x") == [("send", (0, 1)), ("receive", (0, 1))]


def test_sends_inside_each_other_keep_apart(tracer: inviso.Pid) -> None:
    slow, there = multiprocessing.Pipe()
    near, _far = multiprocessing.Pipe()
    broken, end = multiprocessing.Pipe()
    end.close()

    def also(*_: Any) -> None:
        near.send("inner")
        with pytest.raises(BrokenPipeError):
            broken.send("lost")
        signalled.set()

    taken: list[Any] = []
    signalled = threading.Event()
    reader = threading.Thread(target=lambda: (signalled.wait(PATIENCE), taken.append(len(there.recv()))))
    reader.start()
    before = signal.signal(signal.SIGALRM, also)
    begin("x")
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        slow.send("x" * 10_000_000)  # waits for the reader, and the signal comes meanwhile
    finally:
        signal.signal(signal.SIGALRM, before)
    reader.join(PATIENCE)
    assert taken == [10_000_000]
    assert sorted(event for event in shape(tracer, "x") if event[0] == "send") == [("send", (0, 1)), ("send", (0, 2))]


def test_objects_that_can_t_be_pickled(tracer: inviso.Pid, capfd: pytest.CaptureFixture[str]) -> None:
    near, far = multiprocessing.Pipe()
    begin("x")
    with pytest.raises(Exception, match=r"(?i)pickle|local"):
        near.send(lambda: None)
    near.send("next")
    assert far.recv() == "next" and label() == "x"
    queue: Any = multiprocessing.get_context("spawn").Queue()
    queue.put(lambda: None)  # its feeder thread reports the error, and goes on
    queue.put("next")
    assert queue.get(timeout=PATIENCE) == "next" and label() == "x"
    assert "ickle" in capfd.readouterr().err


def test_a_fork_of_the_program_s_own_has_no_token() -> None:
    done = child(
        """
import os, inviso
from inviso import seq_trace
seq_trace.set_token("label", "parent")
if (pid := os.fork()) == 0:
    os._exit(0 if seq_trace.get_token() is None else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert seq_trace.get_token("label") == ("label", "parent")
"""
    )
    assert done.returncode == 0, done.stderr
