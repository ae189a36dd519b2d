"""Which control component the functions of this package mean: where a trace case is carried out for a tool, the tool's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._control import Control

__all__ = ["used", "using"]

_used: ContextVar[Control | None] = ContextVar("inviso.control", default=None)


@contextmanager
def using(control: Control) -> Iterator[None]:
    """Inside, the functions of ``inviso.control`` mean this component, in this thread only."""
    token = _used.set(control)
    try:
        yield
    finally:
        _used.reset(token)


def used() -> Control | None:
    """The component of the :func:`using` that the caller is in; None outside."""
    return _used.get()
