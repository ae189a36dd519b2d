"""Forks, ``multiprocessing``, and the end of the interpreter with sessions open."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trace_tools import child, good

SECONDS = float(os.environ.get("INVISO_STRESS_SECONDS", "4"))

# fork swallows a warning that is an error; a printed warning fails the test
STRICT = ("-W", "always::DeprecationWarning")

SETUP = """
import os, sys, threading, inviso
from inviso import trace
from subjects import forked
W = ("subjects.forked", "work", 1)
def everything(tracer=None, **opts):
    s = trace.session_create("open", tracer, opts)
    s.function(W, True, ["call_count", "call_time", "call_memory", "call_latency", "local"])
    s.function("on_load", True, ["call_count"])
    s.process("all", True, ["call", "return_to", "procs", "set_on_spawn", "timestamp"])
    return s
def wait(pid):
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)
"""
TRACERS = ["None", "seen.append", "inviso.self()", "busy"]
TRACER_SETUP = """
seen = []
def busy(m):
    forked.other(3); seen.append(m)
tracer = {}
"""


@pytest.mark.parametrize("tracer", TRACERS)
def test_fork_with_a_session_open(tracer: str) -> None:
    text = (
        SETUP
        + TRACER_SETUP.format(tracer)
        + """
s = everything(tracer)
forked.untraced(5)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert trace.session_info("all") == []
        assert not s.is_alive()
        forked.untraced(5)
        assert forked.measured(7) == 7
        assert s.destroy() is False
        t = threading.Thread(target=forked.measured, args=(2,)); t.start(); t.join()
        assert inviso.self().is_alive()
        code = 7
    finally:
        os._exit(code)
assert wait(pid) == 7
forked.untraced(5)
assert s.info(W, "call_count") == ("call_count", 10), s.info(W, "call_count")
assert s.delivered().wait(30)
s.destroy()
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


def test_a_forked_child_that_ends_as_usual() -> None:
    text = (
        SETUP
        + """
s = everything(lambda m: None)
forked.untraced(5)
pid = os.fork()
if pid == 0:
    forked.untraced(5)
    sys.exit(9)
assert wait(pid) == 9
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


def test_forks_again_and_again_and_from_children() -> None:
    text = (
        SETUP
        + """
s = everything(lambda m: None)
for n in range(20):
    forked.untraced(1)
    pid = os.fork()
    if pid == 0:
        c = everything(lambda m: None)
        inner = os.fork()
        if inner == 0:
            os._exit(3 if forked.measured(4) == 4 else 4)
        os._exit(wait(inner))
    assert wait(pid) == 3
assert s.info(W, "call_count")[1] == 20
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


def test_fork_while_other_threads_are_traced() -> None:
    text = (
        SETUP
        + """
s = everything(overflow="overwrite")
stop = threading.Event()
def run():
    while not stop.is_set(): forked.work(1)
threads = [threading.Thread(target=run) for _ in range(3)]
for t in threads: t.start()
try:
    for n in range(10):
        pid = os.fork()
        if pid == 0:
            try: os._exit(3 if forked.measured(50) == 50 else 4)
            finally: os._exit(5)
        assert wait(pid) == 3
finally:
    stop.set()
    for t in threads: t.join()
assert s.info(W, "call_count")[1] > 0
print("ok")
"""
    )
    assert good(text, flags=["-W", "ignore"]) == "ok\n"


def test_fork_inside_a_traced_call() -> None:
    text = (
        SETUP
        + """
def forks():
    pid = os.fork()
    if pid == 0:
        assert forked.measured(3) == 3
        return None
    return wait(pid)
s = everything()
s.function(("__main__", "forks", 0), True, ["call_count", "call_time", "local"])
code = forks()
if code is None: os._exit(6)
assert code == 6
assert s.info(("__main__", "forks", 0), "call_count")[1] == 1
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


def test_a_second_session_after_a_fork_with_none() -> None:
    text = (
        SETUP
        + """
pid = os.fork()
if pid == 0: os._exit(forked.measured(3))
assert wait(pid) == 3
with everything() as s: forked.untraced(2)
pid = os.fork()
if pid == 0: os._exit(forked.measured(4))
assert wait(pid) == 4
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing(method: str, tracer: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    text = (
        SETUP
        + TRACER_SETUP.format(tracer)
        + """
import multiprocessing
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    s = everything(tracer)
    forked.untraced(5)
    process = context.Process(target=forked.measured, args=(5,))
    process.start(); process.join(50)
    assert process.exitcode == 0, process.exitcode
    with context.Pool(1) as pool:
        assert pool.map(forked.measured, [3, 4]) == [3, 4]
        pool.close(); pool.join()
    forked.untraced(5)
    assert s.info(W, "call_count") == ("call_count", 10)
    s.destroy()
    print("ok")
"""
    )
    # warnings about the pool's own threads don't count
    assert good(text, method, flags=["-W", "ignore::DeprecationWarning"]) == "ok\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_is_not_warned_about(method: str) -> None:
    text = (
        SETUP
        + """
import multiprocessing
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    s = everything(lambda m: None)
    process = context.Process(target=forked.measured, args=(5,))
    process.start(); process.join(50)
    assert process.exitcode == 0, process.exitcode
    print("ok")
"""
    )
    assert good(text, method, flags=STRICT) == "ok\n"


def test_subprocesses_start_as_usual() -> None:
    text = (
        SETUP
        + """
import subprocess
s = everything(lambda m: None)
out = subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True, text=True)
assert (out.stdout, out.stderr) == ("5\\n", ""), out
out = subprocess.run(["true"], preexec_fn=lambda: None)
assert out.returncode == 0
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


# the end of the interpreter

ENDS = {
    "falls off": ("", 0),
    "sys.exit": ("sys.exit(5)", 5),
    "raise": ("raise SystemExit(6)", 6),
    "os._exit": ("sys.stdout.flush(); os._exit(7)", 7),
    "exception": ("1 / 0", 1),
    "interrupt": ("os.kill(os.getpid(), 2); threading.Event().wait(30)", -signal.SIGINT),
}


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("end", ENDS)
def test_interpreter_exit_with_a_session_open(end: str, tracer: str) -> None:
    how, status = ENDS[end]
    text = (
        SETUP
        + TRACER_SETUP.format(tracer)
        + f"""
import atexit
atexit.register(lambda: print("atexit", forked.untraced(2)))
class Late:
    def __del__(self): forked.work(1)
late = Late()
s = everything(tracer)
forked.untraced(1000)
print("before", flush=True)
{how}
"""
    )
    done = child(text, flags=STRICT)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert done.stdout.startswith("before\n")
    if end != "os._exit":
        assert "atexit 2" in done.stdout
    trouble = done.stderr.replace("ZeroDivisionError", "") if end == "exception" else done.stderr
    if end in ("falls off", "sys.exit", "raise", "os._exit"):
        assert trouble == ""
    assert "Fatal" not in trouble
    assert "panicked" not in trouble


def test_exit_while_daemon_threads_are_traced() -> None:
    text = (
        SETUP
        + """
s = everything(overflow="overwrite")
def run():
    while True: forked.work(1)
for _ in range(3): threading.Thread(target=run, daemon=True).start()
while s.info(W, "call_count")[1] < 1000: pass
print("ok", flush=True)
"""
    )
    for _ in range(5):
        done = child(text, flags=STRICT)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
        assert "panicked" not in done.stderr


def test_exit_while_the_tracer_is_behind() -> None:
    text = (
        SETUP
        + """
gate = threading.Event()
s = everything(lambda m: gate.wait(0.001))
forked.untraced(2000)
print("ok", flush=True)
"""
    )
    # each waits for its tracer for some seconds, so all do at a time
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda _: good(text, flags=STRICT), range(20))) == ["ok\n"] * 20


def test_exit_with_daemon_threads_waiting() -> None:
    text = (
        SETUP
        + """
s = everything()
begun = [threading.Event() for _ in range(6)]
def waits(n):
    while True:
        begun[n].set()
        try: [inviso.receive, lambda: inviso.receive(timeout=0.001), s.receive][n % 3]()
        except TimeoutError: pass
for n in range(6): threading.Thread(target=waits, args=(n,), daemon=True).start()
for b in begun: b.wait()
print("ok", flush=True)
"""
    )
    for _ in range(20):
        assert good(text, flags=STRICT) == "ok\n"


def test_exit_while_daemon_threads_change_sessions() -> None:
    """A thread that is stopped inside a call keeps its locks. Objects that are dropped at the end don't wait for these
    locks.
    """
    text = (
        SETUP
        + """
import time
def changes():
    while True:
        with trace.session_create("changing") as s:
            for _ in range(3):
                s.function(("subjects.forked", "_", "_"), True, ["local"])
                s.function(("subjects.forked", "_", "_"), False, ["local"])
class Last:
    def __init__(self):
        self.s, self.me = everything(lambda m: None), self
    def __del__(self):
        assert not self.s.destroy() and not self.s.is_alive()
        trace.session_info("all")
for _ in range(3): threading.Thread(target=changes, daemon=True).start()
last = Last()  # no garbage before the end, or a collection may come earlier
held = everything(lambda m: None)
time.sleep(0.05 + ROUND / 1000)
sys.setswitchinterval(100)  # who waits for the lock now waits for ever
print("ok", flush=True)
"""
    )
    for n in range(20):
        assert good(text.replace("ROUND", str(n)), flags=STRICT) == "ok\n"


def test_exit_with_a_blocked_ring() -> None:
    text = (
        SETUP
        + """
s = everything(ring_bytes=4096, overflow="block", block_ms=10)
forked.untraced(300)
print("ok", s.info("session", "dropped")[1] > 0, flush=True)
"""
    )
    assert good(text, flags=STRICT) == "ok True\n"


def test_sessions_made_at_exit() -> None:
    text = (
        SETUP
        + """
import atexit
def late():
    s = everything(lambda m: None)
    forked.untraced(3)
    print(s.info(W, "call_count")[1])
atexit.register(late)
"""
    )
    done = child(text, flags=STRICT)
    assert done.returncode == 0, done.stderr
    assert "panicked" not in done.stderr
    assert "Fatal" not in done.stderr
    assert done.stdout in ("3\n", ""), done


def test_keyboard_interrupt_goes_through_traced_frames() -> None:
    text = (
        SETUP
        + """
import signal
s = everything()
def endless():
    while True: forked.work(1)
s.function(("__main__", "endless", 0), True, ["call_count", "call_time", "local"])
def soon():
    while s.info(W, "call_count")[1] < 100: pass
    os.kill(os.getpid(), signal.SIGINT)
t = threading.Thread(target=soon); t.start()
try: endless()
except KeyboardInterrupt: print("interrupted")
t.join()
n = s.info(W, "call_count")[1]
assert n >= 100
forked.work(1)
assert s.info(W, "call_count")[1] == n + 1
"""
    )
    assert good(text, flags=STRICT) == "interrupted\n"


def test_an_import_imports_few_modules() -> None:
    text = """
before = set(sys.modules)
import inviso
from inviso import trace
new = {m.partition(".")[0] for m in set(sys.modules) - before}
third = {m for m in new if m not in sys.stdlib_module_names and m[0] != "_" and m != "inviso"}
assert not third, third
assert not any(m in sys.modules for m in ("asyncio", "multiprocessing", "ctypes", "typing_extensions"))
print("ok")
"""
    assert good(text) == "ok\n"


def test_unloading_is_refused_or_harmless() -> None:
    text = (
        SETUP
        + """
s = everything()
for name in [n for n in sys.modules if n.startswith("inviso")]: del sys.modules[name]
forked.untraced(5)
del s
import gc; gc.collect()
forked.untraced(5)
import inviso
print("ok")
"""
    )
    done = child(text)
    assert done.returncode in (0, 1), done
    assert "panicked" not in done.stderr


@pytest.mark.parametrize("tracer", ["None", "print"])
def test_a_child_lets_go_of_an_inherited_session(tracer: str) -> None:
    out = good(f"""
import gc, os
from inviso import trace
session = trace.session_create("parents", {tracer})
child = os.fork()
if child == 0:
    del session
    gc.collect()
    with trace.session_create("own") as own:
        assert trace.session_info("all") == [own]
    os._exit(0)
print(os.waitpid(child, 0)[1])
""")
    assert out == "0\n"


def test_forks_beside_sessions_that_come_and_go(tmp_path: Path) -> None:
    text = f"from subjects import forks; forks.main({str(tmp_path)!r}, {min(SECONDS, 20)})"
    assert good(text, flags=["-W", "ignore"]) == "ok\n"


def test_a_fork_waits_for_what_another_thread_imports_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "_slow.py").write_text(
        "import threading\nthreading.current_thread().begun.set()\nimport time\ntime.sleep(0.5)\n"
    )
    text = (
        SETUP
        + f"inviso.__path__.append({str(tmp_path)!r})"
        + """
def bring():
    import inviso._slow
importer = threading.Thread(target=bring)
importer.begun = threading.Event()
importer.start()
importer.begun.wait()
pid = os.fork()
if pid == 0:
    import inviso._slow  # nobody there would ever end it
    os._exit(0)
assert wait(pid) == 0
importer.join()
print("ok")
"""
    )
    assert good(text, flags=["-W", "ignore"]) == "ok\n"


def test_nobody_is_told_of_a_tracer_that_rests() -> None:
    text = (
        SETUP
        + """
with trace.session_create("watching") as s, trace.session_create("callable", lambda m: None) as c:
    s.process("all", True, ["procs", "running"])
    for _ in range(3):
        pid = os.fork()
        if pid == 0: os._exit(0)
        assert wait(pid) == 0
        assert c.delivered().wait(30)
    told = [m for m in s.drain() if m[1] != inviso.self()]
    assert not told, told
    assert sorted(inviso.processes()) == sorted([c._worker.pid, inviso.self()])
print("ok")
"""
    )
    assert good(text, flags=STRICT) == "ok\n"


def test_a_tracers_thread_that_comes_too_late_says_so() -> None:
    """The thread that starts it, maybe in ``fork``, waits until it is ready, also if the tracer ends just then."""
    text = (
        SETUP
        + """
class Late:
    def __init__(self, lock, over): self.lock, self.over = lock, over
    def locked(self): return self.lock.locked()
    def acquire(self, blocking): self.over.set(); return self.lock.acquire(blocking)
    def release(self): self.lock.release()
session = trace.session_create("callable", lambda m: None)
worker = session._worker
session.destroy()
worker._over = threading.Event()
worker._held = Late(worker._held, worker._over)
starting = threading.Thread(target=worker.start, daemon=True)
starting.start()
starting.join(20)
print("waits for ever" if starting.is_alive() else "ok")
"""
    )
    assert good(text) == "ok\n"


def test_the_last_handle_goes_while_threading_has_its_lock() -> None:
    """A finaliser runs while a thread is started. A tracer's thread that begins then does not need that lock."""
    text = (
        SETUP
        + """
from inviso import _fork
from waiting import until
seen = []
session = trace.session_create("callable", seen.append)
session.function(W, True, ["local"])
session.process("all", True, ["call"])
worker = session._worker
_fork._forks[0] = None  # as if another thread forked
worker.pause()
del _fork._forks[0]
assert not worker._held.locked()
forked.work(1)
with threading._active_limbo_lock:
    del session
until(lambda: not worker.pid.is_alive())
assert [m[3] for m in seen] == [(*W[:2], [1])], seen
print("ok")
"""
    )
    assert good(text, limit=60) == "ok\n"


def test_a_timer_of_the_parent_is_stopped_in_the_child() -> None:
    text = (
        SETUP
        + """
timer = inviso.send_after(10_000, inviso.self(), "late")
pid = os.fork()
if pid == 0:
    timer.cancel()
    os._exit(3)
assert wait(pid) == 3
timer.cancel()
print("ok")
"""
    )
    assert good(text, flags=("-W", "ignore")) == "ok\n"
