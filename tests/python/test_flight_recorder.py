"""The flight recorder: a session's rings are written at a request."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg, log, trace
from inviso.trace_ports import trace_port
from port_tools import frames, python, read
from waiting import until


@pytest.fixture(autouse=True)
def nothing_stays_in_the_mailbox() -> Iterator[None]:
    yield
    while inviso.peek():
        inviso.receive(timeout=0)


class Odd(Exception):
    pass


def work(n: int) -> int:
    if n == -1:
        raise Odd("odd", n)
    if n == -2:
        raise ValueError(n)
    if n == -3:
        time.sleep(1.1)
    return n


def recorder(**options: Any) -> trace.Session:
    session = trace.session_create("recorder", None, options)
    session.function((__name__, "work", "_"), [("_", [], [("exception_trace",)])], ["local"])
    session.process("all", True, ["call"])
    return session


def dumps(session: trace.Session, count: int) -> str:
    """Waits for this number of dumps, and returns the path of the last."""
    until(lambda: session.info("session", "dumps")[1][0] >= count)
    state = session.info("session", "dumps")[1]
    assert state[2] is None
    return state[1]


def calls(path: str | Path) -> list[int]:
    return [m[3][2][0] for m in read(path) if m[0] == "trace" and m[2] == "call"]


def test_the_newest_messages_are_written_after_the_drop_record(tmp_path: Path) -> None:
    with recorder(overflow="overwrite", ring_bytes=16_384) as session:
        threads = [threading.Thread(target=lambda: [work(n) for n in range(3000)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = session.dump(tmp_path / "box")
        there = read(tmp_path / "box")
        assert there[0] == ("drop", done.dropped) and done.path == str(tmp_path / "box")
        assert len(there) - 1 == done.written
        assert done.written + done.dropped == 2 * 2 * 3000  # calls and their ends
        assert done.dropped > 0 and all(m[0] == "trace" for m in there[1:])
        assert session.dump(str(tmp_path / "empty")) == (str(tmp_path / "empty"), 0, 0)
        work(7)
        assert session.dump(tmp_path / "next")[1:] == (2, 0)
    assert calls(tmp_path / "next") == [7] and (tmp_path / "empty").read_bytes() == b""


def test_a_dump_into_a_port(tmp_path: Path) -> None:
    with recorder(overflow="overwrite") as session, trace_port("file", tmp_path / "box")() as port:
        for n in range(3):
            work(n)
            assert trace.dump(session, port) == (str(tmp_path / "box"), 2, 0)
        assert port.is_open() and port.written == 6
    assert calls(tmp_path / "box") == [0, 1, 2]


def test_a_compressed_dump_is_smaller(tmp_path: Path) -> None:
    with recorder(overflow="overwrite") as session:
        for n in range(1000):
            work(n)
        session.dump(tmp_path / "small", compress=True)
    assert 0 < os.path.getsize(tmp_path / "small") < 40_000


def test_a_match_spec_asks_for_a_dump(tmp_path: Path) -> None:
    with recorder(dump_to=str(tmp_path / "box-{n}"), dump_every=0) as session:
        spec = [([5], [], [("dump",), ("return_trace",)]), ("_", [], [])]
        session.function((__name__, "work", "_"), spec, ["local"])
        for n in range(6):
            work(n)
        path = dumps(session, 1)
        assert path == str(tmp_path / "box-1")
        work(5)
        assert dumps(session, 2) == str(tmp_path / "box-2")
    assert calls(path) == [0, 1, 2, 3, 4, 5]
    assert read(path)[-1][2] in ("call", "return_from")  # the dump is made by another thread, soon after the call
    assert calls(tmp_path / "box-2") == [5]


@pytest.mark.parametrize(
    "spec",
    [f"{__name__}.Odd", [([inviso.Atom("error"), ("$1", "_")], [("=:=", "$1", inviso.Atom(f"{__name__}.Odd"))], [])]],
)
def test_an_exception_asks_for_a_dump(tmp_path: Path, spec: Any) -> None:
    with recorder(dump_to=tmp_path / "box", dump_on=spec, dump_every=0) as session:
        with pytest.raises(ValueError, match="-2"):
            work(-2)
        work(1)
        time.sleep(0.05)
        assert session.info("session", "dumps") == ("dumps", (0, None, None))
        with pytest.raises(Odd):
            work(-1)
        path = dumps(session, 1)
    assert path == str(tmp_path / "box.1")
    assert calls(path) == [-2, 1, -1]
    assert read(path)[-1][2] == "exception_from"


class Base(Exception):
    pass


class Derived(Base, KeyError):
    pass


@pytest.mark.parametrize("asked", [Base, LookupError, KeyError, (OSError, KeyError), BaseException])
def test_classes_ask_for_dumps_of_what_is_derived_from_them(tmp_path: Path, asked: Any) -> None:
    def fail(error: BaseException) -> None:
        raise error

    with recorder(dump_to=tmp_path / "box", dump_on=asked, dump_every=0) as session:
        session.function((__name__, fail.__qualname__, 1), [("_", [], [("exception_trace",)])], ["local"])
        if asked is not BaseException:
            for other in (ValueError("x"), Odd(), GeneratorExit()):
                with pytest.raises(type(other)):
                    fail(other)
        time.sleep(0.05)
        assert session.info("session", "dumps") == ("dumps", (0, None, None))
        with pytest.raises(KeyError):
            fail(Derived())
        assert read(dumps(session, 1))[-1][2] == "exception_from"


@pytest.mark.parametrize("mfa", [f"{__name__}:work:_", f"{__name__}:work:1", (__name__, "work", 1)])
def test_a_slow_call_asks_for_a_dump(tmp_path: Path, mfa: Any) -> None:
    with recorder(dump_to=tmp_path / "box", dump_slower=(mfa, 1.0), dump_every=0) as session:
        for n in range(10):
            work(n)
        assert session.info("session", "dumps")[1][0] == 0
        work(-3)
        assert calls(dumps(session, 1))[-1] == -3


def test_a_signal_asks_for_a_dump_and_its_handler_is_called_still(tmp_path: Path) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: seen.append(number))
    try:
        with recorder(dump_to=tmp_path / "box", dump_signal=signal.SIGUSR2, dump_every=0) as session:
            work(1)
            os.kill(os.getpid(), signal.SIGUSR2)
            assert calls(dumps(session, 1)) == [1]
            assert seen == [signal.SIGUSR2]
        os.kill(os.getpid(), signal.SIGUSR2)
        assert len(seen) == 2 and len(list(tmp_path.iterdir())) == 1
    finally:
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize("first", ["pass", "os.fork() or os._exit(0)"])
def test_a_signal_is_heard_while_the_interpreter_is_not(tmp_path: Path, first: str) -> None:
    code = """
import os, signal, sys, inviso
from inviso import trace
def f(n): pass
s = trace.session_create("x", None, {"dump_to": sys.argv[1], "dump_signal": signal.SIGUSR2})
s.function(("__main__", "f", 1), True, ["local"])
s.process(inviso.self(), True, ["call"])
f(7)
exec(sys.argv[2])
print("stuck", flush=True)
pow(7, 10 ** 9, 1 << 200_000)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "box"), first], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGUSR2)
    path = tmp_path / "box.1"
    until(lambda: path.exists() and path.stat().st_size)
    assert process.poll() is None
    process.kill()
    process.wait()
    process.stdout.close()
    assert calls(path) == [7]


def test_dumps_are_not_more_frequent_than_asked_for(tmp_path: Path) -> None:
    with recorder(dump_to=tmp_path / "box", dump_every=0.4) as session:
        session.function((__name__, "work", "_"), [("_", [], [("dump",)])], ["local"])
        begun, took = time.monotonic(), []
        while len(took) < 3:
            work(1)
            if session.info("session", "dumps")[1][0] > len(took):
                took.append(time.monotonic() - begun)
            assert time.monotonic() < begun + 30
    # each is begun so long after the one before
    assert took[1] >= 0.4 and took[2] >= 0.8


def test_a_dump_that_fails_is_told_to_whoever_asks(tmp_path: Path) -> None:
    with recorder(dump_to=tmp_path / "no" / "box", dump_every=0) as session:
        session.function((__name__, "work", "_"), [("_", [], [("dump",)])], ["local"])
        work(1)
        assert "no" in until(lambda: session.info("session", "dumps")[1][2])


def test_what_a_dump_could_not_write_is_told_by_the_next(tmp_path: Path) -> None:
    with recorder(overflow="overwrite", ring_bytes=16_384) as session:
        for n in range(1000):
            work(n)
        overwritten = session.info("session", "dropped")[1]
        assert 0 < overwritten < 2000
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                session.dump("/dev/full")
            assert caught.value.errno == errno.ENOSPC and str(caught.value.filename) == "/dev/full"
            assert session.info("session", "dropped") == ("dropped", 2000)
        work(7)
        assert session.dump(tmp_path / "box")[1:] == (2, 2000)
        assert read(tmp_path / "box")[0] == ("drop", 2000) and calls(tmp_path / "box") == [7]
        # a reader that takes the messages in another way learns of it, too
        work(8)
        with pytest.raises(OSError):
            session.dump("/dev/full", compress=False)
        work(9)
        first, *rest = session.drain()
        assert first == ("drop", 2) and [m[2] for m in rest] == ["call", "return_from"]
        assert session.dump(tmp_path / "box")[1:] == (0, 0)
        assert session.info("session", "dropped") == ("dropped", 2002)


def test_the_written_part_of_a_dump_stays(tmp_path: Path) -> None:
    # files of 200,000 bytes at most, in a process of its own
    code = f"""
        import errno, resource, signal, time
        import inviso
        from inviso import trace
        def work(n): return n
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        options = dict(overflow="overwrite", ring_bytes=1 << 22, dump_to={str(tmp_path / "box-{n}")!r}, dump_every=0)
        session = trace.session_create("recorder", None, options)
        session.function((__name__, "work", "_"), [([-1], [], [("dump",)]), ("_", [], [])], ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(10_000):
            work(n)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        work(-1)
        while (state := session.info("session", "dumps")[1])[2] is None:
            time.sleep(0.01)
        assert state[:2] == (0, None) and "box-1" in state[2], state
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        work(-1)
        while not (state := session.info("session", "dumps")[1])[0]:
            time.sleep(0.01)
        assert state[1].endswith("box-2"), state
        print(session.info("session", "dropped")[1])
    """
    done = python(textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    lost = int(done.stdout)
    kept = calls(tmp_path / "box-1")
    assert kept == list(range(len(kept))) and len(kept) + lost == 10_001 and kept
    # if there was space again for a drop record, it stands in the first file
    told = [m[1] for name in ("box-1", "box-2") for m in read(tmp_path / name) if m[0] == "drop"]
    assert sum(told) == lost and calls(tmp_path / "box-2") == [-1]


def test_dump_means_nothing_where_nobody_writes(tmp_path: Path) -> None:
    with trace.session_create("plain") as session:
        session.function((__name__, "work", "_"), [("_", [], [("message", [("dump",)])])], ["local"])
        session.process(inviso.self(), True, ["call"])
        work(1)
        assert session.drain()[0][-1] == [True]


def test_a_fork_leaves_the_recorder_to_the_parent(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time, warnings, inviso
from inviso import trace
warnings.simplefilter("error")
def f(n): pass
s = trace.session_create("x", None, {"dump_to": sys.argv[1], "dump_signal": signal.SIGUSR2, "dump_every": 0})
s.function(("__main__", "f", 1), True, ["local"])
s.process(inviso.self(), True, ["call"])
f(1)
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGUSR2)
    time.sleep(0.1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert s.info("session", "dumps")[1][0] == 0
f(2)
os.kill(os.getpid(), signal.SIGUSR2)
while not s.info("session", "dumps")[1][1]: time.sleep(0.01)
"""
    done = python(code, str(tmp_path / "box"))
    assert (done.returncode, done.stderr) == (0, "")
    assert calls(tmp_path / "box.1") == [1, 2]


FORKS = """
import os, signal, sys, threading, time
asks = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
if "before" in sys.argv: os.register_at_fork(before=asks)  # our threads rest already
import inviso
from inviso import trace
def f(n): pass
def record(to):
    s = trace.session_create("x", None, {"dump_to": to, "dump_signal": signal.SIGUSR2, "dump_every": 0})
    s.function(("__main__", "f", 1), True, ["local"])
    s.process("all", True, ["call"])
    return s
def dumped(s, count):
    deadline = time.monotonic() + 10
    while (state := s.info("session", "dumps")[1])[0] < count:
        assert time.monotonic() < deadline, state
        time.sleep(0.001)
    assert state[0] == count and state[2] is None, state
def fork(child=lambda: None):
    if pid := os.fork():
        return pid
    code = 1
    try:
        code = child() or 0
    finally:
        os._exit(code)
def end(pid): return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
s = record(sys.argv[1])
"""


def forking(code: str, *arguments: str, warns: bool = False) -> None:
    """Runs a program that forks. A warning is a failure, unless the program has threads of its own."""
    warnings = "ignore" if warns else "error"
    command = [sys.executable, "-X", "faulthandler", "-W", f"{warnings}::DeprecationWarning", "-c", FORKS + code]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_is_heard_after_each_of_many_forks(tmp_path: Path) -> None:
    code = """
for n in range(1, 21):
    pid = fork()
    f(n)
    asks()
    dumped(s, n)
    assert end(pid) == 0
"""
    forking(code, str(tmp_path / "box"))
    assert [calls(tmp_path / f"box.{n}") for n in range(1, 21)] == [[n] for n in range(1, 21)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal_that_comes_during_a_fork_is_heard_after_it(tmp_path: Path, when: str) -> None:
    code = """
def work():
    asks()
    for _ in range(1000): time.monotonic()
if "after" in sys.argv: os.register_at_fork(after_in_parent=work)
f(1)
pid = fork()
dumped(s, 1)
assert end(pid) == 0
"""
    forking(code, str(tmp_path / "box"), when)
    assert calls(tmp_path / "box.1") == [1]


def test_a_signal_is_heard_after_a_thread_has_forked_for_which_the_program_waits(tmp_path: Path) -> None:
    code = """
def thread():
    pid = fork()
    f(1)
    asks()
    dumped(s, 1)
    assert end(pid) == 0
thread = threading.Thread(target=thread)
thread.start()
thread.join()
"""
    forking(code, str(tmp_path / "box"), warns=True)
    assert calls(tmp_path / "box.1") == [1]


def test_the_child_of_a_fork_has_its_signals_for_itself(tmp_path: Path) -> None:
    code = """
f(1)
assert end(fork(asks)) == -signal.SIGUSR2
s.destroy()
seen = []
signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
s = record(sys.argv[1])
def child():
    asks()
    s = record(sys.argv[2])
    f(2)
    asks()
    dumped(s, 1)
    return len(seen)
assert end(fork(child)) == 2
assert not seen and s.info("session", "dumps")[1][0] == 0
f(3)
asks()
dumped(s, 1)
assert len(seen) == 1
"""
    forking(code, str(tmp_path / "box"), str(tmp_path / "child"))
    assert calls(tmp_path / "child.1") == [2]
    assert calls(tmp_path / "box.1") == [3]


def test_what_a_signal_asked_for_is_written_before_the_session_ends(tmp_path: Path) -> None:
    code = """
f(1)
asks()
s.destroy()
"""
    forking(code, str(tmp_path / "box"))
    assert calls(tmp_path / "box.1") == [1]


SIGNALS = """
import os, re, signal, sys, time, inviso
from inviso import trace
from waiting import until, until_blocked
U = signal.SIGUSR2
def record(name, number=U):
    return trace.session_create(name, None, {"dump_to": sys.argv[1] + name, "dump_signal": number, "dump_every": 0})
def kick(*sessions):
    before = [s.info("session", "dumps")[1][0] for s in sessions]
    os.kill(os.getpid(), U)
    deadline = time.monotonic() + 10
    while [s.info("session", "dumps")[1][0] for s in sessions] != [n + 1 for n in before]:
        assert time.monotonic() < deadline
        time.sleep(0.001)
"""


def test_a_recorder_that_comes_after_a_handler_of_the_programs_hears_the_signal(tmp_path: Path) -> None:
    code = """
seen = []
a = record("a")
signal.signal(U, lambda *_: seen.append(1))
b = record("b")
kick(a, b)
assert len(seen) == 1
a.destroy(); b.destroy()
c = record("c")
kick(c)
assert len(seen) == 2
c.destroy()
os.kill(os.getpid(), U)
assert len(seen) == 3
signal.signal(U, signal.SIG_DFL)
e = record("e")
kick(e)
e.destroy()
os.kill(os.getpid(), U)
"""
    done = python(SIGNALS + code, str(tmp_path) + "/")
    assert (done.returncode, done.stderr) == (-signal.SIGUSR2, "")


def test_a_handler_that_calls_the_one_before_is_called_once(tmp_path: Path) -> None:
    code = """
import faulthandler
signal.signal(U, lambda *_: seen.append(1))
seen = []
a = record("a")
with open(sys.argv[1] + "told", "w") as file:
    faulthandler.register(U, chain=True, file=file, all_threads=False)  # over ours, which it calls
    b = record("b")
    kick(b)
    while not seen: pass
    assert len(seen) == 1, seen
    faulthandler.unregister(U)
c = record("c")
kick(c)
assert len(seen) == 2, seen
"""
    done = python(SIGNALS + code, str(tmp_path) + "/")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "told").read_text().count("most recent call first") == 1


def test_a_default_that_is_put_back_over_a_recorder_does_not_stay(tmp_path: Path) -> None:
    code = """
a = record("a")
before = signal.signal(U, lambda *_: None)
signal.signal(U, before)
caught = lambda: int(re.search(r"SigCgt:\\s*(\\w+)", open("/proc/self/status").read())[1], 16) >> (U - 1) & 1
until(caught)
kick(a)
"""
    done = python(SIGNALS + code, str(tmp_path) + "/")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGALRM])
def test_what_a_signal_does_by_default_follows_the_dump(tmp_path: Path, number: int) -> None:
    code = """
number = int(sys.argv[2])
signal.signal(number, signal.SIG_DFL)
a = record("a", number)
os.kill(os.getpid(), number)
time.sleep(30)
"""
    done = python(SIGNALS + code, str(tmp_path) + "/", str(int(number)))
    assert (done.returncode, done.stderr) == (-number, "")
    assert (tmp_path / "a.1").exists()


def test_a_handled_signal_does_not_end_the_program(tmp_path: Path) -> None:
    code = """
U = signal.SIGTERM
seen = []
signal.signal(U, lambda *_: seen.append(1))
a = record("a", U)
kick(a)
while not seen: pass
"""
    done = python(SIGNALS + code, str(tmp_path) + "/")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_handled_signal_interrupts_what_waits(tmp_path: Path) -> None:
    code = """
import threading
def handler(*_): raise LookupError
signal.signal(U, handler)
a = record("a")
r, w = os.pipe()
def kill():
    until_blocked(threading.main_thread())
    signal.pthread_kill(threading.main_thread().ident, U)
threading.Thread(target=kill).start()
try: os.read(r, 1)
except LookupError: print("heard")
"""
    done = python(SIGNALS + code, str(tmp_path) + "/", seconds=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


def test_a_program_may_close_descriptors_that_it_does_not_know(tmp_path: Path) -> None:
    code = """
a = record("a")
os.closerange(3, 256)
r, w = os.pipe()
more = [os.pipe() for _ in range(20)]
os.write(w, b"the program's")
kick(a)
kick(a)
assert os.read(r, 100) == b"the program's"
for reads, _ in more:
    os.set_blocking(reads, False)
    try: print(os.read(reads, 1))
    except BlockingIOError: pass
"""
    done = python(SIGNALS + code, str(tmp_path) + "/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_dump_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "box-2").write_text("mine")
    os.mkfifo(tmp_path / "box-3")
    (tmp_path / "box-5").symlink_to(tmp_path / "nowhere")
    for n in (1, 4, 6):
        with recorder(dump_to=tmp_path / "box-{n}", dump_every=0, dump_on=Odd) as session:
            with pytest.raises(Odd):
                work(-1)
            assert dumps(session, 1) == str(tmp_path / f"box-{n}")
    assert (tmp_path / "box-2").read_text() == "mine"
    assert calls(tmp_path / "box-1") == calls(tmp_path / "box-4") == [-1]
    os.mkfifo(tmp_path / "pipe")
    with recorder() as session, pytest.raises(BadArg, match="is a pipe"):
        session.dump(tmp_path / "pipe")


def test_a_dumps_name_may_be_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff{n}-{n}")
    with recorder(dump_to=name, dump_every=0, dump_on=Odd) as session:
        with pytest.raises(Odd):
            work(-1)
        assert dumps(session, 1) == name.replace("{n}", "1")
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff1-1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dump_on": "X"}, "pass dump_to"),
        ({"dump_signal": signal.SIGUSR2}, "pass dump_to"),
        ({"dump_every": 10}, "dump_every needs files .* pass dump_to"),
        ({"dump_to": 7}, "is no path"),
        ({"dump_to": "a\0"}, "is no path"),
        ({"dump_to": "x", "capture": "ref"}, "a dump has copies"),
        ({"dump_to": "x", "dump_signal": signal.SIGKILL}, "can't be handled"),
        ({"dump_to": "x", "dump_signal": "SIGUSR2"}, "can't be handled"),
        ({"dump_to": "x", "dump_signal": 0}, "can't be handled"),
        ({"dump_to": "x", "dump_on": []}, "is no exception"),
        ({"dump_to": "x", "dump_on": 7}, "is no exception"),
        ({"dump_to": "x", "dump_on": ""}, "is no exception"),
        ({"dump_to": "x", "dump_on": ()}, "is no exception"),
        ({"dump_to": "x", "dump_on": (KeyError, int)}, "is no exception"),
        ({"dump_to": "x", "dump_on": [("x",)]}, "a clause is a tuple"),
        ({"dump_to": "x", "dump_slower": 7}, "is no limit"),
        ({"dump_to": "x", "dump_slower": ("a:b:_", -1)}, "is no time"),
        ({"dump_to": "x", "dump_slower": ("a:b", 1)}, "is not an MFA"),
        ({"dump_to": "x", "dump_every": "1"}, "is no time"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadArg, match=words):
        trace.session_create("x", None, options)
    assert trace.session_info("all") == []


def test_wrong_dumps(tmp_path: Path) -> None:
    with pytest.raises(BadArg, match="its own tracer"):
        trace.session_create("x", print, {"dump_to": "x"})
    with trace.session_create("x", print) as session, pytest.raises(BadArg, match="go to its tracer"):
        session.dump(tmp_path / "x")
    with trace.session_create("x", None, {"capture": "ref"}) as session, pytest.raises(BadArg, match="no log takes"):
        session.dump(tmp_path / "x")
    with recorder() as session:
        with pytest.raises(BadArg, match="no file's name"):
            session.dump(7)  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            session.dump(tmp_path / "no" / "x")
        port = trace_port("file", tmp_path / "log")()
        port.close()
        with pytest.raises(BadArg, match="takes nothing more"):
            session.dump(port)
    with pytest.raises(BadArg, match="destroyed"):
        session.dump(tmp_path / "x")
    assert not list(frames(b""))


CRASHES = """
import os, sys, inviso
from inviso import trace
def f(n): raise LookupError(n)
s = trace.session_create("x", None, {"dump_to": "box-{n}", "dump_on": "LookupError"})
s.function(("__main__", "f", 1), [("_", [], [("exception_trace",)])], ["local"])
s.process(inviso.self(), True, ["call"])
os.chdir("/")
f(7)
"""


def test_the_exception_that_ends_the_program_is_in_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = python(CRASHES)
    assert done.returncode == 1 and "LookupError" in done.stderr
    assert [m[2] for m in read(tmp_path / "box-1")] == ["call", "exception_from"]


def test_what_was_asked_for_is_written_before_the_session_ends(tmp_path: Path) -> None:
    with pytest.raises(Odd), recorder(dump_to=tmp_path / "box", dump_on=f"{__name__}.Odd"):
        work(-1)
    assert calls(tmp_path / "box.1") == [-1]


def test_time_stamps_of_a_dump_are_of_the_sessions_own_clock(tmp_path: Path) -> None:
    """The system's clock was microseconds away from them, and the events of a short test were missed."""
    readings = []
    options = {"overflow": "overwrite"}
    with trace.session_create("own clock", None, options) as session:
        session.function((__name__, "work", 1), True, ["local"])
        session.process(inviso.self(), True, ["call", "monotonic_timestamp"])
        for _ in range(3):
            time.sleep(0.5)  # the longer no message is read, the further they are apart
            for _ in range(50):
                before = session._native.now()
                work(1)
                readings.append((before, session._native.now()))
        session.dump(tmp_path / "own.log")
    stamps = [message[-1] for message in log.read(str(tmp_path / "own.log"))]
    assert len(stamps) == len(readings) == 150
    assert all(before <= stamp <= after for (before, after), stamp in zip(readings, stamps, strict=True))
