"""The calls and trace cases of a session, in order, and which of them a returning node needs. No input or output.

=================  ===================================================================================================
phase of a case    meaning
=================  ===================================================================================================
``activating``     its on file runs. A returning node gets the on file
``running``        it is on. A returning node gets the on file
``stopping``       its off file runs. A returning node gets the off file if it got the on file, otherwise neither
(gone)             it has been switched off, or its activation has failed
=================  ===================================================================================================

A call, and a case that was run once, have the phase ``running`` from their start.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from inviso.terms import Atom

__all__ = ["ACTIVATING", "RUNNING", "STOPPING", "Call", "History", "Off", "Run", "from_terms"]

ACTIVATING, RUNNING, STOPPING = Atom("activating"), Atom("running"), Atom("stopping")


@dataclass(slots=True, eq=False)
class Call:
    """A call of the control, without its nodes."""

    number: int
    command: str
    arguments: tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Run:
    """A trace case that was switched on, or run once."""

    number: int
    name: str
    variables: dict[str, Any]
    id: Any = None
    is_once: bool = False
    phase: Atom = field(default=RUNNING)


@dataclass(slots=True, eq=False)
class Off:
    """The switching off of a case."""

    number: int
    run: Run


Entry = Call | Run | Off


class History:
    """The entries of one session, by their numbers.

    >>> history = History()
    >>> run = history.begin("calls", 1, {})
    >>> history.refusal("calls", 1)
    'activating'
    >>> history.activated(run)
    >>> history.refusal("calls", 1), history.refusal("calls", 2)
    ('already_started', None)
    """

    def __init__(self) -> None:
        self._last = 0
        self._entries: dict[int, Call | Run] = {}
        self._offs: list[Off] = []

    def _number(self) -> int:
        self._last += 1
        return self._last

    def call(self, command: str, arguments: tuple[Any, ...]) -> Call:
        """Adds a call."""
        made = Call(self._number(), command, arguments)
        self._entries[made.number] = made
        return made

    def begin(self, name: str, id: Any, variables: dict[str, Any]) -> Run:
        """Adds a case that is being switched on."""
        made = Run(self._number(), name, variables, id, phase=ACTIVATING)
        self._entries[made.number] = made
        return made

    def once(self, name: str, variables: dict[str, Any]) -> Run:
        """Adds a case that is run once."""
        made = Run(self._number(), name, variables, is_once=True)
        self._entries[made.number] = made
        return made

    def activated(self, run: Run) -> None:
        """Notes that a case is on."""
        run.phase = RUNNING

    def stopping(self, run: Run) -> None:
        """Notes that a case is being switched off."""
        run.phase = STOPPING
        self._offs.append(Off(self._number(), run))

    def forget(self, entry: Call | Run) -> None:
        """Removes a case that is off, or a call or activation that has failed."""
        self._entries.pop(entry.number, None)

    def find(self, name: str, id: Any) -> Run | None:
        """The case of this name and id, if it is on, or is being switched on or off."""
        for entry in self._entries.values():
            if isinstance(entry, Run) and not entry.is_once and (entry.name, entry.id) == (name, id):
                return entry
        return None

    def refusal(self, name: str, id: Any) -> Atom | None:
        """The reason why a case can't be switched on; None if it can."""
        return self._busy(self.find(name, id), Atom("already_started"))

    def refusal_of_stop(self, name: str, id: Any) -> Atom | None:
        """The reason why a case can't be switched off; None if it can."""
        found = self.find(name, id)
        unknown: Atom = Atom("unknown_id")
        return unknown if found is None else self._busy(found, None)

    def _busy(self, found: Run | None, running: Atom | None) -> Atom | None:
        if found is None:
            return None
        if found.phase == RUNNING:
            return running
        refusal: Atom = ACTIVATING if found.phase == ACTIVATING else Atom("deactivating")
        return refusal

    def phases(self) -> list[tuple[tuple[str, Any], Atom]]:
        """The cases that are on, or are being switched on or off, with their phases."""
        runs = [entry for entry in self._entries.values() if isinstance(entry, Run) and not entry.is_once]
        return [((run.name, run.id), run.phase) for run in runs]

    def entries(self) -> list[Call | Run]:
        """The entries that a new node or session needs, in order."""
        entries = [entry for _, entry in sorted(self._entries.items())]
        return [entry for entry in entries if isinstance(entry, Call) or entry.phase != STOPPING]

    def after(self, number: int, done: set[int]) -> list[Entry]:
        """The entries that a node still needs, in order.

        Args:
            number: the node has everything up to this entry.
            done: the numbers of cases that were switched on for the node.

        >>> history = History()
        >>> first, second = history.begin("a", 1, {}), history.begin("b", 1, {})
        >>> history.stopping(first)
        >>> [type(each).__name__ for each in history.after(0, set())]
        ['Run']
        >>> [type(each).__name__ for each in history.after(second.number, {first.number, second.number})]
        ['Off']
        """
        offs = [off for off in self._offs if off.run.number in done]
        return sorted([one for one in [*self.entries(), *offs] if one.number > number], key=lambda one: one.number)

    def terms(self) -> list[Any]:
        """The entries as terms: ``("call", command, arguments)``, ``("case", name, id, variables)``, ``("once", name,
        variables)``.

        >>> history = History()
        >>> _ = history.call("tpl", ("json", "_", "_", True)), history.once("calls", {"Module": "json"})
        >>> history.terms()
        [('call', 'tpl', ['json', '_', '_', True]), ('once', 'calls', [('Module', 'json')])]
        """
        return [_term(entry) for entry in self.entries()]


def _term(entry: Call | Run) -> Any:
    if isinstance(entry, Call):
        return Atom("call"), entry.command, list(entry.arguments)
    variables = list(entry.variables.items())
    return (Atom("once"), entry.name, variables) if entry.is_once else (Atom("case"), entry.name, entry.id, variables)


def from_terms(terms: Any) -> list[Call | Run] | None:
    """The entries of terms of :meth:`History.terms`, numbered from 1. None if they are malformed.

    >>> from_terms([("call", "flush", []), ("once", "a", [("V", 1)])])[1].variables
    {'V': 1}
    >>> from_terms([("call",)]) is None
    True
    """
    if not isinstance(terms, list):
        return None
    found: list[Call | Run] = []
    for number, term in enumerate(terms, 1):
        match term:
            case ("call", str(command), list(arguments)):
                found.append(Call(number, command, tuple(arguments)))
            case ("case", str(name), id, list(variables)) if _are_pairs(variables) and isinstance(id, Hashable):
                found.append(Run(number, name, dict(variables), id))
            case ("once", str(name), list(variables)) if _are_pairs(variables):
                found.append(Run(number, name, dict(variables), is_once=True))
            case _:
                return None
    return found


def _are_pairs(given: list[Any]) -> bool:
    return all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in given)
