"""Histograms with a logarithmic scale: bins, exact percentiles, and the drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ..errors import BadArg, shown
from ._rows import Number, Rows, number, read
from ._svg import WIDTH, document, tag, text
from ._text import COLOURS, amount, clean, plural, share

__all__ = ["Histogram", "Series", "histogram_series", "histogram_svg", "table"]

_GROUPS = 8  # groups that are drawn
_LEFT, _HEIGHT, _GAP, _TOP = 60, 150, 62, 30
_COLUMNS = ("value", "wait_ns", "duration_ns", "latency_ns")


@dataclass(slots=True)
class Series:
    """The values of one group."""

    name: str
    values: list[Number]
    """The values, ascending."""
    counts: list[int]
    """The number of values in each bin."""
    below: int = 0
    """The number of values up to 0, which have no place on a logarithmic scale."""

    def percentile(self, per_cent: float) -> Number:
        """The smallest value that so many percent of all values do not exceed (nearest rank). It is one of the values.

        >>> Series("", [10, 20, 30, 40], []).percentile(50), Series("", [10, 20, 30, 40], []).percentile(99)
        (20, 40)
        """
        rank = max(math.ceil(len(self.values) * per_cent / 100 - 1e-9), 1)
        return self.values[rank - 1]


@dataclass(slots=True)
class Histogram:
    """Bins that all groups share, the groups, and notes on omitted values."""

    edges: list[float]
    series: list[Series]
    notes: list[str]
    unit: str
    percentiles: tuple[float, ...]

    def count(self) -> int:
        return sum(len(one.values) for one in self.series)


def histogram_series(
    where: str, values: Rows, column: str | None, by: str | None, unit: str, percentiles: Sequence[float]
) -> Histogram:
    """Reads, sorts and counts.

    Raises:
        BadArg: see :func:`inviso.picture.histogram`.
    """
    marks = _percentiles(where, percentiles)
    groups: dict[str, list[Number]] = {}
    missing = 0
    for at, (value, name) in enumerate(_read(where, values, column, by)):
        found = number(where, "values", value, f"value {at}")
        if found is None:
            missing += 1
        else:
            groups.setdefault(clean(name), []).append(found)
    notes = [f"{plural(missing, 'row')} without a value: left out"] if missing else []
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(ranked) > _GROUPS:
        rest = ranked[_GROUPS:]
        notes.append(
            f"{plural(len(rest), 'group')} with the fewest values, {sum(len(g) for _, g in rest):,} in all: left out"
        )
    series = [Series(name, sorted(found), []) for name, found in ranked[:_GROUPS]]
    positive = [one.values[-1] for one in series if one.values[-1] > 0]
    lowest = min((value for one in series for value in _first_positive(one)), default=0)
    edges = _edges(lowest, max(positive)) if positive else []
    for one in series:
        one.counts, one.below = _counts(one.values, edges)
    if below := sum(one.below for one in series):
        notes.append(f"{plural(below, 'value')} of 0 or less: in the bar at the left")
    return Histogram(edges, series, notes, unit, marks)


def _percentiles(where: str, percentiles: Any) -> tuple[float, ...]:
    try:
        marks = tuple(percentiles)
        fine = not isinstance(percentiles, str) and all(0 < mark <= 100 and mark is not True for mark in marks)
    except TypeError:
        fine = False
    if not fine or len(marks) > 8:
        raise BadArg(
            where, "percentiles", f"{shown(percentiles)} are not percentiles; pass up to 8 numbers above 0, up to 100"
        )
    return tuple(sorted(set(marks)))


def _read(where: str, values: Rows, column: str | None, by: str | None) -> Iterable[tuple[Any, Any]]:
    """Values with the group of each."""
    for name, given in (("column", column), ("by", by)):
        if given is not None and not isinstance(given, str):
            raise BadArg(where, name, f"{shown(given)} is not a name of a column; pass a str, or None")
    columns: list[tuple[str, ...]] = [_COLUMNS if column is None else (column,), () if by is None else (by,)]
    if hasattr(values, "__arrow_c_stream__"):
        return read(where, "values", values, columns, 1 if by is None else 2)
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadArg(
            where,
            "values",
            f"{shown(values)} is not a sequence of values; pass numbers, dicts, or a table with __arrow_c_stream__",
        )
    return _each(where, values, columns, by)


def _each(
    where: str, values: Iterable[Any], columns: list[tuple[str, ...]], by: str | None
) -> Iterable[tuple[Any, Any]]:
    for at, value in enumerate(values):
        if not isinstance(value, Mapping):
            if by is not None:
                raise BadArg(where, "values", f"row {at} is {shown(value)}; to group by {by!r}, pass dicts or a table")
            yield value, None
            continue
        name = next((name for name in columns[0] if name in value), None)
        if name is None or (by is not None and by not in value):
            wanted = [*columns[0][:1], *([by] if by else [])]
            raise BadArg(
                where, "values", f"row {at} has the keys {shown(list(value))}; it needs {' and '.join(wanted)}"
            )
        yield value[name], value[by] if by else None


def _first_positive(one: Series) -> list[Number]:
    return [next(value for value in one.values if value > 0)] if one.values[-1] > 0 else []


def _edges(least: Number, most: Number) -> list[float]:
    """Edges of bins that are equally wide on the scale. The number of bins per power of ten gives 24 to 60 bins."""
    powers = math.log10(most / least) if most > least else 0
    each = next((each for each in (10, 5, 2, 1) if powers * each <= 60), 1)
    if powers < 1:
        each = 20
    first = math.floor(math.log10(least) * each + 1e-9)
    edges = [10 ** (first / each)]  # a value just below this edge is in its bin: one bin in any case
    while len(edges) < 2 or edges[-1] <= most:
        edges.append(10 ** ((first + len(edges)) / each))
    return edges


def _counts(values: list[Number], edges: list[float]) -> tuple[list[int], int]:
    counts = [0] * max(len(edges) - 1, 0)
    below = at = 0
    for value in values:
        if value <= 0:
            below += 1
            continue
        while value >= edges[at + 1] and at + 2 < len(edges):
            at += 1
        counts[at] += 1
    return counts, below


def histogram_svg(made: Histogram, title: str) -> str:
    """Draws a row of bars for each group, over one scale."""
    parts = [text(title, 4, 16, class_="t h heading")]
    if not made.series:
        parts.append(text("no rows", 4, _TOP + 30, class_="d"))
    height = _TOP + max(len(made.series), 1) * (_HEIGHT + _GAP)
    for at, one in enumerate(made.series):
        parts += _series(made, one, _TOP + at * (_HEIGHT + _GAP), COLOURS[at % (len(COLOURS) - 1)])
    return document(WIDTH, height, title, parts)


def _series(made: Histogram, one: Series, top: int, colour: str) -> list[str]:
    edges, foot = made.edges, top + _HEIGHT
    zero = 1 if any(series.below for series in made.series) else 0
    slots = len(edges) - 1 + 2 * zero if edges else 1
    step = (WIDTH - _LEFT - 20) / max(slots, 1)
    highest = max([*one.counts, one.below, 1])
    parts = [tag("line", class_="g", x1=_LEFT, x2=WIDTH - 20, y1=foot, y2=foot)]
    if one.name:
        parts.append(text(one.name[:60], _LEFT, top + 4, class_="t h"))
    for part in (0.5, 1):
        y = foot - part * (_HEIGHT - 24)
        if part * highest == int(part * highest):
            parts.append(tag("line", class_="g", x1=_LEFT, x2=WIDTH - 20, y1=y, y2=y, stroke_dasharray="2 4"))
            parts.append(text(f"{int(part * highest):,}", _LEFT - 6, y + 4, class_="d", text_anchor="end"))
    bars: list[tuple[str, float, int]] = (
        [(f"0 or less: {plural(one.below, 'value')}", _LEFT, one.below)] if zero else []
    )
    for at, count in enumerate(one.counts):
        name = f"{amount(edges[at], made.unit)} to {amount(edges[at + 1], made.unit)}: {plural(count, 'value')}"
        bars.append((name, _LEFT + (at + 2 * zero) * step, count))
    for name, x, count in bars:
        if count:
            tall = max(count / highest * (_HEIGHT - 24), 1)
            bar = tag("rect", x=x + 0.5, y=foot - tall, width=max(step - 1, 0.5), height=tall, style=f"fill:{colour}")
            told = f"{name}, {share(count, len(one.values))}"
            parts.append(tag("g", f"<title>{escape(told)}</title>{bar}", class_="item bar", data_name=told, tabindex=0))
    return parts + _scale(made, step, zero, foot) + _marks(made, one, step, zero, top, foot)


def _place(made: Histogram, value: float, step: float, zero: int) -> float:
    """The place of a value on the scale."""
    edges = made.edges
    if value <= 0 or not edges:
        return _LEFT + step / 2
    whole = math.log10(edges[-1] / edges[0])
    return _LEFT + 2 * zero * step + math.log10(value / edges[0]) / whole * step * (len(edges) - 1)


def _scale(made: Histogram, step: float, zero: int, foot: int) -> list[str]:
    parts = []
    if zero:
        parts.append(text("≤ 0", _LEFT + step / 2, foot + 14, class_="d", text_anchor="middle"))
    if not made.edges:
        return parts
    first, last = math.log10(made.edges[0]), math.log10(made.edges[-1])
    steps = [1] if last - first > 3 else [1, 2, 5] if last - first > 0.6 else [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8]
    for power in range(math.floor(first), math.ceil(last) + 1):
        for part in steps:
            value = part * 10.0**power
            if made.edges[0] * 0.999 <= value <= made.edges[-1] * 1.001:
                x = _place(made, value, step, zero)
                parts.append(tag("line", class_="g", x1=x, x2=x, y1=foot, y2=foot + 4))
                parts.append(text(amount(round(value, 12), made.unit), x, foot + 14, class_="d", text_anchor="middle"))
    return parts


def _marks(made: Histogram, one: Series, step: float, zero: int, top: int, foot: int) -> list[str]:
    """Lines at the percentiles, with labels beneath them. Labels of close lines have different heights."""
    parts: list[str] = []
    ends = [-math.inf, -math.inf]
    for mark in made.percentiles:
        value = one.percentile(mark)
        x = _place(made, value, step, zero)
        name = f"p{mark:g} {amount(value, made.unit)}"
        half = len(name) * 3.4
        line = 0 if x - half > ends[0] else 1
        ends[line] = max(ends[line], x + half)
        anchor = min(max(x, _LEFT + half - 50), WIDTH - half - 4)
        parts.append(tag("line", class_="w mark", x1=x, x2=x, y1=top + 12, y2=foot, stroke_dasharray="4 2"))
        parts.append(text(name, anchor, foot + 29 + 13 * line, class_="t", text_anchor="middle"))
    return parts


def table(made: Histogram) -> tuple[list[str], list[list[str]]]:
    """Count, mean, percentiles and extremes of each group."""
    heads = ["group", "values", "least", *(f"p{mark:g}" for mark in made.percentiles), "most", "mean"]
    rows = []
    for one in made.series:
        numbers = [
            one.values[0],
            *map(one.percentile, made.percentiles),
            one.values[-1],
            math.fsum(one.values) / len(one.values),
        ]
        rows.append([one.name or "all", f"{len(one.values):,}", *(amount(value, made.unit) for value in numbers)])
    return heads, rows
