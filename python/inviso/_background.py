"""Calls a function repeatedly in a background thread, which ``threading`` doesn't show to the program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import _fork, _native
from ._system import RLock, allocate_lock, get_ident, get_native_id, start_new_thread

__all__ = ["Timer"]


_OWN_FAULTS = {
    number for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
    if (number := getattr(_signal, name, None)) is not None
}  # fmt: skip
"""Signals that a thread causes by itself."""

_SIGNALS = {int(number) for number in _signal.valid_signals()} - _OWN_FAULTS
"""All other signals. A thread of the program may wait for a signal that all its threads block. Our thread must not get
it.
"""


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """A thread that is started in this block gets no signal of the program."""
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    try:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _SIGNALS)
        yield
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


class Timer:
    """Calls a function repeatedly. The function returns the seconds until its next call, or None to end."""

    __slots__ = ("_changing", "_ident", "_is_over", "_locks", "_native_id", "_step", "_wake")

    def __init__(self, step: Callable[[], float | None], wake: Callable[[], object] = lambda: None) -> None:
        self._step = step
        self._wake = wake
        """Makes the function return, if it waits."""
        self._locks: tuple[_thread.LockType, _thread.LockType] | None = None
        """Both are held while the thread runs. We release the first to end the thread; the thread releases the second
        at its end.
        """
        self._native_id = self._ident = 0
        self._changing = RLock()
        """Held to start or stop the thread. A fork does so in any thread."""
        self._is_over = False

    def is_current(self) -> bool:
        """Whether the thread runs and is the calling one. The identifier is deleted at its end, as a later thread may
        get the same.
        """
        return bool(self._ident == get_ident())

    def start(self, wait: float) -> None:
        """Starts the thread, or starts it again after a stop. The function is called after ``wait`` seconds."""
        with self._changing:
            if self._locks is None and not self._is_over:
                locks = stopping, ended = allocate_lock(), allocate_lock()
                stopping.acquire()
                ended.acquire()
                with _blocked_signals():
                    start_new_thread(self._run, (stopping, ended, wait))
                    self._locks = locks

    def stop(self) -> None:
        """Ends the thread and waits for its end. Does nothing in the thread itself, such as if its function forks."""
        if self.is_current():
            return
        with self._changing:
            locks, self._locks = self._locks, None
            if locks is not None:
                stopping, ended = locks
                stopping.release()
                self._wake()
                ended.acquire()
                _fork.wait_until_gone(self._native_id)

    def end(self) -> None:
        """Stops for ever."""
        with self._changing:
            self._is_over = True
            if self.is_current():
                return self.cancel()  # the thread ends when its function returns
            self.stop()

    def cancel(self) -> None:
        """Ends the thread without waiting. In a forked child, where the thread is the parent's, it is allowed, too."""
        locks, self._locks = self._locks, None
        if locks is not None:
            locks[0].release()
            self._wake()

    def forget(self) -> None:
        """Resets the state in a forked child, which doesn't have the thread."""
        self._changing = RLock()
        self._locks = None

    def _run(self, stopping: _thread.LockType, ended: _thread.LockType, wait: float | None) -> None:
        self._native_id, self._ident = get_native_id(), get_ident()
        try:
            _native.process.hide()
            while wait is not None and not stopping.acquire(timeout=wait):
                wait = self._step()
        finally:
            if self.is_current():  # another thread may have begun meanwhile
                self._ident = 0
            ended.release()
