"""What one dbg has: its session and tracer, its saved specifications, its trace clients."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any

import inviso
from inviso import Pid, node, trace
from inviso._limits import LOST, Guard, Rate, failure
from inviso._stream import put
from inviso._system import RLock
from inviso.errors import BadArg, shown
from inviso.tracer import NativeTracer

from ._cells import Cells
from ._items import CALLS, GROUPS, item_of
from ._output import Gone, Output, Stream, of_file, of_stream
from ._saved import Saved, reason
from ._tracer import Printer, Tracer

__all__ = ["EVERYTHING", "Server"]

EVERYTHING = "_", "_", "_"
_PATIENCE = 2.0
"""Seconds that the end waits for a reader to take the last lines."""


class Server:
    """One dbg. Its session exists from :meth:`start` on, until :meth:`stop`, or until its tracer ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved = Saved()
        self.clients: list[Any] = []
        self.destroyed = False
        self._lock = RLock()
        self._session: trace.Session | None = None
        self._what: Any = None
        self._tracer: Tracer | None = None
        self._output: Output | None = None
        self._path: str | None = None
        """Of its file."""
        self._cells: Cells | None = None
        self._calls: set[str] = set()
        """The groups of processes whose calls are traced: ``"existing"``, ``"new"``."""
        self._wild: set[str] = set()
        """Which patterns take every function: ``"global"``, ``"local"``."""

    @property
    def session(self) -> trace.Session | None:
        """The trace session, if there is a tracer: a port may have been closed, a process told to end, a library
        unloaded."""
        session, what = self._session, self._what
        if session is None or not session.is_alive():
            return None
        match what:
            case (NativeTracer(name=name), _):
                lives = name is not None
            case (_, _):
                lives = True
            case Pid():
                lives = what.is_alive()
            case _:
                lives = what.is_open()
        return session if lives else None

    def tracer(self) -> Any:
        """Where the messages go, or None: a Pid, a trace port, ``(module, state)``. An output that failed is left."""
        with self._lock:
            if self._output is not None and self._output.failed is not None:
                self._leave()
        return None if self.session is None else self._what

    def start(self, kind: str, data: Any, limit: int | None, rate: Rate | None, lost: int | None) -> tuple[str, Any]:
        """Starts a tracer, checked before."""
        with self._lock:
            if self.tracer() is not None:
                return ("error", "already_started")
            self._leave()
            match kind:
                case "process":
                    handler, state = data
                    return self._start_process(handler, state, _guard(limit, rate, lost))
                case "file":
                    try:
                        output = of_file(data)
                    except OSError as error:
                        return ("error", reason(error))
                    self._path = os.fsdecode(data)
                    return self._start_printing(output, _guard(limit, rate, lost))
                case "port":
                    return self._start_port(data, limit, rate, lost)
            return self._start_module(data() if callable(data) and not isinstance(data, tuple) else data)

    def start_default(self, limit: int | None, rate: Rate | None, lost: int | None) -> tuple[str, Any]:
        """Starts the tracer that prints to standard output, as it is now."""
        with self._lock:
            if self.tracer() is not None:
                return ("error", "already_started")
            self._leave()
            output = of_stream(sys.stdout)
            if isinstance(output, Stream):
                self._cells = Cells.here(_weakly(self.settle))
                if self._cells is not None:
                    output = Stream(sys.stdout, self._cells.through)
            return self._start_printing(output, _guard(limit, rate, lost))

    def _start_printing(self, output: Output, guard: Guard) -> tuple[str, Any]:
        self._output = output
        self._run(Tracer(Printer(output), guard, _teller(self.name, output)))
        return ("ok", self._what)

    def _start_process(self, handler: Callable[[Any, Any], Any], state: Any, guard: Guard) -> tuple[str, Any]:
        def handle(message: Any) -> None:
            nonlocal state
            state = handler(message, state)

        self._run(Tracer(handle, guard, _teller(self.name, Stream(sys.stdout))))
        return ("ok", self._what)

    def _run(self, tracer: Tracer) -> None:
        # in no context: a thread that inherits one keeps what is in it, and this session may be
        session = Context().run(trace.session_create, self.name, tracer)
        tracer.of(session)
        self._tracer = tracer
        self._session = session
        self._what = session._native.tracer

    def _start_port(self, data: Any, limit: int | None, rate: Rate | None, lost: int | None) -> tuple[str, Any]:
        try:
            port = data() if callable(data) else data
        except OSError as error:
            return ("error", reason(error))
        if not isinstance(port, optional("trace_ports").TracePort):
            raise BadArg("tracer/2", "data", f"{shown(port)} is no trace port; pass what dbg.trace_port() returned")
        port.limit(limit, rate=rate, lost=lost)
        self._session = trace.session_create(self.name, port)
        self._what = port
        return ("ok", port)

    def _start_module(self, module: Any) -> tuple[str, Any]:
        if not (isinstance(module, tuple) and len(module) == 2):
            raise BadArg("tracer/2", "data", f"{shown(module)} is no tracer module; pass (module, state)")
        made: Any = module
        try:
            self._session = trace.session_create(self.name, made)
        except BadArg as error:
            raise BadArg("tracer/2", "data", error.why) from None
        self._what = module
        return ("ok", module)

    def may_limit(self, where: str, limit: int | None, rate: Rate | None) -> None:
        """Refuses limits where there is no tracer that has some."""
        if limit is None and rate is None:
            return
        if self.session is None:
            raise BadArg(where, "limit" if rate is None else "rate", "there is no tracer; call dbg.tracer() before")
        if isinstance(self._what, tuple):
            why = "a tracer module counts nothing; start a tracer of another kind"
            raise BadArg(where, "limit" if rate is None else "rate", why)

    def _limit(self, limit: int | None, rate: Rate | None) -> None:
        """Changes the limits of the tracer that runs: when nothing can be refused any more, and before more is traced."""
        if limit is None and rate is None:
            return
        if self._tracer is not None:
            self._tracer.guard.change(limit, rate)
        elif not isinstance(self._what, tuple):
            self._what.limit(limit, rate=rate)

    # who and which functions

    def process(
        self, where: str, item: Any, flags: list[str] | None, limit: int | None = None, rate: Rate | None = None
    ) -> tuple[str, Any]:
        """As ``p``, with the trace module's flags; None clears all. The limits are ones that it may have, as below."""
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
        """As ``tp`` with a specification that has been looked at; what matched, nothing without a tracer."""
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

    def _refuse_everything(
        self, where: str, argument: str, what: str, limit: int | None, rate: Rate | None
    ) -> None:
        if limit is None and rate is None and not self._is_limited():
            why = f"{what} traces everything; say how much of it with limit= or rate=, as in dbg.tracer(limit=1000)"
            raise BadArg(where, argument, why)

    def _is_limited(self) -> bool:
        """Whether it ends by itself, or has another bound; a tracer module's is its own."""
        if self._tracer is not None:
            return self._tracer.guard.is_limited
        return isinstance(self._what, tuple) or self._what.kind != "file" or self._what.is_limited

    # the end

    def client(self, client: Any) -> Any:
        """A trace client that ends when this one does."""
        with self._lock:
            self.clients = [*(other for other in self.clients if other.is_alive()), client]
        return client

    def settle(self, timeout: float) -> bool:
        """Waits until the tracer has handled what was sent before."""
        session = self.session
        return session is None or trace._settle(session, timeout)

    def stop(self) -> None:
        """Ends tracing; what was sent before is handled first."""
        with self._lock:
            session, port = self._session, self._what
            clients, self.clients = self.clients, []
            output, cells, path = self._take()
            self.saved.clear()
        # outside the lock: a handler may call dbg
        if session is not None:
            if hasattr(port, "flush"):
                trace._settle(session, _PATIENCE)
                port.flush()
            session.destroy()
            if hasattr(port, "close"):
                port.close()
        self._end(output, cells, path)
        self._tell_of(port)
        for client in clients:
            if client.is_alive():
                optional("log").stop_trace_client(client)

    def _leave(self) -> None:
        """What an ended session has left, or one without a tracer."""
        session, port = self._session, self._what
        left = self._take()
        if session is not None:
            session.destroy()
        self._end(*left)
        self._tell_of(port)

    def _tell_of(self, port: Any) -> None:
        """Says why a trace port ended by itself; its thread knows no Python and could not."""
        ended = getattr(port, "ended", None)
        if ended is not None:
            with contextlib.suppress(Gone):
                _teller(self.name, Stream(sys.stdout))(ended)
        error = getattr(port, "error", None)
        if error is not None and port.dropped:
            self._warn(failure(port.path, error, port.dropped))

    def _end(self, output: Output | None, cells: Cells | None, path: str | None) -> None:
        if cells is not None:
            cells.close()
        if output is not None:
            lost = output.finish(_PATIENCE)
            if output.failed is not None:
                self._warn(f"stopped: {failure(path, output.failed, lost)}")

    def _warn(self, what: str) -> None:
        """On standard error, as the output itself may be what fails."""
        with contextlib.suppress(Exception):
            put(sys.stderr, f"*** {self.name}{'' if what.startswith('stopped') else ':'} {what}.\n")

    def _take(self) -> tuple[Output | None, Cells | None, str | None]:
        self._session = self._what = self._tracer = None
        self._calls.clear()
        self._wild.clear()
        output, self._output = self._output, None
        cells, self._cells = self._cells, None
        path, self._path = self._path, None
        return output, cells, path


def _guard(limit: int | None, rate: Rate | None, lost: int | None) -> Guard:
    return Guard(limit, rate, LOST if lost is None else lost)


def optional(name: str) -> Any:
    """A module of this package that is needed for one thing only."""
    return getattr(inviso, name)


def _teller(name: str, output: Output) -> Callable[[str], object]:
    """What says why tracing ended. It doesn't hold the server, which ends with its last holder."""
    return lambda why: output.write(f"*** {name} stopped: {why}.", last=True)


def _weakly(method: Callable[[float], object]) -> Callable[[float], object]:
    """The method, without keeping its object."""
    found = weakref.WeakMethod(method)

    def call(timeout: float) -> object:
        method = found()
        return None if method is None else method(timeout)

    return call
