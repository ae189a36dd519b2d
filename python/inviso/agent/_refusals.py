"""Counts connections that zenoh refused for their certificates. zenoh reports them by lines of its log only."""

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
"""The name in zenoh's log of the part that accepts TLS connections."""

LONGEST = 1 << 16
"""Bytes of a line that are read at once."""

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class Refusals:
    """Reads everything that this process writes to standard output, with zenoh's log, and passes it on unchanged.

    It counts warnings and errors of zenoh's part for TLS.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.last = ""
        """The text of the last counted line."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Refusals:
        if sys.stdout is not None:  # else descriptor 1 is closed, or another file
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
                self._count(line)
                with suppress(OSError):  # there is no reader
                    os.write(self._output, line)
        os.close(self._output)

    def _count(self, line: bytes) -> None:
        head, found, text = _COLOUR.sub(b"", line).partition(SPEAKER)
        if found and (b"WARN" in head or b"ERROR" in head):
            said = (text.partition(b": ")[2] or text).partition(b". Hint")[0].decode(errors="replace").strip()
            self.last = "".join(each if each.isprintable() else "?" for each in said[:200])
            self.lines += 1
