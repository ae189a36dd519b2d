"""Trace cases: text files of calls that trace something, written once by an expert of the program.

A trace case is a file of Python expression statements and assignments. Calls are ``module.function(...)``.
``inviso.f(...)`` calls the control (:mod:`inviso.control`), ``inviso_rt.f(...)`` the runtime component of this process
(:mod:`inviso.runtime`), anything else a function of that module. There are names, literals, lists, tuples, sets, dicts,
operators, comprehensions and conditionals; no imports, definitions, attributes or loops. A name can't be bound again to
another value. An invalid statement, or one that fails, is skipped and reported with its line; the others are carried
out.

>>> done = run_text("Limit = 2 * 5\\nprint 'old'\\njson.dumps([Limit, Flags])", {"Flags": ["call"]})
>>> done.value, done.problems
('[10, ["call"]]', [Problem(line=2, why="Missing parentheses in call to 'print'. Did you mean print(...)?")])

**Translations** replace calls before anything is evaluated. So one file can serve a control and a process that traces
itself:

>>> text = 'inviso.tf(Nodes, "all", Flags)'
>>> rule = (("inviso", "tf", 3), ("inviso_rt", "tf", ("inviso.case", "drop_first")))
>>> run_text(text, {"Flags": ["call"]}, [rule]).value
('error', 'not_started')
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inviso.errors import BadArg, shown

from ._evaluate import Failed, bound, same, value
from ._parse import Problem, statements
from ._translate import Translation, checked, drop_first, translated

__all__ = ["Done", "Problem", "call", "drop_first", "run", "run_text"]


@dataclass(frozen=True, slots=True)
class Done:
    """The results of a trace case.

    >>> done = run_text("A = 1\\nB = A + 1")
    >>> done.value, done.bindings
    (2, {'A': 1, 'B': 2})
    """

    value: Any
    """The value of the last statement that had one."""
    bindings: dict[str, Any]
    """All names with their values at the end, with those that were given."""
    problems: list[Problem]
    """Statements that were skipped."""
    refused: list[Problem] = field(default_factory=list)
    """Calls with the answer ``("error", why)``, perhaps for one node or pattern; not calls whose answer was assigned.
    """


Bindings = Mapping[str, Any] | Iterable[tuple[str, Any]]


def run(
    path: str | os.PathLike[str],
    bindings: Bindings = (),
    translations: Iterable[Any] = (),
    *,
    trace: Callable[[str], object] | None = None,
) -> Done:
    """Carries out a trace case.

    Args:
        path: the file, in UTF-8.
        bindings: names that are bound at the beginning: pairs of a name and a value, or a dict.
        translations: rules ``((module, function, arity), (module, function, munge))``, or with ``(function, arity)``
            first for calls without a module. The first matching rule counts. ``munge`` is ``("module", "function")``,
            or a function: it is called with the list of argument expressions (``ast``), and returns the new list. If it
            fails, the call does not change. If it is not a function, the arguments don't change.
        trace: called with a line for each statement that was carried out: the translated statement, and its value.

    Raises:
        BadArg: a translation or a binding is malformed.
        OSError: the file can't be read.

    >>> import os, tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".case") as file:
    ...     _ = file.write("A = 1 + B"), file.flush()
    ...     run(file.name, {"B": 2}).bindings
    {'B': 2, 'A': 3}
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return run_text(text, bindings, translations, name=os.fspath(path), trace=trace)


def run_text(
    text: str,
    bindings: Bindings = (),
    translations: Iterable[Any] = (),
    *,
    name: str = "",
    trace: Callable[[str], object] | None = None,
) -> Done:
    """As :func:`run`, for a text. ``name``: the beginning of the lines for ``trace``.

    >>> run_text("A = [x * x for x in range(4) if x]\\nA = 0").problems
    [Problem(line=2, why="'A' is bound to another value already")]
    """
    rules = checked(translations)
    names = _names(bindings)
    last: Any = None
    problems: list[Problem] = []
    refused: list[Problem] = []
    for each in statements(text):
        if isinstance(each, Problem):
            problems.append(each)
            continue
        line, statement = each
        try:
            last = _carry_out(translated(statement, rules), names)
        except Exception as error:
            problems.append(Problem(line, _why(error)))
            continue
        if isinstance(statement, ast.Expr):
            refused += [Problem(line, f"the answer was {shown(one)}") for one in _errors(last)]
        if trace is not None:
            where = f"{name}:{line}: " if name else f"{line}: "
            trace(f"{where}{ast.unparse(statement)} -> {shown(last)}")
    return Done(last, names, problems, refused)


def call(
    module: str,
    function: str,
    arguments: list[Any],
    bindings: Bindings = (),
    translations: Iterable[Any] = (),
    *,
    trace: Callable[[str], object] | None = None,
) -> Done:
    """Carries out one call, translated as in a file. The arguments are values.

    >>> call("json", "dumps", [[1, 2]]).value
    '[1, 2]'
    """
    rules: list[Translation] = checked(translations)
    names = _names(bindings)
    at: ast.expr = ast.parse(module, mode="eval").body
    tree = ast.Call(ast.Attribute(at, function, ast.Load()), [ast.Constant(one) for one in arguments], [])
    statement = translated(ast.fix_missing_locations(ast.copy_location(ast.Expr(tree), at)), rules)
    try:
        found = _carry_out(statement, names)
    except Exception as error:
        return Done(None, names, [Problem(1, _why(error))])
    if trace is not None:
        trace(f"{ast.unparse(statement)} -> {shown(found)}")
    return Done(found, names, [], [Problem(1, f"the answer was {shown(one)}") for one in _errors(found)])


def _carry_out(statement: ast.Expr | ast.Assign, names: dict[str, Any]) -> Any:
    found = value(statement.value, names)
    if isinstance(statement, ast.Assign):
        made: dict[str, Any] = {}
        for target in statement.targets:
            made.update(bound(target, found))
        for name, new in made.items():
            if name in names and not same(names[name], new):
                raise Failed(f"{name!r} is bound to another value already")
        names.update(made)
    return found


def _errors(answer: Any) -> list[Any]:
    """The errors in an answer of the control or of a runtime component.

    >>> _errors(("ok", [("shop@h", ("ok", [1, ("error", "timeout")])), ("web@h", ("error", "nodedown"))]))
    [('error', 'timeout'), ('web@h', ('error', 'nodedown'))]
    """
    match answer:
        case ("error", _):
            return [answer]
        case ("ok", list(parts)):
            return [one for part in parts for one in _errors(part)]
        case (str(), ("error", _)):
            return [answer]
        case (str(), ("ok", list())):
            return _errors(answer[1])
    return []


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, (Failed, BadArg)) else f"{type(error).__name__}: {error}"


def _names(bindings: Bindings) -> dict[str, Any]:
    try:
        names = dict(bindings)
    except (TypeError, ValueError):
        names = {0: None}  # type: ignore[dict-item]
    if not all(isinstance(name, str) for name in names):
        raise BadArg("case.run", "bindings", f"{shown(bindings)} is wrong; pass pairs of a name and a value, or a dict")
    return names
