"""Connections of a control component to the processes that it traces: one thread looks after all of them."""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from inviso import _fork
from inviso._beside import Beside
from inviso._link._folder import Folder
from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import Life, credentials, may_serve
from inviso._system import Flag, allocate_lock
from inviso.terms import Atom

from ._local import LocalLink

__all__ = ["Hub", "Link"]

ERROR = Atom("error")
TIMEOUT = (ERROR, Atom("timeout"))
GONE = (ERROR, (Atom("no_response"), Atom("disconnected")))


class _Batch:
    """Requests that one caller waits for together."""

    __slots__ = ("answers", "done", "left", "lock")

    def __init__(self, number: int) -> None:
        self.answers: list[Any] = [TIMEOUT] * number
        self.left = number
        self.done = Flag()
        self.lock = allocate_lock()
        if not number:
            self.done.set()

    def put(self, at: int, answer: Any) -> None:
        """One answer; the last one wakes the caller."""
        with self.lock:
            self.answers[at] = answer
            self.left -= 1
            is_last = not self.left
        if is_last:
            self.done.set()


class Link:
    """A connection to one process."""

    def __init__(self, made: socket.socket, pid: int, about: dict[str, Any], frames: Frames) -> None:
        self.socket = made
        self.pid = pid
        self.about = about
        self.node = str(about.get("node", f"process {pid}"))
        self.frames = frames
        self.out = bytearray()
        self.pending: dict[int, Callable[[Any], None]] = {}
        """Who waits for the answers to requests, by their numbers."""
        self.life = Life(pid)
        self.is_open = True
        self.is_local = False
        self.on_event: Callable[[Any], None] = lambda event: None
        self.on_end: Callable[[str], None] = lambda why: None


class _Caller:
    """A process that has connected by itself and has not said yet what it wants."""

    __slots__ = ("about", "frames", "pid", "socket")

    def __init__(self, made: socket.socket, pid: int) -> None:
        self.socket = made
        self.pid = pid
        self.frames = Frames()
        self.about: dict[str, Any] | None = None


class Hub:
    """All connections of one control."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._links: dict[int, Link] = {}
        """By the descriptors of their sockets and processes."""
        self._numbers = itertools.count(1)
        self._posted: deque[Callable[[], None]] = deque()
        self._listening: socket.socket | None = None
        self._callers: dict[int, _Caller] = {}
        self._taken: Callable[[Link, Any, Any], None] = lambda link, tag, both: None
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._pid = os.getpid()
        self._thread = Beside(self._step, self._ring)
        _fork.rest(self._thread.stop, self._go_on, lambda: self._pid == os.getpid())
        os.register_at_fork(after_in_child=self._forget)
        self._thread.start(0.0)

    @property
    def is_open(self) -> bool:
        """Whether it is this process's, and open."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """Ends all connections and the thread."""
        if self._pid != os.getpid():
            return
        self._thread.end()
        self._pid = 0
        for link in set(self._links.values()):
            self._end(link, "closed")
        self._close_callers()
        self._epoll.close()
        os.close(self._bell)

    def _close_callers(self) -> None:
        for caller in self._callers.values():
            caller.socket.close()
        self._callers.clear()
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def connect(self, folder: Folder, pid: int, deadline: float) -> Link:
        """A link to a process.

        Raises:
            OSError: there is no such process, or it doesn't answer in time.
            BadFrame: what answers is not this protocol, or refuses; the text says why.
        """
        made = folder.connect(pid, max(0.001, deadline - time.monotonic()))
        try:
            made.sendall(greeting(node=self.node, pid=os.getpid()))
            frames = Frames()
            about = _first(made, frames, deadline)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        link = Link(made, pid, about, frames)
        self._post(lambda: self._enter(link))
        return link

    def call(self, requests: Iterable[tuple[Link | LocalLink, str, list[Any]]], timeout: float) -> list[Any]:
        """The answers to requests that are made at once, in their order. Who does not answer in time gets ``timeout``."""
        asked = list(requests)
        batch = _Batch(len(asked))

        def send() -> None:
            for at, (link, name, arguments) in enumerate(asked):
                if isinstance(link, LocalLink):
                    continue
                self._ask(link, name, arguments, partial(batch.put, at))

        for at, (link, name, arguments) in enumerate(asked):
            if isinstance(link, LocalLink):
                link.ask(name, arguments, partial(batch.put, at))
        if not all(isinstance(link, LocalLink) for link, _, _ in asked):
            self._post(send)
        batch.done.wait(timeout)
        with batch.lock:
            return list(batch.answers)

    def _ask(self, link: Link, name: str, arguments: list[Any], put: Callable[[Any], None]) -> None:
        """In the thread: sends a request; ``put`` is called with the answer."""
        if not link.is_open:
            return put(GONE)
        number = next(self._numbers)
        try:
            data = pack((Atom("call"), number, name, arguments))
        except Exception as error:
            return put((ERROR, (Atom("badarg"), str(error))))
        link.pending[number] = put
        link.out += data
        self._flush(link)

    def listen(self, folder: Folder, taken: Callable[[Link, Any, Any], None]) -> None:
        """Lets processes that started by themselves announce themselves; ``taken`` is called with the link of each that belongs to
        this control from then on, its tag, and its state and status. OSError if there can be no socket.
        """
        made = folder.listen(os.getpid())
        made.setblocking(False)

        def enter() -> None:
            self._listening, self._taken = made, taken
            self._epoll.register(made.fileno(), select.EPOLLIN)

        self._post(enter)

    def leave(self, link: Link | LocalLink) -> None:
        """Ends one connection."""
        if isinstance(link, LocalLink):
            return link.end()
        done = Flag()

        def end() -> None:
            self._end(link, "closed")
            done.set()

        self._post(end)
        done.wait(1.0)

    # the thread

    def _post(self, job: Callable[[], None]) -> None:
        self._posted.append(job)
        self._ring()

    def _ring(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._bell, 1)

    def _go_on(self) -> None:
        if self._pid == os.getpid():
            self._thread.start(0.0)

    def _forget(self) -> None:
        """In a forked child: the parent's connections are not this process's."""
        if not self._pid:
            return
        self._pid = 0
        self._thread.forget()
        for link in set(self._links.values()):
            link.socket.close()
            link.life.close()
        self._links.clear()
        self._close_callers()
        self._epoll.close()
        with suppress(OSError):
            os.close(self._bell)

    def _step(self) -> float | None:
        for descriptor, event in self._epoll.poll(-1):
            if descriptor == self._bell:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
            elif self._listening is not None and descriptor == self._listening.fileno():
                self._accept(self._listening)
            elif (caller := self._callers.get(descriptor)) is not None:
                self._hear(caller)
            elif (link := self._links.get(descriptor)) is not None:
                if descriptor == link.life.descriptor:
                    self._read(link)  # what it said last
                    self._end(link, "killed" if link.is_open else "closed")
                else:
                    if event & select.EPOLLOUT:
                        self._flush(link)
                    if event & ~select.EPOLLOUT:
                        self._read(link)
        while self._posted:
            self._posted.popleft()()
        return 0.0

    def _accept(self, listening: socket.socket) -> None:
        try:
            made, _ = listening.accept()
        except OSError:
            return
        made.setblocking(False)
        pid, uid = credentials(made)
        with suppress(OSError):
            if may_serve(uid):
                made.send(greeting(node=self.node, pid=os.getpid()))
                self._callers[made.fileno()] = _Caller(made, pid)
                self._epoll.register(made.fileno(), select.EPOLLIN)
                return
        made.close()

    def _hear(self, caller: _Caller) -> None:
        """A process that says who it is."""
        try:
            data = caller.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            if not data:
                raise BadFrame("it has gone")
            for term in caller.frames.feed(data):
                match term:
                    case _ if caller.about is None:
                        caller.about = peer_of(term)
                    case ("connect", str(node), int(pid), str(), tag) if pid == caller.pid:
                        self._forget_caller(caller)
                        link = Link(caller.socket, pid, {**caller.about, "node": node}, caller.frames)
                        self._enter(link)
                        return self._ask(link, "confirm", [], partial(self._confirmed, link, tag))
                    case _:
                        raise BadFrame("it announces nothing")
        except BadFrame:
            self._forget_caller(caller)
            caller.socket.close()

    def _forget_caller(self, caller: _Caller) -> None:
        self._callers.pop(caller.socket.fileno(), None)
        self._epoll.unregister(caller.socket.fileno())

    def _confirmed(self, link: Link, tag: Any, answer: Any) -> None:
        match answer:
            case ("ok", (state, status, _)):
                self._taken(link, tag, (state, status))
            case _:
                self._end(link, "closed")

    def _enter(self, link: Link) -> None:
        self._links[link.socket.fileno()] = link
        self._epoll.register(link.socket.fileno(), select.EPOLLIN)
        if link.life.descriptor >= 0:
            self._links[link.life.descriptor] = link
            self._epoll.register(link.life.descriptor, select.EPOLLIN)
        self._take(link, b"")

    def _read(self, link: Link) -> None:
        if not link.is_open:
            return
        try:
            data = link.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._end(link, "noconnection")
        self._take(link, data)

    def _take(self, link: Link, data: bytes) -> None:
        try:
            for term in link.frames.feed(data):
                match term:
                    case ("answer", int(number), answer):
                        put = link.pending.pop(number, None)
                        if put is not None:
                            put(answer)
                    case ("event", event):
                        link.on_event(event)
                    case ("refused", str(why)):
                        return self._end(link, why)
        except BadFrame as wrong:
            self._end(link, str(wrong))

    def _flush(self, link: Link) -> None:
        try:
            while link.out:
                del link.out[: link.socket.send(link.out)]
        except BlockingIOError:
            pass
        except OSError:
            return self._end(link, "noconnection")
        if link.socket.fileno() in self._links:
            self._epoll.modify(link.socket.fileno(), select.EPOLLIN | (select.EPOLLOUT if link.out else 0))

    def _end(self, link: Link, why: str) -> None:
        if not link.is_open:
            return
        link.is_open = False
        for descriptor in (link.socket.fileno(), link.life.descriptor):
            if self._links.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)
        link.socket.close()
        link.life.close()
        pending, link.pending = link.pending, {}
        for put in pending.values():
            put(GONE)
        link.on_end(why)


def _first(made: socket.socket, frames: Frames, deadline: float) -> dict[str, Any]:
    """What the other side says of itself; what it sends after that stays in ``frames``."""
    while True:
        made.settimeout(max(0.001, deadline - time.monotonic()))
        data = made.recv(4096)
        if not data:
            raise BadFrame("it has ended the connection")
        for term in frames.feed(data):
            match term:
                case ("refused", str(why)):
                    raise BadFrame(why)
            return peer_of(term)
