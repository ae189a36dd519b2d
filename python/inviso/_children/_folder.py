"""The private folder of a run, by which its processes communicate.

====================  =====================================================================================
``config``            the configuration, written before the first child starts
``log``               one line for each event of a process, in order; each line is one ``write``
``ID.result``         the results of a process so far; written under another name, then renamed
``ID.lines``          lines of a trace; the process appends to it
``stop``              exists after the end of tracing
====================  =====================================================================================

Only built-in functions are called here: functions of the standard library would be measured as the program's.
"""

from __future__ import annotations

import marshal
import posix
import sys
from contextlib import suppress
from typing import Any

__all__ = ["Folder", "is_alive", "started"]

_FLAGS = posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
_MODE_OF_OTHERS = 0o077
_KIND = 0o170000
_FOLDER = 0o040000


class Folder:
    """A folder by its full path."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def make(cls) -> Folder:
        """Makes a new folder, which only its owner can enter."""
        base = posix.environ.get(b"TMPDIR") or b"/tmp"
        if not base.startswith(b"/"):
            base = posix.getcwdb() + b"/" + base
        path = f"{base.decode(sys.getfilesystemencoding(), 'surrogateescape')}/inviso-{posix.urandom(12).hex()}"
        posix.mkdir(path, 0o700)
        return cls(path)

    def is_private(self) -> bool:
        """Whether it exists, belongs to this user, and is closed to others. Other folders are never read."""
        try:
            found = posix.lstat(self.path)
        except OSError:
            return False
        is_folder = found.st_mode & _KIND == _FOLDER
        return is_folder and found.st_uid == posix.geteuid() and not found.st_mode & _MODE_OF_OTHERS

    def put(self, name: str, content: Any) -> None:
        """Writes plain data in one step: a reader finds all of it, or the previous content."""
        part = f"{self.path}/{name}.part"
        number = posix.open(part, _FLAGS | posix.O_TRUNC, 0o600)
        try:
            _write(number, marshal.dumps(content))
        finally:
            posix.close(number)
        posix.rename(part, f"{self.path}/{name}")

    def get(self, name: str) -> Any:
        """Reads data that :meth:`put` has written; None without a valid file."""
        data = self.read(name)
        try:
            return None if data is None else marshal.loads(data)
        except (ValueError, EOFError, TypeError):
            return None

    def read(self, name: str, start: int = 0) -> bytes | None:
        """A file's bytes from the offset ``start`` on; None if there is no such file."""
        try:
            number = posix.open(f"{self.path}/{name}", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)
        except OSError:
            return None
        try:
            if start:
                posix.lseek(number, start, 0)
            parts = []
            while part := posix.read(number, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            posix.close(number)

    def append(self, name: str, data: bytes) -> None:
        """Appends to a file, in one ``write`` if the system accepts all bytes."""
        number = posix.open(f"{self.path}/{name}", _FLAGS | posix.O_APPEND, 0o600)
        try:
            _write(number, data)
        finally:
            posix.close(number)

    def note(self, *words: object) -> None:
        """Writes a line of the log. A failure is ignored: then the run is over."""
        line = "\t".join([_plain(str(word)) for word in words]) + "\n"
        try:  # noqa: SIM105 - contextlib is Python code
            self.append("log", line.encode("utf-8", "backslashreplace"))
        except OSError:
            pass  # this process outlives the run, whose folder is gone

    def notes(self) -> list[list[str]]:
        """All complete lines of the log."""
        data = self.read("log") or b""
        return [line.split("\t") for line in data.decode("utf-8", "replace").split("\n")[:-1]]

    def names(self, ending: str) -> list[str]:
        """The files whose names end with ``ending``; an empty list after the run."""
        try:
            return [name for name in posix.listdir(self.path) if name.endswith(ending)]
        except OSError:
            return []

    def has(self, name: str) -> bool:
        """Whether there is a file with this name."""
        try:
            posix.stat(f"{self.path}/{name}")
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """Removes the folder with its files."""
        for _ in range(3):  # a process that is about to end may add a file meanwhile
            try:
                for name in posix.listdir(self.path):
                    with suppress(OSError):
                        posix.unlink(f"{self.path}/{name}")
                return posix.rmdir(self.path)
            except OSError:
                pass


def started(pid: int | str) -> str:
    """The start time of a process, in the system's unit; "" if it has ended. It distinguishes processes with the same
    pid.
    """
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def parent(pid: int | str) -> int:
    """The pid of the parent of a process; 0 if it is unknown."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def is_alive(pid: str, since: str) -> bool:
    """Whether the process that began at ``since`` still runs."""
    return bool(since) and started(pid) == since


def _stat(pid: int | str) -> list[str]:
    try:
        number = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return []
    try:
        # the name of the program, with any characters, is in parentheses
        return posix.read(number, 4096).decode("utf-8", "replace").rpartition(") ")[2].split()
    except OSError:
        return []
    finally:
        posix.close(number)


def _write(number: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[posix.write(number, left) :]


def _plain(word: str) -> str:
    return word if word.isprintable() and len(word) <= 400 else ascii(word)[1:400]
