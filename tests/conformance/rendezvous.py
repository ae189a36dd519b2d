"""Passes steps between the driver and a scenario process, by two plain locks that the product does not look at.

A scenario process waits for its next command in ``take`` and answers with ``give``; mailboxes, tokens and events are
only what the steps make.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .product import Missing

__all__ = ["Command", "Outcome", "Rendezvous", "Stuck", "rendezvous", "wait_until"]

PATIENCE = 7.0
"""Seconds that one step may take; the parent's watchdog waits a little longer."""


class Stuck(Exception):
    """A step did not end in time."""


@dataclass(frozen=True, slots=True)
class Command:
    """One step of a process: a call of a fixture function, an exit, or something to do."""

    kind: str
    function: Callable[..., Any]
    arguments: list[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step: ``ok``, ``error``, ``throw``, ``exit`` or ``exited``, the term, and the exception."""

    kind: str
    value: Any = None
    error: BaseException | None = None


class Rendezvous:
    """One process's side of the driver."""

    def __init__(self) -> None:
        self.pid: Any = None
        self.ended = False
        self.saved: Any = None
        self._command: Command | None = None
        self._outcome: Outcome | None = None
        self._to_process = _thread.allocate_lock()
        self._to_driver = _thread.allocate_lock()
        self._to_process.acquire()
        self._to_driver.acquire()

    def ready(self) -> None:
        """The process has started."""
        self._to_driver.release()

    def take(self) -> Command | None:
        """The process's next command; None when the case is over."""
        self._to_process.acquire()
        return self._command

    def give(self, outcome: Outcome) -> None:
        """The answer to the command taken."""
        self._outcome = outcome
        self._to_driver.release()

    def end(self) -> None:
        """The process leaves its loop, for any reason."""
        self.ended = True
        self._outcome = Outcome("exited")
        self._to_driver.release()

    def started(self) -> None:
        """Waits for ``ready``."""
        end = time.monotonic() + PATIENCE
        while not self._to_driver.acquire(timeout=0.05):
            if not self.pid.is_alive():
                raise Stuck("the process ended before it took a step")
            if time.monotonic() > end:
                raise Stuck(f"the process did not start within {PATIENCE:g} s")

    def ask(self, command: Command) -> Outcome:
        """Has the process carry out a command; ``exited`` if it ended instead of answering."""
        self._command, self._outcome = command, None
        self._to_process.release()
        self._wait(command.kind)
        if self.ended:
            self.gone()
        assert self._outcome is not None
        return self._outcome

    def gone(self) -> None:
        """Waits until an ending process is gone."""
        wait_until(lambda: not self.pid.is_alive(), "the process ended, but its pid stayed alive")

    def dismiss(self) -> None:
        """Ends the process, if it still waits for a command."""
        if not self.ended:
            self._command = None
            self._to_process.release()
            self._wait("end")
            self.gone()

    def _wait(self, what: str) -> None:
        if not self._to_driver.acquire(timeout=PATIENCE):
            raise Stuck(f"'{what}' did not end within {PATIENCE:g} s")


def wait_until(fact: Callable[[], bool], otherwise: str) -> None:
    """Waits until a condition is true; raises ``Stuck`` with its description if it does not become true."""
    end = time.monotonic() + PATIENCE
    while not fact():
        if time.monotonic() > end:
            raise Stuck(otherwise)
        time.sleep(0.0005)


_by_name: dict[str, Rendezvous] = {}


def rendezvous(name: str, *, create: bool = False) -> Rendezvous:
    """The rendezvous of a scenario process."""
    if create:
        _by_name[name] = Rendezvous()
    if name not in _by_name:
        raise Missing(f"there is no process {name}")
    return _by_name[name]
