"""What things are called between hosts: ``inviso/CLUSTER/HOST/NAME/...``. A later major version of the protocol has other names; only
what says that an agent is there (``inviso-agents/...``) is the same in all versions and clusters.
"""

from __future__ import annotations

import re

from inviso._link import _frame
from inviso._link._names import host_of
from inviso._link._rights import CLASSES
from inviso.errors import BadArg, shown

__all__ = ["EVERYBODY", "PRESENCE", "Keys"]

EVERYBODY = "*"
"""In the place of a control's name in an event: all controls are meant."""

PRESENCE = "inviso-agents"
"""What the tokens of all agents begin with."""

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
                raise BadArg("agent", what, f"{shown(name)} is no name; pass up to 64 letters, digits, '_', '.' and '-'")
        self.cluster = cluster
        self.host = host
        self.version = _frame.VERSION[0]
        self.top = f"inviso{'' if self.version == 1 else self.version}/{cluster}"
        """What all keys of the cluster begin with."""

    def has(self, node: str) -> bool:
        """Whether a node is one of this host's."""
        return host_of(node) == self.host and bool(_PART.match(node.partition("@")[0]))

    def ask(self, node: str, right: str) -> str:
        """Where a node is asked."""
        name, _, host = node.partition("@")
        return f"{self.top}/{host}/{name}/{right}"

    def of_host(self) -> str:
        """Where all nodes of this host are asked."""
        return f"{self.top}/{self.host}/*/*"

    def of_nodes(self, pattern: str, what: str) -> str:
        """The keys of the nodes of this host whose names match a pattern.

        >>> Keys("test", "web").of_nodes("shop-*", "trace")
        'inviso/test/web/shop-$*/trace'
        """
        part = pattern if pattern == "*" else re.sub(r"\*+", "$*", pattern)
        return f"{self.top}/{self.host}/{part}/{what}"

    def clock(self, host: str | None = None) -> str:
        """Where a host's clock is asked."""
        return f"{self.top}/{host or self.host}/clock"

    def parts(self, key: str) -> tuple[str, str]:
        """The node and the class of a key that was asked; ValueError if it is none."""
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
        """Where a node's events are published, or those of all."""
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
        """The token by which agents of other clusters and versions know of this host's agent."""
        return f"{PRESENCE}/{self.cluster}/{self.version}/{self.host}/{name}"

    def foreign(self, key: str) -> str | None:
        """What is foreign about the agent of such a token; None of one of this cluster and version."""
        _, cluster, version, host, _ = key.split("/")
        if version != str(self.version):
            return f"version {version} of the protocol, on host {host} of cluster {cluster}; this one speaks {self.version}"
        return None if cluster == self.cluster else f"cluster {cluster}, on host {host}"
