"""The events of several nodes as one sequence, compared with causality as a model keeps it."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import inviso
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inviso import Atom, Cut, Opaque, _native, seq_trace, trace
from inviso.seq._merge import key
from inviso.seq_trace import Anchor, Output, merge
from waiting import until


@pytest.fixture(autouse=True)
def over() -> Iterator[None]:
    """Afterwards there is neither token nor tracer."""
    yield
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)


def pid(node: int, number: int) -> inviso.Pid:
    """A process of another node."""
    return _native.process.pid_of_node(f"n{node}@far", (node + 1) << 40 | 77 * (node + 1), (100 + number) << 2)


# -- the model: processes with counters as the algorithm has them, and with vector clocks


class Process:
    def __init__(self, node: int, number: int) -> None:
        self.pid = pid(node, number)
        self.node = node
        self.number = number
        self.token: Any = None
        self.previous = self.current = 0
        self.seen: dict[int, int] = {}

    def advance(self) -> None:
        self.seen[self.number] = self.seen.get(self.number, 0) + 1


class History:
    """Events on some nodes, and the messages to their tracers."""

    def __init__(self, nodes: int, processes: int, flags: dict[str, frozenset[str]]) -> None:
        self.processes = [Process(n % nodes, n) for n in range(processes)]
        self.flags = flags
        self.under_way: list[Any] = []
        self.told: list[list[Any]] = [[] for _ in range(nodes)]  # (message without time, time, vector clock)
        self.time = 0

    def _tell(self, process: Process, label: str, info: Any) -> None:
        process.advance()
        self.time += 10
        if info[0] in self.flags[label]:
            self.told[process.node].append((("seq_trace", label, info), self.time, dict(process.seen)))

    def _step(self, process: Process) -> tuple[int, int]:
        process.current += 1
        return process.previous, process.current

    def begin(self, process: Process, label: str) -> None:
        process.token = label

    def print(self, process: Process) -> None:
        if process.token is not None:
            self._tell(process, process.token, ("print", self._step(process), process.pid, [], len(self.told)))

    def send(self, process: Process, to: Process) -> None:
        if process.token is not None:
            info = ("send", self._step(process), process.pid, to.pid, "m")
            self._tell(process, process.token, info)
            self.under_way.append((process.token, info, to, dict(process.seen)))

    def take(self, which: int) -> None:
        if self.under_way:
            label, (_, serial, sender, to, content), process, seen = self.under_way.pop(which % len(self.under_way))
            process.token = label
            process.current = max(process.current, serial[1])
            process.previous = serial[1]
            for number, count in seen.items():
                process.seen[number] = max(process.seen.get(number, 0), count)
            self._tell(process, label, ("receive", serial, sender, to, content))

    def outputs(self, skews: list[int], stamps: bool) -> tuple[list[Output], dict[Any, dict[int, int]]]:
        outputs, clocks = [], {}
        for n, told in enumerate(self.told):
            events = [(*message, time + skews[n]) if stamps else message for message, time, _ in told]
            outputs.append(Output(f"n{n}@far", Anchor(0, 0), tuple(events)))
            clocks.update({id(event): seen for event, (_, _, seen) in zip(events, told, strict=True)})
        return outputs, clocks


def before(a: dict[int, int], b: dict[int, int]) -> bool:
    return a != b and all(b.get(number, 0) >= count for number, count in a.items())


ALL = frozenset({"send", "receive", "print"})
ACTIONS = st.tuples(st.sampled_from("bppsstt"), st.integers(0, 5), st.integers(0, 7), st.sampled_from("xy"))


def happen(nodes: int, flags: dict[str, frozenset[str]], actions: list[Any]) -> History:
    history = History(nodes, 6, flags)
    labels = sorted(flags)
    history.begin(history.processes[0], labels[0])
    for action, who, other, label in actions:
        process = history.processes[who]
        if action == "b" and label in flags and process.token is None:
            history.begin(process, label)
        elif action == "p":
            history.print(process)
        elif action == "s":
            history.send(process, history.processes[other % 6])
        else:
            history.take(other)
    return history


SKEWS = st.lists(st.integers(-2000, 2000), min_size=4, max_size=4)


# The fourth process gets two messages with the serial 1, from two processes. Nothing shows the second receipt.
SAME_SERIALS = [
    ("b", 1, 0, "x"), ("s", 0, 3, "x"), ("t", 0, 0, "x"), ("p", 3, 0, "x"), ("s", 1, 3, "x"), ("t", 0, 0, "x"),
    ("p", 3, 0, "x"),
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@example(2, {"x": frozenset({"print", "send"})}, SAME_SERIALS, [0] * 4, False)
@given(
    st.integers(1, 4),
    st.one_of(
        st.just({"x": ALL, "y": ALL}),
        st.sampled_from([{"x": frozenset(some)} for some in (
            {"print"}, {"receive", "print"}, {"send", "print"}, {"send"}, {"receive"}, {"send", "receive"},
        )]),
    ),
    st.lists(ACTIONS, min_size=30, max_size=60),
    SKEWS,
    st.booleans(),
)  # fmt: skip
def test_no_event_comes_before_its_cause(
    nodes: int, flags: Any, actions: list[Any], skews: list[int], stamps: bool
) -> None:
    outputs, clocks = happen(nodes, flags, actions).outputs(skews, stamps)
    entries = merge(*outputs)
    assert sorted(id(entry.event) for entry in entries) == sorted(clocks)
    seen = [clocks[id(entry.event)] for entry in entries]
    for n, later in enumerate(seen):
        assert not any(before(later, earlier) for earlier in seen[:n])
    for n, entry in enumerate(entries):
        if entry.after is not None:
            assert entry.after < n and before(seen[entry.after], seen[n])
        assert stamps or entry.by != "time"
        if len(flags) == 2:  # all messages are there: a serial orders exactly by cause
            assert (entry.by == "serial") == (n > 0 and before(seen[n - 1], seen[n]))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.lists(ACTIONS, max_size=60), st.randoms(use_true_random=False))
def test_right_clocks_give_the_order_in_which_it_happened(nodes: int, actions: list[Any], dice: random.Random) -> None:
    outputs, _ = happen(nodes, {"x": ALL, "y": ALL}, actions).outputs([0] * 4, True)
    merged = merge(*outputs)
    times = [entry.time for entry in merged]
    assert times == sorted(times)
    dice.shuffle(outputs)
    assert merge(*outputs) == merged


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_serials_that_contradict_each_other_lose_nothing(data: Any) -> None:
    serial = st.tuples(st.integers(-3, 6), st.integers(-3, 6))
    who = st.sampled_from([pid(n % 2, n) for n in range(3)])
    info = st.tuples(st.sampled_from(["send", "receive", "print"]), serial, who, who, st.none())
    event = st.tuples(st.just("seq_trace"), st.sampled_from([1, "x"]), info)
    events = st.lists(st.one_of(event, event.flatmap(lambda e: st.integers(0, 9).map(lambda t: (*e, t)))), max_size=30)
    outputs = [Output(f"n{n}@far", Anchor(n, 0), tuple(data.draw(events))) for n in range(2)]
    entries = merge(*outputs)
    given_in = sorted(id(event) for output in outputs for event in output.events)
    assert sorted(id(entry.event) for entry in entries) == given_in


# -- single rules


def event(tag: str, serial: tuple[int, int], a: inviso.Pid, b: Any, stamp: Any = None, label: Any = 1) -> Any:
    found = ("seq_trace", label, (tag, serial, a, b, "m"))
    return found if stamp is None else (*found, stamp)


A, B, C = pid(0, 1), pid(1, 2), pid(2, 3)


def tags(entries: list[seq_trace.Entry]) -> list[tuple[str, str, int | None]]:
    return [(entry.tag, entry.by, entry.after) for entry in entries]


def test_all_time_stamps_are_one_clock() -> None:
    a = Output("a@x", Anchor(1_000, 5_000_000_000_000), (event("print", (0, 1), A, [], 2_000),))
    b = Output("b@x", Anchor(0, 5_000_000_000_000), (event("print", (0, 1), B, [], (999, 3), "b"),))
    c = Output("c@x", Anchor(0, 0), (event("print", (0, 1), C, [], (0, 5_000, 1), "c"),))
    at = 5_000_000_000_999
    assert [(entry.node, entry.time) for entry in merge(c, b, a)] == [("b@x", at), ("c@x", at + 1), ("a@x", at + 1)]
    assert {entry.by for entry in merge(c, b, a)} == {"time"}


def test_without_time_stamps_outputs_stand_in_their_order() -> None:
    a = Output(
        "a@x", Anchor(0, 0), (event("print", (0, 1), A, [], label="a"), event("print", (0, 2), A, [], label="a"))
    )
    b = Output("b@x", Anchor(0, 0), (event("print", (0, 1), B, [], label="b"),))
    assert [entry.node for entry in merge(b, a)] == ["b@x", "a@x", "a@x"]
    assert tags(merge(a, b)) == [("print", "order", None), ("print", "serial", 0), ("print", "order", None)]


def test_a_message_that_was_taken_twice_was_sent_before_both() -> None:
    a = Output("a@x", Anchor(0, 0), (event("send", (0, 1), A, B, 50),))
    b = Output("b@x", Anchor(0, 0), (event("receive", (0, 1), A, B, 10), event("receive", (0, 1), A, B, 20)))
    assert tags(merge(b, a)) == [("send", "time", None), ("receive", "serial", 0), ("receive", "serial", 1)]


def test_an_atom_that_came_as_a_str_is_the_same_label() -> None:
    a = Output("a@x", Anchor(0, 0), (event("send", (0, 1), A, B, 50, Atom("order")),))
    b = Output("b@x", Anchor(0, 0), (event("receive", (0, 1), A, B, 10, "order"),))
    assert tags(merge(b, a)) == [("send", "time", None), ("receive", "serial", 0)]
    assert len({key(1), key(1.0), key(True), key("1"), key(None), key([1]), key((1,)), key({1: [2]})}) == 8


def test_a_counter_that_begins_again_is_the_same_process() -> None:
    one = (event("send", (0, 1), A, B, 1), event("receive", (1, 2), B, A, 4))
    two = (event("receive", (0, 1), A, B, 2), event("send", (1, 2), B, A, 3))
    later = [tuple((*e[:3], e[3] + 10) for e in some) for some in (one, two)]
    entries = merge(Output("a@x", Anchor(0, 0), one + later[0]), Output("b@x", Anchor(0, 0), two + later[1]))
    assert [entry.time for entry in entries] == [1, 2, 3, 4, 11, 12, 13, 14]


# -- outputs


def rich() -> Output:
    terms = (
        None, True, 1 << 90, -1.5, "größe\n", b"\xff\x00", Atom("ok"), (), [], [1, [2]], {"k": {1: 2}},
        frozenset({1, 2}),
        inviso.self(), A, Cut("items"), Opaque("app.Order", 4711), Opaque("app.Order", 1, "text"), inviso.Ref(),
        inviso.Map([(1, "int"), (1.0, "float")]), inviso.BitString(b"\xa0", 3), inviso.ImproperList([1], 2),
        inviso.Port(),
    )  # fmt: skip
    events = [event("send", (0, 1), inviso.self(), A, 7, term) for term in terms]
    events += [event("print", (0, 1), A, [], (3, 9)), event("receive", (5, 6), A, inviso.self(), (1, 2, 3))]
    events.append(("seq_trace", 1, ("print", (0, 1), A, [], terms)))
    return Output("a@x", Anchor(-3, 10**18), tuple(events), 12)


def test_an_output_comes_back_as_it_was() -> None:
    output = rich()
    assert pickle.loads(pickle.dumps(output)) == output
    for back in (Output.from_etf(output.to_etf()), Output.from_json(output.to_json())):
        assert back == output and back.events[6][1] is Atom("ok") and type(back.events[4][1]) is str
        assert repr(back.events) == repr(output.events)
    assert json.loads(output.to_json())["events"][0]["text"].startswith("undefined 7:<0.")


def test_an_output_is_the_same_in_another_process() -> None:
    program = (
        "import sys, pickle; from inviso.seq_trace import Output, Entry, merge;"
        "read = [bytes.fromhex(line) for line in sys.stdin.read().split()];"
        "a, b, c = pickle.loads(read[0]), Output.from_etf(read[1]), Output.from_json(read[2].decode());"
        "assert a == b == c, (a, b);"
        "print(pickle.dumps(merge(a)).hex())"
    )
    output = Output(
        "a@x", Anchor(0, 0), (event("send", (0, 1), inviso.self(), A), event("print", (0, 2), inviso.self(), []))
    )
    written = "\n".join(data.hex() for data in (pickle.dumps(output), output.to_etf(), output.to_json().encode()))
    done = subprocess.run([sys.executable, "-c", program], input=written, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert pickle.loads(bytes.fromhex(done.stdout)) == merge(output)


def test_a_collector_has_what_was_told_before(over: None) -> None:
    seq_trace.reset_trace()
    first = inviso.spawn(inviso.receive, "over")
    seq_trace.set_system_tracer(first)
    with seq_trace.Collector(limit=3) as collector:
        seq_trace.set_token("print", True)
        seq_trace.set_token("monotonic_timestamp", True)
        token = seq_trace.get_token()
        for n in range(5):
            seq_trace.print(n)
        token = seq_trace.get_token()
        output = collector.output()
        assert seq_trace.get_token() == token
        assert [e[2][4] for e in output.events] == [0, 1, 2] and output.dropped == 2
        assert all(abs(entry.time - output.anchor.wall) < 60 * 10**9 for entry in merge(output) if entry.time)
        assert seq_trace.get_system_tracer() == collector.pid
    until(lambda: not collector.pid.is_alive())
    assert seq_trace.get_system_tracer() == first
    seq_trace.set_system_tracer(False)
    inviso.send(first, "over")
    assert collector.output().events == output.events


def test_a_collector_goes_on_when_it_is_used_again(over: None) -> None:
    with seq_trace.Collector() as collector:
        seq_trace.set_token("print", True)
        seq_trace.print("first")
    for n in range(3):
        with collector, collector as same:
            seq_trace.print(n)
        assert same is collector
        seq_trace.print("nobody's")
    assert [e[2][4] for e in collector.output().events] == ["first", 0, 1, 2]
    until(lambda: not collector.pid.is_alive())
    assert seq_trace.get_system_tracer() is False


def test_a_collector_s_own_messages_are_not_collected(over: None) -> None:
    me = inviso.self()
    with trace.session_create("own") as session, seq_trace.Collector() as collector:
        session.process(me, True, ["send"])
        session.process(collector.pid, True, ["receive"])
        seq_trace.set_token("print", True)
        seq_trace.print("one")
        (event,) = collector.output().events
        # a tracer receives its messages like any process; requests to it are not messages
        assert session.drain() == [("trace", collector.pid, "receive", event)]


def test_a_collector_counts_what_its_ring_lost(over: None) -> None:
    """Its process does something else until there is no room any more."""
    prints, go_on = 10_500, threading.Event()
    busy = SimpleNamespace(set=lambda: go_on.wait(60))
    with seq_trace.Collector() as collector:
        inviso.send(collector.pid, ("report", busy))
        seq_trace.set_token("label", "x" * 30_000)
        seq_trace.set_token("print", True)
        for n in range(prints):
            seq_trace.print(n)
        seq_trace.set_token(None)
        threading.Timer(0.05, go_on.set).start()
        output = collector.output()
    assert output.dropped > 0 and len(output.events) + output.dropped == prints


ONE = event("print", (0, 1), A, [])


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("outputs", lambda: merge([])),
        ("outputs", lambda: merge(Output("a@b", Anchor(0, 0)), ONE)),
        ("node", lambda: Output(5, Anchor(0, 0))),
        ("anchor", lambda: Output("a@b", (0,))),
        ("anchor", lambda: Output("a@b", (0, 1.5))),
        ("events", lambda: Output("a@b", Anchor(0, 0), "events")),
        ("events", lambda: Output("a@b", Anchor(0, 0), 5)),
        ("events", lambda: Output("a@b", Anchor(0, 0), [("seq_trace", 1)])),
        ("events", lambda: Output("a@b", Anchor(0, 0), [("seq_trace", 1, ("sent", (0, 1), A, B, 1))])),
        ("events", lambda: Output("a@b", Anchor(0, 0), [("seq_trace", 1, ("send", (0, 1.0), A, B, 1))])),
        ("events", lambda: Output("a@b", Anchor(0, 0), [(*ONE, "noon")])),
        ("dropped", lambda: Output("a@b", Anchor(0, 0), [], -1)),
        ("limit", lambda: seq_trace.Collector(limit=0)),
        ("data", lambda: Output.from_etf("text")),
        ("data", lambda: Output.from_etf(b"\x83a\x01")),
        ("data", lambda: Output.from_etf(b"")),
        ("data", lambda: Output.from_etf(rich().to_etf()[:-1])),
        ("text", lambda: Output.from_json("")),
        ("text", lambda: Output.from_json("[]")),
        ("text", lambda: Output.from_json(b"\xff")),
        ("text", lambda: Output.from_json("[" * 100_000)),
        (
            "text",
            lambda: Output.from_json(rich().to_json().replace('"inviso_seq_output": 1', '"inviso_seq_output": 2')),
        ),
        ("text", lambda: Output.from_json(rich().to_json().replace('"term": "g2', '"term": "é2'))),
        ("events", lambda: Output.from_json(rich().to_json().replace('"term": "g2', '"term": "g2o=", "other": "'))),
    ],
)
def test_wrong_arguments(argument: str, call: Any) -> None:
    token, before = seq_trace.get_token(), set(inviso.processes())
    with pytest.raises(inviso.BadArg) as refused:
        call()
    assert refused.value.argument == argument and "; pass" in refused.value.why
    assert seq_trace.get_token() == token
    assert before.issuperset(inviso.processes())  # messages of earlier tests may come meanwhile
