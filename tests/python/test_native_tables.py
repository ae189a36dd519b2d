"""Tables of names and bits in Python and in the native half are equal."""

from __future__ import annotations

from typing import Any

import inviso
import pytest
from inviso import _native, seq_trace, trace
from inviso.runtime import _component
from inviso.seq import _tokens
from inviso.trace._tables import ALL, EVENTS, FLAGS, KINDS
from trace_tools import mfa

OF_THE_NODE = {"cpu_timestamp"}
"""Flags that no process has."""


def called(argument: Any) -> Any:
    return argument


def when_called(*action: Any) -> trace.Session:
    """A session that carries out this action, by the native half's names, when ``called`` is called."""
    session = trace.session_create("tables")
    session.function(mfa(called), [("_", [], [action])], ["local"])
    session.process(inviso.self(), True, ["call"])
    return session


@pytest.mark.parametrize("flag", sorted(FLAGS.keys() - OF_THE_NODE))
def test_flags(flag: str) -> None:
    with when_called("trace", [], [flag]) as session:
        called(1)
        assert session._native.flags_of(inviso.self()) == FLAGS[flag] | FLAGS["call"]


def test_all_flags_are_known() -> None:
    assert sum(FLAGS.values()) == ALL | FLAGS["cpu_timestamp"]
    assert set(_component.FLAGS) <= FLAGS.keys()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("call_")])
def test_counters(kind: str) -> None:
    with trace.session_create("tables") as session:
        session._native.function(mfa(called), KINDS[kind], "on")
        session.process(inviso.self(), True, ["call"])
        called(1)
        rows = {name: len(session._native.counters(name)) for name in ("call_count", "call_time", "call_memory")}
        rows["call_latency"] = len(session._native.latency_of(mfa(called)))
        assert rows == {name: int(name == kind) for name in rows}


@pytest.mark.parametrize(("kind", "tag"), [("local", "trace"), ("meta", "trace_ts"), ("global", None)])
def test_patterns(kind: str, tag: str | None) -> None:
    with trace.session_create("tables") as session:
        session._native.function(mfa(called), KINDS[kind], "on")
        session.process(inviso.self(), True, ["call"])
        called(1)
        assert [message[0] for message in session.drain()] == ([] if tag is None else [tag])
        assert session.info(mfa(called), "traced")[1] == (False if kind == "meta" else kind)


@pytest.mark.parametrize("event", EVENTS)
def test_events(event: str) -> None:
    with trace.session_create("tables") as session:
        session._native.monitor(event, 5, 1)
        assert [found for found, _, _ in session._native.monitored()] == [event]


@pytest.mark.parametrize("flag", _tokens._FLAGS)
def test_flags_of_tokens(flag: str) -> None:
    seq_trace.set_token("label", 1)
    with when_called("set_seq_token", flag, True):
        called(1)
    token = _native.seq.token()
    seq_trace.set_token(None)
    assert token is not None and token[0] == _tokens._FLAGS[flag]
