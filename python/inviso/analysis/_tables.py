"""A trace as tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal

from ..errors import BadArg, shown
from ._source import Source, opened
from ._table import Table

__all__ = ["NAMES", "Tables", "tables"]

NAMES = ("calls", "messages", "processes", "channels", "functions", "steps", "gc", "losses", "profile")
"""The tables of a trace, in the order of docs/analysis.md."""


class Tables:
    """The tables of a trace: see :func:`tables`. Each is made when it is read.

    >>> from inviso import analysis
    >>> t = analysis.tables([])
    >>> [table.name for table in t]
    ['calls', 'messages', 'processes', 'channels', 'functions', 'steps', 'gc', 'losses', 'profile']
    """

    __slots__ = ("_source", "_values")

    def __init__(self, source: Source, values: int) -> None:
        self._source, self._values = source, values

    def _table(self, name: str) -> Table:
        source, values = self._source, self._values
        return Table(name, source, lambda: source.rows(name, values))

    @property
    def calls(self) -> Table:
        """A row for each call, when it ends: caller, duration, outcome."""
        return self._table("calls")

    @property
    def messages(self) -> Table:
        """A row for each message: sender, channel, receiver, waiting time."""
        return self._table("messages")

    @property
    def processes(self) -> Table:
        """A row for each thread, task, queue and port that the trace names."""
        return self._table("processes")

    @property
    def channels(self) -> Table:
        """A row for each place to which messages were sent: queues, mailboxes, names, ports."""
        return self._table("channels")

    @property
    def functions(self) -> Table:
        """A row for each function that the trace names."""
        return self._table("functions")

    @property
    def steps(self) -> Table:
        """A row for each time that a process ran without a break (flag ``running``)."""
        return self._table("steps")

    @property
    def gc(self) -> Table:
        """A row for each collection of garbage (flag ``garbage_collection``)."""
        return self._table("gc")

    @property
    def losses(self) -> Table:
        """A row for each place where messages are missing, or a log could not be read."""
        return self._table("losses")

    @property
    def profile(self) -> Table:
        """A row for each function of each process: calls, own and cumulative time."""
        return self._table("profile")

    @property
    def events(self) -> Table:
        """A row for each trace message, unchanged: the columns of :func:`inviso.export.arrow`."""
        source = self._source
        return Table("events", source, source.events)

    def __iter__(self) -> Iterator[Table]:
        return (self._table(name) for name in NAMES)

    def to_parquet(self, folder: str | os.PathLike[str]) -> None:
        """Writes each table to ``folder`` as ``NAME.parquet``; :func:`load` reads them. Needs pyarrow or polars.

        Raises:
            BadArg: the folder can't be created.
            ModuleNotFoundError: neither is installed.
        """
        from ..export import _out
        from ..export._table import parquet_writer

        where = "to_parquet/1"
        if not isinstance(folder, (str, os.PathLike)):
            raise BadArg(where, "folder", f"{shown(folder)} is not a path; pass the path of a folder")
        write = parquet_writer()
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise BadArg(where, "folder", f"{shown(folder)}: {error.strerror}; pass the path of a folder") from None
        for table in self:
            target = os.path.join(folder, f"{table.name}.parquet")
            with _out.file(target) as file, table._raising():
                write(table, file)

    def __repr__(self) -> str:
        return f"<tables of {self._source.what}: {', '.join(NAMES)}>"


def tables(
    source: Any,
    *,
    values: int = 200,
    pids: Literal["inviso", "erlang"] = "inviso",
) -> Tables:
    """The tables of a trace.

    Keys are the same in all tables of one trace: ``process_id``, ``sender_id``, ``receiver_id``, ``channel_id`` are
    rows of ``processes`` (``channels`` for the last), ``function_id`` of ``functions``. docs/analysis.md has the
    columns. A log is read when a table is read, in bounded memory. A session's messages are taken at once, and the
    session continues.

    Args:
        source: see :mod:`inviso.analysis`.
        values: bytes of text of arguments, messages and results, at most; 0 for none.
        pids: ``"erlang"`` for logs of an Erlang node, whose pids are never queues.

    Raises:
        BadArg: a wrong argument, or a log that does not exist.

    >>> from inviso import analysis
    >>> analysis.tables([("trace", inviso.self(), "exit", "normal")]).processes.rows()[0]["exit"]
    "'normal'"
    """
    where = "tables/1"
    if not isinstance(values, int) or isinstance(values, bool) or not 0 <= values <= 1 << 24:
        raise BadArg(where, "values", f"{shown(values)} is not a number of bytes; pass an int, 0 for none")
    if pids not in ("inviso", "erlang"):
        raise BadArg(where, "pids", f"{shown(pids)} is unknown; pass 'inviso' or 'erlang'")
    return Tables(opened(where, source, pids == "erlang"), values)
