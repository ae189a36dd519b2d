"""Counters of a runtime component for a live view: calls of functions, and messages of processes. There is no log.

A profiler counts functions. Messages go into small rings of a session of their own; each request for an answer empties
them. A ring counts the messages that it has no room for.
"""

from __future__ import annotations

from typing import Any

from inviso import tprof, trace
from inviso._native.process import Pid
from inviso._pattern import Pattern, covers, parse, show
from inviso.errors import BadArg, shown
from inviso.process import object_of
from inviso.terms import Atom

from ._lengths import length

__all__ = ["KINDS", "LiveCounts", "Messages"]

KINDS = ("call_time", "call_count")
"""Kinds of counters of functions: calls and time of each process, or calls alone."""

RING = 256 << 10
"""Bytes of a thread's ring of messages: some thousands."""

QUEUES = 200
"""Queues that are known at a time, at most. The oldest is forgotten first."""

_CAPTURE = {"depth": 1, "items": 1, "bytes": 1, "total": 64}
_TIMEOUT = Atom("timeout")


class LiveCounts:
    """The counters of one component. Its methods are called in one thread.

    >>> import json
    >>> counts = LiveCounts()
    >>> counts.set("call_count", ["json:loads:_"], messages=False)
    1
    >>> _ = json.loads("1")
    >>> [(each.mfa, each.calls) for each in counts.profiler.collect().functions]
    [(('json', 'loads', 8), 1)]
    >>> counts.stop()
    """

    def __init__(self) -> None:
        self.profiler: tprof.Profiler | None = None
        self.messages: Messages | None = None
        self.changes = 0
        """The number of changes, so a reader sees that counters are new."""
        self._patterns: list[Pattern] = []

    def set(self, kind: Any, patterns: Any, *, messages: Any) -> int:
        """Counts exactly these functions, and perhaps messages. Functions that were counted before keep their counts.

        Args:
            kind: one of :data:`KINDS`. Another kind than before starts from zero.
            patterns: a list of patterns.
            messages: a bool.

        Returns:
            The number of functions that match the new patterns.

        Raises:
            BadArg: a wrong argument; nothing has changed.
        """
        where = "count_live"
        if not isinstance(kind, str) or kind not in KINDS:
            raise BadArg(where, "kind", f"{shown(kind)} is not a kind; pass {' or '.join(map(repr, KINDS))}")
        if not isinstance(patterns, list):
            raise BadArg(where, "patterns", f"{shown(patterns)} is not a list of patterns; pass one")
        if not isinstance(messages, bool):
            raise BadArg(where, "messages", f"{shown(messages)} is not a bool; pass True or False")
        wanted = list(dict.fromkeys(parse(patterns, where))) if patterns else []
        self.changes += 1
        found = self._count(kind, wanted)
        if messages and self.messages is None:
            self.messages = Messages()
        elif not messages and self.messages is not None:
            self.messages.stop()
            self.messages = None
        return found

    def _count(self, kind: Any, wanted: list[Pattern]) -> int:
        if self.profiler is not None and (not wanted or self.profiler.type != kind):
            self.profiler.stop()
            self.profiler, self._patterns = None, []
        if not wanted:
            return 0
        if self.profiler is None:
            self.profiler = tprof.Profiler(type=kind, name="inviso live counts")
            if kind == "call_time":
                self.profiler.enable_trace("all")
        gone = [pattern for pattern in self._patterns if pattern not in wanted]
        # clearing a pattern clears the patterns that it covers
        new = [each for each in wanted if each not in self._patterns or any(covers(pattern, each) for pattern in gone)]
        self._patterns = wanted
        if gone:
            self.profiler.clear_pattern([*gone])
        return self.profiler.set_pattern([*new]) if new else 0

    @property
    def patterns(self) -> list[str]:
        """The patterns in force, in the form of the command line."""
        return [show(pattern) for pattern in self._patterns]

    def stop(self) -> None:
        """Stops all counters."""
        self.set(KINDS[0], [], messages=False)


class Messages:
    """Counts the messages that each process sends and receives, from now on."""

    def __init__(self) -> None:
        self.sent: dict[Pid, int] = {}
        self.received: dict[Pid, int] = {}
        self.total = 0
        """Messages of all processes, with those of ended ones, and those that the rings had no room for."""
        self.unattributed = 0
        """The part of ``total`` that the rings had no room for, so its processes are not known."""
        self._queues: dict[Pid, None] = {}
        self._session = trace.session_create("inviso messages", None, {"ring_bytes": RING, "capture": _CAPTURE})
        self._session.process("all", True, ["send", "receive"])

    def take(self) -> None:
        """Counts the messages since the last call."""
        for message in self._session.drain():
            if message[0] == "drop":
                self.total += message[1]
                self.unattributed += message[1]
                continue
            pid, event, what = message[1:4]
            if event == "receive":
                if what is _TIMEOUT or (type(what) is Atom and what == _TIMEOUT):
                    continue
                self.received[pid] = self.received.get(pid, 0) + 1
            else:
                self.sent[pid] = self.sent.get(pid, 0) + 1
                self._note(message[4])
            self.total += 1

    def _note(self, to: Any) -> None:
        if isinstance(to, Pid) and to.kind == "queue" and to not in self._queues:
            if len(self._queues) >= QUEUES:
                del self._queues[next(iter(self._queues))]
            self._queues[to] = None

    def keep(self, living: set[Pid]) -> None:
        """Forgets processes that have ended."""
        for counts in (self.sent, self.received):
            for pid in counts.keys() - living:
                del counts[pid]

    def queues(self) -> list[tuple[str, str, int]]:
        """The queues that got a message and still exist: pid, class, length."""
        found = []
        for pid in list(self._queues):
            queue = object_of(pid)
            if queue is None:
                del self._queues[pid]
            elif (items := length(queue)) is not None:
                found.append((str(pid), pid.name, items))
        return found

    def stop(self) -> None:
        """Ends the counting."""
        self._session.destroy()
