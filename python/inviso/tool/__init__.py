"""What a person works with in an incident: sessions, trace cases by name, and nodes that are suspended, go and come
back.

A *trace case* is a file of calls that trace something (:mod:`inviso.case`), written once by who knows the program. A
file lists them by name, with the variables that each one needs, and the files that switch it on and off::

    ("calls", "on_off", ["Module"], "calls-on.case", "calls-off.case")
    ("memory", "on", [], "memory.case")

A :class:`Tool` has a control component of its own (:mod:`inviso.control`), a list of nodes, and, while a session lasts,
a history of what was done in it. A node that suspended itself, or that went and came back, gets the history again.

::

    from inviso.tool import Tool

    with Tool("shop-*", tc_def_file="cases") as tool:
        tool.start_session()
        tool.sync_atc("calls", 1, {"Module": "shop.prices"})
        ...                       # the processes go on meanwhile
        tool.sync_dtc("calls", 1)
        tool.stop_session()
        tool.fetch_log("logs")

Answers are Inviso's: ``("ok", …)``, ``("error", why)``, a bare ``ok`` is None. The command ``inviso case`` switches
single cases on and off. docs/tool.md has more.
"""

from __future__ import annotations

from ._cases import Definition, definitions
from ._generators import std_tdg
from ._tool import Tool

__all__ = ["Definition", "Tool", "definitions", "std_tdg"]
