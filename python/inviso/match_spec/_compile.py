"""Checks and compiles match specifications, and runs them without tracing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from inviso import _native
from inviso.errors import BadArg, SystemLimit, shown
from inviso.terms import Atom, ImproperList

if TYPE_CHECKING:
    Tested = tuple[Literal["ok"], Any, list[Any], list["Problem"]] | tuple[Literal["error"], list["Problem"]]

__all__ = ["Problem", "compiled", "derives", "match_spec_test", "word"]


class Problem(NamedTuple):
    """An error or warning about a match specification.

    >>> match_spec_test([], [("_", [("<", "$1", 2)], [])])
    ('error', [Problem(severity='error', kind='unbound_variable', text='clause 1, guard 1: ...')])
    """

    severity: str
    """``"error"``; or ``"warning"`` for a specification that is accepted but probably a mistake."""
    kind: str
    """The kind of problem, as a word."""
    text: str
    """The place, the problem and the remedy."""


def match_spec_test(subject: Any, match_spec: list[Any], mode: Literal["trace", "table"] = "trace") -> Tested:
    """Runs a match specification on a value, without tracing anything (erlang.md, ``match_spec_test/3``).

    Args:
        subject: a list of arguments (``"trace"``), or any value (``"table"``).
        match_spec: the specification.
        mode: ``"trace"``: as at a call. ``"table"``: the last expression of the body is the result.

    Returns:
        ``("ok", result, flags, warnings)``, or ``("error", problems)``. The result is True; False if nothing matches or
        the message is suppressed; or the message's extra element. Flags are some of exception_trace and return_trace.
        Warnings and problems are lists of :class:`Problem`. Actions are checked, but have no effect.

    Raises:
        BadArg: ``subject`` is not a list in mode ``"trace"``; the mode is unknown; a part of the specification is not a
            term.
        SystemLimit: the specification is nested too deep.

    >>> match_spec_test([5, 7], [(["$1", "$2"], [("<", "$1", "$2")], [("message", ("+", "$1", "$2"))])])
    ('ok', 12, [], [])
    """
    where = "match_spec_test/3"
    table = word(mode) == "table"
    if not table and word(mode) != "trace":
        raise BadArg(where, "mode", f"{shown(mode)} is not a mode; pass 'trace' or 'table'")
    if not table and derives(subject, ImproperList):
        with suppress(AttributeError):
            subject = object.__getattribute__(subject, "elements")  # the tail is not an argument
    if not (table or derives(subject, list)):
        raise BadArg(where, "subject", f"{shown(subject)} is not a list of arguments; pass one such as [1, 'a']")
    try:
        result, flags, found = _native.match_spec.test(subject, match_spec, table)
    except TypeError as error:
        raise _no_term(where, error) from None
    except _native.trace.LimitReached:
        raise _too_deep(where) from None
    problems = [Problem(Atom(severity), Atom(kind), text) for severity, kind, text in found]
    if any(problem.severity == "error" for problem in problems):
        return (Atom("error"), problems)
    return (Atom("ok"), result, [Atom(flag) for flag in flags], problems)


def compiled(where: str, match_spec: Any, context: str) -> _native.match_spec.MatchProgram:
    """Compiles a match specification; errors name the function ``where`` and its argument ``match_spec``."""
    try:
        program, problems = _native.match_spec.compile(match_spec, context)
    except TypeError as error:
        raise _no_term(where, error) from None
    except _native.trace.LimitReached:
        raise _too_deep(where) from None
    if program is None:
        if any(kind == "system_limit" for _, kind, _ in problems):
            raise _too_deep(where)
        raise BadArg(where, "match_spec", "; ".join(text for severity, _, text in problems if severity == "error"))
    return program


def derives(value: object, kind: type) -> bool:
    """Whether a value is of a class, without running the value's code."""
    return issubclass(type(value), kind)


def word(value: object) -> str | None:
    """The characters of a str, without running a subclass's code; None for any other value."""
    return str.__str__(value) if issubclass(type(value), str) else None


def _no_term(where: str, error: TypeError) -> BadArg:
    why = f"{error}; compare numbers, text, atoms, pids, tuples, lists, dicts, or ask with is_instance"
    return BadArg(where, "match_spec", why)


def _too_deep(where: str) -> SystemLimit:
    return SystemLimit(f"{where}, match_spec: it is nested too deep, or too large; split it into several clauses")
