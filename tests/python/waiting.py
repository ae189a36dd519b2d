"""Waiting for facts. A test that waits for something to happen waits by :func:`until`, and not for a time.

A test may lose the processor for a second: two cores run three files of tests at a time, beside other work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 60.0
"""Seconds that a test waits at most for anything."""


def until(holds: Callable[[], Any], timeout: float = LIMIT, what: str = "") -> Any:
    """Waits until the function returns a true value, and returns that."""
    end = time.monotonic() + timeout
    while not (found := holds()):
        assert time.monotonic() < end, what or "it never came true"
        time.sleep(0.001)
    return found


def until_blocked(thread: threading.Thread) -> None:
    """Waits until a thread of this process waits for something other than the GIL.

    A thread that waits for the GIL gets it during the sleep here. So its count of waits grows, or it runs.
    """
    status = Path(f"/proc/self/task/{until(lambda: thread.native_id)}/status")

    def waits() -> str | None:
        text = status.read_text()
        return text.partition("\nvoluntary_ctxt_switches:")[2].split()[0] if "\nState:\tS" in text else None

    def stays() -> bool:
        before = waits()
        time.sleep(0.02)
        return before is not None and waits() == before

    until(stays)
