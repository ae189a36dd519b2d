"""The trace information file: entries one after the other, without a head or an end mark.

An entry is a byte 0, four bytes of length (big-endian), and so many bytes: one term in the external term format. A
trace port has the same framing, so a log's reader reads it, too.
"""

from __future__ import annotations

import os
from contextlib import suppress

from inviso._descriptor import Own, duplicate, private

__all__ = ["TiFile"]


class TiFile:
    """An open file that only its owner may read. It is emptied first."""

    __slots__ = ("_end", "_own", "entries", "error", "lost", "path")

    def __init__(self, path: str) -> None:
        opened = private(path)
        try:
            self._own: Own | None = Own(duplicate(opened))
        finally:
            os.close(opened)
        self.path = path
        self._end = 0
        self.entries = 0
        """Entries that were written."""
        self.lost = 0
        """Entries that could not be written."""
        self.error: str | None = None
        """The system's error of the last entry that could not be written."""

    def write(self, entry: bytes) -> None:
        """Appends one entry, whole or not at all."""
        own = self._own
        if own is None or not own.is_there():
            self.lost += 1
            self.error = "the file is closed"
            return
        data = b"\0" + len(entry).to_bytes(4) + entry
        done = 0
        try:
            while done < len(data):
                done += os.write(own.number, data[done:])
        except OSError as error:
            self.lost += 1
            self.error = error.strerror
            with suppress(OSError):  # not a regular file
                os.ftruncate(own.number, self._end)
                os.lseek(own.number, self._end, os.SEEK_SET)
            return
        self._end += len(data)
        self.entries += 1

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        own, self._own = self._own, None
        if own is not None:
            own.close()
