"""Options of a session: limits of arguments, texts, the objects themselves, clocks; and CPU time."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import count, good, in_threads, local, mfa, own


class Thing:
    """A value that is not copied."""

    def __init__(self, text: Any = "a thing") -> None:
        self.text = text

    def __repr__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return str(self.text)


def traced(*values: Any) -> None:
    """A traced function."""


def other(value: Any) -> None:
    """Another function."""


def first(session: trace.Session, *values: Any) -> Any:
    """The first argument of the message of a call with these values."""
    local(session, traced)
    own(session)
    traced(*values)
    (message,) = session.drain()
    return message[3][2][0]


def type_name(session: trace.Session, value: Any) -> str:
    """The type's name in the message of a call with this value."""
    traced(value)
    (message,) = session.drain()
    return str(message[3][2][0][0].type)


def test_a_renamed_class_has_its_new_name(session: trace.Session) -> None:
    """The name of a class is kept for the next call only while it is valid."""
    local(session, traced)
    own(session)
    cls = type("First", (), {"__module__": "here", "value": 1})
    value: Any = cls()
    assert value.value == 1  # the interpreter gives the class a version tag
    assert [type_name(session, value) for _ in range(3)] == ["here.First"] * 3
    cls.__module__ = "there"
    assert value.value == 1
    assert [type_name(session, value) for _ in range(3)] == ["there.First"] * 3
    cls.__qualname__ = "Outer.Second"
    assert value.value == 1
    assert [type_name(session, value) for _ in range(3)] == ["there.Outer.Second"] * 3
    cls.__qualname__ = "Größe"
    assert [type_name(session, value) for _ in range(3)] == ["there.Größe"] * 3
    cls.__module__ = "builtins"
    assert [type_name(session, value) for _ in range(3)] == ["Größe"] * 3


def test_many_classes_have_their_own_names(session: trace.Session) -> None:
    """Also a class at the address of one that is gone."""
    local(session, traced)
    own(session)
    addresses = set()
    for n in range(2_000):
        cls = type(f"Class{n}", (), {"__module__": f"m{n % 7}", "value": n})
        assert cls().value == n
        assert [type_name(session, cls()) for _ in range(2)] == [f"m{n % 7}.Class{n}"] * 2
        addresses.add(id(cls))
        del cls
        gc.collect(0)
    assert len(addresses) < 2_000, "no address was used again"
    kept = [type(f"Kept{n}", (), {"__module__": "m", "value": n}) for n in range(600)]
    for _ in range(2):
        for n, cls in enumerate(kept):
            assert cls().value == n
            assert type_name(session, cls()) == f"m.Kept{n}"


# about the limits of 1, 2 and 4 bytes, of one and of two digits of an int in memory, and of 64 bits
INTS = [sign * ((1 << bits) + more) for bits in (8, 16, 30, 31, 60, 63, 64) for more in (-1, 0, 1) for sign in (1, -1)]


@pytest.mark.parametrize(
    ("limits", "value", "taken"),
    [
        ({"depth": 0}, [1], inviso.Cut("depth")),
        ({"depth": 1}, [1, [2]], [1, inviso.Cut("depth")]),
        ({"depth": 2}, [1, [2]], [1, [2]]),
        ({"items": 0}, [1], [inviso.Cut("items")]),
        ({"items": 2}, [1, 2, 3], [1, 2, inviso.Cut("items")]),
        ({"items": 2}, {1: 1, 2: 2, 3: 3}, {1: 1, 2: 2, inviso.Cut("items"): 1}),
        ({"bytes": 3}, "abcd", ["abc", inviso.Cut("bytes")]),
        ({"bytes": 3}, b"abc", b"abc"),
        ({"items": 1}, {1}, {1}),
        ({"items": 1}, {1, 2}, {1, inviso.Cut("items")}),
        ({"items": 200, "total": 100}, dict.fromkeys(range(200)), inviso.Cut("bytes")),
        ({"items": 200, "total": 100}, set(range(200)), inviso.Cut("bytes")),
        ({"bytes": 8}, 1 << 100, inviso.Cut("bytes")),
        ({}, INTS, INTS),
        ({"bytes": 5000, "total": 10_000}, "x" * 5000, "x" * 5000),
        ({"total": 100}, ["x" * 50, "y" * 50], inviso.Cut("bytes")),
        ({}, "x" * 1025, ["x" * 1024, inviso.Cut("bytes")]),
    ],
)
def test_limits_of_what_is_copied(make: Any, limits: dict[str, int], value: Any, taken: Any) -> None:
    session = make(capture=limits)
    local(session, other)
    own(session)
    other(value)
    assert session.drain()[0][3][2] == [taken]


def test_limits_belong_to_their_session(make: Any) -> None:
    short, long = make("short", capture={"items": 1}), make("long")
    for session in (short, long):
        local(session, other)
        own(session)
    other([1, 2])
    assert short.drain()[0][3][2] == [[1, inviso.Cut("items")]]
    assert long.drain()[0][3][2] == [[1, 2]]


def test_without_repr_nothing_of_the_program_runs(session: trace.Session) -> None:
    thing = Thing(ValueError())
    (taken,) = first(session, thing)
    assert taken == inviso.Opaque(f"{__name__}.Thing", id(thing))
    assert taken.text is None


def test_texts_of_what_is_not_copied(make: Any) -> None:
    thing, other_thing = Thing("one"), Thing("two")
    taken = first(make(repr=True), 1, thing, [2, {"key": other_thing}], "three")
    assert taken == (1, inviso.Opaque(f"{__name__}.Thing", id(thing)), [2, {"key": taken[2][1]["key"]}], "three")
    assert [taken[1].text, taken[2][1]["key"].text] == ["one", "two"]


def test_texts_are_bounded(make: Any) -> None:
    session = make(repr=True, capture={"bytes": 10, "total": 1000})
    assert first(session, Thing("é" * 20))[0].text == "ééééé…"
    assert first(session, Thing("x" * 10))[0].text == "x" * 10
    session = make(repr=True, capture={"bytes": 4000, "total": 4096, "items": 1000})
    taken = first(session, *[Thing("x" * 500) for _ in range(20)])
    assert all(isinstance(t, inviso.Opaque) for t in taken)
    texts = [t.text for t in taken]
    assert texts[0] == "x" * 500
    assert sum(len(t or "") for t in texts) < 4096
    assert texts[-1] is None or len(texts[-1]) < 500


def test_a_text_that_can_not_be_made(make: Any) -> None:
    session = make(repr=True)
    assert first(session, Thing(ValueError("no")))[0].text == "<repr raised ValueError>"
    assert first(session, Thing(SystemExit()))[0].text == "<repr raised SystemExit>"
    assert first(session, Thing("\ud800"))[0].text.startswith("\ufffd")


def test_an_interrupt_that_repr_raises_itself_is_not_the_programs(make: Any) -> None:
    session = make(repr=True)
    local(session, traced)
    own(session)
    traced(Thing(KeyboardInterrupt()))
    sum(range(100_000))  # where a handler's would come again
    assert session.drain()[0][3][2][0][0].text == "<repr raised KeyboardInterrupt>"


def test_what_a_handler_raises_in_a_text_comes_again(make: Any) -> None:
    class Ends(Exception):
        pass

    def ends(*_: Any) -> None:
        raise Ends

    class Slow:
        def __repr__(self) -> str:
            signal.raise_signal(signal.SIGUSR1)
            return "slow"

    session = make(repr=True)
    local(session, traced)
    own(session)
    before = signal.signal(signal.SIGUSR1, ends)
    try:
        with pytest.raises(Ends):
            traced(Slow())
            for _ in range(1000):
                pass
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_text_may_change_what_it_is_taken_from(make: Any) -> None:
    values: list[Any] = []

    class Clears:
        def __repr__(self) -> str:
            values.clear()
            gc.collect()
            return "cleared"

    values.extend([Clears(), Clears(), Thing("last")])
    (taken,) = first(make(repr=True), values)
    assert [t.text for t in taken] == ["cleared", "cleared", "last"]
    assert values == []


def test_a_text_may_trace(make: Any) -> None:
    session = make(repr=True)

    class Traces:
        def __repr__(self) -> str:
            traced("not seen")
            with trace.session_create("inner") as inner:
                inner.function(mfa(other), True, ["call_count"])
                session.function(mfa(traced), False, ["local"])
                inner.function(mfa(other), "restart", ["call_count"])
            return f"{inviso.self().kind}"

    assert first(session, Traces())[0].text == "thread"
    assert session.drain() == []
    assert session.info(mfa(traced), "traced") == ("traced", False)


def test_texts_from_many_threads(make: Any) -> None:
    session = make(repr=True, ring_bytes=1 << 22)
    local(session, other)
    session.process("all", True, ["call"])
    in_threads(4, lambda n: [other(Thing(f"{n}.{i}")) for i in range(200)] and None)
    texts = [m[3][2][0].text for m in session.drain()]
    assert sorted(texts) == sorted(f"{n}.{i}" for n in range(4) for i in range(200))


def test_texts_are_not_the_functions_memory(make: Any) -> None:
    session = make(repr=True)
    session.function(mfa(other), True, ["local", "call_memory"])
    own(session)
    for _ in range(50):
        other(Thing("x" * 500))
    ((_, calls, words),) = session.info(mfa(other), "call_memory")[1]
    assert calls == 50
    assert words < 50 * 60


def test_the_objects_themselves(make: Any) -> None:
    session = make(capture="ref")
    thing, unhashable = Thing(), [Thing()]
    local(session, traced, other)
    own(session)
    traced(thing, unhashable)
    other(unhashable)
    one, two = session.drain()
    assert one[3][2][0][0] is thing
    assert one[3][2][0][1] is unhashable
    assert two[2:] == ("call", (__name__, "other", [unhashable]))
    assert two[3][2][0] is unhashable


def test_objects_go_when_their_message_has_gone(make: Any) -> None:
    session = make(capture="ref")
    local(session, other)
    own(session)
    thing = Thing()
    gone = weakref.ref(thing)
    other(thing)
    del thing
    gc.collect()
    assert gone() is not None
    message = session.drain()
    assert message[0][3][2][0] is gone()
    del message
    gc.collect()
    assert gone() is None
    other(thing := Thing())
    gone = weakref.ref(thing)
    del thing
    session.destroy()
    del session


def test_objects_of_a_session_that_nobody_reads() -> None:
    session = trace.session_create("unread", None, {"capture": "ref"})
    local(session, other)
    own(session)
    thing = Thing()
    gone = weakref.ref(thing)
    other(thing)
    del thing
    session.destroy()
    del session
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("overflow", ["drop", "overwrite"])
def test_objects_are_bounded(make: Any, overflow: str) -> None:
    session = make(capture="ref", overflow=overflow, ring_bytes=1 << 23)
    local(session, other)
    own(session)
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    for _ in range(20_000):
        alive.add(thing := Thing())
        other(thing)
    del thing
    gc.collect()
    assert len(alive) == 1 << 14
    arguments = [m[3][2] for m in session.drain()]
    assert len(arguments) == 20_000
    cut = [n for n, a in enumerate(arguments) if a == inviso.Cut("objects")]
    assert cut == list(range(1 << 14, 20_000) if overflow == "drop" else range(20_000 - (1 << 14)))
    assert all(isinstance(a[0], Thing) for n, a in enumerate(arguments) if n not in set(cut))
    del arguments
    gc.collect()
    assert len(alive) == 0


def test_objects_of_overwritten_records_are_let_go_of(make: Any) -> None:
    session = make(capture="ref", overflow="overwrite", ring_bytes=1 << 14)
    local(session, other)
    own(session)
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    for _ in range(5_000):
        alive.add(thing := Thing())
        other(thing)
    messages = session.drain()
    assert messages[0][0] == "drop"
    assert messages[-1][3][2][0] is thing
    assert messages[0][1] + len(messages) - 1 == 5_000
    del thing
    gc.collect()
    assert len(alive) == len(messages) - 1


def test_a_callable_tracer_gets_the_objects(make: Any) -> None:
    seen: list[Any] = []
    session = make("called", seen.append, capture="ref")
    local(session, other)
    own(session)
    thing = Thing()
    other(thing)
    assert session.delivered().wait(30)
    assert seen[0][3][2][0] is thing


@pytest.mark.skipif(sys.version_info < (3, 12), reason="functions written in C can't be traced")
def test_functions_written_in_c_take_part(make: Any) -> None:
    texts, objects = make("texts", repr=True), make("objects", capture="ref")
    thing = Thing("shown")
    for session in (texts, objects):
        session.function(("math", "hypot", "_"), True, ["local"])
        own(session)
    import math

    thing = Thing("shown")
    with pytest.raises(TypeError):
        math.hypot(thing)  # type: ignore[arg-type]
    opaque, cut = texts.drain()[0][3][2]
    assert (opaque.text, cut) == ("shown", inviso.Cut("arguments"))
    assert objects.drain()[0][3][2] == [thing, inviso.Cut("arguments")]


def test_late_arguments_keep_order_stamps_and_counts(make: Any) -> None:
    session = make(repr=True)
    session.function(mfa(other), True, ["local", "call_count", "meta"])
    me = own(session, ["call", "strict_monotonic_timestamp", "return_to"])
    before = time.monotonic_ns()
    for n in range(5):
        other(n)
    messages = session.drain()
    assert [m[2] for m in messages] == ["call", "call", "return_to"] * 5
    assert {m[1] for m in messages} == {me}
    plain = [m[-1] for m in messages if isinstance(m[-1][1], int) and len(m[-1]) == 2]
    assert plain == sorted(plain)
    slack = 1_000_000  # the clocks are lined up now and then
    assert before - slack <= plain[0][0] <= plain[-1][0] <= time.monotonic_ns() + slack
    assert count(session, other) == 5


@pytest.mark.parametrize("clock", ["fast", "system"])
def test_clocks(make: Any, clock: str) -> None:
    session = make(clock=clock)
    local(session, other)
    slack = 0 if clock == "system" else 1_000_000
    for flag in ("timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"):
        session.process("all", False, ["all"])
        own(session, ["call", "arity", flag])
        for _ in range(3):
            before = (time.time_ns() // 1000 * 1000, time.monotonic_ns())
            other(1)
            after = (time.time_ns(), time.monotonic_ns())
            stamp = session.drain()[0][-1]
            if flag == "timestamp":
                megaseconds, seconds, microseconds = stamp
                now = ((megaseconds * 1_000_000 + seconds) * 1_000_000 + microseconds) * 1000
                assert before[0] - slack <= now <= after[0] + slack
            else:
                now = stamp if flag == "monotonic_timestamp" else stamp[0]
                # the zero of this clock is found to within a few microseconds
                assert before[1] - slack - 1_000_000 <= now <= after[1] + slack + 1_000_000


def cpu(message: Any) -> int:
    """A stamp in microseconds."""
    megaseconds, seconds, microseconds = message[-1]
    return (int(megaseconds) * 1_000_000 + int(seconds)) * 1_000_000 + int(microseconds)


def test_the_scheduler_stands_before_the_time_stamp(make: Any) -> None:
    session = make("scheduler")
    local(session, other)
    me = own(session, ["call", "arity", "scheduler_id"])
    assert session.info(me, "flags") == ("flags", ["call", "arity", "scheduler_id"])
    other(0)
    session.process(me, True, ["monotonic_timestamp"])
    other(1)
    session.process(me, False, ["scheduler_id"])
    other(2)
    plain, stamped, without = session.drain()
    assert (plain[0], len(plain)) == ("trace", 5) and type(plain[4]) is int
    assert (stamped[0], stamped[4], len(stamped)) == ("trace_ts", plain[4], 6)
    assert (without[0], len(without)) == ("trace_ts", 5)
    session.process("new", True, ["call", "arity", "scheduler_id"])
    thread = threading.Thread(target=other, args=(3,))
    thread.start()
    thread.join()
    theirs = session.drain()
    assert [message[4] != plain[4] for message in theirs] == [True]


def test_a_match_spec_switches_the_scheduler_on(make: Any) -> None:
    session = make("by a spec")
    session.function(mfa(other), [("_", [], [("enable_trace", "scheduler_id")])], ["local"])
    me = own(session, ["call", "arity"])
    other(0)
    assert session.info(me, "flags") == ("flags", ["call", "arity", "scheduler_id"])
    session.function(mfa(other), [("_", [], [("trace", ["scheduler_id"], [])])], ["local"])
    other(1)
    assert session.info(me, "flags") == ("flags", ["call", "arity"])


def test_cpu_time_in_place_of_wall_time(make: Any) -> None:
    session, bystander = make("cpu"), make("other")
    for each in (session, bystander):
        local(each, other)
        own(each, ["call", "arity", "timestamp"])
    other(0)
    wall = cpu(session.drain()[0])
    assert wall > 1_600_000_000_000_000
    bystander.drain()
    assert session.process("all", True, ["cpu_timestamp"]) >= 1
    before = time.thread_time_ns() // 1000
    other(1)
    time.sleep(0.05)
    other(2)
    after = time.thread_time_ns() // 1000 + 1
    one, two = map(cpu, session.drain())
    assert before <= one <= two <= after
    assert two - one < 40_000
    # the whole node's, while one session has it on
    assert all(before <= stamp <= after for stamp in map(cpu, bystander.drain()))
    assert "cpu_timestamp" not in session.info(inviso.self(), "flags")[1]
    session.process("all", False, ["all"])
    other(3)
    assert before <= cpu(bystander.drain()[0]) < wall
    session.process("all", False, ["cpu_timestamp"])
    other(4)
    assert cpu(bystander.drain()[0]) >= wall


def test_cpu_time_is_not_used_under_the_monotonic_flags(session: trace.Session) -> None:
    local(session, other)
    session.process("all", True, ["cpu_timestamp"])
    for flags in (["monotonic_timestamp"], ["strict_monotonic_timestamp"], ["monotonic_timestamp", "timestamp"]):
        session.process("all", False, ["all"])
        own(session, ["call", *flags])
        before = time.monotonic_ns()
        other(1)
        stamp = session.drain()[0][-1]
        if "timestamp" in flags:
            assert cpu((stamp,)) > 1_600_000_000_000_000
        else:
            assert (stamp if isinstance(stamp, int) else stamp[0]) >= before - 1_000_000
    session.process("all", False, ["all"])
    own(session, ["call"])
    other(1)
    assert len(session.drain()[0]) == 4


def test_cpu_time_is_each_threads_own(session: trace.Session) -> None:
    local(session, other)
    session.process("all", True, ["call", "arity", "timestamp", "cpu_timestamp"])
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    thread = threading.Thread(target=other, args=(1,))
    thread.start()
    thread.join()
    other(2)
    stamps = {message[1]: cpu(message) for message in session.drain()}
    me = inviso.self()
    (child,) = stamps.keys() - {me}
    assert stamps[me] >= 50_000
    assert stamps[child] < stamps[me]


def test_cpu_time_goes_with_its_session(make: Any) -> None:
    session, bystander = make("cpu"), make("other")
    local(bystander, other)
    own(bystander, ["call", "arity", "timestamp"])
    session.process("all", True, ["cpu_timestamp"])
    session.process("all", True, ["cpu_timestamp"])
    other(1)
    session.destroy()
    other(2)
    one, two = map(cpu, bystander.drain())
    assert one < 1_600_000_000_000_000 < two


def test_cpu_time_in_meta_messages(session: trace.Session) -> None:
    session.function(mfa(other), True, ["meta"])
    session.process("all", True, ["cpu_timestamp"])
    other(1)
    assert cpu(session.drain()[0]) < 1_600_000_000_000_000


def test_a_system_without_a_clock_of_cpu_time(session: trace.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inviso._native.trace, "has_cpu_clock", lambda: False)
    with pytest.raises(inviso.BadArg, match="flags: 'cpu_timestamp' needs a clock"):
        session.process("all", True, ["call", "cpu_timestamp"])
    assert session.info(inviso.self(), "flags") == ("flags", [])


def test_a_text_that_waits_for_a_change_of_patterns() -> None:
    text = """
import threading, inviso
from inviso import trace
def f(x): pass
def g(): pass
session = trace.session_create("s", None, {"repr": True})
session.function(("__main__", "f", 1), True, ["local"])
session.process("all", True, ["call"])
class Waits:
    def __repr__(self):
        def change():
            for _ in range(20):
                session.function(("__main__", "g", 0), True, ["call_count"])
                session.function(("__main__", "g", 0), False, ["call_count"])
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        return "waited"
f(Waits())
print(session.drain()[0][3][2][0].text)
"""
    assert good(text) == "waited\n"
