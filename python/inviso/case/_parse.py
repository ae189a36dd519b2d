"""Splits a trace case into statements, so that a bad one does not affect the others, and checks their parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Problem", "call_of", "statements"]

LONGEST = 200
"""Lines of one statement, at most, in a file with a bad statement."""

DEEPEST = 60

_EXPRESSIONS = (
    *(ast.Call, ast.Name, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_PARTS = (ast.comprehension, ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_WHAT = "write calls of module.function(...), names, literals, operators, comprehensions, conditionals and assignments"


@dataclass(frozen=True, slots=True)
class Problem:
    """A skipped statement: its line, counted from 1, and the reason.

    >>> Problem(3, "'x' is not bound").line
    3
    """

    line: int
    why: str


def statements(text: str) -> Iterator[tuple[int, ast.Expr | ast.Assign] | Problem]:
    """The statements of a text with their lines, in order. A bad one has a :class:`Problem` in its place.

    >>> [each if isinstance(each, Problem) else each[0] for each in statements("a = 1\\nb = = 2\\n\\nm.f(a)")]
    [1, Problem(line=2, why='invalid syntax'), 4]
    """
    for line, found in _split(text):
        if isinstance(found, str):
            yield Problem(line, found)
            continue
        why = _wrong(found)
        if why is not None:
            yield Problem(line, why)
        elif isinstance(found, (ast.Expr, ast.Assign)):
            yield line, found


def _split(text: str) -> Iterator[tuple[int, ast.stmt | str]]:
    whole = _parsed(text)
    if not isinstance(whole, str):
        yield from ((each.lineno, each) for each in whole)
        return
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        end, found = _longest(lines, at)
        if isinstance(found, str):
            yield at + 1, found
        else:
            yield from ((at + each.lineno, each) for each in found)
        at = end


def _longest(lines: list[str], at: int) -> tuple[int, list[ast.stmt] | str]:
    """The longest run of lines from one line that parses: the line after it, and its statements or the error."""
    why = ""
    for end in range(at + 1, min(len(lines), at + LONGEST) + 1):
        found = _parsed("".join(lines[at:end]))
        if not isinstance(found, str):
            return end, found
        why = why or found
    end = at + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t", ")", "]", "}"):
        end += 1
    return end, why


def _parsed(text: str) -> list[ast.stmt] | str:
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        return error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it can't be read: {error}"


def _wrong(statement: ast.stmt) -> str | None:
    """The error of a statement that is not allowed; None if it is allowed."""
    match statement:
        case ast.Expr(value=value):
            return _wrong_in(value, 0)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                for name in names:
                    if not isinstance(name, ast.Name):
                        return f"{_shown(target)} can't be bound; write names"
            return _wrong_in(value, 0)
    return f"{_shown(statement)} is not part of a trace case; {_WHAT}"


def _wrong_in(node: ast.AST, depth: int) -> str | None:
    if depth > DEEPEST:
        return "it is nested too deep"
    if isinstance(node, ast.Call):
        if call_of(node) is None:
            return f"{_shown(node.func)} can't be called; write module.function(...)"
        parts: list[ast.AST] = [*node.args, *node.keywords]
        if any(isinstance(word, ast.keyword) and word.arg is None for word in parts):
            return f"{_shown(node)}: write each argument by itself"
    elif isinstance(node, (*_EXPRESSIONS, *_PARTS)):
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Dict) and None in node.keys:
            return f"{_shown(node)}: write each pair by itself"
        if isinstance(node, ast.comprehension) and node.is_async:
            return "an asynchronous comprehension is not part of a trace case"
    else:
        return f"{_shown(node)} is not part of a trace case; {_WHAT}"
    for part in parts:
        why = _wrong_in(part, depth + 1)
        if why is not None:
            return why
    return None


def call_of(node: ast.Call) -> tuple[str, str] | None:
    """Module ("" without one) and function of a call; None if it is neither ``f(...)`` nor ``a.b.f(...)``."""
    names: list[str] = []
    at: ast.expr = node.func
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    if not isinstance(at, ast.Name):
        return None
    names.append(at.id)
    if any(name.startswith("_") for name in names):
        return None
    function, *modules = names
    return ".".join(reversed(modules)), function


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).partition("\n")[0]
    return f"'{text[:80]}'"
