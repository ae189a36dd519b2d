"""dbg answers, counts and prints as OTP's does."""

from __future__ import annotations

import enum
import functools
import gc
import json
import os
import queue
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg, dbg, trace
from inviso.dbg import _lines, _saved
from otp import erl, needs_otp
from trace_tools import good, mfa

NODE = inviso.node()
HERE = __name__
pytestmark = pytest.mark.usefixtures("dbg_over")


def leaf(x: Any) -> Any:
    return x


def branch(x: Any) -> Any:
    return leaf(x)


def bad(x: Any) -> Any:
    raise ValueError(x)


class Counted:
    def method(self, n: int) -> int:
        return n


def matched(*numbers: int) -> list[Any]:
    return [("matched", NODE, number) for number in numbers]


def traced(*, flags: Any = "c") -> list[Any]:
    """A tracer that collects messages of the calling process."""
    seen: list[Any] = []
    assert dbg.tracer("process", (lambda message, _: seen.append(message), None))[0] == "ok"
    assert dbg.p(inviso.self(), flags) == ("ok", matched(1))
    return seen


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The output after the end."""
    dbg.stop()
    return capsys.readouterr().out.splitlines()


def test_a_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    assert dbg.tracer()[0] == "ok"
    assert dbg.p(inviso.self(), "c") == ("ok", matched(1))
    assert dbg.tpl(HERE, "leaf", "x") == ("ok", [*matched(1), ("saved", "x")])
    assert branch([2]) == [2]
    me = inviso.self()
    assert lines(capsys) == [f"({me}) call {HERE}:leaf([2])", f"({me}) returned from {HERE}:leaf/1 -> [2]"]


def test_without_a_tracer_nothing_is_found() -> None:
    assert dbg.tp(HERE, "leaf", []) == ("ok", [])
    assert dbg.tp(HERE, "leaf", "x") == ("ok", [("saved", "x")])
    assert dbg.tpe("send", []) == ("ok", [])
    assert dbg.ctp() == ("ok", [])
    assert dbg.p("all", "c") == ("error", "no_tracers")
    assert dbg.p("nobody", "c") == ("error", "no_tracers")
    assert dbg.p(inviso.self(), "c") == ("error", ("no_tracer_on_node", NODE))
    assert dbg.get_tracer() == ("error", ("no_tracer_on_node", NODE))
    assert dbg.get_tracer("other@host") == ("error", ("no_tracer_on_node", "other@host"))
    assert dbg.stop() is None
    assert dbg.i() is None
    assert dbg.ln() is None
    assert dbg.flush_trace_port() == ("error", "no_trace_driver")
    with pytest.raises(BadArg, match=re.escape("tp/3, limit: there is no tracer; call dbg.tracer() before")):
        dbg.tp(HERE, "leaf", [], limit=3)


def test_a_second_tracer_is_refused() -> None:
    first = dbg.tracer()
    assert first == ("ok", dbg.get_tracer()[1])
    assert dbg.tracer() == dbg.tracer("process", (print, 0)) == ("error", "already_started")
    assert dbg.get_tracer(NODE) == dbg.get_tracer() and dbg.get_tracer()[1].is_alive()
    dbg.stop()
    assert dbg.tracer() != first


def test_a_node_may_be_named() -> None:
    assert dbg.tracer(NODE, "process", (print, None)) == ("ok", NODE)
    assert dbg.tracer(NODE, "process", (print, None)) == ("error", "already_started")
    assert dbg.tracer("a@b", "process", (print, None)) == ("error", ("nodedown", "a@b"))
    assert dbg.n("a@b") == ("error", ("nodedown", "a@b"))
    assert dbg.n(NODE) == ("error", "cant_add_local_node")
    assert dbg.cn("a@b") is None


def test_processes_that_p_selects() -> None:
    dbg.tracer()
    me = inviso.self()
    text = re.findall(r"\d+", repr(me))
    assert dbg.p(me) == ("ok", matched(1))
    assert trace.info(trace.session_info(me)[-1], me, "flags") == ("flags", ["send", "receive"])
    for item in (threading.current_thread(), repr(me), tuple(map(int, text)), *([int(text[1])] * (text[2] == "0"))):
        assert dbg.p(item, "clear") == ("ok", matched(1)), item
    inviso.register("somebody", me)
    try:
        assert dbg.p("somebody", ["c", "p"]) == ("ok", matched(1))
    finally:
        inviso.unregister("somebody")
    assert dbg.p("nobody", "c") == ("ok", [("matched", NODE, 0, ("no_proc", "nobody"))])
    for nobody in ("<0.999999.0>", 999_999, (0, 999_999, 0)):
        _, [(_, _, none, (tag, pid))] = dbg.p(nobody, "c")
        assert (none, tag, repr(pid), pid.is_local()) == (0, "no_proc", "<0.999999.0>", True)
    for nothing in (1.5, None, True, b"x", "<0.1>"):
        assert dbg.p(nothing, "c") == ("error", ("badpid", nothing))
        without_tracer = dbg.session("none", functools.partial(dbg.p, nothing, "c"))
        assert without_tracer == ("error", ("badpid", nothing))
    for nothing, text in (((7, 1, 0), "<7.1.0>"), (-1, "<0.-1.0>"), (1 << 32, "<0.4294967296.0>")):
        assert dbg.p(nothing, "c") == ("error", ("badpid", text))
    ended = threading.Thread(target=lambda: None)
    ended.start()
    pid = inviso.spawn(lambda: None)
    ended.join()
    while pid.is_alive():
        pass
    assert dbg.p(pid, "c") == ("ok", [("matched", NODE, 0, ("no_proc", pid))])
    with socket.socket() as listener:
        assert dbg.p(listener, "s") == dbg.p(inviso.port(listener), "r") == ("ok", matched(1))
        assert dbg.p(repr(inviso.port(listener)), "clear") == ("ok", matched(1))


def test_groups_are_processes_and_ports_together() -> None:
    dbg.tracer()
    with socket.socket():
        counts = {}
        for group in ("all", "processes", "ports", "existing", "existing_processes", "existing_ports"):
            counts[group] = dbg.p(group, "s")[1][0][2]
        assert dbg.p("ports", "c") == ("ok", matched(0))  # no port can have it
        assert counts["processes"] >= 1 and counts["ports"] >= 1
        assert counts["all"] == counts["existing"] == counts["processes"] + counts["ports"]
        assert counts["existing_processes"] == counts["processes"] and counts["existing_ports"] == counts["ports"]
        for group in ("new", "new_processes", "new_ports"):
            assert dbg.p(group, "p") == ("ok", matched(0))


def test_flags_and_their_short_names() -> None:
    dbg.tracer()
    me = inviso.self()

    def now() -> list[str]:
        return trace.info(trace.session_info("all")[-1], me, "flags")[1]  # type: ignore[no-any-return,index]

    for given, meant in (
        ("s", ["send"]), ("r", ["receive"]), ("m", ["send", "receive"]), ("c", ["call"]), ("p", ["procs"]),
        ("sos", ["set_on_spawn"]), ("sol", ["set_on_link"]), ("sofs", ["set_on_first_spawn"]),
        ("sofl", ["set_on_first_link"]), (["c", "timestamp"], ["call", "timestamp"]), ("running", ["running"]),
    ):  # fmt: skip
        assert dbg.p(me, given) == ("ok", matched(1))
        assert sorted(now()) == sorted(meant), given
        assert dbg.p(me, "clear") == ("ok", matched(1))
        assert now() == []
    dbg.p(me, "all")
    assert not {"silent", "running"} & set(now()) and {"call", "set_on_link", "exiting"} <= set(now())
    dbg.p(me, ["clear"])
    assert dbg.p(me, ["c", "sofa", "m"]) == ("error", ("bad_flags", ["sofa", "m"]))
    assert dbg.p(me, ["c", "clear"]) == ("error", ("bad_flags", ["clear"]))
    assert dbg.p(me, 7) == ("error", ("bad_flags", 7))
    assert now() == []


def test_functions_that_tp_selects() -> None:
    seen = traced()
    module = sys.modules[HERE]
    for target in ((HERE, "leaf"), (HERE, "leaf", 1), (HERE, "leaf", "_"), ((HERE, "leaf", 1),), (f"{HERE}:leaf:1",),
                   (f"{HERE}:leaf",), (f"{HERE}:leaf/1",), (module, "leaf"), (module, "leaf", 1)):  # fmt: skip
        assert dbg.tpl(*target, []) == ("ok", matched(1)), target
        assert dbg.ctpl(*target) == ("ok", matched(1)), target
        leaf(1)
    assert dbg.tpl(HERE, "Counted.method", []) == ("ok", matched(1))
    everything = dbg.tpl(HERE, [])[1][0][2]
    assert everything > 4 and dbg.ctpl(HERE) == dbg.ctpl(module) == ("ok", matched(everything))
    assert dbg.tp(HERE, "nothing", []) == dbg.tp("no.such.module", []) == ("ok", matched(0))
    assert dbg.tpl(f"{HERE}:branch") == ("ok", matched(1))
    branch(5)
    dbg.stop()
    assert [message[2:] for message in seen] == [("call", (HERE, "branch", [5]))]


def test_global_calls_come_from_other_modules() -> None:
    seen = traced()
    assert dbg.tp(HERE, "leaf", []) == ("ok", matched(1))
    leaf(1)
    exec("leaf(2)", {"__name__": "elsewhere", "leaf": leaf})
    dbg.stop()
    assert [message[3][2] for message in seen] == [[2]]


def test_a_module_is_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fresh_for_dbg.py").write_text("def f(): pass\n")
    (tmp_path / "exits_for_dbg.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    dbg.tracer()
    assert dbg.tp("fresh_for_dbg", "f", []) == ("ok", matched(1))
    assert dbg.tp("exits_for_dbg", "f", []) == ("ok", matched(0))


def test_ctp_takes_both_kinds_ctpl_and_ctpg_one() -> None:
    seen = traced()
    for clear, kind, left in (
        (dbg.ctp, dbg.tp, 0), (dbg.ctp, dbg.tpl, 0), (dbg.ctpl, dbg.tpl, 0), (dbg.ctpl, dbg.tp, 1),
        (dbg.ctpg, dbg.tp, 0), (dbg.ctpg, dbg.tpl, 1),
    ):  # fmt: skip
        dbg.ctp()
        kind(HERE, "leaf", [])
        clear(HERE, "leaf")
        exec("leaf(7)", {"__name__": "elsewhere", "leaf": leaf})
        session = trace.session_info("all")[-1]  # type: ignore[index]
        assert bool(session.info((HERE, "leaf", 1), "traced")[1]) == bool(left)
    assert dbg.ctp()[1][0][2] > 1000
    dbg.stop()
    assert len(seen) == 2


def test_match_specifications() -> None:
    seen = traced()
    assert dbg.tpl(HERE, "leaf", lambda x: x > 2) == ("ok", [*matched(1), ("saved", 1)])
    leaf(1), leaf(3)
    assert dbg.tpl(HERE, "leaf", dbg.fun2ms(lambda x: x > 2)) == ("ok", [*matched(1), ("saved", 1)])
    assert dbg.tpl(HERE, "leaf", [("_", [], [("message", False)])]) == ("ok", [*matched(1), ("saved", 2)])
    leaf(4)
    assert dbg.tpl(HERE, "leaf", 1) == ("ok", [*matched(1), ("saved", 1)])
    leaf(5)
    assert dbg.tpl(HERE, "leaf", 3) == dbg.tpl(HERE, "leaf", "foo") == ("error", "unknown_pattern")
    wrong = dbg.tpl(HERE, "leaf", [("_", [("foo",)], [])])
    assert wrong[0] == "error" and wrong[1][0].severity == "error" and "foo" in wrong[1][0].text
    assert dbg.tpl(HERE, "leaf", True) == ("ok", matched(1))
    leaf(6)
    dbg.stop()
    assert [message[3][2] for message in seen] == [[3], [5], [6]]


@pytest.mark.parametrize("name", ["x", "exception_trace"])
def test_the_built_in_x(name: str) -> None:
    seen = traced()
    assert dbg.tpl(HERE, "bad", name) == ("ok", [*matched(1), ("saved", "x")])
    with pytest.raises(ValueError):
        bad(1)
    dbg.stop()
    assert [m[2:] for m in seen] == [
        ("call", (HERE, "bad", [1])), ("exception_from", (HERE, "bad", 1), ("error", ("ValueError", (1,)))),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["c", "caller_trace", "cx", "caller_exception_trace"])
def test_the_built_in_c_and_cx(name: str) -> None:
    seen = traced()
    short = "cx" if "x" in name else "c"
    assert dbg.tpl(HERE, "leaf", name) == ("ok", [*matched(1), ("saved", short)])
    branch(1)
    dbg.stop()
    (module, function, arity, (file, line)) = seen[0][4]
    assert (module, function, arity) == (HERE, "branch", 1)
    assert file.endswith("test_dbg.py") and line == branch.__code__.co_firstlineno + 1
    assert [m[2] for m in seen] == (["call", "return_from"] if short == "cx" else ["call"])


def test_saved_specifications(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer()
    atom = inviso.Atom("a")
    for number, spec in enumerate(([(["$1"], [("==", "$1", 1)], [])], [(["$1"], [("==", "$1", True)], [])],
                                   [(["$1"], [("==", "$1", 1.0)], [])], [(["$1"], [("==", "$1", "a")], [])],
                                   [(["$1"], [("==", "$1", atom)], [])]), 1):  # fmt: skip
        assert dbg.tp(HERE, "leaf", spec)[1][-1] == ("saved", number)
        assert dbg.tp(HERE, "leaf", list(spec))[1][-1] == ("saved", number)
    assert dbg.dtp(2) is None and dbg.dtp(77) is None
    assert dbg.tp(HERE, "leaf", 2) == ("error", "unknown_pattern")
    assert dbg.tp(HERE, "leaf", [("_", [], [("return_trace",)])])[1][-1] == ("saved", 6)
    dbg.ltp()
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in shown] == [
        "1", "3", "4", "5", "6", "c", "caller_exception_trace", "caller_trace", "cx", "exception_trace", "x",
    ]  # fmt: skip
    assert shown[4] == "6: [('_', [], [('return_trace',)])]" and shown[6] == "caller_exception_trace: cx"
    dbg.dtp()
    dbg.ltp()
    assert len(capsys.readouterr().out.splitlines()) == 6
    dbg.tp(HERE, "leaf", [("_", [], [("return_trace",)])])
    dbg.stop()
    dbg.ltp()
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_specifications_in_files(tmp_path: Path) -> None:
    name = str(tmp_path / "patterns")
    specs = [
        [(inviso.Prefix("$1"), [("==", "$1", inviso.Atom("a"))], [("message", {"k": (("const", "$1"),)})])],
        [("_", [], [("return_trace",)])],
    ]
    for spec in specs:
        dbg.tp(HERE, "leaf", spec)
    Path(name).touch(0o644)
    assert dbg.wtp(name) is None
    assert Path(name).stat().st_mode & 0o777 == 0o600
    assert "Prefix('$1')" in Path(name).read_text()
    dbg.dtp()
    dbg.tp(HERE, "leaf", specs[1])
    assert dbg.rtp(name) is None
    assert dbg.tp(HERE, "leaf", specs[0]) == ("ok", [("saved", 2)])
    assert dbg.tp(HERE, "leaf", specs[1]) == ("ok", [("saved", 1)])
    assert dbg.wtp(str(tmp_path / "no" / "where")) == dbg.wtp("") == ("error", "enoent")
    os.mkfifo(tmp_path / "pipe")
    assert dbg.wtp(str(tmp_path / "pipe")) == ("error", "enxio")
    for odd in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        assert dbg.rtp(odd) == ("error", ("read_error", "eisdir"))
    assert dbg.rtp(str(tmp_path / "nothing")) == ("error", ("read_error", "enoent"))
    for text in ("'hello'", "[('_', [('foo',)], [])]", "[1]", "{}"):
        Path(name).write_text(text)
        assert dbg.rtp(name) == ("error", ("file_format_error", "bad_match_spec"))
    ran: list[int] = []
    sys.modules[HERE].__dict__["ran"] = ran
    for text in ("[", "(" * 5000, "__import__('os')", "x = 1", "f'{1}'", "[1 for i in x]", "\0", "Atom(1, 2)",
                 "{[]: 1}",
                 "Atom(Atom)", "lambda: 1", "...", "print", "1 + 1", "-'a'", "[*'ab']"):  # fmt: skip
        Path(name).write_text(text)
        answer = dbg.rtp(name)
        assert answer[:1] == ("error",) and answer[1][0] in ("read_error", "file_format_error"), text
    Path(name).write_bytes(b"\xff")
    assert dbg.rtp(name)[1][0] == "read_error"


class Shade(enum.IntEnum):
    DARK = 7


class Named(str):
    def __repr__(self) -> str:
        return "<named>"


def test_odd_values_of_specifications_in_files(tmp_path: Path) -> None:
    name = str(tmp_path / "patterns")
    values = [float("nan"), float("inf"), float("-inf"), -0.0, 1e300, frozenset({1, "a"}), {2}, frozenset(), 10**5000,
              -(10**5000), Shade.DARK, Named("n"), b"\0", "\ud800", inviso.BitString(b"a", 3), True, None]  # fmt: skip
    spec = [("_", [], [("message", ("const", values))])]
    dbg.tp(HERE, "leaf", spec)
    assert dbg.wtp(name) is None
    dbg.dtp()
    assert dbg.rtp(name) is None
    (read,) = [value for key, value in dbg._session._default.saved if key == 1]
    expected = [*values[:6], frozenset({2}), *values[7:10], 7, "n", *values[12:]]
    assert _saved._same(read[0][2][0][1][1], expected)
    # values that a file can't hold are refused by name, and the file stays
    before = Path(name).read_bytes()
    for value, shown in (
        (inviso.self(), repr(inviso.self())),
        (functools.reduce(lambda a, _: [a], range(70), 1), "deep"),
    ):
        assert dbg.tp(HERE, "leaf", [("_", [("==", ("self",), ("const", value))], [])])[0] == "ok"
        answer = dbg.wtp(name)
        assert answer[:1] == ("error",) and answer[1][0] == "write_error", answer
        assert answer[1][1].startswith("specification 2: ") and shown in answer[1][1], answer
        assert Path(name).read_bytes() == before
        dbg.dtp(2)
    Path(name).write_text("[('_', [], [('message', float('1e3'))])]")
    assert dbg.rtp(name)[1][0] == "read_error"


def test_messages() -> None:
    seen = traced(flags=["m"])
    assert dbg.tpe("send", [(["_", ("order", "_")], [], [])]) == ("ok", [*matched(1), ("saved", 1)])
    me = inviso.self()
    inviso.send(me, ("order", 1))
    inviso.send(me, ("else", 1))
    assert dbg.ctpe("send") == ("ok", matched(1))
    inviso.send(me, "last")
    for _ in range(3):
        inviso.receive()
    dbg.stop()
    assert [m[3] for m in seen if m[2] == "send"] == [("order", 1), "last"]
    assert [m[3] for m in seen if m[2] == "receive"] == [("order", 1), ("else", 1), "last"]
    for function in (dbg.ctpe, lambda event: dbg.tpe(event, [])):
        with pytest.raises(BadArg, match="pass 'send' or 'receive'"):
            function("call")


def test_a_process_tracer_has_a_state() -> None:
    got: queue.Queue[Any] = queue.Queue()

    def handler(message: Any, number: int) -> int:
        got.put((number, message[2], inviso.self()))
        return number + 1

    tracer = dbg.tracer("process", (handler, 5))[1]
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", "x")
    leaf(0)
    dbg.stop()
    assert [got.get_nowait() for _ in range(2)] == [(5, "call", tracer), (6, "return_from", tracer)]


def test_a_handler_that_raises_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer("process", (lambda message, state: 1 / 0, None))
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    leaf(0), leaf(1)
    session = trace.session_info("all")
    while dbg.get_tracer()[0] == "ok":
        leaf(2)
    assert session
    dbg.stop()
    out, err = capsys.readouterr()
    assert out == "*** dbg stopped: its handler raised ZeroDivisionError.\n"
    assert err.count("ZeroDivisionError") == 1
    assert dbg.tracer()[0] == "ok"


def test_a_file_tracer(tmp_path: Path) -> None:
    name = tmp_path / "lines.txt"
    name.touch(0o644)
    assert dbg.tracer("file", name)[0] == "ok"
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", "x")
    leaf("ä\n\x1b[1m")
    dbg.stop()
    me = inviso.self()
    text = "'ä\\n\\x1b[1m'"
    assert name.read_text() == f"({me}) call {HERE}:leaf({text})\n({me}) returned from {HERE}:leaf/1 -> {text}\n"
    assert name.stat().st_mode & 0o777 == 0o600
    assert dbg.tracer("file", str(tmp_path / "no" / "where")) == ("error", "enoent")
    assert dbg.tracer("file", str(tmp_path)) == ("error", "eisdir")


def test_c_calls_with_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert dbg.c(HERE, "branch", [3], "c") == 3
    assert capsys.readouterr().out == ""
    assert dbg.c(HERE, "talk", [], "m") == "hello"
    out = capsys.readouterr().out
    assert re.fullmatch(r"\((<0\.\d+\.\d+>)\) \1 ! 'hello'\n\(\1\) << 'hello'\n", out), out
    assert dbg.c(HERE, "branch", [3]) == 3
    assert capsys.readouterr().out == ""
    assert dbg.c(HERE, "leaf", [1], "sofa") == ("error", ("bad_flags", ["sofa"]))
    for clear in ["clear", ["clear"], ["c", "clear"]]:
        assert dbg.c(HERE, "leaf", [1], clear) == ("error", ("bad_flags", ["clear"]))
    with pytest.raises(BadArg, match="has no function 'nothing'; pass its qualified name"):
        dbg.c(HERE, "nothing", [])
    for module in "no.such.module", "", ".":
        with pytest.raises(BadArg, match="can't be imported"):
            dbg.c(module, "f", [])


def test_c_refuses_what_is_wrong_before_anything_begins() -> None:
    before = inviso.processes()
    for args in 5, {"a": 1}, {1}, "1", b"1", None, iter([1]):
        with pytest.raises(BadArg, match="c/4, args: .* is no list of arguments; pass one"):
            dbg.c("json", "loads", args)  # type: ignore[arg-type]
    with pytest.raises(BadArg, match="c/4, module: 5 is no module; pass its name"):
        dbg.c(5, "loads", [])  # type: ignore[arg-type]
    assert not {*inviso.processes()} - {*before} and dbg.c("json", "loads", ("[1]",), "c") == [1]


def test_a_specification_for_calls_is_refused_for_messages_in_the_words_of_tpe() -> None:
    dbg.tracer("process", (print, None))
    answer = dbg.tpe("send", "c")
    assert answer[1][0][:3] == ("matched", inviso.node(), 0)
    assert answer[1][0][3][1].startswith("tpe/2, match_spec: clause 1, body 1: 'caller_line' can't be used")


def test_stop_waits_once_for_a_handler_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inviso.trace._worker.PATIENCE", 2.0)
    go, there = threading.Event(), threading.Event()

    def handler(message: Any, state: None) -> None:
        there.set()
        go.wait(60)

    dbg.tracer("process", (handler, None))
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    leaf(1)
    assert there.wait(30)
    begun = time.monotonic()
    dbg.stop()
    gc.collect()
    assert 2 <= time.monotonic() - begun < 30
    go.set()


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit("no"), KeyboardInterrupt("no")])
def test_c_shows_how_the_process_of_a_call_that_fails_ends(
    raised: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda what: told.append(what.exc_value))
    for flags in ("all", ["p", "running_procs", "exiting"], ["c"]):
        assert dbg.c(sys.modules[HERE], "fail", [raised], flags) == ("error", raised)
        out = re.sub(r" \(Timestamp: \(\d+, \d+, \d+\)\)\n", "\n", capsys.readouterr().out)
        if flags == ["c"]:
            assert out == ""
            continue
        shown = rf"\((<0\.\d+\.\d+>)\) exit \('{type(raised).__name__}', \('no',\)\)\n\(\1\) out_exited 0\n$"
        assert re.search(shown, out), out
    assert told == [raised] * 3


def fail(how: BaseException) -> None:
    raise how


def talk() -> Any:
    inviso.send(inviso.self(), "hello")
    return inviso.receive()


def test_i_shows_who_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer()
    dbg.p(inviso.self(), ["c", "sos", "timestamp"])
    dbg.i()
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == ["", f"Node {NODE}:", "Pid          Initial call          Trace"]
    assert len(out) == 4 and out[3].split(None, 1)[0] == repr(inviso.self()) and out[3].endswith("c | sos | timestamp")


def test_sessions_are_isolated() -> None:
    seen: dict[str, list[Any]] = {"one": [], "two": []}
    made = {name: dbg.session_create(name) for name in seen}
    for name, session in made.items():

        def begin(name: str = name) -> Any:
            assert dbg.tracer("process", (lambda message, _: seen[name].append(message[3]), None))[0] == "ok"
            dbg.p(inviso.self(), ["c", "arity"])
            return dbg.tpl(HERE, {"one": "leaf", "two": "branch"}[name], [("_", [], [])])

        assert dbg.session(session, begin) == ("ok", [*matched(1), ("saved", 1)])
    assert dbg.get_tracer()[0] == "error"
    assert {"one", "two"} <= {session.name for session in trace.session_info("all") or []}
    branch(1)
    assert repr(made["one"]) == "<dbg session 'one'>"
    assert dbg.session_destroy(made["one"]) is None
    branch(1)
    dbg.session_destroy(made["two"])
    assert seen == {"one": [(HERE, "leaf", 1)], "two": [(HERE, "branch", 1)] * 2}
    for call in (lambda: dbg.session_destroy(made["one"]), lambda: dbg.session(made["one"], dbg.tracer),
                 lambda: dbg.session_destroy(7), lambda: dbg.session(7, dbg.tracer)):  # fmt: skip
        with pytest.raises(BadArg, match="session"):
            call()
    with pytest.raises(BadArg, match="is no name; pass a str"):
        dbg.session_create(7)  # type: ignore[arg-type]


async def _coroutine() -> None: ...


def _generator() -> Any:
    yield


async def _async_generator() -> Any:
    yield


@pytest.mark.parametrize("function", [_coroutine, _generator, _async_generator, functools.partial(_coroutine)])
def test_a_session_runs_no_function_whose_code_runs_later(function: Any) -> None:
    mine = dbg.session_create("mine")
    try:
        with pytest.raises(BadArg, match="session has been left"):
            dbg.session(mine, function)
    finally:
        dbg.session_destroy(mine)


def test_no_flags_match_no_process_of_a_group() -> None:
    dbg.tracer("process", (lambda message, state: state, 0))
    for group in ("all", "existing", "new", "processes", "ports", "existing_processes"):
        assert dbg.p(group, []) == ("ok", [("matched", NODE, 0)])
    assert dbg.p(inviso.self(), []) == ("ok", [("matched", NODE, 1)])


def test_a_session_for_a_block() -> None:
    with dbg.session("short"):
        assert dbg.tracer("process", (print, None))[0] == "ok"
        with dbg.session("inner") as inner:
            assert dbg.get_tracer()[0] == "error"
        with pytest.raises(BadArg):
            dbg.session(inner, dbg.tracer)
        assert dbg.get_tracer()[0] == "ok"
    assert dbg.get_tracer()[0] == "error"
    with pytest.raises(ZeroDivisionError):
        dbg.session("raises", lambda: 1 / 0)


def test_a_session_that_is_let_go_ends() -> None:
    session = dbg.session_create("lost")
    dbg.session(session, lambda: dbg.tracer("process", (lambda m, s: s, None)))
    assert any(s.name == "lost" for s in trace.session_info("all") or [])
    del session
    gc.collect()
    assert not any(s.name == "lost" for s in trace.session_info("all") or [])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dbg.tracer("nowhere", 1), "tracer/2, type: 'nowhere' is no kind of tracer; pass 'process', 'file'"),
        (lambda: dbg.tracer("process", print), "tracer/2, data: .* is no handler; pass"),
        (lambda: dbg.tracer("process"), "tracer/1, arguments: pass nothing, or a kind and its data"),
        (lambda: dbg.tracer("file", 7), "tracer/2, data: 7 is no file's name; pass a str"),
        (lambda: dbg.tracer("file", "a\0"), "tracer/2, data: .* can't be a file's name; pass a path"),
        (lambda: dbg.wtp(7), "wtp/1, name: 7 is no file's name; pass a str"),
        (lambda: dbg.wtp(None), "wtp/1, name: None is no file's name; pass a str"),
        (lambda: dbg.rtp(7), "rtp/1, name: 7 is no file's name; pass a str"),
        (lambda: dbg.rtp([]), "rtp/1, name: .* is no file's name; pass a str"),
        (lambda: dbg.tracer("module", 7), "tracer/2, data: 7 is no tracer module; pass"),
        (lambda: dbg.tracer("module", (5, 6)), "tracer/2, data: 5 is no tracer module: it has no enabled"),
        (lambda: dbg.tracer(7, "process", (print, 0)), "tracer/3, node: 7 is no node; pass the name"),
        (lambda: dbg.tracer(limit=0), "tracer/0, limit: 0 is no number of messages; pass an int from 1"),
        (lambda: dbg.tracer(rate=(1,)), "tracer/0, rate: .* is no rate; pass messages a second"),
        (lambda: dbg.tracer(rate=True), "tracer/0, rate: True is no rate; pass"),
        (lambda: dbg.tracer(lost=-1), "tracer/0, lost: -1 is no number of messages; pass an int from 0"),
        (lambda: dbg.tracer("module", print, limit=1), "tracer/2, limit: a tracer module counts nothing; leave it out"),
        (lambda: dbg.tp(7, []), "tp/2, module: 7 names no functions; pass a module's name"),
        (lambda: dbg.tp("m", "f", 1, 2, 3), "tp/5, module: there are 5 arguments; pass"),
        (lambda: dbg.tp(), "tp/0, module: there are 0 arguments; pass"),
        (lambda: dbg.tp("_", "f", []), "tp/3, module: .* has a function but any module; name the module too"),
        (lambda: dbg.tp("m", "f", 1.5), "tp/3, match_spec: 1.5 is no match specification; pass a list, a lambda"),
        (lambda: dbg.tp("a:b:c:d", []), "tp/2, module: .* has 4 parts; write module:function:arity"),
        (lambda: dbg.ctp(1, 2, 3, 4), "ctp/4, module: there are 4 arguments; pass"),
        (lambda: dbg.h("nothing"), "h/1, item: there is no help for 'nothing'; dbg.h.. prints what there is"),
        (lambda: dbg.h([]), "h/1, item: there is no help for .*; dbg.h.. prints what there is"),
        (lambda: dbg.session("new", 5), "session/2, function: 5 can't be called; pass a function without arguments"),
        (lambda: dbg.trace_port_control("jump"), "operation: 'jump' is no operation; pass 'flush'"),
    ],
)
def test_what_is_wrong_is_refused_by_name(call: Any, text: str) -> None:
    with pytest.raises(BadArg, match=text):
        call()
    assert dbg.get_tracer()[0] == "error"


def test_help_names_every_function(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.h()
    text = capsys.readouterr().out
    others = {"LINE", "LOST", "Session", "dhandler", "fun2ms", "h", "stop_trace_client", "trace_port_control"}
    for name in set(dbg.__all__) - others:
        assert re.search(rf"\b{name}\b", text), name
    for name in dbg._help.ITEMS:
        dbg.h(name)
        assert capsys.readouterr().out.startswith(name + "("), name


ONE, TWO = "<0.10.0>", "<0.93.0>"
MESSAGES = [
    ("trace", ONE, "receive", 7),
    ("trace", ONE, "receive", "@timeout"),
    ("trace", ONE, "send", 7, TWO),
    ("trace", ONE, "send", [1], "@name"),
    ("trace", ONE, "send_to_non_existing_process", 7, TWO),
    ("trace", ONE, "call", ("@m", "@f", [1, [2], 3.5])),
    ("trace", ONE, "call", ("@m", "@f", [])),
    ("trace", ONE, "call", ("@m", "@f", 2)),
    ("trace", ONE, "call", ("@m", "@f", 2), 17),
    ("trace", ONE, "return_from", ("@m", "@f", 2), [7]),
    ("trace", ONE, "return_to", ("@m", "@f", 2)),
    ("trace", ONE, "spawn", TWO, ("@m", "@f", [1])),
    ("trace", TWO, "exit", "@normal"),
    ("trace", ONE, "register", "@name"),
    ("trace", ONE, "link", TWO),
    ("trace", ONE, "getting_unlinked", TWO),
    ("trace_ts", ONE, "call", ("@m", "@f", [1]), 123456),
    ("trace_ts", ONE, "call", ("@m", "@f", [1]), 17, 123456),
    ("trace_ts", ONE, "receive", 7, 123456),
    ("trace_ts", ONE, "send", 7, TWO, 123456),
    ("trace_ts", ONE, "return_from", ("@m", "@f", 2), 7, 123456),
    ("trace_ts", ONE, "exit", "@normal", 123456),
    ("drop", 17),
    ("seq_trace", 17, ("send", 1, ONE, TWO, 5)),
    ("seq_trace", 17, ("receive", 1, ONE, TWO, 5)),
    ("seq_trace", 17, ("print", 1, ONE, [], 5)),
    ("seq_trace", 17, ("print", 1, ONE, [], 5), 123456),
    ("something", "else"),
]


class FakePid:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def ours(term: Any) -> Any:
    match term:
        case tuple():
            return tuple(map(ours, term))
        case list():
            return [*map(ours, term)]
        case str() if term.startswith("<"):
            return FakePid(term)
        case str():
            return inviso.Atom(term.lstrip("@"))
    return term


def theirs(term: Any) -> str:
    match term:
        case tuple():
            return "{" + ",".join(map(theirs, term)) + "}"
        case list():
            return "[" + ",".join(map(theirs, term)) + "]"
        case str() if term.startswith("<"):
            return f'(list_to_pid("{term}"))'
        case str():
            return f"'{term.lstrip('@')}'"
    return repr(term)


@needs_otp
def test_lines_are_otps() -> None:
    each = 'fun(M) -> dbg:dhandler(M, user), io:format(user, "--~n", []) end'
    code = f"lists:foreach({each}, {theirs(MESSAGES)}), halt()."
    printed = erl(code).split("--\n")
    assert len(printed) == len(MESSAGES) + 1
    for message, text in zip(MESSAGES, printed, strict=False):
        line = _lines.line(ours(message))
        assert ("" if line is None else line + "\n") == text, message


LOADS = mfa(json.loads)[2]
"""Parameters of ``json.loads``; 3.15 has one more."""
RETURN = [("_", [], [("return_trace",)])]
ANSWERS = [
    ("dbg:tp(lists, seq, 2, [])", lambda: dbg.tp("json", "loads", LOADS, [])),
    ("dbg:tp(lists, seq, 2, x)", lambda: dbg.tp("json", "loads", LOADS, "x")),
    ("dbg:p(all, c)", lambda: dbg.p("all", "c")),
    ("dbg:p(self(), c)", lambda: dbg.p(inviso.self(), "c")),
    ("dbg:get_tracer()", lambda: dbg.get_tracer()),
    ("element(1, dbg:tracer())", lambda: dbg.tracer("process", (print, 0))[0]),
    ("dbg:tracer()", lambda: dbg.tracer()),
    ("dbg:p(self(), c)", lambda: dbg.p(inviso.self(), "c")),
    ("dbg:p(self(), clear)", lambda: dbg.p(inviso.self(), "clear")),
    ("dbg:p(self(), [c, nosuch, m])", lambda: dbg.p(inviso.self(), ["c", "nosuch", "m"])),
    ("dbg:p(self(), [clear, c])", lambda: dbg.p(inviso.self(), ["clear", "c"])),
    ("dbg:p(nosuch, c)", lambda: dbg.p("nosuch", "c")),
    ("dbg:p(new, c)", lambda: dbg.p("new", "c")),
    ("dbg:p(1.5, c)", lambda: dbg.p(1.5, "c")),
    ("dbg:p({0, 9999, 0}, c)", lambda: dbg.p((0, 9999, 0), "c")),
    ("dbg:p(9999, c)", lambda: dbg.p(9999, "c")),
    ('dbg:p("<0.9999.1>", c)', lambda: dbg.p("<0.9999.1>", "c")),
    ("dbg:tp(lists, seq, 2, [])", lambda: dbg.tp("json", "loads", LOADS, [])),
    ("dbg:tp({lists, seq, 2}, cx)", lambda: dbg.tp(("json", "loads", LOADS), "cx")),
    ("dbg:tpl(lists, seq, 2, caller_trace)", lambda: dbg.tpl("json", "loads", LOADS, "caller_trace")),
    ("dbg:tpl(lists, seq, 2, [{'_', [], [{return_trace}]}])", lambda: dbg.tpl("json", "loads", LOADS, RETURN)),
    ("dbg:tp(lists, seq, 2, [{'_', [], [{return_trace}]}])", lambda: dbg.tp("json", "loads", LOADS, list(RETURN))),
    ("dbg:tp(lists, seq, 2, 1)", lambda: dbg.tp("json", "loads", LOADS, 1)),
    ("dbg:tp(lists, seq, 2, 7)", lambda: dbg.tp("json", "loads", LOADS, 7)),
    ("dbg:tp(lists, seq, 2, foo)", lambda: dbg.tp("json", "loads", LOADS, "foo")),
    ("dbg:tp(lists, seq, 99, [])", lambda: dbg.tp("json", "loads", 99, [])),
    ("dbg:tp(nosuch, seq, [])", lambda: dbg.tp("nosuch", "seq", [])),
    ("dbg:tpe(send, [{['_', {a, '_'}], [], []}])", lambda: dbg.tpe("send", [(["_", ("a", "_")], [], [])])),
    ("dbg:ctpe(send)", lambda: dbg.ctpe("send")),
    ("dbg:ctp(lists, seq, 2)", lambda: dbg.ctp("json", "loads", LOADS)),
    ("dbg:ctpl(lists, seq, 2)", lambda: dbg.ctpl("json", "loads", LOADS)),
    ("dbg:ctpg({lists, seq, 2})", lambda: dbg.ctpg(("json", "loads", LOADS))),
    ("dbg:ctp(nosuch)", lambda: dbg.ctp("nosuch")),
    ("dbg:dtp(1)", lambda: dbg.dtp(1)),
    ("dbg:tp(lists, seq, 2, 1)", lambda: dbg.tp("json", "loads", LOADS, 1)),
    ('dbg:wtp("/no/where")', lambda: dbg.wtp("/no/where")),
    ('dbg:rtp("/no/where")', lambda: dbg.rtp("/no/where")),
    ("dbg:flush_trace_port()", lambda: dbg.flush_trace_port()),
    ("dbg:n(node())", lambda: dbg.n(NODE)),
    ("dbg:cn('a@b')", lambda: dbg.cn("a@b")),
    ("dbg:stop()", lambda: dbg.stop()),
    ("dbg:stop()", lambda: dbg.stop()),
]


def erlangs(term: Any) -> str:
    match term:
        case None:
            return "ok"
        case tuple():
            return "{" + ",".join(map(erlangs, term)) + "}"
        case list():
            return "[" + ",".join(map(erlangs, term)) + "]"
        case str():
            return term
    return repr(term)


@needs_otp
def test_answers_are_otps() -> None:
    assert NODE == "nonode@nohost"
    asked = ", ".join(f'io:format("~0p~n", [catch {call}])' for call, _ in ANSWERS)
    printed = erl(f"{asked}, halt().").splitlines()
    assert [(call, erlangs(answer())) for call, answer in ANSWERS] == [
        (call, text) for (call, _), text in zip(ANSWERS, printed, strict=True)
    ]


def test_a_line_is_bounded_and_moves_no_cursor() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    me = inviso.self()
    long = _lines.line(("trace", me, "call", ("m", "f", ["x" * 5000])))
    assert long is not None and len(long) == _lines.LINE and long.endswith("x…")
    painted = _lines.line(("trace", me, "call", ("m", "f", ["x" * 5000])), lambda kind, text: f"<{kind}:{text}>")
    assert painted is not None and painted.endswith("x…>")
    odd = _lines.line(("trace", me, "call", ("m\n", "f\x1b[2J\u202e", [Bad(), "\ud800", 10**5000])))
    assert odd is not None and odd.isprintable() and "<Bad>" in odd and "<int>" in odd and "\\x1b[2J\\u202e" in odd
    assert _lines.line(("trace",)) is _lines.line(7) is _lines.line("end_of_trace") is None


def test_what_dbg_does_itself_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    dbg.tracer("process", (lambda message, state: state, None))
    for name in ("self", "node", "whereis"):
        monkeypatch.delitem(vars(inviso), name, raising=False)  # as before their first use
    with trace.session_create("everything") as session:
        session.function(("_", "_", "_"), True, ["local"])
        me = inviso.self()
        session.process(me, True, ["call"])
        assert dbg.get_tracer()[0] == dbg.p(me, "c")[0] == "ok"
        assert dbg.p("<0.999999.0>", "c")[0] == "ok"
        assert dbg.tpe("send", [])[0] == dbg.ctp("json", "loads")[0] == "ok"
        assert inviso.whereis("nobody") is None and inviso.node() == NODE
        session.process(me, False, ["call"])
        assert [message[3] for message in session.drain()] == []


def test_stop_leaves_nothing() -> None:
    threads = threading.active_count()
    dbg.tracer()
    dbg.p("all", "m")
    dbg.tpl(HERE, [])
    dbg.stop()
    assert threading.active_count() == threads
    assert trace.session_info(inviso.self()) == []
    leaf(1)


def test_a_script_that_does_not_stop_has_all_its_lines() -> None:
    out = good("""
import inviso
from inviso import dbg
def f(x): pass
dbg.tracer(); dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
for i in range(1000): f(i)
""")
    assert [int(n) for n in re.findall(r"call __main__:f\((\d+)\)\n", out)] == [*range(1000)]


def test_an_error_of_repr_is_not_blamed_on_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("not to be shown")

    bad: Any = Bad()
    calls: list[Callable[[], Any]] = [
        lambda: dbg.tp(bad, []),
        lambda: dbg.tp("json", bad),
        lambda: dbg.tp("json", "loads", bad, []),
        lambda: dbg.tracer("process", bad),
        lambda: dbg.tracer(limit=bad),
        lambda: dbg.tpe(bad, []),
        lambda: dbg.c("json", bad, []),
        lambda: dbg.session(bad),
        lambda: dbg.h(bad),
        lambda: dbg.trace_client("file", bad),
        lambda: dbg.stop_trace_client(bad),
    ]
    for call in calls:
        with pytest.raises(BadArg, match="Bad object at"):
            call()
    with pytest.raises(BadArg) as wrong:
        dbg.tp(list(range(100_000)), [])
    assert len(str(wrong.value)) < 1000


def test_a_wrong_specification_is_told_of_the_function_that_it_was_given_to() -> None:
    dbg.tracer("process", (lambda message, state: None, 0))
    for spec in ([(["$1"], [("==", "$1", 1j)], [])], [lambda x: x > 1], len):
        with pytest.raises(BadArg, match="^tp/3, match_spec: .*pass|^tp/3, match_spec: .*compare"):
            dbg.tp("json", "loads", spec)


def test_saved_specifications_are_printed_as_terms(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer("process", (lambda message, state: None, 0))
    for value in (10**5000, "a", inviso.Atom("a"), inviso.self()):
        dbg.tp("nomod", "f", [("_", [("==", 1, value)], [])])
    dbg.ltp()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1: [('_', [('==', 1, 0x")
    assert lines[1:3] == ["2: [('_', [('==', 1, 'a')], [])]", "3: [('_', [('==', 1, Atom('a'))], [])]"]
    assert lines[3].startswith("4: [('_', [('==', 1, <0.") and len(lines) == 10


def test_names_are_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="a\n\x1b[31mred")
    thread.start()
    pid = inviso.pid(thread)
    try:
        dbg.tracer("process", (lambda message, state: None, 0))
        dbg.p(pid, "c")
        dbg.i()
    finally:
        over.set()
        thread.join()
    assert capsys.readouterr().out.splitlines()[-1].split() == [repr(pid), r"a\n\x1b[31mred", "c"]
