"""A trace session for one run of a cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import inviso
from inviso import Pid, tracing
from inviso._pattern import Pattern

__all__ = ["Session"]

RING = 8 << 20
"""Bytes of a thread's ring, which holds its messages until the cell ends."""


class Session:
    """A session for the process that runs a cell, and for the processes that it starts. It is its own tracer."""

    __slots__ = ("_name", "_tracing", "begun", "cell", "lost", "messages")

    def __init__(self, name: str) -> None:
        self._name = name
        self._tracing: tracing.Tracing | None = None
        self.cell: Pid = inviso.self()
        """The process that runs the cell."""
        self.messages: list[Any] = []
        """The messages, after the end."""
        self.lost = 0
        """The number of lost messages."""
        self.begun = 0
        """The first timestamp."""

    def begin(self, flags: Iterable[str], patterns: Iterable[Pattern] = (), match_spec: Any = True) -> None:
        """Begins in the running process. The flags are set last, so that no event of this package is seen."""
        self.cell = inviso.self()
        self._tracing = tracing.begin(self._name, None, {"ring_bytes": RING}, patterns=patterns, match_spec=match_spec)
        self._tracing.session.process(self.cell, True, [*flags, "set_on_spawn", "monotonic_timestamp"])

    def end(self) -> None:
        """Ends the session, if it has begun."""
        traced, self._tracing = self._tracing, None
        if traced is None:
            return
        traced.session.destroy()
        traced.end()
        for message in traced.session.drain():
            if message[0] == "drop":
                self.lost += message[1]
            else:
                self.messages.append(message)
        self.begun = min((message[-1] for message in self.messages), default=0)
