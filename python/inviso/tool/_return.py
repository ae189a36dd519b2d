"""Reactions of a tool to nodes that are added, suspended, reactivated, gone and back, by request or by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from inviso import control as functions
from inviso.control import _arguments as given
from inviso.control._use import using
from inviso.errors import BadArg, shown
from inviso.runtime._settings import Settings
from inviso.terms import Atom

from ._base import BAD_TDG, ERROR, OK, Base, Session
from ._generators import DateTime, now
from ._history import Call, Off, Run
from ._jobs import Job
from ._nodes import DOWN, FAILURE, TRACING, Backoff, Node

__all__ = ["Returning"]

TAG = Atom("inviso_tool")


class Returning(Base):
    """The part of a tool that handles nodes which come and go."""

    def _settings(self, name: str) -> Settings | tuple[Atom, Any]:
        """The options of a node's runtime component, or the error."""
        found: Any = {}
        if self._optg is not None:
            try:
                found = self._optg(name)
            except Exception as error:
                return ERROR, (Atom("bad_optg"), f"{type(error).__name__}: {error}")
            if isinstance(found, tuple) and len(found) == 2 and found[0] == OK:
                found = found[1]
        read = given.settings("Tool", found)
        return (ERROR, (Atom("bad_optg"), read[1])) if isinstance(read, tuple) else {**read, "dependency": 0}

    def _connect(self, names: list[str]) -> dict[str, Any]:
        """Adds nodes. Returns the answer of each."""
        wanted = {name: self._settings(name) for name in names}
        answers: dict[str, Any] = {name: each for name, each in wanted.items() if isinstance(each, tuple)}
        if self._optg is None:
            pairs = self._control.add(names, TAG, {"dependency": 0})
        else:
            settings = {name: each for name, each in wanted.items() if isinstance(each, dict)}
            pairs = [pair for name, each in settings.items() for pair in self._control.add([name], TAG, each)]
        with self._lock:
            for name, answer in pairs:
                if isinstance(answer[1], tuple) and answer[0] == OK and self._nodes[name].state != DOWN:
                    self._nodes[name].is_adopted = True
        answers |= dict(pairs)
        for name, answer in answers.items():
            if answer[0] == ERROR and not _is_away(answer[1]):
                self._add_problem(f"{name} can't be added: {shown(answer[1])}")
        return answers

    def _on_event(self, message: Any) -> None:
        """Handles an event of the control. Runs in the control's thread, so it never waits."""
        match message[3]:
            case ("connected", str(name), (_, (state, status))):
                with self._lock:
                    self._nodes.connected(name, state, status)
            case ("disconnected", str(name), reason):
                with self._lock:
                    is_ours = self._nodes.disconnected(name)
                    self._leave_redoing(name)
                self._agenda.take(("reactivate", name))
                if is_ours:
                    self._add_problem(f"{name} is down: {shown(reason)}")
                    self._connecting = None
                    self._look_for_nodes()
            case ("state_change", str(name), (state, status)):
                self._changed(name, state, status)
            case ("port_down", str(name), reason):
                self._add_problem(f"{name} traces no longer: {shown(reason)}")

    def _changed(self, name: str, state: Any, status: Any) -> None:
        with self._lock:
            what = self._nodes.changed(name, state, status)
            if what == "suspended":
                self._leave_redoing(name)
            node = self._nodes[name] if name in self._nodes else Node()
            is_in_session = self._session is not None and node.state == TRACING
            is_held = node.is_held
        if what == "suspended":
            self._add_problem(f"{name} is suspended: {shown(node.reason)}")
            if self._reactivation is not None and is_in_session and not is_held:
                backoff = self._backoffs.setdefault(name, Backoff(*self._reactivation))
                wait = backoff.wait(time.monotonic())
                self._agenda.put(("reactivate", name), wait, lambda: self._reactivate_again(name))
        elif what == "resumed":
            self._agenda.take(("reactivate", name))
            if is_in_session:
                self._redo(name)

    def _look_for_nodes(self) -> None:
        """Schedules the next search for nodes that are down."""
        if self._reconnection is None or not self._nodes.of(DOWN):
            return
        if self._connecting is None:
            self._connecting = Backoff(*self._reconnection)
        self._agenda.put("connect", self._connecting.wait(time.monotonic()), self._bring_back)

    def _bring_back(self) -> None:
        """Adds nodes that were down and are back, also to the session."""
        for name, answer in self._connect(self._nodes.of(DOWN)).items():
            if answer[0] == OK and self._session is not None:
                self._redo(name, initiates=True)
        self._look_for_nodes()

    def reconnect_nodes(self, nodes: Iterable[str] | None = None) -> Any:
        """Adds nodes that are down; by default all of them. :meth:`reinitiate_session` then adds them to the session.

        Returns:
            For each node ``("ok", (state, status))``, ``("error", "unknown_node")``, ``("error",
            "already_connected")``, or an error of :func:`inviso.control.add_nodes`.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.reconnect_nodes()[1][0][1]
        ('error', 'nodedown')
        """
        self._check("reconnect_nodes")
        names = self._chosen("reconnect_nodes", nodes, self._nodes.of(DOWN))
        answers: dict[str, Any] = {}
        for name in names:
            if name not in self._nodes:
                answers[name] = ERROR, Atom("unknown_node")
            elif self._nodes[name].state != DOWN:
                answers[name] = ERROR, Atom("already_connected")
        for name, answer in self._connect([name for name in names if name not in answers]).items():
            answers[name] = (OK, self._nodes[name].shape()) if answer[0] == OK else answer
        return OK, [(name, answers[name]) for name in names]

    def _tracerdata(self, name: str, moment: DateTime, more: list[Any]) -> Any:
        """The tracer data of a node; None if the generator failed."""
        try:
            found = self._tdg(name, moment, *more)
        except Exception as error:
            self._add_problem(f"the tracer data generator failed for {name}: {type(error).__name__}: {error}")
            return None
        if found is None:
            self._add_problem(f"the tracer data generator returned None for {name}")
        return found

    def _initiate(self, data: dict[str, Any]) -> list[Any]:
        """Initiates tracing with the tracer data of nodes, which may be None. Returns a pair for each node."""
        pairs: list[Any] = [(name, BAD_TDG) for name, each in data.items() if each is None]
        asked = {name: each for name, each in data.items() if each is not None}
        if asked:
            with using(self._control):
                try:
                    pairs += functions.init_tracing(list(asked.items()))[1]
                except BadArg as wrong:
                    self._add_problem(f"the tracer data of {', '.join(asked)} is wrong: {wrong}")
                    pairs += [(name, BAD_TDG) for name in asked]
        with self._lock:
            for name, answer in pairs:
                if answer[0] == ERROR and self._nodes[name].state not in (DOWN, TRACING):
                    self._nodes[name].state = FAILURE
        return pairs

    def reactivate(self, node: str) -> Any:
        """Ends a node's suspension, and redoes the history on it.

        Patterns are cleared. Then calls and trace cases are carried out for this node alone, in order, with those that
        are added meanwhile. Until the end the node is ``"reactivating"``.

        Returns:
            None, before the history is redone; ``("error", "unknown_node")``, ``("error", "down")``, ``("error",
            "reactivating")``, ``("error", "not_suspended")``, or the error of the node.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.reactivate("no-such-node"), tool.reactivate("another")
        (('error', 'down'), ('error', 'unknown_node'))
        """
        self._check("reactivate")
        (name,) = self._chosen("reactivate", [node], [])
        with self._lock:
            absent = self._absent(name)
            if absent is not None:
                return absent
            if self._nodes[name].is_redone:
                return ERROR, Atom("reactivating")
            if self._nodes[name].is_running:
                return ERROR, Atom("not_suspended")
            self._nodes[name].is_redone = True
        self._agenda.take(("reactivate", name))
        ((_, answer),) = self._control.call([name], "cancel_suspension")
        with self._lock:
            is_traced = self._session is not None and self._nodes[name].state == TRACING
            if answer != OK or not is_traced:
                self._nodes[name].is_redone = False
        if answer != OK:
            return answer
        if is_traced:
            self._redo(name)
        return None

    def _reactivate_again(self, name: str) -> None:
        answer = self.reactivate(name) if self._control.is_open and self._session is not None else None
        if answer is not None and answer[1] not in (DOWN, "reactivating", "not_suspended"):
            self._add_problem(f"{name} can't be reactivated: {shown(answer[1])}")
            wait = self._backoffs[name].wait(time.monotonic())
            self._agenda.put(("reactivate", name), wait, lambda: self._reactivate_again(name))

    def _leave_redoing(self, name: str) -> None:
        job = self._redoing.pop(name, None)
        if job is not None:
            job.stop()

    def _redo(self, name: str, *, initiates: bool = False) -> None:
        """Redoes the history on a node, in a job."""
        with self._lock:
            session = self._session
            if session is None:
                self._nodes[name].is_redone = False
                return
            self._nodes[name].is_redone = True
            before = self._redoing.get(name)
            self._leave_redoing(name)

            def work() -> None:
                with self._lock:  # waits until `job` is assigned below
                    this = job
                if before is not None:
                    before.wait(self._control.timeout)
                try:
                    if not initiates or self._is_initiated(session, name):
                        self._redone(session, name, this)
                finally:
                    self._end_redoing(name, this)

            job = self._redoing[name] = self._job(session, work)

    def _redone(self, session: Session, name: str, job: Job) -> None:
        with using(self._control):
            functions.ctp_all(nodes=[name])
            functions.ctf_all(nodes=[name])
            done: set[int] = set()
            number = 0
            while entries := self._left_to_redo(session, name, job, number, done):
                for entry in entries:
                    self._redo_entry(name, entry, done)
                    number = entry.number

    def _is_initiated(self, session: Session, name: str) -> bool:
        """Initiates tracing on a returned node, unless it traces already. Returns whether it traces."""
        if self._nodes[name].state == TRACING:
            return True
        ((_, answer),) = self._initiate({name: self._tracerdata(name, now(), session.more)})
        if answer[0] == ERROR:
            self._add_problem(f"{name} is back, and can't be initiated: {shown(answer[1])}")
        return bool(answer[0] == OK)

    def _left_to_redo(
        self, session: Session, name: str, job: Job, number: int, done: set[int]
    ) -> list[Call | Run | Off]:
        """The next entries for a node. With none left, its reactivation ends."""
        with self._lock:
            entries = session.history.after(number, done)
            if not entries:
                self._end_redoing(name, job)
                if name in self._backoffs:
                    self._backoffs[name].good(time.monotonic())
            return entries

    def _end_redoing(self, name: str, job: Job) -> None:
        """Ends the reactivation of a node, unless a new job has replaced this one."""
        with self._lock:
            if self._redoing.get(name) is job:
                del self._redoing[name]
                self._nodes[name].is_redone = False

    def _redo_entry(self, name: str, entry: Call | Run | Off, done: set[int]) -> None:
        """Redoes an entry of the history for one node."""
        if isinstance(entry, Call):
            with suppress(BadArg):  # the first caller got it
                getattr(functions, entry.command)(*entry.arguments, nodes=[name])
            return
        run = entry.run if isinstance(entry, Off) else entry
        definition = self.cases.get(run.name)
        path = definition and (definition.off if isinstance(entry, Off) else definition.on)
        if path:
            done.add(run.number)
            self._carry_out(path, run, [name])


def _is_away(reason: Any) -> bool:
    """Whether a node could not be added because it can't be reached."""
    return reason in ("nodedown", "timeout") or (isinstance(reason, tuple) and bool(reason[0] == "noconnection"))
