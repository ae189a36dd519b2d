"""Links, monitors and exit signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.terms import Atom, Port, Ref

from ._objects import running, tracee_of

if TYPE_CHECKING:
    from ._objects import Process

__all__ = ["demonitor", "exit", "link", "links", "monitor", "process_flag", "trap_exit", "unlink"]


def link(pid: Pid | Any) -> bool:
    """Links the caller to a process: when one of them ends for a reason other than ``"normal"``, the other one gets an
    exit signal, which ends it, too (erlang.md, ``link/1``).

    A process that traps exits (:func:`trap_exit`) gets the message ``("EXIT", pid, reason)`` instead. The signal
    cancels a task. A thread gets ``SystemExit`` at its current or next call into this package: Python can't do more. A
    link to a process that has ended sends the caller an exit signal with the reason ``"noproc"``.

    A link to a port (or to its socket or subprocess) reports its end to the caller. The reason is ``"normal"`` for a
    socket, and ``("exit_status", number)`` for a subprocess whose status was not 0. Opening a port doesn't link to it
    in this sense.

    Returns:
        True.

    Raises:
        BadArg: ``pid`` is neither a process of this node nor a port.

    >>> child = spawn(lambda: receive())
    >>> link(child), self() in links(child), unlink(child)
    (True, True, True)
    """
    _native.relations.link(_linkable("link/1", pid))
    return True


def unlink(pid: Pid | Any) -> bool:
    """Removes the link between the caller and a process or port, if there is one (erlang.md, ``unlink/1``).

    Returns:
        True.

    Raises:
        BadArg: ``pid`` is neither a process of this node nor a port.

    >>> unlink(self())
    True
    """
    _native.relations.unlink(_linkable("unlink/1", pid))
    return True


def links(pid: Process | None = None) -> list[Any]:
    """Lists the processes and ports that a process is linked to.

    Args:
        pid: the process; None for the caller.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> links()
    []
    """
    return _native.relations.links_of(_native.process.self_pid() if pid is None else running("links/1", "pid", pid))


def trap_exit(on: bool) -> bool:
    """Sets whether the caller gets exit signals as messages ``("EXIT", pid, reason)`` (erlang.md,
    ``process_flag(trap_exit, Boolean)``).

    Returns:
        The previous setting.

    Raises:
        BadArg: ``on`` is not a bool.

    >>> trap_exit(True), trap_exit(False)
    (False, True)
    """
    if not isinstance(on, bool):
        raise BadArg("trap_exit/1", "on", f"{shown(on)} is not a bool; pass True or False")
    return _native.relations.trap_exit(on)


def process_flag(flag: str, value: bool | int) -> bool | int:
    """Sets a flag of the caller (erlang.md, ``process_flag/2``).

    Args:
        flag: ``"trap_exit"``, see :func:`trap_exit`; or ``"max_heap_size"``, a limit in words of 8 bytes. If resident
            memory reaches it, a garbage collection sends ``gc_max_heap_size`` to tracers of ``garbage_collection``.
            All processes share the memory, so the limit is one for the node. It ends no process.
        value: True or False for ``"trap_exit"``; an int from 0 for ``"max_heap_size"``, where 0 means no limit.

    Returns:
        The previous value.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> process_flag("max_heap_size", 1 << 30), process_flag("max_heap_size", 0)
    (0, 1073741824)
    """
    if flag == "trap_exit":
        if not isinstance(value, bool):
            raise BadArg("process_flag/2", "value", f"{shown(value)} is not a bool; pass True or False")
        return trap_exit(value)
    if flag != "max_heap_size":
        raise BadArg("process_flag/2", "flag", f"{shown(flag)} is not a flag; pass 'trap_exit' or 'max_heap_size'")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise BadArg("process_flag/2", "value", f"{shown(value)} is not a number of words; pass an int from 0")
    return _native.process.set_max_heap_size(int(value))


def monitor(pid: Process) -> Ref:
    """Monitors a process: at its end the caller gets ``("DOWN", reference, "process", pid, reason)`` (erlang.md,
    ``monitor/2``). If the process has ended already, the message comes at once, with the reason ``"noproc"``.

    Returns:
        The reference.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> child = spawn(lambda: None)
    >>> reference = monitor(child)
    >>> receive(("DOWN", reference, "process", child, "_"))[:1]
    ('DOWN',)
    """
    reference = Ref()
    _native.relations.monitor(running("monitor/1", "pid", pid), reference)
    return reference


def demonitor(reference: Ref) -> bool:
    """Removes a monitor; False if it was gone already (erlang.md, ``demonitor/1``).

    Raises:
        BadArg: ``reference`` is not a Ref.

    >>> child = spawn(lambda: receive())
    >>> demonitor(monitor(child)), send(child, "end")
    (True, 'end')
    """
    if not isinstance(reference, Ref):
        raise BadArg("demonitor/1", "reference", f"{shown(reference)} is not a Ref; pass what monitor() returned")
    return _native.relations.demonitor(reference)


_MISSING = Atom("missing")


def exit(pid: Any, reason: Any = _MISSING, /) -> bool:
    """``exit(reason)`` ends the caller; ``exit(pid, reason)`` sends a process an exit signal (erlang.md, ``exit/1``,
    ``exit/2``).

    A thread ends by ``SystemExit``, a task by its cancellation; code can catch both. :func:`link` describes the effect
    of a signal. The reason ``"kill"`` can't be trapped and becomes ``"killed"``. The reason ``"normal"`` ends only the
    caller itself.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> child = spawn(lambda: receive(), monitor=True)[0]
    >>> exit(child, "enough")
    True
    >>> receive(("DOWN", "_", "process", child, "_"))[4]
    'enough'
    """
    if reason is not _MISSING:
        _native.relations.exit_signal(running("exit/2", "pid", pid), _word(reason))
        return True
    error: BaseException = SystemExit(pid)
    if _native.process.self_pid().kind == "task":
        import asyncio

        error = asyncio.CancelledError(pid)
    _native.relations.note_exit(_word(pid), error)
    raise error


def _word(reason: Any) -> Any:
    """A reason as a term. A plain str becomes an atom, because most reasons are atoms."""
    return Atom(reason) if type(reason) is str else reason


def _linkable(function: str, pid: Any) -> Pid | Port:
    pid = tracee_of(pid)
    return pid if isinstance(pid, Port) and pid.is_local() else running(function, "pid", pid)
