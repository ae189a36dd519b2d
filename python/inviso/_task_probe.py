"""Runs one step of a task, to find the objects by which asyncio runs tasks."""

from __future__ import annotations

import _asyncio
import contextvars
import sys
from collections.abc import Callable, Generator
from typing import Any


def find() -> tuple[Any, Any, Any, Any, Any]:
    """Runs the first step of a task.

    The task belongs to no event loop of the program, and only this function sees it. It is freed with the returned
    objects, so nothing of it is left to the garbage collector.

    Returns:
        The callback for the event loop that runs the task's first step; the callback for a future that continues the
        task; the task; a coroutine that has not begun (the caller closes it); and one that has ended.
    """
    native: Any = _asyncio
    event_loop = _Loop()
    future = _Future(event_loop)

    async def wait() -> None:
        await future

    coroutine = wait()
    task = native.Task(coroutine, loop=event_loop, name="inviso", context=contextvars.Context())
    task._log_destroy_pending = False
    try:
        if sys.version_info >= (3, 14):
            _as_running(event_loop)
        else:
            event_loop.step()
    finally:
        coroutine.close()
    return event_loop.__dict__.pop("step"), future.__dict__.pop("wakeup"), task, wait(), coroutine


def _as_running(event_loop: _Loop) -> None:
    """Runs the step in the running loop of the thread, and while no task runs: from 3.14 on it must be so."""
    native: Any = _asyncio
    running = native._get_running_loop()
    outer = None if running is None else native._swap_current_task(running, None)
    native._set_running_loop(event_loop)
    try:
        event_loop.step()
    finally:
        native._set_running_loop(running)
        if outer is not None:
            native._swap_current_task(running, outer)


class _Loop:
    """The part of an event loop that a task needs."""

    step: Callable[[], None]

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[[], None], *arguments: object, context: object = None) -> None:
        self.step = callback

    def call_exception_handler(self, context: object) -> None:
        pass


class _Future:
    """The part of a future that a task needs."""

    _asyncio_future_blocking = True

    wakeup: Callable[[Any], None]

    def __init__(self, event_loop: _Loop) -> None:
        self._loop = event_loop

    def get_loop(self) -> _Loop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], None], *, context: object = None) -> None:
        self.wakeup = callback

    def __await__(self) -> Generator[_Future, None, None]:
        yield self
