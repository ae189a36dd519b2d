"""What is done at a fork, whichever part of the package a program has imported: threads of ours rest meanwhile; in the
child nothing of the parent's is traced, and one that ``multiprocessing`` starts takes the token that it was given.
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
"""How those of them rest that wait for the others at times."""

_forgetting: list[Callable[[], None]] = []
"""What is called in a child."""


def rest(
    pause: Callable[[], None],
    resume: Callable[[], None],
    needed: Callable[[], bool],
    forget: Callable[[], None] = lambda: None,
    *,
    waits: bool = False,
) -> Callable[[], None]:
    """Has threads of ours stopped before each fork and started again in the parent, if there are any then. ``forget`` is called
    in the child. ``waits``: the thread may wait for another one of ours, as a tracer's; that rests after it. What is returned takes
    that back.
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
    """A thread that was joined may still be there for the operating system, and a fork looks at that."""
    for _ in range(1000):
        if not os.access(f"/proc/self/task/{native_id}", os.F_OK):
            return
        sleep(0.0002)


def is_under_way() -> bool:
    """Whether some thread forks now: threads of ours that begin then end at once, and go on after it."""
    return bool(_forks)


def is_by_caller() -> bool:
    """Whether the calling thread does, and so can't wait for what goes on after it."""
    return get_ident() in _forks


class _Restart:
    """Starts what rests again once ``fork`` has returned: until then it counts threads, to warn of them."""

    def __init__(self, caller: FrameType | None) -> None:
        self._caller = caller
        self._place = caller.f_lasti if caller else -1

    def __call__(self, may_wait: bool) -> bool:
        """Whether it's too early still."""
        if may_wait and self._inside(sys._getframe().f_back):
            return True
        self._caller = None
        for _, resume, _ in list(_resting):
            resume()
        return False

    def _inside(self, frame: FrameType | None) -> bool:
        # Hooks run Python code before fork has returned: over its caller, which still stands where it called fork.
        if frame is self._caller:
            return False
        while frame is not None and frame is not self._caller:
            frame = frame.f_back
        return frame is not None and frame.f_lasti == self._place


_forks: dict[int, _Restart] = {}
"""Of each thread that forks now."""


_NEEDED = frozenset({"inviso", "asyncio", "queue", "socket", "subprocess"})
"""This package, and what a session imports when it begins to trace."""


def _wait_for_imports() -> None:
    """Has other threads end the imports of these that are under way: in the child nobody would, and it waits for ever where it
    needs one of them.
    """
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, lock in list(locks.items()):
        # a child that was forked in the midst of an import has that lock, and nobody who would let go of it
        if name.partition(".")[0] in _NEEDED and getattr(lock(), "owner", None) in sys._current_frames():
            try:
                __import__(name)
            except (ImportError, KeyError):
                pass  # the other thread's, and told there


def _before() -> None:
    for pause in list(_waiting):
        pause()
    _forks[get_ident()] = _Restart(sys._getframe().f_back)
    for pause, _, _ in list(_resting):
        pause()
    _wait_for_imports()


def _after() -> None:
    # First: who sees the fork still rests, and is then seen here.
    restart = _forks.pop(get_ident(), None)
    if restart is None or not any(needed() for _, _, needed in list(_resting)):
        return
    # Elsewhere the fork warns in any case, and the main thread may wait for long.
    in_main = get_native_id() == os.getpid()
    if not (in_main and _native.call_soon(restart)):
        restart(may_wait=False)


def _after_in_child() -> None:
    _forks.clear()
    _native.after_fork_in_child()
    if (pickles := sys.modules.get("inviso._pickles")) is not None:
        pickles.forked()
    for forget in list(_forgetting):
        forget()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
