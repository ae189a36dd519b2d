"""Merges the events of several nodes into one sequence: by serials as far as they decide, and by clocks otherwise.

A node's events come with the node's name and an anchor: its monotonic clock and its wall clock at one moment. Serials
are certain. They order events by three rules:

* An event of a process comes after the previous event of that process.
* The receipt of a message comes after its sending. Both have the same label, serial and sender.
* An event before which an event is missing (a message without the flags ``send`` and ``receive``) comes after all
  events of its label with a smaller ``current``. That covers every cause: the counter of a process only grows, and a
  message carries its sender's counter. Without the flag ``receive`` an event may be missing wherever the process has
  received a message before (``previous`` is not 0): serials don't show a second message with the same serial.

Events that these rules leave open are ordered by time.
"""

from __future__ import annotations

import binascii
import heapq
import json
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from inviso import _native
from inviso._native.process import Pid
from inviso._system import Flag, start_new_thread
from inviso.errors import BadArg, shown
from inviso.process import node as own_node
from inviso.process import receive
from inviso.terms import Atom

from ._text import checked, clipped, dropped, format

__all__ = ["Anchor", "Collector", "Entry", "Output", "merge"]

_DEPTH = 200
_BYTES = 1 << 30
_FORM = "inviso_seq_output"
_FAR = 1 << 61  # a counter from here on restarts at a smaller serial


class Anchor(NamedTuple):
    """The two clocks of a node at one moment.

    Attributes:
        monotonic: ns of the clock of monotonic timestamps, which is ``time.monotonic_ns()``.
        wall: ns since 1970.

    >>> anchor = Anchor.now()
    >>> anchor.wall_of(anchor.monotonic + 5) - anchor.wall
    5
    """

    monotonic: int
    wall: int

    @classmethod
    def now(cls) -> Anchor:
        """Reads both clocks of this node: the closest pair of a few readings."""
        readings = []
        for _ in range(5):
            before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            readings.append((after - before, (before + after) // 2, wall))
        _, monotonic, wall = min(readings)
        return cls(monotonic, wall)

    def wall_of(self, monotonic: int) -> int:
        """The wall clock, ns since 1970, at ``monotonic`` ns of the monotonic clock."""
        return self.wall + monotonic - self.monotonic


@dataclass(frozen=True, slots=True, repr=False)
class Output:
    """The events of one node's system tracer. It can be pickled, and written as JSON or in Erlang's external term
    format.

    Attributes:
        node: the node's name.
        anchor: its clocks at one moment.
        events: the tracer's messages in their order: ``("seq_trace", label, info)``, maybe with a timestamp as the
            fourth element.
        dropped: the number of missing events: those beyond the collector's limit, and those lost before it got them.

    Raises:
        BadArg: an attribute has a wrong type or value.

    >>> from inviso import seq_trace
    >>> output = Output("shop@here", Anchor(0, 0), [("seq_trace", 17, ("print", (0, 1), inviso.self(), [], "begin"))])
    >>> Output.from_json(output.to_json()) == Output.from_etf(output.to_etf()) == output
    True
    """

    node: str
    anchor: Anchor
    events: tuple[tuple[Any, ...], ...] = ()
    dropped: int = 0

    def __post_init__(self) -> None:
        where = "Output/4"
        if not isinstance(self.node, str):
            raise BadArg(where, "node", f"{shown(self.node)} is not a name; pass a str, name@host")
        anchor = self.anchor
        if not (isinstance(anchor, tuple) and len(anchor) == 2 and all(type(ns) is int for ns in anchor)):
            raise BadArg(where, "anchor", f"{shown(anchor)} is not a pair of monotonic and wall ns; pass an Anchor")
        if isinstance(self.events, (str, bytes)) or not isinstance(self.events, Iterable):
            raise BadArg(where, "events", f"{shown(self.events)} is not a sequence; pass what the system tracer got")
        events = tuple(checked(where, "events", event) for event in self.events)
        for event in events:
            if len(event) == 4 and _stamp(anchor, event[3]) is None:
                raise BadArg(
                    where, "events", f"{shown(event[3])} is not a time stamp; pass events as the system tracer got them"
                )
        if type(self.dropped) is not int or self.dropped < 0:
            raise BadArg(where, "dropped", f"{shown(self.dropped)} is not a number of events; pass an int from 0 on")
        object.__setattr__(self, "anchor", Anchor(*anchor))
        object.__setattr__(self, "events", events)

    def __repr__(self) -> str:
        lost = f", {self.dropped:,} lost" * bool(self.dropped)
        return f"<Output of {self.node}: {len(self.events):,} event{'s' * (len(self.events) != 1)}{lost}>"

    def _repr_html_(self) -> str:
        from inviso._table import Table

        from ._table import COLUMNS, row, texts

        entries = merge(self)
        begun = min((entry.time for entry in entries if entry.time is not None), default=0)
        rows = [texts(row(entry, begun), COLUMNS) for entry in entries]
        return Table(COLUMNS, rows, (repr(self)[1:-1],), show="ends", numbers=("ms",)).html()

    def to_etf(self) -> bytes:
        """The output in Erlang's external term format: ``{inviso_seq_output, 1, Node, {Monotonic, Wall}, Dropped,
        [Event]}``.
        """
        term = (Atom(_FORM), 1, self.node, tuple(self.anchor), self.dropped, list(self.events))
        return _native.etf.term_to_binary(term)

    @classmethod
    def from_etf(cls, data: bytes) -> Output:
        """Reads the result of :meth:`to_etf`, in any program.

        Raises:
            BadArg: ``data`` is something else.
        """
        where = "from_etf/1"
        if not isinstance(data, bytes):
            raise BadArg(where, "data", f"{type(data).__name__} is not bytes; pass what to_etf() returned")
        try:
            term = _native.etf.binary_to_term(data, _DEPTH, _BYTES)
        except ValueError as why:
            raise BadArg(where, "data", f"{why}; pass what to_etf() returned") from None
        if not (isinstance(term, tuple) and len(term) == 6 and term[:2] == (_FORM, 1)):
            raise BadArg(where, "data", "it is a term, but not an output; pass what to_etf() returned")
        _, _, node, anchor, dropped, events = term
        return cls(node, anchor, events, dropped)

    def to_json(self) -> str:
        """The output as JSON. Each event is there twice: as ``text``, and as ``term``, the external term format in
        base64.
        """
        events = [
            {
                "text": format(event),
                "term": binascii.b2a_base64(_native.etf.term_to_binary(event), newline=False).decode(),
            }
            for event in self.events
        ]
        anchor = {"monotonic_ns": self.anchor.monotonic, "wall_ns": self.anchor.wall}
        return json.dumps({_FORM: 1, "node": self.node, "anchor": anchor, "dropped": self.dropped, "events": events})

    @classmethod
    def from_json(cls, text: str) -> Output:
        """Reads the result of :meth:`to_json`, in any program.

        Raises:
            BadArg: ``text`` is something else.
        """
        try:
            held = json.loads(text)
            if held[_FORM] != 1:
                raise ValueError("it is of another version")
            events = [
                _native.etf.binary_to_term(binascii.a2b_base64(event["term"], strict_mode=True), _DEPTH, _BYTES)
                for event in held["events"]
            ]
            anchor = Anchor(held["anchor"]["monotonic_ns"], held["anchor"]["wall_ns"])
            return cls(held["node"], anchor, events, held["dropped"])  # type: ignore[arg-type]
        except BadArg:
            raise
        except (LookupError, TypeError, ValueError, RecursionError) as why:
            raise BadArg("from_json/1", "text", f"{clipped(str(why), 80)}; pass what to_json() returned") from None


def _set_module(tracer: tuple[Any, Any]) -> None:
    """Makes a tracer module the system tracer again, if it still is a tracer."""
    from inviso.tracer import given

    try:
        _native.seq.set_tracer(None, None, given("Collector/1", tracer))
    except (_native.process.ProcessDead, BadArg):
        _native.seq.set_tracer(None)


class Collector:
    """A process that collects events. Inside a ``with`` block it is the system tracer. After the block the previous
    system tracer is set again.

    It doesn't trace its callers, and they keep their tokens. In a second block it adds to the events that it has.

    Args:
        limit: the number of events to keep; later events, and events that come too fast, are only counted.

    Raises:
        BadArg: ``limit`` is not a number of events.

    >>> from inviso import seq_trace
    >>> with Collector() as collector:
    ...     _ = seq_trace.set_token("print", True)
    ...     seq_trace.print("here")
    ...     output = collector.output()
    >>> output.node, output.events[0][2][4]
    ('nonode@nohost', 'here')
    >>> _ = seq_trace.reset_trace()
    """

    def __init__(self, *, limit: int = 1_000_000) -> None:
        if type(limit) is not int or limit < 1:
            raise BadArg("Collector/1", "limit", f"{shown(limit)} is not a number of events; pass an int from 1 on")
        self._limit = limit
        self._events: list[Any] = []
        self._dropped = 0
        self._before: Pid | _native.trace_port.LogPort | tuple[Any, Any] | None = None
        self._inside = 0
        self._begin()

    def _begin(self) -> None:
        self._is_stopped = False
        self.pid = _native.process.new_process("seq_trace collector")
        begun = Flag()
        start_new_thread(self._run, (begun,))
        begun.wait()

    def __enter__(self) -> Collector:
        if not self._inside:
            if self._is_stopped or not self.pid.is_alive():
                self._begin()
            self._before = _native.seq.set_tracer(self.pid)
        self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
        if self._inside:
            return
        before = self._before
        if _native.seq.tracer() == self.pid:
            if isinstance(before, tuple):
                _set_module(before)
            else:
                # a trace port closes when it is the tracer of no session any more
                _native.seq.set_tracer(before if isinstance(before, Pid) and before.is_alive() else None)
        self._is_stopped = True
        self._ask("stop")

    def output(self) -> Output:
        """The events up to now, with this node's name and clocks."""
        self._ask("report")
        return Output(own_node(), Anchor.now(), tuple(self._events), self._dropped)

    def _ask(self, what: str) -> None:
        """Waits until the process has handled all earlier messages."""
        if self.pid.is_alive():
            seen = Flag()
            _native.relations.put_in(self.pid, (what, seen))
            while not seen.wait(0.1) and self.pid.is_alive():
                pass

    def _run(self, begun: Flag) -> None:
        """The thread's code. ``threading`` doesn't show the thread to the program."""
        _native.process.hide()
        _native.process.become(self.pid)
        begun.set()
        self._collect()

    def _collect(self) -> None:
        while True:
            message = receive()
            if not isinstance(message, tuple) or not message:
                continue
            if message[0] == "seq_trace":
                if len(self._events) < self._limit:
                    self._events.append(message)
                else:
                    self._dropped += 1
            elif message[0] == "drop":
                self._dropped += dropped(message)
            elif message[0] in ("report", "stop"):
                message[1].set()
                if message[0] == "stop":
                    return


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in a merge, at its place among the events of all nodes.

    Attributes:
        node: the name of the node that emitted it.
        event: the message of that node's system tracer.
        time: ns since 1970 by that node's clocks; None for an event without a timestamp.
        by: the reason for its place after the previous entry: ``"serial"``; ``"time"``; or ``"order"``, the order of
            the outputs and of their events, if neither serials nor timestamps decide.
        after: the place in the merge of its latest cause, by the serials of its own process or of its message; None
            without one.

    >>> from inviso import seq_trace
    >>> events = [("seq_trace", 1, ("print", (0, 1), inviso.self(), [], "x"), 7)]
    >>> (entry,) = seq_trace.merge(Output("a@b", Anchor(0, 0), events))
    >>> entry.time, entry.by, entry.after, entry.tag, entry.content
    (7, 'time', None, 'print', 'x')
    """

    node: str
    event: tuple[Any, ...]
    time: int | None
    by: Literal["serial", "time", "order"]
    after: int | None

    @property
    def label(self) -> Any:
        """The token's label."""
        return self.event[1]

    @property
    def tag(self) -> str:
        """``"send"``, ``"receive"`` or ``"print"``."""
        return str(self.event[2][0])

    @property
    def serial(self) -> tuple[int, int]:
        """``(previous, current)``."""
        serial: tuple[int, int] = self.event[2][1]
        return serial

    @property
    def sender(self) -> Any:
        """The process that sent or printed it."""
        return self.event[2][2]

    @property
    def receiver(self) -> Any:
        """The process or queue to which it was sent; ``[]`` for a print."""
        return self.event[2][3]

    @property
    def process(self) -> Any:
        """The process of the event: the receiver for ``"receive"``, else the sender."""
        return self.event[2][3 if self.tag == "receive" else 2]

    @property
    def content(self) -> Any:
        """The message, or the printed value."""
        return self.event[2][4]


def merge(*outputs: Output) -> list[Entry]:
    """Merges the events of several nodes into one sequence, in which no event comes before its cause.

    That holds for every cause that the serials of a label cover, even one without an event, if the label's tokens keep
    the same flags. Serials of different labels are related only by processes that have events of both. Events that
    neither serials nor timestamps order keep the order of the outputs, and of the events in an output. Clocks may be
    wrong by any amount: they decide only where serials don't. Serials that contradict each other, as after a reset, are
    ignored there.

    Raises:
        BadArg: an argument is not an Output.

    >>> from inviso import seq_trace
    >>> me, other = inviso.self(), inviso.spawn(lambda: None)
    >>> sent = ("seq_trace", 17, ("send", (0, 1), me, other, "hello"), 1_000)
    >>> taken = ("seq_trace", 17, ("receive", (0, 1), me, other, "hello"), 500)
    >>> late, early = Output("a@x", Anchor(0, 0), [sent]), Output("b@y", Anchor(0, 0), [taken])
    >>> [(entry.node, entry.time, entry.by, entry.after) for entry in seq_trace.merge(early, late)]
    [('a@x', 1000, 'time', None), ('b@y', 500, 'serial', 0)]
    """
    for output in outputs:
        if not isinstance(output, Output):
            raise BadArg(
                "merge/n", "outputs", f"{clipped(shown(output), 80)} is not an Output; pass Collector.output()'s"
            )
    events = [_Event(output, message) for output in outputs for message in output.events]
    _time(events)
    _relate(events)
    return _placed(events)


class _Event:
    __slots__ = (
        "by_clock", "causes", "clock", "current", "floor", "followers", "label", "message", "node",
        "place", "previous", "process", "sender", "tag", "time", "waits",
    )  # fmt: skip

    def __init__(self, output: Output, message: tuple[Any, ...]) -> None:
        self.node = output.node
        self.message = message
        self.time = _stamp(output.anchor, message[3]) if len(message) == 4 else None
        self.label = key(message[1])
        self.tag, (self.previous, self.current), sender, receiver, _ = message[2]
        self.sender = key(sender)
        self.process = key(receiver) if self.tag == "receive" else self.sender
        self.by_clock = (0, 0)
        self.clock = self.current  # the process's counter at the event, as far as it is known
        self.floor: int | None = None  # the event comes after all events of its label with a smaller clock
        self.causes: list[int] = []
        self.followers: list[int] = []
        self.waits = 0
        self.place = -1


def _stamp(anchor: tuple[int, int], stamp: Any) -> tuple[int, int] | None:
    """Nanoseconds since 1970, and a number that orders equal ones."""
    if type(stamp) is int:
        return anchor[1] + stamp - anchor[0], 0
    if isinstance(stamp, tuple) and all(type(part) is int for part in stamp):
        if len(stamp) == 2:
            return anchor[1] + stamp[0] - anchor[0], stamp[1]
        if len(stamp) == 3:
            return (stamp[0] * 1_000_000 + stamp[1]) * 1_000_000_000 + stamp[2] * 1_000, 0
    return None


def key(value: Any) -> Any:
    """A hashable key of a term. 1 differs from 1.0. An atom equals its str, because an atom of another node may arrive
    as a str.
    """
    if isinstance(value, str):
        return "str", str(value)
    if isinstance(value, (tuple, list)):
        return type(value).__name__, tuple(key(part) for part in value)
    if isinstance(value, dict):
        return "map", frozenset((key(name), key(item)) for name, item in value.items())
    try:
        hash(value)
    except TypeError:
        return "term", _native.etf.term_to_binary(value)
    return type(value).__name__, value


def _time(events: list[_Event]) -> None:
    """Gives each event the time by which it is ordered: its own, or that of the previous event of its node."""
    last: dict[str, tuple[int, int]] = {}
    for event in events:
        if event.time is not None:
            last[event.node] = event.time
        event.by_clock = last.get(event.node, (-(1 << 63), 0))


def _relate(events: list[_Event]) -> None:
    """Finds the causes and the floor of each event, by the serials."""
    last: dict[Any, int] = {}
    counters: dict[Any, tuple[int, int]] = {}
    sent: dict[Any, list[int]] = defaultdict(list)
    taken: dict[Any, int] = defaultdict(int)
    with_receipts = {event.label for event in events if event.tag == "receive"}
    for n, event in enumerate(events):
        if event.tag == "send":
            sent[event.label, event.sender, event.previous, event.current].append(n)
    for n, event in enumerate(events):
        if event.process in last:
            event.causes.append(last[event.process])
        last[event.process] = n
        previous, current = counters.get(event.process, (0, 0))
        if event.tag == "receive":
            began_anew = current >= _FAR > event.current
            event.clock = event.current if began_anew else max(current, event.current)
            counters[event.process] = event.current, event.clock
            name = (event.label, event.sender, event.previous, event.current)
            sendings = sent.get(name)
            if sendings:
                # a serial is used again after a reset
                event.causes.append(sendings[min(taken[name, event.process], len(sendings) - 1)])
                taken[name, event.process] += 1
            else:
                event.floor = event.current
        else:
            may_have_received = event.previous != 0 and event.label not in with_receipts
            if may_have_received or (event.previous, event.current) != (previous, current + 1):
                event.floor = event.current
            counters[event.process] = event.previous, event.current


def _placed(events: list[_Event]) -> list[Entry]:
    levels = _levels(events)
    followers: dict[Any, list[int]] = defaultdict(list)  # by label and level
    for n, event in enumerate(events):
        event.waits = len(event.causes)
        for cause in event.causes:
            events[cause].followers.append(n)
        if event.floor is not None:
            clocks = levels[event.label]
            below = bisect_left(clocks, event.floor)
            if below:
                event.waits += 1
                followers[event.label, clocks[below - 1]].append(n)
    # for each label the number of events that are missing at each level, and the level that is reached
    missing: dict[Any, int] = defaultdict(int)
    reached: dict[Any, int] = defaultdict(int)
    for event in events:
        if event.label in levels:
            missing[event.label, event.clock] += 1
    ready = [(event.by_clock, n) for n, event in enumerate(events) if not event.waits]
    heapq.heapify(ready)
    stuck = iter(sorted((event.by_clock, n) for n, event in enumerate(events)))
    merged: list[Entry] = []
    before: _Event | None = None

    def release(n: int) -> None:
        events[n].waits -= 1
        if events[n].waits == 0 and events[n].place < 0:
            heapq.heappush(ready, (events[n].by_clock, n))

    while len(merged) < len(events):
        if not ready:  # some serials contradict each other
            ready.append(next(item for item in stuck if events[item[1]].place < 0))
        _, n = heapq.heappop(ready)
        event = events[n]
        if event.place >= 0:
            continue
        event.place = len(merged)
        merged.append(_entry(event, before, events))
        before = event
        for follower in event.followers:
            release(follower)
        if event.label in levels:
            missing[event.label, event.clock] -= 1
            clocks = levels[event.label]
            while reached[event.label] < len(clocks) and not missing[event.label, clocks[reached[event.label]]]:
                for follower in followers[event.label, clocks[reached[event.label]]]:
                    release(follower)
                reached[event.label] += 1
    return merged


def _levels(events: list[_Event]) -> dict[Any, list[int]]:
    """For each label with a missing event, the clocks of its events, sorted."""
    clocks: dict[Any, set[int]] = {event.label: set() for event in events if event.floor is not None}
    for event in events:
        if event.label in clocks:
            clocks[event.label].add(event.clock)
    return {label: sorted(found) for label, found in clocks.items()}


def _entry(event: _Event, before: _Event | None, events: list[_Event]) -> Entry:
    by: Literal["serial", "time", "order"] = "order"
    if before is not None and _follows(event, before, events):
        by = "serial"
    elif event.time is not None and (before is None or before.time is not None):
        by = "time"
    after = max((events[cause].place for cause in event.causes), default=-1)
    moment = None if event.time is None else event.time[0]
    return Entry(event.node, event.message, moment, by, after if after >= 0 else None)


def _follows(event: _Event, before: _Event, events: list[_Event]) -> bool:
    if any(events[cause] is before for cause in event.causes):
        return True
    return event.floor is not None and before.label == event.label and before.clock < event.floor
