"""The tracer process: counts, hands over each message, and ends tracing when it is enough."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from inviso import trace
from inviso._limits import Guard

from ._lines import Paint, line, plain
from ._output import Gone, Output

__all__ = ["Printer", "Tracer"]


class Tracer:
    """What a session calls with each message. It ends the session itself when the guard says so, when its reader has
    gone, or when the handler raises.
    """

    def __init__(self, handle: Callable[[Any], int | None], guard: Guard, tell: Callable[[str], object]) -> None:
        self._handle = handle
        """Answers how many messages it lost."""
        self._guard = guard
        self._tell = tell
        self._session: weakref.ref[trace.Session] | None = None
        self.ended: str | None = None
        """Why tracing has ended by itself."""

    @property
    def guard(self) -> Guard:
        return self._guard

    def of(self, session: trace.Session) -> None:
        """Whose tracer it is."""
        self._session = weakref.ref(session)

    def __call__(self, message: Any) -> None:
        if self.ended is not None:
            return
        try:
            lost = self._handle(message) or 0
        except Gone:
            self._end("its reader has gone", None)
            return
        except BaseException as error:  # SystemExit too: it is the handler's
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # the user's, where the program's own thread has the last messages handled
            self._end(f"its handler raised {type(error).__name__}", error)
            return
        if isinstance(message, tuple) and len(message) == 2 and message[0] == "drop":
            why = self._guard.lost(message[1] + lost)
        else:
            why = self._guard.lost(lost) if lost else self._guard.saw()
        if why is not None:
            self._end(why, None)

    def _end(self, why: str, error: BaseException | None) -> None:
        self.ended = why
        try:
            with contextlib.suppress(Exception):  # where the lines went nobody may be left to be told
                self._tell(why)
            if error is not None:
                with contextlib.suppress(Exception):
                    traceback.print_exception(error, file=sys.stderr)
        finally:
            session = None if self._session is None else self._session()
            if session is not None:
                session.destroy()


class Printer:
    """A handler that prints lines."""

    __slots__ = ("_make", "_paint", "output")

    def __init__(self, output: Output, paint: Paint = plain, make: Callable[[Any, Paint], str | None] = line) -> None:
        self.output = output
        self._paint = paint
        self._make = make

    def __call__(self, message: Any) -> int:
        text = self._make(message, self._paint)
        return 0 if text is None else self.output.write(text)
