"""``inviso trace``: runs a program and shows the calls of some of its functions.

Lines go to standard error while the program runs, and the program never waits for them: a thread takes the messages and
writes as much as possible. ``threading`` doesn't show this thread, and it is stopped while the process forks.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inviso import _fork, trace, tracing
from inviso._background import Timer
from inviso._children import Leader, Outcome, lead
from inviso._config import effective
from inviso._descriptor import stderr
from inviso._limits import LOST, Rate
from inviso._literal import NotLiteral, read
from inviso._pattern import Pattern, hint, matches, parse, show
from inviso.dbg._lines import Paint, line, plain
from inviso.dbg._output import Descriptor, of_file
from inviso.dbg._saved import BUILT_IN, reason
from inviso.errors import BadArg
from inviso.match_spec import ms
from inviso.match_spec._compile import compiled
from inviso.trace_ports import trace_port

from ._command import CannotBegin, Watch, carry_out, greenlets_unseen, wants_color
from ._options import Given, Options, Usage, absolute, number
from ._record import OPTION, Recording, path_of
from ._runner import Program
from ._trace_others import ChildLine, Others, log_of

__all__ = ["NAME", "color", "main", "open_log", "request_of", "timed"]

HELP = """\
usage: inviso trace -p PATTERN [options] SCRIPT [ARG ...]
       inviso trace -p PATTERN [options] -m MODULE [ARG ...]

Run a program and show each call of the functions that match a pattern.

options:
  -p, --pattern PATTERN  these functions: MODULE, MODULE:FUNCTION or
                         MODULE:FUNCTION:ARITY, with _ for any, PACKAGE.** for
                         all modules of a package; may be given several times
  --return               show their results
  --exceptions           show their results and exceptions
  --caller               show their callers, with the line of the call
  --time                 show the time of day
  --ms EXPR              only these calls: a lambda of the arguments, such as
                         'lambda text: len(text) > 100'; a match
                         specification; or x, c, cx for --exceptions,
                         --caller, or both. The lambda never runs
  --limit N              stop tracing after N messages
  --rate N/s             stop tracing when there are more than N messages in a
                         second; N/10s, N/100ms are other times
  --recorder FILE        show nothing: keep each thread's newest calls, and
                         write them to FILE, a log, when the program has ended,
                         also by an exception; to FILE.1, FILE.2 at SIGUSR2.
                         Records this process only
  --no-children          trace this process only, not those that it starts
  -o, --output FILE      write to FILE, not to standard error; *.log is a log
                         for 'inviso log' or Erlang's dbg, and can't be a pipe
  -m MODULE              run a module, as python -m does
  -h, --help             show this text

Everything after SCRIPT or MODULE belongs to the program. Its exit status is
the command's. The program never waits for the reader of the lines: tracing
stops when the reader has gone, or when too many lines are lost. A pattern that
matches no function is named at the end. The pattern _ needs --limit or --rate.
Patterns, the limit (messages), whether children are traced, and the contents
of a recorder (ring_bytes, returns) are settings, too: 'inviso config' shows
them.

examples:
  inviso trace -p json:loads --return job.py --fast
  inviso trace -p shop.orders --ms 'lambda order: order.total > 100' job.py
  inviso trace -p _ --limit 100 -o calls.txt -m package.job
  inviso trace -p 'shop.**' --exceptions --recorder last.log job.py
"""

TRACE = Options(
    short={"-m": "-m", "-p": "--pattern", "-o": "--output"},
    with_value=("-m", "--ms", "--limit", "--rate", "--output", OPTION),
    without_value=("--return", "--exceptions", "--caller", "--time", "--no-children"),
    several=("--pattern",),
)
LOG = ".log"
NAME = "inviso trace"
EVERY = 0.005
"""Seconds between two looks for messages."""

PATIENCE = 2.0
"""Seconds to wait at the end for the reader of the last lines."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options."""

    patterns: list[Pattern]
    spec: list[Any]
    limit: int | None
    rate: Rate | None
    time: bool
    output: str | None

    @property
    def is_log(self) -> bool:
        return self.output is not None and self.output.endswith(LOG)


def main(words: list[str]) -> int:
    """Carries out ``inviso trace``. Returns the exit status."""

    def watch(given: Given, program: Program) -> Watch:
        if OPTION in given.options:
            return _recording(given)
        options, patterns, follow = _with_settings(given)
        request = request_of(options, patterns)
        if not follow:
            return TracedRun(request, None)
        options = {**options, **({"--output": request.output} if request.output else {})}
        what = {"command": "trace", "options": options, "patterns": patterns}
        return TracedRun(request, {**what, "title": program.title(), "beside": program.place()})

    return carry_out("trace", TRACE, HELP, words, watch)


def _with_settings(given: Given) -> tuple[dict[str, str], list[str], bool]:
    """The options and patterns, with defaults from the settings; and whether children are traced."""
    settings = effective()
    limit, follow = settings["messages"].value, settings["follow"]
    options = given.options if limit is None else {"--limit": str(limit), **given.options}
    patterns = given.lists["--pattern"] or list(settings["patterns"].value)
    return options, patterns, "--no-children" not in options and (follow.value or follow.source == "default")


def _recording(given: Given) -> Recording:
    settings, options = effective(), dict(given.options)
    path = path_of(options)
    if settings["returns"].value and not {"--return", "--exceptions", "--ms"} & options.keys():
        options["--exceptions"] = ""
    patterns = _parsed(given.lists["--pattern"] or list(settings["patterns"].value))
    return Recording(path, patterns, _spec(options), settings["ring_bytes"].value, _note)


def _parsed(patterns: list[str]) -> list[Pattern]:
    if not patterns:
        raise Usage("no pattern was given; name functions with -p, such as -p json:loads")
    return [p for text in patterns for p in parse(text, "trace, --pattern")]


def request_of(options: dict[str, str], patterns: list[str]) -> Request:
    """Checks the options. Raises ``Usage`` or ``BadArg`` if they are wrong."""
    parsed = _parsed(patterns)
    if options.get("--output") == "-":
        raise Usage("--output: lines go to standard error without it; write ./- for a file of that name")
    request = Request(
        parsed,
        _spec(options),
        number(options.get("--limit"), "--limit", "messages"),
        _rate(options.get("--rate")),
        "--time" in options,
        absolute(options.get("--output"), "--output", dash=False),
    )
    limited = request.limit is not None or request.rate is not None
    if ("_", "_", "_") in parsed and not limited:
        raise Usage("--pattern: '_' traces everything; say how much of it with --limit or --rate")
    return request


def _rate(text: str | None) -> Rate | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})(?:/([0-9]{0,9})(s|ms))?", text)
    most, every = (int(found[1]), int(found[2] or 1)) if found else (0, 0)
    if not found or not most or not every:
        raise Usage(f"--rate: {text!r} is not a rate; give messages in a time, such as 100/s or 10/100ms")
    return most, every if found[3] == "ms" else every * 1000


def _spec(options: dict[str, str]) -> list[Any]:
    """The match specification from all options; empty to trace every call."""
    text = options.get("--ms")
    actions: list[Any] = []
    if "--exceptions" in options:
        actions.append(("exception_trace",))
    elif "--return" in options:
        actions.append(("return_trace",))
    if "--caller" in options:
        actions.append(("message", ("caller_line",)))
    spec = [("_", [], [])] if text is None else _written(text.strip())
    try:
        compiled("trace", spec, "call")
        made = [(head, guards, [*body, *actions]) for head, guards, body in spec]
        compiled("trace", made, "call")
    except BadArg as wrong:
        raise Usage(f"--ms: {wrong.why}") from None
    except RuntimeError as wrong:
        raise Usage(f"--ms: {wrong}") from None
    return made if text is not None or actions else []


def _written(text: str) -> list[Any]:
    if text in BUILT_IN:
        found = BUILT_IN[text]
        return BUILT_IN[found] if isinstance(found, str) else found  # type: ignore[no-any-return]
    try:
        if text.startswith("lambda"):
            return ms(text)
        spec = read(text)
    except BadArg as wrong:
        raise Usage(f"--ms: {wrong.why}") from None
    except NotLiteral as wrong:
        raise Usage(f"--ms: {wrong}; or write a lambda") from None
    if not isinstance(spec, list) or not spec:
        raise Usage(f"--ms: {text!r} is not a match specification; write [(head, guards, body)], or a lambda")
    return spec


class TracedRun:
    """The tracing of one run, from before the program's first line until after its last."""

    def __init__(self, request: Request, config: dict[str, Any] | None) -> None:
        self._request = request
        self._config = config
        """The configuration for children; None if they are not traced."""
        self._children: Leader | None = None
        self._process = os.getpid()
        self._tracing: tracing.Tracing | None = None
        self._output: Descriptor | None = None
        self._port: Any = None
        self._reader: Reader | None = None
        self._paint: Paint = plain
        self._is_over = False
        """Whether tracing ended before the program. Then missing children are not reported."""

    def prepare(self) -> None:
        """Finds problems before a long run, and raises ``CannotBegin`` for them."""
        path = self._request.output
        try:
            if self._request.is_log:
                self._port = open_log(path)
            elif path is not None:
                self._output = of_file(path)
            else:
                self._output = _stderr()
        except OSError as error:
            mend = "; start who reads the pipe before" if error.errno == errno.ENXIO else ""
            raise CannotBegin(f"{path}: {error.strerror or reason(error)}{mend}") from error
        except BadArg as error:  # a pipe
            raise CannotBegin(f"--output: {error.why}") from error
        if path is None and self._output is not None and wants_color(self._output.number):
            self._paint = color
        atexit.register(self._finish)
        _fork.rest(self._pause, self._resume, lambda: self._reader is not None)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        if self._config is not None and (self._port is not None or self._output is not None):
            self._children = lead({**self._config, "color": self._paint is color})
            self._children.at_exit(self._finish)

    def begin(self) -> None:
        """Begins tracing."""
        request = self._request
        if self._port is None and self._output is None:
            return  # there is no output
        has_time = request.time or (self._children is not None and self._port is None)
        make = timed if request.time else line
        try:
            self._tracing = traced = tracing.begin(
                NAME,
                self._port or self._line_of(make),
                processes={"all": ["call", "timestamp"] if has_time else ["call"]},
                patterns=request.patterns,
                match_spec=request.spec or True,
                limit=request.limit,
                rate=request.rate,
                lost=LOST,
                drained=self._port is None,
                output=self._output,
                notice=self._report_end,
            )
        except RuntimeError as error:
            raise CannotBegin(str(error)) from error
        if self._output is not None:
            others = None if self._children is None else Others(self._children.folder)
            self._reader = Reader(traced, others, request.time)
            self._reader.start()

    def _line_of(self, make: Callable[[Any, Paint], str | None]) -> Callable[[Any], str | None]:
        """The tracer function, which makes the line of a message. Lines of children are made already."""
        paint = self._paint
        return lambda message: message.text if type(message) is ChildLine else make(message, paint)

    def cancel(self) -> None:
        """Ends tracing: there is no program after all."""
        self._end([])
        if self._children is not None:
            self._children.cancel()

    def _finish(self) -> None:
        if os.getpid() == self._process:
            self._end(self._request.patterns)

    def _end(self, patterns: list[Pattern]) -> None:
        """Ends tracing, and reports those of ``patterns`` that matched no function."""
        reader, self._reader = self._reader, None
        outcome = self._children.outcome() if self._children is not None and patterns else None
        if reader is not None:
            reader.finish()
        traced, self._tracing = self._tracing, None
        called = set() if reader is None else reader.called
        idle = [] if traced is None or not traced.session.is_alive() else _idle(traced.session, patterns, called)
        if outcome is not None:
            idle = [pattern for pattern in idle if not outcome_has(outcome, patterns.index(pattern), pattern)]
        if traced is not None:
            traced.end("program" if patterns else "asked")
            self._is_over = traced.ended is not None and traced.ended.by_itself
        elif self._output is not None:
            self._output.finish(PATIENCE)
        elif self._port is not None:
            self._port.close()
        self._output = self._port = None
        # without all calls (a log, or a match specification) it isn't known whether a function was there and is gone
        still = "" if reader is not None and not self._request.spec else " that is there at the end"
        for pattern in idle:
            near = hint(pattern)
            self._note(f"*** {NAME}: {show(pattern)} matches no function{still}{'; ' * bool(near)}{near or '.'}")
        if self._request.spec and (unseen := greenlets_unseen()):
            self._note(f"*** {NAME}: {unseen}.")
        if outcome is not None and self._children is not None:
            self._children.cancel()
            self._note_children(outcome)

    def _note_children(self, outcome: Outcome) -> None:
        logs = [pid for _, pid, results in outcome.measured if any(result.get("log") for result in results)]
        if logs and self._request.output is not None:
            names = ", ".join(log_of(os.path.basename(self._request.output), pid) for pid in logs)
            self._note(f"*** {NAME}: logs of child processes, beside the program's: {names}.")
        if not self._is_over and (sentence := outcome.sentence()):
            self._note(f"*** {NAME}: {sentence}")

    def _note(self, text: str) -> None:
        """Prints a note of the end on standard error."""
        _note(self._paint("note", text))

    def _report_end(self, text: str, is_failure: bool) -> None:
        if self._output is not None and not is_failure:
            self._output.write(self._paint("note", text), last=True)
        elif self._request.output is not None:
            self._note(text)

    def _pause(self) -> None:
        if (reader := self._reader) is not None:
            reader.pause()

    def _resume(self) -> None:
        if (reader := self._reader) is not None:
            reader.start()

    def _forget(self) -> None:
        """Resets the state in a forked child, which has no session. The output resets itself."""
        self._reader = self._tracing = self._output = self._port = self._children = None


class Reader:
    """Takes the messages of a session and handles them, in a thread."""

    def __init__(self, traced: tracing.Tracing, others: Others | None, has_time: bool) -> None:
        self._others = others
        self._has_time = has_time
        self._tracing = traced
        self._thread = Timer(self._step)
        self.called: set[tuple[str, str, int]] = set()
        """Functions whose calls gave messages."""

    def start(self) -> None:
        """Starts the thread, or starts it again after a pause."""
        if self._tracing.ended is None:
            self._thread.start(EVERY)

    def pause(self) -> None:
        """Ends the thread; messages wait for the next one."""
        self._thread.stop()

    def finish(self) -> None:
        """Ends the thread and handles the remaining messages."""
        self._thread.end()
        self._read(last=True)

    def _step(self) -> float | None:
        self._read()
        return EVERY if self._tracing.ended is None else None

    def _read(self, *, last: bool = False) -> None:
        others, messages = self._others, self._tracing.session.drain()
        if others is not None:
            messages = others.among(messages, has_time=self._has_time, last=last)
        for message in messages:
            self._tracing.handle(message)
            match message:
                case (_, _, "call", (str(module), str(function), list(arguments)), *_):
                    self.called.add((module, function, len(arguments)))
        if others is not None and self._tracing.ended is not None:
            others.stop()


def outcome_has(outcome: Outcome, at: int, pattern: Pattern) -> bool:
    """Whether a child has, or has called, functions that match a pattern, which has the number ``at``."""
    for _, _, results in outcome.measured:
        for result in results:
            if at in result["matched"] or any(matches(pattern, *function) for function in result.get("called", ())):
                return True
    return False


def _idle(session: trace.Session, patterns: list[Pattern], called: set[tuple[str, str, int]]) -> list[Pattern]:
    """The patterns that match no function that is loaded now or was called."""
    found = [session.function(pattern, False, ["local"]) for pattern in patterns]
    return [
        pattern
        for pattern, number in zip(patterns, found, strict=True)
        if not number and not any(matches(pattern, *function) for function in called)
    ]


def _stderr() -> Descriptor | None:
    """The standard error output; None without one, or without a reader."""
    number = stderr()
    try:
        return None if number is None else Descriptor(number)
    except OSError:
        return None


def _note(text: str) -> None:
    output = _stderr()
    if output is not None:
        with contextlib.suppress(tracing.Gone):
            output.write(text, last=True)
        output.finish(PATIENCE)


def open_log(path: str | None) -> Any:
    return trace_port("file", path)()


def timed(message: Any, paint: Paint) -> str | None:
    """A line that begins with the time of day, in place of the timestamp."""
    match message:
        case ("trace_ts", *rest, (int(mega), int(seconds), int(micro))):
            clock = time.strftime("%H:%M:%S", time.localtime(mega * 1_000_000 + seconds))
            return f"{paint('time', f'{clock}.{micro:06}')} {line(('trace', *rest), paint)}"
    return line(message, paint)


_COLORS = {
    "who": "2", "tag": "36", "call": "1", "return": "32", "exception": "31", "message": "33", "time": "2",
    "note": "1;33",
}  # fmt: skip


def color(kind: str, text: str) -> str:
    """The text with the terminal's codes for its kind."""
    code = _COLORS.get(kind)
    return text if code is None else f"\x1b[{code}m{text}\x1b[0m"
