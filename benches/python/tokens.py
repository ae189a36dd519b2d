"""The costs of tokens of sequential tracing: all in one process, in turns.

    python -m benches.python.tokens ROUNDS

Each round times each kind of work three times: with no token anywhere, with one that another process has, and with one that each
message carries, whose events are told to a system tracer, which reads them after each run. Each time is the best of up to 5 runs
within 50 ms. The last line is JSON: nanoseconds of one piece of work with no token, and what the others take besides, in
nanoseconds and as a ratio; each the median of the rounds.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import threading
import time
from collections import defaultdict

import inviso
from inviso import seq_trace

from .passing import WORK, best
from .tools import Wrong

MODES = ("none", "elsewhere", "carried")
CHOSEN = ("asyncio.Queue", "queue.Queue", "queue.SimpleQueue", "mailbox", "executor", "tasks")
_TIMES = 3_000  # the events have to fit in the ring: they are read afterwards


def _holds(begun: threading.Event) -> None:
    seq_trace.set_token("label", "elsewhere")
    begun.set()
    inviso.receive("over")


def measured(name: str, mode: str) -> float:
    """Seconds of one run, the best of several.

    Raises:
        Wrong: a token was carried, and the number of events is wrong; or no token was carried, and events came.
    """
    work, times = WORK[name], _TIMES
    if mode == "none":
        return best(lambda: work.run(times))[0]
    begun, over = threading.Event(), threading.Event()
    keeper = inviso.spawn(over.wait)
    seq_trace.set_system_tracer(keeper)
    other = inviso.spawn(_holds, begun)
    begun.wait()
    if mode == "carried":
        seq_trace.set_token("label", 1)
        for flag in ("send", "receive"):
            seq_trace.set_token(flag, True)
    came = 0

    def run() -> float:
        nonlocal came
        seconds = work.run(times)
        came = sum(message[0] == "seq_trace" for message in inviso.peek(keeper))
        return seconds

    seconds, runs = best(run)
    seq_trace.set_token(None)
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)
    over.set()
    inviso.send(other, "over")
    while keeper.is_alive() or other.is_alive():
        time.sleep(0.001)
    due = (4 if name in ("executor", "tasks") else 2) * times * runs if mode == "carried" else 0
    if not due <= came <= due + 60 * runs * (due > 0):
        raise Wrong(f"{name}, {mode}: {came} events, not {due}")
    return seconds


def main(rounds: str) -> None:
    """Measures as the docstring of the module tells."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    gc.collect()
    gc.freeze()
    for turn in range(int(rounds) + 1):
        for name in CHOSEN:
            for step in range(len(MODES)):
                mode = MODES[(turn + step) % len(MODES)]
                spent = measured(name, mode)
                if turn:
                    seconds[name, mode].append(spent)
    answer = {}
    for name in CHOSEN:
        plain = seconds[name, "none"]
        answer[name] = {"ns": round(statistics.median(plain) / _TIMES * 1e9, 1)}
        for mode in MODES[1:]:
            pairs = list(zip(seconds[name, mode], plain, strict=True))
            ratio = statistics.median(one / bare for one, bare in pairs)
            more = statistics.median(one - bare for one, bare in pairs) / _TIMES * 1e9
            answer[name] |= {mode: round(ratio, 3), f"{mode}, ns": round(more, 1)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
