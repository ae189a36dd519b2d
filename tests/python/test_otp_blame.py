"""The argument that an error blames: for each pair of wrong ones, the one that Erlang's error information names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from otp import erl, needs_otp

from tests.differential.blame import ARGUMENTS, calls, different

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "live" / "blame.jsonl"


def lines(file: Path = RECORDED) -> list[Any]:
    """The recorded calls: function, arguments, the argument that Erlang blames."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_recorded_calls_are_those_that_are_made() -> None:
    made = [[step["t"][1]["a"], step["t"][2]] for step in calls()]
    assert [[function, arguments] for function, arguments, _ in lines()] == made
    assert {function for function, _ in made} == set(ARGUMENTS)


def test_every_pair_of_arguments_is_wrong_at_once_in_some_call() -> None:
    for function, places in ARGUMENTS.items():
        wrong = [[json.dumps(value) for value in bad] for _, bad in places]
        called = [[json.dumps(value) for value in arguments] for name, arguments, _ in lines() if name == function]
        for n in range(len(places)):
            for m in range(n):
                pairs = {(c[m], c[n]) for c in called if c[m] in wrong[m] and c[n] in wrong[n]}
                assert len(pairs) >= len(set(wrong[m])) * len(set(wrong[n])), function


def test_the_argument_that_erlang_blames_is_blamed() -> None:
    assert different(lines()) == []


def test_another_blame_is_noticed() -> None:
    session, process = {"session": "s1"}, {"pid": "p1"}
    wrong = ["process", [session, process, 1, [{"a": "call"}]]]
    assert different([[*wrong, [2]], [*wrong, "ok"], [*wrong, [3, 4]], [*wrong, []]]) == [
        [*wrong, [2], [3]],
        [*wrong, "ok", [3]],
    ]


@needs_otp
def test_erlang_still_answers_so(tmp_path: Path) -> None:
    if int(erl("io:put_chars(erlang:system_info(otp_release)), halt().")) < 29:
        pytest.skip("the answers are those of OTP 29")
    file = tmp_path / "blame.jsonl"
    command = [sys.executable, "-m", "tests.differential.blame", "--to", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(file) == lines()
