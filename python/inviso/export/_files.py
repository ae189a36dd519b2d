"""Files of trace events: Perfetto, Chrome, speedscope, collapsed stacks, pstats."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from inviso import _native
from inviso._log_read import apart
from inviso._native import Pid
from inviso.errors import BadArg, shown
from inviso.terms import Port

from . import _out, _source

if TYPE_CHECKING:
    from ._out import Out
    from ._source import Source

__all__ = ["Summary", "chrome", "collapsed", "perfetto", "pstats", "speedscope"]

_VALUES = 200


@dataclass(frozen=True, slots=True)
class Summary:
    """What was exported, and what was not.

    >>> summary = chrome([("trace", inviso.self(), "receive", "hello"), ("drop", 3)], io.BytesIO())
    >>> summary.messages, summary.dropped, summary.untimed
    (1, 3, 1)
    """

    messages: int
    """How many messages were read, drop records not among them."""
    dropped: int
    """How many were lost before they came here, as drop records tell."""
    untimed: int
    """How many have no time stamp, or one of another clock than the first one that was found."""
    unknown: int
    """How many terms are no trace messages; only tables have them."""
    damaged: int
    """At how many places a log could not be read."""
    damage: list[str]
    """What was found there: the first hundred."""


def perfetto(
    source: Source,
    out: Out,
    *,
    values: int = _VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
) -> Summary:
    """Writes a Perfetto trace (protobuf), for https://ui.perfetto.dev and its trace processor.

    Args:
        source: see :mod:`inviso.export`.
        out: a path, or a binary file. A file is there when it is whole; a symbolic link stays, and the file that it leads
            to is replaced. What is no regular file (a FIFO, a device) is written to as it is, piece by piece. What goes
            to a path is compressed if that ends with ``.gz``.
        values: bytes of text that an argument, message or result is shown in; 0 leaves them out.
        names: what processes are called beside their pids; unless given, the names that pids of this node have.
        pids: ``"erlang"`` for logs of an Erlang node, none of whose pids is a queue from which others take messages.

    Raises:
        BadArg: a wrong argument, or a log that is not there.
        OSError: what the system says about a file.

    >>> out = io.BytesIO()
    >>> perfetto([("trace", inviso.self(), "send", "ping", inviso.self())], out).messages
    1
    >>> b"ping" in out.getvalue()
    True
    """
    return _export("perfetto", source, out, values, names, pids)


def chrome(
    source: Source,
    out: Out,
    *,
    values: int = _VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
) -> Summary:
    """Writes Chrome's trace event JSON. Arguments and errors are :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = chrome([("trace", inviso.self(), "exit", "normal")], out)
    >>> json.loads(out.getvalue())["traceEvents"][-1]["args"]
    {'reason': "'normal'"}
    """
    return _export("chrome", source, out, values, names, pids)


def speedscope(
    source: Source,
    out: Out,
    *,
    names: Mapping[Pid | Port, str] | None = None,
) -> Summary:
    """Writes a speedscope file: an evented profile for each process. Arguments and errors are :func:`perfetto`'s.

    Events wait in a temporary file, as large as they are, until the end.

    >>> out = io.BytesIO()
    >>> _ = speedscope([("trace", inviso.self(), "call", ("m", "f", []))], out)
    >>> json.loads(out.getvalue())["shared"]["frames"]
    [{'name': 'm:f/0'}]
    """
    return _export("speedscope", source, out, 0, names)


def collapsed(source: Source, out: Out) -> Summary:
    """Writes collapsed stacks, a line ``bottom;…;top value`` each, for flame graphs.

    The value is own time in nanoseconds, of all processes together; where no message has a time stamp it is the number
    of calls. Arguments and errors are :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = collapsed([("trace", inviso.self(), "call", ("m", "f", []))] * 3, out)
    >>> out.getvalue()
    b'm:f/0 3\\n'
    """
    return _export("collapsed", source, out, 0, {})


def pstats(source: Source, out: Out) -> Summary:
    """Writes statistics that ``pstats.Stats`` loads: calls, primitive calls, own and cumulative time, callers.

    A function's file is its module, its line is 0, and its name has its arity. Arguments and errors are
    :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = pstats([("trace", inviso.self(), "call", ("m", "f", []))] * 3, out)
    >>> import marshal
    >>> marshal.loads(out.getvalue())
    {('m', 0, 'f/0'): (3, 3, 0.0, 0.0, {})}
    """
    return _export("pstats", source, out, 0, {})


def _export(
    format: str, source: Source, out: Out, values: int, names: Mapping[Pid | Port, str] | None, pids: str = "inviso"
) -> Summary:
    where = f"{format}/2"
    if not isinstance(values, int) or isinstance(values, bool) or not 0 <= values <= sys.maxsize:
        raise BadArg(where, "values", f"{shown(values)} is not a number of bytes; pass an int, 0 for none")
    erlang = _erlang(where, pids)
    if names is not None and not isinstance(names, Mapping):
        raise BadArg(where, "names", f"{shown(names)} is no names of processes; pass a dict of Pid to str")
    for pid, name in (names or {}).items():
        if not isinstance(pid, (Pid, Port)) or not isinstance(name, str):
            raise BadArg(where, "names", f"{shown(pid)}: {shown(name)} is not the name of a process; pass a dict of Pid to str")
    target = _out.target(where, out)
    logs = _source.logs(where, source)
    if isinstance(target, str):
        apart(where, target, logs or [])
    parts = _source.parts(where, source) if logs is None else iter(())
    # an Erlang node without a name writes its pids as this process has its own
    are_own = names is None and logs is not None
    with tempfile.TemporaryDirectory(prefix="inviso-") as folder, _out.file(target) as file:
        first = next(parts, [])
        titles = _source.names(first) if names is None else dict(names)
        parts = _source.chain(first, parts)
        exporter = _native.Exporter(format, titles, are_own, erlang, values, os.path.join(folder, "events"))
        for path, suffix in logs or []:
            exporter.open(path, suffix)
            while exporter.read():
                file.write(exporter.take())
        for messages in parts:
            _pushed(where, exporter, messages)
            file.write(exporter.take())
        while not exporter.end():
            file.write(exporter.take())
        file.write(exporter.take())
    return Summary(*exporter.summary())


def _pushed(where: str, exporter: _native.Exporter, messages: list[Any]) -> None:
    try:
        exporter.push(messages)
    except TypeError as error:
        raise _source.no_term(where, error) from None


def _erlang(where: str, pids: str) -> bool:
    if pids not in ("inviso", "erlang"):
        raise BadArg(where, "pids", f"{shown(pids)} is unknown; pass 'inviso' or 'erlang'")
    return pids == "erlang"
