"""What wakes a thread that waits in ``poll``, in a program that may close every descriptor that it finds."""

from __future__ import annotations

import os
from contextlib import suppress

from inviso import _native
from inviso._descriptor import Own, moved, stderr

__all__ = ["Bell", "say"]


class Bell:
    """A pipe of this process's. Where the program has closed it, ringing does nothing: the number may be another file's.

    >>> bell = Bell()
    >>> bell.ring(), bell.answer(), bell.is_there()
    (None, None, True)
    >>> bell.close(), bell.is_there()
    (None, False)
    """

    __slots__ = ("_ends", "_pid")

    def __init__(self) -> None:
        self._ends: tuple[Own, ...] = tuple(Own(moved(end)) for end in os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
        self._pid = os.getpid()

    @property
    def descriptor(self) -> int:
        """Readable when it was rung, or closed by the program: its writing end goes, too."""
        return self._ends[0].number

    def ring(self) -> None:
        """Wakes the thread; in a forked child nobody."""
        if self._ends and self._pid == os.getpid() and self.is_there():
            with suppress(OSError):
                self._ends[1].write_now(b"\0")

    def answer(self) -> None:
        """Takes what was rung."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def is_there(self) -> bool:
        """Whether it was not closed."""
        return bool(self._ends) and all(end.is_there() for end in self._ends)

    def close(self) -> None:
        """Gives it back; also in a forked child."""
        ends, self._ends = self._ends, ()
        for end in ends:
            end.close()


def say(text: str) -> None:
    """One line on the standard error of the process, cut where it is long. It never waits, and calls nothing of the program's."""
    number = stderr()
    if number is not None:
        with suppress(OSError):
            _native.descriptor_write(number, f"inviso: {text}".encode(errors="replace")[:240] + b"\n")
