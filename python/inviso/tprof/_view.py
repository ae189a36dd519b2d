"""Tables of a measurement: ``inspect`` makes rows, ``format`` makes text of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from inviso._pattern import hint
from inviso.errors import shown

from ._check import bad, one_of, rows
from ._model import BYTES_OF_A_WORD, SORTS, VIEWS, Calls, CallType, Function, Process, Profile, Sort, View

__all__ = ["Row", "Section", "format", "html", "inspect", "labels"]

HTML_ROWS = 30
"""Rows of a table in a notebook that are visible at first; ``str(profile)`` shows all rows."""

HTML_MORE = 170
"""Rows that can be unfolded below them. All smaller rows are one line, so that the notebook stays small."""

LABEL_COLUMN = 64
"""The widest column of names. A longer name shifts only its own row to the right."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    ``measurement``, ``per_call`` and ``cumulative`` are in the profile's ``unit``; as text, memory is in bytes.
    ``percent`` is the share of the section's total. ``label`` is ``module:function/arity``, with the line where its
    code begins if several functions of the profile share that name. ``cumulative`` is None without a call tree;
    ``waiting`` is in nanoseconds.

    >>> Row("shop:total/1", "shop", "total", 1, "shop.py", 3, 4, 4, 1.0, 100.0).calls
    4
    """

    label: str
    module: str
    function: str
    arity: int
    filename: str
    line: int
    calls: int
    measurement: int
    per_call: float
    percent: float
    cumulative: int | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """One table: the rows of one process, or of all (``process == "all"``).

    ``percent`` is the share of this table in the whole profile. A limit has left out ``hidden`` rows, which have
    ``hidden_percent`` of the total.

    >>> Section("call_count", "all", (), 0, 0, 0.0).rows
    ()
    """

    type: CallType
    process: Process | Literal["all"]
    rows: tuple[Row, ...]
    calls: int
    measurement: int
    percent: float
    hidden: int = 0
    hidden_percent: float = 0.0

    def __str__(self) -> str:
        return format(self)


def inspect(
    result: Profile, view: View | None = None, sort: Sort | None = None, *, limit: int | None = None
) -> dict[Process | Literal["all"], Section]:
    """Returns the tables of a profile: ``{"all": section}``, or one section for each process with ``view="process"``.

    ``call_count`` doesn't distinguish processes, so its view is always the total, as in OTP. Rows are in ascending
    order of ``sort``: the largest are at the end, next to the prompt. ``limit`` keeps the rows with the largest
    measurements. The defaults of ``view`` and ``sort`` are the profile's own.

    >>> from inviso.tprof import Calls, Function, Profile
    >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
    >>> inspect(Profile("call_count", (f,), ()))["all"].rows[0].label
    'shop:total/1'
    """
    if not isinstance(result, Profile):
        raise bad(
            "tprof.inspect, result", f"{shown(result)} is not a profile", "give what profile() or collect() returned"
        )
    view = one_of("tprof.inspect, view", result.view if view is None else view, VIEWS)
    sort = one_of("tprof.inspect, sort", result.sort if sort is None else sort, SORTS)
    rows("tprof.inspect, limit", limit)
    if sort == "cumulative" and result.functions and not result.nodes:
        raise bad("tprof.inspect, sort", "the profile has no call tree", "measure with tree=True (--tree)")
    names = labels(result.functions)
    grand = result.measurement
    groups: dict[Process | Literal["all"], list[Row]] = {}
    for f, label in zip(result.functions, names, strict=True):
        if view == "total" or result.type == "call_count":
            groups.setdefault("all", []).append(_row(f, label, f))
            continue
        for c in f.processes:
            assert c.process is not None, "only call_count has no process"
            groups.setdefault(c.process, []).append(_row(f, label, c))
    sections = [_section(result.type, process, rows, grand, sort, limit) for process, rows in groups.items()]
    sections.sort(key=lambda s: (s.measurement, str(s.process)))
    return {s.process: s for s in sections}


def format(
    what: Profile | Section | Mapping[Any, Section],
    view: View | None = None,
    sort: Sort | None = None,
    *,
    limit: int | None = None,
    color: bool = False,
) -> str:
    """Formats a profile, or the result of ``inspect``, as plain text that ends with a newline.

    ``color=True`` highlights the headers with terminal codes.

    >>> from inviso.tprof import Calls, Function, Profile
    >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
    >>> print(format(Profile("call_count", (f,), ())), end="")
    FUNCTION      CALLS  [     %]
    shop:total/1      4  [100.00]
    total             4  [100.00]
    """
    if isinstance(what, Profile):
        sections = list(inspect(what, view, sort, limit=limit).values())
    else:
        if not isinstance(what, (Section, Mapping)):
            raise bad(
                "tprof.format, what", f"{shown(what)} is not a profile", "give a Profile, or what inspect made of it"
            )
        sections = [what] if isinstance(what, Section) else list(what.values())
        if view is not None or sort is not None or limit is not None:
            raise bad("tprof.format, view, sort, limit", "these tables are made already", "give the options to inspect")
    if not sections:
        patterns = ", ".join(":".join(map(str, p)) for p in what.patterns) if isinstance(what, Profile) else ""
        near = [text for p in what.patterns if (text := hint(p))] if isinstance(what, Profile) else []
        summary = f"No call of a function that matches {patterns} was measured" if patterns else "Nothing was measured"
        return f"{summary}{'; ' * bool(near)}{'; '.join(near) if near else '.'}\n"
    return "\n".join(_table(section, color) for section in sections)


def html(result: Profile) -> str:
    """The tables for a notebook: the ``HTML_ROWS`` largest rows of each, the largest first, and more rows to unfold.
    Every name is escaped.
    """
    from html import escape

    def table(lines: list[list[str]]) -> str:
        rows = []
        for line in lines:
            first, *figures = map(escape, line)
            rows.append(f"<tr><td>{first}</td>" + "".join(f"<td>{cell}</td>" for cell in figures) + "</tr>")
        heads = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        return f'<table class="inviso-tprof"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'

    parts = [STYLE]
    for section in reversed(inspect(result, limit=HTML_ROWS + HTML_MORE).values()):
        header, *lines, total = _cells(section)
        lines.reverse()
        parts.append(f"<p><b>{escape(_title(section))}</b></p>" if section.process != "all" else "")
        parts.append(table([*lines[:HTML_ROWS], total]))
        more = lines[HTML_ROWS:]
        if more:
            hidden = f"… and {section.hidden:,} smaller"
            if section.hidden:
                more.append([hidden, *[""] * (len(header) - 2), f"[{section.hidden_percent:6.2f}]"])
            number = len(lines) - HTML_ROWS + section.hidden
            parts.append(f"<details><summary>{number:,} smaller</summary>{table(more)}</details>")
    return "".join(parts) if len(parts) > 1 else f"<p>{escape(format(result))}</p>"


STYLE = """<style>.inviso-tprof td, .inviso-tprof th {text-align: right}
.inviso-tprof td:first-child, .inviso-tprof th:first-child {text-align: left}</style>"""


def labels(functions: Iterable[Function]) -> list[str]:
    """Names of functions. A name that is not unique gets the line, and the file if that differs, too."""
    functions = list(functions)
    same: dict[tuple[str, str, int], list[Function]] = {}
    for f in functions:
        same.setdefault(f.mfa, []).append(f)
    labels = []
    for f in functions:
        label = f"{f.module}:{f.function}/{f.arity}"
        namesakes = same[f.mfa]
        if len({n.filename for n in namesakes}) > 1:
            label += f" ({f.filename}:{f.line})"
        elif len(namesakes) > 1:
            label += f" (line {f.line})"
        labels.append(label)
    return labels


def _row(f: Function, label: str, of: Function | Calls) -> Row:
    calls, measurement = of.calls, of.measurement
    per_call = measurement / calls if calls else 0.0
    place = f.module, f.function, f.arity, f.filename, f.line
    return Row(label, *place, calls, measurement, per_call, 0.0, of.cumulative, of.waiting)


def _section(
    kind: CallType, process: Process | Literal["all"], rows: list[Row], grand: int, sort: Sort, limit: int | None
) -> Section:
    calls = sum(r.calls for r in rows)
    total = sum(r.measurement for r in rows)
    rows = [replace(r, percent=_percent(r.measurement, total)) for r in rows]
    kept = rows
    if limit is not None and len(rows) > limit:
        kept = sorted(rows, key=lambda r: (-r.measurement, r.label))[:limit]
    kept_total = sum(r.measurement for r in kept)
    return Section(
        kind,
        process,
        tuple(sorted(kept, key=lambda r: _key(r, sort))),
        calls,
        total,
        _percent(total, grand),
        len(rows) - len(kept),
        _percent(total - kept_total, total),
    )


def _key(row: Row, sort: Sort) -> tuple[Any, ...]:
    tie = (row.module, row.function, row.arity, row.filename, row.line)
    match sort:
        case "measurement":
            return (row.measurement, *tie)
        case "measurement_per_call":
            return (row.per_call, *tie)
        case "calls":
            return (row.calls, *tie)
        case "cumulative":
            return (row.cumulative or 0, *tie)
        case "function":
            return (row.function, *tie)
        case "module":
            return tie


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _title(section: Section) -> str:
    process = section.process
    name = f" ({process.name})" if process != "all" and process.name else ""
    return f"Process {process!r}{name}  --  {section.percent:.2f}% of total"


def _cells(section: Section) -> list[list[str]]:
    """The table as strings: a header, the rows, the total."""
    plain = section.type == "call_count"
    scale = BYTES_OF_A_WORD if section.type == "call_memory" else 1
    heading = {"call_count": [], "call_time": ["TIME (us)", "PER CALL"], "call_memory": ["BYTES", "PER CALL"]}
    has_tree = any(r.cumulative is not None for r in section.rows)
    waits = any(r.waiting for r in section.rows)

    def amount(number: int) -> str:
        return f"{number / 1000:.2f}" if section.type == "call_time" else str(number * scale)

    def measures(measurement: int, calls: int, cumulative: str, waiting: str) -> list[str]:
        if plain:
            return []
        whole = measurement / 1000 if section.type == "call_time" else measurement * scale
        per_call = f"{whole / calls if calls else 0.0:.2f}"
        return [amount(measurement), per_call, *[cumulative] * has_tree, *[waiting] * waits]

    columns = [*heading[section.type], *["INCLUSIVE"] * has_tree, *["WAITING"] * waits]
    lines = [["FUNCTION", "CALLS", *columns, "[     %]"]]
    for r in section.rows:
        figures = measures(r.measurement, r.calls, amount(r.cumulative or 0), f"{r.waiting / 1000:.2f}")
        lines.append([r.label, str(r.calls), *figures, f"[{r.percent:6.2f}]"])
    whole = 100.0 if section.measurement else 0.0
    figures = measures(section.measurement, section.calls, "", "")
    lines.append(["total", str(section.calls), *figures, f"[{whole:6.2f}]"])
    return lines


def _table(section: Section, color: bool) -> str:
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if color else ("", "", "")
    lines = _cells(section)
    columns = list(zip(*lines, strict=True))
    widths = [min(LABEL_COLUMN, max(map(len, columns[0]))), *(max(map(len, column)) for column in columns[1:])]
    out = []
    if section.process != "all":
        out.append(f"{bold}****** {_title(section)} ******{end}")
    for number, (label, *figures) in enumerate(lines):
        cells = [label.ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(figures, widths[1:], strict=True)]
        line = "  ".join(cells)
        out.append(f"{bold}{line}{end}" if number == 0 else line)
        if number == 0 and section.hidden:
            noun = "row" if section.hidden == 1 else "rows"
            out.append(f"{dim}({section.hidden} smaller {noun} not shown: {section.hidden_percent:.2f}%){end}")
    return "\n".join(out) + "\n"
