"""Files that earlier versions wrote, and the present one reads: ``tests/data/upgrade``, a folder for each version."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from autostart_tools import calls, make_interpreter, run
from inviso import analysis, autostart, dbg, export, log, merge, tprof, ttb
from inviso.autostart import _file
from inviso.tool import Tool, definitions

DATA = Path(__file__).parents[1] / "data" / "upgrade"
VERSIONS = sorted(path.name for path in DATA.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+.*", path.name))
NODE = "shop@here"
RETURNS = [("_", [], [("return_trace",)])]
ENDS = [("_", [], [("exception_trace",)])]


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the files of a version, which only its owner may write."""
    made = tmp_path / "files"
    made.mkdir(mode=0o700)
    for path in (DATA / request.param).iterdir():
        shutil.copyfile(path, made / path.name)
        (made / path.name).chmod(0o600)
    return made


def make() -> Any:
    """The module that wrote them."""
    spec = importlib.util.spec_from_file_location("make", DATA / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_first_versions_are_there() -> None:
    assert VERSIONS[:2] == ["0.1.0", "0.2.0"]
    assert all(path.stat().st_size < 24_000 for path in DATA.glob("*/*"))


# logs


def test_logs_hold_what_they_held(folder: Path) -> None:
    """Each message with all values and types, as the version itself read them."""
    held = json.loads((folder / "held.json").read_text())
    found = make().held(folder)
    assert found.keys() == held.keys()
    for name, texts in held.items():
        assert found[name] == texts, name


def functions(source: Any) -> list[tuple[str, str, Any]]:
    return [(m[2], m[3][1], m[3][2]) for m in log.read(source, damage="raise") if m[2] in ("call", "exception_from")]


def test_a_log_and_blocks(folder: Path) -> None:
    for name in ("calls.log", "blocks.log"):
        found = functions(str(folder / name))
        assert found[:4] == [
            ("call", "order", [1]), ("call", "price", [1, {}]), ("call", "order", [7]), ("call", "price", [7, {}])
        ]  # fmt: skip
        assert found[4:6] == [("exception_from", "price", 2), ("exception_from", "order", 1)]
        given = [
            arguments[1]["value"] for what, _, arguments in found if what == "call" and arguments[1:] not in ([], [{}])
        ]
        assert given[:5] == [0, -1, 1 << 100, 0.5, True] and given[5:9] == [None, "text", "\xfc", b"bytes"]
        assert given[9:13] == [[1, [2]], (3, ()), {"key": 4}, {5}]


def test_a_wrap_set(folder: Path) -> None:
    assert sorted(path.name for path in folder.glob("round*")) == ["round0.log", "round1.log"]
    found = functions((str(folder / "round"), "wrap", ".log"))
    assert [name for what, name, _ in found if what == "call"] == ["order", "price"] * 5
    assert [arity for what, name, arity in found if name == "price"] == [2] * 6


def test_a_dump(folder: Path) -> None:
    first, *rest = log.read(str(folder / "box.log"), damage="raise")
    assert first[0] == "drop" and first[1] + len(rest) == 80
    assert rest[-1][2:5] == ("return_from", ("__main__", "price", 2), 140)


def test_what_is_known_of_processes_and_functions(folder: Path) -> None:
    """Names of threads and tasks, and lines of functions, follow the terms of a log."""
    export.chrome(str(folder / "calls.log"), str(folder / "chrome.json"))
    text = (folder / "chrome.json").read_text()
    assert all(name in text for name in ("MainThread", "waiter", "order-3", "order-4")), text[:2000]
    rows = [row for row in analysis.tables(str(folder / "calls.log")).functions.rows() if row["module"] == "__main__"]
    assert {(row["name"], row["kind"], row["file"]) for row in rows} >= {
        ("order", "python", "make.py"),
        ("price", "python", "make.py"),
    }


def test_names_and_clocks(folder: Path) -> None:
    source = {NODE: str(folder / f"{NODE}.log")}
    found = [(entry.message[3][2], entry.names) for entry in merge.read(source, clock="wall")]
    assert found == [([10], ["MainThread"]), ([11], ["MainThread", "cashier"]), ([12], ["MainThread"])]
    done = merge.logs(source, str(folder / "all.txt"), clock="aligned")
    assert done.nodes == {NODE: merge.Node(records=3)} and (done.ti_damaged, done.damaged) == (0, 0)
    assert done.clocks[NODE].text() == "+5.000000 to +5.000001 s, right to 1.0 ms"


# profiles


@pytest.mark.parametrize("kind", ["call_count", "call_time", "call_memory"])
def test_a_profile(folder: Path, kind: str) -> None:
    profile = tprof.load(folder / f"{kind}.json")
    told = json.loads((folder / f"{kind}.json").read_text())
    assert profile.type == kind and profile.calls == told["calls"] and profile.measurement == told["measurement"]
    assert profile["__main__:order/1"].calls == profile["__main__:price/2"].calls == 5
    kept = profile.to_dict()
    assert {name: kept[name] for name in told if name in kept} == told
    assert ("nodes" in told) == (kind == "call_time")


# files that people write


def test_a_config_file_of_autostart(folder: Path) -> None:
    plan = _file.load(str(folder / "autostart.config"), counts=False)
    assert plan is not None
    assert (plan.repeat, plan.tag) == (2, "nightly")
    assert plan.options == [("dependency", 5000), ("overload", 1000)]
    assert plan.mfa is not None and plan.mfa[:2] == ("inviso.autostart", "init")
    assert dict(plan.mfa[2][0])["bindings"] == [("Module", "shop"), ("Nodes", [])]
    assert autostart.set_repeat(None, 7, file=str(folder / "autostart.config")) is None
    assert (folder / "autostart.config").read_text().startswith("('repeat', 7)\n")


def test_a_program_traces_itself_by_them(folder: Path) -> None:
    python = make_interpreter(folder.parent / "venv")
    (folder / "shop.py").write_text("def order(number):\n    return number * 2\n")
    words = ["-c", "import os, shop; print(os.getpid(), shop.order(21))"]
    done = run(python, *words, cwd=folder, PYTHONPATH=str(folder), INVISO_AUTOSTART=str(folder / "autostart.config"))
    pid, answer = done.stdout.split()
    assert answer == "42" and done.stderr == ""
    assert ("shop", "order", [21]) in calls(folder / f"shop-{pid}.log")
    assert (folder / "autostart.config").read_text().startswith("('repeat', 1)\n")


@pytest.fixture
def tool(folder: Path) -> Iterator[Tool]:
    with Tool("no-such-node", tc_def_file=folder / "cases", history_dir=str(folder)) as made:
        yield made


def test_trace_cases(folder: Path) -> None:
    found = definitions(folder / "cases")
    assert [(each.name, each.variables) for each in found.values()] == [("calls", ("Module",)), ("flags", ())]
    assert found["calls"].on == str(folder / "on.case") and found["calls"].off == str(folder / "off.case")
    assert found["flags"].off is None


def test_a_history(folder: Path, tool: Tool) -> None:
    answer = tool.restore_session("history")
    assert answer[0] == "ok", answer
    assert tool.get_activities()[1][0] == ("tracecases", [(("calls", 1), "running")])
    items, _ = tool.get_autostart_data(5000)[1]
    assert items == [
        ("mfa", ("inviso.runtime", "tpl", ["json", "_", "_", RETURNS])),
        ("file", (str(folder / "flags.case"), [])),
        ("file", (str(folder / "on.case"), [("Module", "shop")])),
        ("mfa", ("inviso.runtime", "tf", ["all", ["call"]])),
    ]


def test_calls_of_ttb(folder: Path) -> None:
    assert ttb.list_config(str(folder / "ttb.config")) == [
        (1, "tracer", ()), (2, "p", ("all", ["call", "timestamp"])), (3, "tp", ("json", "loads", ENDS))
    ]  # fmt: skip


def test_match_specifications_of_dbg(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer("process", (lambda message, state: state, None))
    try:
        assert dbg.rtp(str(folder / "specs")) is None
        dbg.ltp()
    finally:
        dbg.stop()
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "1: [(['$1', '_'], [('>', '$1', 3)], [('return_trace',), ('message', '$1')])]"
    assert not [line for line in rest if line.startswith("2:")]
