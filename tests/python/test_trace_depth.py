"""Recursion up to the program's limit: on 3.11 calls take C stack only because they are traced."""

from __future__ import annotations

import sys

import pytest
from trace_tools import good

OLD_WAY = sys.version_info < (3, 12)

DEEP = """
import os, sys, threading
from inviso import trace
sys.setrecursionlimit(1_000_000)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
def failing(n):
    if n == 0: raise KeyError("bottom")
    failing(n - 1)
s = trace.session_create("deep", None, {"ring_bytes": 1 << 16})
def on(*kinds):
    for name in ("deep", "failing"): s.function(("__main__", name, 1), True, list(kinds))
def counted(): return s.info(("__main__", "deep", 1), "call_count")[1]
"""


def test_every_call_is_counted_and_the_program_goes_on() -> None:
    text = """
on("call_count")
print(deep(100_000), deep(10), deep(200_000), counted())
try: failing(100_000)
except KeyError as e: print(e)
"""
    assert good(DEEP + text) == "100000 10 200000 300013\n'bottom'\n"


@pytest.mark.parametrize("kind", ["call_time", "call_memory", "call_latency", "local", "meta"])
def test_in_every_kind(kind: str) -> None:
    text = f"""
on({kind!r})
s.process("all", True, ["call", "return_to", "arity"])
print(deep(50_000))
try: failing(50_000)
except KeyError as e: print(e)
s.drain()
"""
    assert good(DEEP + text) == "50000\n'bottom'\n"


def test_in_threads_with_small_stacks() -> None:
    text = """
threading.stack_size(256 * 1024)
on("call_count")
out = []
threads = [threading.Thread(target=lambda: out.append(deep(20_000))) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(out, counted())
"""
    assert good(DEEP + text) == f"{[20_000] * 4} {4 * 20_001}\n"


def test_back_and_forth_where_a_stack_ends() -> None:
    text = """
def sawtooth(n):
    if n: sawtooth(n - 1)
    for _ in range(3): deep(3)
on("call_count")
sawtooth(30_000)
print(counted())
"""
    assert good(DEEP + text) == f"{30_001 * 12}\n"


def test_generators_far_down() -> None:
    text = """
def numbers(n):
    yield n
    yield n + 1
def below(n):
    return below(n - 1) if n else sum(numbers(1)) + deep(100)
s.function(("__main__", "numbers", 1), True, ["call_count"])
on("call_count")
print([below(n) for n in range(10_000, 60_000, 5_003)][-1], s.info(("__main__", "numbers", 1), "call_count")[1])
"""
    assert good(DEEP + text) == "103 10\n"


def test_a_fork_far_down() -> None:
    text = """
def forks(n):
    if n: return forks(n - 1)
    child = os.fork()
    if child: return os.waitpid(child, 0)[1]
    other = trace.session_create("child")
    other.function(("__main__", "deep", 1), True, ["call_count"])
    ok = deep(50_000) == 50_000 and other.info(("__main__", "deep", 1), "call_count")[1] == 50_001
    sys.exit(0 if ok else 3)
on("call_count")
print(forks(50_000), deep(50_000))
"""
    assert good(DEEP + text) == "0 50000\n"


def test_a_daemon_thread_far_down_at_the_end() -> None:
    text = """
there = threading.Event()
def waits(n):
    if n: return waits(n - 1)
    there.set()
    while True: deep(10)
on("call_count")
threading.Thread(target=waits, args=(50_000,), daemon=True).start()
there.wait()
print("end")
"""
    assert good(DEEP + text) == "end\n"


@pytest.mark.skipif(not OLD_WAY, reason="later versions take no C stack")
def test_beside_greenlet_the_depth_has_an_end() -> None:
    text = """
sys.modules["greenlet"] = sys
on("call_count")
try: deep(300_000)
except RecursionError as e: print(e)
print(deep(1000))
"""
    lines = good(DEEP + text).splitlines()
    assert lines[0].startswith("maximum recursion depth exceeded")
    assert lines[1] == "1000"


@pytest.mark.skipif(not OLD_WAY, reason="later versions take no C stack")
def test_without_memory_the_depth_has_an_end() -> None:
    text = """
import resource
on("call_count")
deep(10)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), used + (40 << 20)))
try: deep(500_000)
# SystemError: the interpreter itself got no memory for its frames
except (RecursionError, MemoryError, SystemError) as e: print(type(e).__name__)
print(deep(1000))
"""
    assert good(DEEP + text).splitlines()[1] == "1000"
