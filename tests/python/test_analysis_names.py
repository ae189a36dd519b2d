"""Tasks, threads and functions of another process: its log is compared with its own output."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import analysis, trace
from subjects import shop_of_tasks

pytestmark = pytest.mark.filterwarnings("ignore::inviso.analysis.AnalysisWarning")

SHOP = Path(__file__).parent / "subjects" / "shop_of_tasks.py"
FLAGS = ["call", "procs", "running", "monotonic_timestamp"]


def traced(path: Path, flags: list[str], **more: Any) -> dict[str, str]:
    """Names by pid, as the traced program knows them."""
    asked = json.dumps({"flags": flags, "path": str(path), **more})
    done = subprocess.run([sys.executable, SHOP, asked], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    names: dict[str, str] = json.loads(done.stdout)
    assert {"living at the end", "räuber", "renamed in its midst", "a later thread"} <= set(names.values())
    return names


def named(source: Any) -> dict[str, str]:
    rows = analysis.tables(source).processes.rows()
    return {row["pid"]: row["name"] for row in rows if row["kind"] in ("task", "thread")}


@pytest.mark.parametrize("flags", [["procs"], ["running"], ["procs", "exiting", "running"], FLAGS], ids=" ".join)
def test_each_task_and_thread_has_its_name(tmp_path: Path, flags: list[str]) -> None:
    path = tmp_path / "shop.log"
    truth, found = traced(path, flags), named(path)
    assert {pid: found[pid] for pid in truth} == {pid: name[:400] for pid, name in truth.items()}


def test_without_their_ends_tasks_are_called_as_when_they_ran_last(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    truth, found = traced(path, ["call"]), named(path)
    other = {truth[pid]: found[pid] for pid in truth if found[pid] != truth[pid]}
    assert set(other) == {"renamed at its end"} and other["renamed at its end"].startswith("Task-")


def test_each_file_of_a_set_names_what_comes_in_it(tmp_path: Path) -> None:
    path = tmp_path / "shop"
    truth = traced(path, FLAGS, wrap=[".log", 3000, 200])
    files = sorted(tmp_path.iterdir())
    assert len(files) > 5
    assert named((str(path), "wrap", ".log")).items() >= truth.items()
    late = files[-3:]
    rows = [row for file in late for row in analysis.tables(file).functions.rows() if row["module"] == "__main__"]
    assert rows and all(row["kind"] == "python" and row["line"] for row in rows if row["name"] == "serve")
    known = [[row for row in analysis.tables(file).processes.rows() if row["pid"] in truth] for file in late]
    assert any(known)
    for rows, later in zip(known, [*known[1:], []], strict=True):
        # a thread may be spawned at the end of one file, and have its first event, with its name, in the next one
        nameless = [row["pid"] for row in rows if not row["name"]]
        assert len(nameless) <= 1 and {*nameless} <= {row["pid"] for row in later if row["name"]}, nameless


def test_names_and_places_go_through_blocks_and_merges(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.log" for name in ("one", "other")}
    truths = {name: traced(path, FLAGS, compress=True) for name, path in paths.items()}
    tables = analysis.tables({name: str(path) for name, path in paths.items()})
    rows = tables.processes.rows()
    for node, truth in truths.items():
        names = [row["name"] for row in rows if row["node"] == node and row["kind"] in ("task", "thread")]
        assert set(truth.values()) <= set(names)
    assert ("serve", "python") in [(row["name"], row["kind"]) for row in tables.functions.rows()]


def test_functions_have_files_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    traced(path, FLAGS)
    rows = {(row["module"], row["name"]): row for row in analysis.tables(path).functions.rows()}
    for name in ("serve", "Shop.order", "given", "in_thread"):
        code = inspect.unwrap(eval(name, vars(shop_of_tasks))).__code__
        row = rows["__main__", name]
        assert (row["kind"], row["file"], row["line"]) == ("python", str(SHOP), code.co_firstlineno)
    sleep = rows["time", "sleep"]
    assert (sleep["kind"], sleep["file"], sleep["line"]) == ("c", None, None)
    # started, and not traced
    worker = rows["concurrent.futures.thread", "_worker"]
    assert (worker["kind"], worker["file"], worker["line"]) == (None, None, None)


def test_functions_of_a_session() -> None:
    with trace.session_create("places") as session:
        session.function((shop_of_tasks.__name__, "serve", 1), True, ["local"])
        session.function(("time", "sleep", "_"), True, ["local"])
        session.process("all", True, ["call"])
        shop_of_tasks.serve(1)
        time.sleep(0)
        serve, sleep = analysis.tables(session).functions.rows()
    line = shop_of_tasks.serve.__code__.co_firstlineno
    assert (serve["kind"], serve["file"], serve["line"]) == ("python", shop_of_tasks.__file__, line)
    assert (sleep["kind"], sleep["file"]) == ("c", None)
    [row] = analysis.tables([("trace", inviso.self(), "call", ("shop", "order", [1]))]).functions.rows()
    assert (row["kind"], row["file"], row["line"]) == (None, None, None)
