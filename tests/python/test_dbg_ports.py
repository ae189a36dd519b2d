"""dbg over trace ports, trace clients and tracer modules."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import inviso
import pytest
from dbg_tools import HERE, leaf
from inviso import BadArg, dbg, trace
from otp import erl, needs_otp
from waiting import until

pytestmark = pytest.mark.usefixtures("dbg_over")


def begin(generator: Any) -> Any:
    kind, port = dbg.tracer("port", generator)
    assert kind == "ok" and dbg.get_tracer() == ("ok", port)
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", "x")
    return port


LINES = [f"({{}}) call {HERE}:leaf(1)", f"({{}}) returned from {HERE}:leaf/1 -> 1"]


def test_a_file_and_its_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "log")
    port = begin(dbg.trace_port("file", path))
    leaf(1)
    assert dbg.flush_trace_port() is None and Path(path).stat().st_size > 50
    assert dbg.trace_port_control("get_listen_port") == ("error", "not_supported_by_trace_driver")
    dbg.stop()
    assert not port.is_open() and dbg.flush_trace_port() == ("error", "no_trace_driver")
    client = dbg.trace_client("file", path)
    until(lambda: not client.is_alive())
    assert capsys.readouterr().out.splitlines() == [line.format(inviso.self()) for line in LINES]
    with open(path, "ab") as file:
        file.write(b"\0\0\0\0")
    client = dbg.trace_client("file", path)
    until(lambda: not client.is_alive())
    assert capsys.readouterr().out.splitlines()[2].startswith("*** ")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("again", ["tracer", "stop"])
@pytest.mark.parametrize("how", ["port", "process"])
def test_a_tracer_that_is_gone_counts_as_no_tracer(how: str, again: str, tmp_path: Path) -> None:
    sessions = trace.session_info("all")
    if how == "port":
        begin(dbg.trace_port("file", tmp_path / "log")).close()
    else:
        pid = dbg.tracer("process", (lambda message, state: state, None))[1]
        inviso.exit(pid, "kill")
        until(lambda: not pid.is_alive())
    gone = ("error", ("no_tracer_on_node", inviso.node()))
    assert (dbg.get_tracer(), dbg.p(inviso.self(), "c"), dbg.tpl(HERE, "leaf", [])) == (gone, gone, ("ok", []))
    assert dbg.flush_trace_port() == ("error", "no_trace_driver")
    if again == "tracer":
        port = begin(dbg.trace_port("file", tmp_path / "next"))
        leaf(1)
        assert len(trace.session_info("all") or []) == len(sessions or []) + 1
        dbg.stop()
        assert port.written == 2
    else:
        dbg.stop()
    assert trace.session_info("all") == sessions and dbg.get_tracer() == gone


@needs_otp
def test_erlang_reads_the_same_lines(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    begin(dbg.trace_port("file", path))
    leaf(1)
    dbg.stop()
    code = '[Name] = init:get_plain_arguments(), register(p, dbg:trace_client(file, Name)), M = monitor(process, p), ' \
        "receive {'DOWN', M, _, _, _} -> timer:sleep(100) end, halt()."  # fmt: skip
    assert [line.partition(" ")[2] for line in erl(code, path).splitlines()] == [
        line.partition(" ")[2] for line in LINES
    ]


def test_a_socket_and_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    begin(dbg.trace_port("ip", 0))
    kind, number = dbg.trace_port_control("get_listen_port")
    assert kind == "ok" and dbg.flush_trace_port() == ("error", "not_supported_by_trace_driver")
    seen: list[Any] = []
    client = dbg.trace_client("ip", ("localhost", number), (lambda message, state: seen.append(message), None))
    leaf(1)
    until(lambda: len(seen) == 2)
    assert [message[2] for message in seen] == ["call", "return_from"]
    assert dbg.stop_trace_client(client) is None and not client.is_alive()
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    other = dbg.trace_client("ip", number)
    leaf(1)
    until(lambda: out.getvalue().count("\n") == 2)
    dbg.stop()
    assert not other.is_alive()


def test_what_is_no_port(tmp_path: Path) -> None:
    assert dbg.tracer("port", dbg.trace_port("file", str(tmp_path / "no" / "where"))) == ("error", "enoent")
    for wrong in (7, lambda: None, lambda: 7):
        with pytest.raises(BadArg, match=r"is no trace port; pass what dbg\.trace_port"):
            dbg.tracer("port", wrong)
    assert dbg.get_tracer()[0] == "error"


@pytest.mark.parametrize("how", ["pair", "function"])
def test_a_tracer_module(how: str) -> None:
    class Names:
        def enabled(self, tag: str, state: Any, tracee: Any) -> str:
            return "trace"

        def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
            state.append((tag, tracee, term))

    seen: list[Any] = []
    pair = (Names(), seen)
    assert dbg.tracer("module", pair if how == "pair" else lambda: pair) == ("ok", pair)
    assert dbg.get_tracer() == ("ok", pair) and dbg.flush_trace_port() == ("error", "no_trace_driver")
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    leaf(1)
    assert seen == [("call", inviso.self(), (HERE, "leaf", [1]))]
    with pytest.raises(BadArg, match="a tracer module counts nothing"):
        dbg.p("all", "c", limit=3)
    dbg.stop()
    with pytest.raises(BadArg, match="is no tracer module; pass"):
        dbg.tracer("module", lambda: 7)


def test_a_port_with_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "log")
    assert dbg.tracer("port", dbg.trace_port("file", path), limit=3)[0] == "ok"
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    for n in range(10):
        leaf(n)
    until(lambda: dbg.flush_trace_port() == ("error", "no_trace_driver"))
    assert dbg.get_tracer()[0] == "error"
    dbg.stop()
    assert capsys.readouterr().out == "*** dbg stopped: the limit of 3 messages was reached.\n"
    client = dbg.trace_client("file", path)
    until(lambda: not client.is_alive())
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_file_of_everything_needs_a_limit(tmp_path: Path) -> None:
    dbg.tracer("port", dbg.trace_port("file", str(tmp_path / "log")))
    dbg.p("all", "c")
    with pytest.raises(BadArg, match=r"say how much of it with limit= or rate="):
        dbg.tp("_", [])
    assert dbg.tp("_", [], limit=3)[0] == "ok"
    dbg.stop()
    dbg.tracer("port", dbg.trace_port("file", (str(tmp_path / "log"), "wrap", ".log")))
    dbg.p("all", "c")
    assert dbg.tp("_", [("_", [("==", 1, 2)], [])])[0] == "ok"
