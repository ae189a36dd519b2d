"""The modules that scenarios call: loaded under Erlang's names, found by name and arity.

A Python module has one function of a name; Erlang's ``fx:multi`` has three, by arity. The later definitions hide the
earlier ones, so all are kept here. Names in a case and in Python differ where Erlang's is not a Python name.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from .errors import ErlError
from .product import atom

__all__ = [
    "ERLANG_NAMES",
    "MODULES",
    "PYTHON_NAMES",
    "load",
    "overloaded",
    "python_target",
    "resolve",
    "through_module",
]

Any_F = TypeVar("Any_F", bound=Callable[..., Any])

MODULES = ("fx", "host", "erlang")
"""Modules of a scenario's world that exist here."""

PYTHON_NAMES = {"raise": "raise_", "-mkfun/0-fun-0-": "mkfun.<locals>.<lambda>"}
"""Erlang's names of functions that Python spells otherwise."""

ERLANG_NAMES = {python: erlang for erlang, python in PYTHON_NAMES.items()}

overloads: dict[tuple[str, str, int], Callable[..., Any]] = {}


def overloaded(function: Any_F) -> Any_F:
    """Keeps a function that another one of the same name and module hides."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    overloads[function.__module__, function.__name__, code.co_argcount] = function
    return function


def load(name: str) -> ModuleType:
    """One of the modules, imported under its Erlang name."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def resolve(module: str, function: str, arity: int) -> Callable[..., Any]:
    """An exported function, or one that raises ``undef`` when it is called."""
    if module not in MODULES:
        return undefined
    loaded = load(module)
    name = PYTHON_NAMES.get(function, function)
    if name not in loaded.__all__:
        return undefined
    if (module, name, arity) in overloads:
        return overloads[module, name, arity]
    found = getattr(loaded, name)
    return found if isinstance(found, FunctionType) and found.__code__.co_argcount == arity else undefined


def python_target(target: Any) -> Any:
    """The target of a pattern, with a function of ``fx`` under its Python name."""
    match target:
        case ("fx", str(function), arity):
            return (target[0], atom(PYTHON_NAMES.get(function, function)), arity)
    return target


def undefined(*_arguments: object) -> Any:
    """Raises what a call of a missing function raises."""
    raise ErlError(atom("undef"))


class ThroughModule:
    """How ``fx`` calls itself through its module name, as in ``fx:id(X)``.

    To Erlang that is a global call. Here a global call is one whose caller's code belongs to another module, so a case
    with a global pattern goes through a function of ``hop``, another module. All other cases call directly, which keeps
    callers and returns as they are in Erlang.
    """

    def __init__(self) -> None:
        self.id: Callable[[Any], Any] = undefined

    def choose(self, by_hop: bool) -> None:
        """Selects the way of calling for one case."""
        self.id = load("hop").id if by_hop else load("fx").id


through_module = ThroughModule()
