"""The process at the other end of a connection: its ids, and its end."""

from __future__ import annotations

import os
import select
import socket
import struct
from contextlib import suppress

__all__ = ["Life", "credentials", "has_ended", "may_serve"]

_CREDENTIALS = struct.Struct("3i")


def credentials(connection: socket.socket) -> tuple[int, int]:
    """Process id and user id of the other end, from the kernel."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return pid, uid


def may_serve(uid: int) -> bool:
    """Whether a process of this user may trace this one: the same user, or root."""
    return uid in (os.geteuid(), 0)


def has_ended(pid: int) -> bool:
    """Whether a process has ended. One that its parent has not waited for yet has ended, too.

    >>> has_ended(os.getpid()), has_ended(2**22 + 1)
    (False, True)
    """
    life = Life(pid)
    try:
        return life.has_ended()
    finally:
        life.close()


class Life:
    """Watches a process for its end. A connection doesn't show that: a forked child may keep it open."""

    __slots__ = ("descriptor", "pid")

    def __init__(self, pid: int, *, is_watched: bool = True) -> None:
        self.pid = pid
        try:
            self.descriptor = os.pidfd_open(pid) if is_watched else -1
            """Readable when the process has ended. -1 if it can't be watched, or has ended already."""
        except OSError:
            self.descriptor = -1

    def has_ended(self) -> bool:
        """Whether the process has ended. For one that can't be watched: whether its process id is free."""
        if self.descriptor < 0:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                pass
            return False
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Stops watching."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
