"""Names as aliases: entries of the trace information file for registered names, and for the names of threads and tasks.

*Registered names* come by meta tracing. An alias has the time of the call of ``register``, and is written when that
call has succeeded. A call of ``unregister`` writes an unalias without a pid. Beyond Inviso there is an alias for each
name that exists at the beginning, and an unalias with the pid when a process with a name ends.

*Names of threads and tasks* are looked up at intervals, so starting a thread or task costs nothing. One that the last
look-up did not find started after it: its alias has the time of that look-up. A thread's new name comes by meta
tracing, with its time. A task's new name counts from the look-up that finds it. Threads and tasks that ended between
two look-ups are found if they were traced: the latest 4,096 of each.

Registered names are atoms, as in Inviso, and the others are text. So the end of one does not end another of the same
name. A name that Python generated (``Task-7``, ``Thread-3``) is not written, nor the name of a process of this package.
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
"""The function that renames threads. The one of tasks is written in C: tracing it would slow the whole program down."""

EVERY = 1.0
"""Seconds between two look-ups, at least."""

SHARE = 50
"""After a look-up the pause is at least so many times its length."""

_MADE_UP = re.compile(r"(?:Task|Thread)-\d+|inviso .*")
"""Names that Python, or this package, generates."""

_WITH_RETURN: list[Any] = [("_", [], [("return_trace",)])]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callbacks of one meta traced function. None: no callback."""

    init: Callback = None
    call: Callback = None
    back: Callback = None
    remove: Callback = None


class Names:
    """Follows names for one meta tracer, in its thread. ``write`` gets the entries."""

    def __init__(self, session: trace.Session, write: Callable[[Any], None]) -> None:
        self._session = session
        self._write = write
        self._is_on = False
        self._registered: dict[Any, Any] = {}
        """Registered names, by process."""
        self._found: dict[Any, str] = {}
        """The name of each thread and task, from the last look-up."""
        self._looked = meta.now()
        """The time of the last look-up."""
        self._due = 0.0
        self._renaming: dict[Any, tuple[int | None, Any]] = {}
        """Renamings in progress: by caller, the ``id`` of the thread and its new name."""

    # registered names, by callbacks

    def register(self) -> Callbacks:
        """The callbacks of ``inviso.register``. They store unfinished calls in the first list of the loop data."""
        return Callbacks(_first_list_empty, _remember, self._registers, None)

    def unregister(self) -> Callbacks:
        """The callbacks of ``inviso.unregister``."""
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
        return OK, data, None  # the argument is not a name

    # all names, by look-ups

    def begin(self) -> None:
        """Writes all present names, and follows changes from now on."""
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
        """Whether a look-up is due, by ``time.monotonic``."""
        return self._is_on and now >= self._due

    def look(self) -> None:
        """Looks names up. Writes new names, and the ends of processes with registered names."""
        if not self._is_on:
            return
        began, at = time.monotonic(), meta.now()
        found = dict(_native.process.process_names())
        for pid, name in found.items():
            old = self._found.get(pid)
            if old is None:
                self._write_renamed(pid, old, name, self._looked)
            elif name != old and pid.is_alive():
                self._write_renamed(pid, old, name, at)
        self._found, self._looked = found, at
        for pid in [pid for pid in self._registered if not pid.is_alive()]:
            self._write(meta.unalias(pid, self._registered.pop(pid), at))
        now = time.monotonic()
        self._due = now + max(EVERY, SHARE * (now - began))

    def end(self) -> None:
        """Looks names up once more, then stops. It writes no unaliases."""
        if self._is_on and self._session.is_alive():
            self.look()
            self._session.function(RENAMING, False, ["meta"])
        self._is_on = False
        for known in (self._registered, self._found, self._renaming):
            known.clear()

    def called(self, caller: Any, module: str, name: str, arguments: list[Any]) -> None:
        """Handles the call of a function that renames a thread."""
        if self._is_on and (module, name, len(arguments)) == RENAMING:
            self._renaming[caller] = getattr(arguments[0], "id", None), arguments[1]

    def returned(self, caller: Any, ts: Any) -> None:
        """Handles the return of that function: writes the new name."""
        number, name = self._renaming.pop(caller, (None, None))
        threads = [pid for pid in process.processes() if pid.kind == "thread"]
        pid = next((pid for pid in threads if id(process.object_of(pid)) == number), None)
        if pid is not None and isinstance(name, str):
            self._write_renamed(pid, self._found.get(pid), name, ts)
            self._found[pid] = name

    def _write_renamed(self, pid: Any, old: str | None, new: str, ts: Any) -> None:
        """Writes the end of the old name and the new name."""
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
    """Stores a call of ``register`` until it returns, one for each caller."""
    lists, again = meta.parts(data)
    _, (name, pid), ts = what
    kept = [entry for entry in lists[0] if entry[0] != caller]
    return OK, again(([*kept, (caller, (name, pid), ts)], *lists[1:])), None
