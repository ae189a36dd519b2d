"""Finds the process or port of an object, and checks arguments that name one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.terms import Port

if TYPE_CHECKING:
    import asyncio
    import threading
    from typing import TypeAlias

    Process: TypeAlias = "Pid | threading.Thread | asyncio.Task[Any]"

__all__ = ["is_gone", "local", "object_of", "pid", "port", "running", "tracee_of", "why_no_process"]


def pid(object: Process | Any) -> Pid:
    """Returns the pid of a thread, task or channel.

    Args:
        object: a thread or task; a channel, whose Pid is of the kind ``"queue"``: a queue of ``queue``, ``asyncio`` or
            ``multiprocessing``, a connection, an executor, a pool, a future; or a Pid, which is returned.

    Raises:
        BadArg: ``object`` is none of these; or a thread or task that has not begun, or has ended.

    >>> pid(threading.current_thread()) == self()
    True
    >>> import queue
    >>> pid(queue.Queue()).kind
    'queue'
    """
    if isinstance(object, Pid):
        return object
    found = _native.process.pid_of(object)
    if found is None:
        why = f"{shown(object)} is not a running thread or task, nor a queue; pass one that has begun"
        raise BadArg("pid/1", "object", why)
    return found


def port(object: Any) -> Port:
    """Returns the port of a socket, a subprocess or a transport.

    Args:
        object: a ``socket.socket`` or ``subprocess.Popen``; a transport, ``StreamWriter`` or ``Process`` of asyncio; or
            a Port, which is returned. A transport over a socket has the socket's port. A subprocess and its pipes are
            one port.

    Raises:
        BadArg: ``object`` is none of these, or is closed.

    >>> import socket
    >>> with socket.socket() as listener:
    ...     port(listener).name
    'tcp_inet'
    """
    if isinstance(object, Port):
        return object
    found = _native.port.port_of(_outside(object))
    if found is None:
        why = f"{shown(object)} is not an open port; pass a socket, a Popen or a transport of asyncio"
        raise BadArg("port/1", "object", why)
    return found


def object_of(pid: Pid | Port) -> Any:
    """Returns the thread or task object of a process, or the object of a port; None if it is gone.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> object_of(self()) is threading.current_thread()
    True
    """
    if isinstance(pid, Port):
        return _native.port.port_object(pid._number) if pid.is_local() else None
    return _native.process.object_of(local("object_of/1", "pid", pid))


def _outside(object: Any) -> Any:
    """The socket, the Popen, or the pipe's transport that an object of asyncio wraps; any other object as it is."""
    kind = type(object).__module__
    if not kind.startswith("asyncio."):
        return object
    for name in ("_transport", "transport"):
        # a StreamWriter, a Process
        if kind in ("asyncio.streams", "asyncio.subprocess") and hasattr(object, name):
            return _outside(getattr(object, name))
    if kind == "asyncio.sslproto":
        return _outside(getattr(getattr(object, "_ssl_protocol", object), "_transport", None))
    if kind == "asyncio.trsock":
        return object._sock
    for name in ("_sock", "_proc"):
        if getattr(object, name, None) is not None:
            return getattr(object, name)
    # the pipes of a subprocess belong to it
    subprocess = getattr(getattr(object, "_protocol", None), "proc", None)
    return object if subprocess is None else _outside(subprocess)


def tracee_of(object: Any) -> Any:
    """The Pid or Port of a thread, task, channel, socket, subprocess or transport; any other object as it is."""
    if isinstance(object, (Pid, Port, str, tuple)):
        return object
    found = _native.process.pid_of(object)
    return found or _native.port.port_of(_outside(object)) or object


_PROCESSES = (("threading", "Thread"), ("_asyncio", "Task"))
_PORTS = (
    ("socket", "socket"),
    ("subprocess", "Popen"),
    ("asyncio.transports", "BaseTransport"),
    ("asyncio.streams", "StreamWriter"),
    ("asyncio.subprocess", "Process"),
)


def is_gone(object: Any) -> bool:
    """Whether an object that has no Pid or Port is a thread, task, socket, subprocess or transport."""
    return _is_one(object, _PROCESSES + _PORTS)


def _is_one(object: Any, kinds: tuple[tuple[str, str], ...]) -> bool:
    known = (getattr(sys.modules.get(module), name, None) for module, name in kinds)
    return issubclass(type(object), tuple(kind for kind in known if isinstance(kind, type)))


def why_no_process(object: Any) -> str:
    """The error text for an object that is not a process."""
    if isinstance(object, Port) or _is_one(object, _PORTS):
        return "is a port, not a process"
    return "has not begun, or has ended" if _is_one(object, _PROCESSES) else "is not a process"


def local(function: str, argument: str, given: Any) -> Pid:
    pid = given if isinstance(given, Pid) else _native.process.pid_of(given)
    if pid is None:
        why = f"{shown(given)} {why_no_process(given)}; pass a Pid, or a thread or task that runs"
        raise BadArg(function, argument, why)
    if not pid.is_local():
        raise BadArg(
            function, argument, f"{shown(pid)} is a process of another node; pass one of {_native.process.node_name()}"
        )
    return pid


def running(function: str, argument: str, given: Any) -> Pid:
    pid = local(function, argument, given)
    if pid.kind not in ("thread", "task"):
        raise BadArg(
            function, argument, f"{shown(pid)} is a {pid.kind}, which doesn't run; pass the Pid of a thread or task"
        )
    return pid
