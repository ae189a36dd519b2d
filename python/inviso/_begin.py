"""What an interpreter does before its program, where the environment asks for it."""

from __future__ import annotations

import os
import sys

__all__ = ["begin"]


def begin(known: set[str]) -> None:
    """Follows a measured process, and starts tracing; ``known`` are the modules that there were before this package."""
    if "INVISO_CHILDREN" in os.environ:
        from ._children import start

        start(known)
    if "INVISO_AUTOSTART" not in os.environ:
        return
    try:
        from .autostart._start import start as start_tracing

        start_tracing(known)
    except Exception as error:  # the program runs, whatever is wrong here
        print(f"inviso: autostart: {type(error).__name__}: {error}; this process is not traced", file=sys.stderr)
