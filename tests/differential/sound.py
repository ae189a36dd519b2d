"""Decides which cases are run."""

from __future__ import annotations

import re

from .erlang import Case
from .etf import Term
from .parts import FUNCTION, KEY_ATOMS, a, parts, t

__all__ = ["HIDDEN", "is_other_atom", "sound"]

HIDDEN = {"process_dump": "is_binary", "current_stacktrace": "is_list"}
"""Functions whose results are the machine's own, and the tests that they stand in."""

SMALL_MAP = 32
"""Pairs of a map that Erlang keeps in order, at most."""

HIGH = ("$10", "$42", "$999")
VARIABLE = re.compile(r"\$\d+")


def is_other_atom(term: Term) -> bool:
    """Whether a term is an atom whose place in a map is not known."""
    return isinstance(term, dict) and "a" in term and term["a"] not in KEY_ATOMS


def sound(case: Case) -> bool:
    """Whether to run a case: false if Erlang itself has a fault there, or if the right answer is not known.

    - ``[]`` as head with ``'$_'``, run on no arguments, and any switching of flags, crashes Erlang's machine;
    - the contents of a process dump and of a stack are not compared, only their types;
    - a function can't stand in a specification here;
    - with variables of high numbers in a head, Erlang gives all variables new numbers, and also renames such atoms
      where they are no variables, in constants and inside keys of maps;
    - Erlang orders atoms as keys of a map by their first appearance in the node; in a large map, in no reliable order.
    """
    everything = parts(case.spec)
    if case.mode == "trace":
        if a("$_") in everything and not front(case.subject):
            heads = [c["t"][0] for c in front(case.spec) if isinstance(c, dict) and len(c.get("t", ())) == 3]
            if [] in heads or t() in heads:
                return False
        if any(switches(part) for part in everything):
            return False
    if FUNCTION in everything:
        return False
    if sum(map(is_open, everything)) != sum(map(is_hidden, everything)):
        return False
    if any(a(name) in everything for name in HIGH) and any(map(is_renumbered, everything)):
        return False
    if any(map(is_large, everything)):
        return False
    for part in [*everything, *parts(case.subject)]:
        if isinstance(part, dict) and "m" in part:
            atoms = [key for key, _ in part["m"] if is_other_atom(key)]
            if len(atoms) > 1 or (atoms and any(key in map(a, KEY_ATOMS) for key, _ in part["m"])):
                return False
    return True


def is_open(term: Term) -> bool:
    """Whether a term, as an expression, gives a value that is not compared."""
    match term:
        case {"t": [{"a": name}, *_]}:
            return name in HIDDEN
    return False


def is_hidden(term: Term) -> bool:
    """Whether a term, as an expression, only asks for the type of a value that is not compared."""
    match term:
        case {"t": [{"a": test}, {"t": [{"a": name}, *_]}]}:
            return bool(HIDDEN.get(name) == test)
    return False


def is_large(term: Term) -> bool:
    """Whether a term is a map of many pairs in which something may be called."""
    pairs = term.get("m", []) if isinstance(term, dict) else []
    return len(pairs) > SMALL_MAP and any(isinstance(part, dict) and "t" in part for part in parts(term))


def is_renumbered(term: Term) -> bool:
    """Whether a term is a map with a key, or a constant, that contains a variable's name as an atom."""
    inside: list[Term] = []
    match term:
        case {"m": pairs}:
            inside = [key for key, _ in pairs]
        case {"t": [{"a": "const"}, *arguments]}:
            inside = arguments
    return any(isinstance(part, dict) and VARIABLE.fullmatch(str(part.get("a", ""))) for part in parts(inside))


def front(term: Term) -> list[Term]:
    """The elements of a list, without its tail."""
    if isinstance(term, dict):
        return list(term.get("il", []))
    return term if isinstance(term, list) else []


def switches(term: Term) -> bool:
    """Whether a term, as an expression, might switch the flags of a process."""
    match term:
        case {"t": [{"a": "enable_trace" | "disable_trace"}, *arguments]} if len(arguments) in (1, 2):
            return arguments[-1] not in (a("nosuch"), 5)
        case {"t": [{"a": "trace"}, *arguments]}:
            return len(arguments) in (2, 3)
    return False
