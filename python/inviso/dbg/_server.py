"""One dbg: its session and tracer, its saved specifications, its trace clients."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from inviso import Pid, node, trace, tracing
from inviso._limits import Rate
from inviso._stream import put
from inviso._system import RLock
from inviso.errors import BadArg, shown
from inviso.trace_ports import TracePort

from ._cells import Cells
from ._items import CALLS, GROUPS, item_of
from ._lines import line
from ._output import Stream, of_file, of_stream
from ._saved import Saved, reason

__all__ = ["EVERYTHING", "Server"]

EVERYTHING = "_", "_", "_"


class Server:
    """One dbg. Its session exists from :meth:`start` until :meth:`stop`, or until its tracer ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved = Saved()
        self.clients: list[Any] = []
        self.destroyed = False
        self._lock = RLock()
        self._tracing: tracing.Tracing | None = None
        self._cells: Cells | None = None
        self._calls: set[str] = set()
        """The groups of processes whose calls are traced: ``"existing"``, ``"new"``."""
        self._wild: set[str] = set()
        """The kinds of patterns that match every function: ``"global"``, ``"local"``."""

    @property
    def session(self) -> trace.Session | None:
        """The trace session; None after its end."""
        traced = self._tracing
        return None if traced is None or traced.ended is not None else traced.session

    def tracer(self) -> Any:
        """The tracer: a Pid, a trace port, ``(module, state)``, or None. Ends tracing whose output failed."""
        with self._lock:
            traced = self._tracing
            ended = None if traced is None else traced.ended
            if ended is not None and ended.reason == "output":
                self._leave()
        return None if traced is None or ended is not None else traced.tracer

    def start(self, kind: str, data: Any, limit: int | None, rate: Rate | None, lost: int | None) -> tuple[str, Any]:
        """Starts a tracer; its arguments are checked already."""
        with self._lock:
            if self.tracer() is not None:
                return ("error", "already_started")
            self._leave()
            if kind == "process":
                return self._begin(_handler(*data), None, limit, rate, lost)
            if kind == "module":
                return self._begin_module(data() if callable(data) and not isinstance(data, tuple) else data)
            try:
                if kind == "file":
                    return self._begin(line, of_file(data), limit, rate, lost)
                port = data() if callable(data) else data
            except OSError as error:
                return ("error", reason(error))
            if not isinstance(port, TracePort):
                raise BadArg(
                    "tracer/2", "data", f"{shown(port)} is not a trace port; pass what dbg.trace_port() returned"
                )
            return self._begin(port, None, limit, rate, lost)

    def start_default(self, limit: int | None, rate: Rate | None, lost: int | None) -> tuple[str, Any]:
        """Starts the tracer that prints to the present standard output."""
        with self._lock:
            if self.tracer() is not None:
                return ("error", "already_started")
            self._leave()
            output = of_stream(sys.stdout)
            if isinstance(output, Stream):
                self._cells = Cells.here(_weakly(self.settle))
                if self._cells is not None:
                    output = Stream(sys.stdout, self._cells.through)
            return self._begin(line, output, limit, rate, lost)

    def _begin(
        self, tracer: Any, output: tracing.Output | None, limit: int | None, rate: Rate | None, lost: int | None
    ) -> tuple[str, Any]:
        # the end of a trace port is found out later, on the standard output of that time
        notice = _notice(output or (None if isinstance(tracer, TracePort) else Stream(sys.stdout)))
        self._tracing = traced = tracing.begin(
            self.name, tracer, limit=limit, rate=rate, lost=lost, output=output, notice=notice
        )
        return ("ok", traced.tracer)

    def _begin_module(self, module: Any) -> tuple[str, Any]:
        if not (isinstance(module, tuple) and len(module) == 2):
            raise BadArg("tracer/2", "data", f"{shown(module)} is not a tracer module; pass (module, state)")
        try:
            return self._begin(module, None, None, None, None)
        except BadArg as error:
            raise BadArg("tracer/2", "data", error.why) from None

    def may_limit(self, where: str, limit: int | None, rate: Rate | None) -> None:
        """Refuses limits without a tracer, and for a tracer that can't have limits."""
        if limit is None and rate is None:
            return
        tracer = self.tracer()
        if tracer is None:
            raise BadArg(where, "limit" if rate is None else "rate", "there is no tracer; call dbg.tracer() before")
        if isinstance(tracer, tuple):
            why = "a tracer module counts nothing; start a tracer of another kind"
            raise BadArg(where, "limit" if rate is None else "rate", why)

    def _limit(self, limit: int | None, rate: Rate | None) -> None:
        """Changes the limits of the running tracer. Called after all checks, and before more is traced."""
        if self._tracing is not None and not (limit is None and rate is None):
            self._tracing.limit(limit, rate=rate)

    # processes and functions

    def process(
        self, where: str, item: Any, flags: list[str] | None, limit: int | None = None, rate: Rate | None = None
    ) -> tuple[str, Any]:
        """As ``p``, with the trace module's flags; None clears all. :meth:`may_limit` has checked the limits."""
        with self._lock:
            group = isinstance(item, str) and item in GROUPS
            who = None if group else item_of(item)
            session = self.session
            if session is None:
                named = isinstance(item, str) and not item.startswith("<")
                return ("error", "no_tracers" if named else ("no_tracer_on_node", node()))
            if group:
                return self._group(where, session, item, flags, limit, rate)
            if who is None or not who.is_alive():
                return ("ok", [("matched", node(), 0, ("no_proc", item if who is None else who))])
            how, names = flags is not None, ["all"] if flags is None else flags
            self._limit(limit, rate)
            try:
                number = session.process(who, how, names) if isinstance(who, Pid) else session.port(who, how, names)
            except BadArg as error:
                return ("ok", [("matched", node(), 0, ("badarg", str(error)))])
            return ("ok", [("matched", node(), number)])

    def _group(
        self,
        where: str,
        session: trace.Session,
        item: str,
        flags: list[str] | None,
        limit: int | None,
        rate: Rate | None,
    ) -> tuple[str, Any]:
        processes, ports = GROUPS[item]
        calls = {"existing", "new"} if processes == "all" else {processes} if processes else set()
        if flags is not None and CALLS in flags and calls and self._wild:
            what = f"{item!r} with calls, while a pattern takes every function,"
            self._refuse_everything(where, "item", what, limit, rate)
        self._limit(limit, rate)
        how, names = flags is not None, ["all"] if flags is None else flags
        number = session.process(processes, how, names) if processes else 0
        number += session.port(ports, how, names) if ports else 0
        if flags is None:
            self._calls -= calls
        elif CALLS in flags:
            self._calls |= calls
        return ("ok", [("matched", node(), number)])

    def function(
        self,
        where: str,
        target: Any,
        spec: list[Any],
        flag: str,
        limit: int | None = None,
        rate: Rate | None = None,
    ) -> list[Any]:
        """As ``tp`` with a checked specification. Returns the matches; an empty list without a tracer."""
        with self._lock:
            session = self.session
            if session is None:
                return []
            if target == EVERYTHING and self._calls:
                who = " and ".join(sorted(self._calls))
                what = f"every function, while {who} processes have the flag call,"
                self._refuse_everything(where, "module", what, limit, rate)
            self._limit(limit, rate)
            try:
                number = session.function(target, spec or True, [] if target in ("send", "receive") else [flag])
            except BadArg as error:
                return [("matched", node(), 0, ("badarg", str(BadArg(where, error.argument, error.why))))]
            if target == EVERYTHING:
                self._wild = {flag}
            return [("matched", node(), number)]

    def clear(self, target: Any, flags: Iterable[str]) -> list[Any]:
        """As ``ctp``."""
        with self._lock:
            session = self.session
            if session is None:
                return []
            number = 0
            for flag in flags:
                try:
                    number = session.function(target, target == "send" or target == "receive", [flag] if flag else [])
                except BadArg as error:
                    return [("matched", node(), 0, ("badarg", str(error)))]
                if target == EVERYTHING:
                    self._wild.discard(flag)
            return [("matched", node(), number)]

    def _refuse_everything(self, where: str, argument: str, what: str, limit: int | None, rate: Rate | None) -> None:
        if limit is None and rate is None and not self._is_limited():
            why = f"{what} traces everything; say how much of it with limit= or rate=, as in dbg.tracer(limit=1000)"
            raise BadArg(where, argument, why)

    def _is_limited(self) -> bool:
        """Whether the tracer ends by itself or has another bound. A tracer module has to bound itself."""
        traced = self._tracing
        if traced is None or isinstance(traced.tracer, tuple):
            return True
        return traced.is_limited or (isinstance(traced.tracer, TracePort) and traced.tracer.kind != "file")

    # the end

    def client(self, client: Any) -> Any:
        """Adds a trace client, which ends with this dbg."""
        with self._lock:
            self.clients = [*(other for other in self.clients if other.is_alive()), client]
        return client

    def settle(self, timeout: float) -> bool:
        """Waits until the tracer has handled all earlier messages."""
        traced = self._tracing
        return traced is None or traced.ended is not None or traced.settle(timeout)

    def stop(self, reason: str = "asked") -> None:
        """Ends tracing after all earlier messages are handled."""
        with self._lock:
            clients, self.clients = self.clients, []
            left = self._take()
            self.saved.clear()
        _end(*left, reason)  # outside the lock: a handler may call dbg
        for client in clients:
            if client.is_alive():
                from inviso import log

                log.stop_trace_client(client)

    def _leave(self) -> None:
        """Removes the rest of an ended session, or of one without a tracer."""
        _end(*self._take(), "asked")

    def _take(self) -> tuple[tracing.Tracing | None, Cells | None]:
        traced, self._tracing = self._tracing, None
        cells, self._cells = self._cells, None
        self._calls.clear()
        self._wild.clear()
        return traced, cells


def _end(traced: tracing.Tracing | None, cells: Cells | None, reason: str) -> None:
    if traced is not None:
        traced.end(reason)
    if cells is not None:
        cells.close()


def _handler(function: Callable[[Any, Any], Any], state: Any) -> Callable[[Any], None]:
    """A tracer function that keeps the state."""

    def handle(message: Any) -> None:
        nonlocal state
        state = function(message, state)

    return handle


def _notice(output: tracing.Output | None) -> Callable[[str, bool], object]:
    """A function that reports the end of tracing, in this output or on the standard output of that time. It has no
    reference to the server, which ends with its last reference.
    """

    def notice(text: str, is_failure: bool) -> None:
        if is_failure:  # the output itself may have failed
            put(sys.stderr, text + "\n")
        else:
            (output or Stream(sys.stdout)).write(text, last=True)

    return notice


def _weakly(method: Callable[[float], object]) -> Callable[[float], object]:
    """Calls a method without keeping its object alive."""
    found = weakref.WeakMethod(method)

    def call(timeout: float) -> object:
        method = found()
        return None if method is None else method(timeout)

    return call
