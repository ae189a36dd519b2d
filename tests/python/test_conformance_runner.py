"""The runner of the recorded cases: wrong cases that it must find, omitted ones with reasons, and failures that it
survives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import Case, Malformed, case, read
from tests.conformance.compare import Names, encode, first_difference, message, same
from tests.conformance.covered import covered
from tests.conformance.fixtures import load, resolve, through_module
from tests.conformance.inexpressible import NO_GLOBAL_CALL, NO_TAIL_CALLS, reason
from tests.conformance.pool import Pool
from tests.conformance.product import atom, inviso
from tests.conformance.terms import decode

ROOT = Path(__file__).parents[2]
GOLD = ROOT / "tests" / "data" / "gold"
SCENARIOS = [
    case for name in ("trace_events", "match_spec_calls", "seq_trace") for case in read(GOLD / f"{name}.jsonl")
]
MUTATED = (
    "te-call-arity",
    "te-count-pause",
    "te-time-two-procs",
    "te-session-create-destroy",
    "te-bad-023",
    "te-ts-01",
)


def run(directory: Path, cases: list[dict[str, Any]], *options: str) -> tuple[int, list[str]]:
    """The exit status and the lines of a run over these cases."""
    file = directory / "cases.jsonl"
    file.write_text("".join(json.dumps(c) + "\n" for c in cases), encoding="utf-8")
    command = [sys.executable, "-m", "tests.conformance", str(file), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout.splitlines() or done.stderr.splitlines()


def by_id(name: str) -> Case:
    """A recorded case."""
    return next(c for c in SCENARIOS if c.id == name)


def scenario(**changes: Any) -> dict[str, Any]:
    """A small case of one process and one session."""
    made: dict[str, Any] = {
        "id": "made",
        "procs": ["A"],
        "steps": [
            ["drv", "session_create", "S1", "T1"],
            ["drv", "process", "S1", {"pid": "A"}, {"a": "true"}, [{"a": "call"}]],
            ["drv", "function", "S1", {"t": [{"a": "fx"}, {"a": "id"}, 1]}, {"a": "true"}, [{"a": "local"}]],
            ["A", "call", {"a": "fx"}, {"a": "id"}, [{"a": "x"}]],
        ],
        "returns": [{"ok": {"session": "S1"}}, {"ok": 1}, {"ok": 1}, {"ok": {"a": "x"}}],
        "trace": [
            {
                "step": 3,
                "to": "T1",
                "msg": {
                    "t": [{"a": "trace"}, {"pid": "A"}, {"a": "call"}, {"t": [{"a": "fx"}, {"a": "id"}, [{"a": "x"}]]}]
                },
            }
        ],
    }
    return made | changes


def tail_case(function: str, pattern: str, flags: list[str], spec: Any = None, kind: str = "local") -> Case:
    """A case that traces one function of ``fx`` and calls one."""
    made = scenario()
    made["steps"][1][5] = [{"a": f} for f in flags]
    made["steps"][2][3:] = [
        {"t": [{"a": "fx"}, {"a": pattern}, 1]},
        {"a": "true"} if spec is None else spec,
        [{"a": kind}],
    ]
    made["steps"][3][3:] = [{"a": function}, [1]]
    return case(made)


# Every part of an expectation counts.


def leaves(term: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Other values for the parts of an expected term, each with its place."""
    match term:
        case {"any": _}:
            yield path, {"a": "changed"}
        case {"ts": kind}:
            yield path, {"ts": "timestamp" if kind != "timestamp" else "monotonic_timestamp"}
        case {"t": elements}:
            yield path, {"t": [*elements, {"a": "more"}]}
            yield from leaves(elements, (*path, "t"))
        case dict():
            yield path, {"a": "changed"}
        case list():
            yield path, [*term, {"a": "more"}]
            for index, element in enumerate(term):
                yield from leaves(element, (*path, index))
        case int():
            yield path, term + 1


def replaced(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a case with one part replaced."""
    if not path:
        return value
    copy = deepcopy(whole)
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def mutants(original: Case) -> Iterator[dict[str, Any]]:
    """The case with one expectation changed, in each possible way."""
    whole = original.as_json()
    for index, returned in enumerate(whole["returns"]):
        for key, value in returned.items():
            if key == "bad_args":
                for position, word in value.items():
                    yield replaced(whole, ("returns", index, key), {str(int(position) + 1): word})
                    yield replaced(whole, ("returns", index, key), {position: "boolean"})
            else:
                yield replaced(whole, ("returns", index), {"throw" if key != "throw" else "exit": value})
                for path, other in leaves(value):
                    yield replaced(whole, ("returns", index, key, *path), other)
    for index, entry in enumerate(whole["trace"]):
        for path, other in leaves(entry["msg"]):
            yield replaced(whole, ("trace", index, "msg", *path), other)
        yield replaced(whole, ("trace", index, "to"), "T2" if entry["to"] != "T2" else "T3")
        yield replaced(whole, ("trace", index, "step"), entry["step"] - 1)
        yield replaced(whole, ("trace",), whole["trace"][:index] + whole["trace"][index + 1 :])
        yield replaced(whole, ("trace",), [*whole["trace"], entry])


@pytest.mark.parametrize("name", [n for n in MUTATED if covered(by_id(n))])
def test_a_changed_expectation_fails(tmp_path: Path, name: str) -> None:
    changed = [m | {"id": f"{name}-{number}"} for number, m in enumerate(mutants(by_id(name)))]
    assert len(changed) >= 5
    status, lines = run(tmp_path, changed)
    failing = {line.split()[1].rstrip(":") for line in lines if line.startswith("FAIL ")}
    assert {m["id"] for m in changed} - failing == set()
    assert status == 1
    assert lines[-1] == f"0 passed, {len(changed)} failed, 0 skipped"


def test_unchanged_cases_pass(tmp_path: Path) -> None:
    names = [n for n in MUTATED if covered(by_id(n))]
    status, lines = run(tmp_path, [by_id(n).as_json() for n in names] + [scenario()])
    assert lines == [f"{len(names) + 1} passed, 0 failed, 0 skipped"]
    assert status == 0


def test_a_failure_names_the_step_and_both_values(tmp_path: Path) -> None:
    wrong = scenario()
    wrong["returns"][3] = {"ok": {"a": "y"}}
    status, lines = run(tmp_path, [wrong])
    assert lines[0] == "FAIL made: step 3 (A call fx id [x]): expected ok y, got ok x"
    assert status == 1


def test_a_missing_and_an_additional_message_are_named(tmp_path: Path) -> None:
    additional, missing = scenario(id="additional", trace=[]), scenario(id="missing")
    missing["trace"] = [*missing["trace"], missing["trace"][0]]
    _, lines = run(tmp_path, [additional, missing])
    assert lines[0].endswith("T1: 0 messages expected, then also got {trace,<A>,call,{fx,id,[x]}}")
    assert lines[1].endswith("T1: message 2 of 2 is missing: {trace,<A>,call,{fx,id,[x]}}")


def test_only_and_covered_choose(tmp_path: Path) -> None:
    later = scenario(id="later")
    later["steps"][0].append([{"t": [{"a": "tracer_mod"}, []]}])
    wrong = scenario(id="wrong", trace=[])
    status, lines = run(tmp_path, [scenario(), later, wrong], "--covered", "--only", "made")
    assert (status, lines) == (0, ["1 of 3 cases chosen", "1 passed, 0 failed, 0 skipped"])


def test_answers_that_the_recorder_could_give_in_several_forms(tmp_path: Path) -> None:
    create, created = ["drv", "session_create", "S1", "T1"], {"ok": {"session": "S1"}}
    message = {"t": [{"a": "trace_delivered"}, {"a": "all"}, {"ref": "R1"}]}
    cases = [
        scenario(
            id=f"{name}-{i}", steps=[create, ["drv", name, "S1", *rest]], returns=[created, {"ok": answer}], trace=[]
        )
        for name, rest, answers in (
            ("delivered", [{"a": "all"}], [message, {"ref": "R1"}, {"a": "ok"}, {"a": "true"}, {"a": "no"}]),
            ("drop_session", [], [{"a": "ok"}, {"a": "true"}, {"a": "no"}]),
        )
        for i, answer in enumerate(answers)
    ]
    refused = {"error": {"a": "badarg"}, "bad_args": {"2": "pid_or_all"}}
    cases.append(
        scenario(id="refused", steps=[create, ["drv", "delivered", "S1", 5]], returns=[created, refused], trace=[])
    )
    status, lines = run(tmp_path, cases)
    assert [line.split(":")[0] for line in lines[:-1]] == ["FAIL delivered-4", "FAIL drop_session-2"]
    assert (status, lines[-1]) == (1, "7 passed, 2 failed, 0 skipped")


# Not a case file.


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"id": "x"}',
        json.dumps(scenario(returns=[])),
        json.dumps(scenario(procs="A")),
        json.dumps(scenario(steps=[["drv", "no_such_step"]], returns=[{"ok": 1}], trace=[])),
        json.dumps(scenario(steps=[["A", "session_create", "S1", "T1"]], returns=[{"ok": 1}], trace=[])),
        json.dumps(scenario(steps=[["A", "call", "fx", "id", []]], returns=[{"ok": 1}], trace=[])),
        json.dumps(scenario(steps=[["A", "recv"]], returns=[{"okay": 1}], trace=[])),
        json.dumps(scenario(steps=[["A", "recv"]], returns=[{"ok": {"atom": "x"}}], trace=[])),
        json.dumps(scenario(steps=[["A", "recv"]], returns=[{"ok": True}], trace=[])),
        json.dumps(scenario(trace=[{"step": 9, "to": "T1", "msg": 1}])),
    ],
)
def test_a_malformed_line_is_an_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(scenario()) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(Malformed, match=r"cases\.jsonl:2: "):
        read(file)


def test_a_malformed_file_runs_nothing(tmp_path: Path) -> None:
    status, lines = run(tmp_path, [scenario(), {"id": "x"}])
    assert status == 2
    assert len(lines) == 1
    assert "cases.jsonl:2" in lines[0]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Malformed):
        read(tmp_path / "none.jsonl")


# Terms.


@pytest.mark.parametrize(
    ("expected", "value", "holds"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        ({"f": 1.0}, 1.0, True),
        ({"f": 1.0}, 1, False),
        ({"f": -0.0}, 0.0, False),
        ({"i": "36893488147419103232"}, 2**65, True),
        ({"a": "true"}, True, True),
        ({"a": "true"}, 1, False),
        ({"a": "undefined"}, None, True),
        ([], None, False),
        ({"a": "x"}, atom("x"), True),
        ({"a": "x"}, "x", False),
        ({"b": "Ymlu"}, b"bin", True),
        ([98, 105, 110], b"bin", False),
        ({"t": [1, 2]}, (1, 2), True),
        ({"t": [1, 2]}, [1, 2], False),
        ([1, 2], (1, 2), False),
        ({"m": [[1, 2], [{"a": "k"}, []]]}, {atom("k"): [], 1: 2}, True),
        ({"m": [[1, 2]]}, {1: 2, 3: 4}, False),
        ({"m": [[1, 2]]}, {1.0: 2}, False),
        ({"any": "int"}, 7, True),
        ({"any": "int"}, 7.5, False),
        ({"any": "int"}, True, False),
        ({"ts": "timestamp"}, (1, 2, 3), True),
        ({"ts": "timestamp"}, 1, False),
        ({"ts": "monotonic_timestamp"}, 1, True),
        ({"ts": "monotonic_timestamp"}, (1, 2), False),
        ({"ts": "strict_monotonic_timestamp"}, (1, 2), True),
        ({"ts": "strict_monotonic_timestamp"}, (1, 2, 3), False),
        ([102, 120, 46, 101, 114, 108], "/somewhere/fx.py", True),
        ([102, 120, 46, 101, 114, 108], "/somewhere/host.py", False),
        ({"fun": True, "arity": 1}, lambda x: x, True),
        ({"fun": True, "arity": 1}, lambda: 1, False),
        ({"t": [{"a": "fx"}, {"a": "raise"}, 2]}, (atom("fx"), atom("raise_"), 2), True),
    ],
)
def test_values_are_compared_exactly(expected: Any, value: Any, holds: bool) -> None:
    assert same(expected, encode(value, Names())) is holds


def test_the_empty_token_is_none_where_a_token_stands() -> None:
    assert same([], {"a": "undefined"}, token=True)
    assert not same([], {"a": "undefined"})


def test_references_are_numbered_as_they_appear() -> None:
    names, first, second = Names(), inviso.Ref(), inviso.Ref()
    assert encode([first, second, first], names) == [{"ref": "R1"}, {"ref": "R2"}, {"ref": "R1"}]


def test_decoding_and_encoding_give_the_term_back() -> None:
    odd = {"il": [1, {"bits": "oA==", "n": 3}], "tail": {"m": [[1, {"a": "x"}], [{"f": 1.0}, {"t": []}]]}}
    assert encode(decode(odd, lambda kind, name: None), Names()) == odd


def test_exceptions_in_messages_are_what_they_carry() -> None:
    raised = (atom("trace"), 0, atom("exception_from"), ("fx", "raise_", 2), ("error", ("ErlError", [atom("e")])))
    wanted = {"t": [{"a": "trace"}, 0, {"a": "exception_from"}]}
    wanted["t"] += [{"t": [{"a": "fx"}, {"a": "raise"}, 2]}, {"t": [{"a": "error"}, {"a": "e"}]}]
    assert first_difference([wanted], [message(raised, Names())]) is None


# The fixture module.


def test_the_fixture_module_has_erlangs_functions() -> None:
    fx = load("fx")
    functions = [c for c in code_of_module("fx") if not c.co_qualname.startswith("<")]
    assert len(functions) == 42
    assert len([c for c in functions if c.co_qualname.split(".")[0] in fx.__all__]) == 35
    assert len([c for c in functions if c.co_qualname == "multi"]) == 3


def code_of_module(name: str) -> set[Any]:
    """All code of the functions of a module, with inner functions."""
    import gc
    from types import CodeType, FunctionType

    waiting = [
        o.__code__ for o in gc.get_objects() if type(o) is FunctionType and o.__globals__.get("__name__") == name
    ]
    found: set[Any] = set()
    while waiting:
        code = waiting.pop()
        found.add(code)
        waiting += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


@pytest.mark.parametrize("by_hop", [False, True])
@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        ("calls_three", [1], ("three", ("loc", 1))),
        ("tail_sum", [4, 0], 10),
        ("body_sum", [3], 6),
        ("even", [3], False),
        ("list_of", [2], [2, 1]),
        ("tuple_of", [2], ("x", "x")),
        ("multi", [1, 2], ("two", 1, 2)),
        ("catch_deep", [2, "throw", "b"], ("caught", "throw", "b")),
        ("catches_outer", ["exit", "b"], ("caught", "exit", "b")),
        ("outer_tail", [1], ("inner", ("middle", ("outer", 1)))),
        ("fun_call", [1], ("fun_called", ("in_fun", ("loc", 1)))),
    ],
)
def test_the_fixture_functions_return_what_erlangs_do(
    function: str, arguments: list[Any], result: Any, by_hop: bool
) -> None:
    through_module.choose(by_hop)
    assert resolve("fx", function, len(arguments))(*arguments) == result


@pytest.mark.parametrize(("function", "arity"), [("loc", 1), ("id", 2), ("multi", 4), ("nosuch", 0)])
def test_what_is_not_exported_is_undefined(function: str, arity: int) -> None:
    with pytest.raises(Exception, match="undef"):
        resolve("fx", function, arity)(*range(arity))


# Cases that Python can't express.


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tail_case("tail_local", "loc", ["call", "return_to"]), NO_TAIL_CALLS),
        (tail_case("tail_local", "_", ["call", "return_to"]), NO_TAIL_CALLS),
        (tail_case("tail_local", "loc", ["call"]), None),
        (tail_case("tail_local", "tail_local", ["call", "return_to"]), None),
        (tail_case("calls_local", "loc", ["call", "return_to"]), None),
        (tail_case("tail_raise", "raise", ["call", "return_to"]), None),
        (tail_case("calls_global", "id", ["call", "return_to"]), None),
        (tail_case("calls_global", "id", ["call", "return_to"], kind="global"), None),
        (
            tail_case("tail_local", "loc", ["call"], [{"t": [{"a": "_"}, [], [{"t": [{"a": "caller"}]}]]}]),
            NO_TAIL_CALLS,
        ),
        (
            tail_case("calls_global", "id", ["call"], [{"t": [{"a": "_"}, [], [{"t": [{"a": "caller"}]}]]}], "global"),
            NO_GLOBAL_CALL,
        ),
    ],
)
def test_what_tail_calls_show_is_left_out(made: Case, expected: str | None) -> None:
    assert reason(made) == expected


def test_few_cases_are_left_out() -> None:
    assert sum(reason(c) is not None for c in SCENARIOS) <= len(SCENARIOS) / 25


# Crashes and hangs.


def pool(program: str) -> Pool:
    """A pool whose interpreters run a program."""
    return Pool(1.0, [sys.executable, "-c", program])


def test_a_crash_fails_only_its_case() -> None:
    program = (
        "import os, signal, sys\n"
        "for line in sys.stdin:\n"
        "    if 'crash' in line: os.kill(os.getpid(), signal.SIGSEGV)\n"
        '    print(\'{"difference": null, "healthy": true}\', flush=True)\n'
    )
    with pool(program) as interpreters:
        assert interpreters.run(case(scenario())) is None
        crash = interpreters.run(case(scenario(id="crash")))
        assert crash is not None
        assert "SIGSEGV" in crash
        assert interpreters.run(case(scenario())) is None


def test_a_hang_is_killed_and_fails_only_its_case() -> None:
    program = (
        "import sys, time\n"
        "for line in sys.stdin:\n"
        "    if 'hang' in line: time.sleep(60)\n"
        '    print(\'{"difference": null, "healthy": true}\', flush=True)\n'
    )
    with pool(program) as interpreters:
        hang = interpreters.run(case(scenario(id="hang")))
        assert hang is not None
        assert "hangs" in hang
        assert interpreters.run(case(scenario())) is None
