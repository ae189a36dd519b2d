"""Links, monitors and exit signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso._native import Pid
from inviso.errors import BadArg, shown
from inviso.terms import Atom, Port, Ref

from ._objects import running, tracee_of

if TYPE_CHECKING:
    from ._objects import Process

__all__ = ["demonitor", "exit", "link", "links", "monitor", "process_flag", "trap_exit", "unlink"]


def link(pid: Pid | Any) -> bool:
    """Links the caller to a process: when one of them ends, and not for the reason ``"normal"``, the other is told to end,
    too (erlang.md, ``link/1``).

    A process that traps exits (:func:`trap_exit`) gets the message ``("EXIT", pid, reason)`` instead. A task is told by being
    cancelled; a thread at its current or next call into this package, by ``SystemExit``: Python can't do more. To link to a
    process that has ended is to be told of an end for ``"noproc"``.

    To link to a port (or to its socket or subprocess) is to be told of its end: a socket's is ``"normal"``, a
    subprocess's ``("exit_status", number)`` if it was not 0. Whoever opens a port is not linked to it in this sense.

    Raises:
        BadArg: ``pid`` is neither a process of this node nor a port.

    >>> child = spawn(lambda: receive())
    >>> link(child), self() in links(child), unlink(child)
    (True, True, True)
    """
    _native.link(_linkable("link/1", pid))
    return True


def unlink(pid: Pid | Any) -> bool:
    """Removes the link between the caller and a process or port, if there is one (erlang.md, ``unlink/1``).

    Raises:
        BadArg: ``pid`` is neither a process of this node nor a port.

    >>> unlink(self())
    True
    """
    _native.unlink(_linkable("unlink/1", pid))
    return True


def links(pid: Process | None = None) -> list[Any]:
    """The processes and ports that a process is linked to; the caller's without ``pid``.

    Raises:
        BadArg: ``pid`` is no process of this node.

    >>> links()
    []
    """
    return _native.links_of(_native.self_pid() if pid is None else running("links/1", "pid", pid))


def trap_exit(on: bool) -> bool:
    """Whether exit signals come to the caller as messages ``("EXIT", pid, reason)`` from now on; answers whether they did
    (erlang.md, ``process_flag(trap_exit, Boolean)``).

    Raises:
        BadArg: ``on`` is not a bool.

    >>> trap_exit(True), trap_exit(False)
    (False, True)
    """
    if not isinstance(on, bool):
        raise BadArg("trap_exit/1", "on", f"{shown(on)} is not a bool; pass True or False")
    return _native.trap_exit(on)


def process_flag(flag: str, value: bool | int) -> bool | int:
    """Sets a flag of the caller, and answers what it was (erlang.md, ``process_flag/2``).

    Args:
        flag: ``"trap_exit"``, see :func:`trap_exit`; or ``"max_heap_size"``: from how many words (of 8 bytes) of resident
            memory on a collection of garbage sends ``gc_max_heap_size`` to who traces ``garbage_collection``. Memory
            belongs to all processes, so this limit is the node's. It ends nobody.
        value: True or False; or an int from 0, where 0 is no limit.

    Raises:
        BadArg: a wrong argument. Nothing has changed.

    >>> process_flag("max_heap_size", 1 << 30), process_flag("max_heap_size", 0)
    (0, 1073741824)
    """
    if flag == "trap_exit":
        if not isinstance(value, bool):
            raise BadArg("process_flag/2", "value", f"{shown(value)} is not a bool; pass True or False")
        return trap_exit(value)
    if flag != "max_heap_size":
        raise BadArg("process_flag/2", "flag", f"{shown(flag)} is no flag; pass 'trap_exit' or 'max_heap_size'")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise BadArg("process_flag/2", "value", f"{shown(value)} is no number of words; pass an int from 0")
    return _native.set_max_heap_size(int(value))


def monitor(pid: Process) -> Ref:
    """Has the caller told of a process's end, by the message ``("DOWN", reference, "process", pid, reason)`` (erlang.md,
    ``monitor/2``). For a process that has ended it comes at once, with the reason ``"noproc"``.

    Raises:
        BadArg: ``pid`` is no process of this node.

    >>> child = spawn(lambda: None)
    >>> reference = monitor(child)
    >>> receive(("DOWN", reference, "process", child, "_"))[:1]
    ('DOWN',)
    """
    reference = Ref()
    _native.monitor(running("monitor/1", "pid", pid), reference)
    return reference


def demonitor(reference: Ref) -> bool:
    """Takes a monitor back; False if it was not there any more (erlang.md, ``demonitor/1``).

    Raises:
        BadArg: ``reference`` is not a Ref.

    >>> child = spawn(lambda: receive())
    >>> demonitor(monitor(child)), send(child, "end")
    (True, 'end')
    """
    if not isinstance(reference, Ref):
        raise BadArg("demonitor/1", "reference", f"{shown(reference)} is not a Ref; pass what monitor() returned")
    return _native.demonitor(reference)


_MISSING = Atom("missing")


def exit(pid: Any, reason: Any = _MISSING, /) -> bool:
    """``exit(reason)`` ends the caller; ``exit(pid, reason)`` sends a process an exit signal (erlang.md, ``exit/1``, ``exit/2``).

    A thread ends by ``SystemExit``, a task by being cancelled; both may be caught. What a signal does says :func:`link`; the
    reason ``"kill"`` can't be trapped and becomes ``"killed"``, the reason ``"normal"`` ends nobody but the caller itself.

    Raises:
        BadArg: ``pid`` is no process of this node.

    >>> child = spawn(lambda: receive(), monitor=True)[0]
    >>> exit(child, "enough")
    True
    >>> receive(("DOWN", "_", "process", child, "_"))[4]
    'enough'
    """
    if reason is not _MISSING:
        _native.exit_signal(running("exit/2", "pid", pid), _word(reason))
        return True
    error: BaseException = SystemExit(pid)
    if _native.self_pid().kind == "task":
        import asyncio

        error = asyncio.CancelledError(pid)
    _native.note_exit(_word(pid), error)
    raise error


def _word(reason: Any) -> Any:
    """A reason as a term: a plain str is an atom, as reasons mostly are."""
    return Atom(reason) if type(reason) is str else reason


def _linkable(function: str, pid: Any) -> Pid | Port:
    pid = tracee_of(pid)
    return pid if isinstance(pid, Port) and pid.is_local() else running(function, "pid", pid)
