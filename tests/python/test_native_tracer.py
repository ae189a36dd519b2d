"""Tracer modules in C: loaded by path, called, upgraded and unloaded; refused if they don't fit."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import inviso
import pytest
from inviso import dbg, seq_trace, trace
from inviso.terms import Atom, Cut
from inviso.tracer import NativeTracer, _spelled, load
from trace_tools import SUBJECTS, good, local, mfa, own

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
    return [inviso.receive(timeout=30) for _ in range(count)]


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
        inviso.send(worker, "the question")  # it gets no messages about itself
        assert ready.wait(10)
        assert told(2) == [("trace", worker, me), "the answer"]
        assert session.info("session", "tracer_errors") == ("tracer_errors", 0)
    inviso.send(worker, "end")
    assert inviso.peek() == []
    assert tracer.unload()


def test_no_flags_are_left_if_the_receiver_is_dead(build: Build) -> None:
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


def test_an_invalid_answer_is_counted(build: Build) -> None:
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
        '  t.name = "cc"; t.enabled = ask; t.trace = tell; return t; }\n'
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


NUMBERED = """
#include <inviso_tracer.h>
#include <pthread.h>
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static int64_t n;
static inviso_answer enabled(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
{
    (void)env, (void)tag, (void)state, (void)tracee;
    return INVISO_TRACE;
}
static void trace(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term,
                  inviso_term opts)
{
    inviso_term pair[2] = {tag, 0};
    inviso_pid to;
    (void)tracee, (void)term, (void)opts;
    if (!inviso_get_local_pid(env, state, &to))
        return;
    pthread_mutex_lock(&mine);
    pair[1] = inviso_make_int(env, ++n);
    if (!inviso_send(env, &to, inviso_make_tuple(env, pair, 2)))
        n--;
    pthread_mutex_unlock(&mine);
}
static const inviso_tracer table = {
    .abi = INVISO_TRACER_ABI, .size = sizeof table, .name = "numbered", .enabled = enabled, .trace = trace};
INVISO_TRACER(table)
"""


def test_a_callback_may_hold_a_lock_while_it_sends(build: Build) -> None:
    tracer, calls, threads = load(build("numbered", source=NUMBERED)), 5000, 4

    def works() -> None:
        for number in range(calls):
            given(number)

    with (
        trace.session_create("numbered", (tracer, inviso.self())) as session,
        trace.session_create("beside", inviso.self()) as beside,
    ):
        for each in (session, beside):
            local(each, given)
            each.process("new", True, ["call"])
        workers = [threading.Thread(target=works) for _ in range(threads)]
        for worker in workers:
            worker.start()
        came = [m[1] for m in (inviso.receive(timeout=30) for _ in range(2 * calls * threads)) if m[0] == "call"]
        for worker in workers:
            worker.join()
    assert came == list(range(1, calls * threads + 1))
    assert tracer.unload()


def test_what_is_sent_stands_where_it_was_sent(build: Build) -> None:
    tracer = load(build("numbered", "AGAIN", source=NUMBERED))
    me = inviso.self()

    def works() -> None:
        for number in range(100):
            given(number)
            inviso.send(me, number)
            given(number)

    with trace.session_create("beside", me) as beside, trace.session_create("numbered", (tracer, me)) as session:
        for each in (session, beside):
            local(each, given)
            each.process("new", True, ["call"])
        worker = threading.Thread(target=works)
        worker.start()
        worker.join()
        came = told(500)
    for n in range(100):
        own_messages = came[5 * n : 5 * n + 5]
        assert own_messages[2] == n
        assert {own_messages[0][0], own_messages[1][0]} == {own_messages[3][0], own_messages[4][0]} == {"trace", "call"}
    assert tracer.unload()


def test_who_awaits_a_message_is_woken(build: Build) -> None:
    tracer = load(build("numbered", "AWAITED", source=NUMBERED))

    async def main() -> Any:
        with trace.session_create("numbered", (tracer, inviso.self())) as session:
            local(session, given)
            session.process("new", True, ["call"])
            worker = threading.Timer(0.1, given, (1,))
            worker.start()
            try:
                return await inviso.areceive(timeout=30)
            finally:
                worker.join()

    begun = time.monotonic()
    assert asyncio.run(main())[0] == "call" and time.monotonic() - begun < 25
    assert tracer.unload()


def test_what_nests_too_deep_is_cut(build: Build) -> None:
    source = NUMBERED.replace(
        "pair[1] = inviso_make_int(env, ++n);",
        "pair[1] = tag; for (int i = 0; i < 10000; i++) pair[1] = inviso_make_tuple(env, pair + 1, 1);",
    )
    tracer = load(build("deep", source=source))
    with trace.session_create("deep", (tracer, inviso.self())) as session:
        local(session, given)
        own(session)
        given(1)
        ((tag, nest),) = told(1)
        while isinstance(nest, tuple):
            (nest,) = nest
        assert (tag, nest) == ("call", Cut("depth"))
    assert tracer.unload()


ALARMS = """
import signal, sys, inviso
from inviso import trace, tracer
tags, raised, caught, armed = tracer.load(sys.argv[1]), 0, 0, True
class Alarm(Exception): pass
def handler(number, frame):
    global raised, armed
    if armed:
        armed, raised = False, raised + 1
        raise Alarm
def f(): pass
def spin():
    while armed: f()
    for _ in range(10_000): pass
signal.signal(signal.SIGALRM, handler)
with trace.session_create("s", (tags, inviso.self())) as session:
    session.function((__name__, "f", 0), True, ["local"])
    session.process(inviso.self(), True, ["call"])
    for _ in range(200):
        armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            spin()
        except Alarm:
            caught += 1
print(raised, caught, [m[1] for m in inviso.peek()] == list(range(1, len(inviso.peek()) + 1)))
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_what_a_handler_of_a_signal_raises_while_it_sends_is_the_programs(build: Build) -> None:
    library = build("numbered", "ALARMS", source=NUMBERED)
    ran = subprocess.run([sys.executable, "-c", ALARMS, library], capture_output=True, text=True, timeout=120)
    assert (ran.stdout.split(), ran.stderr) == (["200", "200", "True"], "")


LOOSE = """
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern unsigned int sleep(unsigned int);
"""
FORKED = """
import os, sys, threading, warnings, inviso
from inviso import trace, tracer
from waiting import until_blocked
warnings.simplefilter("ignore", DeprecationWarning)
library, what, build = tracer.load(sys.argv[1]), sys.argv[2], sys.argv[3]
def f(): pass
with trace.session_create("s", (library, inviso.self())) as session:
    session.function((__name__, "f", 0), True, ["local"])
    session.process("new", True, ["call"])
    thread = threading.Thread(target=f)
    thread.start()
    until_blocked(thread)  # inside the callback
    child = os.fork()
    if child == 0:
        library.upgrade(build) if what == "upgrade" else library.unload()
        os._exit(7)
    _, status = os.waitpid(child, 0)
    thread.join()
print(os.waitstatus_to_exitcode(status), library.unload())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.parametrize("what", ["unload", "upgrade"])
def test_who_was_inside_at_a_fork_is_not_waited_for_in_the_child(build: Build, what: str) -> None:
    """The callback lets other threads run, as one that calls Python's own functions might."""
    slow = "void *all = PyEval_SaveThread(); sleep(2); PyEval_RestoreThread(all); " + "pthread_mutex_lock(&mine);"
    upgrade = """static int upgrade(inviso_env *env, void **data, void **old, inviso_term info)
    { (void)env, (void)data, (void)old, (void)info; return 0; }
    static const inviso_tracer table = {.upgrade = upgrade,"""
    source = LOOSE + NUMBERED.replace("pthread_mutex_lock(&mine);", slow)
    source = source.replace("static const inviso_tracer table = {", upgrade)
    one, other = build("slow", source=source), build("slow", "OTHER", source=source)
    assert good(FORKED, one, what, other).split() == ["7", "True"]


def test_each_load_spells_the_path_in_its_own_way(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "some.so"
    file.touch()
    paths = {_spelled(str(file), number) for number in range(5000)}
    assert len(paths) == 5000 and all(os.path.samefile(path, file) for path in list(paths)[:50])
    assert max(map(len, paths)) < len(str(file)) + 30
