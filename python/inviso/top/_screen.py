"""The screen of ``inviso top``: tables that are filled anew at each refresh, and one process's own view.

It needs textual.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.screen import Screen as View
from textual.widgets import DataTable, Footer, Input, OptionList, Sparkline, Static

from inviso.errors import BadArg

from . import _table
from ._live import Live, Refresh
from ._sample import Node, Process, ordered_functions

__all__ = ["Screen"]

MOST = 200
"""Rows that a table has at most."""

KEPT = 120
"""Refreshes that a process's view shows of the past."""

Table: TypeAlias = "DataTable[str]"


class Screen(App[None]):
    """The view of ``inviso top``.

    Args:
        live: what asks nodes; it is used by one thread at a time.
        every: seconds between two refreshes.
        sort: one of :data:`inviso.top._sample.SORTS`.
    """

    TITLE = "inviso top"
    CSS = """
    #told { height: auto; }
    #nodes { height: auto; max-height: 30%; }
    #processes { height: 1fr; }
    #functions { height: 1fr; display: none; }
    #functions.counted { display: block; }
    DataTable { margin-bottom: 1; }
    Asked { align: center middle; }
    Asked > Vertical { width: 70; height: auto; border: round $primary; padding: 0 1; }
    #history { height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "sort('messages')", "Messages"),
        Binding("l", "sort('queue')", "Length of queues"),
        Binding("c", "sort('calls')", "Calls"),
        Binding("t", "sort('time')", "Time"),
        Binding("n", "sort('name')", "Name"),
        Binding("p", "start", "Start pattern"),
        Binding("x", "stop", "Stop pattern"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, live: Live, *, every: float = 1.0, sort: str = "queue") -> None:
        super().__init__()
        self._live = live
        self._every = every
        self.sort = sort
        self.refreshed = Refresh(0.0, {}, {})
        """What was asked for last."""
        self._opened: Opened | None = None
        self._asking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """The tables."""
        yield Static(id="told")
        for name in ("nodes", "processes", "functions"):
            yield DataTable(id=name, cursor_type="row", show_cursor=name == "processes", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """The first refresh; SIGTERM ends the view as a key does."""
        for name, head in (("nodes", _table.NODES), ("processes", _table.PROCESSES), ("functions", _table.FUNCTIONS)):
            table = self._table(name)
            for label in head:
                table.add_column(label, key=label)
        self._table("processes").focus()
        with suppress(RuntimeError, ValueError):  # in another thread than the main one no signal can be handled
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self.set_interval(self._every, self.look)
        self.call_later(self.look)

    def _table(self, name: str) -> Table:
        return self.screen_stack[0].query_one(f"#{name}", DataTable)

    async def look(self) -> None:
        """Asks all nodes and shows what they say, unless that goes on already."""
        if self._asking.locked():
            return
        async with self._asking:
            opened = self._opened
            asked = (None, None) if opened is None else (opened.node, opened.pid)
            self.refreshed = await asyncio.to_thread(self._live.refresh, *asked)
        self.show()
        if opened is not None and opened is self._opened:
            opened.show(self.refreshed.nodes.get(opened.node), self.refreshed.errors.get(opened.node))

    def show(self) -> None:
        """Fills the tables."""
        refresh, live = self.refreshed, self._live
        parts = [f"inviso top   {len(refresh.nodes)} nodes   every {self._every:g} s   sorted by {self.sort}"]
        if live.patterns:
            parts.append(f"counted ({live.kind}): {' '.join(live.patterns)}")
        if refresh.absent:
            parts.append(f"nobody listens: {' '.join(refresh.absent)}")
        self.screen_stack[0].query_one("#told", Static).update("\n".join(_plain(part) for part in parts))
        _fill(self._table("nodes"), [(row[0], row) for row in _table.nodes(refresh)])
        found = _table.processes(refresh, self.sort)[:MOST]
        _fill(self._table("processes"), [(f"{node} {pid}", row) for node, pid, row in found])
        rows = _table.functions(refresh, self.sort)[:MOST]
        self._table("functions").set_class(bool(rows or live.patterns), "counted")
        _fill(self._table("functions"), [(row[0], row) for row in rows])

    # keys

    def action_sort(self, by: str) -> None:
        """Orders processes and functions."""
        self.sort = by
        self.show()

    def action_start(self) -> None:
        """Asks for a pattern and has it counted."""
        self.push_screen(Pattern(), self._start)

    async def _start(self, pattern: str | None) -> None:
        if not pattern:
            return
        async with self._asking:
            try:
                self._live.start(pattern)
            except BadArg as wrong:
                self.notify(_plain(wrong.why), title="no pattern", severity="error")
                return
        await self.look()

    def action_stop(self) -> None:
        """Stops a pattern: the one that there is, or the one that is chosen."""
        patterns = list(self._live.patterns)
        if len(patterns) > 1:
            self.push_screen(Choice(patterns), self._stop)
        elif patterns:
            self.run_worker(self._stop(patterns[0]))
        else:
            self.notify("no pattern is counted; p starts one")

    async def _stop(self, pattern: str | None) -> None:
        if pattern is None:
            return
        async with self._asking:
            self._live.stop(pattern)
        await self.look()

    @on(DataTable.RowSelected, "#processes")
    def _open(self, event: DataTable.RowSelected) -> None:
        node, _, pid = str(event.row_key.value).partition(" ")
        self._opened = Opened(node, pid)
        self.push_screen(self._opened, self._back)
        self.call_later(self.look)

    def _back(self, _: None) -> None:
        self._opened = None


class Opened(View[None]):
    """One process: its numbers, what they were, and its functions."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "dismiss", "Back")]

    def __init__(self, node: str, pid: str) -> None:
        super().__init__()
        self.node = node
        self.pid = pid
        self._past: deque[float] = deque(maxlen=KEPT)

    def compose(self) -> ComposeResult:
        """A text, the past, a table."""
        yield Static(f"{_plain(self.pid)} of {_plain(self.node)}", id="of")
        yield Static(id="numbers")
        yield Sparkline([], id="history")
        yield DataTable(id="own", cursor_type="none")
        yield Footer()

    def on_mount(self) -> None:
        """The headings."""
        self.query_one("#own", DataTable).add_columns(*_table.FUNCTIONS[:-1])

    def show(self, node: Node | None, error: str | None) -> None:
        """What the node said last."""
        if not self.is_mounted:
            return
        process = next((each for each in node.processes if each.pid == self.pid), None) if node is not None else None
        told = self.query_one("#numbers", Static)
        if process is None:
            told.update(_plain(error or "it has ended, or there are too many processes"))
            return
        lines, value = _numbers(process)
        self._past.append(value)
        told.update(_plain("\n".join(lines)))
        self.query_one("#history", Sparkline).data = list(self._past)
        table = self.query_one("#own", DataTable)
        functions = ordered_functions(node.own or (), "time") if node is not None else []
        table.clear()
        for each in functions[:MOST]:
            table.add_row(*map(_plain, _table.function(each)))


def _numbers(process: Process) -> tuple[list[str], float]:
    """Lines of text, and the number whose past is shown: messages a second, or calls, or the length of the mailbox."""
    lines = [f"{process.kind} {process.name!r}", f"mailbox      {process.queue:,}"]
    for name, value in (("sent/s", process.sent), ("received/s", process.received), ("calls/s", process.calls)):
        if value is not None:
            lines.append(f"{name:<12} {_table.rate(value)}")
    if process.time is not None:
        lines.append(f"time %       {_table.percent(process.time)}")
    known = next((each for each in (process.messages, process.calls) if each is not None), float(process.queue))
    return lines, known


class Asked(ModalScreen[str | None]):
    """Something that is asked for; escape gives it up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back")]


class Pattern(Asked):
    """Asks for functions."""

    def compose(self) -> ComposeResult:
        """A line to write in."""
        with Vertical():
            yield Static("Count which functions? MODULE, MODULE:FUNCTION or PACKAGE.**")
            yield Input(placeholder="shop.**")

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class Choice(Asked):
    """Asks which pattern is stopped."""

    def __init__(self, patterns: list[str]) -> None:
        super().__init__()
        self._patterns = patterns

    def compose(self) -> ComposeResult:
        """A list."""
        with Vertical():
            yield Static("Stop which pattern?")
            yield OptionList(*map(_plain, self._patterns))

    @on(OptionList.OptionSelected)
    def _done(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._patterns[event.option_index])


def _plain(text: str) -> str:
    """Text of a program's, in which brackets mean nothing."""
    return text.replace("[", r"\[")


def _fill(table: Table, rows: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Shows these rows in this order; the cursor stays with its row."""
    found = {key: tuple(map(_plain, row)) for key, row in rows}
    here: Any = None
    if table.row_count and table.is_valid_row_index(table.cursor_row):
        here = table.ordered_rows[table.cursor_row].key.value
    scrolled = table.scroll_y
    table.clear()
    for key, row in found.items():
        table.add_row(*row, key=key)
    if here in found:
        table.move_cursor(row=list(found).index(here), scroll=False)
    table.scroll_to(y=scrolled, animate=False)
