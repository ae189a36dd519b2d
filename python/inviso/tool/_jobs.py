"""Work of a tool in threads beside its caller, now or after some time. Traces of the program omit these threads."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Hashable
from typing import Any

from inviso import _fork
from inviso._background import Timer
from inviso._link._bell import Bell
from inviso._system import Flag, allocate_lock
from inviso.runtime._initiator import Initiator, Stopped

__all__ = ["Agenda", "Job"]


class Job:
    """Runs a function once, in a thread of its own. After :meth:`stop` it ends at its next call of a control component.

    >>> job = Job(lambda: 6 * 7)
    >>> job.start()
    >>> job.wait(10), job.value
    (True, 42)
    """

    def __init__(self, work: Callable[[], Any], report: Callable[[str], None] = lambda text: None) -> None:
        self._work = work
        self._ended = Flag()
        self._initiator = Initiator(self._run, report)
        self.value: Any = None
        """The function's result; None before its end, and if it failed."""

    def start(self) -> None:
        """Begins."""
        self._initiator.start()

    def stop(self) -> None:
        """Makes it end at its next call."""
        self._initiator.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped."""
        return self._initiator.is_stopped

    def leave_if_stopped(self) -> None:
        """Ends it here, if it was stopped."""
        if self.is_stopped:
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Waits at most so many seconds for its end. Returns whether it has ended."""
        return self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            self.leave_if_stopped()
            self.value = self._work()
        finally:
            self._ended.set()


class Agenda:
    """Functions to be called after some time.

    When one is due, ``start`` gets its key and the function. A new function replaces an earlier one of the same key.
    The thread starts with the first function.
    """

    def __init__(self, start: Callable[[Hashable, Callable[[], object]], None]) -> None:
        self._start = start
        self._due: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._lock = allocate_lock()
        self._bell: Bell | None = None
        self._is_closed = False
        self._thread = Timer(self._step, self._ring)
        self._pid = os.getpid()
        self._no_forks = _fork.rest(self._thread.stop, self._go_on, self._is_needed, self._forget)

    def put(self, key: Hashable, seconds: float, work: Callable[[], object]) -> None:
        """Adds a function that is called after so many seconds."""
        with self._lock:
            if self._is_closed:
                return
            self._due[key] = time.monotonic() + seconds, work
            if self._bell is None:
                self._bell = Bell()
        self._thread.start(0.0)
        self._ring()

    def take(self, key: Hashable) -> None:
        """Removes a function."""
        with self._lock:
            self._due.pop(key, None)

    def left(self, key: Hashable) -> float | None:
        """Seconds until a function is called; None if the key has no function."""
        with self._lock:
            found = self._due.get(key)
        return None if found is None else max(0.0, found[0] - time.monotonic())

    def close(self) -> None:
        """Removes all functions, and ends the thread."""
        with self._lock:
            self._is_closed = True
            self._due.clear()
        self._thread.end()
        self._no_forks()
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()

    def _ring(self) -> None:
        bell = self._bell
        if bell is not None:
            bell.ring()

    def _is_needed(self) -> bool:
        return self._bell is not None and self._pid == os.getpid()

    def _go_on(self) -> None:
        if self._bell is not None:
            self._thread.start(0.0)

    def _forget(self) -> None:
        """Drops all functions in a forked child."""
        self._thread.forget()
        self._lock = allocate_lock()
        self._due.clear()

    def _step(self) -> float | None:
        bell = self._bell
        if bell is None or not bell.is_there():
            return None
        with self._lock:
            first = min((when for when, _ in self._due.values()), default=None)
        wait = None if first is None else max(0.0, first - time.monotonic()) * 1000
        poll = select.poll()
        poll.register(bell.descriptor, select.POLLIN)
        if poll.poll(wait):
            bell.answer()
        with self._lock:
            now = time.monotonic()
            due = {key: work for key, (when, work) in self._due.items() if when <= now}
            for key in due:
                del self._due[key]
        for key, work in due.items():
            self._start(key, work)
        return 0.0
