"""The scaling of tracing: the same work in one thread and in two, which call their own functions or the same ones.

    python -m benches.python.threads ROUNDS

The last line is JSON: ``{"count, own functions": {"ns_1": .., "ns_2": .., "efficiency": .., "kept": ..}}``. The
efficiency is the time of one thread over the time of two at once: 1 where they don't disturb each other, 0.5 where they
take turns.
``kept`` is the efficiency over that of the untraced program.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from typing import Any

from .subjects import METHODS, meters
from .tools import Wrong, want

_TIMES = 25_000  # longer than the threads of a build with a GIL take turns
_JOBS = ("none", "count", "time", "messages")
_MODULES = ("benches.first", "benches.second")
_METERS = [meters(module) for module in _MODULES]
_KINDS = {"count": "call_count", "time": "call_time"}


def main(rounds: str) -> None:
    seconds: dict[tuple[str, bool, int], list[float]] = defaultdict(list)
    for _ in range(int(rounds)):
        for job in _JOBS:
            for shared in False, True:
                for threads in 1, 2:
                    seconds[job, shared, threads].append(_traced(job, shared, threads))
    answer = {}
    for shared in False, True:
        plain = _efficiency(seconds, "none", shared)
        for job in _JOBS:
            efficiency = _efficiency(seconds, job, shared)
            answer[f"{job}, {'the same' if shared else 'own'} functions"] = {
                "ns_1": round(min(seconds[job, shared, 1]) / (_TIMES * METHODS) * 1e9, 1),
                "ns_2": round(min(seconds[job, shared, 2]) / (_TIMES * METHODS) * 1e9, 1),
                "efficiency": round(efficiency, 3),
                "kept": round(efficiency / plain, 3),
            }
    print(json.dumps(answer))


def _efficiency(seconds: dict[tuple[str, bool, int], list[float]], job: str, shared: bool) -> float:
    return min(seconds[job, shared, 1]) / min(seconds[job, shared, 2])


def _traced(job: str, shared: bool, threads: int) -> float:
    from inviso import trace

    meter_of = [0 if shared else n for n in range(threads)]
    if job == "none":
        return _run(meter_of)
    with trace.session_create("threads", None, {"overflow": "overwrite"}) as session:
        for module in _MODULES:
            session.function((module, "_", "_"), True, [_KINDS.get(job, "local")])
        if job != "count":
            session.process("all", True, ["call", "arity"] if job == "messages" else ["call"])
        seconds = _run(meter_of)
        session.process("all", False, ["all"])
        for used in set(meter_of):
            _check(session, job, _MODULES[used], meter_of.count(used) * _TIMES)
        if job == "messages":
            taken = sum(message[0] == "trace" for message in session.drain())  # else it reports lost messages
            seen = taken + session.info("session", "dropped")[1]
            want("call messages", seen, threads * (_TIMES * METHODS + 2))  # and Meter.__init__ and loop
    return seconds


def _check(session: Any, job: str, module: str, calls: int) -> None:
    if job in _KINDS:
        kind = _KINDS[job]
        value = session.info((module, "Meter.put_7", 2), kind)[1]
        if value is None or value is False:
            raise Wrong(f"no {kind} of Meter.put_7")
        want(f"{kind} of Meter.put_7", value if kind == "call_count" else sum(entry[1] for entry in value), calls)


def _run(meter_of: list[int]) -> float:
    """Seconds from the common start to the last one's end."""
    start: list[float] = []
    ends: list[float] = []
    together = threading.Barrier(len(meter_of), lambda: start.append(time.perf_counter()))

    def work(which: int) -> None:
        owner, loop = _METERS[which]
        meter = owner()
        together.wait()
        loop(meter, _TIMES)
        ends.append(time.perf_counter())

    crew = [threading.Thread(target=work, args=(which,)) for which in meter_of]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return max(ends) - start[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
