"""Real programs under tracing, and real tools beside it: they behave as without, and counts are right."""

from __future__ import annotations

import sys

import pytest
from subjects import third_party
from trace_tools import good


@pytest.mark.parametrize("program", sorted(third_party.PROGRAMS))
def test_a_program_is_counted_as_by_setprofile(program: str) -> None:
    pytest.importorskip(program)
    text = "import sys; from subjects import third_party; third_party.check(sys.argv[1])"
    assert good(text, program).startswith(program)


INIT = """
import inviso
from inviso import trace
class Made:
    def __init__(self): pass
def make():
    for _ in range(100): Made()
make()
with trace.session_create("init") as session:
    session.function((__name__, "Made.__init__", 1), True, ["local"])
    session.process(inviso.self(), True, ["call", "return_to", "arity"])
    make()
    print({m[3] for m in session.drain() if m[2] == "return_to"})
"""


def test_an_init_returns_to_who_made_the_object() -> None:
    assert good(INIT) == "{('__main__', 'make', 0)}\n"


SHARED = """
import functools, inviso
from inviso import trace
def wrap(function):
    @functools.wraps(function)
    def wrapper(): return function()
    return wrapper
@wrap
def first(): pass
@wrap
def second(): pass
with trace.session_create("shared") as session:
    session.function(("_", "_", "_"), True, ["local"])
    session.process(inviso.self(), True, ["call", "arity"])
    second()
    print([m[3][1] for m in session.drain()][:2])
"""


def test_wrappers_of_one_code_go_by_its_own_name() -> None:
    assert good(SHARED) == "['wrap.<locals>.wrapper', 'second']\n"


ALONE = """
import functools
from inviso import trace
def decorate(function):
    @functools.wraps(function)
    def wrapper(): return function()
    return wrapper
@decorate
def decorated(): pass
del decorate
with trace.session_create("alone") as session:
    names = ("decorate.<locals>.wrapper", "decorated")
    print([session.function((__name__, name, 0), True, ["local"]) for name in names])
"""


# The first match differs on free-threaded builds.
def test_a_wrapper_goes_by_its_own_name_whatever_is_found_first() -> None:
    assert good(ALONE) == "[1, 1]\n"


LOOP = """
import asyncio, inviso, uvloop
from collections import Counter
from inviso import trace
tally, kinds = Counter(), set()
def work(n):
    me = inviso.self()
    tally[me] += 1
    kinds.add(me.kind)
async def job(n):
    for _ in range(n):
        work(n)
        await asyncio.sleep(0)
    await asyncio.to_thread(work, n)
async def main():
    async with asyncio.TaskGroup() as group:
        for n in range(1, 6):
            group.create_task(job(n))
    await asyncio.sleep(0.001)
with trace.session_create("uvloop") as session:
    session.process("all", True, ["call", "procs"])
    session.function((__name__, "work", 1), True, ["call_count", "call_time", "local"])
    uvloop.run(main())
    assert session.info((__name__, "work", 1), "call_count")[1] == 20 == tally.total()
    rows = session.info((__name__, "work", 1), "call_time")[1]
    assert {row[0]: row[1] for row in rows} == tally, (rows, tally)
    sent = session.drain()
    assert Counter(m[1] for m in sent if m[2] == "call") == tally
    tasks = {pid for pid in tally if pid.kind == "task"}
    assert len(tasks) == 5 and {m[1] for m in sent if m[2] == "exit"} >= tasks
    assert kinds == {"task", "thread"}
print("ok")
"""


def test_tasks_on_uvloop_are_processes() -> None:
    pytest.importorskip("uvloop")
    assert good(LOOP) == "ok\n"


BESIDE = """
import sys
from contextlib import contextmanager
import inviso
from inviso import trace

def leaf(n):
    if n > 2:
        return n
    return -n

def branch(n):
    try:
        return leaf(n) + leaf(-n)
    finally:
        leaf(0)

def program():
    for n in range(5):
        branch(n)

CALLS = {"leaf": 15, "branch": 5, "program": 1}

@contextmanager
def traced():
    with trace.session_create("beside") as session:
        session.process("all", True, ["call", "return_to", "arity"])
        for name, arity in (("leaf", 1), ("branch", 1), ("program", 0)):
            session.function((__name__, name, arity), True, ["call_count", "call_time", "local"])
        yield session
        found = {name: session.info((__name__, name, int(name != "program")), "call_count")[1] for name in CALLS}
        assert found == CALLS, found
        told = [m[3][1] for m in session.drain() if m[2] == "call"]
        assert {name: told.count(name) for name in CALLS} == CALLS, told
"""

COVERAGE = """
import coverage, io, os, tempfile
folder = tempfile.mkdtemp()
path = os.path.join(folder, "covered.py")
with open(path, "w") as file:
    file.write(sys.argv[1])
with open(path) as file:
    source = file.read()

def covered(with_tracing):
    space = {"__name__": "__main__"}
    measure = coverage.Coverage(data_file=None, config_file=False, branch=False, include=[path])
    exec(compile(source, path, "exec"), space)
    globals().update({name: space[name] for name in CALLS})
    measure.start()
    try:
        if with_tracing:
            with traced():
                program()
        else:
            program()
    finally:
        measure.stop()
    core = type(measure._collector.tracers[0]).__name__ if measure._collector.tracers else "sysmon"
    return sorted(measure.get_data().lines(path)), core

plain, beside = covered(False), covered(True)
assert plain[0] and plain == beside, (plain, beside)
print(plain[1])
"""


@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
def test_coverage_beside_a_session(core: str) -> None:
    pytest.importorskip("coverage")
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is new in 3.12")
    functions = BESIDE[BESIDE.index("def leaf") : BESIDE.index("CALLS =")]
    assert good(BESIDE + COVERAGE, functions, COVERAGE_CORE=core).lower().startswith(core[:6])


PROFILE = """
seen = []
def profile(frame, event, argument):
    if event == "call" and frame.f_code.co_name in CALLS:
        seen.append(frame.f_code.co_name)
for inside in (True, False):
    seen.clear()
    if inside:
        with traced():
            sys.setprofile(profile)
            program()
            sys.setprofile(None)
    else:
        sys.setprofile(profile)
        with traced():
            program()
        assert sys.getprofile() is profile
        sys.setprofile(None)
    assert {name: seen.count(name) for name in CALLS} == CALLS, seen
print("ok")
"""

DEBUGGER = """
import bdb
class Steps(bdb.Bdb):
    def __init__(self):
        super().__init__()
        self.lines = []
    def user_line(self, frame):
        if frame.f_code.co_name in CALLS:
            self.lines.append((frame.f_code.co_name, frame.f_lineno))
        self.set_step()
def stepped(with_tracing):
    steps = Steps()
    if with_tracing:
        with traced():
            steps.runcall(program)
    else:
        steps.runcall(program)
    return steps.lines
plain, beside = stepped(False), stepped(True)
assert len(plain) > 50 and plain == beside, (len(plain), len(beside))
print("ok")
"""

MONITOR = """
m = sys.monitoring
seen = []
m.use_tool_id(m.PROFILER_ID, "another")
m.register_callback(m.PROFILER_ID, m.events.PY_START, lambda code, offset: seen.append(code.co_name))
m.register_callback(m.PROFILER_ID, m.events.PY_UNWIND, lambda code, offset, error: seen.append("unwind"))
for events in (m.events.PY_START, m.events.PY_START | m.events.PY_UNWIND):
    m.set_events(m.PROFILER_ID, events)
    seen.clear()
    with traced():
        program()
    assert {name: seen.count(name) for name in CALLS} == CALLS, seen
    assert m.get_events(m.PROFILER_ID) == events
    seen.clear()
    program()
    assert {name: seen.count(name) for name in CALLS} == CALLS, seen
# one that says DISABLE at each place sees each function once, whatever we do beside it
m.set_events(m.PROFILER_ID, m.events.PY_START)
m.register_callback(m.PROFILER_ID, m.events.PY_START, lambda code, offset: (seen.append(code.co_name), m.DISABLE)[1])
seen.clear()
with traced():
    program()
with traced():
    program()
assert {name: seen.count(name) for name in CALLS} == dict.fromkeys(CALLS, 1), seen
print("ok")
"""


@pytest.mark.parametrize("tool", ["PROFILE", "DEBUGGER", "MONITOR"])
def test_a_tool_beside_a_session_sees_all_and_so_does_the_session(tool: str) -> None:
    if tool == "MONITOR" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is new in 3.12")
    assert good(BESIDE + globals()[tool]) == "ok\n"
