"""The limits: the costs of the interpreter's own callbacks with the least possible work (``limits/limits.c``)."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..limits.build import CannotBuild, build
from ..subjects import Subject
from . import Happened, Missing, Tool, Wrong, want

_monitoring: Any = getattr(sys, "monitoring", None)  # from 3.12 on
_TOOL_ID = 4  # an identifier without a meaning for CPython
_COUNTS = "calls", "methods", "documents", "tasks", "allocations"


def _extension() -> ModuleType:
    try:
        folder = str(build())
    except CannotBuild as error:
        raise Missing(f"limits can't be built: {error}") from None
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("_limits")


@dataclass
class Limit(Tool):
    """Callbacks of sys.monitoring for all functions: event names to names in the extension."""

    events: tuple[tuple[str, str], ...] = ()
    bytes: bool = False
    drained: bool = False
    _limits: Any = None
    _before: tuple[int, ...] = ()
    _seen: tuple[int, ...] = ()

    def ready(self, subject: Subject) -> None:
        self._limits = _extension()
        for _, callback in self.events:
            if not hasattr(self._limits, callback):
                raise Missing("limits was built without the interpreter's internal headers")

    def start(self, subject: Subject) -> None:
        monitoring, limits = _monitoring, self._limits
        limits.forget()
        self._before = (*limits.seen(subject.hot.__code__), *limits.rings())
        if self.bytes:
            limits.count_bytes(True)
        if self.drained:
            limits.read_rings(True)
        monitoring.use_tool_id(_TOOL_ID, "limits")
        every = 0
        for name, callback in self.events:
            event = getattr(monitoring.events, name)
            monitoring.register_callback(_TOOL_ID, event, getattr(limits, callback))
            every |= event
        monitoring.set_events(_TOOL_ID, every)

    def stop(self, subject: Subject) -> None:
        monitoring, limits = _monitoring, self._limits
        monitoring.set_events(_TOOL_ID, 0)
        for name, _ in self.events:
            monitoring.register_callback(_TOOL_ID, getattr(monitoring.events, name), None)
        monitoring.free_tool_id(_TOOL_ID)
        if self.drained:
            limits.read_rings(False)
        if self.bytes:
            limits.count_bytes(False)
        after = (*limits.seen(subject.hot.__code__), *limits.rings())
        self._seen = tuple(now - then for now, then in zip(after, self._before, strict=True))

    def check(self, happened: Happened) -> None:
        calls, spent, asked, written, lost = self._seen
        rings = any(callback.startswith(("pair", "argument")) for _, callback in self.events)
        if not rings:
            want("calls of the hot function", calls, happened.hot)
        if self.bytes and happened.subject.name == "allocations" and asked < 500 * happened.hot:
            raise Wrong(f"{asked} bytes for {happened.hot} calls that ask for more")
        if any(callback.startswith("time") for _, callback in self.events) and spent <= 0:
            raise Wrong("no time was seen")
        if rings:
            self._check_ring(happened, written, lost)

    def _check_ring(self, happened: Happened, written: int, lost: int) -> None:
        self.told = {"written": written, "lost": lost}
        functions = sum(happened.exact.values())
        if written + lost < len(self.events) * functions:
            raise Wrong(f"{written} entries and {lost} lost are too few for {functions} calls")
        if happened.runs or written > self._limits.slots:
            return
        code = id(happened.subject.hot.__code__)
        entered = [value for event, address, value in self._limits.newest(written) if (event, address) == (1, code)]
        want("entries of the hot function", len(entered), happened.hot)
        if self.name == "limits.call_argument" and happened.subject.name == "calls":
            want("arguments of fib(14)", (entered[0], max(entered), min(entered)), (14, 14, 0))


@dataclass
class FrameLimit(Tool):
    """A frame evaluation function (PEP 523), on the Python that has no monitoring."""

    kind: str = "count"
    _limits: Any = None
    _before: int = 0
    _seen: int = 0

    def ready(self, subject: Subject) -> None:
        self._limits = _extension()
        if not hasattr(self._limits, "frames"):
            raise Missing("limits was built without the interpreter's internal headers")

    def start(self, subject: Subject) -> None:
        self._limits.forget()
        self._before = self._limits.seen(subject.hot.__code__)[0]
        self._limits.frames(self.kind)

    def stop(self, subject: Subject) -> None:
        self._limits.frames("off")
        self._seen = self._limits.seen(subject.hot.__code__)[0] - self._before

    def check(self, happened: Happened) -> None:
        want("calls of the hot function", self._seen, happened.hot)


def tools() -> list[Tool]:
    """The limits of this Python."""
    if _monitoring is None:
        return [
            FrameLimit("limits.eval_count", "one addition at a frame", kind="count"),
            FrameLimit("limits.eval_time", "own time by two clock reads a frame", kind="time"),
        ]
    start, end, unwind = "PY_START", "PY_RETURN", "PY_UNWIND"
    suspending = "documents", "tasks"
    time = ((start, "time_start"), (end, "time_end"), (unwind, "time_end"))
    time_six = (*time, ("PY_YIELD", "time_end"), ("PY_RESUME", "time_resume"), ("PY_THROW", "time_resume"))
    memory = ((start, "memory_start"), (end, "memory_end"))
    memory_six = (
        *memory, (unwind, "memory_end"),
        ("PY_YIELD", "memory_end"), ("PY_RESUME", "memory_resume"), ("PY_THROW", "memory_resume"),
    )  # fmt: skip
    pair = ((start, "pair_start"), (end, "pair_end"))
    return [
        Limit("limits.count", "one addition at a call", events=((start, "count"),)),
        Limit("limits.time_unwind", "own time by two clock reads a call", events=time),
        Limit("limits.time_six", "own time, by all six events of frames", suspending, events=time_six),
        Limit("limits.memory", "own bytes, by allocators that count", events=memory, bytes=True),
        Limit("limits.memory_six", "own bytes, by all six events of frames", suspending, events=memory_six, bytes=True),
        Limit(
            "limits.pair_drained",
            "32 bytes into a ring at call and return, read by a thread",
            events=pair,
            drained=True,
        ),
        Limit(
            "limits.call_argument", "32 bytes into a ring at a call, with an int", events=((start, "argument_start"),)
        ),
        Limit(
            "limits.filter",
            "a comparison of the first argument with an int",
            ("calls",),
            events=((start, "filter_start"),),
        ),
    ]
