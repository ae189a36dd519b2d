"""Match specifications as values and as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from inviso.terms import Atom, ImproperList

__all__ = ["MatchSpec", "Prefix", "format", "is_variable"]


class Prefix(ImproperList):
    """A clause's head that matches calls with these first arguments, and any others after them.

    >>> match_spec_test([1, 2, 3], [(Prefix(1, "$1"), [], [("message", "$1")])], "trace")
    ('ok', 2, [], [])
    """

    __slots__ = ()

    def __init__(self, *patterns: Any) -> None:
        super().__init__(patterns, "_")

    def __repr__(self) -> str:
        return f"Prefix({', '.join(map(repr, self.elements))})"


class MatchSpec(list[Any]):
    """A match specification from :func:`ms`: a list that prints as readable text.

    >>> MatchSpec([("_", [], [])]) == [("_", [], [])]
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"MatchSpec({super().__repr__()})"

    def __str__(self) -> str:
        return format(self)


def is_variable(text: str) -> bool:
    """Whether a str is a variable in a match specification: ``_``, ``$_``, ``$$``, ``$0``, ``$1`` …."""
    return re.fullmatch(r"_|\$(?:[_$]|0|[1-9][0-9]{0,8})", text) is not None


def format(match_spec: Iterable[Any]) -> str:
    """Formats a match specification as readable text, with a line for each clause.

    >>> format([(["$1", inviso.Atom("a")], [], []), ("_", [("is_integer", "$1")], [("message", {"n": "$1"})])])
    "[$1, Atom('a')]\\n_ when is_integer($1) -> message({'n': $1})"
    """
    return "\n".join(map(_clause, match_spec))


def _clause(clause: Any) -> str:
    match clause:
        case (head, list() as guards, list() as body):
            pass
        case _:
            return repr(clause)
    text = _pattern(head)
    if guards:
        text += " when " + " and ".join(_operand(guard, "and") for guard in guards)
    return text + (" -> " + ", ".join(map(_expression, body)) if body else "")


_INFIX = {
    "==": "==", "/=": "!=", "=:=": "=:=", "=/=": "=/=", "<": "<", "=<": "<=", ">": ">", ">=": ">=", "+": "+", "-": "-",
    "*": "*", "/": "/", "div": "div", "rem": "rem", "band": "&", "bor": "|", "bxor": "^", "bsl": "<<", "bsr": ">>",
    "andalso": "and", "orelse": "or",
}  # fmt: skip
_TIGHT = frozenset(_INFIX) - {"andalso", "orelse"}


def _pattern(pattern: Any) -> str:
    """As :func:`_expression`, but a tuple stands for itself."""
    if isinstance(pattern, ImproperList):
        return f"[{', '.join(map(_pattern, pattern.elements))} | {_pattern(pattern.tail)}]"
    if isinstance(pattern, tuple):
        return f"({', '.join(map(_pattern, pattern))}{',' * (len(pattern) == 1)})"
    if isinstance(pattern, list):
        return f"[{', '.join(map(_pattern, pattern))}]"
    if isinstance(pattern, dict):
        return "{" + ", ".join(f"{key!r}: {_pattern(value)}" for key, value in pattern.items()) + "}"
    return _plain(pattern)


def _expression(expression: Any) -> str:
    if isinstance(expression, list):
        return f"[{', '.join(map(_expression, expression))}]"
    if isinstance(expression, dict):
        return "{" + ", ".join(f"{_expression(key)}: {_expression(value)}" for key, value in expression.items()) + "}"
    if not isinstance(expression, tuple) or not expression:
        return _plain(expression)
    name, *operands = expression
    if isinstance(name, tuple) and not operands:
        return f"({', '.join(map(_expression, name))}{',' * (len(name) == 1)})"
    if not isinstance(name, str):
        return repr(expression)
    if name == "const":
        return f"const({', '.join(map(repr, operands))})"
    if name == "not" and len(operands) == 1:
        return f"not {_operand(operands[0], name)}"
    if name in _INFIX and (len(operands) == 2 or (len(operands) > 2 and name not in _TIGHT)):
        return f" {_INFIX[name]} ".join(_operand(operand, name) for operand in operands)
    return f"{name}({', '.join(map(_expression, operands))})"


def _operand(expression: Any, around: str) -> str:
    text = _expression(expression)
    inner = expression[0] if isinstance(expression, tuple) and len(expression) > 2 else None
    if not isinstance(inner, str) or inner not in _INFIX:
        return text
    loose = around in ("and", "andalso", "orelse", "not")
    return text if loose and inner in _TIGHT and around != "not" else f"({text})"


def _plain(value: Any) -> str:
    if isinstance(value, Atom):
        return f"Atom({str(value)!r})"
    return value if isinstance(value, str) and is_variable(value) else repr(value)
