"""The contents of pictures, computed from rows: layout, aggregation, percentiles, and the page's text. No browser."""

from __future__ import annotations

import base64
import json
import math
import re
import subprocess
import sys
import zlib
from collections import Counter, namedtuple
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import inviso
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inviso import BadArg, export, picture
from inviso.picture import _flame, _graph, _histogram, _timeline
from inviso.picture._boxes import EXCEPTION, MERGED, OPEN
from inviso.picture._text import COLOURS, GROWTH

HOSTILE = '</script><b>"&\x00\udc80'


def data(made: picture.Picture) -> Any:
    """The data in a picture's page."""
    found = re.search(r'id="data">([^<]*)<', made.html())
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def flame(rows: Any, before: Any = None, view: str = "inclusive", limit: int = 1000) -> _flame.Flame:
    return _flame.flame_boxes("flame/1", rows, before, view, "ns", limit)


def named(made: Any) -> list[list[tuple[str, Any, Any]]]:
    """The boxes of each row: name, place, width."""
    return [[(made.boxes.names[box.name], box.x, box.width) for box in row] for row in made.boxes.rows]


def elements(svg: str, tag: str, kind: str = "") -> list[ElementTree.Element]:
    found = ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [element for element in found if kind in element.get("class", "").split() or not kind]


# --- flame graphs


def test_a_flame_has_functions_under_their_callers_the_largest_first() -> None:
    made = flame([(("a", "b"), 30), ("a;c", 50), (["a"], 20), (("a", "b"), 10)])
    assert named(made) == [[("a", 0, 110)], [("c", 0, 50), ("b", 50, 40)]]
    assert [box.own for row in made.boxes.rows for box in row] == [20, 50, 40]
    assert made.total == 110 and made.notes == []


def test_inclusive_of_a_function_counts_recursion_once() -> None:
    made = flame([("f", 1), ("f;f", 10), ("f;g;f", 100)])
    found = {function.name: (function.own, function.inclusive) for function in made.functions}
    assert found == {"f": (111, 111), "g": (0, 100)}


def test_own_view_has_callers_beneath() -> None:
    made = flame([("a;b", 30), ("c;b", 50), ("a", 20)], view="own")
    assert named(made) == [[("b", 0, 80), ("a", 80, 20)], [("c", 0, 50), ("a", 50, 30)]]
    assert {function.name: function.own for function in made.functions} == {"a": 20, "b": 80, "c": 0}


def test_a_difference_has_growth_and_what_is_gone() -> None:
    made = flame([("a;b", 30), ("a;new", 10)], before=[("a;b", 20), ("a;gone", 5), ("a;gone;deep", 7)])
    assert named(made) == [[("a", 0, 40)], [("b", 0, 30), ("new", 30, 10)]]
    assert [(box.before, box.tint) for row in made.boxes.rows for box in row] == [(32, 7), (20, 8), (0, 8)]
    assert (made.total, made.before) == (40, 32)
    assert made.notes == ["gone since before: 2 boxes, 12 ns in all; the table has the functions"]
    assert _flame.table(made, "inclusive", 20)[1] == [
        ["b", "20 ns", "30 ns", "10 ns", "+50.0 %"],
        ["new", "0 ns", "10 ns", "10 ns", "new"],
        ["deep", "7 ns", "0 ns", "-7 ns", "gone"],
        ["gone", "5 ns", "0 ns", "-5 ns", "gone"],
    ]


@pytest.mark.parametrize(
    ("now", "before", "tint"), [(100, 100, 4), (102, 100, 5), (60, 100, 1), (50, 100, 0), (1, 0, 8), (0, 0, 4)]
)
def test_tints(now: int, before: int, tint: int) -> None:
    assert _flame._tint(now, before) == tint


def test_smaller_boxes_stand_together() -> None:
    made = flame([("a", 1), *((f"a;f{n}", n) for n in range(1, 11))], limit=4)
    assert named(made) == [[("a", 0, 56)], [("f10", 0, 10), ("f9", 10, 9), ("f8", 19, 8), ("… 7 smaller", 27, 28)]]
    assert made.boxes.rows[1][-1].mark == MERGED
    assert made.notes == ["7 smaller boxes stand together as “… smaller”: none has more than 7 ns"]
    assert len(made.functions) == 11


stacks = st.lists(st.tuples(st.lists(st.sampled_from("abcd"), max_size=6).map(tuple), st.integers(0, 50)), max_size=40)


@given(stacks, st.integers(1, 30))
def test_flames_agree_with_a_slow_model(rows: list[tuple[tuple[str, ...], int]], limit: int) -> None:
    made = flame(rows, limit=limit)
    wanted: Counter[tuple[str, ...]] = Counter()
    for stack, value in rows:
        for depth in range(len(stack)):
            wanted[stack[: depth + 1]] += value
    wanted = +wanted
    paths: list[dict[tuple[Any, Any], tuple[str, ...]]] = [{(0, made.total): ()}]
    drawn = 0
    for row in made.boxes.rows:
        paths.append({})
        end = 0
        for box in row:
            assert box.x >= end, "boxes of a row do not overlap"
            end = box.x + box.width
            parent = next(
                path for (x, w), path in paths[-2].items() if x <= box.x and end <= x + w and path is not None
            )
            if box.mark != MERGED:
                drawn += 1
                path = (*parent, made.boxes.names[box.name])
                paths[-1][box.x, box.width] = path
                assert wanted[path] == box.width
    assert drawn == min(len(wanted), limit)
    for function in made.functions:
        assert function.own == sum(value for stack, value in rows if stack[-1:] == (function.name,))
        assert function.inclusive == sum(value for stack, value in rows if function.name in stack)


def test_frames_may_be_functions_with_arity() -> None:
    assert named(flame([((("shop", "buy", 2), "x"), 5)])) == [[("shop:buy/2", 0, 5)], [("x", 0, 5)]]


def test_lines_of_a_collapsed_export(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    calls = [("trace", inviso.self(), "call", ("m", "f", [])), ("trace", inviso.self(), "call", ("m", "g", [1]))]
    with file.open("wb") as out:
        export.collapsed(calls, out)
    with file.open() as lines:
        assert flame(lines).total == 2
    file.write_text("m:f/0;m:g/1 12\n\nm:f/0 3\n")
    with file.open() as lines:
        assert named(flame(lines)) == [[("m:f/0", 0, 15)], [("m:g/1", 0, 12)]]
    with file.open("rb") as lines:
        assert flame(lines).total == 15


def test_rows_without_a_value_are_left_out_and_counted() -> None:
    made = flame([("a", 5), ("b", None), ("b", math.nan), ("c", -1), ("d", 0)])
    assert named(made) == [[("a", 0, 5)]]
    assert made.notes == [
        "2 rows without a value: left out",
        "1 row with a value below 0: left out",
        "1 stack of value 0 can't be seen",
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (5, "rows: 5 is not a sequence of rows; pass dicts, tuples, or a table"),
        ("a;b 1", "rows: 'a;b 1' is not a sequence of rows; pass text.splitlines()"),
        ({"a": 1}, "is not a sequence of rows"),
        ([("a", 1), ("a", "much")], "row 1, value: 'much' is not a number"),
        ([("a", True)], "row 0, value: True is not a number"),
        ([("a", math.inf)], "inf can't be drawn"),
        ([(7, 1)], "row 0, stack: 7 is not a stack; pass a tuple of names, outermost first, or 'a;b;c'"),
        ([([[]], 1)], "row 0, stack: [[]] is not a stack"),
        ([("a",)], "row 0 has 1 values; pass stack, value, in this order"),
        ([{"x": 1}], "row 0 has the keys ['x']; pass stack, value"),
        ([7], "row 0 is 7; pass dicts, tuples"),
        (["a;b"], "line 0 is 'a;b'; pass lines like 'a;b;c 12'"),
    ],
)
def test_wrong_rows_of_a_flame(rows: Any, says: str) -> None:
    with pytest.raises(BadArg) as found:
        picture.flame(rows)
    assert found.value.argument == "rows" and says in str(found.value)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"view": "self"}, "view"), ({"unit": 5}, "unit"), ({"title": None}, "title"), ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"), ({"before": 5}, "before"), ({"before": [("a", "x")]}, "before"),
    ],
)  # fmt: skip
def test_wrong_options_of_a_flame(options: Any, argument: str) -> None:
    with pytest.raises(BadArg) as found:
        picture.flame([], **options)
    assert found.value.argument == argument


# --- rows


def test_rows_of_every_form_say_the_same() -> None:
    row = namedtuple("row", ["value", "stack"])
    forms = [[("a;b", 4)], [["a;b", 4]], [{"value": 4, "stack": "a;b"}], [row(4, "a;b")], iter([("a;b", 4)])]
    assert {str(named(flame(form))) for form in forms} == {str([[("a", 0, 4)], [("b", 0, 4)]])}


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_rows_of_arrow(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(library)
    columns = {"n": [1, 2], "stack": ["a;b", "a"], "value": [4, 5]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    if library == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert named(flame(table)) == [[("a", 0, 9)], [("b", 0, 4)]]
    with pytest.raises(BadArg, match=r"the table has the columns n, value; pass stack, value"):
        flame(table.drop(["stack"]) if library == "pyarrow" else table.drop("stack"))


def test_arrow_without_a_reader_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pyarrow", "polars"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=r"^pyarrow is missing: pip install 'inviso\[arrow\]'$"):
        picture.flame(SimpleNamespace(__arrow_c_stream__=None))


# --- timelines


def timeline(calls: Any, messages: Any = None, processes: Any = None, functions: Any = None, limit: int = 1000) -> Any:
    return _timeline.timeline_boxes("timeline/1", calls, messages, processes, functions, limit)


def test_a_timeline_has_a_track_for_each_process_and_a_row_for_each_depth() -> None:
    calls = [(7, "f", 100, 50, 0, "return"), (7, "g", 110, 20, 1, "exception"), (8, "h", 130, 40, 0, "return")]
    made = timeline(calls, processes=[(7, "main", "thread"), (8, "worker", "task", "shop"), (9, "idle", "task")])
    assert [(track.name, track.row, track.kind) for track in made.boxes.tracks] == [
        ("main", 0, "thread"),
        ("worker · shop", 3, "task"),
    ]
    assert named(made) == [[], [("f", 0, 50)], [("g", 10, 20)], [], [("h", 30, 40)]]
    assert made.boxes.rows[2][0].mark == EXCEPTION and made.boxes.span == 70
    assert made.notes == ["1 process without a call or message: left out"]


def test_open_calls_last_until_the_end_and_depths_follow_from_times() -> None:
    made = timeline([(1, "f", 0, None), (1, "g", 10, 20), (1, "h", 30, 10), (1, "i", 32, 5)])
    assert named(made) == [[], [("f", 0, 40)], [("g", 10, 20), ("h", 30, 10)], [("i", 32, 5)]]
    assert made.boxes.rows[1][0].mark == OPEN


def test_messages_are_arrows_and_unpaired_ones_stubs() -> None:
    messages = [(1, 2, 10, 5, 99), (1, None, 20, None, 5), (None, 2, 30, None, None), (1, 2, None, 3, 1)]
    made = timeline([], messages)
    assert [tuple(arrow) for arrow in made.boxes.arrows] == [
        (0, 1, 0, 5, "message 99"), (0, -1, 10, None, "message 5"), (-1, 1, 20, None, ""),
    ]  # fmt: skip
    assert made.notes == [
        "1 message without a time or without anybody: left out",
        "2 messages whose other end is not known: drawn as stubs",
    ]


def test_a_call_without_a_start_is_left_out() -> None:
    made = timeline([(1, "f", None, 5), (1, "g", 3, 5), (1, "g", None, 5)])
    assert made.calls == 1 and made.notes == ["2 calls without a start: left out"]


def test_times_are_of_the_first_clock_that_has_any() -> None:
    none = {"process_id": 1, "function": "f", "start_mono_ns": None, "start": None, "duration_ns": 5}
    wall, both = {**none, "start": 10}, {**none, "start": 20, "start_mono_ns": 3}
    assert [timeline(rows).calls for rows in ([none, wall, wall], [none, both, both], [both, wall], [wall, both])] == [
        2,
        2,
        1,
        2,
    ]
    mixed = [
        {"process": 1, "function": "f", "start": 3, "duration": 5},
        {"process_id": 1, "function": "f", "start_mono_ns": 4, "duration_ns": 5},
    ]
    assert timeline(mixed).calls == 2, "rows may have different names"


def test_functions_by_id_and_by_module() -> None:
    calls = [{"process_id": 1, "function_id": 3, "start_mono_ns": 0, "duration_ns": 1, "depth": 0}]
    assert timeline(calls, functions=[(3, "shop", "buy", 2)]).boxes.names == ["shop:buy/2"]
    calls = [{"process_id": 1, "module": "shop", "name": "buy", "start_mono_ns": 0, "duration_ns": 1}]
    assert timeline(calls).boxes.names == ["shop:buy"]


def test_an_object_of_tables_is_taken_apart() -> None:
    tables = {"calls": [(1, "f", 0, 5)], "messages": [(1, 2, 1, 2)], "processes": [(1, "desk"), (2, "store")]}
    made = picture.timeline(SimpleNamespace(**tables))
    assert repr(made) == "<timeline 'Timeline': 1 call and 1 message of 2 processes in 5 ns>"
    assert repr(picture.timeline(tables)) == repr(made)


def test_short_calls_stand_together_and_long_ones_do_not() -> None:
    calls = [(n % 3, "short", n * 10, 4, 0) for n in range(5000)] + [
        (1, "long", 0, 2000, 1),
        (1, "long", 9000, 2000, 1),
    ]
    made = timeline(calls, limit=100)
    assert made.boxes.count() <= 100
    boxes = [(made.boxes.names[box.name], box.mark) for row in made.boxes.rows for box in row]
    assert boxes.count(("long", 0)) == 2
    together = [int(name.split()[0].replace(",", "")) for name, mark in boxes if mark == MERGED]
    alone = [name for name, _ in boxes if name == "short"]
    assert sum(together) + len(alone) == 5000
    assert made.notes == [f"{sum(together):,} calls of at most 4 ns stand together as “… short calls”"]
    for row in made.boxes.rows:
        assert row == sorted(row)


def test_too_many_processes_too_deep_calls_and_too_many_messages() -> None:
    made = timeline([(n, "f", 0, n, 0) for n in range(700)], [(1, 2, n, 1) for n in range(20_500)])
    assert len(made.boxes.tracks) == 500 and len(made.boxes.arrows) == 20_000
    assert made.notes == ["200 processes that did least: left out", "500 messages that waited least: left out"]
    deep = timeline([(1, "f", n, 1000 - 2 * n, n) for n in range(150)])
    assert len(deep.boxes.rows) == 101 and deep.notes == ["50 calls deeper than 100 rows: left out"]


@pytest.mark.parametrize(
    ("given_", "argument", "says"),
    [
        (([5],), "calls", "row 0 is 5"),
        (([(1, "f", "x", 5)],), "calls", "row 0, start_mono_ns: 'x' is not a number"),
        (([(1, "f", 0, -5)],), "calls", "row 0: a duration of -5"),
        (([([], "f", 0, 5)],), "calls", "row 0: [] can't be a process's id"),
        (([], [(1, 2, "x")]), "messages", "row 0, sent_mono_ns: 'x' is not a number"),
        (([], [(1, {}, 5)]), "messages", "can't be a process's id"),
        (([], None, 5), "processes", "5 is not a sequence of rows"),
        (([], None, None, [(1,)]), "functions", "row 0 has 1 values"),
    ],
)  # fmt: skip
def test_wrong_rows_of_a_timeline(given_: Any, argument: str, says: str) -> None:
    with pytest.raises(BadArg) as found:
        picture.timeline(*given_)
    assert found.value.argument == argument and says in str(found.value)


# --- graphs


def test_a_graph_adds_edges_up() -> None:
    made = _graph.graph_of("graph/1", [("a", "b", 2), ("a", "b"), ("b", "a", 4), ("b", "b"), (None, "b")], None, "", 60)
    assert {(a[0], b[0]): count for (a, b), count in made.edges.items()} == {
        ("a", "b"): 3,
        ("b", "a"): 4,
        ("b", "b"): 1,
    }  # type: ignore[index]
    assert made.notes == ["1 row without a sender or a receiver: left out"]
    assert {node.name: (node.sent, node.received) for node in made.nodes.values()} == {"a": (3, 4), "b": (5, 4)}


def test_rows_of_messages_are_edges() -> None:
    messages = [{"sender_id": 1, "receiver_id": 2, "wait_ns": 5}, {"sender_id": 1, "receiver_id": 2, "wait_ns": 9}]
    made = picture.graph(messages, [(1, "desk"), (2, "store")])
    assert made.about == "2 processes, 1 edge, 2 messages" and "desk → store: 2 messages" in made.svg()


def test_hosts_have_circles_of_their_own() -> None:
    edges = [
        {"sender": f"p{n}", "receiver": "hub", "sender_node": f"host{n % 3}", "receiver_node": "host0"}
        for n in range(30)
    ]
    made = _graph.graph_of("graph/1", edges, None, "", 60)
    assert sorted(made.circles) == ["host0", "host1", "host2"]
    for node in made.nodes.values():
        x, y, radius = made.circles[node.host]
        assert math.hypot(node.x - x, node.y - y) == pytest.approx(radius)
        assert 0 <= node.x <= made.size[0] and 0 <= node.y <= made.size[1]
    assert len({(round(node.x), round(node.y)) for node in made.nodes.values()}) == 31
    svg = picture.graph(edges).svg()
    assert (len(elements(svg, "g", "node")), len(elements(svg, "g", "edge")), len(elements(svg, "circle", "host"))) == (
        31,
        30,
        3,
    )


def test_processes_with_few_messages_stand_together() -> None:
    edges = [(f"p{n}", "hub", n + 1) for n in range(100)]
    made = _graph.graph_of("graph/1", edges, None, "", 10)
    assert len(made.nodes) == 11 and sum(made.edges.values()) == 5050
    assert made.notes == ["91 processes with the fewest messages stand together as “(others)”"]


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ([("a", "b", -1)], "row 0: a count of -1"),
        ([("a", [], 1)], "can't be names"),
        ([("a", "b", "x")], "row 0, count: 'x'"),
        ([("a",)], "row 0 has 1"),
    ],
)
def test_wrong_rows_of_a_graph(edges: Any, says: str) -> None:
    with pytest.raises(BadArg) as found:
        picture.graph(edges)
    assert found.value.argument == "edges" and says in str(found.value)


# --- histograms


def histogram(values: Any, column: Any = None, by: Any = None, percentiles: Any = (50, 99)) -> Any:
    return _histogram.histogram_series("histogram/1", values, column, by, "ns", percentiles)


@example([99_999_999_989], 1.0)  # just below an edge
@given(st.lists(st.integers(-5, 10**12) | st.floats(1e-3, 1e9), min_size=1), st.floats(0.1, 100))
def test_histograms_agree_with_a_slow_model(values: list[Any], mark: float) -> None:
    made = histogram(values)
    (one,) = made.series
    assert sum(one.counts) + one.below == len(values)
    for at, count in enumerate(one.counts):
        last = at == len(one.counts) - 1
        assert count == sum(
            1 for v in values if v > 0 and made.edges[at] <= max(v, made.edges[0]) and (last or v < made.edges[at + 1])
        )
    least = min(v for v in values if sum(1 for w in values if w <= v) * 100 >= mark * len(values) - 1e-7)
    assert one.percentile(mark) == least
    assert len(one.counts) <= 62


def test_groups_share_a_scale() -> None:
    rows = [{"wait_ns": 10**n, "channel": f"c{n % 2}"} for n in range(2, 9)] + [{"wait_ns": None, "channel": "c0"}]
    made = histogram(rows, by="channel")
    assert [(one.name, len(one.values)) for one in made.series] == [("c0", 4), ("c1", 3)]
    assert made.edges[0] <= 100 and made.edges[-1] > 10**8
    assert made.notes == ["1 row without a value: left out"]
    many = histogram([{"value": 1, "k": n} for n in range(20)], by="k")
    assert len(many.series) == 8 and many.notes == ["12 groups with the fewest values, 12 in all: left out"]


def test_a_histogram_draws_a_bar_for_each_bin_that_has_values() -> None:
    made = picture.histogram([0, 1, 1, 1000, 10**6], percentiles=[50, 100])
    assert (len(elements(made.svg(), "g", "bar")), len(elements(made.svg(), "line", "mark"))) == (4, 2)
    assert made.notes == ("1 value of 0 or less: in the bar at the left",)
    assert made.about == "5 values, p50 1 ns, p100 1 ms"
    assert len(elements(picture.histogram([5, 5, 5]).svg(), "g", "bar")) == 1
    assert len(elements(picture.histogram([0, -3]).svg(), "g", "bar")) == 1


@pytest.mark.parametrize(
    ("values", "options", "argument"),
    [
        ("12", {}, "values"),
        (5, {}, "values"),
        (["x"], {}, "values"),
        ([{"a": 1}], {}, "values"),
        ([{"value": 1}], {"by": "k"}, "values"),
        ([1], {"by": "k"}, "values"),
        ([], {"by": 5}, "by"),
        ([], {"column": 5}, "column"),
        *(([], {"percentiles": wrong}, "percentiles") for wrong in (5, [0], "50", range(1, 10))),
    ],
)
def test_wrong_arguments_of_a_histogram(values: Any, options: Any, argument: str) -> None:
    with pytest.raises(BadArg) as found:
        picture.histogram(values, **options)
    assert found.value.argument == argument


# --- pages

MAKERS = [picture.flame, picture.timeline, picture.graph, picture.histogram]
ONE = [("a", 5)], [(1, "f", 0, 5)], [("a", "b", 1)], [5]


@pytest.mark.parametrize(("make", "one"), list(zip(MAKERS, ONE, strict=True)))
def test_no_rows_and_one_row_make_pictures(make: Any, one: Any) -> None:
    nothing, something = make([]), make(one)
    assert "no rows" in nothing.svg() and "no rows" not in something.svg()
    for made in (nothing, something):
        ElementTree.fromstring(made.svg())
        assert made.html().startswith("<!doctype html>") and repr(made).startswith("<") and "\n" not in repr(made)


def hostile() -> list[picture.Picture]:
    return [
        picture.flame([((HOSTILE, "b"), 5)], title=HOSTILE),
        picture.flame([(HOSTILE, 5)], before=[(HOSTILE + "gone", 7)], unit=HOSTILE, title=HOSTILE),
        picture.timeline(
            [(1, HOSTILE, 0, 5, 0, HOSTILE)], [(1, HOSTILE, 1, 2, HOSTILE)], [(1, HOSTILE, HOSTILE, HOSTILE)]
        ),
        picture.graph([(HOSTILE, "b", 5, HOSTILE)], title=HOSTILE, unit=HOSTILE),
        picture.histogram([{"value": 5, "k": HOSTILE}], by="k", title=HOSTILE, unit=HOSTILE),
    ]


@pytest.mark.parametrize("made", hostile(), ids=lambda made: made.kind)
def test_names_are_never_a_part_of_the_page(made: picture.Picture, tmp_path: Path) -> None:
    made.save(tmp_path / "page.html")
    tags: Counter[str] = Counter()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags[tag] += 1

    Reader().feed((tmp_path / "page.html").read_text("utf-8"))
    assert tags["b"] == 0 and tags["script"] == (4 if made.kind in ("flame", "timeline") else 2)
    ElementTree.fromstring(made.svg())
    made._repr_html_().encode()


def test_pages_need_nothing_from_elsewhere() -> None:
    for made in hostile():
        page = made.html()
        assert not re.search(
            r"(?:src|href)=|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|https?://(?!www\.w3\.org/2000/svg)", page
        )
        assert "default-src 'none'" in page


def test_a_page_carries_every_box() -> None:
    carried = data(picture.flame([("a;b", 1), ("a;c", 2), ("d", 4)]))
    assert carried["counts"] == [2, 2] and carried["names"] == ["a", "b", "c", "d"]
    assert carried["x"] == [0, 4, 4, 2] and carried["width"] == [4, 3, 2, 1] and carried["own"] == [4, 0, 2, 1]


class Sanitizer(HTMLParser):
    """The parts of an untrusted output that JupyterLab keeps: no frames, no scripts, and only some attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("div", "img", "p", "span", "table"):
            self.left.append(
                (tag, {name: value for name, value in attrs if name in ("style", "src", "alt", "class", "id")})
            )

    def handle_data(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize(("make", "one"), list(zip(MAKERS, ONE, strict=True)))
def test_an_untrusted_notebook_still_has_a_drawing(make: Any, one: Any) -> None:
    made = make(one)
    reader = Sanitizer()
    reader.feed(made._repr_html_())
    reader.close()
    (_, _), (tag, attributes) = reader.left
    kind, _, image = str(attributes["src"]).partition(",")
    assert (tag, kind, reader.text) == ("img", "data:image/svg+xml;base64", "")
    assert base64.b64decode(image).decode() == made.svg() == made._repr_svg_()
    assert made.title in str(attributes["alt"])


def test_a_notebook_has_the_whole_page_in_a_frame() -> None:
    made = picture.flame([("a", 5)])
    frames: list[Any] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            if tag == "iframe":
                frames.append(dict(attrs))

    Reader().feed(made._repr_html_())
    assert [frame["srcdoc"] for frame in frames] == [made.html()]


def test_the_legend_has_the_packages_that_are_drawn() -> None:
    def legend(rows: Any) -> list[str]:
        return re.findall(r"</i>([^<]*)</span>", picture.flame(rows).html())

    assert legend([("shop.db:query", 5), ("json:loads", 7)]) == ["json", "shop"]
    assert legend([(f"p{n}:f", 10 - n) for n in range(9)]) == [*(f"p{n}" for n in range(7)), "others"]


def test_the_table_has_the_top_rows() -> None:
    page = picture.flame([(f"f{n}", n) for n in range(1, 50)]).html()
    table = page[page.index("<table>") :]
    assert re.findall(r"<tr><td>(f\d+)<td>(\d+ ns)", table)[:2] == [("f49", "49 ns"), ("f48", "48 ns")]
    assert table.count("<tr><td>") == 20


def test_saving(tmp_path: Path) -> None:
    made = picture.flame([("ä", 5)])
    made.save(str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text("utf-8") == made.html()
    for wrong in (5, None):
        with pytest.raises(BadArg, match=r"^save/1, path: .* is not a path"):
            made.save(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadArg, match="there is no folder"):
        made.save(tmp_path / "no" / "a.html")


def test_many_rows_make_a_bounded_page() -> None:
    rows = ((("main", f"m{n % 997}:f{n % 5003}", f"g{n}"), n % 7 + 1) for n in range(40_000))
    made = picture.flame(rows, limit=500)
    assert len(made.html()) < 400_000 and data(made)["counts"][0] == 1
    assert sum(data(made)["counts"]) <= 1000 and len(data(made)["names"]) <= 1000
    assert made.notes[0].startswith("79,501 smaller boxes stand together")


# --- colours

_MISSING = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""How colours look without one kind of cones, in linear RGB (Machado, Oliveira and Fernandes, 2009)."""


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def lab(rgb: list[float]) -> list[float]:
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(a * min(max(b, 0), 1) for a, b in zip(row, rgb, strict=True)) for row in rows]
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (xyz[0] / 0.9505, xyz[1], xyz[2] / 1.089)]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


@pytest.mark.parametrize("kind", [*_MISSING, None])
def test_colours_differ_for_everybody(kind: str | None) -> None:
    def seen(colour: str) -> list[float]:
        rgb = linear(colour)
        return lab(
            rgb if kind is None else [sum(a * b for a, b in zip(row, rgb, strict=True)) for row in _MISSING[kind]]
        )

    assert min(math.dist(seen(a), seen(b)) for n, a in enumerate(COLOURS) for b in COLOURS[:n]) > 20
    assert math.dist(seen(GROWTH[0]), seen(GROWTH[-1])) > 40
    assert all(math.dist(seen(GROWTH[4]), seen(GROWTH[at])) > 15 for at in (0, 1, 2, 6, 7, 8))


def test_names_are_readable_on_every_colour() -> None:
    dark = 0.2126 * linear("#1a1a1a")[0] + 0.7152 * linear("#1a1a1a")[1] + 0.0722 * linear("#1a1a1a")[2]
    for colour in (*COLOURS, *GROWTH):
        r, g, b = linear(colour)
        assert (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) / (dark + 0.05) > 4.5, colour


def test_nothing_of_pictures_is_imported_by_a_traced_program() -> None:
    text = "import sys, inviso, inviso.tprof; print([m for m in sys.modules if m.startswith('inviso.picture')])"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60).stdout == "[]\n"
