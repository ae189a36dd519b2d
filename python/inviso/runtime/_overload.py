"""Overload checks of a runtime component: when they run, and what follows.

A check answers

=====================  =======================================================
``"ok"`` or None       there is no overload
``("new", data)``      the same, with new data of the check
``"ignore"``           the same; the next check stays due
``("suspend", why)``   the component must be suspended
=====================  =======================================================

A user's check that raises, or answers anything else, is switched off for good.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inviso.terms import Atom

from ._loops import Loops
from ._settings import Settings

__all__ = ["Load", "Overload"]

SHORTEST = 0.5
"""The shortest time over which processor time is measured, in seconds."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """The input of the built-in checks."""

    queue: int
    """Messages that waited for the runtime component when it last took them."""
    lost: int
    """Records that were lost since tracing began."""
    folder: str | None
    """The folder of the log, if it is a file."""


Find = Callable[[Any], Callable[..., Any]]


class Overload:
    """The checks of one component, by its settings. ``find`` returns the function of ``(module, function)``."""

    def __init__(self, settings: Settings, find: Find, now: float) -> None:
        self._settings = settings
        self._find = find
        self._data: Any = None
        self._is_broken = False
        self._due = now
        self._lost = 0
        self._cpu = _own_seconds()
        self._looked = now
        self._was_busy = False
        self._loops = Loops()
        given = settings["overload"]
        self._is_own = isinstance(given, tuple)
        self._remove: Any = None
        wait = given[1] if isinstance(given, tuple) else given
        self._every = wait / 1000 if isinstance(wait, int) else None
        if isinstance(given, tuple) and len(given) == 4:
            self._remove = given[3]
            match self._call(given[2]):
                case ("ok", data):
                    self._data = data

    @property
    def failed(self) -> bool:
        """Whether the check was switched off because it failed."""
        return self._is_broken

    def due(self) -> float | None:
        """The time of the next check, by ``time.monotonic``; None for never."""
        return None if self._is_broken or self._every is None else self._due

    def at_once(self, now: float) -> None:
        """Makes the next check due at ``now``."""
        self._due = now

    def began(self, now: float, lost: int = 0) -> None:
        """Restarts the counts of the built-in checks: tracing began, or continues after a suspension.

        ``lost``: records that were lost until now, which no longer count.
        """
        self._lost = lost
        self._cpu, self._looked, self._was_busy = _own_seconds(), now, False
        self._loops = Loops()

    def timed(self, now: float, load: Load) -> Any:
        """Runs the check that is due. Returns the reason to suspend in a tuple, or None."""
        if self._is_own:
            return self._own((Atom("timeout"), self._data), now)
        self._due = now + (self._every or 0)
        return self._built_in(now, load)

    def message(self, now: float, message: Any) -> Any:
        """Passes a message for the component that is not a request to the user's check. Returns as :meth:`timed`."""
        return self._own((Atom("msg"), (message, self._data)), now) if self._is_own and not self._is_broken else None

    def end(self) -> None:
        """Ends the check: calls its clean-up function."""
        if self._remove is not None and not self._is_broken:
            module, function, arguments = self._remove
            self._call((module, function, [self._data, *arguments]))

    def _own(self, argument: Any, now: float) -> Any:
        load = self._settings["overload"][0]
        try:
            answer = (load if callable(load) else self._find(load))(argument)
        except Exception:
            answer = False  # an invalid answer
        match answer:
            case "ignore":
                return None
            case None | "ok":
                pass
            case ("new", data):
                self._data = data
            case ("suspend", why):
                return (why,)
            case _:
                self._is_broken = True
                return None
        self._due = now + (self._every or 0)
        return None

    def _call(self, given: Any) -> Any:
        if not isinstance(given, tuple):
            return None
        module, function, arguments = given
        try:
            return self._find((module, function))(*arguments)
        except Exception:
            return None

    def _built_in(self, now: float, load: Load) -> Any:
        allowed = self._settings["protect"]
        lost, self._lost = load.lost - self._lost, load.lost
        if _is_above(load.queue, allowed["queue"]):
            return (Atom("rt_max_queue_len"),)
        if _is_above(lost, allowed["lost"]):
            return ((Atom("lost"), lost),)
        percent = self._percent(now)
        is_busy = percent is not None and _is_above(percent, allowed["cpu"])
        was_busy, self._was_busy = self._was_busy, is_busy or (percent is None and self._was_busy)
        if is_busy and was_busy:  # only twice in a row: one busy period may be a search for functions
            return ((Atom("cpu"), percent),)
        lag = self._loops.lag() if allowed["lag"] is not None else 0
        if _is_above(lag, allowed["lag"]):
            return ((Atom("lag"), lag),)
        if load.folder is not None and allowed["disk"] is not None:
            free = _free_mib(load.folder)
            if free is not None and free < allowed["disk"]:
                return ((Atom("disk"), free),)
        return None

    def _percent(self, now: float) -> int | None:
        """Percent of a processor that was used since the last measurement; None if that is too recent."""
        took = now - self._looked
        if took < SHORTEST:
            return None
        cpu = _own_seconds()
        percent = int(100 * (cpu - self._cpu) / took)
        self._cpu, self._looked = cpu, now
        return percent


def _is_above(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def _own_seconds() -> float:
    """Processor time of the calling thread, which is the component's, and of the threads that write logs (seconds)."""
    total = time.thread_time()
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError, ValueError), open(f"/proc/self/task/{thread}/stat", "rb") as file:
                name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
                if name.startswith(b"inviso"):
                    user, system = rest.split()[11:13]
                    total += (int(user) + int(system)) / _TICKS
    return total


def _free_mib(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize >> 20
