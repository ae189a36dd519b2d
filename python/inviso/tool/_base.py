"""The base class of a tool: its control component, its nodes, the session, and its running jobs."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from inviso._link._names import full
from inviso._system import RLock
from inviso.cluster import Answers
from inviso.control import _arguments as given
from inviso.control._control import Control, own_name
from inviso.control._use import using
from inviso.errors import BadArg
from inviso.runtime._component import words
from inviso.terms import Atom

from ._cases import Definition, Faulty, carry_out
from ._generators import DateTime, Generator
from ._history import History, Run
from ._jobs import Agenda, Job
from ._nodes import DOWN, Backoff, Nodes

__all__ = ["BAD_TDG", "ERROR", "OK", "Base", "Failed", "Session"]

OK, ERROR = Atom("ok"), Atom("error")
BAD_TDG = ERROR, Atom("bad_tdg")
MOST = 200
"""The number of latest problems that are kept."""

_log = logging.getLogger("inviso.tool")


class Session:
    """One session: the arguments of its tracer data, and its history."""

    def __init__(self, number: int, more: list[Any], moment: DateTime) -> None:
        self.number = number
        self.more = more
        self.moment = moment
        self.history = History()
        self.jobs: set[Job] = set()


class Failed:
    """The result of a case with a failed statement."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class Base:
    """Settings and state. ``_lock`` guards the state; it is never held during a request to a node."""

    def __init__(self, settings: dict[str, Any], cases: dict[str, Definition]) -> None:
        self.cases = cases
        """The trace cases, by their names."""
        self._tdg = Generator(settings["tdg"])
        self._optg = None if settings["optg"] is None else Generator(settings["optg"])
        self._history_dir = os.path.abspath(settings["history_dir"])
        self._keep = [full(name) for name in settings["keep_nodes"]]
        self._debug = settings["debug"]
        self._reactivation: tuple[float, float, float] | None = settings["reactivate"]
        self._reconnection: tuple[float, float, float] | None = settings["reconnect"]
        self.problems: deque[str] = deque(maxlen=MOST)
        """The latest errors that no caller waited for."""
        self._lock = RLock()
        """Held while nodes, session and history change; never during a request to a node."""
        self._changing = RLock()
        """Held while a session begins or ends."""
        self._session: Session | None = None
        self._last: Session | None = None
        self._numbers = 0
        self._backoffs: dict[str, Backoff] = {}
        self._connecting: Backoff | None = None
        self._redoing: dict[str, Job] = {}
        self._jobs: set[Job] = set()
        self._control = Control(name=own_name(), timeout=float(settings["timeout"]))
        self._agenda = Agenda(self._start_due)
        self._nodes = Nodes()

    def get_node_status(self, nodes: Iterable[str] | None = None) -> Any:
        """The state of each node.

        Returns:
            For each ``("ok", "down")``, ``("ok", "reactivating")``, or ``("ok", (state, status))``. A state is
            ``"inactive"``, ``"tracing"`` or ``"trace_failure"``; a status ``"running"`` or ``"suspended"``.
            ``("error", "unknown_node")`` for a node that is not on the list.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.get_node_status(["another"])[1][0][1]
        ('error', 'unknown_node')
        """
        self._check("get_node_status")
        with self._lock:
            names = self._chosen("get_node_status", nodes, list(self._nodes))
            known = {name: (OK, self._nodes[name].shape()) for name in names if name in self._nodes}
        return OK, [(name, known.get(name, (ERROR, Atom("unknown_node")))) for name in names]

    def status(self) -> Answers:
        """The nodes as a table, for people: state, status with its reason, and time until a reactivation.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     [row["state"] for row in tool.status().values()]
        ['down']
        """
        self._check("status")
        rows = {}
        with self._lock:
            for name, node in self._nodes.items():
                left = self._agenda.left(("reactivate", name))
                status = "" if node.state == DOWN else "running"
                if node.reason is not None:
                    status = f"suspended: {words(node.reason[1])}"
                plan = "" if left is None else f"reactivated in {left:.0f} s"
                if node.is_redone:
                    plan = "the history is being redone"
                rows[name] = {"state": str(node.state), "status": status, "next": plan}
        return Answers(rows)

    def _each(self, where: str, nodes: Iterable[str] | None, work: Callable[[list[str]], list[Any]]) -> Any:
        """The answers of nodes. Unknown nodes, and nodes that are down, get no request."""
        names = self._chosen(where, nodes, list(self._nodes))
        answers = {name: self._absent(name) for name in names}
        answers |= dict(work([name for name in names if answers[name] is None]))
        return OK, [(name, answers[name]) for name in names]

    def _absent(self, name: str) -> Any:
        if name not in self._nodes:
            return ERROR, Atom("unknown_node")
        return (ERROR, DOWN) if self._nodes[name].state == DOWN else None

    def _chosen(self, where: str, nodes: Iterable[str] | None, default: list[str]) -> list[str]:
        try:
            found = given.nodes(where, nodes)
        except BadArg as wrong:
            raise BadArg(f"Tool.{where}", wrong.argument, wrong.why) from None
        return default if found is None else list(dict.fromkeys(found))

    def events(self, function: Callable[[Any], object]) -> None:
        """Calls a function with each event, in a thread of the control; see :func:`inviso.control.subscribe`.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.events(print)
        """
        self._check("events")
        self._control.subscribe(function)

    def __repr__(self) -> str:
        what = "without a session" if self._session is None else f"session {self._session.number}"
        return f"<tool of {len(self._nodes)} nodes, {what}>"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _carry_out(self, path: str, run: Run, nodes: list[str]) -> Any:
        """Carries out a case's file. Returns its last value, or Failed with the reason."""
        try:
            with using(self._control):
                done = carry_out(path, run.variables, nodes, trace=_log.info if self._debug else None)
        except Faulty as why:
            self._add_problem(str(why))
            return Failed(str(why))
        for each in done.refused:
            self._add_problem(f"{path}, line {each.line}: {each.why}")
        return done.value

    def _job(self, session: Session | None, work: Callable[[], Any]) -> Job:
        """Starts a job in a thread. It ends with its session, if it has one."""
        jobs = self._jobs if session is None else session.jobs

        def done() -> Any:
            try:
                return work()
            finally:
                with self._lock:
                    jobs.discard(job)

        job = Job(done, self._add_problem)
        with self._lock:
            jobs.add(job)
        job.start()
        return job

    def _start_due(self, key: Hashable, work: Callable[[], object]) -> None:
        self._job(None, work)

    def _end_jobs(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.stop()
        until = time.monotonic() + self._control.timeout + 1
        for job in jobs:
            if not job.wait(max(0.0, until - time.monotonic())):
                self._add_problem("a job of the tool does not end; it is ended at its next call of a control component")

    def _check(self, where: str) -> None:
        if not self._control.is_open:
            raise RuntimeError(f"Tool.{where}: the tool has ended, or belongs to another process; make a new one")

    def _add_problem(self, text: str) -> None:
        self.problems.append(text)
        _log.warning("%s", text)
