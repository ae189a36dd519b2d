"""Property tests: counts and messages of sessions, against slow models that know only the program's steps.

INVISO_HYPOTHESIS=long tries many more programs.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import os
import struct
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import inviso
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, precondition, rule
from inviso import trace
from subjects import ladder, trees
from trace_tools import in_threads

LONG = os.environ.get("INVISO_HYPOTHESIS") == "long"
TREES = "subjects.trees"


def examples(number: int) -> Any:
    """This many programs; in the long form twenty times as many, which also finds the smallest failing one."""
    return settings(
        phases=[phase for phase in Phase if LONG or phase not in (Phase.shrink, Phase.explain)],
        max_examples=number * 20 if LONG else number,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


# programs that call, raise, catch, yield, resume, delegate, throw and close


def programs() -> st.SearchStrategy[Any]:
    number = st.integers(0, 3)
    simple = st.one_of(
        st.just(("raise",)), st.just(("yield",)), st.just(("yield",)), st.just(("guarded yield",)),
        st.tuples(st.just("next"), number), st.tuples(st.just("next"), number),
        st.tuples(st.just("throw"), number), st.tuples(st.just("close"), number),
    )  # fmt: skip
    calling = st.sampled_from(("call", "call", "catch", "catch other", "finally", "with"))

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        steps = st.lists(inner, max_size=4).map(tuple)
        return st.one_of(
            st.tuples(calling, st.sampled_from(trees.PLAIN), steps),
            st.tuples(st.just("make"), st.sampled_from(trees.GENERATORS), steps),
            st.tuples(st.just("delegate"), st.sampled_from(trees.GENERATORS), steps),
        )

    step = st.recursive(simple, larger, max_leaves=30)
    return st.tuples(st.sampled_from(trees.PLAIN), st.lists(larger(step), min_size=1, max_size=5).map(tuple))


class Walk:
    """Goes through the steps of a program, slowly, and notes each event.

    A note is the event, the frame's name, its depth, and the name of the frame below it.
    """

    def __init__(self, program: Any) -> None:
        self.log: list[tuple[str, str, int, str]] = []
        self.stack = ["root"]
        self.pool: list[Frame] = []
        try:
            self.call(*program)
        except trees.Oops:
            self.note("handled")
        assert self.stack == ["root"]
        for frame in self.pool:
            frame.close()
        self.calls = Counter(name for what, name, *_ in self.log if what == "call")

    def note(self, what: str) -> None:
        self.log.append((what, self.stack[-1], len(self.stack), self.stack[-2] if len(self.stack) > 1 else ""))

    def call(self, name: str, steps: Any) -> None:
        for _ in Frame(self, name, steps).run():
            raise AssertionError("a plain function does not yield")

    def caught(self, name: str, steps: Any) -> bool:
        """Calls inside a handler; returns whether the handler was entered."""
        try:
            self.call(name, steps)
        except trees.Oops:
            self.note("handled")
            return True
        return False


class Frame:
    """A call that goes through its steps, and stops at each yield."""

    def __init__(self, walk: Walk, name: str, steps: Any, of: Frame | None = None) -> None:
        self.walk, self.name, self.steps = walk, name, steps
        self.of = of or self  # the generator that is resumed when this one is
        self.begun = self.running = self.over = False
        self.suspended: list[str] = []  # its part of the stack: itself, and its delegates
        self.going = self.run()

    def run(self) -> Iterator[None]:
        walk = self.walk
        self.begun = True
        walk.stack.append(self.name)
        walk.note("call")
        try:
            for kind, *what in self.steps:
                yield from self.step(kind, *what)
        except trees.Oops:
            walk.note("unwind")
            raise
        except GeneratorExit:
            walk.note("close")
            raise
        else:
            walk.note("return")
        finally:
            walk.stack.pop()
            self.over = True

    def step(self, kind: str, *what: Any) -> Iterator[None]:
        walk = self.walk
        yields = self.name in trees.GENERATORS
        if kind == "call":
            walk.call(*what)
        elif kind == "catch":
            walk.caught(*what)
        elif kind == "with":
            walk.note("goes on")
            walk.caught(*what)
            walk.note("goes on")
        elif kind in ("catch other", "finally"):
            if walk.caught(*what):
                raise trees.Oops
        elif kind == "raise":
            raise trees.Oops
        elif kind == "make":
            walk.pool.append(Frame(walk, *what))
            walk.note("goes on")
        elif kind in ("next", "throw", "close"):
            walk.note("goes on")
            frame = walk.pool[what[0] % len(walk.pool)] if walk.pool else None
            if frame and not frame.running:
                getattr(frame, kind)()
        elif kind == "yield" and yields:
            yield
            walk.note("goes on")
        elif kind == "guarded yield" and yields:
            try:
                yield
                walk.note("goes on")
            except trees.Oops:
                walk.note("handled")
        elif kind == "delegate" and yields:
            yield from Frame(walk, *what, of=self.of).run()

    def next(self) -> None:
        self.resume(lambda: next(self.going, None))

    def close(self) -> None:
        self.resume(self.going.close)

    def throw(self) -> None:
        if self.begun and not self.over:
            try:
                self.resume(lambda: self.going.throw(trees.Oops()))
            except StopIteration:
                self.walk.note("handled")
            except trees.Oops:
                self.walk.note("handled")
                raise

    def resume(self, go: Callable[[], Any]) -> None:
        stack = self.walk.stack
        base = len(stack)
        stack.extend(self.suspended)
        self.running = True
        try:
            go()
        finally:
            self.running = False
            self.suspended = stack[base:]
            del stack[base:]


def told(walk: Walk, traced: set[str], return_to: bool) -> list[tuple[str, str]]:
    """The messages of a walk: a return_to for each reported call that ends, one for all that an exception ends."""
    messages = []
    where = ""
    left: int | None = None  # the depth of the frame that an exception has reached
    for what, name, depth, below in walk.log:
        if left is not None and what == "handled":
            messages.append(("return_to", where))
            left = None
        if what == "call" and name in traced:
            messages.append(("call", name))
        elif what == "return" and name in traced and return_to:
            messages.append(("return_to", below))
        elif what == "unwind" and ((name in traced and return_to) or left == depth):
            left, where = depth - 1, below
    return messages if left is None else [*messages, ("return_to", where)]


COUNTERS = ("call_count", "call_time", "call_memory", "call_latency")
wanted = st.fixed_dictionaries({
    "patterns": st.dictionaries(
        st.sampled_from(trees.NAMES), st.sets(st.sampled_from((*COUNTERS, "local", "meta")), min_size=1), max_size=6
    ),
    "flags": st.one_of(
        st.just({"call", "return_to"}), st.sets(st.sampled_from(("call", "return_to", "arity", "silent", "timestamp")))
    ),
})  # fmt: skip


def begin(session: trace.Session, want: Any, procs: Any) -> None:
    for name, kinds in want["patterns"].items():
        assert session.function((TREES, name, 3), True, sorted(kinds)) == 1
    session.process(procs, True, sorted(want["flags"]))


def check_counters(session: trace.Session, want: Any, walk: Walk, pids: list[inviso.Pid], limit: float) -> None:
    """Each counter against the walk; each of these processes has run it."""
    flagged = "call" in want["flags"]
    seconds = 0.0
    for name, kinds in want["patterns"].items():
        calls = walk.calls[name]
        values = dict(session.info((TREES, name, 3), "all")[1])
        assert values["call_count"] == (calls * len(pids) if "call_count" in kinds else False), name
        per_process = sorted((pid, calls) for pid in pids) if flagged and calls else []
        for kind in ("call_time", "call_memory"):
            if kind in kinds:
                # rows without calls: see test_a_task_that_never_began_has_no_time
                assert sorted((row[0], row[1]) for row in values[kind] if row[1]) == per_process, (name, kind)
            else:
                assert values[kind] is False
        if "call_time" in kinds:
            seconds += sum(s + us / 1e6 for _, _, s, us in values["call_time"])
        if "call_latency" in kinds and name in trees.PLAIN:
            assert values["call_latency"]["count"] == calls * len(pids), name
    assert seconds <= limit * len(pids)


def check_messages(session: trace.Session, want: Any, walk: Walk) -> None:
    """The messages of one process against the walk; those of meta tracing apart from the others."""
    flags = want["flags"]
    sent = session.drain()
    assert session.info("session", "dropped") == ("dropped", 0)
    local = {name for name, kinds in want["patterns"].items() if "local" in kinds}
    meta = {name for name, kinds in want["patterns"].items() if "meta" in kinds}
    if "call" not in flags or "silent" in flags:
        local = set()
    assert all(m[0] == ("trace_ts" if len(m) == 5 else "trace") for m in sent)
    got = [(str(m[2]), m[3][1]) for m in sent]
    if not meta:
        assert got == told(walk, local, "return_to" in flags)
        for message in sent:
            third = message[3][2]
            assert (third == 3) if message[2] == "return_to" or "arity" in flags else (third[1] == message[3][1])
            assert (len(message) == 5) == ("timestamp" in flags)
    elif not local:
        assert got == told(walk, meta, False)
    else:
        both = told(walk, local, "return_to" in flags) + told(walk, meta, False)
        assert sorted(got) == sorted(both)


@examples(40)
@given(programs(), st.lists(wanted, min_size=1, max_size=3))
def test_programs_are_counted_and_told(program: Any, wants: list[Any]) -> None:
    walk = Walk(program)
    run = trees.Run()
    with ExitStack() as stack:
        sessions = [stack.enter_context(trace.session_create("tree")) for _ in wants]
        for session, want in zip(sessions, wants, strict=True):
            begin(session, want, inviso.self())
        start = time.perf_counter()
        trees.root(run, *program)
        limit = time.perf_counter() - start
        assert run.entered == {name: walk.calls[name] for name in trees.NAMES}, "the walk is wrong"
        for session, want in zip(sessions, wants, strict=True):
            check_counters(session, want, walk, [inviso.self()], limit)
            check_messages(session, want, walk)


def test_an_exception_through_a_generator_goes_to_the_handler() -> None:
    run = trees.Run()
    program = ("plain_a", (("make", "generator_a", (("call", "plain_b", (("raise",),)),)), ("next", 0)))
    with trace.session_create("tree") as session:
        begin(session, {"patterns": {"plain_b": {"local"}}, "flags": {"call", "return_to"}}, inviso.self())
        trees.root(run, *program)
        assert [(m[2], m[3][1]) for m in session.drain()] == [("call", "plain_b"), ("return_to", "root")]


def test_an_exception_thrown_through_delegating_generators_goes_to_the_handler() -> None:
    run = trees.Run()
    steps = (("make", "generator_a", (("delegate", "generator_b", (("yield",),)),)), ("next", 0), ("throw", 0))
    with trace.session_create("tree") as session:
        begin(session, {"patterns": {"generator_b": {"local"}}, "flags": {"call", "return_to"}}, inviso.self())
        trees.root(run, "plain_a", steps)
        assert session.drain()[1][3][1] != "generator_a"


def test_nothing_is_told_of_generators_that_are_closed() -> None:
    run = trees.Run()
    inner = ("delegate", "generator_c", (("delegate", "generator_c", (("yield",),)),))
    steps = (
        ("make", "generator_a", (inner,)),
        ("call", "plain_c", (("catch", "plain_d", (("next", 0), ("close", 0))),)),
    )
    with trace.session_create("tree") as session:
        want = {"patterns": {"plain_a": {"call_time"}, "generator_c": {"local"}}, "flags": {"call", "return_to"}}
        begin(session, want, inviso.self())
        trees.root(run, "plain_a", steps)
        assert [(m[2], m[3][1]) for m in session.drain()] == [("call", "generator_c")] * 2


@examples(15)
@given(programs(), wanted)
def test_programs_in_threads_are_counted_for_each(program: Any, want: Any) -> None:
    walk = Walk(program)
    want["patterns"] = {name: kinds - {"meta"} or {"local"} for name, kinds in want["patterns"].items()}
    pids: list[inviso.Pid] = []
    with trace.session_create("trees") as session:
        begin(session, want, "all")
        start = time.perf_counter()
        in_threads(3, lambda n: pids.append(inviso.self()) or trees.root(trees.Run(), *program))
        check_counters(session, want, walk, pids, time.perf_counter() - start)
        local = {name for name, kinds in want["patterns"].items() if "local" in kinds}
        if "call" not in want["flags"] or "silent" in want["flags"]:
            local = set()
        sent = session.drain()
        for pid in pids:
            own = [(str(m[2]), m[3][1]) for m in sent if m[1] == pid]
            assert own == told(walk, local, "return_to" in want["flags"])


# sessions that come, change and go

LADDER = ("bottom", "middle", "top")
FLAGS = ("call", "return_to", "arity", "silent", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp")
HERE = "climb"


def climb(name: str) -> inviso.Pid:
    """Calls a function of the ladder."""
    getattr(ladder, name)(1)
    return inviso.self()


class Pattern:
    """The patterns of one function in one session."""

    def __init__(self) -> None:
        self.traced: Any = False
        self.meta = False
        self.counters: dict[str, Counter[Any]] = {}
        self.paused: set[str] = set()

    def set(self, how: Any, kinds: set[str]) -> None:
        if how is True:
            if kinds == {"global"}:
                self.__init__()  # type: ignore[misc]
                self.traced = "global"
                return
            if self.traced == "global":
                self.traced = False
            for kind in kinds:
                if kind == "local":
                    self.traced = "local"
                elif kind == "meta":
                    self.meta = True
                else:
                    self.counters[kind] = Counter()
                    self.paused.discard(kind)
        elif how is False:
            for kind in kinds:
                if kind == self.traced:
                    self.traced = False
                elif kind == "meta":
                    self.meta = False
                self.counters.pop(kind, None)
                self.paused.discard(kind)
        else:
            for kind in kinds & set(self.counters):
                if how == "pause":
                    self.paused.add(kind)
                else:
                    self.counters[kind] = Counter()
                    self.paused.discard(kind)

    def called(self, pid: inviso.Pid, flags: set[str]) -> None:
        for kind, counter in self.counters.items():
            if kind not in self.paused and ("call" in flags or kind in ("call_count", "call_latency")):
                counter[pid] += 1

    def value(self, kind: str) -> Any:
        """The counter as ``info`` returns it, without times and sizes."""
        counter = self.counters.get(kind)
        if counter is None:
            return False
        if kind in ("call_count", "call_latency"):
            return counter.total()
        return sorted(counter.items())

    def is_set(self) -> bool:
        return bool(self.traced or self.meta or self.counters)


class Model:
    """A session: its patterns, and the flags of this process and of new ones."""

    def __init__(self) -> None:
        self.patterns = {name: Pattern() for name in LADDER}
        self.mine: set[str] = set()
        self.new: set[str] = set()

    def called(self, pid: inviso.Pid, flags: set[str], first: str) -> list[Any]:
        """Counts a call of the ladder's function ``first``; returns its messages, sorted."""
        down = LADDER[: LADDER.index(first) + 1][::-1]
        messages = []
        stamped = any(flag.endswith("timestamp") for flag in flags)
        for place, name in enumerate(down):
            pattern = self.patterns[name]
            pattern.called(pid, flags)
            if pattern.meta:
                messages.append(("trace_ts", "call", name, "[1]"))
            tells = pattern.traced == "local" or (pattern.traced == "global" and place == 0)
            if tells and "call" in flags and "silent" not in flags:
                tag = "trace_ts" if stamped else "trace"
                messages.append((tag, "call", name, "1" if "arity" in flags else "[1]"))
                if pattern.traced == "local" and "return_to" in flags:
                    messages.append((tag, "return_to", down[place - 1] if place else HERE, "1"))
        return sorted(messages)


class Sessions(RuleBasedStateMachine):
    """Sessions beside each other, each compared with its model."""

    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[trace.Session, Model] = {}

    @initialize(target=sessions, kinds=st.sampled_from(({"local"}, {"local", "call_time"}, {"global"})))
    def begin(self, kinds: set[str]) -> trace.Session:
        session = self.create()
        self.function(session, "_", True, kinds)
        self.process(session, "me", True, {"call", "return_to"})
        return session

    @precondition(lambda self: len(self.models) < 4)
    @rule(target=sessions)
    def another(self) -> trace.Session:
        return self.create()

    def create(self) -> trace.Session:
        session = trace.session_create(f"number {len(self.models)}")
        self.models[session] = Model()
        return session

    @precondition(lambda self: len(self.models) > 1)
    @rule(session=consumes(sessions))
    def destroy(self, session: trace.Session) -> None:
        assert session.destroy() is True
        assert session.destroy() is False
        del self.models[session]
        with pytest.raises(inviso.BadArg):
            session.info(inviso.self(), "flags")

    @rule(
        session=sessions,
        name=st.sampled_from((*LADDER, "_")),
        how=st.sampled_from((True, True, True, False, "pause", "restart", "restart")),
        kinds=st.one_of(
            st.sets(st.sampled_from((*COUNTERS, "local", "meta")), min_size=1, max_size=4),
            st.sets(st.sampled_from(COUNTERS), min_size=1),
            st.just({"global"}),
        ),
    )
    def function(self, session: trace.Session, name: str, how: Any, kinds: set[str]) -> None:
        if isinstance(how, str):
            kinds = kinds & set(COUNTERS) or {"call_count"}
        matched = session.function((ladder.__name__, name, "_" if name == "_" else 1), how, sorted(kinds))
        assert matched >= 3 if name == "_" else matched == 1  # 3.14 has functions for annotations, too
        for each in LADDER if name == "_" else (name,):
            self.models[session].patterns[each].set(how, kinds)
        self.call("top", False)
        if how is True and kinds & set(COUNTERS):
            self.function(session, name, "restart", {"call_count"})

    @rule(
        session=sessions,
        who=st.sampled_from(("me", "me", "all", "existing", "new")),
        on=st.sampled_from((True, True, False)),
        flags=st.one_of(st.just({"call", "return_to"}), st.sets(st.sampled_from(FLAGS))),
    )
    def process(self, session: trace.Session, who: str, on: bool, flags: set[str]) -> None:
        model = self.models[session]
        most = len(inviso.processes())  # a thread that was joined may be about to end
        matched = session.process(inviso.self() if who == "me" else who, on, sorted(flags))
        if who in ("me", "new"):
            assert matched == (who == "me")
        elif not flags:
            assert matched == 0  # of a group without any flag
        else:
            assert len(inviso.processes()) <= matched <= most
        if who != "new":
            model.mine = model.mine | flags if on else model.mine - flags
        if who in ("new", "all"):
            # to switch one off for new ones switches all off, as in OTP
            model.new = model.new | flags if on else set() if flags else model.new
        self.call("top", who == "new")

    @rule(name=st.sampled_from(LADDER), in_thread=st.booleans())
    def call(self, name: str, in_thread: bool) -> None:
        pids: list[inviso.Pid] = []
        if in_thread:
            in_threads(1, lambda n: pids.append(climb(name)))
        else:
            pids.append(climb(name))
        for session, model in self.models.items():
            expected = model.called(pids[0], model.new if in_thread else model.mine, name)
            sent = session.drain()
            assert {m[1] for m in sent} <= set(pids)
            assert sorted((str(m[0]), str(m[2]), m[3][1], str(m[3][2])) for m in sent) == expected

    @rule()
    def look(self) -> None:
        me = inviso.self()
        every = trace.session_info("all")
        assert set(self.models) <= set(every)
        for session, model in self.models.items():
            assert session.info(me, "flags")[1] == [flag for flag in FLAGS if flag in model.mine]
            assert session.info("new", "flags")[1] == [flag for flag in FLAGS if flag in model.new]
            for name, pattern in model.patterns.items():
                value = session.info((ladder.__name__, name, 1), "all")[1]
                if not pattern.is_set():
                    assert value is False
                    continue
                items = dict(value)
                assert (items["traced"], items["meta"] is not False) == (pattern.traced, pattern.meta)
                assert items["match_spec"] == ([] if pattern.traced else False)
                assert items["meta_match_spec"] == ([] if pattern.meta else False)
                for kind in COUNTERS:
                    assert plain(items.get(kind, False)) == pattern.value(kind), (name, kind)
        assert set(trace.session_info(me)) & set(self.models) == {s for s, m in self.models.items() if m.mine}
        for name in LADDER:
            affected = {s for s, m in self.models.items() if m.patterns[name].is_set()}
            assert set(trace.session_info((ladder.__name__, name, 1))) & set(self.models) == affected

    def teardown(self) -> None:
        self.look()
        for session in self.models:
            session.destroy()


def plain(value: Any) -> Any:
    """A counter's value without times, sizes and distributions."""
    if isinstance(value, dict):
        return value["count"]
    return sorted(row[:2] for row in value) if isinstance(value, list) else value


TestSessions = Sessions.TestCase
TestSessions.settings = settings(examples(15), stateful_step_count=25)


# arguments

LIMITS = {"depth": 8, "items": 100, "bytes": 1024}


class Thing:
    """Something that is not copied."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("tracing runs no code of the program")

    __hash__ = object.__hash__
    __repr__ = __bool__ = __len__ = __iter__ = __getattr__ = __eq__  # type: ignore[assignment]


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.IntEnum):
    RED = 1
    LARGE = 1 << 70


class Text(str):
    __slots__ = ()


def long_text(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    times = st.sampled_from((0, 1, 2, 150, 400))
    return st.builds(lambda piece, times: piece * times, st.text(alphabet, max_size=8), times)


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


hashable = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(1 << 9000), 1 << 9000), st.floats(),
    long_text(st.characters()), long_text(st.characters(categories=["Cs", "Ll"])), st.binary(max_size=20),
    st.binary(max_size=3).map(lambda b: b * 600), st.sampled_from(Colour), st.text().map(Text),
    st.sampled_from(("ok", "", "a b")).map(inviso.Atom), st.builds(Thing), st.builds(inviso.self),
)  # fmt: skip
values = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.lists(inner, max_size=5).map(tuple), st.builds(Pair, inner, inner),
        st.dictionaries(hashable, inner, max_size=5), st.dictionaries(hashable, inner, max_size=3).map(OrderedDict),
        st.sets(hashable, max_size=5), st.frozensets(hashable, max_size=5),
        st.builds(lambda item, times: [item] * times, hashable, st.sampled_from((99, 100, 101, 300))),
        st.builds(lambda item, times: (item,) * times, hashable, st.sampled_from((100, 101))),
        st.builds(lambda size: dict.fromkeys(range(size)), st.sampled_from((100, 101, 130))),
        st.builds(lambda size: set(range(size)), st.sampled_from((100, 101))),
        st.builds(nested, inner, st.integers(1, 9)),
    ),
    max_leaves=12,
)  # fmt: skip


def snapshot(value: Any, depth: int = LIMITS["depth"]) -> Any:
    """The captured form of an argument, as docs/limits.md describes it."""
    if isinstance(value, (type(None), bool, float, inviso.Atom, inviso.Pid)):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() // 8 + 1 <= LIMITS["bytes"] else inviso.Cut("bytes")
    if isinstance(value, str):
        return text_snapshot(str.__str__(value))
    if isinstance(value, bytes):
        most = LIMITS["bytes"]
        return value if len(value) <= most else [value[:most], inviso.Cut("bytes")]
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return inviso.Cut("depth") if depth == 0 else container_snapshot(value, depth - 1)
    return inviso.Opaque(f"{type(value).__module__}.{type(value).__qualname__}", id(value))


def text_snapshot(text: str) -> Any:
    taken, size = "", 0
    for character in text:
        size += len(character.encode(errors="surrogatepass"))
        if size > LIMITS["bytes"]:
            return [readable(taken), inviso.Cut("bytes")]
        taken += character
    return readable(text)


def readable(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def container_snapshot(value: Any, depth: int) -> Any:
    most = LIMITS["items"]
    taken = list(itertools.islice(value, most))
    left = len(value) - len(taken)
    if isinstance(value, dict):
        pairs = [(snapshot(key, depth), snapshot(value[key], depth)) for key in taken]
        pairs += [(inviso.Cut("items"), left)] if left else []
        try:
            return dict(pairs) if len(dict(pairs)) == len(pairs) else inviso.Map(pairs)
        except TypeError:
            return inviso.Map(pairs)
    items = [snapshot(item, depth) for item in taken] + ([inviso.Cut("items")] if left else [])
    if isinstance(value, (set, frozenset)):
        try:
            return frozenset(items) if len(frozenset(items)) == len(items) else items
        except TypeError:
            return items
    return tuple(items) if isinstance(value, tuple) else items


def exact(value: Any) -> Any:
    """A form of a snapshot that distinguishes 1 from 1.0 and True, 0.0 from -0.0, and the order of a dict."""
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [exact(item) for item in value]
    if isinstance(value, (dict, inviso.Map)):
        pairs = value.items() if isinstance(value, dict) else value.pairs
        return type(value).__name__, [(exact(key), exact(item)) for key, item in pairs]
    if isinstance(value, frozenset):
        return "frozenset", sorted((exact(item) for item in value), key=repr)
    return type(value).__name__, value


def told_of(*arguments: Any, **capture: int) -> list[Any]:
    """The arguments of a call as its message has them."""
    with trace.session_create("arguments", None, {"capture": capture or None}) as session:
        session.function((__name__, "takes", 2), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        takes(*arguments)
        (message,) = session.drain()
    return message[3][2]  # type: ignore[no-any-return]


def takes(first: Any, second: Any) -> None:
    pass


@examples(60)
@given(values, values)
def test_arguments_arrive_as_they_were(first: Any, second: Any) -> None:
    expected = [snapshot(first), snapshot(second)]
    large = len(repr(expected).encode(errors="replace")) > 15_000  # there may be no room
    for value, got in zip(expected, told_of(first, second, total=60_000), strict=True):
        assert exact(got) == exact(value) or (large and got == inviso.Cut("bytes"))


@examples(100)
@given(values, values)
def test_arguments_beyond_the_room_of_a_call_are_cut_as_a_whole(first: Any, second: Any) -> None:
    got = told_of(first, second, total=256)
    if got == inviso.Cut("arguments"):  # no space even to note that each was cut
        return
    for value, arrived in zip((first, second), got, strict=True):
        assert arrived == inviso.Cut("bytes") or exact(arrived) == exact(snapshot(value))
    if all(isinstance(value, (bool, float, type(None))) for value in (first, second)):
        assert inviso.Cut("bytes") not in got


# rings that are too small


@examples(25)
@given(
    overflow=st.sampled_from(("drop", "overwrite")),
    ring_bytes=st.sampled_from((1, 1 << 12, 1 << 14, 50_000)),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("call"), st.integers(1, 400), st.sampled_from((0, 1, 40, 900))),
            st.tuples(st.just("receive"), st.integers(1, 30), st.none()),
            st.tuples(st.just("drain"), st.none(), st.none()),
        ),
        max_size=12,
    ),
)
def test_what_a_ring_gives_and_what_it_lost_is_all(overflow: str, ring_bytes: int, steps: Any) -> None:
    produced = position = lost = 0

    def read(message: Any) -> None:
        nonlocal position, lost
        if message[0] == "drop":
            assert message[1] > 0
            position += message[1]
            lost += message[1]
        else:
            number, text = message[3][2]
            assert (number, len(text)) == (position, sizes[position])
            position += 1

    sizes: list[int] = []
    with trace.session_create("ring", None, {"ring_bytes": ring_bytes, "overflow": overflow}) as session:
        session.function((__name__, "takes", 2), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for what, number, size in (*steps, ("drain", None, None)):
            if what == "call":
                for _ in range(number):
                    sizes.append(size)
                    takes(produced, "x" * size)
                    produced += 1
            elif what == "receive":
                with suppress(TimeoutError):
                    for _ in range(number):
                        read(session.receive(0))
            else:
                for message in session.drain():
                    read(message)
        assert position == produced
        assert session.info("session", "dropped") == ("dropped", lost)


# tasks


async def node(plan: Any, tally: Counter[Any], tasks: dict[Any, inviso.Pid]) -> None:
    me = inviso.self()
    assert tasks.setdefault(asyncio.current_task(), me) == me
    tally[me, "node"] += 1
    for kind, what in plan:
        if kind == "work":
            for _ in range(what):
                tally[me, "work"] += 1
                work()
        elif kind == "sleep":
            for _ in range(what):
                await asyncio.sleep(0)
        elif kind == "fail":
            raise trees.Oops
        elif kind == "await":
            await node(what, tally, tasks)
        elif kind == "gather":
            await asyncio.gather(*(node(child, tally, tasks) for child in what), return_exceptions=True)
        elif kind == "group":
            try:
                async with asyncio.TaskGroup() as group:
                    for child in what:
                        group.create_task(node(child, tally, tasks))
            except* trees.Oops:
                pass
        else:
            child = asyncio.create_task(node(what, tally, tasks))
            await asyncio.sleep(0)
            child.cancel()
            await asyncio.gather(child, return_exceptions=True)
        assert inviso.self() == me


def work() -> None:
    pass


plans = st.recursive(
    st.lists(
        st.one_of(
            st.tuples(st.just("work"), st.integers(1, 3)), st.tuples(st.just("sleep"), st.integers(1, 3)),
            st.just(("fail", None)),
        ),
        max_size=4,
    ),
    lambda inner: st.lists(
        st.one_of(
            st.tuples(st.just("work"), st.integers(1, 3)),
            st.tuples(st.sampled_from(("gather", "group")), st.lists(inner, max_size=4)),
            st.tuples(st.sampled_from(("await", "cancel")), inner),
        ),
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


def test_a_task_that_never_began_has_no_time() -> None:
    async def main() -> None:
        task = asyncio.create_task(node([], Counter(), {}))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with trace.session_create("tasks") as session:
        session.process("all", True, ["call"])
        session.function((__name__, "node", 3), True, ["call_time"])
        asyncio.run(main())
        assert session.info((__name__, "node", 3), "call_time") == ("call_time", [])


@examples(20)
@given(plans, st.booleans())
def test_tasks_are_counted_each_for_itself(plan: Any, eager: bool) -> None:
    async def main() -> None:
        if eager and sys.version_info >= (3, 12):
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(node(plan, tally, tasks), node(plan, tally, tasks), return_exceptions=True)

    tally: Counter[Any] = Counter()
    tasks: dict[Any, inviso.Pid] = {}
    with trace.session_create("tasks") as session:
        session.process("all", True, ["call", "return_to"])
        for name, arity in (("node", 3), ("work", 0)):
            session.function((__name__, name, arity), True, ["call_count", "call_time", "local"])
        start = time.perf_counter()
        asyncio.run(main())
        limit = time.perf_counter() - start
        assert len(set(tasks.values())) == len(tasks)
        sent = [(m[1], m[3][1]) for m in session.drain() if m[2] == "call"]
        assert Counter(sent) == tally
        seconds = 0.0
        for name, arity in (("node", 3), ("work", 0)):
            expected = {pid: calls for (pid, of), calls in tally.items() if of == name}
            rows = session.info((__name__, name, arity), "call_time")[1]
            assert {row[0]: row[1] for row in rows if row[1]} == expected
            assert session.info((__name__, name, arity), "call_count")[1] == sum(expected.values())
            seconds += sum(row[2] + row[3] / 1e6 for row in rows)
        assert seconds <= limit
