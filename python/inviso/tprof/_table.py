"""Profiles and diffs as tables for Arrow, pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso.errors import needed

from ._model import BYTES_OF_A_WORD

if TYPE_CHECKING:
    from ._diff import Diff
    from ._model import Profile

__all__ = ["diff_stream", "profile_stream", "to_pandas", "to_polars"]


def profile_stream(profile: Profile) -> Any:
    """See ``Profile.__arrow_c_stream__``."""
    is_time, is_memory = profile.type == "call_time", profile.type == "call_memory"
    numbers: dict[Any, int] = {}
    rows: list[list[Any]] = []
    for number, f in enumerate(profile.functions):
        for c in f.processes:
            process = None if c.process is None else numbers.setdefault(c.process, len(numbers))
            rows.append(
                [
                    number,
                    f.module,
                    f.function,
                    f.arity,
                    f.filename,
                    f.line,
                    process,
                    None if c.process is None else repr(c.process),
                    c.calls,
                    c.measurement if is_time else None,
                    c.cumulative if is_time else None,
                    c.waiting if is_time and c.cumulative is not None else None,
                    c.measurement * BYTES_OF_A_WORD if is_memory else None,
                    c.cumulative * BYTES_OF_A_WORD if is_memory and c.cumulative is not None else None,
                ]
            )
    return _stream("profile", rows, 14)


def diff_stream(diff: Diff) -> Any:
    """See ``Diff.__arrow_c_stream__``."""
    scale = BYTES_OF_A_WORD if diff.unit == "words" else 1
    rows = [
        [
            *(c.module, c.function, c.arity, c.status, c.calls_before, c.calls_after),
            *(figure * scale for figure in (c.before, c.after, c.delta)),
        ]
        for c in diff.changes
    ]
    return _stream("diff", rows, 9)


def _stream(table: str, rows: list[list[Any]], width: int) -> Any:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
    return _native.export.table_stream(table, columns)


def to_pandas(table: Profile | Diff) -> Any:
    """A ``pandas.DataFrame``."""
    needed("pandas")
    arrow = needed("pyarrow")
    return arrow.RecordBatchReader.from_stream(table).read_all().to_pandas()


def to_polars(table: Profile | Diff) -> Any:
    """A ``polars.DataFrame``."""
    return needed("polars").DataFrame(table)
