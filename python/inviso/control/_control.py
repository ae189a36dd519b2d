"""The control component: its nodes, calls to them, and its events."""

from __future__ import annotations

import datetime
import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import inviso
from inviso import _native
from inviso._link._folder import AGENT, CONTROL, SUFFIX, Folder
from inviso._link._names import full, host, host_of
from inviso._native.process import Pid
from inviso._system import RLock, start_new_thread
from inviso.runtime import NO_NODE, listening, local
from inviso.runtime._settings import Settings
from inviso.terms import Atom

from . import _agents
from ._hub import Hub, Link
from ._local import LocalLink
from ._logs import LocalSource, RemoteSource, Source

__all__ = ["Control", "Found", "is_meant", "own_name"]

OK, ERROR = Atom("ok"), Atom("error")
NOT_ADDED = (ERROR, Atom("not_an_added_node"))
LOCAL = Atom("local_runtime")
"""In events, the name of a node without a name: the own one."""


def own_name() -> str:
    """The name for a control that needs one: the name of this process, else ``inviso-PID``."""
    own = inviso.node()
    return full(f"inviso-{os.getpid()}") if own == NO_NODE else own


class Found:
    """A prepared process of this host: its name, its process id, and its answer to ``about``."""

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
        """Whether answers have names of nodes. A control without a name has its own process only."""
        self.settings = settings or {}
        self.timeout = timeout
        self.pid: Pid = _native.process.new_process("inviso control")
        self._lock = RLock()
        self._folder: Folder | None = None
        self._hub = Hub(self.node if self.is_distributed else full(f"inviso-{os.getpid()}"))
        self._nodes: dict[str, Link | LocalLink] = {}
        """Links to the added nodes, in the order of adding."""
        self._visited: dict[str, Link | LocalLink] = {}
        self.silent: list[str] = []
        """Nodes that did not answer the last :meth:`find` in time."""
        self._asked_for_agent = False
        self._subscribers: list[Pid | Callable[[Any], object]] = []
        self._listening: Folder | None = None

    def listen(self) -> None:
        """Opens the socket at which processes with autostart that depend on this control announce themselves.

        Raises:
            OSError: there can be no socket.
        """
        if self._listening is None and self.is_distributed:
            self._listening = self.folder().below(CONTROL)
            self._hub.listen(self._listening, self._on_adopted)

    def _on_adopted(self, link: Link, node: str, tag: Any, both: Any) -> None:
        self._connect_events(node, link)
        self._publish((Atom("connected"), self._name_in_events(node), (tag, tuple(both))))

    @property
    def is_open(self) -> bool:
        """Whether it belongs to this process, and has not been stopped."""
        return self._hub.is_open

    def close(self) -> None:
        """Ends the control. Runtime components follow their dependency."""
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
        """The added nodes that live."""
        return list(self._nodes)

    @property
    def own(self) -> str:
        """The name of this process as a node."""
        found = listening()
        return found.node if found is not None else self.node

    def folder(self) -> Folder:
        """The folder of sockets. It is opened at first use, and again if it was removed.

        Raises:
            OSError: there is no folder.
        """
        with self._lock:
            if self._folder is not None and not self._folder.is_there():
                self._folder.close()
                self._folder = None
            if self._folder is None:
                self._folder = Folder.open(is_control=True)
            return self._folder

    def pids(self) -> dict[str, int]:
        """The process ids of the added nodes of this host that live."""
        return {name: link.pid for name, link in self._nodes.items() if not link.is_remote}

    def find(self, patterns: Iterable[str] = ("*",)) -> list[Found]:
        """The prepared processes whose names match a pattern: a name, or one with ``*`` and ``?``.

        Those that match and do not answer in time are in :attr:`silent`.
        """
        links = self.reached(patterns, self._nodes)
        there = {name: link for name, link in links.items() if link is not None}
        answers = dict(
            zip(there, self._hub.call([(link, "about", []) for link in there.values()], self.timeout), strict=True)
        )
        self._hub.leave(*set(there.values()).difference(self._nodes.values()))
        silent = [name for name, link in links.items() if link is None and host_of(name) != host()]
        self.silent = sorted([*silent, *(name for name, answer in answers.items() if answer == (ERROR, "timeout"))])
        found = (Found(answer) for answer in answers.values() if is_about(answer))
        return sorted(found, key=lambda one: (one.node, one.pid))

    def reached(
        self, patterns: Iterable[str], known: Mapping[str, Link | LocalLink]
    ) -> dict[str, Link | LocalLink | None]:
        """Links to the prepared processes whose names match: open links of ``known``, and new ones.

        A process that can't be reached has None.
        """
        wanted = list(patterns)
        end = monotonic() + self.timeout
        folder = self.folder()
        named = {name: pid for name, pid in folder.names().items() if any(is_meant(name, each) for each in wanted)}
        pids = {link.pid: link for link in known.values() if link.is_open and not link.is_remote}
        links = {name: pids.get(pid) or self._connect(folder, pid) for name, pid in named.items()}
        for agent, pid, name in self._elsewhere(wanted):
            found = known.get(name)
            links[name] = found if found is not None and found.is_open else self._connect(agent, pid, name, end)
        return links

    @contextmanager
    def visiting(self, names: Iterable[str]) -> Iterator[None]:
        """Inside, :meth:`call` and :meth:`sources` reach nodes that are not added, for requests that change nothing."""
        wanted = [name for name in names if name not in self._nodes]
        with suppress(OSError):
            links = self.reached(wanted, {}) if wanted else {}
            self._visited = {name: link for name, link in links.items() if link is not None}
        try:
            yield
        finally:
            visited, self._visited = self._visited, {}
            self.leave(*visited.values())

    def _link(self, name: str) -> Link | LocalLink | None:
        return self._nodes.get(name) or self._visited.get(name)

    def ask(self, link: Link | LocalLink, request: str, arguments: list[Any], put: Callable[[Any], None]) -> None:
        """Sends a request without waiting. Another thread calls ``put`` with the answer."""
        self._hub.ask(link, request, arguments, put)

    def leave(self, *links: Link | LocalLink) -> None:
        """Ends links of :meth:`reached` that nothing else uses."""
        self._hub.leave(*links)

    def _connect(self, folder: Folder, pid: int, to: str | None = None, end: float = 0.0) -> Link | None:
        """A link to a process, or None if there is no such process. It has until ``end`` to accept the connection."""
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
        """The matching nodes of other hosts, with the agents that reach them. Starts an agent if one is needed."""
        if any(host_of(each) not in ("", "*", host()) for each in wanted):
            self._need_agent(wanted)
        yield from self._seen_elsewhere(wanted)

    def _need_agent(self, wanted: list[str]) -> None:
        """Starts an agent if there is none and a setting has its options; only once."""
        if not self._asked_for_agent and not any(self._agents()):
            self._asked_for_agent = True
            _agents.start(lambda: any(self._seen_elsewhere(wanted)))

    def _seen_elsewhere(self, wanted: list[str]) -> Iterator[tuple[Folder, int, str]]:
        """The matching nodes of other hosts that the running agents know."""
        for agents, pid in self._agents():
            match self._ask_agent(agents, pid, "nodes"):
                case ("ok", list(names)):
                    for name in names:
                        if isinstance(name, str) and any(is_meant(name, each) for each in wanted):
                            yield agents, pid, name

    def _ask_agent(self, agents: Folder, pid: int, request: str) -> Any:
        """The answer of an agent itself; None if it can't be reached."""
        link = self._connect(agents, pid, "", monotonic() + self.timeout)
        if link is None:
            return None
        (answer,) = self._hub.call([(link, request, [])], self.timeout)
        self._hub.leave(link)
        return answer

    def clocks(self) -> dict[str, list[tuple[int, int, int]]]:
        """Clocks of other hosts, as the agents of this host have measured them.

        For each host, triples in nanoseconds: a time of its clock, the difference to this host's time (to be added),
        and the difference's largest error.
        """
        found: dict[str, list[tuple[int, int, int]]] = {}
        for agents, pid in self._agents():
            match self._ask_agent(agents, pid, "clocks"):
                case ("ok", dict(clocks)):
                    found |= clocks
        return found

    def add(self, names: Iterable[str], tag: Any, settings: Settings, *, if_ref: bool = False) -> list[Any]:
        """Adds nodes by their full names. Returns a pair of name and answer for each."""
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
                self._on_added(name, link, tag, answer)
        self._hub.leave(*(link for name, link in made.items() if answers[name][0] != OK))
        return [(name, answers[name]) for name in wanted]

    def _reach(self, name: str, end: float) -> Link | LocalLink | tuple[Any, Any]:
        """A new link to a node, or the error. An agent has until ``end`` to accept the connection."""
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
        except BlockingIOError:  # its queue of connections is full
            return ERROR, Atom("busy")
        except OSError as error:
            return ERROR, (Atom("noconnection"), error.strerror or str(error))

    def _through_agent(self, name: str, end: float = 0.0) -> Link | tuple[Any, Any]:
        """A new link to a node of another host, or the error. BlockingIOError if the agent does not accept it until
        ``end``.
        """
        self._need_agent([name])
        for agents, pid in self._agents():
            with suppress(FileNotFoundError, ConnectionRefusedError):  # an agent that has ended
                return self._hub.connect(agents, pid, name, end - monotonic())
        return ERROR, (Atom("noconnection"), f"{host_of(name)} is another host; start 'inviso agent' on both")

    def _on_added(self, name: str, link: Link | LocalLink, tag: Any, answer: Any) -> None:
        self._connect_events(name, link)
        both = answer[1][1:3] if isinstance(answer[1], tuple) else (Atom("new"), Atom("running"))
        self._publish((Atom("connected"), self._name_in_events(name), (tag, tuple(both))))
        if not link.is_open:
            self._on_link_end(name, link, "noconnection")

    def _connect_events(self, name: str, link: Link | LocalLink) -> None:
        with self._lock:
            self._nodes[name] = link
        link.on_event = lambda event: self._on_node_event(name, event)
        link.on_end = lambda why: self._on_link_end(name, link, why)

    def remove(self, names: Iterable[str] | None, *, ends: bool) -> list[Any]:
        """Removes nodes; with ``ends`` it also ends their runtime components. Returns a pair for each."""
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
            self._publish((Atom("disconnected"), self._name_in_events(name), None))
        return [(name, answers.get(name, NOT_ADDED)) for name in wanted]

    # calls

    def call(
        self, names: Iterable[str] | None, request: str, *arguments: Any, timeout: float | None = None
    ) -> list[Any]:
        """The answers of nodes to one request, a pair for each. ``names``: None means all that were added."""
        wanted = self.nodes() if names is None else list(names)
        return self.call_each([(name, list(arguments)) for name in wanted], request, timeout=timeout)

    def call_each(self, asked: list[tuple[str, list[Any]]], request: str, *, timeout: float | None = None) -> list[Any]:
        """As :meth:`call`, with arguments for each node."""
        links = [(name, self._link(name), arguments) for name, arguments in asked]
        requests = [(link, request, arguments) for _, link, arguments in links if link is not None]
        answers = iter(self._hub.call(requests, self.timeout if timeout is None else timeout))
        return [(name, NOT_ADDED if link is None else next(answers)) for name, link, _ in links]

    def sources(self, name: str) -> Callable[[str], Source]:
        """A function that opens a log of a node by its path: a file here, or one of another host by its agent."""
        link = self._link(name)
        if link is None or not link.is_remote:
            return LocalSource

        def ask(request: str, *arguments: Any) -> Callable[[], Any]:
            answers = self._hub.begin([(link, request, list(arguments))], self.timeout)
            return lambda: answers()[0]

        return partial(RemoteSource, ask)

    def is_local(self, name: str) -> bool:
        """Whether an added node is this process, so that functions can be passed to it."""
        return isinstance(self._nodes.get(name), LocalLink)

    # events

    def subscribe(self, who: Pid | Callable[[Any], object]) -> None:
        """Sends each event to a process, or calls a function with it in a thread of the control."""
        with self._lock:
            self._subscribers.append(who)

    def unsubscribe(self, who: Pid | Callable[[Any], object]) -> None:
        """Removes one subscription, if there is one."""
        with self._lock:
            if who in self._subscribers:
                self._subscribers.remove(who)

    def _name_in_events(self, name: str) -> str:
        return name if self.is_distributed else LOCAL

    def _on_node_event(self, name: str, event: Any) -> None:
        if isinstance(event, tuple) and len(event) == 2 and isinstance(event[0], str):
            self._publish((Atom(event[0]), self._name_in_events(name), event[1]))

    def _on_link_end(self, name: str, link: Link | LocalLink, why: str) -> None:
        with self._lock:
            if self._nodes.get(name) is not link:
                return
            del self._nodes[name]
        self._publish((Atom("disconnected"), self._name_in_events(name), Atom(why)))

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
    """Reports an exception that a subscriber raised, as the interpreter reports one that is not caught."""
    sys.excepthook(type(error), error, error.__traceback__)


def now() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The local time, in the form of events."""
    moment = datetime.datetime.now()
    return (moment.year, moment.month, moment.day), (moment.hour, moment.minute, moment.second)


def is_about(answer: Any) -> bool:
    """Whether it is the answer of a prepared process to ``about``."""
    return isinstance(answer, dict) and isinstance(answer.get("node"), str) and isinstance(answer.get("pid"), int)


def is_meant(node: str, pattern: str) -> bool:
    """Whether a pattern matches a node. A pattern without ``@`` matches names on any host.

    >>> is_meant("shop-1@h", "shop-*"), is_meant("shop-1@h", "shop-1@h"), is_meant("shop-1@h", "web")
    (True, True, False)
    """
    return fnmatch.fnmatchcase(node, pattern if "@" in pattern else f"{pattern}@*")


def _end_process(pid: Pid) -> None:
    """The code of a thread: the process ends with it."""
    _native.process.hide()
    _native.process.become(pid)
