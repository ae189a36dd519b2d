"""Measures one call: in the calling process, or with a time limit in a new thread.

Between arming and the call, and between its end and the pause, no Python code of the standard library runs: it would be
measured as the program's.
"""

from __future__ import annotations

import inspect
import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import inviso
from inviso._children import Leader, lead
from inviso._pattern import Pattern

from ._check import bad
from ._model import CallType, Profile, Sort, View
from ._profiler import Procs, Profiler

__all__ = ["run", "run_here"]


def run(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    type: CallType,
    tree: bool,
    patterns: list[Pattern],
    rootset: Procs | None,
    set_on_spawn: bool,
    timeout: float | None,
    view: View,
    sort: Sort,
    children: bool,
) -> Profile:
    """Measures ``fn(*args, **kwargs)``; the options are checked already."""
    leader: Leader | None = None
    if children:
        from ._child import merged  # imported now, because a forked child must not wait for an import

        leader = _lead(type, tree, patterns)
    profiler = Profiler(type=type, tree=tree)

    def arm(process: Procs) -> None:
        if type != "call_count":
            profiler.enable_trace(process if rootset is None else rootset, set_on_spawn=set_on_spawn)
        profiler.set_pattern(list(patterns))

    def collected(result: Any, timed_out: bool) -> Profile:
        profile = profiler.collect(view=view, sort=sort, result=result, timed_out=timed_out)
        return profile if leader is None else merged(profile, leader.outcome())

    try:
        if timeout is None:
            arm(inviso.self())
            result = fn(*args, **kwargs)
            profiler.pause()
            return collected(result, False)
        call = _Call(fn, args, kwargs)
        try:
            arm(call.process)
            in_time = call.go(timeout)
            profiler.pause()
        finally:
            call.leave()
        return collected(call.outcome() if in_time else None, not in_time)
    finally:
        profiler.stop()
        if leader is not None and leader.is_here():
            leader.cancel()


async def run_here(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    type: CallType,
    tree: bool,
    patterns: list[Pattern],
) -> Profile:
    """Measures an awaited call in the running task; the options are checked already."""
    with Profiler(type=type, tree=tree) as profiler:
        if type != "call_count":
            profiler.enable_trace(inviso.self())
        profiler.set_pattern(list(patterns))
        result = fn(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        profiler.pause()
        return profiler.collect(result=result)


def _lead(type: CallType, tree: bool, patterns: list[Pattern]) -> Leader:
    import os
    import sys

    main = sys.modules.get("__main__")
    place = os.path.dirname(os.path.abspath(getattr(main, "__file__", None) or "."))
    try:
        what = {"command": "tprof", "type": type, "tree": tree, "patterns": patterns}
        return lead({**what, "title": os.path.basename(sys.argv[0]), "beside": place})
    except RuntimeError as error:
        raise bad("tprof.profile, children", str(error), "make one profile of both") from None


class _Call:
    """A call in a daemon thread. The thread starts at once, waits for ``go``, makes the call, and waits for ``leave``:
    so the start and end of the thread are not measured. The locks are those of ``_thread``, whose methods are written
    in C and have no rows.
    """

    __slots__ = ("_context", "_done", "_error", "_fn", "_go", "_leave", "_ready", "_result", "_wanted", "process")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._fn: Callable[[], Any] = lambda: fn(*args, **kwargs)
        self._context = copy_context()
        self._ready, self._go, self._done, self._leave = locks = [allocate_lock() for _ in range(4)]
        for lock in locks:
            lock.acquire()
        self._wanted = False
        self._result: Any = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="tprof", daemon=True).start()
        self._ready.acquire()

    def go(self, timeout: float) -> bool:
        """Begins the call; True if it ended in time."""
        self._wanted = True
        self._go.release()
        return self._done.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))

    def leave(self) -> None:
        """Lets the thread end, with or without a call."""
        if not self._wanted:
            self._go.release()
        self._leave.release()

    def outcome(self) -> Any:
        """Returns the call's result, or raises its exception."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        self.process = inviso.self()
        self._ready.release()
        self._go.acquire()
        try:
            if self._wanted:
                self._result = self._context.run(self._fn)
        except BaseException as error:
            self._error = error
        self._done.release()
        self._leave.acquire()
