"""Profiles with child processes: the measuring in a child, and merging its results into the leader's profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inviso._children import MAIN, MAIN_OF_CHILD, Outcome, of_child

from ._merge import together
from ._model import Calls, ChildProcess, Function, Node, Profile
from ._profiler import Profiler

__all__ = ["Measuring", "merged"]


class Measuring:
    """The measuring in a child, for ``inviso tprof`` and for profiles with ``children=True``."""

    __slots__ = ("_patterns", "_profiler", "_tree", "_type")

    def __init__(self, config: dict[str, Any]) -> None:
        self._type = config["type"]
        self._tree = config["tree"]
        self._patterns = of_child([tuple(pattern) for pattern in config["patterns"]])
        self._profiler: Profiler | None = None

    def begin(self) -> None:
        """Measures from zero."""
        self._profiler = profiler = Profiler(type=self._type, tree=self._tree)
        try:
            if self._type != "call_count":
                profiler.enable_trace("all", set_on_spawn=True)
            profiler.set_pattern(list(self._patterns))
        except RuntimeError:
            profiler.stop()
            raise

    def read(self, *, last: bool) -> dict[str, Any]:
        """The results so far as plain data."""
        profiler = self._profiler
        assert profiler is not None
        if last:
            profiler.pause()
        profile = profiler.collect()
        rows = [
            (f.module, f.function, f.arity, f.filename, f.line, [_plain(calls) for calls in f.processes])
            for f in profile.functions
        ]
        nodes = [(node.parent, node.function, [_plain(calls) for calls in node.processes]) for node in profile.nodes]
        return {"functions": rows, "nodes": nodes}

    def pause(self) -> None:
        """Does nothing before a fork: there is no thread to stop."""

    def resume(self) -> None:
        """Does nothing after a fork."""


def _plain(calls: Calls) -> tuple[tuple[str, str, str] | None, int, int, int]:
    process = calls.process
    named = None if process is None else (repr(process), str(process.kind), str(process.name or ""))
    return named, calls.calls, calls.measurement, calls.waiting


def merged(profile: Profile, outcome: Outcome) -> Profile:
    """The profile of all processes. Two functions are the same if module, name, arity, file and line are equal."""
    runs = [profile]
    for name, pid, results in outcome.measured:
        runs += [_of_child(profile, name, int(pid), result) for result in results]
    functions, nodes = together(runs)
    return replace(profile, functions=functions, nodes=nodes, children=outcome.number, missing=outcome.sentence())


def _of_child(profile: Profile, name: str, os_pid: int, result: dict[str, Any]) -> Profile:
    def calls(each: list[Any]) -> tuple[Calls, ...]:
        return tuple(
            Calls(None if process is None else ChildProcess(os_pid, name, *process), calls, measurement, None, waiting)
            for process, calls, measurement, waiting in each
        )

    functions = tuple(
        Function(MAIN if module == MAIN_OF_CHILD else module, function, arity, filename, line, calls(each))
        for module, function, arity, filename, line, each in result["functions"]
    )
    nodes = tuple(Node(parent, function, calls(each)) for parent, function, each in result["nodes"])
    return replace(profile, functions=functions, nodes=nodes)
