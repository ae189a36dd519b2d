"""Connections with frames, in an event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import Life, credentials, may_serve
from inviso.terms import Atom

__all__ = ["Line", "Wire"]

GREETING = 10.0
"""Seconds that the other side has to send its greeting."""

WAITING = 64 << 20
"""Bytes that may wait for the other side. With more, the connection ends."""

OK, ERROR = Atom("ok"), Atom("error")
GONE = ERROR, (Atom("no_response"), Atom("disconnected"))


class Wire:
    """A connection over a socket of this host. :meth:`of` makes it."""

    def __init__(self, made: socket.socket, pid: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = made
        self._frames = Frames()
        self._out: deque[memoryview] = deque()
        """Bytes that wait for the other side. (Up to Python 3.11 an asyncio transport copies all of them at each
        write.)
        """
        self._waiting = 0
        self._ends = False
        """Whether it ends when the waiting bytes are sent."""
        self._is_over = False
        self._is_read = False
        """Whether a task is waiting for data."""
        self.pid = pid

    @classmethod
    async def of(cls, made: socket.socket) -> Wire:
        """Wraps a socket. ``BadFrame`` if the process at the other end belongs to another user."""
        made.setblocking(False)
        pid, user = credentials(made)
        if not may_serve(user):
            made.close()
            raise BadFrame("it is another user's")
        return cls(made, pid)

    def send(self, term: Any) -> None:
        """Sends a term, without waiting. A side that does not read for long loses the connection."""
        self.write(pack(term))

    def greet(self, **about: Any) -> None:
        """Sends this side's greeting."""
        self.write(greeting(**about))

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        if self._ends or self._is_over:
            return
        self._out.append(memoryview(data))
        self._waiting += len(data)
        if len(self._out) == 1:
            self._flush()
        if self._waiting > WAITING:
            self._abort()

    def _flush(self) -> None:
        """Writes as much as possible now, and the rest when the socket is ready."""
        try:
            while self._out:
                sent = self._socket.send(self._out[0])
                self._waiting -= sent
                if sent == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][sent:]
        except BlockingIOError:
            return self._loop.add_writer(self._socket.fileno(), self._flush)
        except OSError:
            return self._abort()
        self._loop.remove_writer(self._socket.fileno())
        if self._ends:
            self._abort()

    def _abort(self) -> None:
        """Ends it now. A waiting reader sees the end first; then the socket is closed."""
        self._out.clear()
        self._is_over = True
        if (descriptor := self._socket.fileno()) >= 0:
            self._loop.remove_writer(descriptor)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if not self._is_read:
            self._socket.close()

    async def terms(self) -> AsyncIterator[Any]:
        """The received terms, until the other side has gone."""
        while data := await self._received():
            for term in self._frames.feed(data):
                yield term

    async def _received(self) -> bytes:
        if self._is_over:
            return b""
        self._is_read = True
        try:
            return await self._loop.sock_recv(self._socket, 1 << 18)
        except OSError:
            return b""
        finally:
            self._is_read = False
            if self._is_over:
                self._socket.close()

    def close(self) -> None:
        """Ends it after the waiting bytes are sent."""
        self._ends = True
        if not self._out and not self._is_over:
            self._abort()


class Line:
    """A connection to a prepared process of this host, for one control of another host, or for the agent itself."""

    def __init__(self, wire: Wire, on_event: Callable[[Any], None], on_end: Callable[[str], None]) -> None:
        self._wire = wire
        self._pending: dict[int, Callable[[Any], None]] = {}
        self._number = 0
        self._on_event = on_event
        self._on_end = on_end
        self._life = Life(wire.pid)
        self._task: asyncio.Task[None] | None = None
        self.about: dict[str, Any] = {}
        """The contents of the process's first frame."""
        self.is_open = True

    @classmethod
    async def to(
        cls, made: socket.socket, node: str, on_event: Callable[[Any], None], on_end: Callable[[str], None]
    ) -> Line:
        """Opens one for a control of the name ``node``. ``BadFrame`` if the process does not answer, OSError if it has
        gone.
        """
        wire = await Wire.of(made)
        wire.greet(node=node, pid=os.getpid())
        line = cls(wire, on_event, on_end)
        terms = wire.terms()
        try:
            async with asyncio.timeout(GREETING):
                line.about = peer_of(await anext(terms))
        except (TimeoutError, StopAsyncIteration, BadFrame):
            line._end("noconnection")
            raise BadFrame("it does not answer") from None
        except asyncio.CancelledError:
            line._end("closed")
            raise
        line._task = asyncio.create_task(line._read(terms))
        if line._life.descriptor >= 0:
            asyncio.get_running_loop().add_reader(line._life.descriptor, line._died)
        return line

    def ask(self, name: str, arguments: list[Any], answered: Callable[[Any], None]) -> None:
        """Makes a request. ``answered`` is called once, also if the process ends."""
        if not self.is_open:
            return answered(GONE)
        self._number += 1
        self._pending[self._number] = answered
        self._wire.send((Atom("call"), self._number, name, arguments))

    def close(self) -> None:
        """Leaves the process. A component that this connection owns follows its dependency."""
        self._on_end = lambda why: None
        self._end("closed")

    def _died(self) -> None:
        """The process has ended, though a child may keep the connection open. Ends the line after reading its last
        frames.
        """
        asyncio.get_running_loop().remove_reader(self._life.descriptor)
        asyncio.get_running_loop().call_later(0.001, self._end, "killed")

    async def _read(self, terms: AsyncIterator[Any]) -> None:
        try:
            async for term in terms:
                match term:
                    case ("answer", int(number), answer):
                        self._pending.pop(number, lambda _: None)(answer)
                    case ("event", event):
                        self._on_event(event)
                    case ("refused", str()):
                        break
        except BadFrame:
            pass
        self._end("noconnection")

    def _end(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._life.descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._life.descriptor)
            self._life.close()
        self._wire.close()
        pending, self._pending = self._pending, {}
        for answered in pending.values():
            answered(GONE)
        self._on_end(why)
