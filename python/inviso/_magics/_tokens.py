"""``%%tokens``: the effects of a cell in all threads and tasks, by a token of sequential tracing."""

from __future__ import annotations

from typing import Any

import inviso
from inviso import seq_trace
from inviso._table import Table
from inviso.seq._table import row

from ._options import Options
from ._rows import Namer
from ._seen import Seen

__all__ = ["Look", "options"]

_HELP = """\
Gives the cell a token, which travels with each message to its receiver, and shows the token's events in the order of
cause and effect.

These are messages that were sent and received with the token, also by threads and tasks that ran before, and texts of
inviso.seq_trace.print(). The token ends with the cell: a thread or task that has it then emits no more events."""

COLUMNS = ("ms", "serial", "process", "event", "what", "other")
"""Without the label, which is the same in all rows."""
_FLAGS = ("send", "receive", "print", "monotonic_timestamp")


def options() -> Options:
    """The options of ``%%tokens``."""
    made = Options("tokens", _HELP)
    made.value("-l", "--label", default="cell", metavar="TEXT", help="the token's label (default: cell)")
    made.flag("--chart", "draw the events as a chart below the table")
    return made.finish()


class Look:
    """Follows one token."""

    def __init__(self, options: Any) -> None:
        self._label = options.label
        self._limit = options.limit
        self._with_chart = options.chart
        self._collector: seq_trace.Collector | None = None
        self._before: Any = None
        self._cell = inviso.self()
        self._output: seq_trace.Output | None = None

    def begin(self) -> None:
        """Gives the running process the token."""
        self._cell = inviso.self()
        self._before = seq_trace.get_token()
        self._collector = collector = seq_trace.Collector()
        collector.__enter__()
        seq_trace.set_token(None)
        seq_trace.set_token("label", self._label)
        for flag in _FLAGS:
            seq_trace.set_token(flag, True)

    def end(self) -> None:
        """Takes the token back, and collects its events."""
        collector, self._collector = self._collector, None
        if collector is None:
            return
        try:
            if inviso.self() == self._cell:
                seq_trace.set_token(self._before)
            self._output = collector.output()
        finally:
            collector.__exit__(None, None, None)

    def result(self) -> Seen:
        """The events of the token, each after its cause."""
        assert self._output is not None
        entries = [entry for entry in seq_trace.merge(self._output) if entry.label == self._label]
        name, begun = Namer(self._cell), min((entry.time for entry in entries if entry.time is not None), default=0)
        return Seen("events", COLUMNS, entries, lambda entry: row(entry, begun, name), self._output.dropped)

    def table(self, result: Seen) -> Table:
        """The first rows and the last ones."""
        return result.table(self._limit)

    def picture(self, result: Seen) -> Any:
        """The chart, if an option asks for it."""
        if not self._with_chart:
            return None
        return seq_trace.chart(result.events, names={self._cell: "cell"}, limit=self._limit)
