"""One profiler: its trace session, its patterns, and the sums of earlier windows.

The session has the counters. ``pause`` freezes them. ``continue_`` adds them to a sum in the profiler and sets the
patterns again: that starts the counters from zero and arms functions that were defined meanwhile. So a reading is
always *sum of earlier windows + counters*, and nothing is counted twice.

Functions that are defined after a pattern was set are armed by ``on_load``, if they match. A function may still be
armed by a pattern that a later setting overrides, so readings are filtered by the settings.
"""

from __future__ import annotations

from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from inviso import trace
from inviso._pattern import ANY, Pattern, PatternLike, covers, matches, outermost, parse
from inviso.errors import BadArg, shown
from inviso.trace import session_create
from inviso.trace._patterns import on_load

from ._check import bad, check_tree, one_of
from ._model import BYTES_OF_A_WORD, CALL_TYPES, SORTS, VIEWS, Calls, CallType, Function, Node, Profile, Sort, View
from ._nodes import Code, Place, Sums, made

if TYPE_CHECKING:
    import asyncio
    import threading

    from inviso import Pid

__all__ = ["Procs", "Profiler"]

Procs: TypeAlias = "str | Pid | threading.Thread | asyncio.Task[Any] | list[Any]"
"""``"all"``, ``"existing"``, ``"new"``, a process, or a list of processes."""

Key: TypeAlias = "tuple[str, str, int, str, int, Pid | None, int]"
"""A function, a process, and a place in the call tree, -1 without one."""

ErrorType: TypeAlias = "type[BaseException]"
OWN = "inviso"


class CounterSource(Protocol):
    """The calls of a session's native half that read all counters at once. ``trace.info`` reads one function's."""

    def counters(self, kind: str, /) -> list[tuple[str, str, int, str, int, Pid | None, int, int]]:
        """All counters of one kind, an entry for each code object and process: module, qualified name, arity, file,
        first line, process (None for call_count), calls, amount (nanoseconds for call_time, bytes for call_memory).
        """
        ...

    def keep_tree(self) -> None:
        """Counts by chains of callers, too. Called before a pattern is set."""
        ...

    def tree(self, kind: str, /) -> tuple[list[Code], list[Place], list[tuple[int, Pid, int, int, int]]]:
        """The call tree: codes, places, and figures: place, process, calls, amount, waiting (ns)."""
        ...


class Profiler:
    """A profiler with its own session; several profilers can run at the same time.

    Use it if ``profile`` does not fit: to measure a part of a program, or a program that runs already. ``stop``, or the
    end of the ``with`` block, removes all that it has set. ``call_time`` and ``call_memory`` measure the processes of
    ``enable_trace``, or of ``trace``; ``call_count`` counts in every process. With ``pattern`` measuring begins at
    once, as with ``set_pattern``. With ``tree`` the profile has a call tree: inclusive time or memory, callers, time of
    waiting.

    >>> from inviso import tprof
    >>> import textwrap
    >>> with tprof.Profiler(type="call_count") as profiler:
    ...     _ = profiler.set_pattern("textwrap")
    ...     _ = textwrap.dedent(" a")
    ...     result = profiler.collect()
    >>> result["textwrap:dedent/1"].calls
    1
    >>> with tprof.Profiler(type="call_time", pattern="textwrap", trace="all") as profiler:
    ...     _ = textwrap.dedent(" a")
    ...     profiler.collect()["textwrap:dedent/1"].calls
    1
    """

    __slots__ = ("_awaited", "_base", "_elapsed", "_mark", "_session", "_settings", "_source", "_tree", "_type")

    def __init__(
        self,
        *,
        type: CallType = "call_count",
        name: str = "tprof",
        pattern: PatternLike | None = None,
        trace: Procs | None = None,
        tree: bool = False,
    ) -> None:
        self._type: CallType = one_of("tprof.Profiler, type", type, CALL_TYPES)
        if not isinstance(name, str):
            raise BadArg("tprof.Profiler", "name", f"{shown(name)} is not a name; pass a str")
        check_tree("tprof.Profiler, tree", tree, type)
        patterns = None if pattern is None else parse(pattern, "tprof.Profiler, pattern")
        session = session_create(name, None, [])
        self._source: CounterSource = session._native
        self._session: Any = session
        self._tree = tree
        self._settings: list[tuple[Pattern, bool]] = []
        """Patterns that were set (True) and cleared (False), in order; for a function the last match decides."""
        self._base: dict[Key, Sums] = {}
        self._awaited: tuple[Pattern, ...] | None = None
        self._elapsed = 0
        self._mark: int | None = perf_counter_ns()
        if tree:
            self._source.keep_tree()
        try:
            if trace is not None:
                self.enable_trace(trace)
            if patterns is not None:
                self.set_pattern(list(patterns))
        except BaseException:
            self.stop()
            raise

    @property
    def type(self) -> CallType:
        """The type of measurement."""
        return self._type

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that are set, without those that another one covers."""
        return tuple(p for p, on in self._settings if on)

    @property
    def paused(self) -> bool:
        """Whether ``pause`` was called last."""
        return self._mark is None

    @property
    def running(self) -> bool:
        """Whether it has a session: True until ``stop``."""
        return self._session is not None

    def enable_trace(self, procs: Procs = "all", *, set_on_spawn: bool = True) -> int:
        """Measures these processes, and with ``set_on_spawn`` those that they start. Returns their number."""
        flags = ["call", "set_on_spawn"] if set_on_spawn else ["call"]
        return sum(trace.process(self._alive(), p, True, flags) for p in _each(procs))

    def disable_trace(self, procs: Procs = "all") -> int:
        """Ends measuring of these processes and keeps their counters. Returns their number."""
        return sum(trace.process(self._alive(), p, False, ["call", "set_on_spawn"]) for p in _each(procs))

    def set_pattern(self, pattern: PatternLike, function: str | None = None, arity: int | str = ANY) -> int:
        """Measures these functions from zero, also those that are defined later. Returns the number of existing ones.

        Give one pattern or a list, or module, function and arity as three arguments. The elapsed time begins with the
        first pattern.
        """
        session = self._alive()
        new = outermost(_given("tprof.set_pattern, pattern", pattern, function, arity))
        first = not self._settings
        self._note(new, True)
        count = sum(self._arm(p, True) for p in new)
        if first and not self.paused:
            self._mark = perf_counter_ns()
        if self.paused:
            for p in new:
                trace.function(session, p, "pause", [self._type])
            self._listen(False)
        return count

    def clear_pattern(self, pattern: PatternLike, function: str | None = None, arity: int | str = ANY) -> int:
        """Ends measuring of these functions and deletes their counters. Returns their number."""
        self._alive()
        gone = outermost(_given("tprof.clear_pattern, pattern", pattern, function, arity))
        self._note(gone, False)
        count = sum(self._arm(p, False) for p in gone)
        if self._awaited is not None:
            self._listen(bool(self.patterns))
        return count

    def pause(self) -> bool:
        """Pauses measuring and keeps the counters; False if it was paused already."""
        session = self._alive()
        if self._mark is None:
            return False
        for p in outermost(self.patterns):
            trace.function(session, p, "pause", [self._type])
        self._elapsed += perf_counter_ns() - self._mark
        self._mark = None
        self._listen(False)
        return True

    def continue_(self) -> bool:
        """Continues after ``pause``, with the same counters; False if it was not paused."""
        self._alive()
        if self._mark is not None:
            return False
        self._base = self._read()
        self._again()
        return True

    def restart(self) -> None:
        """Deletes the counters and measures from zero, also after ``pause``."""
        self._alive()
        self._base = {}
        self._elapsed = 0
        self._again()

    def collect(
        self, *, view: View = "total", sort: Sort = "measurement", result: Any = None, timed_out: bool = False
    ) -> Profile:
        """Returns the profile so far; measuring continues.

        ``view`` and ``sort`` are the defaults for showing the profile. ``result`` and ``timed_out`` become its
        attributes.
        """
        one_of("tprof.collect, view", view, VIEWS)
        one_of("tprof.collect, sort", sort, SORTS)
        elapsed = self._elapsed + (0 if self._mark is None else perf_counter_ns() - self._mark)
        functions, nodes = self._tabled()
        return Profile(self._type, functions, self.patterns, elapsed, result, timed_out, view, sort, nodes=nodes)

    def stop(self) -> None:
        """Ends the session and deletes its counters. A second call does nothing."""
        session, self._session = self._session, None
        if session is not None:
            trace.session_destroy(session)

    def __enter__(self) -> Profiler:
        self._alive()
        return self

    def __exit__(self, kind: ErrorType | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._session is None else "paused" if self.paused else "running"
        return f"<Profiler {self._type}{' with tree' * self._tree} {state} {list(self.patterns)}>"

    def _alive(self) -> Any:
        if self._session is None:
            raise bad("tprof.Profiler, self", "it was stopped", "make a new one with tprof.start() or tprof.Profiler()")
        return self._session

    def _note(self, patterns: list[Pattern], on: bool) -> None:
        """Adds a setting, and drops settings that it overrides; one that only repeats another is not added."""
        for p in patterns:
            self._settings = [s for s in self._settings if not covers(p, s[0])]
            before = [earlier for q, earlier in self._settings if covers(q, p)]
            if on != (bool(before) and before[-1]):
                self._settings.append((p, on))
            self._base = {k: v for k, v in self._base.items() if not matches(p, k[0], k[1], k[2])}

    def _arm(self, pattern: Pattern, on: bool) -> int:
        """Counts from zero, or ends counting. ``on_load`` comes first: a function that is defined meanwhile is armed
        twice rather than missed.
        """
        session = self._alive()
        if on:
            self._listen(True)
        return trace.function(session, pattern, on, [self._type])

    def _again(self) -> None:
        for pattern, on in self._settings:
            self._arm(pattern, on)
        self._mark = perf_counter_ns()

    def _listen(self, on: bool) -> None:
        awaited = tuple(outermost(self.patterns)) if on else None
        if awaited == self._awaited:
            return
        if awaited is None:
            trace.function(self._alive(), "on_load", False, [self._type])
        else:
            on_load(self._alive(), self._type, awaited)
        self._awaited = awaited

    def _tabled(self) -> tuple[tuple[Function, ...], tuple[Node, ...]]:
        """The functions and nodes of the profile so far."""
        if self._tree:
            codes, places, sums = self._read_tree()
            readings = {(key[6], key[5]): each for key, each in sums.items() if key[5] is not None}
            return made(codes, places, readings, lambda code: self._wants(code[:3]), self._unit)
        grouped: dict[Code, list[Calls]] = {}
        for key, (calls, amount, _) in sorted(self._read().items(), key=lambda item: item[0][:5]):
            if calls:
                measurement = calls if self._type == "call_count" else self._unit(amount)
                grouped.setdefault(key[:5], []).append(Calls(key[5], calls, measurement))
        return tuple(Function(*code, tuple(each)) for code, each in grouped.items()), ()

    def _read(self) -> dict[Key, Sums]:
        """The sums so far, in the session's units."""
        self._alive()
        if self._tree:
            return self._read_tree()[2]
        return self._with_earlier([(row[:5], row[5], -1, [*row[6:], 0]) for row in self._source.counters(self._type)])

    def _read_tree(self) -> tuple[list[Code], list[Place], dict[Key, Sums]]:
        self._alive()
        codes, places, found = self._source.tree(self._type)
        sums = self._with_earlier([(codes[places[n][1]], pid, n, sums) for n, pid, *sums in found])
        return codes, places, sums

    def _with_earlier(self, found: list[tuple[Code, Pid | None, int, list[int]]]) -> dict[Key, Sums]:
        """The sums of earlier windows and of the present counters, for functions that the settings select."""
        wanted: dict[tuple[str, str, int], bool] = {}
        sums = dict(self._base)
        for code, pid, place, (calls, amount, waiting) in found:
            mfa = code[:3]
            if mfa not in wanted:
                wanted[mfa] = self._wants(mfa)
            if wanted[mfa]:
                key = (*code, pid, place)
                before = sums.get(key, (0, 0, 0))
                sums[key] = before[0] + calls, before[1] + amount, before[2] + waiting
        return sums

    def _unit(self, amount: int) -> int:
        """Converts bytes to words; nanoseconds stay."""
        return -(-amount // BYTES_OF_A_WORD) if self._type == "call_memory" else amount

    def _wants(self, mfa: tuple[str, str, int]) -> bool:
        """Whether the settings select a function: the last match decides. A wildcard of modules omits this package."""
        own = mfa[0] == OWN or mfa[0].startswith(OWN + ".")
        deciding = [(p, on) for p, on in self._settings if matches(p, *mfa)]
        return bool(deciding) and deciding[-1][1] and not (own and deciding[-1][0][0] == ANY)


def _given(where: str, pattern: Any, function: str | None, arity: int | str) -> list[Pattern]:
    return parse(pattern if function is None else (pattern, function, arity), where)


def _each(procs: Any) -> list[Any]:
    """The list of processes; threads and tasks as their pids."""
    import inviso

    given = procs if isinstance(procs, list) else [procs]
    return [p if isinstance(p, (str, inviso.Pid)) else inviso.pid(p) for p in given]
