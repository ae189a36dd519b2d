"""Shared by the tests of ``inviso.export``: a model of traces, and readers that are independent of the writers."""

from __future__ import annotations

import functools
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import inviso
from hypothesis import strategies as st
from inviso import _native

MODULE = "shop.orders"


@functools.cache
def pid(number: int) -> inviso.Pid:
    """A process that does nothing."""
    return _native.process.new_process("")


def mfa(name: str) -> tuple[str, str, int]:
    return MODULE, name, 1


def log(path: Path, messages: list[Any]) -> Path:
    """A log in Erlang's form, written here."""
    with path.open("wb") as file:
        for message in messages:
            if message[0] == "drop":
                file.write(struct.pack(">BI", 1, message[1]))
            else:
                term = _native.etf.term_to_binary(message)
                file.write(struct.pack(">BI", 0, len(term)) + term)
    return path


@dataclass
class Call:
    """A call that ended: its process, function, time, kind of end, and the calls inside it."""

    name: str
    begin: int = 0
    end: int = 0
    raised: bool = False
    inner: list[Call] = field(default_factory=list)

    def shape(self) -> Any:
        return self.name, self.begin, self.end, [call.shape() for call in self.inner]

    def own(self) -> int:
        return self.end - self.begin - sum(call.end - call.begin for call in self.inner)


calls = st.recursive(
    st.builds(Call, st.sampled_from("abc"), raised=st.booleans()),
    lambda inner: st.builds(Call, st.sampled_from("abc"), raised=st.booleans(), inner=st.lists(inner, max_size=3)),
    max_leaves=12,
)
processes = st.lists(st.lists(calls, min_size=1, max_size=3), min_size=1, max_size=4)


def events(process: inviso.Pid, call: Call) -> Iterator[tuple[Call, str, tuple[Any, ...]]]:
    yield call, "begin", (process, "call", (MODULE, call.name, ["x"]))
    for inner in call.inner:
        yield from events(process, inner)
    if call.raised:
        yield call, "end", (process, "exception_from", mfa(call.name), ("error", "no"))
    else:
        yield call, "end", (process, "return_from", mfa(call.name), "ok")


def interleaved(trees: list[list[Call]], draw: Any, start: int = 1_000) -> list[Any]:
    """The messages of all processes, in some order that keeps each process's own; the calls get their times."""
    rest = [[event for call in tree for event in events(pid(n), call)] for n, tree in enumerate(trees)]
    messages, now = [], start
    while any(rest):
        lane = rest[draw(st.sampled_from([n for n, events in enumerate(rest) if events]))]
        call, which, parts = lane.pop(0)
        now += draw(st.integers(0, 2_000_000))
        setattr(call, which, now)
        messages.append(("trace_ts", *parts, now))
    return messages


def model_of_stacks(trees: list[list[Call]]) -> dict[str, int]:
    """The elements of a flame graph."""
    found: Counter[str] = Counter()

    def walk(path: tuple[str, ...], call: Call) -> None:
        path = (*path, f"{MODULE}:{call.name}/1")
        found[";".join(path)] += call.own()
        for inner in call.inner:
            walk(path, inner)

    for tree in trees:
        for call in tree:
            walk((), call)
    return {stack: value for stack, value in found.items() if value}


def model_of_costs(trees: list[list[Call]]) -> dict[str, Any]:
    """Calls, primitive calls, own and cumulative nanoseconds, and calls by caller, of each function."""
    found: dict[str, Any] = defaultdict(lambda: [0, 0, 0, 0, Counter()])

    def walk(path: tuple[str, ...], call: Call) -> None:
        cost = found[call.name]
        cost[0] += 1
        cost[2] += call.own()
        if call.name not in path:
            cost[1] += 1
            cost[3] += call.end - call.begin
        if path:
            cost[4][path[-1]] += 1
        for inner in call.inner:
            walk((*path, call.name), inner)

    for tree in trees:
        for call in tree:
            walk((), call)
    return dict(found)


def tree(steps: list[tuple[str, str, int]]) -> list[Any]:
    """Well-nested steps ``(kind, name, time)``, kind ``open`` or ``close``, as nested shapes; fails if they aren't."""
    top: list[Any] = []
    open_: list[tuple[str, int, list[Any]]] = []
    last = None
    for kind, name, at in steps:
        assert last is None or at >= last, "time goes backwards"
        last = at
        if kind == "open":
            open_.append((name, at, []))
        else:
            assert open_, f"{name} closes nothing"
            opened, begin, inner = open_.pop()
            assert opened == name, f"{name} closes {opened}"
            (open_[-1][2] if open_ else top).append((name, begin, at, inner))
    assert not open_, f"{open_} are not closed"
    return top


def short(name: str) -> str:
    return name.removeprefix(f"{MODULE}:").removesuffix("/1")


# A decoder of protobuf's wire format: field numbers and their contents, without a schema.


def fields(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        value: Any
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 1:
            (value,) = struct.unpack_from("<Q", data, at)
            at += 8
        else:
            assert key & 7 == 2
            length = varint()
            value = data[at : at + length]
            assert len(value) == length
            at += length
        found[key >> 3].append(value)
    return found


@dataclass
class Slice:
    """An event of a Perfetto track."""

    type: int
    track: int
    at: int
    name: str
    category: str
    notes: dict[str, str]
    flows: list[int]
    ended_flows: list[int]
    value: int | None


@dataclass
class Perfetto:
    """The part of a Perfetto trace that the tests read."""

    tracks: dict[int, str] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    events: list[Slice] = field(default_factory=list)
    clock: int | None = None

    def track(self, number: int) -> str:
        return self.tracks[number]


def read_perfetto(data: bytes) -> Perfetto:
    trace = Perfetto()
    interned: dict[int, dict[int, str]] = {1: {}, 2: {}, 3: {}}
    for packet in fields(data)[1]:
        parts = fields(packet)
        assert parts[10] == [1]
        if 6 in parts:
            trace.clock = fields(parts[6][0])[2][0]
        if 60 in parts:
            track = fields(parts[60][0])
            name = track[2][0].decode() if 2 in track else fields(track[3][0])[6][0].decode()
            trace.tracks[track[1][0]] = name
            if 5 in track:
                assert track[5][0] in trace.tracks, "a parent comes before its children"
                trace.parents[track[1][0]] = track[5][0]
        for entry in parts.get(12, []):
            for space, names in fields(entry).items():
                for name in names:
                    one = fields(name)
                    assert one[1][0] not in interned[space]
                    interned[space][one[1][0]] = one[2][0].decode()
        if 11 in parts:
            event = fields(parts[11][0])
            assert event[11][0] in trace.tracks, "a track is described before its events"
            notes = {}
            for note in event.get(4, []):
                one = fields(note)
                notes[interned[3][one[1][0]]] = one[6][0].decode()
            name = interned[2][event[10][0]] if 10 in event else ""
            category = interned[1][event[3][0]] if 3 in event else ""
            flows, ended = event.get(47, []), event.get(48, [])
            counter = event[30][0] if 30 in event else None
            trace.events.append(
                Slice(event[9][0], event[11][0], parts[8][0], name, category, notes, flows, ended, counter)
            )
    return trace


def call_and_return(calls: int, functions: int) -> list[Any]:
    """Successive calls of this number of functions by four processes."""
    messages: list[Any] = []
    for n in range(calls):
        name, who = f"f{n % functions}", pid(n % 4)
        messages.append(("trace_ts", who, "call", (MODULE, name, [n]), 10 * n))
        messages.append(("trace_ts", who, "return_from", mfa(name), "ok", 10 * n + 5))
    return messages
