"""Names as aliases: entries of the trace information file for registered names, and for the names of threads and tasks.

====================  ===================================================================================================
a name                registered before: alias, stamped when this began; ``register``: alias, with the time of the call, once
                      it has succeeded; ``unregister``: unalias without a pid, at the call; the process ends: unalias with its pid
a thread, a task      there before, begins, is renamed: alias, after an unalias of the old name with its pid
====================  ===================================================================================================

Registered names are atoms, as in Inviso, and the others text: so ending one does not end another. A name that Python made up
(``Task-7``, ``Thread-3``) is none, nor is one of a process of this package's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inviso import meta, process, trace
from inviso.errors import BadArg
from inviso.terms import Atom

__all__ = ["Callback", "Callbacks", "Names"]

Callback = Callable[..., Any] | None

OK = Atom("ok")
RENAMING: tuple[tuple[str, str, Any], ...] = (
    ("threading", "Thread.name", 2),
    ("_asyncio", "Task.set_name", "_"),
    ("asyncio.tasks", "Task.set_name", 2),
)
"""What gives threads and tasks other names."""

_MADE_UP = re.compile(r"(?:Task|Thread)-\d+|inviso .*")
"""Names that Python, or this package, has given."""
_WITH_RETURN: list[Any] = [("_", [], [("return_trace",)])]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The functions of one meta traced function; None for what is not wanted."""

    init: Callback = None
    call: Callback = None
    back: Callback = None
    remove: Callback = None


class Names:
    """The names of one meta tracer, which calls it in its thread. ``write`` takes entries."""

    def __init__(self, session: trace.Session, write: Callable[[Any], None]) -> None:
        self._session = session
        self._write = write
        self._is_on = False
        self._registered: dict[Any, Any] = {}
        """The registered name of each process that has one."""
        self._shown: dict[Any, str] = {}
        """The name of each thread and task that has an alias of that kind."""
        self._registering: dict[Any, Any] = {}
        """Who has been given a name, by the name, until the call returns."""
        self._objects: dict[int | None, Any] = {}
        """Threads and tasks by the ``id`` of their objects."""
        self._numbers: dict[Any, int] = {}
        """The reverse."""
        self._renaming: dict[Any, tuple[int | None, Any]] = {}
        """What each process is about to give another name, by its ``id``, and the name if the call shows it."""

    # registered names, by call-backs

    def register(self) -> Callbacks:
        """The call-backs of ``inviso.register``. They keep calls that have not returned in the first list of the loop data."""
        return Callbacks(_first_list_empty, _remember, self._registers, None)

    def unregister(self) -> Callbacks:
        """The call-backs of ``inviso.unregister``."""
        return Callbacks(None, self._unregisters, None, None)

    def _registers(self, caller: Any, what: Any, data: Any) -> Any:
        lists, again = meta.parts(data)
        begun = next((entry for entry in lists[0] if entry[0] == caller), None)
        if begun is None:
            return OK, data, None
        data = again(([entry for entry in lists[0] if entry is not begun], *lists[1:]))
        _, (name, who), ts = begun
        pid = self._registering.pop(name, None) or _pid_of(who)
        if pid is None or what[0] == "exception_from":
            return OK, data, None
        self._registered[pid] = Atom(name)
        return OK, data, meta.alias(pid, Atom(name), ts)

    def _unregisters(self, caller: Any, what: Any, data: Any) -> Any:
        match what:
            case (_, [str(name)], ts):
                self._registered = {pid: known for pid, known in self._registered.items() if known != name}
                return OK, data, meta.unalias(None, Atom(name), ts)
        return OK, data, None  # not a name at all

    # threads and tasks, by the events of processes

    def begin(self) -> None:
        """Writes the names that there are, and follows them from here on."""
        self._is_on = True
        for pattern in RENAMING:
            with suppress(BadArg):
                self._session.function(pattern, _WITH_RETURN, ["meta"])
        self._session.process("all", True, ["procs", "timestamp"])
        at = meta.now()
        for name in process.registered():
            pid = process.whereis(name)
            if pid is not None and pid not in self._registered:
                self._registered[pid] = Atom(name)
                self._write(meta.alias(pid, Atom(name), at))
        for pid in process.processes():
            self._enter(pid, at)

    def end(self) -> None:
        """Follows them no longer; nothing is written of that."""
        if self._is_on and self._session.is_alive():
            self._session.process("all", False, ["all"])
            for pattern in RENAMING:
                with suppress(BadArg):
                    self._session.function(pattern, False, ["meta"])
        self._is_on = False
        for known in (self._registered, self._registering, self._shown, self._objects, self._numbers, self._renaming):
            known.clear()

    def happened(self, pid: Any, what: str, rest: list[Any], ts: Any) -> None:
        """A process has begun, was given a name, or has ended."""
        if not self._is_on:
            return
        if what == "spawned":
            self._enter(pid, ts)
        elif what == "register":
            self._registering[rest[0]] = pid
        elif what == "exit":
            self._leave(pid, ts)

    def called(self, caller: Any, module: str, name: str, arguments: list[Any]) -> None:
        """One of :data:`RENAMING` was called."""
        if self._is_on and arguments and any(pattern[:2] == (module, name) for pattern in RENAMING):
            self._renaming[caller] = getattr(arguments[0], "id", None), arguments[-1]

    def returned(self, caller: Any, ts: Any) -> None:
        """It has returned."""
        number, name = self._renaming.pop(caller, (None, None))
        pid = self._objects.get(number)
        if pid is not None:
            self._show(pid, name if isinstance(name, str) else pid.name, ts)

    def _enter(self, pid: Any, ts: Any) -> None:
        found = process.object_of(pid)
        if found is not None:
            self._objects[id(found)] = pid
            self._numbers[pid] = id(found)
        self._show(pid, pid.name, ts)

    def _leave(self, pid: Any, ts: Any) -> None:
        self._shown.pop(pid, None)
        self._renaming.pop(pid, None)
        number = self._numbers.pop(pid, None)
        if number is not None and self._objects.get(number) == pid:
            del self._objects[number]
        name = self._registered.pop(pid, None)
        if name is not None:
            self._write(meta.unalias(pid, name, ts))

    def _show(self, pid: Any, name: str, ts: Any) -> None:
        old = self._shown.get(pid)
        if name == old:
            return
        if old is not None:
            del self._shown[pid]
            self._write(meta.unalias(pid, old, ts))
        if name and not _MADE_UP.fullmatch(name):
            self._shown[pid] = name
            self._write(meta.alias(pid, name, ts))


def _first_list_empty(module: str, function: str, arity: int, data: Any) -> Any:
    lists, again = meta.parts(data)
    return OK, again(([], *lists[1:])), None


def _remember(caller: Any, what: Any, data: Any) -> Any:
    """Keeps a call of register until it returns, one for each caller."""
    lists, again = meta.parts(data)
    _, (name, who), ts = what
    kept = [entry for entry in lists[0] if entry[0] != caller]
    return OK, again(([*kept, (caller, (name, who), ts)], *lists[1:])), None


def _pid_of(who: Any) -> Any:
    """The process, or port, that a message shows: by itself, or as an object."""
    if hasattr(who, "is_alive"):
        return who
    number = getattr(who, "id", None)
    pids: list[Any] = [*process.processes(), *process.ports()]
    return next((pid for pid in pids if id(process.object_of(pid)) == number), None)
