"""A service that lives long: all parts of the package come and go in it, and at rest it tells what it holds.

It is started by ``tests.python.soak``. A line of its input is ``go``, ``rest`` or ``end``; at ``rest`` all its work
ends, and it answers with a line of JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import queue
import random
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import inviso
from inviso import log, process, runtime, seq_trace, trace
from inviso.trace_ports import trace_port
from subjects import comings, services
from waiting import until

HELD: list[Any] = []
"""What a service with a leak never lets go of."""

done = threading.Event()
counts: dict[str, int] = {}
faults: list[str] = []


def step(n: int) -> int:
    """The function that ports, recorders and the control trace."""
    if n % 100 == 99:
        raise LookupError(n)
    return n


def steps(count: int = 300) -> None:
    for n in range(count):
        with suppress(LookupError):
            step(n)


# what comes and goes


def load(chance: random.Random, folder: Path) -> None:
    """Tasks, threads, queues and sockets."""
    match chance.randrange(4):
        case 0:
            services.streams(3, 5)
        case 1:
            services.threads(2, 20)
        case 2:
            services.blocking(2, 3)
        case _:
            services.ring(10, 100)


def calls(chance: random.Random, folder: Path) -> None:
    steps()
    time.sleep(0.005)


def sessions(chance: random.Random, folder: Path) -> None:
    """A session with some random requests."""
    options = chance.choice([{}, {"overflow": "overwrite"}, {"overflow": "block", "block_ms": 2}])
    with trace.session_create("short", None, options) as session:
        for _ in range(chance.randrange(1, 5)):
            comings.ask(session, chance)
            if chance.random() < 0.5:
                session.drain()
        time.sleep(chance.random() * 0.01)


def processes(chance: random.Random, folder: Path) -> None:
    """Processes that are linked, monitored, registered, and get messages."""
    me = inviso.self()
    child = inviso.spawn(lambda: inviso.send(me, inviso.receive(timeout=30)))
    name = f"soaked_{chance.randrange(5)}"
    with suppress(ValueError):
        inviso.register(name, child)
    inviso.send(child, {"text": "x" * 1000})
    assert inviso.receive(timeout=30) == {"text": "x" * 1000}
    until(lambda: child not in process.processes())


def tokens(chance: random.Random, folder: Path) -> None:
    """Tokens that queues, threads and headers carry."""
    seq_trace.set_token("label", 17)
    seq_trace.set_token("send", True)
    with seq_trace.Collector() if chance.random() < 0.3 else nullcontext():
        box: queue.Queue[int] = queue.Queue()
        thread = threading.Thread(target=box.get)
        thread.start()
        box.put(1)
        thread.join()
        headers: dict[str, str] = {}
        seq_trace.inject(headers)
        seq_trace.set_token([])
        seq_trace.extract(headers)
    seq_trace.set_token([])
    if chance.random() < 0.3:
        seq_trace.reset_trace()


def _traced(port: Any) -> None:
    with trace.session_create("logged", port) as session:
        session.function((__name__, "step", 1), [("_", [], [("exception_trace",)])], ["local"])
        session.process("all", True, ["call", "timestamp"])
        steps()
        assert session.delivered().wait(30)


def ports(chance: random.Random, folder: Path) -> None:
    """A log that is written, read and removed."""
    kind = chance.randrange(3)
    if kind == 2:
        port = trace_port("ip", (0, 1000))()
        client = log.trace_client("ip", port.address[1], lambda message: None)
        _traced(port)
        until(lambda: client not in process.processes())
        return
    source: Any = str(folder / "calls") if kind == 0 else (str(folder / "round"), "wrap", ".log", 4096, 3)
    _traced(trace_port("file", source, compress=kind == 0 and chance.random() < 0.5)())
    assert sum(1 for _ in log.read(source)) > 0
    _emptied(folder)


def recorder(chance: random.Random, folder: Path) -> None:
    """A flight recorder, with dumps at an exception and by a call."""
    options = {"dump_to": str(folder / "dump-{n}"), "dump_on": LookupError, "dump_every": 0, "ring_bytes": 16_384}
    with trace.session_create("recorder", None, options) as session:
        session.function((__name__, "step", 1), [("_", [], [("exception_trace",)])], ["local"])
        session.process("all", True, ["call"])
        steps()
        until(lambda: session.info("session", "dumps")[1][0] > 0)
        session.dump(folder / "now", compress=chance.random() < 0.5)
    assert sum(1 for path in folder.iterdir() for _ in log.read(str(path))) > 0
    _emptied(folder)


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


WORKS = [load, calls, sessions, processes, tokens, ports, recorder]


def fill() -> None:
    """Fills the tables that have a limit: names of ended threads and tasks are kept for the last 4096 of each."""

    async def nothing() -> None:
        pass

    async def tasks() -> None:
        for _ in range(5000):
            await asyncio.create_task(nothing())

    with trace.session_create("fill", None, {"overflow": "overwrite"}) as session:
        session.process("all", True, ["procs", "send", "receive"])
        asyncio.run(tasks())
        for _ in range(5000):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()


# leaks on request


def leaks(kind: str) -> None:
    """What a service with this leak does in each period."""
    match kind:
        case "descriptors":
            HELD.append(socket.socketpair())
        case "threads":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        case "memory":
            HELD.append(bytes(range(256)) * (16 << 10))
        case "processes":
            HELD.append(inviso.spawn(inviso.receive, name="held"))
        case "sessions":
            HELD.append(trace.session_create("held"))


# the service


def _works(work: Callable[[random.Random, Path], None], chance: random.Random, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    try:
        while not done.is_set():
            work(chance, folder)
            counts[work.__name__] = counts.get(work.__name__, 0) + 1
    except BaseException:
        faults.append(f"{work.__name__}: {traceback.format_exc()}")


def _heap() -> int | None:
    """Bytes that are in use of the C library's heap; None if it can't tell. What is free is returned to the system."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.malloc_trim(0)
    library.mallinfo2.restype = _Mallinfo
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        ("before", ctypes.c_size_t * 4), ("hblkhd", ctypes.c_size_t), ("between", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t), ("after", ctypes.c_size_t * 2),
    ]  # fmt: skip


def _holds() -> dict[str, Any]:
    """What is held at rest, beside what the system tells."""
    listener = runtime.listening()
    until(lambda: listener is None or listener.host.component is None)
    for _ in range(3):
        gc.collect()
    return {
        "blocks": sys.getallocatedblocks(),
        "heap": _heap(),
        "processes": len(process.processes()),
        "ports": len(process.ports()),
        "sessions": len(trace.session_info("all")),
        "registered": len(process.registered()),
        "counts": dict(sorted(counts.items())),
        "faults": faults,
    }


def main() -> None:
    node, folder, seed, leak, names = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    works = [work for work in WORKS if not names or work.__name__ in names.split(",")]
    logging.getLogger("asyncio").setLevel("ERROR")
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    runtime.listen(node, log_dir=str(folder / "logs"))
    if not names:
        fill()
    threads: list[threading.Thread] = []
    print("ready", flush=True)
    data = b""
    while piece := os.read(0, 100):
        data += piece
        while b"\n" in data:
            word, _, data = data.partition(b"\n")
            if word == b"go":
                done.clear()
                threads = [
                    threading.Thread(target=_works, args=(work, random.Random(seed + n), folder / work.__name__))
                    for n, work in enumerate(works)
                ]
                seed += len(works)
                for thread in threads:
                    thread.start()
            elif word == b"rest":
                done.set()
                for thread in threads:
                    thread.join()
                threads = []
                for kind in leak.split(","):
                    leaks(kind)
                print(json.dumps(_holds()), flush=True)
            else:
                return

