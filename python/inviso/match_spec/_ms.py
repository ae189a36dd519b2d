"""Makes match specifications from lambdas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from inviso.errors import BadArg

from ._compile import compiled
from ._spec import MatchSpec

__all__ = ["ms"]


def ms(*functions: Callable[..., Any] | str | Iterable[Callable[..., Any] | str]) -> MatchSpec:
    """Makes a match specification from the source of lambdas, one clause each (dbg.md, ``fun2ms``).

    The lambda never runs. Its parameters stand for the arguments: by position or, after a ``*``, by name. Its
    expression is a list of conditions joined by ``and``, then actions; or a tuple of actions. Conditions may use
    comparisons, arithmetic, ``and``, ``or``, ``not``, ``in`` with a literal, ``is None``, ``isinstance``, ``len``,
    indices, attributes, and the guard functions by their names. Names from outside the lambda have their present
    values. Comparisons are Erlang's: values of different types have an order, True is not 1, and a str equals the bytes
    of its UTF-8.

    Args:
        functions: lambdas, or functions that only return an expression, with known source; the source of a lambda as a
            str, which can't use names from outside; or lists of these.

    Raises:
        BadArg: a part can't be expressed (the error has its line and column), or the source is unknown.

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
    from . import _fun2ms  # few programs need it

    made = MatchSpec()
    for given in every:
        function = _fun2ms.of_source(given) if isinstance(given, str) else given
        try:
            clause = _fun2ms.clause(function)
        finally:
            if isinstance(given, str):
                _fun2ms.forget(function)
        try:
            compiled(where, [clause], "call")
        except BadArg as error:  # a wrong number of arguments, or a function where it is not allowed
            place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            raise BadArg(where, "functions", f"{place}: {error.why}") from None
        made.append(clause)
    return made
