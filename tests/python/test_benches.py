"""The benchmark's runner works: one tiny interleaved run, its JSON and its tables. Times are not checked."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import inviso
import pytest

from benches.python import passing, ports, programs, report, runner, subjects, tools
from benches.python.limits.build import CannotBuild, build

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = "limits.count" if hasattr(sys, "monitoring") else "limits.eval_count"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    try:
        build()
    except CannotBuild as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("costs")
    words = [
        "--quick",
        "--rounds",
        "1",
        "--subjects",
        "calls",
        "--tools",
        f"count,{LIMIT}",
        "--once",
        "",
        "--out",
        str(out),
    ]
    place = os.pathsep.join([str(pathlib.Path(inviso.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "benches.python", *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": place},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    found = list(out.glob("quick-*.json"))
    assert len(found) == 1, done.stderr  # the exit status says whether the machine was quiet, too
    assert done.stdout.rstrip() == report.page(json.loads(found[0].read_text())).rstrip()
    return json.loads(found[0].read_text())  # type: ignore[no-any-return]


def test_the_result_says_where_it_comes_from(result: dict) -> None:  # type: ignore[type-arg]
    assert result["quick"] is True
    assert result["rounds"] == 1
    assert result["machine"]["cpu"]
    assert result["machine"]["cores"] >= 1
    assert result["python"]["numbers"] == list(sys.version_info[:3])
    assert result["failed"] == {}


def test_each_tool_has_figures(result: dict) -> None:  # type: ignore[type-arg]
    subject = result["subjects"]["calls"]
    assert subject["wrong"] == subject["missing"] == {}
    assert subject["calls"] == subject["hot"] + 1
    assert isinstance(subject["void"], bool)
    assert list(subject["tools"]) == ["none", "count", LIMIT]
    for figures in subject["tools"].values():
        assert {"ratio", "median", "ns", "ns_hot", "shaky", "told", "rounds"} == set(figures)
        assert [set(times) for times in figures["rounds"]] == [{"plain", "tool"}]
        assert all(seconds > 0 for times in figures["rounds"] for seconds in times.values())


@pytest.mark.parametrize("mode", passing.MODES)
def test_work_is_done_as_often_as_it_says(mode: str) -> None:
    other = inviso.spawn(inviso.receive)
    for work in passing.WORK.values():
        few = dataclasses.replace(work, times=20)
        assert passing.measured(few, mode, other) > 0
        if mode == "traced":
            with pytest.raises(passing.Wrong):
                passing.measured(dataclasses.replace(few, events=work.events + 10), mode, other)
    inviso.send(other, "stop")


def test_messages_have_figures() -> None:
    names = "asyncio.Queue,queue.SimpleQueue,tasks,sockets"
    found = runner.alone("passing", "1", names)
    assert list(found) == names.split(",")
    for figures in found.values():
        assert set(figures) == {"about", "ns", "idle", "other", "traced", "bar"}
        assert all(figures[name] > 0 for name in ("ns", "idle", "other", "traced"))
    result = {"passing": found, "subjects": {}, "tools": {}, "threads": {}, "once": {}, "failed": {}}
    python = {"version": "3", "free_threaded": False, "flags": "-O3", "numbers": [3]}
    machine = {"cpu": "one", "cores": 1, "system": "this"}
    text = report.page({**result, "python": python, "machine": machine, "quick": True, "rounds": 1, "date": "today"})
    assert "| asyncio.Queue: put and get, awaited: send, receive | " in text


@pytest.mark.parametrize("name", programs.NAMES)
def test_programs_run_and_call_their_hot_function(name: str) -> None:
    if name not in ("generators", "coroutines"):
        pytest.importorskip("pyflakes.checker" if name == "pyflakes" else name)
    subject = programs.make(name)
    subject.small()  # checks its result
    assert subjects.census(subject.small).exact[subjects.mfa_of(subject.hot)] > 10


@pytest.mark.parametrize("column", [name for name in programs.COLUMNS if name != "viztracer_python"])
def test_tools_of_programs_see_what_happens(column: str) -> None:
    subject, tool = programs.make("coroutines"), tools.every()[column]
    tool.ready(subject)
    subject.small()
    census = subjects.census(subject.small)
    tool.start(subject)
    try:
        subject.small()
    finally:
        tool.stop(subject)
    tool.check(tools.Happened(subject, census, census, 0))


def test_programs_have_tables() -> None:
    def figures(ns: float, lost: int = 0) -> dict[str, object]:
        return {"ratio": 1 + ns / 100, "median": 1.5, "ns": ns, "told": {"lost": lost}}

    found = {
        "jinja2": {"void": False, "tools": {"none": figures(0), "exceptions": figures(40), "messages": figures(20)}},
        "sympy": {"void": True, "tools": {"none": figures(0), "exceptions": figures(90), "messages": figures(10, 7)}},
    }
    found["sympy"]["tools"]["messages_file"] = figures(30, 5)  # type: ignore[index]
    every = {name: {"about": f"of {name}", "versus": tool.versus} for name, tool in tools.every().items()}
    text = "\n".join(report.programs(found, every))
    assert "| real workloads |  | jinja2 | sympy **void** | mean |" in text
    assert "| `exceptions` | of exceptions | x1.40 (1.50) | x1.90 (1.50) | 1.63 |" in text
    assert "| `exceptions` ÷ `messages` | 2.00 | 9.00 | 4.24 |" in text
    assert "| `messages_file` | of messages_file | – | x1.30 (1.50) | – |" in text
    assert text.count("lost") == 1 and "- sympy: `messages_file` lost 5 messages" in text


def test_a_quick_run_is_kept_off_the_page(result: dict, tmp_path: pathlib.Path) -> None:  # type: ignore[type-arg]
    page = tmp_path / "costs.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    with pytest.raises(ValueError, match="quick"):
        report.put_into(page, [result])
    report.put_into(page, [{**result, "quick": False}])
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert f"`count` ÷ `{LIMIT}`" in text or "| `count` |" in text


def test_the_page_has_a_place_for_figures() -> None:
    page = (ROOT / "docs" / "costs.md").read_text()
    assert page.count(report.BEGIN) == page.count(report.END) == 1


def test_ports_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_CALLS", 2000)
    said: list[str] = []
    ports.main("1", said.append)
    answer = json.loads(said[-1])
    assert {"untraced", "ring", "unread", "file", "blocks"} <= answer.keys() <= set(ports.MODES)
    assert 0 < answer["blocks"]["bytes"] < answer["file"]["bytes"]
