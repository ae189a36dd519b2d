"""Waits until messages have arrived at the tracer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inviso import _native
from inviso._native.process import Pid
from inviso._system import Flag
from inviso.errors import BadArg, check_timeout, shown
from inviso.process._objects import tracee_of
from inviso.terms import Atom, Ref

from ._arguments import check_process
from ._handle import alive

if TYPE_CHECKING:
    from ._session import Session
    from ._types import Process

__all__ = ["Delivered", "delivered", "settle"]


class Delivered(Ref):
    """The reference that :func:`delivered` returns.

    >>> with session_create("d") as session:
    ...     session.delivered().wait(1)
    True
    """

    __slots__ = ("_done",)

    def __init__(self) -> None:
        super().__init__()
        self._done = Flag()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every earlier message has arrived; False if that took longer than ``timeout`` seconds."""
        check_timeout("wait/2", timeout)
        return self._done.wait(timeout)


def delivered(session: Session, tracee: Pid | Process | str = "all") -> Delivered:
    """Reports when all earlier messages have arrived at the tracer (trace.md, ``delivered/2``).

    Args:
        tracee: a Pid, thread or task; or ``"all"``.

    Returns:
        A reference with ``wait(timeout)``. When all messages of ``tracee`` from before this call have arrived, the
        caller's mailbox gets ``("trace_delivered", tracee, reference)``.

    Raises:
        BadArg: a wrong argument.

    >>> with session_create("done") as session:
    ...     ref = delivered(session, "all")
    ...     inviso.receive(("trace_delivered", "all", ref))[:2]
    ('trace_delivered', 'all')
    """
    where = "delivered/2"
    tracee = tracee_of(tracee)
    if isinstance(tracee, Pid):
        check_process(where, "tracee", tracee)
    elif not (isinstance(tracee, str) and tracee == "all"):
        raise BadArg(where, "tracee", f"{shown(tracee)} is not a process; pass a Pid or 'all'")
    native = alive(where, session)
    caller = _native.process.self_pid()
    reference = Delivered()
    native.pump()
    message = (Atom("trace_delivered"), tracee if isinstance(tracee, Pid) else Atom("all"), reference)

    def done() -> None:
        reference._done.set()
        _native.mailbox.put(caller, message)

    if session._worker:
        session._worker.when_done(done)
    else:
        done()
    return reference


def settle(session: Session, timeout: float) -> bool:
    """Waits until the tracer has handled all earlier messages; False after ``timeout`` seconds. Sends no message."""
    done = Flag()
    session._native.pump()
    if session._worker:
        session._worker.when_done(done.set)
        return done.wait(timeout)
    return True
