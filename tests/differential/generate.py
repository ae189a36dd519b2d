"""Makes cases: mostly good ones whose head fits the subject, sometimes bent ones.

What a case contains is chosen so that something comes of it: literals come from a small pool in which many are equal or
nearly so, heads are made from the subject, and expressions mostly get arguments of the kind that they take.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import Any

from .erlang import Case
from .etf import Term

__all__ = ["KEY_ATOMS", "Maker", "a", "exact_key", "improper", "sound", "t"]

MODES = ("trace", "table")


def a(name: str) -> Term:
    """An atom."""
    return {"a": name}


def t(*elements: Term) -> Term:
    """A tuple."""
    return {"t": list(elements)}


def integer(n: int) -> Term:
    """An integer."""
    return n if -(2**53) <= n <= 2**53 else {"i": str(n)}


def binary(data: bytes, bits: int = 0) -> Term:
    """A binary, or a bit string whose last byte has so many bits."""
    if not bits:
        return {"b": b64encode(data).decode()}
    data = data[:-1] + bytes([data[-1] & (0xFF << 8 - bits) & 0xFF])
    return {"bits": b64encode(data).decode(), "n": 8 * (len(data) - 1) + bits}


def improper(elements: list[Term], tail: Term) -> Term:
    """A list with a tail, which may be a list too."""
    if not elements:
        return tail
    if isinstance(tail, list):
        return elements + tail
    if isinstance(tail, dict) and "il" in tail:
        return {"il": elements + tail["il"], "tail": tail["tail"]}
    return {"il": elements, "tail": tail}


def exact_key(term: Term) -> str:
    """Text that two terms share exactly if they are one key of a map."""
    if isinstance(term, list):
        return "[" + ",".join(map(exact_key, term)) + "]"
    if not isinstance(term, dict):
        return repr(term)
    if "m" in term:
        return "#" + ",".join(sorted(exact_key(k) + "=" + exact_key(v) for k, v in term["m"]))
    return "{" + ",".join(f"{k}:{exact_key(v)}" for k, v in sorted(term.items())) + "}"


def mapping(pairs: list[list[Term]]) -> Term:
    """A map; of equal keys the first counts."""
    seen: dict[str, list[Term]] = {}
    for pair in pairs:
        seen.setdefault(exact_key(pair[0]), pair)
    return {"m": list(seen.values())}


KEY_ATOMS = ("key_a", "key_b", "key_c", "key_d")
"""Atoms as keys of maps: Erlang makes them in this order, so that it is their order in a map too."""

ATOMS = ("a", "b", "foo", "true", "false", "undefined", "EXIT", "", "$", "$a", "$01", "known_name", "+", "[]", "é")

INTEGERS = (0, 1, -1, 2, 3, 5, 7, 255, 256, -256, 2**27 - 1, 2**27, 2**31, 2**32 - 1, 2**53, 2**53 + 1, -(2**53) - 1)
LARGE = (2**59 - 1, 2**59, -(2**59), -(2**59) - 1, 2**60, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**64 - 1)
HUGE = (2**128, -(2**128), 10**30, 2**200 + 1, -(2**200), 2**1023, 2**1024, 10**308, 10**400)

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 1.5, 2.5, -2.5, 0.5, 0.1, 1e10, 1e100, -1e300, 5e-324, 1.7976931348623157e308)
ROUND = (2.0**53, 2.0**59, 2.0**60, 2.0**63, -(2.0**63), 2.0**64, 1e15 + 0.5, 4503599627370497.5, 0.49999999999999994)

BYTES = (b"", b"a", b"b", b"ab", b"abc", b"\x00", b"\xff", b"\x80", b"abcdefgh", bytes(70))

NAMES = ("_", "$0", "$1", "$2", "$3", "$7", "$10", "$42")


class Maker:
    """Cases from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.makers: dict[str, Callable[[int], Term]] = {
            "number": self.number,
            "integer": lambda depth: self.integer(),
            "boolean": lambda depth: a(self.random.choice(("true", "false"))),
            "atom": lambda depth: a(self.random.choice(ATOMS)),
            "binary": lambda depth: self.binary(),
            "list": self.list,
            "tuple": lambda depth: t(*self.several(depth)),
            "map": self.map,
            "identity": lambda depth: self.identity(),
        }
        self.kinds = tuple(self.makers)

    def chance(self, of: float) -> bool:
        """True as often as that."""
        return self.random.random() < of

    def case(self) -> Case:
        """The next case."""
        while True:
            case = self.any_case()
            if sound(case):
                return case

    def any_case(self) -> Case:
        """A case that may be one to leave out."""
        mode = self.random.choice(MODES)
        subject = self.subject(mode)
        clauses = [self.clause(mode, subject) for _ in range(self.random.choice((1, 1, 1, 1, 2, 3)))]
        spec: Term = clauses
        if self.chance(0.06):
            spec = self.bent(spec, self.random.randint(1, 2))
        return Case(mode, spec, subject)

    def subject(self, mode: str) -> Term:
        """What a specification is run on."""
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
        return {"fun": True, "arity": 1} if self.chance(0.15) else {kind: name}

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
        if chosen < 0.45:
            return a(self.variable(term, bound))
        if chosen < 0.5:
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
        """A variable for a term: one that has it already, a new one, or rarely a wrong one."""
        key = exact_key(term)
        known = [name for name, value in bound.items() if value == key]
        if known and self.chance(0.5):
            return self.random.choice(known)
        new = [name for name in NAMES[1:] if name not in bound]
        name = self.random.choice(NAMES[1:]) if not new or self.chance(0.03) else self.random.choice(new)
        bound.setdefault(name, key)
        return name

    def near(self, term: Term) -> Term:
        """Something that is almost the term."""
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
        """A term with something replaced that may not be there."""
        if times == 0:
            return term
        return self.bent(bend(term, self), times - 1)


def bend(term: Term, maker: Maker) -> Term:
    """A term with one part replaced, somewhere."""
    inside: list[Any] = term if isinstance(term, list) else []
    if isinstance(term, dict):
        inside = term.get("t") or term.get("il") or []
    if not inside or maker.chance(0.15):
        odd = (t(), [], 5, a("_"), a("$9"), t(a("nosuch")), t(1, 2), improper([term], a("b")), maker.term(1), {"m": []})
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


COMPARISONS = ("<", "=<", ">", ">=", "==", "/=", "=:=", "=/=")
TESTS = (
    *("is_atom", "is_boolean", "is_float", "is_integer", "is_list", "is_number", "is_pid", "is_port", "is_reference"),
    *("is_tuple", "is_map", "is_binary", "is_bitstring", "is_function"),
)
FUNCTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    *((name, ("",), "boolean") for name in TESTS),
    *((name, ("", ""), "boolean") for name in COMPARISONS),
    *((name, ("number", "number"), "boolean") for name in COMPARISONS),
    *((name, ("number", "number"), "number") for name in ("+", "-", "*", "/", "+", "-", "*")),
    *((name, ("integer", "integer"), "integer") for name in ("div", "rem", "band", "bor", "bxor", "div", "rem")),
    *((name, ("integer", "shift"), "integer") for name in ("bsl", "bsr")),
    *((name, ("number",), "number") for name in ("+", "-", "abs", "float")),
    *((name, ("number",), "integer") for name in ("round", "trunc", "floor", "ceil")),
    ("bnot", ("integer",), "integer"),
    *((name, ("", ""), "") for name in ("min", "max")),
    *((name, ("number", "number"), "number") for name in ("min", "max")),
    ("not", ("boolean",), "boolean"),
    ("xor", ("boolean", "boolean"), "boolean"),
    *((name, ("boolean",) * n, "boolean") for name in ("and", "or", "andalso", "orelse", "andthen") for n in (1, 2, 3)),
    ("element", ("position", "tuple"), ""),
    *((name, ("list",), kind) for name, kind in (("hd", ""), ("tl", "list"), ("length", "integer"))),
    *(("size", (kind,), "integer") for kind in ("tuple", "binary")),
    *((name, ("binary",), "integer") for name in ("byte_size", "bit_size")),
    ("tuple_size", ("tuple",), "integer"),
    ("map_size", ("map",), "integer"),
    ("map_get", ("key", "map"), ""),
    ("is_map_key", ("key", "map"), "boolean"),
    ("binary_part", ("binary", "position", "position"), "binary"),
    ("binary_part", ("binary", "range"), "binary"),
    ("is_function", ("identity", "position"), "boolean"),
    ("is_integer", ("integer", "integer", "integer"), "boolean"),
    ("is_record", ("tuple", "atom", "position"), "boolean"),
    ("node", ("identity",), "atom"),
    ("node", (), "atom"),
    ("self", (), "identity"),
)
"""Functions: name, kinds of arguments, kind of result."""

TRACING: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("message", ("",)) for _ in range(8)),
    *(("return_trace", ()), ("exception_trace", ()), ("display", ("",)), ("caller", ()), ("caller_line", ())),
    *(("current_stacktrace", ()), ("current_stacktrace", ("position",)), ("get_seq_token", ()), ("is_seq_trace", ())),
    *(("set_seq_token", ("component", "value")), ("silent", ("",)), ("get_tcw", ()), ("set_tcw", ("integer",))),
    *(("set_tcw_fake", ("position",)), ("enable_trace", ("no flag",)), ("disable_trace", ("no flag",))),
    *(("enable_trace", ("identity", "no flag")), ("disable_trace", ("identity", "no flag")), ("is a dump", ())),
)
"""Functions of tracing: name and kinds of arguments."""

COMPONENTS = ("label", "serial", "send", "receive", "print", "timestamp", "monotonic_timestamp", "nosuch")


class Scope:
    """Expressions of one clause."""

    def __init__(self, maker: Maker, mode: str, subject: Term, names: list[str]) -> None:
        self.maker = maker
        self.random = maker.random
        self.mode = mode
        self.subject = subject
        self.names = names

    def chance(self, of: float) -> bool:
        return self.maker.chance(of)

    def guard(self) -> Term:
        """An expression for a test."""
        if self.chance(0.06):
            return self.expression(2)
        if self.mode == "trace" and self.chance(0.04):
            return self.random.choice((t(a("is_seq_trace")), self.action(), t(a("=="), t(a("get_tcw")), 0)))
        return self.expression(2, "boolean")

    def action(self) -> Term:
        """An expression of a body."""
        if self.chance(0.75 if self.mode == "trace" else 0.02):
            name, kinds = self.random.choice(TRACING)
            if name == "is a dump":
                return t(a("is_binary"), t(a("process_dump")))
            return t(a(name), *self.arguments(kinds, 2))
        return self.expression(3)

    def arguments(self, kinds: tuple[str, ...], depth: int) -> list[Term]:
        """Arguments of these kinds; sometimes one more or less."""
        kinds = kinds[:-1] if self.chance(0.004) else (*kinds, "") if self.chance(0.004) else kinds
        return [self.expression(depth - 1, "" if self.chance(0.07) else kind) for kind in kinds]

    def expression(self, depth: int, kind: str = "") -> Term:
        """An expression whose value is likely of this kind."""
        special = self.special(kind)
        if special is not None:
            return special
        if kind not in self.maker.makers and kind:
            raise ValueError(f"no kind {kind!r}")
        if depth > 0 and self.chance(0.5):
            fitting = [f for f in FUNCTIONS if not kind or f[2] in (kind, "") or (f[2], kind) == ("integer", "number")]
            if fitting:
                name, kinds, _ = self.random.choice(fitting)
                return t(a(name), *self.arguments(kinds, depth))
        if self.chance(0.45):
            return self.known()
        return self.written(self.maker.term(max(depth, 1), kind), depth)

    def special(self, kind: str) -> Term | None:
        """An argument that only some functions take."""
        if kind == "position":
            return self.random.choice((0, 1, 1, 2, 2, 3, -1, {"f": 1.0}, {"i": str(2**64)}, self.known(), a("a")))
        if kind == "shift":
            return self.random.choice((0, 1, 3, 8, 31, 60, 64, 100, -1, -8, -64, {"i": str(2**64)}, {"i": str(-(2**70))}))
        if kind == "range":
            position = self.random.choice((0, 1, 2, -1, {"f": 1.0}))
            return t(t(position, self.random.choice((0, 1, 2, -1, -2, 5))))
        if kind == "key":
            return self.known() if self.chance(0.3) else self.value(self.maker.key())
        if kind == "component":
            return a(self.random.choice(COMPONENTS))
        if kind == "value":
            return self.random.choice((a("true"), a("false"), 1, 17, a("foo")))
        if kind == "no flag":
            return self.random.choice((a("nosuch"), 5))
        return None

    def known(self) -> Term:
        """A variable or all of the subject; rarely a variable that is not bound."""
        if self.chance(0.15) or not self.names:
            return a(self.random.choice(("$_", "$$")))
        return a(self.random.choice(NAMES if self.chance(0.01) else self.names))

    def value(self, term: Term) -> Term:
        """An expression for exactly this term."""
        if isinstance(term, dict) and "t" in term:
            return t(a("const"), term)
        return term

    def written(self, term: Term, depth: int) -> Term:
        """An expression for a term like this one, with computed parts."""
        if self.chance(0.1):
            return t(a("const"), term)
        inner = lambda part: self.expression(depth - 1) if self.chance(0.3) and depth > 0 else self.written(part, depth - 1)  # noqa: E731
        match term:
            case list():
                return [inner(e) for e in term]
            case {"il": elements, "tail": tail}:
                return improper([inner(e) for e in elements], inner(tail))
            case {"t": elements}:
                return t(t(*(inner(e) for e in elements)))
            case {"m": pairs}:
                return mapping([[self.known() if self.chance(0.05) else self.value(k), inner(v)] for k, v in pairs])
        return term


def is_other_atom(term: Term) -> bool:
    """Whether a term is an atom whose place in a map is not known."""
    return isinstance(term, dict) and "a" in term and term["a"] not in KEY_ATOMS


def parts(term: Term) -> list[Term]:
    """A term and everything in it."""
    found, left = [], [term]
    while left:
        part = left.pop()
        found.append(part)
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            left += part.get("t", part.get("il", []))
            left += [part["tail"]] if "tail" in part else []
            left += [x for pair in part.get("m", ()) for x in pair]
    return found


def sound(case: Case) -> bool:
    """Whether a case is one to run: false where Erlang itself is at fault, or where nobody knows the right answer.

    - ``[]`` as head with ``'$_'``, run on no arguments, and any switching of flags, ends Erlang's machine;
    - what a process dump says is not compared;
    - of several atoms as keys of a map, Erlang takes first which it met first.
    """
    everything = parts(case.spec)
    if case.mode == "trace":
        if a("$_") in everything and case.subject in ([], None) or not front(case.subject) and a("$_") in everything:
            heads = [c["t"][0] for c in front(case.spec) if isinstance(c, dict) and len(c.get("t", ())) == 3]
            if [] in heads:
                return False
        if any(switches(part) for part in everything):
            return False
    dumps = everything.count(t(a("process_dump")))
    if dumps != everything.count(t(a("is_binary"), t(a("process_dump")))):
        return False
    for part in everything:
        if isinstance(part, dict) and "m" in part:
            atoms = [key for key, _ in part["m"] if is_other_atom(key)]
            if len(atoms) > 1 or atoms and any(key in map(a, KEY_ATOMS) for key, _ in part["m"]):
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


def as_line(case: Case, result: dict[str, Any]) -> str:
    """A case in the form of the case files."""
    return json.dumps({"mode": case.mode, "spec": case.spec, "subject": case.subject, "result": result})
