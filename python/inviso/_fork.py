"""The work at a fork, for any imported part of the package.

Our threads are stopped during the fork. In the child the parent's tracing has ended. A child of ``multiprocessing``
takes the token that its parent gave it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _native
from ._system import get_ident, get_native_id, sleep

if TYPE_CHECKING:
    from types import FrameType

_resting: list[tuple[Callable[[], None], Callable[[], None], Callable[[], bool]]] = []
_waiting: list[Callable[[], None]] = []
"""The ``pause`` of threads that may wait for other threads of ours."""

_forgetting: list[Callable[[], None]] = []
"""Functions to call in a child."""


def rest(
    pause: Callable[[], None],
    resume: Callable[[], None],
    needed: Callable[[], bool],
    forget: Callable[[], None] = lambda: None,
    *,
    waits: bool = False,
) -> Callable[[], None]:
    """Registers threads of ours to be stopped before each fork and started again in the parent.

    Args:
        pause: stops them before a fork.
        resume: starts them again in the parent.
        needed: whether there are any to start again.
        forget: called in the child.
        waits: the threads may wait for other threads of ours, such as a tracer's. They are stopped first.

    Returns:
        A function that removes the registration.
    """
    entry = pause, resume, needed
    _resting.append(entry)
    _forgetting.append(forget)
    if waits:
        _waiting.append(pause)

    def take_back() -> None:
        if entry in _resting:
            _resting.remove(entry)
            _forgetting.remove(forget)
            if waits:
                _waiting.remove(pause)

    return take_back


def wait_until_gone(native_id: int | None) -> None:
    """Waits until a joined thread has gone for the operating system, too: a fork counts the system's threads."""
    for _ in range(1000):
        if not os.access(f"/proc/self/task/{native_id}", os.F_OK):
            return
        sleep(0.0002)


def is_under_way() -> bool:
    """Whether a thread forks now. Threads of ours that begin then end at once, and continue after the fork."""
    return bool(_forks)


def is_by_caller() -> bool:
    """Whether the calling thread forks now, and so can't wait for threads that continue after the fork."""
    return get_ident() in _forks


class _Restart:
    """Starts the stopped threads after ``fork`` has returned. Until then it counts threads, and warns of them."""

    def __init__(self, caller: FrameType | None) -> None:
        self._caller = caller
        self._place = caller.f_lasti if caller else -1

    def __call__(self, may_wait: bool) -> bool:
        """Starts the threads, or returns True if it is too early."""
        if may_wait and self._inside(sys._getframe().f_back):
            return True
        self._caller = None
        for _, resume, _ in list(_resting):
            resume()
        return False

    def _inside(self, frame: FrameType | None) -> bool:
        # Hooks run Python code before fork has returned: above its caller, whose frame is still at the call of fork.
        if frame is self._caller:
            return False
        while frame is not None and frame is not self._caller:
            frame = frame.f_back
        return frame is not None and frame.f_lasti == self._place


_forks: dict[int, _Restart] = {}
"""By the thread that forks now."""


_NEEDED = frozenset({"inviso", "asyncio", "queue", "socket", "subprocess"})
"""This package, and the modules that a session imports when it begins to trace."""


def _wait_for_imports() -> None:
    """Waits until other threads have finished imports of these modules. In the child no thread would finish them, and
    an import of such a module would wait for ever.
    """
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, lock in list(locks.items()):
        # a child that was forked during an import has a copy of the held lock, and no thread that releases it
        if name.partition(".")[0] in _NEEDED and getattr(lock(), "owner", None) in sys._current_frames():
            try:
                __import__(name)
            except (ImportError, KeyError):
                pass  # the other thread gets the error, too


def _before() -> None:
    for pause in list(_waiting):
        pause()
    _forks[get_ident()] = _Restart(sys._getframe().f_back)
    for pause, _, _ in list(_resting):
        pause()
    _wait_for_imports()


def _after() -> None:
    # First of all: a thread that still sees the fork ends, and `needed` below finds it.
    restart = _forks.pop(get_ident(), None)
    if restart is None or not any(needed() for _, _, needed in list(_resting)):
        return
    # In other threads the fork warns in any case, and the main thread may wait for long.
    in_main = get_native_id() == os.getpid()
    if not (in_main and _native.interpreter.call_soon(restart)):
        restart(may_wait=False)


def _after_in_child() -> None:
    _forks.clear()
    _native.interpreter.after_fork_in_child()
    if (pickles := sys.modules.get("inviso._pickles")) is not None:
        pickles.forked()
    for forget in list(_forgetting):
        forget()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
