"""A runtime component: carries out the requests of its control, one after the other, in one thread.

It owns one trace session. The session without a log keeps the patterns; with each log there is a new one that gets them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from inviso import trace
from inviso.dbg._lines import line, plain
from inviso.errors import BadArg
from inviso.process import whereis
from inviso.terms import Atom
from inviso.trace_ports import TracePort

from ._machine import PATTERNS, Machine
from ._meta_calls import MetaCalls
from ._patterns import GLOBAL, LOCAL, Pattern, Patterns, expand
from ._tracerdata import Refused, TracerData, parse

__all__ = ["FLAGS", "Component"]

OK, ERROR = Atom("ok"), Atom("error")
FLAGS = (
    *("send", "receive", "call", "return_to", "procs", "garbage_collection", "running", "set_on_spawn"),
    *("set_on_first_spawn", "set_on_link", "set_on_first_link", "timestamp", "arity", "silent"),
)
"""Trace flags that ``tf`` takes, as in Inviso."""

PATIENCE = 2.0
"""Seconds that the end of tracing waits for what was traced before."""

Publish = Callable[[Any], None]


class Component(MetaCalls):
    """State, session and options of one runtime component. Its methods are called in one thread.

    ``publish`` is called with each event; ``resolve`` gives the path of a log by its name, and the function of
    ``("module", "function")``.
    """

    def __init__(self, tag: Any, options: dict[str, Any], publish: Publish, resolve: Resolver) -> None:
        self.machine = Machine()
        self.tag = tag
        self.options = options
        self._publish = publish
        self._resolve = resolve
        self._patterns = Patterns()
        self._session: trace.Session | None = None
        self._port: TracePort | None = None
        self._handler: Callable[[Any], None] | None = None
        self._data: TracerData | None = None

    # what may be asked

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """The answer to a request by its name. What a request raises that is no refusal is an error term, too."""
        work = getattr(self, f"do_{name}", None)
        if work is None:
            return ERROR, (Atom("invalid_request"), Atom(name))
        refused = self.machine.refusal(name, has_meta=self.has_meta)
        if refused is not None:
            return refused
        try:
            return work(*arguments)
        except Refused as why:
            return ERROR, why.answer
        except BadArg as wrong:
            return ERROR, (Atom("badarg"), str(wrong))
        except Exception as error:
            return ERROR, (Atom("crashed"), (Atom(name), f"{type(error).__name__}: {error}"))

    def do_init_tracing(self, given: Any) -> Any:
        """Open the log and begin: flags are set afterwards."""
        data = parse(given, self._resolve.path)
        ti_spec = self._ti_spec(data.ti)
        try:
            port = None if data.port is None else data.port()
        except OSError as error:
            raise Refused((Atom("trace_port_args"), [given, error.strerror or str(error)])) from None
        handler = self._handler_of(data)
        try:
            session = trace.session_create("inviso", port)
        except BaseException:
            if port is not None:
                port.close()
            raise
        try:
            self._patterns.put_all(session)
        except BaseException:
            session.destroy()
            raise
        self._leave_session()
        self._session, self._port, self._handler, self._data = session, port, handler, data
        answer = [(Atom("trace_log"), OK)] if data.has_log else []
        if data.ti is not None:
            answer.append((Atom("ti_log"), self._begin_meta(data.ti, ti_spec, session if data.has_log else None)))
        self._tell(self.machine.init_tracing(given))
        return OK, answer

    def do_stop_tracing(self) -> Any:
        self._close()
        self._tell(self.machine.stop_tracing())
        return OK, self.machine.state

    def do_clear(self, options: Any = ()) -> Any:
        options = list(options)
        self._close()
        if "keep_log_files" not in options:
            for path in self._files() + (self._data.ti_files() if self._data is not None else []):
                with suppress(OSError):
                    os.unlink(path)
        if "keep_trace_patterns" not in options:
            self._clear_patterns()
        self._data = None
        self._tell(self.machine.clear())
        return OK, (self.machine.state, self.machine.status)

    def do_flush(self) -> Any:
        if self._session is not None and self._port is not None:
            trace._settle(self._session, PATIENCE)
            self._port.flush()
        return OK

    def do_tp(self, patterns: Any) -> Any:
        return self._set(patterns, GLOBAL)

    def do_tpl(self, patterns: Any) -> Any:
        return self._set(patterns, LOCAL)

    def do_ctp(self, patterns: Any) -> Any:
        return self._set([(*one[:3], False) for one in patterns], GLOBAL, sets=False)

    def do_ctpl(self, patterns: Any) -> Any:
        return self._set([(*one[:3], False) for one in patterns], LOCAL, sets=False)

    def do_ctp_all(self) -> Any:
        self._clear_patterns()
        return OK

    def do_tf(self, confs: Any) -> Any:
        if self._data is None or not self._data.has_log:
            return ERROR, Atom("no_tracer")
        return OK, [self._flags(who, True, flags) for who, flags in confs]

    def do_ctf(self, confs: Any) -> Any:
        return OK, [self._flags(who, False, flags) for who, flags in confs]

    def do_ctf_all(self) -> Any:
        self._clear_flags()
        return OK

    def do_suspend(self, reason: Any) -> Any:
        if self.machine.is_running:
            self._clear_flags()
            self._reset_meta()
        self._tell(self.machine.suspend(reason))
        return OK

    def do_cancel_suspension(self) -> Any:
        self._tell(self.machine.cancel_suspension())
        return OK

    def do_get_status(self) -> Any:
        return OK, self.machine.both()

    def do_get_tracerdata(self) -> Any:
        given = self.machine.tracerdata
        return OK, Atom("no_tracerdata") if given is None else given

    def do_list_logs(self) -> Any:
        """What exists now; the folder as it was given, and the full paths for who fetches on the same host."""
        if self.machine.tracerdata is None:
            return ERROR, Atom("no_tracerdata")
        parts = self._parts()
        named = [(kind, folder, [os.path.basename(path) for path in paths]) for kind, folder, paths in parts]
        return OK, named or Atom("no_log")

    def do_log_paths(self) -> Any:
        """Full paths of the log's files, oldest last as the folder has them; asked before a fetch."""
        refused = self.machine.refusal("fetch_log")
        if refused is not None:
            return refused
        if self.machine.tracerdata is None:
            return ERROR, Atom("no_tracerdata")
        return OK, self._files()

    def do_delete_log(self) -> Any:
        if self.machine.tracerdata is None:
            return ERROR, (Atom("badarg"), None)
        done = [(kind, [_unlinked(path) for path in paths][::-1]) for kind, _, paths in self._parts()]
        return OK, done or Atom("no_log")

    def do_counts(self) -> Any:
        """Messages that were written and that were lost, of the log that is or was open last."""
        if self._port is not None:
            self._counts = self._port.written, self._port.dropped
        return OK, self._counts

    _counts = (0, 0)

    def end(self) -> None:
        """The component ends: flags and patterns go, the log is closed."""
        self._close()
        self._leave_session()

    # while it traces

    def poll(self) -> float | None:
        """Hands messages to the handler, and sees whether the log has ended; after how many seconds it is called again.

        None if there is nothing to look at.
        """
        if not self.machine.is_tracing:
            return None
        self._look_at_meta()
        if self._port is not None:
            if not self._port.is_open():
                why = self._port.ended or self._port.error or "closed"
                self._close()
                self._tell(self.machine.port_down(why))
                return None
            return LOOK
        if self._handler is None:
            return LOOK
        self._hand_over()
        return EVERY

    # how it is done

    def _tell(self, events: list[Any]) -> None:
        for event in events:
            self._publish(event)

    def _handler_of(self, data: TracerData) -> Callable[[Any], None] | None:
        if data.is_printed:
            return _print
        if data.handler is None:
            return None
        function, state = data.handler
        if not callable(function):
            function = self._resolve.function(function)

        def handle(message: Any) -> None:
            nonlocal state
            state = function(message, state)

        return handle

    def _hand_over(self) -> None:
        session, handler = self._session, self._handler
        if session is None or handler is None:
            return
        for message in session.drain():
            try:
                handler(message)
            except Exception as error:
                self._publish((Atom("handler_failed"), f"{type(error).__name__}: {error}"))

    def _set(self, patterns: Any, flag: str, *, sets: bool = True) -> Any:
        answers: list[Any] = []
        for given in patterns:
            expanded = expand(tuple(given), flag)
            answers += [self._set_one(pattern) for pattern in expanded]
        if sets:
            self._tell(self.machine.patterns())
        return OK, answers

    def _set_one(self, pattern: Pattern) -> Any:
        if self._session is None:
            self._session = trace.session_create("inviso")
        try:
            return self._patterns.put(self._session, pattern)
        except BadArg as wrong:
            return ERROR, (Atom("bad_trace_args"), [(*pattern.mfa, pattern.match_spec), wrong.why])

    def _flags(self, who: Any, how: bool, flags: Any) -> Any:
        unknown = [flag for flag in flags if flag not in FLAGS]
        if unknown:
            return ERROR, (Atom("bad_flag"), unknown[0])
        match who:
            case ("global", str()):
                return 0  # there are no global names
            case ("local", str(name)):
                found = whereis(name)
            case "all" | "new" | "existing":
                found = who
            case str():
                found = whereis(who)
            case _:
                found = who
        if found is None:
            return ERROR, (Atom("bad_process"), ((Atom("nonexistent_name"), who), who))
        if self._session is None:
            return 0
        try:
            return self._session.process(found, how, list(flags))
        except BadArg as wrong:
            if wrong.argument != "procs":
                return ERROR, (Atom("bad_trace_args"), [wrong.why, who, how, list(flags)])
            return 0 if hasattr(found, "is_local") else (ERROR, (Atom("bad_process"), ((Atom("faulty"), who), who)))

    def _clear_flags(self) -> None:
        if self._session is not None and self._session.is_alive():
            self._session.process("all", False, ["all"])
            self._session.port("all", False, ["all"])

    def _clear_patterns(self) -> None:
        if self._session is not None and self._session.is_alive():
            self._patterns.take_all(self._session)
        self._patterns.clear()

    def _close(self) -> None:
        """Ends the log; the patterns stay."""
        self._end_meta()
        session, port = self._session, self._port
        if session is not None and session.is_alive() and self.machine.is_tracing:
            self._clear_flags()
            if port is not None:
                trace._settle(session, PATIENCE)
                port.flush()
            else:
                self._hand_over()
        if port is not None:
            port.close()
            self._counts = port.written, port.dropped
        if self.machine.is_tracing and session is not None:
            session.destroy()
            self._session = None
            if self._patterns:
                self._session = trace.session_create("inviso")
                self._patterns.put_all(self._session)
        self._port = self._handler = None

    def _leave_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.destroy()

    def _parts(self) -> list[tuple[Any, str, list[str]]]:
        """Of what writes files: which log, its folder as it was given, and the full paths of the files that exist."""
        data = self._data
        if data is None:
            return []
        parts = [] if data.files is None else [(Atom("trace_log"), data.folder, self._files())]
        return parts if data.ti is None else [*parts, (Atom("ti_log"), data.ti.folder, data.ti_files())]

    def _files(self) -> list[str]:
        """Full paths of the files of the log that exist."""
        if self._data is None or self._data.files is None:
            return []
        before, behind = self._data.files
        if not self._data.is_wrapped:
            return [before] if os.path.exists(before) else []
        folder, base = os.path.split(before)
        names = os.listdir(folder or ".")
        middle = [(name, name[len(base) : len(name) - len(behind)]) for name in names if name.startswith(base)]
        return [os.path.join(folder, name) for name, number in middle if name.endswith(behind) and number.isdigit()]


def _unlinked(path: str) -> Any:
    try:
        os.unlink(path)
    except OSError as error:
        return ERROR, (error.strerror, os.path.basename(path))
    return OK, os.path.basename(path)


class Resolver:
    """What the names in requests stand for here: any file, any function. For requests from this process."""

    def path(self, name: str) -> str:
        """The full path of a log."""
        return os.path.abspath(name)

    def function(self, named: tuple[str, str]) -> Callable[..., Any]:
        """The function of a module; ``Refused`` if there is none."""
        module, name = named
        try:
            found: Any = getattr(__import__(module, fromlist=[name]), name)
        except Exception:
            raise Refused((Atom("bad_function"), named)) from None
        return found  # type: ignore[no-any-return]


LOOK = 0.1
"""Seconds between two looks whether the log still takes messages."""

EVERY = 0.005
"""Seconds between two looks for messages of a handler."""

assert PATTERNS


def _print(message: Any) -> None:
    text = line(message, plain)
    if text is not None:
        print(text, file=sys.stdout)
