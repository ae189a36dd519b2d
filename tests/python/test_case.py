"""Trace cases: allowed statements, effects of a bad one, and the translation of calls."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from inviso import BadArg, case

GOOD = {
    "1 + 2 * -3": -5,
    "not 0 and ~1 or 2": -2,
    "1 < 2 <= 2 != 3": True,
    "1 < 0 < 1 // 0": False,
    "'a' if [] else 'b'": "b",
    "[x * y for x in range(3) if x for y in (1, 2)]": [1, 2, 2, 4],
    "{x for x, _ in [(1, 2), (1, 3)]}": {1},
    "{k: v for k, v in [('a', 1)]}": {"a": 1},
    "{'a': (1, 2.5, None, True, b'x')}": {"a": (1, 2.5, None, True, b"x")},
    "len(x for x in [1, 2])": 2,
    "json.dumps({'a': []}, indent=None)": '{"a": []}',
    "os.path.basename('a/b')": "b",
    "1 in [1] is not None": True,
    "Atom('call')": "call",
    "Prefix(1, 2)": None,
}


@pytest.mark.parametrize("text", GOOD)
def test_values(text: str) -> None:
    done = case.run_text(text)
    assert done.problems == []
    assert GOOD[text] is None or done.value == GOOD[text]


BAD = {
    "import os": "is no part of a trace case",
    "from os import path": "is no part",
    "def f(): pass": "is no part",
    "class C: pass": "is no part",
    "for x in y: f(x)": "is no part",
    "if 1: f()": "is no part",
    "while 1: pass": "is no part",
    "with open('x') as f: pass": "is no part",
    "try: f()\nexcept: pass": "is no part",
    "del x": "is no part",
    "x += 1": "is no part",
    "x: int = 1": "is no part",
    "global x": "is no part",
    "async def f(): pass": "is no part",
    "lambda: 1": "is no part",
    "x[0]": "is no part",
    "a.b": "is no part",
    "f'{x}'": "is no part",
    "(x := 1)": "is no part",
    "[*x]": "is no part",
    "os.environ['A'] = 1": "can't be bound",
    "a.b = 1": "can't be bound",
    "[a, b.c] = 1, 2": "can't be bound",
    "f()()": "can't be called",
    "(lambda: 1)()": "can't be called",
    "'a'.join([])": "can't be called",
    "os._exit(1)": "can't be called",
    "__import__('os')": "can't be called",
    "x.__class__()": "can't be called",
    "m.f(*a)": "is no part",
    "m.f(**a)": "write each argument by itself",
    "{**a}": "write each pair by itself",
    "1 +": "invalid syntax",
    "eval('1')": "there is no function 'eval' without a module",
    "nothing.there()": "there is no function nothing.there",
    "json.nothing()": "there is no function json.nothing",
    "json.decoder()": "json.decoder is no function",
    "x": "'x' is not bound",
    "1 // 0": "ZeroDivisionError",
    "json.loads('{')": "JSONDecodeError",
    "a, b = [1]": "does not match",
    "a, a = 1, 2": "can't be two values at once",
    "(" * 70 + "[1]" + ")" * 70 + " + " + "-" * 70 + "1": "nested too deep",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_statement_spoils_itself_only(text: str) -> None:
    """It is between two valid ones; the error names its line."""
    done = case.run_text(f"A = 1\n\n{text}\nB = A + 1\n")
    assert done.bindings == {"A": 1, "B": 2}
    assert [problem.line for problem in done.problems] == [3] * len(done.problems) or "except" in text
    assert BAD[text] in done.problems[0].why


def test_statements_over_several_lines() -> None:
    text = "A = [1,\n  # a comment\n  2,\n]\nB = (\n3\n)\nC = 1; D = 2\nbad bad\nE = '''\nx\n'''\n"
    done = case.run_text(text)
    assert done.bindings == {"A": [1, 2], "B": 3, "C": 1, "D": 2, "E": "\nx\n"}
    assert [problem.line for problem in done.problems] == [9]


def test_an_open_bracket_spoils_its_statement() -> None:
    done = case.run_text("A = 1\nB = (1,\nC = 3\nD = 4\n")
    assert done.bindings["D"] == 4 and "B" not in done.bindings
    assert done.problems[0].line == 2


def test_a_name_is_bound_once() -> None:
    done = case.run_text("A = 1\nA = 1\nA = 2\nA = True\nB = A\n", {"C": 5})
    assert done.bindings == {"A": 1, "B": 1, "C": 5}
    assert [problem.line for problem in done.problems] == [3, 4]
    assert case.run_text("C = 6", [("C", 5)]).problems[0].why == "'C' is bound to another value already"


def test_what_fails_binds_nothing() -> None:
    done = case.run_text("A, B = 1, 1 // 0\nA = 2\nA, C = 3, 4")
    assert done.bindings == {"A": 2}
    assert [problem.line for problem in done.problems] == [1, 3]


def test_a_comprehension_has_names_of_its_own() -> None:
    done = case.run_text("X = [X for X in [1, 2]]\nY = X")
    assert done.bindings == {"X": [1, 2], "Y": [1, 2]}


def only_first(arguments: list[ast.expr]) -> list[ast.expr]:
    return arguments[:1]


def no_list(arguments: list[ast.expr]) -> Any:
    return "no list"


def crashes(arguments: list[ast.expr]) -> Any:
    raise LookupError


def record(*arguments: Any) -> tuple[Any, ...]:
    return arguments


HERE = __name__


@pytest.mark.parametrize(
    ("munge", "value"),
    [
        (("inviso.case", "drop_first"), (2,)),
        (("erlang", "tl"), (2,)),
        (only_first, (1,)),
        ((HERE, "only_first"), (1,)),
        ("nothing", (1, 2)),
        (None, (1, 2)),
    ],
)
def test_translation(munge: Any, value: Any) -> None:
    rule = (("some.module", "f", 2), (HERE, "record", munge))
    assert case.run_text("some.module.f(1, 2)", (), [rule]).value == value


@pytest.mark.parametrize("munge", [crashes, no_list, ("nothing", "there")])
def test_a_call_whose_arguments_cannot_be_made_stays(munge: Any) -> None:
    rule = (("json", "dumps", 1), (HERE, "record", munge))
    assert case.run_text("json.dumps(1)", (), [rule]).value == "1"


def test_what_is_dropped_needs_no_binding() -> None:
    rule = (("inviso", "tpl", 3), (HERE, "record", case.drop_first))
    assert case.run_text("inviso.tpl(Nodes, 1, [2])", (), [rule]).value == (1, [2])


def test_the_first_rule_that_fits_counts() -> None:
    rules = [
        (("f", 1), (HERE, "record", None)),
        (("f", 1), ("json", "dumps", None)),
        (("m", "f", 1), ("json", "dumps", None)),
    ]
    assert case.run_text("f(1)", (), rules).value == (1,)
    assert case.run_text("m.f(1)", (), rules).value == "1"
    assert case.run_text("f(1, 2)", (), rules).problems != []


def test_calls_inside_others_are_translated() -> None:
    rules = [(("f", 1), (HERE, "record", None)), (("g", 2), (HERE, "record", ("erlang", "tl")))]
    done = case.run_text("X = [f(g(0, f(1))) for Y in [1] if f(Y)]\n{'a': (f(2) if 1 else 0)}", (), rules)
    assert done.bindings == {"X": [(((1,),),)]}
    assert done.value == {"a": (2,)}


def test_malformed_rules_and_bindings() -> None:
    with pytest.raises(BadArg, match="translations"):
        case.run_text("", (), [("f", "g")])
    with pytest.raises(BadArg, match="bindings"):
        case.run_text("", [1])
    with pytest.raises(BadArg, match="bindings"):
        case.run_text("", {1: 2})


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.case"
    path.write_text("A = 'ü'\nB = = 1\n", encoding="utf-8")
    told: list[str] = []
    done = case.run(path, trace=told.append)
    assert done.bindings == {"A": "ü"} and done.problems[0].line == 2
    assert told == [f"{path}:1: A = 'ü' -> 'ü'"]
    with pytest.raises(FileNotFoundError):
        case.run(tmp_path / "missing")


def test_a_call_of_values() -> None:
    value = object()
    rule = (("inviso", "f", 2), (HERE, "record", ("inviso.case", "drop_first")))
    assert case.call("inviso", "f", ["nodes", value], (), [rule]).value == (value,)
    assert case.call("json", "loads", ["{"]).problems[0].why.startswith("JSONDecodeError")


def test_the_runtime_component_by_its_old_name() -> None:
    assert case.run_text("inviso_rt.tf('all', ['call'])").value == ("error", "not_started")
    assert "there are 2; pass 1, 4, 5" in case.run_text("inviso_rt.tp('a', 'b')").problems[0].why


def test_answers_that_are_errors_are_kept_apart() -> None:
    done = case.run_text("A = inviso_rt.tf('all', [])\njson.loads('1')\ninviso_rt.tf('all', [])\nerror = A")
    assert (done.problems, done.value) == ([], ("error", "not_started"))
    assert [(each.line, each.why) for each in done.refused] == [(3, "the answer was ('error', 'not_started')")]
    assert case.call("inviso_rt", "tf", ["all", []]).refused[0].why == done.refused[0].why
