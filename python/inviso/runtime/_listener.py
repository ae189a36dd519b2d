"""The listener of a prepared process: one thread, one socket, and the host of a runtime component.

While nothing happens the thread waits in the kernel and takes no processor time. A fork stops it, then starts it again
in the parent. The child has neither thread nor socket. Requests of this process itself go through the same thread, so
effects have the order of the requests.
"""

from __future__ import annotations

import atexit
import errno
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from inviso import _fork
from inviso._background import Timer
from inviso._descriptor import moved
from inviso._link._bell import Bell, say
from inviso._link._folder import SUFFIX, Folder
from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import Life, credentials, may_serve
from inviso._program import command
from inviso._system import Flag, RLock
from inviso.terms import Atom

from ._ending import Guard
from ._host import Host
from ._resolver import Remote

__all__ = ["Listener"]

OK, ERROR = Atom("ok"), Atom("error")
EVENTS = 1 << 20
"""Bytes of events that may wait for one control. Further events are dropped and counted."""

ANSWERS = 64 << 20
"""Bytes of any kind that may wait for one control. With more, the connection is closed."""

GREETING = 10.0
"""Seconds that a new connection has to send its greeting."""

CONNECTIONS = 64
"""Connections at a time; others are refused."""

PATIENCE = 5.0
"""Seconds that :meth:`Listener.close` waits for another thread that is closing already."""

SPARE = 0.5
"""Seconds without accepting connections, after the process had no descriptor for one."""


class _Connection:
    """A connection of one control, or of a client that only asks."""

    def __init__(self, listener: Listener, made: socket.socket, pid: int) -> None:
        self._listener = listener
        self.socket = made
        self.pid = pid
        self.life: Life | None = None
        self.about: dict[str, Any] | None = None
        """The contents of its first frame."""
        self.frames = Frames()
        self.out = bytearray()
        self.lost_events = 0
        self.since = time.monotonic()

    @property
    def node(self) -> str:
        """The control's node."""
        return str((self.about or {}).get("node", f"process {self.pid}"))

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self.socket.fileno() >= 0

    def publish(self, event: Any) -> None:
        """Sends an event. One that does not fit, or is not a term, is counted; the next event that fits is sent after
        the count.
        """
        try:
            data = pack((Atom("event"), event))
        except Exception:
            self.lost_events += 1
            return
        if len(self.out) + len(data) > EVENTS:
            self.lost_events += 1
            return
        if self.lost_events:
            lost, self.lost_events = self.lost_events, 0
            self._listener.send(self, pack((Atom("event"), (Atom("lost"), lost))))
        self._listener.send(self, data)


class Listener:
    """Takes requests for this process. :func:`inviso.runtime.listen` makes it. Without a folder it serves this process
    alone.
    """

    def __init__(
        self,
        node: str,
        folder: Folder | None,
        log_dir: str,
        allow: tuple[str, ...],
        listening: socket.socket | None = None,
    ) -> None:
        self.node = node
        self.log_dir = os.path.abspath(log_dir)
        self.host = Host(Remote(log_dir, allow))
        self._folder = folder
        self._connections: dict[int, _Connection] = {}
        self._lives: dict[int, _Connection] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._is_leaving = False
        self._pid = os.getpid()
        self._socket = listening
        # poll, as epoll doesn't wake up after the program has closed the descriptors
        self._poll = select.poll()
        self._bell = Bell()
        self._poll.register(self._bell.descriptor, select.POLLIN)
        self._guard = Guard(self.close)
        self._closing = RLock()
        self._accept_at: float | None = None
        """When connections are accepted again; None if they are accepted now."""
        if self._socket is not None:
            self._socket.setblocking(False)
            self._poll.register(self._socket.fileno(), select.POLLIN)
        self._thread = Timer(self._step, self._bell.ring)
        self._no_forks = _fork.rest(self._thread.stop, self._go_on, self._is_ours, self._forget, waits=True)
        atexit.register(self.close)
        self._thread.start(0.0)

    def _is_ours(self) -> bool:
        return self._pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether it serves this process. In a forked child it doesn't."""
        return self._is_ours()

    @property
    def is_public(self) -> bool:
        """Whether other processes can reach it."""
        return self._socket is not None

    def close(self) -> None:
        """Ends the component and the listener. A control sees the process leave.

        The program's end and a signal may both call it: the second call waits for the first.
        """
        if self._pid != os.getpid() or not self._closing.acquire(timeout=PATIENCE):
            return
        try:
            if self._pid == os.getpid():
                self._thread.end()
                if not self._bell.is_there():
                    self._give_up()
                self._finish()
        finally:
            self._closing.release()

    def _finish(self) -> None:
        """Ends everything but the thread, which has ended or is about to end."""
        self._work()
        self.host.end()
        self._guard.close()
        self._pid = 0
        atexit.unregister(self.close)
        self._no_forks()
        if self._socket is not None and self._folder is not None:
            self._socket.close()
            with suppress(OSError):
                os.unlink(f"{os.getpid()}{SUFFIX}", dir_fd=self._folder.descriptor)
                self._folder.disclaim(os.getpid())
            self._folder.close()
        for connection in list(self._connections.values()):
            self._flush(connection)
            self._leave(connection)
        self._bell.close()

    def run(self, job: Callable[[], Any], timeout: float | None = None) -> Any:
        """Queues a job for the listener's thread, waits, and returns its result. In that thread itself it runs at once.

        Raises:
            TimeoutError: it was not done in ``timeout`` seconds.
        """
        if self.is_here() or not self.is_open:
            return job()
        done = Flag()
        answers: list[Any] = []

        def work() -> None:
            try:
                answers.append(job())
            except BaseException as error:
                answers.append(error)
            self._guard_log()
            done.set()

        self.post(work)
        if not done.wait(timeout):
            raise TimeoutError(f"the runtime component was busy for {timeout} s")
        if isinstance(answers[0], BaseException):
            raise answers[0]
        return answers[0]

    def soon(self, job: Callable[[], None]) -> None:
        """Queues a job for the listener's thread. In that thread itself it runs at once."""
        if self.is_here() or not self.is_open:
            job()
        else:
            self.post(job)

    def is_here(self) -> bool:
        """Whether the calling thread is the listener's."""
        return self._thread.is_current()

    def post(self, job: Callable[[], None]) -> None:
        """Queues a job for the listener's thread."""
        self._posted.append(job)
        self._bell.ring()
        if not self.is_open:  # there is no thread any more
            self._work()

    def join(self, made: socket.socket, pid: int, about: dict[str, Any], frames: Frames, data: bytes) -> None:
        """Takes over a connection that this process made to a control. The control gets ``data`` and may confirm."""
        connection = _Connection(self, made, pid)
        connection.about, connection.frames = about, frames
        made.setblocking(False)
        self._connections[made.fileno()] = connection
        self._poll.register(made.fileno(), select.POLLIN)
        self.host.asks(connection)
        self.send(connection, data)

    def about(self) -> dict[str, Any]:
        """The public facts of this process, for any client that may connect."""
        component, owner = self.host.component, self.host.owner
        return {
            "node": self.node,
            "pid": os.getpid(),
            "program": command(),
            "python": sys.version.split()[0],
            "log_dir": self.log_dir,
            "state": None if component is None else component.machine.both(),
            "tag": None if component is None else component.tag,
            "info": None if component is None else component.info(),
            "control": None if owner is None else (owner.node, owner.pid),
        }

    def _go_on(self) -> None:
        if self._pid == os.getpid():
            self._thread.start(0.0)

    def _forget(self) -> None:
        """Ends the listener in a forked child, and closes the parent's connections there."""
        if not self._pid:
            return
        self._pid = 0
        self._thread.forget()
        self._closing = RLock()
        for connection in self._connections.values():
            connection.socket.close()
            if connection.life is not None:
                connection.life.close()
        self._connections.clear()
        self._lives.clear()
        self._posted.clear()
        if self._socket is not None:
            self._socket.close()
        if self._folder is not None:
            self._folder.close()
        self._bell.close()
        self.host = Host(self.host.resolver)

    def _give_up(self) -> None:
        """Forgets descriptors that the program has closed. Their numbers may belong to other files, so nothing is
        closed.
        """
        for connection in self._connections.values():
            connection.socket.detach()
            if connection.life is not None:
                connection.life.descriptor = -1
        self._connections.clear()
        self._lives.clear()
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        if self._folder is not None:
            self._folder.descriptor = -1
            self._folder = None

    # the thread

    def _step(self) -> float | None:
        wait = self._due()
        ready = self._poll.poll(self._timeout(wait))
        if not self._bell.is_there():
            self._give_up()
            self._end_component("the program has closed its descriptors")
            self._guard.close()
            self._pid = 0
            self._work()
            return None
        for descriptor, event in ready:
            if descriptor == self._bell.descriptor:
                self._bell.answer()
            elif self._socket is not None and descriptor == self._socket.fileno():
                self._accept(self._socket)
            elif (dead := self._lives.get(descriptor)) is not None:
                self._leave(dead)
            elif (connection := self._connections.get(descriptor)) is not None:
                self._serve(connection, event)
        self._work()
        self._guard_log()
        now = time.monotonic()
        for each in list(self._connections.values()):
            if each.about is None and now - each.since > GREETING:
                self._leave(each)
        if self._is_leaving:
            self._finish()
            return None
        if self._accept_at is not None and now >= self._accept_at and self._socket is not None:
            self._accept_at = None
            self._poll.register(self._socket.fileno(), select.POLLIN)
        return 0.0

    def _work(self) -> None:
        while True:
            try:
                job = self._posted.popleft()
            except IndexError:
                return
            job()

    def _guard_log(self) -> None:
        """While a log is open, a SIGTERM ends the process only after the log is written."""
        component = self.host.component
        if component is not None and component.machine.is_tracing:
            self._guard.keep()
        else:
            self._guard.end()

    def _due(self) -> float | None:
        """Does what is due in the component. An exception ends the component, not the thread."""
        try:
            return self.host.poll()
        except Exception as error:
            self._end_component(f"{type(error).__name__}: {error}")
            return None

    def _end_component(self, why: str) -> None:
        if self.host.component is not None:
            say(f"the runtime component ends: {why}")
        with suppress(Exception):
            self.host.end()

    def _timeout(self, wait: float | None) -> float | None:
        """Milliseconds that the kernel may wait; None without a limit."""
        now = time.monotonic()
        times = [] if wait is None else [wait]
        times += [each.since + GREETING - now for each in self._connections.values() if each.about is None]
        if self._accept_at is not None:
            times.append(self._accept_at - now)
        return max(0.0, min(times)) * 1000 if times else None

    def _accept(self, listening: socket.socket) -> None:
        try:
            made = socket.socket(fileno=moved(listening.accept()[0].detach()))
        except BlockingIOError:
            return
        except OSError as error:
            self._poll.unregister(listening.fileno())
            if error.errno == errno.EBADF:
                listening.detach()
                self._socket = None
            else:  # the process has no free descriptor: wait a little
                self._accept_at = time.monotonic() + SPARE
            return
        made.setblocking(False)
        pid, uid = credentials(made)
        connection = _Connection(self, made, pid)
        if not may_serve(uid):
            return self._refuse(made, "this process is another user's")
        if len(self._connections) >= CONNECTIONS:
            return self._refuse(made, f"this process has {CONNECTIONS} connections already")
        self._connections[made.fileno()] = connection
        self._poll.register(made.fileno(), select.POLLIN)
        self.send(connection, greeting(node=self.node, pid=os.getpid(), python=sys.version.split()[0]))

    def _refuse(self, made: socket.socket, why: str) -> None:
        with suppress(OSError):
            made.send(pack((Atom("refused"), why)))
        made.close()

    def _serve(self, connection: _Connection, event: int) -> None:
        if event & select.POLLOUT:
            self._flush(connection)
        if not event & ~select.POLLOUT:
            return
        try:
            data = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._leave(connection)
        try:
            for term in connection.frames.feed(data):
                if connection.about is None:
                    connection.about = peer_of(term)
                else:
                    self._request(connection, term)
                if not connection.is_open:
                    return
        except BadFrame as wrong:
            say(f"process {connection.pid} sent an invalid request: {wrong}")
            with suppress(OSError):
                connection.socket.send(pack((Atom("refused"), str(wrong))))
            self._leave(connection)

    def _request(self, connection: _Connection, term: Any) -> None:
        match term:
            case ("call", int(reference), str(name), list(arguments)):
                owner = self.host.owner
                answer = self._answer(connection, name, tuple(arguments))
                self._guard_log()
                if self.host.owner is connection and owner is not connection:
                    self._watch(connection)
                try:
                    data = pack((Atom("answer"), reference, answer))
                except Exception as error:
                    data = pack((Atom("answer"), reference, (ERROR, (Atom("no_term"), str(error)))))
                self.send(connection, data)
            case ("relay", message):
                if self.host.component is not None:
                    self.host.component.relayed(message)
            case _:
                raise BadFrame("it is not a request")

    def _answer(self, connection: _Connection, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "detach" and not arguments:
            return self._detach()
        if name == "about":
            return self.about()
        return self.host.request(connection, name, arguments)

    def _detach(self) -> Any:
        """Ends the listener for the process that attached to this one; refused while a control has the component."""
        owner = self.host.owner
        if owner is not None:
            return ERROR, (Atom("refused"), owner.node, owner.pid)
        self._is_leaving = True
        return OK

    def _watch(self, connection: _Connection) -> None:
        """Watches the control's process for its end. A child of it may keep the connection open."""
        if connection.life is not None:
            return
        life = Life(connection.pid)
        if life.descriptor >= 0:
            connection.life = life
            self._lives[life.descriptor] = connection
            self._poll.register(life.descriptor, select.POLLIN)
        elif life.has_ended():
            self._leave(connection)

    def send(self, connection: _Connection, data: bytes) -> None:
        """Sends bytes without waiting; the rest is sent later."""
        connection.out += data
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        out = connection.out
        try:
            while out:
                del out[: connection.socket.send(out)]
        except BlockingIOError:
            if len(out) > ANSWERS:
                return self._leave(connection)
        except OSError:
            return self._leave(connection)
        wants = select.POLLIN | (select.POLLOUT if out else 0)
        if connection.socket.fileno() >= 0:
            self._poll.modify(connection.socket.fileno(), wants)

    def _leave(self, connection: _Connection) -> None:
        """Closes a connection: the other side has gone, or broke the rules."""
        number = connection.socket.fileno()
        if number < 0:
            return
        self._connections.pop(number, None)
        self._poll.unregister(number)
        with suppress(OSError):
            connection.socket.close()
        if (life := connection.life) is not None:
            self._lives.pop(life.descriptor, None)
            self._poll.unregister(life.descriptor)
            life.close()
        self.host.left(connection)
