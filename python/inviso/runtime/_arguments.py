"""Checks of the arguments of requests, before anything changes. A request of another process may have any terms."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from typing import Any

from inviso.errors import BadArg, shown

__all__ = ["check_confs", "check_count", "check_list"]


def check_count(request: str, work: Callable[..., Any], count: int) -> None:
    """Raises ``BadArg`` if a request's method takes another number of arguments.

    >>> class Component:
    ...     def do_tf(self, confs): ...
    >>> check_count("tf", Component().do_tf, 2)
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: tf, arguments: there are 2; pass 1
    """
    code = work.__code__
    most = code.co_argcount - 1
    least = most - len(work.__defaults__ or ())
    if not code.co_flags & CO_VARARGS and not least <= count <= most:
        numbers = ", ".join(map(str, range(least, most + 1)))
        raise BadArg(request, "arguments", f"there are {count}; pass {numbers}")


def check_list(request: str, argument: str, given: Any) -> None:
    """Raises ``BadArg`` if the argument is neither a list nor a tuple.

    >>> check_list("clear", "options", 7)
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: clear, options: 7 is not a list; pass one
    """
    if not isinstance(given, (list, tuple)):
        raise BadArg(request, argument, f"{shown(given)} is not a list; pass one")


def check_confs(request: str, given: Any) -> None:
    """Raises ``BadArg`` if it is not a list of ``(process, flags)``, each with a list of flags.

    >>> check_confs("tf", [("all", ["call"])])
    >>> check_confs("tf", [("all", "call")])
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: tf, confs: ('all', 'call') is not a process and a list of flags; pass such pairs
    """
    check_list(request, "confs", given)
    for conf in given:
        match conf:
            case [_, list() | tuple()]:
                pass
            case _:
                raise BadArg(request, "confs", f"{shown(conf)} is not a process and a list of flags; pass such pairs")
