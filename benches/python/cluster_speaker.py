"""Many nodes in one process that speak the protocol of a listener, and do nothing: each has a socket of its own."""

from __future__ import annotations

import os
import select
import socket
import sys
from typing import Any

from inviso._link._folder import Folder
from inviso._link._frame import Frames, greeting, pack
from inviso._link._peer import credentials

ANSWERS: dict[str, Any] = {
    "add": ("ok", "new"),
    "get_status": ("ok", ("new", "running")),
    "tf": ("ok", [1]),
    "let_go": "ok",
}


def main() -> None:
    number, count = int(sys.argv[1]), int(sys.argv[2])
    folder, poll = Folder.open(), select.epoll()
    host = socket.gethostname()
    listening: dict[int, tuple[socket.socket, str]] = {}
    connections: dict[int, tuple[socket.socket, Frames]] = {}
    for at in range(count):
        # a number of no process: the control looks at who listens, which is this one
        false = 1_000_000_000 + number * 100_000 + at
        made = folder.listen(false)
        made.setblocking(False)
        name = f"speaks-{number}-{at}@{host}"
        folder.claim(name, false)
        listening[made.fileno()] = made, name
        poll.register(made.fileno(), select.EPOLLIN)
    os.write(1, b"ready\n")
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in listening:
                made = listening[descriptor][0].accept()[0]
                made.setblocking(False)
                credentials(made)
                made.sendall(greeting(node=listening[descriptor][1], pid=os.getpid()))
                connections[made.fileno()] = made, Frames()
                poll.register(made.fileno(), select.EPOLLIN)
                continue
            made, frames = connections[descriptor]
            data = made.recv(1 << 16)
            if not data:
                poll.unregister(descriptor)
                del connections[descriptor]
                made.close()
                continue
            for term in frames.feed(data):
                if term[0] == "call":
                    made.sendall(pack(("answer", term[1], ANSWERS[term[2]])))


if __name__ == "__main__":
    main()
