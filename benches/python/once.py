"""Costs that don't depend on calls: import, arming, the life of sessions, and the memory that ended tasks leave.

    python -m benches.python.once imports|start_line|arming|sessions|tasks HOW_MANY

Each is a process of its own; its last line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .subjects import Function, note
from .tools import Wrong

_FUNCTIONS = 10_000


def imports(times: int) -> dict[str, Any]:
    """The best time of an import of inviso, in fresh processes."""
    program = (
        "import sys, time\nbefore = time.perf_counter()\nimport inviso\n"
        "print(time.perf_counter() - before, *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    best, others = float("inf"), set[str]()
    for _ in range(times):
        words = [sys.executable, "-c", program]
        seconds, *modules = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        best = min(best, float(seconds))
        others |= set(modules) - sys.stdlib_module_names - {"inviso", "__main__", "sitecustomize", "usercustomize"}
    return {"ms": round(best * 1e3, 2), "third_party": sorted(name for name in others if not name.startswith("_"))}


_START = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
line = open(os.path.join(sys.argv[1], "inviso_start.pth")).read()
def pth():
    exec(line)
def start():
    import pkgutil
    pkgutil.resolve_name("_inviso_start:begin")()
before = time.perf_counter()
(start if sys.version_info >= (3, 15) else pth)()
after = time.perf_counter()
assert "inviso" not in sys.modules
print(after - before)
"""


def start_line(times: int) -> dict[str, Any]:
    """The best time that the start files add to an interpreter's start, in fresh processes, without their variables."""
    place = os.path.join(
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "packaging/data/purelib"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("INVISO_")}
    best = float("inf")
    for _ in range(times):
        words = [sys.executable, "-c", _START, place]
        best = min(best, float(subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout))
    return {"us": round(best * 1e6, 1)}


def _many(module: str) -> list[Function]:
    """A module with many functions, which have been called."""
    lines = [f"def f{n}(a):\n    b = a + {n}\n    return b if b > 3 else a" for n in range(_FUNCTIONS)]
    made = types.ModuleType(module)
    exec(compile("\n".join(lines), module, "exec"), vars(made))
    sys.modules[module] = made
    functions = [vars(made)[f"f{n}"] for n in range(_FUNCTIONS)]
    for function in functions:
        function(1)
    return functions


def arming(rounds: int) -> dict[str, Any]:
    """Best milliseconds to switch call_count on and off, in one function, in 10,000, and in all of more than 20,000."""
    from inviso import trace

    functions = _many("benches.armed")
    _many("benches.others")
    best: dict[str, float] = defaultdict(lambda: float("inf"))
    matched: dict[str, int] = {}
    targets = {
        "one function": ("benches.armed", "f0", 1),
        f"{_FUNCTIONS:,} functions of a module": ("benches.armed", "_", "_"),
        '("_", "_", "_")': ("_", "_", "_"),
    }

    def timed(name: str, work: Callable[[], object]) -> object:
        start = time.perf_counter()
        result = work()
        best[name] = min(best[name], time.perf_counter() - start)
        return result

    for _ in range(rounds):
        for name, mfa in targets.items():
            with trace.session_create("arming") as session:
                n = timed(f"{name}: on", lambda s=session, mfa=mfa: s.function(mfa, True, ["call_count"]))  # type: ignore[misc]
                functions[0](1)
                if session.info(("benches.armed", "f0", 1), "call_count")[1] != 1:
                    raise Wrong(f"{name}: the call was not counted")
                timed(f"{name}: off", lambda s=session, mfa=mfa: s.function(mfa, False, ["call_count"]))  # type: ignore[misc]
            assert isinstance(n, int)
            matched[name] = n
        if hasattr(sys, "monitoring"):
            _interpreters_own(functions, timed)
    wanted = dict(zip(targets, (1, _FUNCTIONS, 2 * _FUNCTIONS), strict=True))
    if any(matched[name] < wanted[name] for name in targets):
        raise Wrong(f"{matched} functions matched")
    return {"ms": {name: round(seconds * 1e3, 4) for name, seconds in best.items()}, "functions": matched}


def _interpreters_own(functions: list[Function], timed: Callable[[str, Callable[[], object]], object]) -> None:
    """The limit: the interpreter's own part of it."""
    tool, monitoring = 4, sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    monitoring.use_tool_id(tool, "limit")

    def setting(wanted: int) -> Callable[[], None]:
        def work() -> None:
            for function in functions:
                monitoring.set_local_events(tool, function.__code__, wanted)

        return work

    try:
        timed(f"{_FUNCTIONS:,} functions, sys.monitoring alone: on", setting(monitoring.events.PY_START))
        timed(f"{_FUNCTIONS:,} functions, sys.monitoring alone: off", setting(0))
    finally:
        monitoring.free_tool_id(tool)


def sessions(times: int) -> dict[str, Any]:
    """Makes and destroys sessions, one after the other."""
    from inviso import trace

    def some(n: int) -> None:
        for _ in range(n):
            trace.session_create("short").destroy()

    return _growth(times, some)


def tasks(times: int) -> dict[str, Any]:
    """Runs short tasks under call_time, a thousand at a time."""
    from inviso import trace

    async def short() -> None:
        note(1, 2)

    async def batches(n: int) -> None:
        for _ in range(n // 1000):
            await asyncio.gather(*(short() for _ in range(1000)))

    with trace.session_create("tasks") as session:
        session.function(("_", "_", "_"), True, ["call_time"])
        session.process("all", True, ["call"])
        answer = _growth(times, lambda n: asyncio.run(batches(n)))
        entries = session.info(("benches.python.subjects", "note", 2), "call_time")[1]
        calls = sum(entry[1] for entry in entries)
    if calls != times // 1000 * 1000:
        raise Wrong(f"{times} tasks, {calls} calls")
    return {**answer, "entries": len(entries)}


def _growth(times: int, some: Callable[[int], object]) -> dict[str, Any]:
    """The memory that the process has taken after the first tenth, and the memory that the rest has added."""
    first = times // 10
    before = _memory()
    some(first)
    tenth, start = _memory(), time.perf_counter()
    some(times - first)
    seconds = time.perf_counter() - start
    return {
        "times": times,
        "us": round(seconds / (times - first) * 1e6, 2),
        "first_tenth_kib": (tenth - before) // 1024,
        "rest_kib": (_memory() - tenth) // 1024,
    }


def _memory() -> int:
    """Bytes of this process in memory; the largest number so far, if the system doesn't tell the present one."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_JOBS = {"imports": imports, "start_line": start_line, "arming": arming, "sessions": sessions, "tasks": tasks}


if __name__ == "__main__":
    print(json.dumps(_JOBS[sys.argv[1]](int(sys.argv[2]))))
