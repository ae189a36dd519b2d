"""A progress display on the terminal while a long program runs.

It is at the right end of the terminal's last line. The cursor returns to its place, so output of the program and input
of the user are not disturbed. The thread that draws it is stopped while the process forks.
"""

from __future__ import annotations

import os
from time import perf_counter

from inviso._background import Timer

__all__ = ["Progress"]

FIRST_AFTER = 2.0
"""Seconds until it is shown first."""

EVERY = 1.0


class Progress:
    """The display of one run. Does nothing unless the descriptor is a terminal that can move its cursor."""

    __slots__ = ("_began", "_command", "_descriptor", "_dim", "_drawn", "_on", "_thread", "_title")

    def __init__(self, descriptor: int, title: str, command: str = "tprof") -> None:
        self._command = command
        self._descriptor = descriptor
        self._title = title if title.isprintable() else "program"
        self._on = os.isatty(descriptor) and os.environ.get("TERM", "dumb") != "dumb"
        self._dim = not os.environ.get("NO_COLOR")
        self._began = 0.0
        self._drawn = 0
        self._thread = Timer(self._step)

    def start(self) -> None:
        """Begins to count the seconds."""
        if not self._on:
            return
        self._began = perf_counter()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._thread.stop, after_in_parent=self._go, after_in_child=self._leave)
        self._go()

    def stop(self) -> None:
        """Erases the display for ever."""
        self._thread.end()
        self._on = False
        if self._drawn:
            self._draw("")

    def _go(self) -> None:
        if self._on:
            self._thread.start(max(0.0, self._began + FIRST_AFTER - perf_counter()))

    def _leave(self) -> None:
        self._on = False
        self._drawn = 0
        self._thread.forget()

    def _step(self) -> float | None:
        try:
            self._draw(f" inviso {self._command}: {self._title}, {perf_counter() - self._began:.0f} s")
        except OSError:
            return None  # the terminal is gone
        return EVERY

    def _draw(self, text: str) -> None:
        """Writes the text at the right end of the last line, over the previous text."""
        try:
            columns, lines = os.get_terminal_size(self._descriptor)
        except OSError:
            return
        columns, lines = columns or 80, lines or 24
        text = text[: columns - 1]
        width = max(self._drawn, len(text))
        self._drawn = len(text)
        at = f"\x1b[{lines};{max(1, columns - width + 1)}H"
        style, plain = ("\x1b[2m", "\x1b[0m") if self._dim and text else ("", "")
        os.write(self._descriptor, f"\x1b7{at}{style}{text.rjust(width)}{plain}\x1b8".encode())
