"""The door: failures of the tracer, a pending exception, the collector, the interpreter's end, calls inside calls."""

from __future__ import annotations

from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import child, good

FAULT = """
import sys, threading, inviso
from inviso import _native, trace
def broken(n): return n + 1
def sound(n): return n * 2
session = trace.session_create("look")
session.function(("__main__", "_", "_"), True, ["call_count"])
session.function(("__main__", "sound", 1), True, ["local"])
session.process("all", True, ["call", "send", "receive", "procs", "running", "set_on_spawn"])
_native.interpreter.fail_at(broken.__code__)
"""


def test_a_failure_switches_tracing_off_for_that_thread_and_says_so_once() -> None:
    done = child(
        FAULT
        + """
box = []
def run(): box.append([broken(1), sound(2), broken(2)])
for _ in range(3):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
sound(5)
print(box, [message[3] for message in session.drain() if message[2] == "call"])
session.destroy()
"""
    )
    assert done.returncode == 0
    assert done.stdout == "[[2, 4, 3], [2, 4, 3], [2, 4, 3]] [('__main__', 'sound', [5])]\n"
    said = done.stderr.splitlines()
    assert len(said) == 2 and "internal error at " in said[0] and said[0].endswith("a test asked for this failure")
    assert "tracing is off in this thread" in said[1]


def test_a_failure_keeps_what_was_recorded_and_calls_of_the_package_still_work() -> None:
    done = child(
        FAULT
        + """
import queue
sound(1)
print(broken(1))
items = queue.Queue(); items.put(1); items.get()
inviso.send(inviso.self(), "after")
print(inviso.receive(timeout=30), [message[3] for message in session.drain() if message[2] == "call"])
session.destroy()
with trace.session_create("next") as second:
    second.process(inviso.self(), True, ["call"])
print(trace.session_info("all"))
"""
    )
    assert (done.returncode, done.stdout) == (0, "2\nafter [('__main__', 'sound', [1])]\n[]\n")


def test_a_failure_in_the_midst_of_an_exception_leaves_that() -> None:
    done = child(
        FAULT
        + """
import asyncio
class Close:
    def __del__(self): broken(0)
def fails():
    held = Close()
    raise KeyError("the program's")
try: fails()
except KeyError as error: print(error)
async def main():
    try: broken(1); raise LookupError("in a task")
    except LookupError as error: return str(error)
print(asyncio.run(main()))
sys.exit(7)
"""
    )
    assert (done.returncode, done.stdout) == (7, '"the program\'s"\nin a task\n')


COLLECTED = """
import asyncio, gc, queue, sys, threading, inviso
from inviso import trace
session = trace.session_create("look", lambda message: None)
session.function(("_", "_", "_"), True, ["local"])
session.function("on_load", True, ["local"])
flags = ["call", "send", "receive", "procs", "running", "exiting", "garbage_collection", "return_to", "set_on_spawn"]
session.process("all", True, flags)
counts = trace.session_create("counts")
called = 0
def later(n): return n
class Cycle:
    def __init__(self): self.me, self.box = self, queue.Queue()
    def __del__(self):
        global called
        try: raise ValueError("inside")
        except ValueError: pass
        exec("def made(): return 1\\nmade()", {})
        self.box.put(1); self.box.get()
        thread = threading.Thread(target=later, args=(1,)); thread.start(); thread.join()
        later(called)
        called += 1
counts.function(("__main__", "later", 1), True, ["call_count"])
"""


def test_what_finalisers_do_in_the_collector_is_seen() -> None:
    text = (
        COLLECTED
        + """
for _ in range(20): Cycle()
gc.collect()
def raises():
    Cycle(); raise KeyError("out")
try: raises(); gc.collect()
except KeyError: gc.collect()
print(called, counts.info(("__main__", "later", 1), "call_count"))
session.destroy(); counts.destroy()
"""
    )
    assert good(text, limit=120) == "21 ('call_count', 42)\n"


def test_what_finalisers_do_at_the_end_does_no_harm() -> None:
    """The interpreter's end runs them while modules are cleared, threads are gone and nothing can be imported."""
    text = (
        COLLECTED.replace("thread = threading.Thread(target=later, args=(1,)); thread.start(); thread.join()", "")
        + """
kept = [Cycle() for _ in range(20)]
sys.modules["kept"] = kept
loop = asyncio.new_event_loop()
async def never(): await asyncio.sleep(3600)
tasks = [loop.create_task(never()) for _ in range(3)]
loop.run_until_complete(asyncio.sleep(0))
async def agen():
    try: yield 1
    finally: later(1)
generator = agen()
print("done", flush=True)
"""
    )
    done = child(text, limit=120)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "inviso" not in done.stderr and "panicked" not in done.stderr


class Nested:
    """A tracer module that uses the whole package where an event happens."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def enabled(self, tag: str, state: Any, tracee: Any) -> str:
        return "trace"

    def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: Any) -> None:
        inviso.send(inviso.self(), ("from the tracer", tag))
        with trace.session_create("inside") as inside:
            inside.process(inviso.self(), True, ["call"])
            self.seen.append((inviso.self() == tracee, inside.info(inviso.self(), "flags")))


def traced(n: int) -> int:
    return n


def test_calls_of_the_package_inside_an_event_have_a_state_of_their_own(make: Any) -> None:
    nested = Nested()
    session = make("nested", (nested, None))
    session.process(inviso.self(), True, ["call"])
    session.function((__name__, "traced", 1), True, ["local"])
    assert [traced(n) for n in range(3)] == [0, 1, 2]
    assert nested.seen == [(True, ("flags", ["call"]))] * 3
    assert [inviso.receive(timeout=30) for _ in range(3)] == [("from the tracer", "call")] * 3


@pytest.mark.parametrize("kind", ["asyncio", "queue", "socket"])
def test_exceptions_of_methods_that_were_taken_are_the_programs(session: trace.Session, kind: str) -> None:
    """An exception of C code stays unchanged while the tracer looks: class, arguments, cause and context."""
    import asyncio
    import queue
    import socket

    session.process("all", True, ["send", "receive", "running", "procs", "ports"])
    session.port("all", True, ["send", "receive"])

    async def fails() -> Any:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        cause = KeyError("cause")
        error = ValueError("own", 1)
        error.__cause__ = cause
        future.set_exception(error)
        with pytest.raises(ValueError) as found:
            await future
        assert found.value is error and found.value.__cause__ is cause
        with pytest.raises(ValueError) as again:
            future.result()
        assert again.value is error
        with pytest.raises(asyncio.InvalidStateError, match=r"^Result is not set\.$"):
            asyncio.get_running_loop().create_future().result()

    if kind == "asyncio":
        asyncio.run(fails())
    elif kind == "queue":
        box: queue.SimpleQueue[int] = queue.SimpleQueue()
        for call in (lambda: box.get(False), lambda: box.get(timeout=0), box.get_nowait):
            with pytest.raises(queue.Empty) as empty:
                call()
            assert empty.value.args == () and empty.value.__context__ is None
        with pytest.raises(ValueError, match="non-negative"):
            box.get(timeout=-1)
    else:
        one, other = socket.socketpair()
        one.setblocking(False)
        with pytest.raises(BlockingIOError) as blocked:
            one.recv(1)
        assert blocked.value.errno == 11
        other.close(), one.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            one.recv(1)


def test_the_collector_may_run_where_an_object_that_was_traced_ends() -> None:
    """Without asyncio, a look for its task class ran Python code while the directory's table was in use."""
    done = child(
        """
import gc, queue, sys, inviso
from inviso import trace
assert "_asyncio" not in sys.modules
session = trace.session_create("look")
session.process("all", True, ["send", "receive"])
def used():
    items = queue.SimpleQueue()
    items.put(1)
    items.get()
    return items
class Cycle:
    pass
gc.disable()
for _ in range(100):
    cycle = Cycle()
    cycle.own, cycle.items = cycle, used()
one = used()
del cycle
gc.set_threshold(1)
gc.enable()
del one
gc.collect()
print(len(session.drain()), trace.session_info("all") != [])
session.destroy()
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "202 True\n", "")


def test_a_failure_does_not_reach_the_pickling_of_multiprocessing() -> None:
    """A pool's thread ended by such a failure, and the pool's end waited for it for ever."""
    done = child(
        """
import multiprocessing, inviso
from inviso import _native, seq_trace, trace
from multiprocessing.pool import ThreadPool
session = trace.session_create("look")
session.process("all", True, ["send", "receive"])
seq_trace.set_token("label", 1)
_native.seq.fail_at_pickles()
context = multiprocessing.get_context("fork")
items = context.SimpleQueue()
items.put([1])
print(items.get())
with ThreadPool(2) as pool:
    print(pool.map(abs, [-1, -2]))
def work(items):
    items.put("here")
process = context.Process(target=work, args=(items,))
process.start()
print(items.get())
process.join()
print(process.exitcode)
session.destroy()
"""
    )
    assert (done.returncode, done.stdout) == (0, "[1]\n[1, 2]\nhere\n0\n")
    assert "a test asked for this failure" in done.stderr
