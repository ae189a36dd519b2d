"""Generators: functions, given directly or by name, that make the tracer data and the options of each node."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Callable
from typing import Any

from inviso.terms import Atom

__all__ = ["DateTime", "Generator", "now", "std_tdg"]

DateTime = tuple[tuple[int, int, int], tuple[int, int, int]]


class Generator:
    """A function with its last arguments.

    >>> Generator(("operator", "add", [1]))(2)
    3
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self.last: list[Any] = []
        match given:
            case (str(module), str(function), list(last)):
                self.named: tuple[str, str] | None = (module, function)
                self.last = last
            case (str(module), str(function)):
                self.named = (module, function)
            case _:
                self.named = None
        """Module and function; None if the function was given directly."""

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function. Raises its exceptions, and ImportError or AttributeError if it does not exist."""
        function: Callable[..., Any] = self._given
        if self.named is not None:
            function = getattr(importlib.import_module(self.named[0]), self.named[1])
        return function(*arguments, *self.last)


def std_tdg(node: str, moment: DateTime, *more: Any) -> Any:
    """The default tracer data of a node: a log and a file of aliases, named by the node and the time.

    Args:
        node: its name.
        moment: the start of the session, in UTC.
        more: further arguments of ``start_session``, which are ignored.

    >>> std_tdg("shop-1@web", ((2026, 11, 5), (9, 30, 0)))[0]
    ('trace', ('file', 'shop-1@web_2026-11-5_9-30-0.log'))
    """
    (year, month, day), (hour, minute, second) = moment
    base = f"{node}_{year}-{month}-{day}_{hour}-{minute}-{second}"
    return [(Atom("trace"), (Atom("file"), f"{base}.log")), (Atom("ti"), (Atom("file"), f"{base}.ti"))]


def now() -> DateTime:
    """The time in UTC, in the form for generators."""
    moment = datetime.datetime.now(datetime.UTC)
    return (moment.year, moment.month, moment.day), (moment.hour, moment.minute, moment.second)
