"""Descriptors of ours in the process of a program that may close all it finds."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Any

from inviso import _native

__all__ = ["Own", "as_many_as_may", "duplicate", "moved", "private", "stderr"]

HIGH_FD = 100
"""They get numbers from here: the program's own files keep the numbers they always get."""

FIRST_FD = 3
"""They get numbers from here where the process may have none so high."""


class Own:
    """A descriptor of ours, told from whatever may have its number later."""

    __slots__ = ("_file", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _native.descriptor_file(number)

    def is_there(self) -> bool:
        """Whether it has not been closed."""
        return _native.descriptor_file(self.number) == self._file

    def write_now(self, data: bytes) -> int:
        """Write what it takes at once, and with the GIL kept; how many bytes that were. A reader that has gone raises an
        OSError, and never a signal.
        """
        return _native.descriptor_write(self.number, data)

    def close(self) -> None:
        """Give it back, if it is still there."""
        if self.is_there():
            os.close(self.number)


def duplicate(number: int) -> int:
    """Another descriptor of the same file."""
    try:
        import fcntl
    except ImportError:
        return os.dup(number)
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EMFILE):
            raise
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)


def moved(number: int) -> int:
    """The same descriptor under a number that the program's own files don't get.

    >>> ends = os.pipe()
    >>> all(moved(end) >= HIGH_FD for end in ends)
    True
    """
    try:
        return duplicate(number)
    finally:
        os.close(number)


def private(path: Any, flags: int = 0) -> int:
    """A descriptor of a file, empty, that only its owner may read, also if it was there before."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o600)
    try:
        if stat.S_ISREG(os.fstat(number).st_mode) and hasattr(os, "fchmod"):
            os.fchmod(number, 0o600)
    except BaseException:
        os.close(number)
        raise
    return number


def stderr() -> int | None:
    """The number of the process's standard error; None where it has none."""
    try:
        number = -1 if sys.__stderr__ is None else sys.__stderr__.fileno()
    except (OSError, ValueError):
        return None
    return None if number < 0 else number


def as_many_as_may() -> None:
    """Lets this process have as many files open as the system lets it ask for: a control and an agent have a connection for
    each node. For processes of ours only; a program keeps its limit.
    """
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
