"""The difference of two profiles: as a table, and as a command with an exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inviso import tprof
from inviso.cli import main
from inviso.errors import BadArg
from inviso.tprof import Calls, Function, Node, Profile, SavedProcess

A = SavedProcess("<0.1.0>", "thread", "main")


def profile(kind: Any = "call_count", patterns: Any = (("shop", "_", "_"),), **figures: Any) -> Profile:
    """Functions by name, each with its calls, or calls and measurement."""
    functions = []
    for line, (name, figure) in enumerate(figures.items()):
        calls, measurement = figure if isinstance(figure, tuple) else (figure, figure)
        each = Calls(None if kind == "call_count" else A, calls, measurement)
        functions.append(Function("shop", name, 0, "shop.py", line, (each,)))
    return Profile(kind, tuple(functions), patterns)


BEFORE = profile(a=10, b=10, c=10, d=100)
AFTER = profile(a=12, c=5, d=100, e=1)


def test_functions_are_compared_by_name() -> None:
    changes = tprof.diff(BEFORE, AFTER)
    assert [(c.label, c.before, c.after, c.delta, c.percent, c.status) for c in changes.changes] == [
        ("shop:a/0", 10, 12, 2, 20.0, "grown"),
        ("shop:e/0", 0, 1, 1, None, "new"),
        ("shop:d/0", 100, 100, 0, 0.0, "same"),
        ("shop:c/0", 10, 5, -5, -50.0, "shrunk"),
        ("shop:b/0", 10, 0, -10, -100.0, "gone"),
    ]
    assert (changes.before, changes.after, changes.unit) == (130, 118, "calls")
    assert changes.percent == pytest.approx(-9.23, abs=0.01)
    assert (
        repr(changes) == "<Diff of call_count by measurement: 1 grown, 1 shrunk, 1 new, 1 gone, total 130 -> 118 calls>"
    )


def test_lines_may_have_moved_and_names_be_shared() -> None:
    def lambdas(*lines: int) -> Profile:
        functions = (
            Function("shop", "<lambda>", 0, "shop.py", n, (Calls(None, k + 1, k + 1),)) for k, n in enumerate(lines)
        )
        return Profile("call_count", tuple(functions), ())

    moved = tprof.diff(lambdas(3, 5), lambdas(13, 15, 17))
    assert sorted((c.before, c.after) for c in moved.changes) == [(0, 3), (1, 1), (2, 2)]


def test_as_text() -> None:
    assert str(tprof.diff(BEFORE, AFTER)).splitlines() == [
        "FUNCTION       CALLS  CHANGE  [      %]",
        "shop:b/0     10 -> 0     -10  [   gone]",
        "shop:c/0     10 -> 5      -5  [ -50.00]",
        "shop:e/0      0 -> 1      +1  [    new]",
        "shop:a/0    10 -> 12      +2  [ +20.00]",
        "total     130 -> 118     -12  [  -9.23]",
    ]
    assert tprof.diff(BEFORE, AFTER).format(limit=1).splitlines()[1:3] == [
        "(3 smaller changes not shown)",
        "shop:b/0     10 -> 0     -10  [   gone]",
    ]
    timed = tprof.diff(profile("call_time", a=(1, 2000)), profile("call_time", a=(2, 5000)))
    assert str(timed).splitlines()[:2] == [
        "FUNCTION   CALLS     TIME (us)  CHANGE  [      %]",
        "shop:a/0  1 -> 2  2.00 -> 5.00   +3.00  [+150.00]",
    ]
    memory = tprof.diff(profile("call_memory", a=(1, 20)), profile("call_memory", a=(1, 10)))
    assert str(memory).splitlines()[:2] == [
        "FUNCTION   CALLS      BYTES  CHANGE  [      %]",
        "shop:a/0  1 -> 1  160 -> 80     -80  [ -50.00]",
    ]
    assert repr(memory).endswith("total 160 -> 80 bytes>")
    other = tprof.diff(BEFORE, profile(patterns=(("json", "_", "_"),), a=10))
    assert str(other).endswith("The patterns differ: shop:_:_ before, json:_:_ after.\n")


def test_another_figure() -> None:
    a, b = profile("call_time", a=(4, 50)), profile("call_time", a=(6, 40))
    by_calls = tprof.diff(a, b, by="calls")
    assert [(c.before, c.after) for c in by_calls.changes] == [(4, 6)] and by_calls.unit == "calls"
    with pytest.raises(BadArg, match="a: it has no call tree"):
        tprof.diff(a, b, by="cumulative")

    def chain(own: int) -> Profile:
        nodes = (Node(None, 0, (Calls(A, 1, 5),)), Node(0, 1, (Calls(A, 1, own),)))
        functions, kept = tprof._tree.measured([Function("shop", n, 0, "shop.py", 1, ()) for n in "ab"], nodes)
        return Profile("call_time", functions, (), nodes=kept)

    inclusive = tprof.diff(chain(10), chain(40), by="cumulative")
    assert [(c.label, c.before, c.after) for c in inclusive.changes] == [("shop:a/0", 15, 45), ("shop:b/0", 10, 40)]
    assert "INCLUSIVE TIME (us)" in str(inclusive)


def test_what_has_grown_by_more() -> None:
    changes = tprof.diff(BEFORE, AFTER)

    def grown(*args: Any, **kwargs: Any) -> list[str]:
        return [c.function for c in changes.grown(*args, **kwargs)]

    assert grown(0) == grown(19.9) == ["a", "e"]
    assert grown(20) == ["e"], "by more, not by as much"
    assert grown(0, least=1) == ["a"], "1 % of 130 is more than one call"
    assert grown(0, least=2) == []
    for wrong in (-1, "5", True, float("nan")):
        with pytest.raises(BadArg, match="is not a percentage"):
            changes.grown(wrong)


def test_what_can_not_be_compared() -> None:
    with pytest.raises(BadArg, match="b: it is of call_time, and a of call_count; compare profiles of one type"):
        tprof.diff(BEFORE, profile("call_time", a=(1, 1)))
    with pytest.raises(BadArg, match="a: 1 is not a profile"):
        tprof.diff(1, BEFORE)  # type: ignore[arg-type]
    with pytest.raises(BadArg, match="by: 'time' is not known"):
        tprof.diff(BEFORE, AFTER, by="time")  # type: ignore[arg-type]


def test_as_a_table() -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.table(tprof.diff(BEFORE, AFTER)).to_pylist()
    assert rows[0] == {
        "module": "shop", "name": "a", "arity": 0, "status": "grown", "calls_before": 10, "calls_after": 12,
        "before": 10,
        "after": 12, "delta": 2,
    }  # fmt: skip
    assert len(rows) == 5
    pytest.importorskip("pandas")
    assert tprof.diff(BEFORE, AFTER).to_pandas()["delta"].sum() == -12
    polars = pytest.importorskip("polars")
    assert tprof.diff(BEFORE, AFTER).to_polars().filter(polars.col("status") == "new")["name"].to_list() == ["e"]


# the command


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, p in zip(paths, (BEFORE, AFTER), strict=True):
        path.write_text(p.to_json())
    return [str(path) for path in paths]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["tprof", "diff", *words])
    return status, *capsys.readouterr()


def test_the_command_shows_the_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *files) == (0, str(tprof.diff(BEFORE, AFTER)), "")
    assert run(capsys, "--limit", "1", *files)[1] == tprof.diff(BEFORE, AFTER).format(limit=1)
    status, out, err = run(capsys, *files, "--json", "-")
    assert (status, json.loads(out), err) == (0, tprof.diff(BEFORE, AFTER).to_dict(), "")
    written = files[0] + ".diff"
    assert run(capsys, "--json", written, *files)[1] != ""
    assert json.loads(Path(written).read_text())["changes"][0]["status"] == "grown"


def test_the_status_says_whether_something_has_grown(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--fail-over", "5%", *files)
    assert (status, out) == (1, str(tprof.diff(BEFORE, AFTER)))
    assert err == "inviso tprof diff: grown by more than 5%: 2 functions, most of all shop:a/0\n"
    assert run(capsys, "--fail-over", "5", "--least", "2%", *files)[0] == 0
    assert run(capsys, "--fail-over", "0%", files[0], files[0])[0] == 0
    status, _, err = run(capsys, "--fail-over", "9%", *reversed(files))
    assert status == 1 and "the total by 10.17%" in err


def test_the_command_refuses(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timed, newer = tmp_path / "timed.json", tmp_path / "newer.json"
    timed.write_text(profile("call_time", a=(1, 1)).to_json())
    newer.write_text(json.dumps({**BEFORE.to_dict(), "version": 2}))
    for words, why in (
        ([files[0]], "two profiles are needed, and 1 was given"),
        ([*files, files[0]], "two profiles are needed, and 3 were given"),
        ([files[0], str(tmp_path / "none.json")], "none.json: No such file or directory"),
        ([files[0], str(timed)], "it is of call_time, and a of call_count"),
        ([files[0], str(newer)], "newer.json: its form is of version 2"),
        (["--fail-over", "x", *files], "--fail-over: 'x' is not a percentage"),
        (["--least", "-1", *files], "--least: '-1' is not a percentage"),
        (["--by", "cumulative", *files], "it has no call tree"),
        (["--by", "age", *files], "'age' is not known"),
        (["--limit", "0", *files], "--limit: '0' is not a number of changes"),
        (["--json", str(tmp_path / "no" / "x"), *files], "No such file or directory"),
        (["--wrong", *files], "unknown option '--wrong'"),
    ):
        status, out, err = run(capsys, *words)
        assert (status, out) == (2, "") and why in err, words
        assert "Traceback" not in err


def test_the_help_and_a_process_of_its_own(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0 and "--fail-over" in out and max(map(len, out.splitlines())) < 81
    command = [sys.executable, "-m", "inviso", "tprof", "diff", "--fail-over", "5%", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "shop:a/0" in done.stdout
