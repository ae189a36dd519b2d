"""How many items a queue holds, read without its lock and without any code of the program's."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

__all__ = ["length"]

_KINDS = (list, deque, dict, set)


def length(queue: Any) -> int | None:
    """The number of items in a queue of the standard library, or of a class that keeps them where those do.

    None of any other object.

    >>> import queue
    >>> box = queue.Queue()
    >>> box.put("item")
    >>> length(box), length(object())
    (1, None)
    """
    simple = getattr(sys.modules.get("_queue"), "SimpleQueue", None)
    if simple is not None and type(queue) is simple:
        return int(queue.qsize())  # it has no lock that could be held for long
    try:
        own: Any = object.__getattribute__(queue, "__dict__")
    except AttributeError:
        return None
    found = (own.get(name) for name in ("queue", "_queue"))
    return next((len(each) for each in found if type(each) in _KINDS), None)
