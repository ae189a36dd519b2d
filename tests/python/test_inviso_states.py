"""The answers of a runtime component in each state and status, and its next state.

The table is written from the description of the original, not from the tested state machine. The rows name its
paragraphs, 1.2 to 1.8 and 2.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inviso.runtime._component import Component
from inviso.runtime._resolver import Resolver

MFA = ("json", "loads", "_")
REASON = "too much"
SUSPENDED = ("suspended", REASON)

STATES = ("new", "idle", "tracing")
ANY = "any answer"
SAME = "the same as before"


class Inside:
    """A component in a folder of its own, and the events that it published."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Any] = []
        self.log = str(folder / "log")
        self.component = Component("tag", {"overload": None}, self.events.append, Resolver())

    def become(self, state: str, status: str) -> None:
        if state != "new":
            assert self.call("init_tracing", ("file", self.log)) == ("ok", [("trace_log", "ok")])
        if state == "idle":
            assert self.call("stop_tracing") == ("ok", "idle")
        if status == "suspended":
            assert self.call("suspend", REASON) == "ok"
        assert self.both == (state, "running" if status == "running" else SUSPENDED)
        self.events.clear()

    def call(self, name: str, *arguments: Any) -> Any:
        return self.component.call(name, arguments)

    @property
    def both(self) -> Any:
        return self.call("get_status")[1]

    @property
    def told(self) -> list[Any]:
        """The reported states, in order."""
        return [event[1] for event in self.events if event[0] == "state_change"]


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    made = Inside(tmp_path)
    yield made
    made.component.end()


def rows() -> Iterator[tuple[str, str, str, str, tuple[Any, ...], Any, Any, bool]]:
    """Paragraph, state, status, call, arguments, answer, state and status after (SAME), whether an event reports it."""
    for status in ("running", "suspended"):
        now = "running" if status == "running" else SUSPENDED
        refused = ("error", "suspended")
        for state in STATES:

            def row(paragraph: str, call: str, *arguments: Any, gets: Any, to: Any = SAME, tells: bool = False) -> Any:
                return paragraph, state, status, call, arguments, gets, to, tells  # noqa: B023

            # 1.3
            if state == "tracing":
                yield row("1.3", "init_tracing", ("file", "/nowhere/log"), gets=("error", "already_initiated"))
            elif status == "suspended":
                yield row("1.3", "init_tracing", "LOG", gets=refused)
            else:
                yield row(
                    "1.3", "init_tracing", "LOG", gets=("ok", [("trace_log", "ok")]), to=("tracing", now), tells=True
                )
                yield row("1.3", "init_tracing", "nonsense", gets=("error", ("bad_log_td", "nonsense")))
            end = "new" if state == "new" else "idle"
            yield row("1.3", "stop_tracing", gets=("ok", end), to=(end, now), tells=state == "tracing")
            yield row("1.3", "clear", gets=("ok", ("new", now)), to=("new", now), tells=True)
            yield row("1.3", "clear", ["keep_trace_patterns"], gets=("ok", ("new", now)), to=("new", now), tells=True)
            yield row("1.3", "flush", gets="ok" if state == "tracing" else ("error", ("not_tracing", state)))
            # 1.4: the first pattern makes the state idle
            for call in ("tp", "tpl"):
                if status == "suspended":
                    yield row("1.4", call, [(*MFA, True)], gets=refused)
                else:
                    first = ("idle", now) if state == "new" else SAME
                    yield row("1.4", call, [(*MFA, True)], gets=("ok", [1]), to=first, tells=state == "new")
                    yield row(
                        "1.4", call, [("no_such", "f", 1, True)], gets=("ok", [0]), to=first, tells=state == "new"
                    )
                    yield row("1.4", call, [], gets=("ok", []), to=first, tells=state == "new")
            for call in ("ctp", "ctpl"):
                yield row("1.7", call, [MFA], gets=refused if status == "suspended" else ("ok", [1]))
            yield row("1.7", "ctp_all", gets="ok")
            # 1.5
            if state != "tracing":
                yield row("1.5", "tf", [("all", ["call"])], gets=("error", "no_tracer"))
            else:
                yield row("1.5", "tf", [("all", ["call"])], gets=refused if status == "suspended" else ANY)
            yield row("1.5", "ctf", [("all", ["call"])], gets=ANY)
            yield row("1.5", "ctf_all", gets="ok")
            # 1.6
            yield row(
                "1.6",
                "tpm",
                "json",
                "loads",
                8,
                [],
                gets=refused if status == "suspended" else ("error", "no_metatracer"),
            )
            # 1.7: the first reason stays
            to = (state, ("suspended", "later") if status == "running" else SUSPENDED)
            yield row("1.7", "suspend", "later", gets="ok", to=to, tells=status == "running")
            yield row("1.7", "cancel_suspension", gets="ok", to=(state, "running"), tells=True)
            yield row("1.7", "get_status", gets=("ok", (state, now)))
            data = ANY if state != "new" else ("ok", "no_tracerdata")
            yield row("1.7", "get_tracerdata", gets=data)
            # 4
            none = ("error", "no_tracerdata")
            yield row("4", "list_logs", gets=none if state == "new" else ANY)
            fetched = {"new": none, "idle": ANY, "tracing": ("error", "tracing")}[state]
            yield row("4", "log_paths", gets=fetched)
            deleted = {"new": ("error", ("badarg", None)), "tracing": ("error", "tracing")}.get(
                state, ("ok", [("trace_log", [("ok", "log")])])
            )
            yield row("4", "delete_log", gets=deleted)
            yield row("1.0", "no_such_call", gets=("error", ("invalid_request", "no_such_call")))


@pytest.mark.parametrize(
    "row", list(rows()), ids=lambda row: f"{row[1]}-{row[2]}-{row[3]}-{json.dumps(row[4], default=str)[:30]}"
)
def test_a_call_in_a_state(row: Any, inside: Inside) -> None:
    _, state, status, call, arguments, answer, after, tells = row
    inside.become(state, status)
    before = inside.both
    given = tuple(("file", inside.log) if one == "LOG" else one for one in arguments)
    got = inside.call(call, *given)
    if answer == ANY:
        assert got[0] == "ok"
    else:
        assert got == answer
    became = before if after == SAME else after
    assert inside.both == became
    assert inside.told == ([became] if tells else [])


def test_each_state_and_status_has_a_row_of_each_call() -> None:
    seen = {(state, status, call) for _, state, status, call, *_ in rows()}
    calls = {call for _, _, call in seen}
    assert len(calls) == 21
    assert seen == {(state, status, call) for state in STATES for status in ("running", "suspended") for call in calls}


def test_a_log_that_ends_by_itself_is_told_before_the_state(inside: Inside) -> None:
    inside.component.settings["limits"] = {"ms": 0}
    inside.become("tracing", "running")
    inside.component.poll()
    assert [event[0] for event in inside.events] == ["port_down", "state_change"]
    assert inside.both == ("idle", "running")
    assert inside.call("get_tracerdata") == ("ok", ("file", inside.log))


def test_patterns_outlive_logs_and_flags_do_not(inside: Inside) -> None:
    inside.become("tracing", "running")
    inside.call("tpl", [(*MFA, True)])
    inside.call("tf", [("all", ["call", "arity"])])
    inside.call("stop_tracing")
    assert inside.call("init_tracing", ("file", inside.log))[0] == "ok"
    json.loads("1")
    inside.call("flush")
    assert inside.component.info()["written"] == 0
    inside.call("tf", [("all", ["call", "arity"])])
    json.loads("1")
    inside.call("flush")
    assert inside.component.info()["written"] >= 1
    inside.call("ctp_all")
    before = inside.component.info()["written"]
    json.loads("1")
    inside.call("flush")
    assert inside.component.info()["written"] == before


def test_unknown_flags_and_invalid_processes(inside: Inside) -> None:
    inside.become("tracing", "running")
    assert inside.call("tf", [("all", ["cpu_timestamp"])]) == ("ok", [("error", ("bad_flag", "cpu_timestamp"))])
    name = ("bad_process", (("nonexistent_name", "nobody"), "nobody"))
    assert inside.call("tf", [("nobody", ["call"]), (("global", "x"), ["call"])]) == ("ok", [("error", name), 0])
    assert inside.call("tf", [(3.5, ["call"])])[1][0][1][0] == "bad_process"
