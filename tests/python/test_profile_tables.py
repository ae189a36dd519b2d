"""Profiles as tables (Arrow, pandas, polars), as files, one line, HTML, and several as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inviso import tprof
from inviso.errors import BadArg
from inviso.tprof import Calls, ChildProcess, Function, Node, Profile, SavedProcess

A, B = SavedProcess("<0.1.0>", "thread", "main"), SavedProcess("<0.2.0>", "task", "")


def function(name: str, *calls: Calls) -> Function:
    return Function("shop", name, 1, "/x/shop.py", ord(name), calls)


def tree(kind: Any = "call_time", process: Any = A) -> Profile:
    """a calls b and c, b calls c."""
    nodes = [
        Node(parent, f, (Calls(process, 1, own, None, waiting),))
        for parent, f, own, waiting in [(None, 0, 10, 0), (0, 1, 20, 7), (0, 2, 5, 0), (1, 2, 40, 0)]
    ]
    functions, kept = tprof._tree.measured([function(name) for name in "abc"], nodes)
    return Profile(kind, functions, (("shop", "_", "_"),), 1000, nodes=kept)


TIMED = Profile(
    "call_time",
    (function("a", Calls(A, 1, 30), Calls(B, 2, 20)), function("b", Calls(A, 4, 50))),
    (("shop", "_", "_"),),
    99,
)
COUNTED = Profile("call_count", (function("a", Calls(None, 3, 3)), function("b", Calls(None, 4, 4))), ())

COLUMNS = [
    "function_id", "module", "name", "arity", "file", "line", "process_id", "process", "calls", "own_ns",
    "cumulative_ns",
    "waiting_ns", "own_bytes", "cumulative_bytes",
]  # fmt: skip


# tables


def test_arrow_has_a_row_for_each_function_and_process() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(TIMED)
    assert table.column_names == COLUMNS
    rows = table.to_pylist()
    assert [(r["function_id"], r["name"], r["process_id"], r["process"], r["calls"], r["own_ns"]) for r in rows] == [
        (0, "a", 0, "<0.1.0>", 1, 30), (0, "a", 1, "<0.2.0>", 2, 20), (1, "b", 0, "<0.1.0>", 4, 50),
    ]  # fmt: skip
    assert (
        rows[0]["module"] == "shop"
        and rows[0]["arity"] == 1
        and rows[0]["file"] == "/x/shop.py"
        and rows[0]["line"] == 97
    )
    assert all(r[name] is None for r in rows for name in COLUMNS[10:])
    assert (
        arrow.types.is_dictionary(table.schema.field("module").type)
        and table.schema.field("calls").type == arrow.int64()
    )


def test_what_was_not_measured_is_null() -> None:
    arrow = pytest.importorskip("pyarrow")
    for row in arrow.table(COUNTED).to_pylist():
        assert row["calls"] in (3, 4) and [row[name] for name in COLUMNS[6:8] + COLUMNS[9:]] == [None] * 7
    timed, memory = (arrow.table(tree(kind)).to_pylist() for kind in ("call_time", "call_memory"))
    assert [[r[name] for name in COLUMNS[9:]] for r in timed] == [
        [10, 75, 0, None, None], [20, 60, 7, None, None], [45, 45, 0, None, None],
    ]  # fmt: skip
    assert [[r[name] for name in COLUMNS[9:]] for r in memory] == [
        [None, None, None, 80, 600], [None, None, None, 160, 480], [None, None, None, 360, 360],
    ]  # fmt: skip


def test_an_empty_profile_is_an_empty_table() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(Profile("call_time", (), ()))
    assert (table.num_rows, table.column_names) == (0, COLUMNS)


def test_pandas_and_polars_sum_what_the_profile_has() -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = TIMED.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame.groupby("name", observed=True)["own_ns"].sum().to_dict() == {
        "a": 50,
        "b": 50,
    }
    polars = pytest.importorskip("polars")
    assert TIMED.to_polars().select(polars.col("calls").sum()).item() == 7
    assert polars.DataFrame(TIMED).columns == COLUMNS


def test_a_real_profile_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    p = tprof.profile(json.loads, "[1, 2]", type="call_time", tree=True, pattern="json.**")  # noqa: F841
    rows = duckdb.sql("select name, calls, cumulative_ns >= own_ns from p order by cumulative_ns desc").fetchall()
    assert [row[0] for row in rows] == ["loads", "JSONDecoder.decode", "JSONDecoder.raw_decode"]
    assert all(row[1:] == (1, True) for row in rows)


def test_many_functions_and_any_name() -> None:
    arrow = pytest.importorskip("pyarrow")
    names = ["<lambda>", "größe", "数", *(f"f{n}" for n in range(20_000))]
    p = Profile("call_count", tuple(Function("m", name, 0, "m.py", 1, (Calls(None, 1, 1),)) for name in names), ())
    assert arrow.table(p)["name"].to_pylist() == names


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, ask in (("pandas", TIMED.to_pandas), ("polars", TIMED.to_polars)):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=f"{name}") as caught:
            ask()
        assert "\n" not in str(caught.value) and "pip install" in str(caught.value)


# one line, show, html


def test_one_line_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert repr(tree()) == "<Profile of call_time: 3 functions, 4 calls, 75 ns>"
    TIMED.show(1)
    assert capsys.readouterr().out == tprof.format(TIMED, limit=1)
    TIMED.show(view="process", sort="calls")
    assert capsys.readouterr().out == tprof.format(TIMED, "process", "calls", limit=30)
    with pytest.raises(BadArg, match="limit"):
        TIMED.show(0)


def test_html_has_inclusive_time_and_escapes() -> None:
    page = tree()._repr_html_()
    assert "<th>INCLUSIVE</th>" in page and "<th>WAITING</th>" in page and "<details>" not in page
    odd = Profile("call_count", (Function("<m>", "f&", 0, "m.py", 1, (Calls(None, 1, 1),)),), ())
    assert "&lt;m&gt;:f&amp;/0" in odd._repr_html_()


# files


def same(a: Profile, b: Profile) -> bool:
    return a.to_dict() == b.to_dict()


@pytest.mark.parametrize("profile", [TIMED, COUNTED, tree(), tree("call_memory"), Profile("call_time", (), ())])
def test_what_was_saved_is_loaded(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(profile.to_json(indent=1))
    for given in (path, str(path)):
        again = tprof.load(given)
        assert same(again, profile) and repr(again) == repr(profile)
        assert again.patterns == profile.patterns and again.elapsed_ns == profile.elapsed_ns and again.result is None
    assert tprof.format(again) == tprof.format(profile)
    if profile.nodes:
        assert str(again.tree()) == str(profile.tree())


def test_a_real_profile_comes_back(tmp_path: Path) -> None:
    p = tprof.profile(json.dumps, {"a": [1, 2, 3]}, indent=1, type="call_time", tree=True, pattern="json.**")
    path = tmp_path / "p.json"
    path.write_text(p.to_json())
    again = tprof.load(path)
    assert same(p, again) and again.cumulative == p.cumulative
    processes = [{repr(c.process) for f in each.functions for c in f.processes} for each in (p, again)]
    assert processes[0] == processes[1] and len(processes[0]) == 1


def damaged(change: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(tree().to_json())
    change(data)
    return data


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is not JSON"),
        ("[1]", "it is not a profile"),
        ("{}", "it is not a profile"),
        (damaged(lambda d: d.update(version=2)), "its form is of version 2, and this one reads version 1"),
        (damaged(lambda d: d.update(type="call_latency")), "it is not a profile"),
        (damaged(lambda d: d.pop("functions")), "it is damaged"),
        (damaged(lambda d: d["functions"][0].pop("line")), "it is damaged"),
        (damaged(lambda d: d["functions"][0]["processes"][0].update(calls=-1)), "-1 is not a number from 0"),
        (damaged(lambda d: d["functions"][0]["processes"][0].update(id="<0.9.9>")), "it is damaged"),
        (damaged(lambda d: d["nodes"][1].update(parent=1)), "node 1 has no such caller or function"),
        (damaged(lambda d: d["nodes"][1].update(function=9)), "node 1 has no such caller or function"),
    ],
)
def test_a_file_that_is_no_profile(content: Any, why: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(BadArg, match=r"p\.json: .*give a file that tprof --json wrote") as caught:
        tprof.load(path)
    assert why in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tprof.load(tmp_path / "none.json")
    with pytest.raises(BadArg, match="path: 3 is not a path"):
        tprof.load(3)  # type: ignore[arg-type]


# several as one


def test_profiles_add_up() -> None:
    both = TIMED + TIMED
    assert both.calls == 14 and both.measurement == 200 and both.elapsed_ns == 198
    assert [(c.process, c.calls, c.measurement) for c in both["shop:a"].processes] == [(A, 2, 60), (B, 4, 40)]
    assert (COUNTED + COUNTED)["shop:b"].calls == 8
    with pytest.raises(TypeError):
        TIMED + 1  # type: ignore[operator]


def test_nodes_are_told_apart_by_their_names() -> None:
    both = tprof.merge({"web": TIMED, "db": TIMED})
    assert both.elapsed_ns == 99
    assert [repr(c.process) for c in both["shop:a"].processes] == [
        "<0.1.0> of web", "<0.2.0> of web", "<0.1.0> of db", "<0.2.0> of db",
    ]  # fmt: skip
    assert len(tprof.inspect(both, "process")) == 4
    child = Profile("call_time", (function("a", Calls(ChildProcess(7, "job", "<0.1.0>", "thread", "main"), 1, 1)),), ())
    (process,) = (c.process for c in tprof.merge({"web": child})["shop:a"].processes)
    assert repr(process) == "<0.1.0>@7 of web" and process is not None and process.name == "main of job"


def test_trees_add_up_by_paths() -> None:
    other = tree(process=B)
    both = tree() + other
    assert len(both.nodes) == 4 and both.cumulative == {"shop:a/1": 150, "shop:b/1": 120, "shop:c/1": 90}
    assert both["shop:b"].waiting == 14 and [c.cumulative for c in both["shop:b"].processes] == [60, 60]
    # another path, and a function that only one has
    nodes = (Node(None, 0, (Calls(A, 1, 3),)), Node(0, 1, (Calls(A, 1, 4),)))
    more = Profile("call_time", *tprof._tree.measured([function("c"), function("d")], nodes)[:1], (), nodes=nodes)
    all_three = tprof.merge(both, more)
    assert len(all_three.nodes) == 6 and all_three.cumulative["shop:c/1"] == 97 and all_three["shop:d"].cumulative == 4


def test_what_can_not_be_merged() -> None:
    for given, why in (
        ((TIMED, COUNTED), "one is of call_time, one of call_count"),
        ((TIMED, tree()), "only some have a call tree"),
        ((), "there is none"),
        ((1,), "1 is not a profile"),
        (({"web": 1},), "give a dict"),
        (({1: TIMED},), "give a dict"),
    ):
        with pytest.raises(BadArg, match=why):
            tprof.merge(*given)
    assert tprof.merge(TIMED, Profile("call_time", (), ())).calls == TIMED.calls
