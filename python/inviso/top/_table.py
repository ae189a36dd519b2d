"""The activity of nodes as plain tables, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._live import Refresh
from ._sample import Function, Node, Process, ordered, ordered_functions

__all__ = ["FUNCTIONS", "NODES", "PROCESSES", "QUEUES", "functions", "nodes", "processes", "queues", "record", "tables"]

NODES = ("node", "status", "processes", "msgs/s", "queue", "calls/s", "lag ms", "records/s", "lost", "control")
PROCESSES = ("node", "pid", "name", "queue", "sent/s", "received/s", "calls/s", "time %")
QUEUES = ("node", "pid", "queue", "length")
FUNCTIONS = ("function", "calls/s", "time %", "nodes")

Rows = list[tuple[str, ...]]


def tables(refresh: Refresh, sort: str, most: int) -> list[tuple[tuple[str, ...], Rows]]:
    """Headings and rows of each table with rows. ``most``: the largest number of processes, queues and functions."""
    made: list[tuple[tuple[str, ...], Rows]] = [
        (NODES, nodes(refresh)),
        (PROCESSES, [row for _, _, row in processes(refresh, sort)[:most]]),
        (QUEUES, queues(refresh)[:most]),
        (FUNCTIONS, functions(refresh, sort)[:most]),
    ]
    return [(head, rows) for head, rows in made if rows]


def nodes(refresh: Refresh) -> Rows:
    """A row for each node. One that has failed has the error in place of a status."""
    rows: Rows = []
    for name, node in refresh.nodes.items():
        calls = _sum(each.calls for each in node.functions) if node.counted else None
        status = node.state if node.status == "running" else node.status
        if name in refresh.refused:
            status += f"; counts nothing: {refresh.refused[name]}"
        rows.append((
            name, status, f"{node.process_count:,}", rate(node.messages), f"{node.queue:,}", rate(calls),
            "" if node.lag is None else f"{node.lag:,}", rate(node.records), f"{node.lost:,}", node.control,
        ))  # fmt: skip
    failed = [(name, why, *[""] * (len(NODES) - 2)) for name, why in refresh.errors.items()]
    return sorted([*rows, *failed])


def processes(refresh: Refresh, sort: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """For each process its node, its pid and its row."""
    node_of = {id(each): name for name, node in refresh.nodes.items() for each in node.processes}
    every = ordered((each for node in refresh.nodes.values() for each in node.processes), sort)
    return [(node_of[id(each)], each.pid, _process(node_of[id(each)], each)) for each in every]


def _process(node: str, each: Process) -> tuple[str, ...]:
    return (
        node,
        each.pid,
        each.name,
        f"{each.queue:,}",
        rate(each.sent),
        rate(each.received),
        rate(each.calls),
        percent(each.time),
    )


def queues(refresh: Refresh) -> Rows:
    """A row for each queue that got a message, the longest first."""
    found = [(-each.length, name, each.pid, each.name) for name, node in refresh.nodes.items() for each in node.queues]
    return [(name, pid, kind, f"{-length:,}") for length, name, pid, kind in sorted(found)]


def functions(refresh: Refresh, sort: str) -> Rows:
    """A row for each function, with the sums of all nodes."""
    found: dict[str, list[Function]] = {}
    for node in refresh.nodes.values():
        for each in node.functions:
            found.setdefault(each.name, []).append(each)
    sums = [
        Function(name, _sum(one.calls for one in each), _sum(one.time for one in each)) for name, each in found.items()
    ]
    return [(*function(each), str(len(found[each.name]))) for each in ordered_functions(sums, sort)]


def function(each: Function) -> tuple[str, ...]:
    """Its name, calls and time."""
    return each.name, rate(each.calls), percent(each.time)


def rate(value: float | None) -> str:
    """A number per second; "" if it is not known.

    >>> rate(12345.6), rate(0.25), rate(0.0), rate(None)
    ('12,346', '0.2', '0', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def percent(value: float | None) -> str:
    """A part of one second, in percent; "" if it is not known.

    >>> percent(0.125), percent(None)
    ('12.5', '')
    """
    return "" if value is None else f"{100 * value:.1f}"


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def record(refresh: Refresh) -> dict[str, Any]:
    """The tables for another program: a dict for JSON."""
    return {
        "time": round(refresh.at, 3),
        "nodes": {name: _node(node) for name, node in refresh.nodes.items()},
        "errors": refresh.errors,
        "refused": refresh.refused,
        "absent": list(refresh.absent),
    }


def _node(node: Node) -> dict[str, Any]:
    rows = [
        {
            "pid": each.pid, "kind": each.kind, "name": each.name, "queue": each.queue, "sent": _round(each.sent),
            "received": _round(each.received), "calls": _round(each.calls), "time": _round(each.time),
        }
        for each in node.processes
    ]  # fmt: skip
    return {
        "state": node.state,
        "status": node.status,
        "control": None if node.control == "-" else node.control,
        "counted": list(node.counted),
        "messages": _round(node.messages),
        "unattributed": _round(node.unattributed),
        "records": _round(node.records),
        "lost": node.lost,
        "lag_ms": node.lag,
        "process_count": node.process_count,
        "processes": rows,
        "queues": [{"pid": each.pid, "name": each.name, "length": each.length} for each in node.queues],
        "functions": [
            {"function": each.name, "calls": _round(each.calls), "time": _round(each.time)} for each in node.functions
        ],
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
