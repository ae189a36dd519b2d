"""Turns a session's call tree into that of a profile.

The session numbers the places of its tree, callers first, and has figures of each process at each place. A place whose
function is not measured (any more) has no node. Its callees belong to the nearest caller above that has a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ._model import Calls, Function, Node
from ._tree import measured

if TYPE_CHECKING:
    from inviso import Pid

__all__ = ["GONE", "UNKNOWN", "Code", "Place", "Sums", "made"]

Code: TypeAlias = "tuple[str, str, int, str, int]"
"""Module, qualified name, arity, file, first line."""

Place: TypeAlias = "tuple[int, int]"
"""The caller's place, -1 at the root; and the function's index in the list of codes, or one of the next two values."""

GONE = -1
"""A function that is not measured any more."""

UNKNOWN = -2
"""Not a function: the callers below are unknown, because the tree was too deep or too large."""

Sums: TypeAlias = "tuple[int, int, int]"
"""Calls, measured amount, and nanoseconds of waiting."""


def made(
    codes: list[Code],
    places: list[Place],
    readings: Mapping[tuple[int, Pid], Sums],
    wants: Callable[[Code], bool],
    unit: Callable[[int], int],
) -> tuple[tuple[Function, ...], tuple[Node, ...]]:
    """The functions and nodes of a profile from the readings at places. ``unit`` converts amounts to the profile's
    unit.
    """
    wanted = [wants(code) for code in codes]
    busy = [False] * len(places)
    for place, _ in readings:
        busy[place] = True
    for place in range(len(places) - 1, -1, -1):
        if busy[place] and places[place][0] >= 0:
            busy[places[place][0]] = True
    kept = sorted({codes[f] for (_, f), is_busy in zip(places, busy, strict=True) if is_busy and f >= 0 and wanted[f]})
    number = {code: n for n, code in enumerate(kept)}
    found: dict[tuple[int | None, int | None], int] = {}
    at: list[int | None] = []
    for (parent, function), is_busy in zip(places, busy, strict=True):
        above = at[parent] if parent >= 0 else None
        if not is_busy or function == GONE or (function >= 0 and not wanted[function]):
            at.append(above)
        else:
            key = above, None if function == UNKNOWN else number[codes[function]]
            at.append(found.setdefault(key, len(found)))
    sums: list[dict[Pid, Sums]] = [{} for _ in found]
    for (place, pid), (calls, amount, waiting) in readings.items():
        function, node = places[place][1], at[place]
        if function >= 0 and wanted[function] and node is not None:
            known = sums[node].get(pid, (0, 0, 0))
            sums[node][pid] = known[0] + calls, known[1] + amount, known[2] + waiting
    nodes = [
        Node(
            parent,
            function,
            tuple(Calls(pid, calls, unit(amount), None, w) for pid, (calls, amount, w) in each.items()),
        )
        for (parent, function), each in zip(found, sums, strict=True)
    ]
    return measured([Function(*code, ()) for code in kept], nodes)
