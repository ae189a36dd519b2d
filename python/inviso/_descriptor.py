"""Descriptors of ours in the process of a program that may close all it finds."""

from __future__ import annotations

import os
import sys

__all__ = ["Own", "duplicate", "stderr"]

HIGH_FD = 100
"""They get numbers from here: the program's own files keep the numbers they always get."""


class Own:
    """A descriptor of ours, told from whatever may have its number later."""

    __slots__ = ("_identity", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._identity = self._look()

    def is_there(self) -> bool:
        """Whether it has not been closed."""
        return self._look() == self._identity

    def close(self) -> None:
        """Give it back, if it is still there."""
        if self.is_there():
            os.close(self.number)

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self.number)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def duplicate(number: int) -> int:
    """Another descriptor of the same file."""
    try:
        import fcntl
    except ImportError:
        return os.dup(number)
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)


def stderr() -> int | None:
    """The number of the process's standard error; None where it has none."""
    try:
        number = -1 if sys.__stderr__ is None else sys.__stderr__.fileno()
    except (OSError, ValueError):
        return None
    return None if number < 0 else number
