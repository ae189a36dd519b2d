"""Sessions: begin and end tracing on all nodes together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from inviso import control as functions
from inviso.control._use import using
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._base import BAD_TDG, ERROR, OK, Session
from ._generators import now
from ._history import Call, Run
from ._nodes import FAILURE, INACTIVE, TRACING
from ._running import listed
from ._saved import Saved

__all__ = ["Sessions"]


class Sessions(Saved):
    """The part of a tool that has sessions, one at a time."""

    _initial: list[tuple[str, dict[str, Any]]]
    """Trace cases that are run when a session begins, with their variables."""

    def start_session(self, more: Iterable[Any] = ()) -> Any:
        """Begins a session: clears patterns on the inactive and running nodes, initiates tracing there, begins the
        history, and runs the initial trace cases.

        Args:
            more: arguments of the tracer data generator, after the node and the time.

        Returns:
            ``("ok", (number, ("ok", [(node, result)])))`` with the results of :func:`inviso.control.init_tracing`;
            ``("error", "session_already_started")``; ``("error", "bad_tdg")`` if the generator failed for a node: then
            nothing was begun.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.start_session(), tool.start_session(), tool.stop_session()
        (('ok', (1, ('ok', []))), ('error', 'session_already_started'), ('ok', (1, ('ok', []))))
        """
        self._check("start_session")
        arguments = listed("start_session", more)
        with self._changing:
            if self._session is not None:
                return ERROR, Atom("session_already_started")
            answer = self._begin(arguments)
            if answer[0] == OK:
                for name, variables in self._initial:
                    self._awaited(self._once(name, variables), None)
            return answer

    def reinitiate_session(self, nodes: Iterable[str] | None = None) -> Any:
        """Adds nodes to the session: initiates tracing on them with the present time, and redoes the history on them.

        Args:
            nodes: by default those that are inactive, or whose initiation failed.

        Returns:
            For each node the answer of :func:`inviso.control.init_tracing`, before the history is redone; ``("error",
            "unknown_node")``, ``("error", "down")``, ``("error", "suspended")``, ``("error", "already_in_session")``,
            ``("error", "bad_tdg")``. ``("error", "no_session")`` without a session.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.reinitiate_session()
        ('error', 'no_session')
        """
        self._check("reinitiate_session")
        with self._changing:
            session = self._session
            if session is None:
                return ERROR, Atom("no_session")
            with self._lock:
                names = self._chosen("reinitiate_session", nodes, self._nodes.of(INACTIVE, FAILURE))
                answers = {name: self._refused(name) for name in names}
                wanted = [name for name in names if answers[name] is None]
                for name in wanted:
                    self._nodes[name].is_redone = True
            data = {name: self._tracerdata(name, now(), session.more) for name in wanted}
            answers |= dict(self._initiate(data))
            for name in wanted:
                if answers[name][0] == OK:
                    self._redo(name)
                else:
                    self._nodes[name].is_redone = False
            return OK, [(name, answers[name]) for name in names]

    def restore_session(self, file: Any = None, more: Iterable[Any] = ()) -> Any:
        """Begins a session, and repeats the history of an earlier one in order: calls, and trace cases that were on or
        were run once. The initial trace cases are among them.

        Args:
            file: a file of :meth:`save_history`. Default: the last session of this tool. A list is taken as ``more``.
            more: as for :meth:`start_session`.

        Returns:
            As :meth:`start_session`; ``("error", "session_active")``; ``("error", "no_history")`` if there was no
            session yet; ``("error", ("open", reason))`` or ``("error", ("bad_history", file))`` if the file can't be
            read or is not a history.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.restore_session()
        ('error', 'no_history')
        """
        self._check("restore_session")
        if isinstance(file, (list, tuple)):
            file, more = None, file
        arguments = listed("restore_session", more)
        with self._changing:
            if self._session is not None:
                return ERROR, Atom("session_active")
            entries = self._earlier(file)
            if isinstance(entries, tuple):
                return entries
            answer = self._begin(arguments)
            if answer[0] == OK:
                for entry in entries:
                    self._repeat(entry)
            return answer

    def stop_session(self) -> Any:
        """Ends the session: ends running trace cases, and stops tracing. Patterns stay. Then the logs can be fetched
        (:meth:`fetch_log`), and the session can be restored.

        Returns:
            ``("ok", (number, ("ok", [(node, ("ok", "idle"))])))``; ``("error", "no_session")``.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.stop_session()
        ('error', 'no_session')
        """
        self._check("stop_session")
        with self._changing:
            session = self._end_session()
            if session is None:
                return ERROR, Atom("no_session")
            pairs = self._control.call(self._nodes.of(TRACING), "stop_tracing")
            with self._lock:
                for name in self._nodes.of(FAILURE):
                    self._nodes[name].state = INACTIVE
            return OK, (session.number, (OK, pairs))

    def get_session_data(self) -> Any:
        """``("ok", (status, number, more))`` of the present or last session. The status is ``"tracing"`` or
        ``"not_tracing"``. ``("error", "no_session")`` if there was no session.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.get_session_data(), tool.start_session(["a"])[0], tool.get_session_data()
        (('error', 'no_session'), 'ok', ('ok', ('tracing', 1, ['a'])))
        """
        self._check("get_session_data")
        with self._lock:
            if self._last is None:
                return ERROR, Atom("no_session")
            status = Atom("not_tracing") if self._session is None else TRACING
            return OK, (status, self._last.number, list(self._last.more))

    def reset_nodes(self, nodes: Iterable[str] | None = None) -> Any:
        """Clears nodes: removes patterns, and deletes their last logs. There must be no session.

        Returns:
            For each node ``("ok", ("new", status))``, ``("error", "unknown_node")``, ``("error", "down")``; or
            ``("error", "session_active")``.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.reset_nodes()[1][0][1]
        ('error', 'down')
        """
        self._check("reset_nodes")
        with self._changing:
            if self._session is not None:
                return ERROR, Atom("session_active")
            return self._each("reset_nodes", nodes, lambda names: self._control.call(names, "clear", []))

    def flush(self, nodes: Iterable[str] | None = None) -> Any:
        """Writes the logs of tracing nodes to the disk; by default of all of them. For each node ``"ok"`` or an error;
        ``("error", "no_session")`` without a session.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.flush()
        ('error', 'no_session')
        """
        self._check("flush")
        if self._session is None:
            return ERROR, Atom("no_session")
        chosen = self._nodes.of(TRACING) if nodes is None else nodes
        return self._each("flush", chosen, lambda names: self._control.call(names, "flush"))

    def fetch_log(self, folder: str | os.PathLike[str], prefix: str = "") -> Any:
        """Copies the logs of all connected nodes, as :func:`inviso.control.fetch_log`. Call it after
        :meth:`stop_session`.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.fetch_log(".")
        ('ok', [])
        """
        self._check("fetch_log")
        with using(self._control):
            return functions.fetch_log(os.fspath(folder), prefix)

    def _begin(self, more: list[Any]) -> Any:
        moment = now()
        with self._lock:
            names = [name for name in self._nodes.of(INACTIVE, FAILURE) if self._nodes[name].is_running]
        data = {name: self._tracerdata(name, moment, more) for name in names}
        if None in data.values():
            return BAD_TDG
        self._control.call(names, "ctp_all")
        with self._lock:
            self._numbers += 1
            session = self._session = Session(self._numbers, more, moment)
            self._last = session
        return OK, (session.number, (OK, self._initiate(data)))

    def _refused(self, name: str) -> Any:
        """The reason why a node can't be added to the session; None if it can."""
        absent = self._absent(name)
        if absent is not None:
            return absent
        node = self._nodes[name]
        if node.state == TRACING or node.is_redone:
            return ERROR, Atom("already_in_session")
        return None if node.is_running else (ERROR, Atom("suspended"))

    def _repeat(self, entry: Call | Run) -> None:
        """Repeats an entry of an earlier session, and waits for its end."""
        try:
            if isinstance(entry, Call):
                answer = self.inviso(entry.command, entry.arguments)
                what = entry.command
            else:
                what = entry.name
                if entry.is_once:
                    job = self._once(what, entry.variables)
                else:
                    job = self._activate(what, entry.id, entry.variables)
                answer = self._awaited(job, None)
        except BadArg as wrong:
            return self._add_problem(f"it can't be done again: {wrong}")
        if isinstance(answer, tuple) and answer[:1] == (ERROR,):
            self._add_problem(f"{what} can't be done again: {shown(answer[1])}")

    def _end_session(self) -> Session | None:
        """Ends the session and its jobs. Returns it, or None."""
        with self._lock:
            session, self._session = self._session, None
            if session is None:
                return None
            jobs = list(session.jobs)
            for name in list(self._redoing):
                self._leave_redoing(name)
            for name, node in self._nodes.items():
                node.is_redone = False
                self._agenda.take(("reactivate", name))
        self._end_jobs(jobs)
        return session
