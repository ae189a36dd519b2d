"""The parts of a magic: options, an observer of a running cell, and a table of the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from inviso._table import Table

from ._options import Options

__all__ = ["NAMES", "Look", "Magic", "magic"]

NAMES = ("tprof", "trace", "messages", "tokens")


class Look(Protocol):
    """Observes one run of a cell."""

    def begin(self) -> None:
        """Begins, in the thread or task that runs the cell."""

    def end(self) -> None:
        """Ends and removes everything that it set, also after a ``begin`` that failed."""

    def result(self) -> Any:
        """The result, as the value that the notebook gets."""

    def table(self, result: Any) -> Table:
        """The result as a table."""

    def picture(self, result: Any) -> Any:
        """A picture of the result, if an option asks for it; else None."""


@dataclass(frozen=True, slots=True)
class Magic:
    """One of ``NAMES``."""

    options: Options
    look: Callable[[Any], Look]
    """Makes a look from options. UsageError if they are wrong."""

    def help(self) -> str:
        """The text of ``--help``."""
        return self.options.help()


def magic(name: str) -> Magic:
    """The magic of this name."""
    if name not in _made:
        from . import _messages, _tokens, _tprof, _trace

        module = {"tprof": _tprof, "trace": _trace, "messages": _messages, "tokens": _tokens}[name]
        _made[name] = Magic(module.options(), module.Look)
    return _made[name]


_made: dict[str, Magic] = {}
