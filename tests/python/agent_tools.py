"""Several hosts on one: agents with folders of sockets of their own. They reach each other by a socket in the file
system.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inviso.cli._agent import agents
from node_tools import Node
from waiting import LIMIT, until

__all__ = ["Host", "joined"]

THERE = "there"


class Host:
    """A host: a folder of sockets, and an agent."""

    def __init__(
        self,
        name: str,
        place: Path,
        connect: tuple[str, ...] = (),
        *options: str,
        endpoint: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.place = place
        self.endpoint = endpoint or f"unixsock-stream/{place}/zenoh"
        self._connect = connect
        self._options = options
        self.folder = place / "sockets"
        place.mkdir(exist_ok=True)
        self.environment = {"INVISO_DIR": str(self.folder), "INVISO_HOST": name, **(environment or {})}
        self.nodes: list[Node] = []
        self.start()

    def start(self) -> None:
        """Starts the agent, and waits until it answers."""
        words = [sys.executable, "-m", "inviso", "agent", "--listen", self.endpoint, *self._options]
        for each in self._connect:
            words += ["--connect", each]
        self.errors = self.place / "agent.err"
        with self.errors.open("ab") as errors:
            self.agent = subprocess.Popen(words, env={**os.environ, **self.environment}, stdout=errors, stderr=errors)
        until(lambda: self.status() is not None)

    def status(self) -> Any:
        """The agent's description of itself; None if it does not answer."""
        before = os.environ.get("INVISO_DIR")
        os.environ["INVISO_DIR"] = str(self.folder)
        try:
            found = [each for each in agents() if each["pid"] == self.agent.pid]
        finally:
            os.environ.pop("INVISO_DIR")
            if before is not None:
                os.environ["INVISO_DIR"] = before
        return found[0] if found else None

    def sees(self, *nodes: str) -> bool:
        """Whether the agent knows exactly these nodes of other hosts."""
        status = self.status()
        return status is not None and status["nodes"] == sorted(nodes)

    def node(self, name: str, **more: Any) -> Node:
        """A prepared process of this host."""
        self.nodes.append(Node(name, self.place / name, host=self.name, **{**self.environment, **more}))
        return self.nodes[-1]

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends the agent."""
        self.agent.send_signal(number)
        self.agent.wait(LIMIT)

    def close(self) -> None:
        """Ends the agent and all nodes."""
        for node in self.nodes:
            node.close()
        self.nodes.clear()
        with suppress(ProcessLookupError):
            self.agent.send_signal(signal.SIGCONT)
            self.agent.kill()
        self.agent.wait(LIMIT)


@contextmanager
def joined(place: Path, here: str) -> Iterator[tuple[Host, Host]]:
    """This host with an agent, and another."""
    there = Host(THERE, place / THERE)
    try:
        own = Host(here, place / "here", (there.endpoint,))
        try:
            until(lambda: own.status()["connections"] == 1)
            yield own, there
        finally:
            own.close()
    finally:
        there.close()
