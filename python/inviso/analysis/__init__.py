"""Analyses of a trace: calls, messages, processes and time, as tables.

=========================  ======================================================================================
:func:`tables`             the trace as tables: a row for each call, message, process, step, collection, loss
:func:`critical_path`      the parts of the time of one label (a request, an order)
:func:`blockers`           steps of tasks that blocked other tasks
:func:`who_talks_to_whom`  senders and receivers, their number of messages, and waiting times
:func:`queue_depth`        the number of messages that waited in a channel, over time
:func:`latency`            percentiles of waiting times of messages, by channel, sender or receiver
=========================  ======================================================================================

A source is a log (a path), a wrap set ``(name, "wrap", suffix)``, several logs of several nodes (a list of paths, a
folder, or a mapping of nodes to logs: they are merged by time), a :class:`inviso.Session` that is its own tracer (its
present messages are taken, and the session continues), or a list of trace messages.

>>> import inviso, queue
>>> from inviso import analysis, trace
>>> box = queue.Queue()
>>> with trace.session_create("shop") as session:
...     _ = session.process(inviso.self(), True, ["send", "receive"])
...     box.put("order"); _ = box.get()
...     t = analysis.tables(session)
>>> [(row["content"], row["kind"], row["pairing"]) for row in t.messages.rows()]
[("'order'", 'item', 'exact')]
"""

from __future__ import annotations

from ._questions import blockers, critical_path, latency, queue_depth, who_talks_to_whom
from ._saved import SavedTables, load
from ._table import AnalysisWarning, Table
from ._tables import Tables, tables

__all__ = [
    "AnalysisWarning",
    "SavedTables",
    "Table",
    "Tables",
    "blockers",
    "critical_path",
    "latency",
    "load",
    "queue_depth",
    "tables",
    "who_talks_to_whom",
]
