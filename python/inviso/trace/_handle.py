"""Handles on sessions, and the check that an argument is one of a session that is there."""

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
    """What a handle on a session has; its functions are methods of :class:`inviso.trace.Session`."""

    __slots__ = ("__weakref__", "_kept", "_native", "_owner", "_worker")

    def __init__(
        self,
        native: _native.Session,
        worker: Worker | None = None,
        kept: object = None,
        owner: Owner | None = None,
    ) -> None:
        self._native = native
        self._worker = worker
        self._kept = kept
        """What its native half knows by address."""
        self._owner = owner
        """Of a strong handle."""

    def _weak(self) -> Self:
        """A handle that keeps nothing alive."""
        return type(self)(self._native.weak())


def alive(where: str, session: Any) -> _native.Session:
    if not isinstance(session, Handle):
        raise BadArg(where, "session", f"{shown(session)} is not a session; session_create() makes one")
    if not session._native.is_alive():
        raise dead(where)
    return session._native


def dead(where: str) -> BadArg:
    return BadArg(where, "session", "the session has been destroyed; make a new one with session_create()")
