"""Answers to the most frequent questions about a trace, as tables."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal

from ..errors import BadArg, shown
from ._source import Source, opened
from ._table import Table
from ._tables import Tables

_HINTS = 5
"""The number of labels or channels that a hint names."""

__all__ = ["blockers", "critical_path", "latency", "queue_depth", "who_talks_to_whom"]


def critical_path(source: Any, label: Any, to: int | None = None) -> Table:
    """The critical path of one label of sequential tracing: the parts of the time from its first event to its last.

    The path goes backwards from the last event with the label (of all processes, or of ``to``): from each receipt to
    its sending. A row is a part of the time of ``process_id``:

    - ``running``: the process ran.
    - ``waiting``: the process was scheduled out in ``by_function`` (needs the flag ``running``).
    - ``queued``: the message ``content`` was in transit from ``from_id`` to ``to_id``.
    - ``blocked``: the message was in transit, and a step of another task, ``by_id``, ran on the receiver's event loop.
      ``by_function`` is the function that the task was started with.
    - ``elsewhere``: time before the path began, if the label's first event is not on it.

    The sum of ``duration_ns`` is the time from the label's first event to its last. Without rows, no event has the
    label.

    Args:
        source: see :mod:`inviso.analysis`, or its :class:`Tables`.
        label: the label, as for :func:`inviso.seq_trace.set_token`.
        to: the ``process_id`` where the path ends, or None.

    Raises:
        BadArg: a wrong source, or a ``to`` that is not a key.

    >>> from inviso import analysis
    >>> analysis.critical_path([], "order 7").rows()
    []
    """
    end = _key("critical_path/3", "to", to, "process_id of the table processes")
    return _table("critical_path", "path", source, _labels(label), label=repr(label), of=end)


def blockers(source: Any, shortest_ms: float = 1.0) -> Table:
    """Steps of tasks that blocked other tasks of the same event loop.

    A row is a step and one task that waited for its end: ``held_id`` waited ``held_ns`` although there was a message
    for it. The row has the task that ran, the function that it was started with (flag ``procs``), the functions where
    the step began and ended, its start and its duration. It needs the flags ``running``, ``send`` and ``receive``. The
    flag ``scheduler_id`` distinguishes tasks of several event loops.

    Args:
        source: see :mod:`inviso.analysis`, or its :class:`Tables`.
        shortest_ms: the shortest duration of a step, in milliseconds.

    Raises:
        BadArg: a wrong source, or ``shortest_ms`` is not a time.

    >>> from inviso import analysis
    >>> analysis.blockers([], 50).rows()
    []
    """
    if not isinstance(shortest_ms, (int, float)) or isinstance(shortest_ms, bool) or not 0 <= shortest_ms < 1e9:
        raise BadArg("blockers/2", "shortest_ms", f"{shown(shortest_ms)} is not a time; pass milliseconds")
    return _table("blockers", "blockers", source, shortest=round(shortest_ms * 1e6))


def who_talks_to_whom(source: Any) -> Table:
    """A row for each sender, channel and receiver: the number of messages and bytes, the sum of waiting times, the
    longest.

    ``receiver_id`` is null if messages were not received, or their receipt was not traced.

    Args:
        source: see :mod:`inviso.analysis`, or its :class:`Tables`.

    >>> import inviso
    >>> from inviso import analysis
    >>> me = inviso.self()
    >>> messages = [("trace", me, "send", "hello", me), ("trace", me, "receive", "hello")]
    >>> [talk] = analysis.who_talks_to_whom(messages).rows()
    >>> talk["messages"], talk["sender_id"] == talk["receiver_id"]
    (1, True)
    """
    return _table("who_talks_to_whom", "talks", source)


def queue_depth(source: Any, channel: int | None = None) -> Table:
    """The depth of a channel over time: a row for each message that is sent to it or received from it.

    Only messages whose sending is in the trace count. An item from before the start of tracing does not.

    Args:
        source: see :mod:`inviso.analysis`, or its :class:`Tables`.
        channel: a ``channel_id`` of its tables, or None for all.

    Raises:
        BadArg: a wrong source, or a channel that is not a key.

    >>> import inviso
    >>> from inviso import analysis
    >>> me = inviso.self()
    >>> [row["depth"] for row in analysis.queue_depth([("trace", me, "send", n, me) for n in range(3)]).rows()]
    [1, 2, 3]
    """
    key = _key("queue_depth/2", "channel", channel, "channel_id of the table channels")
    return _table("queue_depth", "depths", source, _channels if key is not None else None, of=key)


def latency(source: Any, by: Literal["channel", "sender", "receiver"] = "channel") -> Table:
    """Percentiles of the time between sending and receipt: a row for each channel, sender or receiver, ``of_id``.

    Percentiles are values that occurred (nearest rank). Messages without receipt or times have no waiting time.

    Args:
        source: see :mod:`inviso.analysis`, or its :class:`Tables`.
        by: the property by which messages are grouped.

    Raises:
        BadArg: a wrong argument.

    >>> from inviso import analysis
    >>> analysis.latency([], by="sender").rows()
    []
    """
    if by not in ("channel", "sender", "receiver"):
        raise BadArg("latency/2", "by", f"{shown(by)} is unknown; pass 'channel', 'sender' or 'receiver'")
    return _table("latency" if by == "channel" else f"latency by {by}", f"waits by {by}", source)


def _key(where: str, argument: str, key: Any, what: str) -> int | None:
    """A key as an int; numpy's integers are accepted."""
    if key is None:
        return None
    try:
        return operator.index(key)
    except TypeError:
        raise BadArg(where, argument, f"{shown(key)} is not a key; pass a {what}, or None") from None


def _table(name: str, native: str, source: Any, hint: Callable[[Source], str] | None = None, **asked: Any) -> Table:
    trace = _trace(name, source)
    return Table(name, trace, lambda: trace.rows(native, 200, **asked), (lambda: hint(trace)) if hint else None)


def _labels(label: Any) -> Callable[[Source], str]:
    """A function that makes a hint with the existing labels."""

    def hint(trace: Source) -> str:
        native = trace.rows("messages", 60)
        at = native.columns().index("seq_label")
        known = list(dict.fromkeys(row[at] for row in native.tuples(1 << 62) if row[at] is not None))
        if repr(label) in known:
            return (
                f"events of label {label!r} have no time stamp of the trace's clock; give tokens the one of the "
                "session, such as seq_trace.label(label, timestamp='monotonic_timestamp')"
            )
        return f"no event has the label {label!r}; {_some('labels', known)}"

    return hint


def _channels(trace: Source) -> str:
    """A hint with the existing channels."""
    known = [row[0] for row in trace.rows("channels", 0).tuples(1 << 62)]
    return f"nothing was sent to this channel; {_some('channels', known)}"


def _some(what: str, known: list[Any]) -> str:
    if not known:
        return f"there are no {what} in the trace"
    more = f" and {len(known) - _HINTS} more" if len(known) > _HINTS else ""
    return f"there are {', '.join(map(str, known[:_HINTS]))}{more}"


def _trace(name: str, source: Any) -> Source:
    if isinstance(source, Tables):
        return source._source
    return opened(f"{name.partition(' ')[0]}/1", source, False)
