"""A process that traces itself from its start, and its children after it."""

from __future__ import annotations

import atexit
import os
import posix
import sys
from typing import Any

from inviso import process, runtime
from inviso._children._doors import is_between, open_doors
from inviso._children._interpreter import SITE, has_hook, runs
from inviso._system import allocate_lock
from inviso.runtime._initiator import Initiator
from inviso.runtime._settings import Unknown, dependency_node, merged, read

from ._announce import announce, find
from ._ending import Guard
from ._file import Plan, Wrong
from ._names import Names
from ._settings import effective
from ._start import ARGUMENT, STARTED, VARIABLE

__all__ = ["Process", "begin", "this"]

PATIENCE = 5.0
"""Seconds that the end of the process waits for the log, if another thread writes it already."""


class Process:
    """This process, as its plan has it."""

    def __init__(self, plan: Plan, value: str, base: str, *, is_child: bool) -> None:
        self.plan = plan
        self.names = Names(_program(base), is_child)
        self.node = ""
        self._value = value
        self._guard = Guard(self.exits)
        self._ending = allocate_lock()

    @property
    def folder(self) -> str | None:
        """The folder of the config file, in which files that it names are."""
        return None if self.plan.path is None else os.path.dirname(self.plan.path)

    def begin(self) -> None:
        """A listener, a runtime component, its control if there is one; then what initiates tracing.

        Raises:
            Wrong: there can be no listener, or the options are none.
        """
        plan = self.plan
        template = self.names.node_template(plan.node)
        try:
            listener = runtime.listen(template, log_dir=plan.log_dir or "inviso-logs", allow=plan.allow)
        except (OSError, ValueError) as error:
            raise Wrong(str(error)) from None
        if self.node and process.node() == self.node:  # forked: pids are of this process from here on
            process.set_node(listener.node)
        self.node = listener.node
        os.environ[STARTED] = f"{self.names.program} {self._value}"
        try:
            settings = merged(read(plan.options))
        except Unknown as wrong:
            runtime.stop_listening()
            raise Wrong(f"there is no option {wrong.option!r:.80}") from None
        host = listener.host
        listener.run(lambda: host.start(plan.tag, plan.options))
        control = dependency_node(settings)
        found = None if control is None else find(control, self.node)
        if found is not None:
            data = announce(found, self.node, plan.tag)
            listener.run(lambda: listener.join(found.socket, found.pid, found.about, found.frames, data))
        else:
            listener.run(host.alone)
        if plan.mfa is not None and host.component is not None:
            self._initiate(host, plan)

    def _initiate(self, host: Any, plan: Plan) -> None:
        assert plan.mfa is not None
        module, function, arguments = plan.mfa
        module = "inviso.autostart" if module == "inviso_autostart_server" else module

        def work() -> None:
            getattr(__import__(module, fromlist=[function]), function)(*arguments)

        host.initiator = initiator = Initiator(work)
        initiator.start()
        initiator.done.wait(plan.wait)

    # children

    def follow(self) -> None:
        """Has children begin by themselves, if the plan says so, and the log whole however this process ends by itself."""
        open_doors(self)
        atexit.register(self.exits)  # before the listener's own end, so that a signal waits for it
        self._guard_log()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        if is_between() or not self.plan.follow:
            return
        self.names = Names(self.names.program, True)
        self._ending = allocate_lock()
        try:
            self.begin()
        except Wrong as why:
            print(f"inviso: autostart: {why}; process {os.getpid()} is not traced", file=sys.stderr)
        self._guard_log()

    def _guard_log(self) -> None:
        if runtime.listening() is not None:
            self._guard.start()

    def variables(self) -> list[tuple[bytes, bytes]]:
        if not self.plan.follow or VARIABLE not in os.environ:
            return []
        ours = [(VARIABLE, self._value), (STARTED, f"{self.names.program} {self._value}")]
        if ARGUMENT in os.environ:
            ours.append((ARGUMENT, os.environ[ARGUMENT]))
        found = [(name.encode(), os.fsencode(value)) for name, value in ours]
        if not has_hook():
            found.append((b"PYTHONPATH", os.fsencode(SITE)))
            theirs = os.environ.get("PYTHONPATH")
            posix.putenv(b"PYTHONPATH", os.fsencode(f"{SITE}:{theirs}" if theirs else SITE))  # not into os.environ
        return found

    def spawned(self, pid: int, executable: str, words: list[str]) -> None:
        pass

    def replaced(self, executable: str, words: list[str]) -> None:
        if runtime.listening() is not None:
            runtime.flush()

    def stayed(self) -> None:
        pass

    def calls_shell(self, command: str) -> None:
        pass

    def waited_for_shell(self) -> None:
        pass

    def exits(self) -> None:
        """The log is written; who comes second, of the program and a signal, waits for the first."""
        listener = runtime.listening()
        if listener is not None and listener.is_here():
            return
        if self._ending.acquire(timeout=PATIENCE):
            try:
                runtime.stop_listening()
            finally:
                self._ending.release()


def _program(base: str) -> str:
    """What this process's program is called; ``base`` is what its parent's is, if that was started by itself."""
    is_worker = runs("multiprocessing.spawn") or runs("multiprocessing.forkserver")
    return base if base and is_worker else runtime.node_name("{program}").partition("@")[0]


_this: Process | None = None


def this() -> Process | None:
    """This process, if it started by itself."""
    return _this


def begin(plan: Plan, value: str, base: str, *, is_child: bool) -> None:
    """Begins in this process; ``base`` is what the program is called in its first process, "" if this is the first."""
    global _this
    _this = Process(effective(plan), value, base, is_child=is_child)
    if not (is_child and runs("multiprocessing.forkserver")):  # which only makes the processes that are traced
        _this.begin()
    _this.follow()
