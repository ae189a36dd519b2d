"""One process with one subject and one tool. It measures on request.

    python -m benches.python.worker SUBJECT TOOL

It reads lines from standard input: ``plain tool`` or ``tool plain`` measures the subject without and with the tool in
that order, and answers the two times in seconds as a line of JSON; the end of input ends it. Its first line tells about
the subject, or why there is nothing to measure.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

from . import programs, subjects, tools

_BUDGET = 0.06  # seconds: a short subject runs several times, and the best time counts
_RUNS = 5


def main(subject_name: str, tool_name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # tools and subjects may print

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")

    try:
        bench = Bench(subject_name, tool_name)
    except tools.Missing as missing:
        say({"missing": str(missing)})
    except Exception as error:  # any error has to reach the runner
        say({"wrong": f"{type(error).__name__}: {error}"})
    else:
        say(bench.about())
        for line in sys.stdin:
            try:
                say(bench.measure(line.split()))
            except Exception as error:
                say({"wrong": f"{type(error).__name__}: {error}"})
                break


class Bench:
    """A subject and a tool; the tool has passed its check on the subject."""

    def __init__(self, subject_name: str, tool_name: str) -> None:
        sys.setrecursionlimit(10_000)
        try:
            self._subject = (programs if subject_name in programs.NAMES else subjects).make(subject_name)
        except ImportError as error:
            raise tools.Missing(f"{error.name} is not installed: see benches/python/requirements.txt") from None
        self._tool = tools.every()[tool_name]
        self._tool.ready(self._subject)
        self._subject.small()
        self._small = subjects.census(self._subject.small)
        self._whole = subjects.census(self._subject.run)
        self._with_tool(0)
        self._with_tool(0)

    def about(self) -> dict[str, Any]:
        whole = self._whole
        hot = whole.exact.get(subjects.mfa_of(self._subject.hot))
        if hot is None:
            raise tools.Wrong(f"the calls of {self._subject.hot.__qualname__} differ from run to run")
        return {"calls": whole.calls, "c_calls": whole.c_calls, "functions": whole.functions, "hot": hot}

    def measure(self, order: list[str]) -> dict[str, Any]:
        times = {}
        for half in order:
            gc.collect()
            times[half] = self._with_tool(_RUNS) if half == "tool" else self._timed(_RUNS)[0]
        return {**times, "told": self._tool.told}

    def _with_tool(self, most: int) -> float:
        self._tool.start(self._subject)
        try:
            best, runs = self._timed(most)
        finally:
            self._tool.stop(self._subject)
        self._tool.check(tools.Happened(self._subject, self._small, self._whole, runs))
        return best

    def _timed(self, most: int) -> tuple[float, int]:
        """The best time of several runs, after a small one; and the number of runs."""
        clock, run = time.perf_counter, self._subject.run
        self._subject.small()
        best = float("inf")
        end = clock() + _BUDGET
        for done in range(most):
            start = clock()
            run()
            stop = clock()
            best = min(best, stop - start)
            if stop > end:
                return best, done + 1
        return best, most


if __name__ == "__main__":
    main(*sys.argv[1:])
