"""Connects controls of this host with nodes of other hosts. Each connection of a control to the agent leads to one
node.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from inviso import etf
from inviso._link._frame import DEPTH, LIMIT, BadFrame, answer, peer_of
from inviso._link._names import host_of
from inviso._link._rights import class_of
from inviso.errors import BadArg, SystemLimit
from inviso.terms import Atom

from ._clock import EVERY, Offsets, ask
from ._engine import Engine
from ._keys import EVERYBODY, Keys
from ._refusals import Refusals
from ._wire import GREETING, Wire

__all__ = ["Far"]

OK, ERROR = Atom("ok"), Atom("error")
NODEDOWN = "nodedown"
GONE = ERROR, (Atom("no_response"), Atom("disconnected"))
NOT_ADDED = etf.dumps((ERROR, Atom("not_an_added_node")))
"""The answer of a process to a control that doesn't have it, or no longer."""

WINDOW = 1.0
"""Seconds that a vanished node has to come back: connections between hosts can be interrupted."""

LATER = 1.0
"""Seconds that a request to another host lasts longer than the control waits. Until then it costs memory, also if it is
answered.
"""

MOST = 3_600_000
"""The longest wait of a control for an answer, in milliseconds."""


class Far:
    """The nodes of other hosts, and the controls of this host that use them. Runs in the agent's event loop."""

    def __init__(
        self, listening: socket.socket, engine: Engine, keys: Keys, refusals: Refusals, window: float = WINDOW
    ) -> None:
        self._listening = listening
        self._engine = engine
        self._keys = keys
        self._refusals = refusals
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._alive: set[str] = set()
        """Nodes of other hosts that are present."""
        self._suspect: dict[str, asyncio.TimerHandle] = {}
        """Nodes that have just vanished, with the timer that ends them."""
        self._controls: dict[str, tuple[str, Wire]] = {}
        """Controls by name: the node that a connection leads to, and the connection."""
        self._controls_of: dict[str, set[str]] = {}
        """Names of controls, by node."""
        self._added: set[str] = set()
        """Names of controls that have added their node."""
        self._last_events: dict[str, int] = {}
        """The number of the last event, by control."""
        self._offsets: dict[str, Offsets] = {}
        """Clock offsets, by host."""
        self._count = 0
        self.strangers: list[str] = []
        """Names in certificates of neighbours without a right here, with their addresses: the last 100."""
        self.not_joined: list[str] = []
        """Agents of other clusters and versions."""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def nodes(self) -> list[str]:
        """The nodes of other hosts that are present."""
        return sorted(self._alive)

    async def run(self) -> None:
        """Accepts connections of controls, forever."""
        self._engine.watch(self._keys.alive(), self._in_loop(self._came_or_went))
        self._engine.listen(self._keys.event(), self._in_loop(self._event))
        self._listening.setblocking(False)
        self._ask_clocks()
        while True:
            made, _ = await self._loop.sock_accept(self._listening)
            task = asyncio.create_task(self._serve(made))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _in_loop(self, function: Any) -> Any:
        return lambda *arguments: self._loop.call_soon_threadsafe(function, *arguments)

    def _came_or_went(self, key: str, is_there: bool) -> None:
        node = self._keys.node_of(key)
        if self._keys.has(node):
            return  # a node of this host: controls reach it without an agent
        if is_there:
            if (suspect := self._suspect.pop(node, None)) is not None:
                suspect.cancel()
            self._alive.add(node)
            for name in self._added.intersection(self._controls_of.get(node, ())):
                self._ask(node, name, "get_status", [], partial(self._left, name), GREETING)
        elif node in self._alive and node not in self._suspect:
            self._suspect[node] = self._loop.call_later(self._window, self._gone, node)

    def _ask_clocks(self) -> None:
        """Asks every other host for its time, at intervals."""
        self._loop.call_later(EVERY, self._ask_clocks)
        for host in {host_of(node) for node in self._alive}:
            offsets = self._offsets.setdefault(host, Offsets())
            ask(self._engine, self._keys, host, self._in_loop(offsets.add))

    def _gone(self, node: str, why: str = "noconnection") -> None:
        if (suspect := self._suspect.pop(node, None)) is not None:
            suspect.cancel()
        self._alive.discard(node)
        for name in list(self._controls_of.get(node, ())):
            self._ended(name, why)

    def _left(self, name: str, answer: bytes) -> bool:
        """Whether an answer shows that a node has let its control go: its host had lost the connection to this one."""
        if answer != NOT_ADDED or name not in self._added:
            return False
        # the other host opened a new connection for this request
        self._ask(self._controls[name][0], name, "leave", [], lambda data: None, GREETING)
        self._ended(name, "noconnection")
        return True

    def _ended(self, name: str, why: str) -> None:
        """Ends a control's connection after its node has ended."""
        wire = self._drop(name)
        assert wire is not None
        wire.send((Atom("ended"), why))
        wire.close()

    def _drop(self, name: str) -> Wire | None:
        """Forgets a control, and returns its connection; None if it is not known."""
        if name not in self._controls:
            return None
        node, wire = self._controls.pop(name)
        self._added.discard(name)
        self._controls_of[node].remove(name)
        if not self._controls_of[node]:
            del self._controls_of[node]
        return wire

    async def _serve(self, made: socket.socket) -> None:
        try:
            wire = await Wire.of(made)
        except (OSError, BadFrame):
            return
        terms = wire.terms()
        try:
            async with asyncio.timeout(GREETING):
                about = peer_of(await anext(terms))
        except (TimeoutError, StopAsyncIteration):
            return wire.close()
        except BadFrame as wrong:
            wire.send((Atom("refused"), str(wrong)))
            return wire.close()
        node, control = str(about.get("to", ""))[:200], str(about.get("node", ""))[:200]
        if node and node not in self._alive:
            wire.send((Atom("refused"), NODEDOWN))
            return wire.close()
        self._count += 1
        name = f"{self._engine.name}/{self._count} {control}"
        wire.greet(node=node or f"agent@{self._keys.host}", pid=os.getpid())
        if node:
            self._controls[name] = node, wire
            self._controls_of.setdefault(node, set()).add(name)
        try:
            async for term in terms:
                match term:
                    case ("call", int(number), str(request), list(arguments), int(time)) if 0 <= time <= MOST:
                        self._call(name, node, wire, number, request, arguments, time / 1000)
                    case _:
                        raise BadFrame("it is not a request")
        except BadFrame as wrong:
            wire.send((Atom("refused"), str(wrong)))
        wire.close()
        self._last_events.pop(name, None)
        if self._drop(name) is not None:
            self._ask(node, name, "leave", [], lambda data: None, GREETING)

    def _call(
        self, name: str, node: str, wire: Wire, number: int, request: str, arguments: list[Any], timeout: float
    ) -> None:
        def answered(data: bytes) -> None:
            if request == "add" and name in self._controls:
                self._added.add(name)
            elif self._left(name, data):
                return
            try:
                wire.write(answer(number, data))
            except BadFrame as error:
                wire.send((Atom("answer"), number, (ERROR, (Atom("no_term"), str(error)))))

        if node:
            self._ask(node, name, request, arguments, answered, timeout)
        else:
            answered(etf.dumps(self._own(request)))

    def _own(self, request: str) -> Any:
        """Answers a request to the agent itself."""
        if request == "nodes":
            return OK, self.nodes
        if request == "clocks":
            return OK, {host: offsets.points() for host, offsets in self._offsets.items()}
        if request == "status":
            return OK, {
                "cluster": self._keys.cluster, "host": self._keys.host, "nodes": self.nodes,
                "connections": len(self._engine.others), "routers": len(self._engine.routers),
                "without_rights": self.strangers, "not_joined": self.not_joined,
                "refused": {"lines": self._refusals.lines, "last": self._refusals.last},
            }  # fmt: skip
        return ERROR, Atom("no_request")

    def _ask(
        self,
        node: str,
        name: str,
        request: str,
        arguments: list[Any],
        answered: Callable[[bytes], object],
        timeout: float,
    ) -> None:
        """Sends a request to a node. ``answered`` gets the answer unchanged: a term in the external format.

        ``timeout``: seconds that the control waits.
        """
        right = class_of(request)

        def take(found: bytes | None) -> None:
            why: Any = GONE
            if node in self._alive and node not in self._suspect:
                why = ERROR, (Atom("no_answer"), f"its host may give this one no right to {right} it")
            answered(etf.dumps(why) if found is None else found)

        try:
            data = etf.dumps((name, request, arguments))
        except (BadArg, SystemLimit) as error:
            answered(etf.dumps((ERROR, (Atom("badarg"), str(error)))))
            return
        self._engine.ask(self._keys.ask(node, right), data, timeout + LATER, self._in_loop(take))

    def _event(self, key: str, data: bytes) -> None:
        """Handles an event of a node for a control, which may belong to this host."""
        node = self._keys.node_of(key)
        match _term(data):
            case (str(name), int(), "gone") if name == EVERYBODY and node in self._alive:
                self._gone(node, "killed")
            case (str(name), int(number), what) if name in self._controls:
                its, wire = self._controls[name]
                if its != node:
                    return
                missing = number - self._last_events.get(name, 0) - 1
                self._last_events[name] = number
                if missing > 0:
                    wire.send((Atom("event"), (Atom("lost"), missing)))
                match what:
                    case ("ended", str(why)):
                        self._ended(name, why)
                    case ("event", _):
                        wire.send(what)


def _term(data: bytes) -> Any:
    try:
        return etf.loads(data, depth=DEPTH, size=LIMIT)
    except (BadArg, SystemLimit) as error:
        return ERROR, (Atom("bad_answer"), str(error))
