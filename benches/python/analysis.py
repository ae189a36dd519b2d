"""Speed and memory of making tables from a log, beside the table of its events; and the path of one label.

    python -m benches.python.analysis [MESSAGES]

Each table is made by a process of its own, from one log of blocks: calls with their returns, and messages through a queue, with
monotonic time stamps. A line of JSON each: millions of messages a second (the best of three, by the time of the processor), and the
largest memory. ``path``: the seconds that `critical_path` takes over as many events of one label.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from inviso import _native, analysis, export, log
from inviso.terms import Atom

TABLES = ("events", "calls", "messages", "profile", "processes", "losses")


def record(term: object, number: int | None = None) -> bytes:
    """A record of a log. The number of a message follows its term."""
    data = _native.etf.term_to_binary(term)
    if number is not None:
        data += b"\xb1" + number.to_bytes(8, "big")
    return struct.pack(">BI", 0, len(data)) + data


def write(path: Path, messages: int) -> None:
    """Writes the log of a shop: four of each six messages are of calls."""
    one, two, box = (_native.process.new_process("") for _ in range(3))
    stamped, function = Atom("trace_ts"), (Atom("shop.orders"), Atom("price"))
    clock = 1_000_000_000
    with path.open("wb") as file:
        for n in range(messages // 6):
            clock += 1000
            for name in ("price", "order"):
                function = (Atom("shop.orders"), Atom(name))
                file.write(record((stamped, one, Atom("call"), (*function, [n % 50]), clock)))
            for name in ("order", "price"):
                function = (Atom("shop.orders"), Atom(name))
                file.write(record((stamped, one, Atom("return_from"), (*function, 1), n % 50, clock + 300)))
            file.write(record((stamped, one, Atom("send"), n % 50, box, clock + 400), n + 1))
            file.write(record((stamped, two, Atom("receive"), n % 50, clock + 700), n + 1))


def write_label(path: Path, messages: int) -> None:
    """Writes the log of a token that goes round among 100 processes."""
    pids = [_native.process.new_process("") for _ in range(100)]
    with path.open("wb") as file:
        for n in range(messages):
            for word, at in (("send", 1000 * n), ("receive", 1000 * n + 500)):
                info = (Atom(word), (n, n + 1), pids[n % 100], pids[(n + 1) % 100], "item")
                file.write(record((Atom("seq_trace"), "order 7", info, at)))


def make(table: str, path: str) -> None:
    """Makes one table, in this process."""
    import pyarrow

    best, messages = float("inf"), 0
    for _ in range(3):
        if table == "path":
            rows = analysis.critical_path(path, "order 7")
        else:
            rows = export.arrow(path) if table == "events" else getattr(analysis.tables(path), table)
        begin = time.process_time()
        for _ in pyarrow.RecordBatchReader.from_stream(rows):
            pass
        best, messages = min(best, time.process_time() - begin), rows.summary().messages
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "table": table,
                "seconds": round(best, 3),
                "millions_a_second": round(messages / best / 1e6, 2),
                "MB": round(memory),
            }
        )
    )


def main() -> None:
    """Measures all tables."""
    if len(sys.argv) == 3:
        return make(sys.argv[1], sys.argv[2])
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        plain, blocks, label = (Path(folder) / name for name in ("plain.log", "blocks.log", "label.log"))
        write(plain, messages)
        log.convert(str(plain), str(blocks), to="blocks")
        plain.unlink()
        write_label(label, messages // 10)
        for table in (*TABLES, "path"):
            path = label if table == "path" else blocks
            subprocess.run([sys.executable, "-m", "benches.python.analysis", table, os.fspath(path)], check=True)


if __name__ == "__main__":
    main()
