"""Tracer modules in C: loaded by path, asked and told, upgraded and unloaded; refused where they don't fit."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import dbg, seq_trace, trace
from inviso.terms import Atom
from inviso.tracer import NativeTracer, load
from trace_tools import SUBJECTS, local, mfa, own

CC = shutil.which("cc")
pytestmark = pytest.mark.skipif(CC is None or sys.platform == "win32", reason="no C compiler")
EXAMPLES = SUBJECTS / "tracers"

Build = Callable[..., pathlib.Path]


def given(value: Any) -> Any:
    return value


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("tracers")
    known: dict[Any, pathlib.Path] = {}

    def build(name: str, *defines: str, source: str | None = None, to: pathlib.Path | None = None) -> pathlib.Path:
        key = (name, defines, source)
        if key not in known or to:
            file = EXAMPLES / f"{name}.c"
            if source is not None:
                file = folder / f"{name}{len(known)}.c"
                file.write_text(source)
            out = to or folder / f"{name}{len(known)}.so"
            flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", inviso.include_dir()]
            assert CC
            subprocess.run([CC, *flags, *(f"-D{define}" for define in defines), "-o", out, file], check=True)
            known[key] = out
        return known[key]

    return build


@pytest.fixture(autouse=True)
def _empty_mailbox() -> Any:
    yield
    while inviso.peek():
        inviso.receive()


def told(count: int) -> list[Any]:
    return [inviso.receive(timeout=5) for _ in range(count)]


def test_the_example_tells_who_sends_to_whom(build: Build) -> None:
    tracer = load(build("senders"))
    assert tracer.name == "senders" and "senders" in repr(tracer)
    me = inviso.self()
    ready = threading.Event()

    def works() -> None:
        inviso.receive()
        inviso.send(me, "the answer")
        ready.set()
        inviso.receive()

    worker = inviso.spawn(works)
    with trace.session_create("light", (tracer, {Atom("to"): me})) as session:
        session.process(worker, True, ["send", "receive"])
        session.process(me, True, ["send"])
        assert session.info(worker, "flags") == ("flags", ["send", "receive"])
        inviso.send(worker, "the question")  # of the told one itself nothing is told
        assert ready.wait(10)
        assert told(2) == [("trace", worker, me), "the answer"]
        assert session.info("session", "tracer_errors") == ("tracer_errors", 0)
    inviso.send(worker, "end")
    assert inviso.peek() == []
    assert tracer.unload()


def test_when_the_told_one_is_dead_no_flags_are_left(build: Build) -> None:
    tracer = load(build("senders"))
    gone = inviso.spawn(int)
    while gone.is_alive():
        pass
    with trace.session_create("light", (tracer, {Atom("to"): gone})) as session:
        assert session.process(inviso.self(), True, ["send"]) == 1
        assert session.info(inviso.self(), "flags") == ("flags", [])
    tracer.unload()


@pytest.mark.parametrize("general", [False, True])
def test_every_event_has_its_callback(build: Build, general: bool) -> None:
    tracer = load(build("parrot", *["GENERAL"] * general))
    teller = inviso.self()
    heard = []

    def works() -> inviso.Pid:
        given(5)
        inviso.send(inviso.self(), b"x")
        inviso.register("parrots_friend", inviso.self())
        return inviso.self()

    with trace.session_create("parrot", (tracer, teller)) as session:
        session.function(mfa(given), [(["$1"], [], [("message", "$1"), ("return_trace",)])], ["local"])
        session.process("new", True, ["call", "send", "receive", "procs", "running", "monotonic_timestamp"])
        worker = inviso.spawn(works)
        while worker.is_alive():
            pass
    while inviso.peek():
        heard.append(inviso.receive())
    assert {of for _, _, of, *_ in heard} == {worker}
    homes = {tag: name for name, tag, *_ in heard}
    own_pair = {
        "spawned": "procs", "in": "running_procs", "call": "call", "return_from": "call", "send": "send",
        "receive": "receive", "register": "procs", "unregister": "procs", "exit": "procs",
    }  # fmt: skip
    for tag, pair in own_pair.items():
        assert homes[tag] == ("trace" if general else f"trace_{pair}"), tag
    opts = {tag: opts for _, tag, _, _, opts, _ in heard}
    assert all(told["timestamp"] == "monotonic" for told in opts.values())
    assert opts["call"]["match_spec_result"] == 5 and opts["return_from"]["extra"] == 5
    terms = {tag: term for _, tag, _, term, *_ in heard}
    assert terms["call"] == (mfa(given)[0], mfa(given)[1], [5])
    assert (terms["send"], opts["send"]["extra"]) == (b"x", worker)
    assert [count for *_, count in heard] == list(range(1, len(heard) + 1))
    tracer.unload()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, 1), (-(1 << 63), 1), (1 << 70, 2), (1.5, 3), (Atom("word"), 4), (None, 4), (True, 4), ("täxt", 5), ("", 5),
        (b"\0bytes", 6), ((1, "a", (2.5,)), 7), ((), 7), ([1, [2], b""], 8), ([], 8), ({"key": 3, "more": 4}, 9),
        ({}, 9), ({1, 2}, 13), (object(), 13),
    ],
)  # fmt: skip
def test_terms_are_taken_apart_and_made(build: Build, value: Any, kind: int) -> None:
    tracer = load(build("terms"))
    with trace.session_create("terms", (tracer, inviso.self())) as session:
        local(session, given)
        own(session)
        given(value)
    [(found, copy, odd)] = told(1)
    assert found == kind
    if kind in (2, 13):
        assert copy == "none"
    elif kind == 9:
        assert copy == ({"key": 3} if value else {})
    else:
        assert copy == value and (type(copy) is type(value) or isinstance(value, Atom))
    assert odd == [0, 0, 0, 0, 0, 0]
    tracer.unload()


def test_pids_go_through(build: Build) -> None:
    tracer = load(build("terms"))
    me = inviso.self()
    with trace.session_create("terms", (tracer, me)) as session:
        local(session, given)
        own(session)
        given((me, [me]))
    assert told(1)[0][1] == (me, [me])
    tracer.unload()


def test_sequential_tracing(build: Build) -> None:
    tracer = load(build("parrot"))
    helper = inviso.self()
    assert seq_trace.set_system_tracer((tracer, helper)) is False
    try:
        assert seq_trace.get_system_tracer() == (tracer, helper)
        seq_trace.set_token("label", "order")
        seq_trace.set_token("print", True)
        seq_trace.print(1)
        name, tag, label, info, opts, _ = told(1)[0]
    finally:
        seq_trace.set_token([])
        seq_trace.set_system_tracer(False)
        seq_trace.reset_trace()
    assert (name, tag, label, info[0], info[-1], opts) == ("trace", "seq_trace", "order", "print", 1, {})
    tracer.unload()


def test_an_upgrade_keeps_the_data_and_the_sessions(build: Build, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "parrot.so"
    build("parrot", to=file)
    tracer = load(file, inviso.self())
    with trace.session_create("parrot", (tracer, inviso.self())) as session:
        local(session, given)
        own(session)
        given(1)
        with pytest.raises(inviso.BadArg, match="that is loaded"):
            tracer.upgrade()
        with pytest.raises(inviso.BadArg, match="answered 43"):
            tracer.upgrade(build("parrot", 'VERSION="other"'), Atom("refuse"))
        assert tracer.name == "parrot"
        file.unlink()
        build("parrot", 'VERSION="parrot 2"', "GENERAL", to=file)
        tracer.upgrade()
        assert tracer.name == "parrot 2"
        given(2)
        with pytest.raises(inviso.BadArg, match="no upgrade"):
            tracer.upgrade(build("terms"))
        given(3)
        assert [(name, calls) for name, *_, calls in told(3)] == [("trace_call", 1), ("trace", 2), ("trace", 3)]
    assert tracer.unload() and not tracer.unload()
    assert told(1) == ["unloaded"]
    with pytest.raises(inviso.BadArg, match="unloaded"):
        tracer.upgrade()


def test_an_unloaded_tracer_is_a_dead_one(build: Build) -> None:
    tracer = load(build("parrot"))
    with trace.session_create("parrot", (tracer, inviso.self())) as session:
        local(session, given)
        me = own(session)
        given(1)
        assert tracer.unload()
        given(2)
        assert session.info(me, "flags") == ("flags", [])
        assert tracer.name is None and "unloaded" in repr(tracer)
        with pytest.raises(inviso.BadArg, match="load it anew"):
            trace.session_create("again", (tracer, inviso.self()))
    assert len(told(1)) == 1 and inviso.peek() == []


def test_dbg_has_no_tracer_where_the_library_is_unloaded(build: Build) -> None:
    tracer = load(build("parrot"))
    try:
        assert dbg.tracer("module", (tracer, inviso.self())) == ("ok", (tracer, inviso.self()))
        assert dbg.p(inviso.self(), "c")[0] == "ok" and dbg.tracer() == ("error", "already_started")
        assert tracer.unload()
        assert dbg.get_tracer()[0] == dbg.p(inviso.self(), "c")[0] == "error"
        assert dbg.tracer("process", (lambda message, state: state, 0))[0] == "ok"
    finally:
        dbg.stop()


def test_a_library_stays_while_a_callback_is_inside(build: Build) -> None:
    tracer = load(build("parrot"))
    calls, threads = 500, 4

    def works() -> None:
        for number in range(calls):
            given(number)

    with trace.session_create("parrot", (tracer, inviso.self())) as session:
        local(session, given)
        session.process("new", True, ["call"])
        workers = [threading.Thread(target=works) for _ in range(threads)]
        for worker in workers:
            worker.start()
        inviso.receive(timeout=10)
        assert tracer.unload()
        for worker in workers:
            worker.join()
        assert session.info("session", "tracer_errors") == ("tracer_errors", 0)


def test_an_answer_that_is_none_is_counted(build: Build) -> None:
    tracer = load(build("parrot", "SILENT"))
    with trace.session_create("parrot", (tracer, inviso.self())) as session:
        local(session, given)
        own(session)
        before = session.info("session", "tracer_errors")[1]
        given(1), given(2)
        assert session.info("session", "tracer_errors")[1] == before + 2
    assert inviso.peek() == []
    tracer.unload()


MINIMAL = """
#include <inviso_tracer.h>
inviso_answer ask(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee);
inviso_answer ask(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
{ (void)env, (void)tag, (void)state, (void)tracee; return INVISO_TRACE; }
static const inviso_tracer table = {%s};
INVISO_TRACER(table)
"""
REFUSED = {
    "of another version": (MINIMAL % ".abi = 2, .size = sizeof table", "version 2 of inviso_tracer.h, and this is 1"),
    "of another size": (MINIMAL % ".abi = 1, .size = 24", "sizeof"),
    "without callbacks": (MINIMAL % ".abi = 1, .size = sizeof table", "no enabled and no trace"),
    "with one": (MINIMAL % ".abi = 1, .size = sizeof table, .enabled = ask", "no trace"),
    "without the symbol": ("int nothing;", "INVISO_TRACER(table)"),
    "that needs another one": (
        "#include <stdint.h>\nconst void *inviso_tracer_entry(uint32_t abi);\n"
        "const void *inviso_tracer_entry(uint32_t abi) { (void)abi; return 0; }",
        "version 1",
    ),
    "with a symbol that is missing": (
        "int nowhere(void);\nint inviso_tracer_entry(void);\nint inviso_tracer_entry(void) { return nowhere(); }",
        "nowhere",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(build: Build, what: str) -> None:
    source, why = REFUSED[what]
    with pytest.raises(inviso.BadArg) as refused:
        load(build("refused", source=source))
    assert why in str(refused.value) and "/./" not in str(refused.value)


def test_what_is_no_library_is_refused(build: Build, tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.so"
    image = bytearray(build("senders").read_bytes())
    image[18:20] = b"\xf3\x00" if image[18] != 0xF3 else b"\x3e\x00"  # the machine in the ELF header: another one
    cases = {b"no library": "can't be loaded", b"": "can't be loaded", bytes(image): "this machine"}
    for content, why in cases.items():
        bad.write_bytes(content)
        with pytest.raises(inviso.BadArg) as refused:
            load(bad)
        assert why in str(refused.value)
    for path in (tmp_path / "none.so", tmp_path, 7):
        with pytest.raises(inviso.BadArg, match="path"):
            load(path)  # type: ignore[arg-type]
    with pytest.raises(inviso.BadArg, match="answered 42"):
        load(build("parrot"), Atom("refuse"))
    with pytest.raises(inviso.BadArg, match="info"):
        load(build("parrot"), object())
    with pytest.raises(inviso.BadArg, match="info: it is too large"):
        load(build("parrot"), [1] * 5_000_000)


def test_states_are_terms_and_objects_are_not_handed_over(build: Build) -> None:
    tracer = load(build("parrot"))
    with pytest.raises(inviso.BadArg, match="no term"):
        trace.session_create("bad", (tracer, object()))
    with pytest.raises(inviso.BadArg, match="'ref'"):
        trace.session_create("bad", (tracer, None), {"capture": "ref"})
    assert isinstance(tracer, NativeTracer) and pathlib.Path(tracer.path).name.startswith("parrot")
    tracer.unload()


def test_the_header_is_c_and_cpp(tmp_path: pathlib.Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "t.cc"
    source.write_text(
        "#include <inviso_tracer.h>\n"
        "static inviso_answer ask(inviso_env *, inviso_term, inviso_term, inviso_term) { return INVISO_TRACE; }\n"
        "static void tell(inviso_env *, inviso_term, inviso_term, inviso_term, inviso_term, inviso_term) {}\n"
        "static inviso_tracer made() { inviso_tracer t = {}; t.abi = INVISO_TRACER_ABI; t.size = sizeof t;\n"
        "  t.name = \"cc\"; t.enabled = ask; t.trace = tell; return t; }\n"
        "static const inviso_tracer table = made();\nINVISO_TRACER(table)\n"
    )
    out = tmp_path / "t.so"
    subprocess.run([compiler, "-Wall", "-shared", "-fPIC", "-I", inviso.include_dir(), "-o", out, source], check=True)
    tracer = load(out)
    assert tracer.name == "cc" and tracer.unload()


def test_a_librarys_path_may_be_no_text(build: Build, tmp_path: pathlib.Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.so")
    shutil.copy(build("senders"), path)
    tracer = load(path)
    assert tracer.name == "senders"
    tracer.unload()
