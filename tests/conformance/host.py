"""The scenario processes: they run ``host:proc/1``, and ``host:exec/2`` is the caller in the cases.

``exec`` has no handler around a plain call, so that an exception leaves it and enters ``loop``; nothing stands between
``exec`` and the called function.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tests.conformance.errors import CAUGHT, ErlExit, class_of, reason_of
from tests.conformance.product import Missing, atom, operation
from tests.conformance.rendezvous import Command, Outcome, Rendezvous, rendezvous

__all__ = ["exec", "loop", "proc"]

RETURNED = atom("returned")


def proc(name: str) -> None:
    """A process: serves its steps until it is told to end or an exit signal ends it."""
    meeting = rendezvous(name)
    try:
        loop(name, meeting, Rendezvous.take, Rendezvous.give)
    finally:
        meeting.end()


def loop(_name: str, meeting: Rendezvous, take: Any, give: Any) -> None:
    """Takes commands and answers them; exceptions of called functions are caught here."""
    meeting.ready()
    while True:
        command = take(meeting)
        if command is None:
            return
        if command.kind == "exit":
            leave(*command.arguments)
        try:
            outcome = Outcome("ok", exec(command, meeting))
        except CAUGHT as error:
            outcome = Outcome(class_of(error), reason_of(error), error)
        give(meeting, outcome)


def leave(reason: Any) -> NoReturn:
    """Ends this process with a reason: by the product's own exit, or as Python does it, by an exception."""
    try:
        end = operation("exit")
    except Missing:
        raise ErlExit(reason) from None
    end(reason)
    raise ErlExit(reason)


def exec(command: Command, _meeting: Rendezvous) -> Any:
    """Carries out one command. A call is not a tail call, and an exception leaves this function."""
    if command.kind == "catch_call":
        try:
            value = command.function(*command.arguments)
        except CAUGHT as error:
            return (atom(class_of(error)), reason_of(error))
        return (RETURNED, value)
    value = command.function(*command.arguments)
    return value
