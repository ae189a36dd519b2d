"""``inviso.tprof`` as a library: measurements, their windows, and their display."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import inviso
import pytest
from inviso import tprof
from inviso.tprof import Calls, Function, Profile, Profiler


def leaf(n: int) -> int:
    return n + 1


def twice(n: int) -> int:
    return sum(leaf(i) for i in range(n))


class Shop:
    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self, item: int, *rest: int, note: str = "") -> int:
        self.items.append(item)
        return len(rest)

    @property
    def total(self) -> int:
        return sum(self.items)

    @total.setter
    def total(self, value: int) -> None:
        self.items = [value]


HERE = __name__


@pytest.fixture(autouse=True)
def nothing_is_left_over() -> Iterator[None]:
    yield
    tprof.stop()


def counts(profile: Profile) -> dict[str, int]:
    return {f.function: f.calls for f in profile.functions}


# profile


def test_profile_counts_and_hands_on_the_result() -> None:
    p = tprof.profile(twice, 5, pattern=HERE)
    assert p.result == 15
    assert counts(p) == {"twice": 1, "leaf": 5, "twice.<locals>.<genexpr>": 1}
    assert p.type == "call_count" and p.unit == "calls" and p.calls == p.measurement == 7
    assert p.patterns == ((HERE, "_", "_"),)
    assert p.elapsed_ns > 0 and not p.timed_out
    assert [c.process for f in p.functions for c in f.processes] == [None, None, None]


def test_profile_knows_names_arities_and_lines() -> None:
    def use() -> int:
        shop = Shop()
        shop.add(1, 2, 3, note="x")
        shop.total = 5
        return shop.total

    p = tprof.profile(use, pattern=[f"{HERE}:Shop.add:_", (HERE, "Shop.total", "_"), (HERE, "Shop.__init__", 1)])
    assert p.result == 5
    add = p[f"{HERE}:Shop.add/4"]
    assert add.mfa == (HERE, "Shop.add", 4) and add.filename == __file__
    assert add.line == Shop.add.__code__.co_firstlineno
    assert p[f"{HERE}:Shop.total/1"].calls == 1 and p[f"{HERE}:Shop.total/2"].calls == 1
    with pytest.raises(KeyError, match="2 functions of this name"):
        p[f"{HERE}:Shop.total"]
    with pytest.raises(KeyError, match="0 functions of this name"):
        p["nothing"]


def test_one_name_many_functions_are_told_apart_by_line() -> None:
    first, second = lambda: None, lambda: None
    made = eval("lambda: 1", {"__name__": HERE}), eval("\nlambda: 2", {"__name__": HERE})

    def use() -> None:
        for f, n in zip(made, (2, 3), strict=True):
            for _ in range(n):
                f()
        first()
        second()

    p = tprof.profile(use, pattern=(HERE, "<lambda>", 0))
    assert [(f.line, f.calls) for f in p.functions] == [(1, 2), (2, 3)]
    assert [r.label for r in tprof.inspect(p)["all"].rows] == [f"{HERE}:<lambda>/0 (line {n})" for n in (1, 2)]


def test_every_function_is_the_default_and_the_profiler_is_not_among_them() -> None:
    p = tprof.profile(json.loads, "[1, 2]")
    assert {"loads", "JSONDecoder.decode", "JSONDecoder.raw_decode"} == set(counts(p))


def test_profile_of_time_is_per_process_and_own() -> None:
    def outer() -> None:
        thread = threading.Thread(target=twice, args=(3,), name="counted")
        thread.start()
        thread.join()
        twice(4)

    p = tprof.profile(outer, type="call_time", pattern=HERE)
    assert p.unit == "ns"
    by_name = {c.process.name: c for c in p[f"{HERE}:leaf/1"].processes if c.process is not None}
    assert by_name["counted"].calls == 3
    assert sum(c.calls for c in by_name.values()) == 7
    assert p.measurement <= p.elapsed_ns * 1.02
    assert all(c.measurement > 0 for c in by_name.values())


def test_set_on_spawn_off_leaves_new_processes_out() -> None:
    def outer() -> None:
        thread = threading.Thread(target=twice, args=(3,))
        thread.start()
        thread.join()
        leaf(1)

    p = tprof.profile(outer, type="call_time", pattern=HERE, set_on_spawn=False)
    assert p[f"{HERE}:leaf/1"].calls == 1
    assert f"{HERE}:twice/1" not in [f"{f.module}:{f.function}/{f.arity}" for f in p.functions]


def test_other_processes_are_measured_only_if_named() -> None:
    go, done, end = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        while True:
            go.wait()
            go.clear()
            if end.is_set():
                return
            leaf(1)
            done.set()

    def let_it() -> None:
        done.clear()
        go.set()
        done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    try:
        let_it()
        assert f"{HERE}:leaf/1" not in tprof.profile(let_it, type="call_time", pattern=(HERE, "leaf", "_")).to_json()
        for rootset in (thread, inviso.pid(thread), [thread], "all", "existing"):
            p = tprof.profile(let_it, type="call_time", pattern=(HERE, "leaf", "_"), rootset=rootset)
            assert p[f"{HERE}:leaf/1"].calls == 1, rootset
    finally:
        end.set()
        go.set()
        thread.join()


def test_profile_of_memory_counts_words() -> None:
    def make() -> list[bytes]:
        return [bytes(1000) for _ in range(10)]

    make()
    p = tprof.profile(make, type="call_memory", pattern=HERE)
    assert p.unit == "words"
    assert p.measurement >= 10 * 1000 / 8
    assert p.measurement < 10 * 1000 / 8 * 1.5


def test_a_coroutine_function_is_run() -> None:
    async def step(n: int) -> int:
        await asyncio.sleep(0)
        return leaf(n)

    async def both() -> list[int]:
        return list(await asyncio.gather(step(1), step(2)))

    p = tprof.profile(both, pattern=HERE)
    assert p.result == [2, 3]
    assert counts(p)["leaf"] == 2

    async def inside() -> None:
        tprof.profile(both)

    with pytest.raises(inviso.BadArg, match="running event loop"):
        asyncio.run(inside())


@pytest.mark.parametrize("type", ["call_time", "call_memory"])
@pytest.mark.parametrize("tree", [False, True])
def test_what_tasks_do_after_their_end_counts_as_well(type: Any, tree: bool) -> None:
    async def work() -> None:
        leaf(1)
        await asyncio.sleep(0)

    async def main() -> None:
        for _ in range(5):
            await asyncio.gather(*(asyncio.create_task(work()) for _ in range(20)))

    def of_asyncio(profile: Profile) -> dict[str, int]:
        loops = (f for f in profile.functions if f.module in ("asyncio.base_events", "asyncio.events", "asyncio.tasks"))
        return {f.function: f.calls for f in loops if f.function != "BaseEventLoop.__del__"}

    asyncio.run(main())  # imports and objects of the first run
    gc.collect()
    gc.disable()  # a loop of another test would call functions when it is collected
    try:
        profile = tprof.profile(main, type=type, tree=tree)
        assert of_asyncio(profile) == of_asyncio(tprof.profile(main))
    finally:
        gc.enable()
    # a task informs its waiter after its coroutine has returned
    [leaves] = [f for f in profile.functions if f.function == "leaf"]
    [told] = [f for f in profile.functions if f.function == "BaseEventLoop.call_soon"]
    tasks = {each.process for each in leaves.processes}
    assert len(tasks) == 100
    assert {each.process: each.calls for each in told.processes if each.process in tasks} == dict.fromkeys(tasks, 2)


def test_what_is_defined_or_imported_later_counts_but_only_if_it_matches() -> None:
    def define() -> None:
        namespace: dict[str, Any] = {"__name__": "made_up"}
        exec("def f(): pass\ndef g(): pass", namespace)
        namespace["f"]()
        namespace["g"]()
        other: dict[str, Any] = {"__name__": "other"}
        exec("def f(): pass", other)
        other["f"]()

    assert counts(tprof.profile(define, pattern="made_up:f:0")) == {"f": 1}
    assert counts(tprof.profile(define, pattern="made_up")) == {"<module>": 1, "f": 1, "g": 1}


def test_an_exception_goes_through_and_the_session_ends() -> None:
    before = inviso.trace.session_info("all") if hasattr(inviso.trace, "session_info") else []
    with pytest.raises(ZeroDivisionError):
        tprof.profile(lambda: 1 // 0, pattern=HERE)
    with pytest.raises(ZeroDivisionError):
        tprof.profile(lambda: 1 // 0, pattern=HERE, timeout=60)
    after = inviso.trace.session_info("all") if hasattr(inviso.trace, "session_info") else []
    assert len(before or []) == len(after or [])


def test_a_call_within_its_time_limit() -> None:
    p = tprof.profile(twice, 5, pattern=HERE, timeout=60)
    assert p.result == 15 and not p.timed_out
    assert counts(p) == {"twice": 1, "leaf": 5, "twice.<locals>.<genexpr>": 1}
    p = tprof.profile(twice, 5, type="call_time", pattern=HERE, timeout=60)
    assert [c.process.name for c in p[f"{HERE}:leaf/1"].processes if c.process is not None] == ["tprof"]


def test_a_call_that_exceeds_its_time_limit() -> None:
    end, ended = threading.Event(), threading.Event()

    def slow() -> str:
        leaf(1)
        end.wait()
        ended.set()
        return "late"

    p = tprof.profile(slow, pattern=(HERE, "leaf", 1), timeout=2.0)
    assert p.timed_out and p.result is None
    assert counts(p) == {"leaf": 1}
    assert p.to_dict()["timed_out"] is True
    end.set()
    assert ended.wait(30)


def test_reports_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tprof.profile(twice, 2, pattern=HERE)
    assert capsys.readouterr() == ("", "")
    p = tprof.profile(twice, 2, pattern=HERE, report="total", sort="function")
    assert capsys.readouterr().out == str(p)
    file = io.StringIO()
    p = tprof.profile(twice, 2, type="call_time", pattern=HERE, report="process", file=file)
    assert file.getvalue() == str(p) and file.getvalue().startswith("****** Process <")
    p = tprof.profile(twice, 2, type="call_time", pattern=HERE, per_process=True)
    assert str(p).startswith("****** Process <")


# Profiler and the module's own


def test_windows_add_up() -> None:
    with Profiler() as profiler:
        profiler.set_pattern(HERE, "leaf", 1)
        leaf(1)
        assert profiler.pause() and not profiler.pause() and profiler.paused
        leaf(2)
        assert counts(profiler.collect()) == {"leaf": 1}
        frozen = profiler.collect().elapsed_ns
        assert profiler.collect().elapsed_ns == frozen
        assert profiler.continue_() and not profiler.continue_() and not profiler.paused
        leaf(3)
        leaf(4)
        assert counts(profiler.collect()) == {"leaf": 3}
        profiler.pause()
        profiler.continue_()
        assert counts(profiler.collect()) == {"leaf": 3}
        profiler.restart()
        assert counts(profiler.collect()) == {}
        leaf(5)
        profiler.pause()
        profiler.restart()
        leaf(6)
        assert counts(profiler.collect()) == {"leaf": 1}


def test_windows_add_up_by_process_for_time() -> None:
    with Profiler(type="call_time") as profiler:
        profiler.enable_trace(inviso.self())
        profiler.set_pattern(HERE, "leaf", 1)
        leaf(1)
        first = profiler.collect()[f"{HERE}:leaf/1"]
        profiler.pause()
        profiler.continue_()
        leaf(1)
        both = profiler.collect()[f"{HERE}:leaf/1"]
    assert (first.calls, both.calls) == (1, 2)
    assert len(both.processes) == 1
    assert both.measurement > first.measurement > 0


def test_what_comes_to_be_during_a_pause_counts_only_after_it() -> None:
    namespace: dict[str, Any] = {"__name__": "made_up"}
    with Profiler() as profiler:
        profiler.set_pattern("made_up")
        profiler.pause()
        exec("def f(): pass", namespace)
        namespace["f"]()
        assert counts(profiler.collect()) == {}
        profiler.continue_()
        namespace["f"]()
        assert counts(profiler.collect()) == {"f": 1}


def test_a_pattern_that_is_set_during_a_pause_waits() -> None:
    with Profiler() as profiler:
        profiler.pause()
        assert profiler.set_pattern(HERE, "leaf") == 1
        leaf(1)
        assert counts(profiler.collect()) == {}
        profiler.continue_()
        leaf(1)
        assert counts(profiler.collect()) == {"leaf": 1}


def test_the_last_setting_of_a_pattern_decides() -> None:
    with Profiler() as profiler:
        assert profiler.set_pattern(HERE) > 5
        assert profiler.clear_pattern(HERE, "leaf") == 1
        twice(2)
        assert counts(profiler.collect()) == {"twice": 1, "twice.<locals>.<genexpr>": 1}
        profiler.pause()
        profiler.continue_()
        twice(2)
        assert "leaf" not in counts(profiler.collect()), "a cleared pattern stays cleared"
        profiler.set_pattern(HERE, "leaf")
        twice(2)
        assert counts(profiler.collect())["leaf"] == 2
        assert counts(profiler.collect())["twice"] == 3
        assert profiler.patterns == ((HERE, "_", "_"),), "the narrow pattern says nothing more"
        profiler.clear_pattern("_")
        twice(2)
        assert profiler.collect().functions == () and profiler.patterns == ()


def test_windows_add_up_over_what_is_defined_again() -> None:
    names: dict[str, Any] = {"__name__": "again"}
    define = "def f(x): return x"
    with Profiler() as profiler:
        exec(define, names)
        profiler.set_pattern("again", "_", "_")
        for _ in range(3):
            names["f"](1)
            exec(define, names)
            names["f"](2)
            profiler.pause()
            profiler.continue_()
        assert counts(profiler.collect())["f"] == 6


def test_setting_a_pattern_again_begins_at_zero() -> None:
    with Profiler() as profiler:
        profiler.set_pattern(HERE)
        twice(2)
        profiler.pause()
        profiler.continue_()
        profiler.set_pattern(HERE, "leaf")
        twice(3)
        assert counts(profiler.collect()) == {"twice": 2, "leaf": 3, "twice.<locals>.<genexpr>": 2}


def test_two_profilers_know_nothing_of_each_other() -> None:
    with Profiler() as one, Profiler() as two:
        one.set_pattern(HERE, "leaf")
        leaf(1)
        two.set_pattern(HERE, "leaf")
        leaf(1)
        one.pause()
        leaf(1)
        assert (one.collect().calls, two.collect().calls) == (2, 2)


def test_a_stopped_profiler_refuses_and_says_so() -> None:
    profiler = Profiler(type="call_memory")
    assert profiler.running and profiler.type == "call_memory"
    profiler.stop()
    profiler.stop()
    assert not profiler.running and "stopped" in repr(profiler)
    calls: list[Callable[[], Any]] = [
        profiler.pause,
        profiler.continue_,
        profiler.restart,
        profiler.collect,
        profiler.enable_trace,
        profiler.disable_trace,
        profiler.__enter__,
        lambda: profiler.set_pattern("_"),
        lambda: profiler.clear_pattern("_"),
    ]
    for call in calls:
        with pytest.raises(inviso.BadArg, match="it was stopped; make a new one"):
            call()


def test_the_modules_own_profiler() -> None:
    profiler = tprof.start(type="call_time")
    with pytest.raises(inviso.BadArg, match=r"tprof.start, profiler: the profiler runs already"):
        tprof.start()
    assert tprof.enable_trace(inviso.self()) == 1
    assert tprof.set_pattern(HERE, "leaf", 1) == 1
    leaf(1)
    assert tprof.pause() and tprof.continue_()
    leaf(1)
    assert tprof.collect().calls == profiler.collect().calls == 2
    assert tprof.disable_trace(inviso.self()) == 1
    leaf(1)
    assert tprof.collect().calls == 2, "earlier measurements stay, later calls are not measured"
    tprof.restart()
    assert tprof.collect().calls == 0
    assert tprof.clear_pattern([(HERE, "leaf", 1)]) == 1
    tprof.stop()
    for call in (tprof.collect, tprof.pause, tprof.continue_, tprof.restart, tprof.enable_trace, tprof.disable_trace):
        with pytest.raises(inviso.BadArg, match=r"no profiler is started; call tprof.start"):
            call()
    profiler = tprof.start()
    profiler.stop()
    assert tprof.start().running, "one that was stopped by its own method is not in the way"


# refused arguments

BAD_PATTERNS = {
    "number": (7, "7 is not a pattern"),
    "empty list": ([], "an empty list names no function"),
    "empty": ("", "lacks a module or a function name"),
    "two parts": (("m", "f"), "is not a pattern"),
    "no function": (("m", "", "_"), "lacks a module"),
    "not a string": (("m", None, "_"), "lacks a module"),
    "arity of any": (("m", "_", 1), "has an arity but any function"),
    "function of any": ("_:f", "has a function but any module"),
    "negative": (("m", "f", -1), "-1 in .* is not an arity"),
    "bool": (("m", "f", True), "True in .* is not an arity"),
    "text": ("m:f:x", "'x' in .* is not an arity"),
    "slash": ("m:f/x", "'x' in .* is not an arity"),
    "parts": ("a:b:1:2", "has 4 parts"),
    "inside a list": (["json", 5], "5 is not a pattern"),
}


@pytest.mark.parametrize("name", BAD_PATTERNS)
def test_wrong_patterns(name: str) -> None:
    pattern, text = BAD_PATTERNS[name]
    called: list[int] = []
    with pytest.raises(inviso.BadArg, match=rf"tprof.profile, pattern: .*{text}.*; "):
        tprof.profile(called.append, 1, pattern=pattern)  # type: ignore[arg-type]
    assert called == []
    with Profiler() as profiler:
        profiler.set_pattern(HERE)
        for change in (profiler.set_pattern, profiler.clear_pattern):
            with pytest.raises(inviso.BadArg, match=text):
                change(pattern)  # type: ignore[operator]
        assert profiler.patterns == ((HERE, "_", "_"),), "a refused call has changed nothing"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"type": "time"}, "tprof.profile, type: 'time' is not known; use one of 'call_count', 'call_time'"),
        ({"type": None}, "tprof.profile, type: None is not known"),
        ({"sort": "size"}, "tprof.profile, sort: 'size'"),
        ({"report": "all"}, "tprof.profile, report: 'all' is not known; use one of 'return', 'total', 'process'"),
        ({"timeout": 0}, "tprof.profile, timeout: 0 is not a time"),
        ({"timeout": "1"}, "tprof.profile, timeout: '1' is not a time"),
        ({"timeout": float("nan")}, "tprof.profile, timeout: nan is not a time"),
        ({"type": "call_time", "rootset": "some"}, "some"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    called: list[int] = []
    with pytest.raises(inviso.BadArg, match=text):
        tprof.profile(called.append, 1, **options)
    assert called == []


def test_other_refusals() -> None:
    with pytest.raises(inviso.BadArg, match=r"tprof.profile, fn: 5 can't be called"):
        tprof.profile(5)  # type: ignore[arg-type]
    with pytest.raises(inviso.BadArg, match=r"tprof.Profiler, type"):
        Profiler(type="x")  # type: ignore[arg-type]
    with pytest.raises(inviso.BadArg, match=r"tprof.start"):
        tprof.start(), tprof.start()
    with pytest.raises(inviso.BadArg, match=r"tprof.inspect, view: 'both'"):
        tprof.inspect(SAMPLE, "both")  # type: ignore[arg-type]
    with pytest.raises(inviso.BadArg, match=r"tprof.inspect, limit: 0 is not a number of rows"):
        tprof.inspect(SAMPLE, limit=0)
    with pytest.raises(inviso.BadArg, match=r"tprof.format.*give the options to inspect"):
        tprof.format(tprof.inspect(SAMPLE), sort="calls")


# inspect and format: on data made by hand


class Someone:
    """An object that looks like a Pid."""

    kind = "thread"

    def __init__(self, number: int, name: str | None) -> None:
        self.number, self.name = number, name

    def __repr__(self) -> str:
        return f"<0.{self.number}.0>"

    def __lt__(self, other: Someone) -> bool:
        return self.number < other.number


A: Any = Someone(1, "main")
B: Any = Someone(2, None)
SAMPLE = Profile(
    "call_time",
    (
        Function("shop", "Cart.add", 2, "/x/shop.py", 10, (Calls(A, 1, 3000), Calls(B, 2, 1000))),
        Function("shop", "<lambda>", 0, "/x/shop.py", 20, (Calls(A, 4, 500),)),
        Function("shop", "<lambda>", 0, "/x/shop.py", 30, (Calls(A, 1, 500),)),
        Function("bank", "pay", 1, "/x/bank.py", 5, (Calls(B, 10, 5000),)),
    ),
    (("_", "_", "_"),),
)


def test_inspect_total() -> None:
    tables = tprof.inspect(SAMPLE)
    assert list(tables) == ["all"]
    table = tables["all"]
    assert (table.calls, table.measurement, table.percent, table.hidden) == (18, 10000, 100.0, 0)
    assert [(r.label, r.calls, r.measurement, r.per_call, r.percent) for r in table.rows] == [
        ("shop:<lambda>/0 (line 20)", 4, 500, 125.0, 5.0),
        ("shop:<lambda>/0 (line 30)", 1, 500, 500.0, 5.0),
        ("shop:Cart.add/2", 3, 4000, 4000 / 3, 40.0),
        ("bank:pay/1", 10, 5000, 500.0, 50.0),
    ]


def test_inspect_by_process() -> None:
    tables = tprof.inspect(SAMPLE, "process")
    assert {p.name: (t.calls, t.measurement, t.percent) for p, t in tables.items()} == {
        "main": (6, 4000, 40.0),
        None: (12, 6000, 60.0),
    }
    assert [t.process for t in tables.values()] == [A, B], "the largest is last"
    assert [(r.label, r.percent) for r in tables[A].rows][-1] == ("shop:Cart.add/2", 75.0)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("measurement", ["lambda20", "lambda30", "add", "pay"]),
        ("measurement_per_call", ["lambda20", "pay", "lambda30", "add"]),
        ("calls", ["lambda30", "add", "lambda20", "pay"]),
        ("function", ["lambda20", "lambda30", "add", "pay"]),
        ("module", ["pay", "lambda20", "lambda30", "add"]),
    ],
)
def test_sort(sort: Any, order: list[str]) -> None:
    names = {10: "add", 20: "lambda20", 30: "lambda30", 5: "pay"}
    assert [names[r.line] for r in tprof.inspect(SAMPLE, sort=sort)["all"].rows] == order


def test_limit_keeps_the_largest_whatever_the_order() -> None:
    table = tprof.inspect(SAMPLE, sort="module", limit=2)["all"]
    assert [r.label for r in table.rows] == ["bank:pay/1", "shop:Cart.add/2"]
    assert (table.hidden, table.hidden_percent, table.measurement) == (2, 10.0, 10000)
    assert "(2 smaller rows not shown: 10.00%)\n" in tprof.format(SAMPLE, limit=2)
    assert "(1 smaller row not shown: 5.00%)\n" in tprof.format(SAMPLE, limit=3)
    assert tprof.inspect(SAMPLE, limit=4)["all"].hidden == 0


def test_format_of_each_type() -> None:
    assert tprof.format(SAMPLE) == (
        "FUNCTION                   CALLS  TIME (us)  PER CALL  [     %]\n"
        "shop:<lambda>/0 (line 20)      4       0.50      0.12  [  5.00]\n"
        "shop:<lambda>/0 (line 30)      1       0.50      0.50  [  5.00]\n"
        "shop:Cart.add/2                3       4.00      1.33  [ 40.00]\n"
        "bank:pay/1                    10       5.00      0.50  [ 50.00]\n"
        "total                         18      10.00      0.56  [100.00]\n"
    )
    memory = Profile("call_memory", SAMPLE.functions, ())  # in words, shown as bytes
    header = tprof.format(memory, sort="calls").splitlines()[0]
    assert header.split() == ["FUNCTION", "CALLS", "BYTES", "PER", "CALL", "[", "%]"]
    assert tprof.format(memory).splitlines()[-1].split() == ["total", "18", "80000", "4444.44", "[100.00]"]
    assert repr(memory).endswith(", 80,000 bytes>") and memory.to_dict()["unit"] == "words"
    count = Profile("call_count", (Function("m", "f", 0, "m.py", 1, (Calls(None, 2, 2),)),), ())
    assert tprof.format(count, "process") == (
        "FUNCTION  CALLS  [     %]\n"
        "m:f/0         2  [100.00]\n"
        "total         2  [100.00]\n"
    )  # fmt: skip


def test_format_by_process() -> None:
    text = tprof.format(SAMPLE, "process")
    first, second = text.split("\n\n")
    assert first.splitlines()[0] == f"****** Process {A!r} (main)  --  40.00% of total ******"
    assert second.splitlines()[0] == f"****** Process {B!r}  --  60.00% of total ******"
    assert tprof.format(tprof.inspect(SAMPLE, "process")) == text
    assert str(tprof.inspect(SAMPLE, "process")[B]) == second


def test_format_of_nothing_and_of_no_measure() -> None:
    assert tprof.format(Profile("call_time", (), (("m", "f", 2),))) == (
        "No call of a function that matches m:f:2 was measured.\n"
    )
    assert tprof.format(Profile("call_time", (), ())) == "Nothing was measured.\n"
    zero = Profile("call_memory", (Function("m", "f", 0, "m.py", 1, (Calls(A, 2, 0),)),), ())
    assert tprof.format(zero).splitlines()[1].split() == ["m:f/0", "2", "0", "0.00", "[", "0.00]"]


def test_long_names_push_only_their_own_row() -> None:
    long = Function("m", "f" * 100, 0, "m.py", 1, (Calls(None, 1, 1),))
    short = Function("m", "g", 0, "m.py", 2, (Calls(None, 1, 1),))
    lines = tprof.format(Profile("call_count", (long, short), ())).splitlines()
    assert len(lines[2]) < 90 < len(lines[1])


def test_namesakes_in_two_files() -> None:
    both = tuple(Function("__main__", "f", 0, file, 1, (Calls(None, 1, 1),)) for file in ("/a.py", "/b.py"))
    labels = [r.label for r in tprof.inspect(Profile("call_count", both, ()))["all"].rows]
    assert labels == ["__main__:f/0 (/a.py:1)", "__main__:f/0 (/b.py:1)"]


def test_color_only_if_asked() -> None:
    assert "\x1b" not in tprof.format(SAMPLE)
    lines = tprof.format(SAMPLE, color=True, limit=1).splitlines()
    assert lines[0].startswith("\x1b[1mFUNCTION") and lines[0].endswith("\x1b[0m")
    assert lines[1].startswith("\x1b[2m(3 smaller")


def test_machine_readable_forms() -> None:
    data = json.loads(SAMPLE.to_json())
    assert data == SAMPLE.to_dict()
    assert [(p["id"], p["kind"], p["name"], p["calls"], p["measurement"]) for p in data["processes"]] == [
        (repr(B), "thread", None, 12, 6000),
        (repr(A), "thread", "main", 6, 4000),
    ]
    assert [f["function"] for f in data["functions"]] == ["pay", "Cart.add", "<lambda>", "<lambda>"]
    assert data["functions"][1]["processes"] == [
        {"id": repr(A), "calls": 1, "measurement": 3000},
        {"id": repr(B), "calls": 2, "measurement": 1000},
    ]
    records = SAMPLE.records()
    assert len(records) == 5 and records[0] == {
        "module": "shop", "function": "Cart.add", "arity": 2, "file": "/x/shop.py", "line": 10,
        "process": repr(A), "calls": 1, "measurement": 3000,
    }  # fmt: skip


def test_the_notebook_form_escapes_names() -> None:
    page = SAMPLE._repr_html_()
    assert "shop:&lt;lambda&gt;/0 (line 20)" in page and "<lambda>" not in page
    assert page.count("<tr>") == 6


def test_results_are_frozen() -> None:
    values = (SAMPLE, SAMPLE.functions[0], SAMPLE.functions[0].processes[0], tprof.inspect(SAMPLE)["all"])
    for value in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, 5)
        assert not hasattr(value, "__dict__")


def test_every_public_name_is_documented_with_an_example() -> None:
    for name in tprof.__all__:
        thing = getattr(tprof, name)
        if isinstance(thing, type) or (callable(thing) and hasattr(thing, "__module__") and name.islower()):
            assert thing.__doc__ and ">>>" in thing.__doc__, name


def test_the_examples_of_the_documentation_run() -> None:
    import doctest
    import importlib

    attempted = 0
    for name in ("tprof", "_pattern", *(f"tprof._{n}" for n in MODULES), "cli._runner", "cli"):
        result = doctest.testmod(importlib.import_module(f"inviso.{name}"))
        assert result.failed == 0, name
        attempted += result.attempted
    assert attempted > 70


MODULES = ("diff", "json", "merge", "model", "nodes", "profiler", "table", "tree", "view")


def many(number: int) -> tprof.Profile:
    functions = tuple(
        tprof.Function("shop", f"f{n}", 0, "shop.py", n, (tprof.Calls(None, 1, n + 1),)) for n in range(number)
    )
    return tprof.Profile("call_count", functions, (("shop", "_", "_"),))


def test_a_profile_shows_itself_in_one_line() -> None:
    assert repr(many(5000)) == "<Profile of call_count: 5,000 functions, 5,000 calls>"
    assert repr(many(1)) == "<Profile of call_count: 1 function, 1 call>"
    timed = tprof.Profile("call_time", many(2).functions, (), timed_out=True)
    assert repr(timed) == "<Profile of call_time: 2 functions, 2 calls, 3 ns (timed out)>"


def test_a_notebook_shows_the_thirty_largest_first() -> None:
    shown = many(100)._repr_html_()
    at_once, more = shown.split("<details>")
    rows = re.findall(r"<td>(shop:f\d+/0|total)</td>", at_once)
    assert rows == [*(f"shop:f{n}/0" for n in range(99, 69, -1)), "total"]
    assert more.startswith("<summary>70 smaller</summary>") and more.count("<td>shop:f") == 70


def test_a_notebook_is_not_flooded() -> None:
    shown = many(20_000)._repr_html_()
    assert len(shown) < 60_000 and "<summary>19,970 smaller</summary>" in shown
    assert re.findall(r"<td>(… and [\d,]+ smaller)</td>", shown) == ["… and 19,800 smaller"]
    assert re.findall(r"<td[^>]*>(shop:f\d+/0|total)</td>", many(3)._repr_html_()) == [
        "shop:f2/0",
        "shop:f1/0",
        "shop:f0/0",
        "total",
    ]


@pytest.mark.parametrize("pattern", ["made_again:f", "made_again:f:1", "made_again"])
def test_what_is_defined_again_is_measured(pattern: str) -> None:
    """A notebook's cell that runs again, ``importlib.reload``, and a library that makes functions from text."""
    module: dict[str, Any] = {"__name__": "made_again"}
    exec("def f(x): return x", module)
    with Profiler() as profiler:
        profiler.set_pattern(pattern)
        module["f"](1)
        for _ in range(2):
            exec("def f(x): return x + 1", module)
            module["f"](1)
        assert sum(f.calls for f in profiler.collect().functions if f.function == "f") == 3
        profiler.pause()
        exec("def f(x): return x + 2", module)
        module["f"](1)
        assert sum(f.calls for f in profiler.collect().functions if f.function == "f") == 3
