"""Differences between two profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from inviso._pattern import Pattern
from inviso.errors import shown

from ._check import bad, one_of, rows
from ._model import BYTES_OF_A_WORD, CallType, Function, Profile

__all__ = ["By", "Change", "Diff", "diff"]

By: TypeAlias = Literal["measurement", "calls", "cumulative"]
"""The figure of a function that is compared."""

BYS: tuple[By, ...] = get_args(By)

LABEL_COLUMN = 64


@dataclass(frozen=True, slots=True)
class Change:
    """One function in both profiles, or in one of them.

    ``before`` and ``after`` are the compared figures, 0 if the function was not called; ``calls_before`` and
    ``calls_after`` are the numbers of calls.

    >>> change = Change("shop", "total", 1, 2, 2, 100, 150)
    >>> change.delta, change.percent, change.status
    (50, 50.0, 'grown')
    """

    module: str
    function: str
    arity: int
    calls_before: int
    calls_after: int
    before: int
    after: int

    @property
    def label(self) -> str:
        """``module:function/arity``."""
        return f"{self.module}:{self.function}/{self.arity}"

    @property
    def delta(self) -> int:
        """The growth; negative if the figure has shrunk."""
        return self.after - self.before

    @property
    def percent(self) -> float | None:
        """The growth in percent of ``before``; None if that is 0."""
        return 100.0 * self.delta / self.before if self.before else None

    @property
    def status(self) -> Literal["new", "gone", "grown", "shrunk", "same"]:
        """``"new"`` and ``"gone"`` are functions that only one of the profiles has."""
        if not self.calls_before and not self.before and (self.calls_after or self.after):
            return "new"
        if not self.calls_after and not self.after and (self.calls_before or self.before):
            return "gone"
        return "grown" if self.delta > 0 else "shrunk" if self.delta < 0 else "same"


@dataclass(frozen=True, slots=True, repr=False)
class Diff:
    """The changes from one profile to another by function, the largest growth first.

    ``str`` shows the largest growth last, next to the prompt, and leaves unchanged functions out. pandas, polars,
    pyarrow and DuckDB read a diff as a table. Figures are in ``unit``, as in the profiles; as text and as a table,
    memory is in bytes.

    >>> diff(Profile("call_count", (), ()), Profile("call_count", (), ()))
    <Diff of call_count by measurement: 0 grown, 0 shrunk, 0 new, 0 gone, total 0 -> 0 calls>
    """

    type: CallType
    by: By
    unit: str
    changes: tuple[Change, ...]
    before: int
    """The sum over all functions: calls, or own time or memory, also with ``by="cumulative"``."""
    after: int
    """The same of the second profile."""
    patterns: tuple[tuple[Pattern, ...], tuple[Pattern, ...]] = ((), ())

    @property
    def percent(self) -> float | None:
        """The growth of the sum in percent; None if the sum before is 0."""
        return 100.0 * (self.after - self.before) / self.before if self.before else None

    def grown(self, percent: float, *, least: float = 0.0) -> tuple[Change, ...]:
        """The functions that have grown by more than ``percent``, and new ones. The largest growth comes first.

        A growth of less than ``least`` percent of the sum before is left out: times of small functions differ in each
        run.

        >>> from inviso.tprof import Calls
        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 1, 1),))
        >>> [c.label for c in diff(Profile("call_count", (), ()), Profile("call_count", (f,), ())).grown(5)]
        ['shop:total/1']
        """
        for name, number in (("percent", percent), ("least", least)):
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
                raise bad(f"tprof.grown, {name}", f"{shown(number)} is not a percentage", "give a number from 0")
        floor = least * self.before / 100.0
        return tuple(
            c for c in self.changes if c.delta > 0 and c.delta >= floor and (c.percent is None or c.percent > percent)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data: ``version`` 1, ``type``, ``by``, ``unit``, ``before``, ``after``, and ``changes``: dicts."""
        keys = (
            "module",
            "function",
            "arity",
            "status",
            "calls_before",
            "calls_after",
            "before",
            "after",
            "delta",
            "percent",
        )
        changes = [{key: getattr(c, key) for key in keys} for c in self.changes]
        whole = {key: getattr(self, key) for key in ("type", "by", "unit", "before", "after")}
        return {"version": 1, **whole, "changes": changes}

    def format(self, *, limit: int | None = None) -> str:
        """The ``limit`` largest changes as text that ends with a newline."""
        rows("tprof.Diff.format, limit", limit)
        changed = [c for c in self.changes if c.status != "same"]
        shown = changed
        if limit is not None and len(changed) > limit:
            best = {id(c) for c in sorted(changed, key=lambda c: -abs(c.delta))[:limit]}
            shown = [c for c in changed if id(c) in best]
        lines = [["FUNCTION", "CALLS", *_heading(self), "CHANGE", "[      %]"]]
        for c in reversed(shown):
            percent = f"[{c.status:>7}]" if c.percent is None or c.status == "gone" else f"[{c.percent:+7.2f}]"
            lines.append([c.label, *_figures(self, c.calls_before, c.calls_after, c.before, c.after), percent])
        calls_before = sum(c.calls_before for c in self.changes)
        calls_after = sum(c.calls_after for c in self.changes)
        percent = "" if self.percent is None else f"[{self.percent:+7.2f}]"
        lines.append(["total", *_figures(self, calls_before, calls_after, self.before, self.after), percent])
        columns = list(zip(*lines, strict=True))
        widths = [min(LABEL_COLUMN, max(map(len, columns[0]))), *(max(map(len, column)) for column in columns[1:])]
        out = []
        for label, *figures in lines:
            cells = [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
            out.append("  ".join([label.ljust(widths[0]), *cells]))
        if len(shown) < len(changed):
            out.insert(1, f"({len(changed) - len(shown)} smaller changes not shown)")
        if self.patterns[0] != self.patterns[1]:
            named = [", ".join(":".join(map(str, p)) for p in each) or "none" for each in self.patterns]
            out.append(f"The patterns differ: {named[0]} before, {named[1]} after.")
        return "\n".join(out) + "\n"

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        counts = {status: 0 for status in ("grown", "shrunk", "new", "gone")}
        for c in self.changes:
            if c.status in counts:
                counts[c.status] += 1
        text = ", ".join(f"{number:,} {status}" for status, number in counts.items())
        scale, unit = (BYTES_OF_A_WORD, "bytes") if self.unit == "words" else (1, self.unit)
        whole = f"total {self.before * scale:,} -> {self.after * scale:,} {unit}"
        return f"<Diff of {self.type} by {self.by}: {text}, {whole}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The changes as an Arrow stream (PyCapsule interface).

        Columns: ``module``, ``name``, ``arity``, ``status``, ``calls_before``, ``calls_after``, ``before``,
        ``after``, ``delta``. The last three are nanoseconds, bytes or calls.
        """
        from ._table import diff_stream

        return diff_stream(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of ``__arrow_c_stream__``; needs pandas and pyarrow."""
        from ._table import to_pandas

        return to_pandas(self)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with the columns of ``__arrow_c_stream__``; needs polars."""
        from ._table import to_polars

        return to_polars(self)


def diff(a: Profile, b: Profile, *, by: By = "measurement") -> Diff:
    """Compares two profiles: of each function the own time, memory or calls, or with ``by`` another figure.

    Two functions are the same if module, name and arity are equal, even if their lines have moved. Several functions of
    one name are paired in the order of their lines.

    Raises:
        BadArg: the profiles are of different types; or ``by`` is ``"cumulative"`` and a profile has no call tree.

    >>> from inviso.tprof import Calls
    >>> def p(n): return Profile("call_count", (Function("shop", "total", 1, "shop.py", 3, (Calls(None, n, n),)),), ())
    >>> print(diff(p(4), p(6)), end="")
    FUNCTION       CALLS  CHANGE  [      %]
    shop:total/1  4 -> 6      +2  [ +50.00]
    total         4 -> 6      +2  [ +50.00]
    """
    for name, profile in (("a", a), ("b", b)):
        if not isinstance(profile, Profile):
            raise bad(
                f"tprof.diff, {name}",
                f"{shown(profile)} is not a profile",
                "give what profile(), collect() or load() returned",
            )
    by = one_of("tprof.diff, by", by, BYS)
    if a.type != b.type:
        raise bad("tprof.diff, b", f"it is of {b.type}, and a of {a.type}", "compare profiles of one type")
    if by == "cumulative":
        for name, profile in (("a", a), ("b", b)):
            if profile.functions and not profile.nodes:
                raise bad(f"tprof.diff, {name}", "it has no call tree", "measure with tree=True (--tree)")
    before, after = _named(a), _named(b)
    changes = []
    for key in dict.fromkeys((*before, *after)):
        module, function, arity, _ = key
        old, new = before.get(key), after.get(key)
        figures = _figure(old, "calls"), _figure(new, "calls"), _figure(old, by), _figure(new, by)
        changes.append(Change(module, function, arity, *figures))
    changes.sort(key=lambda c: (-c.delta, c.label))
    return Diff(
        a.type,
        by,
        "calls" if by == "calls" else a.unit,
        tuple(changes),
        _whole(a, by),
        _whole(b, by),
        (a.patterns, b.patterns),
    )


def _named(profile: Profile) -> dict[tuple[str, str, int, int], Function]:
    """Functions by name and position among functions of that name."""
    found: dict[tuple[str, str, int, int], Function] = {}
    seen: dict[tuple[str, str, int], int] = {}
    for f in sorted(profile.functions, key=lambda f: (f.filename, f.line)):
        seen[f.mfa] = seen.get(f.mfa, 0) + 1
        found[*f.mfa, seen[f.mfa]] = f
    return found


def _figure(f: Function | None, by: By) -> int:
    if f is None:
        return 0
    return f.calls if by == "calls" else f.measurement if by == "measurement" else f.cumulative or 0


def _whole(profile: Profile, by: By) -> int:
    return profile.calls if by == "calls" else profile.measurement


def _heading(diff: Diff) -> list[str]:
    if diff.unit == "calls":
        return []
    inclusive = "INCLUSIVE " * (diff.by == "cumulative")
    return [inclusive + ("TIME (us)" if diff.type == "call_time" else "BYTES")]


def _figures(diff: Diff, calls_before: int, calls_after: int, before: int, after: int) -> list[str]:
    """The cells of a row between its name and its percentage."""
    calls = f"{calls_before} -> {calls_after}"
    if diff.unit == "calls":
        return [calls, f"{after - before:+d}"]
    if diff.unit == "ns":
        return [calls, f"{before / 1000:.2f} -> {after / 1000:.2f}", f"{(after - before) / 1000:+.2f}"]
    before, after = before * BYTES_OF_A_WORD, after * BYTES_OF_A_WORD
    return [calls, f"{before} -> {after}", f"{after - before:+d}"]
