"""A process that traces itself from its start, and its children."""

from __future__ import annotations

import os
import posix
import sys
from typing import Any

from inviso import runtime
from inviso._children._doors import is_spawning, open_doors
from inviso._children._interpreter import SITE, has_hook, runs
from inviso.runtime._initiator import Initiator
from inviso.runtime._settings import Unknown, dependency_node, merged, read

from ._announce import announce, find
from ._file import Plan, Wrong, written_lines
from ._file import read as read_plan
from ._names import Names
from ._settings import effective
from ._variables import ARGUMENT, PREPARED, STARTED, VARIABLE

__all__ = ["Process", "begin", "begin_prepared", "lead", "this"]


class Process:
    """This process and its plan."""

    def __init__(self, plan: Plan, value: str, names: Names) -> None:
        self.plan = plan
        self.names = names
        self.node = ""
        self._value = value
        self._is_prepared = value == PREPARED
        """Whether it only listens. Then its program doesn't see our variables."""

    @property
    def folder(self) -> str | None:
        """The folder of the config file, and of the files that it names."""
        return None if self.plan.path is None else os.path.dirname(self.plan.path)

    def begin(self) -> None:
        """Starts the listener. Unless it is only prepared, starts a runtime component, announces it, and runs the
        initiator.

        Raises:
            Wrong: there can be no listener, or an option is invalid.
        """
        plan = self.plan
        template = self.names.node_template(plan.node)
        try:
            listener = runtime.listen(template, log_dir=plan.log_dir or "inviso-logs", allow=plan.allow)
        except (OSError, ValueError) as error:
            raise Wrong(str(error)) from None
        self.node = listener.node
        if self._is_prepared:
            return
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
        """Makes children trace themselves, if the plan says so. Also writes the log before any end of this process's
        own.
        """
        open_doors(self)
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        if is_spawning() or not self.plan.follow:
            return
        self.names = Names(self.names.program, True)
        try:
            self.begin()
        except Wrong as why:
            print(f"inviso: autostart: {why}; process {os.getpid()} is not traced", file=sys.stderr)

    def variables(self) -> list[tuple[bytes, bytes]]:
        # a program that sets the variable itself decides for its children
        if not self.plan.follow or (VARIABLE in os.environ) == self._is_prepared:
            return []
        ours = [(VARIABLE, self._value), (STARTED, f"{self.names.program} {self._value}")]
        argument = _settings(self.plan) if self._is_prepared else os.environ.get(ARGUMENT)
        if argument is not None:
            ours.append((ARGUMENT, argument))
        found = [(name.encode(), os.fsencode(value)) for name, value in ours]
        if self._is_prepared:
            for name, value in found:
                posix.putenv(name, value)  # not into os.environ
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
        """Writes the log at the process's end."""
        listener = runtime.listening()
        if listener is not None and not listener.is_here():
            runtime.stop_listening()


def _program(base: str) -> str:
    """The name of this process's program. ``base``: the name of its parent's program, "" without such a parent."""
    is_worker = runs("multiprocessing.spawn") or runs("multiprocessing.forkserver")
    return base if base and is_worker else runtime.node_name("{program}").partition("@")[0]


_this: Process | None = None


def this() -> Process | None:
    """This process, if it has autostart."""
    return _this


def begin(plan: Plan, value: str, base: str, *, is_child: bool) -> None:
    """Begins in this process. ``base``: the program's name in its first process, "" if this is the first."""
    _begin(Process(effective(plan), value, Names(_program(base), is_child)))


def begin_prepared(settings: str, base: str) -> None:
    """Begins in a child of a prepared process, which listens, too.

    Args:
        settings: the parent's settings.
        base: the name of the parent's program.

    Raises:
        Wrong: there can be no listener.
    """
    _begin(Process(read_plan(settings, ARGUMENT), PREPARED, Names(_program(base), is_child=True)))


def _begin(process: Process) -> None:
    global _this
    _this = process
    if not (process.names.is_child and runs("multiprocessing.forkserver")):  # a fork server runs no program
        process.begin()
    process.follow()


def lead(plan: Plan, program: str) -> None:
    """Makes children of this process, which listens already, listen by the plan.

    A process with autostart keeps its own plan. ``program``: the program's name.
    """
    global _this
    listener = runtime.listening()
    if _this is None and listener is not None:
        _this = Process(plan, PREPARED, Names(program, is_child=False))
        _this.node = listener.node
        _this.follow()


def _settings(plan: Plan) -> str:
    """The settings for a child of a prepared process: the text of a config file in one line."""
    pairs = [("allow", list(plan.allow)), ("follow", plan.follow), ("node", plan.node), ("log_dir", plan.log_dir)]
    return written_lines([pair for pair in pairs if pair[1] is not None]).strip().replace("\n", ";")
