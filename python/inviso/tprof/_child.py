"""A profile of several processes: what a child measures, and how that comes to the leader's profile."""

from __future__ import annotations

from dataclasses import replace
from posixpath import normpath
from typing import Any

from inviso._children import MAIN, MAIN_OF_CHILD, Outcome, of_child

from ._model import Calls, ChildProcess, Function, Profile
from ._profiler import Profiler

__all__ = ["Measuring", "merged"]

class Measuring:
    """What a child measures for ``inviso tprof``, or a profiler with ``children=True``."""

    __slots__ = ("_patterns", "_profiler", "_type")

    def __init__(self, config: dict[str, Any]) -> None:
        self._type = config["type"]
        self._patterns = of_child([tuple(pattern) for pattern in config["patterns"]])
        self._profiler: Profiler | None = None

    def begin(self) -> None:
        """Measure from zero."""
        self._profiler = profiler = Profiler(type=self._type)
        try:
            if self._type != "call_count":
                profiler.enable_trace("all", set_on_spawn=True)
            profiler.set_pattern(list(self._patterns))
        except RuntimeError:
            profiler.stop()
            raise

    def read(self, *, last: bool) -> dict[str, Any]:
        """What was measured, in plain data."""
        profiler = self._profiler
        assert profiler is not None
        if last:
            profiler.pause()
        profile = profiler.collect()
        rows = [
            (f.module, f.function, f.arity, f.filename, f.line, [_plain(calls) for calls in f.processes])
            for f in profile.functions
        ]
        return {"functions": rows}

    def pause(self) -> None:
        """A fork comes; no thread belongs to this."""

    def resume(self) -> None:
        """It's over."""


def _plain(calls: Calls) -> tuple[tuple[str, str, str] | None, int, int]:
    process = calls.process
    named = None if process is None else (repr(process), str(process.kind), str(process.name or ""))
    return named, calls.calls, calls.measurement


def merged(profile: Profile, outcome: Outcome) -> Profile:
    """The profile of all processes. Functions are the same by module, name, arity, file and line."""
    rows: dict[tuple[str, str, int, str, int], Function] = {
        (*f.mfa, normpath(f.filename), f.line): f for f in profile.functions
    }
    for name, pid, results in outcome.measured:
        for result in results:
            for module, function, arity, filename, line, processes in result["functions"]:
                module = MAIN if module == MAIN_OF_CHILD else module
                key = module, function, arity, normpath(filename), line
                more = tuple(_calls(name, int(pid), *each) for each in processes)
                known = rows.get(key)
                if known is None:
                    rows[key] = Function(module, function, arity, filename, line, more)
                else:
                    rows[key] = replace(known, processes=_together(known.processes + more))
    functions = tuple(rows[key] for key in sorted(rows))
    return replace(profile, functions=functions, children=outcome.number, missing=outcome.sentence())


def _calls(name: str, os_pid: int, process: tuple[str, str, str] | None, calls: int, measurement: int) -> Calls:
    return Calls(None if process is None else ChildProcess(os_pid, name, *process), calls, measurement)


def _together(each: tuple[Calls, ...]) -> tuple[Calls, ...]:
    """One entry for each process, in order."""
    sums: dict[Any, Calls] = {}
    for more in each:
        known = sums.get(more.process, Calls(more.process, 0, 0))
        sums[more.process] = Calls(more.process, known.calls + more.calls, known.measurement + more.measurement)
    return tuple(sums.values())
