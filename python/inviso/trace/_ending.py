"""How sessions end: by a call, with their last handle, with the interpreter, or in a forked child."""

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
"""Of a forked child's parent. They have ended here, and are never let go of: that would end them a second time."""


def session_destroy(session: Session) -> bool:
    """Ends a session and everything that it has set; False if it had ended before (trace.md, ``session_destroy/1``).

    Messages that have been sent can still be read; a callable tracer has handled them, or was waited for 5 seconds. No
    callback of a tracer module runs any more, unless this is called inside one.

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
    """What a session's strong handles have of it: goes with the last one, by the collector, too, and ends it while what the
    tracer needs is whole.
    """

    __slots__ = ("_function", "_native", "_worker")

    def __init__(
        self, native: _native.Session, worker: Worker | None, function: _native.TracerFunction | None
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
    """A program that ends has its tracers called with all that was sent before, as far as they do it in time."""
    waiting = []
    for session in list(strong):
        worker = session._worker
        if worker is not None and session._native.is_alive():
            session._native.pump()
            done = Flag()
            worker.hurry()
            with suppress(RuntimeError):  # no thread can be had
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
