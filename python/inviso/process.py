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
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import Pid
from .errors import BadArg, check_timeout

if TYPE_CHECKING:
    import asyncio
    from typing import TypeAlias

    Destination: TypeAlias = "Pid | str"

__all__ = [
    "Pid",
    "areceive",
    "node",
    "object_of",
    "peek",
    "pid",
    "processes",
    "receive",
    "register",
    "registered",
    "self",
    "send",
    "set_node",
    "spawn",
    "unregister",
    "whereis",
]

_names: dict[str, Pid] = {}
_names_lock = threading.Lock()
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


def pid(object: threading.Thread | asyncio.Task[Any] | Pid) -> Pid:
    """The pid of a thread or task.

    Raises:
        BadArg: ``object`` is neither, or has not begun, or has ended.

    >>> pid(threading.current_thread()) == self()
    True
    """
    if isinstance(object, Pid):
        return object
    found = _native.pid_of(object)
    if found is None:
        raise BadArg("pid/1", "object", f"{object!r} is not a running thread or task; pass one that has begun")
    return found


def object_of(pid: Pid) -> Any:
    """The thread or task object of a process, or None if it is gone.

    >>> object_of(self()) is threading.current_thread()
    True
    """
    return _native.object_of(_local("object_of/1", "pid", pid))


def spawn(function: Callable[..., Any], /, *args: Any, name: str | None = None, **kwargs: Any) -> Pid:
    """Starts a process that runs ``function(*args, **kwargs)``: a thread, or a task of the running event loop if
    ``function`` is a coroutine function.

    The names ``link`` and ``monitor`` are kept for options of a later version: to pass such arguments on, bind them
    with ``functools.partial``.

    Raises:
        BadArg: ``function`` can't be called, or a coroutine function is spawned outside an event loop; an argument has
            a name that is kept.

    >>> me = self()
    >>> child = spawn(lambda: send(me, "done"))
    >>> receive()
    'done'
    """
    if not callable(function):
        raise BadArg("spawn/3", "function", f"{function!r} can't be called; pass a function and its arguments")
    if name is not None and not isinstance(name, str):
        raise BadArg("spawn/3", "name", f"{name!r} is not a str; pass a name, or None")
    for word in _LATER.intersection(kwargs):
        why = f"{word!r} is an option of a later version; leave it out, or bind it with functools.partial"
        raise BadArg("spawn/3", word, why)
    if _is_coroutine_function(function):
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise BadArg(
                "spawn/3", "function", "a coroutine function needs a running event loop; call spawn from a coroutine"
            ) from None
        task = loop.create_task(function(*args, **kwargs), name=name)
        _spawned.add(task)
        task.add_done_callback(_spawned.discard)
        return pid(task)
    thread = _Process(target=function, args=args, kwargs=kwargs, name=name, daemon=True)
    announced = _native.announce_thread(thread)
    thread.start()
    return announced


def _is_coroutine_function(function: Any) -> bool:
    while (inner := getattr(function, "func", None) or getattr(function, "__func__", None)) is not None:
        function = inner
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & _CO_COROUTINE)


_CO_COROUTINE = 0x80
_LATER = frozenset({"link", "monitor"})


class _Process(threading.Thread):
    """A thread that is a process from before its start to its end."""

    def run(self) -> None:
        _native.enter_process()
        super().run()


def send(destination: Destination, message: Any) -> Any:
    """Puts ``message`` into the mailbox of a process and returns it (erlang.md, ``!``).

    To a process that has ended, nothing happens. The object itself is sent, not a copy.

    Raises:
        BadArg: ``destination`` is a name that nobody has, or not a Pid of this node.

    >>> send(self(), 1)
    1
    >>> receive()
    1
    """
    if isinstance(destination, str):
        with _names_lock:
            found = _names.get(destination)
        if found is None or not found.is_alive():
            raise BadArg("send/2", "destination", f"no process is registered as {destination!r}; register one first")
        destination = found
    _native.mailbox_put(_local("send/2", "destination", destination), message)
    return message


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
    while True:
        seen = len(_native.mailbox_peek())
        found = _native.mailbox_receive(matcher, 0)
        if found is not None:
            return found[0]
        arrived = asyncio.Event()
        _native.mailbox_wait(partial(_wake, loop, arrived), seen)
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            raise TimeoutError(f"no matching message came in {timeout} s")
        # a mailbox that trace sessions feed is filled when it is looked at: look now and then
        slice_ = 0.02 if left is None else min(left, 0.02)
        try:
            await asyncio.wait_for(arrived.wait(), slice_)
        except TimeoutError:
            continue


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrived.set)


def peek(pid: Pid | None = None) -> list[Any]:
    """The messages in a mailbox, oldest first, left there; the caller's own without ``pid``.

    >>> _ = send(self(), "x")
    >>> peek(), receive()
    (['x'], 'x')
    """
    return _native.mailbox_peek(None if pid is None else _local("peek/1", "pid", pid))


def register(name: str, pid: Pid) -> bool:
    """Gives a living process a name (erlang.md, ``register/2``).

    Raises:
        BadArg: the name is taken, or not a str; the process has ended or has a name.

    >>> register("adder", self()), whereis("adder") == self(), unregister("adder")
    (True, True, True)
    """
    if not isinstance(name, str) or not name or name == "undefined":
        raise BadArg("register/2", "name", f"{name!r} is no name; pass a str other than 'undefined'")
    _local("register/2", "pid", pid)
    with _names_lock:
        _forget_dead()
        if not pid.is_alive():
            raise BadArg("register/2", "pid", f"{pid!r} has ended; pass a living process")
        if name in _names:
            raise BadArg("register/2", "name", f"{name!r} is the name of {_names[name]!r}; unregister it first")
        if pid in _names.values():
            raise BadArg("register/2", "pid", f"{pid!r} has a name already; unregister it first")
        _names[name] = pid
        _native.note_name(name, pid)
    return True


def unregister(name: str) -> bool:
    """Takes a name back (erlang.md, ``unregister/1``).

    Raises:
        BadArg: nobody has the name.

    >>> _ = register("gone", self())
    >>> unregister("gone"), whereis("gone")
    (True, None)
    """
    with _names_lock:
        _forget_dead()
        if not isinstance(name, str) or _names.pop(name, None) is None:
            raise BadArg("unregister/1", "name", f"no process is registered as {name!r}; registered() lists the names")
        _native.note_name(name, None)
    return True


def whereis(name: str) -> Pid | None:
    """The process of a name, or None.

    Raises:
        BadArg: ``name`` is not a str.

    >>> whereis("nobody") is None
    True
    """
    if not isinstance(name, str):
        raise BadArg("whereis/1", "name", f"{name!r} is no name; pass a str")
    with _names_lock:
        _forget_dead()
        return _names.get(name)


def registered() -> list[str]:
    """All names of living processes.

    >>> isinstance(registered(), list)
    True
    """
    with _names_lock:
        _forget_dead()
        return list(_names)


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
        raise BadArg("set_node/1", "name", f"{name!r} has not the form 'name@host'")
    _native.set_node_name(name)


def _after_fork_in_child() -> None:
    global _names_lock
    _names_lock = threading.Lock()
    _names.clear()
    _spawned.clear()
    # also where inviso.trace, which does it too, was never imported
    _native.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _forget_dead() -> None:
    for name in [name for name, pid in _names.items() if not pid.is_alive()]:
        del _names[name]


def _local(function: str, argument: str, pid: Any) -> Pid:
    if not isinstance(pid, Pid):
        raise BadArg(function, argument, f"{pid!r} is not a Pid; inviso.pid() gives that of a thread or task")
    if not pid.is_local():
        raise BadArg(function, argument, f"{pid!r} is a process of another node; pass one of {node()}")
    return pid


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
