"""Makes guards and bodies: calls that mostly get arguments of the kinds that they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .etf import Term
from .parts import NAMES, a, improper, mapping, t
from .sound import HIDDEN

if TYPE_CHECKING:
    from .generate import Maker

__all__ = ["COMPARISONS", "FUNCTIONS", "TRACING", "Scope"]

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
    *(
        ("current_stacktrace", ()),
        ("current_stacktrace", ("position",)),
        ("process_dump", ()),
        ("get_seq_token", ()),
        ("is_seq_trace", ()),
    ),
    *(("set_seq_token", ("component", "value")), ("silent", ("",)), ("get_tcw", ()), ("set_tcw", ("integer",))),
    *(("set_tcw_fake", ("position",)), ("enable_trace", ("no flag",)), ("disable_trace", ("no flag",))),
    *(("enable_trace", ("identity", "no flag")), ("disable_trace", ("identity", "no flag"))),
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
        return self.traced() if self.chance(0.75 if self.mode == "trace" else 0.02) else self.expression(3)

    def traced(self) -> Term:
        """A call of a tracing function."""
        name, kinds = self.random.choice(TRACING)
        call = t(a(name), *self.arguments(kinds, 2))
        return t(a(HIDDEN[name]), call) if name in HIDDEN else call

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
        if depth > 0 and self.chance(0.02 if self.mode == "trace" else 0.002):
            return self.traced()
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
            far = ({"i": str(2**64)}, {"i": str(-(2**70))})
            return self.random.choice((0, 1, 3, 8, 31, 60, 64, 100, -1, -8, -64, *far))
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
        """A variable, or the whole subject; rarely a variable that is not bound."""
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

        def inner(part: Term) -> Term:
            return self.expression(depth - 1) if self.chance(0.3) and depth > 0 else self.written(part, depth - 1)

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
