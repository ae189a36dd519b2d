"""Many nodes in one process that speak the protocol of a listener, and do nothing: each has a socket of its own.

    python -m benches.python.cluster_speaker NUMBER COUNT

A line with a number on standard input ends this number of nodes, the oldest first, and begins as many. It ends with its
input. The nodes are called ``speaks-NUMBER-AT@HOST``, in the order in which they began.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress
from typing import Any

from inviso._link._folder import Folder
from inviso._link._frame import Frames, greeting, pack
from inviso._link._names import host
from inviso._link._peer import credentials

ANSWERS: dict[str, Any] = {
    "add": ("ok", "new"),
    "get_status": ("ok", ("new", "running")),
    "tf": ("ok", [1]),
    "let_go": "ok",
}


class Speaker:
    """The nodes of one process."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._begun = 0
        self._folder = Folder.open()
        self._poll = select.epoll()
        self._listening: dict[int, tuple[socket.socket, str, int]] = {}
        """By descriptor: the socket of a node, its name, and the number of no process that it has."""
        self._connections: dict[int, tuple[socket.socket, Frames, str]] = {}

    def begin(self, count: int) -> None:
        """Begins this number of nodes, which listen."""
        for _ in range(count):
            # not a process id: the control checks the process that listens, which is this one
            false = 1_000_000_000 + self._number * 1_000_000 + self._begun
            name = f"speaks-{self._number}-{self._begun}@{host()}"
            self._begun += 1
            made = self._folder.listen(false)
            made.setblocking(False)
            self._folder.claim(name, false)
            self._listening[made.fileno()] = made, name, false
            self._poll.register(made.fileno(), select.EPOLLIN)

    def end(self, count: int) -> None:
        """Ends the oldest nodes like processes that end: their sockets stay in the folder."""
        for descriptor in list(self._listening)[:count]:
            made, name, _ = self._listening.pop(descriptor)
            self._poll.unregister(descriptor)
            made.close()
            for connection, (_, _, its) in list(self._connections.items()):
                if its == name:
                    self._leave(connection)

    def run(self) -> None:
        """Answers until standard input ends."""
        self._poll.register(0, select.EPOLLIN)
        os.write(1, b"ready\n")
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == 0:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.end(int(line))
                    self.begin(int(line))
                    os.write(1, b"done\n")
                elif descriptor in self._listening:
                    self._accept(*self._listening[descriptor][:2])
                elif descriptor in self._connections:
                    self._answer(descriptor)

    def _accept(self, listening: socket.socket, name: str) -> None:
        made = listening.accept()[0]
        made.setblocking(False)
        credentials(made)
        try:
            made.sendall(greeting(node=name, pid=os.getpid()))
        except BrokenPipeError:  # it has left already
            return made.close()
        self._connections[made.fileno()] = made, Frames(), name
        self._poll.register(made.fileno(), select.EPOLLIN)

    def _answer(self, descriptor: int) -> None:
        made, frames, name = self._connections[descriptor]
        try:
            data = made.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            return self._leave(descriptor)
        for term in frames.feed(data):
            if term[0] == "call":
                answer = {"node": name, "pid": os.getpid()} if term[2] == "about" else ANSWERS[term[2]]
                with suppress(BrokenPipeError):
                    made.sendall(pack(("answer", term[1], answer)))

    def _leave(self, descriptor: int) -> None:
        made, _, _ = self._connections.pop(descriptor)
        self._poll.unregister(descriptor)
        made.close()


def main() -> None:
    speaker = Speaker(int(sys.argv[1]))
    speaker.begin(int(sys.argv[2]))
    speaker.run()


if __name__ == "__main__":
    main()
