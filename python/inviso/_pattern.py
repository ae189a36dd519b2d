"""Reads, checks and compares patterns of functions.

A pattern names functions as in ``inviso.trace``: by module, qualified name and number of parameters, with ``"_"`` for
any, and ``"package.**"`` for a module and all below it. Patterns nest: if two have a function in common, one of them
contains the other. So ``outermost`` can shorten a list.
"""

from __future__ import annotations

import difflib
import sys
import types
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from .errors import BadArg, is_text, shown

__all__ = ["Pattern", "PatternLike", "covers", "hint", "matches", "outermost", "parse", "show"]

Pattern: TypeAlias = tuple[str, str, int | Literal["_"]]
"""``(module, function, arity)``; the last, the last two or all three may be ``"_"``."""

PatternLike: TypeAlias = str | Pattern | list[str | Pattern]
"""One pattern, as a tuple or as ``"module:function:arity"``, or a list of them."""

ANY: Final = "_"
BELOW: Final = ".**"
"""At the end of a module's name: that module and all below it."""


def parse(given: object, where: str) -> list[Pattern]:
    """Reads one pattern or a list of them. ``where`` begins the text of an error.

    >>> parse("json.decoder", "profile, pattern")
    [('json.decoder', '_', '_')]
    >>> parse(["json:loads:_", ("json", "dumps", 10)], "profile, pattern")
    [('json', 'loads', '_'), ('json', 'dumps', 10)]
    >>> parse("json.**", "profile, pattern")
    [('json.**', '_', '_')]
    """
    if isinstance(given, list):
        if not given:
            raise bad(where, "an empty list names no function", 'use "_" for every function')
        return [_one(item, where) for item in given]
    return [_one(given, where)]


def covers(outer: Pattern, inner: Pattern) -> bool:
    """Whether every function of ``inner`` is one of ``outer``.

    >>> covers(("json", "_", "_"), ("json", "loads", 8)), covers(("json.**", "_", "_"), ("json.decoder", "_", "_"))
    (True, True)
    """
    return _covers(outer[0], inner[0]) and all(o in (ANY, i) for o, i in zip(outer[1:], inner[1:], strict=True))


def _covers(outer: str, inner: str) -> bool:
    """Whether a pattern of modules contains another one, or a module."""
    if outer in (ANY, inner):
        return True
    if not outer.endswith(BELOW):
        return False
    return f"{inner.removesuffix(BELOW)}.".startswith(f"{outer.removesuffix(BELOW)}.")


def matches(pattern: Pattern, module: str, function: str, arity: int) -> bool:
    """Whether the pattern matches this function.

    >>> matches(("json", "_", "_"), "json.decoder", "scan", 2)
    False
    """
    return covers(pattern, (module, function, arity))


def outermost(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns that no other one covers, in their order.

    >>> outermost([("json", "loads", 8), ("json", "_", "_"), ("re", "_", "_")])
    [('json', '_', '_'), ('re', '_', '_')]
    """
    distinct = list(dict.fromkeys(patterns))
    return [p for p in distinct if not any(q != p and covers(q, p) for q in distinct)]


def show(pattern: Pattern) -> str:
    """The pattern in the form of the command line.

    >>> show(("json", "loads", "_"))
    'json:loads:_'
    """
    return ":".join(str(part) for part in pattern)


def hint(pattern: Pattern) -> str:
    """A suggestion for a pattern that matches no loaded function; "" if it matches one, or if no name is similar.

    No code of the program runs: only the dictionaries of modules are read.

    >>> import json
    >>> hint(("jsn", "_", "_")), hint(("json", "load_s", "_")), hint(("json", "loads", "_"))
    ("did you mean 'json'?", "did you mean 'json:loads'?", '')
    """
    module, function, arity = pattern
    base = module.removesuffix(BELOW)
    loaded = [name for name in list(sys.modules) if isinstance(name, str)]
    if module == ANY:
        return ""
    if base not in loaded:
        near = difflib.get_close_matches(base, loaded, 1)
        return f"did you mean {near[0]!r}?" if near else ""
    if function == ANY:
        inside = base == module and any(name.startswith(f"{base}.") for name in loaded)
        return f"{base} is a package; {base + BELOW!r} takes what is below it, too" if inside else ""
    names = _functions(sys.modules[base])
    if function not in names:
        near = difflib.get_close_matches(function, names, 1)
        return f"did you mean {f'{base}:{near[0]}'!r}?" if near else ""
    return ""


def _functions(module: object) -> list[str]:
    """The qualified names of a module's functions and its classes' methods."""
    if not isinstance(module, types.ModuleType):
        return []
    names = []
    for name, value in list(_dict_of(module).items()):
        if type(value) in _FUNCTIONS:
            names.append(str(name))
        elif type(value) is type:
            names += [f"{name}.{inner}" for inner, it in list(_dict_of_class(value).items()) if type(it) in _FUNCTIONS]
    return names


_dict_of: Any = vars(types.ModuleType)["__dict__"].__get__
_dict_of_class: Any = type.__dict__["__dict__"].__get__
_FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, staticmethod, classmethod


def _one(given: object, where: str) -> Pattern:
    module, function, arity = _split(given, where)
    if not (is_text(module) and is_text(function)):
        raise bad(
            where,
            f"{shown(given)} has a lone surrogate",
            "nothing has such a name; write it in the terminal's encoding",
        )
    if "*" in function or "*" in module.removesuffix(BELOW) or module == BELOW:
        raise bad(
            where,
            f"{shown(given)} has a '*' that stands for nothing",
            "package.** is a package and all below it, _ is any",
        )
    if module.endswith(BELOW) and function != ANY:
        raise bad(where, f"{shown(given)} names a function below a package", "package.** takes all its functions")
    if function == ANY and arity != ANY:
        raise bad(
            where,
            f"{shown(given)} has an arity but any function",
            'an arity needs a function name; use "_" for the arity',
        )
    if module == ANY and function != ANY:
        raise bad(where, f"{shown(given)} has a function but any module", "name the module too")
    return module, function, arity


def bad(where: str, wrong: str, mend: str) -> BadArg:
    """Makes a ``BadArg`` from the place (``"function, argument"``), the mistake and the remedy."""
    function, _, argument = where.partition(", ")
    return BadArg(function, argument, f"{wrong}; {mend}")


def _split(given: object, where: str) -> Pattern:
    if isinstance(given, str):
        parts: tuple[object, ...] = tuple(given.split(":"))
        if given.count(":") == 1 and "/" in given.partition(":")[2]:
            head, _, arity = given.rpartition("/")
            parts = (*head.split(":"), arity)
        if len(parts) > 3:
            raise bad(where, f"{shown(given)} has {len(parts)} parts", "write module:function:arity")
        parts += (ANY,) * (3 - len(parts))
    elif isinstance(given, tuple) and len(given) == 3:
        parts = given
    else:
        raise bad(
            where, f"{shown(given)} is not a pattern", 'write ("module", "function", arity) or "module:function:arity"'
        )
    match parts:
        case (str(module), str(name), number) if module and name:
            return module, name, _arity(number, given, where)
    raise bad(where, f"{shown(given)} lacks a module or a function name", 'both are non-empty strings; "_" takes any')


def _arity(number: object, given: object, where: str) -> int | Literal["_"]:
    if isinstance(number, str) and number == ANY:
        return ANY
    if isinstance(given, str) and isinstance(number, str) and number.isdecimal():
        return int(number)
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    raise bad(
        where, f"{shown(number)} in {shown(given)} is not an arity", 'give the number of declared parameters, or "_"'
    )
