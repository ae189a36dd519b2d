"""``inviso trace --recorder``: a flight recorder for a program, which writes its log at the program's end and at
SIGUSR2.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inviso import tracing
from inviso._pattern import Pattern, hint, show

from ._command import CannotBegin
from ._options import Usage, absolute

__all__ = ["OPTION", "Recording", "path_of"]

OPTION = "--recorder"
_OTHERS = ("--output", "--limit", "--rate")


def path_of(options: dict[str, str]) -> str:
    """The log's full path. Raises ``Usage`` for an option that a recorder doesn't have."""
    for other in _OTHERS:
        if other in options:
            raise Usage(f"{other}: a recorder keeps the newest calls and writes to its own FILE; drop {other}")
    return absolute(options[OPTION], OPTION, dash=False) or ""


@dataclass
class Recording:
    """The command's work around the program."""

    path: str
    patterns: list[Pattern]
    spec: list[Any]
    ring_bytes: int
    note: Callable[[str], object]
    """Prints a line on standard error."""
    _tracing: tracing.Tracing | None = None

    def prepare(self) -> None:
        """Checks that the file can be written, as far as possible in advance."""
        folder = os.path.dirname(self.path)
        if os.path.isdir(self.path) or not os.access(folder, os.W_OK | os.X_OK):
            raise CannotBegin(f"{OPTION}: {self.path} can't be written; give a file in a folder that you may write to")
        atexit.register(self._finish, os.getpid())

    def begin(self) -> None:
        """Begins recording."""
        options = {
            "ring_bytes": self.ring_bytes, "overflow": "overwrite", "dump_to": self.path + ".{n}", "dump_every": 0,
            "dump_signal": signal.SIGUSR2,
        }  # fmt: skip
        try:
            self._tracing = tracing.begin(
                "inviso trace --recorder", None, options, processes={"all": ["call", "timestamp"]},
                patterns=self.patterns, match_spec=self.spec or True,
            )  # fmt: skip
        except RuntimeError as error:
            raise CannotBegin(str(error)) from error

    def cancel(self) -> None:
        """Ends recording: there is no program after all."""
        traced, self._tracing = self._tracing, None
        if traced is not None:
            traced.end()

    def _finish(self, process: int) -> None:
        traced, self._tracing = self._tracing, None
        if traced is None or os.getpid() != process or not traced.session.is_alive():
            return
        traced.session.process("all", False, ["all"])
        try:
            done = traced.session.dump(self.path)
            lost = f", {done.dropped} older ones were overwritten" if done.dropped else ""
            self.note(f"*** inviso trace: the last {done.written} events are in {self.path}{lost}.")
            before = traced.session.info("session", "dumps")[1][0]
            idle = [] if done.written or done.dropped or before else self.patterns
        except OSError as error:
            self.note(f"*** inviso trace: {self.path}: {error.strerror}; nothing was written.")
            idle = []
        traced.end("program")
        for pattern in idle:
            near = hint(pattern)
            self.note(f"*** inviso trace: no call of {show(pattern)} was seen{'; ' * bool(near)}{near or '.'}")
