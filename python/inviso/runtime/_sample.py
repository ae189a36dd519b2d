"""Answers for a live view: the present state of this process's threads and tasks, counters, log and event loops.

Nothing runs between two answers. Expensive counts (ten thousand tasks) are reused for a while: making them takes at
most :data:`SHARE` of the time.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from inviso import tprof
from inviso._native.interpreter import event_loops
from inviso._native.mailbox import peek as mailbox_peek
from inviso._native.process import Pid, processes

from ._live_counts import LiveCounts
from ._loops import Loops

__all__ = ["MOST", "SHARE", "Sampler"]

SHARE = 0.01
"""The largest part of the time that reading counts may take."""

MOST = 1000
"""Rows of a kind that an answer has at most. The largest are kept."""

_NAME = 120

Owner = Any
Row = tuple[str, str, int, int, int | None]
"""A function: module, name, arity, calls, own time in nanoseconds (None if not measured)."""


class Source(Protocol):
    """The parts of a runtime component that a sample reads."""

    live: LiveCounts

    @property
    def profiler(self) -> tprof.Profiler | None:
        """The profiler that counts functions now."""

    @property
    def counts(self) -> tuple[int, int]:
        """Records that were written and lost since tracing began."""

    @property
    def both(self) -> tuple[Any, Any]:
        """State and status."""


class Sampler:
    """Makes answers. Its methods are called in one thread.

    >>> answer = Sampler().sample(None, None)
    >>> answer["state"], ("thread", "MainThread") in [row[1:3] for row in answer["counts"]["processes"]]
    (None, True)
    """

    def __init__(self) -> None:
        self._loops = Loops()
        self._counts: dict[str, Any] = {}
        self._own: dict[str, list[Row]] = {}
        """The functions of each process."""
        self._of: Any = None
        """The component, profiler and change number of the last counts."""
        self._again = 0
        """The time at which counts are read again, in nanoseconds."""

    def sample(self, component: Source | None, owner: Owner, process: Any = None) -> dict[str, Any]:
        """Totals since counting began. The difference of two samples gives rates.

        Args:
            component: the runtime component, or None.
            owner: the control that has it, or None.
            process: the text of a pid, to get the functions of that process, too; or None.

        Returns:
            A dict:

            ``at``: nanoseconds of a monotonic clock. ``state``: None, or state and status. ``control``: None, or node
            and process id. ``written``, ``lost``: records. ``lag``: milliseconds of the slowest event loop, None
            without a loop. ``kind``, ``patterns``: the kind of counter, and the counted functions. ``messages``:
            whether they are counted. ``own``: functions of ``process``. ``counts``: a dict with these keys:

            ``at``. ``processes``: tuples of pid, kind, name, length of the mailbox, messages sent, messages received,
            calls, nanoseconds; the last four are None if not counted. ``process_count``. ``queues``: tuples of pid,
            class, length. ``functions``: tuples of module, name, arity, calls, nanoseconds. ``total``,
            ``unattributed``: messages.
        """
        live = None if component is None else component.live
        profiler = None if component is None else component.profiler
        now = time.monotonic_ns()
        of = component, profiler, None if live is None else live.changes
        if now >= self._again or of != self._of:
            before = time.thread_time_ns()  # without the time of waiting for the interpreter
            self._counts = self._read(live, profiler)
            self._of = of
            self._again = now + int((time.thread_time_ns() - before) / SHARE)
        written, lost = (0, 0) if component is None else component.counts
        return {
            "at": now,
            "state": None if component is None else component.both,
            "control": None if owner is None else (owner.node, owner.pid),
            "written": written,
            "lost": lost,
            "lag": self._loops.lag() if event_loops() else None,
            "kind": None if profiler is None else profiler.type,
            "patterns": [] if profiler is None else [":".join(map(str, each)) for each in profiler.patterns],
            "messages": live is not None and live.messages is not None,
            "counts": self._counts,
            "own": self._own.get(process) if isinstance(process, str) else None,
        }

    def _read(self, live: LiveCounts | None, profiler: tprof.Profiler | None) -> dict[str, Any]:
        at = time.monotonic_ns()
        messages = None if live is None else live.messages
        if messages is not None:
            messages.take()
        functions, spent = self._functions(profiler)
        living = processes()
        if messages is not None:
            messages.keep({*living})
        rows = []
        for pid in living:
            sent = received = None
            if messages is not None:
                sent, received = messages.sent.get(pid, 0), messages.received.get(pid, 0)
            calls, took = spent.get(pid, (0, 0)) if spent is not None else (None, None)
            rows.append((str(pid), pid.kind, _name(pid), len(mailbox_peek(pid)), sent, received, calls, took))
        rows.sort(key=lambda row: (row[3] + (row[4] or 0) + (row[5] or 0), row[7] or 0), reverse=True)
        return {
            "at": at,
            "processes": rows[:MOST],
            "process_count": len(rows),
            "queues": [] if messages is None else messages.queues(),
            "functions": functions,
            "total": None if messages is None else messages.total,
            "unattributed": None if messages is None else messages.unattributed,
        }

    def _functions(self, profiler: tprof.Profiler | None) -> tuple[list[Row], dict[Pid, tuple[int, int]] | None]:
        """The functions with the largest counts, and calls and time of each process; None if not counted by process."""
        self._own = {}
        if profiler is None or not profiler.running:
            return [], None
        is_timed = profiler.type == "call_time"
        sums: dict[tuple[str, str, int], tuple[int, int]] = {}
        spent: dict[Pid, tuple[int, int]] = {}
        for function in profiler.collect().functions:
            calls, took = sums.get(function.mfa, (0, 0))
            sums[function.mfa] = calls + function.calls, took + function.measurement
            for each in function.processes if is_timed else ():
                if isinstance(each.process, Pid):
                    calls, took = spent.get(each.process, (0, 0))
                    spent[each.process] = calls + each.calls, took + each.measurement
                    self._own.setdefault(str(each.process), []).append((*function.mfa, each.calls, each.measurement))
        rows = [(*mfa, calls, took if is_timed else None) for mfa, (calls, took) in sums.items()]
        rows.sort(key=lambda row: row[4] or row[3], reverse=True)
        return rows[:MOST], spent if is_timed else None


def _name(pid: Pid) -> str:
    try:
        return pid.name[:_NAME]
    except Exception:  # a task's name can be an object of the program, whose code may raise
        return ""
