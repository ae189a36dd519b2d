"""Offsets of a host's clock, measured by the agents: ``NODE.clock`` beside ``NODE.log``.

A JSON object: ``version`` 1; ``host``, the host of the clock; ``to``, the host whose clock the logs are aligned with;
``points``, each ``[when, offset, error]`` in nanoseconds: a time of the host's own wall clock, the offset to add to it,
and the offset's largest error.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from inviso.errors import BadArg

__all__ = ["Clock", "beside", "read", "write"]

VERSION = 1
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Clock:
    """The offsets of one host's clock.

    >>> Clock("web", "db", [(0, 5_000_000_000, 1_000_000)]).text()
    '+5.000000 s, right to 1.0 ms'
    """

    host: str
    to: str
    points: list[tuple[int, int, int]] = field(default_factory=list)
    """A time of the host's clock, the offset to add, and its largest error, in nanoseconds."""

    def text(self) -> str:
        """The range of the offset, and its largest error, in words."""
        least, most = (pick(offset for _, offset, _ in self.points) / 1e9 for pick in (min, max))
        error = max(error for _, _, error in self.points) / 1e6
        offset = f"{least:+.6f} s" if least == most else f"{least:+.6f} to {most:+.6f} s"
        return f"{offset}, right to {error:.1f} ms"


def beside(log: str) -> str:
    """The path of the clock's file for a log."""
    return f"{os.path.splitext(log)[0]}.clock"


def write(path: str, clock: Clock) -> None:
    """Writes the file. Without measurements it removes an old one. OSError if it can't be written."""
    if not clock.points:
        if os.path.exists(path):
            os.unlink(path)
        return
    about = {"version": VERSION, "host": clock.host, "to": clock.to, "points": clock.points}
    with open(os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(about, file)
    os.replace(path + ".part", path)


def read(where: str, path: str) -> Clock | None:
    """Reads the file; None if it does not exist. ``BadArg`` if it is malformed."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BadArg(where, "clock", f"{path} can't be read: {error}; remove it, or pass clock='wall'") from None
    match found:
        case {"version": 1, "host": str(host), "to": str(to), "points": list(points)} if points and all(
            map(_is_point, points)
        ):
            return Clock(host, to, sorted((when, offset, error) for when, offset, error in points))
    raise BadArg(where, "clock", f"{path} holds no offsets of version {VERSION}; remove it, or pass clock='wall'")


def _is_point(given: Any) -> bool:
    return (
        isinstance(given, list)
        and len(given) == 3
        and all(isinstance(one, int) and not isinstance(one, bool) and abs(one) < _LARGEST for one in given)
        and given[2] >= 0
    )
