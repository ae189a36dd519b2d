"""The prepared processes of this host, for controls of other hosts: whether they are there, what they answer, what they tell."""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from inviso import etf
from inviso._link._folder import Folder
from inviso._link._frame import DEPTH, LIMIT, BadFrame
from inviso._link._rights import class_of
from inviso.control._logs import open_log
from inviso.errors import BadArg, SystemLimit
from inviso.terms import Atom

from ._engine import Engine
from ._keys import EVERYBODY, Keys
from ._wire import Line

__all__ = ["Near"]

OK, ERROR = Atom("ok"), Atom("error")
EVERY = 0.1
"""Seconds between two looks for processes that have come."""

TICK = 100_000_000
"""Nanoseconds in which the time of a file may be the same though it has changed."""

LONGEST = 4 << 20
"""Bytes of a log that go in one answer, at most."""

_LONGEST = {"chunk": LONGEST, "checksum": 64 << 20}
"""Bytes of a log that are read for one request, at most."""

Answered = Callable[[Any], None]
"""Takes an answer: a term, or bytes that are one in the external format."""


class Near:
    """The processes that listen in a folder. All but :meth:`asked` runs in the agent's event loop."""

    def __init__(self, folder: Folder, engine: Engine, keys: Keys) -> None:
        self._folder = folder
        self._engine = engine
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._there: dict[str, Line] = {}
        """By node: the agent's own line to it, which tells when it ends."""
        self._pids: dict[str, int] = {}
        self._seen = 0
        """When the names of nodes that were looked at last had changed."""
        self._lines: dict[tuple[str, str], asyncio.Task[Line]] = {}
        """By control and node: the line that the process takes for the control."""
        self._numbers: dict[tuple[str, str], int] = {}
        """Of the last event, by control and node."""
        self._gone: set[str] = set()
        """Agents that have gone: what they have asked before may come later."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Looks for processes, without an end."""
        self._engine.serve(self._keys.of_host(), self.asked)
        self._engine.serve(self._keys.clock(), _time)
        self._engine.watch(self._keys.agents(), self._agent_heard)
        while True:
            now, changed = time.time_ns(), self._folder.names_changed()
            if changed != self._seen:
                # names that change twice in one tick of the system's clock have one time: that of now is looked at
                # again
                self._seen = changed if changed < now - TICK else 0
                for node, pid in self._folder.names().items():
                    if self._pids.get(node) != pid and self._keys.has(node):
                        self._pids[node] = pid
                        self._begin(self._attend(node, pid))
            await asyncio.sleep(EVERY)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, node: str, pid: int) -> None:
        """Says that a process is there until it is not."""
        ended = asyncio.Event()
        try:
            line = await Line.to(self._folder.connect(pid), "", lambda event: None, lambda why: ended.set())
        except (OSError, BadFrame):
            self._pids.pop(node, None)
            self._seen = 0  # it may be too early
            return
        self._there[node] = line
        gone = self._engine.token(self._keys.alive(node))
        await ended.wait()
        # the token's end alone may be that of a path between hosts, which comes back
        self._engine.publish(self._keys.event(node), etf.dumps((EVERYBODY, 0, Atom("gone"))))
        gone()
        if self._there.get(node) is line:
            del self._there[node]
            self._pids.pop(node, None)

    def asked(self, key: str, data: bytes, answer: Callable[[bytes], None]) -> None:
        """A question from another host, in a thread of the engine's."""
        self._loop.call_soon_threadsafe(self._asked, key, data, answer)

    def _asked(self, key: str, data: bytes, answer: Callable[[bytes], None]) -> None:
        def answered(term: Any) -> None:
            if isinstance(term, bytes):
                return answer(term)
            try:
                packed = etf.dumps(term)
            except (BadArg, SystemLimit) as error:
                packed = etf.dumps((ERROR, (Atom("no_term"), str(error))))
            answer(packed)

        try:
            node, right = self._keys.parts(key)
            control, name, arguments = etf.loads(data, depth=DEPTH, size=LIMIT)
            if not (isinstance(control, str) and isinstance(name, str) and isinstance(arguments, list)):
                raise ValueError
        except (BadArg, SystemLimit, ValueError, TypeError):
            return answered((ERROR, Atom("no_request")))
        if class_of(name) != right:
            return answered((ERROR, (Atom("not_allowed"), name)))
        there = self._there.get(node)
        if there is None:
            return answered((ERROR, Atom("nodedown")))
        if name == "leave":
            self._left(control, node)
            return answered(OK)
        if name in _LONGEST:
            return self._of_log(control, node, name, arguments, answered)
        if name in ("about", "sample"):  # who may watch only has no line of its own
            return there.ask(name, arguments, answered)
        self._pass_on(control, node, name, arguments, answered)

    def _pass_on(self, control: str, node: str, name: str, arguments: list[Any], answered: Answered) -> None:
        """A request that the process takes for the control's, over a line of that one's own. The line is known at once: the next
        word may be that the control has gone.
        """
        if control.split("/")[0] in self._gone:
            # its agent may be there again, and has to know that its controls have been let go
            return answered((ERROR, Atom("nodedown" if name == "add" else "not_an_added_node")))
        key = control, node
        if key not in self._lines:
            self._lines[key] = asyncio.create_task(self._line(control, node))
        self._begin(self._ask_over(self._lines[key], key, name, arguments, answered))

    async def _ask_over(
        self, made: asyncio.Task[Line], key: tuple[str, str], name: str, arguments: list[Any], answered: Answered
    ) -> None:
        try:
            line = await asyncio.shield(made)
        except (OSError, BadFrame) as error:
            if self._lines.get(key) is made:
                del self._lines[key]
            return answered((ERROR, (Atom("noconnection"), str(error))))
        line.ask(name, arguments, answered)

    async def _line(self, control: str, node: str) -> Line:
        pid = self._pids.get(node)
        if pid is None:
            raise BadFrame("it has ended")
        made = self._folder.connect(pid)
        tell = partial(self._tell, control, node)
        name = control.partition(" ")[2]
        ended = partial(self._line_ended, control, node)
        return await Line.to(made, name, lambda event: tell((Atom("event"), event)), ended)

    def _tell(self, control: str, node: str, what: Any) -> None:
        """Publishes for a control, with a number: who gets it knows what is missing."""
        number = self._numbers[control, node] = self._numbers.get((control, node), 0) + 1
        self._engine.publish(self._keys.event(node), etf.dumps((control, number, what)))

    def _line_ended(self, control: str, node: str, why: str) -> None:
        if self._lines.pop((control, node), None) is not None:
            self._tell(control, node, (Atom("ended"), why))
            self._numbers.pop((control, node), None)

    def _left(self, control: str, node: str) -> None:
        """A control has gone: the process sees its connection end."""
        self._numbers.pop((control, node), None)
        task = self._lines.pop((control, node), None)
        if task is None:
            return
        if task.done() and task.exception() is None:
            task.result().close()
        else:
            task.cancel()

    def _agent_heard(self, key: str, is_there: bool) -> None:
        self._loop.call_soon_threadsafe(self._agent, self._keys.agent_of(key), is_there)

    def _agent(self, name: str, is_there: bool) -> None:
        """The agent of controls has gone, and so have they."""
        if is_there:
            self._gone.discard(name)
        else:
            self._gone.add(name)
            for control, node in [key for key in self._lines if key[0].split("/")[0] == name]:
                self._left(control, node)

    def _of_log(self, control: str, node: str, name: str, arguments: list[Any], answered: Answered) -> None:
        """Bytes of a log, or their checksum. They are read here: none goes through the traced process. It must be one of that
        process's, or lie in its folder of logs.
        """
        match arguments:
            case [str(path), int(offset), int(length)] if offset >= 0 and 0 < length <= _LONGEST[name]:
                pass
            case _:
                return answered((ERROR, Atom("badarg")))

        def read() -> None:
            answered(_read(path, offset, length, name == "checksum"))

        def with_paths(answer: Any) -> None:
            match answer:
                case ("ok", list(parts)) if any(path in paths for _, paths in parts):
                    read()
                case _:
                    there = self._there.get(node)
                    if there is None:
                        return answered((ERROR, Atom("nodedown")))
                    there.ask("about", [], with_about)

        def with_about(about: Any) -> None:
            folder = about.get("log_dir") if isinstance(about, dict) else None
            if isinstance(folder, str) and _is_below(path, folder):
                read()
            else:
                answered((ERROR, (Atom("not_a_log"), path)))

        self._pass_on(control, node, "log_paths", [], with_paths)


def _time(key: str, data: bytes, answer: Callable[[bytes], None]) -> None:
    """What time it is here: when the question came, and when the answer goes."""
    came = time.time_ns()
    answer(etf.dumps((came, time.time_ns())))


def _is_below(path: str, folder: str) -> bool:
    """Whether a file lies in a folder, whatever links lead there."""
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(os.path.dirname(path))]) == top


def _read(path: str, offset: int, length: int, is_checksum: bool) -> Any:
    """``("ok", (bytes, checksum, size))`` in the external format, the bytes only if they are wanted: size is that of the file now."""
    try:
        source = open_log(path)
    except OSError as error:
        return ERROR, (Atom("remote_open"), error.strerror or str(error))
    try:
        checksum = 0
        for at in range(offset, offset + length, LONGEST):
            data = os.pread(source, min(LONGEST, offset + length - at), at)
            checksum = zlib.crc32(data, checksum)
        return _ok(b"" if is_checksum else data, checksum, os.fstat(source).st_size)
    except OSError as error:
        return ERROR, (Atom("remote_read"), error.strerror or str(error))
    finally:
        os.close(source)


_SAMPLE = etf.dumps((OK, (b"x", 0, 0)))
_BEGIN = _SAMPLE[: _SAMPLE.index((1).to_bytes(4))]
"""What stands before the length of the bytes."""


def _ok(data: bytes, checksum: int, size: int) -> bytes:
    """``etf.dumps(("ok", (data, checksum, size)))``; the data are copied once."""
    if not data:
        return etf.dumps((OK, (data, checksum, size)))
    # bytes are a bit string, whose last byte has eight bits
    return b"".join((_BEGIN, len(data).to_bytes(4), b"\x08", data, etf.dumps(checksum)[1:], etf.dumps(size)[1:]))
