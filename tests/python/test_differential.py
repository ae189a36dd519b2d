"""The live comparison with Erlang, without an Erlang: its scenarios, requests, output. With an Erlang a short run."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import read
from tests.differential.erlang import Case, Node
from tests.differential.etf import Damaged, pack, unpack
from tests.differential.expressions import FUNCTIONS, TRACING
from tests.differential.generate import Maker
from tests.differential.outcome import Here, differs, problem_class, there
from tests.differential.parts import FUNCTION, KEY_ATOMS, a, improper, parts, t
from tests.differential.shrink import shrunk, smaller, weight
from tests.differential.sound import sound

ROOT = Path(__file__).parents[2]
LIVE = ROOT / "tests" / "data" / "live" / "match_spec.jsonl"
GOLD = ROOT / "tests" / "data" / "gold" / "match_spec.jsonl"


def made(count: int, seed: int = 1) -> list[Case]:
    """This number of cases."""
    maker = Maker(seed)
    return [maker.case() for _ in range(count)]


def text(term: Any) -> str:
    """A term as a line; unlike ==, it distinguishes 0.0 from -0.0 and 1 from 1.0."""
    return json.dumps(term)


# generated


def test_a_seed_gives_the_same_cases() -> None:
    assert text(made(50, 3)) == text(made(50, 3)) != text(made(50, 4))


def test_every_function_and_kind_of_term_comes_up() -> None:
    cases = made(4000)
    calls = Counter(
        part["t"][0]["a"]
        for case in cases
        for part in parts(case.spec)
        if isinstance(part, dict) and part.get("t") and isinstance(part["t"][0], dict) and "a" in part["t"][0]
    )
    assert not {name for name, *_ in (*FUNCTIONS, *TRACING)} - set(calls)
    kinds = {next(iter(p)) for c in cases for p in [*parts(c.spec), *parts(c.subject)] if isinstance(p, dict) and p}
    assert kinds >= {"a", "i", "f", "b", "bits", "il", "t", "m", "pid", "ref", "port", "fun"}
    assert {case.mode for case in cases} == {"trace", "table"}


def test_most_cases_are_good_and_many_match() -> None:
    here, outcomes = Here(), []
    try:
        here.call(lambda: outcomes.extend(here.outcome(case) for case in made(1000)))
    finally:
        here.close()
    ok = [outcome for outcome in outcomes if "ok" in outcome]
    assert 700 < len(ok) < 950
    assert sum(outcome["ok"] != a("false") for outcome in ok) > 300
    assert not [outcome for outcome in outcomes if "raised" in outcome]


@pytest.mark.parametrize(
    ("mode", "spec", "subject"),
    [
        ("trace", [t([], [], [a("$_")])], []),
        ("trace", [t(t(), [], [a("$_")])], improper([], 1)),
        ("trace", [t(a("_"), [], [t(a("enable_trace"), a("call"))])], []),
        ("trace", [t(a("_"), [], [t(a("trace"), [], [])])], []),
        ("trace", [t(a("_"), [], [t(a("process_dump"))])], []),
        ("trace", [t(a("_"), [], [t(a("message"), t(a("current_stacktrace"), 2))])], []),
        ("table", [t(a("_"), [], [FUNCTION])], 1),
        ("table", [t(a("_"), [], [{"m": [[a("b"), 1], [a(KEY_ATOMS[0]), 2]]}])], 1),
        ("table", [t(a("_"), [], [{"m": [[n, t(a("hd"), n)] for n in range(33)]}])], 1),
        ("table", [t(a("$42"), [], [t(a("const"), a("$42"))])], 1),
        ("table", [t(a("$42"), [], [{"m": [[t(a("const"), t(a("$1"))), 1]]}])], 1),
    ],
)
def test_what_erlang_is_at_fault_for_is_left_out(mode: str, spec: Any, subject: Any) -> None:
    assert not sound(Case(mode, spec, subject))


def test_similar_cases_are_kept() -> None:
    for body in (
        t(a("enable_trace"), a("nosuch")),
        t(a("is_binary"), t(a("process_dump"))),
        t(a("is_list"), t(a("current_stacktrace"), -1)),
        {"m": [[a(KEY_ATOMS[0]), 1], [a(KEY_ATOMS[1]), 2]]},
    ):
        assert sound(Case("trace", [t([], [], [body])], []))
    assert sound(Case("trace", [t([], [], [a("$_")])], [1]))


# requests


def test_cases_go_into_the_external_format_and_back() -> None:
    for case in made(1500, 5):
        for term in (case.spec, case.subject):
            assert text(unpack(pack(term))) == text(term)


@pytest.mark.parametrize("n", [0, 255, 256, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1, 2**2100])
def test_integers_at_the_edges(n: int) -> None:
    term = n if abs(n) <= 2**53 else {"i": str(n)}
    assert unpack(pack(term)) == term
    assert unpack(pack(term)[:1] + pack(term)[1:]) == term


def test_the_bytes_are_those_of_the_format() -> None:
    assert pack([1, a("b")]) == bytes([131, 108, 0, 0, 0, 2, 97, 1, 119, 1, 98, 106])
    assert pack({"bits": "oA==", "n": 3}) == bytes([131, 77, 0, 0, 0, 1, 3, 160])
    assert math.copysign(1.0, unpack(pack({"f": -0.0}))["f"]) == -1.0


def test_what_only_erlang_writes_is_read() -> None:
    assert unpack(bytes([131, 107, 0, 2, 1, 2])) == [1, 2]
    assert unpack(bytes([131, 100, 0, 1, 233])) == a("é")
    assert unpack(bytes([131, 118, 0, 2, 195, 169])) == a("é")


@pytest.mark.parametrize("data", [b"", b"a", b"\x83", b"\x83\x6d\x00\x00\x00\x05ab", b"\x83\x01", b"\x83\x61\x01\x01"])
def test_damaged_bytes_are_reported(data: bytes) -> None:
    with pytest.raises(Damaged):
        unpack(data)


# answers


def test_an_answer_has_its_outcome() -> None:
    ok = unpack(pack(t(a("ok"), 5, [a("return_trace"), a("exception_trace")], 0)))
    assert there(ok) == {"ok": 5, "flags": ["exception_trace", "return_trace"], "warnings": 0}
    assert there(t(a("exception"), a("badarg"))) == {"exception": a("badarg")}
    assert there(a("died")) == {"died": a("died")}


def test_an_unknown_text_has_no_class() -> None:
    assert problem_class("something new") is None
    assert problem_class("{a,b") == "not_a_call_nor_a_tuple"


@pytest.mark.parametrize(
    ("wanted", "got", "is_different"),
    [
        ({"ok": 1, "flags": [], "warnings": 0}, {"ok": {"f": 1.0}, "flags": [], "warnings": 0}, True),
        ({"ok": {"f": 0.0}, "flags": [], "warnings": 0}, {"ok": {"f": -0.0}, "flags": [], "warnings": 0}, True),
        ({"ok": 1, "flags": [], "warnings": 0}, {"ok": 1, "flags": ["return_trace"], "warnings": 0}, True),
        (
            {"ok": {"m": [[{"f": -0.0}, 1], [{"f": 0.0}, 1]]}, "flags": [], "warnings": 0},
            {"ok": {"m": [[{"f": 0.0}, 1], [{"f": -0.0}, 1]]}, "flags": [], "warnings": 0},
            False,
        ),
        ({"error": [{"severity": "error", "class": None}]}, {"error": [{"severity": "error", "class": "x"}]}, False),
        ({"error": [{"severity": "error", "class": "y"}]}, {"error": [{"severity": "error", "class": "x"}]}, True),
        ({"error": [{"severity": "error", "class": "x"}]}, {"error": [{"severity": "error", "class": "x"}] * 2}, True),
        ({"error": []}, {"ok": 1, "flags": [], "warnings": 0}, True),
        ({"exception": a("badarg")}, {"exception": a("badarg"), "text": "why"}, False),
        ({"died": a("died")}, {"ok": 1, "flags": [], "warnings": 0}, True),
    ],
)
def test_a_difference_is_noticed(wanted: dict[str, Any], got: dict[str, Any], is_different: bool) -> None:
    assert differs(wanted, got) is is_different


@pytest.mark.parametrize("file", [GOLD, LIVE], ids=["gold", "live"])
def test_this_system_answers_recorded_cases_through_it(file: Path) -> None:
    cases = [c for c in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if "ms-large" not in c["id"]]
    here, wrong = Here(), []

    def body() -> None:
        for case in cases:
            made = Case(case["mode"], case["spec"], case["subject"])
            if FUNCTION not in parts(made.spec) and differs(case["result"], here.outcome(made)):
                wrong.append(case["id"])

    try:
        here.call(body)
    finally:
        here.close()
    assert not wrong


def test_the_live_cases_are_cases() -> None:
    assert len(read(LIVE)) > 50


# the smallest case


def test_a_smaller_term_is_smaller() -> None:
    for case in made(200, 7):
        for term in (case.spec, case.subject):
            assert all(weight(less) < weight(term) for less in smaller(term))


def test_a_case_shrinks_to_what_matters() -> None:
    def fails(case: Case) -> bool:
        calls = [p for p in parts(case.spec) if isinstance(p, dict) and p.get("t", [])[:1] == [a("tl")]]
        return bool(calls) and {"f": 2.5} in parts(case.subject)

    spec = [
        t([a("$1"), a("_")], [t(a("is_list"), a("$1"))], [t(a("message"), t(a("hd"), t(a("tl"), a("$1"))))]),
        t(a("_"), [], []),
    ]
    subject = [[1, t({"f": 2.5}, {"m": [[1, 2]]})], 3]
    small = shrunk(Case("trace", spec, subject), fails)
    assert small == Case("trace", t(a("tl")), {"f": 2.5})


def test_a_shrunk_case_is_one_to_run() -> None:
    case = Case("trace", [t([], [], [t(a("is_binary"), t(a("process_dump")))])], [])
    small = shrunk(case, lambda c: t(a("process_dump")) in parts(c.spec))
    assert sound(small)


# live


@pytest.mark.skipif(shutil.which("erl") is None, reason="there is no erl on PATH")
def test_a_short_run_finds_nothing() -> None:
    with Node("erl", KEY_ATOMS) as node:
        release = int(node.release)
        crash = Case("trace", [t([], [], [t(a("message"), a("$_"))])], [])
        good = Case("trace", [t([a("$1")], [], [t(a("message"), a("$1"))])], [t(1, {"f": 2.5})])
        first, _, last = node.answers([good, crash, good])
        assert there(first) == there(last) == {"ok": t(1, {"f": 2.5}), "flags": [], "warnings": 0}
    if release < 29:
        pytest.skip(f"Erlang {release} knows fewer functions")
    command = [sys.executable, "-m", "tests.differential", "--cases", "3000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_erlang_is_told() -> None:
    command = [sys.executable, "-m", "tests.differential", "--erl", "no-such-erl"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "starts no Erlang" in done.stderr
