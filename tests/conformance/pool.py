"""Interpreters that cases are executed in, and the watchdog over them.

A case that crashes its interpreter, or hangs, fails alone: the interpreter is ended, and the next case gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from types import TracebackType
from typing import IO

from .cases import Case
from .specs import SpecCase

__all__ = ["Pool"]

PATIENCE = 10.0
"""Seconds that a case may take, the start of an interpreter not counted."""

BATCH = 40
"""Cases that one interpreter executes before a new one takes over."""

LAST_LINES = 3
"""Lines of a crashed interpreter's standard error that are shown."""


class Pool:
    """One interpreter at a time."""

    def __init__(self, patience: float = PATIENCE, command: list[str] | None = None) -> None:
        self._patience = patience
        self._command = command or [sys.executable, "-X", "faulthandler", "-m", f"{__package__}.worker"]
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None
        self._left = 0

    def run(self, case: Case | SpecCase) -> str | None:
        """Executes a case; its first difference, crash or hang in words, or None."""
        process = self._interpreter()
        assert process.stdin is not None
        assert process.stdout is not None
        self._left -= 1
        try:
            process.stdin.write(json.dumps(case.as_json()) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._crashed(process)
        if not select.select([process.stdout], [], [], self._patience)[0]:
            self._end(kill=True)
            return f"hangs: no result within {self._patience:g} s; the interpreter was killed"
        line = process.stdout.readline()
        if not line:
            return self._crashed(process)
        result = json.loads(line)
        if not result["healthy"]:
            self._end(kill=True)
        difference: str | None = result["difference"]
        return difference

    def _interpreter(self) -> subprocess.Popen[str]:
        if self._process is not None and (self._left <= 0 or self._gone(self._process)):
            self._end()
        if self._process is None:
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 closed in _end
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, encoding="utf-8"
            )
            self._left = BATCH
        return self._process

    def _gone(self, process: subprocess.Popen[str]) -> bool:
        """Whether an interpreter has ended, or is about to: its standard output is closed."""
        assert process.stdout is not None
        readable = select.select([process.stdout], [], [], 0)[0]
        return process.poll() is not None or bool(readable)

    def _crashed(self, process: subprocess.Popen[str]) -> str:
        end = time.monotonic() + self._patience
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        status = process.returncode
        how = f"status {status}"
        if status is not None and status < 0:
            how = signal.Signals(-status).name
        last = self._last_errors()
        self._end(kill=True)
        return f"the interpreter ended with {how}" + (f": {last}" if last else "")

    def _last_errors(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        return " / ".join(line.strip() for line in deque((e for e in self._errors if e.strip()), LAST_LINES))

    def _end(self, *, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if kill:
            process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(self._patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if self._errors is not None:
            self._errors.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kill=kind is not None)
