"""Sends trace messages to the runtime component of another process, which prints them or passes them to its handler."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

from inviso._link._folder import Folder
from inviso._link._frame import greeting, pack
from inviso.terms import Atom

from ._tracerdata import Refused

__all__ = ["Relay"]

WAITING = 4 << 20
"""Bytes that may wait for the other process. Further messages are counted, and their number is sent in their place."""

PATIENCE = 1.0
"""Seconds for a connection."""


class Relay:
    """A connection to the node that gets the messages. It never waits."""

    def __init__(self, node: str, own: str) -> None:
        try:
            with Folder.open(make=False) as folder:
                pid = folder.names().get(node)
                if pid is None:
                    raise Refused((Atom("not_an_added_node"), node))
                self._socket = folder.connect(pid)
        except OSError as error:
            raise Refused((Atom("trace_port_args"), [(Atom("relayer"), node), error.strerror or str(error)])) from None
        self._socket.setblocking(False)
        self._out = bytearray(greeting(node=own, pid=os.getpid()))
        self._lost = 0

    def __call__(self, message: Any) -> None:
        """Sends one message, or counts it. BrokenPipeError if the other process has gone."""
        data = pack((Atom("relay"), message))
        if len(self._out) + len(data) > WAITING:
            self._lost += 1
        else:
            if self._lost:
                self._out += pack((Atom("relay"), (Atom("drop"), self._lost)))
                self._lost = 0
            self._out += data
        self.flush()

    def flush(self) -> None:
        """Sends waiting bytes without blocking. BrokenPipeError if the other process has gone."""
        with suppress(BlockingIOError):
            self._read()
            while self._out:
                del self._out[: self._socket.send(self._out, socket.MSG_NOSIGNAL)]

    def _read(self) -> None:
        """Reads and drops the other side's greeting, so that its buffer does not fill."""
        with suppress(BlockingIOError):
            if not self._socket.recv(1 << 16):
                raise BrokenPipeError

    def close(self) -> None:
        """Sends waiting bytes, for at most ``PATIENCE`` seconds, and closes."""
        with suppress(OSError):
            self._socket.settimeout(PATIENCE)
            self._socket.sendall(self._out)
        self._socket.close()
