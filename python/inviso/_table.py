"""A table as HTML for a notebook, bounded in rows and bytes, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

__all__ = ["LIMIT", "SIZE", "Table"]

LIMIT = 30
"""Rows that are shown by default."""
SIZE = 60_000
"""The largest number of bytes of HTML. If the rows would need more, fewer are shown."""
_HTML_CELL, _TEXT_CELL = 200, 70
_LEAST = 40
"""Bytes of an empty cell's HTML, approximately."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below a header. If there are more than ``limit``, the first ones are shown; with ``show="ends"``
    the first and the last ones.

    Columns that are named in ``numbers`` are aligned to the right. ``notes`` are lines below the table.

    >>> print(Table(("function", "calls"), [("f", "12"), ("g", "3"), ("h", "1")], limit=2, numbers=("calls",)).text())
    function  calls
    f            12
    g             3
    … 1 more row
    """

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    limit: int = LIMIT
    show: Literal["first", "ends"] = "first"
    numbers: tuple[str, ...] = ()

    def html(self) -> str:
        """The table as HTML of at most ``SIZE`` bytes. Every text is escaped.

        >>> Table(("x",), [("<b>",)]).html().count("&lt;b&gt;")
        1
        """
        limit = min(self.limit, SIZE // (_LEAST * len(self.header)))
        while (size := len((text := self._html(limit)).encode())) > SIZE:
            limit = min(limit * 2 // 3, limit * SIZE // size)
        return text

    def text(self) -> str:
        """The table as text for a terminal, without a line feed at its end."""
        head, tail, hidden = self._parts(self.limit)
        shown = [*head, *tail]
        lines = [[_clipped(cell, _TEXT_CELL) for cell in line] for line in (self.header, *shown)] if shown else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        is_number = [name in self.numbers for name in self.header]
        made = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, is_number, strict=True)
            ).rstrip()
            for line in lines
        ]
        if hidden:
            made.insert(1 + len(head), _more(hidden))
        return "\n".join([*made, *map(_printable, self.notes)])

    def bundle(self) -> dict[str, str]:
        """Text and HTML by MIME type, for IPython."""
        return {"text/plain": self.text(), "text/html": self.html()}

    def _html(self, limit: int) -> str:
        head, tail, hidden = self._parts(limit)
        sides = ["right" if name in self.numbers else "left" for name in self.header]

        def line(cells: tuple[str, ...], tag: str) -> str:
            made = (
                f'<{tag} style="text-align: {side}">{escape(_clipped(cell, _HTML_CELL))}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )
            return f"<tr>{''.join(made)}</tr>"

        rows = [line(row, "td") for row in head]
        if hidden:
            rows.append(f'<tr><td colspan="{len(self.header)}" style="text-align: left">{_more(hidden)}</td></tr>')
        rows += [line(row, "td") for row in tail]
        table = f"<table><thead>{line(self.header, 'th')}</thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
        return table + "".join(f"<p>{escape(_clipped(note, 1000))}</p>" for note in self.notes)

    def _parts(self, limit: int) -> tuple[Sequence[tuple[str, ...]], Sequence[tuple[str, ...]], int]:
        """The first rows, the last ones, and the number of rows between them."""
        if len(self.rows) <= limit:
            return self.rows, (), 0
        last = limit // 2 if self.show == "ends" else 0
        first = limit - last
        return self.rows[:first], self.rows[len(self.rows) - last :], len(self.rows) - limit


def _more(hidden: int) -> str:
    return f"… {hidden:,} more row{'s' * (hidden != 1)}"


def _clipped(text: str, width: int) -> str:
    return _printable(text if len(text) <= width else f"{text[: width - 1]}…")


def _printable(text: str) -> str:
    """A text as one line of printable characters; others are escaped."""
    if text.isprintable():
        return text
    made = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "".join(made)
