"""Which cases are run."""

from __future__ import annotations

from .erlang import Case
from .etf import Term
from .parts import FUNCTION, KEY_ATOMS, a, parts, t

__all__ = ["is_other_atom", "sound"]


def is_other_atom(term: Term) -> bool:
    """Whether a term is an atom whose place in a map is not known."""
    return isinstance(term, dict) and "a" in term and term["a"] not in KEY_ATOMS


def sound(case: Case) -> bool:
    """Whether a case is one to run: false where Erlang itself is at fault, or where nobody knows the right answer.

    - ``[]`` as head with ``'$_'``, run on no arguments, and any switching of flags, ends Erlang's machine;
    - what a process dump says is not compared;
    - a function can't stand in a specification here;
    - of several atoms as keys of a map, Erlang takes first which it met first.
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
    dumps = everything.count(t(a("process_dump")))
    if dumps != everything.count(t(a("is_binary"), t(a("process_dump")))):
        return False
    for part in [*everything, *parts(case.subject)]:
        if isinstance(part, dict) and "m" in part:
            atoms = [key for key, _ in part["m"] if is_other_atom(key)]
            if len(atoms) > 1 or (atoms and any(key in map(a, KEY_ATOMS) for key, _ in part["m"])):
                return False
    return True


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
