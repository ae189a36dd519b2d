"""Makes rates of two answers of a node. No input or output.

An answer has totals since counting began, and the time at which they were read (:mod:`inviso.runtime._sample`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["SORTS", "Function", "Node", "Process", "Queue", "Rates", "ordered", "ordered_functions"]

MOST = 1000
"""Rows of a kind that an answer has at most. So a new row may have been left out of the answer before."""

SORTS = ("queue", "messages", "calls", "time", "name")
"""Orders of processes: the largest first, but names in ascending order."""


@dataclass(frozen=True, slots=True)
class Process:
    """A thread or task. Rates are per second. None: not counted, or not known yet."""

    pid: str
    kind: str
    """``"thread"`` or ``"task"``."""
    name: str
    queue: int
    """Messages that wait in its mailbox."""
    sent: float | None
    received: float | None
    calls: float | None
    time: float | None
    """Own time in the counted functions, in seconds per second."""

    @property
    def messages(self) -> float | None:
        """Messages that it sends and receives per second.

        >>> Process("<0.4.0>", "thread", "MainThread", 0, 2.0, 3.0, None, None).messages
        5.0
        """
        return None if self.sent is None or self.received is None else self.sent + self.received


@dataclass(frozen=True, slots=True)
class Function:
    """A counted function: calls and own seconds, per second."""

    name: str
    calls: float | None
    time: float | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that got a message, and its number of items."""

    pid: str
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Node:
    """The state and rates of a node."""

    state: str
    """``"new"``, ``"tracing"``, ``"idle"``; ``"-"`` without a runtime component."""
    status: str
    """``"running"``, or the reason of its suspension."""
    control: str
    """The control that has it, with its process id; ``"-"`` without one."""
    counted: tuple[str, ...]
    """Patterns of the functions that are counted."""
    messages: float | None
    """Messages that its processes send and receive, per second."""
    unattributed: float | None
    """The part of ``messages`` that is in no process's row, as the rings had no room for them."""
    records: float
    """Records that are written to its log, per second."""
    lost: int
    """Records that were lost since tracing began."""
    lag: int | None
    """Milliseconds of the slowest event loop to its next callback; None without a loop."""
    process_count: int
    processes: tuple[Process, ...]
    queues: tuple[Queue, ...]
    functions: tuple[Function, ...]
    own: tuple[Function, ...] | None = None
    """Functions of the requested process."""

    @property
    def queue(self) -> int:
        """The longest mailbox or queue."""
        return max([*(each.queue for each in self.processes), *(each.length for each in self.queues)], default=0)


class Rates:
    """Makes rates of a node's answers, one after the other.

    >>> counts = {"at": 0, "processes": [], "process_count": 0, "queues": [], "total": None, "unattributed": None,
    ...     "functions": [("shop", "buy", 1, 10, 5_000_000)]}
    >>> answer = {"at": 0, "state": None, "control": None, "written": 0, "lost": 0, "lag": None, "kind": "call_time",
    ...     "patterns": ["shop:_:_"], "messages": False, "own": None, "counts": counts}
    >>> rates = Rates()
    >>> rates.add(answer).functions
    (Function(name='shop:buy/1', calls=None, time=None),)
    >>> later = {**counts, "at": 2_000_000_000, "functions": [("shop", "buy", 1, 110, 1_005_000_000)]}
    >>> rates.add({**answer, "at": 2_000_000_000, "counts": later}).functions
    (Function(name='shop:buy/1', calls=50.0, time=0.5),)
    """

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None
        self._counts: tuple[dict[str, Any], dict[str, Any]] | None = None
        """The last two counts that differ."""
        self._own = _Own()

    def add(self, answer: Any, process: str | None = None) -> Node:
        """The rates between this answer and the one before. ``process``: the process whose functions were requested.

        Raises:
            ValueError: the answer is malformed: the node may have another version.
        """
        try:
            return self._add(answer, process)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is not a sample: {type(error).__name__}: {error}") from None

    def _add(self, answer: dict[str, Any], process: str | None) -> Node:
        before, counts = self._before, answer["counts"]
        what = _counted(answer)
        if before is not None and _counted(before) != what:
            self._counts, before = None, None
        last = None if before is None else before["counts"]
        if last is not None and last["at"] != counts["at"]:
            self._counts = last, counts
        old, new = self._counts or (None, counts)
        state, status = answer["state"] or ("-", "-")
        control = answer["control"]
        own = None if answer["own"] is None else self._own.add(answer["own"], counts["at"], (process, what))
        node = Node(
            state=str(state),
            status=status if isinstance(status, str) else f"suspended: {_text(status[1])}",
            control="-" if control is None else f"{control[0]} ({control[1]})",
            counted=tuple(map(str, answer["patterns"])),
            messages=_rate(old, new, "total"),
            unattributed=_rate(old, new, "unattributed"),
            records=_per_second(_number(before, "written"), answer["written"], _seconds(before, answer)) or 0.0,
            lost=int(answer["lost"]),
            lag=None if answer["lag"] is None else int(answer["lag"]),
            process_count=int(new["process_count"]),
            processes=tuple(_processes(old, new)),
            queues=tuple(Queue(str(pid), str(name), int(length)) for pid, name, length in new["queues"]),
            functions=tuple(_functions(old, new, answer["kind"])),
            own=own,
        )
        self._before = answer
        return node


class _Own:
    """Makes rates of the functions of the requested process."""

    def __init__(self) -> None:
        self._of: Any = None
        self._at = 0
        self._totals: dict[str, tuple[int, int | None]] = {}
        self._rows: tuple[Function, ...] = ()

    def add(self, rows: Any, at: int, of: Any) -> tuple[Function, ...]:
        """The rates between these totals and those before. ``of``: the process, and the counters' settings."""
        if of == self._of and at == self._at:
            return self._rows
        seconds = (at - self._at) / 1e9 if of == self._of else 0.0
        totals = {_name_of(row): (int(row[3]), row[4]) for row in rows}
        found = []
        for name, (calls, took) in totals.items():
            before = self._totals.get(name, (0, 0))
            found.append(Function(name, _per_second(before[0], calls, seconds), _share(before[1], took, seconds)))
        self._of, self._at, self._totals, self._rows = of, at, totals, tuple(found)
        return self._rows


def ordered(processes: Iterable[Process], by: str) -> list[Process]:
    """Processes ordered by one of :data:`SORTS`.

    >>> short, long = (Process(f"<0.{n}.0>", "task", f"t{n}", n, None, None, None, None) for n in (1, 2))
    >>> [each.name for each in ordered([short, long], "queue")]
    ['t2', 't1']
    """
    return _ordered(processes, by, lambda each: each.name)


def ordered_functions(functions: Iterable[Function], by: str) -> list[Function]:
    """Functions ordered by ``"calls"``, ``"time"`` or ``"name"``; anything else means time.

    >>> often, long = Function("a", 100.0, 0.01), Function("b", 1.0, 0.5)
    >>> [each.name for each in ordered_functions([often, long], "queue")]
    ['b', 'a']
    """
    return _ordered(functions, by if by in ("calls", "name") else "time", lambda each: each.name)


Row = TypeVar("Row")


def _ordered(rows: Iterable[Row], by: str, name: Callable[[Row], str]) -> list[Row]:
    if by not in SORTS:
        raise ValueError(by)
    if by == "name":
        return sorted(rows, key=name)
    return sorted(rows, key=lambda each: (-(getattr(each, by) or 0), -(getattr(each, "calls", None) or 0), name(each)))


def _counted(answer: dict[str, Any]) -> Any:
    return answer["kind"], sorted(answer["patterns"]), answer["messages"]


def _processes(old: dict[str, Any] | None, new: dict[str, Any]) -> Iterable[Process]:
    before = {} if old is None else {row[0]: row for row in old["processes"]}
    is_whole = old is not None and old["process_count"] <= MOST
    seconds = _seconds(old, new)
    for pid, kind, name, queue, *totals in new["processes"]:
        row = before.get(pid)
        known = row[4:] if row is not None else ([0] * 4 if is_whole else [None] * 4)
        sent, received, calls, took = totals
        yield Process(
            str(pid), str(kind), str(name), int(queue), _per_second(known[0], sent, seconds),
            _per_second(known[1], received, seconds), _per_second(known[2], calls, seconds),
            _share(known[3], took, seconds),
        )  # fmt: skip


def _functions(old: dict[str, Any] | None, new: dict[str, Any], kind: Any) -> Iterable[Function]:
    before = {} if old is None else {_name_of(row): row for row in old["functions"]}
    is_whole = old is not None and len(old["functions"]) < MOST
    seconds = _seconds(old, new)
    for row in new["functions"]:
        name = _name_of(row)
        known = before[name][3:] if name in before else ((0, 0) if is_whole else (None, None))
        took = row[4] if kind == "call_time" else None
        yield Function(name, _per_second(known[0], row[3], seconds), _share(known[1], took, seconds))


def _name_of(row: Any) -> str:
    return f"{row[0]}:{row[1]}/{row[2]}"


def _rate(old: dict[str, Any] | None, new: dict[str, Any], key: str) -> float | None:
    return _per_second(_number(old, key), new[key], _seconds(old, new))


def _number(totals: dict[str, Any] | None, key: str) -> int | None:
    return None if totals is None else totals[key]


def _seconds(old: dict[str, Any] | None, new: dict[str, Any]) -> float:
    return 0.0 if old is None else (new["at"] - old["at"]) / 1e9


def _per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    """The rate; None if a total is not known, or counting has started again meanwhile."""
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds


def _share(before: int | None, after: int | None, seconds: float) -> float | None:
    nanoseconds = _per_second(before, after, seconds)
    return None if nanoseconds is None else nanoseconds / 1e9


def _text(reason: Any) -> str:
    return " ".join(map(str, reason)) if isinstance(reason, tuple) else str(reason)
