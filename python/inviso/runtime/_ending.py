"""Writes the log before a SIGTERM ends the process, unless the program handles it. Workers of a pool end that way."""

from __future__ import annotations

import os
from collections.abc import Callable

from inviso import _children, _fork, _native
from inviso._background import Timer
from inviso._system import allocate_lock

__all__ = ["Guard"]

SIGTERM = 15
LONG = 3600.0
"""Seconds that the thread waits for a signal before it waits again."""


class Guard:
    """A thread that waits for the signal. It calls ``work`` before the signal's action follows.

    The program's own handler has priority. A measured child of ``inviso tprof`` or ``inviso trace`` waits for the
    signal itself, and closes this guard first: then there is no thread.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._process = 0
        """The process whose thread waits; 0 if no thread waits, or the signal has come."""
        self._deciding = allocate_lock()
        """Held by :meth:`end` and by the thread that got the signal, to decide which one is first."""
        self._is_over = False
        self._thread = Timer(self._step, _native.ending.wake)
        self._no_forks = _fork.rest(self._thread.stop, self._go_on, self._is_here, self._forget)
        _children.before_taking.append(self.close)

    def keep(self) -> None:
        """Waits for the signal from now on. Call it regularly: a program may have restored the default action
        meanwhile.
        """
        if self._is_over or _children.is_measured() or not _native.ending.take(SIGTERM) or self._is_here():
            return
        self._process = os.getpid()
        self._thread.start(0.0)

    def end(self) -> None:
        """Stops waiting: the signal's action follows at once again."""
        with self._deciding:
            if not self._is_here():
                return
            self._process = 0
        self._thread.stop()
        _native.ending.give()

    def close(self) -> None:
        """Ends for good."""
        self._is_over = True
        self.end()
        self._no_forks()
        if self.close in _children.before_taking:
            _children.before_taking.remove(self.close)

    def _is_here(self) -> bool:
        return self._process == os.getpid()

    def _go_on(self) -> None:
        if self._is_here():
            self._thread.start(0.0)

    def _forget(self) -> None:
        """In a forked child."""
        self._process = 0
        self._deciding = allocate_lock()
        self._thread.forget()

    def _step(self) -> float | None:
        number = _native.ending.wait(LONG)
        if not number:
            return 0.0
        with self._deciding:
            if not self._is_here():
                return None
            self._process, self._is_over = 0, True  # close() does not wait for this thread
        self._work()
        _native.ending.follow(number)
        return None
