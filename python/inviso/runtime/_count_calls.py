"""Requests of a runtime component that concern counters of functions."""

from __future__ import annotations

from typing import Any

from inviso import tprof
from inviso._pattern import parse
from inviso.terms import Atom

from ._arguments import check_list
from ._live_counts import LiveCounts

__all__ = ["CountCalls"]

OK, ERROR = Atom("ok"), Atom("error")

MOST = 10_000
"""Functions that an answer has at most."""


class CountCalls:
    """The requests that concern counters; a part of the component."""

    live: LiveCounts
    """The counters of a live view."""

    _profiler: tprof.Profiler | None = None
    """The profiler of the request ``count``."""

    def do_count(self, kind: Any, mfas: Any) -> Any:
        """Measures functions from now on, in a session of its own. Returns how many match now."""
        check_list("count", "mfas", mfas)
        functions = parse([tuple(mfa) if isinstance(mfa, list) else mfa for mfa in mfas], "count, mfas")
        profiler = tprof.Profiler(type=kind, name="inviso counts", trace="all")
        if self._profiler is not None:
            self._profiler.stop()
        self._profiler = profiler
        return OK, profiler.set_pattern([*functions])

    def do_counts(self) -> Any:
        """The measurements: module, function, arity, calls, measurement; the largest first."""
        if self._profiler is None:
            return ERROR, Atom("not_counting")
        found = sorted(self._profiler.collect().functions, key=lambda one: (-one.measurement, one.mfa))
        return OK, [(*one.mfa, one.calls, one.measurement) for one in found[:MOST]]

    def do_count_live(self, kind: Any, patterns: Any, messages: Any) -> Any:
        """Counts these functions, and perhaps messages, while the control stays. Returns how many functions are new."""
        return OK, self.live.set(kind, patterns, messages=messages)

    @property
    def profiler(self) -> tprof.Profiler | None:
        """The profiler that counts now: a live view's, else that of the request ``count``."""
        return self.live.profiler or self._profiler

    def _stop_counts(self) -> None:
        if self._profiler is not None:
            self._profiler.stop()
        self.live.stop()
