"""Pictures in a headless Chromium: they draw, zoom, search, and obey keys. The tests compare counts, not pixels."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser_tools
import pytest
from inviso import picture

PROGRAM = browser_tools.installed()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)")

HOSTILE = '</script><b id="bad">&"\''
STACKS = [("main;load;parse", 40), ("main;load", 10), ("main;sum;parse", 20), ("main;sum", 30)]
CALLS = [
    (1, "shop.web:handle", 0, 9000, 0, "return"),
    (1, "shop.db:query", 1000, 3000, 1, "exception"),
    (2, "shop.store:pack", 5200, None, 0, "open"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[browser_tools.Browser]:
    assert PROGRAM
    one = browser_tools.Browser(PROGRAM)
    yield one
    one.close()


class Page:
    """A picture that is open in the browser."""

    def __init__(self, browser: browser_tools.Browser, folder: Path, made: picture.Picture) -> None:
        self.browser = browser
        made.save(folder / "page.html")
        browser.open(folder / "page.html")
        browser.until("document.body.dataset.ready")

    def facts(self) -> dict[str, Any]:
        """The drawn elements, as the page reports them after it has drawn everything."""
        self.browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found: dict[str, Any] = self.browser.run("({...document.body.dataset})")
        return {name: float(value) if re.fullmatch(r"[\d.e+-]*\d", value) else value for name, value in found.items()}

    def fact(self, name: str) -> Any:
        return self.facts()[name]

    def status(self) -> str:
        return str(self.browser.run("document.querySelector('.status').textContent"))

    def search(self, text: str) -> str:
        self.browser.run("document.querySelector('input').value = ''; document.querySelector('input').focus()")
        self.browser.type(text)
        return str(self.browser.run("document.querySelector('.found').textContent"))

    def focus(self) -> None:
        self.browser.run("picture.canvas.focus()")

    def middle(self, row: int, part: float, top: int = 0) -> tuple[float, float]:
        """A point of the canvas: in a row of boxes, at a part of its width."""
        left, up, width = self.browser.run(
            "(({x, y, width}) => [x, y, width])(document.querySelector('canvas').getBoundingClientRect())"
        )
        return left + width * part, up + top + 18 * row + 9


@pytest.fixture
def show(browser: browser_tools.Browser, tmp_path: Path) -> Iterator[Any]:
    yield lambda made: Page(browser, tmp_path, made)
    assert browser.errors() == []
    assert all(address.startswith(("file:", "about:")) for address in browser.asked())


def test_a_flame_graph_draws_zooms_and_resets(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame(STACKS))
    facts = page.facts()
    assert (facts["boxes"], facts["rows"], facts["drawn"], facts["from"], facts["to"]) == (5, 3, 5, 0, 100)
    browser.move(*page.middle(2, 0.6))
    assert page.status() == "parse · 20 ns (20 %) · own 20 ns"
    browser.click(*page.middle(1, 0.75))
    facts = page.facts()
    assert (facts["from"], facts["to"], facts["seen"], facts["focus"]) == (50, 100, 3, "sum")
    browser.click(*page.middle(0, 0.5))
    assert page.fact("to") - page.fact("from") == 100
    page.browser.run("document.querySelector('#in').click()")
    assert page.fact("to") - page.fact("from") == 50
    page.browser.run("document.querySelector('#reset').click()")
    facts = page.facts()
    assert (facts["from"], facts["to"], facts["focus"]) == (0, 100, "")


def test_search_counts_boxes_and_their_share(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame([*STACKS, ("parse;parse", 100)]))
    assert page.search("PARSE") == "4 found, 80 %" and page.fact("hits") == 4
    browser.key("Enter")
    assert page.fact("focus") == "parse"
    assert page.search("nothing") == "0 found, 0 %"
    browser.key("Escape")
    assert page.fact("hits") == 0 and browser.run("document.activeElement === picture.canvas")


def test_keys_go_from_box_to_box(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame(STACKS))
    page.focus()
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp"):
        browser.key(key)
        seen.append(page.fact("focus"))
    assert seen == ["main", "load", "sum", "parse", "parse", "load", "main"]
    browser.key("ArrowDown")
    browser.key("Enter")
    assert (page.fact("from"), page.fact("to")) == (0, 50)
    for key, wide in (("+", 25), ("-", 50), ("0", 100)):
        browser.key(key)
        assert page.fact("to") - page.fact("from") == wide
    browser.key("/")
    assert browser.run("document.activeElement.type") == "search"


def test_the_wheel_zooms_about_the_pointer_and_dragging_moves(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame([("a", 100), ("b", 100)]))
    x, y = page.middle(0, 0.25)
    browser.wheel(x, y, -300, modifiers=2)
    browser.until("Number(document.body.dataset.to) < 200")
    span = float(page.fact("to")) - float(page.fact("from"))
    assert span == pytest.approx(200 / 2.718, rel=0.01)
    assert float(page.fact("from")) + span / 4 == pytest.approx(50, rel=0.02)
    before = float(page.fact("from"))
    for kind, at, buttons in (("mousePressed", x, 1), ("mouseMoved", x - 100, 1), ("mouseReleased", x - 100, 0)):
        browser.send("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=buttons, clickCount=1)
    assert float(page.fact("from")) > before and page.fact("focus") == ""


def test_a_difference_says_what_there_was_before(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame([("a", 30), ("b", 10)], before=[("a", 20)]))
    browser.move(*page.middle(0, 0.25))
    assert page.status() == "a · 30 ns (75 %) · own 30 ns · before 20 ns"
    assert browser.run("document.querySelectorAll('.legend i').length") == 9


def test_a_timeline_has_tracks_calls_and_arrows(show: Any, browser: browser_tools.Browser) -> None:
    messages = [(1, 2, 4000, 1200, 9), (2, None, 8000, None, None)]
    page = show(picture.timeline(CALLS, messages, [(1, "desk", "thread"), (2, "store", "task")]))
    facts = page.facts()
    assert (facts["boxes"], facts["drawn"], facts["arrows"], facts["arrowsdrawn"], facts["rows"]) == (3, 3, 2, 2, 5)
    browser.move(*page.middle(2, 0.4, top=20))
    assert page.status() == "shop.db:query · 3 µs (33.3 %) · begins after 1 µs · raised an exception"
    _, x1, y1, x2, y2 = browser.run("picture.lines[0].slice(0, 5)")
    left, up = browser.run("(({x, y}) => [x, y])(picture.canvas.getBoundingClientRect())")
    browser.move(left + (x1 + x2) / 2, up + (y1 + y2) / 2)
    assert page.status() == "message 9 · desk → store · waited 1.2 µs"
    page.focus()
    browser.key("ArrowDown")
    browser.key("Enter")
    assert page.fact("focus") == "shop.web:handle" and page.search("shop.db") == "1 found"


def test_twenty_thousand_functions(show: Any, browser: browser_tools.Browser) -> None:
    dice = random.Random(1)
    paths: list[tuple[str, ...]] = [()]
    rows = []
    while len(rows) < 20_000:
        path = (*dice.choice(paths), f"package{len(rows) % 37}.module:function_{len(rows)}/2")
        paths.append(path)
        rows.append((path, dice.randrange(1, 10**6)))
    page = show(picture.flame(rows))
    facts = page.facts()
    assert facts["boxes"] == 20_000 and facts["drawn"] < 20_000
    assert (
        page.search("function_123")
        == f"{sum('function_123' in path[-1] for path, _ in rows):,} found, "
        + page.browser.run("document.querySelector('.found').textContent").split(", ")[1]
    )
    browser.key("Enter")
    assert "function_123" in page.fact("focus")


def test_a_hundred_thousand_calls(show: Any, browser: browser_tools.Browser) -> None:
    calls = [(n % 50, f"p{n % 9}:f{n % 100}", n // 50 * 1000, 700, 0, "return") for n in range(100_000)]
    page = show(picture.timeline(calls, [(n % 50, (n * 7) % 50, n * 400, 900, n) for n in range(5000)]))
    facts = page.facts()
    assert (facts["boxes"], facts["arrows"], facts["rows"]) == (100_000, 5000, 100)
    # narrower than a pixel: drawn together, and not all of them
    assert facts["drawn"] < facts["seen"] / 20 and facts["arrowsdrawn"] == 1500
    browser.run("picture.show(1_000_000, 1_010_000)")
    facts = page.facts()
    # ten calls of each track that is in view
    assert 50 <= facts["seen"] == facts["drawn"] < 500 and facts["seen"] % 10 == 0
    browser.run("picture.view.scrollTop = 600")
    browser.until("picture.view.scrollTop === 600")
    assert page.fact("seen") > 0


@pytest.mark.parametrize(
    "made",
    [picture.flame([]), picture.timeline([]), picture.graph([]), picture.histogram([])],
    ids=lambda made: made.kind,
)
def test_a_picture_without_rows_says_so(show: Any, browser: browser_tools.Browser, made: picture.Picture) -> None:
    page = show(made)
    assert "no rows" in browser.run("document.body.innerText + document.body.textContent")
    for key in ("+", "ArrowDown", "Enter", "0"):
        browser.key(key)
    page.search("x")


def test_names_are_text(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.flame([(HOSTILE, 5)], title=HOSTILE))
    assert browser.run("document.querySelector('#bad')") is None
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE
    browser.move(*page.middle(0, 0.5))
    assert page.status().startswith(HOSTILE)
    show(picture.graph([(HOSTILE, HOSTILE, 5, HOSTILE)]))
    assert browser.run("document.querySelector('#bad')") is None


def test_a_graph_lights_what_belongs_to_a_process(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.graph([("a", "b", 5), ("b", "c", 1), ("c", "c", 2), ("d", "a", 7)]))
    facts = page.facts()
    assert (facts["nodes"], facts["edges"]) == (4, 4)
    browser.run("[...document.querySelectorAll('.node')].find((node) => node.dataset.name.startsWith('b:')).focus()")
    assert page.status() == "b: sent 1 messages, received 5 messages"
    assert browser.run("document.querySelectorAll('.edge:not(.faded)').length") == 2
    browser.run("document.activeElement.blur()")
    assert browser.run("document.querySelectorAll('.faded').length") == 0
    assert page.search("c →") == "1 found" and browser.run("document.querySelectorAll('.faded').length") == 7
    page.search("")
    browser.run("document.activeElement.blur()")
    whole = float(browser.run("picture.whole[2]"))
    for key, wide in (("+", whole / 2), ("-", whole), ("+", whole / 2), ("0", whole)):
        browser.key(key)
        assert float(page.fact("width")) == wide


def test_a_histogram_has_bars_and_marks(show: Any, browser: browser_tools.Browser) -> None:
    page = show(picture.histogram([{"wait_ns": 10**n, "k": n % 2} for n in range(1, 9)], by="k"))
    assert page.fact("bars") == 8 and browser.run("document.querySelectorAll('.mark').length") == 8
    assert page.search("value, 25.0 %") == "8 found"
    browser.key("Enter")
    assert "1 value" in page.status()


@pytest.mark.parametrize("made", [picture.flame(STACKS), picture.graph([("a", "b")])], ids=lambda made: made.kind)
def test_themes(show: Any, browser: browser_tools.Browser, made: picture.Picture) -> None:
    page = show(made)
    grounds = []
    for theme in ("light", "dark"):
        browser.theme(theme)
        page.facts()
        grounds.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    browser.theme("light")
    assert grounds == ["rgb(255, 255, 255)", "rgb(27, 28, 31)"]


def test_a_page_is_accessible(show: Any, browser: browser_tools.Browser) -> None:
    show(picture.flame(STACKS, title="A job"))
    tree = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in browser.send("Accessibility.getFullAXTree")["nodes"]
    ]
    assert ("heading", "A job") in tree and ("searchbox", "Search names") in tree
    assert any(
        role in ("img", "image") and name.startswith("A job: 5 boxes of 4 functions, 100 ns. + and − zoom")
        for role, name in tree
    )
    assert {name for role, name in tree if role == "button"} >= {"Zoom in", "Zoom out", "Reset"}
    browser.run("document.querySelector('.table').open = true")
    assert browser.run("[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent)") == [
        "parse",
        "sum",
        "load",
        "main",
    ]


def test_two_pictures_in_a_dark_notebook(browser: browser_tools.Browser, tmp_path: Path) -> None:
    cells = picture.flame(STACKS)._repr_html_() + picture.graph([("a", "b")])._repr_html_()
    page = f'<!doctype html><meta charset="utf-8"><body data-jp-theme-light="false">{cells}'
    (tmp_path / "notebook.html").write_text(page, "utf-8")
    browser.open(tmp_path / "notebook.html")
    frames = "[...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument)"
    browser.until(f"{frames}.every((page) => page.body.dataset.ready)")
    assert browser.run(f"{frames}.map((page) => page.body.dataset.boxes || page.body.dataset.items)") == ["5", "3"]
    assert (
        browser.run(f"{frames}.map((page) => getComputedStyle(page.body).backgroundColor)") == ["rgb(27, 28, 31)"] * 2
    )
    assert browser.run("[...document.images].every((image) => image.naturalWidth > 0)")
    assert browser.errors() == [] and all(
        address.startswith(("file:", "data:", "about:")) for address in browser.asked()
    )


def test_without_scripts_there_is_a_drawing(browser: browser_tools.Browser, tmp_path: Path) -> None:
    picture.flame(STACKS).save(tmp_path / "page.html")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(tmp_path / "page.html")
        root = browser.send("DOM.getDocument")["root"]["nodeId"]
        found = browser.send("DOM.querySelectorAll", nodeId=root, selector="noscript svg g rect")["nodeIds"]
        assert len(found) == 5
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
