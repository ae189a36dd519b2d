"""The states of a tool's nodes, and their changes at events. No input or output.

==================  ============================================================================
state               meaning
==================  ============================================================================
``down``            no process of the name is connected
``inactive``        it is not in the session, and does not trace
``tracing``         it is in the session
``trace_failure``   its tracing could not be initiated when the session began
==================  ============================================================================

A node that is not down also has a status, ``running`` or ``suspended``. It is *reactivating* while the history is
redone on it. Trace cases and calls go to the nodes that are tracing, running and not reactivating.
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
    """Waiting times between tries: first ``first`` seconds, then ``factor`` times as long, at most ``longest``.

    A success that lasts at least as long as the last wait resets the time to ``first``.

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
        """Returns the seconds until the next try, after a failure."""
        held = self._good is not None and self._last is not None and now - self._good >= self._last
        if self._last is None or held:
            self._last = self._first
        else:
            self._last = min(self._last * self._factor, self._longest)
        self._good = None
        return self._last

    def good(self, now: float) -> None:
        """Notes that a try has succeeded."""
        self._good = now


class Node:
    """The state of one node."""

    __slots__ = ("is_adopted", "is_held", "is_redone", "reason", "state")

    def __init__(self) -> None:
        self.state: Atom = DOWN
        self.reason: Any = None
        """``("suspended", why)``; None while it runs."""
        self.is_redone = False
        """Whether the history is being redone on it."""
        self.is_held = False
        """Whether a person has suspended it. Then it is not reactivated by itself."""
        self.is_adopted = False
        """Whether its runtime component existed before the tool."""

    @property
    def is_running(self) -> bool:
        """Whether it is neither down nor suspended."""
        return self.state != DOWN and self.reason is None

    @property
    def is_active(self) -> bool:
        """Whether trace cases and calls go to it."""
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
        """All nodes with their names, in the order of the list."""
        return list(self._nodes.items())

    def active(self) -> list[str]:
        """The nodes to which trace cases and calls go."""
        return [name for name, node in self._nodes.items() if node.is_active]

    def of(self, *states: Atom) -> list[str]:
        """The nodes in one of these states."""
        return [name for name, node in self._nodes.items() if node.state in states]

    def connected(self, name: str, state: Any, status: Any) -> None:
        """Notes that a node was added. A state change that arrived before is newer, and stays."""
        node = self._nodes.get(name)
        if node is not None and node.state == DOWN:
            self._set(node, state, status)

    def disconnected(self, name: str) -> bool:
        """Notes that a node is gone. Returns whether it is on the list."""
        node = self._nodes.get(name)
        if node is None:
            return False
        node.state, node.reason, node.is_redone, node.is_held, node.is_adopted = DOWN, None, False, False, False
        return True

    def changed(self, name: str, state: Any, status: Any) -> str | None:
        """Notes a node's new state and status.

        Returns ``"suspended"`` if the suspension is new, ``"resumed"`` if another control or the node itself ended one.
        """
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
