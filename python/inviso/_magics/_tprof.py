"""``%%tprof``: calls, own time and own memory of each function."""

from __future__ import annotations

import dataclasses
from time import perf_counter
from typing import Any

import inviso
from inviso import tprof
from inviso._pattern import ANY
from inviso._table import Table
from inviso.tprof import Calls, CallType, Profile, Profiler
from inviso.tprof._model import BYTES_OF_A_WORD

from ._machinery import MACHINERY
from ._options import Options, from_setting, patterns_of
from ._rows import Namer

__all__ = ["Look", "options"]

_HELP = """\
Measures each function that the cell calls: the number of calls, and its own time or memory.

As by `inviso tprof`, every function is measured but those of IPython and of inviso, whose time counts for their
callers. The setting patterns selects other functions, as -p does. -p __main__ measures the functions of the notebook,
and adds the time of all others to them; that is faster. The thread or task of the cell is measured, and the threads and
tasks that it starts, but not child processes. <module> is the cell's own code.
"""

_TYPES = ("call_count", "call_time", "call_memory")


def options() -> Options:
    """The options of ``%%tprof``."""
    made = Options("tprof", _HELP)
    made.value(
        "-t", "--type", choices=_TYPES, setting="type", default="call_time",
        help="what is measured (default: the setting type, or call_time)",
    )  # fmt: skip
    made.value(
        "-p", "--pattern", action="append", setting="patterns", default=(ANY,), metavar="PATTERN",
        help="functions: module, module:function, package.** or _ for all (default: the setting patterns, or _); may "
             "be given again",
    )  # fmt: skip
    made.flag("--per-process", "a row for each function in each thread and task")
    made.flag("--flame", "draw who called whom, and for how long, below the table")
    return made.finish()


class Look:
    """A measurement."""

    def __init__(self, options: Any) -> None:
        self._given, self._from = options.pattern, from_setting(options)
        self._patterns = patterns_of("tprof", self._given)
        self._type = options.type
        self._per_process = options.per_process
        self._limit, self._with_flame = options.limit, options.flame
        self._profiler: Profiler | None = None
        self._profile: Profile | None = None
        self._name = Namer(inviso.self())
        self._begun = self._seconds = 0.0

    def begin(self) -> None:
        """Begins in the running process."""
        # call_count would also count in the threads of IPython; call_time counts in the given processes only
        kind: CallType = "call_time" if self._type == "call_count" else self._type
        self._profiler = profiler = Profiler(type=kind, name="%%tprof", tree=self._with_flame)
        profiler.set_pattern(list(self._patterns))
        if (ANY, ANY, ANY) in self._patterns:
            profiler.clear_pattern([f"{package}.**" for package in MACHINERY])
        self._name = Namer(cell := inviso.self())
        profiler.enable_trace(cell)
        self._begun = perf_counter()

    def end(self) -> None:
        """Ends, and collects the measurements."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        try:
            self._seconds = perf_counter() - self._begun
            profiler.disable_trace("all")
            self._profile = profiler.collect(view="process" if self._per_process else "total")
        finally:
            profiler.stop()

    def result(self) -> Profile:
        """The profile, of the requested type."""
        assert self._profile is not None
        if self._type != "call_count":
            return self._profile
        functions = [
            dataclasses.replace(f, processes=(Calls(None, f.calls, f.calls),)) for f in self._profile.functions
        ]
        return dataclasses.replace(self._profile, type="call_count", functions=tuple(functions))

    def table(self, result: Profile) -> Table:
        """The largest rows of all processes, or of each, the largest first."""
        sections = tprof.inspect(result, "process" if self._per_process else "total").values()
        rows = [(section.process, row) for section in sections for row in section.rows]
        rows.sort(key=lambda item: -item[1].measurement)
        total = result.measurement
        header = ["function", "calls", *_MEASURES[result.type], "%"]
        per_process = self._per_process and result.type != "call_count"
        cells = [
            (
                *([self._name(process)] if per_process else []),
                row.label,
                f"{row.calls:,}",
                *_measures(result.type, row.measurement, row.calls),
                f"{100 * row.measurement / total if total else 0:.1f}",
            )
            for process, row in rows
        ]
        functions = f"{len(result.functions):,} function{'s' * (len(result.functions) != 1)}"
        calls = f"{result.calls:,} call{'s' * (result.calls != 1)}"
        note = f"{result.type}: {functions}, {calls}, {self._seconds:.3f} s"
        if not cells:
            note = tprof.format(result).rstrip("\n")
        return Table(
            (*(["process"] if per_process else []), *header), cells, (note, *self._scope(result)), self._limit,
            numbers=tuple(header[1:]),
        )  # fmt: skip

    def picture(self, result: Profile) -> Any:
        """A flame graph, if an option asks for it."""
        return self._profile.flame() if self._with_flame and self._profile is not None else None

    def _scope(self, result: Profile) -> list[str]:
        if (ANY, ANY, ANY) in self._patterns:
            return []
        what = "memory" if result.type == "call_memory" else "time"
        others = "" if result.type == "call_count" else f"; the {what} of other functions is their callers'"
        return [f"measured: {', '.join(self._given)}{self._from}{others}"]


_MEASURES = {
    "call_count": [],
    "call_time": ["own ms", "own us per call"],
    "call_memory": ["own bytes", "bytes per call"],
}


def _measures(kind: str, measurement: int, calls: int) -> list[str]:
    each = measurement / calls if calls else 0.0
    if kind == "call_time":
        return [f"{measurement / 1e6:,.3f}", f"{each / 1e3:,.2f}"]
    return [f"{measurement * BYTES_OF_A_WORD:,}", f"{each * BYTES_OF_A_WORD:,.1f}"] if kind == "call_memory" else []
