"""Trace ports as tracers: they write the messages that a session as its own tracer gets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg, log, seq_trace, trace
from inviso.trace_ports import TracePort, trace_port
from port_tools import Cut, frames, python, read
from waiting import until


@pytest.fixture(autouse=True)
def nothing_stays_in_the_mailbox() -> Iterator[None]:
    yield
    while inviso.peek():
        inviso.receive(timeout=0)


def work(n: int, text: str = "t", *, raw: bytes = b"\0\xff") -> dict[str, object]:
    if n < 0:
        raise ValueError(n)
    return {"n": n, "text": text, "raw": raw}


FLAGS = ["call", "procs", "send", "receive"]


def traced(session: trace.Session, *more: str, spec: Any = None) -> None:
    spec = [("_", [], [("return_trace",), ("exception_trace",), ("message", ("caller",))])] if spec is None else spec
    session.function((__name__, "work", "_"), spec, ["local"])
    session.process(inviso.self(), True, [*FLAGS, *more])


def program() -> None:
    for n in range(5):
        work(n, "ü" * n, raw=bytes(range(n)))
    with pytest.raises(ValueError, match="-1"):
        work(-1)
    inviso.send(inviso.self(), ("hello", inviso.self(), 1 << 80, 1.5, {"a": [None, True]}))
    inviso.receive()
    child = inviso.spawn(lambda: inviso.receive())
    inviso.link(child)
    inviso.unlink(child)
    inviso.send(child, "end")
    while child.is_alive():
        time.sleep(0.001)


@pytest.mark.parametrize("stamps", [[], ["timestamp"], ["monotonic_timestamp"], ["strict_monotonic_timestamp"]])
def test_a_file_has_what_the_session_tells(tmp_path: Path, stamps: list[str]) -> None:
    port = trace_port("file", tmp_path / "log")()
    with trace.session_create("own") as own, trace.session_create("logged", port) as logged:
        for session in (own, logged):
            traced(session, *stamps)
        program()
        assert logged.delivered().wait(30)
        told, there = own.drain(), read(tmp_path / "log")
    assert len(told) >= 18
    unique = len(told[0]) if not stamps else -1
    assert [m[:unique] for m in there] == [m[:unique] for m in told]
    for mine, other in zip(told, there, strict=True):
        assert type(mine[-1]) is type(other[-1])
    assert not port.is_open()
    assert (port.written, port.dropped, port.bytes) == (len(told), 0, os.path.getsize(tmp_path / "log"))
    assert stat.S_IMODE(os.stat(tmp_path / "log").st_mode) == 0o600


def test_monotonic_stamps_and_schedulers_are_the_same_in_both(tmp_path: Path) -> None:
    port = trace_port("file", str(tmp_path / "log"))()
    with trace.session_create("own") as own, trace.session_create("logged", port) as logged:
        for session in (own, logged):
            session.function((__name__, "work", "_"), True, ["local"])
            session.process("all", True, ["all"])
            session.process("all", False, ["silent", "timestamp", "strict_monotonic_timestamp"])
        work(1)
        assert logged.delivered("all").wait(30)
        told, there = own.drain(), read(tmp_path / "log")
    calls = [[m for m in messages if m[2] == "call"] for messages in (told, there)]
    assert calls[0] and calls[0][0][:-1] == calls[1][0][:-1]
    assert isinstance(calls[1][0][-2], int)


def test_what_a_full_ring_lost_stands_in_its_place(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    with trace.session_create("lossy", port, {"ring_bytes": 4096}) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(20_000):
            work(n)
        assert session.delivered().wait(30)
        lost = session.info("session", "dropped")[1]
    seen, next_ = 0, 0
    for message in read(tmp_path / "log"):
        if message[0] == "drop":
            seen += message[1]
            next_ += message[1]
        else:
            assert message[3][2][0] == next_
            next_ += 1
    assert (next_, seen) == (20_000, lost)
    assert port.dropped == lost and port.written == 20_000 - lost


def test_a_wrap_set_goes_round(tmp_path: Path) -> None:
    port = trace_port("file", (str(tmp_path / "w"), "wrap", ".log", 2000, 3))()
    with trace.session_create("wrapped", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(500):
            work(n)
    there = sorted(path.name for path in tmp_path.iterdir())
    assert len(there) == 3 and all(name.startswith("w") and name.endswith(".log") for name in there)
    last = [m[3][2][0] for name in there for m in read(tmp_path / name)]
    assert sorted(last) == list(range(min(last), 500))
    assert port.kind == "wrap" and port.path == str(tmp_path / "w")


def test_a_wrap_set_by_time(tmp_path: Path) -> None:
    port = trace_port("file", (str(tmp_path / "w"), "wrap", ".log", ("time", 20), 50))()
    with trace.session_create("wrapped", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        deadline = time.monotonic() + 10
        while not (tmp_path / "w3.log").exists() and time.monotonic() < deadline:
            work(1)
            time.sleep(0.005)
    assert (tmp_path / "w3.log").exists()


def test_a_socket_tells_its_client(tmp_path: Path) -> None:
    port = trace_port("ip", (0, 5))()
    assert port.kind == "ip" and port.path is None and port.address is not None and port.address[1] > 0
    with trace.session_create("sent", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(12):
            work(n)
        assert session.delivered().wait(30)
        client = socket.create_connection(port.address)
        reader = threading.Thread(target=lambda: got.append(b"".join(iter(lambda: client.recv(65536), b""))))
        got: list[bytes] = []
        reader.start()
    reader.join(10)
    client.close()
    messages = list(frames(got[0]))
    assert [m[3][2][0] for m in messages[:5]] == list(range(5))
    assert messages[5:] == [("drop", 7)]
    assert (port.written, port.dropped) == (5, 7)


@pytest.mark.parametrize("queue", [0, 5, 50])
def test_a_burst_reaches_a_client_that_reads(queue: int) -> None:
    port = trace_port("ip", (0, queue))()
    assert port.address
    with socket.socket() as client, trace.session_create("sent", port) as session:
        # the system takes all of it for the client, however busy this machine is
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        client.connect(port.address)
        reader = threading.Thread(target=lambda: got.append(b"".join(iter(lambda: client.recv(65536), b""))))
        got: list[bytes] = []
        reader.start()
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        until(lambda: work(0) and port.written)  # it has found its client
        assert session.delivered().wait(30)
        written, dropped = port.written, port.dropped
        for n in range(1000):
            work(n)
        assert session.delivered().wait(30)
        session.destroy()
        reader.join(10)
    assert [m[3][2][0] for m in list(frames(got[0]))[-1000:]] == list(range(1000))
    assert (port.written - written, port.dropped - dropped) == (1000, 0)


def test_several_sessions_may_have_one_port(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    first, second = (trace.session_create(str(n), port) for n in range(2))
    for session in (first, second):
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
    work(1)
    first.destroy()
    assert port.is_open()
    work(2)
    second.destroy()
    assert not port.is_open()
    assert [m[3][2][0] for m in read(tmp_path / "log")] == [1, 1, 2]


def test_queries_answer_the_port(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    with trace.session_create("asked", port) as session:
        session.process(inviso.self(), True, ["call"])
        session.function((__name__, "work", 3), True, ["meta"])
        assert session.info(inviso.self(), "tracer") == ("tracer", port)
        assert session.info((__name__, "work", 3), "meta")[1] is port
        with pytest.raises(BadArg, match="go to its tracer"):
            session.drain()
        with pytest.raises(BadArg, match="need a process"):
            session.system("long_gc", 10)


def test_a_port_whose_object_is_gone_is_known_still(tmp_path: Path) -> None:
    with trace.session_create("kept", trace_port("file", tmp_path / "log")()) as session:
        session.process(inviso.self(), True, ["call"])
        port = session.info(inviso.self(), "tracer")[1]
        assert isinstance(port, TracePort) and port.path == str(tmp_path / "log") and port.is_open()
        assert port == session.info(inviso.self(), "tracer")[1]
    assert "closed" in repr(port) and hash(port) == hash(port)


def test_a_port_that_is_closed_by_hand_takes_the_flags_with_it(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    with trace.session_create("orphan", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        work(1)
        port.close()
        port.close()
        work(2)
        assert session.info(inviso.self(), "flags") == ("flags", [])
        assert session.process(inviso.self(), True, ["call"]) == 1
        assert session.info(inviso.self(), "flags") == ("flags", [])
        assert session.delivered().wait(30)
    assert [m[3][2][0] for m in read(tmp_path / "log")] == [1]
    with pytest.raises(BadArg, match="open another one"):
        trace.session_create("late", port)


def test_a_port_is_a_system_tracer(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    assert seq_trace.set_system_tracer(port) is False
    assert seq_trace.get_system_tracer() is port
    seq_trace.set_token("label", "order 7")
    seq_trace.set_token("print", True)
    seq_trace.set_token("monotonic_timestamp", True)
    seq_trace.print({"here": [1, inviso.self()]})
    seq_trace.set_token(None)
    assert seq_trace.set_system_tracer(False) is port
    seq_trace.reset_trace()
    ((tag, label, info, stamp),) = read(tmp_path / "log")
    printed = ("print", (0, 1), inviso.self(), [], {"here": [1, inviso.self()]})
    assert (tag, label, info) == ("seq_trace", "order 7", printed)
    assert isinstance(stamp, int) and not port.is_open()
    with pytest.raises(BadArg):
        seq_trace.set_system_tracer(port)


def test_pids_say_which_node_they_are_of(tmp_path: Path) -> None:
    code = """
import sys, inviso
from inviso import trace, trace_ports
def f(x): pass
inviso.set_node("some@host")
with trace.session_create("x", trace_ports.trace_port("file", sys.argv[1])()) as s:
    s.function(("__main__", "f", 1), True, ["local"])
    s.process(inviso.self(), True, ["call"])
    f([inviso.self()])
"""
    done = python(code, str(tmp_path / "log"))
    assert done.returncode == 0, done.stderr
    ((_, pid, _, (_, _, [[inner]])),) = read(tmp_path / "log")
    assert pid == inner and pid.node == "some@host" and not pid.is_local()


def test_a_compressed_file_is_small(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log", compress=True)()
    with trace.session_create("small", port, {"ring_bytes": 64 << 20}) as session:
        session.function((__name__, "work", "_"), [("_", [], [("return_trace",)])], ["local"])
        session.process(inviso.self(), True, ["call", "timestamp"])
        for n in range(10_000):
            work(n)
    assert port.dropped == 0
    assert os.path.getsize(tmp_path / "log") < 40 * 10_000
    with pytest.raises(AssertionError):
        read(tmp_path / "log")  # no log of Erlang's


def sent(port: TracePort, first: int, count: int) -> None:
    with trace.session_create("sent", port) as session:
        session.process(inviso.self(), True, ["send"])
        for n in range(first, first + count):
            inviso.send(inviso.self(), n)
            inviso.receive()


@pytest.mark.parametrize("kind", ["file", "blocks", "wrap"])
def test_a_file_that_somebody_empties_is_written_on(tmp_path: Path, kind: str) -> None:
    name: Any = (tmp_path / "log", "wrap", ".log") if kind == "wrap" else tmp_path / "log"
    written = tmp_path / ("log0.log" if kind == "wrap" else "log")
    port = trace_port("file", name, **{"compress": True} if kind == "blocks" else {})()
    with trace.session_create("keeps it open", port), log.read(name, follow=True) as reader:
        sent(port, 0, 300)
        port.flush()
        assert [next(reader)[3] for _ in range(300)] == list(range(300))
        os.truncate(written, 0)
        sent(port, 300, 100)
        port.flush()
        assert [m[3] for m in log.read(name)] == list(range(300, 400))
        again = [next(reader) for _ in range(101)]
        assert (again[0].kind, [m[3] for m in again[1:]]) == ("anew", list(range(300, 400)))
    assert (port.written, port.dropped, port.errors) == (400, 0, 0)


@pytest.mark.parametrize("more", ["", ", compress=True"])
def test_two_processes_may_write_to_one_file(tmp_path: Path, more: str) -> None:
    path = tmp_path / "log"
    code = f"""
import sys, inviso
from inviso import trace, trace_ports
port = trace_ports.trace_port("file", {str(path)!r}{more})()
with trace.session_create("one of two", port) as session:
    session.process(inviso.self(), True, ["send"])
    print("open", flush=True)
    for line in sys.stdin:
        for n in range(50):
            inviso.send(inviso.self(), (sys.argv[1], int(line) + n))
            inviso.receive()
        port.flush()
        print(line, end="", flush=True)
assert (port.dropped, port.errors) == (0, 0)
"""

    def begin(name: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        one = subprocess.Popen([sys.executable, "-c", code, name], stdin=pipe, stdout=pipe, text=True)
        assert one.stdout is not None and one.stdout.readline() == "open\n"
        return one

    def say(one: subprocess.Popen[str], first: int) -> None:
        assert one.stdin is not None and one.stdout is not None
        one.stdin.write(f"{first}\n")
        one.stdin.flush()
        assert one.stdout.readline() == f"{first}\n"

    with begin("first") as first:
        say(first, 1000)
        with begin("second") as second:  # which empties it
            for n in range(0, 500, 50):
                say(first, n)
                say(second, n)
            second.communicate(timeout=60)
        first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    messages = [m[3] for m in log.read(path)]
    for name in "first", "second":
        assert [n for who, n in messages if who == name] == list(range(500))


def test_errors_are_counted_and_reported_nowhere_else() -> None:
    port = trace_port("file", "/dev/full")()
    with trace.session_create("full", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(3):
            work(n)
        assert session.delivered().wait(30)
        assert port.is_open() and port.errors > 0 and "space" in str(port.error)
        assert (port.written, port.dropped, port.bytes) == (0, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fil", "x"), "pass 'file' or 'ip'"),
        (("file", 7), "no file's name"),
        (("file", ""), "can't be a file's name"),
        (("file", "a\0b"), "can't be a file's name"),
        (("file", ("x", "wrap")), "no wrap set"),
        (("file", ("x", "wrapped", ".log")), "no wrap set"),
        (("file", ("x", "wrap", "")), "suffix"),
        (("file", ("x/", "wrap", ".l")), "is a folder"),
        (("file", ("x", "wrap", ".log", -1)), "size -1"),
        (("file", ("x", "wrap", ".log", ("time", 0))), "no time"),
        (("file", ("x", "wrap", ".log", 10, 0)), "count 0"),
        (("file", ("x", "wrap", ".log", True)), "size True"),
        (("ip", -1), "no port to listen on"),
        (("ip", "4711"), "no port to listen on"),
        (("ip", (0, -1)), "queue's size"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, Any], words: str) -> None:
    with pytest.raises(BadArg, match=words) as raised:
        trace_port(*arguments)
    assert "; " in str(raised.value) and raised.value.function == "trace_port/2"


def test_a_host_that_is_not_known_is_pythons_error() -> None:
    with pytest.raises(socket.gaierror) as found:
        trace_port("ip", 0, host="no such host")()
    assert found.value.errno in (socket.EAI_NONAME, socket.EAI_AGAIN)
    with pytest.raises(OSError, match="."):
        trace_port("ip", 0, host="ü" * 70)()


def test_wrong_uses(tmp_path: Path) -> None:
    with pytest.raises(BadArg, match="compressed"):
        trace_port("ip", 0, compress=True)
    with pytest.raises(BadArg, match="compressed"):
        trace_port("file", ("x", "wrap", ".l"), compress=True)
    with pytest.raises(BadArg, match="no host"):
        trace_port("ip", 0, host="")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        trace_port("file", tmp_path / "nowhere" / "log")()
    with pytest.raises(IsADirectoryError):
        trace_port("file", tmp_path)()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadArg, match="is a pipe"):
        trace_port("file", tmp_path / "pipe")()
    with trace_port("ip", 0)() as port, pytest.raises(OSError, match="in use"):
        trace_port("ip", port.address[1])() if port.address else None
    generator = trace_port("file", tmp_path / "log")
    with pytest.raises(BadArg, match="pass what it returns"):
        trace.session_create("x", generator)
    with generator() as port, pytest.raises(BadArg, match="writes copies"):
        trace.session_create("x", port, {"capture": "ref"})
    assert trace.session_info("all") == []


def test_a_port_that_nobody_uses_closes_itself(tmp_path: Path) -> None:
    port = trace_port("ip", 0)()
    address = port.address
    assert isinstance(port, TracePort) and address
    client = socket.create_connection(address)
    del port
    client.settimeout(5)
    with contextlib.suppress(ConnectionResetError):  # it may not be connected yet
        assert client.recv(1) == b""
    client.close()


AT_EXIT = """
import sys, inviso
from inviso import trace, trace_ports
def f(x): pass
port = trace_ports.trace_port(*eval(sys.argv[1]))()
s = trace.session_create("x", port)
s.function(("__main__", "f", 1), True, ["local"])
s.process(inviso.self(), True, ["call"])
for n in range(1000): f(n)
"""


def test_the_end_of_the_interpreter_writes_what_there_is(tmp_path: Path) -> None:
    done = python(AT_EXIT, repr(("file", str(tmp_path / "log"))))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read(tmp_path / "log")) == 1000
    done = python(AT_EXIT, repr(("ip", 0)))
    assert (done.returncode, done.stderr) == (0, "")


FORKS = """
import os, pathlib, sys, threading, time, warnings, inviso
from inviso import trace, trace_ports
warnings.simplefilter("error")
def f(who, x): pass
port = trace_ports.trace_port(*eval(sys.argv[1]))()
if port.address: print(port.address[1], flush=True)
s = trace.session_create("x", port)
s.function(("__main__", "f", 2), True, ["local"])
s.process("all", True, ["call"])
if port.address: sys.stdin.readline()
for n in range(20):
    for x in range(50): f("parent", n * 50 + x)
    pid = os.fork()
    if pid == 0:
        assert not port.is_open() and trace.session_info("all") == []
        for x in range(50): f("child", x)
        port.flush(), port.close()
        if n % 2: os._exit(0)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert port.is_open()
def names(): return [pathlib.Path(f"/proc/self/task/{t}/comm").read_text() for t in os.listdir("/proc/self/task")]
while not any(name.startswith("inviso-") for name in names()): pass
s.destroy()
"""


def test_a_child_of_a_fork_writes_nothing(tmp_path: Path) -> None:
    done = python(FORKS, repr(("file", str(tmp_path / "log"))))
    assert (done.returncode, done.stderr) == (0, "")
    assert [m[3][2] for m in read(tmp_path / "log")] == [["parent", n] for n in range(1000)]


def test_a_child_of_a_fork_lets_go_of_the_socket() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS, repr(("ip", (0, 100_000)))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    client = socket.create_connection(("127.0.0.1", int(process.stdout.readline())))
    process.stdin.write("go\n")
    process.stdin.flush()
    client.settimeout(30)
    got = b"".join(iter(lambda: client.recv(65536), b""))
    client.close()
    error = process.stderr.read()
    assert (process.wait(30), error) == (0, "")
    process.stdin.close(), process.stdout.close(), process.stderr.close()
    assert [m[3][2] for m in frames(got)] == [["parent", n] for n in range(1000)]


def test_threads_at_once(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    with trace.session_create("many", port, {"ring_bytes": 32 << 20}) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process("all", True, ["call"])
        threads = [threading.Thread(target=lambda k=k: [work(n, str(k)) for n in range(3000)]) for k in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            port.flush()
        for thread in threads:
            thread.join()
    of: dict[str, list[int]] = {}
    for message in read(tmp_path / "log"):
        of.setdefault(message[3][2][1], []).append(message[3][2][0])
    assert of == {str(k): list(range(3000)) for k in range(4)}


def test_names_that_are_too_long_are_cut(tmp_path: Path) -> None:
    port = trace_port("file", tmp_path / "log")()
    name = "f" + "ü" * 300
    scope: dict[str, Any] = {"__name__": "long"}
    exec(f"def {name}(): pass", scope)
    with trace.session_create("long", port) as session:
        assert session.function(("long", name, 0), True, ["local"]) == 1
        session.process(inviso.self(), True, ["call"])
        scope[name]()
    assert read(tmp_path / "log")[0][3] == ("long", name[:255], [])


WRITES = """
import sys, threading, inviso
from inviso import trace, trace_ports
def f(k, n, text): return text
s = trace.session_create("x", trace_ports.trace_port("file", sys.argv[1])())
s.function(("__main__", "f", 3), [("_", [], [("return_trace",)])], ["local"])
s.process("all", True, ["call"])
def run(k):
    for n in range(500_000): f(k, n, "x" * (n % 100)) # it ends by itself where nobody kills it
threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(2)]
for t in threads: t.start()
print("begun", flush=True)
threads[0].join()
"""


def killed(path: Path, seconds: float) -> list[Any]:
    process = subprocess.Popen([sys.executable, "-c", WRITES, str(path)], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        process.stdout.readline()
        time.sleep(seconds)
        before = path.stat().st_size
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()
    after = path.read_bytes()
    assert len(after) >= before
    told: list[Any] = []
    try:
        for message in frames(after):
            told.append(message)
    except Cut:
        pass  # of the one write that was under way the system had taken a part
    return told


def test_a_process_that_is_killed_leaves_whole_records(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    times = 1000 if request.config.getoption("--slow", default=False) else 8
    seen = 0
    for n in range(times):
        path = tmp_path / str(n)
        following: dict[Any, int] = {}
        for message in killed(path, (n * 7 % 20) / 200):
            if message[0] == "drop":
                following.clear()
            elif message[2] == "call":
                k, at, text = message[3][2]
                assert text == "x" * (at % 100)
                assert at == following.get(k, at)
                following[k] = at + 1
            seen += 1
        path.unlink()
    assert seen > 1000


def test_the_module_can_be_reached_from_the_package() -> None:
    assert inviso.trace_ports.trace_port is trace_port
    assert repr(json) and repr(trace_port("file", "x")) == "<trace port generator: file x>"


# -- limits


def settled(port: TracePort) -> None:
    """Waits until its thread has closed it."""
    until(lambda: not port.is_open())


@pytest.mark.parametrize("kind", ["file", "wrap", "compressed"])
def test_a_limit(kind: str, tmp_path: Path) -> None:
    name = str(tmp_path / "t")
    port = trace_port("file", (name, "wrap", ".log") if kind == "wrap" else name, compress=kind == "compressed")()
    assert not port.is_limited
    port.limit(3)
    assert port.is_limited and port.ended is None
    with trace.session_create("few", port) as session, trace.session_create("as few", port) as other:
        for one in (session, other):
            one.function((__name__, "work", "_"), True, ["local"])
            one.process(inviso.self(), True, ["call"])
        for n in range(10):
            work(n)
        settled(port)
        for one in (session, other):
            assert one.is_alive() and one.info(inviso.self(), "flags") == ("flags", [])
        work(10)
    assert (port.written, port.ended) == (3, "the limit of 3 messages was reached")
    found = list(log.read((name, "wrap", ".log") if kind == "wrap" else name))
    assert [message[3][2][0] for message in found] == [0, 0, 1]


def test_a_limit_counts_anew(tmp_path: Path) -> None:
    with trace_port("file", str(tmp_path / "t"))() as port, trace.session_create("few", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        for n in range(10):
            work(n)
        port.flush()
        port.limit(2, lost=1 << 40)
        for n in range(10):
            work(n)
        settled(port)
        assert (port.written, port.ended) == (12, "the limit of 2 messages was reached")


def test_a_rate(tmp_path: Path) -> None:
    with trace_port("file", str(tmp_path / "t"))() as port, trace.session_create("slow", port) as session:
        session.function((__name__, "work", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        port.limit(rate=(5, 100))
        for n in range(10):
            work(n)
            port.flush()
            time.sleep(0.05)
        assert (port.ended, port.written) == (None, 10)
        sent = 0
        while port.is_open():  # until six of them are within a tenth of a second
            work(sent)
            sent += 1
        assert port.ended == "there were more than 5 messages in 0.1 s" and port.written < 10 + sent


def test_what_is_lost_may_be_too_much(tmp_path: Path) -> None:
    with trace_port("file", str(tmp_path / "t"))() as port:
        port.limit(lost=10)
        with trace.session_create("full", port, {"ring_bytes": 4096}) as session:
            session.function((__name__, "work", "_"), True, ["local"])
            session.process(inviso.self(), True, ["call"])
            end = time.monotonic() + 10
            while port.ended is None and time.monotonic() < end:
                for n in range(1000):
                    work(n)
            settled(port)
        assert port.ended is not None and port.ended.startswith("it fell behind, and ")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"limit": 0}, r"TracePort\.limit, limit: 0 is no number of messages; pass an int from 1"),
        ({"rate": (1, 0)}, r"TracePort\.limit, rate: \(1, 0\) is no rate; pass messages a second"),
        ({"lost": -1}, r"TracePort\.limit, lost: -1 is no number of messages; pass an int from 0"),
    ],
)
def test_what_is_no_limit(more: dict[str, Any], text: str, tmp_path: Path) -> None:
    with trace_port("file", str(tmp_path / "t"))() as port:
        with pytest.raises(BadArg, match=text):
            port.limit(**more)
        assert not port.is_limited
