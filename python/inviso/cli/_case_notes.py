"""Notes of the trace cases that ``inviso case`` has switched on: a file for each, in this user's folder of sockets.

The nodes go on tracing after the command has ended. The note has all that a later command needs to switch the case off:
the variables, the off file, and the nodes with their process ids.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

from inviso._link._folder import Folder
from inviso._literal import NotLiteral, read, written

__all__ = ["Note", "Notes"]

PLACE = "cases"
"""The folder of notes, in the folder of sockets."""


@dataclass(frozen=True, slots=True)
class Note:
    """A case that is on."""

    name: str
    id: str
    variables: dict[str, object]
    off: str | None
    """The file that switches it off."""
    nodes: dict[str, int]
    """The nodes for which it was switched on, with their process ids."""


class Notes:
    """The notes of a user."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def all(self) -> list[Note]:
        """All notes, sorted by file name. Files that are not notes are left out."""
        with self._folder.below(PLACE) as place:
            found = [self._read(place, name) for name in sorted(os.listdir(place.descriptor)) if name[0] != "."]
        return [note for note in found if note is not None]

    def get(self, name: str, id: str) -> Note | None:
        """The note of one case."""
        with self._folder.below(PLACE) as place:
            return self._read(place, _file(name, id))

    def put(self, note: Note) -> None:
        """Writes a note, and replaces an earlier one. Raises OSError if it can't be written."""
        text = written((note.name, note.id, note.variables, note.off, note.nodes))
        with self._folder.below(PLACE) as place:
            part = f".{os.getpid()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with open(os.open(part, flags, 0o600, dir_fd=place.descriptor), "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(part, _file(note.name, note.id), src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)

    def take(self, name: str, id: str) -> None:
        """Removes the note of a case that is off."""
        with self._folder.below(PLACE) as place, suppress(FileNotFoundError):
            os.unlink(_file(name, id), dir_fd=place.descriptor)

    def _read(self, place: Folder, file: str) -> Note | None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with open(os.open(file, flags, dir_fd=place.descriptor), encoding="utf-8") as opened:
                term = read(opened.read())
        except (OSError, UnicodeDecodeError, NotLiteral):
            return None
        match term:
            case (str(name), str(id), dict(variables), str() | None as off, dict(nodes)):
                return Note(name, id, variables, off, nodes)
        return None


def _file(name: str, id: str) -> str:
    """The name of a note's file.

    >>> _file("calls", "a/b")
    'calls+a%2Fb'
    """
    return f"{quote(name, safe='')}+{quote(id, safe='')}"
