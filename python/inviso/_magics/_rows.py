"""Rows of trace messages: time, process, event."""

from __future__ import annotations

from typing import Any

from inviso import Pid
from inviso.logs._text import function, show

__all__ = ["COLUMNS", "Namer", "row"]

COLUMNS = ("ms", "process", "event", "what", "other")

_EVENTS = {"return_from": "return", "exception_from": "exception", "send_to_non_existing_process": "send to nobody"}


class Namer:
    """Names of processes: ``cell`` for the one that runs the cell, else the process's name, or its pid."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Pid) -> None:
        self._cell = cell

    def __call__(self, process: Any) -> str:
        """The name of a process or a queue."""
        if process == self._cell:
            return "cell"
        called = str(getattr(process, "name", "") or "")
        if getattr(process, "kind", "") == "queue":
            return f"{called or 'queue'} {process!r}"  # a queue's name is its class, while it exists
        return called or show(process)


def row(message: Any, begun: int, name: Namer) -> dict[str, Any]:
    """One message as a row of ``COLUMNS``.

    ``ms`` counts from ``begun``, which is in nanoseconds of the monotonic clock. ``what`` is the function or the
    message. ``other`` is the function's result or exception, or the message's receiver.
    """
    _, process, tag, *more, stamp = message
    what, other = "", ""
    match tag, more:
        case "call", [mfa]:
            what = function(mfa)
        case "return_from", [mfa, value]:
            what, other = function(mfa), show(value)
        case "exception_from", [mfa, (_, (str(kind), tuple(arguments)))]:
            what, other = function(mfa), f"{kind}({', '.join(map(show, arguments))})"
        case "send" | "send_to_non_existing_process", [value, to]:
            what, other = show(value), name(to)
        case _:
            what = ", ".join(map(show, more))
    return {
        "ms": (stamp - begun) / 1e6,
        "process": name(process),
        "event": _EVENTS.get(tag, str(tag)),
        "what": what,
        "other": other,
    }
