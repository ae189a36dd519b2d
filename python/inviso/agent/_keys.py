"""Keys of the messages between hosts: ``inviso/CLUSTER/HOST/NAME/...``.

A later major version of the protocol has other keys. Only the tokens of agents (``inviso-agents/...``) are the same in
all versions and clusters.
"""

from __future__ import annotations

import re

from inviso._link import _frame
from inviso._link._names import host_of
from inviso._link._rights import CLASSES
from inviso.errors import BadArg, shown

__all__ = ["EVERYBODY", "PRESENCE", "Keys"]

EVERYBODY = "*"
"""Stands for all controls, in the place of a control's name in an event."""

PRESENCE = "inviso-agents"
"""The beginning of the tokens of all agents."""

_PART = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class Keys:
    """The keys of one cluster, for one host.

    >>> keys = Keys("test", "web")
    >>> keys.ask("shop-1@db", "trace"), keys.parts("inviso/test/web/shop-1/read")
    ('inviso/test/db/shop-1/trace', ('shop-1@web', 'read'))
    """

    def __init__(self, cluster: str, host: str) -> None:
        for what, name in (("cluster", cluster), ("host", host)):
            if not _PART.match(name):
                raise BadArg(
                    "agent", what, f"{shown(name)} is not a name; pass up to 64 letters, digits, '_', '.' and '-'"
                )
        self.cluster = cluster
        self.host = host
        self.version = _frame.VERSION[0]
        self.top = f"inviso{'' if self.version == 1 else self.version}/{cluster}"
        """The beginning of all keys of the cluster."""

    def has(self, node: str) -> bool:
        """Whether a node belongs to this host."""
        return host_of(node) == self.host and bool(_PART.match(node.partition("@")[0]))

    def ask(self, node: str, right: str) -> str:
        """The key for requests of a class to a node."""
        name, _, host = node.partition("@")
        return f"{self.top}/{host}/{name}/{right}"

    def of_host(self) -> str:
        """The keys for requests to all nodes of this host."""
        return f"{self.top}/{self.host}/*/*"

    def of_nodes(self, pattern: str, what: str) -> str:
        """The keys of a kind of the nodes of this host whose names match a pattern.

        >>> Keys("test", "web").of_nodes("shop-*", "trace")
        'inviso/test/web/shop-$*/trace'
        """
        part = pattern if pattern == "*" else re.sub(r"\*+", "$*", pattern)
        return f"{self.top}/{self.host}/{part}/{what}"

    def clock(self, host: str | None = None) -> str:
        """The key for requests for a host's time."""
        return f"{self.top}/{host or self.host}/clock"

    def parts(self, key: str) -> tuple[str, str]:
        """The node and the class of a request's key. ValueError if it is malformed."""
        _, cluster, host, name, right = key.split("/")
        if right not in CLASSES or cluster != self.cluster:
            raise ValueError(key)
        return f"{name}@{host}", right

    def alive(self, node: str = "*@*") -> str:
        """The token of a node, or of all."""
        name, _, host = node.partition("@")
        return f"{self.top}/{host}/{name}/alive"

    def node_of(self, key: str) -> str:
        """The node of a token, or of an event."""
        _, _, host, name, _ = key.split("/")
        return f"{name}@{host}"

    def event(self, node: str = "*@*") -> str:
        """The key of a node's events, or of the events of all."""
        name, _, host = node.partition("@")
        return f"{self.top}/{host}/{name}/event"

    def agent(self, name: str) -> str:
        """The token of an agent."""
        return f"{self.top}/agents/{name}"

    def agents(self) -> str:
        """The tokens of all agents."""
        return f"{self.top}/agents/*"

    def agent_of(self, key: str) -> str:
        """The name of the agent of a token."""
        return key.rpartition("/")[2]

    def presence(self, name: str) -> str:
        """The token of this host's agent that all clusters and versions see."""
        return f"{PRESENCE}/{self.cluster}/{self.version}/{self.host}/{name}"

    def foreign(self, key: str) -> str | None:
        """The foreign cluster or version of the agent with such a token, as text; None if it is the own one."""
        _, cluster, version, host, _ = key.split("/")
        if version != str(self.version):
            spoken = f"this one speaks {self.version}"
            return f"version {version} of the protocol, on host {host} of cluster {cluster}; {spoken}"
        return None if cluster == self.cluster else f"cluster {cluster}, on host {host}"
