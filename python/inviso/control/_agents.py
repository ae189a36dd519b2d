"""Starts the agent of this host, if a control needs one and a setting has its options."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable

from inviso._link._bell import say
from inviso.errors import BadArg, shown

__all__ = ["VARIABLE", "start"]

VARIABLE = "INVISO_AGENT"
"""The options of ``inviso agent`` for a new agent, as in a shell."""

PATIENCE = 5.0
"""Seconds that a new agent has to find other hosts."""


def start(sees: Callable[[], bool]) -> None:
    """Starts an agent in the background if the variable is set. Waits until ``sees`` returns True, or for ``PATIENCE``
    seconds.

    Raises:
        BadArg: the variable's value can't be read.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise BadArg("control", VARIABLE, f"{shown(given)} can't be split into words: {error}") from None
    command = [sys.executable, "-m", "inviso", "agent", *words, "--detach"]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        say(f"no agent could be started as {VARIABLE} says: {done.stderr.strip()}")
        return
    say(f"{done.stdout.strip()} was started, as {VARIABLE} says; it continues after this process ends")
    end = time.monotonic() + PATIENCE
    while not sees() and time.monotonic() < end:
        time.sleep(0.05)
