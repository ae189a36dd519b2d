"""Every wrong argument of every public function is refused by its name, and changes nothing."""

from __future__ import annotations

import asyncio
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import process, tprof, trace


def traced(n: int) -> int:
    return n


MFA = (__name__, "traced", 1)
FOREIGN = inviso._native.process.pid_of_node("other@host", 1, 4)


class Hostile:
    """An object that can't be shown or compared with anything."""

    def __repr__(self) -> str:
        return "<hostile>"

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def dead_pid() -> inviso.Pid:
    """A process that has ended."""
    pid = inviso.spawn(lambda: None)
    while pid.is_alive():
        pass
    return pid


def dead_session() -> trace.Session:
    """A session that has been destroyed."""
    session = trace.session_create("dead")
    session.destroy()
    return session


def state() -> Any:
    """All that a refused call could have changed."""
    me = inviso.self()
    sessions = []
    for each in trace.session_info("all") or []:
        items = [each.info(MFA, "all"), each.info("on_load", "all"), each.info(me, "flags"), each.info("new", "flags")]
        sessions.append((each.id, each.name, items, each.info("session", "dropped")))
    return sessions, inviso.registered(), inviso.node(), inviso.peek(), threading.active_count()


@pytest.fixture(autouse=True)
def there_is_something_to_change() -> Iterator[trace.Session]:
    """A session with a pattern, flags and a name, so that a change would be seen."""
    with trace.session_create("kept") as session:
        session.process(inviso.self(), True, ["call", "timestamp"])
        session.process("new", True, ["arity"])
        session.function(MFA, True, ["call_count", "local"])
        inviso.register("me", inviso.self())
        traced(1)
        session.drain()
        yield session
        inviso.unregister("me")


def refused(argument: str, call: Callable[[], Any]) -> str:
    """The call is refused for the argument and changes nothing. Returns the reason."""
    before = state()
    with pytest.raises(inviso.BadArg) as caught:
        call()
    assert state() == before
    assert caught.value.argument == argument, caught.value
    assert f", {argument}: " in str(caught.value)
    assert len(caught.value.why) > 10
    return str(caught.value)


NO_SESSION = [None, "kept", 1, Hostile(), inviso.self(), trace.Session]
NO_PID = [None, 1, 1.5, b"all", [], (), Hostile(), "nobody", "All"]
NO_MFA = [
    None, 1, "json", "json:loads", b"on_load", Hostile(), [], (), ("json",), ("json", "loads"), ["json", "loads", 8],
    ("json", "loads", 8, 1), (1, "loads", 8), (None, None, None), ("json", 1, 8), ("json", b"loads", 8),
    ("json", "loads", "8"), ("json", "loads", 1.0), ("json", "loads", True), ("json", "loads", None),
    ("json", "loads", Hostile()), (Hostile(), Hostile(), Hostile()), ("_", "loads", 8), ("_", "loads", "_"),
    ("_", "_", 8), ("json", "_", 8), "onload",
]  # fmt: skip
NO_FLAGS = [None, "call", b"call", 1, {"call": True}, Hostile()]
NO_FLAG = [
    "calls", "CALL", "", 1, None, b"call", ["call"], ("call",), Hostile(), "scheduler", ("tracer", 1),
    ("meta", 1),
]  # fmt: skip
NO_KIND = [
    "count", "Local", "", 1, None, b"local", ["local"], Hostile(), ("tracer", inviso.self()), ("meta", 1), "return_to",
]  # fmt: skip
NO_OPTIONS = [
    1, "ring_bytes", [1], [("ring_bytes",)], {"rings": 1}, [("ring_bytes", 1, 2)], {1: 2}, {None: 1}, Hostile(),
    {"ring_bytes": "1"}, {"ring_bytes": -1}, {"ring_bytes": 1.5}, {"ring_bytes": True}, {"ring_bytes": 1 << 50},
    {"ring_bytes": None}, {"block_ms": -1}, {"block_ms": "1"}, {"ended_processes": -1}, {"ended_processes": Hostile()},
    {"overflow": "Drop"}, {"overflow": None}, {"overflow": 1}, {"overflow": Hostile()}, {"overflow": ["drop"]},
    {"capture": "refs"}, {"capture": 1}, {"capture": ["ref"]}, {"capture": [("items", 1)]}, {"capture": {"item": 1}},
    {"capture": {"depth": 65}}, {"capture": {"depth": -1}}, {"capture": {"depth": True}}, {"capture": {"items": "1"}},
    {"capture": {"bytes": 1 << 20}}, {"capture": {"total": 1}}, {"capture": {"total": None}}, {"capture": {1: 1}},
    {"capture": Hostile()}, {"capture": "ref", "repr": True}, {"repr": 1}, {"repr": None}, {"repr": "yes"},
    {"clock": "slow"}, {"clock": None}, {"clock": 1}, {"clock": Hostile()},
]  # fmt: skip
NO_TRACER = [1, "me", b"x", [], {}, Hostile(), (1, 2), ("module", "state"), FOREIGN, True]
NO_SPEC = [
    None,
    1,
    "on",
    "Pause",
    b"pause",
    {},
    (),
    [1],
    Hostile(),
    1.0,
    [([], [("<", "$1", 2)], [])],
    [("_", [], [("nosuch",)])],
    [("_", [], [object()])],
]


@pytest.mark.parametrize("name", [0, 1, b"name", ["name"], Hostile()])
def test_names_of_sessions(name: Any) -> None:
    refused("name", lambda: trace.session_create(name))


@pytest.mark.parametrize("tracer", NO_TRACER)
def test_tracers(tracer: Any) -> None:
    refused("tracer", lambda: trace.session_create("x", tracer))


@pytest.mark.parametrize("options", NO_OPTIONS)
@pytest.mark.parametrize("tracer", [None, print])
def test_options(options: Any, tracer: Any) -> None:
    why = refused("opts", lambda: trace.session_create("x", tracer, options))
    if isinstance(options, dict) and isinstance(key := next(iter(options)), str):
        assert key in why


@pytest.mark.parametrize("session", [*NO_SESSION, "dead"])
@pytest.mark.parametrize(
    "call",
    [
        lambda s: trace.process(s, inviso.self(), True, ["call"]),
        lambda s: trace.function(s, MFA, True, ["local"]),
        lambda s: trace.function(s, "on_load", True, ["local"]),
        lambda s: trace.info(s, MFA, "traced"),
        lambda s: trace.info(s, inviso.self(), "flags"),
        lambda s: trace.info(s, "session", "dropped"),
        lambda s: trace.delivered(s),
    ],
)
def test_handles(session: Any, call: Any) -> None:
    session = dead_session() if isinstance(session, str) and session == "dead" else session
    refused("session", lambda: call(session))


@pytest.mark.parametrize("session", NO_SESSION)
def test_handles_to_destroy(session: Any) -> None:
    refused("session", lambda: trace.session_destroy(session))
    assert trace.session_destroy(dead_session()) is False


@pytest.mark.parametrize("call", [lambda s: s.receive(0), lambda s: s.drain(), lambda s: next(iter(s))])
def test_messages_that_go_to_a_tracer(call: Any) -> None:
    with trace.session_create("told", inviso.self()) as session:
        refused("session", lambda: call(session))


@pytest.mark.parametrize("timeout", ["1", b"", [], Hostile(), float("nan"), True])
def test_times_to_wait(timeout: Any, there_is_something_to_change: trace.Session) -> None:
    session = there_is_something_to_change
    refused("timeout", lambda: session.receive(timeout))
    refused("timeout", lambda: inviso.receive(timeout=timeout))
    refused("timeout", lambda: trace.Delivered().wait(timeout))
    refused("timeout", lambda: asyncio.run(inviso.areceive(timeout=timeout)))


@pytest.mark.parametrize("what", [*NO_MFA, 2.5])
def test_what_sessions_affect(what: Any) -> None:
    refused("what", lambda: trace.session_info(what))


def test_what_to_ask_about_is_named() -> None:
    with pytest.raises(inviso.BadArg, match=r"'existing' is nothing to ask about; pass a Pid, a Port, an MFA, 'all'"):
        trace.session_info("existing")


@pytest.mark.parametrize("what", [("json", "loads", "_"), ("json", "_", "_"), ("_", "_", "_"), FOREIGN])
def test_what_sessions_affect_has_no_wildcards(what: Any) -> None:
    refused("what", lambda: trace.session_info(what))


@pytest.mark.parametrize("procs", [*NO_PID, "FOREIGN", "dead"])
@pytest.mark.parametrize("how", [True, False])
def test_processes(procs: Any, how: bool, there_is_something_to_change: trace.Session) -> None:
    procs = {"FOREIGN": FOREIGN, "dead": dead_pid()}.get(procs, procs) if isinstance(procs, str) else procs
    refused("procs", lambda: there_is_something_to_change.process(procs, how, ["call"]))


@pytest.mark.parametrize("how", [None, 1, 0, "true", "on", [], Hostile()])
def test_switches(how: Any, there_is_something_to_change: trace.Session) -> None:
    refused("how", lambda: there_is_something_to_change.process("all", how, ["call"]))


@pytest.mark.parametrize("flags", NO_FLAGS)
def test_lists_of_flags(flags: Any, there_is_something_to_change: trace.Session) -> None:
    refused("flags", lambda: there_is_something_to_change.process("all", True, flags))
    refused("flags", lambda: there_is_something_to_change.function(MFA, True, flags))


@pytest.mark.parametrize("flag", NO_FLAG)
@pytest.mark.parametrize("how", [True, False])
def test_flags_of_processes(flag: Any, how: bool, there_is_something_to_change: trace.Session) -> None:
    for procs in ("all", "existing", "new", inviso.self()):
        refused("flags", lambda procs=procs: there_is_something_to_change.process(procs, how, ["return_to", flag]))


@pytest.mark.parametrize("procs", ["existing", "new", "self", "processes", "new_processes"])
@pytest.mark.parametrize("how", [True, False])
def test_cpu_timestamp_is_for_all(procs: str, how: bool, there_is_something_to_change: trace.Session) -> None:
    who = inviso.self() if procs == "self" else procs
    why = refused("procs", lambda: there_is_something_to_change.process(who, how, ["call", "cpu_timestamp"]))
    assert "cpu_timestamp" in why


@pytest.mark.parametrize("mfa", [*NO_MFA, "new", FOREIGN, inviso.self()])
@pytest.mark.parametrize("spec", [True, False, "pause"])
def test_patterns(mfa: Any, spec: Any, there_is_something_to_change: trace.Session) -> None:
    refused("mfa", lambda: there_is_something_to_change.function(mfa, spec, ["call_count"]))


@pytest.mark.parametrize("spec", NO_SPEC)
def test_match_specifications(spec: Any, there_is_something_to_change: trace.Session) -> None:
    for mfa in (MFA, "on_load", ("_", "_", "_")):
        refused("match_spec", lambda mfa=mfa: there_is_something_to_change.function(mfa, spec, ["local"]))


@pytest.mark.parametrize("kind", NO_KIND)
def test_kinds_of_patterns(kind: Any, there_is_something_to_change: trace.Session) -> None:
    for mfa in (MFA, "on_load", ("_", "_", "_")):
        refused("flags", lambda mfa=mfa: there_is_something_to_change.function(mfa, True, ["local", kind]))


@pytest.mark.parametrize("other", ["local", "meta", "call_count", "call_time", "call_memory", "call_latency"])
@pytest.mark.parametrize("spec", [True, False, "pause", "restart"])
def test_global_stands_alone(other: str, spec: Any, there_is_something_to_change: trace.Session) -> None:
    for flags in (["global", other], [other, "global"]):
        why = refused("flags", lambda flags=flags: there_is_something_to_change.function(MFA, spec, flags))
        assert other in why


@pytest.mark.parametrize("what", [*NO_MFA, "threads", ("json", "loads", "_"), FOREIGN])
def test_things_to_ask_about(what: Any, there_is_something_to_change: trace.Session) -> None:
    # for a tuple that is no function the item is blamed, as in OTP
    other = not isinstance(what, tuple)
    refused("what" if other else "item", lambda: there_is_something_to_change.info(what, "traced"))


@pytest.mark.parametrize("item", [None, 1, "", "call", "Traced", b"traced", ["traced"], Hostile()])
@pytest.mark.parametrize("what", ["me", "new", "new_ports", "session", "on_load", MFA, ("no", "f", 0)])
def test_items(item: Any, what: Any, there_is_something_to_change: trace.Session) -> None:
    what = inviso.self() if what == "me" else what
    refused("item", lambda: there_is_something_to_change.info(what, item))


@pytest.mark.parametrize(
    ("what", "item"), [("me", "traced"), ("me", "all"), ("new", "call_count"), ("session", "flags"), (MFA, "flags")]
)
def test_items_of_other_things(what: Any, item: str, there_is_something_to_change: trace.Session) -> None:
    what = inviso.self() if what == "me" else what
    refused("item", lambda: there_is_something_to_change.info(what, item))


def test_items_of_new_ports_are_items_of_ports(there_is_something_to_change: trace.Session) -> None:
    with pytest.raises(inviso.BadArg, match="unknown item of ports 'all'"):
        there_is_something_to_change.info("new_ports", "all")


@pytest.mark.parametrize("tracee", [None, 1, "new", "existing", MFA, [], Hostile(), FOREIGN, "ALL"])
def test_tracees_that_are_waited_for(tracee: Any, there_is_something_to_change: trace.Session) -> None:
    refused("tracee", lambda: there_is_something_to_change.delivered(tracee))


QUEUE = queue.Queue()  # type: ignore[var-annotated]
NO_PID_OR_OBJECT = [None, 1, "x", [], Hostile(), threading.Thread(), FOREIGN, QUEUE, inviso.pid(QUEUE)]
NO_LOCAL_PID = [None, 1, "x", [], Hostile(), threading.Thread(), FOREIGN, QUEUE, inviso.pid(QUEUE)]


@pytest.mark.parametrize(
    ("argument", "call", "values"),
    [
        ("object", process.pid, [None, 1, "me", Hostile(), threading.Thread(), Hostile]),
        ("pid", process.object_of, NO_LOCAL_PID[:-2]),
        ("pid", process.peek, [v for v in NO_LOCAL_PID if v is not None]),
        ("destination", lambda v: process.send(v, 1), [*NO_LOCAL_PID, "nobody", b"me"]),
        ("name", lambda v: process.register(v, dead_pid()), [None, 1, "", "undefined", b"x", Hostile()]),
        ("name", lambda v: process.register(v, inviso.self()), ["me"]),
        ("pid", lambda v: process.register("fresh", v), [*NO_LOCAL_PID, inviso.self()]),
        ("name", process.unregister, [None, 1, "nobody", b"me", [], Hostile()]),
        ("name", process.whereis, [None, 1, b"me", [], Hostile()]),
        ("name", process.set_node, [None, 1, "", "name", "@", "a@", "@b", "a@b@c", b"a@b", Hostile()]),
        ("function", process.spawn, [None, 1, "f", [], Hostile()]),
        ("name", lambda v: process.spawn(traced, 1, name=v), [1, b"x", [], Hostile()]),
        ("link", lambda v: process.spawn(traced, 1, link=v), [None, 1, "yes", []]),
        ("monitor", lambda v: process.spawn(traced, 1, monitor=v), [None, 1, "yes", []]),
        ("pid", process.link, NO_PID_OR_OBJECT),
        ("pid", process.unlink, NO_PID_OR_OBJECT),
        ("pid", process.links, [v for v in NO_LOCAL_PID if v is not None]),
        ("pid", process.monitor, NO_LOCAL_PID),
        ("pid", lambda v: process.exit(v, "reason"), NO_LOCAL_PID),
        ("reference", process.demonitor, [None, 1, "me", Hostile()]),
        ("on", process.trap_exit, [None, 1, "yes", []]),
        ("time", lambda v: process.send_after(v, inviso.self(), 1), [None, "1", -1, float("nan"), float("inf"), True]),
        ("destination", lambda v: process.send_after(0, v, 1), NO_LOCAL_PID),
    ],
)
def test_processes_and_names(argument: str, call: Any, values: list[Any]) -> None:
    for value in values:
        refused(argument, lambda value=value: call(value))


def test_the_flag_of_a_process_is_named_by_its_own_arguments() -> None:
    why = refused("value", lambda: process.process_flag("trap_exit", 1))
    assert why.startswith("process_flag/2")


def test_a_port_is_no_process(there_is_something_to_change: trace.Session) -> None:
    session = there_is_something_to_change
    with socket.socket() as one:
        given = [one, inviso.port(one)]
        for port in given:
            assert "is a port" in refused("destination", lambda port=port: process.send(port, 1))
            assert "is a port" in refused("procs", lambda port=port: session.process(port, True, ["send"]))
    # a closed one, too
    assert "is a port" in refused("destination", lambda: process.send(one, 1))
    assert "is a port" in refused("procs", lambda: session.process(one, True, ["send"]))


def test_flags_may_be_any_iterable() -> None:
    with trace.session_create("iterables") as session:
        me = inviso.self()
        both = ["call", "send"]
        for flags in (both, tuple(both), set(both), iter(both), dict.fromkeys(both).keys()):
            assert session.process(me, True, flags) == 1
            assert session.info(me, "flags") == ("flags", both)
            session.process(me, False, ["call", "send"])
        assert session.function(MFA, True, (flag for flag in ["local", "call_count"])) == 1
        assert session.info(MFA, "call_count") == ("call_count", 0)
        assert session.send(True, iter([])) == 1


def test_a_dead_process_gets_no_name() -> None:
    pid = dead_pid()
    refused("pid", lambda: process.register("late", pid))


def test_coroutines_outside_a_loop() -> None:
    async def coroutine() -> None:
        """A coroutine that never begins."""

    refused("function", lambda: process.spawn(coroutine))


NO_TPROF_PATTERN = [
    None, 1, [], (), "a:b:c:d", "a:b:x", "a:_:1", "_:f", "", ":f", ("a", "b"), ("a", "b", 1, 2), (1, "f", 1),
    ("m", "f", -1), ("m", "f", True), ("m", "f", "1"), [None], [("m",)], Hostile(),
]  # fmt: skip


@pytest.mark.parametrize("pattern", NO_TPROF_PATTERN)
def test_patterns_of_profiles(pattern: Any) -> None:
    refused("pattern", lambda: tprof.profile(traced, 1, pattern=pattern))
    with tprof.Profiler() as profiler:
        refused("pattern", lambda: profiler.set_pattern(pattern))
        refused("pattern", lambda: profiler.clear_pattern(pattern))
        assert profiler.patterns == ()


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("type", [None, 1, "count", "calls", ["call_count"], Hostile()]),
        ("sort", [None, 1, "time", Hostile()]),
        ("report", [None, 1, "print", Hostile()]),
        ("timeout", ["1", 0, -1, True, [], Hostile(), float("nan")]),
        ("rootset", [1, "some", [1], [None], Hostile(), FOREIGN, [FOREIGN]]),
    ],
)
def test_options_of_profiles(argument: str, values: list[Any]) -> None:
    for value in values:
        before = state()
        with pytest.raises(inviso.BadArg) as caught:
            tprof.profile(traced, 1, **{"type": "call_time", argument: value})
        assert state() == before
        assert caught.value.argument in (argument, "procs", "object"), caught.value


def test_functions_to_profile() -> None:
    for value in (None, 1, "f", Hostile()):
        refused("fn", lambda value=value: tprof.profile(value))


def test_profilers() -> None:
    for value in (None, 1, "count", Hostile()):
        refused("type", lambda value=value: tprof.Profiler(type=value))
        refused("type", lambda value=value: tprof.start(type=value))
    for value in (None, 1, b"x"):
        refused("name", lambda value=value: tprof.Profiler(name=value))
    with tprof.Profiler(type="call_time") as profiler:
        for value in (None, 1, "some", [1], Hostile(), FOREIGN, dead_pid()):
            with pytest.raises(inviso.BadArg, match=r"proc|object"):
                profiler.enable_trace(value)
            with pytest.raises(inviso.BadArg, match=r"proc|object"):
                profiler.disable_trace(value)
        refused("view", lambda: profiler.collect(view="all"))  # type: ignore[arg-type]
        refused("sort", lambda: profiler.collect(sort="all"))  # type: ignore[arg-type]
    for call in (profiler.collect, profiler.pause, profiler.continue_, profiler.restart, profiler.enable_trace):
        refused("self", call)
    for name in ("collect", "pause", "continue_", "restart", "enable_trace", "disable_trace"):
        refused("profiler", getattr(tprof, name))
    refused("profiler", lambda: tprof.set_pattern("json"))
    refused("profiler", lambda: tprof.clear_pattern("json"))
    tprof.start()
    refused("profiler", tprof.start)
    tprof.stop()


def test_views_of_profiles() -> None:
    profile = tprof.profile(traced, 1, pattern=__name__)
    for call, argument in ((tprof.format, "what"), (tprof.inspect, "result")):
        refused(argument, lambda call=call: call(None))
        refused("view", lambda call=call: call(profile, "all"))
        refused("limit", lambda call=call: call(profile, limit=0))
        refused("sort", lambda call=call: call(profile, sort="x"))


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "inviso", *words)
    none = subprocess.DEVNULL
    return subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=cwd, stdin=none)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no command"),
        (["tproff"], "unknown command 'tproff'"),
        (["--verbose"], "unknown option '--verbose'"),
        (["job.py"], "did you mean 'inviso tprof'"),
        (["tprof"], "no program"),
        (["tprof", "-m"], "-m needs a value"),
        (["tprof", "-m", ""], "no program"),
        (["tprof", ""], "no program"),
        (["tprof", "--"], "no program"),
        (["tprof", "-t", "time", "x.py"], "--type"),
        (["tprof", "-t"], "-t needs a value"),
        (["tprof", "--type=", "x.py"], "--type"),
        (["tprof", "-p", "a:b:c:d", "x.py"], "--pattern"),
        (["tprof", "-p", "", "x.py"], "--pattern"),
        (["tprof", "-p", "_:f", "x.py"], "--pattern"),
        (["tprof", "--sort", "time", "x.py"], "--sort"),
        (["tprof", "--limit", "0", "x.py"], "--limit"),
        (["tprof", "--limit", "many", "x.py"], "--limit"),
        (["tprof", "--json", "", "x.py"], "--json"),
        (["tprof", "-o", "", "x.py"], "--output"),
        (["tprof", "--per-process=yes", "x.py"], "--per-process"),
        (["tprof", "-x", "x.py"], "unknown option '-x'"),
        (["tprof", "--json", "no/such/folder/x.json", "x.py"], "x.json"),
    ],
)
def test_command_lines(words: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print('ran')")
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.py"]


def test_programs_that_can_not_run(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\x00\x01\xff")
    (tmp_path / "raises.py").write_text("def f(): raise KeyError('why')\nf()\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    for name, status, told in (
        ("missing.py", 2, "can't open file"),
        ("broken.py", 1, "SyntaxError"),
        ("binary.py", 1, "SyntaxError"),
        ("raises.py", 1, "KeyError: 'why'"),
        ("leaves.py", 7, "tprof"),
    ):
        done = command("tprof", name, cwd=tmp_path)
        assert (done.returncode, told in done.stderr) == (status, True), (name, done)
        own = [line for line in done.stderr.splitlines() if "inviso" in line and "File" in line]
        assert own == []
        assert ("FUNCTION" in done.stderr) == (name in ("raises.py", "leaves.py"))
    done = command("tprof", "-m", "no_such_module_here", cwd=tmp_path)
    assert (done.returncode, "No module named" in done.stderr) == (1, True)


LONE = "\udc80"
"""The result of ``os.fsdecode`` for a byte that is not UTF-8."""


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda s: trace.session_create(LONE), "name"),
        (lambda s: s.function((LONE, "_", "_"), True, ["local"]), "mfa"),
        (lambda s: s.function((__name__, LONE, 1), True, ["local"]), "mfa"),
        (lambda s: s.info((__name__, LONE, 1), "all"), "item"),
        (lambda s: inviso.register(LONE, inviso.self()), "name"),
        (lambda s: inviso.unregister(LONE), "name"),
        (lambda s: inviso.send(LONE, 1), "destination"),
        (lambda s: inviso.spawn(print, name=LONE), "name"),
        (lambda s: tprof.profile(print, pattern=LONE), "pattern"),
    ],
)
def test_a_name_with_a_lone_surrogate_is_refused(session: trace.Session, call: Any, argument: str) -> None:
    with pytest.raises(inviso.BadArg, match="surrogate|registered") as raised:
        call(session)
    assert raised.value.argument == argument
    assert inviso.whereis(LONE) is None
