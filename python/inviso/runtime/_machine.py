"""State and status of a runtime component: which calls it refuses, and which states and events follow. No input or
output.

=================  ===========================================================================
state ``new``      nothing was traced yet, or everything was cleared: there is no tracer data
state ``tracing``  a log is open
state ``idle``     the log was closed: the tracer data says where the logs are
status             ``running``, or ``("suspended", reason)``: no flags and no meta patterns are set
=================  ===========================================================================

The caller first asks :meth:`Machine.refusal`. If the answer is None, it carries the call out, then reports it by the
method of the call's name.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from inviso.terms import Atom

__all__ = ["META", "PATTERNS", "Machine", "Status"]

Status: TypeAlias = Atom | tuple[Atom, Any]

NEW, TRACING, IDLE = Atom("new"), Atom("tracing"), Atom("idle")
RUNNING, SUSPENDED = Atom("running"), Atom("suspended")
ERROR = Atom("error")

PATTERNS = frozenset({"tp", "tpl", "ctp", "ctpl"})
META = frozenset(
    {
        *("init_tpm", "tpm", "tpm_tracer", "tpm_ms", "tpm_ms_tracer", "ctpm_ms", "ctpm"),
        *("tpm_localnames", "ctpm_localnames", "tpm_globalnames", "ctpm_globalnames"),
    }
)
_NOT_WHILE_SUSPENDED = PATTERNS | META | {"init_tracing", "tf"}
_NOT_WHILE_TRACING = frozenset({"fetch_log", "delete_log"})


class Machine:
    """The state machine of a runtime component.

    >>> machine = Machine()
    >>> machine.refusal("tf")
    ('error', 'no_tracer')
    >>> machine.init_tracing(("file", "a.log"))
    [('state_change', ('tracing', 'running'))]
    >>> machine.refusal("init_tracing")
    ('error', 'already_initiated')
    """

    __slots__ = ("state", "status", "tracerdata")

    def __init__(self) -> None:
        self.state: Atom = NEW
        self.status: Status = RUNNING
        self.tracerdata: Any = None
        """The tracer data of ``init_tracing``. None in state new, and in state idle if only patterns were set."""

    @property
    def is_running(self) -> bool:
        """Whether it is not suspended."""
        return bool(self.status == RUNNING)

    @property
    def is_tracing(self) -> bool:
        """Whether a log is open; the component may be suspended."""
        return bool(self.state == TRACING)

    def both(self) -> tuple[Atom, Status]:
        """The state and the status."""
        return self.state, self.status

    def refusal(self, call: str, *, has_meta: bool = False) -> tuple[Atom, Any] | None:
        """The error for a call in the present state; None if it is allowed. ``has_meta``: a meta tracer lives."""
        if call == "init_tracing" and self.is_tracing:
            return ERROR, Atom("already_initiated")
        if call == "tf" and not self.is_tracing:
            return ERROR, Atom("no_tracer")
        if call in _NOT_WHILE_SUSPENDED and not self.is_running:
            return ERROR, SUSPENDED
        if call in META and not has_meta:
            return ERROR, Atom("no_metatracer")
        if call in _NOT_WHILE_TRACING and self.is_tracing:
            return ERROR, TRACING
        if call == "flush" and not self.is_tracing:
            return ERROR, (Atom("not_tracing"), self.state)
        return None

    def init_tracing(self, tracerdata: Any) -> list[Any]:
        """A log was opened."""
        self.state, self.tracerdata = TRACING, tracerdata
        return self._change()

    def patterns(self) -> list[Any]:
        """Patterns were set."""
        if self.state != NEW:
            return []
        self.state = IDLE
        return self._change()

    def stop_tracing(self) -> list[Any]:
        """The log was closed, if there was one."""
        if not self.is_tracing:
            return []
        self.state = IDLE
        return self._change()

    def port_down(self, reason: Any) -> list[Any]:
        """The log ended by itself."""
        return [(Atom("port_down"), reason), *self.stop_tracing()]

    def clear(self) -> list[Any]:
        """Everything was cleared. A suspended component stays suspended."""
        self.state, self.tracerdata = NEW, None
        return self._change()

    def suspend(self, reason: Any) -> list[Any]:
        """Flags and meta patterns were removed. The first of several reasons stays."""
        if not self.is_running:
            return []
        self.status = (SUSPENDED, reason)
        return self._change()

    def cancel_suspension(self) -> list[Any]:
        """The suspension has ended. Nothing is restored."""
        self.status = RUNNING
        return self._change()

    def _change(self) -> list[Any]:
        return [(Atom("state_change"), self.both())]
