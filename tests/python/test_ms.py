"""`inviso.ms`: what lambdas become, what is refused, and that both mean the same."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import inviso
import pytest
from inviso import Atom, BadArg, MatchSpec, Prefix, match_spec_test, ms
from inviso.match_spec import format

LIMIT = 7
NAMES = SimpleNamespace(low="lo", deep=SimpleNamespace(high=9))


def test_guards() -> None:
    for made, guards in (
        (ms(lambda a, b: a > b), [(">", "$1", "$2")]),
        (ms(lambda a, b: a > 1 and b != "x"), [(">", "$1", 1), ("/=", "$2", "x")]),
        (ms(lambda a, b: a > 1 or not b == 2), [("orelse", (">", "$1", 1), ("not", ("==", "$2", 2)))]),
        (ms(lambda a, b: 1 < a <= b < 9), [("andalso", ("<", 1, "$1"), ("=<", "$1", "$2"), ("<", "$2", 9))]),
        (ms(lambda a, b: a in (1, b)), [("orelse", ("==", "$1", 1), ("==", "$1", "$2"))]),
        (ms(lambda a, b: a is None and b is not True), [("=:=", "$1", None), ("=/=", "$2", True)]),
        (ms(lambda a, b: a + b * 2 - -1 == 7), None),
        (ms(lambda a, b: is_tuple(a) and hd(b) == 1), [("is_tuple", "$1"), ("==", ("hd", "$2"), 1)]),  # noqa: F821
        (ms(lambda a, b: a["k"] == b.name), [("==", ("map_get", "k", "$1"), ("attr", "$2", "name"))]),
    ):
        if guards is not None:
            assert made == [(["$1", "$2"], guards, [])]


def test_heads() -> None:
    assert ms(lambda: True) == [([], [], [])]
    assert ms(lambda a, b: b == 1) == [(["_", "$2"], [("==", "$2", 1)], [])]
    assert ms(lambda *args: True) == [("_", [], [])]
    assert ms(lambda *args: args == [1]) == [("$1", [("==", "$1", [1])], [])]
    assert ms(lambda a, *rest: a > 1) == [(Prefix("$1"), [(">", "$1", 1)], [])]
    assert ms(lambda a, *, key: key == a) == [(Prefix("$1"), [("==", ("arg", "key"), "$1")], [])]
    assert ms(lambda *, key: key == 1) == [("_", [("==", ("arg", "key"), 1)], [])]


def test_actions() -> None:
    made = ms(lambda a: a > 1 and message((a, caller())) and return_trace())  # noqa: F821
    assert made == [(["$1"], [(">", "$1", 1)], [("message", (("$1", ("caller",)),)), ("return_trace",)])]
    made = ms(lambda a: (silent(True), message({"k": [a, "x"]}), set_tcw(3)))  # noqa: F821
    assert made == [(["$1"], [], [("silent", True), ("message", {"k": ["$1", "x"]}), ("set_tcw", 3)])]
    made = ms(lambda a: a == 1 and (display(a), enable_trace("arity")))  # noqa: F821
    assert made == [(["$1"], [("==", "$1", 1)], [("display", "$1"), ("enable_trace", "arity")])]


def test_clauses() -> None:
    made = ms(lambda a: a > 1, lambda a: a < -1 and message(False))  # noqa: F821
    assert made == [(["$1"], [(">", "$1", 1)], []), (["$1"], [("<", "$1", -1)], [("message", False)])]
    assert isinstance(made, MatchSpec)
    assert eval(repr(made)) == made


def test_values_from_around() -> None:
    local = ("t", 1)
    assert ms(lambda a: a == LIMIT) == [(["$1"], [("==", "$1", 7)], [])]
    assert ms(lambda a: a == local) == [(["$1"], [("==", "$1", ("const", ("t", 1)))], [])]
    assert ms(lambda a: a == NAMES.deep.high) == [(["$1"], [("==", "$1", 9)], [])]
    assert ms(lambda a: a == NAMES.low) == [(["$1"], [("==", "$1", ("const", "lo"))], [])]
    assert ms(lambda a: a == "$1" or a == "_") == [
        (["$1"], [("orelse", ("==", "$1", ("const", "$1")), ("==", "$1", ("const", "_")))], [])
    ]


def test_functions_of_one_expression() -> None:
    def big(amount: int, _currency: str) -> bool:
        """Orders that matter."""
        return amount > 100

    assert ms(big) == [(["$1", "_"], [(">", "$1", 100)], [])]


def test_several_in_a_line() -> None:
    one, two = (lambda a: a > 1), (lambda a: a > 2)  # fmt: skip
    assert (ms(one), ms(two)) == ([(["$1"], [(">", "$1", 1)], [])], [(["$1"], [(">", "$1", 2)], [])])


def test_over_several_lines() -> None:
    made = ms(
        lambda amount, currency: amount > 100
        and currency in ("EUR", "USD")
    )  # fmt: skip
    assert made[0][1][0] == (">", "$1", 100)


def defined(source: str, name: str, *, known: bool = True) -> Any:
    place = f"<cell {name} {known}>"
    if known:
        linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    names: dict[str, Any] = {}
    exec(compile(source, place, "exec"), names)
    return names[name]


def test_in_a_cell() -> None:
    assert ms(defined("x = 1\nf = lambda a: a > 5\n", "f")) == [(["$1"], [(">", "$1", 5)], [])]


def test_where_the_source_is_not_known() -> None:
    with pytest.raises(BadArg, match="source is not known"):
        ms(defined("g = lambda a: a > 5\n", "g", known=False))
    with pytest.raises(BadArg, match="changed"):
        changed = defined("h = lambda a: a > 5\n", "h")
        linecache.cache["<cell h True>"] = (1, None, ["\n", "h = 1\n"], "<cell h True>")
        ms(changed)


def unknown(_: object) -> bool:
    return True


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda a: a, "as a condition"),
    (lambda a, b: a and b > 1, "as a condition"),
    (lambda a: unknown(a), "a call of 'unknown'"),
    (lambda a: a.method() == 1, "a call of 'a.method'"),
    (lambda a: [x for x in a] == [], "ListComp"),
    (lambda a: f"{a}" == "x", "JoinedStr"),
    (lambda a: a**2 == 4, r"a \*\* 2"),
    (lambda a=1: a > 1, "a default value"),
    (lambda a, **named: a > 1, "named"),
    (lambda a, *rest: rest == [], "rest"),
    (lambda a: a in a, "in"),
    (lambda a: a is a, "'is'"),
    (lambda a: a[-1] == 1, "UnaryOp|Subscript"),
    (lambda a: a[1:] == 1, "Subscript"),
    (lambda a: message(a[0]), "type decides"),  # noqa: F821
    (lambda a: message(len(a)), "outside a condition"),  # noqa: F821
    (lambda a: message(1) or a > 1, "an action in"),  # noqa: F821
    (lambda a: message(1) and a > 1, "a condition after an action"),  # noqa: F821
    (lambda a: (a > 1, message(1)), "no action"),  # noqa: F821
    (lambda a: a == unknown, "a function"),
    (lambda a: a == nowhere, "unknown name"),  # noqa: F821
    (lambda a: isinstance(a, unknown), "as a class"),
    (lambda a: round(a) == 1, "round"),
    (lambda a: abs(x=a) == 1, "keywords"),
    (lambda a: (b := a) == 1, "NamedExpr"),
]


@pytest.mark.parametrize(("refused", "what"), REFUSED)
def test_what_can_not_be_expressed(refused: Callable[..., Any], what: str) -> None:
    with pytest.raises(BadArg, match=what) as caught:
        ms(refused)
    assert f"{__file__}:{refused.__code__.co_firstlineno}:" in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 1, print, "lambda a: a", len, str.upper])
def test_what_is_no_function(wrong: Any) -> None:
    with pytest.raises(BadArg, match="ms/1, functions"):
        ms(wrong)


def test_none_at_all() -> None:
    with pytest.raises(BadArg, match="there is none"):
        ms()


class Thing:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


VALUES: list[Any] = [
    0, 1, -7, 3, 2**70, 2.5, -0.5, "", "ab", "k", b"ab", None, True, False, (), (1,), (1, "k", 3), [], [1], [3, 4], {}, {"k": 1},
    {1: 2}, Thing("ab"), frozenset({1}),
]  # fmt: skip
SAME: list[Callable[..., Any]] = [
    lambda a, b: isinstance(a, int) and isinstance(b, int) and a + b > 2,
    lambda a, b: isinstance(a, int) and isinstance(b, int) and b != 0 and a % b == 1,
    lambda a, b: isinstance(a, int) and isinstance(b, int) and b != 0 and a // b < 0,
    lambda a, b: isinstance(a, int) and isinstance(b, int) and (a & b) | 1 == 3,
    lambda a, b: isinstance(a, int | float) and isinstance(b, float | int) and a * b - a < b,
    lambda a, b: isinstance(a, str) and isinstance(b, str) and a == b,
    lambda a, b: isinstance(a, (tuple, list)) and len(a) > 1,
    lambda a, b: isinstance(a, (tuple, list, dict)) and isinstance(b, (tuple, str)) and len(a) == len(b),
    lambda a, b: isinstance(a, tuple | list) and len(a) >= 1 and a[0] == 1,
    lambda a, b: isinstance(a, dict) and len(a) == 1 and (len(a) > 7 or not isinstance(b, list)),
    lambda a, b: a is None or b is True or (a is not False and b is None),
    lambda a, b: isinstance(a, object) and isinstance(b, bool | None),
    lambda a, b: isinstance(a, Thing) and a.name == "ab",
    lambda a, b: isinstance(a, bytes | frozenset) or isinstance(b, dict),
    lambda a, b: isinstance(a, float) and (a < 0 if isinstance(b, int) else a > 0),
    lambda a, b: isinstance(a, int) and not isinstance(a, bool) and a in (0, 1, 3) and 0 <= a < 3,
    lambda a, b: isinstance(a, int) and abs(a) == 7 and -a not in (1, 2),
    lambda a, b: isinstance(a, list) and a == [1],
]


@pytest.mark.parametrize("predicate", SAME)
def test_a_specification_means_what_its_lambda_means(predicate: Callable[..., Any]) -> None:
    spec, taken = ms(predicate), 0
    for a, b in itertools.product(VALUES, VALUES):
        if isinstance(a, bool) != isinstance(b, bool) and (isinstance(a, int) and isinstance(b, int)):
            continue  # True is a number for Python alone
        if isinstance(a, bool) or isinstance(b, bool):
            numbers = (
                "+" in format(spec) or "%" in format(spec) or any(w in format(spec) for w in ("rem", "*", "&", "-"))
            )
            if numbers:
                continue
        tested = match_spec_test([a, b], spec, "trace")
        assert tested == ("ok", bool(predicate(a, b)), [], []), (a, b)
        taken += tested[1]
    assert taken, "the lambda takes nothing"


def test_printed() -> None:
    made = ms(
        lambda a, b: (a + 1) * 2 > b and (a == 1 or b == 2) and not a == b and message([a, {"k": (b,)}]),  # noqa: F821
        lambda *args: return_trace(),  # noqa: F821
    )
    assert str(made).splitlines() == [
        "[$1, $2] when (($1 + 1) * 2) > $2 and ($1 == 1 or $2 == 2) and not ($1 == $2) -> message([$1, {'k': ($2,)}])",
        "_ -> return_trace()",
    ]
    assert format([(Prefix("$1", (1, "_")), [("is_map", "$1")], [("message", ("const", ("x",)))])]) == (
        "[$1, (1, _) | _] when is_map($1) -> message(const(('x',)))"
    )
    assert (
        format([(["$1"], [("==", "$1", Atom("a")), ("==", "$1", "a")], [])])
        == "[$1] when $1 == Atom('a') and $1 == 'a'"
    )


def test_in_a_session() -> None:
    def order(amount: int, *, currency: str = "EUR") -> int:
        return amount

    mfa = (__name__, order.__qualname__, 2)
    with inviso.trace.session_create("orders") as session:
        spec = ms(lambda amount, *, currency: amount > 100 and currency != "EUR" and message(currency))  # noqa: F821
        assert session.function(mfa, spec, ["local"]) == 1
        assert session.info(mfa, "match_spec") == ("match_spec", spec)
        session.process(inviso.self(), True, ["call"])
        for amount, currency in ((1, "USD"), (101, "EUR"), (102, "USD")):
            order(amount, currency=currency)
        assert [message[3:] for message in session.drain()] == [((mfa[0], mfa[1], [102, "USD"]), "USD")]
