"""Tools of others, each with its default settings. Tools that are not installed are left out."""

from __future__ import annotations

import cProfile
import functools
import importlib
import io
import os
import tempfile
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

from .. import programs
from ..subjects import Subject
from . import Happened, Missing, Tool, Wrong, want

_SMALL = "calls", "methods"
_PLAIN = "calls", "methods", "documents", "tasks"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.split(".")[0]
        raise Missing(f"{package} is not installed: python -m pip install -r benches/python/requirements.txt") from None


@dataclass
class CProfile(Tool):
    """The standard library's profiler.

    Attributes:
        builtins: whether it times C functions, too.
    """

    builtins: bool = True
    _profile: Any = None

    def start(self, subject: Subject) -> None:
        self._profile = cProfile.Profile(builtins=self.builtins)
        self._profile.enable()

    def stop(self, subject: Subject) -> None:
        self._profile.disable()

    def check(self, happened: Happened) -> None:
        code = happened.subject.hot.__code__
        calls = sum(entry.callcount for entry in self._profile.getstats() if entry.code is code)
        want("calls of the hot function", calls, happened.hot)


@dataclass
class Yappi(Tool):
    """yappi with its wall clock, without C functions."""

    _calls: int = 0

    def ready(self, subject: Subject) -> None:
        _module("yappi")

    def start(self, subject: Subject) -> None:
        yappi = _module("yappi")
        yappi.set_clock_type("wall")
        yappi.start(builtins=False)

    def stop(self, subject: Subject) -> None:
        yappi = _module("yappi")
        yappi.stop()
        code = subject.hot.__code__
        place = (code.co_filename, code.co_firstlineno)
        self._calls = sum(stat.ncall for stat in yappi.get_func_stats() if (stat.module, stat.lineno) == place)
        yappi.clear_stats()

    def check(self, happened: Happened) -> None:
        want("calls of the hot function", self._calls, happened.hot)


@dataclass
class VizTracer(Tool):
    """viztracer; its data are read after the small run only, because its buffer wraps in a whole one."""

    options: dict[str, Any] = field(default_factory=dict)
    _tracer: Any = None

    def ready(self, subject: Subject) -> None:
        viztracer = _module("viztracer")
        self._tracer = viztracer.VizTracer(
            verbose=0, output_file=os.path.join(tempfile.gettempdir(), "unwritten.json"), **self.options
        )

    def start(self, subject: Subject) -> None:
        self._tracer.clear()
        self._tracer.start()

    def stop(self, subject: Subject) -> None:
        self._tracer.stop()

    def check(self, happened: Happened) -> None:
        if happened.runs:
            return
        self._tracer.parse()
        code = happened.subject.hot.__code__
        mark = f"({code.co_filename}:{code.co_firstlineno})"
        events = [event for event in self._tracer.data["traceEvents"] if mark in event["name"]]
        want("events of the hot function", len(events), happened.hot)
        if self.options.get("log_func_args") and any("func_args" not in event["args"] for event in events):
            raise Wrong("an event has no arguments")


@dataclass
class TraceMalloc(Tool):
    """The standard library's record of allocations and their places."""

    _peak: int = 0

    def start(self, subject: Subject) -> None:
        tracemalloc.start(1)

    def stop(self, subject: Subject) -> None:
        self._peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    def check(self, happened: Happened) -> None:
        if self._peak < 300 * 500 * (happened.subject.name == "allocations"):
            raise Wrong(f"a peak of {self._peak} bytes is too low")


@dataclass
class TprofOfPypi(Tool):
    """PyPI's tprof, which times chosen functions."""

    _context: Any = None
    _results: Any = None

    def ready(self, subject: Subject) -> None:
        api = _module("tprof.api")
        console = _module("rich.console")
        api.console = console.Console(file=io.StringIO())  # it prints a table at each end

    def start(self, subject: Subject) -> None:
        self._context = _module("tprof").tprof(subject.hot)
        self._results = self._context.__enter__()

    def stop(self, subject: Subject) -> None:
        self._context.__exit__(None, None, None)

    def check(self, happened: Happened) -> None:
        want("calls of the hot function", [result.calls for result in self._results], [happened.hot])


@dataclass
class Wrapper(Tool):
    """A wrapper written by hand: it counts the calls of the function."""

    _count: list[int] = field(default_factory=list)

    def start(self, subject: Subject) -> None:
        hot, count = subject.hot, [0]

        @functools.wraps(hot)
        def counted(*args: Any, **named: Any) -> Any:
            count[0] += 1
            return hot(*args, **named)

        self._count = count
        setattr(subject.owner, hot.__name__, counted)

    def stop(self, subject: Subject) -> None:
        setattr(subject.owner, subject.hot.__name__, subject.hot)

    def check(self, happened: Happened) -> None:
        want("calls of the hot function", self._count[0], happened.hot)


@dataclass
class Predicate(Wrapper):
    """A wrapper written by hand: it looks at the argument of the function, and counts calls."""

    def start(self, subject: Subject) -> None:
        hot, count, seen = subject.hot, [0], []

        @functools.wraps(hot)
        def asked(value: Any) -> Any:
            count[0] += 1
            if value > 1000:
                seen.append(value)
            return hot(value)

        self._count = count
        setattr(subject.owner, hot.__name__, asked)


def tools() -> list[Tool]:
    """The peers."""
    no_c = {"ignore_c_function": True, "log_func_args": True}
    return [
        CProfile("cprofile", "the standard library's cProfile", _PLAIN),
        CProfile("cprofile_python", "cProfile without C functions", programs.NAMES, builtins=False),
        Yappi("yappi", "yappi, wall clock, no C functions", _PLAIN),
        VizTracer("viztracer", "viztracer as it comes", _PLAIN),
        VizTracer(
            "viztracer_python", "viztracer without C functions", programs.NAMES, options={"ignore_c_function": True}
        ),
        VizTracer("viztracer_args", "viztracer with arguments, no C functions", _SMALL, options=no_c),
        TraceMalloc("tracemalloc", "the standard library's tracemalloc, one frame", ("allocations",)),
        TprofOfPypi("tprof_pypi", "PyPI's tprof on one function", ("methods", "documents"), True),
        Wrapper("wrapper", "a counting wrapper by hand on one function", ("methods", "documents"), True),
        Predicate("predicate", "a wrapper by hand that counts and compares", ("calls",), True),
    ]
