"""How far the clocks of other hosts are from this one's: asked again and again, the quickest answers count."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from inviso import etf
from inviso._link._frame import DEPTH, LIMIT
from inviso.errors import BadArg, SystemLimit

from ._engine import Engine
from ._keys import Keys

__all__ = ["EVERY", "Offsets", "ask"]

EVERY = 1.0
"""Seconds between two questions."""

APART = 10_000_000_000
"""Nanoseconds of whose answers the quickest counts, and is kept."""

KEPT = 10_000
"""Measurements that are kept: a day's."""

LATEST = (1 << 62) - 1
"""Nanoseconds since 1970 that a time may be, at most; a file of offsets holds no larger ones."""

PATIENCE = 2.0
"""Seconds after which an answer comes too late."""


class Offsets:
    """The offsets of one host's clock.

    >>> offsets = Offsets()
    >>> offsets.add(0, 5_000, 5_100, 200)  # asked at 0, there 5000, sent back there 5100, here 200
    >>> offsets.points()
    [(5050, -4950, 50)]
    """

    def __init__(self) -> None:
        self._last: list[tuple[int, int, int, int]] = []
        """Of the answers since the last one that was kept: what they took, when, the offset, by how much it may be wrong."""
        self._points: deque[tuple[int, int, int]] = deque(maxlen=KEPT)
        self._since = 0

    def add(self, asked: int, came: int, sent: int, answered: int) -> None:
        """Four times in nanoseconds: the first and the last by this host's clock, the others by the other one's."""
        delay = (answered - asked) - (sent - came)
        if delay < 0:  # a clock was set meanwhile
            self._last.clear()
            return
        there = (came + sent) // 2
        self._last.append((delay, there, (asked + answered) // 2 - there, (delay + 1) // 2))
        if not self._points or there - self._since >= APART or there < self._since:
            self._since = there
            self._points.append(self._best())
            self._last.clear()

    def _best(self) -> tuple[int, int, int]:
        _, when, offset, error = min(self._last)
        return when, offset, error

    def points(self) -> list[tuple[int, int, int]]:
        """When by the other clock, what is added to it, and by how much that may be wrong, in nanoseconds."""
        return [*self._points, *([self._best()] if self._last else [])]


def ask(engine: Engine, keys: Keys, host: str, answered: Callable[[int, int, int, int], None]) -> None:
    """Asks a host for its time; ``answered`` gets the four times, in a thread of the engine's, if it answers."""
    asked = time.time_ns()

    def came(found: bytes | None) -> None:
        now = time.time_ns()
        if found is None:
            return
        with suppress(BadArg, SystemLimit):  # it is no time
            match etf.loads(found, depth=DEPTH, size=LIMIT):
                case (int(came), int(sent)) if 0 <= came <= LATEST and 0 <= sent <= LATEST:
                    answered(asked, came, sent, now)

    engine.ask(keys.clock(host), b"", PATIENCE, came)
