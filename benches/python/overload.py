"""A uvicorn service under load that its own trace overloads: times of answers before, during and after that.

    python -m benches.python.overload [--runs 9]

A process asks the service all the time, over four connections, and notes how long each answer took. Then a tool
(:mod:`inviso.tool`) traces every call of the application, with arguments, returns and time stamps. That is too much for
the service: the runtime component suspends itself. After two seconds the tool reactivates it, and it suspends again.

One line of JSON on standard output for each figure: medians over the runs. "Suspended after" is measured from the answer of
the call that set the patterns, in intervals of the overload check.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from inviso.runtime._settings import EVERY
from inviso.tool import Tool

from .cluster import HOST, tell

APPLICATION = """
def price(number):
    return number + 1

def total(numbers):
    return sum(map(price, numbers))

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    body = str(sum(total(range(100)) for _ in range(50))).encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""

CLIENT = """
import asyncio, sys, time

async def ask(out):
    reader, writer = await asyncio.open_unix_connection(sys.argv[1])
    while True:
        began = time.monotonic()
        writer.write(b"GET / HTTP/1.1\\r\\nHost: shop\\r\\n\\r\\n")
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(6)
        out.write(f"{began} {time.monotonic() - began}\\n")
        await asyncio.sleep(0.004)

async def main():
    with open(sys.argv[2], "w") as out:
        await asyncio.gather(*(ask(out) for _ in range(4)))

asyncio.run(main())
"""

PHASE = 4.0
"""Seconds of the time before, and of the time after."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            for what, value in run(Path(folder)).items():
                found.setdefault(what, []).append(value)
    for what, values in found.items():
        unit = what.rpartition(", ")[2]
        tell(what.removesuffix(f", {unit}"), statistics.median(values), unit)


def run(place: Path) -> dict[str, float]:
    """The figures of one run."""
    os.environ["INVISO_DIR"] = str(place / "sockets")
    (place / "shop.py").write_text(APPLICATION)
    words = [
        "-m",
        "inviso",
        "run",
        "--node",
        "shop",
        "--log-dir",
        str(place / "logs"),
        "-m",
        "uvicorn",
        "--log-level",
        "error",
    ]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    children: list[subprocess.Popen[bytes]] = []
    try:
        address = str(place / "shop.sock")
        children.append(
            subprocess.Popen([sys.executable, *words, "--uds", address, "shop:application"], env=environment)
        )
        while not os.path.exists(address):
            time.sleep(0.05)
        times = place / "times"
        children.append(subprocess.Popen([sys.executable, "-c", CLIENT, address, str(times)]))
        moments = drown()
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
    answers = [tuple(map(float, line.split())) for line in times.read_text().splitlines() if line.count(" ") == 1]

    def p99(begin: float, end: float) -> float:
        took = sorted(seconds for at, seconds in answers if begin <= at < end)
        return 1000 * took[int(0.99 * len(took))]

    before = p99(moments["begin"], moments["drowning"])
    after = p99(moments["suspended"] + 0.2, moments["again"])
    return {
        "p99 before, ms": before,
        "p99 while it drowns, ms": p99(moments["drowning"], moments["suspended"]),
        "p99 after it was suspended, ms": after,
        "p99 after, of that before, %": 100 * after / before,
        "suspended after so many checks, checks": (moments["suspended"] - moments["drowning"]) * 1000 / EVERY,
        "suspended again after it was reactivated, checks": (moments["suspended again"] - moments["reactivated"])
        * 1000
        / EVERY,
        "p99 after that, of that before, %": 100 * p99(moments["suspended again"] + 0.2, moments["end"]) / before,
    }


def drown() -> dict[str, float]:
    """Overloads the service twice; returns the time of each event."""
    moments: dict[str, float] = {}
    name = f"shop@{HOST}"
    changed = threading.Condition()

    def heard(event: Any) -> None:
        match event[3]:
            case ("state_change", _, (_, (_, _))):
                what = "suspended again" if "reactivated" in moments else "suspended"
            case ("state_change", _, (_, "running")) if "suspended" in moments:
                what = "reactivated"
            case _:
                return
        with changed:
            moments.setdefault(what, time.monotonic())
            changed.notify()

    def wait(what: str) -> None:
        with changed:
            assert changed.wait_for(lambda: what in moments, 60), f"not {what}"

    with Tool(name, reactivate=(PHASE + 1, 1, PHASE + 1)) as tool:
        tool.events(heard)
        time.sleep(1)
        moments["begin"] = time.monotonic()
        time.sleep(PHASE)
        assert tool.start_session()[0] == "ok"
        tool.inviso("tf", ["all", ["call", "timestamp"]])
        moments["drowning"] = time.monotonic()
        tool.inviso("tpl", ["shop", "_", "_", [("_", [], [("return_trace",)])]])
        wait("suspended")
        moments["again"] = moments["suspended"] + PHASE
        wait("suspended again")
        time.sleep(PHASE)
        moments["end"] = time.monotonic()
    return moments


if __name__ == "__main__":
    main()
