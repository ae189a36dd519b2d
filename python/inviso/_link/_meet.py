"""A blocking connection to a process: the greetings of both sides, then frames until a deadline."""

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
    """A connection after the greetings of both sides. As a context manager it is closed at the end.

    Args:
        folder: the folder that has the process's socket.
        pid: the process.
        own: the caller's node.
        until: the deadline, by ``time.monotonic``.

    Raises:
        OSError: as :meth:`Folder.connect`; TimeoutError.
        BadFrame: the process belongs to another user, speaks another protocol, or closes the connection.
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
            """The contents of the process's first frame."""
        except BaseException:
            self.socket.close()
            raise

    @property
    def node(self) -> str:
        """The process's node."""
        return str(self.about.get("node", ""))

    def send(self, data: bytes) -> None:
        """Sends all bytes."""
        self._wait()
        self.socket.sendall(data)

    def terms(self) -> Iterator[Any]:
        """The received terms; ends only by an exception."""
        while True:
            self._wait()
            data = self.socket.recv(MOST)
            if not data:
                raise BadFrame("it closed the connection")
            yield from self.frames.feed(data)

    def wait_for_end(self) -> None:
        """Waits until the other side closes the connection. Earlier data is dropped."""
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
