"""The controller of pytest-xdist: one table of its workers' measurements."""

from __future__ import annotations

from typing import Any

import pytest

from ._measured import KEY, TYPES, Rows, added, show
from ._settings import Settings

__all__ = ["Merged"]


class Merged:
    """Takes the measurements of each worker at its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts: dict[str, list[Rows]] = {name: [] for name in settings.measures}
        self._silent = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Takes the measurements of an ended worker. One that crashed has none."""
        output = getattr(node, "workeroutput", {}).get(KEY)
        if output is None:
            self._silent += 1
            return
        for name, rows in output.items():
            self._parts[name].append(rows)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Shows the tables, and the number of crashed workers."""
        for name, parts in self._parts.items():
            show(terminalreporter, name, added(TYPES[name], parts, self._settings.patterns), self._settings.rows)
        if self._silent:
            what = "1 worker crashed: what it" if self._silent == 1 else f"{self._silent} workers crashed: what they"
            terminalreporter.write_line(f"inviso: {what} measured is lost")
