"""Files of trace events: Perfetto, Chrome, speedscope, collapsed stacks, pstats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import _out
from ._making import VALUES, Making

if TYPE_CHECKING:
    from inviso._native.process import Pid
    from inviso.terms import Port

    from ._out import Out
    from ._source import Programs, Source

__all__ = ["Summary", "chrome", "collapsed", "perfetto", "pstats", "speedscope"]


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of an export.

    >>> summary = chrome([("trace", inviso.self(), "receive", "hello"), ("drop", 3)], io.BytesIO())
    >>> summary.messages, summary.dropped, summary.untimed
    (1, 3, 1)
    """

    messages: int
    """The number of messages that were read, without drop records."""
    dropped: int
    """The number of lost messages, from drop records."""
    untimed: int
    """The number of messages without a timestamp, or with one of another clock than the first timestamp's."""
    unknown: int
    """The number of terms that are not trace messages; only tables have them."""
    damaged: int
    """The number of places at which a log could not be read."""
    damage: list[str]
    """Descriptions of these places: the first hundred."""


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
        out: a path, or a binary file. A path gets its file when that is whole. A symbolic link stays, and its target is
            replaced. A FIFO or a device is written directly, piece by piece. A path that ends with ``.gz`` gets a
            compressed file.
        values: bytes of text for an argument, message or result; 0 leaves them out.
        names: names of processes, shown beside their pids. Default: the names of this node's pids.
        pids: ``"erlang"`` for logs of an Erlang node, whose pids are never queues from which others take messages.
        programs: process id and program's name of nodes whose logs don't have them: ``{"shop@h": (4711, "shop.py")}``.

    Raises:
        BadArg: a wrong argument, or a log that does not exist.
        OSError: the system's error for a file.

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
    """Writes Chrome's trace event JSON. Arguments and errors as for :func:`perfetto`.

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
    """Writes a speedscope file: an evented profile for each process. Arguments and errors as for :func:`perfetto`.

    Until the end, events are in a temporary file.

    >>> out = io.BytesIO()
    >>> _ = speedscope([("trace", inviso.self(), "call", ("m", "f", []))], out)
    >>> json.loads(out.getvalue())["shared"]["frames"]
    [{'name': 'm:f/0'}]
    """
    return _export("speedscope", source, out, 0, names)


def collapsed(source: Source, out: Out) -> Summary:
    """Writes collapsed stacks for flame graphs: for each a line ``bottom;…;top value``.

    The value is the own time in nanoseconds, of all processes together. If no message has a timestamp, it is the number
    of calls. Arguments and errors as for :func:`perfetto`.

    >>> out = io.BytesIO()
    >>> _ = collapsed([("trace", inviso.self(), "call", ("m", "f", []))] * 3, out)
    >>> out.getvalue()
    b'm:f/0 3\\n'
    """
    return _export("collapsed", source, out, 0, {})


def pstats(source: Source, out: Out) -> Summary:
    """Writes statistics for ``pstats.Stats``: calls, primitive calls, own and cumulative time, callers.

    A function's file is its module, its line is 0, and its name has its arity. Arguments and errors as for
    :func:`perfetto`.

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
