"""Rows of any form (dicts, tuples, Arrow) as tuples of the columns that a picture needs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Each row as a tuple with a value for each column, None where it has none.

    Args:
        columns: the names that a column may have. A row that is a tuple has them in this order.
        need: how many of the first columns a row that is a tuple must have, and a table.

    Raises:
        BadArg: the rows are none, or one is neither dict nor tuple; its number is in the text.
        ModuleNotFoundError: an Arrow table, and neither pyarrow nor polars is there to read it.
    """
    if hasattr(rows, "__arrow_c_stream__"):
        return _arrow(where, argument, rows, columns, need)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise BadArg(where, argument, f"{shown(rows)} is no rows; {_FORMS}")
    return _plain(where, argument, rows, columns, need)


def _plain(
    where: str, argument: str, rows: Iterable[Any], columns: Sequence[tuple[str, ...]], need: int
) -> Iterator[tuple[Any, ...]]:
    width = len(columns)
    keys: Any = None
    found: list[str | None] = []
    for at, row in enumerate(rows):
        if isinstance(row, Mapping):
            if row.keys() != keys:
                keys = set(row)
                found = [next((name for name in names if name in keys), None) for names in columns]
                if not any(found):
                    raise BadArg(where, argument, f"row {at} has the keys {shown(list(row))}; pass {_named(columns)}")
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
        found = _found(where, argument, columns, frame.columns, need)
        return iter(_across([frame.get_column(name).to_list() if name else None for name in found], len(frame)))
    reader = arrow.RecordBatchReader.from_stream(rows)
    found = _found(where, argument, columns, reader.schema.names, need)
    return (
        row
        for batch in reader
        for row in _across([batch.column(name).to_pylist() if name else None for name in found], len(batch))
    )


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
    """A number, or None for what stands for none (None, NaN).

    Raises:
        BadArg: it is something else, or infinite.
    """
    kind = type(value)
    if value is None or kind is int:
        return value  # type: ignore[no-any-return]
    if kind is not float:
        if kind is bool or isinstance(value, (str, bytes)):
            raise BadArg(where, argument, f"{what}: {shown(value)} is no number; pass an int or a float, or None")
        try:
            value = value.__index__() if hasattr(value, "__index__") else float(value)
        except (TypeError, ValueError):
            raise BadArg(
                where, argument, f"{what}: {shown(value)} is no number; pass an int or a float, or None"
            ) from None
    if value != value:
        return None
    if math.isinf(value):
        raise BadArg(where, argument, f"{what}: {shown(value)} can't be drawn; pass a finite number, or None")
    return value  # type: ignore[no-any-return]


def limit_of(where: str, value: object, least: int = 1) -> int:
    """A number of things that are drawn."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadArg(where, "limit", f"{shown(value)} is no number of things to draw; pass an int of at least {least}")
    return value
