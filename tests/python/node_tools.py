"""Prepared processes for tests: real ones that carry out a test's lines."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["HOST", "Node", "started"]

HOST = socket.gethostname()

PROGRAM = """
import sys, threading
import inviso
from inviso import runtime

def work(n):
    return n + 1

def fails(n):
    raise ValueError(n)

runtime.listen(sys.argv[1], log_dir=sys.argv[2], allow=tuple(sys.argv[3:]))
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Node:
    """A process with a listener; it runs until the test ends."""

    def __init__(
        self,
        name: str,
        log_dir: Path,
        allow: tuple[str, ...] = (),
        python: str = sys.executable,
        host: str = HOST,
        **environment: str,
    ) -> None:
        self.name = f"{name}@{host}"
        self.log_dir = log_dir
        self._process = subprocess.Popen(
            [python, "-c", PROGRAM, name, str(log_dir), *allow],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment},
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._answer() == "ready"

    def run(self, line: str) -> None:
        """Runs a line of Python there, and waits until that is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        assert self._answer() == "done"

    def end(self) -> None:
        """Ends it regularly, by the end of its input."""
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends it a signal. After SIGSTOP it has stopped when this returns."""
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def close(self) -> None:
        """Ends it in any case."""
        self._process.kill()
        with suppress(ValueError):  # its input has been closed
            self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def started(folder: Path, *names: str, **more: Any) -> Iterator[list[Node]]:
    """Some nodes. The logs of each are in a folder of its name."""
    nodes: list[Node] = []
    try:
        for name in names:
            nodes.append(Node(name, folder / name, **more))
        yield nodes
    finally:
        for node in nodes:
            node.close()
