"""Sessions come and go at random beside services under load: nothing waits for ever, nothing is left.

The faults that this looks for happen in one of hundreds of runs. Each run is a program with a seed of its own. A test
run has a few of them, with INVISO_STRESS_SECONDS many.
"""

from __future__ import annotations

import importlib
import os
import random
import threading
import time

from inviso import trace
from trace_tools import good

SECONDS = float(os.environ.get("INVISO_STRESS_SECONDS", "5"))


def test_dropped_sessions_go_while_others_look_for_functions() -> None:
    """Each search for functions goes through all objects. None keeps an object alive that another thread drops
    meanwhile.
    """
    most = 0

    def come() -> None:
        nonlocal most
        for _ in range(40):
            session = trace.session_create("short")
            session.function(("subjects.forked", "work", 1), True, ["local"])
            del session
            most = max(most, len(trace.session_info("all")))

    importlib.import_module("subjects.forked")
    before = len(trace.session_info("all"))
    threads = [threading.Thread(target=come) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= before + 15, most  # two more for each other thread: a session that ends, and one that is being freed
    assert len(trace.session_info("all")) == before


def test_sessions_come_and_go_at_random() -> None:
    end, runs = time.monotonic() + SECONDS, 0
    while runs < 4 or time.monotonic() < end:
        seed = random.randrange(1 << 30) * 2 + runs % 2
        text = f"from subjects import comings; comings.main({seed})"
        assert good(text) == "ok\n", f"seed {seed}"
        runs += 1
