"""The work of an interpreter before its program begins, if environment variables request it."""

from __future__ import annotations

import os
import sys

from . import _native

__all__ = ["begin"]


def begin(known: set[str]) -> None:
    """Continues the measuring of a parent process, and starts tracing.

    Args:
        known: the modules that were imported before this package.
    """
    if _native.interpreter.is_ready():
        return _begin(known)

    def when_ready(may_wait: bool) -> bool:
        if may_wait and not _native.interpreter.is_ready():
            return True
        _begin(known)
        return False

    # 3.15 runs site too early for events: then this runs before the first line of the program
    if not _native.interpreter.call_soon(when_ready):
        _begin(known)


def _begin(known: set[str]) -> None:
    if "INVISO_CHILDREN" in os.environ:
        from ._children import start

        start(known)
    if "INVISO_AUTOSTART" not in os.environ:
        return
    try:
        from .autostart._start import start as start_tracing

        start_tracing(known)
    except Exception as error:  # the program must run in any case
        print(f"inviso: autostart: {type(error).__name__}: {error}; this process is not traced", file=sys.stderr)
