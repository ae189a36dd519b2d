"""Tables of a trace, compared with known events: hand-made messages with times, and real programs."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import inviso
import pytest
from export_tools import log, mfa, pid
from inviso import BadArg, analysis, picture, seq_trace, trace, trace_ports
from inviso.analysis import AnalysisWarning
from inviso.terms import Atom

ONE, TWO = pid(1), pid(2)


def at(time: int, who: Any, *what: Any) -> tuple[Any, ...]:
    return ("trace_ts", who, *what, time)


def call(time: int, name: str, *args: Any, who: Any = ONE) -> Any:
    return at(time, who, "call", ("shop.orders", name, list(args or [0])))


def ret(time: int, name: str, value: Any = "ok", who: Any = ONE) -> Any:
    return at(time, who, "return_from", mfa(name), value)


def calls(messages: list[Any]) -> list[dict[str, Any]]:
    return analysis.tables(messages).calls.rows()


def some(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_calls_with_parents_and_own_time() -> None:
    rows = calls([call(100, "order", 7), call(110, "price"), ret(140, "price"), ret(200, "order", 5)])
    assert some(rows, "function", "depth", "duration_ns", "own_ns", "outcome") == [
        ("shop.orders:price/1", 1, 30, 30, "return"),
        ("shop.orders:order/1", 0, 100, 70, "return"),
    ]
    price, order = rows
    assert price["parent_id"] == order["call_id"] and order["parent_id"] is None
    assert price["caller_id"] == order["function_id"] and (order["args"], order["result"]) == ("[7]", "5")
    assert order["start_mono_ns"] == 100 and order["start"] is None


def test_recursion_and_exceptions() -> None:
    error = at(130, ONE, "exception_from", mfa("walk"), ("error", "bad"))
    rows = calls([call(100, "walk"), call(110, "walk"), error, ret(150, "walk")])
    assert some(rows, "depth", "own_ns", "outcome", "exception") == [
        (1, 20, "exception", "('error', 'bad')"),
        (0, 30, "return", None),
    ]


def test_time_out_of_the_processor_is_waiting_and_not_own_time() -> None:
    place = mfa("order")
    messages = [
        at(90, ONE, "in", place),
        call(100, "order"),
        at(120, ONE, "out", place),
        at(170, ONE, "in", place),
        ret(180, "order"),
    ]
    [row] = calls(messages)
    assert (row["duration_ns"], row["own_ns"], row["waiting_ns"]) == (80, 30, 50)
    assert some(analysis.tables(messages).steps.rows(), "start_mono_ns", "duration_ns", "reason") == [
        (90, 30, "waits"),
        (170, None, "open"),
    ]


def test_open_calls_and_functions_without_returns() -> None:
    rows = calls([call(100, "order"), call(110, "price"), ret(120, "price"), call(130, "price")])
    assert some(rows, "function", "outcome", "duration_ns") == [
        ("shop.orders:price/1", "return", 10),
        ("shop.orders:price/1", "open", None),
        ("shop.orders:order/1", "open", None),
    ]
    # no call returns: each is a point
    assert some(calls([call(100, "order"), call(110, "price")]), "outcome", "depth") == [("call", 0), ("call", 0)]


def test_an_ended_process_ends_its_calls() -> None:
    rows = calls([call(90, "price"), ret(95, "price"), call(100, "order"), at(150, ONE, "exit", "killed")])
    assert some(rows, "outcome", "duration_ns") == [("return", 5), ("exit", 50)]


def test_messages_without_numbers_are_paired_by_contents() -> None:
    messages = [
        at(100, ONE, "send", "a", TWO),
        at(110, ONE, "send", "b", TWO),
        at(130, TWO, "receive", "b"),
        at(150, TWO, "receive", "a"),
        at(160, TWO, "receive", "c"),
        at(170, TWO, "receive", "timeout"),
        at(180, ONE, "send", "d", TWO),
    ]
    rows = analysis.tables(messages).messages.rows()
    assert some(rows, "content", "pairing", "wait_ns", "depth_at_send", "kind") == [
        ("'b'", "content", 20, 1, "message"),
        ("'a'", "content", 50, 0, "message"),
        ("'c'", "none", None, None, "message"),
        ("'timeout'", "none", None, None, "timeout"),
        ("'d'", "none", None, 0, "message"),
    ]


def test_tokens_say_more_of_the_messages_that_they_go_with() -> None:
    def seq(time: int, word: str, serial: tuple[int, int]) -> Any:
        return ("seq_trace", "order 7", (word, serial, ONE, TWO, "job"), time)

    messages = [
        at(100, ONE, "send", "job", TWO),
        seq(101, "send", (0, 1)),
        at(150, TWO, "receive", "job"),
        seq(151, "receive", (0, 1)),
        seq(200, "send", (1, 2)),
        seq(240, "receive", (1, 2)),
    ]
    rows = analysis.tables(messages).messages.rows()
    assert some(rows, "seq_label", "seq_current", "wait_ns", "pairing") == [
        ("'order 7'", 1, 50, "serial"),
        ("'order 7'", 2, 40, "serial"),
    ]


def test_losses_damage_and_missing_times(tmp_path: Path) -> None:
    path = log(tmp_path / "t.log", [call(100, "order"), ("drop", 3), ("trace", ONE, "exit", "normal")])
    with path.open("ab") as file:
        file.write(b"\0\0\0")
    tables = analysis.tables(path)
    with pytest.warns(
        AnalysisWarning,
        match=r"t\.log: 3 messages were lost .*; 1 places could not be read .*; 1 messages have no time",
    ):
        rows = tables.losses.rows()
    assert some(rows, "count", "cause", "at_mono_ns") == [(3, "lost", 100), (None, "damage", 100)]
    with pytest.warns(AnalysisWarning):
        [process] = tables.processes.rows()
    assert (process["exit"], process["ended_mono_ns"]) == ("'normal'", None)


def test_a_trace_without_times_has_none() -> None:
    messages = [("trace", ONE, "call", ("m", "f", [])), ("trace", ONE, "return_from", ("m", "f", 0), 1)]
    with pytest.warns(AnalysisWarning, match="no message has a time stamp"):
        [row] = calls(messages)
    assert (row["outcome"], row["duration_ns"], row["start"], row["start_mono_ns"]) == ("return", None, None, None)


def test_a_stamp_of_another_clock_counts_as_no_time() -> None:
    messages = [call(100, "order"), ("trace_ts", ONE, "return_from", mfa("order"), 1, (1, 2, 3))]
    with pytest.warns(AnalysisWarning, match="1 messages have no time stamp of the trace's clock"):
        [row] = calls(messages)
    assert row["outcome"] == "return"


def test_the_time_of_day() -> None:
    [row] = calls(
        [
            ("trace_ts", ONE, "call", ("m", "f", 0), (1, 2, 3)),
            ("trace_ts", ONE, "return_from", ("m", "f", 0), 1, (1, 2, 13)),
        ]
    )
    assert (row["start"], row["start_mono_ns"], row["duration_ns"]) == (1_000_002_000_003_000, None, 10_000)


def test_processes_and_functions() -> None:
    messages = [
        at(100, ONE, "spawn", TWO, ("shop.orders", "work", [1])),
        at(101, TWO, "spawned", ONE, ("shop.orders", "work", [1])),
        at(102, TWO, "register", "worker"),
        at(103, TWO, "link", ONE),
        call(104, "order", who=TWO),
        ret(105, "order", who=TWO),
        at(106, TWO, "exit", "normal"),
    ]
    tables = analysis.tables(messages)
    two = next(row for row in tables.processes.rows() if row["pid"] == str(TWO))
    functions = {row["function_id"]: row["name"] for row in tables.functions.rows()}
    assert (two["started_mono_ns"], two["ended_mono_ns"], two["exit"], two["name"]) == (101, 106, "'normal'", "worker")
    assert functions[two["function_id"]] == "work"
    one = next(row for row in tables.processes.rows() if row["pid"] == str(ONE))
    assert two["parent_id"] == one["process_id"] and two["links"] == f"[{one['process_id']}]"
    assert {functions[row["function_id"]] for row in tables.calls.rows()} == {"order"}


def test_the_profile_adds_up() -> None:
    messages = [
        call(100, "walk"),
        call(110, "walk"),
        ret(130, "walk"),
        ret(150, "walk"),
        call(160, "price"),
        ret(165, "price"),
    ]
    rows = analysis.tables(messages).profile.rows()
    assert some(rows, "function", "calls", "own_ns", "cumulative_ns") == [
        ("shop.orders:walk/1", 2, 50, 50),
        ("shop.orders:price/1", 1, 5, 5),
    ]


def test_collections() -> None:
    info = [("generation", 2), ("collected", 7), ("uncollectable", 0), ("duration", 40), ("resident_size", 3)]
    messages = [at(100, ONE, "gc_major_start", [("generation", 2)]), at(150, ONE, "gc_major_end", info)]
    columns = ("start_mono_ns", "duration_ns", "generation", "collected", "rss_bytes")
    assert some(analysis.tables(messages).gc.rows(), *columns) == [(100, 40, 2, 7, 24)]


def test_who_talks_to_whom_and_how_long_it_took() -> None:
    messages = [at(100 + n, ONE, "send", n, TWO) for n in range(10)] + [
        at(200 + 2 * n, TWO, "receive", n) for n in range(9)
    ]
    taken, left = analysis.who_talks_to_whom(messages).rows()
    assert (taken["messages"], taken["wait_ns"], taken["longest_ns"]) == (9, sum(100 + n for n in range(9)), 108)
    assert (left["messages"], left["receiver_id"], left["wait_ns"]) == (1, None, None)
    [row] = analysis.latency(messages).rows()
    assert some([row], "messages", "never_received", "p50_ns", "p90_ns", "longest_ns") == [(10, 1, 104, 108, 108)]
    depths = [row["depth"] for row in analysis.queue_depth(messages).rows()]
    assert depths == [*range(1, 11), *range(9, 0, -1)]
    channel = row["of_id"]
    assert len(analysis.queue_depth(messages, channel).rows()) == 19
    with pytest.warns(AnalysisWarning, match=rf"nothing was sent to this channel; there are {channel}"):
        assert analysis.queue_depth(messages, channel + 4).rows() == []


def test_the_tables_of_a_session_leave_it_open() -> None:
    with trace.session_create("open") as session:
        session.function((__name__, "traced", "_"), [("_", [], [("return_trace",)])], ["local"])
        session.process(inviso.self(), True, ["call", "monotonic_timestamp"])
        traced(1)
        first = analysis.tables(session)
        traced(2)
        second = analysis.tables(session)
        assert session.drain() == []
        traced(3)
        assert len(session.drain()) == 2
    assert [row["args"] for row in first.calls.rows()] == ["[1]"]
    [row] = second.calls.rows()
    assert (row["args"], row["result"]) == ("[2]", "2")
    assert row["duration_ns"] > 0 and abs(row["start"] - time.time_ns()) < 60e9


def traced(n: int) -> int:
    return n


def test_a_session_with_a_tracer_is_refused() -> None:
    with trace.session_create("other", inviso.self()) as session, pytest.raises(BadArg, match="tracer"):
        analysis.tables(session)


def test_names_of_tasks_that_have_ended() -> None:
    async def work() -> None:
        traced(1)

    async def main() -> None:
        await asyncio.create_task(work(), name="packer")

    with trace.session_create("named") as session:
        session.function((__name__, "traced", "_"), True, ["local"])
        session.process("new", True, ["call", "procs"])
        asyncio.run(main())
        rows = analysis.tables(session).processes.rows()
    assert "packer" in [row["name"] for row in rows if row["kind"] == "task"]


def test_what_the_time_of_a_request_was_spent_on(tmp_path: Path) -> None:
    """A request goes to a worker by a queue, waits there, and comes back."""
    boxes: list[queue.Queue[Any]] = [queue.Queue(), queue.Queue()]
    busy = threading.Lock()

    def worker() -> None:
        with busy:
            pass
        item = boxes[0].get()
        time.sleep(0.05)
        boxes[1].put(item)

    port = trace_ports.trace_port("file", str(tmp_path / "t.log"))()
    seq_trace.set_system_tracer(port)
    try:
        thread = threading.Thread(target=worker)
        busy.acquire()
        thread.start()
        seq_trace.set_token("label", "order 7")
        for flag in ("send", "receive", "monotonic_timestamp"):
            seq_trace.set_token(flag, True)
        boxes[0].put("order")
        time.sleep(0.03)
        busy.release()
        boxes[1].get()
        seq_trace.set_token([])
        thread.join()
    finally:
        seq_trace.set_system_tracer(False)
        port.close()
    tables = analysis.tables(tmp_path / "t.log")
    rows = analysis.critical_path(tables, "order 7").rows()
    assert [row["kind"] for row in rows] == ["running", "queued", "running", "queued", "running"]
    queued, worked = rows[1]["duration_ns"], rows[2]["duration_ns"]
    assert queued >= 30e6 and worked >= 50e6
    assert rows[1]["content"] == "'order'"
    messages = tables.messages.rows()
    whole = max(row["received_mono_ns"] for row in messages) - min(row["sent_mono_ns"] for row in messages)
    assert sum(row["duration_ns"] for row in rows) == whole
    with pytest.warns(AnalysisWarning, match=r"no event has the label 'order 8'; there are 'order 7'"):
        assert analysis.critical_path(tables, "order 8").rows() == []


def test_a_step_that_holds_others_up() -> None:
    async def hog() -> None:
        await asyncio.sleep(0)
        time.sleep(0.05)

    async def quick(box: asyncio.Queue[str]) -> None:
        await box.get()

    async def main() -> None:
        box: asyncio.Queue[str] = asyncio.Queue()
        tasks = [asyncio.create_task(quick(box), name="quick")]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(hog(), name="hog"))
        await asyncio.sleep(0)
        box.put_nowait("go")
        await asyncio.gather(*tasks)

    with trace.session_create("blockers") as session:
        session.process("new", True, ["send", "receive", "running", "scheduler_id", "monotonic_timestamp"])
        asyncio.run(main())
        tables = analysis.tables(session)
    rows = analysis.blockers(tables, 20).rows()
    names = {row["process_id"]: row["name"] for row in tables.processes.rows()}
    assert [(names[row["process_id"]], names[row["held_id"]]) for row in rows] == [("hog", "quick")]
    assert rows[0]["held_ns"] >= 40e6 and "hog" in rows[0]["to_function"] and rows[0]["function"] is None
    assert analysis.blockers(tables, 10_000).rows() == []


@pytest.mark.parametrize("source", [7, "no such file", iter([]), [object()], {"shop@h": "nowhere.log"}])
def test_bad_sources(source: Any) -> None:
    with pytest.raises((BadArg, OSError)):
        analysis.tables(source).calls.rows()


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda: analysis.tables([], values=-1), "values"),
        (lambda: analysis.tables([], pids="perl"), "pids"),  # type: ignore[arg-type]
        (lambda: analysis.latency([], by="colour"), "by"),  # type: ignore[arg-type]
        (lambda: analysis.queue_depth([], "box"), "channel"),  # type: ignore[arg-type]
        (lambda: analysis.blockers([], -1), "shortest_ms"),
        (lambda: analysis.tables([]).calls.rows(-1), "limit"),
        (lambda: analysis.load("nowhere"), "folder"),
    ],
)
def test_bad_arguments(wrong: Any, argument: str) -> None:
    with pytest.raises(BadArg) as error:
        wrong()
    assert argument in str(error.value)


def test_several_nodes(tmp_path: Path) -> None:
    mfa = (Atom("shop.orders"), Atom("order"), 1)
    paths = []
    for name, second in (("a@h", 100), ("b@h", 50)):
        stamps = [(0, second, micros) for micros in (1, 6)]
        begin = (Atom("trace_ts"), ONE, Atom("call"), mfa, stamps[0])
        end = (Atom("trace_ts"), ONE, Atom("return_from"), mfa, 5, stamps[1])
        paths.append(log(tmp_path / f"{name}.log", [begin, end]))
    for source in (paths, tmp_path, {"a@h": str(paths[0]), "b@h": str(paths[1])}):
        rows = analysis.tables(source).calls.rows()
        assert some(rows, "node", "start", "duration_ns") == [
            ("b@h", 50_000_001_000, 5000),
            ("a@h", 100_000_001_000, 5000),
        ]
        assert len({row["process_id"] for row in rows}) == 2


def test_html_is_bounded_and_says_what_is_missing() -> None:
    table = analysis.tables(
        [*(at(n, ONE, "send", "x" * 1000, TWO) for n in range(1000)), ("drop", 5)], values=1000
    ).messages
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = table._repr_html_()
    assert html.count("<tr>") == 31 and len(html) < 60_000
    assert "the first 30 rows" in html and "5 messages were lost" in html


def test_pictures() -> None:
    messages = [
        *(at(n, ONE, "send", n, TWO) for n in range(10)),
        *(at(20 + n, TWO, "receive", n) for n in range(10)),
        call(100, "order"),
        ret(150, "order"),
        at(200, ONE, "in", mfa("order")),
        at(250, ONE, "out", mfa("order")),
    ]
    tables = analysis.tables(messages)
    made = {
        "timeline": [tables.calls, tables.steps, analysis.critical_path(tables, "none")],
        "graph": [analysis.who_talks_to_whom(tables), analysis.blockers(tables)],
        "histogram": [
            tables.messages,
            analysis.queue_depth(tables),
            *(analysis.latency(tables, by) for by in ("channel", "sender", "receiver")),
        ],
        "flame": [tables.profile],
    }
    for kind, of in made.items():
        for table in of:
            picture = table.picture()
            assert picture.kind == kind and "<html" in picture.html()
    assert "1 call and 10 messages of 2 processes" in repr(tables.calls.picture())
    assert "2 processes, 1 edge, 10 messages" in repr(analysis.who_talks_to_whom(tables).picture())
    assert "10 values, p50 20 ns" in repr(tables.messages.picture())
    with pytest.raises(BadArg, match="no picture of gc"):
        tables.gc.picture()


def test_parquet_and_back(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tables = analysis.tables([call(100, "order"), ret(110, "order")])
    tables.to_parquet(tmp_path / "saved")
    saved = analysis.load(tmp_path / "saved")
    assert saved.calls.to_pylist()[0]["duration_ns"] == 10
    assert saved.calls.column_names == tables.calls.columns
    (tmp_path / "saved" / "gc.parquet").unlink()
    with pytest.raises(BadArg, match=r"gc\.parquet"):
        analysis.load(tmp_path / "saved")


def test_types_of_columns() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = analysis.tables([call(100, "order"), ret(110, "order")]).calls
    schema = arrow.table(table).schema
    assert schema.field("start").type == arrow.timestamp("ns", "UTC")
    assert schema.field("call_id").type == arrow.int64()
    frame = table.to_pandas()
    assert str(frame["parent_id"].dtype) == "Int64" and frame["duration_ns"].sum() == 10


def test_pictures_of_wall_clocks(tmp_path: Path) -> None:
    """A log has times of one clock; wall-clock time is in the columns without ``mono``."""
    pytest.importorskip("pyarrow")
    with trace.session_create("wall") as session:
        session.function((__name__, "price", "_"), [("_", [], [("exception_trace",)])], ["local"])
        session.process(inviso.self(), True, ["call", "send", "receive", "timestamp"])
        box: queue.Queue[int] = queue.Queue()
        for n in range(3):
            box.put(price(n))
            box.get()
        session.process(inviso.self(), False, ["all"])
        messages = session.drain()
    tables = analysis.tables(messages)
    assert all(row["start_mono_ns"] is None and row["start"] for row in tables.calls.rows())
    shown = "3 calls and 3 messages of "
    assert shown in repr(tables.calls.picture()) and shown in repr(picture.timeline(tables))
    assert "3 calls and 0 messages" in repr(picture.timeline(tables.calls.to_pandas()))
    assert "3 calls and 0 messages" in repr(picture.timeline(tables.calls.to_arrow()))


def price(n: int) -> int:
    return n


def test_a_label_whose_events_have_no_times_is_reported() -> None:
    messages = [call(1, "order"), ("seq_trace", "order 7", ("send", (0, 1), ONE, TWO, "x"))]
    for label, why in (
        ("order 7", "events of label 'order 7' have no time stamp"),
        ("order 8", "no event has the label 'order 8'"),
    ):
        with pytest.warns(analysis.AnalysisWarning, match=why):
            assert analysis.critical_path(messages, label).rows() == []
