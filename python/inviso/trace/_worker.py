"""The thread that calls a tracer function, and the share of the interpreter's time that it may use."""

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
"""Messages between two readings of the clocks."""
_SAVED = 50_000_000
"""The share of this time, in nanoseconds, may be saved for a burst."""
_LONGEST_REST = 0.01
"""Seconds between two checks whether a fork waits."""
_LOOK = object()
"""Asks the thread to check whether a fork is under way."""
_STOP = object()
"""Ends the process."""
PATIENCE = 5.0
"""Seconds to wait for a tracer that handles its messages."""


class Worker:
    """A tracer process that calls a function with each message of one session.

    The process outlives its thread: the thread ends before a fork, and another one becomes the process afterwards. Any
    thread may start one at any time; the one that acquires ``_held`` is the process. So no lock is held here while
    Python code can run, except ``_held`` by the process.
    """

    def __init__(self, name: str, function: _native.trace.TracerFunction, share: float = 1) -> None:
        self._share = share
        self._hurry = Flag()
        """Set at the end: the remaining messages are handled without a rest."""
        self._function = function
        """The session's tracer function."""
        self._last: Callable[[Any], object] | None = None
        """The same function, after the session is gone."""
        self._name = name
        self._raised = 0
        self._held = allocate_lock()
        """Held by the thread that is the process."""
        self._thread: _WorkerThread | None = None
        """The thread that is the process, or was it last."""
        self._over = Flag()
        self._left = False
        """A caller waited for the end in vain."""
        self.pid = _native.process.new_process(f"inviso tracer {name}")
        workers.add(self)
        try:
            self.start()
        except RuntimeError:  # no thread can be started
            workers.discard(self)
            raise

    def start(self) -> None:
        """Starts a thread for the process, if it has none. If a fork is under way, the thread starts after the fork."""
        if self._over.is_set() or self._held.locked() or _fork.is_under_way():
            return
        thread = _WorkerThread()
        start_new_thread(self._run, (thread,))
        thread.ready.wait()

    def pause(self) -> None:
        """Ends the thread before a fork; messages wait for the next thread. A function that takes long continues."""
        thread = self._thread
        if thread is not None and thread.ident != get_ident() and not thread.gone.is_set():
            _native.mailbox.put(self.pid, _LOOK)
            if thread.gone.wait(PATIENCE):
                _fork.wait_until_gone(thread.native_id)

    def stop(
        self, last: Callable[[Any], object] | None = None, is_ending: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Lets the thread handle all messages, and ends the process. ``last``: the function, if the session is gone."""
        if is_ending():  # the interpreter has stopped the thread, and modules may be empty
            return
        self.hurry()
        if not self._over.is_set():
            self._last = last
        if self._over.is_set() or self._left or not _native.mailbox.put(self.pid, _STOP):
            return
        thread = self._thread
        is_own = thread is not None and thread.ident == get_ident() and not thread.gone.is_set()
        if is_own or _fork.is_by_caller():
            return  # the thread does it later
        end = time.monotonic() + PATIENCE
        with suppress(RuntimeError):  # no thread can be started
            self.start()
            if _is_in_threading():
                return  # the thread does it later
            while not self._over.wait(0.05) and time.monotonic() < end:
                self.start()
        self._left = not self._over.is_set()
        if not self._left and self._thread is not None:
            self._thread.gone.wait(PATIENCE)

    def leave(self) -> None:
        """Ends the process when its function returns, and doesn't wait for that."""
        self.hurry()
        self._left = True
        _native.mailbox.put(self.pid, _STOP)

    def hurry(self) -> None:
        """Near the end: the thread handles the remaining messages without a rest."""
        self._hurry.set()

    def when_done(self, job: Callable[[], None]) -> None:
        """Calls ``job`` after all messages that have arrived."""
        self.start()
        if not _native.mailbox.put(self.pid, _Job(job)):
            job()

    def _run(self, thread: _WorkerThread) -> None:
        """The thread's code. ``threading`` doesn't show the thread to the program."""
        try:
            thread.ident, thread.native_id = get_ident(), get_native_id()
            _native.process.hide()
            # Checked again after each turn: the fork may be over, and perhaps no caller has seen that no thread runs.
            while not (self._over.is_set() or _fork.is_under_way()) and self._held.acquire(blocking=False):
                is_over = True
                try:
                    if self._over.is_set():  # the previous thread ended the process meanwhile
                        return
                    self._thread = thread
                    _native.process.become(self.pid)
                    thread.ready.set()
                    is_over = self._handle()
                    if not is_over:
                        _native.process.resign()
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
        """Handles messages. True at the end of the process, False when a fork is under way."""
        budget = _Budget(self._share) if self._share < 1 else None
        while True:
            if budget is not None and (rest := budget.rest()):
                self._rest(rest)
            message = _native.mailbox.receive(None, None)[0]
            if message is _STOP:
                return True
            if message is _LOOK:
                if _fork.is_under_way():
                    return False
            elif isinstance(message, _Job):
                message.job()
            else:
                self._call(message)
            message = None  # it may keep objects of the program alive

    def _rest(self, seconds: float) -> None:
        """Leaves the interpreter to the program for a number of seconds. A fork or the end shortens the rest."""
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
    """One thread of a worker."""

    __slots__ = ("gone", "ident", "native_id", "ready")

    def __init__(self) -> None:
        self.ident = self.native_id = 0
        self.ready = Flag()
        """Set when the thread is the process, or has nothing to do."""
        self.gone = Flag()
        """Set at its end."""


class _Job:
    __slots__ = ("job",)

    def __init__(self, job: Callable[[], None]) -> None:
        self.job = job


class _Budget:
    """The interpreter's time that the calling thread may still use: a share of the elapsed time."""

    __slots__ = ("_last", "_left", "_messages", "_share", "_used")

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = 0.0
        self._messages = 0
        self._last, self._used = time.monotonic_ns(), time.thread_time_ns()

    def rest(self) -> float:
        """Seconds that the thread has to rest now. Reads the clocks only at every sixteenth message."""
        self._messages += 1
        if self._messages % _LOOK_EVERY:
            return 0.0
        now, used = time.monotonic_ns(), time.thread_time_ns()
        earned = self._share * (now - self._last)
        self._left = min(self._left + earned, self._share * _SAVED) - (used - self._used)
        self._last, self._used = now, used
        return max(0.0, -self._left / self._share / 1e9)


def _is_in_threading() -> bool:
    """Whether the calling thread, which runs a finaliser, holds the lock of ``threading``. A tracer function that needs
    this lock can't end meanwhile.
    """
    lock = getattr(threading, "_active_limbo_lock", None)
    return isinstance(lock, RLock) and bool(lock._is_owned())


workers: set[Worker] = set()
"""Workers that have not ended."""


def _pause() -> None:
    for worker in list(workers):
        worker.pause()


def _resume() -> None:
    for worker in list(workers):
        with suppress(RuntimeError):  # no thread can be started: the next caller tries again
            worker.start()


_fork.rest(_pause, _resume, lambda: bool(workers))
