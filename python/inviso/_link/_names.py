"""Names of nodes and hosts."""

from __future__ import annotations

import os
import socket

__all__ = ["full", "host", "host_of"]


def host() -> str:
    """This host's name in names of nodes: ``INVISO_HOST``, else the system's name for it."""
    return os.environ.get("INVISO_HOST") or socket.gethostname()


def full(name: str) -> str:
    """A node's name with its host.

    >>> full("shop-1@web"), full("shop-1") == "shop-1@" + host()
    ('shop-1@web', True)
    """
    return name if "@" in name else f"{name}@{host()}"


def host_of(node: str) -> str:
    """The host in a node's full name.

    >>> host_of("shop-1@web")
    'web'
    """
    return node.partition("@")[2]
