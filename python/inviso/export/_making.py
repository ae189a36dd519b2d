"""An export in progress: its source, the names of processes, and its bytes, piece by piece."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from inviso import _native, _program
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.logs._files import beside
from inviso.logs._read import apart
from inviso.terms import Port

from . import _source

if TYPE_CHECKING:
    from ._source import Programs, Source

__all__ = ["VALUES", "Making", "checked_values"]

VALUES = 200
"""Bytes of text for a value, by default."""


def checked_values(where: str, values: object) -> None:
    """Refuses a value that is not a number of bytes."""
    if not isinstance(values, int) or isinstance(values, bool) or not 0 <= values <= sys.maxsize:
        raise BadArg(where, "values", f"{shown(values)} is not a number of bytes; pass an int, 0 for none")


class Making:
    """An export with checked arguments. Nothing is read before its pieces are requested."""

    def __init__(
        self,
        where: str,
        source: Source,
        *,
        values: int,
        names: Mapping[Pid | Port, str] | None,
        programs: Programs | None = None,
        pids: str = "inviso",
        causal: bool = False,
    ) -> None:
        self._where, self._values = where, values
        checked_values(where, values)
        if pids not in ("inviso", "erlang"):
            raise BadArg(where, "pids", f"{shown(pids)} is unknown; pass 'inviso' or 'erlang'")
        self._erlang = pids == "erlang"
        self._names = None if names is None else _names(where, names)
        self._programs = _programs(where, programs or {})
        self._source = source
        self._merged = _source.merged(where, source, causal)
        self._logs = _source.logs(where, source) if self._merged is None else None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._exporter: _native.export.Exporter | None = None

    def apart(self, target: str | BinaryIO) -> None:
        """Refuses a target that is one of the logs."""
        if isinstance(target, str):
            apart(self._where, target, self._merged.files if self._merged else self._logs or [])

    def __enter__(self) -> Making:
        self._folder = tempfile.TemporaryDirectory(prefix="inviso-")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        if self._merged is not None:
            self._merged.close()

    def pieces(self, format: str) -> Iterator[bytes]:
        """The bytes of the export."""
        assert self._folder is not None, "it is not entered"
        logs, merged, where = self._logs, self._merged, self._where
        parts = iter(()) if logs is not None or merged is not None else _source.parts(where, self._source)
        first = next(parts, [])
        of_log = logs is not None or merged is not None
        exporter = self._exporter = _native.export.Exporter(
            format,
            self._titles(first),
            [] if self._names is not None else _native.trace_port.thread_numbers(),
            (os.getpid(), _program.name()),
            self._programs,
            # pids of an Erlang node without a name look like this process's own
            self._names is None and of_log,
            self._erlang,
            self._values,
            os.path.join(self._folder.name, "events"),
        )
        if merged is not None:
            while exporter.read_merged(merged.native):
                yield exporter.take()
        for path, suffix in logs or []:
            exporter.open(path, suffix)
            while exporter.read():
                yield exporter.take()
        for messages in _source.chain(first, parts):
            try:
                exporter.push(messages)
            except TypeError as error:
                raise _source.no_term(where, error) from None
            yield exporter.take()
        while not exporter.end():
            yield exporter.take()
        yield exporter.take()

    def _titles(self, first: list[Any]) -> dict[Pid | Port, str]:
        if self._names is not None:
            return dict(self._names)
        logs = self._merged.logs if self._merged else [([log], beside([log])) for log in self._logs or []]
        return {**_source.names(first), **_source.registered(logs)}

    def summary(self) -> tuple[int, int, int, int, int, list[str]]:
        """The fields of :class:`Summary`."""
        return self._exporter.summary() if self._exporter else (0, 0, 0, 0, 0, [])


def _names(where: str, names: object) -> Mapping[Pid | Port, str]:
    if not isinstance(names, Mapping):
        raise BadArg(
            where, "names", f"{shown(names)} is not a mapping of processes to names; pass a dict of Pid to str"
        )
    for pid, name in names.items():
        if not isinstance(pid, (Pid, Port)) or not isinstance(name, str):
            why = f"{shown(pid)}: {shown(name)} is not the name of a process; pass a dict of Pid to str"
            raise BadArg(where, "names", why)
    return names


def _programs(where: str, programs: object) -> list[tuple[str, int, str]]:
    mend = "pass a dict of a node's name to (pid, program)"
    if not isinstance(programs, Mapping):
        raise BadArg(where, "programs", f"{shown(programs)} is not a dict; {mend}")
    for node, about in programs.items():
        match about:
            case (int(pid), str()) if isinstance(node, str) and 0 < pid < 1 << 32 and not isinstance(pid, bool):
                continue
        raise BadArg(where, "programs", f"{shown(node)}: {shown(about)} is not a program; {mend}")
    return [(node, pid, name) for node, (pid, name) in programs.items()]
