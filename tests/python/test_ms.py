"""`inviso.ms`: the translation of lambdas, refused ones, and equal meaning of both."""

from __future__ import annotations

import abc
import collections.abc
import enum
import itertools
import linecache
import numbers as number_classes
import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import inviso
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inviso import Atom, BadArg, MatchSpec, Prefix, match_spec_test, ms
from inviso.match_spec import format

LIMIT = 7
NAMES = SimpleNamespace(low="lo", deep=SimpleNamespace(high=9))


def test_guards() -> None:
    for made, guards in (
        (ms(lambda a, b: a > b), [(">", "$1", "$2")]),
        (ms(lambda a, b: a > 1 and b != "x"), [(">", "$1", 1), ("/=", "$2", "x")]),
        (ms(lambda a, b: a > 1 or not b == 2), [("orelse", (">", "$1", 1), ("not", ("==", "$2", 2)))]),  # noqa: SIM201
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


class Colour(enum.IntEnum):
    RED = 1


class Base(abc.ABC):  # noqa: B024
    pass


def test_variables_have_their_present_values() -> None:
    wanted, debug = ["EUR", ["USD"]], False
    spec = ms(lambda a: a == wanted and a != Colour.RED)
    wanted[1].append("GBP")  # type: ignore[attr-defined]
    assert repr(spec) == ("MatchSpec([(['$1'], [('==', '$1', ('const', ['EUR', ['USD']])), ('/=', '$1', 1)], [])])")
    codes = ("EUR", "USD")
    assert match_spec_test(["USD"], ms(lambda a: debug or a in codes))[1] is True
    assert match_spec_test(["GBP"], ms(lambda a: debug or a in codes))[1] is False

    def late() -> MatchSpec:
        made = ms(lambda a: a == value)
        value = 1
        return made

    with pytest.raises(BadArg, match="'value', which has no value yet"):
        late()


class Account:
    def __init__(self, total: int) -> None:
        self.__total = total

    spec = ms(lambda self: self.__total > 1)  # type: ignore[attr-defined]


def test_private_names() -> None:
    assert Account.spec == [(["$1"], [(">", ("attr", "$1", "_Account__total"), 1)], [])]
    assert match_spec_test([Account(2)], Account.spec)[1] is True


def test_lists_of_lambdas() -> None:
    one, two = (lambda a: a > 1), (lambda a, b: a > b)
    assert ms([one, two]) == ms(one, two) == ms((one,), two)


def test_the_other_arguments() -> None:
    spec = ms(lambda a, *rest: len(rest) > 1 and message(rest))  # noqa: F821
    assert spec[0][0] == Prefix("_")
    assert spec[0][2] == [("message", ("tl", "$_"))]
    assert match_spec_test([], spec)[1] is False
    assert match_spec_test([1, 2, 3], spec)[1] == [2, 3]
    assert match_spec_test([1, 2], spec)[1] is False


def test_nested_conjunctions() -> None:
    made = ms(lambda a: a > 1 and (a < 5 and (message(a), return_trace())))  # noqa: F821
    assert made == [(["$1"], [(">", "$1", 1), ("<", "$1", 5)], [("message", "$1"), ("return_trace",)])]


def test_classes() -> None:
    assert ms(lambda a: isinstance(a, Base)) == [(["$1"], [("is_instance", "$1", f"{__name__}.Base")], [])]
    assert match_spec_test([inviso.self()], ms(lambda a: isinstance(a, inviso.Pid)))[1] is True


def test_parts_of_one_object_have_one_type() -> None:
    [(_, [(name, *alternatives)], _)] = ms(lambda a: a[0] + a[1] + a[2] == len(a))
    assert (name, len(alternatives)) == ("orelse", 3)


def test_an_error_is_no_match_inside_a_condition_either() -> None:
    for spec in (ms(lambda a: not len(a) > 1), ms(lambda a: len(a) > 1 or True), ms(lambda a: a[0] != 1 or True)):
        for odd in (5, None, {1, 2, 3}, Thing("x")):
            assert match_spec_test([odd], spec)[1] is False
    assert match_spec_test([()], ms(lambda a: not len(a) > 1))[1] is True


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


def test_a_source_that_is_no_longer_the_functions() -> None:
    predicate = defined("i = lambda a: a > 5\n", "i")
    linecache.cache["<cell i True>"] = (1, None, ["i = lambda a: a > 6\n"], "<cell i True>")
    with pytest.raises(BadArg, match="<cell i True>:1: <lambda>: its source has changed"):
        ms(predicate)


def test_a_file_that_is_read_again(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "rules.py"
    for limit in (5, 66):
        place.write_text(f"rule = lambda a: a > {limit}\n")
        names: dict[str, Any] = {}
        exec(compile(place.read_text(), str(place), "exec"), names)
        assert ms(names["rule"]) == [(["$1"], [(">", "$1", limit)], [])]


def test_columns_are_characters() -> None:
    with pytest.raises(BadArg, match="<cell j True>:1:28: a call of 'print'"):
        ms(defined("j = lambda a: 'äö€' == (   print(a))\n", "j"))


def test_coroutine_functions() -> None:
    async def later(a: int) -> bool:
        return a > 1

    with pytest.raises(BadArg, match="a coroutine function"):
        ms(later)


def test_at_the_command_line() -> None:
    program = "from inviso import ms\nprint(ms(lambda a: a > 41))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ("[$1] when $1 > 41" in done.stdout) if sys.version_info >= (3, 13) else ("not known" in done.stderr)


def test_while_they_are_traced(session: inviso.Session) -> None:
    predicate = lambda a: a > 1  # noqa: E731
    session.function((__name__, "_", "_"), True, ["local", "call_count"])
    session.process(inviso.self(), True, ["call"])
    for _ in range(100):
        predicate(1)
    assert ms(predicate) == [(["$1"], [(">", "$1", 1)], [])]


def unknown(_: object) -> bool:
    return True


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)

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
    (lambda a: a in a, "in"),
    (lambda a: a is a, "'is'"),
    (lambda a: a[-1] == 1, "from the end"),
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
    (lambda a: (b := a) == 1, "NamedExpr"),  # noqa: F841
    (lambda a: a == 1j, "1j"),
    (lambda a: a in [], "no literal"),  # noqa: RUF060
    (lambda a: a == {1, 2}, "Set"),
    (lambda a: a == {(1, [a]): 2}, "as a key"),
    (lambda a: a + "x" == "yx", "no numbers"),
    (lambda a: a == NAMES.nowhere, "nowhere"),
    (lambda a: a == CYCLIC, "a list"),
    (lambda a: isinstance(a, collections.abc.Mapping), "inherit"),
    (lambda a: isinstance(a, number_classes.Number), "inherit"),
    (lambda a: a[0][0][0][0][0] == 1, "243 alternatives"),
    (lambda a: max(a) == 1, "takes 2"),
    (lambda a: get_seq_token() == 1, "can't be a guard"),  # noqa: F821
    (lambda a: ([message(1)],), "an action in something else"),  # noqa: F821
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


def test_no_lambda_at_all() -> None:
    with pytest.raises(BadArg, match="there is none"):
        ms()


class Thing:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


VALUES: list[Any] = [
    0, 1, -7, 3, 2**70, 2.5, -0.5, "", "ab", "k", b"ab", None, True, False, (), (1,), (1, "k", 3), [], [1], [3, 4], {},
    {"k": 1}, {1: 2}, Thing("ab"), frozenset({1}),
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
        lambda a, b: (a + 1) * 2 > b and (a == 1 or b == 2) and not a == b and message([a, {"k": (b,)}]),  # noqa: F821, SIM201
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


# random lambdas: Python itself computes the meaning of each

A = st.one_of(st.integers(-50, 50), st.sampled_from([0.5, -2.0, 3.0]), st.none(), st.just("ab"))
B = st.one_of(st.integers(-5, 5), st.none(), st.sampled_from(["", "k", "ab"]))
LEAF = st.one_of(st.integers(-3, 3), st.none())
C = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(0, 2), st.just("k")), inner, max_size=3),
    ),
    max_leaves=8,
)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    """The source of a condition of a (a number or not), b (text or not) and c (with parts or not)."""
    again = conditions(depth=depth - 1)
    kinds = ["order", "order", "chain", "equal", "in", "is", "isinstance", "len", "index", "test"]
    kinds += ["and", "or", "not", "if", "and", "or", "not", "is either"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "order":
            return f"{draw(numbers())} {draw(st.sampled_from(['<', '<=', '>', '>=', '==', '!=']))} {draw(numbers())}"
        case "chain":
            return f"{draw(numbers())} < {draw(numbers())} <= {draw(numbers())}"
        case "equal":
            return f"{draw(values())} {draw(st.sampled_from(['==', '!=']))} {draw(values())}"
        case "in":
            members = ", ".join(draw(st.lists(values(), min_size=1, max_size=3)))
            return f"{draw(values())} {draw(st.sampled_from(['in', 'not in']))} [{members}]"
        case "is":
            return f"{draw(values())} {draw(st.sampled_from(['is None', 'is not None', 'is True']))}"
        case "isinstance":
            classes = ["int", "float", "str", "bool", "dict", "(int, str)", "list | tuple", "None | dict"]
            return f"isinstance({draw(values())}, {draw(st.sampled_from(classes))})"
        case "len":
            return f"len({draw(values())}) {draw(st.sampled_from(['<', '==', '>']))} {draw(numbers(1))}"
        case "index":
            return f"{draw(parts())} {draw(st.sampled_from(['==', '!=']))} {draw(parts())}"
        case "test":
            return f"{draw(st.sampled_from(['is_integer', 'is_list', 'is_map']))}({draw(values())})"
        case "and":
            return f"({draw(again)} and {draw(again)})"
        case "or":
            return f"({draw(again)} or {draw(again)})"
        case "is either":
            same = draw(st.sampled_from(["is True", "is not True", "is False", "== True", "!= False"]))
            return f"(({draw(again)}) {same})"
        case "not":
            return f"(not ({draw(again)}))"
        case _:
            return f"({draw(again)} if {draw(again)} else {draw(again)})"


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> str:
    """A number or an error, in both languages."""
    again = numbers(depth=depth - 1)
    kinds = ["literal", "any", "whole", "len"] + ["sum", "whole sum", "shift", "minus", "abs"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "literal":
            return draw(st.sampled_from(["0", "1", "-1", "7", "2.5"]))
        case "any":
            return draw(st.sampled_from(["(a + 0)", "(b - 0)", "(c + 0)"]))
        case "whole":
            return draw(st.sampled_from(["(a & -1)", "(b | 0)", "~b", "3"]))
        case "len":
            return f"len({draw(values())})"
        case "sum":
            return f"({draw(again)} {draw(st.sampled_from('+-*/'))} {draw(again)})"
        case "whole sum":
            sign = draw(st.sampled_from(["//", "%", "&", "|", "^"]))
            return f"((b & -1) {sign} ({draw(st.sampled_from('ab'))} | 0))"
        case "shift":
            return f"((a | 0) {draw(st.sampled_from(['<<', '>>']))} {draw(st.sampled_from(['0', '3']))})"
        case "minus":
            return f"(-{draw(again)})"
        case _:
            return f"abs({draw(again)})"


@st.composite
def parts(draw: st.DrawFn) -> str:
    index = st.sampled_from(["", "[0]", "[1]", "['k']"])
    return f"c{draw(index)}{draw(index)}"


def values() -> st.SearchStrategy[str]:
    plain = ["a", "b", "c", "1", "2.0", "'k'", "None", "(1, b)", "[]", "[a]", "{'k': b}", "(c,)", "LIMIT"]
    return st.one_of(st.sampled_from(plain), parts())


PYTHONS = {
    "is_integer": lambda x: isinstance(x, int),
    "is_list": lambda x: isinstance(x, list),
    "is_map": lambda x: isinstance(x, dict),
    "LIMIT": LIMIT,
}
places = itertools.count()


def predicates(*sources: str) -> list[Callable[..., Any]]:
    """Lambdas of these conditions, all in one line of a known source."""
    place = f"<predicates {next(places)}>"
    source = f"made = [{', '.join(f'lambda a, b, c: {each}' for each in sources)}]\n"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    names = dict(PYTHONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # 2.0 is None
        exec(compile(source, place, "exec"), names)
    return names["made"]  # type: ignore[return-value]


def says(predicate: Callable[..., Any], arguments: list[Any]) -> bool:
    try:
        return bool(predicate(*arguments))
    except Exception:
        return False


def examples(number: int) -> Any:
    many = number * 20 if os.environ.get("INVISO_HYPOTHESIS") == "long" else number
    return settings(max_examples=many, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@examples(200)
@given(conditions(), st.lists(st.tuples(A, B, C), min_size=1, max_size=20))
def test_random_lambdas_mean_what_python_says(source: str, calls: list[tuple[Any, Any, Any]]) -> None:
    [predicate] = predicates(source)
    try:
        spec = ms(predicate)
    except BadArg as error:
        assert "alternatives" in error.why  # or too large
        return
    for call in calls:
        tested = match_spec_test([*call], spec, "trace")
        assert tested == ("ok", says(predicate, [*call]), [], []), (call, str(spec))


@examples(60)
@given(st.lists(conditions(depth=2), min_size=2, max_size=4), st.lists(st.tuples(A, B, C), min_size=1, max_size=10))
def test_lambdas_in_one_line_are_told_apart(sources: list[str], calls: list[tuple[Any, Any, Any]]) -> None:
    for predicate in predicates(*sources):
        try:
            spec = ms(predicate)
        except BadArg as error:
            assert "alternatives" in error.why or "several functions" in error.why
            continue
        for call in calls:
            assert match_spec_test([*call], spec)[1] is says(predicate, [*call])
