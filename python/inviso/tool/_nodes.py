"""The nodes of a tool: what each of them is, and what follows from an event. No input or output.

==================  ============================================================================
state               meaning
==================  ============================================================================
``down``            no process of the name is connected
``inactive``        it does not trace: it is not in the session
``tracing``         it is in the session
``trace_failure``   its tracing could not be initiated when the session began
==================  ============================================================================

Beside the state a node that is not down has a status, ``running`` or ``suspended``, and it is *reactivating* while the
history is redone on it. Trace cases and calls are for the nodes that are tracing and running, and not reactivating.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inviso.terms import Atom

__all__ = ["DOWN", "FAILURE", "INACTIVE", "REACTIVATING", "TRACING", "Backoff", "Node", "Nodes"]

DOWN, INACTIVE, TRACING, FAILURE = Atom("down"), Atom("inactive"), Atom("tracing"), Atom("trace_failure")
RUNNING, SUSPENDED = Atom("running"), Atom("suspended")
REACTIVATING = Atom("reactivating")


class Backoff:
    """How long is waited before each try: first so many seconds, then ``factor`` times as long, at most ``longest``.
    What has held at least as long as the last wait begins anew.

    >>> backoff = Backoff(10, 2, 60)
    >>> backoff.wait(0), backoff.good(10), backoff.wait(12), backoff.good(32), backoff.wait(60)
    (10, None, 20, None, 10)
    """

    __slots__ = ("_factor", "_first", "_good", "_last", "_longest")

    def __init__(self, first: float, factor: float, longest: float) -> None:
        self._first, self._factor, self._longest = first, factor, longest
        self._last: float | None = None
        self._good: float | None = None

    def wait(self, now: float) -> float:
        """It has failed: so many seconds until the next try."""
        held = self._good is not None and self._last is not None and now - self._good >= self._last
        if self._last is None or held:
            self._last = self._first
        else:
            self._last = min(self._last * self._factor, self._longest)
        self._good = None
        return self._last

    def good(self, now: float) -> None:
        """A try has succeeded."""
        self._good = now


class Node:
    """What is known of one node."""

    __slots__ = ("is_adopted", "is_held", "is_redone", "reason", "state")

    def __init__(self) -> None:
        self.state: Atom = DOWN
        self.reason: Any = None
        """``("suspended", why)``; None while it runs."""
        self.is_redone = False
        """Whether the history is redone on it now."""
        self.is_held = False
        """Whether a person has suspended it: it stays so until a person says otherwise."""
        self.is_adopted = False
        """Whether its runtime component was there before the tool."""

    @property
    def is_running(self) -> bool:
        """Whether it is there, and not suspended."""
        return self.state != DOWN and self.reason is None

    @property
    def is_active(self) -> bool:
        """Whether trace cases and calls are for it."""
        return self.state == TRACING and self.reason is None and not self.is_redone

    def shape(self) -> Any:
        """``"down"``, ``"reactivating"``, or ``(state, status)``."""
        if self.state == DOWN:
            return DOWN
        if self.is_redone:
            return REACTIVATING
        return self.state, RUNNING if self.reason is None else SUSPENDED


class Nodes:
    """All nodes of a tool, by their names.

    >>> nodes = Nodes(["shop-1@h"])
    >>> nodes.connected("shop-1@h", "new", "running"), nodes.changed("shop-1@h", "tracing", "running")
    (None, None)
    >>> nodes.active()
    ['shop-1@h']
    >>> nodes.changed("shop-1@h", "tracing", ("suspended", "overload")), nodes.active()
    ('suspended', [])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._nodes = {name: Node() for name in names}

    def __iter__(self) -> Any:
        return iter(self._nodes)

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def items(self) -> list[tuple[str, Node]]:
        """All with their names, in the order of the list."""
        return list(self._nodes.items())

    def active(self) -> list[str]:
        """Those that trace and run."""
        return [name for name, node in self._nodes.items() if node.is_active]

    def of(self, *states: Atom) -> list[str]:
        """Those in one of these states."""
        return [name for name, node in self._nodes.items() if node.state in states]

    def connected(self, name: str, state: Any, status: Any) -> None:
        """A node was added; what came from it meanwhile is newer than that."""
        node = self._nodes.get(name)
        if node is not None and node.state == DOWN:
            self._set(node, state, status)

    def disconnected(self, name: str) -> bool:
        """A node is gone; whether it is one of ours."""
        node = self._nodes.get(name)
        if node is None:
            return False
        node.state, node.reason, node.is_redone, node.is_held, node.is_adopted = DOWN, None, False, False, False
        return True

    def changed(self, name: str, state: Any, status: Any) -> str | None:
        """A node says what it is now. ``"suspended"`` if that is new, ``"resumed"`` if somebody else has ended a suspension."""
        node = self._nodes.get(name)
        if node is None:
            return None
        was_running = node.reason is None
        self._set(node, state, status)
        if was_running and node.reason is not None:
            node.is_redone = False
            return "suspended"
        if not was_running and node.reason is None:
            node.is_held = False
            return None if node.is_redone else "resumed"
        return None

    def _set(self, node: Node, state: Any, status: Any) -> None:
        if state == "tracing":
            node.state = TRACING
        elif node.state != FAILURE:
            node.state = INACTIVE
        node.reason = None if status == RUNNING else status
