"""Handles on sessions, and the check that an argument is a handle on a living session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inviso.errors import BadArg, shown

if TYPE_CHECKING:
    from typing import Self

    from inviso import _native

    from ._ending import Owner
    from ._worker import Worker

__all__ = ["Handle", "alive", "dead"]


class Handle:
    """The data of a handle on a session; :class:`inviso.trace.Session` has the methods."""

    __slots__ = ("__weakref__", "_kept", "_native", "_owner", "_worker")

    def __init__(
        self,
        native: _native.trace.Session,
        worker: Worker | None = None,
        kept: object = None,
        owner: Owner | None = None,
    ) -> None:
        self._native = native
        self._worker = worker
        self._kept = kept
        """Keeps an object alive whose address the native half has."""
        self._owner = owner
        """None for a weak handle."""

    def _weak(self) -> Self:
        """A handle that keeps nothing alive."""
        return type(self)(self._native.weak())


def alive(where: str, session: Any) -> _native.trace.Session:
    if not isinstance(session, Handle):
        raise BadArg(where, "session", f"{shown(session)} is not a session; session_create() makes one")
    if not session._native.is_alive():
        raise dead(where)
    return session._native


def dead(where: str) -> BadArg:
    return BadArg(where, "session", "the session has been destroyed; make a new one with session_create()")
