"""Erlang's three exception classes as Python exceptions, and Python's exceptions as Erlang's reasons."""

from __future__ import annotations

from typing import Any, Literal

from .product import BadArg, SystemLimit, atom

__all__ = ["CAUGHT", "ErlError", "ErlExit", "ErlThrow", "class_of", "reason_of", "reason_of_type"]

Class = Literal["error", "throw", "exit"]


class ErlError(Exception):
    """``erlang:error(Reason)``."""


class ErlThrow(BaseException):
    """``throw(Reason)``."""


class ErlExit(SystemExit):
    """``exit(Reason)``."""


CAUGHT = (Exception, ErlThrow, ErlExit)
"""What ends a call, but not the process. Anything else is the system ending a process, and passes."""

CARRIERS = ("ErlError", "ErlThrow", "ErlExit")
"""Exceptions that carry an Erlang term as their only argument."""

REASONS = {
    "ArithmeticError": "badarith",
    "BadArg": "badarg",
    "SystemLimit": "system_limit",
    "TypeError": "badarith",
    "ZeroDivisionError": "badarith",
}
"""Reasons of Python's own exceptions, where a fixture function lets Python raise."""


def class_of(error: BaseException) -> Class:
    """Erlang's exception class for a Python exception, by the kind of the latter."""
    if isinstance(error, Exception):
        return "error"
    return "exit" if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit) else "throw"


def reason_of(error: BaseException) -> Any:
    """The Erlang term that an exception stands for; its text in a tuple if there is none."""
    if isinstance(error, ErlError | ErlThrow | ErlExit):
        return error.args[0]
    if isinstance(error, BadArg):
        return atom("badarg")
    if isinstance(error, SystemLimit):
        return atom("system_limit")
    return ("python", f"{type(error).__name__}: {error}")


def reason_of_type(name: str, arguments: list[Any]) -> tuple[bool, Any]:
    """Whether a message with an exception as ``(type name, arguments)`` has a reason, and that reason."""
    if name in CARRIERS:
        return (True, arguments[0]) if len(arguments) == 1 else (False, None)
    return (True, {"a": REASONS[name]}) if name in REASONS else (False, None)
