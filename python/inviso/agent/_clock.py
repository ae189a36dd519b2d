"""Measures the differences to other hosts' clocks, by repeated requests. The fastest answers count."""

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
"""Seconds between two requests."""

APART = 10_000_000_000
"""Nanoseconds. Of the answers in this time the fastest is stored."""

KEPT = 10_000
"""Stored measurements, at most: those of about a day."""

LATEST = (1 << 62) - 1
"""The latest valid time, in nanoseconds since 1970. A file of offsets holds no later one."""

PATIENCE = 2.0
"""Seconds after which an answer is ignored."""


class Offsets:
    """The offsets of one host's clock.

    >>> offsets = Offsets()
    >>> offsets.add(0, 5_000, 5_100, 200)  # sent at 0, received there at 5000, answered there at 5100, received at 200
    >>> offsets.points()
    [(5050, -4950, 50)]
    """

    def __init__(self) -> None:
        self._last: list[tuple[int, int, int, int]] = []
        """The answers since the last stored one: delay, time there, offset, largest error."""
        self._points: deque[tuple[int, int, int]] = deque(maxlen=KEPT)
        self._since = 0

    def add(self, asked: int, came: int, sent: int, answered: int) -> None:
        """Adds a measurement: four times in nanoseconds, the first and last by this host's clock, the others by the
        other's.
        """
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
        """Triples in nanoseconds: a time of the other clock, the offset to add to it, the offset's largest error."""
        return [*self._points, *([self._best()] if self._last else [])]


def ask(engine: Engine, keys: Keys, host: str, answered: Callable[[int, int, int, int], None]) -> None:
    """Asks a host for its time. If it answers, ``answered`` gets the four times, in a thread of the engine."""
    asked = time.time_ns()

    def came(found: bytes | None) -> None:
        now = time.time_ns()
        if found is None:
            return
        with suppress(BadArg, SystemLimit):  # the answer is malformed
            match etf.loads(found, depth=DEPTH, size=LIMIT):
                case (int(came), int(sent)) if 0 <= came <= LATEST and 0 <= sent <= LATEST:
                    answered(asked, came, sent, now)

    engine.ask(keys.clock(host), b"", PATIENCE, came)
