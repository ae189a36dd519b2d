"""A process that traces itself from its start, and its children after it."""

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
    """This process, as its plan has it."""

    def __init__(self, plan: Plan, value: str, names: Names) -> None:
        self.plan = plan
        self.names = names
        self.node = ""
        self._value = value
        self._is_prepared = value == PREPARED
        """Whether it only listens, and its program sees no variable of ours."""

    @property
    def folder(self) -> str | None:
        """The folder of the config file, in which files that it names are."""
        return None if self.plan.path is None else os.path.dirname(self.plan.path)

    def begin(self) -> None:
        """A listener; if it isn't only prepared a runtime component, its control if there is one; then what initiates tracing.

        Raises:
            Wrong: there can be no listener, or the options are none.
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
        """Has children begin by themselves, if the plan says so, and the log whole however this process ends by itself."""
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
        # a program that names an autostart of its own has its children begin so
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
        """The log is written."""
        listener = runtime.listening()
        if listener is not None and not listener.is_here():
            runtime.stop_listening()


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
    _begin(Process(effective(plan), value, Names(_program(base), is_child)))


def begin_prepared(settings: str, base: str) -> None:
    """A child of a prepared process listens, too. ``settings`` are its parent's, ``base`` what that one's program is called.

    Raises:
        Wrong: there can be no listener.
    """
    _begin(Process(read_plan(settings, ARGUMENT), PREPARED, Names(_program(base), is_child=True)))


def _begin(process: Process) -> None:
    global _this
    _this = process
    if not (process.names.is_child and runs("multiprocessing.forkserver")):  # which only makes the processes that are traced
        process.begin()
    process.follow()


def lead(plan: Plan, program: str) -> None:
    """Has children of this process, which listens already, listen as the plan says. A process that started by itself has its own
    plan. ``program`` is what names call it.
    """
    global _this
    listener = runtime.listening()
    if _this is None and listener is not None:
        _this = Process(plan, PREPARED, Names(program, is_child=False))
        _this.node = listener.node
        _this.follow()


def _settings(plan: Plan) -> str:
    """What a child of a prepared process is to do, as a config file says it, in one line."""
    pairs = [("allow", list(plan.allow)), ("follow", plan.follow), ("node", plan.node), ("log_dir", plan.log_dir)]
    return written_lines([pair for pair in pairs if pair[1] is not None]).strip().replace("\n", ";")
