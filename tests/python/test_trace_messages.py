"""Messages: their forms, their order, their destinations, and reports of lost ones."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import child, count, good, in_threads, local, mfa, own
from waiting import until


def work(n: int = 0) -> int:
    return n


def pair(a: Any, b: Any = None, *, c: Any = 3) -> int:
    return work(1)


# forms


def test_call_with_arguments_and_with_arity(session: trace.Session) -> None:
    me = own(session)
    local(session, pair)
    pair(1, c="x")
    own(session, ["arity"])
    pair(1)
    assert session.drain() == [
        ("trace", me, "call", (__name__, "pair", [1, None, "x"])), ("trace", me, "call", (__name__, "pair", 3))
    ]  # fmt: skip


def test_silent_sends_no_calls(session: trace.Session) -> None:
    own(session, ["call", "silent", "return_to"])
    local(session, work)
    session.function(mfa(work), True, ["call_count"])
    work()
    assert session.drain() == []
    assert count(session, work) == 1
    session.process(inviso.self(), False, ["silent"])
    work()
    assert [str(m[2]) for m in session.drain()] == ["call", "return_to"]


def test_meta_needs_no_process_and_has_its_own_stamp(session: trace.Session) -> None:
    session.function(mfa(work), True, ["meta"])
    work(5)
    (message,) = session.drain()
    assert message[0] == "trace_ts"
    assert message[1:4] == (inviso.self(), "call", (__name__, "work", [5]))
    assert len(message) == 5
    assert len(message[4]) == 3
    assert session.info(mfa(work), "meta")[1] is not False
    assert session.info(mfa(work), "traced") == ("traced", False)


def test_meta_and_local_side_by_side(session: trace.Session) -> None:
    own(session)
    assert session.function(mfa(work), True, ["meta", "local"]) == 1
    work(5)
    sent = session.drain()
    assert sorted(m[0] for m in sent) == ["trace", "trace_ts"]
    session.function(mfa(work), False, ["local"])
    work(6)
    assert [m[0] for m in session.drain()] == ["trace_ts"]
    session.function(mfa(work), False, ["meta"])
    work(7)
    assert session.drain() == []


STAMPS = ["timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"]


def stamp(session: trace.Session) -> Any:
    work()
    (message,) = session.drain()
    return message[4] if message[0] == "trace_ts" else None


def test_stamp_of_the_wall_clock(session: trace.Session) -> None:
    own(session, ["call", "timestamp"])
    local(session, work)
    before = time.time()
    mega, secs, micro = stamp(session)
    after = time.time()
    assert before - 0.01 <= mega * 1_000_000 + secs + micro / 1_000_000 <= after + 0.01
    assert 0 <= secs < 1_000_000
    assert 0 <= micro < 1_000_000


def test_stamp_of_the_monotonic_clock(session: trace.Session) -> None:
    own(session, ["call", "monotonic_timestamp"])
    local(session, work)
    before = time.monotonic_ns()
    told = stamp(session)
    after = time.monotonic_ns()
    assert isinstance(told, int)
    assert before - 1_000_000 <= told <= after + 1_000_000


def test_strict_stamps_are_strictly_ordered(session: trace.Session) -> None:
    session.process("all", True, ["call", "strict_monotonic_timestamp"])
    local(session, work)
    in_threads(4, lambda n: [work(n) for _ in range(500)])
    stamps = [m[4] for m in session.drain()]
    assert len(stamps) == 2000
    assert all(isinstance(ns, int) and isinstance(unique, int) for ns, unique in stamps)
    assert len(set(stamps)) == 2000
    assert len({unique for _, unique in stamps}) == 2000


def test_the_strongest_stamp_hides_the_weaker(session: trace.Session) -> None:
    local(session, work)
    own(session, ["call", *STAMPS])
    assert session.info(inviso.self(), "flags")[1] == ["call", *STAMPS]
    assert len(stamp(session)) == 3
    session.process(inviso.self(), False, ["timestamp"])
    assert len(stamp(session)) == 2
    session.process(inviso.self(), False, ["strict_monotonic_timestamp"])
    assert isinstance(stamp(session), int)
    session.process(inviso.self(), False, ["monotonic_timestamp"])
    assert stamp(session) is None


def test_stamps_of_one_process_never_go_back(session: trace.Session) -> None:
    own(session, ["call", "return_to", "monotonic_timestamp"])
    local(session, work, pair)
    for _ in range(1000):
        pair(1)
    stamps = [m[4] for m in session.drain()]
    assert len(stamps) == 4000
    assert stamps == sorted(stamps)


def test_all_sets_all_flags_and_the_scheduler(session: trace.Session) -> None:
    own(session, ["all"])
    flags = session.info(inviso.self(), "flags")[1]
    assert {"call", "return_to", "arity", "silent", "procs", *STAMPS} <= set(flags)
    session.process(inviso.self(), False, ["silent"])
    local(session, work)
    work(1)
    messages = [m for m in session.drain() if m[2] == "call"]
    assert len(messages) == 1
    assert messages[0][0] == "trace_ts"
    name, scheduler, (_mega, _secs, _micro) = messages[0][3:]
    assert name == (__name__, "work", 1)
    assert isinstance(scheduler, int)


# where they go


def test_to_a_mailbox(make: Any) -> None:
    me = inviso.self()
    session = make("mailbox", me)
    pid = inviso.spawn(lambda: inviso.receive("go") and work(4), name="callee")
    assert session.info("new", "tracer") == ("tracer", [])
    session.process(pid, True, ["call"])
    local(session, work)
    inviso.send(pid, "go")
    assert inviso.receive(("trace", "_", "call", "_"), 30) == ("trace", pid, "call", (__name__, "work", [4]))
    with pytest.raises(inviso.BadArg):
        session.receive(0)
    with pytest.raises(inviso.BadArg):
        session.drain()
    with pytest.raises(inviso.BadArg):
        next(iter(session))


def test_the_own_mailbox_stands_in_order(make: Any) -> None:
    session = make("mailbox", inviso.self())
    done = threading.Event()
    me = inviso.self()

    def run() -> None:
        work(1)
        inviso.send(me, "after 1")
        work(2)
        done.set()

    session.process("new", True, ["call"])
    local(session, work)
    threading.Thread(target=run).start()
    assert done.wait(30)
    inviso.send(me, "end")
    got = [inviso.receive(timeout=10) for _ in range(4)]
    assert [g if isinstance(g, str) else g[3][2] for g in got] == [[1], "after 1", [2], "end"]


def test_to_a_callable(make: Any) -> None:
    seen: list[Any] = []
    session = make("callable", lambda m: seen.append((threading.get_ident(), m)))
    own(session)
    local(session, work)
    for n in range(100):
        work(n)
    assert session.delivered().wait(30)
    assert [m[3][2] for _, m in seen] == [[n] for n in range(100)]
    assert {ident for ident, _ in seen}.isdisjoint({threading.get_ident()})
    tracer = session.info(inviso.self(), "tracer")[1]
    assert isinstance(tracer, inviso.Pid)
    assert tracer.is_alive()
    session.destroy()
    until(lambda: not tracer.is_alive())


def test_what_was_sent_before_destroy_is_delivered(make: Any) -> None:
    seen: list[Any] = []
    session = make("callable", seen.append)
    own(session)
    local(session, work)
    for n in range(100):
        work(n)
    session.destroy()
    until(lambda: len(seen) == 100)


def test_a_callable_that_raises_is_reported_once_and_goes_on() -> None:
    done = child("""
import inviso
from inviso import trace
def work(n): pass
seen = []
def tracer(message):
    seen.append(message)
    raise LookupError("mine")
s = trace.session_create("raising", tracer)
s.function(("__main__", "work", 1), True, ["local"])
s.process(inviso.self(), True, ["call"])
for n in range(10): work(n)
assert s.delivered().wait(30)
print(len(seen))
""")
    assert (done.returncode, done.stdout) == (0, "10\n")
    assert done.stderr.count("LookupError: mine") == 1
    assert "raising" in done.stderr


def test_a_tracer_that_exits_is_no_trouble() -> None:
    done = child("""
import inviso, sys
from inviso import trace
def work(n): pass
s = trace.session_create("exits", lambda m: sys.exit(3))
s.function(("__main__", "work", 1), True, ["local", "call_count"])
s.process(inviso.self(), True, ["call"])
for n in range(10): work(n)
s.delivered().wait(5)
assert s.info(("__main__", "work", 1), "call_count")[1] == 10
s.destroy()
print("ok")
""")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_a_dead_tracer_takes_its_flags_with_it(make: Any) -> None:
    stop = threading.Event()
    pid = inviso.spawn(lambda: stop.wait(30))
    session = make("orphan", pid)
    me = own(session)
    local(session, work)
    session.function(mfa(work), True, ["call_count"])
    work(1)
    assert session.info(me, "tracer") == ("tracer", pid)
    stop.set()
    until(lambda: not pid.is_alive())
    work(2)
    assert session.info(me, "flags") == ("flags", [])
    assert session.info(me, "tracer") == ("tracer", [])
    assert count(session, work) == 2
    assert session.is_alive()


def test_a_tracer_that_was_dead_from_the_start() -> None:
    pid = inviso.spawn(work)
    until(lambda: not pid.is_alive())
    with trace.session_create("late", pid) as session:
        session.process(inviso.self(), True, ["call"])
        session.function(mfa(work), True, ["local", "call_count"])
        work(1)
        assert session.info(inviso.self(), "flags") == ("flags", [])
        assert count(session, work) == 1


# delivered


@pytest.mark.parametrize("which", ["all", "self"])
@pytest.mark.parametrize("kind", ["own", "mailbox", "callable"])
def test_delivered(make: Any, kind: str, which: str) -> None:
    seen: list[Any] = []
    me = inviso.self()
    session = make(kind, {"own": None, "mailbox": me, "callable": seen.append}[kind])
    tracee = "all" if which == "all" else me
    if kind != "mailbox":
        own(session)
        local(session, work)
        for n in range(50):
            work(n)
    ref = session.delivered(tracee)
    assert isinstance(ref, inviso.Ref)
    assert ref.wait(30) is True
    if kind == "callable":
        assert len(seen) == 50
    assert inviso.receive(("trace_delivered", "_", ref), 30) == ("trace_delivered", tracee, ref)
    if kind == "own":
        assert len(session.drain()) == 50


def test_delivered_completes_though_the_tracer_never_reads(make: Any) -> None:
    stop = threading.Event()
    idle = inviso.spawn(lambda: stop.wait(60))
    session = make("idle", idle)
    own(session)
    local(session, work)
    work()
    assert session.delivered().wait(30)
    stop.set()


def test_delivered_from_several_threads(make: Any) -> None:
    seen: list[Any] = []
    session = make("callable", seen.append)
    session.process("all", True, ["call"])
    local(session, work)

    def run(n: int) -> None:
        for i in range(20):
            work(i)
            ref = session.delivered(inviso.self())
            assert ref.wait(30)
            assert inviso.receive(timeout=30)[2] == ref
            mine = [m for m in list(seen) if m[1] == inviso.self()]
            assert len(mine) == i + 1

    in_threads(4, run)


# order and loss


def test_order_of_one_process_under_threads(session: trace.Session) -> None:
    session.process("all", True, ["call"])
    local(session, work)
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.extend(session))
    reader.start()
    in_threads(4, lambda n: [work(i) for i in range(2000)])
    session.destroy()
    reader.join(60)
    assert not reader.is_alive()
    per: dict[Any, list[int]] = {}
    for message in got:
        per.setdefault(message[1], []).append(message[3][2][0])
    assert len(per) == 4
    assert all(numbers == list(range(2000)) for numbers in per.values())


@pytest.mark.parametrize("overflow", ["drop", "overwrite"])
@pytest.mark.parametrize("threads", [1, 4])
def test_what_is_read_and_what_was_dropped_is_all(make: Any, overflow: str, threads: int) -> None:
    session = make("full", None, ring_bytes=1 << 14, overflow=overflow)
    session.process("all", True, ["call"])
    local(session, work)
    in_threads(threads, lambda n: [work(i) for i in range(5000)])
    sent = session.drain()
    calls = [m for m in sent if m[0] == "trace"]
    lost = sum(m[1] for m in sent if m[0] == "drop")
    dropped = session.info("session", "dropped")
    assert dropped[1] > 0
    assert len(calls) + dropped[1] == 5000 * threads
    assert lost == dropped[1]
    for pid in {m[1] for m in calls}:
        numbers = [m[3][2][0] for m in calls if m[1] == pid]
        assert numbers == sorted(numbers)
        assert (numbers[0] == 0) if overflow == "drop" else (numbers[-1] == 4999)


def test_a_drop_record_stands_at_the_place_of_the_loss(make: Any) -> None:
    session = make("full", None, ring_bytes=1 << 14, overflow="drop")
    own(session)
    local(session, work)
    for n in range(5000):
        work(n)
    first = session.drain()
    for n in range(5000, 5010):
        work(n)
    sent = first + session.drain()
    tags = [m[0] for m in sent]
    assert tags.count("drop") == 1
    place = tags.index("drop")
    before, after = sent[:place], sent[place + 1 :]
    assert [m[3][2][0] for m in after] == list(range(5000, 5010))
    assert len(before) + sent[place][1] == 5000


def test_blocking_waits_for_the_reader() -> None:
    text = """
import threading
from inviso import trace
from trace_tools import in_threads
def work(n): pass
session = trace.session_create("block", None, {"ring_bytes": 1 << 14, "overflow": "block", "block_ms": 20_000})
session.function(("__main__", "work", 1), True, ["local"])
session.process("all", True, ["call"])
seen = []
reader = threading.Thread(target=lambda: seen.extend(session))
reader.start()
in_threads(2, lambda n: [work(i) for i in range(5000)] and None)
dropped = session.info("session", "dropped")[1]
session.destroy()
reader.join()
print(dropped, len(seen))
"""
    assert good(text) == "0 10000\n"


def test_blocking_gives_up_in_time(make: Any) -> None:
    session = make("block", None, ring_bytes=1 << 12, overflow="block", block_ms=1)
    own(session)
    local(session, work)
    for n in range(500):
        work(n)
    read = [m for m in session.drain() if m[0] == "trace"]
    assert len(read) + session.info("session", "dropped")[1] == 500


def test_the_newer_session_comes_first_at_one_tracer(make: Any) -> None:
    me = inviso.self()
    older, newer = make("older", me), make("newer", me)
    done = threading.Event()

    def run() -> None:
        work(7)
        done.set()

    for session, flags in ((older, ["call"]), (newer, ["call", "arity"])):
        session.process("new", True, flags)
        local(session, work)
    threading.Thread(target=run).start()
    assert done.wait(30)
    got = [inviso.receive(timeout=10), inviso.receive(timeout=10)]
    assert [m[3][2] for m in got] == [1, [7]]


def test_arguments_too_large_for_the_ring_are_cut(make: Any) -> None:
    session = make("small", None, ring_bytes=1 << 14, capture={"total": 256})
    own(session)
    local(session, pair)
    pair("x" * 100_000, list(range(10_000)))
    pair(1)
    sent = session.drain()
    assert len(sent) == 2
    assert "cut" in repr(sent[0])
    assert sent[1][3][2] == [1, None, 3]
    assert sys.getsizeof(repr(sent[0])) < 20_000
