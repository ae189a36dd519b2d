"""The agent of this host: one is started where a control needs it and a setting says how."""

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
"""What an agent is started with: the options of ``inviso agent``, as a shell has them."""

PATIENCE = 5.0
"""Seconds that a new agent has to know of other hosts."""


def start(sees: Callable[[], bool]) -> None:
    """Starts an agent in the background if the variable says how. It waits until the agent ``sees`` what is wanted, or for
    some seconds.

    Raises:
        BadArg: the variable's value can't be read.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise BadArg("control", VARIABLE, f"{shown(given)} are no words: {error}") from None
    command = [sys.executable, "-m", "inviso", "agent", *words, "--detach"]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        say(f"no agent could be started as {VARIABLE} says: {done.stderr.strip()}")
        return
    say(f"{done.stdout.strip()} was started, as {VARIABLE} says; it goes on when this has ended")
    end = time.monotonic() + PATIENCE
    while not sees() and time.monotonic() < end:
        time.sleep(0.05)
