"""A session, its tracer and its limits as one object, and the reason of its end."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import trace, trace_ports, tracing
from inviso.tracing import Ended
from waiting import until


def f(n: int) -> int:
    return n


F = (__name__, "f", "_")


def calls(flags: tuple[str, ...] = ("call", "arity")) -> dict[str, Any]:
    return {"processes": {inviso.self(): list(flags)}, "patterns": [F]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = trace.session_info("all")
    yield
    gc.collect()
    assert trace.session_info("all") == before


class Lines:
    """An output that may fail or be closed."""

    path = "lines.txt"

    def __init__(self) -> None:
        self.failed: str | None = None
        self.is_gone = False
        self.lines: list[str] = []
        self.finished = 0

    def write(self, line: str, *, last: bool = False) -> int:
        if self.is_gone or self.failed is not None:
            raise tracing.Gone
        self.lines.append(line)
        return 0

    def finish(self, timeout: float) -> int:
        self.finished += 1
        return 3


def shown(message: Any) -> str | None:
    return f"{message[2]} {message[3][1]}" if message[2] == "call" else None


def reason(traced: tracing.Tracing) -> str | None:
    return None if traced.ended is None else traced.ended.reason


def test_what_was_sent_before_the_end_is_handled() -> None:
    seen: list[Any] = []
    traced = tracing.begin("t", seen.append, **calls())
    for n in range(100):
        f(n)
    assert traced.ended is None and traced.end() and not traced.end()
    assert [message[2:] for message in seen] == [("call", (__name__, "f", 1))] * 100
    assert traced.ended == Ended("asked", "it was asked to end", by_itself=False)
    assert not traced.session.is_alive() and trace.session_info((__name__, "f", 1)) == []


@pytest.mark.parametrize("given", ["asked", "program", "the control has gone"])
def test_the_reason_that_the_caller_gives(given: str) -> None:
    traced = tracing.begin("t")
    assert traced.end(given) and not traced.end("another one")
    assert reason(traced) == given and traced.ended is not None and not traced.ended.by_itself


@pytest.mark.parametrize(
    ("limits", "which", "text", "handled"),
    [
        ({"limit": 3}, "limit", "the limit of 3 messages was reached", 3),
        ({"rate": (5, 3_600_000)}, "rate", "there were more than 5 messages in 3600 s", 6),
        ({"limit": 9, "rate": (4, 3_600_000)}, "rate", "there were more than 4 messages in 3600 s", 5),
    ],
)
def test_a_limit_ends_it_once(limits: Any, which: str, text: str, handled: int) -> None:
    seen, said, over = [], [], threading.Event()

    def notice(line: str, is_failure: bool) -> None:
        said.append((line, is_failure))
        over.set()

    traced = tracing.begin("t", seen.append, notice=notice, **limits, **calls())
    assert traced.is_limited
    for n in range(50):
        f(n)
    assert traced.settle(10) or traced.ended is not None
    assert over.wait(10)
    traced.end()
    assert traced.ended == Ended(which, text) and len(seen) == handled
    assert said == [(f"*** t stopped: {text}.", False)]
    assert not traced.session.is_alive() and trace.session_info((__name__, "f", 1)) == []


def test_too_many_lost_messages() -> None:
    traced = tracing.begin("t", lambda message: None, drained=True, lost=2)
    traced.handle(("drop", 2))
    assert traced.ended is None
    traced.handle(("drop", 1))
    assert traced.ended == Ended("lost", "it fell behind, and 3 messages were lost")
    assert not traced.session.is_alive() and traced.end()


def test_a_tracer_function_that_raises(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def handle(message: Any) -> None:
        raise SystemExit(4)

    with tracing.begin("t", handle, notice=lambda line, _: said.append(line), **calls()) as traced:
        f(1)
    assert traced.ended == Ended("handler", "its handler raised SystemExit")
    assert said == ["*** t stopped: its handler raised SystemExit."]
    assert "SystemExit: 4" in capsys.readouterr().err


def test_a_notice_that_raises_does_no_harm() -> None:
    def notice(line: str, is_failure: bool) -> None:
        raise ValueError(line)

    with tracing.begin("t", lambda message: None, limit=1, notice=notice, **calls()) as traced:
        f(1)
    assert reason(traced) == "limit"
    output = Lines()
    with tracing.begin("t", shown, output=output, notice=notice, **calls()) as traced:
        output.failed = "No space left on device"
    assert reason(traced) == "output"


def test_lines() -> None:
    output = Lines()
    with tracing.begin("t", shown, output=output, limit=2, **calls()) as traced:
        f(1), f(2), f(3)
    assert output.lines == ["call f"] * 2 and output.finished == 1 and reason(traced) == "limit"


def test_a_reader_that_has_gone() -> None:
    output = Lines()
    output.is_gone = True
    with tracing.begin("t", shown, output=output, **calls()) as traced:
        f(1)
    assert traced.ended == Ended("reader", "its reader has gone") and output.finished == 1


@pytest.mark.parametrize("is_noticed_by", ["a message", "asking"])
def test_an_output_that_can_not_be_written(is_noticed_by: str) -> None:
    output, said = Lines(), []
    traced = tracing.begin("t", shown, output=output, notice=lambda *words: said.append(words), **calls())
    output.failed = "No space left on device"
    if is_noticed_by == "a message":
        f(1)
    else:
        assert reason(traced) == "output"
    traced.end()
    assert traced.ended == Ended("output", "lines.txt: No space left on device")
    assert said[-1] == ("*** t stopped: lines.txt: No space left on device; 3 messages were lost.", True)


def test_a_process_that_dies_as_tracer() -> None:
    asked = threading.Event()
    thread = threading.Thread(target=asked.wait)
    thread.start()
    pid = inviso.pid(thread)
    traced = tracing.begin("t", thread, **calls())
    assert traced.ended is None and traced.tracer == pid
    asked.set()
    thread.join()
    until(lambda: not pid.is_alive())
    assert traced.ended == Ended("tracer", "its tracer has gone")
    assert traced.end() and reason(traced) == "tracer"


def test_the_process_of_a_tracer_function_that_ends() -> None:
    traced = tracing.begin("t", lambda message: None, **calls())
    assert isinstance(traced.tracer, inviso.Pid)
    inviso.exit(traced.tracer, "kill")
    until(lambda: not traced.tracer.is_alive())
    assert reason(traced) == "tracer" and traced.end()


def test_a_session_that_somebody_else_destroys() -> None:
    traced = tracing.begin("t", lambda message: None, **calls())
    traced.session.destroy()
    assert traced.ended == Ended("session", "its session was destroyed")
    assert traced.end() and reason(traced) == "session"


def test_a_tracer_module() -> None:
    seen: list[Any] = []

    class Module:
        def enabled(self, *arguments: Any) -> str:
            return "trace"

        def trace(self, *arguments: Any) -> None:
            seen.append(arguments)

    pair = (Module(), 7)
    with tracing.begin("t", pair, **calls()) as traced:
        f(1)
        assert traced.tracer is pair and not traced.is_limited
    assert len(seen) == 1 and reason(traced) == "asked"


def test_a_trace_port(tmp_path: Path) -> None:
    port, said = trace_ports.trace_port("file", str(tmp_path / "t"))(), []
    traced = tracing.begin("t", port, limit=2, notice=lambda *words: said.append(words), **calls())
    assert traced.tracer is port and traced.is_limited
    for n in range(5):
        f(n)
    traced.end()
    assert traced.ended == Ended("limit", "the limit of 2 messages was reached")
    assert (port.written, port.is_open()) == (2, False)
    assert said == [("*** t stopped: the limit of 2 messages was reached.", False)]


def test_a_trace_port_that_is_closed(tmp_path: Path) -> None:
    port = trace_ports.trace_port("file", str(tmp_path / "t"))()
    traced = tracing.begin("t", port, **calls())
    f(1)
    port.close()
    assert reason(traced) == "tracer" and traced.end()
    other = trace_ports.trace_port("file", str(tmp_path / "u"))()
    with tracing.begin("t", other, **calls()) as traced:
        f(1)
    assert other.written == 1 and not other.is_open() and reason(traced) == "asked"


def test_a_port_that_can_not_be_written() -> None:
    port, said = trace_ports.trace_port("file", "/dev/full")(), []
    with tracing.begin("t", port, notice=lambda *words: said.append(words), **calls()) as traced:
        f(1)
    assert said == [("*** t: /dev/full: No space left on device; 1 message was lost.", True)]
    assert reason(traced) == "asked"


def test_limits_that_change() -> None:
    seen: list[Any] = []
    with tracing.begin("t", seen.append, **calls()) as traced:
        f(1), f(2)
        assert traced.settle(10) and not traced.is_limited
        traced.limit(3)
        assert traced.is_limited
        for n in range(10):
            f(n)
    assert len(seen) == 5 and traced.ended == Ended("limit", "the limit of 3 messages was reached")


def later(n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("tracer", "options", "argument"),
    [
        (None, {"limit": 1}, "limit"),
        ((object(), 1), {"rate": 1}, "rate"),
        (None, {"lost": 1}, "lost"),
        (print, {"limit": 0}, "limit"),
        (print, {"rate": (1, 0)}, "rate"),
        (print, {"lost": -1}, "lost"),
        (None, {"drained": True}, "drained"),
        (None, {"output": Lines()}, "output"),
        (7, {}, "tracer"),
        (print, {"opts": {"overflow": "never"}}, "opts"),
        (print, {"processes": {"all": ["no flag"]}}, "flags"),
        (print, {"processes": {"nobody": ["call"]}}, "procs"),
        (print, {"patterns": [(__name__, "later", "_"), ("json", 7, 7)]}, "mfa"),
        (print, {"patterns": [(__name__, "later", "_")], "match_spec": [("_", [], [("no", "action")])]}, "match_spec"),
    ],
)
def test_an_error_changes_nothing(tracer: Any, options: dict[str, Any], argument: str) -> None:
    before, threads = trace.session_info("all"), threading.active_count()
    everything = {"processes": {"all": ["call"]}, "patterns": [(__name__, "later", "_")], **options}
    with pytest.raises(inviso.BadArg) as found:
        tracing.begin("t", tracer, **everything)
    assert found.value.argument == argument
    assert (trace.session_info("all"), threading.active_count()) == (before, threads)
    assert trace.session_info((__name__, "later", 1)) == [] and trace.session_info(inviso.self()) == []


def test_limits_that_are_refused_later() -> None:
    with tracing.begin("t") as traced, pytest.raises(inviso.BadArg, match="nothing counts the messages of None"):
        traced.limit(1)
    with tracing.begin("t", print) as traced, pytest.raises(inviso.BadArg, match="0 is no number of messages"):
        traced.limit(0)


def test_functions_that_are_loaded_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_later.py").write_text("def g(): pass\ndef h(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    given = {**calls(), "patterns": [("loaded_later", "g", "_")]}
    with tracing.begin("t", **given) as traced:
        import loaded_later  # type: ignore[import-not-found]

        loaded_later.g(), loaded_later.h()
        assert [message[3] for message in traced.session.drain()] == [("loaded_later", "g", 0)]
    del sys.modules["loaded_later"]


def test_a_tracer_function_that_ends_its_own_tracing() -> None:
    made: list[tracing.Tracing] = []
    answers: list[bool] = []
    ended = threading.Event()

    def handle(message: Any) -> None:
        answers.append(made[0].end("the function asked"))
        ended.set()

    made.append(tracing.begin("t", handle, **calls()))
    f(1)
    assert ended.wait(10)
    assert answers == [True] and reason(made[0]) == "the function asked" and not made[0].end()
    made.clear()


@pytest.mark.parametrize("limit", [None, 500])
@pytest.mark.parametrize("attempt", range(10))
def test_many_threads_end_it_while_others_are_traced(limit: int | None, attempt: int) -> None:
    seen, said, answers, start = [], [], [], threading.Barrier(6)
    given = {"processes": {"all": ["call", "arity"]}, "patterns": [F], "limit": limit}
    traced = tracing.begin("t", seen.append, notice=lambda line, _: said.append(line), **given)

    def call() -> None:
        start.wait()
        for n in range(300):
            f(n)

    def end() -> None:
        start.wait()
        answers.append(traced.end())

    threads = [threading.Thread(target=target) for target in (call, call, call, end, end, end)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, True]
    is_limit = reason(traced) == "limit"
    assert said == ["*** t stopped: the limit of 500 messages was reached."] * is_limit
    assert len(seen) == 500 if is_limit else reason(traced) == "asked"


def test_the_limit_is_changed_while_messages_come() -> None:
    """No change is lost: tracing ends after the last limit at the latest."""
    seen: list[Any] = []
    traced = tracing.begin("t", seen.append, drained=True)
    changed = threading.Event()

    def change() -> None:
        for limit in range(100_000, 100, -10):
            traced.limit(limit)
        traced.limit(100)
        changed.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not changed.is_set():
        traced.handle(("trace", inviso.self(), "call", F))
    number = len(seen)
    for _ in range(200):
        traced.handle(("trace", inviso.self(), "call", F))
    thread.join()
    assert len(seen) <= number + 100 and reason(traced) == "limit"
    traced.end()


def test_an_object_that_is_dropped_takes_its_session_with_it() -> None:
    seen: list[Any] = []
    traced = tracing.begin("t", seen.append, **calls())
    weak = weakref.ref(traced)
    f(1)
    del traced
    gc.collect()
    assert weak() is None and len(seen) == 1


FORK = """
import os, sys, inviso
from inviso import trace_ports, tracing
def f(): pass
seen = []
kind = sys.argv[1]
tracer = seen.append if kind == "function" else trace_ports.trace_port("file", "log")() if kind == "port" else None
traced = tracing.begin("t", tracer, processes={"all": ["call"]}, patterns=[("__main__", "f", "_")])
f()
pid = os.fork()
if pid == 0:
    f()
    os._exit(0 if traced.ended.reason in ("session", "tracer") and traced.end() and len(seen) <= 1 else 1)
status = os.waitpid(pid, 0)[1]
f()
assert traced.ended is None
count = len(traced.session.drain()) if kind == "none" else 2
traced.end()
print(status, count if kind == "none" else len(seen) if kind == "function" else tracer.written, traced.ended.reason)
"""


@pytest.mark.parametrize("kind", ["function", "port", "none"])
def test_a_forked_child_has_no_tracing(kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FORK, kind]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0 2 asked\n", "")


END = """
from inviso import dbg
import inviso
def f(): pass
dbg.tracer(); dbg.p(inviso.self(), "c"); dbg.tpl("__main__", "f", [])
traced = dbg._session._default._tracing
f()
dbg._session._stop_all()
print(traced.ended.reason)
"""


def test_a_program_that_ends_under_dbg() -> None:
    done = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[1:] == ["program"] and done.stderr == "", done.stderr


def test_names() -> None:
    assert set(tracing.__all__) == {"LOST", "Ended", "Gone", "Output", "Tracing", "begin"}
    with tracing.begin("t") as traced:
        assert repr(traced) == "<tracing 't'>" and inviso.tracing is tracing
    assert repr(traced) == "<tracing 't', ended: it was asked to end>"
