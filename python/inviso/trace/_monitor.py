"""System events: long collections and steps, long queues, busy ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inviso.errors import BadArg, shown

from ._arguments import one_of
from ._handle import alive
from ._tables import EVENTS

if TYPE_CHECKING:
    from ._session import Session

__all__ = ["system"]


_LEAST = 1


def system(session: Session, event: str, value: bool | int | tuple[int, int]) -> None:
    """Switches a system event on or off (trace.md, ``system/3``).

    The event's message is ``("monitor", pid_or_port, event, info)``.

    Args:
        event: one of:

            ``"long_gc"``
                A collection takes at least ``value`` milliseconds.
            ``"long_schedule"``
                A task's step or an event loop's callback takes at least ``value`` milliseconds. A callback of a
                transport belongs to its port.
            ``"large_heap"``
                Resident memory after a collection is at least ``value`` words of 8 bytes.
            ``"long_message_queue"``
                ``value`` is ``(disable, enable)``, lengths of a mailbox or queue.
            ``"busy_port"``, ``"busy_dist_port"``
                ``value`` is True.
        value: the limit; False switches the event off. Limits below 1 become 1.

    Raises:
        BadArg: a wrong argument, or the session's tracer is not a process; nothing has changed.

    >>> with session_create("slow") as session:
    ...     system(session, "long_schedule", 100)
    ...     info(session, "system", "all")
    ('system', [('long_schedule', 100)])
    """
    where = "system/3"
    native = alive(where, session)
    if native.has_module:
        why = "its tracer is a module; make a session whose tracer is a Pid, a callable or None"
        raise BadArg(where, "session", why)
    if native.port is not None:
        raise BadArg(where, "session", f"the tracer of {shown(session)} is a trace port; system events need a process")
    if not (isinstance(event, str) and event in EVENTS):
        one_of(where, "event", "event", event, EVENTS)
    if value is False:
        native.monitor(str(event), None)
    elif event in ("busy_port", "busy_dist_port"):
        if value is not True:
            raise BadArg(where, "value", f"{shown(value)} is not a setting of {shown(event)}; pass True or False")
        native.monitor(str(event), 1)
    elif event == "long_message_queue":
        pair = value if isinstance(value, tuple) and len(value) == 2 and all(map(_is_length, value)) else (0, 0)
        if not 0 <= pair[0] < pair[1]:
            why = f"{shown(value)} is not (disable, enable); pass two ints, 0 or more, the first less than the second"
            raise BadArg(where, "value", why)
        native.monitor(str(event), pair[1], pair[0])
    elif isinstance(value, tuple) or not _is_length(value) or value < 0:
        raise BadArg(where, "value", f"{shown(value)} is not a limit of {shown(event)}; pass an int from 0, or False")
    else:
        native.monitor(str(event), max(value, _LEAST))


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < 1 << 63
