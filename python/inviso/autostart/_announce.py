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
import socket
import time
from typing import Any

from inviso._link._folder import CONTROL, Folder
from inviso._link._frame import BadFrame, Frames, greeting, pack, peer_of
from inviso._link._peer import credentials, may_serve
from inviso.terms import Atom

__all__ = ["Found", "announce", "find"]

PATIENCE = 1.0
"""Seconds that controls have to say who they are."""


class Found:
    """A connection to a control."""

    __slots__ = ("about", "frames", "pid", "socket")

    def __init__(self, made: socket.socket, pid: int, about: dict[str, Any], frames: Frames) -> None:
        self.socket = made
        self.pid = pid
        self.about = about
        self.frames = frames


def find(control: str, own: str) -> Found | None:
    """A connection to the control of that node, with or without its host; None if it isn't there."""
    until = time.monotonic() + PATIENCE
    try:
        with Folder.open(make=False) as above, above.below(CONTROL) as folder:
            for pid in folder.pids():
                found = _ask(folder, pid, own, until)
                if found is None:
                    continue
                node = str(found.about.get("node", ""))
                if node == control or node.partition("@")[0] == control:
                    return found
                found.socket.close()
    except OSError:
        pass  # there is no such folder
    return None


def _ask(folder: Folder, pid: int, own: str, until: float) -> Found | None:
    try:
        made = folder.connect(pid)
    except OSError:
        return None
    try:
        if not may_serve(credentials(made)[1]):
            raise BadFrame("it is another user's")
        made.settimeout(max(0.001, until - time.monotonic()))
        made.sendall(greeting(node=own, pid=os.getpid()))
        frames = Frames()
        while True:
            made.settimeout(max(0.001, until - time.monotonic()))
            data = made.recv(1 << 16)
            if not data:
                raise BadFrame("it has gone")
            for term in frames.feed(data):
                return Found(made, pid, peer_of(term), frames)
    except (OSError, BadFrame):
        made.close()
        return None


def announce(found: Found, node: str, tag: Any) -> bytes:
    """The frame that tells the control of this process."""
    from inviso import __version__

    return pack((Atom("connect"), node, os.getpid(), __version__, tag))
