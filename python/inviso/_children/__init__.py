"""Measuring the processes that a program starts, and theirs.

The process in which the program was started *leads*: it makes a private folder (``_folder``), says there what is to be
measured, and reads in the end what the others wrote. The others *follow*: a forked child begins in the hook after the
fork, a new interpreter in ``start``, which ``inviso_start.pth`` calls if the environment names a folder. Each measures
from zero, and writes

=======================================  ==================================================================
at its end, and before it becomes        everything, however it ends by itself: ``os._exit`` too
another program
at SIGTERM, if nobody handles that       everything; then the signal's action follows
every second or so                       what there is: it is what is known of one that is killed otherwise
=======================================  ==================================================================

What is to be measured is a :class:`Work`, by the command that was given.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import posix
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from inviso import _fork, _native
from inviso._background import Timer
from inviso._pattern import Pattern

from ._account import Outcome, of_folder
from ._doors import is_between, open_doors, tell_end, with_theirs
from ._folder import Folder, parent, started
from ._interpreter import SITE, has_hook, place_of_program, runs, take_back_path, uncover

__all__ = [
    "MAIN",
    "MAIN_OF_CHILD",
    "VARIABLE",
    "Folder",
    "Leader",
    "Outcome",
    "Work",
    "lead",
    "of_child",
    "start",
    "title",
]

VARIABLE = "INVISO_CHILDREN"
SIGTERM = 15
EVERY = 1.0
"""Seconds between two looks at whether there is something to write."""

SHARE = 50
"""So many times as long as a writing took, at least, nothing is written."""

PATIENCE = 1.0
"""Seconds that the end waits for children that still run."""

GENERATIONS = 16
"""Processes above one that are looked at."""


class Work(Protocol):
    """What a child measures."""

    def begin(self) -> None:
        """Measure from zero; RuntimeError where that can't be."""

    def read(self, *, last: bool) -> dict[str, Any]:
        """What was measured so far, as plain data; nothing more is measured after the last."""

    def pause(self) -> None:
        """A fork comes: no thread of ours may run."""

    def resume(self) -> None:
        """It is over, in the parent."""


WORKS = {"tprof": ("inviso.tprof._child", "Measuring"), "trace": ("inviso.cli._trace_child", "Lines")}
"""What there is to be done in a child, by the command: where it is, as this module is below those."""


def _work(config: dict[str, Any]) -> Work:
    # leaders import the same: a forked child may not wait for an import
    module, name = WORKS[config["command"]]
    work: Work = getattr(__import__(module, fromlist=[name]), name)(config)
    return work


MAIN = "__main__"
MAIN_OF_CHILD = "__mp_main__"
"""How ``multiprocessing`` imports the program's main module in a child that it spawns."""


def of_child(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns as a child needs them.

    >>> of_child([("__main__", "work", 1), ("json", "_", "_")])
    [('__main__', 'work', 1), ('json', '_', '_'), ('__mp_main__', 'work', 1)]
    """
    given = list(patterns)
    return given + [(MAIN_OF_CHILD, function, arity) for module, function, arity in given if module == MAIN]


class _Member:
    """This process in a run."""

    def __init__(self, folder: Folder, config: dict[str, Any], *, leads: bool) -> None:
        self.folder = folder
        self.config = config
        self.leads = leads
        self.process = posix.getpid()
        self._id = ""
        self._begins = "begin"
        self._work: Work | None = None
        self._lock = _thread.allocate_lock()
        self._thread = Timer(self._step, _native.ending_wake)
        self._next = 0.0
        self._ours = [(VARIABLE.encode(), os.fsencode(folder.path))]
        """What children find in their environment."""
        if not has_hook():
            self._ours.append((b"PYTHONPATH", os.fsencode(SITE)))
        self.is_server = runs("multiprocessing.forkserver")
        self.at_exit: Callable[[], object] | None = None
        """Of a leader: called before the program ends by ``os._exit``."""
        _fork.rest(self._rest, self._go_on, lambda: self._work is not None)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)
        _members[:] = [self]
        open_doors(self)
        self.variables()

    def begin(self) -> None:
        """Measure in this process from here on."""
        own = self.process, started(self.process), _chain()
        for give_way in before_taking:
            give_way()
        _native.ending_take(SIGTERM)  # which waits until there is something to write
        work = _work(self.config)
        try:
            work.begin()
        except RuntimeError as error:
            self.folder.note("skip", *own, str(error), title(self.config))
            _native.ending_give()
            return
        self._id = f"{self.process}-{time.monotonic_ns()}"
        self._work = work
        self.folder.note(self._begins, *own, self._id, title(self.config))
        self._thread.start(0.0)

    def end(self) -> None:
        """The process is about to end by itself."""
        if not self.leads and self.process == posix.getpid():
            self._thread.end()
            self._write(last=True)
            _native.ending_give()

    def _write(self, *, last: bool, is_all: bool = False) -> None:
        """Write what was measured, one thread at a time; who ends the process doesn't wait for ever."""
        if not self._lock.acquire(timeout=2.0 if last or is_all else 0.0):
            return
        try:
            work = self._work
            if work is None or self.process != posix.getpid():
                return
            if last:
                self._work = None
            began = time.monotonic()
            result = work.read(last=last)
            result.update(name=title(self.config), is_all=last or is_all)
            self.folder.put(f"{self._id}.result", result)
            now = time.monotonic()
            self._next = now + (now - began) * SHARE
        except Exception:
            pass  # the run is over and its folder gone, or this process may not write there; the leader counts it
        finally:
            self._lock.release()

    def _step(self) -> float | None:
        number = _native.ending_wait(EVERY)
        if number:
            self._write(last=True)
            tell_end(self)
            _native.ending_follow(number)
            return None
        if time.monotonic() >= self._next:
            self._write(last=False)
            _native.ending_take(SIGTERM)  # the program may have put the default back
        return 0.0

    def _rest(self) -> None:
        self._thread.stop()
        if self._work is not None:
            self._work.pause()
        if self.is_server and not is_between():
            self._write(last=False, is_all=True)  # it ends when the run has

    def _go_on(self) -> None:
        if self._work is not None:
            self._work.resume()
            self._thread.start(0.0)

    def _forked(self) -> None:
        """In the child: nothing of what the parent measured is its own."""
        self._work = None
        self._lock = _thread.allocate_lock()
        self._thread.forget()
        self.leads = self.is_server = False
        if is_between() or not self.config:
            return  # it becomes another program before it has done anything, or the run is over
        self.process = posix.getpid()
        self._begins = "fork"
        self.begin()

    # what the doors tell

    def variables(self) -> list[tuple[bytes, bytes]]:
        if self.process != posix.getpid() or not self.config:
            return []
        theirs: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
        for name, value in with_theirs(self._ours, theirs):
            posix.putenv(name, value)  # not into os.environ
        return self._ours

    def spawned(self, pid: int, executable: str, words: list[str]) -> None:
        # one that ends while its interpreter starts has not come to the program
        is_worker = runs("multiprocessing.spawn", words) and not sys.flags.ignore_environment
        what = "worker" if is_worker and executable == sys.executable else "spawn"
        self.folder.note(what, pid, started(pid), _program([executable, *words[1:]]))

    def replaced(self, executable: str, words: list[str]) -> None:
        if self.process == posix.getpid():
            self._write(last=False, is_all=True)
        self.folder.note("exec", posix.getpid(), _program([executable, *words[1:]]))

    def stayed(self) -> None:
        self.folder.note("stayed", posix.getpid())

    def calls_shell(self, command: str) -> None:
        self.folder.note("system", posix.getpid(), _program(["sh", "-c", command]))

    def waited_for_shell(self) -> None:
        self.folder.note("waited", posix.getpid())

    def exits(self) -> None:
        if self.leads and self.process == posix.getpid():
            ends, self.at_exit = self.at_exit, None
            if ends is not None:
                ends()
            self.folder.remove()
        self.end()


class Leader:
    """A run that its children follow, from before the program's first line to after its last."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Folder.make()
        config = {**config, "interpreter": _interpreter(), "folder": self.folder.path}
        self.folder.put("config", config)
        _work(config)
        self._member = _Member(self.folder, config, leads=True)

    def at_exit(self, ends: Callable[[], object]) -> None:
        """Has this called before the program ends by ``os._exit``, which calls no function of ``atexit``."""
        self._member.at_exit = ends

    def outcome(self) -> Outcome:
        """What the children did, when the program has ended; those that still run have a second."""
        until = time.monotonic() + PATIENCE
        while (outcome := of_folder(self.folder)).has_running and time.monotonic() < until:
            time.sleep(0.01)
        return outcome

    def is_here(self) -> bool:
        """Whether this process leads; a forked child doesn't."""
        return self._member.leads

    def cancel(self) -> None:
        """No child is measured any more."""
        self._member.config = {}
        posix.unsetenv(VARIABLE.encode())
        self.folder.remove()


def lead(config: dict[str, Any]) -> Leader:
    """Have children of this process measured from here on; RuntimeError where they are already."""
    if any(member.config for member in _members):
        raise RuntimeError("children of this process are measured already")
    return Leader(config)


before_taking: list[Callable[[], object]] = []
"""Called before a member waits for SIGTERM, for which one thread of a process can wait."""


def is_measured() -> bool:
    """Whether a member measures this process, and so waits for SIGTERM."""
    return any(member._work is not None for member in _members)


_members: list[_Member] = []
"""Of this process: one whose run is not over."""


def start(known: set[str]) -> None:
    """In a new interpreter: follow, if the environment says whom. Nothing goes from here into the program.

    ``known`` are the modules that there were before this package: others may not stand in the way of the program's own.
    """
    with contextlib.suppress(Exception):  # the log knows by who started it that this process does not measure
        _follow()
    with contextlib.suppress(Exception):
        uncover(known, [place_of_program(sys.orig_argv), *_places])


_places: list[str] = []
"""Where the leader's program is, which a child that ``multiprocessing`` spawns imports from."""


def _follow() -> None:
    environment: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    path = environment.pop(VARIABLE.encode(), None)
    take_back_path(environment)
    if path is None:
        return
    folder = Folder(os.fsdecode(path))
    if posix.getuid() != posix.geteuid() or not folder.is_private():
        return
    config = folder.get("config")
    if config is None:
        return
    pid, chain, name = posix.getpid(), _chain(), _program(sys.orig_argv)
    if runs("multiprocessing.resource_tracker"):
        folder.note("helper", pid)
        return
    why = None
    if sys.flags.ignore_environment:
        why = "started with -I or -E"
    elif config["interpreter"] != _interpreter():
        why = "another interpreter"
    if why is not None:
        folder.note("skip", pid, started(pid), chain, why, name)
        return
    config["title"] = name
    _places.append(config["beside"])
    member = _Member(folder, config, leads=False)
    member.begin()
    if member.is_server:
        folder.note("helper", pid)


def _interpreter() -> str:
    from inviso import __version__

    return f"{sys.implementation.cache_tag}{sys.abiflags} {__version__}"


def _chain() -> str:
    """The processes above this one, its parent first."""
    above = [posix.getppid()]
    while above[-1] > 1 and len(above) < GENERATIONS:
        above.append(parent(above[-1]))
    return ",".join(map(str, above))


def title(config: dict[str, Any]) -> str:
    """What the process is called by ``multiprocessing``, or the program."""
    for library in ("multiprocessing.process", "billiard.process"):
        process = getattr(sys.modules.get(library), "_current_process", None)
        name = getattr(process, "_name", None)
        if type(name) is str and name != "MainProcess":
            return name
    return str(config.get("title", ""))


def _program(words: list[str]) -> str:
    """A command line in short: the program, and what it runs if it is a Python or a shell.

    >>> _program(["/usr/bin/python3", "-X", "dev", "work/job.py", "--fast"])
    'python3 -X dev job.py'
    """
    base = words[0].rpartition("/")[2]
    if not base.startswith(("python", "sh", "bash", "dash", "env")):
        return base
    shown = [base]
    for word in words[1:5]:
        shown.append(word[:40].rpartition("/")[2] if not word.startswith("-") else word)
        if shown[-2] in ("-c", "-m") or not (word.startswith("-") or shown[-2] in ("-X", "-W")):
            break
    return " ".join(shown)
