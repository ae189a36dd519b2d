"""Descriptors of this package in a program that may close all descriptors."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Any

from inviso import _native

__all__ = ["Own", "as_many_as_may", "duplicate", "moved", "private", "stderr"]

HIGH_FD = 100
"""The lowest number of our descriptors, so that the program's files get the same numbers as without us."""

FIRST_FD = 3
"""The lowest number if the process is not allowed a number from ``HIGH_FD`` on."""


class Own:
    """A descriptor of ours. It notices if its number belongs to another file now."""

    __slots__ = ("_file", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _native.interpreter.descriptor_file(number)

    def is_there(self) -> bool:
        """Whether it has not been closed."""
        return _native.interpreter.descriptor_file(self.number) == self._file

    def write_now(self, data: bytes) -> int:
        """Writes as many bytes as possible without waiting, and without releasing the GIL; returns their number. If the
        reader has gone, it raises an OSError; it never causes a signal.
        """
        return _native.interpreter.descriptor_write(self.number, data)

    def close(self) -> None:
        """Closes the descriptor, if it is still there."""
        if self.is_there():
            os.close(self.number)


def duplicate(number: int) -> int:
    """Duplicates a descriptor."""
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
    """Moves a descriptor to a number that the program's own files don't get.

    >>> ends = os.pipe()
    >>> all(moved(end) >= HIGH_FD for end in ends)
    True
    """
    try:
        return duplicate(number)
    finally:
        os.close(number)


def private(path: Any, flags: int = 0) -> int:
    """Opens a file for writing, and empties it. Only its owner can read it, even if it existed before."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o600)
    try:
        if stat.S_ISREG(os.fstat(number).st_mode) and hasattr(os, "fchmod"):
            os.fchmod(number, 0o600)
    except BaseException:
        os.close(number)
        raise
    return number


def stderr() -> int | None:
    """The descriptor of the standard error output; None without one."""
    try:
        number = -1 if sys.__stderr__ is None else sys.__stderr__.fileno()
    except (OSError, ValueError):
        return None
    return None if number < 0 else number


def as_many_as_may() -> None:
    """Raises this process's limit of open files to the maximum: a control or agent has a connection for each node. For
    our own processes only; a traced program keeps its limit.
    """
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
