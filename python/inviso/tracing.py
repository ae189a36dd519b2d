"""A trace session with its tracer, patterns and limits: begun and ended as one object, which knows why it ended.

>>> from inviso import tracing
>>> import json
>>> seen = []
>>> calls = {"processes": {inviso.self(): ["call", "arity"]}, "patterns": [("json", "loads", "_")]}
>>> with tracing.begin("calls", seen.append, limit=2, **calls) as traced:
...     _ = [json.loads("1") for _ in range(5)]
>>> len(seen), traced.ended.reason, traced.ended.text
(2, 'limit', 'the limit of 2 messages was reached')

:mod:`inviso.dbg` and ``inviso trace`` are built on it.
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
from ._native import Pid
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
"""Seconds that the end waits for a tracer, and for a reader to take the last lines."""

_TEXTS: Final = {"asked": "it was asked to end", "program": "the program ended"}


@dataclass(frozen=True, slots=True)
class Ended:
    """Why tracing ended.

    >>> with begin("short") as traced:
    ...     traced.ended
    >>> traced.ended
    Ended(reason='asked', text='it was asked to end', by_itself=False)
    """

    reason: str
    """``"limit"``, ``"rate"`` or ``"lost"``: that limit was reached. ``"reader"``: nobody reads the output any more.
    ``"output"``: it can't be written. ``"handler"``: the tracer function raised. ``"tracer"``: the tracer died.
    ``"session"``: somebody else destroyed the session. Else what :meth:`Tracing.end` was given: ``"asked"``,
    ``"program"``.
    """
    text: str
    """The same in words."""
    by_itself: bool = True
    """Whether nobody asked for the end by :meth:`Tracing.end`."""


class Gone(Exception):
    """A tracer function raises it to end tracing: nobody reads what it writes.

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
    """What the system said when a line could not be written. A reader that has gone is no failure."""
    path: str | None
    """The name of the file, if it is one."""

    def write(self, line: str, *, last: bool = False) -> int:
        """Takes a line without its end. Returns how many lines it lost, 0 or 1. With ``last`` it takes the line even
        without room for it. Raises :class:`Gone` if nobody reads it any more.
        """

    def finish(self, timeout: float) -> int:
        """Writes what waits, and closes. Returns how many lines were lost."""


class Tracing:
    """What :func:`begin` returns. Any thread may use it.

    A limit that is reached, a tracer function that raises and a reader that has gone end the session at once, with all
    that it has set. A dead tracer leaves an idle session. :meth:`end` is needed after each of these, too: it closes
    the port or the output.

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
        """The trace session: more flags and patterns are set by it."""
        self.tracer: Final = tracer
        """Where the messages go: a Pid, a trace port, ``(module, state)``, or None for the session itself. Of a tracer
        function the Pid of the process that calls it."""
        self._handler = handler
        self._output = output
        self._notice = notice
        self._ends: list[Ended] = [] if handler is None else handler.ends
        """The first one counts."""
        self._ending = allocate_lock()
        """Taken for ever by the first call of ``end``. Nobody waits for it, so a fork may copy it in any state."""

    @property
    def ended(self) -> Ended | None:
        """Why tracing ended; None as long as it goes on, and while :meth:`end` hands over the last messages."""
        if not self._ends:
            found = self._found()
            if found is not None and not self._ending.locked():
                self._ends.append(found)
        return self._ends[0] if self._ends else None

    def _found(self) -> Ended | None:
        """The end that nobody has noted yet."""
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
        """A port ends by itself without Python."""
        found = self.tracer._native.ended() if isinstance(self.tracer, TracePort) else None
        return None if found is None else Ended(found[0], why(*found))

    @property
    def is_limited(self) -> bool:
        """Whether it has a limit or a rate, and so ends by itself however long the program goes on.

        >>> with begin("short", print, limit=10) as traced:
        ...     traced.is_limited
        True
        """
        if self._handler is not None:
            return self._handler.guard.is_limited
        return isinstance(self.tracer, TracePort) and self.tracer.is_limited

    def limit(self, limit: int | None = None, *, rate: Rate | None = None) -> None:
        """Changes the limits of :func:`begin`; None leaves one as it is. A limit counts from here on.

        Raises:
            BadArg: no such number; or the tracer is one that nothing counts for.

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
        """Counts a message and calls the tracer function with it. For tracing that was begun with ``drained``; one
        thread at a time calls it. After the end by a limit it does nothing.

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
        """Waits until the tracer has handled what was sent before; False if it took longer than ``timeout`` seconds.

        >>> with begin("short", print) as traced:
        ...     traced.settle(5)
        True
        """
        return settle(self.session, timeout)

    def end(self, reason: str = "asked") -> bool:
        """Ends tracing, if it has not ended by itself: what was sent before is handled, then the session, its flags,
        patterns and tracer are gone. Closes the trace port or the output.

        Returns:
            Whether this was the first call; another one doesn't wait for it.

        >>> traced = begin("short")
        >>> traced.end("program"), traced.ended.text
        (True, 'the program ended')
        """
        before = self.ended  # what destroying the session would hide
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
    """Begins tracing. If anything is wrong, an error is raised and the session is gone again.

    Args:
        name: the session's, and the one in notices.
        tracer: as for :func:`inviso.trace.session_create`. A function ends tracing when it raises.
        opts: as for :func:`inviso.trace.session_create`.
        processes: trace flags of processes, ``{"all": ["call"]}``.
        patterns: functions, each ``(module, name, arity)`` with ``"_"`` for any. All their calls are traced (the flag
            ``local``), also of those that are loaded later.
        match_spec: of all patterns.
        limit: ends tracing after so many messages.
        rate: ends it when there are more messages than that: in a second, or as ``(messages, milliseconds)``.
        lost: ends it when more than so many messages were lost: :data:`LOST` if not given, of a trace port any number.
        drained: the caller drains the session and passes each message to :meth:`Tracing.handle`. Without it a thread of
            the session calls the tracer function.
        output: takes lines. Then the tracer function returns the line of a message, or None for no line.
        notice: is called with a line such as ``"*** calls stopped: the limit of 2 messages was reached."`` when tracing
            ends by itself, in the thread that finds it out. The second argument says whether the line is about an
            output or a trace port that can't be written.

    Raises:
        BadArg: a wrong argument; or a limit where nothing counts messages (a Pid, a tracer module, no tracer).
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
            raise BadArg(where, argument, f"{shown(tracer)} is no tracer function; pass one, or leave out {argument}")
        if not isinstance(tracer, TracePort):
            _refuse_limits(where, tracer, limit, rate, lost)
    handler = None
    if is_function:
        handler = _Handler(name, tracer, output, Guard(limit, rate, LOST if lost is None else lost), notice)
    given = None if drained else handler or tracer
    # in no context: a thread that inherits one keeps what is in it, and this session may be
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
    """The tracer function's caller: counts each message, and ends the session when the guard says so, when the reader
    has gone, or when the function raises. It holds the session weakly, which holds it.
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
        except BaseException as error:  # SystemExit too: it is the function's
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # the user's, where the program's own thread has the last messages handled
            self._end(Ended("handler", f"its handler raised {type(error).__name__}"), error)
            return
        if isinstance(message, tuple) and len(message) == 2 and message[0] == "drop":
            reached = self.guard.lost(message[1] + lost)
        else:
            reached = self.guard.lost(lost) if lost else self.guard.saw()
        if reached is not None:
            self._end(Ended(*reached), None)

    def _hand_over(self, message: Any) -> int:
        """Returns how many messages were lost."""
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
