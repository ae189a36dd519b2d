"""Sessions of dbg: the default one and others."""

from __future__ import annotations

import atexit
import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, overload

from inviso.errors import BadArg, shown

from ._server import Server

if TYPE_CHECKING:
    from typing import TypeAlias

    Answer: TypeAlias = tuple[str, Any]

__all__ = ["Session", "server_of", "session", "session_create", "session_destroy", "traced"]


_default = Server("dbg")


class Session:
    """An independent dbg, which :func:`session_create` makes.

    >>> session_create("mine")
    <dbg session 'mine'>
    """

    __slots__ = ("__weakref__", "_server")

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def name(self) -> str:
        """The name from :func:`session_create`."""
        return self._server.name

    def __repr__(self) -> str:
        return f"<{'ended ' if self._server.destroyed else ''}dbg session {self.name!r}>"


_current: ContextVar[Session | None] = ContextVar("inviso.dbg", default=None)


def server_of(where: str) -> Server:
    current = _current.get()
    if current is None:
        return _default
    if current._server.destroyed:
        raise BadArg(where, "session", f"{shown(current)} can't be used any more; make one with dbg.session_create()")
    return current._server


def session_create(name: str) -> Session:
    """Makes a dbg that is independent of the default one (dbg.md, ``session_create/1``).

    Raises:
        BadArg: ``name`` is not a str.

    >>> mine = session_create("mine")
    >>> session(mine, lambda: tracer("process", (print, None)))[0]
    'ok'
    >>> get_tracer()[0], session(mine, get_tracer)[0]
    ('error', 'ok')
    >>> session_destroy(mine)
    """
    if not isinstance(name, str):
        raise BadArg("session_create/1", "name", f"{shown(name)} is not a name; pass a str")
    return Session(Server(name))


def session_destroy(session: Session) -> None:
    """Ends a session and removes all that it has set (dbg.md, ``session_destroy/1``).

    Raises:
        BadArg: ``session`` is not a session of dbg.
    """
    server = _of("session_destroy/1", session)._server
    server.stop()
    server.destroyed = True


@overload
def session(session: Session | str, function: Callable[[], Any]) -> Any: ...
@overload
def session(session: Session | str) -> Any: ...
def session(session: Session | str, function: Callable[[], Any] | None = None) -> Any:
    """Runs dbg's functions in a session (dbg.md, ``session/2``).

    Args:
        session: a session from :func:`session_create`; or a name, for a session that exists for this call only.
        function: called without arguments, in the caller's process; the functions of dbg that it calls belong to the
            session. Without it the result is a context manager, for a ``with`` block, which may await and yield.

    Returns:
        The result of ``function``.

    Raises:
        BadArg: ``session`` is not a session of dbg, or has been destroyed; ``function`` can't be called, or is a
            coroutine function or generator function, whose code would run after leaving the session.

    >>> with session("short") as mine:
    ...     _ = tracer("process", (print, None))
    >>> mine
    <ended dbg session 'short'>
    """
    if not isinstance(session, str):
        _of("session/2", session)
    if function is not None and not callable(function):
        raise BadArg("session/2", "function", f"{shown(function)} can't be called; pass a function without arguments")
    if any(is_one(function) for is_one in _RUN_LATER):
        why = (
            f"{shown(function)} would run when the session has been left; use `with dbg.session(...):` around its code"
        )
        raise BadArg("session/2", "function", why)
    entered = _entered(session)
    if function is None:
        return entered
    with entered:
        return function()


_RUN_LATER: Final = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction


@contextmanager
def _entered(given: Session | str) -> Iterator[Session]:
    made = session_create(given) if isinstance(given, str) else given
    before = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(before)
        if made is not given:
            session_destroy(made)


def _of(where: str, session: Any) -> Session:
    if not isinstance(session, Session):
        raise BadArg(where, "session", f"{shown(session)} is not a session of dbg; dbg.session_create() makes one")
    if session._server.destroyed:
        raise BadArg(where, "session", f"{shown(session)} can't be used any more; make one with dbg.session_create()")
    return session


traced: weakref.WeakSet[Server] = weakref.WeakSet()
"""Living servers that have had a tracer."""


@atexit.register
def _stop_all() -> None:
    """Prints or writes the last lines of a program that ends without :func:`stop`."""
    for server in list(traced):
        server.stop("program")
