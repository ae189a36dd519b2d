"""Shows the last events of a failed test: a flight recorder for the whole run, whose rings are read after a failure."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inviso import trace
from inviso.trace._patterns import on_load

from ._settings import Settings

__all__ = ["Recorder", "lines_of"]

CAPTURE = {"depth": 3, "items": 10, "bytes": 100, "total": 400}
"""Limits for the copies of arguments and results."""

RETURNS: Any = [("_", [], [("exception_trace",)])]
"""Calls, results and exceptions. They take half as long again as calls alone."""


NAME = 120
"""Bytes of a test's name in the name of its log, at most."""

FORGET = 50
"""Tests between two times that the rings are emptied. Otherwise rings of ended threads would stay in memory."""


class Recorder:
    """One session for a run: it searches functions once, and notes only the start time of each test."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: trace.Session | None = None
        self._folder: Path | None = None
        self._begun = 0
        self._number = 0
        self._tests = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Starts after the collection: modules of tests are imported, and no test has replaced files or clocks yet."""
        self._folder = self._place(session.config)
        options = {"overflow": "overwrite", "ring_bytes": self._settings.ring_bytes, "capture": CAPTURE}
        with trace.session_create("pytest --inviso-on-fail", None, options) as recording:
            self._session = recording
            spec = RETURNS if self._settings.returns else True
            for pattern in self._settings.patterns:
                recording.function(pattern, spec, ["local"])
            on_load(recording, "local", self._settings.patterns, spec)
            for pattern in self._settings.without():
                recording.function(pattern, False, ["local"])
            recording.process("all", True, ["call", "monotonic_timestamp"])
            try:
                return (yield)
            finally:
                self._session = None
                if not self._number:
                    with suppress(OSError):
                        self._folder.rmdir()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Notes the start time of a test: earlier events don't belong to it."""
        self._tests += 1
        if self._tests % FORGET == 0 and self._session is not None:
            with suppress(OSError):
                self._session.dump(os.devnull)
        if self._session is not None:
            self._begun = self._session._native.now()  # the clock of the timestamps, which tests can't replace
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds the section with events to the report of a failed test."""
        report = yield
        if report.failed and self._session is not None:
            report.sections.append(self._section(item, report.when, self._session))
        return report

    def _section(self, item: pytest.Item, when: str, session: trace.Session) -> tuple[str, str]:
        self._number += 1
        assert self._folder is not None
        path = self._folder / f"{self._number:03}-{_file_name(item.nodeid)}-{when}.log"
        try:
            session.dump(path)
        except OSError as error:
            return "inviso", f"the events can't be written: {error}"
        try:
            from inviso import log  # only a run with failures needs it

            lines, number = lines_of(log.read(path), self._begun, self._settings.events)
        except Exception as error:  # the test may have replaced something that is used here; its own error counts
            return "inviso", f"the events can't be shown: {type(error).__name__}: {error}\nlog: {path}"
        if not number:
            return "inviso", f"no call of {', '.join(sorted(p[0] for p in self._settings.patterns))} in this test"
        events = f"{number} event{'s' * (number != 1)}"
        title = f"inviso: the last {len(lines)} of {events}" if len(lines) < number else f"inviso: {events}"
        return title, "\n".join([*lines, f"log: {path}"])

    @staticmethod
    def _place(config: pytest.Config) -> Path:
        """A folder beside those of ``tmp_path``, or a temporary one without that plugin."""
        factory = getattr(config, "_tmp_path_factory", None)
        made = factory.mktemp("inviso") if factory is not None else tempfile.mkdtemp(prefix="inviso-pytest-")
        return Path(os.fspath(made))


def _file_name(test: str) -> str:
    """The file and names of a test's id, in a form for a file's name.

    >>> _file_name("tests/test_order.py::TestOrder::test_pays[a/b]")
    'test_order-py-TestOrder-test_pays-a-b'
    """
    file, _, names = test.partition("::")
    text = re.sub(r"\W+", "-", f"{file.rpartition('/')[2]}::{names}").strip("-")
    return text.encode(errors="replace")[:NAME].decode(errors="ignore")


def lines_of(messages: Iterable[Any], since: int, most: int) -> tuple[list[str], int]:
    """The lines of the last events since a time in nanoseconds, and the number of all events since then.

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
