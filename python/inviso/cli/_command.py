"""What the commands that run a program have in common: the way from the words to the program's end, and color."""

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
    """There is no session to be had, or a file that can't be written; the text says why. Nothing has been run."""


class Watch(Protocol):
    """What a command does with the program; it ends by itself when the program has."""

    def prepare(self) -> None:
        """Everything that is not to be found out after a long run; ``CannotBegin`` says what."""

    def begin(self) -> None:
        """The program's code comes next."""

    def cancel(self) -> None:
        """There is no program after all."""


def carry_out(
    command: str, known: Options, text: str, words: list[str], watch: Callable[[Given, Program], Watch]
) -> int:
    """Run the program that the words name, watched; the exit status. ``text`` is the command's help."""
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
    atexit.register(_stop_timers)  # the first to be registered is the last to run
    try:
        return run(given.program, prepare=watched.prepare, begin=watched.begin, cancel=watched.cancel)
    except CannotBegin as wrong:
        return refuse(f" {command}", wrong)


def _stop_timers() -> None:
    """Stop interval timers that the program left running with handlers of its own.

    The interpreter puts the default actions back before it has ended, and the default ends the process. Tracing makes that
    moment longer.
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
    """Refuse an output that is the program's own file, as ``-o`` without its FILE makes it."""
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
    """NO_COLOR forbids; CLICOLOR_FORCE wants it always; else a terminal that can, unless CLICOLOR is 0."""
    env = os.environ
    if env.get("NO_COLOR"):
        return False
    if env.get("CLICOLOR_FORCE", "0") != "0":
        return True
    if env.get("CLICOLOR") == "0" or env.get("TERM") == "dumb" or descriptor is None:
        return False
    return os.isatty(descriptor)


def greenlets_unseen() -> str:
    """What the last lines say where the program has imported greenlet and nobody can tell which one runs; else nothing."""
    if "t" not in sys.abiflags or "greenlet._greenlet" not in sys.modules:
        return ""
    return "greenlets are not told apart on a free-threaded Python: times and returns of those that take turns can be another's"
