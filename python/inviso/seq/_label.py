"""A token for the length of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from inviso.errors import BadArg, shown
from inviso.process import self as this_process

from ._tokens import set_token

if TYPE_CHECKING:
    from types import TracebackType

    from inviso._native.process import Pid

__all__ = ["label"]

_EVENTS = ("send", "receive", "print")
_TIMES = ("timestamp", "monotonic_timestamp", "strict_monotonic_timestamp")


class label:
    """Gives the caller a new token with this label inside a ``with`` block, and restores its previous token after it.

    Messages that are sent inside carry the token, so it causes events after the block, too.

    Args:
        value: the label, as for :func:`set_token`.
        events: the events to emit: ``"all"``, or some of ``"send"``, ``"receive"`` and ``"print"``.
        timestamp: ``"timestamp"``, ``"monotonic_timestamp"``, ``"strict_monotonic_timestamp"``, or None for no
            timestamp.

    Raises:
        BadArg: an unknown event or timestamp; at the beginning of the block, a label that is too long. The token stays
            as it is.

    >>> import inviso
    >>> from inviso import seq_trace
    >>> with seq_trace.Collector() as collector:
    ...     with seq_trace.label("order 7", events=["print"]):
    ...         seq_trace.print("packed")
    ...     seq_trace.get_token(), [event[2][4] for event in collector.output().events]
    (None, ['packed'])
    """

    def __init__(
        self,
        value: Any,
        events: Literal["all"] | Iterable[str] = "all",
        *,
        timestamp: Literal["timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"] | None = None,
    ) -> None:
        where = "label/2"
        if isinstance(events, str):
            chosen = list(_EVENTS) if events == "all" else [events]
        elif isinstance(events, Iterable):
            chosen = list(events)
        else:
            raise BadArg(
                where, "events", f"{shown(events)} is not a list; pass 'all', or some of 'send', 'receive', 'print'"
            )
        for event in chosen:
            if event not in _EVENTS:
                raise BadArg(
                    where, "events", f"unknown event {shown(event)}; pass 'all', or some of 'send', 'receive', 'print'"
                )
        if timestamp is not None and timestamp not in _TIMES:
            why = f"{shown(timestamp)} is not a kind of timestamp; pass one of {', '.join(map(repr, _TIMES))}, or None"
            raise BadArg(where, "timestamp", why)
        self._label = value
        self._flags = [*chosen, *([timestamp] if timestamp else [])]
        self._owner: Pid | None = None
        self._before: Any = None

    def __enter__(self) -> label:
        self._owner, self._before = this_process(), set_token(None)
        try:
            set_token("label", self._label)
        except BadArg:
            set_token(self._before)
            raise
        for flag in self._flags:
            set_token(flag, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if this_process() == self._owner:  # a block in a generator may end in another task
            set_token(self._before)
