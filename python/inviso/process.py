"""Processes: threads and asyncio tasks with pids, mailboxes and names.

A process is a thread or an asyncio task; code that an event loop runs outside any task belongs to the loop's thread.
Every process has a mailbox, and only the process itself takes messages out of it.

>>> from inviso import process
>>> me = process.self()
>>> process.send(me, ("hello", 1))
('hello', 1)
>>> process.receive(("hello", "_"))
('hello', 1)
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import _fork as _fork  # what a fork needs
from . import _native
from ._beside import Beside
from ._native import Pid
from .errors import BadArg, check_timeout, is_text, shown
from .terms import Atom, Port, Ref

if TYPE_CHECKING:
    import asyncio
    from typing import TypeAlias, TypeGuard

    Process: TypeAlias = "Pid | threading.Thread | asyncio.Task[Any]"
    Destination: TypeAlias = "Process | str | tuple[str, str]"

__all__ = [
    "Pid",
    "areceive",
    "demonitor",
    "exit",
    "link",
    "links",
    "monitor",
    "node",
    "object_of",
    "peek",
    "pid",
    "port",
    "ports",
    "process_flag",
    "processes",
    "receive",
    "register",
    "registered",
    "self",
    "send",
    "send_after",
    "set_node",
    "spawn",
    "trap_exit",
    "unlink",
    "unregister",
    "whereis",
]

_spawned: set[asyncio.Task[Any]] = set()


def self() -> Pid:
    """The pid of the process that runs the caller (erlang.md, ``self/0``).

    >>> self().kind
    'thread'
    """
    return _native.self_pid()


def processes() -> list[Pid]:
    """All living processes of this node: threads that Python knows of, and tasks that are not done.

    >>> self() in processes()
    True
    """
    return _native.processes()


def pid(object: Process | Any) -> Pid:
    """The pid of a thread or task, or of what messages are addressed to while it isn't known who will take them.

    Args:
        object: a thread or task; a queue of ``queue``, ``asyncio`` or ``multiprocessing``, a connection, an executor, a
            pool, a future, whose Pid is of the kind ``"queue"``; or a Pid, which is returned.

    Raises:
        BadArg: ``object`` is none of these, or a thread or task that has not begun, or has ended.

    >>> pid(threading.current_thread()) == self()
    True
    >>> import queue
    >>> pid(queue.Queue()).kind
    'queue'
    """
    if isinstance(object, Pid):
        return object
    found = _native.pid_of(object)
    if found is None:
        why = f"{shown(object)} is not a running thread or task, nor a queue; pass one that has begun"
        raise BadArg("pid/1", "object", why)
    return found


def ports() -> list[Port]:
    """All open ports of this node: sockets, subprocesses that run, transports of pipes.

    >>> import socket
    >>> with socket.socket() as listener:
    ...     port(listener) in ports()
    True
    """
    return _native.ports()


def port(object: Any) -> Port:
    """The port of a socket, a subprocess or a transport.

    Args:
        object: a ``socket.socket``, a ``subprocess.Popen``; of asyncio a transport, a ``StreamWriter`` or a ``Process``;
            or a Port, which is returned. A transport over a socket is that socket's port, and a subprocess is one port
            with its pipes.

    Raises:
        BadArg: ``object`` is none of these, or is closed.

    >>> import socket
    >>> with socket.socket() as listener:
    ...     port(listener).name
    'tcp_inet'
    """
    if isinstance(object, Port):
        return object
    found = _native.port_of(_outside(object))
    if found is None:
        why = f"{shown(object)} is no open port; pass a socket, a Popen or a transport of asyncio"
        raise BadArg("port/1", "object", why)
    return found


def _outside(object: Any) -> Any:
    """What an object of asyncio's stands for: the socket, the Popen, or the transport of a pipe."""
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
    # the pipes of a subprocess are the subprocess's
    subprocess = getattr(getattr(object, "_protocol", None), "proc", None)
    return object if subprocess is None else _outside(subprocess)


def _tracee(object: Any) -> Any:
    """The Pid or Port of whatever stands for a process or port; anything else as it is."""
    if isinstance(object, (Pid, Port, str, tuple)):
        return object
    found = _native.pid_of(object)
    return found or _native.port_of(_outside(object)) or object


_PROCESSES = (("threading", "Thread"), ("_asyncio", "Task"))
_PORTS = (
    ("socket", "socket"),
    ("subprocess", "Popen"),
    ("asyncio.transports", "BaseTransport"),
    ("asyncio.streams", "StreamWriter"),
    ("asyncio.subprocess", "Process"),
)


def _is_gone(object: Any) -> bool:
    """Whether it stood for a process or port, or will, and there is none now."""
    return _is_one(object, _PROCESSES + _PORTS)


def _is_one(object: Any, kinds: tuple[tuple[str, str], ...]) -> bool:
    known = (getattr(sys.modules.get(module), name, None) for module, name in kinds)
    return issubclass(type(object), tuple(kind for kind in known if isinstance(kind, type)))


def _why_no_process(object: Any) -> str:
    """What is wrong with it where a process is wanted."""
    if isinstance(object, Port) or _is_one(object, _PORTS):
        return "is a port, not a process"
    return "has not begun, or has ended" if _is_one(object, _PROCESSES) else "is not a process"


def object_of(pid: Pid | Port) -> Any:
    """The thread or task object of a process, or the object of a port; None if it is gone.

    >>> object_of(self()) is threading.current_thread()
    True
    """
    if isinstance(pid, Port):
        return _native.port_object(pid._number) if pid.is_local() else None
    return _native.object_of(_local("object_of/1", "pid", pid))


def spawn(
    function: Callable[..., Any],
    /,
    *args: Any,
    name: str | None = None,
    link: bool = False,
    monitor: bool = False,
    **kwargs: Any,
) -> Any:
    """Starts a process that runs ``function(*args, **kwargs)``: a thread, or a task of the running event loop if
    ``function`` is a coroutine function.

    To pass arguments on that are called ``name``, ``link`` or ``monitor``, bind them with ``functools.partial``.

    Args:
        name: the thread's or task's name.
        link: True links the two, as :func:`link` does, before the child takes its first step.
        monitor: True watches the child, as :func:`monitor` does.

    Returns:
        The child's Pid; with ``monitor`` the Pid and the monitor's :class:`inviso.Ref`. An eager task (Python 3.12 and
        later) may have ended by then.

    Raises:
        BadArg: ``function`` can't be called, or a coroutine function is spawned outside an event loop.

    >>> me = self()
    >>> child = spawn(lambda: send(me, "done"))
    >>> receive()
    'done'
    """
    if not callable(function):
        raise BadArg("spawn/3", "function", f"{shown(function)} can't be called; pass a function and its arguments")
    if name is not None and not is_text(name):
        raise BadArg("spawn/3", "name", f"{shown(name)} is not a str without lone surrogates; pass a name, or None")
    for option, value in (("link", link), ("monitor", monitor)):
        if not isinstance(value, bool):
            raise BadArg("spawn/3", option, f"{shown(value)} is not a bool; pass True or False")
    reference = Ref() if monitor else None
    if _is_coroutine_function(function):
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise BadArg(
                "spawn/3", "function", "a coroutine function needs a running event loop; call spawn from a coroutine"
            ) from None
        coroutine = function(*args, **kwargs)
        _native.linking(link, reference)
        try:
            task = loop.create_task(coroutine, name=name)
        finally:
            unwatched = _native.linking(False)
        _spawned.add(task)
        task.add_done_callback(_spawned.discard)
        child = _native.pid_of_made(task) or pid(task)
        if unwatched is not None:
            _native.monitor(child, unwatched)
    else:
        thread = _Process(target=function, args=args, kwargs=kwargs, name=name, daemon=True)
        child = _native.announce_thread(thread)
        if reference is not None:
            _native.monitor(child, reference)
        _native.linking(link)
        try:
            thread.start()
        except BaseException:
            _native.renounce_thread(thread)
            raise
        finally:
            _native.linking(False)
    return child if reference is None else (child, reference)


def _is_coroutine_function(function: Any) -> bool:
    while (inner := getattr(function, "func", None) or getattr(function, "__func__", None)) is not None:
        function = inner
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & _CO_COROUTINE)


_CO_COROUTINE = 0x80


class _Process(threading.Thread):
    """A thread that is a process from before its start to its end."""

    def run(self) -> None:
        _native.enter_process()
        try:
            super().run()
        except SystemExit as error:  # threads end by it without a word
            _native.leaving(error)
        except BaseException as error:
            _native.leaving(error)
            raise
        else:
            _native.leaving(None)


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
    return _native.links_of(_native.self_pid() if pid is None else _running("links/1", "pid", pid))


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
    _native.monitor(_running("monitor/1", "pid", pid), reference)
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
        _native.exit_signal(_running("exit/2", "pid", pid), _word(reason))
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


def send(destination: Destination, message: Any) -> Any:
    """Puts ``message`` into the mailbox of a process and returns it (erlang.md, ``!``).

    To a process that has ended, nothing happens. The object itself is sent, not a copy.

    Args:
        destination: a Pid, thread or task, a registered name, or ``(name, node)``, with which a name that nobody has is
            no error.

    Raises:
        BadArg: ``destination`` is a name that nobody has, or no process of this node; a queue has no mailbox: use its put.

    >>> send(self(), 1)
    1
    >>> receive()
    1
    """
    if isinstance(destination, str):
        if not is_text(destination):
            raise BadArg("send/2", "destination", f"no process is registered as {shown(destination)}; register one first")
        found = _native.whereis(destination)
        known = _native.send(found if isinstance(found, Pid) else None, message, destination)
        if not known:
            raise BadArg("send/2", "destination", f"no process is registered as {shown(destination)}; register one first")
    elif _is_name_at_node(destination):
        name, at = destination
        if at != node():
            raise BadArg("send/2", "destination", f"{shown(at)} is another node; messages go to processes of {shown(node())} only")
        found = _native.whereis(name)
        _native.send(found if isinstance(found, Pid) else None, message, destination)
    else:
        _native.send(_running("send/2", "destination", destination), message)
    return message


def _is_name_at_node(value: Any) -> TypeGuard[tuple[str, str]]:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


class Timer:
    """A message that is to be sent, see :func:`send_after`."""

    __slots__ = ("_destination", "_message", "_thread")

    def __init__(self, time: float, destination: Pid, message: Any) -> None:
        self._destination = destination
        self._message = message
        self._thread = Beside(self._send)
        self._thread.start(time)

    def cancel(self) -> None:
        """Has it not sent, if it was not yet."""
        self._thread.cancel()

    def _send(self) -> None:
        _native.send_by_clock(self._destination, self._message)


def send_after(time: float, destination: Process, message: Any) -> Timer:
    """Sends a message after ``time`` milliseconds, by a timer, which has ``cancel()`` (erlang.md, ``erlang:send_after/3``).

    Raises:
        BadArg: ``time`` is not a number from 0, or ``destination`` no process of this node.

    >>> _ = send_after(1, self(), "tick")
    >>> receive(timeout=5)
    'tick'
    """
    number = isinstance(time, (int, float)) and not isinstance(time, bool)
    if not number or not 0 <= time < 1 << 40:
        raise BadArg("send_after/3", "time", f"{shown(time)} is no time in milliseconds; pass a number from 0")
    return Timer(time / 1000, _running("send_after/3", "destination", destination), message)


def receive(pattern: Any = None, timeout: float | None = None) -> Any:
    """Takes the first message that matches out of the caller's mailbox, waiting for it.

    Args:
        pattern: None for any message; a callable that is asked about each; else a value in which ``"_"`` matches
            anything, tuples and lists match element by element, and all else by ``==``.
        timeout: seconds; None waits for ever, 0 looks once.

    Raises:
        TimeoutError: no message came in time.

    >>> for message in ("a", 1), ("b", 2): _ = send(self(), message)
    >>> receive(("b", "_")), receive(timeout=0)
    (('b', 2), ('a', 1))
    """
    check_timeout("receive/2", timeout)
    found = _native.mailbox_receive(_matcher(pattern), timeout)
    if found is None:
        _native.timed_out()
        raise TimeoutError(f"no matching message came in {timeout} s")
    return found[0]


async def areceive(pattern: Any = None, timeout: float | None = None) -> Any:
    """As :func:`receive`, for a task: other tasks go on while it waits.

    Raises:
        TimeoutError: no message came in time.

    >>> import asyncio
    >>> async def main():
    ...     send(self(), "here")
    ...     return await areceive()
    >>> asyncio.run(main())
    'here'
    """
    import asyncio

    check_timeout("areceive/2", timeout)
    loop = asyncio.get_running_loop()
    matcher = _matcher(pattern)
    deadline = None if timeout is None else loop.time() + timeout
    arrived = asyncio.Event()
    waiter = partial(_wake, loop, arrived)
    while True:
        arrived.clear()
        seen = len(_native.mailbox_peek())
        found = _native.mailbox_receive(matcher, 0)
        if found is not None:
            return found[0]
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            _native.timed_out()
            raise TimeoutError(f"no matching message came in {timeout} s")
        # a mailbox that trace sessions feed is filled when it is looked at: look now and then; not by `wait_for`, which has
        # a task of its own on 3.11
        timer = loop.call_later(0.02 if left is None else min(left, 0.02), arrived.set)
        try:
            _native.mailbox_wait(waiter, seen)
            await arrived.wait()
        finally:
            timer.cancel()
            _native.mailbox_leave(waiter)


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)


def peek(pid: Process | None = None) -> list[Any]:
    """The messages in a mailbox, oldest first, left there; the caller's own without ``pid``.

    Raises:
        BadArg: ``pid`` is no process of this node.

    >>> _ = send(self(), "x")
    >>> peek(), receive()
    (['x'], 'x')
    """
    return _native.mailbox_peek(None if pid is None else _running("peek/1", "pid", pid))


def register(name: str, pid: Pid | Port | Any) -> bool:
    """Gives a living process, or an open port, a name (erlang.md, ``register/2``).

    Args:
        pid: a Pid or Port; or the thread, task, socket, subprocess or transport itself.

    Raises:
        BadArg: the name is taken, or not a str; the process has ended or has a name.

    >>> register("adder", self()), whereis("adder") == self(), unregister("adder")
    (True, True, True)
    """
    if not is_text(name) or not name or name == "undefined":
        raise BadArg("register/2", "name", f"{shown(name)} is no name; pass a str other than 'undefined', without lone surrogates")
    return _register(name, _tracee(pid))


def _register(name: str, pid: Pid | Port) -> bool:
    """The same by a pid: what is meta traced for names."""
    if not isinstance(pid, Port) or not pid.is_local():
        pid = _running("register/2", "pid", pid)
    why = _native.register(name, pid)
    if why == "dead":
        raise BadArg("register/2", "pid", f"{shown(pid)} has ended; pass a living process")
    if why == "taken":
        raise BadArg("register/2", "name", f"{shown(name)} is the name of {shown(_native.whereis(name))}; unregister it first")
    if why is not None:
        raise BadArg("register/2", "pid", f"{shown(pid)} has a name already; unregister it first")
    return True


def unregister(name: str) -> bool:
    """Takes a name back (erlang.md, ``unregister/1``).

    Raises:
        BadArg: nobody has the name.

    >>> _ = register("gone", self())
    >>> unregister("gone"), whereis("gone")
    (True, None)
    """
    if not is_text(name) or not _native.unregister(name):
        raise BadArg("unregister/1", "name", f"no process is registered as {shown(name)}; registered() lists the names")
    return True


def whereis(name: str) -> Any:
    """The process, or port, of a name, or None.

    Raises:
        BadArg: ``name`` is not a str.

    >>> whereis("nobody") is None
    True
    """
    if not isinstance(name, str):
        raise BadArg("whereis/1", "name", f"{shown(name)} is no name; pass a str")
    return _native.whereis(name) if is_text(name) else None


def registered() -> list[str]:
    """All names of living processes and open ports.

    >>> isinstance(registered(), list)
    True
    """
    return _native.registered()


def node() -> str:
    """This node's name, ``nonode@nohost`` until it is set.

    >>> node()
    'nonode@nohost'
    """
    return _native.node_name()


def set_node(name: str) -> None:
    """Names this node.

    Raises:
        BadArg: ``name`` has not the form ``name@host``.

    >>> set_node("no at sign")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: set_node/1, name: 'no at sign' has not the form 'name@host'
    """
    parts = name.split("@") if isinstance(name, str) else []
    if len(parts) != 2 or not all(parts):
        raise BadArg("set_node/1", "name", f"{shown(name)} has not the form 'name@host'")
    _native.set_node_name(name)


def _after_fork_in_child() -> None:
    _spawned.clear()  # the rest is done by inviso._fork


os.register_at_fork(after_in_child=_after_fork_in_child)


def _local(function: str, argument: str, given: Any) -> Pid:
    pid = given if isinstance(given, Pid) else _native.pid_of(given)
    if pid is None:
        why = f"{shown(given)} {_why_no_process(given)}; pass a Pid, or a thread or task that runs"
        raise BadArg(function, argument, why)
    if not pid.is_local():
        raise BadArg(function, argument, f"{shown(pid)} is a process of another node; pass one of {node()}")
    return pid


def _running(function: str, argument: str, given: Any) -> Pid:
    pid = _local(function, argument, given)
    if pid.kind not in ("thread", "task"):
        raise BadArg(function, argument, f"{shown(pid)} is a {pid.kind}, which doesn't run; pass the Pid of a thread or task")
    return pid


def _linkable(function: str, pid: Any) -> Pid | Port:
    pid = _tracee(pid)
    return pid if isinstance(pid, Port) and pid.is_local() else _running(function, "pid", pid)


def _matcher(pattern: Any) -> Callable[[Any], bool] | None:
    if pattern is None:
        return None
    if callable(pattern):
        return pattern  # type: ignore[no-any-return]
    return lambda message: _matches(pattern, message)


def _matches(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, str) and pattern == "_":
        return True
    if isinstance(pattern, (tuple, list)):
        return (
            isinstance(value, tuple if isinstance(pattern, tuple) else list)
            and len(value) == len(pattern)
            and all(map(_matches, pattern, value))
        )
    return bool(pattern == value)
