"""Checks the sources that may start tracing: the user's own environment, and files that others can't change."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Place", "environment_counts", "opened"]

_AT_SECURE = 23
_OTHERS_WRITE = 0o022


def environment_counts() -> bool:
    """Whether the environment counts. It doesn't with ``-E`` or ``-I``, or if the program has more rights than its
    caller (set-user-ID, capabilities of a file).
    """
    if sys.flags.ignore_environment or os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return False
    return not _is_secure()


def _is_secure() -> bool:
    """AT_SECURE of this process. True also if it can't be read, as in a process with more rights than its caller."""
    pair = struct.Struct("@LL")
    try:
        with open("/proc/self/auxv", "rb") as file:
            content = file.read()
    except OSError:
        return True
    for at in range(0, len(content) - pair.size + 1, pair.size):
        key, value = pair.unpack_from(content, at)
        if key == _AT_SECURE:
            return bool(value)
    return True


class Place:
    """A file in an open folder. Both belong to the user or root, and others can't write them."""

    __slots__ = ("folder", "name", "path")

    def __init__(self, folder: int, path: str) -> None:
        self.folder = folder
        """The folder's descriptor."""
        self.path = path
        self.name = os.path.basename(path)

    def read(self) -> str:
        """Reads the file.

        Raises:
            OSError: it can't be read; PermissionError if others may write it.
            UnicodeDecodeError: it is not UTF-8.
        """
        number = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.folder)
        try:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is not a file", self.path)
            _check(found, self.path)
        except BaseException:
            os.close(number)
            raise
        with open(number, encoding="utf-8") as file:
            return file.read()

    def replace(self, text: str) -> None:
        """Replaces the file atomically. The new one has the old one's mode; without an old one only its owner may read
        it.

        Raises:
            OSError: it can't be written.
        """
        try:
            mode = stat.S_IMODE(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            mode = 0o600
        part = f".{self.name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        number = os.open(part, flags, 0o600, dir_fd=self.folder)
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.rename(part, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            os.unlink(part, dir_fd=self.folder)
            raise


@contextmanager
def opened(path: str) -> Iterator[Place]:
    """Opens the folder of a file. Links are followed here, and not later.

    Raises:
        OSError: there is no such folder; PermissionError if others may write it.
    """
    real = os.path.realpath(path)
    above = os.path.dirname(real)
    folder = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _check(os.fstat(folder), above)
        yield Place(folder, real)
    finally:
        os.close(folder)


def _check(found: os.stat_result, path: str) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, "it is another user's; chown it, or name a file of yours", path)
    if found.st_mode & _OTHERS_WRITE:
        raise PermissionError(errno.EPERM, "others may write it; chmod go-w it", path)
