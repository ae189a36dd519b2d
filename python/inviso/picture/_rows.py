"""Reads rows of any form (dicts, tuples, Arrow) as tuples of the columns for a picture."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import BadArg, missing, shown

__all__ = ["Number", "Rows", "limit_of", "number", "read"]

Rows: TypeAlias = Any
"""An iterable of dicts, tuples or named tuples, or anything with ``__arrow_c_stream__`` (pyarrow, polars, pandas,
DuckDB).
"""
Number: TypeAlias = int | float

_FORMS = "pass dicts, tuples, or a table with __arrow_c_stream__"


def read(
    where: str, argument: str, rows: Rows, columns: Sequence[tuple[str, ...]], need: int = 0
) -> Iterator[tuple[Any, ...]]:
    """Each row as a tuple with a value for each column; a missing value is None.

    Args:
        columns: the possible names of each column. A tuple has the columns in this order. If a column has several of
            its names, the first one with a value counts for all rows, so times come from one clock.
        need: the number of first columns that a tuple or a table must have.

    Raises:
        BadArg: these are not rows, or one is neither dict nor tuple; its number is in the text.
        ModuleNotFoundError: an Arrow table, and neither pyarrow nor polars is installed to read it.
    """
    if hasattr(rows, "__arrow_c_stream__"):
        return _arrow(where, argument, rows, columns, need)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise BadArg(where, argument, f"{shown(rows)} is not a sequence of rows; {_FORMS}")
    return _plain(where, argument, rows, columns, need)


def _plain(
    where: str, argument: str, rows: Iterable[Any], columns: Sequence[tuple[str, ...]], need: int
) -> Iterator[tuple[Any, ...]]:
    width = len(columns)
    keys: Any = None
    found: list[str | None] = []
    several: list[int] = []
    choice = _Choice(columns)
    for at, row in enumerate(rows):
        if isinstance(row, Mapping):
            if row.keys() != keys:
                keys = set(row)
                found, several = choice.of(keys)
                if not any(found):
                    raise BadArg(where, argument, f"row {at} has the keys {shown(list(row))}; pass {_named(columns)}")
            if several:
                choice.decide(several, lambda name, row=row: row.get(name) is not None)  # type: ignore[misc]
                found, several = choice.of(keys)
            yield tuple([row[name] if name is not None else None for name in found])
        elif isinstance(row, tuple) and hasattr(row, "_fields"):
            fields = row._fields
            yield tuple(next((getattr(row, name) for name in names if name in fields), None) for names in columns)
        elif isinstance(row, (tuple, list)):
            if not need <= len(row) <= width:
                raise BadArg(where, argument, f"row {at} has {len(row)} values; pass {_named(columns)}, in this order")
            yield (*row, *[None] * (width - len(row)))
        else:
            raise BadArg(where, argument, f"row {at} is {shown(row)}; {_FORMS}")


def _arrow(
    where: str, argument: str, rows: Any, columns: Sequence[tuple[str, ...]], need: int
) -> Iterator[tuple[Any, ...]]:
    try:
        arrow = importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        try:
            frame = importlib.import_module("polars").DataFrame(rows)
        except ModuleNotFoundError:
            raise ModuleNotFoundError(missing("pyarrow"), name="pyarrow") from None
        _found(where, argument, columns, frame.columns, need)
        choice = _Choice(columns)
        filled = {name for name in frame.columns if frame.get_column(name).null_count() < len(frame)}
        choice.decide(choice.of(frame.columns)[1], filled.__contains__)
        found, _ = choice.of(frame.columns)

        def listed(name: str) -> list[Any]:
            column = frame.get_column(name)
            return list(column.dt.epoch("ns") if str(column.dtype).startswith("Datetime") else column)

        return iter(_across([listed(name) if name else None for name in found], len(frame)))
    reader = arrow.RecordBatchReader.from_stream(rows)
    _found(where, argument, columns, reader.schema.names, need)
    return _batches(reader, columns, arrow)


def _batches(reader: Any, columns: Sequence[tuple[str, ...]], arrow: Any) -> Iterator[tuple[Any, ...]]:
    choice, there = _Choice(columns), reader.schema.names
    for batch in reader:
        found, several = choice.of(there)
        if several:
            filled = {name for name in there if batch.column(name).null_count < len(batch)}
            choice.decide(several, filled.__contains__)
            found, _ = choice.of(there)
        values: list[list[Any] | None] = []
        for name in found:
            column = None if name is None else batch.column(name)
            if column is not None and arrow.types.is_timestamp(column.type):
                column = column.cast(arrow.timestamp("ns", column.type.tz)).cast(arrow.int64())
            values.append(None if column is None else column.to_pylist())
        yield from _across(values, len(batch))


class _Choice:
    """Chooses the name by which each column is read. The first of several names with a value is used from then on."""

    def __init__(self, columns: Sequence[tuple[str, ...]]) -> None:
        self._columns = list(columns)

    def of(self, there: Collection[str]) -> tuple[list[str | None], list[int]]:
        """The chosen name of each column among the present ones, and the columns that have several names."""
        found = [[name for name in names if name in there] for names in self._columns]
        return [names[0] if names else None for names in found], [n for n, names in enumerate(found) if len(names) > 1]

    def decide(self, several: list[int], has_value: Callable[[str], bool]) -> None:
        """Decides those of these columns that have a name with a value."""
        for n in several:
            name = next(filter(has_value, self._columns[n]), None)
            self._columns[n] = self._columns[n] if name is None else (name,)


def _found(
    where: str, argument: str, columns: Sequence[tuple[str, ...]], there: Sequence[str], need: int
) -> list[str | None]:
    found = [next((name for name in names if name in there), None) for names in columns]
    if None in found[:need] or not any(found):
        raise BadArg(
            where, argument, f"the table has the columns {', '.join(there) or '(none)'}; pass {_named(columns)}"
        )
    return found


def _across(columns: list[list[Any] | None], length: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[[None] * length if column is None else column for column in columns], strict=True)


def _named(columns: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(names[0] for names in columns)


def number(where: str, argument: str, value: Any, what: str) -> Number | None:
    """A number; None for None and NaN.

    Raises:
        BadArg: it is something else, or infinite.
    """
    kind = type(value)
    if value is None or kind is int:
        return value  # type: ignore[no-any-return]
    if kind is not float:
        if kind is bool or isinstance(value, (str, bytes)):
            raise BadArg(where, argument, f"{what}: {shown(value)} is not a number; pass an int or a float, or None")
        try:
            value = value.__index__() if hasattr(value, "__index__") else float(value)
        except (TypeError, ValueError):
            raise BadArg(
                where, argument, f"{what}: {shown(value)} is not a number; pass an int or a float, or None"
            ) from None
    if value != value:
        return None
    if math.isinf(value):
        raise BadArg(where, argument, f"{what}: {shown(value)} can't be drawn; pass a finite number, or None")
    return value  # type: ignore[no-any-return]


def limit_of(where: str, value: object, least: int = 1) -> int:
    """Checks a limit of drawn things, and returns it."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadArg(
            where, "limit", f"{shown(value)} is not a number of things to draw; pass an int of at least {least}"
        )
    return value
