"""The prepared processes of this host, for controls of other hosts: their presence, answers and events."""

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
"""Seconds between two checks for new processes."""

TICK = 100_000_000
"""Nanoseconds in which two changes of a file can have the same time."""

LONGEST = 4 << 20
"""Bytes of a log in one answer, at most."""

_LONGEST = {"chunk": LONGEST, "checksum": 64 << 20}
"""Bytes of a log that are read for one request, at most."""

Answered = Callable[[Any], None]
"""Takes an answer: a term, or its bytes in the external format."""


class Near:
    """The processes that listen in a folder. All but :meth:`asked` runs in the agent's event loop."""

    def __init__(self, folder: Folder, engine: Engine, keys: Keys) -> None:
        self._folder = folder
        self._engine = engine
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._there: dict[str, Line] = {}
        """The agent's own line to each node, which shows the node's end."""
        self._pids: dict[str, int] = {}
        self._seen = 0
        """The change time of the names of nodes at the last check."""
        self._lines: dict[tuple[str, str], asyncio.Task[Line]] = {}
        """Lines by control and node. The process treats a line as its control."""
        self._numbers: dict[tuple[str, str], int] = {}
        """The number of the last event, by control and node."""
        self._gone: set[str] = set()
        """Agents that have gone. Their earlier requests may still arrive."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Looks for new processes, forever."""
        self._engine.serve(self._keys.of_host(), self.asked)
        self._engine.serve(self._keys.clock(), _time)
        self._engine.watch(self._keys.agents(), self._agent_heard)
        while True:
            now, changed = time.time_ns(), self._folder.names_changed()
            if changed != self._seen:
                # two changes in one tick of the system's clock have the same time, so a recent one is read again
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
        """Declares a process's token until the process ends."""
        ended = asyncio.Event()
        try:
            line = await Line.to(self._folder.connect(pid), "", lambda event: None, lambda why: ended.set())
        except (OSError, BadFrame):
            self._pids.pop(node, None)
            self._seen = 0  # the process may not be ready: try again
            return
        self._there[node] = line
        gone = self._engine.token(self._keys.alive(node))
        await ended.wait()
        # the token's end alone could be an interrupted connection between hosts
        self._engine.publish(self._keys.event(node), etf.dumps((EVERYBODY, 0, Atom("gone"))))
        gone()
        if self._there.get(node) is line:
            del self._there[node]
            self._pids.pop(node, None)

    def asked(self, key: str, data: bytes, answer: Callable[[bytes], None]) -> None:
        """Takes a request from another host; runs in a thread of the engine."""
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
        if name in ("about", "sample"):  # they need no line of the control's own
            return there.ask(name, arguments, answered)
        self._pass_on(control, node, name, arguments, answered)

    def _pass_on(self, control: str, node: str, name: str, arguments: list[Any], answered: Answered) -> None:
        """Passes a request on over the control's own line to the process.

        The line is registered at once, as the next event may be the end of the control.
        """
        if control.split("/")[0] in self._gone:
            # its agent may be back, and needs to learn that its controls were let go
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
        publish = partial(self._publish, control, node)
        name = control.partition(" ")[2]
        ended = partial(self._line_ended, control, node)
        return await Line.to(made, name, lambda event: publish((Atom("event"), event)), ended)

    def _publish(self, control: str, node: str, what: Any) -> None:
        """Publishes an event for a control, with a number, so that the receiver sees missing ones."""
        number = self._numbers[control, node] = self._numbers.get((control, node), 0) + 1
        self._engine.publish(self._keys.event(node), etf.dumps((control, number, what)))

    def _line_ended(self, control: str, node: str, why: str) -> None:
        if self._lines.pop((control, node), None) is not None:
            self._publish(control, node, (Atom("ended"), why))
            self._numbers.pop((control, node), None)

    def _left(self, control: str, node: str) -> None:
        """Closes a control's line after the control has gone."""
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
        """Handles the end of an agent as the end of all its controls; or its return."""
        if is_there:
            self._gone.discard(name)
        else:
            self._gone.add(name)
            for control, node in [key for key in self._lines if key[0].split("/")[0] == name]:
                self._left(control, node)

    def _of_log(self, control: str, node: str, name: str, arguments: list[Any], answered: Answered) -> None:
        """Answers with bytes of a log, or with their checksum.

        The agent reads them itself, so no byte goes through the traced process. The file must be a log of that process,
        or lie in its folder of logs.
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
    """Answers with two times of this host: of the request's arrival, and of the answer."""
    came = time.time_ns()
    answer(etf.dumps((came, time.time_ns())))


def _is_below(path: str, folder: str) -> bool:
    """Whether a file lies in a folder, after following links."""
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(os.path.dirname(path))]) == top


def _read(path: str, offset: int, length: int, is_checksum: bool) -> Any:
    """``("ok", (bytes, checksum, size))`` in the external format. With ``is_checksum`` the bytes are empty.

    ``size`` is the present size of the file.
    """
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
"""The bytes of an answer before the length of its data."""


def _ok(data: bytes, checksum: int, size: int) -> bytes:
    """``etf.dumps(("ok", (data, checksum, size)))``, with one copy of the data."""
    if not data:
        return etf.dumps((OK, (data, checksum, size)))
    # bytes are a bit string, whose last byte has eight bits
    return b"".join((_BEGIN, len(data).to_bytes(4), b"\x08", data, etf.dumps(checksum)[1:], etf.dumps(size)[1:]))
