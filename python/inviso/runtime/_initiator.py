"""Runs the user's function that initiates tracing in an autostarted process, in threads beside the program's.

Stopping, clearing or suspending ends it. Threads can't be killed, so its next request raises :class:`Stopped`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from inviso import _native
from inviso._system import Flag, get_ident, start_new_thread

__all__ = ["Initiator", "Stopped", "current", "leave_if_stopped"]


class Stopped(BaseException):
    """Raised in an initiator to end it: tracing was stopped, cleared or suspended."""


class Initiator:
    """Runs a function once, in a thread that the program's traces don't show.

    >>> seen = []
    >>> initiator = Initiator(lambda: seen.append(current() is initiator))
    >>> initiator.start()
    >>> initiator.done.wait(10), seen
    (True, [True])
    """

    def __init__(self, work: Callable[[], object], report: Callable[[str], None] | None = None) -> None:
        self._work = work
        self._report = report or _print
        self.done = Flag()
        """Set when it has ended, or was stopped."""
        self.is_stopped = False

    def start(self) -> None:
        """Begins."""
        start_new_thread(self._run, ())

    def stop(self) -> None:
        """Makes its threads end at their next request."""
        self.is_stopped = True
        self.done.set()

    def together(self, works: Sequence[Callable[[], object]]) -> None:
        """Runs several functions at the same time, each in a thread, and waits for all. The initiator calls it."""
        flags = [Flag() for _ in works]
        for work, flag in zip(works, flags, strict=True):
            start_new_thread(self._carry_out, (work, flag))
        for flag in flags:
            flag.wait()

    def _run(self) -> None:
        self._carry_out(self._work, self.done)

    def _carry_out(self, work: Callable[[], object], done: Flag) -> None:
        try:
            _native.process.hide()
            _threads[get_ident()] = self
            work()
        except Stopped:
            pass
        except BaseException as error:
            self._report(f"{type(error).__name__}: {error}")
        finally:
            _threads.pop(get_ident(), None)
            done.set()


_threads: dict[int, Initiator] = {}
os.register_at_fork(after_in_child=_threads.clear)


def current() -> Initiator | None:
    """The initiator whose thread this is; None in any other."""
    return _threads.get(get_ident())


def leave_if_stopped() -> None:
    """Raises :class:`Stopped` in a thread of a stopped initiator."""
    found = current()
    if found is not None and found.is_stopped:
        raise Stopped


def _print(text: str) -> None:
    sys.stderr.write(f"inviso: autostart: {text}\n")  # one call: other threads write, too
