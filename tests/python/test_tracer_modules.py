"""Tracer modules that are Python objects (erl_tracer.md): the callbacks for each event; the tracee never notices."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import queue
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import inviso
import pytest
from inviso import seq_trace, trace
from inviso.terms import Atom
from inviso.tracer import Tracer
from trace_tools import good, local, mfa, own

PAIRS = {
    "call": ("call", "return_to", "return_from", "exception_from"),
    "send": ("send", "send_to_non_existing_process"),
    "receive": ("receive",),
    "procs": (
        "spawn",
        "spawned",
        "exit",
        "register",
        "unregister",
        "link",
        "unlink",
        "getting_linked",
        "getting_unlinked",
    ),
    "ports": ("open", "closed", "link", "getting_linked"),
    "running_procs": ("in", "out", "out_exited"),
    "running_ports": ("in", "out"),
    "garbage_collection": ("gc_major_start", "gc_major_end"),
}


def double(number: int) -> int:
    return number * 2


def fails() -> None:
    raise ValueError("of the program")


class Log:
    """Records all its trace calls, and its `enabled` calls if ``asks``."""

    def __init__(self, answer: Callable[[str], Any] = lambda tag: "trace", *, asks: bool = False) -> None:
        self.answer = answer
        self.asks = asks

    def enabled(self, tag: str, state: list[Any], tracee: Any) -> Any:
        if self.asks:
            state.append((tag, tracee))
        return self.answer(tag)

    def trace(self, tag: str, state: list[Any], tracee: Any, term: Any, opts: dict[str, Any]) -> None:
        state.append((tag, tracee, term, opts))


@contextmanager
def session(module: Any, state: Any, **options: Any) -> Iterator[trace.Session]:
    with trace.session_create("modules", (module, state), options) as made:
        yield made
        assert made.info("session", "dropped") == ("dropped", 0)


def errors(made: trace.Session) -> int:
    return int(made.info("session", "tracer_errors")[1])


def test_a_call_is_asked_and_told_with_its_arguments() -> None:
    seen: list[Any] = []
    with session(Log(asks=True), seen) as made:
        local(made, double)
        me = own(made)
        assert seen == [("trace_status", me)]
        seen.clear()
        assert double(4) == 8
    module, name, _ = mfa(double)
    assert seen == [("call", me), ("call", me, (module, name, [4]), {})]
    assert all(isinstance(part, Atom) for part in (seen[0][0], seen[1][0], *seen[1][2][:2]))


def test_opts_are_what_was_asked_for() -> None:
    seen: list[Any] = []
    spec = [(["$1"], [], [("message", "$1"), ("return_trace",)])]
    stamps = {
        "timestamp": "timestamp",
        "monotonic_timestamp": "monotonic",
        "strict_monotonic_timestamp": "strict_monotonic",
    }
    with session(Log(), seen) as made:
        made.function(mfa(double), spec, ["local"])
        me = own(made)
        double(21)
        assert [told[3] for told in seen] == [{"match_spec_result": 21}, {"extra": 42}]
        assert seen[1][:3] == ("return_from", me, mfa(double))
        for flag, kind in stamps.items():
            seen.clear()
            made.process(me, True, [flag])
            double(1)
            made.process(me, False, [flag])
            assert [told[3]["timestamp"] for told in seen] == [kind, kind]
        made.process(me, True, ["all"])
        made.process(me, False, ["silent"])
        seen.clear()
        double(1)
        assert {"timestamp", "scheduler_id"} <= set(next(told[3] for told in seen if told[0] == "call"))


@pytest.mark.skipif(not inviso._native.trace.has_cpu_clock(), reason="no clock of CPU time")
def test_cpu_time_is_a_kind_of_its_own() -> None:
    seen: list[Any] = []
    with session(Log(), seen) as made:
        local(made, double)
        own(made, ["call", "timestamp"])
        made.process("all", True, ["cpu_timestamp"])
        double(1)
        made.process("all", False, ["cpu_timestamp"])
    assert seen[-1][3] == {"timestamp": "cpu_timestamp"}


def test_the_tracer_is_asked_before_the_match_spec_runs() -> None:
    seen: list[Any] = []
    module = Log(lambda tag: "discard" if tag == "call" else "trace")
    with session(module, seen) as made:
        made.function(mfa(double), [("_", [], [("set_tcw", 7), ("return_trace",)])], ["local"])
        own(made)
        try:
            double(1)
            assert (trace.control_word(), seen) == (0, [])
            module.answer = lambda tag: "trace"
            double(1)
            assert (trace.control_word(), [told[0] for told in seen]) == (7, ["call", "return_from"])
        finally:
            trace.control_word(0)


def test_returns_exceptions_and_return_to() -> None:
    seen: list[Any] = []

    def outer() -> None:
        double(1)
        try:
            fails()
        except ValueError:
            double(2)

    with session(Log(), seen) as made:
        for function in (double, fails):
            made.function(mfa(function), [("_", [], [("exception_trace",)])], ["local"])
        own(made, ["call", "return_to"])
        outer()
    me = mfa(outer)
    tags = [told[0] for told in seen]
    assert tags == [
        "call", "return_from", "return_to", "call", "exception_from", "return_to", "call", "return_from", "return_to",
    ]  # fmt: skip
    assert [told[2] for told in seen if told[0] == "return_to"] == [me] * 3
    assert seen[4][2] == mfa(fails) and seen[4][3]["extra"][0] == "error"
    assert "of the program" in repr(seen[4][3]["extra"])


def test_generators_are_told_of_once() -> None:
    seen: list[Any] = []

    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    with session(Log(), seen) as made:
        made.function(mfa(numbers), [("_", [], [("return_trace",)])], ["local", "call_latency"])
        own(made)
        assert list(numbers()) == [1, 2]
        assert made.info(mfa(numbers), "call_latency")[1]["count"] == 1
    assert [told[0] for told in seen] == ["call", "return_from"]


def test_meta_and_global_patterns() -> None:
    seen: list[Any] = []
    with session(Log(), seen) as made:
        made.function(mfa(double), True, ["meta"])
        double(3)  # no flags are needed
        assert [(told[0], told[3]) for told in seen] == [("call", {"timestamp": "timestamp"})]
        seen.clear()
        made.function(("json", "dumps", "_"), True, ["global"])
        own(made)
        import json

        json.dumps(1)
        assert [told[2][1] for told in seen] == ["dumps"]


@pytest.mark.parametrize("takes", ["values", "texts", "objects"])
def test_what_is_taken_of_arguments(takes: str) -> None:
    seen: list[Any] = []
    thing = types.SimpleNamespace()
    options = {"values": {}, "texts": {"repr": True}, "objects": {"capture": "ref"}}[takes]

    def same(thing: Any) -> Any:
        return thing

    with session(Log(), seen, **options) as made:
        made.function(mfa(same), [("_", [], [("return_trace",)])], ["local"])
        own(made, ["call", "send"])
        same(thing)
        inviso.send(inviso.self(), thing)
        inviso.receive()
    taken = [seen[0][2][2][0], seen[1][3]["extra"], seen[2][2]]
    assert [told[0] for told in seen] == ["call", "return_from", "send"]
    if takes == "objects":
        assert all(value is thing for value in taken)
    else:
        assert all(value.type == "types.SimpleNamespace" for value in taken)
        assert all((value.text is not None) == (takes == "texts") for value in taken)


def test_messages_are_asked_for_before_their_match_spec() -> None:
    seen: list[Any] = []
    with session(Log(lambda tag: "discard" if tag == "receive" else "trace"), seen) as made:
        me = own(made, ["send", "receive"])
        made.send([(["_", 2], [], [("message", Atom("two"))])])
        for message in (1, 2):
            inviso.send(me, message)
    assert seen == [("send", me, 2, {"extra": me, "match_spec_result": "two"})]
    inviso.receive(), inviso.receive()


def everything(made: trace.Session) -> None:
    """Something of every pair happens to the running process, and to a port."""
    me = inviso.self()
    made.function(mfa(double), [("_", [], [("return_trace",)])], ["local"])
    flags = ["call", "return_to", "send", "receive", "procs", "running", "running_procs", "exiting"]
    made.process("all", True, [*flags, "garbage_collection"])
    made.port("all", True, ["ports", "running_ports", "send", "receive"])
    double(1)
    inviso.send(me, 1)
    inviso.receive()
    with pytest.raises(inviso.BadArg):
        inviso.send("nobody", 1)
    inviso.register("somebody", me)
    inviso.unregister("somebody")
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    one, other = socket.socketpair()
    one.send(b"x")
    other.recv(1)
    one.close(), other.close()
    gc.collect()

    async def sleeps() -> None:
        await asyncio.sleep(0)

    asyncio.run(sleeps())
    made.process("all", False, ["all"])
    made.port("all", False, ["all"])


class Which:
    """Records the callback and its event."""

    def __init__(self, pairs: set[str]) -> None:
        self.heard: list[tuple[str, str, bool]] = []
        for name in ("", *pairs):
            end = name and "_" + name
            setattr(self, "enabled" + end, self._asked(name))
            setattr(self, "trace" + end, self._told(name))

    def _asked(self, name: str) -> Callable[..., str]:
        def asked(tag: str, state: Any, tracee: Any) -> str:
            if tag != "trace_status":
                self.heard.append((name, tag, False))
            return "trace"

        return asked

    def _told(self, name: str) -> Callable[..., None]:
        def told(tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            self.heard.append((name, tag, True))

        return told


@pytest.mark.parametrize("pairs", [set(), set(PAIRS), *({name} for name in PAIRS), set(PAIRS) - {"call"}])
def test_every_tag_goes_to_its_pair_or_to_the_general_one(pairs: set[str]) -> None:
    module = Which(pairs)
    with session(module, None) as made:
        everything(made)
        assert errors(made) == 0
    for told in (False, True):
        heard = {(name, tag) for name, tag, how in module.heard if how is told}
        for name, tag in heard:
            homes = {pair for pair, tags in PAIRS.items() if tag in tags} or {"garbage_collection"}
            assert name in homes if name else homes - pairs, (name, tag)
        for pair in pairs:
            assert any(name == pair for name, _ in heard), pair
        seen = {tag for _, tag in heard}
        assert {"call", "return_from", "send", "receive", "register", "unregister", "spawn", "spawned", "exit"} <= seen
        assert {"open", "closed", "in", "out", "gc_major_start", "gc_major_end", "link", "getting_linked"} <= seen


def test_the_base_class_falls_back_and_costs_nothing() -> None:
    class Only(Tracer):
        def enabled(self, tag: str, state: Any, tracee: Any) -> Any:
            return "trace"

        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            state.append(sys._getframe(1).f_code)

        def trace_send(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            state.append("send")

    seen: list[Any] = []
    with session(Only(), seen) as made:
        local(made, double)
        me = own(made, ["call", "send"])
        double(1)
        inviso.send(me, 1)
    inviso.receive()
    # on 3.11 a call event comes before its frame is linked to its caller's
    first = "double" if sys.version_info >= (3, 12) else "test_the_base_class_falls_back_and_costs_nothing"
    assert [getattr(told, "co_name", told) for told in seen] == [first, "send"]
    with pytest.raises(TypeError):
        Tracer()  # type: ignore[abstract]
    base = types.SimpleNamespace(enabled=lambda *_: "trace", trace=lambda *_: None)
    for pair in PAIRS:
        assert getattr(Tracer, "enabled_" + pair)(base, "t", None, None) == "trace"
        assert getattr(Tracer, "trace_" + pair)(base, "t", None, None, None, {}) is None


def test_a_module_is_a_tracer_too() -> None:
    module = types.ModuleType("tracer_of_tests")
    seen: list[Any] = []
    exec("def enabled(tag, state, tracee): return 'trace'\ndef trace(*args): args[1].append(args[0])", module.__dict__)
    with session(module, seen) as made:
        local(made, double)
        me = own(made)
        double(1)
        assert made.info(me, "tracer") == ("tracer", (module, seen))
    assert seen == ["call"]


def test_remove_takes_the_flags_of_that_process_only() -> None:
    seen: list[Any] = []
    with session(Log(lambda tag: "remove" if tag == "call" else "trace"), seen) as made:
        local(made, double)
        me = own(made)
        other = inviso.spawn(inviso.receive)
        made.process(other, True, ["call"])
        double(1)
        assert made.info(me, "flags") == ("flags", [])
        assert made.info(other, "flags") == ("flags", ["call"])
        double(1)
        assert errors(made) == 0
        inviso.send(other, "done")
    assert seen == []


def test_a_dead_tracer_leaves_no_flags() -> None:
    module = Log(lambda tag: "remove" if tag == "trace_status" else "trace")
    with session(module, []) as made:
        assert made.process(inviso.self(), True, ["call"]) == 1
        assert made.process("new", True, ["call"]) == 0
        module.answer = lambda tag: "trace"
        assert made.info(inviso.self(), "flags") == ("flags", [])
        assert made.info("new", "flags") == ("flags", [])
        me = own(made)
        assert made.info(me, "flags") == ("flags", ["call"])
        module.answer = lambda tag: "remove"  # it dies later: found when flags are read
        assert made.info(me, "flags") == ("flags", [])


@pytest.mark.parametrize("item", ["flags", "tracer"])
@pytest.mark.parametrize("what", ["new", "new_processes", "new_ports"])
def test_a_tracer_is_asked_for_those_to_come(what: str, item: str) -> None:
    seen: list[Any] = []
    module = Log(asks=True)
    with session(module, seen) as made:
        (made.port if what == "new_ports" else made.process)("new", True, ["send"])
        assert made.info(what, "flags") == ("flags", ["send"])
        seen.clear()
        module.answer = lambda tag: "remove"
        assert made.info(what, item) == (item, [])
        assert made.info(what, "flags") == ("flags", [])  # no module is asked if there is none
        assert seen == [("trace_status", None)]


@pytest.mark.parametrize("raises", [ValueError("tracer"), SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
@pytest.mark.parametrize("where", ["enabled", "trace"])
def test_what_a_callback_raises_is_counted_and_reported_once(
    where: str, raises: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raises(Log):
        def enabled(self, tag: str, state: Any, tracee: Any) -> Any:
            if where == "enabled" and tag != "trace_status":
                raise raises
            return "trace"

        def trace(self, *_: Any) -> None:
            raise raises

    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reports.append(told.exc_value))
    with session(Raises(), []) as made:
        made.function(mfa(double), [("_", [], [("return_trace",)])], ["local"])
        made.function(mfa(fails), [("_", [], [("exception_trace",)])], ["local"])
        own(made, ["call", "return_to", "send", "procs"])
        assert double(1) == 2
        with pytest.raises(ValueError, match="of the program"):
            fails()
        inviso.send(inviso.self(), 1)
        inviso.receive()
        assert errors(made) >= 3
    assert reports == [raises]


def test_any_other_answer_is_a_discard_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Equal(str):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("the answer's own code ran")

        __hash__ = str.__hash__

    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reports.append(str(told.exc_value)))
    answers: list[Any] = [None, True, "yes", b"trace", 1, Equal("trace")]
    module = Log(lambda tag: "trace" if tag == "trace_status" else answers.pop(0))
    seen: list[Any] = []
    with session(module, seen) as made:
        local(made, double)
        own(made)
        for _ in range(6):
            double(1)
        assert errors(made) == 5
    assert len(seen) == 1
    assert reports == ["a tracer answers 'trace', 'discard' or 'remove', and not an object of class NoneType"]


def test_an_interrupt_in_a_callback_reaches_the_program_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Log):
        def trace(self, *_: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                pass

    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reports.append(told.exc_value))
    with session(Slow(), []) as made:
        with pytest.raises(KeyboardInterrupt):
            local(made, double)
            own(made)
            double(1)
            for _ in range(1000):
                pass
        assert errors(made) == len(reports) == 1 and isinstance(reports[0], KeyboardInterrupt)


class Ends(BaseException):
    """The exception of a handler."""


def ends(signum: int, frame: Any) -> None:
    raise Ends(signum)


def lets_go(signum: int, frame: Any) -> None:
    del signum, frame
    raise Ends


def once(signum: int, _: Any) -> None:
    signal.signal(signum, signal.SIG_DFL)
    raise Ends


def wrapped(*args: Any, **more: Any) -> None:
    ends(*args, **more)


class Handler:
    def method(self, signum: int, frame: Any) -> None:
        ends(signum, frame)

    def __call__(self, signum: int, frame: Any) -> None:
        raise Ends


HANDLERS = {
    "function": ends, "lambda": lambda *a: ends(*a), "lets go": lets_go, "once": once, "wrapped": wrapped,
    "method": Handler().method, "object": Handler(), "partial": functools.partial(lambda more, *a: ends(*a), 1),
}  # fmt: skip


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("where", ["enabled", "trace"])
@pytest.mark.parametrize("how", HANDLERS)
def test_what_a_handler_raises_in_a_callback_reaches_the_program(
    how: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comes(at: str) -> None:
        if at == where and not came:
            came.append(at)
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(1000):
                pass
            came.append("not interrupted")

    class Interrupted(Log):
        def enabled(self, tag: str, state: Any, tracee: Any) -> Any:
            if tag == "call":
                comes("enabled")
            return "trace"

        def trace(self, *args: Any) -> None:
            comes("trace")
            super().trace(*args)

    came: list[str] = []
    seen: list[Any] = []
    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reports.append(told.exc_value))
    # its callbacks come later: the exception doesn't come up there, and doesn't end them
    with handled(HANDLERS[how]), session(Interrupted(), []) as made, session(Log(), seen) as other:
        for one in (made, other):
            local(one, double)
            own(one)
        with pytest.raises(Ends) as caught:
            double(1)
            for _ in range(1000):
                pass
        assert (came, errors(made), errors(other), reports) == ([where], 0, 0, [])
        assert [told[0] for told in seen].count("call") == 1
    names = [entry.name for entry in caught.traceback]
    assert names[0] == "test_what_a_handler_raises_in_a_callback_reaches_the_program" and "comes" in names


def test_what_a_callback_raises_stays_there_whatever_a_handler_did(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raises(Log):
        def trace(self, *_: Any) -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(1000):
                pass
            raise [ValueError, KeyboardInterrupt][len(came) - 1]

    came: list[int] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    # no handler raises KeyboardInterrupt unseen
    with handled(lambda signum, _: came.append(signum)), session(Raises(), []) as made:
        default = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            local(made, double)
            own(made)
            assert (double(1), double(2)) == (2, 4)
            for _ in range(1000):
                pass
        finally:
            signal.signal(signal.SIGINT, default)
        assert came == [signal.SIGUSR1] * 2 and errors(made) == 2


def test_an_interrupt_that_a_callback_raises_outside_the_main_thread_reaches_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Raises(Log):
        def trace(self, *_: Any) -> None:
            raise KeyboardInterrupt

    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reports.append(told.exc_value))
    answers: list[int] = []
    with session(Raises(), []) as made:
        local(made, double)

        def work() -> None:
            own(made)
            answers.extend([double(1), double(2)])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for _ in range(1000):
            pass
        assert answers == [2, 4] and errors(made) >= 2
    assert len(reports) == 1 and isinstance(reports[0], KeyboardInterrupt)


def test_what_a_tracer_does_is_not_traced() -> None:
    class Busy(Log):
        def enabled(self, tag: str, state: Any, tracee: Any) -> Any:
            double(0)
            inviso.send(inviso.self(), ("from enabled", tag))
            return "trace"

        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            double(0)
            inviso.send(tracee, ("from trace", tag))
            queue.Queue[int]().put(1)
            super().trace(tag, state, tracee, term, opts)

    seen: list[Any] = []
    with trace.session_create("beside") as beside, session(Busy(), seen) as made:
        for one in (beside, made):
            local(one, double)
            own(one, ["call", "send", "receive", "procs"])
        while inviso.peek():
            inviso.receive()
        seen.clear()
        beside.drain()
        double(1)
        assert [told[0] for told in seen] == ["call"]
        assert [message[2] for message in beside.drain()].count("call") == 1
        got = [inviso.receive() for _ in inviso.peek()]
        assert got == [("from enabled", "call"), ("from trace", "call")]


def test_a_tracer_that_sends_to_its_tracee() -> None:
    class Answers(Log):
        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            state.append(tag)
            inviso.send(tracee, ("seen", tag))

    seen: list[str] = []
    with session(Answers(), seen) as made:
        me = own(made, ["send", "receive"])
        inviso.send(me, "first")
        got = {str(inviso.receive()) for _ in range(3)}
    assert seen == ["send", "receive"]
    assert got == {"first", "('seen', 'send')", "('seen', 'receive')"}


@pytest.mark.parametrize("where", ["enabled", "trace"])
def test_a_tracer_that_ends_its_own_session(where: str) -> None:
    ended = []

    class Ends(Log):
        def enabled(self, tag: str, state: Any, tracee: Any) -> Any:
            if where == "enabled" and tag == "call":
                ended.append(state[0].destroy())
            return "trace"

        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            ended.append(state[0].destroy())

    state: list[Any] = []
    made = trace.session_create("ends", (Ends(), state))
    state.append(made)
    made.function(mfa(double), [("_", [], [("return_trace",)])], ["local"])
    own(made)
    assert double(1) == 2
    assert double(1) == 2
    assert ended == [True] and not made.is_alive()


def test_a_tracer_that_changes_patterns_of_its_session() -> None:
    class Once(Log):
        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            state.append(tag)
            made.function(mfa(double), False, ["local"])

    seen: list[str] = []
    with session(Once(), seen) as made:
        local(made, double)
        own(made)
        double(1), double(1)
    assert seen == ["call"]


def test_destroy_waits_for_callbacks_of_other_threads() -> None:
    inside, leave, left = threading.Event(), threading.Event(), []

    class Slow(Log):
        def trace(self, *_: Any) -> None:
            inside.set()
            leave.wait(30)
            left.append(True)

    made = trace.session_create("slow", (Slow(), []))
    local(made, double)
    made.process("new", True, ["call"])
    thread = threading.Thread(target=double, args=(1,))
    thread.start()
    assert inside.wait(30)
    threading.Timer(0.05, leave.set).start()
    assert made.destroy()
    assert left == [True]
    thread.join()


def test_delivered_answers_at_once() -> None:
    seen: list[Any] = []
    with session(Log(), seen) as made:
        local(made, double)
        own(made)
        double(1)
        assert len(seen) == 1
        reference = made.delivered()
        assert reference.wait(0)
        assert inviso.receive(("trace_delivered", "all", reference))[2] is reference


def test_threads_call_at_the_same_time_and_lose_nothing() -> None:
    counts: dict[Any, int] = {}
    calls, threads = 2000, 4

    class Counts(Log):
        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            counts[tracee] = counts.get(tracee, 0) + 1

    with session(Counts(), []) as made:
        local(made, double)
        made.process("new", True, ["call"])
        workers = [threading.Thread(target=lambda: [double(n) for n in range(calls)]) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert errors(made) == 0
    assert list(counts.values()) == [calls] * threads


def test_tasks_are_the_tracees() -> None:
    seen: list[Any] = []

    async def work(number: int) -> inviso.Pid:
        double(number)
        await asyncio.sleep(0)
        double(number)
        return inviso.self()

    async def main() -> list[inviso.Pid]:
        return list(await asyncio.gather(work(1), work(2)))

    with session(Log(), seen) as made:
        local(made, double)
        made.process("new", True, ["call", "procs", "running"])
        pids = asyncio.run(main())
        assert errors(made) == 0
    for number, pid in enumerate(pids, 1):
        own_tags = [told[0] for told in seen if told[1] == pid]
        assert own_tags.count("call") == 2 and own_tags[0] == "spawned" and "out_exited" not in own_tags[:-2]
        assert [told[2][2] for told in seen if told[1] == pid and told[0] == "call"] == [[number]] * 2


def test_sequential_tracing_has_the_label_in_the_tracee_s_place() -> None:
    seen: list[Any] = []
    module = Log(asks=True)
    me = inviso.self()
    assert seq_trace.set_system_tracer((module, seen)) is False
    try:
        assert seen == [("trace_status", None)]
        assert seq_trace.get_system_tracer() == (module, seen)
        seen.clear()
        seq_trace.set_token("label", {"order": 7})
        seq_trace.set_token("print", True)
        seq_trace.set_token("send", True)
        seq_trace.print("hello")
        seq_trace.set_token("monotonic_timestamp", True)
        inviso.send(me, "again")
        asked = [told for told in seen if len(told) == 2]
        told = [told for told in seen if len(told) == 4]
        assert asked == [("seq_trace", me)] * 2
        assert told[0] == ("seq_trace", {"order": 7}, ("print", told[0][2][1], me, [], "hello"), {})
        assert told[1][1:] == ({"order": 7}, ("send", told[1][2][1], me, me, "again"), {"timestamp": "monotonic"})
        module.answer = lambda tag: "remove"
        seq_trace.print("gone")
        assert seq_trace.get_system_tracer() is False
    finally:
        seq_trace.set_token([])
        seq_trace.set_system_tracer(False)
        seq_trace.reset_trace()
        while inviso.peek():
            inviso.receive()
    with pytest.raises(inviso.BadArg, match="trace_status"):
        seq_trace.set_system_tracer((Log(lambda tag: "discard"), []))
    assert seq_trace.get_system_tracer() is False


def test_a_collector_gives_the_place_back_to_a_module() -> None:
    module = Log()
    seq_trace.set_system_tracer((module, []))
    try:
        with seq_trace.Collector():
            assert isinstance(seq_trace.get_system_tracer(), inviso.Pid)
        assert seq_trace.get_system_tracer() == (module, [])
        with seq_trace.Collector():
            module.answer = lambda tag: "remove"
        assert seq_trace.get_system_tracer() is False
    finally:
        seq_trace.set_system_tracer(False)


@pytest.mark.parametrize(
    ("tracer", "names"),
    [
        ((types.SimpleNamespace(), 1), ("enabled()", "trace()")),
        ((types.SimpleNamespace(enabled=print), 1), ("no trace()",)),
        ((types.SimpleNamespace(trace=print), 1), ("no enabled()",)),
        ((types.SimpleNamespace(enabled=1, trace=print), 1), ("enabled", "not callable")),
        ((Log(), 1, 2), ("(module, state)",)),
        ((), ("(module, state)",)),
    ],
)
def test_what_is_missing_is_named(tracer: Any, names: tuple[str, ...]) -> None:
    before = trace.session_info("all")
    for make in (lambda: trace.session_create("bad", tracer), lambda: seq_trace.set_system_tracer(tracer)):
        with pytest.raises(inviso.BadArg) as refused:
            make()
        assert all(name in str(refused.value) for name in names), refused.value
    assert trace.session_info("all") == before


def test_a_session_with_a_module_has_no_messages_and_watches_no_system() -> None:
    with session(Log(), []) as made:
        for call in (made.drain, made.receive, lambda: next(iter(made)), lambda: made.system("long_gc", 1)):
            with pytest.raises(inviso.BadArg, match="module"):
                call()


def test_the_module_is_let_go_of_with_its_session() -> None:
    import weakref

    module = Log()
    gone = weakref.ref(module)
    made = trace.session_create("held", (module, []))
    local(made, double)
    own(made)
    double(1)
    del module
    assert gone() is not None
    made.destroy()
    gc.collect()
    assert gone() is None


SETUP = """
import os, sys, threading, time, inviso
from inviso import seq_trace, trace
from subjects import forked
class Module:
    def enabled(self, tag, state, tracee):
        return "trace"
    def trace(self, tag, state, tracee, term, opts):
        state.append(tag)
seen = []
made = trace.session_create("open", (Module(), seen))
made.function(("subjects.forked", "work", 1), True, ["local"])
made.process("all", True, ["call", "return_to", "procs", "running", "garbage_collection"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_no_session() -> None:
    good(
        SETUP
        + """
seq_trace.set_system_tracer((Module(), seen))
forked.work(1)
before = seen.count("call")
assert before >= 1
pid = os.fork()
if pid == 0:
    try:
        forked.work(1)
        assert seen.count("call") == before and not made.is_alive() and trace.session_info("all") == []
        assert seq_trace.get_system_tracer() is False
        with trace.session_create("anew", (Module(), seen)) as anew:
            anew.function(("subjects.forked", "work", 1), True, ["local"])
            anew.process(inviso.self(), True, ["call"])
            forked.work(1)
        assert seen.count("call") > before
        os._exit(7)
    finally:
        os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
forked.work(1)
assert seen.count("call") == 2 * before
"""
    )


@pytest.mark.parametrize("how", ["pass", "sys.exit(0)", "made.destroy()"])
def test_the_interpreter_ends_with_a_module_at_work(how: str) -> None:
    good(
        SETUP
        + f"""
def forever():
    while True:
        forked.work(1)
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
while len(seen) < 100:
    time.sleep(0.001)
{how}
"""
    )


def test_threads_that_come_and_go_are_told_of() -> None:
    good(
        SETUP
        + """
for _ in range(50):
    thread = threading.Thread(target=forked.work, args=(1,))
    thread.start()
    thread.join()
assert seen.count("spawned") == seen.count("exit") == 50, (seen.count("spawned"), seen.count("exit"))
assert made.info("session", "tracer_errors") == ("tracer_errors", 0)
"""
    )
