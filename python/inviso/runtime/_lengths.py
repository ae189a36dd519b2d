"""Reads the length of a queue, without its lock and without running the program's code."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

__all__ = ["length"]

_KINDS = (list, deque, dict, set)


def length(queue: Any) -> int | None:
    """The number of items in a queue of the standard library, or in one with the same attributes; else None.

    >>> import queue
    >>> box = queue.Queue()
    >>> box.put("item")
    >>> length(box), length(object())
    (1, None)
    """
    simple = getattr(sys.modules.get("_queue"), "SimpleQueue", None)
    if simple is not None and type(queue) is simple:
        return int(queue.qsize())  # its lock is never held for long
    try:
        own: Any = object.__getattribute__(queue, "__dict__")
    except AttributeError:
        return None
    found = (own.get(name) for name in ("queue", "_queue"))
    return next((len(each) for each in found if type(each) in _KINDS), None)
