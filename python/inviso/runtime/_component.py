"""A runtime component: carries out requests, one after the other, in one thread.

It owns one trace session. While no log is open, a session without a tracer has the patterns. Each log has a session of
its own with all patterns. :class:`Machine` decides which requests are refused, and which states and events follow.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from inviso import process, seq_trace, tracing
from inviso.dbg._lines import line, plain
from inviso.errors import BadArg
from inviso.process import whereis
from inviso.terms import Atom
from inviso.trace_ports import TracePort

from ._arguments import check_confs, check_count, check_list
from ._count_calls import CountCalls
from ._live_counts import LiveCounts
from ._log_calls import LogCalls, files_of
from ._machine import Machine
from ._meta_calls import MetaCalls
from ._overload import Load, Overload
from ._patterns import GLOBAL, LOCAL, Pattern, Patterns, expand
from ._relay import Relay
from ._resolver import Resolver
from ._settings import Settings, merged
from ._tracerdata import Refused, TracerData, parse

__all__ = ["FLAGS", "Component", "words"]

OK, ERROR = Atom("ok"), Atom("error")
FLAGS = (
    *("send", "receive", "call", "return_to", "procs", "garbage_collection", "running", "set_on_spawn"),
    *("set_on_first_spawn", "set_on_link", "set_on_first_link", "timestamp", "arity", "silent"),
    *("monotonic_timestamp", "strict_monotonic_timestamp"),
)
"""Trace flags that ``tf`` accepts: Inviso's, and the other timestamps."""

LOOK = 0.1
"""Seconds between two checks whether the log still takes messages."""

EVERY = 0.005
"""Seconds between two checks for messages of a handler."""

PATIENCE = 2.0
"""Seconds that a flush waits for earlier trace messages."""

Publish = Callable[[Any], None]


class Component(MetaCalls, LogCalls, CountCalls):
    """State, session and settings of one runtime component. Its methods are called in one thread.

    ``publish`` is called with each event. ``resolver`` finds the files and functions that requests name.
    """

    def __init__(self, tag: Any, settings: Settings, publish: Publish, resolver: Resolver) -> None:
        self.machine = Machine()
        self.tag = tag
        self.settings = merged(settings)
        self._given = settings
        self._publish = publish
        self._resolver = resolver
        self._patterns = Patterns()
        self._tracing: tracing.Tracing | None = None
        self._data: TracerData | None = None
        self._flags: list[tuple[Any, list[str]]] = []
        """Flags that are set. A suspension removes them; its own end sets them again."""
        self._overload = Overload(self.settings, resolver.function, time.monotonic())
        self._resume: float | None = None
        self._pause = 0.0
        self._stop_at: float | None = None
        self._waiting = 0
        self._counts = 0, 0
        self._ended: str | None = None
        self._relay: Relay | None = None
        self._has_tokens = False
        self.live = LiveCounts()

    # requests

    def use(self, resolver: Resolver) -> None:
        """Uses this resolver for all later requests."""
        self._resolver = resolver

    def call(self, name: str, arguments: tuple[Any, ...], resolver: Resolver | None = None) -> Any:
        """The answer to a request by its name. An exception becomes an error term.

        ``resolver`` is for this request alone.
        """
        work = getattr(self, f"do_{name}", None)
        if work is None:
            return ERROR, (Atom("invalid_request"), Atom(name))
        refused = self.machine.refusal(name, has_meta=self.has_meta)
        if refused is not None:
            return refused
        usual = self._resolver
        self._resolver = resolver or usual
        try:
            check_count(name, work, len(arguments))
            return work(*arguments)
        except Refused as why:
            return ERROR, why.answer
        except BadArg as wrong:
            return ERROR, (Atom("badarg"), str(wrong))
        except Exception as error:
            return ERROR, (Atom("crashed"), (Atom(name), f"{type(error).__name__}: {error}"))
        finally:
            self._resolver = usual

    def do_init_tracing(self, given: Any) -> Any:
        """Opens the log and begins. Flags are set later."""
        data = parse(given, self._resolver.path)
        ti_spec = self._ti_spec(data.ti)
        self._begin(given, data)
        self._data, self._ended, self._counts = data, None, (0, 0)
        if data.files is not None:
            self._resolver.wrote(data.files)
        if data.ti is not None:
            self._resolver.wrote((data.ti.path, ""))
        now = time.monotonic()
        self._overload.began(now)
        self._overload.at_once(now)
        limit_ms = self._limits.get("ms")
        self._stop_at = None if limit_ms is None else time.monotonic() + limit_ms / 1000
        answer = [(Atom("trace_log"), OK)] if data.has_log else []
        if data.ti is not None:
            regular = self._tracing.session if self._tracing is not None and data.has_log else None
            answer.append((Atom("ti_log"), self._begin_meta(data.ti, ti_spec, regular)))
        self._publish_all(self.machine.init_tracing(given))
        return OK, answer

    def do_stop_tracing(self) -> Any:
        self._close()
        self._publish_all(self.machine.stop_tracing())
        return OK, self.machine.state

    def do_clear(self, options: Any = ()) -> Any:
        check_list("clear", "options", options)
        self._close()
        if "keep_log_files" not in options:
            for _, _, paths in self._parts(self._data):
                for path in paths:
                    with suppress(OSError):
                        os.unlink(path)
        if "keep_trace_patterns" not in options:
            self._clear_patterns()
        self._data = None
        self._publish_all(self.machine.clear())
        return OK, (self.machine.state, self.machine.status)

    def do_flush(self) -> Any:
        traced = self._tracing
        if traced is not None and isinstance(traced.tracer, TracePort):
            traced.settle(PATIENCE)
            traced.tracer.flush()
        return OK

    def do_tp(self, patterns: Any) -> Any:
        return self._set(patterns, GLOBAL)

    def do_tpl(self, patterns: Any) -> Any:
        return self._set(patterns, LOCAL)

    def do_ctp(self, patterns: Any) -> Any:
        return self._set(patterns, GLOBAL, clears=True)

    def do_ctpl(self, patterns: Any) -> Any:
        return self._set(patterns, LOCAL, clears=True)

    def do_ctp_all(self) -> Any:
        self._clear_patterns()
        return OK

    def do_tf(self, confs: Any) -> Any:
        if self._data is None or not self._data.has_log:
            return ERROR, Atom("no_tracer")
        check_confs("tf", confs)
        answers = [self._set_flags(who, True, flags) for who, flags in confs]
        done = zip(confs, answers, strict=True)
        self._flags += [(who, list(flags)) for (who, flags), answer in done if isinstance(answer, int)]
        return OK, answers

    def do_ctf(self, confs: Any) -> Any:
        check_confs("ctf", confs)
        answers = [self._set_flags(who, False, flags) for who, flags in confs]
        for who, flags in confs:
            kept = [(one, [f for f in set_ if one != who or f not in flags]) for one, set_ in self._flags]
            self._flags = [(one, set_) for one, set_ in kept if set_]
        return OK, answers

    def do_ctf_all(self) -> Any:
        self._flags.clear()
        self._clear_flags()
        return OK

    def do_suspend(self, reason: Any) -> Any:
        self._suspend(reason)
        return OK

    def do_cancel_suspension(self) -> Any:
        self._resume = None
        self._flags = [] if not self.machine.is_running else self._flags
        self._watch_again()
        self._overload.at_once(time.monotonic())
        self._publish_all(self.machine.cancel_suspension())
        return OK

    def do_change_options(self, settings: Settings) -> Any:
        before = self.settings["overload"]
        self._given = {**self._given, **settings}
        self.settings = merged(self._given)
        now = time.monotonic()
        if self.settings["overload"] != before or "protect" in settings:
            self._overload.end()
            self._overload = Overload(self.settings, self._resolver.function, now)
        self._overload.at_once(now)
        return OK

    def do_get_status(self) -> Any:
        return OK, self.machine.both()

    def do_get_tracerdata(self) -> Any:
        given = self.machine.tracerdata
        return OK, Atom("no_tracerdata") if given is None else given

    def do_trace_tokens(self, how: Any) -> Any:
        """Makes the log the system tracer, if there is none; False removes it again."""
        if not self.machine.is_tracing or self._tracing is None:
            return ERROR, Atom("no_tracer")
        if not how:
            self._leave_tokens()
            return OK
        if seq_trace.get_system_tracer():
            return ERROR, Atom("has_system_tracer")
        if not isinstance(self._tracing.tracer, TracePort):
            return ERROR, Atom("no_trace_port")
        seq_trace.set_system_tracer(self._tracing.tracer)
        self._has_tokens = True
        seq_trace.set_token("label", 0)  # a process takes part from its first token on
        seq_trace.set_token([])
        return OK

    def do_info(self) -> Any:
        return OK, self.info()

    @property
    def counts(self) -> tuple[int, int]:
        """Records that were written and lost since tracing began."""
        self._count()
        return self._counts

    @property
    def both(self) -> tuple[Any, Any]:
        """State and status."""
        return self.machine.both()

    def left(self) -> None:
        """Ends the counters of the control's live view, after the control has gone."""
        self.live.stop()

    def info(self) -> dict[str, Any]:
        """Counts and failures, for people; the status is separate."""
        self._count()
        return {
            "written": self._counts[0],
            "lost": self._counts[1],
            "ended": self._ended,
            "suspended": None if self.machine.is_running else f"suspended: {words(self.machine.status[1])}",
            "overload_check_failed": self._overload.failed,
            "files": files_of(self._data),
            "meta": None if self._meta is None else self._meta.status(),
        }

    def message(self, message: Any) -> None:
        """Passes a message that is not a request to the user's overload check."""
        if self.machine.is_tracing and self.machine.is_running:
            self._judge(self._overload.message(time.monotonic(), message))

    def relayed(self, message: Any) -> None:
        """Prints a trace message of another process, or passes it to the handler; nothing if this component writes a
        log.
        """
        if self._tracing is not None and self.machine.is_tracing and not isinstance(self._tracing.tracer, TracePort):
            self._handle(message)

    def end(self) -> None:
        """Ends the component: removes flags and patterns, and closes the log."""
        self._patterns.clear()  # so _close() makes no session for them
        self._close()
        self._leave()
        self._stop_counts()
        self._overload.end()

    # while it traces

    def poll(self) -> float | None:
        """Does what is due. Returns the seconds until the next call, None if there is nothing to check."""
        now = time.monotonic()
        if self._resume is not None and now >= self._resume:
            self._resume_by_itself()
        if not self.machine.is_tracing:
            return None
        self._look_at_meta()
        traced = self._tracing
        assert traced is not None
        is_port = isinstance(traced.tracer, TracePort)
        if not is_port:
            self._hand_over()
        if self._relay is not None:
            try:
                self._relay.flush()
            except OSError:
                self._has_ended("the relayer has gone")
                return None
        if traced.ended is not None:
            self._has_ended(traced.ended.text)
            return None
        error = traced.tracer.error if isinstance(traced.tracer, TracePort) and self._data_files else None
        if error is not None:  # messages are missing in the log from here on
            self._has_ended(f"the log can't be written: {error}")
            return None
        if self._stop_at is not None and now >= self._stop_at:
            self._has_ended(f"the limit of {self._limits['ms'] / 1000:g} s was reached")
            return None
        due = self._overload.due() if self.machine.is_running else None
        if due is not None and now >= due:
            self._count()
            folder = None if self._data is None or self._data.files is None else os.path.dirname(self._data.files[0])
            self._judge(self._overload.timed(now, Load(self._waiting, self._counts[1], folder)))
            due = self._overload.due() if self.machine.is_running else None
        times = [due, self._resume, self._stop_at]
        soonest = min((moment - now for moment in times if moment is not None), default=LOOK)
        is_handed = not is_port and self._data is not None and self._data.has_log
        return max(0.0, min(EVERY if is_handed else LOOK, soonest))

    # parts of requests

    @property
    def _limits(self) -> Mapping[str, Any]:
        limits: Mapping[str, Any] = self.settings.get("limits") or {}
        return limits

    @property
    def _data_files(self) -> tuple[str, str] | None:
        return None if self._data is None else self._data.files

    def _publish_all(self, events: list[Any]) -> None:
        for event in events:
            self._publish(event)

    def _begin(self, given: Any, data: TracerData) -> None:
        """Begins a session with the patterns, whose messages go where the tracer data says."""
        try:
            if data.files is not None:
                self._resolver.make_folder(data.files[0])
            tracer: Any = data.port() if data.port is not None else data.pid or self._handler_of(data)
        except OSError as error:
            raise Refused((Atom("trace_port_args"), [given, error.strerror or str(error)])) from None
        limits = {name: self._limits[name] for name in ("limit", "rate", "lost") if name in self._limits}
        try:
            traced = tracing.begin(
                "inviso", tracer, drained=callable(tracer) and not isinstance(tracer, TracePort), **limits
            )
        except BaseException:
            if isinstance(tracer, TracePort):
                tracer.close()
            self._close_relay()
            raise
        try:
            self._patterns.put_all(traced.session)
        except BaseException:
            traced.end()
            raise
        self._leave()
        self._tracing = traced

    def _handler_of(self, data: TracerData) -> Callable[[Any], None] | None:
        if not data.has_log:
            return None
        if data.relay_to is not None:
            self._relay = Relay(data.relay_to, process.node())
            return self._relay
        if data.handler is None:
            return _print
        function, state = data.handler
        if not callable(function):
            function = self._resolver.function(function)

        def handle(message: Any) -> None:
            nonlocal state
            state = function(message, state)

        return handle

    def _hand_over(self) -> None:
        traced = self._tracing
        if traced is None or not traced.session.is_alive():
            return
        messages = traced.session.drain()
        self._waiting = len(messages)
        for message in messages:
            self._handle(message)

    def _handle(self, message: Any) -> None:
        """Counts a message, and calls the handler with it."""
        assert self._tracing is not None
        self._tracing.handle(message)
        written, lost = self._counts
        is_drop = isinstance(message, tuple) and message[0] == "drop"
        self._counts = (written, lost + message[1]) if is_drop else (written + 1, lost)

    def _count(self) -> None:
        traced = self._tracing
        if traced is not None and isinstance(traced.tracer, TracePort):
            self._counts = traced.tracer.written, traced.tracer.dropped

    def _has_ended(self, why: str) -> None:
        self._ended = why
        self._close()
        self._publish_all(self.machine.port_down(why))

    def _set(self, patterns: Any, flag: str, *, clears: bool = False) -> Any:
        check_list("ctp" if clears else "tp", "patterns", patterns)
        found = [pattern for given in patterns for pattern in expand(given, flag, clears=clears)]
        answers = [self._set_one(pattern) for pattern in found]
        if not clears:
            self._publish_all(self.machine.patterns())
        return OK, answers

    def _set_one(self, pattern: Pattern) -> Any:
        if self._tracing is None:
            self._tracing = tracing.begin("inviso")
        try:
            return self._patterns.put(self._tracing.session, pattern)
        except BadArg as wrong:
            return ERROR, (Atom("bad_trace_args"), [(*pattern.mfa, pattern.match_spec), wrong.why])

    def _set_flags(self, who: Any, how: bool, flags: Any) -> Any:
        unknown = [flag for flag in flags if flag not in FLAGS]
        if unknown:
            return ERROR, (Atom("bad_flag"), unknown[0])
        found = who
        match who:
            case ("global", str()):
                return 0  # there are no global names
            case ("local", str(name)):
                found = whereis(name)
            case "all" | "new" | "existing":
                pass
            case str():
                found = whereis(who)
        if found is None:
            return ERROR, (Atom("bad_process"), ((Atom("nonexistent_name"), who), who))
        if self._tracing is None or not self._tracing.session.is_alive():
            return 0
        try:
            return self._tracing.session.process(found, how, list(flags))
        except BadArg as wrong:
            if wrong.argument != "procs":
                return ERROR, (Atom("bad_trace_args"), [wrong.why, who, how, list(flags)])
            return 0 if hasattr(found, "is_local") else (ERROR, (Atom("bad_process"), ((Atom("faulty"), who), who)))

    def _clear_flags(self) -> None:
        if self._tracing is not None and self._tracing.session.is_alive():
            self._tracing.session.process("all", False, ["all"])
            self._tracing.session.port("all", False, ["all"])

    def _clear_patterns(self) -> None:
        if self._tracing is not None and self._tracing.session.is_alive():
            self._patterns.take_all(self._tracing.session)
        self._patterns.clear()

    def _suspend(self, reason: Any) -> None:
        if self.machine.is_running:
            self._clear_flags()
            self._reset_meta()
        self._publish_all(self.machine.suspend(reason))

    def _judge(self, answer: Any) -> None:
        """Follows the answer of an overload check: suspends if there is a reason."""
        if answer is None:
            return
        self._suspend(answer[0])
        wait = self.settings["resume_after"]
        if wait is not None:
            self._pause = max(self._pause * 2, wait / 1000)
            self._resume = time.monotonic() + self._pause

    def _watch_again(self) -> None:
        """Restarts the overload check's counts at the end of a suspension, so earlier losses are not a new reason."""
        if not self.machine.is_running:
            self._count()
            self._overload.began(time.monotonic(), self._counts[1])

    def _resume_by_itself(self) -> None:
        """Ends a suspension by overload, and sets the flags again."""
        self._resume = None
        if self.machine.is_running:
            return
        self._watch_again()
        self._overload.at_once(time.monotonic() + self._pause)
        self._publish_all(self.machine.cancel_suspension())
        for who, flags in self._flags if self.machine.is_tracing else []:
            self._set_flags(who, True, flags)

    def _close(self) -> None:
        """Ends the log. The patterns stay, in a session without a tracer."""
        traced = self._tracing
        self._flags.clear()
        self._stop_at = self._resume = None
        self._end_meta()
        if traced is None or not self.machine.is_tracing:
            return
        self._clear_flags()
        self._leave_tokens()
        if not isinstance(traced.tracer, TracePort):
            self._hand_over()
        traced.end()
        self._close_relay()
        self._count()
        self._tracing = None
        if self._patterns:
            self._tracing = tracing.begin("inviso")
            self._patterns.put_all(self._tracing.session)

    def _close_relay(self) -> None:
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.close()

    def _leave_tokens(self) -> None:
        if self._has_tokens:
            self._has_tokens = False
            if self._tracing is not None and seq_trace.get_system_tracer() is self._tracing.tracer:
                seq_trace.set_system_tracer(False)

    def _leave(self) -> None:
        traced, self._tracing = self._tracing, None
        if traced is not None:
            traced.end()


def words(reason: Any) -> str:
    """The reason of a suspension, as text for people."""
    match reason:
        case "rt_max_queue_len":
            return "too many messages waited for the runtime component"
        case ("lost", int(number)):
            return f"{number:,} records were lost between two checks"
        case ("cpu", int(percent)):
            return f"tracing took {percent} percent of a processor"
        case ("lag", int(ms)):
            return f"an event loop got to nothing for {ms:,} ms"
        case ("disk", int(free)):
            return f"{free} MiB are free where the log is"
    return " ".join(map(str, reason)) if isinstance(reason, tuple) else str(reason)


def _print(message: Any) -> None:
    text = line(message, plain)
    if text is not None:
        print(text, file=sys.stdout)
