"""Measures the processes that a program starts, and those that these start.

The first process of the program is the *leader*: it makes a private folder (``_folder``), writes the configuration
there, and reads the results of the others at the end. The others are *followers*: a forked child begins in the hook
after the fork, a new interpreter in ``start``, which ``inviso_start.pth`` calls if the environment names a folder. Each
follower measures from zero and writes its results at three times:

=======================================  ==================================================================
at its end, also by ``os._exit``, and    everything
before it becomes another program
at SIGTERM, if it has no handler         everything; then the signal's action follows
about every second                       the results so far, in case another signal kills it
=======================================  ==================================================================

The command chooses the :class:`Work`, which does the measuring.
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
from ._doors import announce_end, is_spawning, open_doors, with_theirs
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
"""Seconds between two checks whether there are results to write."""

SHARE = 50
"""The pause after a write is at least so many times as long as the write."""

PATIENCE = 1.0
"""Seconds to wait at the end for children that still run."""

GENERATIONS = 16
"""The largest number of processes above one that are recorded."""


class Work(Protocol):
    """The measuring in a child."""

    def begin(self) -> None:
        """Measures from zero. Raises RuntimeError if that is impossible."""

    def read(self, *, last: bool) -> dict[str, Any]:
        """The results so far as plain data. With ``last`` measuring ends."""

    def pause(self) -> None:
        """Stops all our threads before a fork."""

    def resume(self) -> None:
        """Continues after the fork, in the parent."""


WORKS = {"tprof": ("inviso.tprof._child", "Measuring"), "trace": ("inviso.cli._trace_child", "Lines")}
"""The work of each command, as module and class: those modules import this one, so it can't import them."""


def _work(config: dict[str, Any]) -> Work:
    # the leader imports the same module, because a forked child must not wait for an import
    module, name = WORKS[config["command"]]
    work: Work = getattr(__import__(module, fromlist=[name]), name)(config)
    return work


MAIN = "__main__"
MAIN_OF_CHILD = "__mp_main__"
"""The name of the program's main module in a child that ``multiprocessing`` spawns."""


def of_child(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns for a child: those of the main module are there twice, with its name in a spawned child.

    >>> of_child([("__main__", "work", 1), ("json", "_", "_")])
    [('__main__', 'work', 1), ('json', '_', '_'), ('__mp_main__', 'work', 1)]
    """
    given = list(patterns)
    return given + [(MAIN_OF_CHILD, function, arity) for module, function, arity in given if module == MAIN]


class _Member:
    """This process as the leader or a follower of a run."""

    def __init__(self, folder: Folder, config: dict[str, Any], *, leads: bool) -> None:
        self.folder = folder
        self.config = config
        self.leads = leads
        self.process = posix.getpid()
        self._id = ""
        self._begins = "begin"
        self._work: Work | None = None
        self._lock = _thread.allocate_lock()
        self._thread = Timer(self._step, _native.ending.wake)
        self._next = 0.0
        self._ours = [(VARIABLE.encode(), os.fsencode(folder.path))]
        """Variables for the environment of children."""
        if not has_hook():
            self._ours.append((b"PYTHONPATH", os.fsencode(SITE)))
        self.is_server = runs("multiprocessing.forkserver")
        self.at_exit: Callable[[], object] | None = None
        """For a leader: called before the program ends by ``os._exit``."""
        _fork.rest(self._rest, self._go_on, lambda: self._work is not None)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)
        _members[:] = [self]
        open_doors(self)
        self.variables()

    def begin(self) -> None:
        """Begins measuring in this process."""
        own = self.process, started(self.process), _chain()
        for give_way in before_taking:
            give_way()
        _native.ending.take(SIGTERM)  # the signal waits until the results are written
        work = _work(self.config)
        try:
            work.begin()
        except RuntimeError as error:
            self.folder.note("skip", *own, str(error), title(self.config))
            _native.ending.give()
            return
        self._id = f"{self.process}-{time.monotonic_ns()}"
        self._work = work
        self.folder.note(self._begins, *own, self._id, title(self.config))
        self._thread.start(0.0)

    def end(self) -> None:
        """Writes the last results, before the process ends by itself."""
        if not self.leads and self.process == posix.getpid():
            self._thread.end()
            self._write(last=True)
            _native.ending.give()

    def _write(self, *, last: bool, is_all: bool = False) -> None:
        """Writes the results, in one thread at a time. A thread that ends the process waits two seconds at most."""
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
            pass  # the run is over and its folder gone, or this process can't write there; the leader reports it
        finally:
            self._lock.release()

    def _step(self) -> float | None:
        number = _native.ending.wait(EVERY)
        if number:
            self._write(last=True)
            announce_end(self)
            _native.ending.follow(number)
            return None
        if time.monotonic() >= self._next:
            self._write(last=False)
            _native.ending.take(SIGTERM)  # the program may have restored the default action
        return 0.0

    def _rest(self) -> None:
        self._thread.stop()
        if self._work is not None:
            self._work.pause()
        if self.is_server and not is_spawning():
            self._write(last=False, is_all=True)  # the fork server ends after the run

    def _go_on(self) -> None:
        if self._work is not None:
            self._work.resume()
            self._thread.start(0.0)

    def _forked(self) -> None:
        """Begins from zero in a forked child: the parent's results are not the child's."""
        self._work = None
        self._lock = _thread.allocate_lock()
        self._thread.forget()
        self.leads = self.is_server = False
        if is_spawning() or not self.config:
            return  # the child becomes another program at once, or the run is over
        self.process = posix.getpid()
        self._begins = "fork"
        self.begin()

    # calls of the doors

    def variables(self) -> list[tuple[bytes, bytes]]:
        if self.process != posix.getpid() or not self.config:
            return []
        theirs: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
        for name, value in with_theirs(self._ours, theirs):
            posix.putenv(name, value)  # not into os.environ
        return self._ours

    def spawned(self, pid: int, executable: str, words: list[str]) -> None:
        # a worker that ends while its interpreter starts has not run any of the program's code
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
    """The leader of a run, which lasts from before the program's first line until after its last."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Folder.make()
        config = {**config, "interpreter": _interpreter(), "folder": self.folder.path}
        self.folder.put("config", config)
        _work(config)
        self._member = _Member(self.folder, config, leads=True)

    def at_exit(self, ends: Callable[[], object]) -> None:
        """Calls ``ends`` before the program ends by ``os._exit``, which calls no function of ``atexit``."""
        self._member.at_exit = ends

    def outcome(self) -> Outcome:
        """The results of the children after the program's end. Waits up to a second for those that still run."""
        until = time.monotonic() + PATIENCE
        while (outcome := of_folder(self.folder)).has_running and time.monotonic() < until:
            time.sleep(0.01)
        return outcome

    def is_here(self) -> bool:
        """Whether this process is the leader; a forked child isn't."""
        return self._member.leads

    def cancel(self) -> None:
        """Ends the measuring of children."""
        self._member.config = {}
        posix.unsetenv(VARIABLE.encode())
        self.folder.remove()


def lead(config: dict[str, Any]) -> Leader:
    """Begins measuring children of this process. Raises RuntimeError if they are measured already."""
    if any(member.config for member in _members):
        raise RuntimeError("children of this process are measured already")
    return Leader(config)


before_taking: list[Callable[[], object]] = []
"""Called before a member waits for SIGTERM, for which only one thread of a process can wait."""


def is_measured() -> bool:
    """Whether a member measures this process, and so waits for SIGTERM."""
    return any(member._work is not None for member in _members)


_members: list[_Member] = []
"""The member of this process, if its run is not over."""


def start(known: set[str]) -> None:
    """Begins measuring in a new interpreter, if the environment names a folder. No exception reaches the program.

    Args:
        known: the modules that were imported before this package. Modules that this package has imported since must not
            hide modules of the program with the same names.
    """
    with contextlib.suppress(
        Exception
    ):  # the parent has noted this process, so the leader sees that it doesn't measure
        _follow()
    with contextlib.suppress(Exception):
        uncover(known, [place_of_program(sys.orig_argv), *_places])


_places: list[str] = []
"""The folder of the leader's program, from which a child that ``multiprocessing`` spawns imports."""


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
    """The pids of the processes above this one, its parent first."""
    above = [posix.getppid()]
    while above[-1] > 1 and len(above) < GENERATIONS:
        above.append(parent(above[-1]))
    return ",".join(map(str, above))


def title(config: dict[str, Any]) -> str:
    """The name of the process in ``multiprocessing``, or the program's name."""
    for library in ("multiprocessing.process", "billiard.process"):
        process = getattr(sys.modules.get(library), "_current_process", None)
        name = getattr(process, "_name", None)
        if type(name) is str and name != "MainProcess":
            return name
    return str(config.get("title", ""))


def _program(words: list[str]) -> str:
    """A short command line: the program, and for Python or a shell the script, module or code that it runs.

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
