"""The control component: the nodes that it has, and calls to them."""

from __future__ import annotations

import datetime
import fnmatch
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from inviso._link._folder import Folder
from inviso._link._frame import BadFrame
from inviso.process import node as own_node
from inviso.terms import Atom

from ._hub import Hub, Link

__all__ = ["Control", "Found"]

OK, ERROR = Atom("ok"), Atom("error")
NOT_ADDED = (ERROR, Atom("not_an_added_node"))

Event = tuple[Atom, Any, Any]


class Found:
    """A prepared process of this host: its name and its number, and how to reach it."""

    __slots__ = ("about", "node", "pid")

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.node = str(about["node"])
        self.pid = int(about["pid"])


class Control:
    """One control component. Any thread may call it."""

    def __init__(self, *, name: str | None = None, options: dict[str, Any] | None = None, timeout: float = 5.0) -> None:
        known = own_node()
        self.node = name or (f"inviso-{os.getpid()}@{socket.gethostname()}" if known == "nonode@nohost" else known)
        self.options = options or {}
        self.timeout = timeout
        self._folder = Folder.open()
        self._hub = Hub(self.node)
        self._nodes: dict[str, Link] = {}
        """Those that were added, in that order."""
        self._subscribers: list[Callable[[Event], None]] = []

    # nodes

    def nodes(self) -> list[str]:
        """The nodes that were added and live."""
        return list(self._nodes)

    def find(self, patterns: Iterable[str] = ("*",)) -> list[Found]:
        """The prepared processes of this host whose names match a pattern: a name, or one with ``*`` and ``?``."""
        wanted = list(patterns)
        deadline = time.monotonic() + self.timeout
        links = [link for pid in self._folder.pids() if (link := self._link(pid, deadline)) is not None]
        answers = self._hub.call([(link, "about", []) for link in links], self.timeout)
        for link in links:
            if self._nodes.get(link.node) is not link:
                self._hub.leave(link)
        found = [Found(answer) for answer in answers if isinstance(answer, dict)]
        return sorted((one for one in found if any(_is_meant(one.node, each) for each in wanted)), key=_by_name)

    def _link(self, pid: int, deadline: float) -> Link | None:
        known = next((link for link in self._nodes.values() if link.pid == pid), None)
        if known is not None:
            return known
        try:
            return self._hub.connect(self._folder, pid, deadline)
        except (OSError, BadFrame):
            return None

    def add(self, names: Iterable[str], tag: Any, options: dict[str, Any], *, if_ref: bool = False) -> list[Any]:
        """Adds nodes by their full names; a pair of name and answer for each."""
        wanted = list(names)
        there = {one.node: one.pid for one in self.find(wanted)}
        deadline = time.monotonic() + self.timeout
        made: dict[str, Link] = {}
        answers: dict[str, Any] = {}
        for name in wanted:
            if name in self._nodes:
                answers[name] = OK, Atom("already_added")
            elif name not in there:
                answers[name] = ERROR, Atom("nodedown")
            else:
                try:
                    made[name] = self._hub.connect(self._folder, there[name], deadline)
                except (OSError, BadFrame) as error:
                    answers[name] = ERROR, (Atom("noconnection"), str(error))
        effective = {**self.options, **options}
        asked = [(link, "add", [tag, effective, if_ref]) for link in made.values()]
        for (name, link), answer in zip(made.items(), self._hub.call(asked, self.timeout), strict=True):
            answers[name] = answer
            if answer[0] == OK:
                self._enter(name, link, tag, answer)
            else:
                self._hub.leave(link)
        return [(name, answers[name]) for name in wanted]

    def _enter(self, name: str, link: Link, tag: Any, answer: Any) -> None:
        self._nodes[name] = link
        link.on_event = lambda event: self._heard(name, event)
        link.on_end = lambda why: self._ended(name, link, why)
        if not link.is_open:
            self._ended(name, link, "noconnection")
        both = answer[1][1:3] if isinstance(answer[1], tuple) else (Atom("new"), Atom("running"))
        self._publish((Atom("connected"), name, (tag, tuple(both))))

    def remove(self, names: Iterable[str], *, ends: bool) -> list[Any]:
        """Lets nodes go; with ``ends`` their runtime components end, too. A pair for each."""
        wanted = list(names)
        links = {name: self._nodes[name] for name in wanted if name in self._nodes}
        asked = [(link, "stop_node" if ends else "let_go", []) for link in links.values()]
        answers = dict(zip(links, self._hub.call(asked, self.timeout), strict=True))
        for name, link in links.items():
            self._nodes.pop(name, None)
            link.on_end = lambda why: None
            self._hub.leave(link)
            self._publish((Atom("disconnected"), name, None))
        return [(name, answers.get(name, NOT_ADDED)) for name in wanted]

    def close(self) -> None:
        """The control ends; runtime components act by their dependency."""
        self._nodes.clear()
        self._hub.close()
        self._folder.close()

    # calls

    def call(self, names: Iterable[str] | None, request: str, *arguments: Any) -> list[Any]:
        """The answers of nodes to one request, a pair for each; None is all that were added."""
        wanted = self.nodes() if names is None else list(names)
        return self.call_each([(name, list(arguments)) for name in wanted], request)

    def call_each(self, asked: list[tuple[str, list[Any]]], request: str) -> list[Any]:
        """The same with arguments for each node."""
        links = [(name, self._nodes.get(name), arguments) for name, arguments in asked]
        answers = iter(self._hub.call([(l, request, a) for _, l, a in links if l is not None], self.timeout))
        return [(name, NOT_ADDED if link is None else next(answers)) for name, link, _ in links]

    # events

    def subscribe(self, function: Callable[[Event], None]) -> None:
        """Has a function called with each event, in the control's thread."""
        self._subscribers.append(function)

    def unsubscribe(self, function: Callable[[Event], None]) -> None:
        """Takes one subscription away."""
        if function in self._subscribers:
            self._subscribers.remove(function)

    def _heard(self, name: str, event: Any) -> None:
        if isinstance(event, tuple) and len(event) == 2:
            self._publish((Atom(str(event[0])), name, event[1]))

    def _ended(self, name: str, link: Link, why: str) -> None:
        if self._nodes.get(name) is link:
            del self._nodes[name]
            self._publish((Atom("disconnected"), name, Atom(why)))

    def _publish(self, event: Event) -> None:
        for function in list(self._subscribers):
            function(event)


def now() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The local time as events have it."""
    moment = datetime.datetime.now()
    return (moment.year, moment.month, moment.day), (moment.hour, moment.minute, moment.second)


def _is_meant(node: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(node, pattern if "@" in pattern else f"{pattern}@*")


def _by_name(found: Found) -> tuple[str, int]:
    return found.node, found.pid
