"""Boxes in rows, as the flame graph and the timeline have them: a model that Python fills and that a page draws."""

from __future__ import annotations

import base64
import json
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._rows import Number
from ._text import COLOURS, group

__all__ = ["EXCEPTION", "LOST", "MERGED", "OPEN", "Arrow", "Box", "Boxes", "Track", "packed"]

EXCEPTION, OPEN, MERGED, LOST = 1, 2, 3, 4
"""What is special about a box: its call raised, has not ended, stands for several, or its end was lost; 0: nothing
is.
"""


class Box(NamedTuple):
    """One box. Boxes of a row are in the order of ``x``."""

    x: Number
    width: Number
    name: int
    mark: int = 0
    own: Number | None = None
    """What of the width is not a box's in the row below."""
    before: Number | None = None
    """The width that it had before, in a picture of a difference."""
    tint: int = 0
    """What it is filled with, where that does not go by its name."""


class Track(NamedTuple):
    """Rows that belong to one process; the first of them has no boxes, but ends of arrows."""

    name: str
    row: int
    kind: str


class Arrow(NamedTuple):
    """A message. One without a sender, a receiver (-1) or an end is drawn as a stub."""

    sender: int
    receiver: int
    x: Number
    wait: Number | None
    name: str


@dataclass(slots=True)
class Boxes:
    """What is drawn: rows of boxes from ``0`` to ``span``."""

    span: Number
    unit: str
    names: list[str] = field(default_factory=list)
    rows: list[list[Box]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    growth: bool = False
    """Whether boxes are filled by their tint."""

    def count(self) -> int:
        """How many boxes there are."""
        return sum(map(len, self.rows))

    def groups(self) -> list[str]:
        """The packages that have a colour of their own, by what their boxes hold, largest first."""
        weights: defaultdict[str, Number] = defaultdict(int)
        for row in self.rows:
            for box in row:
                if box.mark != MERGED:
                    weights[group(self.names[box.name])] += box.width if box.own is None else box.own
        ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        return [name for name, _ in ranked[: len(COLOURS) - 1]]

    def has_others(self) -> bool:
        """Whether a box has the colour of no package."""
        own = set(self.groups())
        names = {box.name for row in self.rows for box in row}
        return any(group(self.names[name]) not in own for name in names)

    def hues(self) -> list[int]:
        """The colour of each name, by its package."""
        colours = {name: at for at, name in enumerate(self.groups())}
        return [colours.get(group(name), len(COLOURS) - 1) for name in self.names]

    def data(self) -> dict[str, Any]:
        """As columns, for ``boxes.js``: positions as differences within a row, which pack well."""
        x: list[Number] = []
        for row in self.rows:
            x += [box.x - last for last, box in zip([0, *[box.x for box in row]], row, strict=False)]
        flat = [box for row in self.rows for box in row]
        columns: dict[str, Any] = {
            "span": self.span, "unit": self.unit, "names": self.names, "hues": self.hues(),
            "counts": [len(row) for row in self.rows], "x": x, "width": [box.width for box in flat],
            "name": [box.name for box in flat], "mark": [box.mark for box in flat],
            "tracks": [[track.name, track.row, track.kind] for track in self.tracks],
            "arrows": [list(column) for column in zip(*self.arrows, strict=True)],
        }  # fmt: skip
        if any(box.own is not None for box in flat):
            columns["own"] = [box.own for box in flat]
        if self.growth:
            columns["before"] = [box.before for box in flat]
            columns["tint"] = [box.tint for box in flat]
        return columns


def packed(data: dict[str, Any]) -> str:
    """Data as a page carries them: JSON, compressed, as base64. So no name of a function is ever a part of the page."""
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)).decode()
