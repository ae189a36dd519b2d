"""Facts that no other test checks: each of these tests fails under a change of the source that all others pass."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import inviso
import pytest
from inviso import trace
from inviso.trace_ports import trace_port


def one(n: Any) -> Any:
    return n


def traced(port: Any, options: Any = ()) -> trace.Session:
    session = trace.session_create("unnoticed", port, options)
    session.process(inviso.self(), True, ["call"])
    session.function((__name__, "one", 1), True, ["local"])
    return session


def open_in(folder: pathlib.Path) -> int:
    """The descriptor of the file in a folder that this process has open."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(str(folder)):
                return int(number)
        except OSError:
            continue
    raise AssertionError("no file is open there")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="descriptors are looked up in /proc")
@pytest.mark.parametrize("kind", ["file", "compressed", "wrap"])
def test_a_port_whose_descriptor_is_another_files_now(tmp_path: pathlib.Path, kind: str) -> None:
    """It neither writes to the program's file nor closes it, and reports its losses."""
    folder = tmp_path / "log"
    folder.mkdir()
    if kind == "wrap":
        port = trace_port("file", (str(folder / "w"), "wrap", ".l", 3000, 3))()
    else:
        port = trace_port("file", str(folder / "t"), compress=kind == "compressed")()
    session = traced(port)
    for n in range(20):
        one(n)
    assert session.delivered().wait(30)
    number = open_in(folder)
    os.close(number)
    mine = os.open(tmp_path / "mine", os.O_RDWR | os.O_CREAT)
    if mine != number:
        os.dup2(mine, number)
        os.close(mine)
    try:
        for n in range(500):
            one(n)
        assert session.delivered().wait(30)
        session.destroy()
        port.close()
        assert os.fstat(number).st_size == 0
        assert port.error is not None and port.dropped
    finally:
        os.close(number)


def test_a_socket_of_the_programs_in_the_place_of_a_clients() -> None:
    port = trace_port("ip", 0)()
    session = traced(port)
    client = socket.create_connection(port.address)
    one(0)
    assert session.delivered().wait(30) and client.recv(1)  # the client is known
    ours = {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_socket(n)}
    accepted = [int(n) for n in ours if _peer(int(n)) == client.getsockname()]
    assert len(accepted) == 1
    mine, other = socket.socketpair()
    os.dup2(mine.fileno(), accepted[0])
    mine.close()
    for n in range(500):
        one(n)
    assert session.delivered().wait(30)
    session.destroy()
    port.close()
    other.setblocking(False)
    with pytest.raises(BlockingIOError):  # neither bytes nor the end
        other.recv(1)
    os.close(accepted[0])
    other.close()
    client.close()


def _is_socket(number: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    except OSError:
        return False


def _peer(number: int) -> Any:
    with socket.socket(fileno=os.dup(number)) as copy:
        try:
            return copy.getpeername()
        except OSError:
            return None


@pytest.mark.parametrize("stamp", ["timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"])
def test_a_scheduler_stands_beside_a_stamp(stamp: str) -> None:
    with trace.session_create("unnoticed") as session:
        session.function((__name__, "one", 1), True, ["local"])
        session.process(inviso.self(), True, ["call", "arity", "scheduler_id"])
        one(1)
        session.process(inviso.self(), True, [stamp])
        one(1)
        alone, beside = session.drain()
    assert alone[:-1] == ("trace", inviso.self(), "call", (__name__, "one", 1))
    assert beside[:-1] == ("trace_ts", *alone[1:])


def test_each_of_many_functions_is_found_wherever_its_place_is() -> None:
    """The table has chunks: a search that begins near the end of one continues at the beginning of it."""
    made: dict[str, Any] = {"__name__": "many_functions"}
    exec("\n".join(f"def f{i}(): return {i}" for i in range(20_000)), made)
    with trace.session_create("unnoticed") as session:
        assert session.function(("many_functions", "_", "_"), True, ["call_count"]) == 20_000
        for i in range(20_000):
            made[f"f{i}"]()
        counts = {session.info(("many_functions", f"f{i}", 0), "call_count") for i in range(20_000)}
    assert counts == {("call_count", 1)}


STALL = """
import os, socket, sys, threading
import inviso
from inviso import etf, trace
from inviso.trace_ports import trace_port
def f(n): pass
port = trace_port("ip", (0, 100_000))()
session = trace.session_create("stall", port, {"capture": {"bytes": 4000, "total": 8000}})
session.process(inviso.self(), True, ["call"])
session.function((__name__, "f", 1), True, ["local"])
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
client.settimeout(20)
client.connect(port.address)
f("%05d" % 0)
data = bytearray(client.recv(1))  # the client is known, and reads no more
sent = 1
for _ in range(6):
    for _ in range(1500):
        f("%05d" % sent + "x" * 3000)
        sent += 1
    session.delivered().wait(2)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
def rest():
    while some := client.recv(1 << 20):
        data.extend(some)
reader = threading.Thread(target=rest)
reader.start()
assert session.delivered().wait(20)
session.destroy()
port.close()
reader.join()
at = got = lost = 0
while at < len(data):
    size = int.from_bytes(data[at + 1 : at + 5], "big")
    if data[at] == 1:
        lost += size
        at += 5
        continue
    assert data[at] == 0 and at + 5 + size <= len(data), f"garbled at {at} of {len(data)}"
    number = int(etf.loads(bytes(data[at + 5 : at + 5 + size]))[3][2][0][:5])
    assert number == got + lost, f"{number} where {got + lost} should be"
    got += 1
    at += 5 + size
assert got + lost == sent, (got, lost, sent)
print("all")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forks_while_a_client_stalls_in_the_midst_of_a_batch() -> None:
    """Unsent bytes are sent afterwards, once."""
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", STALL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "all\n"), done.stderr
