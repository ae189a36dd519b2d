"""Makes cases: mostly valid ones whose head fits the subject, sometimes distorted ones.

The contents of a case are chosen so that it often matches. Literals come from a small pool in which many are equal or
nearly equal, heads are made from the subject, and expressions mostly get arguments of the kind that they take.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .erlang import Case
from .etf import Term
from .expressions import FUNCTIONS, TRACING, Scope
from .parts import (
    ATOMS,
    BYTES,
    FLOATS,
    FUNCTION,
    HUGE,
    INTEGERS,
    KEY_ATOMS,
    LARGE,
    NAMES,
    ODD_ATOMS,
    ROUND,
    a,
    binary,
    exact_key,
    improper,
    integer,
    mapping,
    parts,
    t,
)
from .sound import HIDDEN, is_other_atom, sound

__all__ = ["Maker", "bend"]

CALLED = (*sorted({f[0] for f in FUNCTIONS} | {f[0] for f in TRACING} - set(HIDDEN)), "const", "nosuch")
MODES = ("trace", "table")


class Maker:
    """Cases from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.functions = False
        self.makers: dict[str, Callable[[int], Term]] = {
            "number": self.number,
            "integer": lambda depth: self.integer(),
            "boolean": lambda depth: a(self.random.choice(("true", "false"))),
            "atom": lambda depth: a(self.random.choice(ODD_ATOMS if self.chance(0.03) else ATOMS)),
            "binary": lambda depth: self.binary(),
            "list": self.list,
            "tuple": lambda depth: t(*self.several(depth)),
            "map": self.map,
            "identity": lambda depth: self.identity(),
        }
        self.kinds = tuple(self.makers)

    def chance(self, of: float) -> bool:
        """True with this probability."""
        return self.random.random() < of

    def case(self) -> Case:
        """The next case."""
        while True:
            case = self.any_case()
            if sound(case):
                return case

    def any_case(self) -> Case:
        """A case that perhaps has to be left out."""
        mode = self.random.choice(MODES)
        self.functions = True
        subject = self.subject(mode)
        self.functions = False
        clauses = [self.clause(mode, subject) for _ in range(self.random.choice((1, 1, 1, 1, 2, 3)))]
        spec: Term = clauses
        if self.chance(0.07):
            spec = self.bent(spec, self.random.randint(1, 3))
        return Case(mode, spec, subject)

    def subject(self, mode: str) -> Term:
        """The subject of a specification."""
        if mode == "table":
            if self.chance(0.6):
                return t(*(self.term(3) for _ in range(self.random.randint(0, 5))))
            return self.term(4)
        if self.chance(0.02):
            return self.term(2)
        arguments = [self.term(3) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4)))]
        return improper(arguments, self.term(1)) if self.chance(0.02) else arguments

    # terms

    def term(self, depth: int, kind: str = "") -> Term:
        """Any term, or one of a kind."""
        return self.makers[kind or self.random.choice(self.kinds)](depth)

    def integer(self) -> Term:
        pool = self.random.choice((INTEGERS, INTEGERS, INTEGERS, LARGE, HUGE))
        n = self.random.choice(pool)
        return integer(n + self.random.choice((0, 0, 0, 1, -1)))

    def number(self, depth: int = 0) -> Term:
        if self.chance(0.6):
            return self.integer()
        return {"f": self.random.choice(self.random.choice((FLOATS, FLOATS, ROUND)))}

    def binary(self) -> Term:
        data = self.random.choice(BYTES)
        bits = self.random.randint(1, 7) if data and self.chance(0.3) else 0
        return binary(data, bits)

    def identity(self) -> Term:
        names = (("pid", "P1"), ("pid", "P2"), ("pid", "SELF"), ("ref", "R1"), ("ref", "R2"), ("port", "O1"))
        kind, name = self.random.choice(names)
        return FUNCTION if self.functions and self.chance(0.15) else {kind: name}

    def several(self, depth: int, most: int = 4) -> list[Term]:
        count = self.random.randint(0, most) if depth > 0 else 0
        return [self.term(depth - 1) for _ in range(count)]

    def list(self, depth: int) -> Term:
        elements = self.several(depth)
        return improper(elements, self.term(0)) if self.chance(0.15) else elements

    def map(self, depth: int) -> Term:
        count = self.random.randint(0, 4) if depth > 0 else 0
        if depth > 1 and self.chance(0.02):
            count = self.random.randint(30, 36)
        return mapping([[self.key(count), self.term(depth - 1)] for _ in range(count)])

    def key(self, count: int = 0) -> Term:
        """A key of a map."""
        if count > 8:
            return self.random.randint(0, 1000)
        key = self.term(1) if self.chance(0.3) else self.random.choice((1, {"f": 1.0}, 0, {"f": 0.0}, {"f": -0.0}))
        return a(self.random.choice(KEY_ATOMS)) if self.chance(0.4) or is_other_atom(key) else key

    # clauses

    def clause(self, mode: str, subject: Term) -> Term:
        """A clause that likely fits the subject."""
        head = self.head(mode, subject)
        scope = Scope(self, mode, subject, sorted(variables(head)))
        guards = [scope.guard() for _ in range(self.random.choice((0, 0, 0, 1, 1, 2)))]
        body = [scope.action() for _ in range(self.random.choice((0, 1, 1, 1, 2, 3) if mode == "trace" else (1, 1, 2)))]
        return t(head, guards, body)

    def head(self, mode: str, subject: Term) -> Term:
        """A head made from the subject."""
        if self.chance(0.12):
            return a(self.random.choice(("_", "$1", "$2")))
        if self.chance(0.04):
            return self.pattern(self.term(3), {})
        bound: dict[str, str] = {}
        if mode == "table":
            return self.pattern(subject, bound)
        arguments = subject if isinstance(subject, list) else []
        patterns = [self.pattern(argument, bound) for argument in arguments]
        if self.chance(0.02):
            return t(*patterns)
        if patterns and self.chance(0.08):
            keep = self.random.randint(1, len(patterns))
            return improper(patterns[:keep], a("_"))
        if self.chance(0.04):
            patterns = patterns[:-1] if self.chance(0.5) else [*patterns, a("_")]
        return patterns

    def pattern(self, term: Term, bound: dict[str, str]) -> Term:
        """A pattern that the term most likely fits."""
        chosen = self.random.random()
        if chosen < 0.12:
            return a("_")
        if chosen < 0.45 or term == FUNCTION:
            return a(self.variable(term, bound))
        if chosen < 0.5 and FUNCTION not in parts(term):
            return self.near(term)
        match term:
            case list():
                cut = self.random.randint(1, len(term)) if term and self.chance(0.2) else len(term)
                front = [self.pattern(e, bound) for e in term[:cut]]
                return improper(front, self.pattern(term[cut:], bound)) if cut < len(term) else front
            case {"il": elements, "tail": tail}:
                return improper([self.pattern(e, bound) for e in elements], self.pattern(tail, bound))
            case {"t": elements}:
                return t(*(self.pattern(e, bound) for e in elements))
            case {"m": pairs}:
                kept = [pair for pair in pairs if self.chance(0.7)]
                return {"m": [[key, self.pattern(value, bound)] for key, value in kept]}
        return term

    def variable(self, term: Term, bound: dict[str, str]) -> str:
        """A variable for a term: one that is bound to it already, a new one, or rarely a wrong one."""
        key = exact_key(term)
        known = [name for name, value in bound.items() if value == key]
        if known and self.chance(0.5):
            return self.random.choice(known)
        new = [name for name in NAMES[1:] if name not in bound]
        name = self.random.choice(NAMES[1:]) if not new or self.chance(0.03) else self.random.choice(new)
        bound.setdefault(name, key)
        return name

    def near(self, term: Term) -> Term:
        """A term that differs little from this one."""
        match term:
            case int():
                return self.random.choice((term, {"f": float(term)}, term + 1, integer(-term)))
            case {"f": number}:
                whole = integer(int(number)) if abs(number) < 1e300 else 0
                return self.random.choice((term, {"f": -number}, whole))
            case {"t": elements}:
                return self.random.choice((elements, t(*elements[:-1]), t(*elements, 1)))
            case list():
                return self.random.choice((t(*term), term[:-1], improper(term, 1)))
        return self.term(1)

    def bent(self, term: Term, times: int) -> Term:
        """A term with one part replaced by another that may not be valid there."""
        if times == 0:
            return term
        return self.bent(bend(term, self), times - 1)


def bend(term: Term, maker: Maker) -> Term:
    """A term with one part replaced, somewhere."""
    inside: list[Any] = term if isinstance(term, list) else []
    if isinstance(term, dict):
        inside = term.get("t") or term.get("il") or []
    if not inside or maker.chance(0.15):
        call = t(a(maker.random.choice(CALLED)), *(maker.term(1) for _ in range(maker.random.randint(0, 3))))
        odd: list[Term] = [
            call,
            call,
            t(),
            [],
            5,
            a("_"),
            a("$9"),
            t(a("nosuch")),
            t(1, 2),
            improper([term], a("b")),
            maker.term(1),
            {"m": []},
        ]
        return maker.random.choice(odd)
    at = maker.random.randrange(len(inside))
    if maker.chance(0.15):
        changed = inside[:at] + inside[at + 1 :]
    elif maker.chance(0.1):
        changed = [*inside[:at], maker.term(1), *inside[at:]]
    else:
        changed = [*inside[:at], bend(inside[at], maker), *inside[at + 1 :]]
    if isinstance(term, list):
        return changed
    return t(*changed) if "t" in term else improper(changed, term["tail"])


def variables(pattern: Term) -> set[str]:
    """The variables of a head."""
    match pattern:
        case list():
            return set().union(*map(variables, pattern))
        case {"a": name}:
            return {name} if name in NAMES[1:] else set()
        case {"t": elements}:
            return variables(elements)
        case {"il": elements, "tail": tail}:
            return variables([*elements, tail])
        case {"m": pairs}:
            return variables([value for _, value in pairs])
    return set()
