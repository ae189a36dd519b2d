"""Polls nodes, and makes them count functions and messages.

Polling works without adding a node, so it works beside another control. For counting this control adds the node, and
keeps it until the last pattern is removed. The runtime component stops counting when its control leaves or ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inviso._pattern import parse
from inviso._system import RLock
from inviso.cluster import NodeError
from inviso.cluster._answers import short
from inviso.cluster._cluster import GONE
from inviso.control._control import Control, is_meant, own_name
from inviso.control._looks import Looks
from inviso.errors import BadArg, shown
from inviso.runtime._live_counts import KINDS

from ._sample import Node, Rates

__all__ = ["Live", "Refresh"]

TAG = "top"


@dataclass(frozen=True, slots=True)
class Refresh:
    """The answers of all nodes."""

    at: float
    """Seconds since 1970."""
    nodes: dict[str, Node]
    errors: dict[str, str]
    """The error of each node that did not answer."""
    refused: dict[str, str] = field(default_factory=dict)
    """The error of each node that does not count for this view. It may have answered."""
    absent: tuple[str, ...] = ()
    """Names and patterns that no node matches."""


class Live:
    """One view. Any thread may call it; calls run one at a time.

    Args:
        nodes: names and patterns of nodes.
        patterns: functions to count.
        kind: ``"call_time"`` or ``"call_count"``.
        messages: whether messages are counted.
        timeout: seconds that a node has to answer.

    Raises:
        BadArg: a wrong argument.

    >>> with Live(["no-such-node"]) as live:
    ...     live.refresh().absent
    ('no-such-node',)
    """

    def __init__(
        self,
        nodes: Iterable[str] = (),
        *,
        patterns: Iterable[str] = (),
        kind: str = KINDS[0],
        messages: bool = False,
        timeout: float = 1.0,
    ) -> None:
        if kind not in KINDS:
            raise BadArg("top", "type", f"{shown(kind)} is not a type; pass {' or '.join(KINDS)}")
        self._names = list(nodes) or ["*"]
        self.kind = kind
        self.messages = messages
        self.patterns: list[str] = []
        """Patterns of counted functions, as they were given."""
        for pattern in patterns:
            self._add(pattern)
        self._timeout = timeout
        self._lock = RLock()
        self._control = Control(name=own_name(), settings={"dependency": 0}, timeout=timeout)
        self._looks = Looks(self._control, self._names, "sample")
        self._rates: dict[str, Rates] = {}
        self._counting: dict[str, Any] = {}
        """The last request to count, by node."""
        self._adopted: set[str] = set()
        """Nodes whose component existed before. It stays."""
        self._refused: dict[str, str] = {}

    # patterns

    def _add(self, pattern: str) -> None:
        mfas = parse(pattern, "top, pattern")
        if ("_", "_", "_") in mfas:
            raise BadArg(
                "top", "pattern", "every function is too many to count all the time; name a package, such as 'shop.**'"
            )
        if pattern not in self.patterns:
            self.patterns.append(pattern)

    def start(self, pattern: str) -> None:
        """Counts functions from the next refresh on.

        Raises:
            BadArg: it is not a pattern, or matches all functions.
        """
        with self._lock:
            self._add(pattern)
            self._refused.clear()

    def stop(self, pattern: str) -> None:
        """Stops counting functions from the next refresh on. An unknown pattern is ignored."""
        with self._lock:
            if pattern in self.patterns:
                self.patterns.remove(pattern)
            self._refused.clear()

    # polling

    def refresh(self, node: str | None = None, process: str | None = None) -> Refresh:
        """Polls all nodes. ``process``: a pid of ``node``, whose functions are also wanted. The result is empty after
        the end.
        """
        with self._lock:
            return self._refresh(node, process) if self._control.is_open else Refresh(time.time(), {}, {})

    def _refresh(self, node: str | None, process: str | None) -> Refresh:
        arguments = {} if node is None or process is None else {node: [process]}
        nodes: dict[str, Node] = {}
        errors: dict[str, str] = {}
        answers = self._looks.look(self._timeout, arguments)
        for name, answer in answers.items():
            why: Any = answer
            match answer:
                case ("ok", sample):
                    try:
                        asked = process if name == node else None
                        nodes[name] = self._rates.setdefault(name, Rates()).add(sample, asked)
                        continue
                    except ValueError:
                        why = "bad_answer"
                case ("error", reason):
                    why = "its process has ended" if reason == GONE else reason
            errors[name] = short(NodeError(name, why))
        self._count({name: node.control for name, node in nodes.items()})
        for gone in self._rates.keys() - answers.keys():
            del self._rates[gone]
        absent = tuple(each for each in self._names if not any(is_meant(name, each) for name in answers))
        refused = {name: why for name, why in self._refused.items() if name in nodes}
        return Refresh(time.time(), nodes, errors, refused, absent)

    def _count(self, controls: dict[str, str]) -> None:
        """Makes each node that answered count the patterns, if it does not yet."""
        patterns = [mfa for text in self.patterns for mfa in parse(text, "top, pattern")]
        wanted = (self.kind, patterns, self.messages) if patterns or self.messages else None
        added = {*self._control.nodes()}
        for name in self._counting.keys() - added:  # nodes that have ended
            del self._counting[name]
            self._adopted.discard(name)
        if wanted is None:
            self._refused.clear()
            return self._release(added)
        # a node of another control is tried again when its answer has no control
        new = [
            name
            for name, control in controls.items()
            if name not in added and (control == "-" or name not in self._refused)
        ]
        for name, answer in self._control.add(new, TAG, {"dependency": 0}) if new else []:
            if answer[0] == "error":
                self._refused[name] = short(NodeError(name, answer[1]))
            elif isinstance(answer[1], tuple):
                self._adopted.add(name)
        asked = [name for name in self._control.nodes() if name in controls and self._counting.get(name) != wanted]
        for name, answer in self._control.call(asked, "count_live", *wanted) if asked else []:
            if answer[0] == "error":
                self._refused[name] = short(NodeError(name, answer[1]))
            else:
                self._refused.pop(name, None)
                self._counting[name] = wanted

    def _release(self, names: set[str]) -> None:
        """Releases nodes: adopted ones are let go, the components of the others end."""
        if names:
            self._control.remove([*(names & self._adopted)], ends=False)
            self._control.remove([*(names - self._adopted)], ends=True)
        self._counting.clear()
        self._adopted.clear()

    def close(self) -> None:
        """Ends the view. The nodes stop counting for it."""
        with self._lock:
            if self._control.is_open:
                self._looks.close()
                self._release({*self._control.nodes()})
                self._control.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
