"""The screen of ``inviso top``: tables that each refresh fills, and the view of one process. It needs textual."""

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
"""Rows of a table, at most."""

KEPT = 120
"""Earlier refreshes that a process's view shows."""

Table: TypeAlias = "DataTable[str]"


class Screen(App[None]):
    """The view of ``inviso top``.

    Args:
        live: polls nodes. One thread at a time uses it.
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
    Dialog { align: center middle; }
    Dialog > Vertical { width: 70; height: auto; border: round $primary; padding: 0 1; }
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
        """The last answers."""
        self._opened: Opened | None = None
        self._asking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """The tables."""
        yield Static(id="told")
        for name in ("nodes", "processes", "functions"):
            yield DataTable(id=name, cursor_type="row", show_cursor=name == "processes", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Makes the headings, and starts refreshing. SIGTERM ends the view as a key does."""
        for name, head in (("nodes", _table.NODES), ("processes", _table.PROCESSES), ("functions", _table.FUNCTIONS)):
            table = self._table(name)
            for label in head:
                table.add_column(label, key=label)
        self._table("processes").focus()
        with suppress(RuntimeError, ValueError):  # signals can be handled in the main thread only
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self.set_interval(self._every, self.refresh_nodes)
        self.call_later(self.refresh_nodes)

    def _table(self, name: str) -> Table:
        return self.screen_stack[0].query_one(f"#{name}", DataTable)

    async def refresh_nodes(self) -> None:
        """Polls all nodes and shows their answers, unless a refresh is in progress."""
        if self._asking.locked():
            return
        async with self._asking:
            opened = self._opened
            asked = (None, None) if opened is None else (opened.node, opened.pid)
            self.refreshed = await asyncio.to_thread(self._live.refresh, *asked)
        if not self.is_running:
            return  # the view ends, or has ended: its tables go away one by one
        self.show()
        if opened is not None and opened in self.screen_stack:
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
        """Sorts processes and functions."""
        self.sort = by
        self.show()

    def action_start(self) -> None:
        """Asks the user for a pattern, and counts it."""
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
        await self.refresh_nodes()

    def action_stop(self) -> None:
        """Stops a pattern. If there are several, asks the user for one."""
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
        await self.refresh_nodes()

    @on(DataTable.RowSelected, "#processes")
    def _open(self, event: DataTable.RowSelected) -> None:
        node, _, pid = str(event.row_key.value).partition(" ")
        self._opened = Opened(node, pid)
        self.push_screen(self._opened, self._back)
        self.call_later(self.refresh_nodes)

    def _back(self, _: None) -> None:
        self._opened = None


class Opened(View[None]):
    """The view of one process: its numbers, their past, and its functions."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "dismiss", "Back")]

    def __init__(self, node: str, pid: str) -> None:
        super().__init__()
        self.node = node
        self.pid = pid
        self._past: deque[float] = deque(maxlen=KEPT)

    def compose(self) -> ComposeResult:
        """A text, the past numbers, a table."""
        yield Static(f"{_plain(self.pid)} of {_plain(self.node)}", id="of")
        yield Static(id="numbers")
        yield Sparkline([], id="history")
        yield DataTable(id="own", cursor_type="none")
        yield Footer()

    def on_mount(self) -> None:
        """Makes the headings."""
        self.query_one("#own", DataTable).add_columns(*_table.FUNCTIONS[:-1])

    def show(self, node: Node | None, error: str | None) -> None:
        """Shows the node's last answer."""
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
    """Lines of text, and the number whose past is shown: messages per second, else calls, else the mailbox's length."""
    lines = [f"{process.kind} {process.name!r}", f"mailbox      {process.queue:,}"]
    for name, value in (("sent/s", process.sent), ("received/s", process.received), ("calls/s", process.calls)):
        if value is not None:
            lines.append(f"{name:<12} {_table.rate(value)}")
    if process.time is not None:
        lines.append(f"time %       {_table.percent(process.time)}")
    known = next((each for each in (process.messages, process.calls) if each is not None), float(process.queue))
    return lines, known


class Dialog(ModalScreen[str | None]):
    """Asks the user for a text. Escape cancels it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back")]


class Pattern(Dialog):
    """Asks for a pattern of functions."""

    def compose(self) -> ComposeResult:
        """An input line."""
        with Vertical():
            yield Static("Count which functions? MODULE, MODULE:FUNCTION or PACKAGE.**")
            yield Input(placeholder="shop.**")

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class Choice(Dialog):
    """Asks for the pattern to stop."""

    def __init__(self, patterns: list[str]) -> None:
        super().__init__()
        self._patterns = patterns

    def compose(self) -> ComposeResult:
        """A list of patterns."""
        with Vertical():
            yield Static("Stop which pattern?")
            yield OptionList(*map(_plain, self._patterns))

    @on(OptionList.OptionSelected)
    def _done(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._patterns[event.option_index])


def _plain(text: str) -> str:
    """Text of a program, with its brackets escaped, which are markup otherwise."""
    return text.replace("[", r"\[")


def _fill(table: Table, rows: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Shows these rows in this order. The cursor stays on its row."""
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
