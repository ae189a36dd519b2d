"""The meta tracer of a runtime component: a trace session of its own, whose tracer function calls callbacks.

*Order.* Everything runs in the session's tracer thread, which has one queue for trace messages, requests and the
cleaner. A request first moves earlier messages into that queue, so they are handled before it. The caller waits for the
answer. If a callback doesn't return, the caller waits :data:`PATIENCE` seconds; the rest of the program doesn't wait.
If callbacks are too slow, messages wait in the session's rings. Full rings drop messages and count them.

*Fork.* The thread is stopped during a fork, as the thread of each tracer function. The child has no meta tracer and no
file.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from inviso import _native, meta, trace
from inviso._system import Flag, allocate_lock
from inviso.errors import BadArg
from inviso.terms import Atom
from inviso.trace._sessions import create

from ._meta_names import Callback, Callbacks, Names
from ._ti_file import TiFile
from ._tracerdata import Refused

__all__ = ["Callbacks", "Meta", "TiSpec"]

OK, ERROR = Atom("ok"), Atom("error")
NOT_INITIATED = (ERROR, Atom("not_initiated"))

PATIENCE = 2.0
"""Seconds that a request waits for the tracer's thread."""

LAST = 1.0
"""Seconds that an end waits after ``PATIENCE``. Meanwhile messages are not handled but counted as lost."""

CLEAN_EVERY = 60.0
"""Seconds between two calls of the clean function."""

Mfa = tuple[Any, Any, Any]
T = TypeVar("T")


def _default() -> Any:
    return meta.init_std_publld(2, [])


@dataclass(frozen=True, slots=True)
class TiSpec:
    """The functions that make, remove and clean the public loop data."""

    init: Callable[[], Any] = _default
    remove: Callback = None
    clean: Callback = meta.clean_std_publld


@dataclass(slots=True)
class _Function:
    """An initiated function."""

    callbacks: Callbacks
    specs: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Named match specifications, in order."""


class Meta:
    """One meta tracer.

    Raises:
        OSError: the file can't be opened.
    """

    def __init__(
        self,
        path: str,
        spec: TiSpec,
        regular: trace.Session | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = TiFile(path)
        self._spec = spec
        self._regular = regular
        self._clock = clock
        self._cleaned = clock()
        self._functions: dict[Mfa, _Function] = {}
        self._data: Any = None
        self._is_over = self._skips = False
        self._messages = self._lost = self._exceptions = self._wrong = 0
        self._error: str | None = None
        try:
            self._session = create("inviso meta", self._take, switched=regular)
        except BaseException:
            self._file.close()
            raise
        worker = self._session._worker
        assert worker is not None
        self._worker = worker
        self._names = Names(self._session, self._write)
        _living.add(self)

    def start(self) -> None:
        """Makes the loop data. ``Refused`` if that takes too long."""
        self._request(self._begin)
        meta._tracer = self

    @property
    def is_alive(self) -> bool:
        """Whether it takes requests."""
        return not self._is_over and self._session.is_alive()

    # requests, in the order of their arrival

    def init_tpm(self, mfa: Mfa, callbacks: Callbacks) -> Any:
        """Initiates a function: from now on it can be meta traced."""
        return self._request(lambda: self._init(mfa, callbacks))

    def tpm(self, mfa: Mfa, match_spec: Any, *, switches: bool, callbacks: Callbacks | None = None) -> Any:
        """Sets a match specification, which replaces all that the function has. With callbacks it initiates the
        function first.
        """

        def work() -> Any:
            if not (is_mfa(mfa) and isinstance(match_spec, list)):
                return ERROR, Atom("badarg")
            if callbacks is not None and (refused := self._init(mfa, callbacks)) != OK:
                return refused
            function = self._functions.get(mfa)
            if function is None:
                return NOT_INITIATED
            found = self._set(mfa, self._switching(match_spec) if switches else match_spec)
            if found:
                function.specs = []
            return OK, found

        return self._request(work)

    def tpm_ms(self, mfa: Mfa, name: Any, match_spec: Any, *, switches: bool) -> Any:
        """Puts a named match specification before the others."""

        def work() -> Any:
            function = self._functions.get(mfa) if is_mfa(mfa) else None
            if function is None:
                return NOT_INITIATED
            if not isinstance(match_spec, list):
                return OK, 0
            given = self._switching(match_spec) if switches else match_spec
            specs = [(name, given or CATCH_ALL), *(one for one in function.specs if one[0] != name)]
            found = self._set(mfa, _joined(specs))
            if found:
                function.specs = specs
            return OK, found

        return self._request(work)

    def ctpm_ms(self, mfa: Mfa, name: Any) -> Any:
        """Removes a named match specification. The last one takes the pattern with it."""

        def work() -> Any:
            function = self._functions.get(mfa) if is_mfa(mfa) else None
            left = [] if function is None else [one for one in function.specs if one[0] != name]
            if function is not None and len(left) < len(function.specs):
                self._set(mfa, _joined(left) if left else False)
                function.specs = left
            return OK

        return self._request(work)

    def list_tpm_ms(self, mfa: Mfa) -> Any:
        """The names of a function's match specifications."""

        def work() -> Any:
            function = self._functions.get(mfa) if is_mfa(mfa) else None
            return NOT_INITIATED if function is None else (OK, [name for name, _ in function.specs])

        return self._request(work)

    def ctpm(self, mfa: Mfa) -> Any:
        """Ends the meta tracing of a function."""

        def work() -> Any:
            if not is_mfa(mfa) or mfa not in self._functions:
                return ERROR, Atom("bad_mfa")
            self._set(mfa, False)
            self._removed(mfa, self._functions.pop(mfa))
            return OK

        return self._request(work)

    def tpm_localnames(self) -> Any:
        """Writes registered names, and names of threads and tasks, as aliases."""

        def work() -> Any:
            names = self._names
            halves = self._begin_names(REGISTER, names.register()), self._begin_names(UNREGISTER, names.unregister())
            if all(half[0] == OK for half in halves):
                self._names.begin()
            return halves

        return self._request(work)

    def ctpm_localnames(self) -> Any:
        """Ends :meth:`tpm_localnames`."""

        def work() -> Any:
            halves = []
            for mfa in (REGISTER, UNREGISTER):
                function = self._functions.pop(mfa, None)
                if function is None:
                    halves.append((ERROR, Atom("bad_mfa")))
                    continue
                self._set(mfa, False)
                self._removed(mfa, function)
                halves.append(OK)
            self._names.end()
            return tuple(halves)

        return self._request(work)

    def write_ti(self, output: Any) -> None:
        """Writes entries after all earlier messages, without waiting."""
        self._worker.when_done(lambda: self._write(output))

    def cast(self, message: tuple[Any, ...]) -> None:
        """Handles a message as if it were a trace message, without waiting."""
        self._worker.when_done(lambda: self._take(message))

    def get_tracer(self) -> int | None:
        """The number of the regular trace session."""
        return None if self._regular is None else self._regular.id

    def status(self) -> dict[str, Any]:
        """Counts of handled messages, losses and failures."""
        file = self._file
        return {
            "functions": len(self._functions),
            "messages": self._messages,
            "lost": self._lost,
            "entries": file.entries,
            "unwritten": file.lost,
            "exceptions": self._exceptions,
            "wrong_answers": self._wrong,
            "error": self._error if file.error is None else f"{file.path}: {file.error}",
        }

    def look(self) -> None:
        """Cleans the loop data and looks names up, if either is due."""
        if self._names.is_due(self._clock()):
            self._worker.when_done(self._names.look)
        if self._clock() - self._cleaned >= CLEAN_EVERY:
            self._cleaned = self._clock()
            self._worker.when_done(self._clean)

    # the end

    def reset(self) -> None:
        """For a suspension: ends all meta tracing, and makes the loop data anew."""

        def work() -> None:
            self._end_all()
            self._begin()

        self._finish(work)

    def stop(self, *, hangs: bool = False) -> None:
        """Handles earlier messages, removes everything, and closes the file.

        A callback that doesn't return is abandoned, and its answer is ignored. ``hangs``: there is such a callback.
        """
        if meta._tracer is self:
            meta._tracer = None
        if not self._is_over:
            try:
                if not hangs:
                    self._finish(self._end_all)
            except Refused:
                hangs = True
            if hangs:
                self._is_over = True
                self._session._native.destroy()
                self._worker.leave()
        self._is_over = True
        self._session.destroy()
        self._file.close()

    def forget(self) -> None:
        """Ends the meta tracer in a forked child."""
        self._is_over = True
        self._file.close()
        if meta._tracer is self:
            meta._tracer = None

    # in the tracer's thread

    def _request(self, work: Callable[[], T]) -> T:
        """Runs work after all earlier messages, and returns its result."""
        if _native.process.self_pid() == self._worker.pid:  # called by a callback
            return work()
        asked = self._ask(work)
        if not asked.done.wait(PATIENCE):
            asked.give_up()
            raise Refused(Atom("time_out"))
        return asked.result()  # type: ignore[no-any-return]

    def _finish(self, work: Callable[[], None]) -> None:
        """As :meth:`_request`, for an end: new calls are not seen, and messages that are not handled in time count as
        lost.
        """
        for mfa in list(self._functions):
            self._set(mfa, False)
        asked = self._ask(work)
        try:
            if not asked.done.wait(PATIENCE):
                self._skips = True
                if not asked.done.wait(LAST):
                    asked.give_up()
                    raise Refused(Atom("time_out"))
        finally:
            self._skips = False
        asked.result()

    def _ask(self, work: Callable[[], Any]) -> _Request:
        asked = _Request(work)
        self._session._native.pump()
        self._worker.when_done(asked.run)
        return asked

    def _take(self, message: Any) -> None:
        if self._is_over or self._skips:
            self._lost += 1
            return
        self._messages += 1
        match message:
            case ("trace_ts", pid, "call", (module, name, list(arguments)), *_, ts):
                function = self._functions.get((module, name, len(arguments)))
                if function is not None:
                    self._answered(function.callbacks.call, pid, (Atom("call"), arguments, ts), self._data)
                else:
                    self._names.called(pid, module, name, arguments)
            case ("trace_ts", pid, "return_from" | "exception_from" as what, (_, _, _) as mfa, value, ts):
                function = self._functions.get(mfa)
                if function is not None:
                    self._answered(function.callbacks.back, pid, (Atom(what), value, ts), self._data)
                else:
                    self._names.returned(pid, ts)
            case ("drop", int(number)):
                self._lost += number

    def _begin(self) -> None:
        try:
            self._data = self._spec.init()
        except BaseException as error:
            self._failed(error)
            self._data = ERROR, Atom("init_publ_ld_func")

    def _end_all(self) -> None:
        self._names.end()
        for mfa in self._functions:
            self._set(mfa, False)
        functions, self._functions = self._functions, {}
        for mfa, function in functions.items():
            self._removed(mfa, function)
        if self._spec.remove is not None:
            try:
                self._spec.remove(self._data)
            except BaseException as error:
                self._failed(error)

    def _clean(self) -> None:
        if self._spec.clean is None or self._is_over:
            return
        try:
            self._data = self._spec.clean(self._data)
        except BaseException as error:
            self._failed(error)

    def _init(self, mfa: Mfa, callbacks: Callbacks) -> Any:
        if not is_mfa(mfa):
            return ERROR, Atom("bad_mfa")
        if mfa in self._functions:
            return ERROR, Atom("already_initiated")
        self._functions[mfa] = _Function(callbacks)
        self._answered(callbacks.init, *mfa, self._data)
        return OK

    def _begin_names(self, mfa: Mfa, callbacks: Callbacks) -> Any:
        if (refused := self._init(mfa, callbacks)) != OK:
            return refused
        return OK, self._set(mfa, WITH_EXCEPTIONS if mfa == REGISTER else [])

    def _set(self, mfa: Mfa, match_spec: Any) -> int:
        """Sets the meta pattern of a function. Returns how many functions match: 0 also for a wrong match
        specification.
        """
        try:
            return self._session.function(mfa, match_spec, ["meta"])
        except BadArg as wrong:
            self._error = str(wrong)
            return 0

    def _removed(self, mfa: Mfa, function: _Function) -> None:
        self._answered(function.callbacks.remove, *mfa, self._data, writes=False)

    def _answered(self, callback: Callback, *arguments: Any, writes: bool = True) -> None:
        """Calls a callback, and takes its answer over. An exception or a wrong answer changes nothing."""
        if callback is None:
            return
        try:
            answer = callback(*arguments)
        except BaseException as error:
            return self._failed(error)
        if self._is_over:
            return
        match answer if isinstance(answer, tuple) else None:
            case ("ok", data, output) if writes:
                self._data = data
                self._write(output)
            case ("ok", data) if not writes:
                self._data = data
            case _:
                self._wrong += 1
                form = '("ok", data, output)' if writes else '("ok", data)'
                self._error = f"{getattr(callback, '__qualname__', callback)} has not answered {form}"

    def _failed(self, error: BaseException) -> None:
        self._exceptions += 1
        try:
            self._error = f"{type(error).__name__}: {error}"
        except Exception:
            self._error = type(error).__name__

    def _write(self, output: Any) -> None:
        for entry in meta.entries(output) or ():
            self._file.write(entry)

    def _switching(self, match_spec: list[Any]) -> list[Any]:
        """The specification with the regular tracer added to the first ``trace`` action of each clause."""
        tracer = self.get_tracer()
        return match_spec if tracer is None else [_clause_switching(clause, tracer) for clause in match_spec]


class _Request:
    """Work for the tracer's thread, with a caller that waits."""

    __slots__ = ("_once", "_work", "answer", "done", "error")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._once = allocate_lock()
        """Taken by the thread that starts the work, or by the caller that gives up: only one of them gets it."""
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = Flag()

    def run(self) -> None:
        """Runs the work, unless the caller has given up."""
        if not self._once.acquire(blocking=False):
            return
        try:
            self.answer = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def result(self) -> Any:
        """Returns the result, or raises the exception, of the work."""
        if self.error is not None:
            raise self.error
        return self.answer

    def give_up(self) -> None:
        """Ends the wait. Work that has not started is not run."""
        self._once.acquire(blocking=False)


REGISTER = ("inviso.process", "_register", 2)
UNREGISTER = ("inviso.process", "unregister", 1)
CATCH_ALL: list[Any] = [("_", [], [])]
WITH_EXCEPTIONS: list[Any] = [("_", [], [("exception_trace",)])]


def is_mfa(value: Any) -> bool:
    """Whether it names one function, without wildcards."""
    match value:
        case (str(module), str(function), int(arity)) if not isinstance(arity, bool):
            names = module, function
            return arity >= 0 and all(name and name != "_" and "*" not in name for name in names)
    return False


def _joined(specs: list[tuple[Any, list[Any]]]) -> list[Any]:
    return [clause for _, match_spec in specs for clause in match_spec]


def _clause_switching(clause: Any, tracer: int) -> Any:
    match clause:
        case (head, guards, list(body)):
            at = next((n for n, action in enumerate(body) if _is_trace(action)), None)
            if at is not None:
                word, off, on = body[at]
                body = [*body[:at], (word, off, [*on, (("tracer", tracer),)]), *body[at + 1 :]]
            return head, guards, body
    return clause


def _is_trace(action: Any) -> bool:
    match action:
        case ("trace", list(), list()):
            return True
    return False


_living: weakref.WeakSet[Meta] = weakref.WeakSet()


def _in_child() -> None:
    for tracer in list(_living):
        tracer.forget()
    _living.clear()


os.register_at_fork(after_in_child=_in_child)
