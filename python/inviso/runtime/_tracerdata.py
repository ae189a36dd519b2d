"""Tracer data: says where trace messages go. The argument of ``init_tracing``.

====================================  ====================================================================
``("file", name)``                    a log; ``(name, "wrap", suffix, size, count)`` in place of the name: a wrap set
``("ip", port)``, ``("ip", (port,     a socket on the loopback interface, from which one client reads
queue))``
``"collector"``                       printed on the standard output of the traced process
``(handler, data)``                   ``handler(message, data) -> data``: a function, or ``("module", "function")``
``("relayer", node)``                 sent to the runtime component of another node, which prints them or has a handler
``("relayer", pid)``                  sent to a process of the same program
``[("trace", one of these),           the same, with a meta tracer and its file: ``("file", name)``, or
("ti", …)]``                          ``("file", name, (init, remove, clean))``. Either part may be missing
====================================  ====================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from inviso._native.process import Pid
from inviso.errors import BadArg
from inviso.terms import Atom
from inviso.trace_ports import PortGenerator, trace_port

__all__ = ["Refused", "Ti", "TracerData", "parse"]

QUEUE = 50
"""Messages that may wait for the client of a socket, as in Inviso."""

Place: TypeAlias = Callable[[str], str]
"""Returns the path of a log by its name; ``Refused`` if the name is not allowed."""


class Refused(Exception):
    """A request can't be carried out; ``answer`` is the caller's error term."""

    def __init__(self, answer: Any) -> None:
        super().__init__(repr(answer))
        self.answer = answer


@dataclass(frozen=True, slots=True)
class TracerData:
    """Tracer data after parsing."""

    port: PortGenerator | None
    """Opens the log, or the socket."""
    handler: tuple[Any, Any] | None
    """The handler and its data."""
    pid: Any
    """The process that gets the messages."""
    folder: str
    """The folder of the files, as it was given."""
    files: tuple[str, str] | None
    """The parts before and after the number in the paths of a wrap set's files, or the path of one file and ""."""
    is_wrapped: bool
    ti: Ti | None = None
    """The meta tracer's part."""
    has_log: bool = True
    """Whether there is a part for trace messages; without it there is only the meta tracer's."""

    relay_to: str | None = None
    """The node whose runtime component gets the messages."""

    def ti_files(self) -> list[str]:
        """The full path of the trace information file, if it exists."""
        return [self.ti.path] if self.ti is not None and os.path.exists(self.ti.path) else []


@dataclass(frozen=True, slots=True)
class Ti:
    """The part of the meta tracer."""

    path: str
    """The full path of the file."""
    name: str
    """The file's name, as it was given."""
    spec: tuple[Any, Any, Any] | None
    """The functions that make, remove and clean the public loop data."""

    @property
    def folder(self) -> str:
        """The file's folder, as it was given."""
        return os.path.dirname(self.name) or "."


def parse(given: Any, place: Place) -> TracerData:
    """Parses and checks tracer data. ``Refused`` has Inviso's error."""
    if isinstance(given, (list, dict)):
        parts = dict(given.items() if isinstance(given, dict) else [each for each in given if _is_pair(each)])
        unknown = set(parts) - {"trace", "ti"}
        if unknown or not parts:
            raise Refused((Atom("bad_tracerdata"), given))
        log = _log(parts["trace"], place) if "trace" in parts else NO_LOG
        if "ti" not in parts:
            return log
        ti = _ti(parts["ti"], place)
        if log.files is not None and not log.is_wrapped and log.files[0] == ti.path:
            raise Refused((Atom("bad_ti_td"), parts["ti"]))  # the same file for both
        return replace(log, ti=ti)
    return _log(given, place)


def _ti(given: Any, place: Place) -> Ti:
    match given:
        case ("file", str(name)) if name:
            return Ti(place(name), name, None)
        case ("file", str(name), (_, _, _) as spec) if name:
            return Ti(place(name), name, spec)
    raise Refused((Atom("bad_ti_td"), given))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _log(given: Any, place: Place) -> TracerData:
    match given:
        case "collector":
            return TracerData(None, None, None, ".", None, False)
        case ("file", str(name)):
            return _file(name, name, place, None)
        case ("file", (str(name), "wrap", str(suffix), *rest)) if len(rest) <= 2:
            return _file(given, name, place, [suffix, *rest])
        case ("ip", int(number)):
            return _opens(given, "ip", (number, QUEUE))
        case ("ip", (int(), int())):
            return _opens(given, "ip", given[1])
        case ("relayer", Pid() as pid) if pid.is_local():
            return TracerData(None, None, pid, ".", None, False)
        case ("relayer", str(node)):
            return TracerData(None, None, None, ".", None, False, relay_to=node)
        case ((str(), str()) as named, data):
            return TracerData(None, (named, data), None, ".", None, False)
        case (function, data) if callable(function):
            return TracerData(None, (function, data), None, ".", None, False)
    raise Refused((Atom("bad_log_td"), given))


def _file(given: Any, name: str, place: Place, wrap: list[Any] | None) -> TracerData:
    path = place(name)
    if wrap is not None and (os.sep in wrap[0] or "\0" in wrap[0]):
        raise Refused((Atom("not_allowed"), wrap[0]))
    folder = os.path.dirname(name) or "."
    if wrap is None:
        return _opens(given, "file", path, folder, (path, ""))
    return _opens(given, "file", (path, "wrap", *wrap), folder, (path, wrap[0]), is_wrapped=True)


def _opens(
    given: Any,
    kind: str,
    parameters: Any,
    folder: str = ".",
    files: tuple[str, str] | None = None,
    *,
    is_wrapped: bool = False,
) -> TracerData:
    try:
        port = trace_port(kind, parameters)
    except BadArg as error:
        raise Refused((Atom("bad_log_td"), (given, error.why))) from None
    return TracerData(port, None, None, folder, files, is_wrapped)


NO_LOG = TracerData(None, None, None, ".", None, False, has_log=False)
"""Tracer data of the meta tracer alone."""
