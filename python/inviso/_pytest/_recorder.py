"""The last events of a test that fails: a flight recorder for the whole run, whose rings are read when a test has failed."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inviso import trace

from ._settings import Settings

__all__ = ["Recorder", "lines_of"]

CAPTURE = {"depth": 3, "items": 10, "bytes": 100, "total": 400}
"""How much of arguments and results is copied."""

RETURNS: Any = [("_", [], [("exception_trace",)])]
"""Calls, what they return, and what they raise. That takes half as long again as calls alone."""


FORGET = 50
"""After so many tests what the rings hold is thrown away. Those of threads that have ended would be kept for ever."""


class Recorder:
    """One session for a run: functions are looked for once, and a test only notes the time when it begins."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: trace.Session | None = None
        self._folder: Path | None = None
        self._begun = 0
        self._number = 0
        self._tests = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Tests are collected: what they import is there."""
        options = {"overflow": "overwrite", "ring_bytes": self._settings.ring_bytes, "capture": CAPTURE}
        with trace.session_create("pytest --inviso-on-fail", None, options) as recording:
            self._session = recording
            spec = RETURNS if self._settings.returns else True
            for pattern in self._settings.patterns:
                recording.function(pattern, spec, ["local"])
            trace._on_load(recording, "local", self._settings.patterns, spec)
            recording.process("all", True, ["call", "monotonic_timestamp"])
            try:
                return (yield)
            finally:
                self._session = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """What came before is no event of this test."""
        self._tests += 1
        if self._tests % FORGET == 0 and self._session is not None:
            with suppress(OSError):
                self._session.dump(os.devnull)
        self._begun = time.monotonic_ns()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds the section."""
        report = yield
        if report.failed and self._session is not None:
            report.sections.append(self._section(item, report.when, self._session))
        return report

    def _section(self, item: pytest.Item, when: str, session: trace.Session) -> tuple[str, str]:
        self._number += 1
        name = re.sub(r"\W+", "-", item.nodeid.rpartition("/")[2]).strip("-")[:80]
        try:
            from inviso import log  # a run without failures needs none

            path = self._place(item.config) / f"{self._number:03}-{name}-{when}.log"
            session.dump(path)
            lines, number = lines_of(log.read(path), self._begun, self._settings.events)
        except OSError as error:
            return "inviso", f"the events can't be written: {error}"
        if not number:
            return "inviso", f"no call of {', '.join(sorted(p[0] for p in self._settings.patterns))} in this test"
        title = f"inviso: the last {len(lines)} of {number} events" if len(lines) < number else f"inviso: {number} events"
        return title, "\n".join([*lines, f"log: {path}"])

    def _place(self, config: pytest.Config) -> Path:
        """A folder beside those of ``tmp_path``; one of our own without that plugin."""
        if self._folder is None:
            factory = getattr(config, "_tmp_path_factory", None)
            made = factory.mktemp("inviso") if factory is not None else tempfile.mkdtemp(prefix="inviso-pytest-")
            self._folder = Path(os.fspath(made))
        return self._folder


def lines_of(messages: Iterable[Any], since: int, most: int) -> tuple[list[str], int]:
    """The lines of the last events after a time, in nanoseconds, and how many events there were after it.

    >>> import inviso
    >>> lines_of([("trace_ts", inviso.self(), "call", ("shop", "f", [1]), 5_000_000)], 2_000_000, 10)
    (['     3.000 ms (MainThread) call shop:f(1)'], 1)
    """
    from inviso import log

    of_test = []
    for message in messages:
        match message:
            case ("trace_ts", who, *rest, int(stamp)) if stamp >= since:
                of_test.append((stamp, who, rest))
            case log.Damage():
                of_test.append((since, None, [message]))
    lines = []
    for stamp, who, rest in of_test[-most:]:
        if who is None:
            lines.append(log.format(rest[0]))
            continue
        text = log.format(("trace", who, *rest)).removeprefix(f"({who!r}) ")
        lines.append(f"{(stamp - since) / 1e6:10.3f} ms ({who.name or repr(who)}) {text}")
    return lines, len(of_test)
