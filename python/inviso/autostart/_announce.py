"""Announces a process with autostart to its control component.

Control components listen in the folder ``control`` of the private folder, by their process ids. The option
``dependency`` names the node of the control. After the greetings of both sides the process sends it::

    ("connect", node, pid, version, tag)

The control answers on the same connection, as on a connection that it opened itself::

    ("call", reference, "confirm", [])      ->  ("answer", reference, ("ok", (state, status, tag)))

From then on it is this node's control. It refuses by closing the connection.
"""

from __future__ import annotations

import os
import time
from typing import Any

from inviso._link._folder import CONTROL, Folder
from inviso._link._frame import BadFrame, pack
from inviso._link._meet import Met
from inviso.terms import Atom

__all__ = ["announce", "find"]

PATIENCE = 1.0
"""Seconds that controls have to send their greetings."""


def find(control: str, own: str) -> Met | None:
    """A connection to the control of that node, with or without its host; None if there is no such control."""
    until = time.monotonic() + PATIENCE
    try:
        with Folder.open(make=False) as above, above.below(CONTROL) as folder:
            for pid in folder.pids():
                try:
                    found = Met(folder, pid, own, until)
                except (OSError, BadFrame):
                    continue
                if control in (found.node, found.node.partition("@")[0]):
                    return found
                found.socket.close()
    except OSError:
        pass  # there is no such folder
    return None


def announce(found: Met, node: str, tag: Any) -> bytes:
    """The frame that announces this process."""
    from inviso import __version__

    return pack((Atom("connect"), node, os.getpid(), __version__, tag))
