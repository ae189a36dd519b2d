"""The product under test, untyped on purpose: the cases hand it wrong arguments too.

Nothing private is used. A name that the product doesn't have (yet) is an error of the step that needs it, not of the
run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = [
    "Atom",
    "BadArg",
    "Missing",
    "Pid",
    "Ref",
    "SystemLimit",
    "atom",
    "inviso",
    "operation",
    "submodule",
]

inviso: Any = importlib.import_module("inviso")

BadArg: type[Exception] = inviso.BadArg
SystemLimit: type[Exception] = inviso.SystemLimit
Atom: Any = inviso.Atom
Pid: Any = inviso.Pid
Ref: Any = inviso.Ref


class Missing(Exception):
    """The product has no such function or class."""


def atom(name: str) -> Any:
    """An Erlang atom as this system's value: true, false and undefined are Python's own."""
    constants = {"true": True, "false": False, "undefined": None}
    return constants[name] if name in constants else Atom(name)


def submodule(name: str) -> Any:
    """A module of the package."""
    try:
        return importlib.import_module(f"inviso.{name}")
    except ModuleNotFoundError as missing:
        raise Missing(f"there is no module inviso.{name}") from missing


def operation(*names: str) -> Callable[..., Any]:
    """The first of some functions of ``inviso`` and ``inviso.process`` that exists."""
    for name in names:
        for module in (inviso, submodule("process")):
            found = getattr(module, name, None)
            if callable(found):
                function: Callable[..., Any] = found
                return function
    raise Missing(f"there is no inviso.{names[0]}")
