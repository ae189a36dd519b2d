"""Printing in a notebook: lines go to the cell whose code is traced, not to the cell that started the tracer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

__all__ = ["Cells"]

_PATIENCE = 1.0
"""Seconds to wait for a cell's lines at its end."""


class Cells:
    """The context of the running cell."""

    def __init__(self, shell: Any, settle: Callable[[float], object]) -> None:
        self._shell = shell
        self._settle = settle
        self._context: Context = copy_context()
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    @staticmethod
    def here(settle: Callable[[float], object]) -> Cells | None:
        """The cells of the IPython shell; None without one. ``settle`` waits until earlier messages are handled."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
        return None if shell is None else Cells(shell, settle)

    def through(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the context of the cell."""
        return self._context.copy().run(function, *arguments)

    def close(self) -> None:
        """Removes the hooks of the shell."""
        for event, function in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            if function in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, function)

    def _begin(self, *_: Any) -> None:
        self._context = copy_context()

    def _end(self, *_: Any) -> None:
        self._settle(_PATIENCE)
