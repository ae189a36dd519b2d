"""Trace sessions: which processes and functions are traced, and where the messages go (OTP's ``trace`` module).

All tracing is done in a session. Sessions don't affect each other: each has its own patterns, process flags, counters
and tracer, and all of these end with the session.

>>> from inviso import trace
>>> import json
>>> with trace.session_create("first") as session:
...     _ = trace.function(session, ("json.decoder", "JSONDecoder.decode", "_"), True, ["call_count"])
...     _ = json.loads("[1]"), json.loads("[2]")
...     trace.info(session, ("json.decoder", "JSONDecoder.decode", 3), "call_count")
('call_count', 2)

Functions have the names, argument order and results of trace.md; ``undefined`` is None, ``false`` is False, atoms are
:class:`inviso.Atom`, which compare equal to plain ``str``.
"""

from __future__ import annotations

import opcode as opcode  # the native half uses it; later a file of the program could be imported under this name
from typing import TYPE_CHECKING

from ._delivery import Delivered, delivered
from ._ending import session_destroy
from ._flags import port, process
from ._info import info
from ._monitor import system
from ._patterns import control_word, function, recv, send
from ._recorder import Dump, dump
from ._session import Session
from ._sessions import session_create, session_info

if TYPE_CHECKING:
    from ._types import Mfa as Mfa
    from ._types import Process as Process
    from ._types import Spec as Spec
    from ._types import Tracer as Tracer

__all__ = [
    "Delivered",
    "Dump",
    "Session",
    "control_word",
    "delivered",
    "dump",
    "function",
    "info",
    "port",
    "process",
    "recv",
    "send",
    "session_create",
    "session_destroy",
    "session_info",
    "system",
]

for _name in __all__:  # errors, pickles and the documentation name this module
    globals()[_name].__module__ = __name__
del _name
