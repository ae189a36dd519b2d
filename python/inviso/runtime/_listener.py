"""The listener of a prepared process: one thread, one socket, at most one runtime component.

At rest the thread waits in the kernel: it takes no processor time and wakes nobody. A fork stops it and starts it again in
the parent; the child has neither thread nor socket.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from inviso import _fork
from inviso._beside import Beside
from inviso._link._folder import SUFFIX, Folder
from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import Life, credentials, may_serve
from inviso.terms import Atom

from ._component import Component, Resolver
from ._tracerdata import Refused

__all__ = ["Listener"]

OK, ERROR = Atom("ok"), Atom("error")
EVENTS = 1 << 20
"""Bytes of events that wait for one control; what comes then is counted and dropped."""

ANSWERS = 64 << 20
"""Bytes that wait for one control at all; then it is left."""

GREETING = 10.0
"""Seconds that a new connection has to say who it is."""


class _Connection:
    """One control, or somebody who asks."""

    def __init__(self, made: socket.socket, pid: int) -> None:
        self.socket = made
        self.pid = pid
        self.life: Life | None = None
        self.about: dict[str, Any] | None = None
        """What its first frame said."""
        self.frames = Frames()
        self.out = bytearray()
        self.lost_events = 0
        self.since = time.monotonic()

    @property
    def name(self) -> str:
        """The control's node."""
        return str((self.about or {}).get("node", f"process {self.pid}"))


class _Remote(Resolver):
    """For requests from other processes: files below one folder, functions of admitted modules."""

    def __init__(self, folder: str, allow: tuple[str, ...]) -> None:
        self._folder = os.path.abspath(folder)
        self._allow = allow

    def path(self, name: str) -> str:
        path = os.path.normpath(os.path.join(self._folder, name))
        if not path.startswith(self._folder + os.sep):
            raise Refused((Atom("not_allowed"), name))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        real = os.path.realpath(os.path.dirname(path))
        inside = os.path.realpath(self._folder)
        if real != inside and not real.startswith(inside + os.sep):
            raise Refused((Atom("not_allowed"), name))
        return path

    def function(self, named: tuple[str, str]) -> Callable[..., Any]:
        module, name = named
        admitted = any(module == one or module.startswith(one + ".") for one in self._allow)
        if not admitted or not name.isidentifier():
            raise Refused((Atom("not_allowed"), named))
        found = super().function(named)
        if getattr(found, "__module__", None) != module:
            raise Refused((Atom("not_allowed"), named))
        return found


class Listener:
    """Takes requests for this process. Made once, by :func:`inviso.runtime.listen`."""

    def __init__(self, node: str, folder: Folder, log_dir: str, allow: tuple[str, ...]) -> None:
        self.node = node
        self._folder = folder
        self._resolver = _Remote(log_dir, allow)
        self.log_dir = log_dir
        self._component: Component | None = None
        self._owner: _Connection | None = None
        self._alone_until: float | None = None
        """When the component ends because it has no control."""
        self._connections: dict[int, _Connection] = {}
        self._lives: dict[int, _Connection] = {}
        self._socket = folder.listen(os.getpid())
        self._socket.setblocking(False)
        self._pid = os.getpid()
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._socket.fileno(), select.EPOLLIN)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._thread = Beside(self._step, self._ring)
        _fork.rest(self._thread.stop, self._go_on, lambda: self._pid == os.getpid())
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)
        self._thread.start(0.0)

    @property
    def is_open(self) -> bool:
        """Whether this process has it; a forked child doesn't."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """Ends the component and the listener; a control sees the process leave."""
        if self._pid != os.getpid():
            return
        self._thread.end()
        self._end_component()
        for connection in list(self._connections.values()):
            self._flush(connection)
            self._leave(connection)
        self._pid = 0
        self._socket.close()
        with suppress(OSError):
            os.unlink(f"{os.getpid()}{SUFFIX}", dir_fd=self._folder.descriptor)
        self._epoll.close()
        os.close(self._bell)

    def _ring(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._bell, 1)

    def _go_on(self) -> None:
        if self._pid == os.getpid():
            self._thread.start(0.0)

    def _forget(self) -> None:
        """In a forked child: it has no listener, and keeps no connection of the parent's open."""
        if not self._pid:
            return
        self._pid = 0
        self._thread.forget()
        for connection in self._connections.values():
            connection.socket.close()
            if connection.life is not None:
                connection.life.close()
        self._connections.clear()
        self._lives.clear()
        self._socket.close()
        self._epoll.close()
        with suppress(OSError):
            os.close(self._bell)
        self._component = self._owner = None

    # the thread

    def _step(self) -> float | None:
        wait = self._component.poll() if self._component is not None else None
        for descriptor, event in self._epoll.poll(self._timeout(wait)):
            if descriptor == self._bell:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
            elif descriptor == self._socket.fileno():
                self._accept()
            elif (dead := self._lives.get(descriptor)) is not None:
                self._leave(dead)
            elif (connection := self._connections.get(descriptor)) is not None:
                self._serve(connection, event)
        self._look_at_the_clock()
        return 0.0

    def _timeout(self, wait: float | None) -> float:
        """Seconds that the kernel may wait; -1 for as long as nothing happens."""
        now = time.monotonic()
        times = [] if wait is None else [wait]
        if self._alone_until is not None:
            times.append(self._alone_until - now)
        times += [each.since + GREETING - now for each in self._connections.values() if each.about is None]
        return max(0.0, min(times)) if times else -1

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._alone_until is not None and now >= self._alone_until:
            self._end_component()
        for each in list(self._connections.values()):
            if each.about is None and now - each.since > GREETING:
                self._leave(each)

    def _accept(self) -> None:
        try:
            made, _ = self._socket.accept()
        except OSError:
            return
        made.setblocking(False)
        pid, uid = credentials(made)
        connection = _Connection(made, pid)
        if not may_serve(uid):
            with suppress(OSError):
                made.send(pack((Atom("refused"), "this process is another user's")))
            made.close()
            return
        self._connections[made.fileno()] = connection
        self._epoll.register(made.fileno(), select.EPOLLIN)
        self._send(connection, greeting(node=self.node, pid=os.getpid(), python=sys.version.split()[0]))

    def _serve(self, connection: _Connection, event: int) -> None:
        if event & select.EPOLLOUT:
            self._flush(connection)
        if not event & ~select.EPOLLOUT:
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
        except BadFrame as wrong:
            with suppress(OSError):
                connection.socket.send(pack((Atom("refused"), str(wrong))))
            self._leave(connection)

    def _request(self, connection: _Connection, term: Any) -> None:
        match term:
            case ("call", int(reference), str(name), list(arguments)):
                answer = self._answer(connection, name, tuple(arguments))
                try:
                    data = pack((Atom("answer"), reference, answer))
                except Exception as error:
                    data = pack((Atom("answer"), reference, (ERROR, (Atom("no_term"), str(error)))))
                self._send(connection, data)
                if name == "stop_node" and connection is self._owner:
                    self._end_component()
            case _:
                raise BadFrame("it is no request")

    def _answer(self, connection: _Connection, name: str, arguments: tuple[Any, ...]) -> Any:
        match name, arguments:
            case "about", ():
                return self._about()
            case "add", (tag, dict(options), bool(if_ref)):
                return self._add(connection, tag, options, if_ref)
        if self._component is None or connection is not self._owner:
            return ERROR, Atom("not_an_added_node")
        if name == "stop_node":
            return OK
        if name == "let_go":
            self._alone()
            return OK
        return self._component.call(name, arguments)

    def _about(self) -> dict[str, Any]:
        component, owner = self._component, self._owner
        return {
            "node": self.node,
            "pid": os.getpid(),
            "program": " ".join(sys.orig_argv[:8])[:200],
            "python": sys.version.split()[0],
            "log_dir": self.log_dir,
            "state": None if component is None else component.machine.both(),
            "tag": None if component is None else component.tag,
            "control": None if owner is None else (owner.name, owner.pid),
        }

    def _add(self, connection: _Connection, tag: Any, options: dict[str, Any], if_ref: bool) -> Any:
        component = self._component
        if component is None:
            self._component = Component(tag, options, self._publish, self._resolver)
            answer: Any = OK, Atom("new")
        elif self._owner is connection:
            return OK, Atom("already_added")
        elif self._owner is not None:
            return ERROR, (Atom("refused"), self._owner.name, self._owner.pid)
        elif if_ref and component.tag != tag:
            return ERROR, (Atom("wrong_reference"), component.tag)
        else:
            answer = OK, (Atom("adopted"), *component.machine.both(), component.tag)
            component.tag = tag
        self._owner = connection
        self._alone_until = None
        life = Life(connection.pid)
        if life.descriptor >= 0:
            connection.life = life
            self._lives[life.descriptor] = connection
            self._epoll.register(life.descriptor, select.EPOLLIN)
        return answer

    def _publish(self, event: Any) -> None:
        owner = self._owner
        if owner is None:
            return
        data = pack((Atom("event"), event))
        if len(owner.out) + len(data) > EVENTS:
            owner.lost_events += 1
            return
        if owner.lost_events:
            lost, owner.lost_events = owner.lost_events, 0
            self._send(owner, pack((Atom("event"), (Atom("lost"), lost))))
        self._send(owner, data)

    def _send(self, connection: _Connection, data: bytes) -> None:
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
        wants = select.EPOLLIN | (select.EPOLLOUT if out else 0)
        if connection.socket.fileno() >= 0:
            self._epoll.modify(connection.socket.fileno(), wants)

    def _leave(self, connection: _Connection) -> None:
        """The other side has gone, or is of no use."""
        number = connection.socket.fileno()
        if number < 0:
            return
        self._connections.pop(number, None)
        self._epoll.unregister(number)
        connection.socket.close()
        if (life := connection.life) is not None:
            self._lives.pop(life.descriptor, None)
            self._epoll.unregister(life.descriptor)
            life.close()
        if connection is self._owner:
            self._alone()

    def _alone(self) -> None:
        """The component has no control any more: it acts by its dependency."""
        owner, self._owner = self._owner, None
        if owner is not None and owner.life is not None:
            self._lives.pop(owner.life.descriptor, None)
            self._epoll.unregister(owner.life.descriptor)
            owner.life.close()
            owner.life = None
        if self._component is None:
            return
        after = self._component.options.get("dependency")
        if isinstance(after, int):
            self._alone_until = time.monotonic() + after / 1000

    def _end_component(self) -> None:
        component, self._component = self._component, None
        self._owner, self._alone_until = None, None
        if component is not None:
            component.end()
