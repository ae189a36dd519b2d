"""The short form of the soak run; the long one is ``make soak``. And leaks that it must find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from soak import Grown, Rest, growth

ROOT = Path(__file__).parents[2]


def soaked(*words: str) -> tuple[int, str]:
    """Status and output of a run."""
    made = subprocess.Popen(
        [sys.executable, "-m", "tests.python.soak", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # nothing of it is left in any case
    )
    try:
        output, _ = made.communicate(timeout=500)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGKILL)
        made.wait()
    return made.returncode, output


def grown(rests: list[Rest]) -> Grown:
    service = Grown("the service")
    for rest in rests:
        service.add(rest)
    return service


@pytest.mark.slow  # memory is measured, so nothing else should run on the machine
def test_what_a_service_holds_stays_flat() -> None:
    seconds = min(float(os.environ.get("INVISO_STRESS_SECONDS", "20")), 60)
    status, output = soaked("--seconds", str(seconds), "--period", str(seconds / 5))
    assert status == 0, output
    assert output.endswith("flat\n") and "controls" in output


def test_leaks_are_found() -> None:
    words = ["--seconds", "3", "--period", "0.5", "--works", "calls", "--leak", "descriptors,threads,memory,sessions"]
    status, output = soaked(*words)
    assert status == 1, output
    found = {line.split(" grew by ")[0] for line in output.splitlines() if line.startswith("GROWN: ")}
    names = ("descriptors", "threads", "resident", "sessions")
    assert {f"GROWN: the service: {name}" for name in names} <= found, output
    assert not [each for each in found if "control" in each], output
    (descriptors,) = [line for line in output.splitlines() if line.startswith("GROWN: the service: descriptors")]
    assert "of socket" in descriptors.partition("; new: ")[2], output


def test_one_odd_period_is_no_growth() -> None:
    assert growth([5, 5, 5, 5]) == growth([5, 5, 900, 5, 5]) == growth([5]) == growth([]) == 0
    assert growth([5, 6, 7, 8]) == 3
    assert growth([7, 6, 5]) < 0


def test_a_slow_leak_is_found_in_a_long_run() -> None:
    rests = [Rest({"descriptors": 7 + n // 6}, [], []) for n in range(30)]
    (fault,) = grown(rests).faults()
    assert fault.startswith("the service: descriptors grew by ")
    assert grown(rests[:5]).faults() == []
