"""The runtime component of a process, and its control. Acts by the dependency when the control ends. No input or
output.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from inviso.terms import Atom

from ._component import Component
from ._initiator import Initiator
from ._resolver import Resolver
from ._sample import Sampler
from ._settings import Unknown, dependency_ms, read

__all__ = ["Host", "Peer"]

OK, ERROR = Atom("ok"), Atom("error")

CONFIRMATION = 5.0
"""Seconds that a control has, at least, to confirm that it adopts an autostarted component."""

_END_INITIATION = frozenset({"stop_tracing", "clear", "suspend"})


class Peer(Protocol):
    """A control component, from the side of its runtime components."""

    @property
    def node(self) -> str:
        """Its node's name."""

    @property
    def pid(self) -> int:
        """Its operating system process."""

    def publish(self, event: Any) -> None:
        """Sends it an event; never waits."""


class Host:
    """At most one component, and at most one control of it. Its methods are called in one thread."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.local_resolver = Resolver(resolver.wrote)
        self.component: Component | None = None
        self.owner: Peer | None = None
        self._sampler = Sampler()
        self._alone_until: float | None = None
        """When the component ends because it has no control."""
        self._asked: Peer | None = None
        """A control that was offered the component and has not confirmed yet."""
        self.initiator: Initiator | None = None
        """The function that initiates tracing in an autostarted process, if there is one."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the component has ended."""

    def local(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """The answer to a request of this process itself. It may name any file and any function."""
        if self.component is None:
            return ERROR, Atom("not_started")
        self._before(name)
        return self.component.call(name, arguments, self.local_resolver)

    def start(self, tag: Any, options: Any) -> Component:
        """Starts a component without a control, with options of this process. ``Unknown`` names a wrong option."""
        component = self.begin(tag, read(options), self.local_resolver)
        component.use(self.resolver)
        return component

    def asks(self, peer: Peer) -> None:
        """Notes that a control was offered the component, and may confirm that it adopts it."""
        self._asked = peer
        after = None if self.component is None else dependency_ms(self.component.settings)
        if after is not None:
            self._alone_until = time.monotonic() + max(after / 1000, CONFIRMATION)

    def _confirm(self, peer: Peer) -> Any:
        component, owner = self.component, self.owner
        if component is None or (owner is not None and owner is not peer):
            return ERROR, Atom("refused")
        self.owner, self._asked, self._alone_until = peer, None, None
        return OK, (*component.machine.both(), component.tag)

    def _before(self, name: str) -> None:
        if name in _END_INITIATION and self.initiator is not None:
            self.initiator.stop()

    def begin(self, tag: Any, settings: Any, resolver: Resolver) -> Component:
        """Makes a component, which has no control yet."""
        self.component = Component(tag, settings, self._publish, resolver)
        return self.component

    def request(self, peer: Peer, name: str, arguments: tuple[Any, ...], *, is_local: bool = False) -> Any:
        """The answer to a request of a control. Never raises."""
        try:
            return self._request(peer, name, arguments, is_local=is_local)
        except Exception as error:
            return ERROR, (Atom("crashed"), (name, f"{type(error).__name__}: {error}"))

    def _request(self, peer: Peer, name: str, arguments: tuple[Any, ...], *, is_local: bool) -> Any:
        resolver = self.local_resolver if is_local else self.resolver
        if name == "add" and len(arguments) == 3:
            return self._add(peer, *arguments, resolver)
        if name == "confirm" and peer is self._asked:
            return self._confirm(peer)
        if name == "sample" and len(arguments) <= 1:  # it changes nothing, so any connection may request it
            return OK, self._sampler.sample(self.component, self.owner, *arguments)
        if name in ("list_logs", "log_paths") and self.component is not None:  # likewise
            return self.component.call(name, arguments, resolver)
        if self.component is None or peer is not self.owner:
            return ERROR, Atom("not_an_added_node")
        if name == "stop_node":
            self.end()
            return OK
        if name == "let_go":
            self.left(peer)
            return OK
        if name == "change_options" and len(arguments) == 1:
            try:
                return self.component.do_change_options(read(arguments[0]))
            except Unknown as wrong:
                return ERROR, (Atom("unknown_option"), wrong.option)
        self._before(name)
        return self.component.call(name, arguments)

    def _add(self, peer: Peer, tag: Any, options: Any, if_ref: Any, resolver: Resolver) -> Any:
        component, owner = self.component, self.owner
        if component is None:
            try:
                settings = read(options)
            except Unknown as wrong:
                return ERROR, (Atom("unknown_option"), wrong.option)
            self.begin(tag, settings, resolver)
            answer: Any = OK, Atom("new")
        elif owner is peer:
            return OK, Atom("already_added")
        elif owner is not None:
            return ERROR, (Atom("refused"), owner.node, owner.pid)
        elif if_ref and component.tag != tag:
            return ERROR, (Atom("wrong_reference"), component.tag)
        else:
            answer = OK, (Atom("adopted"), *component.machine.both(), component.tag)
            component.tag = tag
            component.use(resolver)
        self.owner = peer
        self._alone_until = None
        return answer

    def left(self, peer: Peer) -> None:
        """A control has gone: the component follows its dependency."""
        if peer is not self.owner and peer is not self._asked:
            return
        if peer is self.owner:
            self.owner = None
            if self.component is not None:
                self.component.left()
        if peer is self._asked:
            self._asked = None
        self.alone()

    def alone(self) -> None:
        """Follows the dependency if there is no control: the component ends at once, later, or never."""
        if self.component is None or self.owner is not None:
            return
        after = dependency_ms(self.component.settings)
        if after == 0:
            self.end()
        elif after is not None:
            self._alone_until = time.monotonic() + after / 1000

    def poll(self) -> float | None:
        """Does what is due. Returns the seconds until the next call, None if there is nothing to check."""
        if self._alone_until is not None and time.monotonic() >= self._alone_until:
            self.end()
        wait = None if self.component is None else self.component.poll()
        alone = None if self._alone_until is None else max(0.0, self._alone_until - time.monotonic())
        return min((one for one in (wait, alone) if one is not None), default=None)

    def end(self) -> None:
        """Ends and forgets the component."""
        component, self.component = self.component, None
        self._before("stop_tracing")
        self.owner = self._alone_until = None
        if component is not None:
            component.end()
            self.on_end()

    def _publish(self, event: Any) -> None:
        if self.component is not None and not self.component.machine.is_running:
            self._before("suspend")
        if self.owner is not None:
            self.owner.publish(event)
