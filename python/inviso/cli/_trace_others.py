"""Merges the lines of child processes into the leader's own lines, for ``inviso trace``.

A child appends each line, with its time in microseconds, to its own file in the run's folder. The leader reads new
lines there. While there are children, it delays all lines by ``HELD`` seconds, so that they are in the order of their
times. A child's log is a file beside the leader's.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from inviso._children import Folder

__all__ = ["LINES", "STOP", "ChildLine", "Others", "log_of", "micros"]

HELD = 0.03
LINES = ".lines"
STOP = "stop"
"""The name of a file that marks the end of tracing."""


class ChildLine:
    """A line from a child."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def micros(stamp: Any) -> int:
    """A timestamp as a number of microseconds."""
    mega, seconds, micro = stamp
    return int((mega * 1_000_000 + seconds) * 1_000_000 + micro)


def log_of(path: str, pid: int | str) -> str:
    """The file of a child's log, beside the leader's.

    >>> log_of("calls.log", 42)
    'calls.42.log'
    """
    return f"{path.removesuffix('.log')}.{pid}.log"


class Others:
    """The lines of children, for the leader."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}
        self._waiting: list[tuple[int, int, Any]] = []
        self._number = 0

    def among(self, messages: list[Any], *, has_time: bool, last: bool) -> list[Any]:
        """The leader's messages and the lines of children in the order of their times, as far as it is known by now."""
        at = self._waiting[-1][0] if self._waiting else 0
        for message in messages:
            if len(message) > 2:
                *rest, stamp = message
                at = micros(stamp)
                message = message if has_time else ("trace", *rest[1:])
            self._add(at, message)
        for name in self._folder.names(LINES):
            start = self._read.get(name, 0)
            data = self._folder.read(name, start) or b""
            end = data.rfind(b"\n") + 1
            self._read[name] = start + end
            for each in data[:end].decode("utf-8", "replace").split("\n")[:-1]:
                stamp, _, text = each.partition(" ")
                self._add(int(stamp), ("drop", int(text[1:])) if text.startswith("!") else ChildLine(text))
        self._waiting.sort(key=lambda item: item[:2])
        if last or not self._has_children():
            ready, self._waiting = self._waiting, []
        else:
            until = int((time.time() - HELD) * 1_000_000)
            number = sum(item[0] <= until for item in self._waiting)
            ready, self._waiting = self._waiting[:number], self._waiting[number:]
        return [item[2] for item in ready]

    def stop(self) -> None:
        """Ends tracing in the children."""
        with suppress(OSError):
            self._folder.append(STOP, b"")

    def _has_children(self) -> bool:
        return self._folder.has("log")

    def _add(self, at: int, what: Any) -> None:
        self._number += 1
        self._waiting.append((at, self._number, what))
