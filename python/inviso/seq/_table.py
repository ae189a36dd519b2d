"""Events of sequential tracing as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inviso.logs._text import show

if TYPE_CHECKING:
    from ._merge import Entry

__all__ = ["COLUMNS", "row", "texts"]

COLUMNS = ("ms", "label", "serial", "process", "event", "what", "other")


def row(entry: Entry, begun: int, name: Callable[[Any], str] = show) -> dict[str, Any]:
    """One event as a row of ``COLUMNS``.

    ``ms`` counts from ``begun``, which is in nanoseconds. ``other`` is the receiver of a sent message, or the sender of
    a received one.

    >>> from inviso import seq_trace
    >>> event = ("seq_trace", 17, ("print", (0, 1), inviso.self(), [], "begin"), (0, 2, 0))
    >>> [entry] = seq_trace.merge(seq_trace.Output("shop@here", seq_trace.Anchor(0, 0), (event,)))
    >>> found = row(entry, 0)
    >>> found["ms"], found["label"], found["event"], found["what"]
    (2000.0, '17', 'print', "'begin'")
    """
    other = {"send": entry.receiver, "receive": entry.sender}.get(entry.tag)
    return {
        "ms": None if entry.time is None else (entry.time - begun) / 1e6,
        "label": show(entry.label),
        "serial": str(entry.serial),
        "process": name(entry.process),
        "event": str(entry.tag),
        "what": show(entry.content),
        "other": "" if other is None else name(other),
    }


def texts(found: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, ...]:
    """The cells of a row.

    >>> texts({"ms": 1.5, "what": "f", "other": ""}, ("ms", "what"))
    ('1.500', 'f')
    """
    cells = (found[name] for name in columns)
    return tuple("" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
