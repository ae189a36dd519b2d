"""A table of an analysis, and the ways to read it."""

from __future__ import annotations

import html
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import _native
from ..errors import BadArg, needed, shown
from ..export import Rows, Summary
from ._pictures import picture_of

if TYPE_CHECKING:
    from ..picture import Picture
    from ._source import Source

__all__ = ["AnalysisWarning", "Table"]

_SHOWN = 30
_CELL = 120
"""Characters of a cell in a notebook."""


class AnalysisWarning(UserWarning):
    """The trace is incomplete: messages were lost, a log is damaged, or messages have no timestamp.

    >>> issubclass(AnalysisWarning, UserWarning)
    True
    """


class Table(Rows):
    """A table of an analysis, with Arrow's PyCapsule interface (for ``pa.table``, ``polars.DataFrame``, DuckDB).

    Each reading makes it anew, in one pass over the trace. Keys and durations are int64, times ``timestamp[ns, UTC]``;
    unknown values are null.

    >>> from inviso import analysis
    >>> analysis.tables([]).calls
    <table calls: call_id, parent_id, depth, node, process_id, ... 18 columns>
    """

    __slots__ = ("_hint", "_name", "_source", "_warned")

    def __init__(
        self,
        name: str,
        source: Source,
        make: Callable[[], _native.export.ArrowRows],
        hint: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(make, True)
        self._name, self._source, self._warned = name, source, False
        # makes the hint of an empty table
        self._hint = hint

    @property
    def name(self) -> str:
        """The name of the table.

        >>> from inviso import analysis
        >>> analysis.tables([]).gc.name
        'gc'
        """
        return self._name

    @property
    def columns(self) -> list[str]:
        """The names of its columns.

        >>> from inviso import analysis
        >>> analysis.tables([]).losses.columns
        ['at', 'at_mono_ns', 'count', 'cause', 'detail']
        """
        return self._native.columns()

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The rows as dicts, without any other package: at most ``limit`` of them, or all.

        Times are nanoseconds since 1970 (int).

        Raises:
            BadArg: ``limit`` is not a number.
            OSError: the system's error for a log.

        >>> from inviso import analysis
        >>> analysis.tables([("drop", 3)]).losses.rows(1)
        [{'at': None, 'at_mono_ns': None, 'count': 3, 'cause': 'lost', 'detail': None}]
        """
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise BadArg("rows/1", "limit", f"{shown(limit)} is not a number of rows; pass an int, or None for all")
        return list(self._dicts(limit))

    def _dicts(self, limit: int | None) -> Iterator[dict[str, Any]]:
        columns = self.columns
        for row in self._tuples(limit):
            yield dict(zip(columns, row, strict=True))

    def _tuples(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """The rows as tuples, from the core."""
        self._native = self._make()
        with self._raising():
            rows = self._native.tuples((1 << 62) if limit is None else limit)
        self._warn(not rows and limit != 0)
        return rows

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        table = super().to_arrow()
        self._warn(not table.num_rows)
        return table

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``. Integer columns with nulls have pandas' type ``Int64``. Needs pyarrow as well."""
        table = self.to_arrow()
        pandas = needed("pandas")
        arrow = needed("pyarrow")
        exact = {arrow.int64(): pandas.Int64Dtype()}
        return table.to_pandas(types_mapper=exact.get)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        frame = super().to_polars()
        self._warn(frame.is_empty())
        return frame

    def picture(self) -> Picture:
        """A picture of the table, by :mod:`inviso.picture`: a timeline of calls, steps and paths; a graph of who talks
        to whom and who blocks whom; a histogram of waits and depths; a flame graph of a profile.

        Raises:
            BadArg: this table has no picture.

        >>> from inviso import analysis
        >>> analysis.who_talks_to_whom([]).picture()
        <graph 'Who talks to whom': 0 processes, 0 edges, 0 messages>
        """
        return picture_of(self, self._source)

    def _warn(self, is_empty: bool) -> None:
        if self._warned:
            return
        missing = self._missing(is_empty)
        if missing:
            self._warned = True
            warnings.warn(f"{self._source.what}: {missing}", AnalysisWarning, stacklevel=_outside())

    def _missing(self, is_empty: bool) -> str:
        """The missing parts of the trace, and the reason if there are no rows, as text."""
        hint = self._hint() if is_empty and self._hint is not None else ""
        return "; ".join(filter(None, (lacks(self.summary()), hint)))

    def __repr__(self) -> str:
        columns = self.columns
        more = f", ... {len(columns)} columns" if len(columns) > 5 else ""
        return f"<table {self._name}: {', '.join(columns[:5])}{more}>"

    def _repr_html_(self) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnalysisWarning)
            rows = self._tuples(_SHOWN + 1)
        columns = self.columns
        empty = {at for at, _ in enumerate(columns) if all(row[at] is None for row in rows)} if rows else set()
        kept = [at for at in range(len(columns)) if at not in empty]
        head = "".join(f"<th>{html.escape(columns[at])}</th>" for at in kept)
        body = "".join("<tr>" + "".join(f"<td>{_cell(row[at])}</td>" for at in kept) + "</tr>" for row in rows[:_SHOWN])
        notes = [f"table <b>{html.escape(self._name)}</b> of {html.escape(self._source.what)}"]
        if len(rows) > _SHOWN:
            notes.append(f"the first {_SHOWN} rows")
        if not rows:
            notes.append("no rows")
        if missing := self._missing(not rows):
            notes.append(html.escape(missing))
        return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{'; '.join(notes)}</p></div>"


def _outside() -> int:
    """The stack level of the first caller outside this package, for :func:`warnings.warn`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("inviso."):
        level, frame = level + 1, frame.f_back
    return level


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return html.escape(text if len(text) <= _CELL else text[:_CELL] + "…")


def lacks(summary: Summary) -> str:
    """The missing parts of a trace, in words; "" if it is complete."""
    parts = []
    if summary.dropped:
        parts.append(f"{summary.dropped:,} messages were lost (table losses)")
    if summary.damaged:
        parts.append(f"{summary.damaged:,} places could not be read ({summary.damage[0]})")
    if summary.untimed and summary.untimed == summary.messages:
        parts.append(
            "no message has a time stamp, so there are no times (set the flag 'monotonic_timestamp' or 'timestamp')"
        )
    elif summary.untimed:
        parts.append(f"{summary.untimed:,} messages have no time stamp of the trace's clock")
    return "; ".join(parts)
