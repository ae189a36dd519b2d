"""Sequential tracing: a token that follows a request through messages and processes (OTP's ``seq_trace`` module).

A process with a token passes it on, invisibly, with each message that it sends and to each process that it starts. The
receiver of a message takes its token over; a message without a token empties the receiver's. Each event has a serial
``(previous, current)``. The serials order the events of one label as a causal tree.

>>> from inviso import seq_trace
>>> _ = seq_trace.reset_trace()
>>> with seq_trace.Collector() as collector:
...     _ = seq_trace.set_token("label", 17), seq_trace.set_token("send", True)
...     child = inviso.spawn(inviso.receive)
...     _ = inviso.send(child, "hello")
...     output = collector.output()
>>> output.events[-1][2][:2], output.events[-1][2][4]
(('send', (2, 3)), 'hello')
>>> seq_trace.reset_trace()
True

The serial shows two earlier events: the request to start the child, and the child's answer.
"""

from __future__ import annotations

import binascii as binascii  # imported before the program's folder is on the path: a file there may have this name
from typing import TYPE_CHECKING, Any

from . import _fork as _fork  # registers what a fork needs
from .seq._tokens import (
    carrier,
    get_system_tracer,
    get_token,
    overflows,
    print,
    reset_trace,
    set_system_tracer,
    set_token,
)

if TYPE_CHECKING:
    from .seq._chart import Chart, chart
    from .seq._label import label
    from .seq._merge import Anchor, Collector, Entry, Output, merge
    from .seq._nodes import HEADER, LIMIT, VARIABLE, extract, from_environment, inject, rejected, to_environment
    from .seq._text import format, printer

__all__ = [
    "HEADER",
    "LIMIT",
    "VARIABLE",
    "Anchor",
    "Chart",
    "Collector",
    "Entry",
    "Output",
    "carrier",
    "chart",
    "extract",
    "format",
    "from_environment",
    "get_system_tracer",
    "get_token",
    "inject",
    "label",
    "merge",
    "overflows",
    "print",
    "printer",
    "rejected",
    "reset_trace",
    "set_system_tracer",
    "set_token",
    "to_environment",
]


def __getattr__(name: str) -> Any:
    # Few programs need these: they are imported at first use.
    if name in __all__:
        return getattr(_home(name), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _home(name: str) -> Any:
    match name:
        case "Chart" | "chart":
            from .seq import _chart

            return _chart
        case "Anchor" | "Collector" | "Entry" | "Output" | "merge":
            from .seq import _merge

            return _merge
        case "format" | "printer":
            from .seq import _text

            return _text
        case "label":
            from .seq import _label

            return _label
        case _:
            from .seq import _nodes

            return _nodes
