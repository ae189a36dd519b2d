"""Wakes a thread that waits in ``poll``. Works in programs that close descriptors which they don't own."""

from __future__ import annotations

import os
from contextlib import suppress

from inviso import _native
from inviso._descriptor import Own, moved, stderr

__all__ = ["Bell", "say"]


class Bell:
    """A pipe of this process. After the program has closed it, ringing does nothing: its number may be another file's.

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
        """Readable after a ring, and after the program has closed all descriptors, the writing end among them."""
        return self._ends[0].number

    def ring(self) -> None:
        """Wakes the thread. In a forked child it does nothing."""
        if self._ends and self._pid == os.getpid() and self.is_there():
            with suppress(OSError):
                self._ends[1].write_now(b"\0")

    def answer(self) -> None:
        """Reads the rings, so that the descriptor is no longer readable."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def is_there(self) -> bool:
        """Whether it is open."""
        return bool(self._ends) and all(end.is_there() for end in self._ends)

    def close(self) -> None:
        """Closes the pipe; also in a forked child."""
        ends, self._ends = self._ends, ()
        for end in ends:
            end.close()


def say(text: str) -> None:
    """Writes one line to standard error, cut after 240 bytes. It never waits, and calls no code of the program."""
    number = stderr()
    if number is not None:
        with suppress(OSError):
            _native.interpreter.descriptor_write(number, f"inviso: {text}".encode(errors="replace")[:240] + b"\n")
