"""Reads the log of a run at its end: lists its processes, their results and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._folder import Folder, is_alive

__all__ = ["Missing", "Outcome", "Process", "account"]


@dataclass(slots=True)
class Process:
    """One process of the operating system, which may run several programs in turn."""

    pid: str
    name: str
    since: str = ""
    ids: list[str] = field(default_factory=list)
    """The ids of its results, one for each program or fork."""
    other: str | None = None
    """The program that it runs now, if that isn't measured."""
    why: str | None = None
    """The reason why that isn't measured."""
    has_measured: bool = False
    """Whether a process that it started is measured, as of a shell."""
    is_worker: bool = False
    """Whether it begins measuring before it runs any of the program's code."""
    is_helper: bool = False
    """Whether it belongs to the library and ends after the run."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Processes that were not measured, or not until their end, for the same reason."""

    why: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run's children: name, pid and results of each measured one, and the missing ones."""

    measured: list[tuple[str, str, list[Any]]]
    missing: list[Missing]
    number: int
    """The number of measured children, without the library's helpers."""

    @property
    def has_running(self) -> bool:
        """Whether a child may still write results."""
        return any(missing.why == RUNNING for missing in self.missing)

    def sentence(self) -> str:
        """The report's last line; empty if nothing is missing."""
        number = sum(len(missing.names) for missing in self.missing)
        if not number:
            return ""
        reasons = "; ".join(f"{missing.why} ({_listed(missing.names)})" for missing in self.missing)
        return f"{number} child {'process was' if number == 1 else 'processes were'} not measured: {reasons}."


KILLED = "ended, or became another program, before it wrote what it did"
PARTLY = "was killed before it wrote the last of what it did"
RUNNING = "still runs"
OTHER = "another program"
LEFT = "went on as another program"
SILENT = "Python in which measuring did not begin"


def account(notes: list[list[str]], get: Callable[[str], Any], alive: Callable[[str, str], bool] = is_alive) -> Outcome:
    """Reads the log from its beginning. ``get`` returns the results of an id, or None.

    >>> notes = [["spawn", "7", "", "ls"]]
    >>> account(notes, lambda name: None).sentence()
    '1 child process was not measured: another program (ls).'
    """
    everyone = _Log()
    for note in notes:
        everyone.read(note)
    measured: list[tuple[str, str, list[Any]]] = []
    missing: dict[str, list[str]] = {}
    helpers = 0
    for process in everyone.all:
        results = [result for each in process.ids if (result := get(each)) is not None]
        name = next((result["name"] for result in results[::-1] if result.get("name")), process.name)
        if results:
            measured.append((name, process.pid, results))
        if process.is_helper:
            helpers += len(results) > 0
            continue
        why = _why(process, get, alive)
        if why is not None:
            missing.setdefault(why, []).append(process.other or f"{name}, pid {process.pid}")
    named = [Missing(why, tuple(names)) for why, names in missing.items()]
    return Outcome(measured, named, len(measured) - helpers)


def of_folder(folder: Folder) -> Outcome:
    """The outcome of a run."""
    return account(folder.notes(), lambda name: folder.get(f"{name}.result"))


def _why(process: Process, get: Callable[[str], Any], alive: Callable[[str, str], bool]) -> str | None:
    """The reason why results of a process are missing; None if they are complete."""
    if process.other is not None or process.why is not None:
        if process.has_measured:
            return None
        is_python = process.other is not None and process.other.startswith("python")
        if is_python and process.why is None and alive(process.pid, process.since):
            return RUNNING
        if process.is_worker and process.why is None:
            return None
        return process.why or (SILENT if is_python else OTHER)
    last = get(process.ids[-1]) if process.ids else None
    if last is not None and last["is_all"]:
        return None
    if alive(process.pid, process.since):
        return RUNNING
    return KILLED if last is None else PARTLY


class _Log:
    """Follows the processes from line to line of the log."""

    def __init__(self) -> None:
        self.all: list[Process] = []
        self._now: dict[str, Process] = {}
        """The latest process of each pid."""
        self._early: set[str] = set()
        """Processes whose line comes before the line of their starter."""
        self._systems: dict[str, list[Process]] = {}
        """Running shells of ``os.system``, whose pids are unknown, by the pid of the caller."""

    def read(self, note: list[str]) -> None:
        match note:
            case ["spawn" | "worker" as what, pid, since, name]:
                known = self._now.get(pid)
                if pid in self._early or (known is not None and known.is_helper and not known.name):
                    self._early.discard(pid)
                else:
                    process = self._new(pid, name)
                    process.since, process.other, process.is_worker = since, name, what == "worker"
            case ["fork", pid, since, _, id, name]:
                process = self._new(pid, name)
                process.since = since
                process.ids.append(id)
            case ["begin", pid, since, chain, id, name]:
                process = self._own(pid, since, chain.split(","), name)
                process.since, process.name, process.other, process.why = since, name, None, None
                process.ids.append(id)
            case ["skip", pid, since, chain, why, name]:
                known = self._now.get(pid)
                if known is None or known.since != since:
                    known = self._own(pid, since, chain.split(","), name)
                process = known
                process.since, process.why, process.other = since, why, name
            case ["helper", pid]:
                self._new(pid, "") if pid not in self._now else None
                self._now[pid].is_helper = True
            case ["exec", pid, name]:
                if (leaver := self._now.get(pid)) is not None:
                    leaver.other, leaver.why = name, LEFT
            case ["stayed", pid]:
                if (stayer := self._now.get(pid)) is not None:
                    stayer.other = stayer.why = None
            case ["system", pid, name]:
                process = Process("", name, other=name)
                self.all.append(process)
                self._systems.setdefault(pid, []).append(process)
            case ["waited", pid]:
                if systems := self._systems.get(pid):
                    systems.pop()

    def _own(self, pid: str, since: str, chain: list[str], name: str) -> Process:
        """The process in which a program has begun. Marks the processes that started it."""
        process = self._now.get(pid)
        # a process without such a line, but with the same start, was forked by native code and became another program
        if process is None or (process.other is None and process.ids and process.since != since):
            process = self._new(pid, name)
            self._early.add(pid)
            for above in chain:
                for system in self._systems.get(above, []):
                    system.has_measured = True
        for above in chain:
            between = self._now.get(above)
            if between is not None and between.other is not None:
                between.has_measured = True
        return process

    def _new(self, pid: str, name: str) -> Process:
        process = self._now[pid] = Process(pid, name)
        self.all.append(process)
        return process


def _listed(names: tuple[str, ...], most: int = 8) -> str:
    """Some names, each one once.

    >>> _listed(("ls", "git", "ls"))
    '2 x ls, git'
    """
    times: dict[str, int] = {}
    for name in names:
        times[name] = times.get(name, 0) + 1
    shown = [name if number == 1 else f"{number} x {name}" for name, number in list(times.items())[:most]]
    return ", ".join(shown) + (f" and {len(times) - most} more" if len(times) > most else "")
