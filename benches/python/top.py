"""The costs of ``inviso top`` for the program that it shows: ten functions counted, a refresh each second.

    python -m benches.python.top [--rounds 7] [--seconds 2] [--type call_time] [--messages]

One program runs all the time. It counts how often it gets through its ten functions. In each round its throughput is
measured four ways, in an order that turns with the rounds:

* ``plain``: nothing is counted, and ``inviso top`` does not run.
* ``looked``: ``inviso top`` without patterns.
* ``counted``: the ten functions are counted, and ``inviso top`` does not run.
* ``top``: ``inviso top -p`` with the ten functions.

The figures are medians over the rounds of the time that an order takes one way beside another way of the same round.
``top / counted`` is the cost of the view itself. Nothing else should run on the machine: ``counted / counted``, the
second half of a measurement beside the first, says how quiet it is. The default takes about two minutes. One line of
JSON on standard output for each figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inviso.control._control import Control

from .cluster import HOST, tell

PROGRAM = """
import sys, threading, time, queue
from inviso import runtime

def parse(order): return order.split(",")
def price(parts): return sum(len(part) for part in parts)
def tax(amount): return amount * 19 // 100
def discount(amount): return amount - amount // 10
def total(amount, more): return amount + more
def check(amount): return amount > 0
def label(parts): return "-".join(parts)
def text(amount, name): return f"{name}: {amount}"
def pack(line): return line.encode()
def handle(order):
    parts = parse(order)
    amount = price(parts)
    amount = total(discount(amount), tax(amount))
    if check(amount):
        line = text(amount, label(parts))
        for n in range(300):  # what a request does beside calling its own functions
            amount = amount * 31 % 1000003
        return pack(line)

handled = 0
box = queue.SimpleQueue()

def work():
    global handled
    while True:
        handle("apples,pears,plums")
        handled += 1
        if not handled % 100:
            box.put(handled)

def drain():
    while True:
        box.get()

runtime.listen(sys.argv[1], log_dir=sys.argv[2])
for each in (work, drain):
    threading.Thread(target=each, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    print(time.perf_counter(), handled, flush=True)
"""

PATTERNS = [
    f"__main__:{name}"
    for name in ("parse", "price", "tax", "discount", "total", "check", "label", "text", "pack", "handle")
]
WAYS = ("plain", "looked", "counted", "top")
PAIRS = [("looked", "plain"), ("counted", "plain"), ("top", "plain"), ("top", "counted")]

SETTLE = 1.5
"""Seconds after a change, before a measurement."""


class Program:
    """The measured program."""

    def __init__(self, folder: str) -> None:
        self.name = f"bench@{HOST}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "bench", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def now(self) -> tuple[float, int]:
        """A time, and the number of orders that the program has handled by then."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        at, handled = self._line().split()
        return float(at), int(handled)

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--type", choices=("call_time", "call_count"), default="call_time")
    parser.add_argument("--messages", action="store_true", help="top counts messages, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INVISO_DIR"] = str(Path(folder) / "sockets")
        program = Program(folder)
        try:
            measure(given, program)
        finally:
            program.close()


def measure(given: argparse.Namespace, program: Program) -> None:
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    quiet: list[float] = []
    for number in range(given.rounds):
        turn = number % len(WAYS)
        for way in (*WAYS[turn:], *WAYS[:turn]):
            with_way = Way(way, given, program)
            try:
                halves = [speed(program, given.seconds / 2) for _ in range(2)]
            finally:
                with_way.end()
            speeds[way].append(statistics.fmean(halves))
            if way == "counted":
                quiet.append(halves[1] / halves[0])
    tell("orders a second, plain", statistics.median(speeds["plain"]), "1/s")
    tell("counted / counted", 100 * statistics.median(quiet), "%")
    for one, other in PAIRS:
        # of the time taken: more than 100 is slower
        ratios = [b / a for a, b in zip(speeds[one], speeds[other], strict=True)]
        tell(f"{one} / {other}", 100 * statistics.median(ratios), "%")


def speed(program: Program, seconds: float) -> float:
    began, before = program.now()
    time.sleep(seconds)
    ended, after = program.now()
    return (after - before) / (ended - began)


class Way:
    """A state in which the program is measured: counting and views."""

    def __init__(self, way: str, given: argparse.Namespace, program: Program) -> None:
        self._control: Control | None = None
        self._top: subprocess.Popen[bytes] | None = None
        if way == "counted":
            self._control = Control(name=f"counts@{HOST}", timeout=60)
            assert self._control.add([program.name], "bench", {"dependency": 0})[0][1] == ("ok", "new")
            answers = self._control.call([program.name], "count_live", given.type, PATTERNS, False)
            assert answers[0][1] == ("ok", len(PATTERNS)), answers
        elif way in ("looked", "top"):
            words = [word for pattern in PATTERNS for word in ("-p", pattern)] if way == "top" else []
            words += ["--type", given.type, *(["--messages"] if given.messages else [])] if way == "top" else []
            self._top = subprocess.Popen(
                [sys.executable, "-m", "inviso", "top", program.name, "--json", *words], stdout=subprocess.PIPE
            )
            while way == "top" and not self._is_counted(program.name):
                pass
        time.sleep(SETTLE)

    def _is_counted(self, name: str) -> bool:
        """Whether the next line says that all functions are counted."""
        assert self._top is not None and self._top.stdout is not None
        functions: list[dict[str, Any]] = json.loads(self._top.stdout.readline())["nodes"][name]["functions"]
        return len(functions) == len(PATTERNS)

    def end(self) -> None:
        """Restores the state before."""
        if self._control is not None:
            self._control.remove(None, ends=True)
            self._control.close()
        if self._top is not None:
            self._top.terminate()
            self._top.communicate()
            assert not self._top.returncode


if __name__ == "__main__":
    main()
