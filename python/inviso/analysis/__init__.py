"""Answers in place of events: what a trace says about calls, messages, processes and time, as tables.

=========================  ======================================================================================
:func:`tables`             the trace as tables: a row for each call, message, process, step, collection, loss
:func:`critical_path`      what the time of one label (a request, an order) was spent on
:func:`blockers`           steps of tasks that held other tasks up
:func:`who_talks_to_whom`  senders and receivers, how many messages, how long they waited
:func:`queue_depth`        how many messages waited in a channel, over time
:func:`latency`            percentiles of how long messages waited, by channel, sender or receiver
=========================  ======================================================================================

A source is a log (a path), a wrap set ``(name, "wrap", suffix)``, several logs of several nodes (a list of paths, a folder, or a
mapping of nodes to logs: they are merged by time), a :class:`inviso.Session` that is its own tracer (what it holds now is taken, and
the session goes on), or a list of trace messages.

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
