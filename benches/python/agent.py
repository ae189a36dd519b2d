"""A control and a runtime of another host, joined by two agents over loopback: the costs of the path between them.

    python -m benches.python.agent [--tls FOLDER] [--megabytes 400]

* ``get_status``, beside a bare question and answer of the engine over the same kind of connection.
* the time until a killed runtime is noticed, and until an agent that hangs is noticed.
* copying a log, beside a plain copy of the file; memory of the agent that sends.

``--tls`` is a folder with ``ca.pem``, ``agent.pem`` and ``agent.key``. One line of JSON on standard output for each figure.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inviso.cli._agent import agents

from .cluster import HOST, REAL, p50, tell

ECHO = """
import sys
from inviso.agent._access import Tls
from inviso.agent._engine import Engine
engine = Engine([sys.argv[1]], [], tls=Tls(*sys.argv[2:5]) if sys.argv[2:] else None)
engine.serve("echo/*", lambda key, data, answer: answer(data))
print("ready", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tls", metavar="FOLDER")
    parser.add_argument("--megabytes", type=int, default=400)
    given = parser.parse_args()
    files = [os.path.join(given.tls, name) for name in ("ca.pem", "agent.pem", "agent.key")] if given.tls else []
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(given, Path(folder), files, children)
        finally:
            for child in children:
                child.kill()
                child.wait()


def measure(given: argparse.Namespace, place: Path, files: list[str], children: list[subprocess.Popen[bytes]]) -> None:
    from inviso.agent._access import Tls
    from inviso.agent._engine import Engine
    from inviso.control._control import Control

    protocol = "tls" if files else "tcp"
    ends = [f"{protocol}/127.0.0.1:{free_port()}" for _ in range(4)]
    options = [word for name, path in zip(("--ca", "--cert", "--key"), files, strict=False) for word in (name, path)]
    there = agent(children, place / "there", "there", ends[0], *options)
    here = agent(children, place / "here", HOST, ends[1], "--connect", ends[0], *options)
    os.environ["INVISO_DIR"] = str(place / "here" / "sockets")
    control = Control(name=f"bench@{HOST}", timeout=60)

    def node(name: str) -> tuple[str, subprocess.Popen[bytes]]:
        environment = {**os.environ, "INVISO_DIR": str(place / "there" / "sockets"), "INVISO_HOST": "there"}
        child = start(children, [sys.executable, "-c", REAL, name, str(place / "logs")], environment)
        full = f"{name}@there"
        while control.add([full], "bench", {})[0][1] != ("ok", "new"):
            time.sleep(0.01)
        return full, child

    name, child = node("idle")
    # before this process has an engine: its threads stay
    tell("get_status through agents", p50(lambda: control.call([name], "get_status")), "us")
    start(children, [sys.executable, "-c", ECHO, ends[2], *files], {**os.environ})
    engine = Engine([ends[3]], [ends[2]], tls=Tls(*files) if files else None)
    while not asked(engine):
        time.sleep(0.05)
    tell("question and answer of the engine", p50(lambda: asked(engine)), "us")
    engine.close()

    assert control.call([name], "init_tracing", ("file", "t.log"))[0][1][0] == "ok"
    control.call([name], "stop_tracing")
    log = place / "logs" / "t.log"
    log.write_bytes(os.urandom(1 << 20) * given.megabytes)
    control.sources(name)(str(log)).read()  # what an agent keeps for its first large message is not counted
    speeds, plain, before = [], [], [peak(each) for each in (there.pid, here.pid)]
    for _ in range(5):
        began = time.perf_counter()
        source = control.sources(name)(str(log))
        with open(place / "copy", "wb") as copy:
            while data := source.read():
                copy.write(data)
        speeds.append(given.megabytes / (time.perf_counter() - began))
        assert os.path.getsize(place / "copy") == given.megabytes << 20
        began = time.perf_counter()
        shutil.copyfile(log, place / "copy")
        plain.append(given.megabytes / (time.perf_counter() - began))
    tell("copying a log", statistics.median(speeds), "MiB/s")
    tell("a plain copy of the file", statistics.median(plain), "MiB/s")
    # each part is asked for, so a reader that stalls is sent no more than it has asked for
    for what, pid, least in (("sends", there.pid, before[0]), ("receives", here.pid, before[1])):
        tell(f"memory that copying takes in the agent that {what}, most", peak(pid) - least, "KiB")

    seen: queue.Queue[float] = queue.Queue()
    control.subscribe(lambda event: seen.put(time.perf_counter()) if event[3][0] == "disconnected" else None)
    control.remove(None, ends=True)
    seen.get(timeout=20)
    took = []
    for number in range(11):
        _, child = node(f"killed-{number}")
        began = time.perf_counter()
        child.kill()
        took.append(1000 * (seen.get(timeout=20) - began))
    tell("kill -9 is seen, p50", statistics.median(took), "ms")
    tell("kill -9 is seen, at most", max(took), "ms")
    node("last")
    began = time.perf_counter()
    there.send_signal(signal.SIGSTOP)
    tell("an agent that hangs is seen", 1000 * (seen.get(timeout=60) - began), "ms")
    there.send_signal(signal.SIGCONT)
    control.close()


def asked(engine: Any) -> bool:
    """Whether the engine's echo has answered."""
    found: queue.Queue[bytes | None] = queue.Queue()
    engine.ask("echo/x", b"hello", 5, found.put)
    return found.get(timeout=20) is not None


def agent(
    children: list[subprocess.Popen[bytes]], place: Path, host: str, endpoint: str, *options: str
) -> subprocess.Popen[bytes]:
    """Starts an agent of a host of its own, and waits until it answers."""
    place.mkdir()
    environment = {**os.environ, "INVISO_DIR": str(place / "sockets"), "INVISO_HOST": host}
    made = subprocess.Popen([sys.executable, "-m", "inviso", "agent", "--listen", endpoint, *options], env=environment)
    children.append(made)
    os.environ["INVISO_DIR"] = environment["INVISO_DIR"]
    while made.pid not in [each["pid"] for each in agents()]:
        time.sleep(0.02)
    return made


def start(
    children: list[subprocess.Popen[bytes]], words: list[str], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Starts a process, and waits until it says that it is ready."""
    made = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    children.append(made)
    assert made.stdout is not None
    assert made.stdout.readline() == b"ready\n"
    return made


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def peak(pid: int) -> float:
    """The largest memory of a process so far, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


if __name__ == "__main__":
    main()
