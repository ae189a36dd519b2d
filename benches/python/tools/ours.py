"""inviso, job by job, through its public interface."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .. import programs, subjects
from ..subjects import Subject, mfa_of
from . import Happened, Missing, Tool, Wrong, want

_EVERY = ("_", "_", "_")
_SMALL = "calls", "methods"
_READ = (
    100  # counters that are read after each run: those of the most called functions, up to 5 ms each in a large program
)


def _inviso() -> Any:
    try:
        from inviso import trace
    except ImportError as error:
        raise Missing(f"inviso is not installed ({error}): python -m pip install .") from None
    return trace


@dataclass
class Imported(Tool):
    """The package is imported, and nothing else."""

    def ready(self, subject: Subject) -> None:
        _inviso()


@dataclass
class Unrelated(Tool):
    """A session that traces a function which the subject doesn't call."""

    _session: Any = None

    def ready(self, subject: Subject) -> None:
        _inviso()

    def start(self, subject: Subject) -> None:
        self._session = _inviso().session_create("unrelated")
        self._session.process("all", True, ["call"])
        mfa = mfa_of(subjects.unrelated)
        want("functions", self._session.function(mfa, True, ["local", "call_count", "call_time"]), 1)

    def stop(self, subject: Subject) -> None:
        subjects.unrelated(self)
        self.told = {"calls": self._session.info(mfa_of(subjects.unrelated), "call_count")[1]}
        self._session.destroy()

    def check(self, happened: Happened) -> None:
        want("calls of the unrelated function", self.told["calls"], 1)


@dataclass
class Counting(Tool):
    """Sessions that count something in every function, or in the hot one."""

    kind: str = "call_count"
    sessions: int = 1
    _open: list[Any] = field(default_factory=list)

    def ready(self, subject: Subject) -> None:
        _inviso()

    def start(self, subject: Subject) -> None:
        self._open = [_inviso().session_create(f"costs {n}") for n in range(self.sessions)]
        for session in self._open:
            if self.kind != "call_count":
                session.process("all", True, ["call"])
            if self.one:
                want("functions", session.function(mfa_of(subject.hot), True, [self.kind]), 1)
            else:
                session.function(_EVERY, True, [self.kind])
                session.function("on_load", True, [self.kind])

    def stop(self, subject: Subject) -> None:
        # `check` reads the counts; until then it counts no more.
        for session in self._open:
            session.function(mfa_of(subject.hot) if self.one else _EVERY, "pause", [self.kind])

    def check(self, happened: Happened) -> None:
        wanted = {mfa_of(happened.subject.hot): happened.hot}
        if not self.one:
            wanted |= Counter(happened.exact).most_common(_READ)
        try:
            for session in self._open:
                for mfa, calls in wanted.items():
                    want(f"{self.kind} of {mfa}", self._calls(session, mfa, happened), calls)
        finally:
            for session in self._open:
                session.destroy()

    def _calls(self, session: Any, mfa: subjects.Mfa, happened: Happened) -> int:
        value = session.info(mfa, self.kind)[1]
        if self.kind == "call_count":
            return int(value)
        if (
            self.kind == "call_memory"
            and happened.subject.name == "allocations"
            and mfa == mfa_of(happened.subject.hot)
        ):
            words = sum(words for _, _, words in value)
            if words * 8 < 500 * happened.hot:
                raise Wrong(f"{words} words for {happened.hot} calls that ask for more")
        return sum(entry[1] for entry in value)


@dataclass
class Tree(Tool):
    """A profiler of own time with a call tree, of every function."""

    _profiler: Any = None

    def ready(self, subject: Subject) -> None:
        _inviso()

    def start(self, subject: Subject) -> None:
        from inviso import tprof

        self._profiler = tprof.Profiler(type="call_time", tree=True)
        self._profiler.enable_trace("all", set_on_spawn=False)
        self._profiler.set_pattern("_")

    def stop(self, subject: Subject) -> None:
        self._profiler.pause()

    def check(self, happened: Happened) -> None:
        profile = self._profiler.collect()
        self._profiler.stop()
        calls: Counter[subjects.Mfa] = Counter()
        for f in profile.functions:
            calls[f.mfa] += f.calls
        for mfa, number in happened.exact.items():
            want(f"calls of {mfa} in the tree", calls[mfa], number)
        self.told = {"nodes": len(profile.nodes)}


@dataclass
class Messages(Tool):
    """A session with call messages of every function.

    Attributes:
        flags: of all processes.
        spec: the match spec of the functions; True for none.
        reader: the reader of messages while the subject runs: none (the ring keeps the newest), a thread that drains,
            or a callable tracer.
    """

    flags: tuple[str, ...] = ("call", "return_to", "arity")
    spec: Any = True
    reader: str = "nobody"
    _session: Any = None
    _thread: threading.Thread | None = None
    _enough: threading.Event = field(default_factory=threading.Event)
    _taken: Counter[str] = field(default_factory=Counter)
    _sample: list[Any] = field(default_factory=list)

    def ready(self, subject: Subject) -> None:
        _inviso()

    def start(self, subject: Subject) -> None:
        self._taken.clear()
        self._sample = []
        self._enough.clear()
        session = self._session = self._made()
        session.function(_EVERY, self.spec, ["local"])
        session.function("on_load", self.spec, ["local"])
        if self.reader == "thread":
            self._thread = threading.Thread(target=self._drain)
            self._thread.start()
        session.process("all", True, list(self.flags))
        if self._thread is not None:
            import inviso

            session.process(inviso.pid(self._thread), False, list(self.flags))

    def _made(self) -> Any:
        """A new session."""
        tracer = self._take if self.reader == "callable" else None
        return _inviso().session_create("costs", tracer, {"overflow": "overwrite"})

    def stop(self, subject: Subject) -> None:
        session = self._session
        session.process("all", False, list(self.flags))
        if self._thread is not None:
            self._enough.set()
            self._thread.join()
            self._thread = None
        if self.reader != "callable":
            for message in session.drain():
                self._take(message)
        elif not session.delivered().wait(60):
            raise Wrong("messages did not arrive within a minute")
        lost = session.info("session", "dropped")[1]
        self.told = {"taken": self._seen(), "lost": lost}
        session.destroy()

    def _seen(self) -> int:
        """Messages of calls and of their ends."""
        return sum(self._taken[tag] for tag in ("call", "return_to", "return_from", "exception_from"))

    def _drain(self) -> None:
        while not self._enough.wait(0.0005):
            for message in self._session.drain():
                self._take(message)

    def _take(self, message: Any) -> None:
        tag = message[2] if message[0] == "trace" else message[0]
        self._taken[tag] += 1
        if len(self._sample) < 20_000:
            self._sample.append(message)

    def _check_numbers(self, happened: Happened) -> None:
        calls = sum(happened.exact.values())
        ends = "return_to" in self.flags or self.spec is not True
        if self._seen() + self.told["lost"] < calls * (1 + ends):
            raise Wrong(f"{dict(self._taken)} and {self.told['lost']} lost are too few for {calls} calls")

    def check(self, happened: Happened) -> None:
        self._check_numbers(happened)
        if happened.runs or self.told["lost"]:
            return
        module, name, arity = mfa_of(happened.subject.hot)
        hot = [
            message[3]
            for message in self._sample
            if message[0] == "trace" and message[2] == "call" and message[3][:2] == (module, name)
        ]
        want("call messages of the hot function", len(hot), happened.hot)
        if "arity" in self.flags:
            want("arity", {mfa[2] for mfa in hot}, {arity})
        elif happened.subject.name == "calls":
            arguments = [mfa[2] for mfa in hot]
            want("arguments of fib(14)", (arguments[0], max(arguments), min(arguments)), ([14], [14], [0]))


@dataclass
class Written(Messages):
    """Messages that a trace port writes to a file; the log is counted after each run."""

    _folder: Any = None
    _port: Any = None
    _calls: Counter[subjects.Mfa] = field(default_factory=Counter)

    def _made(self) -> Any:
        from inviso.trace_ports import trace_port

        self._folder = tempfile.TemporaryDirectory()
        self._port = trace_port("file", self._path())()
        return _inviso().session_create("costs", self._port)

    def _path(self) -> str:
        return os.path.join(self._folder.name, "log")

    def stop(self, subject: Subject) -> None:
        from inviso import log

        self._session.process("all", False, list(self.flags))
        arrived = self._session.delivered().wait(60)
        self._session.destroy()  # closes the port
        stats = log.stats(self._path())
        self._taken.update(stats.tags)
        self._calls = stats.functions
        self.told = {"taken": self._seen(), "lost": self._port.dropped}
        self._folder.cleanup()
        if not arrived or self._port.errors:
            raise Wrong(f"{self._port.errors} writes failed, or messages did not arrive within a minute")

    def check(self, happened: Happened) -> None:
        self._check_numbers(happened)
        if not self.told["lost"]:
            want("logged calls of the hot function", self._calls[mfa_of(happened.subject.hot)], happened.hot)


@dataclass
class Filter(Tool):
    """A session whose match spec turns down every call of the hot function, by clauses that compare its argument.

    Attributes:
        clauses: how many clauses fail.
    """

    clauses: int = 1
    _session: Any = None

    def ready(self, subject: Subject) -> None:
        _inviso()

    def start(self, subject: Subject) -> None:
        session = self._session = _inviso().session_create("costs", None, {"overflow": "overwrite"})
        spec = [(["$1"], [(">", "$1", 1000 + n)], []) for n in range(self.clauses)]
        want("functions", session.function(mfa_of(subject.hot), spec, ["local", "call_count"]), 1)
        session.process("all", True, ["call", "arity"])

    def stop(self, subject: Subject) -> None:
        session = self._session
        self.told = {
            "calls": session.info(mfa_of(subject.hot), "call_count")[1],
            "sent": len(session.drain()),
        }
        session.destroy()

    def check(self, happened: Happened) -> None:
        want("calls of the hot function", self.told["calls"], happened.hot)
        want("messages", self.told["sent"], 0)


@dataclass
class Waiting(Imported):
    """A session that has been made and has set nothing."""

    _session: Any = None

    def start(self, subject: Subject) -> None:
        self._session = _inviso().session_create("idle")

    def stop(self, subject: Subject) -> None:
        self._session.destroy()


def tools() -> list[Tool]:
    """inviso's jobs."""
    frames = sys.version_info < (3, 12)
    count = "limits.eval_count" if frames else "limits.count"
    timed = "limits.eval_time" if frames else "limits.time_unwind"
    return [
        Imported("imported", "inviso imported"),
        Waiting("idle", "a session that traces nothing"),
        Unrelated("unrelated", "a session that traces another function"),
        Counting("count", "call_count of all functions", versus=(count, "cprofile", "cprofile_python")),
        Counting("count_2", "the same in two sessions", _SMALL, versus=("count",), sessions=2),
        Counting("count_3", "the same in three sessions", _SMALL, versus=("count",), sessions=3),
        Counting(
            "time",
            "call_time of all functions",
            versus=(timed, "limits.time_six", "cprofile", "cprofile_python", "yappi"),
            kind="call_time",
        ),
        Counting("time_2", "the same in two sessions", _SMALL, versus=("time",), kind="call_time", sessions=2),
        Counting("time_3", "the same in three sessions", _SMALL, versus=("time",), kind="call_time", sessions=3),
        Tree("time_tree", "call_time of all functions with a call tree", versus=("time",)),
        Counting(
            "memory",
            "call_memory of all functions",
            versus=("limits.memory", "limits.memory_six", "tracemalloc"),
            kind="call_memory",
        ),
        Messages(
            "messages",
            "call and return_to with arity, kept in the ring",
            versus=("limits.pair_drained", "viztracer", "viztracer_python"),
        ),
        Messages(
            "messages_read",
            "the same, drained by a thread",
            _SMALL,
            versus=("limits.pair_drained", "viztracer"),
            reader="thread",
        ),
        Messages(
            "messages_called",
            "the same, to a callable tracer",
            _SMALL,
            versus=("limits.pair_drained", "viztracer"),
            reader="callable",
        ),
        Messages(
            "arguments",
            "call with the arguments, kept in the ring",
            versus=("limits.call_argument", "viztracer_args"),
            flags=("call",),
        ),
        Messages(
            "exceptions",
            "call with arity and exception_trace, kept in the ring",
            programs.NAMES,
            versus=("messages",),
            flags=("call", "arity"),
            spec=[("_", [], [("exception_trace",)])],
        ),
        Written(
            "messages_file",
            "call and return_to with arity, written to a file",
            programs.NAMES,
            versus=("messages", "viztracer_python"),
        ),
        Counting("one_count", "call_count of one function", ("calls", "methods", "documents"), True, ("wrapper",)),
        Filter(
            "filter",
            "a match spec turns every call of one function down, which is counted besides",
            ("calls",),
            True,
            ("one_count", "limits.filter", "predicate"),
        ),
        Filter("filter_20", "the same after 20 clauses", ("calls",), True, ("one_count", "predicate"), clauses=20),
        Counting(
            "one_time", "call_time of one function", ("methods", "documents"), True, ("tprof_pypi",), kind="call_time"
        ),
    ]
