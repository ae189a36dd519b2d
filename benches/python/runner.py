"""Starts the workers, makes them measure in turn, and computes figures from their answers.

All tools of a subject are measured in one interleaved run: each has a process of its own, and in each round each of
them times the subject without and with its tool, the order swapped every other round. So a noisy second hurts one
round of a few tools, and the best of the rounds is what a quiet machine would show.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOISE = 0.03  # how far a ratio of nothing to nothing may be from 1
PATIENCE = 300.0  # seconds for one answer


class Failed(Exception):
    """A process of the benchmark ended without an answer; the message has its last words."""


def python(module: str, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """The command that runs a module of this package under this interpreter."""
    return [sys.executable, "-m", f"{__package__}.{module}", *words]


def surroundings() -> dict[str, str]:
    """The environment of every process: hashes are the same in all of them."""
    return {**os.environ, "PYTHONHASHSEED": "0"}


class Worker:
    """One process that measures one tool on one subject.

    Attributes:
        about: its facts about the subject, after its start.
        missing: why the tool can't run here, or None.
        wrong: the error, or None. After an error it measures no more.
        rounds: the seconds of each round.
        told: the last report of the tool.
    """

    def __init__(self, subject: str, tool: str) -> None:
        self.tool = tool
        self.about: dict[str, Any] = {}
        self.missing: str | None = None
        self.wrong: str | None = None
        self.rounds: list[dict[str, float]] = []
        self.told: dict[str, Any] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self._process = subprocess.Popen(
            python("worker", subject, tool), cwd=ROOT, env=surroundings(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def ready(self) -> None:
        """Waits until it has checked that its tool works."""
        self.about = self._answer()

    def measure(self, order: str) -> None:
        """One round: ``plain tool`` or ``tool plain``; nothing if it can't."""
        if self.missing or self.wrong:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer tells
        answer = self._answer()
        if not self.wrong:
            self.told = answer.pop("told")
            self.rounds.append(answer)

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        alarm = threading.Timer(PATIENCE, self._process.kill)
        alarm.start()
        line = self._process.stdout.readline()
        alarm.cancel()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().splitlines()[:1]
            self.wrong = f"ended with {code}" + "".join(f": {words}" for words in last)
            return {}
        answer: dict[str, Any] = json.loads(line)
        self.missing, self.wrong = answer.get("missing"), answer.get("wrong")
        return answer


def interleaved(subject: str, names: Iterable[str], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures tools on a subject, in one interleaved run.

    Args:
        names: the tools; ``none`` is always measured, first.
        rounds: how many of them count; one more comes before.
        say: called with the current step.

    Returns:
        ``calls`` (Python calls in a run), ``c_calls``, ``functions`` (distinct ones), ``hot`` (calls of the hot
        function), ``base_ns`` (untraced, for a call), ``void`` (whether nothing to nothing differs from 1 by more than
        ``NOISE``), ``tools`` (figures of each by name, see :func:`figures`), ``missing`` and ``wrong`` (why there are
        none).
    """
    workers = []
    try:
        for name in ["none", *(name for name in names if name != "none")]:
            workers.append(Worker(subject, name))
            workers[-1].ready()  # one after the other: two that start at a time would disturb each other
            if workers[-1].wrong:
                say(f"{subject}, {name}: {workers[-1].wrong}")
        for turn in range(rounds + 1):
            say(f"{subject}: round {turn} of {rounds}")
            for worker in workers:
                worker.measure("tool plain" if turn % 2 else "plain tool")
                if turn == 0:
                    worker.rounds.clear()
    finally:
        for worker in workers:
            worker.end()
    return figures(workers)


def figures(workers: list[Worker]) -> dict[str, Any]:
    """The figures of a subject's workers, from their rounds; the first worker is that of ``none``.

    A tool's figures: ``ratio`` (its quiet time over that of ``none``), ``median`` (of the rounds' own ratios, with over
    without the tool), ``ns`` (what it adds to a Python call),
    ``ns_hot`` (to a call of the hot function), ``shaky`` (its process is faster or slower than that of ``none`` by more
    than ``NOISE`` even without the tool), ``told``, and ``rounds`` (seconds, as measured).
    """
    none = workers[0]
    if not none.rounds:
        raise Failed(f"nothing can be measured: {none.missing or none.wrong}")
    base, calls, hot = _quiet(none, "plain"), none.about["calls"], none.about["hot"]
    tools = {}
    for worker in workers:
        if worker.rounds and not worker.wrong:
            spent = _quiet(worker, "tool")
            tools[worker.tool] = {
                "ratio": round(spent / base, 4),
                "median": round(statistics.median(times["tool"] / times["plain"] for times in worker.rounds), 4),
                "ns": round((spent - base) / calls * 1e9, 2),
                "ns_hot": round((spent - base) / hot * 1e9, 2),
                "shaky": abs(_quiet(worker, "plain") / base - 1) > NOISE,
                "told": worker.told,
                "rounds": worker.rounds,
            }
    return {
        "calls": calls,
        "c_calls": none.about["c_calls"],
        "functions": none.about["functions"],
        "hot": hot,
        "base_ns": round(base / calls * 1e9, 2),
        "void": abs(tools["none"]["ratio"] - 1) > NOISE,
        "tools": tools,
        "missing": {worker.tool: worker.missing for worker in workers if worker.missing},
        "wrong": {worker.tool: worker.wrong for worker in workers if worker.wrong},
    }


def _quiet(worker: Worker, half: str) -> float:
    return min(times[half] for times in worker.rounds)


def beside(subject: dict[str, Any], tool: str, other: str) -> float | None:
    """The ratio of the times that two tools add in the same run; None without figures of both."""
    ours, theirs = (subject["tools"].get(name) for name in (tool, other))
    if ours is None or theirs is None or theirs["ns"] <= 0:
        return None
    return float(round(ours["ns"] / theirs["ns"], 3))


def alone(module: str, *words: str) -> dict[str, Any]:
    """Runs a module of this package in a process of its own, and returns the JSON of its last line."""
    done = subprocess.run(
        python(module, *words), cwd=ROOT, env=surroundings(), capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        raise Failed(f"{module} {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
