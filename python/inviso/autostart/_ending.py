"""A process that is told to end by SIGTERM, and does not handle it, writes its log before it does: so end workers of a pool."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

from inviso import _children, _fork, _native
from inviso._beside import Beside

__all__ = ["Guard"]

SIGTERM = 15
LONG = 3600.0
"""Seconds that the thread waits for a signal before it waits again."""


class Guard:
    """A thread that waits for the signal; ``work`` is done before its action follows. The program's own handler counts before it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._process = 0
        self._thread = Beside(self._step, _native.ending_wake)
        _fork.rest(self._thread.stop, self._go_on, self._is_here)
        os.register_at_fork(after_in_child=self._thread.forget)
        atexit.register(self.end)
        _children.before_taking.append(self.end)

    def start(self) -> None:
        """Begins in this process; in a forked child once more. Who measures the process waits for the signal, too, and tells us."""
        if not _children.is_measured() and _native.ending_take(SIGTERM):
            self._process = os.getpid()
            self._thread.start(0.0)

    def end(self) -> None:
        """The process ends by itself."""
        if self._is_here():
            self._process = 0
            self._thread.stop()
            _native.ending_give()

    def _is_here(self) -> bool:
        return self._process == os.getpid()

    def _go_on(self) -> None:
        if self._is_here():
            self._thread.start(0.0)

    def _step(self) -> float | None:
        number = _native.ending_wait(LONG)
        if not number:
            return 0.0
        self._process = 0  # what is done at the end does not wait for this thread
        self._work()
        _native.ending_follow(number)
        return None
