"""Names as aliases: entries of the trace information file for registered names, and for the names of threads and tasks.

*Registered names* come by meta tracing: an alias with the time of the call of ``register``, once it has succeeded; at a call of
``unregister`` an unalias without a pid. Beyond Inviso: an alias for each name that is there at the beginning, and an
unalias with the pid when a process that has a name ends.

*Names of threads and tasks* are looked up now and then, so a thread or task that begins costs nothing. One that was not there
at the last look has begun after it: its alias has the time of that look. A thread's new name comes by meta tracing, with its
time; a task's counts from the look that finds it. Who has ended meanwhile is known as well, if it was traced: the latest
4,096 threads and as many tasks.

Registered names are atoms, as in Inviso, and the others text: so ending one does not end another. A name that Python made up
(``Task-7``, ``Thread-3``) is none, nor is one of a process of this package's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inviso import _native, meta, process, trace
from inviso.terms import Atom

__all__ = ["Callback", "Callbacks", "Names"]

Callback = Callable[..., Any] | None

OK = Atom("ok")
RENAMING = ("threading", "Thread.name", 2)
"""What gives threads other names. Of tasks it is a function written in C: to trace that costs the whole program."""

EVERY = 1.0
"""Seconds between two looks, at least."""

SHARE = 50
"""A look is followed by so many times its own length, at least."""

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
        self._found: dict[Any, str] = {}
        """The name of each thread and task that the last look has found."""
        self._looked = meta.now()
        """When that was."""
        self._due = 0.0
        self._renaming: dict[Any, tuple[int | None, Any]] = {}
        """Which thread each process is about to give a name, by its ``id``, and the name."""

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
        if what[0] == "exception_from":
            return OK, data, None
        _, (name, pid), ts = begun
        self._registered[pid] = Atom(name)
        return OK, data, meta.alias(pid, Atom(name), ts)

    def _unregisters(self, caller: Any, what: Any, data: Any) -> Any:
        match what:
            case (_, [str(name)], ts):
                self._registered = {pid: known for pid, known in self._registered.items() if known != name}
                return OK, data, meta.unalias(None, Atom(name), ts)
        return OK, data, None  # not a name at all

    # all names, by looking

    def begin(self) -> None:
        """Writes the names that there are, and follows them from here on."""
        self._is_on = True
        self._session.function(RENAMING, _WITH_RETURN, ["meta"])
        self._looked = at = meta.now()
        for name in process.registered():
            pid = process.whereis(name)
            if pid is not None and pid not in self._registered:
                self._registered[pid] = Atom(name)
                self._write(meta.alias(pid, Atom(name), at))
        self.look()

    def is_due(self, now: float) -> bool:
        """Whether it is time to look, by ``time.monotonic``."""
        return self._is_on and now >= self._due

    def look(self) -> None:
        """Writes the names that are new, and the ends of registered ones."""
        if not self._is_on:
            return
        began, at = time.monotonic(), meta.now()
        found = dict(_native.process_names())
        for pid, name in found.items():
            old = self._found.get(pid)
            if old is None:
                self._show(pid, old, name, self._looked)
            elif name != old and pid.is_alive():
                self._show(pid, old, name, at)
        self._found, self._looked = found, at
        for pid in [pid for pid in self._registered if not pid.is_alive()]:
            self._write(meta.unalias(pid, self._registered.pop(pid), at))
        now = time.monotonic()
        self._due = now + max(EVERY, SHARE * (now - began))

    def end(self) -> None:
        """Looks once more, and follows them no longer; the end itself is not written."""
        if self._is_on and self._session.is_alive():
            self.look()
            self._session.function(RENAMING, False, ["meta"])
        self._is_on = False
        for known in (self._registered, self._found, self._renaming):
            known.clear()

    def called(self, caller: Any, module: str, name: str, arguments: list[Any]) -> None:
        """A thread is given another name."""
        if self._is_on and (module, name, len(arguments)) == RENAMING:
            self._renaming[caller] = getattr(arguments[0], "id", None), arguments[1]

    def returned(self, caller: Any, ts: Any) -> None:
        """It has it."""
        number, name = self._renaming.pop(caller, (None, None))
        threads = [pid for pid in process.processes() if pid.kind == "thread"]
        pid = next((pid for pid in threads if id(process.object_of(pid)) == number), None)
        if pid is not None and isinstance(name, str):
            self._show(pid, self._found.get(pid), name, ts)
            self._found[pid] = name

    def _show(self, pid: Any, old: str | None, new: str, ts: Any) -> None:
        """Writes a name in place of another."""
        if old == new:
            return
        if old and not _MADE_UP.fullmatch(old):
            self._write(meta.unalias(pid, old, ts))
        if new and not _MADE_UP.fullmatch(new):
            self._write(meta.alias(pid, new, ts))


def _first_list_empty(module: str, function: str, arity: int, data: Any) -> Any:
    lists, again = meta.parts(data)
    return OK, again(([], *lists[1:])), None


def _remember(caller: Any, what: Any, data: Any) -> Any:
    """Keeps a call of register until it returns, one for each caller."""
    lists, again = meta.parts(data)
    _, (name, pid), ts = what
    kept = [entry for entry in lists[0] if entry[0] != caller]
    return OK, again(([*kept, (caller, (name, pid), ts)], *lists[1:])), None
