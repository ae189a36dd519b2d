"""Greenlets that take turns on a thread: each has its own calls, time and memory."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest
from trace_tools import SUBJECTS, child, good

pytestmark = pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="no greenlet for this interpreter")
needs_gevent = pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="no gevent for this interpreter")

START = f"""
import collections, sys, threading, time
sys.path.insert(0, {str(SUBJECTS)!r})
from inviso import trace, tprof
ENDS = [("_", [], [("exception_trace",)])]
def session(*names, module="__main__", flags=("call",), spec=ENDS):
    s = trace.session_create("greenlets", None, {{"ring_bytes": 1 << 22}})
    s.process("all", True, list(flags))
    for name in names: assert s.function((module, name, "_"), spec, ["local"]) == 1
    return s
def seen(s):
    out = []
    for message in s.drain():
        what, (_, function, arguments) = message[2], message[3]
        number = arguments[0] if what == "call" else message[4] if what == "return_from" else None
        out.append((what, function, number))
    return out
def tags(s): return " ".join(f"{{what}}:{{function}}" for what, function, _ in seen(s))
"""

# A collection ends greenlets in cycles anywhere: between a call and the program's note of it, or in another thread.
WORLDS = """
import gc, greenlet_world
gc.disable()
def compare(seed, flags):
    world = greenlet_world.World(seed, 400)
    with session("step", "each", module="greenlet_world", flags=flags) as s:
        world.play()
        got = seen(s)
    said = [one for one in world.said if one[0] != "return_to" or "return_to" in flags]
    for n, (a, b) in enumerate(zip(got, said)):
        assert a == b, (seed, n, got[max(0, n - 3) : n + 3], said[max(0, n - 3) : n + 3])
    assert len(got) == len(said), seed
    return world.switches
"""


@pytest.mark.parametrize("flags", [("call",), ("call", "return_to")])
def test_a_random_program_says_the_same_of_its_calls(flags: tuple[str, ...]) -> None:
    """Switches, thrown exceptions, dropped greenlets, generators: the program counts its own calls."""
    text = f"""
print(sum(compare(seed, {flags!r}) for seed in range(40)) > 1000)
import greenlet
print(greenlet.gettrace())
"""
    assert good(START + WORLDS + text) == "True\nNone\n"


@pytest.mark.parametrize("collects", [False, True])
def test_random_programs_in_several_threads(collects: bool) -> None:
    """If garbage is collected, the order of the output may differ.

    Finalisers may run while an exception leaves calls. These are events of the thread, and 3.11 emits ``return_to``
    there.
    """
    text = """
collects = sys.argv[1] == "True"
if collects: gc.enable(); gc.set_threshold(100)
s = session("step", "each", module="greenlet_world", flags=("call", "return_to"))
found = {}
def run(seed):
    world = greenlet_world.World(seed, 2000)
    world.play()
    found[inviso.self()] = world.said
import inviso
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
by = collections.defaultdict(list)
for m in s.drain():
    number = m[3][2][0] if m[2] == "call" else m[4] if m[2] == "return_from" else None
    by[m[1]].append((m[2], m[3][1], number))
calls = lambda all: collections.Counter(one for one in all if one[0] != "return_to")
same = (lambda a, b: calls(a) == calls(b)) if collects else list.__eq__
print(len(found), all(same(by[pid], said) for pid, said in found.items()))
"""
    assert good(START + WORLDS + text, str(collects)) == "4 True\n"


def test_each_is_charged_for_what_it_runs() -> None:
    """The program measures the same loops itself, and counts the same words."""
    text = """
import greenlet, random
spent, got = collections.Counter(), collections.Counter()
rng = random.Random(5)
def part(name):
    return f'''
def {name}(depth):
    for _ in range(3):
        begun = time.perf_counter(); end = begun + rng.random() * 0.006
        size = rng.randrange(100_000, 1_000_000)
        got["{name}"] += size // 8
        bytearray(size)
        while time.perf_counter() < end: pass
        spent["{name}"] += time.perf_counter() - begun
        if depth and rng.random() < 0.6: random_one()(depth - 1)
        others = [g for g in all if not g.dead and g is not greenlet.getcurrent()]
        if others: rng.choice(others).switch(3)
'''
for name in ("one", "two", "three"): exec(part(name))
def random_one(): return rng.choice([one, two, three])
def run():
    while living := [g for g in all if not g.dead]: living[0].switch(3)
main = greenlet.getcurrent()
for kind in ("call_time", "call_memory"):
    all = [greenlet.greenlet(random_one()) for _ in range(6)]
    spent.clear(); got.clear()
    p = tprof.profile(run, type=kind, pattern="__main__")
    for name in ("one", "two", "three"):
        is_, own = p[f"__main__:{name}/1"].measurement, spent[name] * 1e9 if kind == "call_time" else got[name]
        near = 10e6 + own * 0.1 if kind == "call_time" else 3_000 + own * 0.02
        print(own > 0 and abs(is_ - own) < near or (kind, name, is_, own))
"""
    assert good(START + text) == "True\n" * 6


def test_latency_is_from_the_call_to_its_return() -> None:
    text = """
import greenlet
def slow(): main.switch()
def quick(): pass
main = greenlet.getcurrent()
with trace.session_create("latency") as s:
    for name in ("slow", "quick"): s.function(("__main__", name, 0), True, ["call_latency"])
    g = greenlet.greenlet(slow)
    g.switch()
    begun = time.perf_counter_ns()
    for _ in range(10_000): quick()
    least = time.perf_counter_ns() - begun
    g.switch()
    slows, quicks = (s.info(("__main__", name, 0), "call_latency")[1] for name in ("slow", "quick"))
    print(slows["count"], quicks["count"], slows["min"] > least * 0.98)
"""
    assert good(START + text) == "1 10000 True\n"


def test_counts_are_exact_while_greenlets_take_turns() -> None:
    text = """
import greenlet
def work(n):
    for _ in range(n): main.switch()
main = greenlet.getcurrent()
with trace.session_create("counts") as s:
    kinds = ("call_count", "call_time", "call_memory", "call_latency")
    for kind in kinds: s.function(("__main__", "work", 1), True, [kind])
    s.process("all", True, ["call"])
    all = [greenlet.greenlet(work) for _ in range(100)]
    while living := [g for g in all if not g.dead]:
        for g in living: g.switch(7)
    info = lambda kind: s.info(("__main__", "work", 1), kind)[1]
    time, memory = ([n for _, n, *_ in info(kind)] for kind in ("call_time", "call_memory"))
    print(info("call_count"), time, memory, info("call_latency")["count"])
"""
    assert good(START + text) == "100 [100] [100] 100\n"


@pytest.mark.parametrize("kind", ["call_time", "local"])
def test_in_deep_recursion(kind: str) -> None:
    text = f"""
import greenlet
sys.setrecursionlimit(10_000)
def deep(n):
    if n == 0: main.switch()
    else: deep(n - 1)
main = greenlet.getcurrent()
with trace.session_create("deep", None, {{"ring_bytes": 1 << 22}}) as s:
    s.process("all", True, ["call", "arity"])
    s.function(("__main__", "deep", 1), ENDS if {kind!r} == "local" else True, [{kind!r}])
    all = [greenlet.greenlet(deep) for _ in range(5)]
    for n, g in enumerate(all): g.switch(200 + 50 * n)
    for g in all: g.switch()
    counted = collections.Counter(m[2] for m in s.drain())
    timed = lambda: s.info(("__main__", "deep", 1), "call_time")[1][0][1]
    print(counted["call"] == counted["return_from"] if {kind!r} == "local" else timed())
"""
    assert good(START + text) == ("True\n" if kind == "local" else "1505\n")


def test_greenlet_may_be_imported_after_the_session_began() -> None:
    """Calls that have not ended then belong to the thread's first greenlet, in each thread."""
    text = """
s = session("outer", "inner")
def inner(home): home.switch()
def outer(n):
    begun.wait(); ready.wait()
    import greenlet
    g = greenlet.greenlet(inner)
    g.switch(greenlet.getcurrent())
    g.switch()
    return n
begun, ready = threading.Barrier(3), threading.Event()
threads = [threading.Thread(target=outer, args=(n,)) for n in range(2)]
for t in threads: t.start()
begun.wait()
assert "greenlet" not in sys.modules
import greenlet
ready.set()
for t in threads: t.join()
print(sorted(collections.Counter(what for what, _, _ in seen(s)).items()))
"""
    assert good(START + text) == "[('call', 4), ('return_from', 4)]\n"


def test_calls_that_began_before_a_session_do_no_harm() -> None:
    text = """
import greenlet
def work(n):
    for i in range(3): part(n)
    return n
def part(n): main.switch(); return n
main = greenlet.getcurrent()
all = [greenlet.greenlet(work) for _ in range(3)]
for round in range(2):
    for g in all: g.switch(1)
    with session("work", "part") as s:
        for g in all: g.switch()
        print(tags(s))
    assert greenlet.gettrace() is None
"""
    assert good(START + text) == ("call:part call:part call:part\n") + "\n"


def test_a_session_that_comes_later_begins_anew() -> None:
    text = """
import greenlet
def work(n): main.switch(); return n
main = greenlet.getcurrent()
for round in range(3):
    with session("work") as s:
        all = [greenlet.greenlet(work) for _ in range(3)]
        for g in all: g.switch(1)
        if round == 2:
            for g in reversed(all): g.switch()
        print(tags(s))
"""
    lines = "call:work call:work call:work\n" * 2 + "call:work call:work call:work" + " return_from:work" * 3 + "\n"
    assert good(START + text) == lines


def test_the_program_keeps_its_trace_function() -> None:
    text = """
import greenlet
def mine(event, pair): events.append(event)
def other(event, pair): others.append(event)
def work(n): main.switch(); return n
def turn():
    g = greenlet.greenlet(work)
    g.switch(1); g.switch()
main, events, others = greenlet.getcurrent(), [], []
print(greenlet.settrace(mine))
s = session("work")
turn()
print(greenlet.gettrace() is mine, events.count("switch"), tags(s))
print(greenlet.settrace(other) is mine)
turn()
print(greenlet.gettrace() is other, len(events), len(others), tags(s))
print(greenlet.settrace(None) is other, greenlet.gettrace(), tags(s))
turn()
print(len(events), len(others), tags(s))
greenlet.settrace(mine)
s.destroy()
print(greenlet.gettrace() is mine, sys.getrefcount(other))
turn()
print(len(events), greenlet.settrace(None) is mine)
try: greenlet.settrace()
except TypeError: print("as ever")
"""
    plain = "call:work return_from:work"
    lines = [
        *("None", f"True 4 {plain}", "True", f"True 4 4 {plain}", "True None ", f"4 4 {plain}"),
        *("True 2", "8 True", "as ever"),
    ]
    assert good(START + text).splitlines() == lines


def test_a_trace_function_that_raises_is_gone_and_ours_is_not() -> None:
    text = """
import greenlet
def bad(event, pair): raise KeyError("mine")
def work(n): main.switch(); return n
main = greenlet.getcurrent()
s = session("work")
g = greenlet.greenlet(work)
g.switch(1)
greenlet.settrace(bad)
try: g.switch()
except KeyError as error: print(error)
print(greenlet.gettrace(), sys.getrefcount(bad))
gs = [greenlet.greenlet(work) for _ in range(2)]
for g in gs: g.switch(2)
for g in gs: g.switch()
print(collections.Counter(what for what, _, _ in seen(s)))
"""
    got = good(START + text).splitlines()
    assert got[:2] == ["'mine'", "None 2"], got
    assert got[2] == "Counter({'call': 3, 'return_from': 2, 'exception_from': 1})"


def test_a_thread_that_only_switches_gives_the_trace_function_back() -> None:
    text = """
import greenlet
def work(n): main.switch(); return n
go, done, out = threading.Event(), threading.Event(), []
def run():
    home = greenlet.getcurrent()
    work_here = greenlet.greenlet(traced)
    work_here.switch(home)
    done.set(); go.wait()
    work_here.switch()
    out.append(greenlet.gettrace())
def traced(home): home.switch()
s = session("traced")
t = threading.Thread(target=run); t.start(); done.wait()
s.destroy()
go.set(); t.join()
print(out)
"""
    assert good(START + text) == "[None]\n"


def test_tasks_whose_code_runs_in_greenlets() -> None:
    """Database drivers do this: plain code runs in a greenlet, which switches to a task's coroutine to wait."""
    text = """
import asyncio, greenlet
async def spawn(function, *arguments):
    g = greenlet.greenlet(function)
    result = g.switch(*arguments)
    while not g.dead:
        result = g.switch(await result)
    return result
def wait(awaitable): return greenlet.getcurrent().parent.switch(awaitable)
def query(n):
    for _ in range(n % 4): wait(asyncio.sleep(0, n))
    return wait(asyncio.sleep(0, n))
async def main(): return sum(await asyncio.gather(*(spawn(query, n) for n in range(50))))
with session("query") as s:
    total = asyncio.run(main())
    ends = collections.Counter((what, number) for what, _, number in seen(s))
    print(total, all(ends["call", n] == ends["return_from", n] == 1 for n in range(50)), len(ends))
"""
    assert good(START + text) == "1225 True 100\n"


def test_counters_that_an_unknown_greenlet_would_falsify_are_refused() -> None:
    """Without switch events, times and returns would be wrong; counts are right."""
    text = """
import types
sys.modules["greenlet._greenlet"] = fake = types.ModuleType("greenlet._greenlet")
class greenlet: parent = dead = None
fake.greenlet, fake.getcurrent = greenlet, (lambda: None)
fake.settrace = fake.gettrace = lambda *a: None
def work(): pass
with trace.session_create("refused") as s:
    s.function(("__main__", "work", 0), True, ["call_count"])
    work()
    print(s.info(("__main__", "work", 0), "call_count")[1])
    for kind in ("call_time", "call_memory", "call_latency"):
        try: s.function(("__main__", "work", 0), True, [kind])
        except RuntimeError as error: print(kind, error)
    try: s.function(("__main__", "work", 0), ENDS, ["local"])
    except RuntimeError as error: print("local", error)
"""
    done = child(START + text)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (0, "1"), done.stderr
    assert [line.split()[0] for line in lines[1:]] == ["call_time", "call_memory", "call_latency", "local"]
    assert all("gettrace is not written in C" in line for line in lines[1:])


def test_in_a_forked_child_nothing_of_ours_is_left() -> None:
    text = """
import greenlet, os
def work(n): main.switch(); return n
main = greenlet.getcurrent()
s = session("work")
g = greenlet.greenlet(work); g.switch(1)
if os.fork() == 0:
    with session("work") as own:
        g.switch()
        h = greenlet.greenlet(work); h.switch(2); h.switch()
        text = tags(own)
    os.write(1, f"{text} {greenlet.gettrace()}\\n".encode())
    os._exit(0)
os.wait()
g.switch()
print(tags(s))
"""
    assert good(START + text) == "call:work return_from:work None\ncall:work return_from:work\n"


@needs_gevent
def test_gevent_switches_in_c() -> None:
    text = """
import gevent, gevent.pool, gevent.event, greenlet
def inner(n):
    gevent.sleep(0)
    if n % 7 == 3: raise ValueError(n)
    return n
def work(n):
    try:
        with gevent.Timeout(0 if n % 5 == 4 else 60, False): inner(n); gevent.sleep(0 if n % 5 != 4 else 30)
    except ValueError: pass
    return n
def sleeper(n): gevent.sleep(60)
def main():
    pool = gevent.pool.Pool(10)
    killed = [gevent.spawn(sleeper, n) for n in range(5)]
    list(pool.imap_unordered(work, range(100)))
    gevent.killall(killed)
with session("work", "inner", "sleeper") as s:
    main()
    n = collections.Counter((what, function) for what, function, _ in seen(s))
    print(n["call", "work"], n["return_from", "work"])
    print(n["call", "inner"], n["return_from", "inner"] + n["exception_from", "inner"])
    print(n["call", "sleeper"], n["exception_from", "sleeper"])
print(greenlet.gettrace())
"""
    assert good(START + text) == "100 100\n100 100\n5 5\nNone\n"


@needs_gevent
def test_gevent_own_times() -> None:
    text = """
import gevent
spent = collections.Counter()
for name, t in (("b1", 0.01), ("b2", 0.02), ("b3", 0.03)):
    exec(f'''
def {name}():
    for _ in range(3):
        begun = time.perf_counter()
        while time.perf_counter() < begun + {t}: pass
        spent["{name}"] += time.perf_counter() - begun
        gevent.sleep(0)
''')
def turns(): gevent.joinall([gevent.spawn(f) for f in (b1, b2, b3)])
p = tprof.profile(turns, type="call_time", pattern="__main__")
for name in ("b1", "b2", "b3", "turns"):
    is_, own = p[f"__main__:{name}/0"].measurement / 1e6, spent[name] * 1000
    print(abs(is_ - own) < 20 + own * 0.1 or (name, is_, own))
"""
    assert good(START + text) == "True\n" * 4


@needs_gevent
def test_a_program_of_gevent_under_the_command(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """It imports gevent when the session has begun, and patches the standard library."""
    import subprocess

    program = tmp_path / "served.py"
    program.write_text("""
from gevent import monkey; monkey.patch_all()
import threading, time
def work(n): time.sleep(0.001); return n
threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
""")
    for kind in ("call_count", "call_time", "call_memory"):
        words = [sys.executable, "-m", "inviso", "tprof", "-t", kind, "-p", "__main__", str(program)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.startswith("done"), done.stdout
        line = next(line for line in (done.stdout + done.stderr).splitlines() if "work/1" in line)
        assert line.split()[1] == "20", line


@pytest.mark.parametrize(
    ("words", "is_said"),
    [
        (["tprof", "-t", "call_time"], True),
        (["tprof"], False),
        (["trace", "-p", "json", "--return"], True),
        (["trace", "-p", "json"], False),
    ],
)
def test_greenlets_that_can_not_be_told_apart_are_reported(
    tmp_path: pathlib.Path, words: list[str], is_said: bool
) -> None:
    """A free-threaded interpreter can't tell greenlets apart; here an ordinary one claims to be free-threaded."""
    (tmp_path / "program.py").write_text("import greenlet\nprint('done')\n")
    text = f"import sys; sys.abiflags = 't'; from inviso.cli import main; sys.exit(main({[*words, 'program.py']!r}))"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert ("greenlets are not told apart" in done.stderr) == is_said
