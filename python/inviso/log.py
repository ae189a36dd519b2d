"""Trace logs of Erlang or of this package: reads, converts and merges them, and counts their messages.

>>> import os, tempfile
>>> from inviso import etf, log
>>> path = os.path.join(tempfile.mkdtemp(), "trace")
>>> trace, call, m, f = map(inviso.Atom, ("trace", "call", "m", "f"))
>>> message = etf.dumps((trace, inviso.self(), call, (m, f, [1])))
>>> with open(path, "wb") as file: _ = file.write(bytes(1) + len(message).to_bytes(4) + message)
>>> for message in log.read(path):
...     match message:
...         case ("trace", pid, "call", (module, function, arguments)):
...             print(module, function, arguments, pid == inviso.self())
...         case ("drop", n):
...             print(n, "messages were lost here")
...         case log.Damage():
...             print(message)
m f [1] True
"""

from __future__ import annotations

from .logs._client import stop_trace_client, trace_client
from .logs._read import Damage, Damaged, Drop, Reader, Written, convert, merge, read
from .logs._stats import Stats, stats
from .logs._text import format

__all__ = [
    "Damage",
    "Damaged",
    "Drop",
    "Reader",
    "Stats",
    "Written",
    "convert",
    "format",
    "merge",
    "read",
    "stats",
    "stop_trace_client",
    "trace_client",
]
