"""The costs of a trace port for the traced program: calls and returns of two threads, to a file and into rings alone.

    python -m benches.python.ports ROUNDS

Each round times the same calls in each mode (``MODES``), in another order each time: untraced; into rings that
overwrite; into rings that drop and that nobody reads; to a file; to a file in blocks; under viztracer, if that is
installed. The last line is JSON: microseconds of one call and its return, each mode's ratio to ``ring`` (the median of
the rounds' own), bytes a pair on disk, and the part that was lost.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import inviso
from inviso import trace
from inviso.trace_ports import TracePort, trace_port

from .tools import Wrong

MODES = ("untraced", "ring", "unread", "file", "blocks", "viztracer")
PORTS = {"file": False, "blocks": True}
_THREADS = 2
_CALLS = 100_000
_BLOCK = 1000


def called(number: int, text: str) -> int:
    """The traced function: two arguments and a value."""
    return number


def _work(begin: threading.Barrier) -> None:
    begin.wait()
    call = called
    for _ in range(_CALLS // _BLOCK):
        for number in range(_BLOCK):
            call(number, "text")


def _timed() -> float:
    begin = threading.Barrier(_THREADS + 1)
    threads = [threading.Thread(target=_work, args=(begin,)) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def _session(tracer: TracePort | None, overflow: str) -> trace.Session:
    session = trace.session_create("bench", tracer, {"overflow": overflow, "ring_bytes": 8 << 20})
    session.function((__name__, "called", 2), [("_", [], [("return_trace",)])], ["local"])
    session.process("all", True, ["call", "timestamp"])
    return session


def measured(mode: str, folder: str) -> tuple[float, float, float]:
    """Seconds, bytes on disk a call and return, and the part of the messages that was lost."""
    path = os.path.join(folder, mode)
    events = 2 * _THREADS * _CALLS
    if mode == "untraced":
        return _timed(), 0, 0
    if mode == "viztracer":
        return _viztracer(path)
    port = trace_port("file", path, compress=PORTS[mode])() if mode in PORTS else None
    with _session(port, "overwrite" if mode == "ring" else "drop") as session:
        seconds = _timed()
        session_lost = session.info("session", "dropped")[1]
    if port is None:
        return seconds, 0, session_lost / events
    if port.written + port.dropped != events or port.errors:
        raise Wrong(f"{mode}: {port.written} written and {port.dropped} lost of {events}")
    return seconds, 2 * os.path.getsize(path) / max(port.written, 1), port.dropped / events


def _viztracer(path: str) -> tuple[float, float, float]:
    tracer: Any = importlib.import_module("viztracer").VizTracer(
        tracer_entries=4 * _THREADS * _CALLS, log_func_args=True, log_func_retval=True, verbose=0
    )
    tracer.start()
    seconds = _timed()
    tracer.stop()
    tracer.save(path + ".json")
    tracer.clear()
    return seconds, os.path.getsize(path + ".json") / (_THREADS * _CALLS), 0


def main(rounds: str = "5", say: Callable[[str], object] = print) -> None:
    """Measures as the docstring of the module tells."""
    modes = [mode for mode in MODES if mode != "viztracer" or importlib.util.find_spec("viztracer")]
    seconds: dict[str, list[float]] = defaultdict(list)
    size: dict[str, float] = {}
    lost: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(int(rounds) + 1):
            for step in range(len(modes)):
                mode = modes[(turn + step) % len(modes)]
                spent, size[mode], gone = measured(mode, folder)
                if turn:
                    seconds[mode].append(spent)
                    lost[mode].append(gone)
    answer = {}
    for mode in modes:
        ratio = statistics.median(one / ring for one, ring in zip(seconds[mode], seconds["ring"], strict=True))
        answer[mode] = {
            "us": round(statistics.median(seconds[mode]) / (_THREADS * _CALLS) * 1e6, 3),
            "to ring": round(ratio, 3),
            "bytes": round(size[mode], 1),
            "lost": round(statistics.median(lost[mode]), 4),
        }
    say(json.dumps(answer))


if __name__ == "__main__":
    inviso.self()
    gc.collect()
    gc.freeze()  # all other objects
    main(*sys.argv[1:])
