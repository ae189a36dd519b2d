"""Values and conditions in a match specification."""

from __future__ import annotations

import functools
import types
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from inviso._native.process import Pid
from inviso.terms import Atom, BitString, ImproperList, Map, Port, Ref

from ._spec import is_variable

__all__ = [
    *(
        "DEEPEST",
        "after_first",
        "any_of",
        "constant",
        "copied",
        "decides_itself",
        "either",
        "is_no_number",
        "may_raise",
    ),
    "quoted",
]


DEEPEST = 100
_PLAIN = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset, types.FunctionType)


def either(test: Any, yes: Any, no: Any) -> Any:
    return ("orelse", ("andalso", test, yes), ("andalso", ("not", test), no))


def any_of(conditions: list[Any], *, lazily: bool) -> Any:
    if len(conditions) == 1:
        return conditions[0]
    if lazily:
        return ("orelse", *conditions)
    return functools.reduce(lambda a, b: ("or", a, b), conditions)  # computes all of them, as Python does


def may_raise(value: Any) -> bool:
    match value:
        case ("const", _):
            return False
        case (tuple() as parts,) | (list() as parts):
            return any(map(may_raise, parts))
        case dict():
            return any(map(may_raise, value)) or any(map(may_raise, value.values()))
    return isinstance(value, tuple)


def after_first(count: int, several: Any) -> Any:
    """A list without its first ``count`` elements."""
    return functools.reduce(lambda rest, _: ("tl", rest), range(count), several)


def decides_itself(one: type) -> bool:
    """Whether a class has its own ``isinstance`` check, which may accept objects that don't derive from it."""
    check = type(one).__instancecheck__
    if check is type.__instancecheck__:
        return False
    hook = getattr(one.__subclasshook__, "__func__", None)
    if check is not ABCMeta.__instancecheck__ or hook is not getattr(object.__subclasshook__, "__func__", None):
        return True
    return any(issubclass(plain, one) and one not in plain.__mro__ for plain in _PLAIN)


def is_no_number(value: Any) -> bool:
    match value:
        case ("const", constant):
            return is_no_number(constant)
        case (tuple(),) | list() | dict() | bytes() | bool() | None:
            return True
        case str():
            return not is_variable(value)
    return False


def constant(value: Any) -> Any:
    """A literal. A str that looks like a variable becomes a ``const``."""
    return ("const", value) if isinstance(value, str) and is_variable(value) else value


def quoted(value: Any) -> Any:
    """A value as a constant, so that no part of it counts as a variable or an expression."""
    return value if isinstance(value, int | float | bytes | None) else ("const", value)


def copied(value: Any, depth: int = DEEPEST) -> Any:
    """A copy of a plain value; TypeError for any other."""
    if value is None or isinstance(value, bool | Atom | Map | BitString | ImproperList | Pid | Port | Ref):
        return value
    for base, copy in _COPIES.items():
        if isinstance(value, base):
            return copy(value)
    if not depth:
        raise TypeError
    if isinstance(value, tuple | list | set | frozenset):
        base = next(base for base in (tuple, list, set, frozenset) if isinstance(value, base))
        return base(copied(each, depth - 1) for each in value)
    if isinstance(value, dict):
        return {copied(key, depth - 1): copied(each, depth - 1) for key, each in value.items()}
    raise TypeError


# a subclass counts as its base; its own code doesn't run
_COPIES: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__add__(value, b""),
}
