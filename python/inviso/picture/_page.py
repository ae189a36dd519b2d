"""A picture, and the page that shows it: one document without a server, a port or another file."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any, Literal, TypeAlias

from ..errors import BadArg, shown
from ._boxes import Boxes, packed
from ._text import COLOURS, GROWTH, STEPS

__all__ = ["Kind", "Picture"]

Kind: TypeAlias = Literal["flame", "timeline", "graph", "histogram"]

_WORDS = {"flame": "flame graph", "timeline": "timeline", "graph": "graph", "histogram": "histogram"}
# the page fetches and sends nothing
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_BOX_KEYS = (
    "+ and − zoom, 0 or Esc resets, / searches, Enter in the search goes to the next match, arrows go from box to box, "
    "Enter zooms to a box, Shift with ← or → moves the view. Ctrl with the wheel zooms, dragging moves."
)
_DRAWING_KEYS = (
    "+ and − zoom, 0 or Esc resets, / searches, Enter in the search goes to the next match, Tab goes from one to the "
    "next, arrows move the view. Ctrl with the wheel zooms, dragging moves."
)


class Picture:
    """A flame graph, a timeline, a graph or a histogram, made by :func:`flame`, :func:`timeline`, :func:`graph` and
    :func:`histogram`.

    Jupyter, VS Code and exported notebooks show it as the value of a cell.

    Attributes:
        kind: ``"flame"``, ``"timeline"``, ``"graph"`` or ``"histogram"``.
        title: the text above it.
        about: one line that describes it.
        notes: parts that were omitted, or could not be placed.

    >>> from inviso import picture
    >>> made = picture.flame([("main;load", 30), ("main;sum", 70)], title="A job", unit="calls")
    >>> made
    <flame graph 'A job': 3 boxes of 3 functions, 100 calls>
    """

    __slots__ = ("_boxes", "_svg", "_table", "about", "kind", "notes", "title")

    def __init__(
        self,
        kind: Kind,
        title: str,
        about: str,
        notes: Sequence[str],
        svg: str,
        table: tuple[list[str], list[list[str]]],
        boxes: Boxes | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.title = title
        self.about = about
        self.notes = tuple(notes)
        self._svg = svg
        self._table = table
        self._boxes = boxes

    def __repr__(self) -> str:
        return f"<{_WORDS[self.kind]} {self.title!r}: {self.about}>"

    def svg(self) -> str:
        """A static drawing of it, as an SVG document. It has the largest boxes only.

        >>> from inviso import picture
        >>> picture.flame([]).svg()
        '<svg xmlns="http://www.w3.org/2000/svg"...no rows...</svg>'
        """
        return self._svg

    def html(self) -> str:
        """A whole HTML document that needs no other file and no network.

        >>> from inviso import picture
        >>> picture.flame([]).html()
        '<!doctype html>...</html>\\n'
        """
        title = escape(self.title)
        notes = "".join(f"<li>{escape(note)}" for note in self.notes)
        keys = _BOX_KEYS if self._boxes else _DRAWING_KEYS
        scripts = ["page.js", *(["boxes.js", "explore.js"] if self._boxes else ["drawing.js"])]
        code = "".join(f"<script>\n{_file(name)}</script>" for name in scripts)
        label = f"{title}: {escape(self.about)}. {keys}"
        view = (
            f'<div class="view"><canvas tabindex="0" role="img" aria-label="{label}"></canvas></div>'
            f"<noscript>{self._svg}</noscript>"
            if self._boxes
            else f'<div class="view drawing" tabindex="0" role="group" aria-label="{label}">{self._svg}</div>'
        )
        data = (
            f'<script type="application/octet-stream" id="data">{packed(self._data())}</script>' if self._boxes else ""
        )
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f'<meta name="viewport" content="width=device-width"><meta name="generator" content="inviso">'
            f"<style>\n{_file('page.css')}</style></head>\n"
            f'<body data-kind="{self.kind}"><main><h1>{title}</h1><p class="about">{escape(self.about)}</p>'
            f'{f"""<ul class="notes">{notes}</ul>""" if notes else ""}\n'
            '<div class="tools" role="toolbar" aria-label="View">'
            '<input type="search" placeholder="Search ( / )" aria-label="Search names">'
            '<span class="found" role="status"></span>'
            '<button id="in" title="Zoom in (+)" aria-label="Zoom in">+</button>'
            '<button id="out" title="Zoom out (-)" aria-label="Zoom out">−</button>'
            '<button id="reset" title="Show all (0)">Reset</button>'
            f'<details class="keys"><summary>Keys</summary>{keys}</details></div>\n'
            f'<p class="status" aria-live="polite">&nbsp;</p>\n{view}\n{self._legend()}\n{self._as_table()}</main>\n'
            f"{data}{code}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`html` to a file. An existing file is replaced.

        Raises:
            BadArg: it is not a path, or the folder does not exist.
            OSError: the system's error for the file.

        >>> from inviso import picture
        >>> picture.flame([]).save("/no such folder/flame.html")
        Traceback (most recent call last):
        ...
        inviso.errors.BadArg: save/1, path: there is no folder '/no such folder'; make it first
        """
        if not isinstance(path, (str, os.PathLike)):
            raise BadArg("save/1", "path", f"{shown(path)} is not a path; pass a str or a pathlib.Path")
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise BadArg("save/1", "path", f"there is no folder {shown(folder)}; make it first")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self.html())

    def _repr_html_(self) -> str:
        """For a notebook: the page in a frame, then a drawing for places that remove frames."""
        image = base64.b64encode(self._svg.encode()).decode()
        title, page = escape(self.title), escape(self.html())
        fills = "position:absolute;top:0;left:0;width:100%;height:100%"
        return (
            f'<div style="position:relative;width:100%;height:{self._height()}px;overflow:auto">'
            f'<img alt="{title}: {escape(self.about)}" style="width:100%" src="data:image/svg+xml;base64,{image}">'
            f'<iframe title="{title}" srcdoc="{page}" style="{fills};border:0"></iframe></div>'
        )

    def _repr_svg_(self) -> str:
        return self._svg

    def _height(self) -> int:
        if self._boxes is None:
            return 620
        return 270 + min(max(len(self._boxes.rows), 3) * 18, 400)

    def _data(self) -> dict[str, Any]:
        assert self._boxes is not None
        return {**self._boxes.data(), "colours": GROWTH if self._boxes.growth else COLOURS}

    def _legend(self) -> str:
        if self._boxes is None or not self._boxes.count():
            return ""
        if self._boxes.growth:
            steps = [f"{100 * step:g} %" for step in STEPS]
            said = [f"{step} less" for step in steps[::-1]] + ["as before"] + [f"{step} more" for step in steps]
            said[-1] += ", or new"
            items = list(zip(GROWTH, said, strict=True))
        else:
            groups = self._boxes.groups()
            items = list(zip(COLOURS, groups, strict=False))
            if self._boxes.has_others():
                items.append((COLOURS[-1], "others"))
        words = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for colour, name in items)
        extra = (
            "<span>✗ raised an exception</span><span>dashed: has not ended</span>" if self.kind == "timeline" else ""
        )
        return f'<p class="legend">{words}{extra}</p>'

    def _as_table(self) -> str:
        heads, rows = self._table
        if not rows:
            return "" if self._boxes is None or self._boxes.count() else '<p class="empty">no rows</p>'
        head = "".join(f'<th scope="col">{escape(name)}' for name in heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows)
        whole = f"<table><thead><tr>{head}<tbody>{body}</table>"
        return f'<details class="table"><summary>As a table: the first {len(rows)}</summary>{whole}</details>'


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
