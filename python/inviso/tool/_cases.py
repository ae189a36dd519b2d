"""Named trace cases: reads the file that lists them, checks their variables, and carries them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inviso import case
from inviso._literal import NotLiteral, read_all
from inviso.case import Done
from inviso.case._parse import Problem, statements
from inviso.errors import BadArg, shown

__all__ = ["NODES", "Definition", "Faulty", "bindings", "carry_out", "check", "definitions"]

NODES = "Nodes"
"""The variable that is bound in every case: the names of its nodes."""

_FORMS = 'write ("name", "on", ["Variable"], "on.case"), or ("name", "on_off", ["Variable"], "on.case", "off.case")'


@dataclass(frozen=True, slots=True)
class Definition:
    """A trace case: its name, the variables that it needs, and the files that switch it on and off.

    >>> Definition("calls", ("Module",), "/cases/on.case").off is None
    True
    """

    name: str
    variables: tuple[str, ...]
    on: str
    off: str | None = None
    """The file that switches it off; None if it can't be switched off."""


class Faulty(Exception):
    """A trace case's file is invalid, or a statement in it failed. The text says where."""


def definitions(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> dict[str, Definition]:
    """Reads the trace cases that a file lists: a tuple for each, beginning on a new line.

    Args:
        path: the file: Python literals.
        folder: the folder of the files of trace cases. Default: the folder of ``path``.

    Raises:
        BadArg: the file can't be read, or has something that is not a trace case.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cases")
    ...     with open(path, "w") as file:
    ...         _ = file.write('("calls", "on", ["Module"], "on.case")  # a comment')
    ...     definitions(path)["calls"].variables
    ('Module',)
    """
    try:
        with open(path, encoding="utf-8") as file:
            terms = read_all(file.read())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadArg("tool", "cases", f"{os.fspath(path)} can't be read: {why}") from None
    except NotLiteral as error:
        raise BadArg("tool", "cases", f"{os.fspath(path)}: {error}") from None
    where = os.path.abspath(os.path.dirname(path) if folder is None else folder)
    found: dict[str, Definition] = {}
    for term in terms:
        made = _definition(term, where)
        if isinstance(made, str):
            raise BadArg("tool", "cases", f"{os.fspath(path)}: {made}")
        if made.name in found:
            why = f"{made.name!r} is there twice; give each case a name of its own"
            raise BadArg("tool", "cases", f"{os.fspath(path)}: {why}")
        found[made.name] = made
    return found


def _definition(term: Any, folder: str) -> Definition | str:
    """A trace case, or the error as text."""
    match term:
        case (str(name), "on", list() | tuple() as variables, str(on)) if name and on:
            off = None
        case (str(name), "on_off", list() | tuple() as variables, str(on), str(off)) if name and on and off:
            pass
        case _:
            return f"{shown(term)} is not a trace case; {_FORMS}"
    for variable in variables:
        if not isinstance(variable, str) or not variable.isidentifier() or variable == NODES:
            return f"{name}: {shown(variable)} is not a variable; write names, and not {NODES}, which is always there"
    if len(set(variables)) < len(variables):
        return f"{name}: a variable is there twice"
    off_path = None if off is None else os.path.join(folder, off)
    return Definition(str(name), tuple(variables), os.path.join(folder, on), off_path)


def bindings(
    where: str, definition: Definition, given: Mapping[str, Any] | Iterable[tuple[str, Any]]
) -> dict[str, Any] | str:
    """The variables of a case with their values; or the name of the first variable without a value.

    Raises:
        BadArg: ``given`` is malformed, or has a name that is not a variable of the case.

    >>> calls = Definition("calls", ("Module",), "on.case")
    >>> bindings("atc", calls, [("Module", "json")]), bindings("atc", calls, {})
    ({'Module': 'json'}, 'Module')
    """
    try:
        found = dict(given)
    except (TypeError, ValueError):
        why = f"{shown(given)} is wrong; pass pairs of a name and a value, or a dict"
        raise BadArg(where, "variables", why) from None
    for name in found:
        if name not in definition.variables:
            known = ", ".join(definition.variables) or "none"
            raise BadArg(where, "variables", f"{definition.name!r} has no variable {shown(name)}; it has {known}")
    missing = [name for name in definition.variables if name not in found]
    return missing[0] if missing else {name: found[name] for name in definition.variables}


def check(path: str) -> str:
    """Reads and checks a case's file, and returns its text.

    Raises:
        Faulty: it can't be read, or a statement is not allowed in a trace case.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Faulty(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
    for each in statements(text):
        if isinstance(each, Problem):
            raise Faulty(f"{path}, line {each.line}: {each.why}")
    return text


def carry_out(
    path: str, variables: Mapping[str, Any], nodes: list[str], *, trace: Callable[[str], object] | None = None
) -> Done:
    """Carries out a case's file for nodes.

    Raises:
        Faulty: the file can't be read or is malformed, and nothing was done. Or a statement failed, and the others were
            carried out.
    """
    text = check(path)
    done = case.run_text(text, {**variables, NODES: nodes}, name=path, trace=trace)
    if done.problems:
        raise Faulty("; ".join(f"{path}, line {each.line}: {each.why}" for each in done.problems))
    return done
