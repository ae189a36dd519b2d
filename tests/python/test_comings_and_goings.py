"""Sessions come and go at random beside services under load: nobody waits for ever, nothing stays behind.

What this looks for happens in one of hundreds of runs. Each is a program of its own with a seed of its own; a few of
them in every run of the tests, many with INVISO_STRESS_SECONDS.
"""

from __future__ import annotations

import os
import random
import time

from trace_tools import good

SECONDS = float(os.environ.get("INVISO_STRESS_SECONDS", "5"))


def test_sessions_come_and_go_at_random() -> None:
    end, runs = time.monotonic() + SECONDS, 0
    while runs < 4 or time.monotonic() < end:
        seed = random.randrange(1 << 30) * 2 + runs % 2
        text = f"from subjects import comings; comings.main({seed})"
        assert good(text) == "ok\n", f"seed {seed}"
        runs += 1
