"""Processes: threads and asyncio tasks with pids, mailboxes and names.

A process is a thread or an asyncio task. Code that an event loop runs outside any task belongs to the loop's thread.
Each process has a mailbox; only the process itself takes messages out of it.

>>> from inviso import process
>>> me = process.self()
>>> process.send(me, ("hello", 1))
('hello', 1)
>>> process.receive(("hello", "_"))
('hello', 1)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from inviso import _background, _native
from inviso import _fork as _fork  # registers the functions that a fork calls
from inviso._native.process import Pid
from inviso.errors import BadArg, check_timeout, is_text, shown
from inviso.terms import Port, Ref

from ._links import demonitor, exit, link, links, monitor, process_flag, trap_exit, unlink
from ._objects import object_of, pid, port, running, tracee_of

if TYPE_CHECKING:
    import asyncio
    from typing import TypeAlias, TypeGuard

    from ._objects import Process

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
    return _native.process.self_pid()


def processes() -> list[Pid]:
    """All living processes of this node: threads that Python knows of, and tasks that are not done.

    >>> self() in processes()
    True
    """
    return _native.process.processes()


def ports() -> list[Port]:
    """All open ports of this node: sockets, subprocesses that run, transports of pipes.

    >>> import socket
    >>> with socket.socket() as listener:
    ...     port(listener) in ports()
    True
    """
    return _native.port.ports()


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

    If the function has parameters ``name``, ``link`` or ``monitor``, bind them with ``functools.partial``.

    Args:
        name: the thread's or task's name.
        link: True links the caller and the child, as :func:`link` does, before the child's first step.
        monitor: True monitors the child, as :func:`monitor` does.

    Returns:
        The child's Pid; with ``monitor`` a pair of the Pid and the monitor's :class:`inviso.Ref`. An eager task (Python
        3.12 and later) may have ended by then.

    Raises:
        BadArg: ``function`` can't be called, or is a coroutine function and no event loop runs.

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
        _native.relations.linking(link, reference)
        try:
            task = loop.create_task(coroutine, name=name)
        finally:
            unwatched = _native.relations.linking(False)
        _spawned.add(task)
        task.add_done_callback(_spawned.discard)
        child = _native.process.pid_of_made(task) or pid(task)
        if unwatched is not None:
            _native.relations.monitor(child, unwatched)
    else:
        thread = _Process(target=function, args=args, kwargs=kwargs, name=name, daemon=True)
        child = _native.process.announce_thread(thread)
        if reference is not None:
            _native.relations.monitor(child, reference)
        _native.relations.linking(link)
        try:
            thread.start()
        except BaseException:
            _native.process.renounce_thread(thread)
            raise
        finally:
            _native.relations.linking(False)
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
        _native.process.enter_process()
        try:
            super().run()
        except SystemExit as error:  # ends a thread without a message
            _native.relations.leaving(error)
        except BaseException as error:
            _native.relations.leaving(error)
            raise
        else:
            _native.relations.leaving(None)


def send(destination: Destination, message: Any) -> Any:
    """Puts ``message`` into the mailbox of a process and returns it (erlang.md, ``!``).

    The message is the object itself, not a copy. If the process has ended, nothing happens.

    Args:
        destination: a Pid, thread or task; a registered name; or ``(name, node)``, which accepts a name that isn't
            registered.

    Raises:
        BadArg: ``destination`` is a name that isn't registered, or not a process of this node. A queue has no mailbox:
            use its ``put``.

    >>> send(self(), 1)
    1
    >>> receive()
    1
    """
    if isinstance(destination, str):
        if not is_text(destination):
            raise BadArg(
                "send/2", "destination", f"no process is registered as {shown(destination)}; register one first"
            )
        found = _native.relations.whereis(destination)
        known = _native.relations.send(found if isinstance(found, Pid) else None, message, destination)
        if not known:
            raise BadArg(
                "send/2", "destination", f"no process is registered as {shown(destination)}; register one first"
            )
    elif _is_name_at_node(destination):
        name, at = destination
        if at != node():
            raise BadArg(
                "send/2",
                "destination",
                f"{shown(at)} is another node; messages go to processes of {shown(node())} only",
            )
        found = _native.relations.whereis(name)
        _native.relations.send(found if isinstance(found, Pid) else None, message, destination)
    else:
        _native.relations.send(running("send/2", "destination", destination), message)
    return message


def _is_name_at_node(value: Any) -> TypeGuard[tuple[str, str]]:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


class Timer:
    """A message that is sent later, see :func:`send_after`."""

    __slots__ = ("_destination", "_message", "_thread")

    def __init__(self, time: float, destination: Pid, message: Any) -> None:
        self._destination = destination
        self._message = message
        self._thread = _background.Timer(self._send)
        self._thread.start(time)

    def cancel(self) -> None:
        """Cancels the message, if it was not sent yet."""
        self._thread.cancel()

    def _send(self) -> None:
        _native.relations.send_by_clock(self._destination, self._message)


def send_after(time: float, destination: Process, message: Any) -> Timer:
    """Sends a message after ``time`` milliseconds (erlang.md, ``erlang:send_after/3``).

    Returns:
        A timer, which has ``cancel()``.

    Raises:
        BadArg: ``time`` is not a number from 0, or ``destination`` is not a process of this node.

    >>> _ = send_after(1, self(), "tick")
    >>> receive(timeout=5)
    'tick'
    """
    number = isinstance(time, (int, float)) and not isinstance(time, bool)
    if not number or not 0 <= time < 1 << 40:
        raise BadArg("send_after/3", "time", f"{shown(time)} is not a time in milliseconds; pass a number from 0")
    return Timer(time / 1000, running("send_after/3", "destination", destination), message)


def receive(pattern: Any = None, timeout: float | None = None) -> Any:
    """Takes the first message that matches out of the caller's mailbox, and waits for one.

    Args:
        pattern: None for any message; a callable that returns whether a message matches; else a value, in which
            ``"_"`` matches anything, tuples and lists match element by element, and all else matches by ``==``.
        timeout: seconds; None waits for ever, 0 doesn't wait.

    Returns:
        The message.

    Raises:
        TimeoutError: no message came in time.

    >>> for message in ("a", 1), ("b", 2): _ = send(self(), message)
    >>> receive(("b", "_")), receive(timeout=0)
    (('b', 2), ('a', 1))
    """
    check_timeout("receive/2", timeout)
    found = _native.mailbox.receive(_matcher(pattern), timeout)
    if found is None:
        _native.mailbox.timed_out()
        raise TimeoutError(f"no matching message came in {timeout} s")
    return found[0]


async def areceive(pattern: Any = None, timeout: float | None = None) -> Any:
    """As :func:`receive`, for a task: other tasks run while it waits.

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
        seen = len(_native.mailbox.peek())
        found = _native.mailbox.receive(matcher, 0)
        if found is not None:
            return found[0]
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            _native.mailbox.timed_out()
            raise TimeoutError(f"no matching message came in {timeout} s")
        # Trace messages arrive in a mailbox when it is read, so it is read at intervals. `wait_for` would start a task
        # on 3.11.
        timer = loop.call_later(0.02 if left is None else min(left, 0.02), arrived.set)
        try:
            _native.mailbox.wait(waiter, seen)
            await arrived.wait()
        finally:
            timer.cancel()
            _native.mailbox.leave(waiter)


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)


def peek(pid: Process | None = None) -> list[Any]:
    """Returns the messages in a mailbox, oldest first, and leaves them there.

    Args:
        pid: the process; None for the caller.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> _ = send(self(), "x")
    >>> peek(), receive()
    (['x'], 'x')
    """
    return _native.mailbox.peek(None if pid is None else running("peek/1", "pid", pid))


def register(name: str, pid: Pid | Port | Any) -> bool:
    """Registers a living process, or an open port, under a name (erlang.md, ``register/2``).

    Args:
        pid: a Pid or Port; or the thread, task, socket, subprocess or transport itself.

    Returns:
        True.

    Raises:
        BadArg: the name is taken, or is not a str; the process has ended or has a name.

    >>> register("adder", self()), whereis("adder") == self(), unregister("adder")
    (True, True, True)
    """
    if not is_text(name) or not name or name == "undefined":
        raise BadArg(
            "register/2",
            "name",
            f"{shown(name)} is not a name; pass a str other than 'undefined', without lone surrogates",
        )
    return _register(name, tracee_of(pid))


def _register(name: str, pid: Pid | Port) -> bool:
    """Registers a Pid or Port. Meta tracing of names traces this function."""
    if not isinstance(pid, Port) or not pid.is_local():
        pid = running("register/2", "pid", pid)
    why = _native.relations.register(name, pid)
    if why == "dead":
        raise BadArg("register/2", "pid", f"{shown(pid)} has ended; pass a living process")
    if why == "taken":
        raise BadArg(
            "register/2",
            "name",
            f"{shown(name)} is the name of {shown(_native.relations.whereis(name))}; unregister it first",
        )
    if why is not None:
        raise BadArg("register/2", "pid", f"{shown(pid)} has a name already; unregister it first")
    return True


def unregister(name: str) -> bool:
    """Removes a registered name (erlang.md, ``unregister/1``).

    Returns:
        True.

    Raises:
        BadArg: the name isn't registered.

    >>> _ = register("gone", self())
    >>> unregister("gone"), whereis("gone")
    (True, None)
    """
    if not is_text(name) or not _native.relations.unregister(name):
        raise BadArg("unregister/1", "name", f"no process is registered as {shown(name)}; registered() lists the names")
    return True


def whereis(name: str) -> Any:
    """Returns the Pid or Port that is registered under a name, or None.

    Raises:
        BadArg: ``name`` is not a str.

    >>> whereis("nobody") is None
    True
    """
    if not isinstance(name, str):
        raise BadArg("whereis/1", "name", f"{shown(name)} is not a name; pass a str")
    return _native.relations.whereis(name) if is_text(name) else None


def registered() -> list[str]:
    """All names of living processes and open ports.

    >>> isinstance(registered(), list)
    True
    """
    return _native.relations.registered()


def node() -> str:
    """This node's name; ``nonode@nohost`` until it is set.

    >>> node()
    'nonode@nohost'
    """
    return _native.process.node_name()


def set_node(name: str) -> None:
    """Sets this node's name.

    Raises:
        BadArg: ``name`` doesn't have the form ``name@host``.

    >>> set_node("no at sign")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: set_node/1, name: 'no at sign' doesn't have the form 'name@host'; pass one such as 'a@here'
    """
    parts = name.split("@") if isinstance(name, str) else []
    if len(parts) != 2 or not all(parts):
        why = f"{shown(name)} doesn't have the form 'name@host'; pass one such as 'a@here'"
        raise BadArg("set_node/1", "name", why)
    _native.process.set_node_name(name)


def _after_fork_in_child() -> None:
    _spawned.clear()  # inviso._fork does the rest


os.register_at_fork(after_in_child=_after_fork_in_child)


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


for _function in (object_of, pid, port, demonitor, exit, link, links, monitor, process_flag, trap_exit, unlink):
    _function.__module__ = __name__  # the documentation names this module
del _function
