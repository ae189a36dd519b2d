"""Connections that zenoh has refused because of their certificates: it has no event for them, only lines of its log."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any

__all__ = ["Refusals"]

SPEAKER = b"zenoh_link_tls"
"""The part of zenoh that takes TLS connections, as lines of its log name it."""

LONGEST = 1 << 16
"""Bytes of a line that are looked at together."""

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class Refusals:
    """Reads what this process writes to standard output, as zenoh does with its log, and passes it on as it is. Warnings
    and errors of zenoh's part for TLS are counted; a line of another form is passed on only.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.last = ""
        """What the last of them says."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Refusals:
        if sys.stdout is not None:  # else descriptor 1 is closed, or some other file
            self._output = os.dup(1)
            reading, writing = os.pipe()
            os.dup2(writing, 1)
            os.close(writing)
            self._thread = threading.Thread(target=self._pass_on, args=(reading,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._thread is not None:
            os.dup2(self._output, 1)  # ends the pipe
            self._thread.join(1.0)  # the output may be stuck

    def _pass_on(self, reading: int) -> None:
        with open(reading, "rb") as lines:
            for line in iter(partial(lines.readline, LONGEST), b""):
                self._look(line)
                with suppress(OSError):  # nobody reads it
                    os.write(self._output, line)
        os.close(self._output)

    def _look(self, line: bytes) -> None:
        head, found, text = _COLOUR.sub(b"", line).partition(SPEAKER)
        if found and (b"WARN" in head or b"ERROR" in head):
            said = (text.partition(b": ")[2] or text).partition(b". Hint")[0].decode(errors="replace").strip()
            self.last = "".join(each if each.isprintable() else "?" for each in said[:200])
            self.lines += 1
