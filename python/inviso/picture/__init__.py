"""Pictures: flame graphs, timelines, graphs of who talks to whom, histograms of latencies. Each is one HTML file
without a network.

=================== =============================================================================================
:func:`flame`       time or memory: functions under their callers; also for a difference
:func:`timeline`    the calls of each process over time, nested by depth, with messages as arrows
:func:`graph`       senders and receivers with their numbers of messages, by host
:func:`histogram`   durations on a logarithmic scale, with percentiles
=================== =============================================================================================

Each takes plain rows (dicts, tuples, or any table with ``__arrow_c_stream__``) and returns a :class:`Picture`.
:meth:`Picture.save` writes it to a file, and a notebook shows it directly.

>>> from inviso import picture
>>> flame = picture.flame([(("main", "shop:order/1", "shop:price/1"), 2_000_000), (("main", "shop:order/1"), 500_000)])
>>> flame
<flame graph 'Flame graph': 3 boxes of 3 functions, 2.5 ms>
>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     flame.save(pathlib.Path(folder, "flame.html"))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..errors import BadArg, shown
from . import _flame, _graph, _histogram, _timeline
from ._page import Picture
from ._rows import Rows, limit_of
from ._svg import boxes_svg
from ._text import amount, clean, plural

__all__ = ["Picture", "flame", "graph", "histogram", "timeline"]

_TABLE = 20  # rows of the table beneath a picture


def flame(
    rows: Rows,
    *,
    before: Rows | None = None,
    view: Literal["inclusive", "own"] = "inclusive",
    unit: str = "ns",
    title: str = "Flame graph",
    limit: int = 50_000,
) -> Picture:
    """A flame graph: each function under its callers, the outermost at the top. A width is the value of a function and
    all that it called.

    Args:
        rows: rows ``(stack, value)``, or dicts with these keys, or a table. A stack is a tuple of names, outermost
            first, or a text ``"a;b;c"``. The value is its last function's own value. Lines ``"a;b;c 12"``, for example
            of an open file of collapsed stacks, are rows, too. Equal stacks are added up.
        before: rows of an earlier state, for a difference. Boxes have their present width; those that grew are red,
            those that shrank blue. Functions that are gone are in the table.
        view: ``"own"`` turns stacks around: the first row has all functions by their own values, and beneath each are
            its callers.
        unit: ``"ns"``, ``"bytes"``, or any word, such as ``"calls"``.
        title: the text above the picture.
        limit: the number of boxes that are drawn; smaller ones are combined.

    Raises:
        BadArg: a wrong argument; for rows, with the number of the row.
        ModuleNotFoundError: a table, and neither pyarrow nor polars is installed to read it.

    >>> flame(["main;load 30", "main;sum 70"], unit="calls")
    <flame graph 'Flame graph': 3 boxes of 3 functions, 100 calls>
    >>> flame([("main;sum", 90)], before=[("main;load", 30), ("main;sum", 70)], unit="calls", title="After").about
    '2 boxes of 3 functions, 90 calls now, 100 calls before'
    """
    where = "flame/1"
    title, unit, limit = _text(where, "title", title), _text(where, "unit", unit), limit_of(where, limit)
    if view not in ("inclusive", "own"):
        raise BadArg(where, "view", f"{shown(view)} is unknown; pass 'inclusive' or 'own'")
    made = _flame.flame_boxes(where, rows, before, view, unit, limit)
    about = f"{plural(made.boxes.count(), 'box', 'boxes')} of {plural(len(made.functions), 'function')}"
    about += f", {amount(made.total, unit)}"
    if before is not None:
        about += f" now, {amount(made.before, unit)} before"
    svg = boxes_svg(made.boxes, title)
    return Picture("flame", title, about, made.notes, svg, _flame.table(made, view, _TABLE), made.boxes)


def timeline(
    calls: Any,
    messages: Rows | None = None,
    processes: Rows | None = None,
    functions: Rows | None = None,
    *,
    title: str = "Timeline",
    limit: int = 100_000,
) -> Picture:
    """A timeline: a track for each process, its calls nested by depth, messages as arrows from sender to receiver.

    Args:
        calls: rows with ``process_id``, ``function`` (or ``module`` and ``name``, or ``function_id``),
            ``start_mono_ns``, ``duration_ns`` (None: not ended), ``depth`` (None: by the times) and ``outcome``
            (``"return"``, ``"exception"``, ``"open"``, ``"lost"``); tuples have them in this order. Or an object or
            dict that has the tables ``calls``, ``messages``, ``processes`` and ``functions``.
        messages: rows with ``sender_id``, ``receiver_id``, ``sent_mono_ns``, ``wait_ns`` (None: not received, or not
            known) and ``message_id``.
        processes: rows with ``process_id``, ``name``, ``kind`` and ``node``. Processes without calls and messages have
            no track.
        functions: rows with ``function_id``, ``module``, ``name`` and ``arity``, if calls have ids.
        title: the text above the picture.
        limit: the number of calls that are drawn; shorter ones that are close to each other are combined.

    Raises:
        BadArg: a wrong argument; for rows, with the number of the row.
        ModuleNotFoundError: a table, and neither pyarrow nor polars is installed to read it.

    >>> calls = [(1, "shop:order", 0, 500, 0, "return"), (2, "shop:pack", 700, None, 0, "open")]
    >>> timeline(calls, messages=[(1, 2, 400, 300, 1)], processes=[(1, "desk", "thread"), (2, "store", "thread")])
    <timeline 'Timeline': 2 calls and 1 message of 2 processes in 700 ns>
    """
    where = "timeline/1"
    title, limit = _text(where, "title", title), limit_of(where, limit, 4)
    if isinstance(calls, dict) and "calls" in calls:
        tables = [calls.get(name) for name in ("calls", "messages", "processes", "functions")]
    elif hasattr(calls, "calls"):
        tables = [getattr(calls, name, None) for name in ("calls", "messages", "processes", "functions")]
    else:
        tables = [calls, None, None, None]
    given = (None, messages, processes, functions)
    tables = [table if one is None else one for table, one in zip(tables, given, strict=True)]
    made = _timeline.timeline_boxes(where, tables[0], tables[1], tables[2], tables[3], limit)
    about = (
        f"{plural(made.calls, 'call')} and {plural(made.messages, 'message')} of "
        f"{plural(made.processes, 'process', 'processes')} in {amount(made.boxes.span, 'ns')}"
    )
    return Picture(
        "timeline", title, about, made.notes, boxes_svg(made.boxes, title), _timeline.table(made, _TABLE), made.boxes
    )


def graph(
    edges: Rows,
    processes: Rows | None = None,
    *,
    unit: str = "messages",
    title: str = "Who talks to whom",
    limit: int = 60,
) -> Picture:
    """A graph: processes on a circle for each host, edges as thick as the logarithm of their number of messages.

    Args:
        edges: rows with ``sender``, ``receiver``, ``count`` (None: 1), ``sender_node`` and ``receiver_node`` (or one
            ``node`` for both; None: one host); tuples have them in this order. Rows of the same two processes are
            added up, so a table of messages, with ``sender_id`` and ``receiver_id``, can be used.
        processes: rows with ``process_id``, ``name`` and ``node``, if edges have ids.
        unit: the unit of the counts.
        title: the text above the picture.
        limit: the number of processes that are drawn; the others of each host are combined.

    Raises:
        BadArg: a wrong argument; for rows, with the number of the row.
        ModuleNotFoundError: a table, and neither pyarrow nor polars is installed to read it.

    >>> graph([("desk", "store", 12), ("store", "desk", 3), ("store", "store", 1)])
    <graph 'Who talks to whom': 2 processes, 3 edges, 16 messages>
    """
    where = "graph/1"
    title, unit, limit = _text(where, "title", title), _text(where, "unit", unit), limit_of(where, limit)
    made = _graph.graph_of(where, edges, processes, unit, limit)
    total = sum(made.edges.values())
    about = (
        f"{plural(len(made.nodes), 'process', 'processes')}, {plural(len(made.edges), 'edge')}, {amount(total, unit)}"
    )
    return Picture("graph", title, about, made.notes, _graph.graph_svg(made, title), _graph.table(made, _TABLE))


def histogram(
    values: Rows,
    *,
    column: str | None = None,
    by: str | None = None,
    unit: str = "ns",
    percentiles: Sequence[float] = (50, 90, 99, 99.9),
    title: str = "Latencies",
) -> Picture:
    """A histogram with a logarithmic scale, and lines at percentiles. Each percentile is one of the values (nearest
    rank).

    Args:
        values: numbers, or rows (dicts, or a table) with them.
        column: the column of the values. Default: ``"value"``, ``"wait_ns"``, ``"duration_ns"`` or ``"latency_ns"``.
        by: a column for groups. Each of its values has a histogram over the same scale; the eight largest are drawn.
        unit: ``"ns"``, ``"bytes"``, or any word.
        percentiles: up to eight numbers above 0, up to 100.
        title: the text above the picture.

    Raises:
        BadArg: a wrong argument; for values, with the number of the row.
        ModuleNotFoundError: a table, and neither pyarrow nor polars is installed to read it.

    >>> histogram([1_000, 2_000, 2_500, 90_000], percentiles=[50])
    <histogram 'Latencies': 4 values, p50 2 µs>
    """
    where = "histogram/1"
    title, unit = _text(where, "title", title), _text(where, "unit", unit)
    made = _histogram.histogram_series(where, values, column, by, unit, percentiles)
    about = plural(made.count(), "value")
    if len(made.series) == 1:
        about = ", ".join(
            [about, *(f"p{mark:g} {amount(made.series[0].percentile(mark), unit)}" for mark in made.percentiles)]
        )
    elif made.series:
        about += f" in {len(made.series)} groups"
    return Picture("histogram", title, about, made.notes, _histogram.histogram_svg(made, title), _histogram.table(made))


def _text(where: str, argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadArg(where, argument, f"{shown(value)} is not text; pass a str")
    return clean(value)
