"""The short form of the stress test; the long one is ``python -m tests.python.stress --seconds 600``."""

from __future__ import annotations

import os
import subprocess
import sys


def test_counts_stay_exact_while_sessions_come_and_go() -> None:
    seconds = os.environ.get("INVISO_STRESS_SECONDS", "20")
    for threads in ("2", "8"):
        words = [
            sys.executable,
            "-m",
            "tests.python.stress",
            "--seconds",
            seconds,
            "--threads",
            threads,
            "--calls",
            "20000",
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=float(seconds) + 300)
        assert done.returncode == 0, done.stderr
        assert "calls checked" in done.stdout
