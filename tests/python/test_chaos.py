"""The short form of the chaos run; the long one is ``make chaos``."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")


def test_whatever_happens_logs_are_right_and_nobody_waits_for_ever() -> None:
    """4 agents and 40 programs, for a minute at most."""
    seconds = min(float(os.environ.get("INVISO_STRESS_SECONDS", "20")), 60)
    seed = random.randrange(1 << 30)
    words = [sys.executable, "-m", "tests.python.chaos", "--seconds", str(seconds), "--seed", str(seed)]
    # a session of its own: nothing of it is left in any case
    made = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = made.communicate(timeout=seconds + 500)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGKILL)
        made.wait()
    assert made.returncode == 0, output
    assert "calls read" in output and "programs whose calls are all there" in output, output
