"""What a request of a control does to a node, in three classes: by them rights are given to hosts, and requests go their ways."""

from __future__ import annotations

__all__ = ["CLASSES", "class_of"]

CLASSES = ("watch", "read", "trace")
"""``watch`` asks for the state, ``read`` for logs, ``trace`` changes something."""

_WATCH = frozenset({"about", "get_status", "get_tracerdata", "info", "sample"})
_READ = frozenset({"list_logs", "log_paths", "chunk", "checksum"})


def class_of(request: str) -> str:
    """The class of a request; what is not known changes something.

    >>> class_of("get_status"), class_of("log_paths"), class_of("tf"), class_of("?")
    ('watch', 'read', 'trace', 'trace')
    """
    if request in _WATCH:
        return "watch"
    return "read" if request in _READ else "trace"
