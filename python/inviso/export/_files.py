"""Files of trace events: Perfetto, Chrome, speedscope, collapsed stacks, pstats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import _out
from ._making import VALUES, Making

if TYPE_CHECKING:
    from inviso._native import Pid
    from inviso.terms import Port

    from ._out import Out
    from ._source import Programs, Source

__all__ = ["Summary", "chrome", "collapsed", "perfetto", "pstats", "speedscope"]


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
    values: int = VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
    programs: Programs | None = None,
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
        programs: of nodes whose logs do not say it: ``{"shop@h": (4711, "shop.py")}``, the system's pid and the
            name.

    Raises:
        BadArg: a wrong argument, or a log that is not there.
        OSError: what the system says about a file.

    >>> out = io.BytesIO()
    >>> perfetto([("trace", inviso.self(), "send", "ping", inviso.self())], out).messages
    1
    >>> b"ping" in out.getvalue()
    True
    """
    return _export("perfetto", source, out, values, names, pids, programs)


def chrome(
    source: Source,
    out: Out,
    *,
    values: int = VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
    programs: Programs | None = None,
) -> Summary:
    """Writes Chrome's trace event JSON. Arguments and errors are :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = chrome([("trace", inviso.self(), "exit", "normal")], out)
    >>> json.loads(out.getvalue())["traceEvents"][-1]["args"]
    {'reason': "'normal'"}
    """
    return _export("chrome", source, out, values, names, pids, programs)


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
    format: str,
    source: Source,
    out: Out,
    values: int,
    names: Mapping[Pid | Port, str] | None,
    pids: str = "inviso",
    programs: Programs | None = None,
) -> Summary:
    where = f"{format}/2"
    making = Making(where, source, values=values, names=names, programs=programs, pids=pids)
    target = _out.target(where, out)
    making.apart(target)
    with making, _out.file(target) as file:
        for piece in making.pieces(format):
            file.write(piece)
    return Summary(*making.summary())
