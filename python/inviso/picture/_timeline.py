"""The timeline of calls, messages and processes: a track for each process, its calls in rows by depth, messages as
arrows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import BadArg, shown
from ._boxes import EXCEPTION, LOST, MERGED, OPEN, Arrow, Box, Boxes, Track
from ._rows import Number, Rows, number, read
from ._text import amount, clean, plural, share

__all__ = ["Timeline", "table", "timeline_boxes"]

_CALLS = (
    ("process_id", "process", "pid"), ("function", "function_name"), ("start_mono_ns", "start"),
    ("duration_ns", "duration"), ("depth",), ("outcome",), ("module",), ("name",), ("function_id",),
)  # fmt: skip
_MESSAGES = (
    ("sender_id", "sender"), ("receiver_id", "receiver"), ("sent_mono_ns", "sent"), ("wait_ns", "wait"),
    ("message_id",),
)  # fmt: skip
_PROCESSES = (("process_id", "process", "pid"), ("name",), ("kind",), ("node",))
_FUNCTIONS = (("function_id",), ("module",), ("name",), ("arity",))
_MARKS = {"exception": EXCEPTION, "open": OPEN, "lost": LOST}
_TRACKS = 500  # processes that are drawn
_DEPTH = 100  # rows of a track
_ARROWS = 20_000
_FINENESS = 4_000  # steps of the whole time; omitted calls within a step are combined


class _Call(NamedTuple):
    start: Number
    duration: Number
    name: int
    depth: int | None
    mark: int


@dataclass(slots=True)
class _Process:
    name: str
    kind: str
    node: str
    calls: list[_Call]
    messages: int = 0
    since: Number | None = None

    def busy(self) -> int:
        return len(self.calls) + self.messages

    def seen(self, at: Number) -> None:
        if self.since is None or at < self.since:
            self.since = at


@dataclass(slots=True)
class Timeline:
    """A timeline: its boxes, the numbers of its calls and messages, and notes on omitted parts."""

    boxes: Boxes
    notes: list[str]
    calls: int = 0
    messages: int = 0
    processes: int = 0


class _Reading:
    """The input: processes by id, names of functions, messages, and counts of those that could not be placed."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.processes: dict[Hashable, _Process] = {}
        self.names: dict[str, int] = {}
        self.messages: list[tuple[Hashable, Hashable, Number, Number | None, str]] = []
        self.begin: Number | None = None
        self.end: Number | None = None
        self.missing: dict[str, int] = defaultdict(int)
        self.opened: list[tuple[_Process, Number, int, int | None]] = []

    def time(self, argument: str, value: Any, what: str) -> Number | None:
        return number(self.where, argument, value, what)

    def process(self, id: Hashable, argument: str, at: int) -> _Process:
        try:
            found = self.processes.get(id)
        except TypeError:
            raise BadArg(
                self.where, argument, f"row {at}: {shown(id)} can't be a process's id; pass an int, a str or a Pid"
            ) from None
        if found is None:
            name = f"process {id}" if isinstance(id, int) else clean(id) or "(no process)"
            found = self.processes[id] = _Process(name, "", "", [])
        return found

    def reach(self, begin: Number, end: Number) -> None:
        self.begin = begin if self.begin is None or begin < self.begin else self.begin
        self.end = end if self.end is None or end > self.end else self.end

    def read_processes(self, rows: Rows) -> None:
        for at, (id, name, kind, node) in enumerate(read(self.where, "processes", rows, _PROCESSES, 1)):
            process = self.process(id, "processes", at)
            process.name, process.kind, process.node = clean(name) or process.name, clean(kind), clean(node)

    def read_calls(self, rows: Rows, functions: dict[Any, str]) -> None:
        texts: dict[tuple[Any, Any, Any, Any], int] = {}
        for at, row in enumerate(read(self.where, "calls", rows, _CALLS, 3)):
            id, function, start, duration, depth, outcome, module, name, function_id = row
            start = self.time("calls", start, f"row {at}, start_mono_ns")
            if start is None:
                self.missing["a call without a start"] += 1
                continue
            duration = self.time("calls", duration, f"row {at}, duration_ns")
            if duration is not None and duration < 0:
                raise BadArg(
                    self.where,
                    "calls",
                    f"row {at}: a duration of {shown(duration)}; pass one of at least 0, or None for an open call",
                )
            depth = self.time("calls", depth, f"row {at}, depth")
            process = self.process(id, "calls", at)
            key = (function, module, name, function_id)
            number_of_name = texts.get(key)
            if number_of_name is None:
                text = (
                    clean(function)
                    or functions.get(function_id)
                    or (f"{clean(module)}:{clean(name)}" if module else clean(name))
                )
                number_of_name = texts[key] = self.names.setdefault(text or "(no name)", len(self.names))
            process.seen(start)
            if duration is None:
                self.opened.append((process, start, number_of_name, None if depth is None else int(depth)))
                self.reach(start, start)
            else:
                process.calls.append(
                    _Call(
                        start, duration, number_of_name, None if depth is None else int(depth), _MARKS.get(outcome, 0)
                    )
                )
                self.reach(start, start + duration)

    def read_messages(self, rows: Rows) -> None:
        for at, (sender, receiver, sent, wait, id) in enumerate(read(self.where, "messages", rows, _MESSAGES, 3)):
            sent = self.time("messages", sent, f"row {at}, sent_mono_ns")
            wait = self.time("messages", wait, f"row {at}, wait_ns")
            if sent is None or (sender is None and receiver is None):
                self.missing["a message without a time or without anybody"] += 1
                continue
            ends = ((sender, sent), (receiver, sent if wait is None else sent + wait))
            for process, moment in ends:
                if process is not None:
                    one = self.process(process, "messages", at)
                    one.messages += 1
                    one.seen(moment)
            moments = [moment for _, moment in ends]
            self.reach(min(moments), max(moments))
            self.messages.append((sender, receiver, sent, wait, "" if id is None else f"message {clean(id)}"))

    def close(self) -> None:
        """Ends open calls at the time of the last event."""
        for process, start, name, depth in self.opened:
            process.calls.append(_Call(start, (self.end or 0) - start, name, depth, OPEN))


def timeline_boxes(
    where: str, calls: Rows, messages: Rows | None, processes: Rows | None, functions: Rows | None, limit: int
) -> Timeline:
    """Lays out tracks and rows, with at most ``limit`` calls. The shorter ones are combined if they are close.

    Raises:
        BadArg: see :func:`inviso.picture.timeline`.
    """
    reading = _Reading(where)
    if processes is not None:
        reading.read_processes(processes)
    reading.read_calls(calls, {} if functions is None else _function_names(where, functions))
    if messages is not None:
        reading.read_messages(messages)
    reading.close()
    notes = [f"{plural(count, what[2:], _many(what))}: left out" for what, count in reading.missing.items()]
    origin = reading.begin or 0
    boxes = Boxes((reading.end or 0) - origin, "ns", list(reading.names))
    made = Timeline(boxes, notes, messages=len(reading.messages))
    shown_processes = _chosen(reading, notes)
    made.processes = len(shown_processes)
    tracks = {}
    depths = 0
    for id, process in shown_processes:
        tracks[id] = len(boxes.tracks)
        name = f"{process.name} · {process.node}" if process.node else process.name
        boxes.tracks.append(Track(name, len(boxes.rows), process.kind))
        boxes.rows.append([])
        made.calls += len(process.calls)
        rows, deeper = _rows_of(process.calls, origin)
        boxes.rows += rows
        depths += deeper
    if depths:
        notes.append(f"{plural(depths, 'call')} deeper than {_DEPTH} rows: left out")
    _put_together(boxes, limit, notes)
    _arrows(reading, tracks, origin, boxes, notes)
    return made


def _many(what: str) -> str:
    return what[2:].replace("call", "calls", 1).replace("message", "messages", 1)


def _function_names(where: str, rows: Rows) -> dict[Any, str]:
    names = {}
    for id, module, name, arity in read(where, "functions", rows, _FUNCTIONS, 3):
        names[id] = f"{clean(module)}:{clean(name)}" + ("" if arity is None else f"/{arity}")
    return names


def _chosen(reading: _Reading, notes: list[str]) -> list[tuple[Hashable, _Process]]:
    """The processes with calls or messages, only the busiest if there are too many, in the order of node and first
    event.
    """
    active = [(id, process) for id, process in reading.processes.items() if process.since is not None]
    if idle := len(reading.processes) - len(active):
        notes.append(f"{plural(idle, 'process', 'processes')} without a call or message: left out")
    if len(active) > _TRACKS:
        notes.append(f"{plural(len(active) - _TRACKS, 'process', 'processes')} that did least: left out")
        active = sorted(active, key=lambda item: item[1].busy(), reverse=True)[:_TRACKS]
    return sorted(active, key=lambda item: (item[1].node, item[1].since or 0))


def _rows_of(calls: list[_Call], origin: Number) -> tuple[list[list[Box]], int]:
    """Boxes by depth, and the number of calls that are too deep. Calls without a depth are nested by their times."""
    calls.sort(key=lambda call: (call.start, -call.duration))
    least = min((call.depth for call in calls if call.depth is not None), default=0)
    rows: list[list[Box]] = []
    ends: list[Number] = []
    deeper = 0
    for call in calls:
        while ends and ends[-1] <= call.start:
            ends.pop()
        depth = len(ends) if call.depth is None else call.depth - least
        ends.append(call.start + call.duration)
        if depth >= _DEPTH:
            deeper += 1
            continue
        while len(rows) <= depth:
            rows.append([])
        rows[depth].append(Box(call.start - origin, call.duration, call.name, call.mark))
    return rows, deeper


def _put_together(boxes: Boxes, limit: int, notes: list[str]) -> None:
    """Keeps the longest calls. Others that are close to each other become one box."""
    total = boxes.count()
    if total <= limit:
        return
    widths = sorted((box.width for row in boxes.rows for box in row), reverse=True)
    least = widths[limit * 3 // 4]
    gap: float = boxes.span / _FINENESS
    merged: list[list[list[Box]]] = []
    while True:
        merged = [_runs([box for box in row if box.width <= least], gap) for row in boxes.rows]
        if sum(map(len, merged)) <= limit // 4 or gap > boxes.span:
            break
        gap *= 4
    labels: dict[int, int] = {}
    for at, runs in enumerate(merged):
        row = [box for box in boxes.rows[at] if box.width > least]
        for run in runs:
            if len(run) == 1:
                row += run
                continue
            name = labels.setdefault(len(run), len(boxes.names))
            if name == len(boxes.names):
                boxes.names.append(f"{len(run):,} short calls")
            row.append(Box(run[0].x, max(box.x + box.width for box in run) - run[0].x, name, MERGED))
        boxes.rows[at] = sorted(row)
    count = sum(len(run) for runs in merged for run in runs if len(run) > 1)
    notes.append(f"{plural(count, 'call')} of at most {amount(least, 'ns')} stand together as “… short calls”")


def _runs(row: list[Box], gap: float) -> list[list[Box]]:
    runs: list[list[Box]] = []
    end: Number = 0
    for box in row:
        if runs and box.x - end <= gap:
            runs[-1].append(box)
        else:
            runs.append([box])
        end = box.x + box.width
    return runs


def _arrows(reading: _Reading, tracks: dict[Hashable, int], origin: Number, boxes: Boxes, notes: list[str]) -> None:
    ranked = sorted(reading.messages, key=lambda message: -(message[3] or 0))
    elsewhere = 0
    for sender, receiver, sent, wait, name in ranked[:_ARROWS]:
        ends = [-1 if process is None else tracks.get(process, -1) for process in (sender, receiver)]
        if ends == [-1, -1]:
            elsewhere += 1
        else:
            boxes.arrows.append(Arrow(ends[0], ends[1], sent - origin, wait, name))
    if elsewhere:
        notes.append(f"{plural(elsewhere, 'message')} between processes that are left out: left out, too")
    if len(ranked) > _ARROWS:
        notes.append(f"{plural(len(ranked) - _ARROWS, 'message')} that waited least: left out")
    if alone := sum(1 for sender, receiver, _, wait, _ in reading.messages if None in (sender, receiver, wait)):
        notes.append(f"{plural(alone, 'message')} whose other end is not known: drawn as stubs")


def table(made: Timeline, most: int) -> tuple[list[str], list[list[str]]]:
    """A table of the longest calls."""
    boxes = made.boxes
    starts = [track.row for track in boxes.tracks] + [len(boxes.rows)]
    found = []
    for at, track in enumerate(boxes.tracks):
        for row in boxes.rows[starts[at] : starts[at + 1]]:
            found += [
                (box.width, box.x, track.name, boxes.names[box.name], box.mark) for box in row if box.mark != MERGED
            ]
    found.sort(key=lambda one: (-one[0], one[1]))
    words = {EXCEPTION: "exception", OPEN: "open", LOST: "end lost"}
    heads = ["process", "call", "begins after", "took", "", "ended by"]
    return heads, [
        [process, name, amount(x, "ns"), amount(width, "ns"), share(width, boxes.span), words.get(mark, "return")]
        for width, x, process, name, mark in found[:most]
    ]
