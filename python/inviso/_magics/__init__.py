"""Magics of IPython and Jupyter: ``%load_ext inviso``, then ``%%tprof``, ``%%trace``, ``%%messages`` and ``%%tokens``.

A cell under one of them runs as any other cell. It has the notebook's variables, its own line numbers and ``await``.
The magic observes the cell and shows one table, also if the cell raises or is interrupted. It leaves nothing behind.

``cells``, ``execute``, ``evaluate`` and ``value_of`` are for the code that replaces a cell
(:mod:`inviso._magics._cells`).
"""

from __future__ import annotations

from typing import Any

from ._cells import Rewriter, cells, marked, run_cell, run_line, value_of
from ._magic import NAMES, magic

__all__ = ["cells", "evaluate", "execute", "load", "unload", "value_of"]

execute, evaluate = exec, eval


def load(shell: Any) -> None:
    """Adds the magics to a shell of IPython, unless it has them."""
    if any(isinstance(each, Rewriter) for each in shell.ast_transformers):
        return
    shell.input_transformers_cleanup.append(marked)
    shell.ast_transformers.append(Rewriter(shell))
    for name in NAMES:
        shell.register_magic_function(_function(shell, name), "line_cell", name)


def unload(shell: Any) -> None:
    """Removes the magics."""
    if marked in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(marked)
    shell.ast_transformers[:] = [each for each in shell.ast_transformers if not isinstance(each, Rewriter)]
    for name in NAMES:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(name, None)


def _function(shell: Any, name: str) -> Any:
    """The function of a magic, which IPython lists, explains, and calls for a line."""

    def function(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        if cell is not None:
            return run_cell(shell, name, line, cell)
        return run_line(shell, name, line, local_ns)

    function.__name__ = name
    function.__doc__ = magic(name).help()
    function.needs_local_scope = True  # type: ignore[attr-defined]
    function._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]  # braces belong to the code
    return function
