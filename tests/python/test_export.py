"""Exports, each read back by a reader that is independent of its writer."""

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import json
import marshal
import os
import pstats
import queue
import stat
import struct
import sys
import threading
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import inviso
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inviso import BadArg, etf, export, trace
from inviso.trace_ports import trace_port

from tests.python.export_tools import (
    MODULE,
    Call,
    interleaved,
    log,
    mfa,
    model_of_costs,
    model_of_stacks,
    pid,
    processes,
    read_perfetto,
    short,
    tree,
)

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FILES = [format for format in sorted(export.FORMATS) if format != "otlp"]
TASKS = 1 << 31
"""Chrome's task numbers begin after it."""

A, B, C = pid(0), pid(1), pid(2)
ME = ("shop.orders", "a", ["x"])


def made(format: str, source: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    getattr(export, format)(source, out, **options)
    return out.getvalue()


def chrome(source: Any, **options: Any) -> Any:
    return json.loads(made("chrome", source, **options))


def chrome_time(ts: float) -> int:
    return round(ts * 1000)


def shapes(trees: list[list[Call]]) -> dict[str, Any]:
    return {repr(pid(n)): [call.shape() for call in tree] for n, tree in enumerate(trees)}


def as_lists(shape: Any) -> Any:
    return json.loads(json.dumps(shape))


# every format, random traces of several processes


@quick
@given(st.data(), processes)
def test_chrome_has_every_call_on_its_process(data: st.DataObject, trees: list[list[Call]]) -> None:
    messages = interleaved(trees, data.draw)
    found = chrome(messages)
    first = int(found["otherData"]["first"])
    assert first == messages[0][-1]
    names: dict[Any, str] = {}
    steps: dict[str, list[Any]] = defaultdict(list)
    for event in found["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
        else:
            kind = {"B": "open", "E": "close"}[event["ph"]]
            steps[names[event["tid"]]].append((kind, short(event["name"]), chrome_time(event["ts"]) + first))
    assert as_lists({name: tree(all) for name, all in steps.items()}) == as_lists(shapes(trees))


@quick
@given(st.data(), processes)
def test_perfetto_has_every_call_on_its_process(data: st.DataObject, trees: list[list[Call]]) -> None:
    found = read_perfetto(made("perfetto", interleaved(trees, data.draw)))
    open_: dict[int, list[str]] = defaultdict(list)
    steps: dict[str, list[Any]] = defaultdict(list)
    for event in found.events:
        if event.type == 1:
            assert (event.category, event.notes) == ("call", {"args": "['x']"})
            open_[event.track].append(event.name)
            steps[found.track(event.track)].append(("open", short(event.name), event.at))
        else:
            assert event.type == 2
            assert event.notes in ({"returned": "'ok'"}, {"raised": "('error', 'no')"})
            steps[found.track(event.track)].append(("close", short(open_[event.track].pop()), event.at))
    assert as_lists({name: tree(all) for name, all in steps.items()}) == as_lists(shapes(trees))
    assert found.clock == 3
    assert {found.track(parent) for parent in found.parents.values()} == {inviso._program.name()}


@quick
@given(st.data(), processes)
def test_speedscope_has_every_call_on_its_process(data: st.DataObject, trees: list[list[Call]]) -> None:
    messages = interleaved(trees, data.draw)
    found = json.loads(made("speedscope", messages))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    read = {}
    for profile in found["profiles"]:
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        steps = [
            ({"O": "open", "C": "close"}[e["type"]], short(frames[e["frame"]]), e["at"] + messages[0][-1])
            for e in profile["events"]
        ]
        assert profile["startValue"] == profile["events"][0]["at"]
        assert profile["endValue"] == profile["events"][-1]["at"]
        read[profile["name"]] = tree(steps)
    assert as_lists(read) == as_lists(shapes(trees))


@quick
@given(st.data(), processes)
def test_collapsed_stacks_have_each_stack_s_own_time(data: st.DataObject, trees: list[list[Call]]) -> None:
    lines = made("collapsed", interleaved(trees, data.draw)).decode().splitlines()
    found = {stack: int(value) for stack, _, value in (line.rpartition(" ") for line in lines)}
    assert len(found) == len(lines)
    assert found == model_of_stacks(trees)


@quick
@given(st.data(), processes)
def test_pstats_has_each_function_s_costs(data: st.DataObject, trees: list[list[Call]]) -> None:
    found = marshal.loads(made("pstats", interleaved(trees, data.draw)))
    model = model_of_costs(trees)
    assert {function[2] for function in found} == {f"{name}/1" for name in model}
    for name, (calls, primitive, own, cumulative, callers) in model.items():
        cost = found[MODULE, 0, f"{name}/1"]
        assert cost[:2] == (primitive, calls)
        assert cost[2] == pytest.approx(own / 1e9)
        assert cost[3] == pytest.approx(cumulative / 1e9)
        assert {caller[2]: edge[0] for caller, edge in cost[4].items()} == {f"{n}/1": c for n, c in callers.items()}


@quick
@given(st.data(), processes)
def test_tables_have_a_row_for_each_message(data: st.DataObject, trees: list[list[Call]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    messages = interleaved(trees, data.draw)
    rows = pyarrow.RecordBatchReader.from_stream(export.arrow(messages)).read_all()
    rows.validate(full=True)
    found = rows.to_pylist()
    assert [(row["ts"], row["tag"], row["pid"], row["function"], row["arity"]) for row in found] == [
        (m[-1], m[2], repr(m[1]), m[3][1], 1) for m in messages
    ]
    assert [row["args"] for row in found] == ["['x']" if m[2] == "call" else None for m in messages]
    assert {row["value"] for row in found if row["tag"] == "return_from"} <= {"'ok'"}
    assert {row["kind"] for row in found} == {"trace"}
    assert {row["clock"] for row in found} == {"monotonic_timestamp"}


# a stack built from odd messages


def steps_of(messages: list[Any]) -> list[Any]:
    return [
        (event["ph"], short(event["name"]), *event.get("args", {}).values())
        for event in chrome(messages)["traceEvents"]
        if event["ph"] != "M"
    ]


def call(name: str, at: int, who: Any = A) -> tuple[Any, ...]:
    return ("trace_ts", who, "call", mfa(name), at)


def back(name: str, at: int, who: Any = A) -> tuple[Any, ...]:
    return ("trace_ts", who, "return_from", mfa(name), None, at)


def test_a_return_without_a_call_is_a_point() -> None:
    assert steps_of([back("a", 1), call("b", 2), back("b", 3)]) == [
        ("i", "return_from shop.orders:a", "None"),
        ("B", "b"),
        ("E", "b", "None"),
    ]


def test_a_call_that_did_not_end_stays_open_and_counts_to_the_last_message() -> None:
    messages = [call("a", 10), call("b", 20), back("b", 50)]
    assert [step[:2] for step in steps_of(messages)] == [("B", "a"), ("B", "b"), ("E", "b")]
    assert made("collapsed", messages).decode().splitlines() == [f"{MODULE}:a/1 10", f"{MODULE}:a/1;{MODULE}:b/1 30"]
    profile = json.loads(made("speedscope", messages))["profiles"][0]
    assert [(e["type"], e["at"]) for e in profile["events"]] == [("O", 0), ("O", 10), ("C", 40), ("C", 40)]


def test_calls_inside_a_frame_that_ends_have_ended_unseen() -> None:
    # b is called once and doesn't return: from then on it counts as a function without return messages
    messages = [call("a", 1), call("b", 2), back("a", 3), call("a", 4), call("b", 5), call("b", 6), back("a", 7)]
    assert steps_of(messages) == [
        ("B", "a"),
        ("i", "b"),
        ("E", "a", "None"),
        ("B", "a"),
        ("i", "b"),
        ("i", "b"),
        ("E", "a", "None"),
    ]
    # it once returned, so it has frames
    assert steps_of([*messages, call("b", 8), back("b", 9)])[1:3] == [("B", "b"), ("E", "b", "not seen")]


def test_calls_without_any_return_are_points() -> None:
    messages = [call("a", 1), call("b", 2), call("a", 3)]
    assert steps_of(messages) == [("i", "a"), ("i", "b"), ("i", "a")]
    assert marshal.loads(made("pstats", messages)) == {
        (MODULE, 0, "a/1"): (2, 2, 0.0, 0.0, {}),
        (MODULE, 0, "b/1"): (1, 1, 0.0, 0.0, {}),
    }


def to(name: str | None, at: int) -> tuple[Any, ...]:
    return ("trace_ts", A, "return_to", mfa(name) if name else None, at)


def test_return_to_closes_what_it_leaves() -> None:
    # fib calls itself; only return_to shows the ends
    messages = [call("fib", 1), call("fib", 2), to("fib", 3), call("fib", 4), to("fib", 5), to(None, 6)]
    assert [step[0] for step in steps_of(messages)] == ["B", "B", "E", "B", "E", "E"]
    # after a return_from it closes nothing more
    messages = [call("a", 1), call("b", 2), back("b", 3), to("a", 4), back("a", 5), to(None, 6)]
    assert [step[:2] for step in steps_of(messages)] == [("B", "a"), ("B", "b"), ("E", "b"), ("E", "a")]
    # a function that is not traced stands between a and b
    messages = [call("a", 1), call("b", 2), to("other", 3), call("b", 4), to("other", 5), to(None, 6)]
    assert [step[:2] for step in steps_of(messages)][-1] == ("E", "a")


def test_an_exit_ends_everything() -> None:
    messages = [
        call("a", 1),
        back("a", 2),
        call("a", 3),
        ("trace_ts", A, "exit", "normal", 4),
        call("a", 5),
        back("a", 6),
    ]
    found = steps_of(messages)
    assert [step[:2] for step in found] == [
        ("B", "a"), ("E", "a"), ("B", "a"), ("E", "a"), ("i", "exit"), ("B", "a"), ("E", "a"),
    ]  # fmt: skip
    assert found[3][2] == "exit"


def late(who: Any, at: int) -> list[tuple[Any, ...]]:
    """A process's life, and messages after its end."""
    exiting = [("out_exiting", 0), ("in_exiting", mfa("a")), ("out_exited", 0)]
    told = [("spawned", C, mfa("a")), ("in", mfa("a")), ("exit", "normal"), *exiting]
    return [("trace_ts", who, *event, at + n) for n, event in enumerate(told)]


def test_messages_after_an_exit_are_on_the_same_track() -> None:
    # the second life of A is another process of that number
    messages = [*late(A, 0), *late(B, 10), ("trace_ts", A, "exit", "again", 20), *late(A, 30)]
    found = chrome(messages)["traceEvents"]
    lanes = one, two, three = [TASKS + n for n in (1, 2, 3)]
    assert [e["tid"] for e in found if e["name"] == "thread_name"] == lanes
    slices = [(e["ph"], e["tid"]) for e in found if e["ph"] in "be"]
    assert slices == [(phase, lane) for lane in lanes for phase in "bebe"]
    assert [e["tid"] for e in found if e["name"] == "exit"] == [one, two, one, three]

    perfetto = read_perfetto(made("perfetto", messages))
    lanes = [track for track, parent in perfetto.parents.items() if perfetto.tracks[track] == "schedule"]
    assert len(lanes) == 3 == len({perfetto.parents[track] for track in lanes})
    slices = [(e.type, e.at, e.name) for e in perfetto.events if perfetto.track(e.track) == "schedule"]
    begun = slices[0][0]
    assert [(at, name) for type, at, name in slices if type == begun] == [
        (start + at, name) for start in (0, 10, 30) for at, name in [(1, "running"), (4, "exiting")]
    ]
    assert len(slices) == 12


def test_an_end_is_forgotten_after_many_others() -> None:
    ended = [("trace_ts", pid(n), "exit", "normal", n) for n in range(3, 4_103)]
    messages = [*ended, ("trace_ts", pid(4_102), "out_exited", 0, 5_000), ("trace_ts", pid(3), "out_exited", 0, 5_001)]
    named = [e["tid"] for e in chrome(messages)["traceEvents"] if e["name"] == "thread_name"]
    assert named == [TASKS + n for n in range(1, len(ended) + 2)]


def test_the_waiting_of_a_process_is_time_of_no_function() -> None:
    messages = [
        ("trace_ts", A, "in", mfa("a"), 0), call("a", 0), call("b", 10), ("trace_ts", A, "out", mfa("b"), 20),
        ("trace_ts", A, "in", mfa("b"), 1_000_020), back("b", 1_000_030), back("a", 1_000_031),
    ]  # fmt: skip
    stats = marshal.loads(made("pstats", messages))
    assert stats[MODULE, 0, "a/1"][2:4] == (pytest.approx(11e-9), pytest.approx(31e-9))
    assert stats[MODULE, 0, "b/1"][2:4] == (pytest.approx(20e-9), pytest.approx(20e-9))
    found = read_perfetto(made("perfetto", messages))
    running = [(e.type, e.at) for e in found.events if found.track(e.track) == "schedule"]
    assert running == [(1, 0), (2, 20), (1, 1_000_020)]


def test_a_clock_that_goes_back_stands_still() -> None:
    events = chrome([call("a", 50), back("a", 40)])["traceEvents"]
    assert [chrome_time(e["ts"]) for e in events if e["ph"] in "BE"] == [10, 10]


# time stamps


def test_the_three_kinds_of_time_stamps() -> None:
    wall = (1763, 748000, 123456)
    for stamp, at, unique, clock, builtin in [
        (wall, 1763748000_123456_000, None, "timestamp", 1),
        (-576_460_751_000_000_000, -576_460_751_000_000_000, None, "monotonic_timestamp", 3),
        ((77, 5), 77, 5, "monotonic_timestamp", 3),
    ]:
        messages = [("trace_ts", A, "call", mfa("a"), stamp), ("trace_ts", A, "return_from", mfa("a"), 1, stamp)]
        found = read_perfetto(made("perfetto", messages))
        assert found.clock == builtin
        # Perfetto has no negative times
        assert [e.at for e in found.events] == [at if at > 0 else 1_000_000_000] * 2
        assert chrome(messages)["otherData"] == {"clock": clock, "first": str(at)}
        pyarrow = pytest.importorskip("pyarrow")
        row = pyarrow.table(export.arrow(messages)).to_pylist()[0]
        assert (row["ts"], row["unique"], row["clock"]) == (at, unique, clock)


def test_without_time_stamps_order_is_the_time() -> None:
    messages = [m[:-1] for m in (call("a", 0), call("b", 0), back("b", 0), back("a", 0))]
    messages = [("trace", *m[1:]) for m in messages]
    found = chrome(messages)
    assert found["otherData"]["clock"] == "order"
    assert [e["ts"] for e in found["traceEvents"] if e["ph"] != "M"] == [1, 2, 3, 4]
    assert json.loads(made("speedscope", messages))["profiles"][0]["unit"] == "none"
    assert made("collapsed", messages).decode().splitlines() == [f"{MODULE}:a/1 1", f"{MODULE}:a/1;{MODULE}:b/1 1"]
    assert export.chrome(messages, io.BytesIO()).untimed == 4


def test_a_message_without_a_stamp_stands_after_the_one_before() -> None:
    messages = [
        call("a", 100),
        ("trace", B, "exit", "normal"),
        ("trace_ts", B, "exit", "normal", (1, 2, 3)),
        back("a", 200),
    ]
    events = [e for e in chrome(messages)["traceEvents"] if e["ph"] != "M"]
    assert [chrome_time(e["ts"]) for e in events] == [0, 0, 0, 100]
    assert export.chrome(messages, io.BytesIO()).untimed == 2


# losses


def test_losses_stand_at_their_place_in_every_format(tmp_path: Path) -> None:
    messages = [call("a", 100), back("a", 200), ("drop", 7), call("a", 300), back("a", 400)]
    path = log(tmp_path / "trace", messages)
    with path.open("ab") as file:
        file.write(b"\0\0\0\0")
    for source in (path, [path]):
        out = io.BytesIO()
        summary = export.chrome(source, out)
        assert (summary.messages, summary.dropped, summary.damaged) == (4, 7, 1)
        assert (
            summary.damage == ["at byte 430: the last record is cut off after 4 bytes"]
            or "cut off" in summary.damage[0]
        )
        events = [e for e in json.loads(out.getvalue())["traceEvents"] if e["ph"] != "M"]
        assert [e["ph"] for e in events] == ["B", "E", "i", "C", "B", "E", "i"]
        assert (events[2]["name"], chrome_time(events[2]["ts"])) == ("7 messages dropped", 100)
        assert events[3]["args"] == {"messages": 7}
        assert events[-1]["name"].startswith("damage: ")
    found = read_perfetto(made("perfetto", path))
    lost = [
        (found.track(e.track), e.type, e.at, e.value)
        for e in found.events
        if found.track(e.track) in ("lost", "dropped messages")
    ]
    assert lost == [("lost", 3, 200, None), ("dropped messages", 4, 200, 7), ("lost", 3, 400, None)]
    profiles = json.loads(made("speedscope", path))
    (profile,) = [p for p in profiles["profiles"] if p["name"] == "lost"]
    names = [profiles["shared"]["frames"][e["frame"]]["name"] for e in profile["events"] if e["type"] == "O"]
    assert names[0] == "7 messages dropped"
    assert [e["at"] for e in profile["events"]] == [100, 100, 300, 300]
    assert made("collapsed", path).decode().splitlines()[0] == "[7 messages dropped] 1"
    stats = marshal.loads(made("pstats", path))
    assert stats["~", 0, "<messages dropped>"][1] == 7
    assert stats["~", 0, "<damage>"][1] == 1
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table(export.arrow(path)).to_pylist()
    assert [row["kind"] for row in rows] == ["trace", "trace", "drop", "trace", "trace", "damage"]
    assert rows[2]["dropped"] == 7
    assert "cut off" in rows[-1]["value"]


def test_damage_that_a_reader_gives_stands_at_its_place(tmp_path: Path) -> None:
    whole = log(tmp_path / "whole", [call("a", 1), back("a", 2)])
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes() + b"\0\0")
    text = str(list(inviso.log.read(cut))[-1])
    for format in ("perfetto", "chrome", "speedscope", "collapsed", "pstats"):
        summary = export.FORMATS[format](inviso.log.read(cut), io.BytesIO())
        assert (summary.messages, summary.damage) == (2, [text])
    messages = [*inviso.log.merge([cut, whole]), call("b", 3)]
    events = [event for event in chrome(messages)["traceEvents"] if event["ph"] != "M"]
    at = next(n for n, message in enumerate(messages) if isinstance(message, inviso.log.Damage))
    assert events[at]["name"] == f"damage: {text}"
    pyarrow = pytest.importorskip("pyarrow")
    for source in (lambda: messages, lambda: inviso.log.merge([cut, whole])):
        rows = export.arrow(source())
        assert pyarrow.table(rows).to_pylist()[at]["kind"] == "damage" and rows.summary().damage == [text]


def test_terms_that_are_no_messages_are_counted() -> None:
    summary = export.perfetto([("hello", 1), 5, ("trace_ts", 1, 2)], io.BytesIO())
    assert (summary.messages, summary.unknown, summary.damaged) == (3, 3, 0)


def test_compressed_messages_are_read() -> None:
    term = inviso._native.etf.term_to_binary(("trace_ts", A, "call", ("m", "f", ["x" * 500]), 5))
    packed = b"\x83P" + struct.pack(">I", len(term) - 1) + zlib.compress(term[1:])
    (event,) = [e for e in chrome([packed])["traceEvents"] if e["ph"] != "M"]
    assert (event["name"], event["args"]["args"][:10]) == ("m:f/1", "['xxxxxxxx")
    assert export.chrome([packed[:-9]], io.BytesIO()).damaged == 1


def test_a_term_that_cannot_be_read_is_told_in_the_words_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\0\0\0\0\2\x83\xff" + b"\0\0\0\0\6\x83l\0\0\0\2")
    words = [damage.what for damage in inviso.log.read(path)]
    assert words == ["unknown tag 255", "the bytes end in the middle of a term"]
    assert export.chrome(path, io.BytesIO()).damage == words
    pyarrow = pytest.importorskip("pyarrow")
    rows = export.arrow(path)
    assert [row["value"] for row in pyarrow.table(rows).to_pylist()] == words and rows.summary().damage == words


def test_native_records_and_odd_floats_in_tables() -> None:
    record = bytes.fromhex("43 00000002 01 77027272 770170 770161 770162 6102 6801 770178")
    message = b"\x83h\5" + inviso._native.etf.term_to_binary(("trace", A, "send", 0, A))[3:]
    sent = message.replace(b"a\0", record, 1)
    infinite = ("trace", A, "send", {"x": [float("inf")]}, A)
    pyarrow = pytest.importorskip("pyarrow")
    one, two = pyarrow.table(export.arrow([sent, infinite])).to_pylist()
    assert (one["value"], two["value"]) == ("#rr:p{a = 2, b = ('x',)}", "{'x': [inf]}")
    one, two = pyarrow.table(export.arrow([sent, infinite], values="binary")).to_pylist()
    assert repr(inviso.etf.loads(one["value"])) == "#rr:p{a = 2, b = ('x',)}"
    assert inviso.etf.loads(two["value"]) == {"x": ["infinity"]}


# arrows


def arrows_of(messages: list[Any]) -> list[tuple[str, str, str]]:
    """Sender, receiver, and the shown part of the message."""
    found = read_perfetto(made("perfetto", messages, names={}))
    begun = {flow: event for event in found.events for flow in event.flows}
    arrows = [
        (found.track(begun[flow].track), found.track(event.track), event.notes["message"])
        for event in found.events
        for flow in event.ended_flows
    ]
    events = chrome(messages, names={})["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    starts = {e["id"]: names[e["tid"]] for e in events if e["ph"] == "s"}
    assert [(starts[e["id"]], names[e["tid"]]) for e in events if e["ph"] == "f"] == [a[:2] for a in arrows]
    return arrows


def test_a_message_is_an_arrow_to_who_receives_it() -> None:
    jobs: queue.Queue[str] = queue.Queue()
    with trace.session_create("queue") as session:
        session.process(inviso.self(), True, ["send"])
        jobs.put("job")
        to_all = session.receive(5)[4]
    assert to_all.kind == "queue"
    a, b, c = map(repr, (A, B, C))
    assert arrows_of([("trace", A, "send", "x", B), ("trace", B, "receive", "x")]) == [(a, b, "'x'")]
    # the same contents: in order; from others: not
    messages = [
        ("trace", A, "send", "x", C), ("trace", B, "send", "x", C), ("trace", A, "send", "y", B),
        *[("trace", C, "receive", "x")] * 3, ("trace", C, "receive", "y"),
    ]  # fmt: skip
    assert arrows_of(messages) == [(a, c, "'x'"), (b, c, "'x'")]
    # the process that takes from a queue gets the messages sent to it
    messages = [("trace", A, "send", "job", to_all), ("trace", B, "send", "job", C), ("trace", C, "receive", "job")]
    assert arrows_of([*messages, ("trace", A, "receive", "job")]) == [(b, c, "'job'"), (a, a, "'job'")]


def test_tokens_tell_their_arrows_by_serial() -> None:
    def seq(word: str, serial: tuple[int, int], sender: Any, receiver: Any) -> Any:
        return ("seq_trace", "order 7", (word, serial, sender, receiver, "same"))

    a, b, c = map(repr, (A, B, C))
    messages = [
        seq("send", (0, 1), A, B), seq("send", (0, 2), A, C),
        seq("receive", (0, 2), A, C), seq("receive", (0, 1), A, B),
        seq("print", (1, 3), B, None),
    ]  # fmt: skip
    assert arrows_of(messages) == [(a, c, "'same'"), (a, b, "'same'")]


def test_perfetto_s_own_description_knows_every_field() -> None:
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    unknown = pytest.importorskip("google.protobuf.unknown_fields")
    found = perfetto.Trace.FromString(made("perfetto", everything()))

    def check(message: Any) -> int:
        assert len(unknown.UnknownFieldSet(message)) == 0
        inner = [
            value
            for field, values in message.ListFields()
            if field.message_type
            for value in (values if field.is_repeated else [values])
        ]
        return 1 + sum(map(check, inner))

    assert check(found) > 50
    types = [packet.track_event.type for packet in found.packet if packet.HasField("track_event")]
    assert set(types) == {1, 2, 3, 4}


def everything() -> list[Any]:
    return [
        ("trace_ts", A, "spawned", B, ("m", "f", []), 5), ("trace_ts", A, "call", ("m", "f", [1]), 10),
        ("trace_ts", A, "send", "x", B, 11), ("trace_ts", B, "receive", "x", 12), ("drop", 3),
        ("trace_ts", A, "in", ("m", "f", 1), 12), ("trace_ts", A, "out", ("m", "f", 1), 13),
        ("seq_trace", "label", ("print", (0, 1), A, None, "info"), 13), ("monitor", A, "long_gc", [("timeout", 1)]),
        ("trace_ts", A, "return_from", ("m", "f", 1), 2, 14), ("trace_ts", A, "exit", "normal", 15),
    ]  # fmt: skip


# sources and files


def traced() -> trace.Session:
    session = trace.session_create("export")
    session.function(("json.decoder", "JSONDecoder.decode", "_"), [("_", [], [("return_trace",)])], ["local"])
    session.process(inviso.self(), True, ["call", "monotonic_timestamp"])
    json.loads("[1]")
    session.process(inviso.self(), False, ["all"])
    return session


def test_a_session_is_a_source_once() -> None:
    session = traced()
    assert export.chrome(session, io.BytesIO()).messages == 2
    assert export.chrome(session, io.BytesIO()).messages == 0
    assert session.is_alive()
    session.destroy()
    with trace.session_create("other", inviso.self()) as other, pytest.raises(BadArg, match="tracer None"):
        export.chrome(other, io.BytesIO())


def test_several_logs_and_wrap_sets(tmp_path: Path) -> None:
    first = log(tmp_path / "w1.log", [call("a", 1), back("a", 2)])
    log(tmp_path / "w2.log", [call("b", 3), back("b", 4)])
    log(tmp_path / "w4.log", [call("c", 0), back("c", 1)])
    (profile,) = json.loads(made("speedscope", (tmp_path / "w", "wrap", ".log")))["profiles"]
    assert len(profile["events"]) == 6
    rows = export.arrow((tmp_path / "w", "wrap", ".log"))
    pyarrow = pytest.importorskip("pyarrow")
    # the oldest file is the one after the hole
    assert pyarrow.table(rows)["function"].to_pylist() == ["c", "c", "a", "a", "b", "b"]
    assert pyarrow.table(export.arrow([first, first])).num_rows == 4
    assert export.chrome([first, tmp_path / "w2.log"], io.BytesIO()).messages == 4


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    def broken() -> Any:
        yield call("a", 1)
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        export.perfetto(broken(), tmp_path / "out")
    with pytest.raises(BadArg, match="no term"):
        export.perfetto([call("a", 1), object()], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    for name in ("out", "out.gz"):
        for format in ("perfetto", "chrome", "speedscope", "collapsed", "pstats"):
            export.FORMATS[format]([call("a", 1), back("a", 2)], tmp_path / name)
            data = (tmp_path / name).read_bytes()
            data = gzip.decompress(data) if name.endswith(".gz") else data
            assert data == made(format, [call("a", 1), back("a", 2)])
    assert sorted(os.listdir(tmp_path)) == ["out", "out.gz"]


@pytest.mark.parametrize("format", FILES)
def test_what_is_no_regular_file_is_written_to_where_it_is(format: str, tmp_path: Path) -> None:
    if format in ("arrow", "parquet"):
        pytest.importorskip("pyarrow")
    messages = [call("a", 1), back("a", 2)]
    fifo, target, link, dangling = (tmp_path / name for name in ("fifo", "target", "link", "dangling"))
    os.mkfifo(fifo)
    target.write_text("old")
    link.symlink_to("target")
    dangling.symlink_to("new")
    end = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    export.FORMATS[format](messages, fifo)
    assert fifo.is_fifo()
    piped = os.read(end, 1 << 16)
    os.close(end)
    for one in link, dangling:
        export.FORMATS[format](messages, one)
        assert one.is_symlink() and one.read_bytes() == piped != b""
    assert target.read_bytes() == (tmp_path / "new").read_bytes() == piped
    assert len(list(tmp_path.iterdir())) == 5
    # errors of the system: a full device, a link to itself, a pipe without a reader
    with pytest.raises(OSError) as caught:
        export.FORMATS[format](messages, "/dev/full")
    assert caught.value.errno == errno.ENOSPC and stat.S_ISCHR(os.stat("/dev/full").st_mode)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError) as caught:
        export.FORMATS[format](messages, tmp_path / "loop")
    assert caught.value.errno == errno.ELOOP and (tmp_path / "loop").is_symlink()
    with pytest.raises(IsADirectoryError):
        export.FORMATS[format](messages, tmp_path)


def test_a_pipe_that_has_only_a_descriptor_is_written_to(tmp_path: Path) -> None:
    # as /dev/stdout is where standard output is a pipe: its link leads to no path
    reads, writes = os.pipe()
    export.collapsed([call("a", 1), back("a", 2)], f"/dev/fd/{writes}")
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        assert file.read() == b"shop.orders:a/1 1\n" == made("collapsed", [call("a", 1), back("a", 2)])
    gone = (tmp_path / "gone").open("w+b")
    (tmp_path / "gone").unlink()
    export.collapsed([call("a", 1), back("a", 2)], f"/dev/fd/{gone.fileno()}")
    assert gone.read() == b"shop.orders:a/1 1\n" and list(tmp_path.iterdir()) == []
    gone.close()


def test_errors_of_arguments_name_the_remedy(tmp_path: Path) -> None:
    here = [call("a", 1)]
    for what, wrong in [
        ("source", lambda: export.chrome("no/such/log", io.BytesIO())),
        ("source", lambda: export.chrome((tmp_path / "no", "wrap", ".log"), io.BytesIO())),
        ("source", lambda: export.chrome((tmp_path / "no", "wrap", ""), io.BytesIO())),
        ("source", lambda: export.arrow(5)),
        ("source", lambda: export.arrow((5, "wrap", ".log"))),
        ("out", lambda: export.chrome(here, io.StringIO())),
        ("out", lambda: export.chrome(here, tmp_path / "no" / "out")),
        ("out", lambda: export.chrome(here, 5)),
        ("out", lambda: export.chrome(here, "")),
        ("out", lambda: export.chrome(here, "a\0")),
        ("out", lambda: export.parquet(here, 5)),
        ("out", lambda: export.parquet(here, tmp_path / "out.gz")),
        ("values", lambda: export.chrome(here, io.BytesIO(), values=-1)),
        ("values", lambda: export.chrome(here, io.BytesIO(), values=sys.maxsize + 1)),
        ("values", lambda: export.chrome(here, io.BytesIO(), values=10**5000)),
        ("values", lambda: export.arrow(here, values="words")),
        ("pids", lambda: export.chrome(here, io.BytesIO(), pids="other")),
        ("names", lambda: export.chrome(here, io.BytesIO(), names={1: "one"})),
        ("names", lambda: export.chrome(here, tmp_path / "out", names=5)),
    ]:
        with pytest.raises(BadArg) as caught:
            wrong()
        assert caught.value.argument == what
        assert ";" in caught.value.why
    assert list(tmp_path.iterdir()) == []


def test_what_names_logs_is_never_taken_for_messages(tmp_path: Path) -> None:
    path = log(tmp_path / "log", [call("a", 1), back("a", 2)])
    for source in (str(path), os.fsencode(path), [os.fsencode(path)], {path}, {path: None}.keys()):
        assert export.chrome(source, io.BytesIO()).messages == 2
    assert export.chrome([path, os.fsencode(path)], io.BytesIO()).messages == 4
    term = etf.dumps(call("a", 1))
    assert export.chrome([term], io.BytesIO()).messages == 1
    wrong: list[Any] = [term, bytearray(term), inviso.Atom("log"), [path, 5], [path, term], b"", [b"no"]]
    wrong.append([path, inviso.Atom("x")])
    with path.open("rb") as file:
        for source in [*wrong, file, io.BytesIO(term)]:
            for function in (lambda source: export.chrome(source, io.BytesIO()), export.arrow):
                with pytest.raises(BadArg) as caught:
                    function(source)
                assert caught.value.argument == "source" and ";" in caught.value.why
    with pytest.raises(BadArg, match="source: an iterator gave .*; pass a list of paths"):
        export.chrome(iter([str(path)]), io.BytesIO())
    term = etf.dumps("no path")
    path.write_bytes(bytes(1) + len(term).to_bytes(4, "big") + term)
    assert export.chrome(inviso.log.read(path), io.BytesIO()).unknown == 1


def test_a_wrong_argument_costs_a_session_no_message() -> None:
    with trace.session_create("kept") as session:
        session.process(inviso.self(), True, ["send"])
        inviso.send(inviso.self(), "x")
        inviso.receive()
        for format, options in (("chrome", {}), ("parquet", {}), ("arrow", {"values": "words"})):
            function = getattr(export, format)
            with pytest.raises(BadArg):
                function(session, **options) if options else function(session, 5)
        with pytest.raises(BadArg):
            export.chrome(session, io.BytesIO(), names=5)  # type: ignore[arg-type]
        assert export.chrome(session, io.BytesIO()).messages == 1


def test_pstats_loads_it_and_prints_it(tmp_path: Path) -> None:
    path = tmp_path / "stats"
    export.pstats([call("a", 0), call("b", 1_000_000_000), back("b", 3_000_000_000), back("a", 4_000_000_000)], path)
    out = io.StringIO()
    stats = pstats.Stats(str(path), stream=out)
    stats.sort_stats("cumulative").print_stats().print_callers()
    assert (stats.total_calls, stats.total_tt) == (2, 4.0)
    assert "shop.orders:0(b/1)" in out.getvalue()


def test_processes_are_called_by_their_names() -> None:
    async def main() -> None:
        with trace.session_create("names") as session:
            session.process("all", True, ["send", "receive", "monotonic_timestamp"])
            inviso.send(inviso.self(), "hello")
            inviso.receive()
            session.process("all", False, ["all"])
            found = read_perfetto(made("perfetto", session))
        assert [t for t in found.tracks.values() if t.startswith("the one ")] == [f"the one {inviso.self()!r}"]

    async def named() -> None:
        await asyncio.create_task(main(), name="the one")

    asyncio.run(named())
    assert "worker <0." in made("chrome", [("trace", A, "exit", 1)], names={A: "worker"}).decode()


def test_the_processes_of_a_log_are_called_by_their_names(tmp_path: Path) -> None:
    def titles(source: Any, **options: Any) -> set[str]:
        events = chrome(source, **options)["traceEvents"]
        return {event["args"]["name"] for event in events if event["name"] == "thread_name"}

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(asyncio.to_thread(json.dumps, 1), name="a-task")  # type: ignore[arg-type]
        await task
        return task

    path = tmp_path / "log"
    port = trace_port("file", path)()
    thread = threading.Thread(target=json.dumps, args=(1,), name="a-thread")
    with trace.session_create("log", port) as session, trace.session_create("list") as own:
        for one in session, own:
            one.process("all", True, ["procs", "monotonic_timestamp"])
            one.process("new", True, ["procs", "running", "monotonic_timestamp"])
        thread.start()
        thread.join()
        kept = asyncio.run(main())
        messages = own.drain()
    expected = titles(messages)
    assert {name.split(" <")[0] for name in expected} >= {"a-thread", "a-task"} and kept.done()
    assert titles(path) == expected == titles(list(inviso.log.read(path)))
    # names that are given apply to the log's pids, too
    given = {next(message[1] for message in messages if message[1].name == "a-task"): "given"}
    assert titles(path, names=given) == titles(messages, names=given)
    assert {name.split()[0] for name in titles(path, names=given) if name[0] != "<"} == {"given"}
    # the pids of an Erlang node without a name belong to this process only if an argument says so
    me = inviso.self()
    erlang = tmp_path / "erlang"
    data = etf.dumps(("trace", me, "call", ("m", "f", [])))
    erlang.write_bytes(struct.pack(">BI", 0, len(data)) + data)
    assert titles(erlang) == {str(me)} and titles(erlang, names={me: "given"}) == {f"given {me}"}


def test_an_erlang_node_s_pids_are_shown_as_it_does() -> None:
    other = inviso._native.process.pid_of_node("nonode@nohost", 0, 83)
    events = chrome([("trace", other, "exit", [other])], pids="erlang")["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "thread_name"] == ["<0.83.0>"]
    assert events[-1]["args"] == {"reason": "[<0.83.0>]"}


@pytest.mark.parametrize("values", ["text", "binary", "none"])
def test_values_as_text_as_bytes_or_not(values: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    arguments = [
        1,
        -2.5,
        "it's",
        b"\xff",
        None,
        True,
        (1,),
        {"k": [1]},
        2**70,
        frozenset({3}),
        inviso.Opaque("x.Y", 16),
    ]
    rows = pyarrow.table(
        export.arrow([("trace", A, "call", ("m", "f", arguments), "extra")], values=values)
    ).to_pylist()
    read = {
        "text": [
            "[1, -2.5, \"it's\", b'\\xff', None, True, (1,), {'k': [1]}, 1180591620717411303424, {3}, <x.Y at 0x10>]",
            "'extra'",
        ],
        "binary": [arguments, "extra"],
        "none": [None, None],
    }[values]
    found = [rows[0]["args"], rows[0]["extra"]]
    if values == "binary":
        found = [inviso._native.etf.binary_to_term(value, 100, 1 << 20) for value in found]
    assert found == read
    assert rows[0]["arity"] == 11


@pytest.mark.parametrize("format", [format for format in FILES if format != "parquet"])
def test_an_export_never_takes_the_place_of_its_log(format: str, tmp_path: Path) -> None:
    plain, link, other = tmp_path / "plain", tmp_path / "link", tmp_path / "other"
    record = etf.dumps(("trace", inviso.self(), "call", ME))
    data = b"\0" + len(record).to_bytes(4) + record
    for path in (plain, other, tmp_path / "w0.log", tmp_path / "w1.log"):
        path.write_bytes(data)
    link.symlink_to(plain)
    wrapped = (tmp_path / "w", "wrap", ".log")
    for source, out in ((plain, plain), (plain, link), ([other, plain], plain), (wrapped, tmp_path / "w1.log")):
        with pytest.raises(BadArg, match="out: .* is the log itself; pass another file"):
            export.FORMATS[format](source, out)
        assert Path(out).read_bytes() == data
    assert export.FORMATS[format](plain, other).messages == 1


@pytest.mark.parametrize("format", FILES)
def test_a_session_keeps_its_messages_where_they_cannot_be_written(format: str, tmp_path: Path) -> None:
    if format in ("arrow", "parquet"):
        pytest.importorskip("pyarrow")
    with traced() as session:
        for out in ("/proc/no-file-is-made-here", str(tmp_path)):
            with pytest.raises(OSError) as caught:
                export.FORMATS[format](session, out)
            assert caught.value.filename == out
        assert len(session.drain()) == 2
