"""Selects the control component that the functions of this package use: a tool's own, while its trace case runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._control import Control

__all__ = ["used", "using"]

_used: ContextVar[Control | None] = ContextVar("inviso.control", default=None)


@contextmanager
def using(control: Control) -> Iterator[None]:
    """Inside, the functions of ``inviso.control`` use this component, in this thread only."""
    token = _used.set(control)
    try:
        yield
    finally:
        _used.reset(token)


def used() -> Control | None:
    """The component of the innermost :func:`using`; None outside."""
    return _used.get()
