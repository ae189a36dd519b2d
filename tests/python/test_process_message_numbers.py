"""A receipt has the number of its sending in another process: `multiprocessing`, with a log of each process."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import analysis, export, log, merge, seq_trace, trace, trace_ports
from trace_tools import in_threads
from waiting import until

FLAGS = ["send", "receive", "monotonic_timestamp"]
METHODS = ["spawn", pytest.param("fork", marks=pytest.mark.filterwarnings("ignore:.*fork.*"))]
KINDS = ["Queue", "JoinableQueue", "SimpleQueue", "Pipe"]
PATIENCE = 60.0
ITEM = {"job": [1, "same"]}


@contextmanager
def logged(path: str | Path, flags: list[str] = FLAGS, **options: Any) -> Iterator[inviso.Session]:
    """Every process of this program is traced into a log."""
    port = trace_ports.trace_port("file", str(path), **options)()
    with trace.session_create("log", port) as session:
        session.process("all", True, flags)
        session.process("new", True, flags)
        yield session
        assert session.delivered().wait(PATIENCE)
    port.close()


def channel(context: Any, kind: str) -> tuple[Any, Any]:
    """The functions that put and take."""
    if kind == "Pipe":
        reader, writer = context.Pipe(False)
        return writer, reader
    made = getattr(context, kind)()
    return made, made


def put(into: Any, item: Any) -> None:
    into.send(item) if hasattr(into, "send") else into.put(item)


def take(out: Any) -> Any:
    return out.recv() if hasattr(out, "recv") else out.get()


def sends(path: str | None, into: Any, count: int, go: Any, last: str = "return") -> None:
    """A child that sends the same object again and again."""
    with logged(path) if path else open(os.devnull):
        for _ in range(count):
            put(into, ITEM)
        if hasattr(into, "join_thread"):
            into.close()
            into.join_thread()
    go.release()
    if last == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def echoes(out: Any, back: Any, count: int, path: str | None) -> None:
    """A child that sends back each item."""
    with logged(path) if path else open(os.devnull):
        for _ in range(count):
            put(back, take(out))
        if hasattr(back, "join_thread"):
            back.close()
            back.join_thread()


def messages(*logs: Path) -> list[dict[str, Any]]:
    """The received items, in this order."""
    rows = [
        row
        for row in analysis.tables({path.stem: path for path in logs}).messages.rows()
        if row["receiver_id"] is not None
    ]
    return sorted(rows, key=lambda row: int(row["received_mono_ns"]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_messages_of_two_processes_are_told_apart(tmp_path: Path, method: str, kind: str) -> None:
    context: Any = multiprocessing.get_context(method)
    paths, count = [tmp_path / f"{name}.log" for name in ("here", "one", "two")], 30
    made = [(*channel(context, kind), context.Semaphore(0)) for _ in range(2)]
    with logged(paths[0]):
        for path, (into, _, go) in zip(paths[1:], made, strict=True):
            process = context.Process(target=sends, args=(str(path), into, count, go))
            process.start()
            assert go.acquire(True, PATIENCE)
        # the last sender's item is taken first
        for _, out, _ in reversed(made):
            assert [take(out) for _ in range(count)] == [ITEM] * count
        for child in multiprocessing.active_children():
            child.join(PATIENCE)
    rows = messages(*paths)
    assert Counter(row["pairing"] for row in rows) == {"exact": 2 * count}
    assert [row["node"] for row in rows] == ["two"] * count + ["one"] * count
    for part in rows[:count], rows[count:]:
        sent = [row["sent_mono_ns"] for row in part]
        assert sent == sorted(sent) and len(set(sent)) == count and all(row["wait_ns"] >= 0 for row in part)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compress", [False, True])
def test_there_and_back(tmp_path: Path, method: str, kind: str, compress: bool) -> None:
    context: Any = multiprocessing.get_context(method)
    (there, out), (back, taken), count = channel(context, kind), channel(context, kind), 20
    here, other = tmp_path / "here.log", tmp_path / "other.log"
    with logged(here, compress=compress):
        process = context.Process(target=echoes, args=(out, back, count, str(other)))
        process.start()
        for _ in range(count):
            put(there, ITEM)
        assert [take(taken) for _ in range(count)] == [ITEM] * count
        process.join(PATIENCE)
    assert Counter((row["pairing"], row["node"]) for row in messages(here, other)) == {
        ("exact", "here"): count,
        ("exact", "other"): count,
    }
    # readers find the terms as they are
    assert Counter(m[2] for m in log.read(other)) == {"send": count, "receive": count}
    merged = tmp_path / "merged.log"
    merge.logs({"here": here, "other": other}, merged, "blocks" if compress else "erlang")
    assert {row["pairing"] for row in analysis.tables(merged).messages.rows()} == {"exact"}
    export.chrome(merged, tmp_path / "arrows.json")
    text = (tmp_path / "arrows.json").read_text()
    assert text.count('"ph":"s"') == text.count('"ph":"f"') == 2 * count


@pytest.mark.parametrize("kind", KINDS)
def test_in_one_process(tmp_path: Path, kind: str) -> None:
    into, out = channel(multiprocessing, kind)
    with logged(tmp_path / "here.log"):
        for _ in range(5):
            put(into, ITEM)
            take(out)
    assert [row["pairing"] for row in messages(tmp_path / "here.log")] == ["exact"] * 5


def test_a_put_that_may_fail(tmp_path: Path) -> None:
    """It is sent after all; its receiver may be faster."""
    context, count = multiprocessing.get_context("spawn"), 200
    there, back = context.Queue(2), context.SimpleQueue()
    here, other = tmp_path / "here.log", tmp_path / "other.log"
    with logged(here):
        process = context.Process(target=echoes, args=(there, back, count, str(other)))
        process.start()
        sent = 0
        while sent < count:
            try:
                there.put(ITEM, timeout=0.01)
                sent += 1
            except queue.Full:
                pass
        assert [back.get() for _ in range(count)] == [ITEM] * count
        process.join(PATIENCE)
    rows = messages(here, other)
    assert Counter((row["pairing"], row["node"]) for row in rows) == {
        ("exact", "here"): count,
        ("exact", "other"): count,
    }
    assert all(row["wait_ns"] >= 0 for row in rows)


def test_a_receipt_that_stands_before_its_sending(tmp_path: Path) -> None:
    context, count = multiprocessing.get_context("spawn"), 5
    here, other, merged = (tmp_path / f"{name}.log" for name in ("here", "other", "merged"))
    out, go = context.SimpleQueue(), context.Semaphore(0)
    with logged(here):
        process = context.Process(target=sends, args=(str(other), out, count, go))
        process.start()
        assert [out.get() for _ in range(count)] == [ITEM] * count
        process.join(PATIENCE)
    merge.logs({"here": here, "other": other}, merged, "erlang")
    data, records = merged.read_bytes(), list[bytes]()
    while data:
        size = 5 + int.from_bytes(data[1:5], "big")
        records.append(data[:size])
        data = data[size:]
    assert len(records) == 2 * count
    for lines, pairing in (
        (records, "exact"),
        (records[::-1], "exact"),
        ([r for r in records if b"receive" in r], "none"),
    ):
        merged.write_bytes(b"".join(lines))
        rows = analysis.tables(merged).messages.rows()
        assert [row["pairing"] for row in rows] == [pairing] * count
        assert all(row["receiver_id"] is not None and (row["wait_ns"] or 0) >= 0 for row in rows)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_one_object_that_several_threads_put_at_once(tmp_path: Path, kind: str) -> None:
    """The order in which they get the item is unknown, so there is no number; later messages have no wrong number
    either.
    """
    made: Any = getattr(multiprocessing, kind)(1)
    with logged(tmp_path / "here.log"):
        made.put("first")

        def body(_: int) -> None:
            made.put(ITEM)

        threads = [threading.Thread(target=body, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()

        def waits(thread: threading.Thread) -> bool:
            frame = sys._current_frames().get(thread.ident or 0)
            return frame is not None and frame.f_code.co_name == "put"

        until(lambda: all(waits(thread) for thread in threads))
        assert [made.get() for _ in range(4)] == ["first", ITEM, ITEM, ITEM]
        for thread in threads:
            thread.join()
        for _ in range(3):
            made.put(ITEM)
            made.get()
    pairings = [row["pairing"] for row in messages(tmp_path / "here.log")]
    assert pairings == ["exact", "content", "content", "content", "exact", "exact", "exact"]


def test_many_threads_and_processes(tmp_path: Path) -> None:
    context, each = multiprocessing.get_context("spawn"), 50
    there, back = context.Queue(), context.Queue()
    here, other = tmp_path / "here.log", tmp_path / "other.log"
    with logged(here):
        process = context.Process(target=echoes, args=(there, back, 4 * each, str(other)))
        process.start()

        def body(n: int) -> None:
            for i in range(each):
                there.put([n, i])  # another object each time

        in_threads(4, body)
        assert Counter(map(str, (back.get() for _ in range(4 * each)))) == {
            str([n, i]): 1 for n in range(4) for i in range(each)
        }
        process.join(PATIENCE)
    rows = messages(here, other)
    assert Counter((row["pairing"], row["node"]) for row in rows) == {
        ("exact", "here"): 4 * each,
        ("exact", "other"): 4 * each,
    }


class Refuses:
    """An object that fails to be pickled half of the time."""

    often = 0

    def __reduce__(self) -> Any:
        Refuses.often += 1
        if Refuses.often % 2:
            raise TypeError("not this time")
        return str, ("pickled",)


def test_what_cannot_be_pickled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made: Any = multiprocessing.Queue()
    refuses = Refuses()
    with logged(tmp_path / "here.log"):
        for _ in range(6):
            made.put(refuses)
        made.put("last")
        assert [made.get() for _ in range(4)] == ["pickled"] * 3 + ["last"]
        made.close()
        made.join_thread()
    assert capfd.readouterr().err.count("not this time") >= 3
    rows = analysis.tables(tmp_path / "here.log").messages.rows()
    # each second one was dropped
    assert [row["pairing"] for row in rows if row["sender_id"] is not None] == ["exact"] * 4 + ["none"] * 3
    assert [row["message_id"] for row in rows if row["pairing"] == "exact"] == [1, 3, 5, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_is_killed(tmp_path: Path, kind: str) -> None:
    context, count = multiprocessing.get_context("spawn"), 10
    here, other = tmp_path / "here.log", tmp_path / "other.log"
    into, out = channel(context, kind)
    own, go = queue.SimpleQueue[Any](), context.Semaphore(0)
    with logged(here):
        process = context.Process(target=sends, args=(str(other), into, count, go, "kill"))
        process.start()
        assert go.acquire(True, PATIENCE)
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL
        own.put(ITEM)  # alike, and never taken
        assert [take(out) for _ in range(count)] == [ITEM] * count
    assert Counter((row["pairing"], row["node"]) for row in messages(here, other)) == {("exact", "other"): count}
    # without the sender's log there is no guess
    alone = messages(here)
    assert [(row["pairing"], row["sender_id"]) for row in alone] == [("none", None)] * count


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_that_is_not_traced(tmp_path: Path, method: str, kind: str) -> None:
    context: Any = multiprocessing.get_context(method)
    (there, out), (back, taken) = channel(context, kind), channel(context, kind)
    items = [None, 1, "x" * 100_000, b"\x00inviso message 1\x00", ITEM, [bytearray(b"ab")], (), 2**80]
    with logged(tmp_path / "here.log"):
        process = context.Process(target=echoes, args=(out, back, len(items), None))
        process.start()
        for item in items:
            put(there, item)
        assert [take(taken) for _ in items] == items
        process.join(PATIENCE)
    # the answers have no number
    assert {row["pairing"] for row in messages(tmp_path / "here.log")} <= {"content", "none"}


def test_a_receiver_without_this_package() -> None:
    """It runs without a path to the package, and gets the right values."""
    from multiprocessing.connection import Listener

    text = (
        "import sys\nfrom multiprocessing.connection import Client\n"
        "with Client(sys.argv[1], authkey=b'k') as it:\n"
        "    while (item := it.recv()) is not None:\n        it.send(item)\n"
        "    assert 'inviso' not in sys.modules"
    )
    with Listener(authkey=b"k") as listener, trace.session_create("here") as session:
        session.process(inviso.self(), True, FLAGS)
        process = subprocess.Popen([sys.executable, "-S", "-I", "-c", text, str(listener.address)])
        with listener.accept() as connection:
            for item in (1, "two", ITEM, b"3" * 70_000):
                connection.send(item)
                assert connection.recv() == item
            connection.send(None)
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_token(tmp_path: Path, kind: str) -> None:
    into, out = channel(multiprocessing, kind)
    with logged(tmp_path / "here.log"):
        try:
            for n in range(3):
                seq_trace.set_token("label", n)
                put(into, ITEM)
                seq_trace.set_token(None)
                assert take(out) == ITEM and seq_trace.get_token("label") == ("label", n)
                seq_trace.set_token(None)
                put(into, ITEM)
                assert take(out) == ITEM and seq_trace.get_token() is None
        finally:
            seq_trace.reset_trace()
    assert [row["pairing"] for row in messages(tmp_path / "here.log")] == ["exact"] * 6


def test_numbers_come_and_go_with_sessions(tmp_path: Path) -> None:
    """An item from before a session is not one of its messages, even if it is the same object."""
    pytest.importorskip("pyarrow")
    made: Any = multiprocessing.Queue()
    gate = threading.Event()

    class Waits:
        def __reduce__(self) -> Any:
            gate.wait(PATIENCE)
            return str, ()

    made.put(Waits())  # the feeder waits
    until(lambda: not made._buffer)
    made.put("same")
    with logged(tmp_path / "one.log"):
        made.put("same")
    made.put("same")
    with logged(tmp_path / "two.log"):
        made.put("same")
        gate.set()
        assert [made.get() for _ in range(5)] == [""] + ["same"] * 4
        made.put("same")
        made.get()
    events = analysis.tables(tmp_path / "two.log").events.to_arrow()
    numbers: dict[str, list[int | None]] = {"send": [], "receive": []}
    for tag, number in zip(events["tag"].to_pylist(), events["message"].to_pylist(), strict=True):
        numbers[tag].append(number)
    # only the second log's own: the fourth of the same, and the last
    assert None not in numbers["send"] and numbers["receive"] == [None] * 4 + numbers["send"]


def test_nothing_is_left_and_nothing_is_kept() -> None:
    from multiprocessing import reduction

    before = dict(vars(reduction.ForkingPickler))
    made: Any = multiprocessing.SimpleQueue()
    with trace.session_create("here") as session:
        session.process(inviso.self(), True, FLAGS)

        class Item:
            def __reduce__(self) -> Any:
                return str, ()

        item = Item()
        made.put(item)
        made.get()
        gone = weakref.ref(item)
        del item
        session.drain()
        assert gone() is None
    assert dict(vars(reduction.ForkingPickler)) == before
