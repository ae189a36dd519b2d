"""The zenoh session of an agent: what goes between hosts. No other process opens one, and none forks with one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from inviso.errors import BadArg, SystemLimit, missing

from ._access import Tls

__all__ = ["LEASE", "Engine", "is_private"]

LEASE = 2000
"""Milliseconds after which a host that says nothing is given up."""


def is_private(endpoint: str) -> bool:
    """Whether only who is on this host, or has a certificate, reaches an endpoint.

    >>> [is_private(each) for each in ("tcp/127.0.0.1:7447", "tcp/[::1]:7447", "tls/192.0.2.1:7447", "tcp/0.0.0.0:7447")]
    [True, True, True, False]
    """
    protocol, _, address = endpoint.partition("/")
    place = address.rpartition(":")[0].strip("[]")
    return protocol in ("tls", "quic", "unixsock-stream") or place in ("127.0.0.1", "::1", "localhost")


class Engine:
    """An open session, which listens and connects where it was told and nowhere else.

    Args:
        listen, connect: endpoints such as ``"tcp/127.0.0.1:7447"``.
        mode: ``"peer"``, or ``"router"``: it forwards what others say to each other.
        tls: certificates, which both sides show then.
        access: zenoh's rules of who may say what.

    Raises:
        SystemLimit: the session can't be opened: an endpoint is taken, say.
        BadArg: zenoh is not installed, or an endpoint is none.
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
        zenoh.init_log_from_env_or("error,zenoh_link_tls=warn")  # to standard output: who was not let in, say
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
        """What tells this session from all others."""
        return str(self._session.info.zid())

    @property
    def others(self) -> list[str]:
        """The names of the sessions that this one is connected with."""
        return [str(one) for one in self._session.info.peers_zid()] + self.routers

    @property
    def routers(self) -> list[str]:
        """Those of them that forward what others say."""
        return [str(one) for one in self._session.info.routers_zid()]

    def watch_links(self, heard: Callable[[str | None, str, bool], None]) -> None:
        """Calls ``heard`` with the name in the certificate and the address of each neighbour that comes or goes."""
        put = self._zenoh.SampleKind.PUT

        def take(event: Any) -> None:
            heard(event.link.auth_identifier, event.link.dst, event.kind == put)

        self._session.info.declare_link_events_listener(take, history=True)

    def token(self, key: str) -> Callable[[], None]:
        """Says that something is there, until what comes back is called, or the process ends."""
        self._check()
        undeclare: Callable[[], None] = self._session.liveliness().declare_token(key).undeclare
        return undeclare

    def watch(self, keys: str, heard: Callable[[str, bool], None]) -> None:
        """Calls ``heard`` with the key of each token that comes or goes, those that are there first."""
        self._check()
        put = self._zenoh.SampleKind.PUT
        self._session.liveliness().declare_subscriber(
            keys, lambda sample: heard(str(sample.key_expr), sample.kind == put), history=True
        )

    def listen(self, keys: str, heard: Callable[[str, bytes], None]) -> None:
        """Calls ``heard`` with what is published."""
        self._check()
        self._session.declare_subscriber(keys, lambda sample: heard(str(sample.key_expr), sample.payload.to_bytes()))

    def publish(self, key: str, data: bytes) -> None:
        """Publishes; what doesn't fit into a slow link is dropped, and whoever counts what comes knows."""
        self._check()
        self._session.put(key, data, congestion_control=self._zenoh.CongestionControl.DROP)

    def serve(self, keys: str, asked: Callable[[str, bytes, Callable[[bytes], None]], None]) -> None:
        """Calls ``asked`` with each question's key, its bytes, and what answers it, once."""
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
        """Asks; ``answered`` is called once, in a thread of the session's which it may not hold up: with the answer, or None if
        there was none.
        """
        self._check()
        found: list[bytes] = []

        def take(reply: Any) -> None:
            if reply.ok is not None:
                found.append(reply.ok.payload.to_bytes())

        # indirect would be a thread for each question
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
        """Ends the session: what it said is there is gone for all others."""
        if self._pid == os.getpid():
            close: Callable[[], None] = self._session.close
            close()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError("a process that was forked has no session of its parent's; open one of its own")
