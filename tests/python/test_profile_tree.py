"""Call trees: chains of callers, inclusive time, callers, and the time that coroutines wait.

Programs made at random are compared with a model that passes the chain of callers along by hand, and with a session
beside it that measures own time only.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from inviso import tprof
from inviso.errors import BadArg
from inviso.tprof import Calls, Function, Node, Profile, Profiler

HERE = __name__
Path_ = tuple[str, ...]


class Model:
    """The calls of the functions below, by their own count."""

    def __init__(self) -> None:
        self.calls: Counter[Path_] = Counter()
        self.lock = threading.Lock()

    def call(self, path: Path_) -> None:
        with self.lock:
            self.calls[path] += 1


class Planned(Exception):
    pass


def f0(model: Model, path: Path_, script: list[Any]) -> None:
    model.call(path)
    execute(model, path, script)


def f1(model: Model, path: Path_, script: list[Any]) -> None:
    model.call(path)
    execute(model, path, script)
    raise Planned


def f2(model: Model, path: Path_, script: list[Any]) -> None:
    model.call(path)
    try:
        execute(model, path, script)
    finally:
        sum(range(20))


class Pausing:
    """A generator with the chain of its current caller."""

    def __init__(self, model: Model, kind: int, scripts: list[list[Any]]) -> None:
        self.model, self.scripts, self.path = model, scripts, ()
        self.generator = (g0, g1)[kind](self)
        self.name = ("g0", "g1")[kind]

    def go_on(self, path: Path_) -> None:
        self.path: Path_ = (*path, self.name)
        with suppress(Planned, ValueError):  # it may run already
            next(self.generator, None)


def g0(of: Pausing) -> Generator[None, None, None]:
    of.model.call(of.path)
    for script in of.scripts:
        execute(of.model, of.path, script)
        yield


def g1(of: Pausing) -> Generator[None, None, None]:
    of.model.call(of.path)
    try:
        for script in of.scripts:
            execute(of.model, of.path, script)
            yield
        raise Planned
    finally:
        len(of.scripts)


async def c0(model: Model, path: Path_, script: list[Any]) -> None:
    model.call(path)
    await perform(model, path, script)


async def c1(model: Model, path: Path_, script: list[Any]) -> None:
    model.call(path)
    await perform(model, path, script)
    raise Planned


FUNCTIONS = {f.__name__: f for f in (f0, f1, f2)}
COROUTINES = {c.__name__: c for c in (c0, c1)}
MEASURED = [f"{HERE}:{name}" for name in (*FUNCTIONS, "g0", "g1", *COROUTINES)]


def execute(model: Model, path: Path_, script: list[Any]) -> None:
    """It is not measured, like ``perform``: it counts for its caller."""
    own: list[Pausing] = []
    for what, *rest in script:
        if what == "call":
            name, inner = rest
            with suppress(Planned):
                FUNCTIONS[name](model, (*path, name), inner)
        elif what == "make":
            own.append(Pausing(model, *rest))
        elif what == "next" and own:
            # called by another function, too
            own[rest[0] % len(own)].go_on(path)
        elif what == "give" and own:
            relay(model, (*path, "f2"), own[rest[0] % len(own)])
    for each in own:
        each.generator.close()


def relay(model: Model, path: Path_, each: Pausing) -> None:
    class Going(list[Any]):
        def __iter__(self) -> Any:
            each.go_on(path)
            return iter(())

    f2(model, path, Going())


async def perform(model: Model, path: Path_, script: list[Any]) -> None:
    tasks = []
    for what, *rest in script:
        if what == "await":
            name, inner = rest
            with suppress(Planned):
                await COROUTINES[name](model, (*path, name), inner)
        elif what == "task":
            name, inner = rest
            tasks.append(asyncio.get_running_loop().create_task(COROUTINES[name](model, (name,), inner)))
        elif what == "sleep":
            await asyncio.sleep(0)
        else:
            execute(model, path, [(what, *rest)])
    await asyncio.gather(*tasks, return_exceptions=True)


def scripts(chance: random.Random, depth: int, coroutine: bool = False, left: list[int] | None = None) -> list[Any]:
    """A random program of this many steps at most."""
    left = [120] if left is None else left
    made: list[Any] = []
    for _ in range(chance.randrange(1, 5) if depth else 0):
        left[0] -= 1
        if left[0] < 0:
            break
        kind = chance.random()
        if coroutine and kind < 0.6:
            what = chance.choice(["await", "await", "task", "sleep"])
            inner = scripts(chance, depth - 1, True, left)
            made.append((what, chance.choice(list(COROUTINES)), inner) if what != "sleep" else (what,))
        elif kind < 0.75:
            made.append(("call", chance.choice(list(FUNCTIONS)), scripts(chance, depth - 1, left=left)))
        else:
            bodies = [scripts(chance, depth - 1, left=left) for _ in range(chance.randrange(4))]
            made.append(("make", chance.randrange(2), bodies))
            made += [(chance.choice(["next", "give"]), chance.randrange(3)) for _ in range(chance.randrange(5))]
    return made


def paths(profile: Profile) -> list[Path_]:
    found: list[Path_] = []
    for node in profile.nodes:
        name = "?" if node.function is None else profile.functions[node.function].function
        found.append((*(() if node.parent is None else found[node.parent]), name))
    return found


def compared(profiler: Profiler, beside: Profiler, model: Model) -> Profile:
    """The profile, checked against the model and a session beside it."""
    for each in (profiler, beside):
        each.pause()
    profile, flat = profiler.collect(), beside.collect()
    told = Counter({path: node.calls for path, node in zip(paths(profile), profile.nodes, strict=True) if node.calls})
    assert told == model.calls
    known = {(f.mfa, c.process): (c.calls, c.measurement) for f in flat.functions for c in f.processes}
    seen = {(f.mfa, c.process): (c.calls, c.measurement) for f in profile.functions for c in f.processes if c.calls}
    assert {key: calls for key, (calls, _) in seen.items()} == {key: calls for key, (calls, _) in known.items()}
    for key, (_, own) in seen.items():
        # the nanoseconds of each place are rounded; the reported length of a pause may differ
        assert abs(own - known[key][1]) <= len(profile.nodes) + 50_000, key
    checked_sums(profile)
    return profile


def checked_sums(profile: Profile) -> None:
    """Inclusive figures by the definition: for each function the figures of all nodes at or below one of its own."""
    chains = paths(profile)
    own = {path: node.measurement for path, node in zip(chains, profile.nodes, strict=True)}
    for f in profile.functions:
        assert f.cumulative == sum(amount for path, amount in own.items() if f.function in path), f
        assert f.calls == sum(c.calls for c in profile.callers(f))
        assert f.cumulative == sum(c.cumulative for c in profile.callers(f))
    root = profile.tree()
    assert root.cumulative == profile.measurement == sum(node.measurement for _, node in root.walk())


def measuring() -> tuple[Profiler, Profiler]:
    made = Profiler(type="call_time", tree=True), Profiler(type="call_time")
    for each in made:
        each.enable_trace("all")
        each.set_pattern(MEASURED)
    return made


@pytest.mark.parametrize("seed", range(3))
def test_programs_at_random_are_told_as_they_ran(seed: int) -> None:
    chance, model = random.Random(seed), Model()
    programs = [[("call", "f0", scripts(chance, 5))] for _ in range(40)]
    profiler, beside = measuring()
    with profiler, beside:
        for program in programs:
            execute(model, (), program)
        profile = compared(profiler, beside, model)
    assert len(profile.nodes) > 500


@pytest.mark.parametrize("seed", range(2))
def test_threads_have_trees_of_their_own(seed: int) -> None:
    chance = random.Random(1000 + seed)
    models = [Model() for _ in range(12)]
    programs = [[("call", "f0", scripts(chance, 4))] for _ in models]
    profiler, beside = measuring()
    with profiler, beside:
        threads = [threading.Thread(target=execute, args=(m, (), p)) for m, p in zip(models, programs, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        together = Model()
        for model in models:
            together.calls.update(model.calls)
        profile = compared(profiler, beside, together)
    by_process: dict[Any, Counter[Path_]] = {}
    for path, node in zip(paths(profile), profile.nodes, strict=True):
        for c in node.processes:
            by_process.setdefault(c.process, Counter())[path] += c.calls
    told = sorted(sorted((+each).items()) for each in by_process.values())
    assert told == sorted(sorted(model.calls.items()) for model in models)


@pytest.mark.parametrize("seed", range(2))
def test_tasks_are_told_as_they_ran(seed: int) -> None:
    chance, model = random.Random(2000 + seed), Model()
    programs = [scripts(chance, 5, True) for _ in range(20)]
    profiler, beside = measuring()
    with profiler, beside:
        for program in programs:
            asyncio.run(c0(model, ("c0",), program))
        profile = compared(profiler, beside, model)
    assert len(profile.nodes) > 100


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def test_recursion_counts_once() -> None:
    p = tprof.profile(fib, 10, type="call_time", tree=True, pattern=f"{HERE}:fib")
    f = p[f"{HERE}:fib"]
    assert f.calls == 177 and f.cumulative == f.measurement == p.measurement
    assert len(p.nodes) == 10
    own, outer = sorted(p.callers(f"{HERE}:fib"), key=lambda c: c.calls, reverse=True)
    assert (own.label, own.calls, own.cumulative) == (f"{HERE}:fib/1", 176, 0)
    assert (outer.label, outer.calls, outer.cumulative) == ("", 1, f.cumulative)


def test_flame_graphs() -> None:
    small, large = (tprof.profile(fib, n, type="call_time", pattern=f"{HERE}:fib", tree=True) for n in (3, 6))
    for picture in (large.flame(), large.flame(view="own"), large.flame(before=small)):
        assert picture.kind == "flame" and f"{HERE}:fib/1" in picture.html()


def test_functions_that_call_each_other() -> None:
    p = tprof.profile(even, 9, type="call_time", tree=True, pattern=[f"{HERE}:even", f"{HERE}:odd"])
    both = [p[f"{HERE}:{name}"] for name in ("even", "odd")]
    assert [f.calls for f in both] == [5, 5]
    assert both[0].cumulative == p.measurement
    first = p.nodes[0]
    assert both[1].cumulative == p.measurement - first.measurement


def deep(n: int) -> int:
    return 0 if n == 0 else deep(n - 1) + 1


def test_what_is_too_deep_is_told_without_callers() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(6000)
    try:
        p = tprof.profile(deep, 3000, type="call_time", tree=True, pattern=f"{HERE}:deep")
    finally:
        sys.setrecursionlimit(limit)
    f = p[f"{HERE}:deep"]
    assert p.result == 3000 and f.calls == 3001 and f.cumulative == p.measurement
    assert len(p.nodes) < 1100
    unknown = [node for node in p.nodes if node.function is None]
    assert len(unknown) == 1 and not unknown[0].processes
    assert "(callers not known)" in p.tree().format()
    assert [c.calls for c in p.callers(f) if c.label == "(callers not known)"] == [3001 - 1023]


def sleeps(seconds: float) -> Any:
    return asyncio.sleep(seconds)


async def waits(seconds: float) -> int:
    await sleeps(seconds)
    return fib(5)


async def both() -> None:
    await waits(0.05)
    await asyncio.gather(waits(0.02), waits(0.04))


def test_waiting_is_no_time_of_its_own() -> None:
    p = tprof.profile(both, type="call_time", tree=True, pattern=[f"{HERE}:both", f"{HERE}:waits", f"{HERE}:fib"])
    waiting, outer = p[f"{HERE}:waits"], p[f"{HERE}:both"]
    assert waiting.waiting >= 105_000_000  # the loop's clock may be a little early
    assert outer.waiting >= 85_000_000
    assert waiting.measurement < waiting.waiting and outer.measurement < outer.waiting
    assert p[f"{HERE}:fib"].waiting == 0 and p[f"{HERE}:fib"].calls == 45
    assert waiting.cumulative is not None and outer.cumulative is not None
    assert waiting.measurement <= waiting.cumulative < waiting.waiting
    tasks = {c.process for c in waiting.processes}
    assert len(tasks) == 3
    assert "WAITING" in str(p.tree()) and "WAITING" in str(p)


def numbers() -> Generator[int, None, None]:
    for n in range(3):
        fib(3)
        yield n


def takes(from_: Generator[int, None, None]) -> int:
    return next(from_)


def uses() -> int:
    each = numbers()
    return takes(each) + next(each) + sum(each)


def test_a_generator_is_below_whoever_has_it_go_on() -> None:
    names = ("numbers", "takes", "uses", "fib")
    p = tprof.profile(uses, type="call_time", tree=True, pattern=[f"{HERE}:{name}" for name in names])
    assert p[f"{HERE}:numbers"].calls == 1 and p[f"{HERE}:numbers"].waiting == 0
    seen = {path: node.calls for path, node in zip(paths(p), p.nodes, strict=True) if path[-1] != "fib"}
    assert seen == {("uses",): 1, ("uses", "takes"): 1, ("uses", "takes", "numbers"): 1, ("uses", "numbers"): 0}
    first = {path: node.calls for path, node in zip(paths(p), p.nodes, strict=True) if path[-2:] == ("numbers", "fib")}
    assert first == {("uses", "takes", "numbers", "fib"): 1, ("uses", "numbers", "fib"): 2}


def middle() -> int:
    return fib(3)


def outer() -> int:
    return middle() + fib(2)


NAMED = [f"{HERE}:{name}" for name in ("outer", "middle", "fib")]


def shape(profile: Profile) -> dict[Path_, int]:
    return {path: node.calls for path, node in zip(paths(profile), profile.nodes, strict=True)}


def test_windows_add_up_and_restart_begins_again() -> None:
    with Profiler(type="call_time", tree=True, trace="all", pattern=NAMED) as profiler:
        outer()
        once = shape(profiler.collect())
        assert once[("outer",)] == 1 and once[("outer", "middle", "fib", "fib")] == 2
        profiler.pause()
        outer()
        paused = profiler.collect()
        assert shape(paused) == once
        profiler.continue_()
        outer()
        assert shape(profiler.collect()) == {path: 2 * calls for path, calls in once.items()}
        checked_sums(profiler.collect())
        profiler.restart()
        assert shape(profiler.collect()) == {}
        outer()
        assert shape(profiler.collect()) == once


def test_what_is_not_measured_any_more_is_left_out_of_chains() -> None:
    with Profiler(type="call_time", tree=True, trace="all", pattern=NAMED) as profiler:
        outer()
        profiler.clear_pattern(f"{HERE}:middle")
        left = shape(profiler.collect())
        assert left[("outer",)] == 1 and left[("outer", "fib")] == 2 and not any("middle" in path for path in left)
        profiler.set_pattern(f"{HERE}:even")  # a reused number would be mistaken for the other's
        outer()
        even(1)
        again = shape(profiler.collect())
        assert again[("outer", "fib")] == 4 and again[("even",)] == 1
        profiler.set_pattern(f"{HERE}:middle")
        outer()
        assert shape(profiler.collect())[("outer", "middle")] == 1


def test_memory_has_a_tree_too() -> None:
    def allocates(n: int) -> list[bytes]:
        return [bytes(1000) for _ in range(n)]

    def calls_it() -> int:
        return len(allocates(10)) + len(allocates(20))

    pattern = [f"{HERE}:{f.__qualname__}" for f in (allocates, calls_it)]
    p = tprof.profile(calls_it, type="call_memory", tree=True, pattern=pattern)
    top, below = p[pattern[1]], p[pattern[0]]
    assert below.calls == 2 and below.measurement >= 30 * 1000 / 8
    assert top.cumulative == top.measurement + below.measurement == p.measurement
    assert below.cumulative == below.measurement
    line = next(line for line in str(p.tree()).splitlines() if "allocates" in line)
    assert line.split()[0] == str(below.cumulative * 8), "in bytes"


def test_two_trees_and_own_time_side_by_side() -> None:
    with Profiler(type="call_time", tree=True, trace="all", pattern=NAMED) as one:
        outer()
        other = Profiler(type="call_time", tree=True, trace="all", pattern=NAMED[1:])
        with other, Profiler(type="call_time", trace="all", pattern=NAMED) as flat:
            outer()
            assert shape(other.collect())[("middle",)] == 1
            assert flat.collect().nodes == () and flat.collect()[f"{HERE}:fib"].calls == 8
        assert shape(one.collect())[("outer",)] == 2


def test_without_a_tree_it_is_said_what_to_do() -> None:
    p = tprof.profile(fib, 3, type="call_time", pattern=f"{HERE}:fib")
    assert p[f"{HERE}:fib"].cumulative is None and p.nodes == ()
    for ask in (p.tree, lambda: p.cumulative, lambda: p.callers(f"{HERE}:fib"), p.flame):
        with pytest.raises(BadArg, match="no call tree; measure with type='call_time', tree=True"):
            ask()
    with pytest.raises(BadArg, match="sort: the profile has no call tree"):
        tprof.inspect(p, sort="cumulative")


def test_arguments_that_do_not_fit() -> None:
    for call in (tprof.profile, tprof.aprofile):
        with pytest.raises(BadArg, match="tree: call_count has no call tree; give type='call_time'"):
            made: Any = call(fib, 3, type="call_count", tree=True)
            asyncio.run(made)
    with pytest.raises(BadArg, match="tree: 1 is neither True nor False"):
        Profiler(type="call_time", tree=1)  # type: ignore[arg-type]
    p = tprof.profile(fib, 3, type="call_time", tree=True, pattern=f"{HERE}:fib")
    with pytest.raises(KeyError):
        p.callers("nothing")
    with pytest.raises(BadArg, match="is of another profile"):
        p.callers(Function("m", "f", 0, "m.py", 1, ()))
    with pytest.raises(BadArg, match="limit: 0 is not a number of rows"):
        p.tree().format(limit=0)


def test_a_tree_as_text() -> None:
    functions = [Function("m", name, 0, "m.py", n, ()) for n, name in enumerate("abc")]
    each = [(None, 0, 1000), (0, 1, 2000), (0, 2, 500), (1, 2, 4000)]
    nodes = [Node(parent, f, (Calls(None, 1, own),)) for parent, f, own in each]
    made = tprof._tree.measured(functions, nodes)
    p = Profile("call_time", *made[:1], (), nodes=made[1])
    assert p.cumulative == {"m:a/0": 7500, "m:b/0": 6000, "m:c/0": 4500}
    assert p.tree().format(limit=3).splitlines() == [
        "INCLUSIVE  [     %]   OWN  CALLS  FUNCTION",
        "     7.50  [100.00]  0.00      0  all",
        "     7.50  [100.00]  1.00      1    m:a/0",
        "     6.00  [ 80.00]  2.00      1      m:b/0",
        "(2 smaller not shown)",
    ]
    assert list(tprof._tree.stacks(p))[3] == (("m:a/0", "m:b/0", "m:c/0"), 4000)
    assert [(r.function, r.cumulative) for r in tprof.inspect(p, sort="cumulative")["all"].rows] == [
        ("c", 4500), ("b", 6000), ("a", 7500),
    ]  # fmt: skip


def test_a_coroutine_is_measured_where_it_is_awaited() -> None:
    async def main() -> Profile:
        return await tprof.aprofile(waits, 0.01, type="call_time", tree=True, pattern=[f"{HERE}:waits", f"{HERE}:fib"])

    p = asyncio.run(main())
    assert p.result == 5 and p[f"{HERE}:waits"].calls == 1
    assert p[f"{HERE}:waits"].waiting >= 9_000_000 and shape(p)[("waits", "fib")] == 1


PROGRAM = """\
import multiprocessing, os
def leaf(): return sum(range(100))
def work(n):
    for _ in range(n): leaf()
if __name__ == "__main__":
    work(2)
    child = multiprocessing.get_context("fork").Process(target=work, args=(3,))
    child.start()
    child.join()
"""


def test_the_command_and_child_processes(tmp_path: Path) -> None:
    program, out = tmp_path / "job.py", tmp_path / "job.json"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "inviso", "tprof", "-t", "call_time", "--tree", "--sort", "cumulative"]
    done = subprocess.run(
        [*command, "-p", "__main__", "--json", str(out), str(program)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "INCLUSIVE" in done.stderr and "__main__:work/1" in done.stderr
    p = tprof.load(out)
    assert p.children == 1 and p["__main__:leaf"].calls == 5
    told = {path: node.calls for path, node in zip(paths(p), p.nodes, strict=True)}
    assert told[("<module>", "work", "leaf")] == 2 and told[("work", "leaf")] == 3
    checked_sums(p)
    assert "cumulative" in json.loads(out.read_text())["functions"][0]


def test_the_command_refuses_what_does_not_fit(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("")
    for words, why in (
        (["--tree"], "call_count has no call tree"),
        (["-t", "call_time", "--sort", "cumulative"], "--sort: cumulative needs --tree"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "inviso", "tprof", *words, str(program)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2 and why in done.stderr
