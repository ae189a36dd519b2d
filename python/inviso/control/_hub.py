"""Connections of a control component to the processes that it traces. One thread serves all of them."""

from __future__ import annotations

import errno
import itertools
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from inviso import _fork
from inviso._background import Timer
from inviso._link._bell import Bell, say
from inviso._link._folder import Folder
from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import Life, credentials, may_serve
from inviso._system import Flag, allocate_lock
from inviso.terms import Atom

from ._local import LocalLink

__all__ = ["Hub", "Link"]

OK, ERROR = Atom("ok"), Atom("error")
TIMEOUT = (ERROR, Atom("timeout"))
GONE = (ERROR, (Atom("no_response"), Atom("disconnected")))
BUSY = (ERROR, Atom("busy"))

NODEDOWN = "nodedown"
"""An agent's reason for a node of another host that is not there."""

PATIENCE = 3600.0
"""The longest wait for an answer from another host, in seconds."""

WAITING = 64 << 20
"""Bytes of requests that may wait for one process. With more, a request is answered with ``BUSY``."""


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
        """Stores one answer. The last one wakes the caller."""
        with self.lock:
            self.answers[at] = answer
            self.left -= 1
            is_last = not self.left
        if is_last:
            self.done.set()


class Link:
    """A connection to one process."""

    def __init__(self, made: socket.socket, pid: int, process: int, *, is_remote: bool = False) -> None:
        self.socket = made
        self.pid = pid
        self.about: dict[str, Any] | None = None
        """The contents of its first frame."""
        self.frames = Frames()
        self.out = bytearray()
        self.pending: dict[int, Callable[[Any], None]] = {}
        """Callbacks for the answers to requests, by the numbers of the requests."""
        self.is_caller = False
        """Whether the process opened the connection."""
        self.life = Life(process, is_watched=not is_remote)  # an agent has no children that keep its connections
        self.is_open = True
        self.ended: Any = None
        """The answer to requests after the end, if something was wrong; None if the process has gone."""
        self.is_local = False
        self.is_remote = is_remote
        """Whether it leads to another host, by an agent. ``pid`` is then the agent's."""
        self.on_event: Callable[[Any], None] = lambda event: None
        self.on_end: Callable[[str], None] = lambda why: None

    def forget(self, answer: Any) -> None:
        """Gives this answer to all pending requests."""
        pending, self.pending = self.pending, {}
        for put in pending.values():
            put(answer)


class Hub:
    """All connections of one control."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._links: dict[int, Link] = {}
        """Links, by the descriptors of their sockets and processes."""
        self._numbers = itertools.count(1)
        self._posted: deque[Callable[[], None]] = deque()
        self._listening: socket.socket | None = None
        self._taken: Callable[[Link, str, Any, Any], None] = lambda link, node, tag, both: None
        self._epoll = select.epoll()
        self._bell = Bell()
        self._epoll.register(self._bell.descriptor, select.EPOLLIN)
        self._pid = os.getpid()
        self._thread = Timer(self._step, self._bell.ring)
        self._no_forks = _fork.rest(self._rest, self._go_on, lambda: self._pid == os.getpid(), self._forget)
        self._thread.start(0.0)

    @property
    def is_open(self) -> bool:
        """Whether it belongs to this process, and is open."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """Ends all connections and the thread."""
        if self._pid != os.getpid():
            return
        if not self._bell.is_there():
            return self._give_up()
        self._thread.end()
        self._pid = 0
        self._work()
        for link in set(self._links.values()):
            self._end(link, "closed")
        self._close_listening()
        self._epoll.close()
        self._bell.close()
        self._no_forks()

    def _close_listening(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()

    def connect(self, folder: Folder, pid: int, to: str | None = None, wait: float = 0.0) -> Link:
        """A link to a process. With ``to`` that process is an agent, and the link leads to a node of another host.

        It waits at most ``wait`` seconds for the process to accept. The other side's greeting comes with the first
        answer.

        Raises:
            OSError: there is no such process, or it belongs to another user, or its queue of connections is full.
        """
        made = folder.connect(pid, wait)
        try:
            process, user = credentials(made)
            if user != folder.owner:
                raise PermissionError(errno.EPERM, "the process that listens there is another user's", folder.path)
            with suppress(BrokenPipeError, ConnectionResetError):  # what it sent before its end is still read
                made.send(greeting(node=self.node, pid=os.getpid(), **({} if to is None else {"to": to})))
            link = Link(made, pid, process, is_remote=to is not None)
        except BaseException:
            made.close()
            raise
        self._post(lambda: self._enter(link))
        return link

    def call(self, requests: Iterable[tuple[Link | LocalLink, str, list[Any]]], timeout: float) -> list[Any]:
        """Makes requests at once, and returns the answers in their order. A late one is ``("error", "timeout")``."""
        return self.begin(requests, timeout)()

    def begin(
        self, requests: Iterable[tuple[Link | LocalLink, str, list[Any]]], timeout: float
    ) -> Callable[[], list[Any]]:
        """Makes requests at once. The function that it returns waits for the answers, as :meth:`call` does."""
        if self._thread.is_current():
            raise RuntimeError("a function that gets events can't wait for nodes; do it in another thread")
        asked = list(requests)
        batch = _Batch(len(asked))
        sent: list[tuple[Link, int]] = []

        def send() -> None:
            for at, (link, name, arguments) in enumerate(asked):
                if isinstance(link, LocalLink):
                    continue
                number = self._ask(link, name, arguments, partial(batch.put, at), timeout)
                if number is not None:
                    sent.append((link, number))

        def answers() -> list[Any]:
            if not self.is_open or not batch.done.wait(timeout):
                self._post(lambda: forget(sent))
            with batch.lock:
                return list(batch.answers)

        for at, (link, name, arguments) in enumerate(asked):
            if isinstance(link, LocalLink):
                link.ask(name, arguments, partial(batch.put, at))
        if not all(isinstance(link, LocalLink) for link, _, _ in asked):
            self._post(send)
        return answers

    def ask(self, link: Link | LocalLink, name: str, arguments: list[Any], put: Callable[[Any], None]) -> None:
        """Makes a request without waiting.

        ``put`` is called with the answer, however late it comes, or with the reason why there is no answer.
        """
        if isinstance(link, LocalLink):
            return link.ask(name, arguments, put)

        def send() -> None:
            self._ask(link, name, arguments, put)

        self._post(send)

    def _ask(
        self, link: Link, name: str, arguments: list[Any], put: Callable[[Any], None], timeout: float = PATIENCE
    ) -> int | None:
        """Sends a request and returns its number; runs in the thread. ``put`` is called with the answer.

        If no request can be sent, ``put`` is called at once, and the number is None. A request to an agent carries the
        timeout.
        """
        if not link.is_open or len(link.out) > WAITING:
            put(BUSY if link.is_open else link.ended or GONE)
            return None
        number = next(self._numbers)
        try:
            time = (int(1000 * min(timeout, PATIENCE)),) if link.is_remote else ()
            data = pack((Atom("call"), number, name, arguments, *time))
        except Exception as error:
            put((ERROR, (Atom("badarg"), str(error))))
            return None
        link.pending[number] = put
        link.out += data
        self._flush(link)
        return number

    def listen(self, folder: Folder, taken: Callable[[Link, str, Any, Any], None]) -> None:
        """Opens the socket at which processes with autostart announce themselves.

        ``taken`` is called for each one that this control adopts: with its link, its node, its tag, and its state and
        status.

        Raises:
            OSError: there can be no socket.
        """
        made = folder.listen(os.getpid())
        made.setblocking(False)

        def enter() -> None:
            self._listening, self._taken = made, taken
            self._epoll.register(made.fileno(), select.EPOLLIN)

        self._post(enter)

    def leave(self, *links: Link | LocalLink) -> None:
        """Ends connections."""
        if not links:
            return
        done = Flag()

        def end() -> None:
            for link in links:
                if isinstance(link, Link):
                    self._end(link, "closed")
            done.set()

        for link in links:
            if isinstance(link, LocalLink):
                link.end()
        if self._thread.is_current():
            return end()
        self._post(end)
        done.wait(1.0)

    # the thread

    def _post(self, job: Callable[[], None]) -> None:
        self._posted.append(job)
        self._bell.ring()

    def _rest(self) -> None:
        if self._bell.is_there():
            self._thread.stop()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Ends after the program has closed our descriptors. Their numbers may belong to other files by now, so nothing
        is closed.
        """
        self._pid = 0
        self._thread.cancel()
        for link in set(self._links.values()):
            link.is_open = False
            link.socket.detach()
            link.life.descriptor = -1
            link.forget(GONE)
        self._links.clear()
        if self._listening is not None:
            self._listening.detach()
        _left.append(self._epoll)

    def _go_on(self) -> None:
        if self._pid == os.getpid():
            self._thread.start(0.0)

    def _forget(self) -> None:
        """Closes the parent's connections in a forked child."""
        if not self._pid:
            return
        self._pid = 0
        self._thread.forget()
        for link in set(self._links.values()):
            link.socket.close()
            link.life.close()
        self._links.clear()
        self._close_listening()
        self._epoll.close()
        self._bell.close()

    def _step(self) -> float | None:
        for descriptor, event in self._epoll.poll(-1):
            if descriptor == self._bell.descriptor:
                self._bell.answer()
            elif self._listening is not None and descriptor == self._listening.fileno():
                self._accept(self._listening)
            elif (link := self._links.get(descriptor)) is not None:
                if descriptor == link.life.descriptor:
                    while link.is_open and self._read(link):
                        pass  # its last frames
                    self._end(link, "killed" if link.is_open else "closed")
                else:
                    if event & select.EPOLLOUT:
                        self._flush(link)
                    if event & ~select.EPOLLOUT:
                        self._read(link)
        self._work()
        return 0.0

    def _work(self) -> None:
        while self._posted:
            try:
                self._posted.popleft()()
            except Exception as error:  # the other requests continue
                say(f"the control component: {type(error).__name__}: {error}")

    def _accept(self, listening: socket.socket) -> None:
        """Accepts the connection of a process with autostart."""
        try:
            made, _ = listening.accept()
        except OSError:
            return
        made.setblocking(False)
        pid, uid = credentials(made)
        with suppress(OSError):
            if may_serve(uid):
                made.send(greeting(node=self.node, pid=os.getpid()))
                link = Link(made, pid, pid)
                link.is_caller = True
                return self._enter(link)
        made.close()

    def _confirmed(self, link: Link, node: str, tag: Any, answer: Any) -> None:
        match answer:
            case ("ok", (state, status, _)):
                self._taken(link, node, tag, (state, status))
            case _:
                self._end(link, "closed")

    def _enter(self, link: Link) -> None:
        self._links[link.socket.fileno()] = link
        self._epoll.register(link.socket.fileno(), select.EPOLLIN)
        if link.life.descriptor >= 0:
            self._links[link.life.descriptor] = link
            self._epoll.register(link.life.descriptor, select.EPOLLIN)
        elif link.life.has_ended():
            self._end(link, "killed")

    def _read(self, link: Link) -> bool:
        """Reads once from the socket. Returns whether there may be more."""
        if not link.is_open:
            return False
        try:
            data = link.socket.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._end(link, "noconnection")
            return False
        self._take(link, data)
        return True

    def _take(self, link: Link, data: bytes) -> None:
        try:
            for term in link.frames.feed(data):
                if link.about is None and not _is_refusal(term):
                    link.about = peer_of(term)
                    continue
                match term:
                    case ("answer", int(number), answer):
                        put = link.pending.pop(number, None)
                        if put is not None:
                            put(answer if _is_answer(answer) else (ERROR, (Atom("bad_answer"), answer)))
                    case ("connect", str(node), int(pid), str(), tag) if link.is_caller and pid == link.pid:
                        self._ask(link, "confirm", [], partial(self._confirmed, link, node, tag))
                    case ("event", event):
                        link.on_event(event)
                    case ("ended", str(why)) if link.is_remote:
                        return self._end(link, why)
                    case ("refused", str(why)):
                        return self._refused(link, why)
                if not link.is_open:
                    return
        except BadFrame as wrong:
            self._refused(link, str(wrong))
        except Exception as error:
            self._refused(link, f"{type(error).__name__}: {error}")

    def _refused(self, link: Link, why: str) -> None:
        """Ends a link whose two sides can't communicate, or whose other side refuses to."""
        link.ended = (ERROR, Atom(NODEDOWN)) if link.is_remote and why == NODEDOWN else (ERROR, (Atom("refused"), why))
        self._end(link, why)

    def _flush(self, link: Link) -> None:
        try:
            while link.out:
                del link.out[: link.socket.send(link.out)]
        except BlockingIOError:
            pass
        except OSError:
            while self._read(link):
                pass  # its last frames may have the reason
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
        if link.about is None and link.ended is None and why == "noconnection":
            link.ended = ERROR, (Atom("refused"), "it has ended the connection")
        link.forget(link.ended or GONE)
        link.on_end(why)


_left: list[Any] = []
"""Objects that must not close their descriptors when they are collected."""


def forget(sent: list[tuple[Link, int]]) -> None:
    """Forgets requests whose caller has stopped waiting: a late answer is dropped."""
    for link, number in sent:
        link.pending.pop(number, None)


def _is_refusal(term: Any) -> bool:
    return isinstance(term, tuple) and len(term) == 2 and bool(term[0] == "refused")


def _is_answer(term: Any) -> bool:
    return isinstance(term, dict) or bool(term == OK) or (isinstance(term, tuple) and len(term) == 2)
