"""Measures calls, time or memory of a run, in a process that runs tests: properties of each test, a table at the end.

With pytest-xdist each worker sends its measurements to the controller, whose ``Merged`` shows them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

import pytest

from inviso import tprof
from inviso._pattern import Pattern
from inviso.tprof import Calls, CallType, Function, Profile, Profiler

from ._settings import Settings

__all__ = ["KEY", "TYPES", "Measured", "Rows", "added", "rows_of", "show"]

TYPES: Final[dict[str, CallType]] = {"calls": "call_count", "time": "call_time", "memory": "call_memory"}

PROPERTIES: Final = {"calls": ("inviso_calls", 1), "time": ("inviso_time_ns", 1), "memory": ("inviso_memory_bytes", 8)}
"""Properties of a test for junit: a name, and the factor from the measurement's unit, which is words for memory."""

KEY: Final = "inviso"
"""The key in a worker's output."""

Rows = list[list[Any]]
"""For each function: module, name, arity, file, line, calls, measurement; only types that execnet can send."""


class Measured:
    """A profiler for each measured property, from the first test to the end of the last one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._profilers: dict[str, Profiler] = {}
        self._before: dict[str, int] = {}
        self._profiles: dict[str, Profile] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Starts the profilers after the collection, when the modules of tests are imported."""
        try:
            for name in self._settings.measures:
                self._profilers[name] = profiler = Profiler(type=TYPES[name], name=f"pytest --inviso={name}")
                if TYPES[name] != "call_count":
                    profiler.enable_trace("all")
                profiler.set_pattern(list(self._settings.patterns))
                for tests in self._settings.without():
                    profiler.clear_pattern(tests)
            return (yield)
        finally:
            for name, profiler in self._profilers.items():
                self._profiles[name] = profiler.collect()
                profiler.stop()
            self._profilers = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds a test's properties after its teardown, so they include its fixtures."""
        report = yield
        if report.when == "teardown":
            for name, profiler in self._profilers.items():
                now = profiler.collect().measurement
                of_test, self._before[name] = now - self._before.get(name, 0), now
                word, unit = PROPERTIES[name]
                report.user_properties.append((word, of_test * unit))
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Sends the measurements of a worker."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = {name: rows_of(profile) for name, profile in self._profiles.items()}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Shows the tables."""
        for name, profile in self._profiles.items():
            show(terminalreporter, name, profile, self._settings.rows)


def rows_of(profile: Profile) -> Rows:
    """A profile as plain data, with the sums of all threads and tasks.

    >>> rows_of(Profile("call_count", (Function("shop", "f", 1, "shop.py", 3, (Calls(None, 2, 2),)),), ()))
    [['shop', 'f', 1, 'shop.py', 3, 2, 2]]
    """
    return [[*f.mfa, f.filename, f.line, f.calls, f.measurement] for f in profile.functions]


def added(type: CallType, parts: Iterable[Rows], patterns: Iterable[Pattern] = ()) -> Profile:
    """One profile of several processes. Functions are the same if module, name, arity, file and line are equal.

    >>> row = ["shop", "f", 1, "shop.py", 3, 2, 2]
    >>> added("call_count", [[row], [row]])["shop:f"].calls
    4
    """
    sums: dict[tuple[Any, ...], list[int]] = {}
    for rows in parts:
        for *key, calls, measurement in rows:
            found = sums.setdefault(tuple(key), [0, 0])
            found[0] += calls
            found[1] += measurement
    functions = (
        Function(module, name, arity, file, line, (Calls(None, *sums[module, name, arity, file, line]),))
        for module, name, arity, file, line in sorted(sums)
    )
    return Profile(type, tuple(functions), tuple(patterns))


def show(reporter: pytest.TerminalReporter, name: str, profile: Profile, rows: int) -> None:
    """Writes a section of the summary: the functions with the largest measurements, the largest last."""
    reporter.section(f"inviso: {name}", sep="=")
    reporter.write(tprof.format(profile, limit=rows))
