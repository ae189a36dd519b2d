"""The thread that calls a tracer function, and the part of the interpreter's time that it may take."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from inviso import _fork, _native
from inviso._system import Flag, RLock, allocate_lock, get_ident, get_native_id, start_new_thread

__all__ = ["PATIENCE", "Worker", "workers"]


_LOOK_EVERY = 16
"""Messages between two looks at the clocks."""
_SAVED = 50_000_000
"""Nanoseconds whose share may be saved up for a burst."""
_LONGEST_REST = 0.01
"""Seconds until it is looked whether a fork waits."""
_LOOK = object()
"""Whether a fork is under way."""
_STOP = object()
PATIENCE = 5.0
"""Seconds that are waited for a tracer that handles what has arrived."""


class Worker:
    """A tracer process that calls a function with each message of one session.

    The process outlives its thread: before a fork the thread ends, afterwards another one becomes the process. Any thread
    may start one at any time; who takes ``_held`` is the process. So nothing is locked here while Python code can run.
    """

    def __init__(self, name: str, function: _native.TracerFunction, share: float = 1) -> None:
        self._share = share
        self._hurry = Flag()
        """Set at the end: what is there is handled without a rest."""
        self._function = function
        """Its session's."""
        self._last: Callable[[Any], object] | None = None
        """The same, once that session is gone."""
        self._name = name
        self._raised = 0
        self._held = allocate_lock()
        """By the thread that is the process."""
        self._thread: _WorkerThread | None = None
        """The one that is, or was last."""
        self._over = Flag()
        self._left = False
        """Its end was waited for in vain."""
        self.pid = _native.new_process(f"inviso tracer {name}")
        workers.add(self)
        try:
            self.start()
        except RuntimeError:  # no thread can be had
            workers.discard(self)
            raise

    def start(self) -> None:
        """Has a thread be the process, if none is, and no fork is under way: then it is started after that."""
        if self._over.is_set() or self._held.locked() or _fork.is_under_way():
            return
        thread = _WorkerThread()
        start_new_thread(self._run, (thread,))
        thread.ready.wait()

    def pause(self) -> None:
        """Has the thread end before a fork; what arrives waits for the next one. A function that takes long goes on."""
        thread = self._thread
        if thread is not None and thread.ident != get_ident() and not thread.gone.is_set():
            _native.mailbox_put(self.pid, _LOOK)
            if thread.gone.wait(PATIENCE):
                _fork.wait_until_gone(thread.native_id)

    def stop(
        self, last: Callable[[Any], object] | None = None, is_ending: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Has everything that has arrived handled, by ``last`` if nobody else has the function any more, and ends the process."""
        if is_ending():  # its thread has been stopped, and modules may be empty
            return
        self.hurry()
        if not self._over.is_set():
            self._last = last
        if self._over.is_set() or self._left or not _native.mailbox_put(self.pid, _STOP):
            return
        if (self._thread is not None and self._thread.ident == get_ident()) or _fork.is_by_caller():
            return  # it is done later
        end = time.monotonic() + PATIENCE
        with suppress(RuntimeError):  # no thread can be had
            self.start()
            if _is_in_threading():
                return  # likewise
            while not self._over.wait(0.05) and time.monotonic() < end:
                self.start()
        self._left = not self._over.is_set()
        if not self._left and self._thread is not None:
            self._thread.gone.wait(PATIENCE)

    def leave(self) -> None:
        """Has it end when its function returns, and nobody wait for that."""
        self.hurry()
        self._left = True
        _native.mailbox_put(self.pid, _STOP)

    def hurry(self) -> None:
        """From here on the thread handles what has arrived without a rest: the end has come."""
        self._hurry.set()

    def when_done(self, job: Callable[[], None]) -> None:
        """Calls ``job`` after all messages that have arrived."""
        self.start()
        if not _native.mailbox_put(self.pid, _Job(job)):
            job()

    def _run(self, thread: _WorkerThread) -> None:
        """What a thread does. The program sees nothing of it in ``threading``."""
        try:
            thread.ident, thread.native_id = get_ident(), get_native_id()
            _native.hide()
            # Once more after each rest: the fork may be over, and nobody have seen that no thread is there.
            while not (self._over.is_set() or _fork.is_under_way()) and self._held.acquire(blocking=False):
                is_over = True
                try:
                    if self._over.is_set():  # the last one ended meanwhile
                        return
                    self._thread = thread
                    _native.become(self.pid)
                    thread.ready.set()
                    is_over = self._handle()
                    if not is_over:
                        _native.resign()
                finally:
                    if is_over:
                        self._last = None
                        workers.discard(self)
                        self._over.set()
                    self._held.release()
        finally:
            thread.ready.set()
            thread.gone.set()

    def _handle(self) -> bool:
        """Whether it is over, not just that a fork is under way."""
        budget = _Budget(self._share) if self._share < 1 else None
        while True:
            if budget is not None and (rest := budget.rest()):
                self._rest(rest)
            message = _native.mailbox_receive(None, None)[0]
            if message is _STOP:
                return True
            if message is _LOOK:
                if _fork.is_under_way():
                    return False
            elif isinstance(message, _Job):
                message.job()
            else:
                self._call(message)
            message = None  # it may have objects of the program's

    def _rest(self, seconds: float) -> None:
        """Leaves the interpreter to the program for so many seconds; a fork or the end cuts the rest short."""
        end = time.monotonic() + seconds
        while not self._hurry.is_set() and not _fork.is_under_way() and (left := end - time.monotonic()) > 0:
            self._hurry.wait(min(left, _LONGEST_REST))

    def _call(self, message: Any) -> None:
        function = self._function.get() if self._last is None else self._last
        try:
            if function is not None:
                function(message)
        except Exception:
            self._raised += 1
            if self._raised == 1:
                print(f"inviso: the tracer of session {self._name!r} raised (reported once):", file=sys.stderr)
                traceback.print_exc()


class _WorkerThread:
    """A thread of the system's."""

    __slots__ = ("gone", "ident", "native_id", "ready")

    def __init__(self) -> None:
        self.ident = self.native_id = 0
        self.ready = Flag()
        """Set when it is the process, or has nothing to do."""
        self.gone = Flag()
        """Set at its end."""


class _Job:
    __slots__ = ("job",)

    def __init__(self, job: Callable[[], None]) -> None:
        self.job = job


class _Budget:
    """The part of the interpreter's time that the calling thread may still use: a share of the elapsed time."""

    __slots__ = ("_last", "_left", "_messages", "_share", "_used")

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = 0.0
        self._messages = 0
        self._last, self._used = time.monotonic_ns(), time.thread_time_ns()

    def rest(self) -> float:
        """Seconds that the thread has to rest now. It reads the clocks at every sixteenth message only."""
        self._messages += 1
        if self._messages % _LOOK_EVERY:
            return 0.0
        now, used = time.monotonic_ns(), time.thread_time_ns()
        earned = self._share * (now - self._last)
        self._left = min(self._left + earned, self._share * _SAVED) - (used - self._used)
        self._last, self._used = now, used
        return max(0.0, -self._left / self._share / 1e9)


def _is_in_threading() -> bool:
    """Whether the calling thread, which runs a finaliser, has the lock of ``threading``: a tracer function that needs it
    can't end meanwhile.
    """
    lock = getattr(threading, "_active_limbo_lock", None)
    return isinstance(lock, RLock) and bool(lock._is_owned())


workers: set[Worker] = set()
"""Until they end."""


def _pause() -> None:
    for worker in list(workers):
        worker.pause()


def _resume() -> None:
    for worker in list(workers):
        with suppress(RuntimeError):  # no thread can be had: who needs it tries again
            worker.start()


_fork.rest(_pause, _resume, lambda: bool(workers))
