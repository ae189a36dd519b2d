"""``%%messages``: the messages of threads and tasks, sent directly or through queues, futures and executors."""

from __future__ import annotations

from typing import Any

from inviso._table import Table

from ._options import Options
from ._rows import COLUMNS, Namer, row
from ._seen import Seen
from ._session import Session

__all__ = ["Look", "options"]

_HELP = """\
Shows what the cell's threads and tasks send and receive: items of queues, results of futures and executors, messages
of mailboxes.

The thread or task of the cell is called `cell`. It is traced, and so are the threads and tasks that it starts. Those
that ran before, such as the workers of an earlier cell's pool, are not traced: messages that they receive have no row.
"""


def options() -> Options:
    """The options of ``%%messages``."""
    made = Options("messages", _HELP)
    made.flag("--graph", "draw who sends to whom below the table")
    return made.finish()


class Look:
    """A trace of messages."""

    def __init__(self, options: Any) -> None:
        self._limit, self._with_graph = options.limit, options.graph
        self._session = Session("%%messages")

    def begin(self) -> None:
        """Begins in the running process."""
        self._session.begin(["send", "receive"])

    def end(self) -> None:
        """Ends the trace."""
        self._session.end()

    def result(self) -> Seen:
        """The messages that were sent and received."""
        name, begun = Namer(self._session.cell), self._session.begun
        messages = self._session.messages
        return Seen("events", COLUMNS, messages, lambda event: row(event, begun, name), self._session.lost)

    def table(self, result: Seen) -> Table:
        """The first rows and the last ones."""
        return result.table(self._limit)

    def picture(self, result: Seen) -> Any:
        """A graph of senders and receivers, if an option asks for it."""
        if not self._with_graph:
            return None
        from inviso import analysis

        return analysis.who_talks_to_whom(result.events).picture()
