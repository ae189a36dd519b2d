"""Answers of Erlang/OTP 29 that Python's types don't suggest. Each test states a rule that a real node follows."""

from __future__ import annotations

import socket
import threading
from typing import Any

import inviso
import pytest
from inviso import trace
from inviso.trace._tables import FLAGS
from waiting import until

PORT_FLAGS = [
    "send", "receive", "ports", "running_ports", "silent", "timestamp", "monotonic_timestamp",
    "strict_monotonic_timestamp",
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
    everything = set(FLAGS) - {"cpu_timestamp"}
    assert flags(session, "new") == everything - set(PORTS_ONLY)
    assert session.process(inviso.self(), True, ["all"]) == 1
    assert flags(session, inviso.self()) == everything


def test_ports_to_come_have_no_flags_of_processes(session: trace.Session) -> None:
    assert session.port("new", True, ["all"]) == 0
    assert flags(session, "new_ports") == set(PORT_FLAGS)
    with socket.socket() as opened:
        assert flags(session, opened) == set(PORT_FLAGS)
        assert session.port(opened, True, ["all"]) == 1
        assert flags(session, opened) == set(FLAGS) - {"cpu_timestamp"}


def test_all_keeps_more_for_what_exists_than_for_what_is_to_come(session: trace.Session) -> None:
    with socket.socket() as opened:
        session.process("all", True, ["call", "ports"])
        session.port("all", True, ["call", "ports"])
        assert flags(session, inviso.self()) == flags(session, opened) == {"call", "ports"}
        assert flags(session, "new") == {"call"}
        assert flags(session, "new_ports") == {"ports"}


def test_flags_that_are_left_out_switch_nothing(session: trace.Session) -> None:
    session.process("new", True, PORTS_ONLY)
    assert flags(session, "new") == set()
    assert session.info("new", "tracer")[1] == []
    session.process("new", True, ["call"])
    session.process("new", False, ["ports"])
    assert flags(session, "new") == {"call"}
    session.process("new", False, ["ports", "send"])
    assert flags(session, "new") == set()


# effects of a meta pattern's match specification on flags


def callee() -> None:
    """The function with the meta pattern."""


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
def test_other_actions_of_a_meta_pattern_switch_flags_on_anywhere(
    session: trace.Session, action: tuple[Any, ...]
) -> None:
    meta(session, *action)
    assert flags(session, inviso.self()) == {"call"}


# the tracer of a removed meta pattern

MFA = (__name__, "callee", 0)


def ended() -> inviso.Pid:
    """A process that has ended."""
    process = inviso.spawn(callee)
    until(lambda: not process.is_alive())
    return process


def of_meta(session: trace.Session) -> tuple[Any, Any]:
    """The tracer of a meta pattern in info, by itself and among all items."""
    return session.info(MFA, "meta")[1], dict(session.info(MFA, "all")[1])["meta"]


def test_a_dead_tracer_of_a_meta_pattern_is_found_at_a_call() -> None:
    tracer = ended()
    with trace.session_create("dead", tracer) as session:
        session.function(MFA, [("_", [], [("set_tcw", 5)])], ["meta", "call_count"])
        session.function("on_load", True, ["meta"])
        before = trace.control_word(0)
        assert of_meta(session) == (tracer, tracer)
        callee()
        assert of_meta(session) == ([], False)
        assert trace.control_word(before) == 0  # its match specification did not run
        assert session.info(MFA, "call_count")[1] == 1
        assert session.info(MFA, "meta_match_spec")[1] != []
        assert session.info("on_load", "meta")[1] == tracer
        session.function(MFA, True, ["meta"])
        assert of_meta(session) == (tracer, tracer)  # until the next call
        session.function(MFA, False, ["meta"])
        assert of_meta(session) == (False, False)


class Removed:
    """A tracer module with given answers."""

    def __init__(self) -> None:
        self.answer = "remove"
        self.seen: list[str] = []

    def enabled(self, tag: str, state: Any, tracee: Any) -> str:
        return "trace" if tag == "trace_status" else self.answer

    def trace(self, tag: str, state: Any, tracee: Any, term: Any, options: Any) -> None:
        self.seen.append(tag)


def test_a_tracer_module_that_answers_remove_to_a_meta_message() -> None:
    module = Removed()
    with trace.session_create("module", (module, "state")) as session:
        session.process(inviso.self(), True, ["send"])
        session.function(MFA, True, ["meta"])
        assert of_meta(session) == ((module, "state"), (module, "state"))
        callee()
        assert of_meta(session) == ([], False)
        assert flags(session, inviso.self()) == {"send"}  # it was asked about the function, not the process
        module.answer = "trace"
        callee()
        assert module.seen == []
        session.function(MFA, True, ["meta"])
        callee()
        assert module.seen == ["call"] and of_meta(session)[0] == (module, "state")


# words for all of a kind


@pytest.mark.parametrize(
    ("word", "there", "to_come"),
    [("processes", True, True), ("existing_processes", True, False), ("new_processes", False, True)],
)
def test_words_for_processes(session: trace.Session, word: str, there: bool, to_come: bool) -> None:
    assert (session.process(word, True, ["call"]) > 0) is there
    assert flags(session, inviso.self()) == ({"call"} if there else set())
    assert flags(session, "new") == ({"call"} if to_come else set())
    session.process(word, False, ["call"])
    assert flags(session, inviso.self()) == flags(session, "new") == set()


@pytest.mark.parametrize(
    ("word", "there", "to_come"), [("ports", True, True), ("existing_ports", True, False), ("new_ports", False, True)]
)
def test_words_for_ports(session: trace.Session, word: str, there: bool, to_come: bool) -> None:
    with socket.socket() as opened:
        assert (session.port(word, True, ["send"]) > 0) is there
        assert flags(session, opened) == ({"send"} if there else set())
        assert flags(session, "new_ports") == ({"send"} if to_come else set())
        session.port(word, False, ["send"])
        assert flags(session, opened) == flags(session, "new_ports") == set()


@pytest.mark.parametrize("how", [True, False])
def test_words_for_the_other_kind_are_refused(session: trace.Session, how: bool) -> None:
    for word in ("ports", "existing_ports", "new_ports"):
        with pytest.raises(inviso.BadArg) as refused:
            session.process(word, how, ["call"])
        assert refused.value.argument == "procs"
    for word in ("processes", "existing_processes", "new_processes"):
        with pytest.raises(inviso.BadArg) as refused:
            session.port(word, how, ["send"])
        assert refused.value.argument == "ports"


# items where they do not apply


def test_on_load_answers_about_items_of_processes_until_it_has_a_pattern(session: trace.Session) -> None:
    for item in ("flags", "tracer", "traced", "all", "call_count", "meta"):
        assert session.info("on_load", item) == (item, False)
    session.function("on_load", True, ["call_count"])
    for item in ("flags", "tracer"):
        with pytest.raises(inviso.BadArg) as refused:
            session.info("on_load", item)
        assert refused.value.argument == "item"


# names of sessions


@pytest.mark.parametrize("name", [True, False, None])
def test_every_atom_is_a_name_of_a_session(name: bool | None) -> None:
    with trace.session_create(name) as session:
        assert session.name is name
        assert repr(session).startswith(f"<session {name} #")
        (seen,) = (one for one in trace.session_info("all") if one == session)
        assert seen.name is name
    seen_by = []
    with trace.session_create(name, seen_by.append) as session:
        assert session.name is name


@pytest.mark.parametrize("name", [0, 1, 0.0, [], ()])
def test_what_is_no_atom_is_no_name(name: Any) -> None:
    with pytest.raises(inviso.BadArg) as refused:
        trace.session_create(name)
    assert refused.value.argument == "name"


# cpu_timestamp: the manual allows it with "all" in process/4 and port/4; OTP 29 refuses both, so the manual decides


def test_cpu_timestamp_goes_with_all_of_ports(session: trace.Session) -> None:
    with socket.socket() as opened:
        assert session.port("all", True, ["cpu_timestamp", "timestamp"]) >= 1
        assert flags(session, opened) == flags(session, "new_ports") == {"timestamp"}
        session.port("all", False, ["cpu_timestamp"])
        for word in (opened, "existing", "new", "ports", "existing_ports", "new_ports"):
            with pytest.raises(inviso.BadArg) as refused:
                session.port(word, True, ["cpu_timestamp"])
            assert refused.value.argument == "ports"


@pytest.mark.parametrize("watched", [True, False])
def test_a_port_that_was_closed_is_no_port_any_more(session: trace.Session, watched: bool) -> None:
    if watched:
        session.port("new", True, ["send"])
    opened = socket.socket()
    port = inviso.port(opened)
    opened.close()
    assert session.info(port, "flags") is None
    with pytest.raises(inviso.BadArg) as refused:
        session.port(port, True, ["send"])
    assert refused.value.argument == "ports"
    assert trace.session_info(port) is None


# rules that the scenarios of tests.differential.flags found


def test_a_group_whose_flags_are_all_of_the_other_kind_is_left_alone(session: trace.Session) -> None:
    with socket.socket() as opened:
        session.port("all", True, ["send"])
        session.process("all", True, ["send"])
        for how in (True, False):
            for group in ("all", "existing", "new"):
                assert session.port(group, how, ["call", "set_on_link"]) == 0
                assert session.process(group, how, PORTS_ONLY) == 0
                assert session.process(group, how, []) == session.port(group, how, []) == 0
        assert flags(session, inviso.self()) == flags(session, opened) == {"send"}
        assert flags(session, "new_ports") == flags(session, "new") == {"send"}
        assert session.port("all", True, ["call", "ports"]) >= 1
        assert flags(session, opened) == {"send", "call", "ports"}


@pytest.mark.parametrize("beside", ["local", "call_count"])
def test_on_load_without_global_takes_the_tracer_of_its_meta_pattern(session: trace.Session, beside: str) -> None:
    spec = [("_", [], [("return_trace",)])]
    session.function("on_load", spec, ["meta", beside])
    session.function("on_load", False, ["call_time"])
    everything = dict(session.info("on_load", "all")[1])
    assert everything["meta"] is not False and everything["meta_match_spec"] == spec
    session.function("on_load", False, ["global"])
    everything = dict(session.info("on_load", "all")[1])
    assert everything["meta"] is False and everything["meta_match_spec"] == []
    assert (everything["match_spec"], everything["call_count"]) == (([], False) if beside == "local" else (False, True))
    session.function("on_load", spec, ["meta"])
    everything = dict(session.info("on_load", "all")[1])
    assert everything["meta"] is not False and everything["meta_match_spec"] == spec


@pytest.mark.parametrize("flag", ["set_on_link", "set_on_first_link"])
def test_a_port_inherits_nothing_by_a_link(session: trace.Session, flag: str) -> None:
    session.process(inviso.self(), True, ["call", "send", flag])
    with socket.socket() as opened:
        assert flags(session, opened) == set()
        inviso.link(inviso.port(opened))
        assert flags(session, opened) == set()
        assert flags(session, inviso.self()) == {"call", "send", flag}
        inviso.unlink(inviso.port(opened))


def test_linking_once_more_hands_nothing_on(session: trace.Session) -> None:
    started, over = threading.Event(), threading.Event()

    def body() -> None:
        started.set()
        over.wait()

    other = inviso.spawn(body)
    started.wait()
    inviso.link(other)
    session.process(inviso.self(), True, ["call", "set_on_first_link"])
    inviso.link(other)
    assert flags(session, other) == set()
    assert flags(session, inviso.self()) == {"call", "set_on_first_link"}
    inviso.unlink(other)
    inviso.link(other)
    assert flags(session, other) == flags(session, inviso.self()) == {"call"}
    inviso.unlink(other)
    over.set()


def test_the_tracer_gets_flags_as_others_do_and_is_not_told_of_itself() -> None:
    me = inviso.self()
    with trace.session_create("of me", me) as session:
        session.process("existing", True, ["send", "call"])
        assert flags(session, me) == {"send", "call"}
        inviso.send(me, "to myself")
        assert session.delivered().wait(30)
        assert inviso.receive(timeout=30) == "to myself"
        assert inviso.receive(timeout=30)[0] == "trace_delivered"


def test_session_info_of_a_closed_port_is_none_without_a_session() -> None:
    opened = socket.socket()
    port = inviso.port(opened)
    assert trace.session_info(port) == []
    opened.close()
    assert trace.session_info(port) is None


# a trace message is a message


class Another:
    """A process that does one job on request, and lives until the test ends."""

    def __init__(self) -> None:
        self.begin, self.done, self.over = threading.Event(), threading.Event(), threading.Event()
        self.job: Any = None
        self.pid = inviso.spawn(self.body)

    def body(self) -> None:
        """The function of its thread."""
        self.begin.wait()
        if self.job is not None:
            self.job()
        self.done.set()
        self.over.wait()

    def run(self, job: Any) -> None:
        """Makes it do the job."""
        self.job = job
        self.begin.set()
        assert self.done.wait(30)


@pytest.fixture
def another() -> Any:
    made = Another()
    yield made
    made.begin.set()
    made.over.set()
    until(lambda: not made.pid.is_alive())


def received(count: int) -> list[Any]:
    """This many messages of the running process."""
    return [inviso.receive(timeout=30) for _ in range(count)]


def test_a_trace_message_is_received_by_a_tracer_that_another_session_traces(
    session: trace.Session, another: Another
) -> None:
    me = inviso.self()

    def job() -> None:
        callee()
        inviso.send(me, "own")
        callee()

    other = another.pid
    with trace.session_create("its tracer is traced", me) as one:
        one.process(other, True, ["call", "send", "timestamp"])
        one.function(MFA, True, ["local"])
        session.process(me, True, ["send", "receive"])
        one.process(me, True, ["receive"])  # it gets no messages about itself
        another.run(job)
        inviso.send(me, "last")
        came = received(5)
    assert [m if isinstance(m, str) else (m[0], m[2]) for m in came] == [
        ("trace_ts", "call"), ("trace_ts", "send"), "own", ("trace_ts", "call"), "last"
    ]  # fmt: skip
    told = session.drain()
    assert [event for event in told if event[2] == "send"] == [("trace", me, "send", "last", me)]
    assert [event for event in told if event[2] == "receive"] == [("trace", me, "receive", m) for m in came]


def test_the_sender_of_a_trace_message(session: trace.Session, another: Another) -> None:
    me, node = inviso.self(), inviso.node()

    def job() -> None:
        inviso.send(me, "own")
        inviso.link(me)
        callee()
        inviso.unlink(me)

    other = another.pid
    with trace.session_create("its tracer is traced", me) as one:
        one.process(other, True, ["send", "procs"])
        one.function(MFA, [("_", [], [("return_trace",)])], ["local"])
        one.process(other, True, ["call"])
        session.process(me, True, ["receive"])
        session.recv([(["$1", "$2", "_"], [], [("message", (("$1", "$2"),))])])
        another.run(job)
        received(6)
    told = [(event[3] if isinstance(event[3], str) else event[3][2], *event[4]) for event in session.drain()]
    # events that a process causes while it runs have it as sender; OTP names no sender of the others
    assert told == [
        ("send", node, other), ("own", node, other), ("link", None, None), ("call", node, other),
        ("return_from", node, other), ("unlink", None, None),
    ]  # fmt: skip


def test_a_recv_pattern_chooses_among_trace_messages(session: trace.Session, another: Another) -> None:
    me = inviso.self()
    other = another.pid
    with trace.session_create("its tracer is traced", me) as one:
        one.process(other, True, ["call", "send"])
        one.function(MFA, True, ["local"])
        session.process(me, True, ["receive"])
        session.recv([(["_", other, ("_", "_", inviso.Atom("send"), "_", "_")], [], [])])
        another.run(lambda: (callee(), inviso.send(me, "own"), callee()))
        assert session.delivered().wait(30)  # the tracer's mailbox has not been read yet
        assert session.drain() == [("trace", me, "receive", ("trace", other, "send", "own", me))]
        received(5)  # and the message after all others were delivered


def test_a_tracer_module_is_told_of_trace_messages(another: Another) -> None:
    module, me = Removed(), inviso.self()
    module.answer = "trace"
    other = another.pid
    with (
        trace.session_create("module", (module, 1)) as session,
        trace.session_create("its tracer is traced", me) as one,
    ):
        one.process(other, True, ["call"])
        one.function(MFA, True, ["local"])
        session.process(me, True, ["receive"])
        another.run(callee)
        received(1)
        assert module.seen == ["receive"]
