"""Writes terms as Python source and reads them: literals, and calls of the term classes. The source never runs."""

from __future__ import annotations

import ast
from typing import Any, Final

from .match_spec import Prefix
from .terms import Atom, BitString, ImproperList, Map

__all__ = ["NotLiteral", "read", "read_all", "written"]


def _float(text: str) -> float:
    if text not in _ODD_FLOATS:
        raise ValueError(f"{text!r} is none of {', '.join(_ODD_FLOATS)}")
    return float(text)


_ODD_FLOATS: Final = ("nan", "inf", "-inf")
_CLASSES: Final[dict[str, Any]] = {
    "Atom": Atom,
    "BitString": BitString,
    "ImproperList": ImproperList,
    "Map": Map,
    "Prefix": Prefix,
    "float": _float,
    "frozenset": frozenset,
}
_DEEPEST = 60


class NotLiteral(ValueError):
    """Text that is not a term. The error has the place and the cause."""


def read(text: str) -> Any:
    """Reads a text with one term.

    >>> read("[('_', [], [('message', Atom('a'))])]")
    [('_', [], [('message', 'a')])]
    >>> read("open('f')")
    Traceback (most recent call last):
    ...
    inviso._literal.NotLiteral: line 1: 'open('f')' is not a literal; write values, lists, tuples, dicts, Atom('a')
    """
    terms = read_all(text)
    if len(terms) != 1:
        raise NotLiteral(f"there are {len(terms)} terms; write one")
    return terms[0]


def read_all(text: str) -> list[Any]:
    """Reads all terms of a text. Each one begins on a new line.

    >>> read_all("[1,\\n 2]  # a comment\\n-3.5")
    [[1, 2], -3.5]
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NotLiteral(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise NotLiteral("line 1: it can't be read; it is nested too deep, or has null bytes") from None
    return [_term(statement.value if isinstance(statement, ast.Expr) else statement, 0) for statement in tree.body]


def written(term: Any) -> str:
    """Writes a term as text for :func:`read`. Raises :class:`NotLiteral` for a value that only its process has, such as
    a pid.

    >>> written([("_", [], [("message", Atom("a"))])])
    "[('_', [], [('message', Atom('a'))])]"
    >>> written([float("nan"), {1}])
    "[float('nan'), frozenset([1])]"
    """
    match term:
        case Atom():
            return f"Atom({str(term)!r})"
        case Prefix():
            return f"Prefix({', '.join(map(written, term.elements))})"
        case ImproperList():
            return f"ImproperList({written(term.elements)}, {written(term.tail)})"
        case Map():
            return f"Map({written(term.pairs)})"
        case tuple():
            return f"({', '.join(map(written, term))}{',' * (len(term) == 1)})"
        case list():
            return f"[{', '.join(map(written, term))}]"
        case dict():
            return "{" + ", ".join(f"{written(key)}: {written(value)}" for key, value in term.items()) + "}"
        case set() | frozenset():
            return f"frozenset([{', '.join(map(written, term))}])"
        case None | bool() | BitString():
            return repr(term)
        case int():
            # Python refuses to write and read very long ints as decimals
            return int.__repr__(term) if term.bit_length() < 4096 else hex(term)
        case float():
            text = float.__repr__(term)
            return f"float({text!r})" if text in _ODD_FLOATS else text
        case str():
            return str.__repr__(term)
        case bytes():
            return bytes.__repr__(term)
    raise NotLiteral(f"{term!r} can't be written as a literal")


def _term(node: ast.AST, depth: int) -> Any:
    if depth > _DEEPEST:
        raise NotLiteral(f"line {getattr(node, 'lineno', 1)}: it is nested too deep")
    below = depth + 1
    match node:
        case ast.Constant(value=value) if value is not ...:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            if not isinstance(value, bool):
                return -value
        case ast.Tuple(elts=elements):
            return tuple(_term(each, below) for each in elements)
        case ast.List(elts=elements):
            return [_term(each, below) for each in elements]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = [(_term(key, below), _term(value, below)) for key, value in zip(keys, values, strict=True) if key]
            try:
                return dict(pairs)
            except TypeError:
                raise NotLiteral(f"line {node.lineno}: a key of a dict is a list or dict; write Map([...])") from None
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CLASSES:
            given = [_term(each, below) for each in arguments]
            try:
                return _CLASSES[name](*given)
            except (TypeError, ValueError) as error:
                raise NotLiteral(f"line {node.lineno}: {name}: {error}") from None
    what = ast.unparse(node)
    raise NotLiteral(
        f"line {getattr(node, 'lineno', 1)}: '{what[:80]}' is not a literal; "
        "write values, lists, tuples, dicts, Atom('a')"
    )
