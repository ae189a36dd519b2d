"""The zenoh session of an agent: all traffic between hosts. No other process opens one, and the agent doesn't fork."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from inviso.errors import BadArg, SystemLimit, missing

from ._access import Tls

__all__ = ["LEASE", "Engine", "is_private"]

LEASE = 2000
"""Milliseconds after which a silent host counts as gone."""


def is_private(endpoint: str) -> bool:
    """Whether an endpoint can be reached from this host, or with a certificate, only.

    >>> [is_private(each) for each in ("tcp/127.0.0.1:7447", "tcp/[::1]:7447", "tls/192.0.2.1:7447", "tcp/0.0.0.0:1")]
    [True, True, True, False]
    """
    protocol, _, address = endpoint.partition("/")
    place = address.rpartition(":")[0].strip("[]")
    return protocol in ("tls", "quic", "unixsock-stream") or place in ("127.0.0.1", "::1", "localhost")


class Engine:
    """An open session, which listens at and connects to the given endpoints only.

    Args:
        listen, connect: endpoints such as ``"tcp/127.0.0.1:7447"``.
        mode: ``"peer"``, or ``"router"``: it forwards messages between others.
        tls: certificates; then both sides need one.
        access: zenoh's access rules.

    Raises:
        SystemLimit: the session can't be opened, for example as an endpoint is in use.
        BadArg: zenoh is not installed, or an endpoint is malformed.
    """

    def __init__(
        self,
        listen: Sequence[str],
        connect: Sequence[str],
        mode: str = "peer",
        tls: Tls | None = None,
        access: dict[str, Any] | None = None,
    ) -> None:
        try:
            import zenoh
        except ImportError:
            raise BadArg("agent", "extra", missing("zenoh")) from None
        self._zenoh = zenoh
        self._pid = os.getpid()
        zenoh.init_log_from_env_or("error,zenoh_link_tls=warn")  # to standard output: refused connections, for example
        config = zenoh.Config()
        settings: dict[str, Any] = {
            "mode": mode,
            "listen/endpoints": list(listen),
            "connect/endpoints": list(connect),
            "connect/timeout_ms": -1,
            "connect/exit_on_failure": False,
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": True,
            "transport/link/tx/lease": LEASE,
        }
        if tls is not None:
            settings["transport/link/tls"] = tls.checked().settings()
        if access is not None:
            settings["access_control"] = access
        try:
            for name, value in settings.items():
                config.insert_json5(name, json.dumps(value))
        except zenoh.ZError as error:
            raise BadArg("agent", "endpoints", str(error)) from None
        try:
            self._session = zenoh.open(config)
        except zenoh.ZError as error:
            raise SystemLimit(f"the agent can't reach the network: {error}") from None

    @property
    def name(self) -> str:
        """The unique id of this session."""
        return str(self._session.info.zid())

    @property
    def others(self) -> list[str]:
        """The names of the connected sessions."""
        return [str(one) for one in self._session.info.peers_zid()] + self.routers

    @property
    def routers(self) -> list[str]:
        """The names of the connected sessions that forward messages between others."""
        return [str(one) for one in self._session.info.routers_zid()]

    def watch_links(self, on_link: Callable[[str | None, str, bool], None]) -> None:
        """Calls ``on_link`` with each neighbour that comes or goes: the name in its certificate, its address, whether
        it comes.
        """
        put = self._zenoh.SampleKind.PUT

        def take(event: Any) -> None:
            on_link(event.link.auth_identifier, event.link.dst, event.kind == put)

        self._session.info.declare_link_events_listener(take, history=True)

    def token(self, key: str) -> Callable[[], None]:
        """Declares a token, until the returned function is called or the process ends."""
        self._check()
        undeclare: Callable[[], None] = self._session.liveliness().declare_token(key).undeclare
        return undeclare

    def watch(self, keys: str, on_token: Callable[[str, bool], None]) -> None:
        """Calls ``on_token`` with the key of each token that comes or goes; first with all present ones."""
        self._check()
        put = self._zenoh.SampleKind.PUT
        self._session.liveliness().declare_subscriber(
            keys, lambda sample: on_token(str(sample.key_expr), sample.kind == put), history=True
        )

    def listen(self, keys: str, on_data: Callable[[str, bytes], None]) -> None:
        """Calls ``on_data`` with the key and bytes of each publication."""
        self._check()
        self._session.declare_subscriber(keys, lambda sample: on_data(str(sample.key_expr), sample.payload.to_bytes()))

    def publish(self, key: str, data: bytes) -> None:
        """Publishes bytes. They are dropped if a slow link has no room; events are numbered, so the receiver sees the
        gap.
        """
        self._check()
        self._session.put(key, data, congestion_control=self._zenoh.CongestionControl.DROP)

    def serve(self, keys: str, asked: Callable[[str, bytes, Callable[[bytes], None]], None]) -> None:
        """Calls ``asked`` with each request: its key, its bytes, and a function that answers it, once."""
        self._check()

        def take(query: Any) -> None:
            key = str(query.key_expr)
            payload = query.payload

            def answer(data: bytes) -> None:
                with query:
                    query.reply(key, data)

            asked(key, b"" if payload is None else payload.to_bytes(), answer)

        self._session.declare_queryable(keys, take, complete=True)

    def ask(self, key: str, data: bytes, timeout: float, answered: Callable[[bytes | None], None]) -> None:
        """Sends a request. ``answered`` is called once, with the answer or None.

        It runs in a thread of the session, and must not block it.
        """
        self._check()
        found: list[bytes] = []

        def take(reply: Any) -> None:
            if reply.ok is not None:
                found.append(reply.ok.payload.to_bytes())

        # indirect=True would start a thread for each request
        callback = self._zenoh.handlers.Callback(take, lambda: answered(found[0] if found else None), indirect=False)
        self._session.get(
            key,
            callback,
            payload=data,
            timeout=timeout,
            target=self._zenoh.QueryTarget.ALL,
            consolidation=self._zenoh.ConsolidationMode.NONE,
            congestion_control=self._zenoh.CongestionControl.BLOCK,
        )

    def close(self) -> None:
        """Ends the session, with its tokens."""
        if self._pid == os.getpid():
            close: Callable[[], None] = self._session.close
            close()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError("a process that was forked has no session of its parent's; open one of its own")
