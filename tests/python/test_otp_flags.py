"""Flags and ``info`` in random scenarios, beside the answers of a real Erlang."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from otp import erl, needs_otp

from tests.differential.flags import FLAGS, Maker, difference, looks
from tests.differential.world import World, a, call, t

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "live" / "flags.jsonl"


def recorded() -> list[dict[str, Any]]:
    """Scenarios with Erlang's answers."""
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def test_a_seed_gives_the_same_scenarios() -> None:
    first, again, other = Maker(3), Maker(3), Maker(4)
    made = [[maker.scenario() for _ in range(20)] for maker in (first, again, other)]
    assert made[0] == made[1] != made[2]


def test_every_kind_of_step_and_flag_is_recorded() -> None:
    steps = [step["t"] for scenario in recorded() for step in scenario["steps"]]
    verbs = {step[1]["a"] if step[0] == a("call") else step[0]["a"] for step in steps}
    assert verbs == {
        *(
            "create",
            "spawn",
            "link",
            "unlink",
            "end",
            "end_collector",
            "open",
            "close",
            "run",
            "process",
            "port",
            "function",
        ),
        *("send", "recv", "info", "session_info", "session_destroy"),
    }
    switched = {flag["a"] for step in steps if step[1] in (a("process"), a("port")) for flag in step[2][3]}
    assert switched == {*FLAGS, "all"}


def test_this_system_answers_as_erlang_did() -> None:
    world = World()
    for scenario in recorded():
        here = world.play(scenario["steps"])
        at = difference(scenario["steps"], scenario["answers"], here)
        assert at is None, (scenario["steps"][: at + 1], scenario["answers"][at], here[at])


def test_a_difference_is_noticed() -> None:
    session, process = {"session": "s1"}, {"pid": "p1"}
    flags, tracer = (call("info", session, process, item) for item in ("flags", "tracer"))
    some, none = t("ok", t("flags", [a("call"), a("send")])), t("ok", t("flags", []))
    other = t("ok", t("flags", [a("send"), a("call")]))
    named, nobody = t("ok", t("tracer", {"pid": "t1"})), t("ok", t("tracer", []))
    assert difference([flags], [some], [other]) is None
    assert difference([flags], [some], [none]) == 0
    assert difference([flags, tracer], [some, named], [some, nobody]) == 1
    assert difference([flags, tracer], [none, named], [none, nobody]) is None
    assert difference([flags, tracer], [none, nobody], [none, named]) == 1
    assert difference([t("spawn", "p1")], [t("ok", "ok")], [t("badarg", [])]) == 0


def test_everything_is_asked_about() -> None:
    asked = [step["t"] for step in looks([{"session": "s1"}], [{"pid": "p1"}], [{"port": "o1"}])]
    assert {json.dumps(step[2][1]) for step in asked if step[1] == a("info")} == {
        json.dumps(what)
        for what in (
            {"pid": "p1"}, {"port": "o1"}, t("world", "subject", 0),
            *map(a, ("new", "new_processes", "new_ports", "on_load", "send", "receive")),
        )
    }  # fmt: skip


@needs_otp
def test_a_short_run_finds_nothing() -> None:
    if int(erl("io:put_chars(erlang:system_info(otp_release)), halt().")) < 29:
        pytest.skip("the scenarios are for OTP 29")
    command = [sys.executable, "-m", "tests.differential.flags", "--cases", "150"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_erlang_is_told() -> None:
    for module in ("flags", "blame"):
        command = [sys.executable, "-m", f"tests.differential.{module}", "--erl", "no-such-erl"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "starts no Erlang" in done.stderr
