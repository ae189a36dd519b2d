"""The three classes of requests to a node. Rights of hosts, and keys of requests between agents, go by the classes."""

from __future__ import annotations

__all__ = ["CLASSES", "class_of"]

CLASSES = ("watch", "read", "trace")
"""``watch`` reads the state, ``read`` reads logs, ``trace`` changes something."""

_WATCH = frozenset({"about", "get_status", "get_tracerdata", "info", "sample"})
_READ = frozenset({"list_logs", "log_paths", "chunk", "checksum"})


def class_of(request: str) -> str:
    """The class of a request. An unknown request counts as a change.

    >>> class_of("get_status"), class_of("log_paths"), class_of("tf"), class_of("?")
    ('watch', 'read', 'trace', 'trace')
    """
    if request in _WATCH:
        return "watch"
    return "read" if request in _READ else "trace"
