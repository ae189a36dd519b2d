"""A tool for tracing in an incident: sessions, named trace cases, and nodes that are suspended, end and return.

A *trace case* is a file of calls that trace something (:mod:`inviso.case`), written once by an expert of the program. A
file lists trace cases by name, with their variables, and the files that switch them on and off::

    ("calls", "on_off", ["Module"], "calls-on.case", "calls-off.case")
    ("memory", "on", [], "memory.case")

A :class:`Tool` has its own control component (:mod:`inviso.control`), a list of nodes, and, during a session, a history
of its calls and trace cases. A node that suspended itself, or ended and came back, gets the history again.

::

    from inviso.tool import Tool

    with Tool("shop-*", tc_def_file="cases") as tool:
        tool.start_session()
        tool.sync_atc("calls", 1, {"Module": "shop.prices"})
        ...                       # the processes continue meanwhile
        tool.sync_dtc("calls", 1)
        tool.stop_session()
        tool.fetch_log("logs")

Answers are as in Inviso: ``("ok", …)``, ``("error", why)``; a bare ``ok`` is None. The command ``inviso case`` switches
single cases on and off. docs/tool.md has more.
"""

from __future__ import annotations

from ._cases import Definition, definitions
from ._generators import std_tdg
from ._tool import Tool

__all__ = ["Definition", "Tool", "definitions", "std_tdg"]
