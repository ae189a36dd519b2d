"""Messages as a table with a row for each, and as a Parquet file."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from inviso import _native
from inviso.errors import BadArg, missing, needed, shown
from inviso.logs._read import apart
from inviso.trace import Session

from . import _out, _source
from ._files import Summary

if TYPE_CHECKING:
    from ._out import Out
    from ._source import Source

__all__ = ["Rows", "arrow", "ipc", "parquet"]


def parquet(
    source: Source,
    out: Out,
    *,
    values: Literal["text", "binary", "none"] = "text",
) -> Summary:
    """Writes the table of :func:`arrow` as a Parquet file, by pyarrow, or by polars, which needs it in memory.

    Raises:
        ModuleNotFoundError: neither is installed.

    >>> out = io.BytesIO()
    >>> _ = parquet([("trace", inviso.self(), "exit", "normal")], out)  # doctest: +SKIP
    """
    where = "parquet/2"
    if isinstance(target := _out.target(where, out), str) and target.endswith(".gz"):
        raise BadArg(where, "out", f"{shown(out)}: a Parquet file is compressed in itself; drop .gz")
    return _written(where, source, out, values, parquet_writer())


def _written(where: str, source: Source, out: Out, values: str, write: Callable[[Rows, BinaryIO], None]) -> Summary:
    target = _out.target(where, out)
    merging = _source.merged(where, source)
    with tempfile.TemporaryDirectory(prefix="inviso-") as folder:
        if merging is not None:
            if isinstance(target, str):
                apart(where, target, merging.files)
            try:
                source = os.path.join(folder, "merged")
                merging.native.write(source, False)
            finally:
                merging.close()
        elif isinstance(target, str):
            apart(where, target, _source.logs(where, source) or [])
        rows = Rows._of(where, source, values)
        with _out.file(target) as file, rows._raising():
            write(rows, file)
        return rows.summary()


def ipc(
    source: Source,
    out: Out,
    *,
    values: Literal["text", "binary", "none"] = "text",
) -> Summary:
    """Writes the table of :func:`arrow` as a file of Arrow's IPC format (a stream), by pyarrow.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.

    >>> out = io.BytesIO()
    >>> _ = ipc([("trace", inviso.self(), "exit", "normal")], out)  # doctest: +SKIP
    """
    where, pyarrow = "arrow/2", needed("pyarrow")

    def write(rows: Rows, file: BinaryIO) -> None:
        # each batch has its own dictionary; Arrow's streams allow that, its files don't
        with (
            pyarrow.RecordBatchReader.from_stream(rows) as reader,
            pyarrow.ipc.new_stream(file, reader.schema) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch)

    return _written(where, source, out, values, write)


def arrow(
    source: Source,
    *,
    values: Literal["text", "binary", "none"] = "text",
) -> Rows:
    """The messages as a table with a row for each, for readers of Arrow's PyCapsule interface.

    docs/exports.md has the columns. Logs and iterables are read when the table is read. A session's messages are taken
    at once.

    Args:
        source: see :mod:`inviso.export`.
        values: arguments, messages and results as text (Python's), as bytes for :func:`inviso.etf.loads`, or left out.

    Raises:
        BadArg: a wrong argument, or a log that does not exist.

    >>> arrow([("trace", inviso.self(), "receive", "hello")])
    <rows of trace messages, not read yet>
    """
    return Rows._of("arrow/1", source, values, at_once=isinstance(source, Session))


class Rows:
    """A table of messages. A table of logs can be read repeatedly, any other only once.

    >>> rows = arrow([])
    >>> rows.__arrow_c_stream__()
    <capsule object "arrow_array_stream" at 0x...>
    """

    __slots__ = ("_left", "_make", "_native")

    def __init__(self, make: Callable[[], _native.export.ArrowRows], again: bool) -> None:
        self._make = make
        self._native = make()
        # the number of readings that are left; None: no limit
        self._left: int | None = None if again else 1

    @staticmethod
    def _of(where: str, source: Source, values: str, at_once: bool = False) -> Rows:
        if values not in ("text", "binary", "none"):
            raise BadArg(where, "values", f"{shown(values)} is unknown; pass 'text', 'binary' or 'none'")
        if _source.merged(where, source) is not None:
            why = "a table of several nodes' logs is written by parquet() and ipc(); pass a list of logs, or merge them"
            raise BadArg(where, "source", why)
        logs = _source.logs(where, source)
        if logs is not None:
            return Rows(lambda: _native.export.ArrowRows(values, logs), True)
        parts = _source.parts(where, source)
        if at_once:
            parts = iter(list(parts))
        messages = (lambda: next(parts, None), lambda error: _source.no_term(where, error))
        return Rows(lambda: _native.export.ArrowRows(values, [], messages), False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A stream of batches (Arrow's PyCapsule interface). It always has its own schema.

        Raises:
            BadArg: the messages were read already, and their source can be read only once.
        """
        if self._left == 0:
            why = "its messages have been read, and their source gives them once; keep the table, or export a log"
            raise BadArg("__arrow_c_stream__/1", "rows", why)
        if self._left is None:
            self._native = self._make()
        else:
            self._left -= 1
        return self._native.stream()

    def __arrow_c_schema__(self) -> Any:
        """The columns' names and types (Arrow's PyCapsule interface)."""
        return self._native.schema()

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        arrow = needed("pyarrow")
        with self._raising():
            return arrow.RecordBatchReader.from_stream(self).read_all()

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; names, tags and pids are categories. Needs pyarrow as well.

        In pandas a column of numbers with nulls is float64, so ``ts`` of the wall clock is rounded (see
        docs/exports.md).
        """
        needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        polars = needed("polars")
        with self._raising():
            return polars.DataFrame(self)

    @property
    def error(self) -> BaseException | None:
        """The exception of the last reading: one of a source, a :class:`BadArg` for a message that is not a term, an
        OSError of a log. None if there was no exception.

        Readers of Arrow get only the text of an error, and raise their own exception (pyarrow: OSError).

        >>> rows = arrow([object()])
        >>> rows.to_arrow()  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        inviso.errors.BadArg: arrow/1, source: a message that is not a term: ...
        """
        return self._native.error()

    @contextlib.contextmanager
    def _raising(self) -> Iterator[None]:
        """Raises the original exception in place of the one that Arrow's reader made of it."""
        before = self.error
        try:
            yield
        except BaseException:
            error = self.error
            if error is None or error is before:
                raise
            raise error from None

    def summary(self) -> Summary:
        """The counts of the last reading, up to its present place."""
        return Summary(*self._native.summary())

    def __repr__(self) -> str:
        read = self.summary().messages
        return f"<rows of {read} trace messages>" if read else "<rows of trace messages, not read yet>"


# batches of a row group; each row group can be read by itself
_ROW_GROUP = 4


def parquet_writer() -> Callable[[Rows, BinaryIO], None]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        pass
    else:

        def stream(rows: Rows, file: BinaryIO) -> None:
            with (
                arrow.RecordBatchReader.from_stream(rows) as reader,
                parquet.ParquetWriter(file, reader.schema, compression="zstd") as writer,
            ):
                while batches := list(itertools.islice(reader, _ROW_GROUP)):
                    writer.write_table(arrow.Table.from_batches(batches).unify_dictionaries())

        return stream
    try:
        polars = importlib.import_module("polars")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(missing("pyarrow"), name="pyarrow") from None
    return lambda rows, file: polars.DataFrame(rows).write_parquet(file)
