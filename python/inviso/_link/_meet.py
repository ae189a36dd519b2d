"""A connection to a process by a caller that waits for it: the greetings of both sides, then frames until a time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from ._folder import Folder
from ._frame import BadFrame, Frames, greeting, peer_of
from ._peer import credentials, may_serve

__all__ = ["Met"]

MOST = 1 << 16
"""Bytes that are read at once."""


class Met:
    """A connection on which both sides have said who they are. As a context manager it is closed at the end.

    Args:
        folder: where the process has its socket.
        pid: the process.
        own: the caller's node.
        until: when to give up, by ``time.monotonic``.

    Raises:
        OSError: as :meth:`Folder.connect`; TimeoutError.
        BadFrame: the process is another user's, speaks another protocol, or closes the connection.
    """

    __slots__ = ("about", "frames", "pid", "socket", "until")

    def __init__(self, folder: Folder, pid: int, own: str, until: float) -> None:
        self.pid = pid
        self.until = until
        self.frames = Frames()
        self.socket: socket.socket = folder.connect(pid)
        try:
            if not may_serve(credentials(self.socket)[1]):
                raise BadFrame("it is another user's")
            self.send(greeting(node=own, pid=os.getpid()))
            self.about: dict[str, Any] = peer_of(next(self.terms()))
            """What the process says of itself."""
        except BaseException:
            self.socket.close()
            raise

    @property
    def node(self) -> str:
        """The process's node."""
        return str(self.about.get("node", ""))

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self._wait()
        self.socket.sendall(data)

    def terms(self) -> Iterator[Any]:
        """The terms that come, without an end."""
        while True:
            self._wait()
            data = self.socket.recv(MOST)
            if not data:
                raise BadFrame("it closed the connection")
            yield from self.frames.feed(data)

    def wait_for_end(self) -> None:
        """Until the other side closes the connection; what it says before is dropped."""
        while True:
            self._wait()
            if not self.socket.recv(MOST):
                return

    def _wait(self) -> None:
        self.socket.settimeout(max(0.001, self.until - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.socket.close()
