"""What a program's child processes do is measured with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_tools import both_ways, row, script, tprof

METHODS = ("fork", "spawn", "forkserver")

TWO = """
import multiprocessing, sys
def work(n):
    for _ in range(n): leaf()
def leaf(): pass
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    processes = [context.Process(target=work, args=(50,)) for _ in range(2)]
    for process in processes: process.start()
    leaf()
    for process in processes: process.join()
    print([process.exitcode for process in processes])
"""


def profile_of(tmp_path: Path, *words: str | Path, **env: str) -> dict[str, Any]:
    """The profile of a program that ends well, from its JSON form."""
    found = tmp_path / "profile.json"
    run = tprof("-p", "__main__", "--json", found, *words, cwd=tmp_path, **env)
    assert run.returncode == 0, run.stderr
    profile: dict[str, Any] = json.loads(found.read_text())
    profile["report"] = run.stderr
    profile["said"] = run.stdout
    return profile


def calls(profile: dict[str, Any], function: str) -> int:
    return sum(each["calls"] for each in profile["functions"] if each["function"] == function)


@pytest.mark.parametrize("method", METHODS)
def test_two_children_of_multiprocessing(method: str, tmp_path: Path) -> None:
    program = script(tmp_path, TWO)
    _, report = both_ways(tmp_path, program, method, options=("-p", "__main__"))
    assert report is not None
    assert row(report, "__main__:leaf/0")[0] == "101"
    assert row(report, "__main__:work/1")[0] == "2"
    assert report.splitlines()[0].endswith("with 2 child processes")
    assert "not measured" not in report


def test_as_before_without_children(tmp_path: Path) -> None:
    program = script(tmp_path, TWO)
    run = tprof("--no-children", "-p", "__main__", program, "spawn", cwd=tmp_path)
    assert row(run.stderr, "__main__:leaf/0")[0] == "1"
    assert "child" not in run.stderr
