"""The command ``inviso top``."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

from inviso.errors import BadArg, missing
from inviso.runtime._live_counts import KINDS
from inviso.top._live import Live, Refresh
from inviso.top._sample import SORTS
from inviso.top._table import record, tables

from ._cluster import carried_out, number, seconds, until_interrupted
from ._command import wants_color
from ._options import parsed

__all__ = ["main", "parser"]

MISSING = f"{missing('textual')}, or use --once or --json"


def parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments.

    >>> parser().parse_args(["shop-*", "-p", "shop.**", "--every", "2s"]).every
    2.0
    """
    about = (
        "Show the present activity of nodes: messages, queues, the hottest functions, losses, the lag of event loops. "
    )
    about += "It counts, and writes no log."
    made = argparse.ArgumentParser(
        prog="inviso top", description=about, allow_abbrev=False,
        epilog="Keys: m l c t n sort, Enter opens a process, p starts a pattern, x stops one, q ends.",
    )  # fmt: skip
    made.add_argument("nodes", nargs="*", metavar="NODE", help="a name, or a pattern with * and ? (in quotes)")
    made.add_argument("-p", "--pattern", action="append", default=[], metavar="PATTERN",
                      help="count these functions: MODULE, MODULE:FUNCTION, PACKAGE.**; may be repeated")  # fmt: skip
    made.add_argument(
        "--type",
        choices=KINDS,
        default=KINDS[0],
        help="the counters: calls and time by process (default), or only calls, which is cheaper",
    )
    made.add_argument(
        "--messages", action="store_true", help="count the messages of threads and tasks, too, which costs more"
    )
    made.add_argument(
        "--sort",
        choices=SORTS,
        help="order of processes and functions (default: messages, time or queue, the first that is counted)",
    )
    made.add_argument("--every", type=seconds, default=1.0, metavar="TIME", help="time between two refreshes (1s)")
    made.add_argument("--once", action="store_true", help="print tables once, from two readings")
    made.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        default=1.0,
        metavar="TIME",
        help="time between the two readings of --once (1s)",
    )
    made.add_argument(
        "--rows", type=number, default=20, metavar="N", help="the largest number of rows in a table of --once (20)"
    )
    made.add_argument("--json", action="store_true", help="write JSON, a line for each refresh; with --once one line")
    made.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="how long a node may take (half of the time between two refreshes, at most 5s)",
    )
    return made


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status.

    With ``--once`` it is 1 if a node failed, or there is no node; 2 for a wrong command line.

    >>> main(["no-such-node", "--once", "--for", "1ms"])
    1
    """
    given = parsed(parser(), words)
    return given if isinstance(given, int) else carried_out("top", given, _top)


def _top(given: argparse.Namespace) -> int:
    period = given.seconds if given.once else given.every
    timeout = min(given.timeout, max(period / 2, 0.5))
    sort = given.sort or ("messages" if given.messages else "time" if given.pattern else "queue")
    is_screen = not given.once and not given.json
    if is_screen:
        if sys.stdout is None or not sys.stdout.isatty():
            raise BadArg("top", "output", "it is not a terminal; use --once or --json")
        try:
            from inviso.top._screen import Screen
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in ("textual", "rich"):
                raise
            print(f"inviso top: {MISSING}", file=sys.stderr)
            return 1
    with Live(given.nodes, patterns=given.pattern, kind=given.type, messages=given.messages, timeout=timeout) as live:
        if is_screen:
            Screen(live, every=given.every, sort=sort).run()
            return 0
        with until_interrupted() as over:
            return _once(given, live, over, sort) if given.once else _lines(given, live, over)


def _once(given: Any, live: Live, over: threading.Event, sort: str) -> int:
    live.refresh()  # makes the nodes count
    live.refresh()
    over.wait(given.seconds)
    refresh = live.refresh()
    if given.json:
        print(json.dumps(record(refresh)))
    else:
        _print(refresh, sort, given.rows)
    _complain(refresh)
    return 1 if refresh.errors or refresh.refused or refresh.absent else 0


def _lines(given: Any, live: Live, over: threading.Event) -> int:
    absent: tuple[str, ...] = ()
    while not over.is_set():
        refresh = live.refresh()
        if refresh.absent != absent:
            absent = refresh.absent
            _complain(refresh)
        print(json.dumps(record(refresh)), flush=True)
        over.wait(given.every)
    return 0


def _complain(refresh: Refresh) -> None:
    if refresh.absent:
        what = "any process" if refresh.absent == ("*",) else " ".join(refresh.absent)
        print(f"inviso top: {what}: nobody of that name listens; start programs by 'inviso run'", file=sys.stderr)


def _print(refresh: Refresh, sort: str, most: int) -> None:
    bold = ("\x1b[1m", "\x1b[0m") if wants_color(1) else ("", "")
    is_first = True
    for head, rows in tables(refresh, sort, most):
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        # a column that is empty in all rows is not counted; the last column of a failed row may have any width
        shown = [at for at in range(len(head)) if any(row[at] for row in rows)]
        if not is_first:
            print()
        is_first = False
        for row in (head, *rows):
            line = "  ".join(row[at].ljust(widths[at]) for at in shown).rstrip()
            print(f"{bold[0]}{line}{bold[1]}" if row is head else line)
