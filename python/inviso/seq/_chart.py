"""Events of sequential tracing as a message sequence chart: for a terminal, and as SVG for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from inviso._native.process import Pid
from inviso.errors import BadArg, shown

from ._merge import Anchor, Entry, Output, key, merge
from ._text import clipped, term, wide

__all__ = ["Chart", "chart"]

_NARROWEST = 12  # columns between two lifelines
_WIDEST = 26
_TEXT = 30  # columns for the text of an event, at least
_LINES = 40  # lifelines of a drawing
_STEP, _PITCH, _TOP, _LEFT = 28, 150, 56, 90
_CHARACTERS = 60
# A style in a drawing applies to the whole page, so each rule names the drawing.
_STYLE = "".join(
    f".inviso-seq {rule}"
    for rule in (
        "text{font:12px monospace;fill:#222}", ".n{text-anchor:middle;font-weight:bold}",
        ".l{stroke:#bbb;stroke-dasharray:3 3}", ".a{stroke:#246;stroke-width:1.4}", ".o{stroke-dasharray:5 3}",
        ".p{fill:#fc6}", ".s{fill:#246}",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str  # "print", "sent", "message", "lost" (its receiver is unknown), "found" (its sender is unknown)
    line: int
    other: int  # the lifeline to which a message goes
    began: int  # the row in which a message was sent
    text: str


class Chart:
    """A message sequence chart: a lifeline for each process, events in causal order from top to bottom. :func:`chart`
    makes it.
    """

    def __init__(self, lines: list[tuple[str, str]], rows: list[_Row], more: int, width: int) -> None:
        self._lines = lines
        self._rows = rows
        self._more = more
        self._width = width

    def __repr__(self) -> str:
        return f"<Chart of {len(self._rows)} rows, {len(self._lines)} processes>"

    def text(self) -> str:
        """The chart for a terminal: lines of at most the chart's width.

        >>> from inviso import seq_trace
        >>> print(seq_trace.chart([]).text())
        (no events)
        """
        if not self._lines:
            return "(no events)"
        room = min(self._width - _TEXT, self._width * 3 // 5)
        lines = _fitting(self._lines, max(room // _NARROWEST, 1))
        pitch = min(max(room // len(lines), _NARROWEST), _WIDEST)
        at = [n * pitch + pitch // 2 for n in range(len(lines))]
        area = pitch * len(lines)
        heads = [list(part) for part in zip(*lines, strict=True)]
        written = ["".join(_centred(name, pitch) for name in names).rstrip() for names in heads if any(names)]
        last = len(lines) - 1
        for row in self._rows:
            drawn = [" "] * area
            for place in at:
                drawn[place] = "|"
            a, b = at[min(row.line, last)], at[min(row.other, last)]
            drawn[a] = {"print": "#", "sent": "*"}.get(row.kind, "|")
            if row.kind in ("lost", "found"):
                b = a + (pitch // 3)
                drawn[a + 1 : b + 1] = "-" * (b - a)
                drawn[b if row.kind == "lost" else a + 1] = ">" if row.kind == "lost" else "<"
            elif row.kind == "message" and a == b:
                drawn[a] = "@"
            elif row.kind == "message":
                low, high = min(a, b), max(a, b)
                drawn[low + 1 : high] = "-" * (high - low - 1)
                drawn[b - 1 if a < b else b + 1] = ">" if a < b else "<"
            written.append(("".join(drawn) + clipped(row.text, self._width - area)).rstrip())
        if self._more:
            written.append(f"({self._more} more)")
        return "\n".join(written)

    def svg(self) -> str:
        """The chart as an SVG document that needs no other files.

        >>> from inviso import seq_trace
        >>> seq_trace.chart([]).svg()
        '<svg xmlns="http://www.w3.org/2000/svg"...</svg>'
        """
        lines = _fitting(self._lines, _LINES)
        last = len(lines) - 1
        right = _LEFT + max(last, 0) * _PITCH + _PITCH // 2
        width, height = right + _CHARACTERS * 8, _TOP + len(self._rows) * _STEP + _STEP + 8

        def x(line: int) -> int:
            return _LEFT + min(line, last) * _PITCH

        def y(row: int) -> int:
            return _TOP + row * _STEP + _STEP // 2

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" class="inviso-seq" style="background:#fff" role="img">'
            f"<style>{_STYLE}</style>"
        ]
        for n, (node, name) in enumerate(lines):
            parts.append(f'<line class="l" x1="{x(n)}" y1="{_TOP - 8}" x2="{x(n)}" y2="{height - _STEP}"/>')
            parts += [
                f'<text class="n" x="{x(n)}" y="{20 + 16 * place}">{escape(clipped(text, _PITCH // 8))}</text>'
                for place, text in enumerate((node, name))
                if text
            ]
        for n, row in enumerate(self._rows):
            a, b = x(row.line), x(row.other)
            if row.kind == "print":
                parts.append(f'<rect class="p" x="{a - 6}" y="{y(n) - 6}" width="12" height="12"/>')
            elif row.kind == "sent" or (row.kind == "message" and a == b):
                parts.append(f'<circle class="s" cx="{a}" cy="{y(n)}" r="4"/>')
            elif row.kind == "message":
                parts.append(_arrow(a, y(row.began), b, y(n)))
            else:
                ends = (a, a + _PITCH // 3) if row.kind == "lost" else (a + _PITCH // 3, a)
                parts.append(_arrow(ends[0], y(n), ends[1], y(n), " o"))
            text = f"<title>{escape(row.text)}</title>{escape(clipped(row.text, _CHARACTERS))}"
            parts.append(f'<text x="{right}" y="{y(n) + 4}">{text}</text>')
        if self._more:
            parts.append(f'<text x="{right}" y="{height - 8}">({self._more} more)</text>')
        return "".join(parts) + "</svg>"

    def html(self) -> str:
        """The drawing for a page; it scrolls if it is too wide.

        >>> from inviso import seq_trace
        >>> seq_trace.chart([]).html()
        '<div style="overflow-x:auto"><svg ...</svg></div>'
        """
        return f'<div style="overflow-x:auto">{self.svg()}</div>'

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.html()


def chart(
    events: Iterable[Any], *, names: Mapping[Pid, str] | None = None, width: int = 100, limit: int = 1000
) -> Chart:
    """Draws events: messages as arrows from sender to receiver, printed values as notes.

    Args:
        events: entries of a merge, which stay in their order; or outputs, which are merged; or the messages that a
            system tracer got.
        names: names of processes; others are shown as pids.
        width: columns of a terminal.
        limit: the number of events to draw; the chart says how many are left out.

    Raises:
        BadArg: one of ``events`` is not an event, ``names`` is not a mapping of pids to str, or a number is too small.

    >>> from inviso import seq_trace
    >>> a, b = inviso.self(), inviso.spawn(lambda: None)
    >>> sent, taken = ("send", (0, 1), a, b, "hello"), ("receive", (0, 1), a, b, "hello")
    >>> events = [("seq_trace", 17, info) for info in (sent, taken, ("print", (1, 2), b, [], "here"))]
    >>> print(seq_trace.chart(events, names={a: "client", b: "server"}, width=70).text())
           client              server
              |------------------>|         {0,1} "hello"
              |                   #         {1,2} "here"
    """
    where = "chart/1"
    for argument, number, least in (("width", width, 50), ("limit", limit, 1)):
        if type(number) is not int or number < least:
            raise BadArg(where, argument, f"{shown(number)} is not an int from {least} on; pass one")
    if names is not None and not isinstance(names, Mapping):
        raise BadArg(where, "names", f"{shown(names)} is not a mapping; pass one of pids to their names")
    for pid, name in (names or {}).items():
        if not (isinstance(pid, Pid) and isinstance(name, str)):
            raise BadArg(
                where, "names", f"{shown((pid, name))} is not a Pid with its name; pass a mapping of pids to str"
            )
    entries = _entries(where, events)
    return _Drawing(names or {}, entries[:limit]).chart(len(entries) - min(limit, len(entries)), width)


def _entries(where: str, events: Any) -> list[Entry]:
    if isinstance(events, (str, bytes)) or not isinstance(events, Iterable):
        raise BadArg(
            where, "events", f"{clipped(shown(events), 80)} is not a sequence of events; pass what merge() returned"
        )
    found = list(events)
    if all(isinstance(event, Entry) for event in found):
        return found
    if all(isinstance(event, Output) for event in found):
        return merge(*found)
    try:
        return merge(Output("", Anchor(0, 0), tuple(found)))
    except BadArg as wrong:
        raise BadArg(where, "events", wrong.why) from None


class _Drawing:
    """Finds the lifelines of events, and the row of each event."""

    def __init__(self, names: Mapping[Pid, str], entries: list[Entry]) -> None:
        self._names = names
        self._entries = entries
        self._several = len({key(entry.label) for entry in entries}) > 1
        self._places: dict[Any, int] = {}
        self._lines: list[tuple[str, str]] = []
        self._nodes = {key(entry.process): entry.node for entry in entries}
        self._drawn = len(set(self._nodes.values())) > 1

    def chart(self, more: int, width: int) -> Chart:
        sendings: dict[Any, int] = {}
        taken: dict[int, list[int]] = {}
        for n, entry in enumerate(self._entries):
            name = (key(entry.label), key(entry.sender), entry.serial)
            if entry.tag == "send":
                sendings[name] = n
            elif entry.tag == "receive" and name in sendings:
                taken.setdefault(sendings[name], []).append(n)
        sent = {receipt: sending for sending, receipts in taken.items() for receipt in receipts}
        rows: list[_Row] = []
        begun: dict[int, int] = {}
        for n, entry in enumerate(self._entries):
            line = self._line(entry.process)
            text = self._text(entry)
            if entry.tag == "print":
                rows.append(_Row("print", line, line, len(rows), text))
            elif entry.tag == "send" and n in taken:
                self._line(self._entries[taken[n][0]].process)
                begun[n] = len(rows)
                if taken[n][0] != n + 1:
                    rows.append(_Row("sent", line, line, len(rows), text))
            elif entry.tag == "send":
                known = isinstance(entry.receiver, Pid) and entry.receiver.kind in ("thread", "task")
                other = self._line(entry.receiver) if known else line
                rows.append(_Row("message" if known else "lost", line, other, len(rows), text))
            elif isinstance(entry.sender, Pid):
                began = begun[sent[n]] if n in sent else len(rows)
                rows.append(_Row("message", self._line(entry.sender), line, began, text))
            else:
                rows.append(_Row("found", line, line, len(rows), text))
        return Chart(self._lines, rows, more, width)

    def _line(self, process: Any) -> int:
        name = key(process)
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self._lines)
            given = self._names.get(process) if isinstance(process, Pid) else None
            shown = term(process) if given is None else term(str(given))[1:-1]
            node = self._nodes.get(name, process.node if isinstance(process, Pid) else "")
            self._lines.append((term(node)[1:-1] if self._drawn else "", shown))
        return place

    def _text(self, entry: Entry) -> str:
        label = f"{term(entry.label)}: " if self._several else ""
        return clipped(f"{label}{term(entry.serial)} {term(entry.content)}", 500)


def _fitting(lines: list[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most ``most`` lifelines. The last one stands for all others."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], ("", f"{len(lines) - most + 1} others")]


def _centred(name: str, columns: int) -> str:
    shown = clipped(name, columns - 2)
    left = (columns - wide(shown) + 1) // 2
    return " " * left + shown + " " * (columns - left - wide(shown))


def _arrow(x1: int, y1: int, x2: int, y2: int, kind: str = "") -> str:
    """A line with an arrowhead at its end."""
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1.0)
    u, v = (x2 - x1) / length, (y2 - y1) / length
    head = " ".join(f"{x2 - 9 * u + side * 4 * v:.1f},{y2 - 9 * v - side * 4 * u:.1f}" for side in (1, -1))
    return (
        f'<line class="a{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/><polygon class="s" points="{x2},{y2} {head}"/>'
    )
