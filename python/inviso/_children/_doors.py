"""Hooks at the functions of the interpreter by which a program starts another one, or ends at once.

=====================================  ==========================================================
``_posixsubprocess.fork_exec``         ``subprocess``, and spawning of ``multiprocessing``
``posix.posix_spawn``, ``posix_spawnp``
``posix.execv``, ``execve``            the process becomes another program
``posix.system``                       a shell
``posix._exit``                        no function of ``atexit`` is called
=====================================  ==========================================================

If the program passes an environment to its child, our variables are added to it. Otherwise the child inherits the
system's environment, which has them. The hooks call only built-in functions.
"""

from __future__ import annotations

import _thread
import posix
import sys
from collections.abc import Callable
from os import _Environ
from typing import Any, Protocol

from inviso import _native

__all__ = ["Visitor", "announce_end", "is_spawning", "open_doors", "with_theirs"]


class Visitor(Protocol):
    """Called at the hooks."""

    def variables(self) -> list[tuple[bytes, bytes]]:
        """The variables for a child's environment; empty if nothing is measured. Also sets them in the system's."""

    def spawned(self, pid: int, executable: str, words: list[str]) -> None:
        """A child runs a program."""

    def replaced(self, executable: str, words: list[str]) -> None:
        """This process is about to become another program."""

    def stayed(self) -> None:
        """This process could not become another program."""

    def calls_shell(self, command: str) -> None:
        """A shell is about to run."""

    def waited_for_shell(self) -> None:
        """The shell has ended."""

    def exits(self) -> None:
        """This process is about to end at once."""


_spawning: set[int] = set()
"""Threads inside ``fork_exec``. A child that runs Python code there is about to become another program."""


def is_spawning() -> bool:
    """Whether the calling thread is in ``fork_exec``, or was in the parent of a forked child."""
    return _thread.get_ident() in _spawning


_visitors: dict[type, Visitor] = {}
"""The visitors by type: a new one replaces that of an earlier run."""


def open_doors(visitor: Visitor) -> None:
    """Calls the visitor at the hooks from now on, with visitors of other types."""
    is_first = not _visitors
    _visitors[type(visitor)] = visitor
    if is_first:
        _open(_All())


def announce_end(besides: Visitor) -> None:
    """Calls ``exits`` of all other visitors."""
    for visitor in list(_visitors.values()):
        if visitor is not besides:
            visitor.exits()


class _All:
    """Calls all visitors."""

    def variables(self) -> list[tuple[bytes, bytes]]:
        found: dict[bytes, bytes] = {}
        for visitor in list(_visitors.values()):
            found.update(visitor.variables())
        return list(found.items())

    def spawned(self, pid: int, executable: str, words: list[str]) -> None:
        for visitor in list(_visitors.values()):
            visitor.spawned(pid, executable, words)

    def replaced(self, executable: str, words: list[str]) -> None:
        for visitor in list(_visitors.values()):
            visitor.replaced(executable, words)

    def stayed(self) -> None:
        for visitor in list(_visitors.values()):
            visitor.stayed()

    def calls_shell(self, command: str) -> None:
        for visitor in list(_visitors.values()):
            visitor.calls_shell(command)

    def waited_for_shell(self) -> None:
        for visitor in list(_visitors.values()):
            visitor.waited_for_shell()

    def exits(self) -> None:
        for visitor in list(_visitors.values()):
            visitor.exits()


def _open(visitor: Visitor) -> None:
    import _posixsubprocess

    def before_fork_exec(arguments: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        _spawning.add(_thread.get_ident())
        ours = visitor.variables()
        if arguments[5] is None or not ours:
            return None
        entries = [each.partition(b"=") for each in arguments[5]]
        named = {name for name, _ in ours}
        kept = [each for each, (name, _, _) in zip(arguments[5], entries, strict=True) if name not in named]
        given = with_theirs(ours, {name: value for name, _, value in entries if name in named})
        return (*arguments[:5], kept + [name + b"=" + value for name, value in given], *arguments[6:])

    def after_fork_exec(arguments: tuple[Any, ...], pid: Any) -> None:
        _spawning.discard(_thread.get_ident())
        if pid and pid > 0:
            cwd = b"" if arguments[4] is None else _bytes(arguments[4]) + b"/"
            for path in arguments[1]:
                if posix.access(path if path.startswith(b"/") else cwd + path, posix.X_OK):
                    return visitor.spawned(pid, _text(path), [_text(word) for word in arguments[0]])
            # there is no such program, and the child has ended

    def before_spawn(arguments: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        ours = visitor.variables()
        if len(arguments) < 3 or arguments[2] is None or not ours:
            return None
        return (*arguments[:2], _merged(ours, arguments[2]), *arguments[3:])

    def after_spawn(arguments: tuple[Any, ...], pid: Any) -> None:
        if pid:
            visitor.spawned(pid, _text(arguments[0]), [_text(word) for word in arguments[1]])

    def before_exec(arguments: tuple[Any, ...], named: Any) -> tuple[Any, ...] | None:
        given = [*arguments, *(named or {}).values()]
        if not posix.access(given[0], posix.X_OK):
            return None  # a failing step of a search in PATH
        ours = visitor.variables()
        visitor.replaced(_text(given[0]), [_text(word) for word in given[1]])
        if named and ours and "env" in named:
            named["env"] = _merged(ours, named["env"])
        if len(arguments) < 3 or not ours:
            return None
        return (*arguments[:2], _merged(ours, arguments[2]))

    def after_exec(arguments: tuple[Any, ...], _: Any) -> None:
        visitor.stayed()

    def before_system(arguments: tuple[Any, ...], named: Any) -> None:
        visitor.variables()
        visitor.calls_shell(_text([*arguments, *(named or {}).values()][0]))

    def after_system(arguments: tuple[Any, ...], _: Any) -> None:
        visitor.waited_for_shell()

    def before_exit(arguments: tuple[Any, ...], named: Any) -> None:
        status = [*arguments, *(named or {}).values()]
        if len(status) == 1 and isinstance(status[0], int):  # otherwise _exit raises
            visitor.exits()

    def nothing(arguments: tuple[Any, ...], result: Any) -> None:
        pass

    doors: list[tuple[Any, str, Callable[..., Any], Callable[..., Any]]] = [
        (_posixsubprocess, "fork_exec", before_fork_exec, after_fork_exec),
        (posix, "posix_spawn", before_spawn, after_spawn),
        (posix, "posix_spawnp", before_spawn, after_spawn),
        (posix, "execv", before_exec, after_exec),
        (posix, "execve", before_exec, after_exec),
        (posix, "system", before_system, after_system),
        (posix, "_exit", before_exit, nothing),
    ]
    for module, name, before, after in doors:
        function = getattr(module, name, None)
        if function is not None:
            _native.interpreter.take_builtin(function, before, after)


_THEIRS = frozenset({b"INVISO_AUTOSTART", b"INVISO_AUTOSTART_ARG"})


def with_theirs(ours: list[tuple[bytes, bytes]], theirs: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Our variables, merged with the program's. For a list of paths, the program's value is appended to ours.

    If the program sets another autostart for its child, or an empty one, that value stays.
    """
    made = []
    for name, value in ours:
        more = theirs.get(name)
        if more is not None and name in _THEIRS:
            value = more
        made.append((name, value + b":" + more if more and name.endswith(b"PATH") else value))
    return made


def _merged(ours: list[tuple[bytes, bytes]], environment: Any) -> Any:
    """A copy of an environment with our variables."""
    merged: dict[bytes, Any] = {}
    if isinstance(environment, _Environ):  # without its methods, which are Python code
        merged.update(environment._data)  # type: ignore[attr-defined]
    else:
        for name in environment.keys():  # noqa: SIM118 - it may not be a dict
            merged[_bytes(name)] = environment[name]
    theirs = {name: _bytes(merged[name]) for name, _ in ours if name in merged}
    merged.update(with_theirs(ours, theirs))
    return merged


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        value = value.__fspath__()
    return value if isinstance(value, bytes) else value.encode(sys.getfilesystemencoding(), "surrogateescape")


def _text(value: Any) -> str:
    """A path or an argument as str; it may be given as str, bytes or a path object."""
    return _bytes(value).decode(sys.getfilesystemencoding(), "surrogateescape")
