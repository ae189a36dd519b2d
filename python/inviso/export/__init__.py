"""Exports a trace in the formats of other tools.

==================== ==========================================================================================
:func:`perfetto`     https://ui.perfetto.dev: a track for each process, calls as slices, messages as arrows
:func:`chrome`       JSON for ``chrome://tracing`` and many other tools
:func:`speedscope`   https://speedscope.app: flame charts of each process
:func:`collapsed`    collapsed stacks, for flame graphs
:func:`pstats`       statistics for ``pstats.Stats``
:func:`arrow`        a table that pandas, polars, pyarrow and DuckDB read without a copy
:func:`parquet`      the same table as a Parquet file; :func:`ipc`: as an Arrow file
:func:`otlp`         spans, for OpenTelemetry's collectors
==================== ==========================================================================================

A source is a log (a path), several logs (a list or another collection of paths, read one after the other), the logs of
several nodes (a mapping of their names, or a folder with ``NODE.log``: merged as by :func:`inviso.merge.logs`), a wrap
set ``(name, "wrap", suffix)``, a :class:`inviso.Session` that is its own tracer (its present messages are exported), or
any iterable of trace messages. Exports are made while messages are read, so memory does not grow with their number.

>>> import json, os, tempfile
>>> from inviso import export, trace
>>> with trace.session_create("export") as session:
...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), [("_", [], [("return_trace",)])], ["local"])
...     _ = session.process(inviso.self(), True, ["call", "timestamp"])
...     _ = json.loads("[1]")
...     with tempfile.TemporaryDirectory() as folder:
...         out = os.path.join(folder, "trace.json")
...         summary = export.chrome(session, out)
...         with open(out) as file:
...             events = json.load(file)["traceEvents"]
>>> summary.messages, summary.dropped
(2, 0)
>>> [(event["ph"], event["name"]) for event in events if event["ph"] in "BE"]
[('B', 'json.decoder:JSONDecoder.decode/3'), ('E', 'json.decoder:JSONDecoder.decode/3')]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._files import Summary, chrome, collapsed, perfetto, pstats, speedscope
from ._otlp import Sent, otlp
from ._table import Rows, arrow, ipc, parquet

__all__ = [
    "FORMATS",
    "Rows",
    "Sent",
    "Summary",
    "arrow",
    "chrome",
    "collapsed",
    "ipc",
    "otlp",
    "parquet",
    "perfetto",
    "pstats",
    "speedscope",
]

FORMATS: dict[str, Callable[[Any, Any], Summary]] = {
    "perfetto": perfetto,
    "chrome": chrome,
    "speedscope": speedscope,
    "collapsed": collapsed,
    "pstats": pstats,
    "arrow": ipc,
    "parquet": parquet,
    "otlp": otlp,
}
"""The formats of files by name: functions of a source and a path or file."""
