"""Answers of Erlang/OTP 29 that Python's types don't suggest: each test states a rule that a real node was seen to follow."""

from __future__ import annotations

import socket
from typing import Any

import inviso
import pytest
from inviso import trace

PORT_FLAGS = [
    "send", "receive", "ports", "running_ports", "silent", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp",
    "scheduler_id",
]  # fmt: skip
PORTS_ONLY = ["ports", "running_ports"]


@pytest.fixture
def session() -> Any:
    with trace.session_create("otp") as made:
        yield made


def flags(session: trace.Session, what: Any) -> set[str]:
    """The flags that something has."""
    return {str(flag) for flag in session.info(what, "flags")[1]}


# flags for processes and ports to come


def test_processes_to_come_have_no_flags_of_ports(session: trace.Session) -> None:
    assert session.process("new", True, ["all"]) == 0
    everything = set(trace._FLAGS) - {"cpu_timestamp"}
    assert flags(session, "new") == everything - set(PORTS_ONLY)
    assert session.process(inviso.self(), True, ["all"]) == 1
    assert flags(session, inviso.self()) == everything


def test_ports_to_come_have_no_flags_of_processes(session: trace.Session) -> None:
    assert session.port("new", True, ["all"]) == 0
    assert flags(session, "new_ports") == set(PORT_FLAGS)
    with socket.socket() as opened:
        assert flags(session, opened) == set(PORT_FLAGS)
        assert session.port(opened, True, ["all"]) == 1
        assert flags(session, opened) == set(trace._FLAGS) - {"cpu_timestamp"}


def test_all_keeps_more_for_what_exists_than_for_what_is_to_come(session: trace.Session) -> None:
    with socket.socket() as opened:
        session.process("all", True, ["call", "ports"])
        session.port("all", True, ["call", "ports"])
        assert flags(session, inviso.self()) == flags(session, opened) == {"call", "ports"}
        assert flags(session, "new") == {"call"}
        assert flags(session, "new_ports") == {"ports"}


def test_a_flag_that_is_left_out_still_switches_off(session: trace.Session) -> None:
    session.process("new", True, PORTS_ONLY)
    assert flags(session, "new") == set()
    assert session.info("new", "tracer")[1] == []
    session.process("new", True, ["call"])
    session.process("new", False, ["ports"])
    assert flags(session, "new") == set()


# what a meta pattern's match specification does to flags


def callee() -> None:
    """What the meta pattern is set on."""


def meta(session: trace.Session, *action: Any) -> None:
    """Calls `callee` with a meta pattern that runs an action."""
    assert session.function((__name__, "callee", 0), [("_", [], [action])], ["meta"]) == 1
    callee()


@pytest.mark.parametrize("how", [True, False])
def test_silent_of_a_meta_pattern_leaves_a_process_without_flags_alone(session: trace.Session, how: bool) -> None:
    with trace.session_create("another") as another:
        another.process(inviso.self(), True, ["call"])
        meta(session, "silent", how)
        assert flags(session, inviso.self()) == set()
        assert flags(another, inviso.self()) == {"call"}


def test_silent_of_a_meta_pattern_silences_a_process_with_flags(session: trace.Session) -> None:
    session.process(inviso.self(), True, ["send"])
    meta(session, "silent", True)
    assert flags(session, inviso.self()) == {"send", "silent"}
    meta(session, "silent", False)
    assert flags(session, inviso.self()) == {"send"}


@pytest.mark.parametrize("action", [("enable_trace", "call"), ("trace", [], ["call"])])
def test_other_actions_of_a_meta_pattern_switch_flags_on_anywhere(session: trace.Session, action: tuple[Any, ...]) -> None:
    meta(session, *action)
    assert flags(session, inviso.self()) == {"call"}
