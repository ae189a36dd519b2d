"""A process that started by itself tells the control component that it is to belong to.

Control components listen in the folder ``control`` of the private folder, by their process ids. The one whose node the
option ``dependency`` names gets, after the greetings of both sides::

    ("connect", node, pid, version, tag)

and answers on the same connection, as on one that it had made itself::

    ("call", reference, "confirm", [])      ->  ("answer", reference, ("ok", (state, status, tag)))

From then on it is this node's control. A connection that it closes is refused.
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
"""Seconds that controls have to say who they are."""


def find(control: str, own: str) -> Met | None:
    """A connection to the control of that node, with or without its host; None if it isn't there."""
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
    """The frame that tells the control of this process."""
    from inviso import __version__

    return pack((Atom("connect"), node, os.getpid(), __version__, tag))
