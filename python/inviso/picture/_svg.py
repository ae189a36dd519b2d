"""Static drawings: for pages without scripts, untrusted notebooks, and paper."""

from __future__ import annotations

from html import escape

from ._boxes import EXCEPTION, MERGED, OPEN, Box, Boxes
from ._text import COLOURS, GROWTH, amount, plural

__all__ = ["WIDTH", "boxes_svg", "document", "tag", "text"]

WIDTH = 1000
_ROW = 18
_ROWS = 40  # rows that are drawn
_BOXES = 1500  # boxes that are drawn
_ARROWS = 200
_GUTTER = 150
_TOP = 24
_CHARACTER = 6.7  # width of a character in the font below

_RULES = {
    "text": ("font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1a1a1a", ""),
    ".t": ("fill:#1a1a1a", "fill:#eee"),
    ".h": ("font-weight:bold", ""),
    # letters come before lines
    ".o": ("stroke:#fff;stroke-width:3;paint-order:stroke", "stroke:#1b1c1f"),
    ".d": ("fill:#666", "fill:#aaa"),
    ".p": ("fill:#fff", "fill:#1b1c1f"),
    ".w": ("stroke:#555;fill:none", "stroke:#bbb"),
    ".m": ("fill:#555;stroke:none", "fill:#bbb"),
    ".x": ("stroke:#b3261e;stroke-width:2", "stroke:#ff8a80"),
    ".g": ("stroke:#ccc;fill:none", "stroke:#444"),
}
# the rules of a drawing apply to the whole page around it, so each names the drawing
_STYLE = (
    "".join(f".inviso-svg {name}{{{light}}}" for name, (light, _) in _RULES.items())
    + "@media(prefers-color-scheme:dark){"
    + "".join(f".inviso-svg {name}{{{dark}}}" for name, (_, dark) in _RULES.items() if dark)
    + "}"
)


def tag(name: str, content: str | None = None, **attributes: object) -> str:
    """An element. Numbers have one decimal. In a name a last underscore is removed, and others become dashes.

    >>> tag("line", x1=1.0, y1=2.25, stroke_width=1, class_="a")
    '<line x1="1" y1="2.2" stroke-width="1" class="a"/>'
    """
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{words}/>" if content is None else f"<{name}{words}>{content}</{name}>"


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))


def text(content: str, x: float, y: float, **attributes: object) -> str:
    """A line of text."""
    return tag("text", escape(content), x=float(x), y=float(y), **attributes)


def document(width: int, height: int, title: str, parts: list[str], **attributes: object) -> str:
    """A whole SVG document with a title."""
    inside = "".join(
        [
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            tag("rect", class_="p", width=width, height=height),
            *parts,
        ]
    )
    return tag(
        "svg", inside, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width, height=height,
        class_="inviso-svg", role="img", aria_label=title, **attributes,
    )  # fmt: skip


def boxes_svg(boxes: Boxes, title: str) -> str:
    """Draws the widest boxes of the first rows, tracks, and the longest arrows."""
    rows = boxes.rows[:_ROWS]
    left = _GUTTER if boxes.tracks else 0
    scale = (WIDTH - left) / (boxes.span or 1)
    hues = boxes.hues()
    height = _TOP + _ROW * max(len(rows), 1) + 18
    widest = sorted(((box, at) for at, row in enumerate(rows) for box in row), key=lambda item: -item[0].width)[:_BOXES]
    parts = [text(title, 4, 15, class_="t h heading")]
    parts += [_box(boxes, hues, box, left + box.x * scale, _TOP + at * _ROW, box.width * scale) for box, at in widest]
    for track in boxes.tracks:
        if track.row < len(rows):
            y = _TOP + track.row * _ROW
            parts.append(tag("line", class_="g", x1=0, x2=WIDTH, y1=y, y2=y))
            parts.append(text(_fitting(track.name, _GUTTER - 8), 4, y + 13, class_="t"))
    parts += _arrows(boxes, len(rows), left, scale)
    more = boxes.count() - len(widest)
    said = (
        f"{plural(len(widest), 'box', 'boxes')}; {amount(boxes.span, boxes.unit)} in all"
        if boxes.count()
        else "no rows"
    )
    if more:
        said += f"; {more:,} smaller or deeper ones are not drawn"
    parts.append(text(said, 4, height - 5, class_="d"))
    return document(WIDTH, height, title, parts)


def _fitting(name: str, width: float) -> str:
    room = int(width / _CHARACTER)
    return name if len(name) <= room else name[: room - 1] + "…" if room > 2 else ""


def _box(boxes: Boxes, hues: list[int], box: Box, x: float, y: float, width: float) -> str:
    name = boxes.names[box.name]
    fill = GROWTH[box.tint] if boxes.growth else COLOURS[-1 if box.mark == MERGED else hues[box.name]]
    extra = (
        {"class_": "x"}
        if box.mark == EXCEPTION
        else {"stroke_dasharray": "3 2", "class_": "w"}
        if box.mark == OPEN
        else {}
    )
    shape = tag(
        "rect", x=float(x), y=y + 1, width=max(width - 0.5, 0.3), height=_ROW - 2, style=f"fill:{fill}", **extra
    )
    label = _fitting(name, width - 6)
    told = f"<title>{escape(name)}: {escape(amount(box.width, boxes.unit))}</title>"
    return tag("g", told + shape + (text(label, x + 3, y + 13) if label else ""))


def _arrows(boxes: Boxes, rows: int, left: float, scale: float) -> list[str]:
    parts = []
    for arrow in boxes.arrows[:_ARROWS]:
        ends = [boxes.tracks[end].row if end >= 0 else -1 for end in (arrow.sender, arrow.receiver)]
        if max(ends) >= rows:
            continue
        x = left + arrow.x * scale
        end = x + (arrow.wait or 0) * scale
        y1, y2 = (_TOP + (row if row >= 0 else max(ends)) * _ROW + _ROW / 2 for row in ends)
        if arrow.wait is None or min(ends) < 0:
            parts.append(tag("circle", class_="m", cx=x, cy=y1, r=2.5))
            continue
        parts.append(tag("line", class_="w", x1=x, y1=y1, x2=end, y2=y2))
        parts.append(tag("circle", class_="m", cx=end, cy=y2, r=2.5))
    return parts
