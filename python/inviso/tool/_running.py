"""Switches trace cases on and off, and makes calls for all nodes; a session's history has both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from inviso import control as functions
from inviso.control import _arguments as given
from inviso.control._use import using
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._base import ERROR, OK, Failed, Session
from ._cases import Definition, Faulty, bindings, check
from ._history import Run
from ._jobs import Job
from ._return import Returning

__all__ = ["COMMANDS", "Running", "Variables", "listed"]

MS = 10_000
"""Milliseconds that a synchronous call waits for a trace case."""

NOT_REDONE = frozenset({"suspend", "cancel_suspension"})
COMMANDS = NOT_REDONE | {
    *("tp", "tpl", "ctp", "ctpl", "ctp_all", "tf", "ctf", "ctf_all"),
    *("init_tpm", "tpm", "tpm_tracer", "tpm_ms", "tpm_ms_tracer", "ctpm_ms", "ctpm"),
    *("tpm_localnames", "ctpm_localnames", "tpm_globalnames", "ctpm_globalnames"),
}
"""Functions of the control that :meth:`Running.inviso` can call."""

Variables = Mapping[str, Any] | Iterable[tuple[str, Any]]


class Running(Returning):
    """The part of a tool that runs trace cases and calls."""

    def atc(self, name: str, id: Any, variables: Variables = ()) -> Any:
        """Begins to switch a trace case on, without waiting.

        Args:
            name: one of :attr:`cases`.
            id: the id for :meth:`dtc`. A case can be on several times, with different ids.
            variables: a dict, or pairs: a value for each variable of the case. ``Nodes`` is bound to the nodes that
                trace and run.

        Returns:
            None; ``("error", why)``: ``"no_session"``, ``"unknown_tracecase"``, ``("missing_variable", name)``,
            ``"already_started"``, ``"activating"``, ``"deactivating"``, ``("faulty_tracecase", text)`` if its file
            can't be read or is malformed.

        If a statement fails the case is not on, and :attr:`problems` has the reason. Effects of its other statements
        stay.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.atc("calls", 1), tool.start_session()[0], tool.atc("calls", 1)
        (('error', 'no_session'), 'ok', ('error', 'unknown_tracecase'))
        """
        self._check("atc")
        begun = self._activate(name, id, variables)
        return None if isinstance(begun, Job) else begun

    def sync_atc(self, name: str, id: Any, variables: Variables = (), ms: float | None = MS) -> Any:
        """Switches a trace case on, and returns the value of its last statement.

        Args:
            name, id, variables: as for :meth:`atc`.
            ms: milliseconds to wait; None without a limit. After that the answer is ``("error", "timeout")``, and the
                case continues.

        Returns:
            The value, or an error of :meth:`atc`; ``("error", ("faulty_tracecase", text))`` also if a statement failed.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.sync_atc("calls", 1)
        ('error', 'no_session')
        """
        self._check("sync_atc")
        limit = _ms("sync_atc", ms)
        return self._awaited(self._activate(name, id, variables), limit)

    def dtc(self, name: str, id: Any) -> Any:
        """Begins to switch a trace case off: runs its off file with the same variables as its on file.

        Returns:
            None; ``("error", why)``: ``"no_session"``, ``"unknown_tracecase"``, ``"unknown_id"``,
            ``"no_deactivation"``, ``"activating"``, ``"deactivating"``, ``("faulty_tracecase", text)`` if its file
            can't be read or is malformed; then it is still on. If a statement fails the case is off nevertheless.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.dtc("calls", 1)
        ('error', 'no_session')
        """
        self._check("dtc")
        begun = self._deactivate(name, id)
        return None if isinstance(begun, Job) else begun

    def sync_dtc(self, name: str, id: Any, ms: float | None = MS) -> Any:
        """Switches a trace case off, and returns the value of the last statement of its off file; otherwise as
        :meth:`dtc`.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.sync_dtc("calls", 1)
        ('error', 'no_session')
        """
        self._check("sync_dtc")
        limit = _ms("sync_dtc", ms)
        return self._awaited(self._deactivate(name, id), limit)

    def sync_rtc(self, name: str, variables: Variables = (), ms: float | None = MS) -> Any:
        """Runs a trace case once. It is not on afterwards, and can be run again. Answers as :meth:`sync_atc`.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.sync_rtc("calls")
        ('error', 'no_session')
        """
        self._check("sync_rtc")
        limit = _ms("sync_rtc", ms)
        return self._awaited(self._once(name, variables), limit)

    rtc = sync_rtc

    def inviso(self, command: str, arguments: Iterable[Any] = ()) -> Any:
        """Calls a function of the control for all nodes that trace and run. A call that succeeds goes into the history.

        Args:
            command: one of ``tp``, ``tpl``, ``ctp``, ``ctpl``, ``ctp_all``, ``tf``, ``ctf``, ``ctf_all``, those of meta
                tracing, ``suspend``, and ``cancel_suspension``, which goes to the suspended nodes. The last two don't
                go into the history.
            arguments: as for :mod:`inviso.control`, without nodes.

        Returns:
            ``("ok", [(node, result)])``; ``("error", "no_session")``, ``("error", "invalid_function_name")``.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     _ = tool.start_session()
        ...     tool.inviso("tpl", ["json", "loads", "_", True]), tool.inviso("stop", [])
        (('ok', []), ('error', 'invalid_function_name'))
        """
        self._check("inviso")
        words = tuple(_expressions(one) for one in listed("inviso", arguments))
        if command not in COMMANDS:
            return ERROR, Atom("invalid_function_name")
        if command in ("tf", "ctf"):
            _without_nodes(command, words)
        with self._lock:
            session = self._session
            if session is None:
                return ERROR, Atom("no_session")
            if command == "cancel_suspension":
                names = [name for name, node in self._nodes.items() if node.reason is not None]
            else:
                names = self._nodes.active()
            if command == "suspend":
                for name in names:
                    self._nodes[name].is_held = True
            entry = None if command in NOT_REDONE else session.history.call(command, words)
        try:
            with using(self._control):
                answer = getattr(functions, command)(*words, nodes=names)
        except BaseException:
            if entry is not None:
                session.history.forget(entry)
            raise
        if entry is not None and answer[0] == ERROR:
            session.history.forget(entry)
        if command == "suspend":
            self._release(names)
        return answer

    def _release(self, names: list[str]) -> None:
        """Clears ``is_held`` of nodes that could not be suspended."""
        with self._lock:
            for name in names:
                self._nodes[name].is_held &= self._nodes[name].reason is not None

    def get_activities(self) -> Any:
        """``("ok", [("tracecases", [((name, id), phase)]), ("reactivating_nodes", [node])])``: cases that are on
        (``"running"``) or being switched on or off (``"activating"``, ``"stopping"``), and nodes on which the history
        is redone. ``("error", "no_session")`` without a session.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     _ = tool.start_session()
        ...     tool.get_activities()
        ('ok', [('tracecases', []), ('reactivating_nodes', [])])
        """
        self._check("get_activities")
        with self._lock:
            if self._session is None:
                return ERROR, Atom("no_session")
            nodes = [name for name, node in self._nodes.items() if node.is_redone]
            return OK, [(Atom("tracecases"), self._session.history.phases()), (Atom("reactivating_nodes"), nodes)]

    def _activate(self, name: str, id: Any, variables: Variables) -> Job | tuple[Atom, Any]:
        found = self._case("atc", name, variables)
        if not isinstance(found, _Ready):
            return found
        _hashable("atc", id)
        with self._lock:
            session = self._session
            if session is None:
                return ERROR, Atom("no_session")
            refused = session.history.refusal(name, id)
            if refused is not None:
                return ERROR, refused
            run = session.history.begin(name, id, found.variables)
            nodes = self._nodes.active()
            return self._job(session, lambda: self._activated(session, run, found.definition, nodes))

    def _activated(self, session: Session, run: Run, definition: Definition, nodes: list[str]) -> Any:
        answer = self._carry_out(definition.on, run, nodes)
        with self._lock:
            if isinstance(answer, Failed):
                session.history.forget(run)
            else:
                session.history.activated(run)
        return answer

    def _deactivate(self, name: str, id: Any) -> Job | tuple[Atom, Any]:
        if self._session is None:
            return ERROR, Atom("no_session")
        definition = self.cases.get(name)
        if definition is None:
            return ERROR, Atom("unknown_tracecase")
        _hashable("dtc", id)
        off = definition.off
        why = None if off is None else _faulty(off)
        with self._lock:
            session = self._session
            if session is None:
                return ERROR, Atom("no_session")
            refused = session.history.refusal_of_stop(name, id)
            if refused is not None:
                return ERROR, refused
            if off is None:
                return ERROR, Atom("no_deactivation")
            if why is not None:
                return why
            run = session.history.find(name, id)
            assert run is not None
            session.history.stopping(run)
            nodes = self._nodes.active()
            return self._job(session, lambda: self._deactivated(session, run, off, nodes))

    def _deactivated(self, session: Session, run: Run, off: str, nodes: list[str]) -> Any:
        try:
            return self._carry_out(off, run, nodes)
        finally:
            with self._lock:
                session.history.forget(run)

    def _once(self, name: str, variables: Variables) -> Job | tuple[Atom, Any]:
        found = self._case("sync_rtc", name, variables)
        if not isinstance(found, _Ready):
            return found
        with self._lock:
            session = self._session
            if session is None:
                return ERROR, Atom("no_session")
            run = session.history.once(name, found.variables)
            nodes = self._nodes.active()

            def work() -> Any:
                answer = self._carry_out(found.definition.on, run, nodes)
                if isinstance(answer, Failed):
                    with self._lock:
                        session.history.forget(run)
                return answer

            return self._job(session, work)

    def _case(self, where: str, name: str, variables: Variables) -> _Ready | tuple[Atom, Any]:
        """A case that is ready to be carried out, or the error."""
        if self._session is None:
            return ERROR, Atom("no_session")
        definition = self.cases.get(name)
        if definition is None:
            return ERROR, Atom("unknown_tracecase")
        found = bindings(f"Tool.{where}", definition, variables)
        if isinstance(found, str):
            return ERROR, (Atom("missing_variable"), found)
        return _faulty(definition.on) or _Ready(definition, found)

    def _awaited(self, begun: Job | tuple[Atom, Any], ms: float | None) -> Any:
        if not isinstance(begun, Job):
            return begun
        if not begun.wait(1e9 if ms is None else ms / 1000):
            return ERROR, Atom("timeout")
        if isinstance(begun.value, Failed):
            return ERROR, (Atom("faulty_tracecase"), begun.value.why)
        return (ERROR, Atom("no_session")) if begun.is_stopped else begun.value


class _Ready:
    """A case with a valid on file, and values for its variables."""

    __slots__ = ("definition", "variables")

    def __init__(self, definition: Definition, variables: dict[str, Any]) -> None:
        self.definition = definition
        self.variables = variables


def listed(where: str, value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise BadArg(f"Tool.{where}", "arguments", f"{shown(value)} is not a list; pass one")
    return list(value)


def _ms(where: str, value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
        raise BadArg(f"Tool.{where}", "ms", f"{shown(value)} is not a time; pass milliseconds, or None")
    return None if value is None else float(value)


def _faulty(path: str) -> tuple[Atom, Any] | None:
    """The error of a case's file that can't be read or is malformed; None if it is valid."""
    try:
        check(path)
    except Faulty as why:
        return ERROR, (Atom("faulty_tracecase"), str(why))
    return None


def _hashable(where: str, id: Any) -> None:
    try:
        hash(id)
    except TypeError:
        why = f"{shown(id)} can't be one; pass a text, a number, or a tuple of them"
        raise BadArg(f"Tool.{where}", "id", why) from None


def _expressions(value: Any) -> Any:
    """An argument with regular expressions replaced by terms."""
    if isinstance(value, re.Pattern):
        return Atom("re"), value.pattern
    if type(value) is tuple:
        return tuple(map(_expressions, value))
    return [_expressions(one) for one in value] if type(value) is list else value


def _without_nodes(command: str, words: tuple[Any, ...]) -> None:
    if given.confs(command, words, None)[1] is None:
        raise BadArg("Tool.inviso", "arguments", f"{command} for nodes that are named; pass processes and flags only")
