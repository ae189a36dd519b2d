"""Prepared processes for tests of Inviso: children that listen or control others, carry out requests, and always end.

A child evaluates one expression or statement at a time, and answers with its ``repr``. It is killed when the test ends,
also if it is stopped. If the test's own process has been killed, the child ends with its standard input, and at the
latest after :data:`LIFE` seconds.
"""

from __future__ import annotations

import ast
import faulthandler
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inviso import etf
from waiting import LIMIT, until

LIFE = 300
"""Seconds that a child lives at most."""

HOST = socket.gethostname()

_CHILD = """
import ast, json, os, select, signal, sys, threading, time
signal.alarm({life})  # no thread, as a fork would warn of one
def _told(text):
    tree = ast.parse(text)
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        return eval(text, globals())
    exec(text, globals())
def _main():
    # by descriptors: a program may put anything in place of its streams
    data = b""
    while piece := os.read(0, 65536):
        data += piece
        while b"\\n" in data:
            line, _, data = data.partition(b"\\n")
            try:
                answer = ["ok", repr(_told(json.loads(line)))]
            except Exception as error:
                answer = ["error", f"{{type(error).__name__}}: {{error}}"]
            os.write(1, json.dumps(answer).encode() + b"\\n")
exec({body!r}, globals())
_main()
"""

LISTENS = """
from inviso import runtime
listener = runtime.listen({name!r}, log_dir={log_dir!r}, allow={allow!r})
def work(n=1):
    for _ in range(n):
        step(_)
def step(n):
    return n
"""

SETS = """
import sys, inviso.runtime
sys.modules["inviso.runtime._listener"].{name} = {value}
"""


def sets(name: str, value: float) -> str:
    """Sets one of the listener's limits before it begins."""
    return SETS.format(name=name, value=value)


CONTROLS = """
from inviso.control._control import Control
control = Control(name={name!r}, timeout={timeout!r})
events = []
control.subscribe(lambda event: events.append((time.monotonic(), event[3])))
"""


class Failed(Exception):
    """The child's expression or statement raised an exception."""


class Child:
    """A child process that carries out requests."""

    def __init__(
        self, body: str, place: Path, *, name: str = "child", python: str = sys.executable, **env: str
    ) -> None:
        self.errors = place / f"{name}-{time.monotonic_ns()}.err"
        text = _CHILD.format(body=body, life=LIFE)
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [python, "-c", text],
                cwd=place,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "INVISO_DIR": str(place / "sockets"), **env},
                bufsize=0,
            )
        self.pid = self.process.pid
        self._data = b""

    def ask(self, text: str, timeout: float = LIMIT) -> Any:
        """The value of an expression in the child; None for a statement. A value that is not a literal comes as its
        text.
        """
        self.tell(text)
        return self.answer(timeout)

    def tell(self, text: str) -> None:
        """Sends a request. :meth:`answer` returns the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(text).encode() + b"\n")

    def answer(self, timeout: float = LIMIT) -> Any:
        """The next answer."""
        assert self.process.stdout is not None
        end = time.monotonic() + timeout
        while b"\n" not in self._data:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no answer within {timeout} s; its errors: {self.stderr()}"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, f"it has ended: {self.stderr()}"
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        how, value = json.loads(line)
        if how == "error":
            raise Failed(value)
        try:
            return ast.literal_eval(value)
        except (SyntaxError, ValueError):
            return value

    def has_answer(self) -> bool:
        """Whether :meth:`answer` would return at once."""
        assert self.process.stdout is not None
        return b"\n" in self._data or bool(select.select([self.process.stdout], [], [], 0.05)[0])

    def stderr(self) -> str:
        """Its standard error."""
        return self.errors.read_text(errors="replace")

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Sends it a signal."""
        os.kill(self.pid, how)

    def stop(self) -> None:
        """Stops it, all of its threads."""
        self.kill(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        until(lambda: all(_state(each) == "T" for each in tasks.iterdir()))

    def wait(self, timeout: float = LIMIT) -> int:
        """Its status, when it has ended."""
        return self.process.wait(timeout)

    def end(self) -> None:
        """Ends it in any case."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
                os.kill(self.pid, signal.SIGKILL)
        self.process.wait(LIMIT)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Place:
    """A folder for a test: sockets, logs, and the children that live in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sockets = path / "sockets"
        self.children: list[Child] = []

    def child(self, body: str, **options: Any) -> Child:
        """A child that runs ``body``, then carries out requests."""
        made = Child(body, self.path, **options)
        self.children.append(made)
        return made

    def node(
        self, name: str = "n", body: str = "", *, before: str = "", allow: tuple[str, ...] = (), **options: Any
    ) -> Node:
        """A prepared process; it listens when this returns."""
        head = LISTENS.format(name=name, log_dir=str(self.path / "logs"), allow=allow)
        made = Node(before + head + body, self.path, name=name, **options)
        self.children.append(made)
        made.node = made.ask("listener.node")
        return made

    def control(self, name: str = "control", *, timeout: float = 10.0, **options: Any) -> Child:
        """A process with a control component, ``control``, and its ``events``."""
        made = self.child(CONTROLS.format(name=f"{name}@{HOST}", timeout=timeout), name=name, **options)
        made.ask("control.node")
        return made

    def end(self) -> None:
        """Ends all children."""
        for child in self.children:
            child.end()


class Node(Child):
    """A child that listens."""

    node = ""
    """Its full name."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Ends this whole process, with all its stacks shown, if the block takes longer."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


class Peer:
    """A connection to a listener, for a test that writes and reads the bytes itself."""

    def __init__(self, sockets: Path, pid: int, *, greets: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(LIMIT)
        self.socket.connect(str(sockets / f"{pid}.sock"))
        self._data = b""
        self._number = 0
        if greets:
            self.send(("inviso", (1, 0), {"node": "peer@here", "pid": os.getpid()}))

    def send(self, *terms: Any) -> None:
        """Sends terms, each in a frame."""
        self.raw(b"".join(frame(etf.dumps(term)) for term in terms))

    def raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def call(self, name: str, *arguments: Any) -> Any:
        """The answer to a request."""
        self._number += 1
        self.send(("call", self._number, name, list(arguments)))
        while True:
            match self.next():
                case ("answer", int(number), answer) if number == self._number:
                    return answer
                case None:
                    raise EOFError("the connection was closed")

    def next(self) -> Any:
        """The next term that comes; None if the connection was closed."""
        while True:
            if len(self._data) >= 4:
                (length,) = struct.unpack(">I", self._data[:4])
                if len(self._data) >= 4 + length:
                    content, self._data = self._data[4 : 4 + length], self._data[4 + length :]
                    return etf.loads(content)
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._data += data

    def rest(self) -> list[Any]:
        """All terms until the connection is closed."""
        return list(iter(self.next, None))

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(content: bytes) -> bytes:
    """Bytes after their length."""
    return struct.pack(">I", len(content)) + content


def resident(pid: int) -> int:
    """Bytes of memory that a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    """The number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))
