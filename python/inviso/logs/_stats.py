"""Counts the messages of a log by tag, function and process, its losses, and its span of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from inviso._native.log import stats as log_stats
from inviso._native.process import Pid
from inviso.terms import Port

from ._read import Damage, Drop, Source, _damage, named

KEPT_DAMAGE = 1000
"""The number of :class:`Damage` that are kept; the rest is only counted."""


@dataclass(slots=True, repr=False)
class Stats:
    """The result of :func:`stats`.

    Attributes:
        messages: the number of trace and seq_trace messages, and of other terms in the log.
        tags: messages by tag; ``"seq_trace"`` for all seq_trace messages, ``"other"`` for other terms.
        functions: ``call`` messages by (module, function, number of parameters).
        processes: messages by traced process, a Pid or Port.
        drops, dropped: the number of drop records, and of the lost messages that they count.
        damage, damaged: the first thousand :class:`Damage`, and the number of all.
        bytes: the size of all records, as Erlang writes them.
        clock: ``"wall"`` or ``"monotonic"``, by the first timestamp; None without timestamps.
        first, last: the smallest and the largest timestamp of that clock, in nanoseconds.
    """

    messages: int = 0
    tags: Counter[str] = field(default_factory=Counter)
    functions: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    processes: Counter[Any] = field(default_factory=Counter)
    drops: int = 0
    dropped: int = 0
    damage: list[Damage] = field(default_factory=list)
    damaged: int = 0
    bytes: int = 0
    clock: str | None = None
    first: int | None = None
    last: int | None = None

    def __repr__(self) -> str:
        lost = f", {self.dropped:,} lost" * bool(self.dropped)
        return f"<Stats of {self.messages:,} messages, {self.damaged:,} damaged{lost}>"

    def _repr_html_(self) -> str:
        from inviso._table import Table

        parts: list[tuple[str, Counter[Any]]] = [
            ("tag", self.tags),
            ("function", self.functions),
            ("process", self.processes),
        ]
        rows = [
            (kind, "{}:{}/{}".format(*key) if isinstance(key, tuple) else str(key), f"{count:,}")
            for kind, counter in parts
            for key, count in counter.most_common(10)
        ]
        return Table(("", "name", "messages"), rows, (repr(self)[1:-1],), numbers=("messages",)).html()

    @property
    def seconds(self) -> float | None:
        """Seconds between the first and the last timestamp."""
        return None if self.first is None or self.last is None else (self.last - self.first) / 1e9

    def add(self, message: Any) -> None:
        """Counts one message, drop record or damage."""
        if type(message) is Damage:
            self.damaged += 1
            if len(self.damage) < KEPT_DAMAGE:
                self.damage.append(message)
            return
        if type(message) is Drop:
            self.drops += 1
            self.dropped += message.n
            return
        self.messages += 1
        # without `match`, which would take most of the time here
        if type(message) is tuple and len(message) > 2:
            head, tracee, tag, *rest = message
            if head in ("trace", "trace_ts") and isinstance(tag, str) and isinstance(tracee, (Pid, Port)):
                self.tags[tag] += 1
                self.processes[tracee] += 1
                if tag == "call" and rest:
                    self._call(rest[0])
                if head == "trace_ts":
                    self._time(message[-1])
                return
            if head == "seq_trace":
                self.tags["seq_trace"] += 1
                if rest:
                    self._time(rest[-1])
                return
        self.tags["other"] += 1

    def _call(self, mfa: Any) -> None:
        if type(mfa) is not tuple or len(mfa) != 3:
            return
        module, function, arity = mfa
        if type(arity) is list:
            arity = len(arity)
        if isinstance(module, str) and isinstance(function, str) and type(arity) is int:
            self.functions[module, function, arity] += 1

    def _time(self, stamp: Any) -> None:
        found = ("monotonic", stamp) if type(stamp) is int else time_of(stamp)
        if found is None:
            return
        clock, ns = found
        self.clock = self.clock or clock
        if clock == self.clock:
            self.first = ns if self.first is None else min(self.first, ns)
            self.last = ns if self.last is None else max(self.last, ns)


def time_of(stamp: Any) -> tuple[str, int] | None:
    """The clock of a timestamp, and its nanoseconds; None if the value is not a timestamp.

    >>> time_of((1, 2, 3)), time_of(7), time_of((7, 1)), time_of("now")
    (('wall', 1000002000003000), ('monotonic', 7), ('monotonic', 7), None)
    """
    match stamp:
        case bool():
            return None
        case int():
            return "monotonic", stamp
        case (int(ns), int()):
            return "monotonic", ns
        case (int(megas), int(seconds), int(micros)):
            return "wall", ((megas * 1_000_000 + seconds) * 1_000_000 + micros) * 1000
    return None


def stats(source: Source) -> Stats:
    """Counts the messages of a log.

    Args:
        source: as for :func:`inviso.log.read`.

    Raises:
        BadArg, OSError: as there.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> with open(path, "wb") as file: _ = file.write(bytes([0, 0, 0, 0, 3, 131, 97, 7, 1, 0, 0, 0, 9]))
    >>> found = stats(path)
    >>> found.messages, found.dropped, found.bytes, found.tags
    (1, 9, 13, Counter({'other': 1}))
    """
    numbers, tags, functions, processes, damage, clock, first, last = log_stats(named("stats/1", "source", source))
    messages, other, seq, drops, dropped, damaged, size = numbers
    counted = Counter(dict(tags))
    for tag, count in (("seq_trace", seq), ("other", other)):
        if count:
            counted[tag] += count
    return Stats(
        messages=messages,
        tags=counted,
        functions=Counter(dict(functions)),
        processes=Counter(dict(processes)),
        drops=drops,
        dropped=dropped,
        damage=[_damage(*one) for one in damage],
        damaged=damaged,
        bytes=size,
        clock=clock,
        first=first,
        last=last,
    )
