"""Random calls to a runtime component, and to a control whose nodes die and come back, beside slow models of both."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from inviso import log
from inviso.control._control import Control
from inviso.runtime._host import Host
from inviso.runtime._resolver import Resolver
from inviso_tools import HOST, Node, Place, at_most
from waiting import until

OK, ERROR = "ok", "error"
NOT_ADDED = (ERROR, "not_an_added_node")


def one(n: int) -> int:
    return n


def two(n: int) -> int:
    return n


FUNCTIONS = {"one": one, "two": two}


class Peer:
    """A control, in the view of the host of a component."""

    def __init__(self, number: int) -> None:
        self.node, self.pid = f"control-{number}@here", number
        self.events: list[Any] = []

    def publish(self, event: Any) -> None:
        self.events.append(event)


class Model:
    """A model of a component. Nothing of it is taken from the component."""

    def __init__(self, tag: str, dependency: Any) -> None:
        self.tag, self.dependency = tag, dependency
        self.state, self.status = "new", "running"
        self.tracerdata: Any = None
        self.has_log = False
        self.patterns: set[str] = set()
        self.calls_flag = False
        self.calls = 0


class Runtime(RuleBasedStateMachine):
    """A host with two controls, and the expected state."""

    folder: Path
    number = 0

    @initialize()
    def begin(self) -> None:
        self.host = Host(Resolver())
        self.peers = [Peer(1), Peer(2)]
        self.owner: int | None = None
        self.model: Model | None = None
        self.turn = 0
        self.add(0, "a", "infinity", False)

    @invariant()
    def next_turn(self) -> None:
        self.turn = getattr(self, "turn", 0) + 1

    def ask(self, name: str, *words: Any) -> Any:
        return self.host.request(self.peers[self.owner or 0], name, words, is_local=True)

    def expect(self, answer: Any, expected: Any, *events: Any) -> None:
        assert answer == expected
        told = self.peers[self.owner or 0].events
        assert told == list(events)
        told.clear()

    def changed(self) -> Any:
        assert self.model is not None
        return "state_change", (self.model.state, self.model.status)

    # its owner

    @rule(
        number=st.integers(0, 1),
        tag=st.sampled_from("ab"),
        dependency=st.sampled_from([0, "infinity"]),
        if_ref=st.booleans(),
    )
    def add(self, number: int, tag: str, dependency: Any, if_ref: bool) -> None:
        answer = self.host.request(self.peers[number], "add", (tag, {"dependency": dependency}, if_ref), is_local=True)
        if self.model is None:
            assert answer == (OK, "new")
            self.model, self.owner = Model(tag, dependency), number
        elif self.owner == number:
            assert answer == (OK, "already_added")
        elif self.owner is not None:
            assert answer == (ERROR, ("refused", self.peers[self.owner].node, self.peers[self.owner].pid))
        elif if_ref and tag != self.model.tag:
            assert answer == (ERROR, ("wrong_reference", self.model.tag))
        else:
            assert answer == (OK, ("adopted", self.model.state, self.model.status, self.model.tag))
            self.model.tag, self.owner = tag, number

    @precondition(lambda self: self.owner is not None and self.turn % 4 == 0)
    @rule(asks=st.booleans())
    def leave(self, asks: bool) -> None:
        peer = self.peers[self.owner or 0]
        if asks:
            assert self.ask("let_go") == OK
        else:
            self.host.left(peer)
        self.owner = None
        if self.model is not None and self.model.dependency == 0:
            self.model = None
        peer.events.clear()

    @precondition(lambda self: self.owner is not None)
    @rule(tag=st.sampled_from("abc"))
    def pass_on(self, tag: str) -> None:
        """The other control takes it over, if it is still there."""
        other = 1 - (self.owner or 0)
        self.leave(True)
        self.add(other, tag, "infinity", False)

    @precondition(lambda self: self.owner is not None and self.turn % 4 == 0)
    @rule()
    def stop_node(self) -> None:
        assert self.ask("stop_node") == OK
        self.peers[self.owner or 0].events.clear()
        self.model = self.owner = None

    @precondition(lambda self: self.owner is None and self.turn % 4 == 0)
    @rule(name=st.sampled_from(["get_status", "clear", "suspend", "stop_node", "tpl", "nonsense"]))
    def nobody_asks(self, name: str) -> None:
        assert self.ask(name) == NOT_ADDED
        assert (self.host.component is None) == (self.model is None)

    # its actions

    @precondition(lambda self: self.owner is not None)
    @rule(wraps=st.booleans())
    def init_tracing(self, wraps: bool) -> None:
        model = self.model
        Runtime.number += 1
        name = str(self.folder / f"{self.number}.")
        data = ("file", (name, "wrap", ".log", 1 << 20, 3)) if wraps else ("file", name)
        answer = self.ask("init_tracing", data)
        if model.state == "tracing":
            self.expect(answer, (ERROR, "already_initiated"))
        elif model.status != "running":
            self.expect(answer, (ERROR, "suspended"))
        else:
            model.state, model.tracerdata, model.has_log = "tracing", data, True
            model.calls, model.calls_flag = 0, False
            self.expect(answer, (OK, [("trace_log", OK)]), self.changed())

    @precondition(lambda self: self.owner is not None)
    @rule()
    def stop_tracing(self) -> None:
        model, was = self.model, self.model.state
        answer = self.ask("stop_tracing")
        if was == "tracing":
            model.state, model.calls_flag = "idle", False
            self.expect(answer, (OK, "idle"), self.changed())
            self.check_log(*self.files())
        else:
            self.expect(answer, (OK, was))

    @precondition(lambda self: self.owner is not None and self.turn % 4 == 0)
    @rule(keeps=st.sets(st.sampled_from(["keep_trace_patterns", "keep_log_files"])))
    def clear(self, keeps: set[str]) -> None:
        model, was = self.model, self.model.state
        path = self.files()
        answer = self.ask("clear", sorted(keeps))
        if was == "tracing" and "keep_log_files" in keeps:
            self.check_log(*path)
        if "keep_log_files" not in keeps:
            model.has_log = False
        assert all(each.exists() == ("keep_log_files" in keeps) for each in path)
        if "keep_trace_patterns" not in keeps:
            model.patterns.clear()
        model.state, model.tracerdata, model.calls_flag = "new", None, False
        self.expect(answer, (OK, ("new", model.status)), self.changed())

    @precondition(lambda self: self.owner is not None)
    @rule(name=st.sampled_from(["one", "two", "nothing"]), sets=st.booleans())
    def pattern(self, name: str, sets: bool) -> None:
        model, was = self.model, self.model.state
        mfa = (__name__, name, "_")
        answer = self.ask("tpl", [(*mfa, True)]) if sets else self.ask("ctpl", [mfa])
        if model.status != "running":
            self.expect(answer, (ERROR, "suspended"))
            return
        events = []
        if sets:
            model.patterns.add(name)
            if was == "new":
                model.state = "idle"
                events = [self.changed()]
        else:
            model.patterns.discard(name)
        self.expect(answer, (OK, [int(name in FUNCTIONS)]), *events)

    @precondition(lambda self: self.owner is not None and self.turn % 4 == 0)
    @rule()
    def ctp_all(self) -> None:
        self.model.patterns.clear()
        self.expect(self.ask("ctp_all"), OK)

    @precondition(lambda self: self.owner is not None)
    @rule(sets=st.booleans())
    def flags(self, sets: bool) -> None:
        model = self.model
        answer = self.ask("tf" if sets else "ctf", [("all", ["call", "arity"])])
        if sets and model.state != "tracing":
            self.expect(answer, (ERROR, "no_tracer"))
        elif sets and model.status != "running":
            self.expect(answer, (ERROR, "suspended"))
        else:
            model.calls_flag = sets
            assert answer[0] == OK and isinstance(answer[1][0], int)

    @precondition(lambda self: self.owner is not None and self.turn % 4 == 0)
    @rule()
    def ctf_all(self) -> None:
        self.model.calls_flag = False
        self.expect(self.ask("ctf_all"), OK)

    @precondition(lambda self: self.owner is not None)
    @rule(name=st.sampled_from(["one", "two"]), wraps=st.booleans(), is_first=st.booleans())
    def work(self, name: str, wraps: bool, is_first: bool) -> None:
        """Actions of users."""
        if is_first:
            self.pattern(name, True)
        self.init_tracing(wraps)
        self.flags(True)
        if not is_first:
            self.pattern(name, True)
        self.calls(name, 2)

    @precondition(lambda self: self.owner is not None)
    @rule(why=st.sampled_from(["x", "y"]))
    def suspend(self, why: str) -> None:
        model, events = self.model, []
        answer = self.ask("suspend", why)
        if model.status == "running":
            model.status, model.calls_flag = ("suspended", why), False
            events = [self.changed()]
        self.expect(answer, OK, *events)

    @precondition(lambda self: self.owner is not None)
    @rule()
    def cancel_suspension(self) -> None:
        self.model.status = "running"
        self.expect(self.ask("cancel_suspension"), OK, self.changed())

    @precondition(lambda self: self.owner is not None)
    @rule()
    def look(self) -> None:
        model = self.model
        self.expect(self.ask("get_status"), (OK, (model.state, model.status)))
        self.expect(self.ask("get_tracerdata"), (OK, "no_tracerdata" if model.tracerdata is None else model.tracerdata))
        listed = self.ask("list_logs")
        if model.tracerdata is None:
            self.expect(listed, (ERROR, "no_tracerdata"))
        else:
            assert listed == (OK, [("trace_log", str(self.folder), sorted(path.name for path in self.files()))])
        self.expect(self.ask("flush"), OK if model.state == "tracing" else (ERROR, ("not_tracing", model.state)))
        self.expect(self.ask("nonsense"), (ERROR, ("invalid_request", "nonsense")))

    @precondition(lambda self: self.owner is not None)
    @rule()
    def delete_log(self) -> None:
        model, names = self.model, sorted(path.name for path in self.files())
        answer = self.ask("delete_log")
        if model.state == "tracing":
            self.expect(answer, (ERROR, "tracing"))
        elif model.tracerdata is None:
            self.expect(answer, (ERROR, ("badarg", None)))
        else:
            self.expect(answer, (OK, [("trace_log", [(OK, name) for name in reversed(names)])]))
            model.has_log = False

    @rule(name=st.sampled_from(["one", "two"]), count=st.integers(1, 3))
    def calls(self, name: str, count: int) -> None:
        for n in range(count):
            FUNCTIONS[name](n)
        if self.model is not None and self.model.calls_flag and name in self.model.patterns:
            self.model.calls += count

    def files(self) -> list[Path]:
        """The log's files that exist in the model."""
        if self.model is None or not self.model.has_log or self.model.tracerdata is None:
            return []
        match self.model.tracerdata:
            case (_, str(name)):
                return [Path(name)]
            case (_, (str(name), *_)):
                return [Path(f"{name}0.log")]
        raise AssertionError

    def check_log(self, path: Path) -> None:
        """The log has exactly the calls that were made while tracing was on."""
        assert len([message for message in log.read(path) if message[0] == "trace"]) == self.model.calls

    def teardown(self) -> None:
        self.host.end()


def test_a_runtime_component_behaves_as_its_model(request: pytest.FixtureRequest) -> None:
    """Two controls make random requests: answers, events, logs and traced calls are the model's."""
    is_slow = request.config.getoption("--slow")
    with tempfile.TemporaryDirectory() as folder, at_most(1800 if is_slow else 240):
        Runtime.folder = Path(folder)
        run_state_machine_as_test(
            Runtime,
            settings=settings(
                max_examples=500 if is_slow else 40,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


class Nodes(RuleBasedStateMachine):
    """Three processes that die and come back, and the control that has them."""

    place: Place

    @initialize()
    def begin(self) -> None:
        self.control = Control(name=f"tests@{HOST}", timeout=60)
        self.nodes: dict[str, Node | None] = {name: None for name in "abc"}
        self.added: list[str] = []
        self.left: dict[str, tuple[str, str]] = {}
        """State and tag of components that have no control."""
        self.states: dict[str, str] = {}
        self.tags: dict[str, str] = {}

    def full(self, name: str) -> str:
        return f"{name}@{HOST}"

    @rule(name=st.sampled_from("abc"))
    def live(self, name: str) -> None:
        if self.nodes[name] is None:
            self.nodes[name] = made = self.place.node(name)
            assert made.node == self.full(name)

    @rule(name=st.sampled_from("abc"))
    def die(self, name: str) -> None:
        node = self.nodes[name]
        if node is None:
            return
        node.kill()
        node.wait()
        self.nodes[name] = None
        self.left.pop(name, None)
        if name in self.added:
            self.added.remove(name)
        until(lambda: self.control.nodes() == [self.full(one) for one in self.added])

    @rule(names=st.lists(st.sampled_from("abc"), unique=True), tag=st.sampled_from("xy"))
    def add(self, names: list[str], tag: str) -> None:
        expected = []
        for name in names:
            if name in self.added:
                answer: Any = (OK, "already_added")
            elif self.nodes[name] is None:
                answer = (ERROR, "nodedown")
            elif name in self.left:
                state, before = self.left.pop(name)
                answer = (OK, ("adopted", state, "running", before))
                self.states[name], self.tags[name] = state, tag
                self.added.append(name)
            else:
                answer = (OK, "new")
                self.states[name], self.tags[name] = "new", tag
                self.added.append(name)
            expected.append((self.full(name), answer))
        assert self.control.add([self.full(name) for name in names], tag, {}) == expected
        self.added = [one.partition("@")[0] for one in self.control.nodes()]
        assert {name for name in self.added} == {one.partition("@")[0] for one in self.control.nodes()}

    @rule(names=st.lists(st.sampled_from("abc"), unique=True), ends=st.booleans())
    def remove(self, names: list[str], ends: bool) -> None:
        expected = []
        for name in names:
            if name in self.added:
                self.added.remove(name)
                if not ends:
                    self.left[name] = self.states[name], self.tags[name]
                expected.append((self.full(name), OK))
            else:
                expected.append((self.full(name), NOT_ADDED))
        assert self.control.remove([self.full(name) for name in names], ends=ends) == expected

    @rule(request=st.sampled_from(["init_tracing", "stop_tracing", "get_status", "clear"]))
    def ask(self, request: str) -> None:
        words = [("file", "log")] if request == "init_tracing" else []
        answers = dict(self.control.call([self.full(name) for name in "abc"], request, *words))
        for name in "abc":
            answer = answers[self.full(name)]
            if name not in self.added:
                assert answer == NOT_ADDED
                continue
            state = self.states[name]
            if request == "init_tracing":
                assert answer == ((ERROR, "already_initiated") if state == "tracing" else (OK, [("trace_log", OK)]))
                self.states[name] = "tracing"
            elif request == "stop_tracing":
                self.states[name] = "idle" if state == "tracing" else state
                assert answer == (OK, self.states[name])
            elif request == "clear":
                self.states[name] = "new"
                assert answer == (OK, ("new", "running"))
            else:
                assert answer == (OK, (state, "running"))

    @rule()
    def find(self) -> None:
        found = {each.node: each.about for each in self.control.find()}
        assert set(found) == {self.full(name) for name, node in self.nodes.items() if node is not None}
        for name in "abc":
            if name in self.added:
                assert found[self.full(name)]["control"] == (self.control.node, os.getpid())

    def teardown(self) -> None:
        self.control.close()
        for node in self.nodes.values():
            if node is not None:
                node.end()


@contextmanager
def placed(place: Place) -> Iterator[None]:
    Nodes.place = place
    yield


def test_a_control_of_nodes_that_die_and_come_back(place: Place, request: pytest.FixtureRequest) -> None:
    is_slow = request.config.getoption("--slow")
    with placed(place), at_most(1800 if is_slow else 240):
        run_state_machine_as_test(
            Nodes,
            settings=settings(
                max_examples=60 if is_slow else 8,
                stateful_step_count=20,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
