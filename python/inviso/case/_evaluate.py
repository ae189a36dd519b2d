"""Evaluates checked expressions. Nothing is compiled: only the nodes that are listed here have values."""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from inviso import process
from inviso.match_spec import Prefix
from inviso.terms import Atom, BitString, ImproperList, Map

from ._parse import call_of

__all__ = ["Failed", "bound", "same", "value"]

MODULES = {"inviso": "inviso.control", "inviso_rt": "inviso.runtime", "inviso_rt_meta": "inviso.meta"}
"""The modules behind the names of Inviso that trace cases use."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{"Atom": Atom, "BitString": BitString, "ImproperList": ImproperList, "Map": Map, "Prefix": Prefix},
    **{"frozenset": frozenset, "len": len, "range": range},
    **{"node": process.node, "registered": process.registered, "self": process.self, "whereis": process.whereis},
}
"""The functions that can be called without a module."""

_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}

Names = Mapping[str, Any]


class Failed(Exception):
    """A statement has no value; the text says why."""


def value(node: ast.expr, names: Names) -> Any:
    """The value of an expression.

    Raises:
        Failed: a name is not bound, or a called function does not exist.
        Exception: any exception of a function that it calls.
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id=name):
            if name not in names:
                raise Failed(f"{name!r} is not bound")
            return names[name]
        case ast.List(elts=elements):
            return [value(each, names) for each in elements]
        case ast.Tuple(elts=elements):
            return tuple(value(each, names) for each in elements)
        case ast.Set(elts=elements):
            return {value(each, names) for each in elements}
        case ast.Dict(keys=keys, values=values):
            return {value(k, names): value(v, names) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](value(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](value(left, names), value(right, names))
        case ast.BoolOp(op=op, values=values):
            return _bool(isinstance(op, ast.And), values, names)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compare(value(left, names), ops, others, names)
        case ast.IfExp(test=test, body=body, orelse=other):
            return value(body, names) if value(test, names) else value(other, names)
        case ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators):
            return [value(element, inner) for inner in _each(generators, names)]
        case ast.SetComp(elt=element, generators=generators):
            return {value(element, inner) for inner in _each(generators, names)}
        case ast.DictComp(key=key, value=element, generators=generators):
            return {value(key, inner): value(element, inner) for inner in _each(generators, names)}
        case ast.Call():
            function = _function(node)
            arguments = [value(each, names) for each in node.args]
            named = {word.arg: value(word.value, names) for word in node.keywords if word.arg is not None}
            return function(*arguments, **named)
    raise Failed(f"'{ast.unparse(node)[:80]}' has no value in a trace case")


def _function(node: ast.Call) -> Callable[..., Any]:
    named = call_of(node)
    if named is None:
        raise Failed(f"'{ast.unparse(node.func)[:80]}' can't be called")
    module, name = named
    if not module:
        if name not in FUNCTIONS:
            raise Failed(f"there is no function {name!r} without a module; there are {', '.join(FUNCTIONS)}")
        return FUNCTIONS[name]
    try:
        found = getattr(importlib.import_module(MODULES.get(module, module)), name)
    except (ImportError, AttributeError) as error:
        raise Failed(f"there is no function {module}.{name}: {error}") from None
    if not callable(found):
        raise Failed(f"{module}.{name} is not a function")
    function: Callable[..., Any] = found
    return function


def _bool(is_and: bool, values: list[ast.expr], names: Names) -> Any:
    found: Any = is_and
    for each in values:
        found = value(each, names)
        if bool(found) is not is_and:
            return found
    return found


def _compare(left: Any, ops: list[ast.cmpop], others: list[ast.expr], names: Names) -> Any:
    answer: Any = True
    for op, other in zip(ops, others, strict=True):
        right = value(other, names)
        answer = _COMPARE[type(op)](left, right)
        if not answer:
            return answer
        left = right
    return answer


def _each(generators: list[ast.comprehension], names: Names) -> Iterator[Names]:
    if not generators:
        yield names
        return
    first, *rest = generators
    for element in value(first.iter, names):
        inner = {**names, **bound(first.target, element)}
        if all(value(test, inner) for test in first.ifs):
            yield from _each(rest, inner)


def bound(target: ast.expr, given: Any) -> dict[str, Any]:
    """The names of a target with their values. ``Failed`` if target and value don't match."""
    if isinstance(target, ast.Name):
        return {target.id: given}
    if isinstance(target, (ast.Tuple, ast.List)):
        if not isinstance(given, (tuple, list)) or len(given) != len(target.elts):
            raise Failed(f"'{ast.unparse(target)}' does not match {given!r:.80}")
        made: dict[str, Any] = {}
        for one, part in zip(target.elts, given, strict=True):
            for name, found in bound(one, part).items():
                if name in made and not same(made[name], found):
                    raise Failed(f"{name!r} can't be two values at once")
                made[name] = found
        return made
    raise Failed(f"'{ast.unparse(target)}' can't be bound")


def same(one: Any, other: Any) -> bool:
    """Whether a name with one value may be bound again to the other."""
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:
        return False
