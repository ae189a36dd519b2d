"""The link of a control to the runtime component of its own process: the same requests, without a socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from inviso.runtime._listener import Listener

__all__ = ["LocalLink"]


class LocalLink:
    """A connection to this process's own listener. Functions may be passed as they are."""

    def __init__(self, listener: Listener, node: str) -> None:
        self._listener = listener
        self.node = node
        self.pid = os.getpid()
        self.is_open = True
        self.is_local = True
        self.is_remote = False
        self.on_event: Callable[[Any], None] = lambda event: None
        self.on_end: Callable[[str], None] = lambda why: None

    def ask(self, name: str, arguments: list[Any], put: Callable[[Any], None]) -> None:
        """Queues a request. ``put`` is called with the answer."""
        self._listener.soon(lambda: put(self._answer(name, arguments)))

    def _answer(self, name: str, arguments: list[Any]) -> Any:
        if name == "about":
            return self._listener.about()
        host = self._listener.host
        answer = host.request(self, name, tuple(arguments), is_local=True)
        if host.owner is self:
            host.on_end = self._ended
        return answer

    def _ended(self) -> None:
        if self.is_open:
            self.is_open = False
            self.on_end("running_alone")

    def publish(self, event: Any) -> None:
        """Passes an event of the component on."""
        self.on_event(event)

    def end(self) -> None:
        """Ends the connection. The component follows its dependency."""
        self.is_open = False
        self._listener.soon(lambda: self._listener.host.left(self))
