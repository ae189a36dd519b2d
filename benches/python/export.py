"""Speed and memory of the export of a log to each format, and the sizes of the files, beside viztracer's.

    python -m benches.python.export [CALLS]

Each format is made by a process of its own, from one log of calls with their returns, monotonic time stamps and two
arguments: millions of messages a second (the best of three), the largest memory, bytes of output a call. viztracer, if
it is installed, traces as many calls of a function with two arguments and saves them; its bytes and seconds stand
below.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from inviso import _native, export
from inviso.terms import Atom

NAMES = ("Session.get", "Session.put", "connect", "Pool.acquire", "encode", "decode", "Cursor.execute", "to_json")


def write(path: Path, calls: int) -> None:
    """Writes the log."""
    pids = [_native.process.new_process("") for _ in range(4)]
    chance = random.Random(1)
    clock, module = 1_763_748_000_000_000_000, Atom("shop.backend.database")
    with path.open("wb") as file:
        for _ in range(calls):
            name, pid = Atom(chance.choice(NAMES)), chance.choice(pids)
            for tag, parts in (
                ("call", ((module, name, [len(name) * 7919, "customers"]),)),
                ("return_from", ((module, name, 2), Atom("ok"))),
            ):
                clock += chance.randrange(300, 3300)
                term = _native.etf.term_to_binary((Atom("trace_ts"), pid, Atom(tag), *parts, clock))
                file.write(struct.pack(">BI", 0, len(term)) + term)


def make(format: str, log: str, out: str) -> None:
    """Exports to one format, in this process."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        if format.startswith("arrow"):
            import pyarrow

            values = format.partition(" ")[2]
            rows = export.arrow(log, values=values)  # type: ignore[arg-type]
            messages = sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(rows))
        else:
            messages = export.FORMATS[format](log, out).messages
        best = min(best, time.perf_counter() - begin)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = 0 if format.startswith("arrow") else os.path.getsize(out)
    print(json.dumps([messages, messages / best / 1e6, memory, size]))


VIZTRACER = """
import json, os, sys, time, viztracer

def connect(number, name):
    return "ok"

calls, out = int(sys.argv[1]), sys.argv[2]
tracer = viztracer.VizTracer(log_func_args=True, tracer_entries=calls + 1000, verbose=0)
begin = time.perf_counter()
tracer.start()
for _ in range(calls):
    connect(60158, "customers")
tracer.stop()
traced = time.perf_counter()
tracer.save(out)
print(json.dumps([traced - begin, time.perf_counter() - traced, os.path.getsize(out)]))
"""


def run(*words: str) -> list[float]:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    here = ["-m", "benches.python.export"]
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder) / "log", str(Path(folder) / "out")
        write(log, calls)
        print(f"{2 * calls:,} messages, {log.stat().st_size / calls:.0f} bytes a call and its return")
        formats = [*export.FORMATS, "arrow text", "arrow binary", "arrow none"]
        if importlib.util.find_spec("pyarrow") is None:
            formats = [name for name in formats if name != "parquet" and not name.startswith("arrow")]
            print("no pyarrow here: tables are left out")
        print(f"{'':14}{'million/s':>10}{'MiB':>8}{'bytes a call':>14}")
        for format in formats:
            messages, rate, memory, size = run(*here, format, str(log), out)
            if messages != 2 * calls:
                raise SystemExit(f"{format}: {messages} messages")
            print(f"{format:14}{rate:>10.2f}{memory:>8.0f}{size / calls:>14.1f}")
        if importlib.util.find_spec("viztracer"):
            traced, saved, size = run("-c", VIZTRACER, str(calls), out + ".json")
            print(f"viztracer: {size / calls:.1f} bytes a call; {traced:.2f} s of tracing, {saved:.2f} s of saving")
        else:
            print("no viztracer here: left out")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        make(*sys.argv[1:])
    else:
        main()
