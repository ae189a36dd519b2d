"""Merges the entries of several readers in the order of their timestamps, by the rules of the native merge."""

from __future__ import annotations

import heapq
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from inviso._native.log import LogMerge
from inviso.errors import BadArg, shown
from inviso.logs._read import BATCH, Named, Reader
from inviso.logs._stats import time_of

from ._files import FileSet

__all__ = ["Entry", "Failed", "entries", "opened", "ordered", "standard"]

Stamp: TypeAlias = tuple[str, int, int]
"""The clock, nanoseconds, and a number that orders stamps of the same nanosecond."""

Entry: TypeAlias = tuple[int, list[Any], "Stamp | None", Any]
"""The number of its log, the names of its tracee, its timestamp, the term."""

Failed: TypeAlias = Callable[[int, str], object]
"""Called with the number of a log, and the error of its reader."""


def standard(native: LogMerge) -> Iterator[Entry]:
    """The entries of logs that the native merge reads, damage among them."""
    while (batch := native.batch(BATCH)) is not None:
        yield from batch


def opened(
    sets: list[FileSet], files: list[list[Named]], order: str, named: bool, merged: bool = True, causal: bool = False
) -> LogMerge:
    """A native merge of file sets. Without ``merged`` it reads them one after another, with timestamps of any clock."""
    logs: list[tuple[str | None, list[Named], list[str]]] = [
        (each.node, there, each.ti) for each, there in zip(sets, files, strict=True)
    ]
    shifts = [[(when, offset) for when, offset, _ in each.clock.points] if each.clock else [] for each in sets]
    return LogMerge(logs, merged, False, order, named, *Reader._made, shifts, causal)


def entries(at: int, reader: Any, spec: Any, failed: Failed) -> Iterator[Entry]:
    """The entries of a reader in Python, each ``(names, timestamp or None, term)``. An exception ends the reader."""
    if isinstance(reader, tuple):
        module, function = reader
        reader = getattr(importlib.import_module(module), function)
    found: Iterable[Any] = reader(spec) if callable(reader) else reader
    iterator = iter(found)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            failed(at, f"{type(error).__name__}: {error}")
            return
        match item:
            case (names, stamp, term):
                found_time = time_of(stamp)
                unique = stamp[1] if found_time and isinstance(stamp, tuple) and len(stamp) == 2 else 0
                yield at, list(names), None if found_time is None else (*found_time, unique), term
            case ("error", reason):
                failed(at, shown(reason))
            case _:
                mend = "a reader gives (names, time stamp or None, term), or ('error', reason)"
                raise BadArg("merge", "files", f"a reader gave {shown(item)}; {mend}")


def ordered(readers: list[Iterator[Entry]], order: str) -> Iterator[Entry]:
    """The entries in order: always the earliest of the readers' next ones; of equal ones the first reader's.

    An entry without a timestamp, or with one of another clock than the first timestamp's, counts with its reader's
    latest time. In Inviso's order it comes before all others.
    """
    if len(readers) == 1:
        yield from readers[0]
        return
    clock: str | None = None
    latest: dict[int, tuple[int, int, int]] = {}
    heap: list[tuple[tuple[int, int, int], int, Entry, Iterator[Entry]]] = []

    def place(number: int, entry: Entry) -> tuple[int, int, int]:
        nonlocal clock
        stamp = entry[2]
        clock = clock or (stamp[0] if stamp else None)
        none = (0, 0, 0)
        now = (1, stamp[1], stamp[2]) if stamp and stamp[0] == clock else none
        latest[number] = max(latest.get(number, none), now)
        return now if order == "inviso" else latest[number]

    def push(number: int, reader: Iterator[Entry]) -> None:
        for entry in reader:
            heapq.heappush(heap, (place(number, entry), number, entry, reader))
            return

    for number, reader in enumerate(readers):
        push(number, reader)
    while heap:
        _, number, entry, reader = heapq.heappop(heap)
        yield entry
        push(number, reader)
