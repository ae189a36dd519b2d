"""What is done every now and then beside the program, in a thread of which it sees nothing in ``threading``."""

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
"""Signals that a thread brings upon itself."""

_SIGNALS = {int(number) for number in _signal.valid_signals()} - _OWN_FAULTS
"""The program's: a thread of it may wait for one that all its threads block, and ours must not get that."""


@contextmanager
def _deaf() -> Iterator[None]:
    """A thread that is started in this gets no signal of the program's."""
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    try:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _SIGNALS)
        yield
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


class Timer:
    """Calls a function again and again; that answers after how many seconds it is to be called next, or None to end."""

    __slots__ = ("_changing", "_ident", "_is_over", "_locks", "_native_id", "_step", "_wake")

    def __init__(self, step: Callable[[], float | None], wake: Callable[[], object] = lambda: None) -> None:
        self._step = step
        self._wake = wake
        """Has the function return, if that waits."""
        self._locks: tuple[_thread.LockType, _thread.LockType] | None = None
        """Held while the thread runs: we release the first to end it, it the second."""
        self._native_id = self._ident = 0
        self._changing = RLock()
        """By who starts or stops it: a fork does, in any thread."""
        self._is_over = False

    def start(self, wait: float) -> None:
        """Begin, or go on after a stop; the function is called after so many seconds."""
        with self._changing:
            if self._locks is None and not self._is_over:
                locks = stopping, ended = allocate_lock(), allocate_lock()
                stopping.acquire()
                ended.acquire()
                with _deaf():
                    start_new_thread(self._run, (stopping, ended, wait))
                    self._locks = locks

    def stop(self) -> None:
        """End the thread and wait for its end. In the thread itself, as where its function forks, nothing has to rest."""
        if self._ident == get_ident():
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
        """Stop, for ever."""
        with self._changing:
            self._is_over = True
            if self._ident == get_ident():
                return self.cancel()  # when its function returns
            self.stop()

    def cancel(self) -> None:
        """End the thread, and don't wait; also where it is the thread of a fork's parent."""
        locks, self._locks = self._locks, None
        if locks is not None:
            locks[0].release()
            self._wake()

    def forget(self) -> None:
        """In a forked child, which has no such thread."""
        self._changing = RLock()
        self._locks = None

    def _run(self, stopping: _thread.LockType, ended: _thread.LockType, wait: float | None) -> None:
        self._native_id, self._ident = get_native_id(), get_ident()
        try:
            _native.hide()
            while wait is not None and not stopping.acquire(timeout=wait):
                wait = self._step()
        finally:
            if self._ident == get_ident():  # not of one that has begun meanwhile
                self._ident = 0
            ended.release()
