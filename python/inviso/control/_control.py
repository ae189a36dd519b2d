"""The control component: the nodes that it has, calls to them, and its events."""

from __future__ import annotations

import datetime
import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import inviso
from inviso import _native
from inviso._link._folder import AGENT, CONTROL, SUFFIX, Folder
from inviso._link._names import full, host, host_of
from inviso._native import Pid
from inviso._system import RLock, start_new_thread
from inviso.runtime import NO_NODE, listening, local
from inviso.runtime._settings import Settings
from inviso.terms import Atom

from ._hub import Hub, Link
from ._local import LocalLink
from ._logs import Here, Source, There

__all__ = ["Control", "Found"]

OK, ERROR = Atom("ok"), Atom("error")
NOT_ADDED = (ERROR, Atom("not_an_added_node"))
LOCAL = Atom("local_runtime")
"""The name of the own node in events, where it has none."""


class Found:
    """A prepared process of this host: its name, its number, and what it says of itself."""

    __slots__ = ("about", "node", "pid")

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.node = str(about["node"])
        self.pid = int(about["pid"])


class Control:
    """One control component. Any thread may call it."""

    def __init__(self, *, name: str | None = None, settings: Settings | None = None, timeout: float = 5.0) -> None:
        own = inviso.node()
        self.node = name or own
        self.is_distributed = self.node != NO_NODE
        """Whether answers have the names of nodes: a control without a name has its own process only."""
        self.settings = settings or {}
        self.timeout = timeout
        self.pid: Pid = _native.new_process("inviso control")
        self._lock = RLock()
        self._folder: Folder | None = None
        self._hub = Hub(self.node if self.is_distributed else full(f"inviso-{os.getpid()}"))
        self._nodes: dict[str, Link | LocalLink] = {}
        self.silent: list[str] = []
        """Nodes that :meth:`find` looked for last, and that did not answer in time."""
        """Those that were added, in that order."""
        self._subscribers: list[Pid | Callable[[Any], object]] = []
        self._listening: Folder | None = None

    def listen(self) -> None:
        """Lets processes that started by themselves, and depend on this control, announce themselves. OSError if that can't be."""
        if self._listening is None and self.is_distributed:
            self._listening = self.folder().below(CONTROL)
            self._hub.listen(self._listening, self._taken)

    def _taken(self, link: Link, node: str, tag: Any, both: Any) -> None:
        self._attend(node, link)
        self._publish((Atom("connected"), self._called(node), (tag, tuple(both))))

    @property
    def is_open(self) -> bool:
        """Whether it is this process's, and has not been stopped."""
        return self._hub.is_open

    def close(self) -> None:
        """The control ends; runtime components act by their dependency."""
        with self._lock:
            links = list(self._nodes.values())
            self._nodes.clear()
        for link in links:
            if isinstance(link, LocalLink):
                link.end()
        self._hub.close()
        if self._listening is not None:
            with suppress(OSError):
                os.unlink(f"{os.getpid()}{SUFFIX}", dir_fd=self._listening.descriptor)
            self._listening.close()
        if self._folder is not None:
            self._folder.close()
        start_new_thread(_end_process, (self.pid,))

    # nodes

    def nodes(self) -> list[str]:
        """The nodes that were added and live."""
        return list(self._nodes)

    @property
    def own(self) -> str:
        """The name of this process as a node."""
        found = listening()
        return found.node if found is not None else self.node

    def folder(self) -> Folder:
        """The folder of sockets, opened at first use, and again where it was removed. OSError if there is none."""
        with self._lock:
            if self._folder is not None and not self._folder.is_there():
                self._folder.close()
                self._folder = None
            if self._folder is None:
                self._folder = Folder.open(is_control=True)
            return self._folder

    def pids(self) -> dict[str, int]:
        """The process ids of the nodes of this host that were added and live."""
        return {name: link.pid for name, link in self._nodes.items() if not link.is_remote}

    def find(self, patterns: Iterable[str] = ("*",)) -> list[Found]:
        """The prepared processes of this host whose names match a pattern: a name, or one with ``*`` and ``?``. Those that match and
        do not answer in time are in :attr:`silent`.
        """
        wanted = list(patterns)
        end = monotonic() + self.timeout
        folder = self.folder()
        named = {name: pid for name, pid in folder.names().items() if any(is_meant(name, each) for each in wanted)}
        known = {link.pid: link for link in self._nodes.values() if not link.is_remote}
        links = {name: known.get(pid) or self._connect(self.folder(), pid) for name, pid in named.items()}
        for agent, pid, name in self._elsewhere(wanted):
            links[name] = self._nodes.get(name) or self._connect(agent, pid, name, end)
        there = {name: link for name, link in links.items() if link is not None}
        answers = dict(zip(there, self._hub.call([(link, "about", []) for link in there.values()], self.timeout), strict=True))
        self._hub.leave(*set(there.values()).difference(self._nodes.values()))
        silent = [name for name, link in links.items() if link is None and name not in named]
        self.silent = sorted([*silent, *(name for name, answer in answers.items() if answer == (ERROR, "timeout"))])
        found = (Found(answer) for answer in answers.values() if is_about(answer))
        return sorted(found, key=lambda one: (one.node, one.pid))

    def _connect(self, folder: Folder, pid: int, to: str | None = None, end: float = 0.0) -> Link | None:
        """A link to a process, which has until ``end`` to take it; None if there is no such process."""
        try:
            return self._hub.connect(folder, pid, to, end - monotonic())
        except OSError:
            return None

    def _agents(self) -> Iterator[tuple[Folder, int]]:
        """The agents of this host that listen."""
        folder = self.folder()
        if folder.has(AGENT):
            with folder.below(AGENT) as agents:
                for pid in agents.pids():
                    yield agents, pid

    def _elsewhere(self, wanted: list[str]) -> Iterator[tuple[Folder, int, str]]:
        """The nodes of other hosts that match, with the agents that reach them."""
        for agents, pid in self._agents():
            match self._ask_agent(agents, pid, "nodes"):
                case ("ok", list(names)):
                    for name in names:
                        if isinstance(name, str) and any(is_meant(name, each) for each in wanted):
                            yield agents, pid, name

    def _ask_agent(self, agents: Folder, pid: int, request: str) -> Any:
        """What an agent itself answers."""
        link = self._connect(agents, pid, "", monotonic() + self.timeout)
        if link is None:
            return None
        (answer,) = self._hub.call([(link, request, [])], self.timeout)
        self._hub.leave(link)
        return answer

    def clocks(self) -> dict[str, list[tuple[int, int, int]]]:
        """Of each other host, as far as this one's agent has measured it: when by its clock, what is added to that to have this
        host's time, and by how much this may be wrong, in nanoseconds.
        """
        found: dict[str, list[tuple[int, int, int]]] = {}
        for agents, pid in self._agents():
            match self._ask_agent(agents, pid, "clocks"):
                case ("ok", dict(clocks)):
                    found |= clocks
        return found

    def add(self, names: Iterable[str], tag: Any, settings: Settings, *, if_ref: bool = False) -> list[Any]:
        """Adds nodes by their full names; a pair of name and answer for each."""
        wanted = list(dict.fromkeys(names))
        made: dict[str, Link | LocalLink] = {}
        answers: dict[str, Any] = {}
        end = monotonic() + self.timeout
        for name in wanted:
            if name in self._nodes:
                answers[name] = OK, Atom("already_added")
            else:
                found = self._reach(name, end)
                if isinstance(found, tuple):
                    answers[name] = found
                else:
                    made[name] = found
        effective = {**self.settings, **settings}
        asked = [(link, "add", [tag, effective, if_ref]) for link in made.values()]
        for (name, link), answer in zip(made.items(), self._hub.call(asked, self.timeout), strict=True):
            answers[name] = answer
            if answer[0] == OK:
                self._enter(name, link, tag, answer)
        self._hub.leave(*(link for name, link in made.items() if answers[name][0] != OK))
        return [(name, answers[name]) for name in wanted]

    def _reach(self, name: str, end: float) -> Link | LocalLink | tuple[Any, Any]:
        """A new link to a node, or the error. An agent has until ``end`` to take it."""
        if name == self.own:
            return LocalLink(local(), name)
        if not self.is_distributed:
            return ERROR, Atom("not_distributed")
        try:
            folder = self.folder()
            pid = folder.named(name)
            if pid is None and host_of(name) not in ("", host()):
                return self._through_agent(name, end)
            if pid is None:
                return ERROR, Atom("nodedown")
            return self._hub.connect(folder, pid)
        except (FileNotFoundError, ConnectionRefusedError):
            return ERROR, Atom("nodedown")
        except BlockingIOError:  # as many wait for it as may
            return ERROR, Atom("busy")
        except OSError as error:
            return ERROR, (Atom("noconnection"), error.strerror or str(error))

    def _through_agent(self, name: str, end: float = 0.0) -> Link | tuple[Any, Any]:
        """A new link to a node of another host, or the error. BlockingIOError: the agent has not taken it by ``end``."""
        for agents, pid in self._agents():
            with suppress(FileNotFoundError, ConnectionRefusedError):  # of one that has ended
                return self._hub.connect(agents, pid, name, end - monotonic())
        return ERROR, (Atom("noconnection"), f"{host_of(name)} is another host; start 'inviso agent' on both")

    def _enter(self, name: str, link: Link | LocalLink, tag: Any, answer: Any) -> None:
        self._attend(name, link)
        both = answer[1][1:3] if isinstance(answer[1], tuple) else (Atom("new"), Atom("running"))
        self._publish((Atom("connected"), self._called(name), (tag, tuple(both))))
        if not link.is_open:
            self._ended(name, link, "noconnection")

    def _attend(self, name: str, link: Link | LocalLink) -> None:
        with self._lock:
            self._nodes[name] = link
        link.on_event = lambda event: self._heard(name, event)
        link.on_end = lambda why: self._ended(name, link, why)

    def remove(self, names: Iterable[str] | None, *, ends: bool) -> list[Any]:
        """Lets nodes go; with ``ends`` their runtime components end, too. A pair for each."""
        wanted = self.nodes() if names is None else list(names)
        links = {name: self._nodes[name] for name in wanted if name in self._nodes}
        for link in links.values():
            link.on_end = lambda why: None
        asked: list[Any] = [(link, "stop_node" if ends else "let_go", []) for link in links.values()]
        answers = dict(zip(links, self._hub.call(asked, self.timeout), strict=True))
        with self._lock:
            for name in links:
                self._nodes.pop(name, None)
        self._hub.leave(*links.values())
        for name in links:
            self._publish((Atom("disconnected"), self._called(name), None))
        return [(name, answers.get(name, NOT_ADDED)) for name in wanted]

    # calls

    def call(self, names: Iterable[str] | None, request: str, *arguments: Any, timeout: float | None = None) -> list[Any]:
        """The answers of nodes to one request, a pair for each; None is all that were added."""
        wanted = self.nodes() if names is None else list(names)
        return self.call_each([(name, list(arguments)) for name in wanted], request, timeout=timeout)

    def call_each(self, asked: list[tuple[str, list[Any]]], request: str, *, timeout: float | None = None) -> list[Any]:
        """The same with arguments for each node."""
        links = [(name, self._nodes.get(name), arguments) for name, arguments in asked]
        requests = [(link, request, arguments) for _, link, arguments in links if link is not None]
        answers = iter(self._hub.call(requests, self.timeout if timeout is None else timeout))
        return [(name, NOT_ADDED if link is None else next(answers)) for name, link, _ in links]

    def sources(self, name: str) -> Callable[[str], Source]:
        """What opens logs of a node: files of this host, or of another by its agent."""
        link = self._nodes.get(name)
        if link is None or not link.is_remote:
            return Here
        return partial(There, lambda parts: self._hub.call([(link, "chunk", part) for part in parts], self.timeout))

    def is_local(self, name: str) -> bool:
        """Whether a node was added that is this process, so that functions may be passed to it."""
        return isinstance(self._nodes.get(name), LocalLink)

    # events

    def subscribe(self, who: Pid | Callable[[Any], object]) -> None:
        """Has each event sent to a process, or a function called with it, in a thread of the control's."""
        with self._lock:
            self._subscribers.append(who)

    def unsubscribe(self, who: Pid | Callable[[Any], object]) -> None:
        """Takes one subscription away, if there is one."""
        with self._lock:
            if who in self._subscribers:
                self._subscribers.remove(who)

    def _called(self, name: str) -> str:
        return name if self.is_distributed else LOCAL

    def _heard(self, name: str, event: Any) -> None:
        if isinstance(event, tuple) and len(event) == 2 and isinstance(event[0], str):
            self._publish((Atom(event[0]), self._called(name), event[1]))

    def _ended(self, name: str, link: Link | LocalLink, why: str) -> None:
        with self._lock:
            if self._nodes.get(name) is not link:
                return
            del self._nodes[name]
        self._publish((Atom("disconnected"), self._called(name), Atom(why)))

    def _publish(self, event: Any) -> None:
        message = (Atom("inviso_event"), self.pid, now(), event)
        for who in list(self._subscribers):
            if not isinstance(who, Pid):
                try:
                    who(message)
                except Exception as error:
                    _report(error)
            elif who.is_alive():
                inviso.send(who, message)
            else:
                self.unsubscribe(who)


def _report(error: Exception) -> None:
    """A subscriber raised: it is reported as an exception that nobody catches is."""
    sys.excepthook(type(error), error, error.__traceback__)


def now() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The local time as events have it."""
    moment = datetime.datetime.now()
    return (moment.year, moment.month, moment.day), (moment.hour, moment.minute, moment.second)


def is_about(answer: Any) -> bool:
    """Whether it is what a prepared process says of itself."""
    return isinstance(answer, dict) and isinstance(answer.get("node"), str) and isinstance(answer.get("pid"), int)


def is_meant(node: str, pattern: str) -> bool:
    """Whether a pattern means a node; without ``@`` it is one of names on any host.

    >>> is_meant("shop-1@h", "shop-*"), is_meant("shop-1@h", "shop-1@h"), is_meant("shop-1@h", "web")
    (True, True, False)
    """
    return fnmatch.fnmatchcase(node, pattern if "@" in pattern else f"{pattern}@*")


def _end_process(pid: Pid) -> None:
    _native.become(pid)
    _native.resign()
