"""What a runtime component counts for a live view: calls of functions, and messages of processes. There is no log.

Functions are counted by a profiler. Messages go into small rings of a session of their own, which are emptied when
somebody asks; what does not fit is counted by the ring.
"""

from __future__ import annotations

from typing import Any

from inviso import tprof, trace
from inviso._native import Pid
from inviso._pattern import Pattern, covers, parse, show
from inviso.errors import BadArg, shown
from inviso.process import object_of
from inviso.terms import Atom

from ._lengths import length

__all__ = ["KINDS", "LiveCounts", "Messages"]

KINDS = ("call_time", "call_count")
"""What is counted of functions: calls and time of each process, or calls alone."""

RING = 256 << 10
"""Bytes of a thread's ring of messages: some thousands."""

QUEUES = 200
"""Queues that are known at a time, at most; the oldest is forgotten."""

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
        """How often something was switched on or off."""
        self._patterns: list[Pattern] = []

    def set(self, kind: Any, patterns: Any, *, messages: Any) -> int:
        """Has these functions counted and no others, and messages or not. Functions that were counted already go on.

        Args:
            kind: one of :data:`KINDS`. Another one than before counts from zero.
            patterns: a list of patterns.
            messages: a bool.

        Returns:
            How many functions match the patterns that are new.

        Raises:
            BadArg: a wrong argument; nothing has changed.
        """
        where = "count_live"
        if not isinstance(kind, str) or kind not in KINDS:
            raise BadArg(where, "kind", f"{shown(kind)} is no kind; pass {' or '.join(map(repr, KINDS))}")
        if not isinstance(patterns, list):
            raise BadArg(where, "patterns", f"{shown(patterns)} is no list of patterns; pass one")
        if not isinstance(messages, bool):
            raise BadArg(where, "messages", f"{shown(messages)} is no bool; pass True or False")
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
        # what a pattern covers goes with it
        new = [each for each in wanted if each not in self._patterns or any(covers(pattern, each) for pattern in gone)]
        self._patterns = wanted
        if gone:
            self.profiler.clear_pattern([*gone])
        return self.profiler.set_pattern([*new]) if new else 0

    @property
    def patterns(self) -> list[str]:
        """The patterns in force, as a command takes them."""
        return [show(pattern) for pattern in self._patterns]

    def stop(self) -> None:
        """Nothing is counted any more."""
        self.set(KINDS[0], [], messages=False)


class Messages:
    """Counts what each process sends and receives, from now on."""

    def __init__(self) -> None:
        self.sent: dict[Pid, int] = {}
        self.received: dict[Pid, int] = {}
        self.total = 0
        """Of all processes, also those that have ended, and what the rings had no room for."""
        self.unattributed = 0
        """Messages of that which are no process's, as the rings had no room for them."""
        self._queues: dict[Pid, None] = {}
        self._session = trace.session_create("inviso messages", None, {"ring_bytes": RING, "capture": _CAPTURE})
        self._session.process("all", True, ["send", "receive"])

    def take(self) -> None:
        """Counts what has come since the last time."""
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
        """The queues that something was sent to and that still exist: pid, class, length."""
        found = []
        for pid in list(self._queues):
            queue = object_of(pid)
            if queue is None:
                del self._queues[pid]
            elif (items := length(queue)) is not None:
                found.append((str(pid), pid.name, items))
        return found

    def stop(self) -> None:
        """Messages are counted no longer."""
        self._session.destroy()
