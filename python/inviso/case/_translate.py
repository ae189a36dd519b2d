"""Replaces calls of a trace case before anything is evaluated, so dropped arguments need no bindings."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from inviso.errors import BadArg, shown

from ._parse import call_of

__all__ = ["checked", "drop_first", "translated"]

Translation = tuple[str | None, str, int, str, str, Any]
"""Module, function and arity of a call; the new module and function, and the function that makes the arguments."""

_Node = TypeVar("_Node", bound=ast.AST)

_OF_ERLANG = {("erlang", "tl"): ("inviso.case", "drop_first")}


def drop_first(arguments: list[ast.expr]) -> list[ast.expr]:
    """All arguments but the first, as Erlang's ``tl``: for calls whose first argument is a list of nodes.

    >>> import ast
    >>> [ast.unparse(each) for each in drop_first(ast.parse("f(Nodes, 1)").body[0].value.args)]
    ['1']
    """
    return arguments[1:]


def checked(translations: Iterable[Any]) -> list[Translation]:
    """Checks translations. ``BadArg`` names the first that is malformed.

    >>> checked([(("inviso", "tf", 3), ("inviso_rt", "tf", ("erlang", "tl")))])
    [('inviso', 'tf', 3, 'inviso_rt', 'tf', ('erlang', 'tl'))]
    """
    made: list[Translation] = []
    for each in translations:
        match each:
            case ((str(module), str(function), int(arity)), (str(other), str(name), munge)):
                made.append((module, function, arity, other, name, munge))
            case ((str(function), int(arity)), (str(other), str(name), munge)):
                made.append((None, function, arity, other, name, munge))
            case _:
                why = (
                    f"{shown(each)} is not a translation; write ((module, function, arity), (module, function, munge))"
                )
                raise BadArg("case.run", "translations", why)
    return made


def translated(tree: _Node, translations: list[Translation]) -> _Node:
    """The tree with all calls translated, nested ones too."""
    found: _Node = _Translator(translations).visit(tree)
    return found


class _Translator(ast.NodeTransformer):
    def __init__(self, translations: list[Translation]) -> None:
        self._translations = translations

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self.generic_visit(self._translated(node))

    def _translated(self, node: ast.Call) -> ast.Call:
        named = call_of(node)
        if named is None:
            return node
        for module, function, arity, other, name, munge in self._translations:
            if (module or "", function, arity) == (*named, len(node.args)):
                arguments = _munged(munge, node.args)
                if arguments is None:
                    return node
                made = ast.Call(_name(other, name), arguments, node.keywords)
                return ast.fix_missing_locations(ast.copy_location(made, node))
        return node


def _name(module: str, function: str) -> ast.expr:
    names = [*module.split("."), function] if module else [function]
    found: ast.expr = ast.Name(names[0], ast.Load())
    for name in names[1:]:
        found = ast.Attribute(found, name, ast.Load())
    return found


def _munged(munge: Any, arguments: list[ast.expr]) -> list[ast.expr] | None:
    """The new arguments; None if the function that makes them fails."""
    function: Callable[[list[ast.expr]], Any]
    match munge:
        case (str(module), str(name)):
            module, name = _OF_ERLANG.get((module, name), (module, name))
            try:
                function = getattr(importlib.import_module(module), name)
            except Exception:
                return None
        case _ if callable(munge):
            function = munge
        case _:
            return arguments
    try:
        made = function(list(arguments))
    except Exception:
        return None
    return made if isinstance(made, list) and all(isinstance(one, ast.expr) for one in made) else None
