"""The results of ``%%trace``, ``%%messages`` and ``%%tokens``: a sequence of rows, made of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from inviso._table import LIMIT, Table
from inviso.seq._table import texts

__all__ = ["Seen"]


class Seen(Sequence[dict[str, Any]]):
    """Rows as dicts, in the order of time. ``events`` has their events, ``lost`` the number of further ones.

    >>> seen = Seen("calls", ("ms", "what"), [3, 4], lambda event: {"ms": float(event), "what": "f"})
    >>> seen, seen[1]["ms"]
    (<2 calls>, 4.0)
    """

    __slots__ = ("_columns", "_hint", "_row", "_what", "events", "lost")

    def __init__(
        self,
        what: str,
        columns: tuple[str, ...],
        events: Sequence[Any],
        row: Callable[[Any], dict[str, Any]],
        lost: int = 0,
        hint: str = "",
    ) -> None:
        self._what = what
        self._columns = columns
        self._row = row
        self._hint = hint
        self.events: Sequence[Any] = events
        """Trace messages of a session, or events of sequential tracing."""
        self.lost = lost
        """How many messages were lost because a ring was full."""

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self._row(event) for event in self.events[place]]
        return self._row(self.events[place])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._row, self.events)

    def table(self, limit: int = LIMIT) -> Table:
        """The first rows and the last ones."""
        nothing = "; ".join(filter(None, (f"No {self._what} were seen", self._hint)))
        notes = [f"{len(self):,} {self._what}" if self.events else nothing]
        if self.lost:
            notes.append(f"{self.lost:,} more were lost: there were too many in too short a time")
        return Table(self._columns, _Cells(self, self._columns), tuple(notes), limit, "ends", ("ms",))

    def __repr__(self) -> str:
        return f"<{len(self):,} {self._what}{f', {self.lost:,} lost' * bool(self.lost)}>"

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


class _Cells(Sequence[tuple[str, ...]]):
    """The rows as texts, which are made when they are shown."""

    def __init__(self, seen: Seen, columns: tuple[str, ...]) -> None:
        self._seen = seen
        self._columns = columns

    def __len__(self) -> int:
        return len(self._seen)

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, ...]]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(place, slice):
            return [texts(row, self._columns) for row in self._seen[place]]
        return texts(self._seen[place], self._columns)
