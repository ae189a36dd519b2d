"""The end of a session: by a call, with its last handle, with the interpreter, or in a forked child."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from inviso._system import Flag
from inviso.errors import BadArg, shown

from ._handle import Handle
from ._worker import PATIENCE, Worker, workers

if TYPE_CHECKING:
    from inviso import _native

    from ._session import Session

__all__ = ["Owner", "session_destroy", "strong"]


strong: weakref.WeakSet[Handle] = weakref.WeakSet()
_inherited: list[Handle] = []
"""Handles that a forked child has from its parent. Their sessions have ended here. The list is never emptied: dropping
a handle would end its session a second time.
"""


def session_destroy(session: Session) -> bool:
    """Ends a session and removes all that it has set; False if it had ended before (trace.md, ``session_destroy/1``).

    Earlier messages can still be read. A callable tracer has handled them on return, or 5 seconds have passed. No
    callback of a tracer module runs after the return, except one that calls this function.

    Raises:
        BadArg: ``session`` is not a session.

    >>> session_destroy(session_create("short"))
    True
    """
    if not isinstance(session, Handle):
        raise BadArg("session_destroy/1", "session", f"{shown(session)} is not a session; session_create() makes one")
    worker = session._worker
    if worker and session._native.is_alive():
        session._native.pump()
    done = session._native.destroy()
    if worker:
        worker.stop()
    return done


class Owner:
    """Shared by all strong handles. When the last one is dropped or collected, ends the session while its tracer is
    still usable.
    """

    __slots__ = ("_function", "_native", "_worker")

    def __init__(
        self, native: _native.trace.Session, worker: Worker | None, function: _native.trace.TracerFunction | None
    ) -> None:
        self._native = native
        self._worker = worker
        self._function = function

    def __del__(self) -> None:
        if self._worker is not None and self._function is not None:
            self._worker.stop(self._function.get())
        self._native.abandon()


@atexit.register
def _at_exit() -> None:
    """At the program's end, gives callable tracers 5 seconds to handle all messages that were sent."""
    waiting = []
    for session in list(strong):
        worker = session._worker
        if worker is not None and session._native.is_alive():
            session._native.pump()
            done = Flag()
            worker.hurry()
            with suppress(RuntimeError):  # no thread can be started
                worker.when_done(done.set)
                waiting.append(done)
    end = time.monotonic() + PATIENCE
    for done in waiting:
        done.wait(max(0.0, end - time.monotonic()))


def _in_child() -> None:
    _inherited.extend(strong)
    strong.clear()
    workers.clear()


os.register_at_fork(after_in_child=_in_child)
