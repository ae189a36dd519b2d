"""A trace session with its tracer, patterns and limits as one object, which knows why it ended.

>>> from inviso import tracing
>>> import json
>>> seen = []
>>> calls = {"processes": {inviso.self(): ["call", "arity"]}, "patterns": [("json", "loads", "_")]}
>>> with tracing.begin("calls", seen.append, limit=2, **calls) as traced:
...     _ = [json.loads("1") for _ in range(5)]
>>> len(seen), traced.ended.reason, traced.ended.text
(2, 'limit', 'the limit of 2 messages was reached')

:mod:`inviso.dbg` and ``inviso trace`` use it.
"""

from __future__ import annotations

import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from . import trace
from ._limits import LOST, Guard, Rate, checked, failure, why
from ._native.process import Pid
from ._system import allocate_lock
from .errors import BadArg, shown
from .trace._delivery import settle
from .trace._patterns import on_load
from .trace_ports import PortGenerator, TracePort
from .tracer import NativeTracer

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["LOST", "Ended", "Gone", "Output", "Tracing", "begin"]

Notice: TypeAlias = Callable[[str, bool], object]

_PATIENCE: Final = 2.0
"""Seconds to wait at the end for a tracer, and for a reader to take the last lines."""

_TEXTS: Final = {"asked": "it was asked to end", "program": "the program ended"}


@dataclass(frozen=True, slots=True)
class Ended:
    """The reason for the end of tracing.

    >>> with begin("short") as traced:
    ...     traced.ended
    >>> traced.ended
    Ended(reason='asked', text='it was asked to end', by_itself=False)
    """

    reason: str
    """``"limit"``, ``"rate"`` or ``"lost"``: that limit was reached. ``"reader"``: the output's reader has gone.
    ``"output"``: the output can't be written. ``"handler"``: the tracer function raised. ``"tracer"``: the tracer died.
    ``"session"``: other code destroyed the session. Otherwise the argument of :meth:`Tracing.end`: ``"asked"``,
    ``"program"``.
    """
    text: str
    """The reason as text."""
    by_itself: bool = True
    """False if :meth:`Tracing.end` ended it."""


class Gone(Exception):
    """A tracer function raises it to end tracing, because the reader of its output has gone.

    >>> def write(message):
    ...     raise Gone
    >>> with begin("unread", write, processes={inviso.self(): ["call"]}, patterns=[("json", "loads", "_")]) as traced:
    ...     _ = json.loads("1")
    >>> traced.ended.text
    'its reader has gone'
    """


class Output(Protocol):
    """Takes lines.

    >>> class Lines(list):
    ...     failed = path = None
    ...     def write(self, line, *, last=False):
    ...         self.append(line)
    ...         return 0
    ...     def finish(self, timeout):
    ...         return 0
    >>> lines = Lines()
    >>> calls = {"processes": {inviso.self(): ["call", "arity"]}, "patterns": [("json", "loads", "_")]}
    >>> with begin("lines", lambda message: message[3][1], output=lines, **calls):
    ...     _ = json.loads("1")
    >>> lines
    ['loads']
    """

    failed: str | None
    """The system's message when a line could not be written. A reader that has gone is not a failure."""
    path: str | None
    """The name of the file, if it is one."""

    def write(self, line: str, *, last: bool = False) -> int:
        """Takes a line without a line feed. Returns the number of lost lines, 0 or 1. With ``last`` it takes the line
        even if there is no room. Raises :class:`Gone` if the reader has gone.
        """

    def finish(self, timeout: float) -> int:
        """Writes the lines that wait, for at most ``timeout`` seconds, and closes. Returns the number of lost lines."""


class Tracing:
    """The result of :func:`begin`. Any thread may use it.

    A limit that is reached, a tracer function that raises, or a reader that has gone ends the session at once, with all
    that it has set. A dead tracer leaves an idle session. Call :meth:`end` after each of these, too: it closes the port
    or the output.

    >>> traced = begin("mine")
    >>> traced
    <tracing 'mine'>
    >>> traced.end(), traced.end()
    (True, False)
    >>> traced
    <tracing 'mine', ended: it was asked to end>
    """

    __slots__ = ("__weakref__", "_ending", "_ends", "_handler", "_notice", "_output", "name", "session", "tracer")

    def __init__(
        self,
        name: str,
        session: trace.Session,
        tracer: Any,
        handler: _Handler | None,
        output: Output | None,
        notice: Notice,
    ) -> None:
        self.name = name
        self.session: Final = session
        """The trace session; use it to set more flags and patterns."""
        self.tracer: Final = tracer
        """The tracer: a Pid, a trace port, ``(module, state)``, or None for the session itself. For a tracer function
        the Pid of the process that calls it.
        """
        self._handler = handler
        self._output = output
        self._notice = notice
        self._ends: list[Ended] = [] if handler is None else handler.ends
        """Only the first one is used."""
        self._ending = allocate_lock()
        """The first call of ``end`` acquires it for ever. No thread waits for it, so a fork may copy it in any state.
        """

    @property
    def ended(self) -> Ended | None:
        """The reason for the end; None while tracing goes on, and while :meth:`end` delivers the last messages."""
        if not self._ends:
            found = self._found()
            if found is not None and not self._ending.locked():
                self._ends.append(found)
        return self._ends[0] if self._ends else None

    def _found(self) -> Ended | None:
        """An end that is not in ``_ends`` yet."""
        tracer, output = self.tracer, self._output
        if (found := self._port_ended()) is not None:
            return found
        if output is not None and output.failed is not None:
            return Ended("output", failure(output.path, output.failed, 0))
        if not self.session.is_alive():
            return Ended("session", "its session was destroyed")
        match tracer:
            case (NativeTracer(name=name), _):
                lives = name is not None
            case Pid():
                lives = tracer.is_alive()
            case TracePort():
                lives = tracer.is_open()
            case _:
                lives = True
        return None if lives else Ended("tracer", "its tracer has gone")

    def _port_ended(self) -> Ended | None:
        """The reason if the trace port has ended by itself, which happens without Python."""
        found = self.tracer._native.ended() if isinstance(self.tracer, TracePort) else None
        return None if found is None else Ended(found[0], why(*found))

    @property
    def is_limited(self) -> bool:
        """Whether a limit or a rate is set, so that tracing ends by itself.

        >>> with begin("short", print, limit=10) as traced:
        ...     traced.is_limited
        True
        """
        if self._handler is not None:
            return self._handler.guard.is_limited
        return isinstance(self.tracer, TracePort) and self.tracer.is_limited

    def limit(self, limit: int | None = None, *, rate: Rate | None = None) -> None:
        """Changes the limits of :func:`begin`; None leaves one as it is. A limit counts messages from this call on.

        Raises:
            BadArg: a limit that is not such a number; or a tracer whose messages nothing counts.

        >>> with begin("short", print) as traced:
        ...     traced.limit(10)
        ...     traced.is_limited
        True
        """
        where = "Tracing.limit"
        checked(where, limit, rate)
        if self._handler is not None:
            self._handler.guard.change(limit, rate)
        elif isinstance(self.tracer, TracePort):
            self.tracer.limit(limit, rate=rate)
        else:
            _refuse_limits(where, self.tracer, limit, rate, None)

    def handle(self, message: Any) -> None:
        """Counts a message and calls the tracer function with it. For tracing that was begun with ``drained``. Only one
        thread at a time may call it. After the end by a limit it does nothing.

        >>> seen = []
        >>> traced = begin("drained", seen.append, drained=True, processes={inviso.self(): ["call", "arity"]},
        ...     patterns=[("json", "loads", "_")])
        >>> _ = json.loads("1")
        >>> for message in traced.session.drain():
        ...     traced.handle(message)
        >>> len(seen), traced.end()
        (1, True)
        """
        if self._handler is not None:
            self._handler(message)

    def settle(self, timeout: float) -> bool:
        """Waits until the tracer has handled all earlier messages; False if that took longer than ``timeout`` seconds.

        >>> with begin("short", print) as traced:
        ...     traced.settle(5)
        True
        """
        return settle(self.session, timeout)

    def end(self, reason: str = "asked") -> bool:
        """Ends tracing, if it has not ended by itself: the tracer handles all earlier messages, then the session, its
        flags, patterns and tracer are removed. Closes the trace port or the output.

        Returns:
            Whether this was the first call. A second call doesn't wait for the first.

        >>> traced = begin("short")
        >>> traced.end("program"), traced.ended.text
        (True, 'the program ended')
        """
        before = self.ended  # destroying the session would hide it
        if not self._ending.acquire(blocking=False):
            return False
        port = self.tracer if isinstance(self.tracer, TracePort) else None
        try:
            if port is not None:
                self.settle(_PATIENCE)
                port.flush()
            self.session.destroy()
            if port is not None:
                port.close()
        finally:
            asked = Ended(reason, _TEXTS.get(reason, reason), by_itself=False)
            self._ends.append(before or self._port_ended() or asked)
        if self._output is not None:
            lost = self._output.finish(_PATIENCE)
            if self._output.failed is not None:
                self._say(f" stopped: {failure(self._output.path, self._output.failed, lost)}", True)
        if port is not None:
            if port.ended is not None:
                self._say(f" stopped: {port.ended}", False)
            if port.error is not None and port.dropped:
                self._say(f": {failure(port.path, port.error, port.dropped)}", True)
        return True

    def _say(self, what: str, is_failure: bool) -> None:
        with suppress(Exception):
            self._notice(f"*** {self.name}{what}.", is_failure)

    def __enter__(self) -> Tracing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def __repr__(self) -> str:
        ended = self.ended
        return f"<tracing {self.name!r}{'' if ended is None else f', ended: {ended.text}'}>"


def begin(
    name: str,
    tracer: Any = None,
    opts: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    *,
    processes: Mapping[Any, Iterable[str]] | None = None,
    patterns: Iterable[trace.Mfa] = (),
    match_spec: trace.Spec = True,
    limit: int | None = None,
    rate: Rate | None = None,
    lost: int | None = None,
    drained: bool = False,
    output: Output | None = None,
    notice: Notice = lambda line, is_failure: None,
) -> Tracing:
    """Begins tracing. At an error, the session is removed again.

    Args:
        name: the name of the session, which also stands in notices.
        tracer: as for :func:`inviso.trace.session_create`. A function ends tracing when it raises.
        opts: as for :func:`inviso.trace.session_create`.
        processes: trace flags of processes, such as ``{"all": ["call"]}``.
        patterns: functions, each ``(module, name, number of parameters)`` with ``"_"`` for any. All their calls are
            traced (the flag ``local``), also those of functions that are loaded later.
        match_spec: the match specification of all patterns.
        limit: ends tracing after so many messages.
        rate: ends it at more messages than this in a second; ``(messages, milliseconds)`` for another span.
        lost: ends it when more messages than this were lost. The default is :data:`LOST`, and no end for a trace port.
        drained: True if the caller drains the session and passes each message to :meth:`Tracing.handle`. Otherwise a
            thread of the session calls the tracer function.
        output: takes lines. The tracer function then returns the line of a message, or None for no line.
        notice: called when tracing ends by itself, with a line such as
            ``"*** calls stopped: the limit of 2 messages was reached."``, in the thread that notices the end. The
            second argument is True if the line is about an output or a trace port that can't be written.

    Raises:
        BadArg: a wrong argument; or a limit for a tracer whose messages nothing counts (a Pid, a tracer module, None).
        SystemLimit: too many sessions.

    >>> said = []
    >>> traced = begin("calls", print, limit=1, processes={inviso.self(): ["call", "arity"]},
    ...     patterns=[("json", "loads", "_")], notice=lambda line, is_failure: said.append(line))
    >>> _ = json.loads("1")
    >>> _ = traced.end()
    ('trace', <0...>, 'call', ('json', 'loads', 8))
    >>> said
    ['*** calls stopped: the limit of 1 message was reached.']
    """
    where = "tracing.begin"
    checked(where, limit, rate, lost)
    is_function = callable(tracer) and not isinstance(tracer, (tuple, PortGenerator))
    if not is_function:
        if drained or output is not None:
            argument = "drained" if drained else "output"
            raise BadArg(
                where, argument, f"{shown(tracer)} is not a tracer function; pass one, or leave out {argument}"
            )
        if not isinstance(tracer, TracePort):
            _refuse_limits(where, tracer, limit, rate, lost)
    handler = None
    if is_function:
        handler = _Handler(name, tracer, output, Guard(limit, rate, LOST if lost is None else lost), notice)
    given = None if drained else handler or tracer
    # in an empty context: a thread keeps its context's values alive, and this session may be one of them
    session = Context().run(trace.session_create, name, given, opts)
    try:
        if handler is not None:
            handler.session = weakref.ref(session)
        if isinstance(tracer, TracePort):
            tracer.limit(limit, rate=rate, lost=lost)
        for who, flags in (processes or {}).items():
            session.process(who, True, flags)
        patterns = list(patterns)
        for pattern in patterns:
            session.function(pattern, match_spec, ["local"])
        if patterns:
            on_load(session, "local", patterns, match_spec)
    except BaseException:
        session.destroy()
        raise
    pid = session._native.tracer
    return Tracing(name, session, None if drained else tracer if pid is None else pid, handler, output, notice)


def _refuse_limits(where: str, tracer: Any, limit: int | None, rate: Rate | None, lost: int | None) -> None:
    for argument, value in (("limit", limit), ("rate", rate), ("lost", lost)):
        if value is not None:
            why = f"nothing counts the messages of {shown(tracer)}; pass a tracer function or a trace port, or no limit"
            raise BadArg(where, argument, why)


class _Handler:
    """Calls the tracer function and counts each message. Ends the session at a limit of the guard, when the reader has
    gone, or when the function raises. Its reference to the session is weak, because the session refers to it.
    """

    def __init__(
        self, name: str, function: Callable[[Any], Any], output: Output | None, guard: Guard, notice: Notice
    ) -> None:
        self._name = name
        self._function = function
        self._output = output
        self._notice = notice
        self._is_over = False
        self.guard = guard
        self.session: weakref.ref[trace.Session] | None = None
        self.ends: list[Ended] = []

    def __call__(self, message: Any) -> None:
        if self._is_over:
            return
        try:
            lost = self._hand_over(message)
        except Gone:
            failed = None if self._output is None else self._output.failed
            if self._output is None or failed is None:
                self._end(Ended("reader", "its reader has gone"), None)
            else:
                self._end(Ended("output", failure(self._output.path, failed, 0)), None)
            return
        except BaseException as error:  # also a SystemExit of the function
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C of the user, while the main thread handles the last messages
            self._end(Ended("handler", f"its handler raised {type(error).__name__}"), error)
            return
        if isinstance(message, tuple) and len(message) == 2 and message[0] == "drop":
            reached = self.guard.lost(message[1] + lost)
        else:
            reached = self.guard.lost(lost) if lost else self.guard.saw()
        if reached is not None:
            self._end(Ended(*reached), None)

    def _hand_over(self, message: Any) -> int:
        """Calls the function and writes its line. Returns the number of lost messages."""
        made = self._function(message)
        return 0 if made is None or self._output is None else self._output.write(made)

    def _end(self, ended: Ended, error: BaseException | None) -> None:
        self._is_over = True
        try:
            with suppress(Exception):  # the output of the notice may have failed, too
                self._notice(f"*** {self._name} stopped: {ended.text}.", False)
            if error is not None:
                with suppress(Exception):
                    traceback.print_exception(error, file=sys.stderr)
        finally:
            self.ends.append(ended)
            session = None if self.session is None else self.session()
            if session is not None:
                session.destroy()
