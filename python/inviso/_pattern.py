"""Which functions are meant: reading, checking and comparing patterns.

A pattern names functions as ``inviso.trace`` does, by module, qualified name and arity, with ``"_"`` for any. The forms
nest: of two patterns that have a function in common one holds all of the other, so ``outermost`` can thin a list out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from .errors import BadArg, is_text, shown

__all__ = ["Pattern", "PatternLike", "covers", "matches", "outermost", "parse", "show"]

Pattern: TypeAlias = tuple[str, str, int | Literal["_"]]
"""``(module, function, arity)``; the last, the last two or all three may be ``"_"``."""

PatternLike: TypeAlias = str | Pattern | list[str | Pattern]
"""One pattern, as a tuple or as ``"module:function:arity"``, or a list of them."""

ANY: Final = "_"


def parse(given: object, where: str) -> list[Pattern]:
    """The patterns that ``given`` stands for; ``where`` begins the text of a refusal.

    >>> parse("json.decoder", "profile, pattern")
    [('json.decoder', '_', '_')]
    >>> parse(["json:loads:_", ("json", "dumps", 10)], "profile, pattern")
    [('json', 'loads', '_'), ('json', 'dumps', 10)]
    """
    if isinstance(given, list):
        if not given:
            raise bad(where, "an empty list names no function", 'use "_" for every function')
        return [_one(item, where) for item in given]
    return [_one(given, where)]


def covers(outer: Pattern, inner: Pattern) -> bool:
    """Whether every function of ``inner`` is one of ``outer``.

    >>> covers(("json", "_", "_"), ("json", "loads", 8))
    True
    """
    return all(o in (ANY, i) for o, i in zip(outer, inner, strict=True))


def matches(pattern: Pattern, module: str, function: str, arity: int) -> bool:
    """Whether the pattern takes this function.

    >>> matches(("json", "_", "_"), "json.decoder", "scan", 2)
    False
    """
    return covers(pattern, (module, function, arity))


def outermost(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns without those that another one covers, in order.

    >>> outermost([("json", "loads", 8), ("json", "_", "_"), ("re", "_", "_")])
    [('json', '_', '_'), ('re', '_', '_')]
    """
    distinct = list(dict.fromkeys(patterns))
    return [p for p in distinct if not any(q != p and covers(q, p) for q in distinct)]


def show(pattern: Pattern) -> str:
    """The pattern as the command line takes it.

    >>> show(("json", "loads", "_"))
    'json:loads:_'
    """
    return ":".join(str(part) for part in pattern)


def _one(given: object, where: str) -> Pattern:
    module, function, arity = _split(given, where)
    if not (is_text(module) and is_text(function)):
        raise bad(where, f"{shown(given)} has a lone surrogate", "nothing has such a name; write it in the terminal's encoding")
    if function == ANY and arity != ANY:
        raise bad(
            where, f"{shown(given)} has an arity but any function", 'an arity needs a function name; use "_" for the arity'
        )
    if module == ANY and function != ANY:
        raise bad(where, f"{shown(given)} has a function but any module", "name the module too")
    return module, function, arity


def bad(where: str, wrong: str, mend: str) -> BadArg:
    """The ``BadArg`` to raise: where it was given (``"function, argument"``), what is wrong with it, what to do."""
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
    raise bad(where, f"{shown(number)} in {shown(given)} is not an arity", 'give the number of declared parameters, or "_"')
