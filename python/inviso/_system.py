"""Locks, threads and sleep of the operating system, even if a program has replaced Python's.

gevent replaces functions of ``_thread``, ``threading`` and ``time`` by ones that switch greenlets. A thread of this
package waits in native code. As a greenlet it would block the program's thread, and the program would never continue.
"""

from __future__ import annotations

import _thread
import time
from contextlib import suppress
from importlib.machinery import BuiltinImporter
from importlib.util import module_from_spec
from types import BuiltinFunctionType, ModuleType
from typing import Any

__all__ = ["Flag", "RLock", "allocate_lock", "get_ident", "get_native_id", "sleep", "start_new_thread"]


def genuine(module: ModuleType, *names: str) -> Any:
    """Returns the module; or a new copy of it from the interpreter, if a program has replaced one of these functions.

    >>> genuine(time, "sleep") is time
    True
    """
    if all(type(getattr(module, name, None)) is BuiltinFunctionType for name in names):
        return module
    spec = BuiltinImporter.find_spec(module.__name__)
    assert spec is not None and spec.loader is not None
    again = module_from_spec(spec)
    spec.loader.exec_module(again)
    return again


_threads = genuine(_thread, "allocate_lock", "start_new_thread", "get_ident", "get_native_id")
RLock = _threads.RLock
allocate_lock = _threads.allocate_lock
get_ident = _threads.get_ident
get_native_id = _threads.get_native_id
start_new_thread = _threads.start_new_thread
sleep = genuine(time, "sleep").sleep


class Flag:
    """An event that happens once.

    >>> flag = Flag()
    >>> flag.wait(0), flag.set(), flag.is_set(), flag.wait()
    (False, None, True, True)
    """

    __slots__ = ("_closed", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._closed = allocate_lock()
        """Held until the event happens. Each waiter acquires and releases it."""
        self._closed.acquire()

    def is_set(self) -> bool:
        """Whether the event has happened."""
        return self._is_set

    def set(self) -> None:
        """Makes the event happen; a second call does nothing."""
        if not self._is_set:
            self._is_set = True
            self._release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the event; False if it didn't happen within ``timeout`` seconds."""
        if self._is_set:
            return True
        if not self._closed.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return False
        self._release()
        return True

    def _release(self) -> None:
        with suppress(RuntimeError):  # two threads set it at the same time
            self._closed.release()
