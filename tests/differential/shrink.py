"""The smallest case that still shows a difference, by trying smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .erlang import Case
from .etf import Term
from .parts import a, exact_key, improper
from .sound import sound

__all__ = ["shrunk", "smaller", "weight"]

TRIALS = 3000


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case that fails too. No case that is smaller than it by a step fails."""
    trials = 0
    found = True
    while found:
        found = False
        for candidate in candidates(case):
            if trials == TRIALS:
                return case
            trials += 1
            if sound(candidate) and fails(candidate):
                case, found = candidate, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are a step smaller."""
    for spec in smaller(case.spec):
        yield case._replace(spec=spec)
    for subject in smaller(case.subject):
        yield case._replace(subject=subject)


def weight(term: Term) -> int:
    """How large a term is; a smaller one of the same shape is simpler."""
    match term:
        case int():
            return 2 if term in (0, 1) else 3
        case list():
            return 2 + sum(map(weight, term))
        case {"a": name}:
            return 1 if name in ("_", "a") else 2
        case {"t": elements}:
            return 2 + sum(map(weight, elements))
        case {"il": elements, "tail": tail}:
            return 3 + sum(map(weight, elements)) + weight(tail)
        case {"m": pairs}:
            return 3 + sum(weight(k) + weight(v) for k, v in pairs)
    return 4


def smaller(term: Term) -> Iterator[Term]:
    """Terms that are a step smaller, the smallest steps last."""
    own = weight(term)
    for candidate in steps(term):
        if weight(candidate) < own:
            yield candidate


def steps(term: Term) -> Iterator[Term]:
    """Terms near a term: a part of it, without a part, with a smaller part."""
    yield from (a("a"), 1, [])
    match term:
        case list():
            yield from term
            for n, element in enumerate(term):
                yield term[:n] + term[n + 1 :]
                yield from ([*term[:n], less, *term[n + 1 :]] for less in smaller(element))
        case {"t": elements}:
            for part in steps(elements):
                yield {"t": part} if isinstance(part, list) else part
        case {"il": elements, "tail": tail}:
            yield elements
            for less in steps(elements):
                yield improper(less, tail) if isinstance(less, list) else less
            yield from (improper(elements, less) for less in (tail, *smaller(tail)))
        case {"m": pairs}:
            for n, (key, value) in enumerate(pairs):
                rest = pairs[:n] + pairs[n + 1 :]
                yield {"m": rest}
                yield value
                taken = {exact_key(k) for k, _ in rest}
                keys = [less for less in smaller(key) if exact_key(less) not in taken]
                yield from ({"m": [*rest[:n], [less, value], *rest[n:]]} for less in keys)
                yield from ({"m": [*rest[:n], [key, less], *rest[n:]]} for less in smaller(value))
