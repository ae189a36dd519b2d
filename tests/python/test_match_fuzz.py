"""Match specifications of any shape: an answer, BadArg or SystemLimit, and never anything else.

One maker of values serves two forms: plain random ones everywhere, and hypothesis where it is installed, which also
finds the smallest that fails. INVISO_HYPOTHESIS=long tries many more.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import (
    Atom,
    BadArg,
    BitString,
    Cut,
    ImproperList,
    Map,
    Opaque,
    Port,
    Prefix,
    Ref,
    SystemLimit,
    match_spec_test,
    trace,
)
from trace_tools import mfa, own

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError:
    given = None  # type: ignore[assignment]

LONG = os.environ.get("INVISO_HYPOTHESIS") == "long"

NAMES = """
is_atom is_boolean is_float is_function is_integer is_list is_map is_number is_pid is_port is_reference is_tuple
is_binary is_bitstring is_record and or not xor andalso orelse andthen abs element hd length map_get is_map_key
map_size node round self size byte_size bit_size tl trunc floor ceil float tuple_size binary_part min max + - * /
div rem band bor bxor bnot bsl bsr > >= < =< =:= == =/= /= is_instance attr arg message return_trace
exception_trace display dump caller caller_line current_stacktrace process_dump is_seq_trace get_seq_token set_seq_token
silent enable_trace disable_trace trace get_tcw set_tcw set_tcw_fake const nonsense
""".split()  # noqa: SIM905
QUIET = [name for name in NAMES if name != "display"]
TEXTS = [
    "",
    "_",
    "$_",
    "$$",
    "$0",
    "$1",
    "$2",
    "$01",
    "$",
    "$9999999999",
    "call",
    "a",
    "\u20ac",
    "\udc80",
    "x" * 300,
    "\0",
]
NUMBERS = [
    0,
    1,
    2,
    -1,
    7,
    255,
    1 << 31,
    1 << 63,
    -(1 << 64),
    1 << 300,
    0.0,
    -0.0,
    1.5,
    float("inf"),
    float("nan"),
    1e308,
    True,
]


class Bomb(Exception):
    """The exception of hostile objects."""


def explodes(*arguments: Any, **named: Any) -> Any:
    raise Bomb


class Hostile:
    __class__ = property(explodes)  # type: ignore[assignment]
    __getattribute__ = __eq__ = __bool__ = __len__ = __iter__ = __str__ = explodes  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        raise Bomb


def overriding(base: type) -> type:
    names = ("len", "iter", "getitem", "contains", "bool", "str", "repr", "index", "int", "float", "next", "format")
    space: dict[str, Any] = {f"__{name}__": explodes for name in names}
    return type(f"Hostile{base.__name__}", (base,), space | {"encode": explodes, "items": explodes, "keys": explodes})


LIST, TUPLE, DICT, SET, FROZEN = (overriding(base) for base in (list, tuple, dict, set, frozenset))
STR, INT, FLOAT, BYTES = (overriding(base) for base in (str, int, float, bytes))


class Asking(type):
    def __getattribute__(cls, name: str) -> Any:
        raise Bomb


# in a box: pytest asks every class of a module
ASKED = [Asking("Asked", (), {})]


def half_made() -> list[Any]:
    """Terms with wrong or missing fields."""
    wrong: list[Any] = [kind.__new__(kind) for kind in (Map, BitString, ImproperList, Prefix, Ref, Port, Opaque, Cut)]
    for bits in (0, 8, 99, -1, 1 << 80, "x", None):
        wrong.append(BitString(b"a", bits))  # type: ignore[arg-type]
    wrong += [BitString(b"", 3), BitString("x", 3), Map([1, 2]), Map([(1,)]), Map([(1, 2, 3)]), Prefix()]  # type: ignore[arg-type, list-item]
    for field in (5, None, (), Hostile()):
        wrong.append(Map(()))
        wrong[-1].pairs = field
        wrong.append(ImproperList((), 1))
        wrong[-1].elements = field
        wrong.append(Ref())
        wrong[-1]._number = field
    return wrong


def leaves() -> list[Callable[[], Any]]:
    made = half_made()
    odd: list[Any] = [*made, inviso.self(), Ref(), Port(), Opaque("x", 1), Cut("x"), object(), len, type, sys, 1j,
                      lambda: 1, bytearray(b"x"), range(3), BitString(b"\xa0", 3), deque([1]), ASKED[0],
                      Ellipsis]  # fmt: skip
    hostile = [Hostile, lambda: ASKED[0](), lambda: LIST([1]), lambda: TUPLE((1,)), lambda: DICT({1: 2}),
               lambda: SET({1}),
               lambda: FROZEN({1}), lambda: STR("message"), lambda: STR("\udc80"), lambda: INT(3), lambda: FLOAT(1.5),
               lambda: BYTES(b"x"), lambda: OrderedDict(a=1)]  # fmt: skip
    return [*hostile, *((lambda value=value: value) for value in odd)]  # type: ignore[misc]


LEAVES = leaves()


class Maker:
    """Makes values out of a source of choices."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices

    def one_of(self, many: Any) -> Any:
        return many[self.choices.randrange(len(many))]

    def simple(self) -> Any:
        kind = self.choices.randrange(8)
        if kind < 3:
            return self.one_of(TEXTS)
        if kind < 6:
            return self.one_of(NUMBERS)
        if kind == 6:
            return self.one_of(
                [None, b"", b"bytes", Atom("word"), Atom("_"), Atom("$1"), [], (), {}, set(), "none such"]
            )
        return self.one_of(LEAVES)()

    def value(self, depth: int = 3) -> Any:
        kind = self.choices.randrange(9)
        if depth == 0 or kind < 3:
            return self.simple()
        parts = [self.value(depth - 1) for _ in range(self.choices.randrange(4))]
        if kind < 5:
            return parts
        if kind < 7:
            return tuple(parts)
        if kind == 7:
            return self.one_of(
                [ImproperList(parts, self.simple()), Prefix(*parts), Map([(part, 1) for part in parts]), LIST(parts)]
            )
        try:
            return self.one_of([dict.fromkeys(parts, 1), set(parts), frozenset(parts)])
        except Exception:  # no key
            return parts

    def expression(self, depth: int = 3) -> Any:
        if depth == 0 or self.choices.randrange(4) == 0:
            return self.value(1)
        operands = [self.expression(depth - 1) for _ in range(self.choices.randrange(4))]
        return (self.one_of(QUIET), *operands)

    def several(self, of: Callable[[], Any]) -> Any:
        if self.choices.randrange(20) == 0:
            return self.value()
        return [of() for _ in range(self.choices.randrange(4))]

    def head(self) -> Any:
        return self.one_of(["_", "$1", ["$1"], ["$1", "$2"], self.several(lambda: self.value(2)), self.value()])

    def clause(self) -> Any:
        if self.choices.randrange(20) == 0:
            return self.value()
        return (self.head(), self.several(self.expression), self.several(self.expression))

    def spec(self) -> Any:
        return self.several(self.clause)


def subject(*values: Any) -> None:
    pass


def allowed(step: Callable[[], Any]) -> Any:
    """The answer; None for an error with one of the two reasons."""
    try:
        return step()
    except (BadArg, SystemLimit) as error:
        assert str(error)
        return None


def check_test(choices: random.Random) -> None:
    maker = Maker(choices)
    spec, values = maker.spec(), [maker.value() for _ in range(choices.randrange(3))]
    for mode in ("trace", "table"):
        answer = allowed(lambda: match_spec_test(values, spec, mode))  # type: ignore[arg-type]  # noqa: B023
        if answer is not None:
            assert answer[0] in ("ok", "error")
            assert len(answer) == (4 if answer[0] == "ok" else 2)
    allowed(lambda: match_spec_test(maker.value(), spec, maker.one_of(["trace", "table", maker.value()])))


def check_trace(choices: random.Random) -> None:
    maker = Maker(choices)
    spec = maker.spec()
    with trace.session_create("fuzz", None, {"ring_bytes": 1 << 16}) as session:
        kinds = maker.one_of(
            [["local"], ["global"], ["meta"], ["local", "meta"], ["local", "call_count"], ["call_time"]]
        )
        before = allowed(lambda: session.function(mfa(subject), spec, kinds))
        if before is None:
            assert session.info(mfa(subject), "traced") == ("traced", False)
            return
        own(session, ["call", "return_to"])
        for _ in range(3):
            subject(*(maker.value() for _ in range(choices.randrange(3))))
        session.info(mfa(subject), "all")
        session.drain()
        assert session.function(mfa(subject), False, kinds) == 1
    trace.control_word(0)


CHECKS = [check_test, check_trace]
ROUNDS = {check_test: 600, check_trace: 100}


@pytest.mark.parametrize("check", CHECKS)
def test_any_spec_at_random(check: Callable[[random.Random], None]) -> None:
    seeds = random.Random(time.time_ns() if LONG else 1)
    for _ in range(ROUNDS[check] * (30 if LONG else 1)):
        seed = seeds.randrange(1 << 60)
        try:
            check(random.Random(seed))
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {type(error)}") from error


if given is not None:

    @pytest.mark.parametrize("check", CHECKS)
    @settings(max_examples=5000 if LONG else 60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(choices=st.randoms(use_true_random=False))
    def test_any_spec(check: Callable[[random.Random], None], choices: random.Random) -> None:
        check(choices)


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_left_behind(check: Callable[[random.Random], None]) -> None:
    def blocks() -> int:
        for seed in range(ROUNDS[check] // 10):
            check(random.Random(seed))
        gc.collect()
        return sys.getallocatedblocks()

    # tables grow to their size in the first rounds
    before = blocks()
    for _ in range(30):
        now = blocks()
        if now - before < 10:
            return
        before = now
    raise AssertionError("every round leaves something")


NESTED: dict[str, Callable[[Any], Any]] = {
    "list": lambda v: [v],
    "tuple": lambda v: (v,),
    "dict": lambda v: {1: v},
    "not": lambda v: ("not", v),
    "doubled": lambda v: ((v,),),
    "improper": lambda v: ImproperList([1], v),
    "pairs": lambda v: Map([(1, v)]),
    "hostile": lambda v: TUPLE((LIST([v]),)),
}


@pytest.mark.parametrize("wrap", NESTED)
def test_what_is_nested_too_deep_is_a_limit(session: trace.Session, wrap: str) -> None:
    value: Any = True
    for _ in range(100_000):
        value = NESTED[wrap](value)
    for spec in (
        value,
        [value],
        [([value], [], [])],
        [("_", [value], [])],
        [("_", [], [("message", ("const", value))])],
    ):
        with pytest.raises(SystemLimit, match="match_spec"):
            match_spec_test([], spec)
        if type(spec) is list:
            with pytest.raises(SystemLimit, match="function/4, match_spec"):
                session.function(mfa(subject), spec, ["local"])
    allowed(lambda: match_spec_test(value, [("_", [], [])]))
    assert match_spec_test([value], [("_", [], [("message", True)])])[1] is True


def test_what_is_shared_too_often_is_a_limit(session: trace.Session) -> None:
    value: Any = "x"
    for _ in range(60):
        value = [value, value]
    itself: list[Any] = []
    itself.append(itself)
    for shape in (value, itself):
        with pytest.raises(SystemLimit):
            match_spec_test([], [("_", [], [("message", ("const", shape))])])
        with pytest.raises(SystemLimit):
            session.function(mfa(subject), [([shape], [], [])], ["local"])


@pytest.mark.parametrize("value", LEAVES, ids=range(len(LEAVES)))
def test_odd_and_hostile_objects_everywhere(session: trace.Session, value: Callable[[], Any]) -> None:
    whole: list[Callable[[Any], Any]] = [
        lambda v: v, lambda v: [v], lambda v: [(v, [], [])], lambda v: [([v], [], [])], lambda v: [("_", v, [])],
        lambda v: [("_", [], v)], lambda v: [("_", [v], [])], lambda v: [("_", [], [v])],
        lambda v: [("_", [(v, 1)], [])],
        lambda v: [("_", [], [("message", ("const", v))])], lambda v: [({1: v}, [], [])],
    ]  # fmt: skip
    for shape in whole:
        spec = shape(value())
        allowed(lambda: match_spec_test([1], spec))  # noqa: B023
        allowed(lambda: match_spec_test([1], spec, "table"))  # noqa: B023
        allowed(lambda: session.function(mfa(subject), spec, ["local"]))  # noqa: B023
    allowed(lambda: match_spec_test(value(), [("_", [], [])]))
    allowed(lambda: match_spec_test([value()], [(["$1"], [], [("message", "$1")])]))
    allowed(lambda: match_spec_test(value(), [("$1", [], ["$1"])], "table"))
    allowed(lambda: match_spec_test([], [("_", [], [])], value()))


@pytest.mark.parametrize("expression", [
    ("bsl", 1, 1 << 62), ("bsl", 1, 1 << 31), ("bsl", 1 << 4000, 1 << 40), ("bsr", 1, -(1 << 40)),
    ("bsr", -1, 1 << 200),
    ("*", 1 << 60_000, 1 << 60_000), ("div", 1 << 60_000, 3), ("/", 1 << 60_000, 1), ("float", 1 << 60_000),
    ("trunc", 1e308), ("rem", 1, 0), ("div", 1, 0), ("/", 1.0, 0), ("+", 1e308, 1e308), ("abs", -(1 << 63)),
])  # fmt: skip
def test_large_numbers_answer_soon(expression: Any) -> None:
    began = time.monotonic()
    assert match_spec_test([], [("_", [], [("message", expression)])])[0] == "ok"
    assert time.monotonic() - began < 30
