"""Limits at which tracing stops by itself."""

from __future__ import annotations

import time
from typing import Any, Final, TypeAlias

from inviso.errors import BadArg, shown

__all__ = ["LOST", "Guard", "Rate", "checked", "failure", "why", "window"]

LOST: Final = 10_000
"""Messages that may be lost before tracing stops: the tracer can't keep up then."""

Rate: TypeAlias = int | tuple[int, int]
"""Messages in a second, or ``(messages, milliseconds)``."""


class Guard:
    """Compares the number of messages with a limit and a rate, and of lost ones with a bound. One thread counts; any
    thread may change the limits.

    >>> guard = Guard(limit=2)
    >>> guard.saw(), guard.saw()
    (None, ('limit', 'the limit of 2 messages was reached'))
    """

    __slots__ = ("_limit", "_lost", "_most_lost", "_rate", "_seen")

    def __init__(self, limit: int | None = None, rate: Rate | None = None, lost: int = LOST) -> None:
        self._limit: tuple[int, int] | None = None
        """The number of the last message, and the limit."""
        self._rate: _Window | None = None
        self._most_lost = lost
        self._seen = 0
        self._lost = 0
        self.change(limit, rate)

    @property
    def is_limited(self) -> bool:
        """Whether a limit or a rate is set."""
        return self._limit is not None or self._rate is not None

    def change(self, limit: int | None, rate: Rate | None) -> None:
        """Sets the limits that are not None. A limit counts messages from this call on."""
        if limit is not None:
            self._limit = self._seen + limit, limit
        if (found := window(rate)) is not None:
            self._rate = _Window(*found)

    def saw(self) -> tuple[str, str] | None:
        """Counts one message. Returns the limit that it reached and the reason as text; or None."""
        self._seen += 1
        if (found := self._limit) is not None and self._seen >= found[0]:
            return "limit", why("limit", found[1])
        return None if self._rate is None else self._rate.saw()

    def lost(self, number: int) -> tuple[str, str] | None:
        """Counts lost messages. Returns as :meth:`saw` if they are too many."""
        self._lost += number
        return ("lost", why("lost", self._lost)) if self._lost > self._most_lost else None


class _Window:
    """Counts the messages of consecutive spans of time."""

    __slots__ = ("_begun", "_milliseconds", "_most", "_number")

    def __init__(self, most: int, milliseconds: int) -> None:
        self._most = most
        self._milliseconds = milliseconds
        self._begun = float("-inf")
        self._number = 0

    def saw(self) -> tuple[str, str] | None:
        now = time.monotonic()
        if now - self._begun >= self._milliseconds / 1000:
            self._begun, self._number = now, 0
        self._number += 1
        return ("rate", why("rate", self._most, self._milliseconds)) if self._number > self._most else None


def why(what: str, number: int, milliseconds: int = 0) -> str:
    """The reason why tracing stopped by itself, as text.

    >>> why("rate", 10, 1500)
    'there were more than 10 messages in 1.5 s'
    """
    match what:
        case "limit":
            return f"the limit of {number} message{'s' * (number > 1)} was reached"
        case "rate":
            return f"there were more than {number} message{'s' * (number > 1)} in {milliseconds / 1000:g} s"
    return f"it fell behind, and {number} messages were lost"


def failure(place: str | None, said: str, lost: int) -> str:
    """The text for an output that could not be written. Rust's error texts end with a number, which is removed.

    >>> failure("calls.txt", "No space left on device", 2), failure(None, "Bad address", 0)
    ('calls.txt: No space left on device; 2 messages were lost', 'Bad address')
    """
    number = f"; {lost} message{'s were' if lost > 1 else ' was'} lost" if lost else ""
    said = said.partition(" (os error ")[0]
    return f"{place}: {said}{number}" if place else f"{said}{number}"


def window(rate: Rate | None) -> tuple[int, int] | None:
    """A rate as messages in so many milliseconds."""
    return rate if rate is None or isinstance(rate, tuple) else (rate, 1000)


def checked(where: str, limit: Any, rate: Any, lost: Any = None) -> None:
    """Refuses a wrong limit, rate, or bound of lost messages."""
    if limit is not None and not _number(limit, 1):
        raise BadArg(
            where, "limit", f"{shown(limit)} is not a number of messages; pass an int from 1, or None for no limit"
        )
    pair = rate if isinstance(rate, tuple) else (rate, 1000)
    if rate is not None and not (len(pair) == 2 and _number(pair[0], 1) and _number(pair[1], 1)):
        why = f"{shown(rate)} is not a rate; pass messages a second, an int from 1, or (messages, milliseconds)"
        raise BadArg(where, "rate", why)
    if lost is not None and not _number(lost, 0):
        raise BadArg(where, "lost", f"{shown(lost)} is not a number of messages; pass an int from 0")


def _number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 63
