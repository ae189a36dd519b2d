"""The common part of commands that run a program: from the command line to the program's end, and color."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from inviso.errors import BadArg

from ._options import Given, Options, Usage, refuse, say
from ._runner import Program, run

__all__ = ["CannotBegin", "Watch", "carry_out", "greenlets_unseen", "wants_color"]


class CannotBegin(Exception):
    """No session can be made, or a file can't be written; the text has the reason. The program has not run."""


class Watch(Protocol):
    """A command's work around the program. It ends by itself after the program."""

    def prepare(self) -> None:
        """Finds problems before a long run, and raises ``CannotBegin`` for them."""

    def begin(self) -> None:
        """Called just before the program's code runs."""

    def cancel(self) -> None:
        """Called if there is no program to run after all."""


def carry_out(
    command: str, known: Options, text: str, words: list[str], watch: Callable[[Given, Program], Watch]
) -> int:
    """Runs the program of a command line with its watch. Returns the exit status. ``text`` is the command's help."""
    try:
        given = known.split(words)
        if given.program is None:
            return say(text)
        _keep_the_program(given.options, given.program)
        watched = watch(given, given.program)
    except Usage as wrong:
        return refuse(f" {command}", wrong)
    except BadArg as wrong:
        return refuse(f" {command}", f"{wrong.argument}: {wrong.why}")
    atexit.register(_stop_timers)  # registered first, so it runs last
    try:
        return run(given.program, prepare=watched.prepare, begin=watched.begin, cancel=watched.cancel)
    except CannotBegin as wrong:
        return refuse(f" {command}", wrong)


def _stop_timers() -> None:
    """Stops interval timers that the program left running with its own handlers.

    The interpreter restores the default actions shortly before its end, and the default action ends the process.
    Tracing makes that time longer.
    """
    timers = (
        (signal.ITIMER_REAL, signal.SIGALRM),
        (signal.ITIMER_VIRTUAL, signal.SIGVTALRM),
        (signal.ITIMER_PROF, signal.SIGPROF),
    )
    for timer, number in timers:
        if callable(signal.getsignal(number)) and signal.getitimer(timer) != (0.0, 0.0):
            signal.setitimer(timer, 0.0)


def _keep_the_program(options: dict[str, str], program: Program) -> None:
    """Refuses an output that is the program's own file, as after ``-o`` without FILE."""
    for option in ("--output", "--json", "--recorder"):
        name = options.get(option)
        if name and os.path.isfile(name) and any(_is_same(name, file) for file in program.files()):
            raise Usage(f"{option}: {name} is the program itself; give another file")


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def wants_color(descriptor: int | None) -> bool:
    """Whether to use color: never with NO_COLOR, always with CLICOLOR_FORCE; otherwise on a terminal that supports it,
    unless CLICOLOR is 0.
    """
    env = os.environ
    if env.get("NO_COLOR"):
        return False
    if env.get("CLICOLOR_FORCE", "0") != "0":
        return True
    if env.get("CLICOLOR") == "0" or env.get("TERM") == "dumb" or descriptor is None:
        return False
    return os.isatty(descriptor)


def greenlets_unseen() -> str:
    """A note for the last lines if the program has imported greenlet and running greenlets can't be distinguished."""
    if "t" not in sys.abiflags or "greenlet._greenlet" not in sys.modules:
        return ""
    return (
        "greenlets are not told apart on a free-threaded Python: times and returns of those that take turns can be "
        "another's"
    )
