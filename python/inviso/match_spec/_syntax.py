"""Parts of syntax trees."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["by_name", "codes", "computed", "conjuncts", "object_of", "pairs"]


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from codes(inner)


def computed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are computed whenever ``node`` is: all below it except those in conditions of their own."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.Compare | ast.BoolOp | ast.IfExp):
            yield from computed(inner)


def pairs(node: ast.Compare) -> Iterator[ast.Compare]:
    sides = [node.left, *node.comparators]
    for op, a, b in zip(node.ops, sides, sides[1:], strict=False):
        yield ast.copy_location(ast.Compare(a, [op], [b]), node)


def conjuncts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in conjuncts(value)]
    return [node]


def object_of(place: Any) -> Any:
    """The operand of a ``len`` or an index."""
    return place.args[0] if isinstance(place, ast.Call) else place.value


def by_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return "name the function: length, tuple_size, map_size or byte_size"
    return "name the function: element(n, x), hd(x), map_get(k, x)"
