"""Requests of a runtime component that concern the files of its logs: lists, paths, deletion."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from inviso.terms import Atom

from ._tracerdata import Refused, TracerData, parse

if TYPE_CHECKING:
    from ._machine import Machine
    from ._resolver import Resolver

__all__ = ["LogCalls", "files_of"]

OK, ERROR = Atom("ok"), Atom("error")


class LogCalls:
    """The requests that concern files; a part of the component."""

    machine: Machine
    _resolver: Resolver
    _data: TracerData | None

    def do_list_logs(self, spec: Any = None) -> Any:
        """The log files that exist, with the folder as it was given. ``spec``: tracer data (default: the current)."""
        if spec is None and self.machine.tracerdata is None:
            return ERROR, Atom("no_tracerdata")
        parts = self._parts(self._data if spec is None else parse(spec, self._resolver.path))
        named = [(kind, folder, [os.path.basename(path) for path in paths]) for kind, folder, paths in parts]
        return OK, named or Atom("no_log")

    def do_log_paths(self, spec: Any = None) -> Any:
        """Full paths of the log's files by their kind, for a control or agent that copies them.

        ``spec``: tracer data, or a list of (kind, folder, names).
        """
        refused = self.machine.refusal("fetch_log")
        if refused is not None:
            return refused
        if spec is None and self.machine.tracerdata is None:
            return ERROR, Atom("no_tracerdata")
        if _names_files(spec):
            paths = [
                (Atom(kind), [self._resolver.path(os.path.join(folder, name)) for name in names])
                for kind, folder, names in spec
            ]
        else:
            parts = self._parts(self._data if spec is None else parse(spec, self._resolver.path))
            paths = [(kind, each) for kind, _, each in parts]
        return OK, paths or Atom("no_log")

    def do_delete_log(self, spec: Any = None) -> Any:
        """Deletes the logs of the current tracer data, or of ``spec``: tracer data, paths, or (kind, folder, names)."""
        if spec is not None:
            return self._delete_named(spec)
        if self.machine.tracerdata is None:
            return ERROR, (Atom("badarg"), None)
        return OK, self._deleted(self._data) or Atom("no_log")

    def _parts(self, data: TracerData | None) -> list[tuple[Any, str, list[str]]]:
        """For each log: its kind, its folder as it was given, and the full paths of its files that exist."""
        if data is None:
            return []
        parts = [] if data.files is None else [(Atom("trace_log"), data.folder, files_of(data))]
        return parts if data.ti is None else [*parts, (Atom("ti_log"), data.ti.folder, data.ti_files())]

    def _deleted(self, data: TracerData | None) -> list[Any]:
        return [(kind, [self._delete(path) for path in paths][::-1]) for kind, _, paths in self._parts(data)]

    def _delete(self, path: str) -> Any:
        if not self._resolver.may_delete(path):
            return ERROR, (Atom("not_allowed"), os.path.basename(path))
        return _delete(path)

    def _delete_named(self, spec: Any) -> Any:
        is_data = isinstance(spec, list) and any(
            isinstance(one, tuple) and one[:1] in (("trace",), ("ti",)) for one in spec
        )
        if not isinstance(spec, list) or is_data:
            data = parse(spec, self._resolver.path)
            return OK, self._deleted(data) or Atom("no_log")
        if not spec:
            return OK, Atom("no_log")
        done = []
        for item in spec:
            match item:
                case str():
                    done.append(self._delete(self._resolver.path(item)))
                case (str(kind), str(folder), list(names)) if kind in ("trace_log", "ti_log"):
                    paths = [self._resolver.path(os.path.join(folder, str(name))) for name in names]
                    done.append((Atom(kind), [self._delete(path) for path in paths][::-1]))
                case _:
                    raise Refused((Atom("badarg"), item))
        return OK, done[::-1] if isinstance(spec[0], str) else done


def files_of(data: TracerData | None) -> list[str]:
    """Full paths of the files of a log that exist."""
    if data is None or data.files is None:
        return []
    before, behind = data.files
    if not data.is_wrapped:
        return [before] if os.path.exists(before) else []
    folder, base = os.path.split(before)
    with suppress(OSError):
        names = [name for name in os.listdir(folder or ".") if name.startswith(base) and name.endswith(behind)]
        numbers = [(name, name[len(base) : len(name) - len(behind)]) for name in names]
        return sorted(os.path.join(folder, name) for name, number in numbers if number.isdigit())
    return []


def _names_files(spec: Any) -> bool:
    """Whether it is a list of (kind, folder, names)."""
    return (
        isinstance(spec, list)
        and bool(spec)
        and all(
            isinstance(one, tuple)
            and len(one) == 3
            and one[0] in ("trace_log", "ti_log")
            and isinstance(one[1], str)
            and isinstance(one[2], list)
            and all(isinstance(name, str) for name in one[2])
            for one in spec
        )
    )


def _delete(path: str) -> Any:
    name = os.path.basename(path)
    try:
        os.unlink(path)
    except OSError as error:
        return ERROR, (Atom(errno.errorcode.get(error.errno or 0, "unknown").lower()), name)
    return OK, name
