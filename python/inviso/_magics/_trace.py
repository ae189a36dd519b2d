"""``%%trace``: each call of some functions, with its arguments, and its result or exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from inviso._pattern import ANY, Pattern, hint, matches, outermost
from inviso._table import Table

from ._machinery import is_machinery
from ._options import Options, from_setting, patterns_of
from ._rows import COLUMNS, Namer, row
from ._seen import Seen
from ._session import Session

__all__ = ["Look", "options"]

_HELP = """\
Shows each call of some functions that the cell makes, with its arguments, and its result or exception.

Without -p these are the functions of the setting patterns, or those that are defined in the notebook (-p __main__).
Calls of IPython and of inviso, and calls by IPython's output streams, are left out. The thread or task of the cell is
traced, and the threads and tasks that it starts."""

OUTPUT: list[Pattern] = [("ipykernel.iostream", ANY, ANY), ("jupyter_client.session", ANY, ANY)]
"""Modules that run no code of the notebook. Their calls are hidden."""

_SPEC: list[Any] = [("_", [], [("exception_trace",)])]


def options() -> Options:
    """The options of ``%%trace``."""
    made = Options("trace", _HELP)
    made.value(
        "-p", "--pattern", action="append", setting="patterns", default=("__main__",), metavar="PATTERN",
        help="functions: module, module:function or package.** (default: the setting patterns, or __main__); may be "
             "given again",
    )  # fmt: skip
    made.flag("--timeline", "draw the calls as a timeline below the table")
    return made.finish()


class Look:
    """A trace of calls."""

    def __init__(self, options: Any) -> None:
        self._patterns = patterns_of("trace", options.pattern)
        self._scope = f"traced: {', '.join(options.pattern)}{source}" if (source := from_setting(options)) else ""
        self._limit, self._with_timeline = options.limit, options.timeline
        self._session = Session("%%trace")

    def begin(self) -> None:
        """Begins in the running process."""
        self._session.begin(["call"], outermost([*self._patterns, *OUTPUT]), _SPEC)

    def end(self) -> None:
        """Ends the trace."""
        self._session.end()

    def result(self) -> Seen:
        """The calls, without those of the machinery."""
        name, begun = Namer(self._session.cell), self._session.begun
        events = list(_of_the_program(self._session.messages, self._patterns))
        hints = [text for pattern in self._patterns if (text := hint(pattern))]
        hint_ = "; ".join(hints)
        return Seen("events", COLUMNS, events, lambda event: row(event, begun, name), self._session.lost, hint_)

    def table(self, result: Seen) -> Table:
        """The first rows and the last ones."""
        table = result.table(self._limit)
        return replace(table, notes=(*table.notes, self._scope)) if self._scope else table

    def picture(self, result: Seen) -> Any:
        """A timeline of the calls, if an option asks for it."""
        if not self._with_timeline:
            return None
        from inviso import analysis

        return analysis.tables(result.events).calls.picture()


def _of_the_program(messages: Iterable[Any], patterns: Iterable[Pattern]) -> Iterator[Any]:
    """The messages without those of the machinery, and of calls by ``OUTPUT``."""
    named = [pattern for pattern in patterns if is_machinery(pattern[0])]
    inside: dict[Any, int] = {}
    for message in messages:
        _, process, tag, (module, function, arity), *_ = message
        is_output = any(module == each[0] for each in OUTPUT)
        depth = inside.get(process, 0)
        if is_output:
            inside[process] = depth + 1 if tag == "call" else max(depth - 1, 0)
        count = len(arity) if isinstance(arity, list) else arity
        is_named = any(matches(pattern, module, function, count) for pattern in named)
        is_hidden = depth or is_output or is_machinery(module) or function == "<module>"
        if is_named or not is_hidden:
            yield message
