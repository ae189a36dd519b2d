"""One step of a task, to find what asyncio runs tasks by."""

from __future__ import annotations

import _asyncio
import contextvars
import sys
from collections.abc import Callable, Generator
from typing import Any


def find() -> tuple[Any, Any, Any, Any, Any]:
    """What an event loop is given to run a task's first step, what a future is given to go on with it, the task, a
    coroutine that has not begun (to be closed), and one that has ended.

    The task belongs to no event loop of the program, nothing but this function has seen it, and it goes with what is
    returned: nothing of it is left to the collector of garbage.
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
    """From 3.14 on a step is of the thread's running loop only, and while no task runs."""
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
    """As much of an event loop as a task asks of one."""

    step: Callable[[], None]

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[[], None], *arguments: object, context: object = None) -> None:
        self.step = callback

    def call_exception_handler(self, context: object) -> None:
        pass


class _Future:
    """As much of a future as a task asks of one."""

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
