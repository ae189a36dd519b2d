"""Pictures of tables, from their rows, with the names of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import BadArg

if TYPE_CHECKING:
    from ..picture import Picture
    from ._source import Source
    from ._table import Table

__all__ = ["picture_of"]

Row = dict[str, Any]


def _rows(source: Source, table: str) -> list[Row]:
    native = source.rows(table, 60)
    columns = native.columns()
    return [dict(zip(columns, row, strict=True)) for row in native.tuples(1 << 62)]


def _processes(source: Source) -> list[Row]:
    """Processes and channels with the names for pictures."""
    found = [{**row, "name": row["name"] or row["pid"]} for row in _rows(source, "processes")]
    known = {row["process_id"] for row in found}
    more = [row for row in _rows(source, "channels") if row["channel_id"] not in known]
    return found + [
        {"process_id": row["channel_id"], "name": row["pid"], "kind": row["kind"], "node": row["node"]} for row in more
    ]


def _calls(table: Table, source: Source) -> Picture:
    from .. import picture

    return picture.timeline(
        table.rows(), messages=_rows(source, "messages"), processes=_processes(source), title="Calls and messages"
    )


def _steps(table: Table, source: Source) -> Picture:
    from .. import picture

    steps = [{**row, "function": row["to_function"] or row["from_function"], "depth": 0} for row in table.rows()]
    return picture.timeline(
        steps, messages=_rows(source, "messages"), processes=_processes(source), title="Steps and messages"
    )


def _path(table: Table, source: Source) -> Picture:
    from .. import picture

    def shown(row: Row) -> Row:
        what = row["by_function"] or row["content"]
        return {**row, "function": f"{row['kind']}: {what}" if what else row["kind"], "depth": 0}

    return picture.timeline([shown(row) for row in table.rows()], processes=_processes(source), title="Critical path")


def _waits(by: str) -> Callable[[Table, Source], Picture]:
    def made(table: Table, source: Source) -> Picture:
        from .. import picture

        names = {row["process_id"]: f"{row['name']}" for row in _processes(source)}
        rows = [
            {"wait_ns": row["wait_ns"], by: names.get(row[f"{by}_id"], "unknown")}
            for row in _rows(source, "messages")
            if row["wait_ns"] is not None
        ]
        return picture.histogram(rows, column="wait_ns", by=by, title=f"How long messages waited, by {by}")

    return made


def _talks(table: Table, source: Source) -> Picture:
    from .. import picture

    ends = [
        {"sender": row["sender_id"], "receiver": row["receiver_id"] or row["channel_id"], "count": row["messages"]}
        for row in table.rows()
    ]
    return picture.graph(ends, processes=_processes(source))


def _blockers(table: Table, source: Source) -> Picture:
    from .. import picture

    held = [{"sender": row["process_id"], "receiver": row["held_id"], "count": row["held_ns"]} for row in table.rows()]
    return picture.graph(held, processes=_processes(source), unit="ns", title="Who held whom up")


def _depths(table: Table, source: Source) -> Picture:
    from .. import picture

    names = {row["process_id"]: row["name"] for row in _processes(source)}
    rows = [{"depth": row["depth"], "channel": names.get(row["channel_id"], "unknown")} for row in table.rows()]
    return picture.histogram(
        rows, column="depth", by="channel", unit="messages", title="How many messages were in a channel"
    )


def _profile(table: Table, source: Source) -> Picture:
    from .. import picture

    names = {row["process_id"]: row["name"] for row in _processes(source)}
    rows = [((names.get(row["process_id"], "unknown"), row["function"]), row["own_ns"]) for row in table.rows()]
    return picture.flame(rows, view="own", title="Own time by process and function")


_PICTURES: dict[str, Callable[[Table, Source], Picture]] = {
    "calls": _calls,
    "steps": _steps,
    "messages": _waits("channel"),
    "profile": _profile,
    "critical_path": _path,
    "blockers": _blockers,
    "who_talks_to_whom": _talks,
    "queue_depth": _depths,
    "latency": _waits("channel"),
    "latency by sender": _waits("sender"),
    "latency by receiver": _waits("receiver"),
}


def picture_of(table: Table, source: Source) -> Picture:
    """The picture of a table.

    Raises:
        BadArg: this table has no picture.
    """
    made = _PICTURES.get(table.name)
    if made is None:
        raise BadArg(
            "picture/0", "table", f"there is no picture of {table.name}; there are those of {', '.join(_PICTURES)}"
        )
    return made(table, source)
