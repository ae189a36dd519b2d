"""A control over many runtimes of one host: the times of its calls, and its costs for each node.

    python -m benches.python.cluster [--nodes 1000] [--real 50] [--rounds 1000]

* ``get_status`` of one real runtime that does nothing, beside a bare echo of the same frames over the same kind of socket;
  and of one whose main thread holds the GIL, beside the switch interval.
* ``tf`` on all nodes: ``--real`` of them are processes, the others speak the real protocol, each over its own socket, from
  the threads of a few processes. Every answer is checked.
* memory of the control for each node, and its growth over rounds of ``get_status`` on all.
* the time until a control is told of a killed runtime.
* a program with a listener at rest, beside the same program without: processor time of recursive calls, in turns.

One line of JSON on standard output for each figure, with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inviso import etf

HOST = socket.gethostname()

REAL = """
import sys
from inviso import runtime
def step(n):
    return n
runtime.listen(sys.argv[1], log_dir=sys.argv[2])
print("ready", flush=True)
if len(sys.argv) > 3:
    while True:
        step(1)
sys.stdin.read()
"""


REST = """
import sys, time
if sys.argv[2:]:
    from inviso import runtime
    runtime.listen(log_dir=sys.argv[1])
    time.sleep(0.3)  # until it is at rest
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
began = time.process_time()
fibonacci(30)
print(time.process_time() - began)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--real", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1000)
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * given.nodes + 100
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, needed), hard))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INVISO_DIR"] = f"{folder}/sockets"
        children: list[subprocess.Popen[bytes]] = []
        try:
            measure(given, folder, children)
        finally:
            for child in children:
                child.kill()
                child.wait()


def measure(given: argparse.Namespace, folder: str, children: list[subprocess.Popen[bytes]]) -> None:
    from inviso.control._control import Control

    control = Control(name=f"bench@{HOST}", timeout=60)
    idle, busy = start(children, folder, "idle"), start(children, folder, "busy", "busy")
    for name in (idle, busy):
        assert control.add([name], "bench", {})[0][1] == ("ok", "new")
    tell("echo", p50(echo(children)), "us")
    tell("get_status, idle", p50(lambda: checked(control.call([idle], "get_status"), 1)), "us")
    tell("get_status, beside a busy thread", p50(lambda: checked(control.call([busy], "get_status"), 1), 200), "us")
    tell("switch interval", sys.getswitchinterval() * 1e6, "us")
    children.pop().kill()
    tell(
        "kill -9 is seen, p50",
        statistics.median(took := [killed(control, children, folder, n) for n in range(21)]),
        "ms",
    )
    tell("kill -9 is seen, at most", max(took), "ms")
    rounds = [[rested(folder, *words) for words in ((), ("listen",))] for _ in range(9)]
    tell("a listener at rest, x", statistics.median(there / without for without, there in rounds), "")

    names = [start(children, folder, f"real-{number}") for number in range(given.real)]
    names += speak(children, given.nodes - given.real)
    before = resident()
    began = time.perf_counter()
    answers = control.add(names, "bench", {})
    tell(f"add {len(names)} nodes", 1000 * (time.perf_counter() - began), "ms")
    wrong = [answer for _, answer in answers if answer != ("ok", "new")]
    assert not wrong, (len(wrong), wrong[0])
    tell("memory of the control for a node", (resident() - before) / len(names), "bytes")
    for name in names[: given.real]:
        assert control.call([name], "init_tracing", ("file", name))[0][1][0] == "ok"
    took = []
    for _ in range(20):
        began = time.perf_counter()
        checked(control.call(names, "tf", [("all", ["call"])]), len(names))
        took.append(1000 * (time.perf_counter() - began))
    tell(f"tf on {len(names)} nodes, p50", statistics.median(took), "ms")
    tell(f"tf on {len(names)} nodes, at most", max(took), "ms")
    sizes = []
    for number in range(given.rounds):
        checked(control.call(names, "get_status"), len(names))
        if number in (given.rounds // 10, given.rounds - 1):
            sizes.append(resident())
    tell(f"growth over {given.rounds * 9 // 10} rounds", sizes[-1] - sizes[0], "bytes")
    control.close()


def killed(control: Any, children: list[subprocess.Popen[bytes]], folder: str, number: int) -> float:
    """Milliseconds until an event says that a runtime is gone."""
    name = start(children, folder, f"killed-{number}")
    assert control.add([name], "bench", {})[0][1] == ("ok", "new")
    seen: queue.Queue[float] = queue.Queue()

    def look(event: Any) -> None:
        if event[3][0] == "disconnected" and event[3][1] == name:
            seen.put(time.perf_counter())

    control.subscribe(look)
    began = time.perf_counter()
    children.pop().kill()
    took = seen.get(timeout=20) - began
    control.unsubscribe(look)
    return 1000 * took


def rested(folder: str, *words: str) -> float:
    """Seconds of processor time that a program takes for calls, with a listener or without."""
    return float(subprocess.run([sys.executable, "-c", REST, folder, *words], capture_output=True, check=True).stdout)


def start(children: list[subprocess.Popen[bytes]], folder: str, name: str, *words: str) -> str:
    """Starts a real runtime; returns its full name."""
    text = [sys.executable, "-c", REAL, name, f"{folder}/logs", *words]
    child = subprocess.Popen(text, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    return f"{name}@{HOST}"


def speak(children: list[subprocess.Popen[bytes]], count: int) -> list[str]:
    """Starts this number of runtimes that only speak the protocol, in ten processes; returns their names."""
    names = []
    for number in range(10 if count >= 10 else min(count, 1)):
        share = count // 10 + (number < count % 10)
        text = [sys.executable, "-m", "benches.python.cluster_speaker", str(number), str(share)]
        child = subprocess.Popen(text, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        names += [f"speaks-{number}-{at}@{HOST}" for at in range(share)]
    return names


def echo(children: list[subprocess.Popen[bytes]]) -> Any:
    """A function that sends a request's frame to another process. That reads it and only writes an answer's frame."""
    here, there = socket.socketpair()
    request, answer = ("call", 1, "get_status", []), framed(("answer", 1, ("ok", ("new", "running"))))
    text = (
        "import os\nfrom inviso import etf\n"
        f"answer = etf.loads({answer[4:]!r})\n"
        f"while data := os.read({there.fileno()}, 65536):\n"
        "    assert etf.loads(data[4:])[0] == 'call'\n"
        f"    data = etf.dumps(answer); os.write({there.fileno()}, len(data).to_bytes(4, 'big') + data)\n"
    )
    children.append(subprocess.Popen([sys.executable, "-c", text], pass_fds=[there.fileno()]))
    there.close()

    def once() -> None:
        here.sendall(framed(request))
        assert etf.loads(here.recv(65536)[4:])[0] == "answer"

    return once


def framed(term: Any) -> bytes:
    data = etf.dumps(term)
    return struct.pack(">I", len(data)) + data


def checked(pairs: list[tuple[str, Any]], count: int) -> None:
    """Checks that every node has answered."""
    wrong = [answer for _, answer in pairs if answer[0] != "ok"]
    assert len(pairs) == count and not wrong, (len(wrong), wrong[:1])


def p50(work: Any, count: int = 2000) -> float:
    """The median of its times, in microseconds."""
    for _ in range(count // 10):
        work()
    took = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return 1e6 * statistics.median(took)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tell(what: str, value: float, unit: str) -> None:
    print(
        json.dumps({"what": what, "value": round(value, 2), "unit": unit, "load": round(os.getloadavg()[0], 1)}),
        flush=True,
    )


if __name__ == "__main__":
    assert hasattr(select, "epoll"), "Linux only"
    main()
