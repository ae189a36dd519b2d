"""Match specifications: which calls are wanted, and what their messages carry (OTP's match specs).

A specification is a list of clauses ``(head, guards, body)``. The first clause whose head looks like the arguments and
whose guards are all True decides. It is checked and compiled when it is set, and runs over live objects without running
any of the program's code. Write one by hand, or have :func:`ms` make it from a lambda:

>>> spec = ms(lambda self, amount: amount > 100 and return_trace())
>>> spec
MatchSpec([(['_', '$2'], [('>', '$2', 100)], [('return_trace',)])])
>>> print(spec)
[_, $2] when $2 > 100 -> return_trace()
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _native
from .errors import BadArg, SystemLimit, shown
from .terms import Atom, ImproperList

if TYPE_CHECKING:
    Tested = tuple[Literal["ok"], Any, list[Any], list["Problem"]] | tuple[Literal["error"], list["Problem"]]

__all__ = ["MatchSpec", "Prefix", "Problem", "format", "match_spec_test", "ms"]


class Problem(NamedTuple):
    """What is wrong with a match specification.

    >>> match_spec_test([], [("_", [("<", "$1", 2)], [])])
    ('error', [Problem(severity='error', kind='unbound_variable', text='clause 1, guard 1: ...')])
    """

    severity: str
    """``"error"``, or ``"warning"``: it is taken, but hardly meant so."""
    kind: str
    """A word for it."""
    text: str
    """Where it is, what is wrong, and what would be right."""


class Prefix(ImproperList):
    """The head of a clause that takes calls with these first arguments, and any others after them.

    >>> match_spec_test([1, 2, 3], [(Prefix(1, "$1"), [], [("message", "$1")])], "trace")
    ('ok', 2, [], [])
    """

    __slots__ = ()

    def __init__(self, *patterns: Any) -> None:
        super().__init__(patterns, "_")

    def __repr__(self) -> str:
        return f"Prefix({', '.join(map(repr, self.elements))})"


class MatchSpec(list[Any]):
    """A match specification as :func:`ms` makes it: a list, which prints as a rule.

    >>> MatchSpec([("_", [], [])]) == [("_", [], [])]
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"MatchSpec({super().__repr__()})"

    def __str__(self) -> str:
        return format(self)


def ms(*functions: Callable[..., Any] | str | Iterable[Callable[..., Any] | str]) -> MatchSpec:
    """Makes a match specification from the source of lambdas, one clause each (dbg.md, ``fun2ms``).

    Nothing of the lambda ever runs. Its parameters stand for the arguments, by position or, after a ``*``, by name. Its
    expression is conditions joined by ``and``, then actions; or a tuple of actions. In conditions: comparisons,
    arithmetic, ``and``, ``or``, ``not``, ``in`` with a literal, ``is None``, ``isinstance``, ``len``, indices,
    attributes, and the guard functions by their names. Names from around the lambda are taken as what they are now.
    Comparisons are Erlang's: values of different types are in order, True is not 1, and a str equals the bytes of its
    UTF-8.

    Args:
        functions: lambdas, or functions that only return an expression, whose source is known; the source of a lambda
            as a str, which is not run either, and knows no names from around; or lists of them.

    Raises:
        BadArg: what can't be expressed, with its line and column; or the source is not known.

    >>> ms(lambda *args: True, lambda a, b: a != b and message((a, b)))
    MatchSpec([('_', [], []), (['$1', '$2'], [('/=', '$1', '$2')], [('message', (('$1', '$2'),))])])
    >>> print(ms(lambda order, *, retries: order.total > 100 and retries in (2, 3)))
    [$1 | _] when attr($1, 'total') > 100 and (arg('retries') == 2 or arg('retries') == 3)
    >>> ms("lambda a: a > 100")
    MatchSpec([(['$1'], [('>', '$1', 100)], [])])
    >>> ms(lambda a: print(a))
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: ms/1, functions: ...: a call of 'print' can't be expressed; no code of ...
    """
    where = "ms/1"
    every: list[Any] = []
    for given in functions:
        every += given if isinstance(given, list | tuple) else [given]
    if not every:
        raise BadArg(where, "functions", "there is none; pass a lambda such as lambda a, b: a > b")
    fun2ms = importlib.import_module("._fun2ms", __package__)
    made = MatchSpec()
    for given in every:
        function = fun2ms.of_source(given) if isinstance(given, str) else given
        try:
            clause = fun2ms.clause(function)
        finally:
            if isinstance(given, str):
                fun2ms.forget(function)
        try:
            compiled(where, [clause], "call")
        except BadArg as error:  # a number of arguments, or a function where it may not stand
            place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            raise BadArg(where, "functions", f"{place}: {error.why}") from None
        made.append(clause)
    return made


def format(match_spec: Iterable[Any]) -> str:
    """A match specification for people, a line for each clause.

    >>> format([(["$1", Atom("a")], [], []), ("_", [("is_integer", "$1")], [("message", {"n": "$1"})])])
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
    """As :func:`_expression`, where a tuple is one."""
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


def is_variable(text: str) -> bool:
    """Whether a str is no str in a match specification: ``_``, ``$_``, ``$$``, ``$0``, ``$1`` …."""
    return re.fullmatch(r"_|\$(?:[_$]|0|[1-9][0-9]{0,8})", text) is not None


def match_spec_test(subject: Any, match_spec: list[Any], mode: Literal["trace", "table"] = "trace") -> Tested:
    """Runs a match specification on a value, without tracing anything (erlang.md, ``match_spec_test/3``).

    Args:
        subject: a list of arguments (``"trace"``), or any value (``"table"``).
        match_spec: what is tested.
        mode: ``"trace"``: as at a call. ``"table"``: the last expression of the body is the result.

    Returns:
        ``("ok", result, flags, warnings)``: the result is True, or False where nothing matches or the message is kept
        back, or the message's extra element; flags are out of exception_trace and return_trace. Or
        ``("error", problems)``, each a :class:`Problem`. Actions are checked, but switch nothing.

    Raises:
        BadArg: ``subject`` is no list in mode ``"trace"``; an unknown mode; something in the spec is no term.
        SystemLimit: the spec is nested too deep.

    >>> match_spec_test([5, 7], [(["$1", "$2"], [("<", "$1", "$2")], [("message", ("+", "$1", "$2"))])])
    ('ok', 12, [], [])
    """
    where = "match_spec_test/3"
    table = word(mode) == "table"
    if not table and word(mode) != "trace":
        raise BadArg(where, "mode", f"{shown(mode)} is no mode; pass 'trace' or 'table'")
    if not table and derives(subject, ImproperList):
        with suppress(AttributeError):
            subject = object.__getattribute__(subject, "elements")  # what comes after the arguments is no argument
    if not (table or derives(subject, list)):
        raise BadArg(where, "subject", f"{shown(subject)} is no list of arguments; pass one such as [1, 'a']")
    try:
        result, flags, found = _native.match_spec_test(subject, match_spec, table)
    except TypeError as error:
        raise _no_term(where, error) from None
    except _native.LimitReached:
        raise _too_deep(where) from None
    problems = [Problem(Atom(severity), Atom(kind), text) for severity, kind, text in found]
    if any(problem.severity == "error" for problem in problems):
        return (Atom("error"), problems)
    return (Atom("ok"), result, [Atom(flag) for flag in flags], problems)


def compiled(where: str, match_spec: Any, context: str) -> _native.MatchProgram:
    """A match specification for a call of ``where``, which takes it as its argument ``match_spec``."""
    try:
        program, problems = _native.match_compile(match_spec, context)
    except TypeError as error:
        raise _no_term(where, error) from None
    except _native.LimitReached:
        raise _too_deep(where) from None
    if program is None:
        if any(kind == "system_limit" for _, kind, _ in problems):
            raise _too_deep(where)
        raise BadArg(where, "match_spec", "; ".join(text for severity, _, text in problems if severity == "error"))
    return program


def derives(value: object, kind: type) -> bool:
    """Whether it is of that class, whatever it says of itself."""
    return issubclass(type(value), kind)


def word(value: object) -> str | None:
    """The characters of a str, without asking it; None for anything else."""
    return str.__str__(value) if issubclass(type(value), str) else None


def _no_term(where: str, error: TypeError) -> BadArg:
    why = f"{error}; compare numbers, text, atoms, pids, tuples, lists, dicts, or ask with is_instance"
    return BadArg(where, "match_spec", why)


def _too_deep(where: str) -> SystemLimit:
    return SystemLimit(f"{where}, match_spec: it is nested too deep, or too large; split it into several clauses")
