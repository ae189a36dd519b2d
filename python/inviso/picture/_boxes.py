"""Boxes in rows, for the flame graph and the timeline: a model that Python fills and a page draws."""

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
"""Marks of a box: its call raised, has not ended, stands for several, or its end was lost. 0: no mark."""


class Box(NamedTuple):
    """One box. Boxes of a row are in the order of ``x``."""

    x: Number
    width: Number
    name: int
    mark: int = 0
    own: Number | None = None
    """The part of the width that no box of the row below covers."""
    before: Number | None = None
    """The width that it had before, in a picture of a difference."""
    tint: int = 0
    """Its colour, if that does not depend on its name."""


class Track(NamedTuple):
    """Rows of one process. The first row has no boxes but the ends of arrows."""

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
    """Rows of boxes from ``0`` to ``span``."""

    span: Number
    unit: str
    names: list[str] = field(default_factory=list)
    rows: list[list[Box]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    growth: bool = False
    """Whether boxes have the colour of their tint."""

    def count(self) -> int:
        """How many boxes there are."""
        return sum(map(len, self.rows))

    def groups(self) -> list[str]:
        """The packages with a colour of their own, in the order of their boxes' sums, largest first."""
        weights: defaultdict[str, Number] = defaultdict(int)
        for row in self.rows:
            for box in row:
                if box.mark != MERGED:
                    weights[group(self.names[box.name])] += box.width if box.own is None else box.own
        ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        return [name for name, _ in ranked[: len(COLOURS) - 1]]

    def has_others(self) -> bool:
        """Whether a box has the colour of the other packages."""
        own = set(self.groups())
        names = {box.name for row in self.rows for box in row}
        return any(group(self.names[name]) not in own for name in names)

    def hues(self) -> list[int]:
        """The colour of each name, by its package."""
        colours = {name: at for at, name in enumerate(self.groups())}
        return [colours.get(group(name), len(COLOURS) - 1) for name in self.names]

    def data(self) -> dict[str, Any]:
        """Columns for ``boxes.js``. Positions are differences within a row, which compress well."""
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
    """Data for a page: JSON, compressed, in base64. So names of functions never become markup."""
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)).decode()
