"""Trace flags of processes and ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.process._objects import tracee_of, why_no_process
from inviso.terms import Port

from ._arguments import list_of, one_of, why_not_here
from ._handle import alive, dead
from ._tables import FLAGS, GROUPS, SETTABLE

if TYPE_CHECKING:
    from ._session import Session
    from ._types import Process

__all__ = ["port", "process"]


def process(session: Session, procs: Pid | Process | str, how: bool, flags: Iterable[str]) -> int:
    """Switches trace flags of processes on or off (trace.md, ``process/4``).

    Args:
        procs: a Pid, a thread or task; or ``"all"`` (existing and future processes), ``"existing"``, ``"new"``, also
            spelled ``"processes"``, ``"existing_processes"``, ``"new_processes"``.
        how: True for on. As in OTP, switching any flag off for ``"new"`` or ``"all"`` removes all flags of future
            processes: switch on again those that they shall have.
        flags: out of call, return_to, arity, silent, send, receive, procs, running, running_procs, exiting,
            garbage_collection, set_on_spawn, set_on_first_spawn, set_on_link, set_on_first_link, timestamp,
            monotonic_timestamp, strict_monotonic_timestamp, scheduler_id, cpu_timestamp, all. Flags of ports are
            accepted and have no effect; future processes don't keep them. scheduler_id adds the number of the OS
            thread, an int, before the timestamp. cpu_timestamp is a flag of the whole program and goes with ``"all"``
            only: while any session has it on, ``timestamp`` is the thread's CPU time in all sessions.
            ``all`` includes ``silent``, as in OTP: such a process sends no ``call``, ``return_to`` or ``return_from``
            message. Name the flags, or switch it off afterwards: ``process(session, procs, False, ["silent"])``.

    Returns:
        The number of processes that matched. 0 for ``"new"``, and for a group if none of the flags is one of processes:
        nothing changes then.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("flags") as session:
    ...     process(session, inviso.self(), True, ["call", "timestamp"])
    ...     info(session, inviso.self(), "flags")
    1
    ('flags', ['call', 'timestamp'])
    """
    procs, why = tracee_of(procs), None
    if isinstance(procs, Pid):
        why = why_not_here(procs)
    elif not (isinstance(procs, str) and procs in GROUPS["procs"]):
        why = f"{shown(procs)} {why_no_process(procs)}; pass a living process, 'all', 'existing' or 'new'"
    return _switch("process/4", session, "procs", procs, why, how, flags)


def port(session: Session, ports: Port | Any, how: bool, flags: Iterable[str]) -> int:
    """Switches trace flags of ports on or off (trace.md, ``port/4``).

    Args:
        ports: a :class:`inviso.Port`, a socket, subprocess or transport (:func:`inviso.port`); or ``"all"`` (open and
            future ports), ``"existing"``, ``"new"``, also spelled ``"ports"``, ``"existing_ports"``, ``"new_ports"``.
        how: True for on; see :func:`process`.
        flags: out of send, receive, ports, running_ports, timestamp, monotonic_timestamp, strict_monotonic_timestamp,
            scheduler_id, cpu_timestamp (with ``"all"`` only), all. Flags of processes are accepted and have no effect;
            of these, future ports keep silent only.

    Returns:
        The number of ports that matched. 0 for ``"new"``, and for a group if none of the flags is one of ports: nothing
        changes then.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("ports") as session:
    ...     port(session, "new", True, ["ports", "send"])
    ...     info(session, "new_ports", "flags")
    0
    ('flags', ['send', 'ports'])
    """
    ports, why = tracee_of(ports), None
    if isinstance(ports, Port):
        why = None if ports.is_local() else f"{shown(ports)} is a port of another node; pass one of this node"
    elif not (isinstance(ports, str) and ports in GROUPS["ports"]):
        why = f"{shown(ports)} is not an open port; pass a Port, a socket, 'all', 'existing' or 'new'"
    return _switch("port/4", session, "ports", ports, why, how, flags)


def _switch(
    where: str, session: Session, argument: str, who: Any, why: str | None, how: bool, flags: Iterable[str]
) -> int:
    """Switches flags. ``why`` is the error of ``who``, if it is wrong. Of several wrong arguments the error names the
    one that OTP names.
    """
    is_bool = isinstance(how, bool)
    if why is not None and is_bool:
        raise BadArg(where, argument, why)
    native = alive(where, session) if is_bool or why is None else None
    if native is None or not is_bool:
        raise BadArg(where, "how", f"{shown(how)} is not a bool; pass True for on or False for off")
    bits = 0
    for flag in list_of(where, "flags", flags):
        if isinstance(flag, tuple) and flag and flag[0] in ("tracer", "meta"):
            raise BadArg(where, "flags", f"{shown(flag)} is an option of the old interface; the session has the tracer")
        bits |= one_of(where, "flags", "flag", flag, SETTABLE)
    cpu = bits & FLAGS["cpu_timestamp"]
    if cpu and not (isinstance(who, str) and who == "all"):
        raise BadArg(where, argument, f"'cpu_timestamp' is for the whole node; pass 'all' as {argument}")
    if cpu and not _native.trace.has_cpu_clock():
        raise BadArg(where, "flags", "'cpu_timestamp' needs a clock of CPU time; this system has none: drop it")
    ports = argument == "ports"
    try:
        group = GROUPS[argument][who] if isinstance(who, str) else who
        return native.process(group, how, bits, ports)
    except _native.process.ProcessDead:
        what = "is closed; pass an open port" if ports else "has ended; pass a living process"
        raise BadArg(where, argument, f"{shown(who)} {what}") from None
    except _native.trace.SessionDead:
        raise dead(where) from None
