"""Outputs for lines: a stream, or a descriptor for which no thread of the program waits.

A stopped terminal or a slow reader must not delay the program. Lines that can't be written at once wait in a bounded
buffer, and a thread writes them when there is room. Lines that don't fit are counted. Half of a pipe stays free for the
program, which may write there, too, and would have to wait. The thread ends before a fork.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import io
import os
import stat
import sys
import time
import weakref
from collections.abc import Callable
from select import POLLOUT, poll
from typing import Any, Final

try:
    import fcntl
    import termios
except ImportError:  # without Unix, a pipe is written while it accepts bytes, and line ends are not changed
    fcntl = termios = None  # type: ignore[assignment]

from inviso import _fork
from inviso._descriptor import Own, duplicate, private
from inviso._stream import put
from inviso._system import allocate_lock, get_native_id, sleep, start_new_thread
from inviso.tracing import Gone, Output

__all__ = ["BUFFER", "Descriptor", "Stream", "of_file", "of_stream"]

BUFFER: Final = 1 << 18
"""Bytes that wait for a slow reader."""

_PAGES: Final = 8192
"""Bytes of a pipe that may stay empty after a write."""

_ATOMIC: Final = 4096
"""A pipe accepts so many bytes together, or none of them."""

_LEFT: Final = errno.EPIPE, errno.ECONNRESET
"""The system's errors for a reader that has gone."""


def of_stream(stream: Any) -> Output:
    """The output for a stream. Writing to a terminal, pipe or socket takes no lock of the stream and never waits."""
    if type(stream) is io.TextIOWrapper:
        with contextlib.suppress(OSError, ValueError):
            number = stream.fileno()
            if not stat.S_ISREG(os.fstat(number).st_mode):
                return Descriptor(number)
    return Stream(stream)


def of_file(path: Any) -> Descriptor:
    """The output for a file name. Only its owner can read the file, because it has the arguments of calls. Another
    program may empty it meanwhile.
    """
    opened = private(path, os.O_NONBLOCK | os.O_APPEND)
    try:
        return Descriptor(opened, os.fsdecode(path))
    finally:
        os.close(opened)


class Stream:
    """A text stream, such as a StringIO or a notebook's; or a file, which never blocks for long."""

    __slots__ = ("_stream", "_through", "failed", "path")

    def __init__(self, stream: Any, through: Callable[..., Any] | None = None) -> None:
        self._stream = stream
        self._through = through
        """Calls the function that writes, in the context of a notebook's cell."""
        self.failed: str | None = None
        self.path: str | None = None

    def write(self, line: str, *, last: bool = False) -> int:
        try:
            if self._through is None:
                put(self._stream, line + "\n")
            else:
                self._through(put, self._stream, line + "\n")
        except (OSError, ValueError, AttributeError) as error:  # the stream is closed, or None without a console
            self._note(error)
            raise Gone from error
        return 0

    def finish(self, timeout: float) -> int:
        try:
            self._stream.flush()
        except (OSError, ValueError, AttributeError) as error:
            self._note(error)
        return 0

    def _note(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno not in _LEFT:
            self.failed = error.strerror


class Descriptor:
    """A terminal, pipe, socket or file, with its own duplicate of the descriptor."""

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_capacity",
        "_is_quick",
        "_is_terminal",
        "_is_within",
        "_lock",
        "_lost",
        "_native_id",
        "_own",
        "_state",
        "_thread",
        "_waiting",
        "failed",
        "path",
    )

    def __init__(self, number: int, path: str | None = None) -> None:
        self._own = Own(_unblocked(number))
        self._is_quick = not stat.S_ISREG(os.fstat(self._own.number).st_mode)
        """Whether a write returns at once. A file's disk may make its writer wait."""
        self._is_terminal = os.isatty(self._own.number)
        self._capacity = _capacity(self._own.number)
        """Bytes that fit into a pipe; 0 for other files."""
        self._waiting = 0
        """Bytes in the pipe at the last check, plus the bytes that were written since."""
        self._buffer = bytearray()
        self._is_within = False
        """Whether a part of the first line in the buffer is written already."""
        self._lost = 0
        """Lost lines that no line reports yet."""
        self._lock = allocate_lock()
        self._thread: _thread.LockType | None = None
        """Held while the writing thread runs."""
        self._state = "open"
        """``"open"``, ``"gone"``, ``"closed"``; ``"paused"`` while the process forks."""
        self.failed: str | None = None
        self.path = path
        self._native_id = 0
        _open[id(self)] = self

    def write(self, line: str, *, last: bool = False) -> int:
        with self._lock:
            if self._state in ("gone", "closed"):
                self._lost += 1
                raise Gone
            if len(self._buffer) > BUFFER and not last:
                self._lost += 1
                return 1
            if self._lost:
                self._buffer += f"*** Dropped {self._lost} messages.\n".encode()
                self._lost = 0
            self._buffer += line.encode("utf-8", "backslashreplace") + b"\n"
            if self._is_quick and self._thread is None:
                self._flush()
            if self._state == "gone":
                raise Gone
            if self._buffer and self._thread is None and self._state == "open":
                self._start()
            return 0

    @property
    def number(self) -> int:
        """The descriptor."""
        return self._own.number

    def finish(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        self.start()
        with self._lock:
            if self._lost and self._state == "open":
                self._buffer += f"*** Dropped {self._lost} messages.\n".encode()
                self._lost = 0
            self._make_room(len(self._buffer))
        while True:
            with self._lock:  # written by this thread: at the interpreter's end no thread can be started
                self._flush(whole=True)
                if not self._buffer or self._state != "open" or time.monotonic() >= end:
                    break
            sleep(0.002)
        with self._lock:
            left = self._buffer.count(b"\n") + self._lost
            if self._buffer and self._state == "open":
                self._report_lost(left)
            self._buffer.clear()
            was, self._state = self._state, "closed"
        self.pause()
        if was != "closed":
            self._own.close()
        _open.pop(id(self), None)
        return left

    def pause(self) -> None:
        """Ends the thread: the process is about to fork, or the output ends."""
        with self._lock:
            if self._state == "open":
                self._state = "paused"
            thread = self._thread
        if thread is not None:
            with thread:
                pass
            _fork.wait_until_gone(self._native_id)

    def start(self) -> None:
        """Continues after a fork."""
        with self._lock:
            if self._state == "paused":
                self._state = "open"
            if self._buffer and self._state == "open" and self._thread is None:
                self._start()

    def forget(self) -> None:
        """Closes the output in a forked child, which has no session: the buffer belongs to the parent, and a copy of
        the descriptor would keep a pipe open.
        """
        self._lock = allocate_lock()
        self._thread = None
        self._buffer.clear()
        if self._state != "closed":
            self._own.close()
        self._state = "closed"

    def _start(self) -> None:
        self._thread = running = allocate_lock()
        running.acquire()
        try:
            start_new_thread(self._run, (running,))
        except RuntimeError:  # no thread can be started: the next line tries again
            self._thread = None
            running.release()

    def _run(self, running: _thread.LockType) -> None:
        self._native_id = get_native_id()
        room = poll()
        room.register(self._own.number, POLLOUT)
        try:
            while True:
                with self._lock:
                    self._flush()
                    if not self._buffer or self._state != "open":
                        self._thread = None
                        return
                sleep(0.01 if self._is_half_full() else 0.001)  # poll may report room for very few bytes only
                room.poll(20)
        finally:
            running.release()

    def _flush(self, *, whole: bool = False) -> None:
        """Writes as much as possible now. With ``whole`` also into the half of a pipe that is for the program."""
        while self._buffer:
            if not self._own.is_there():  # the program closed all descriptors
                self._state = "gone"
            if self._state in ("gone", "closed"):
                self._lost += self._buffer.count(b"\n")
                self._buffer.clear()
                return
            if not whole and self._is_half_full():
                return
            try:
                count = self._write(self._next())
            except OSError as error:
                self._state = "gone"
                if not (error.errno in _LEFT or (error.errno == errno.EIO and self._is_quick)):  # a terminal hung up
                    self.failed = error.strerror
                continue
            if not count:
                return
            self._waiting += count
            self._is_within = self._buffer[count - 1 : count] != b"\n"
            del self._buffer[:count]

    def _next(self) -> bytes:
        """The bytes of one write: whole lines, so that other writers don't write inside a line."""
        if not self._is_quick:
            return bytes(self._buffer[:BUFFER])
        end = self._buffer.rfind(b"\n", 0, _ATOMIC) + 1
        return bytes(self._buffer[: end or _ATOMIC])

    def _write(self, data: bytes) -> int:
        """Writes as many bytes as fit; returns their number."""
        if not self._is_quick:
            return os.write(self._own.number, data)
        if not (self._is_terminal and self._is_raw()):
            return self._own.write_now(data)
        sent = data.replace(b"\n", b"\r\n")[: self._own.write_now(data.replace(b"\n", b"\r\n"))]
        return len(sent.replace(b"\r\n", b"\n")) - sent.endswith(b"\r")

    def _is_raw(self) -> bool:
        """Whether a terminal doesn't translate line ends, as while the prompt of 3.13 reads. The check releases the
        GIL.
        """
        try:
            return "_pyrepl" in sys.modules and not termios.tcgetattr(self._own.number)[1] & termios.OPOST
        except (AttributeError, OSError, termios.error):
            return False

    def _is_half_full(self) -> bool:
        """Whether the rest of a pipe is for the program's own writes. The check releases the GIL, so it is made once
        for many lines.
        """
        if 2 * self._waiting < self._capacity or not self._capacity:
            return False
        try:
            waiting = fcntl.ioctl(self._own.number, termios.FIONREAD, bytes(4))
        except OSError:
            return False
        self._waiting = int.from_bytes(waiting, sys.byteorder)
        return 2 * self._waiting >= self._capacity

    def _report_lost(self, left: int) -> None:
        """Replaces the last lines, which were not written in time, by a line with their number."""
        rest = self._buffer.index(b"\n") + 1 if self._is_within else 0
        del self._buffer[rest:]
        self._buffer += f"*** Dropped {left - (rest > 0)} messages.\n".encode()
        self._make_room(len(self._buffer))
        self._flush(whole=True)

    def _make_room(self, size: int) -> None:
        """Enlarges a full pipe by so many bytes, so that the last lines wait there for a slow reader."""
        if size and self._capacity:
            with contextlib.suppress(OSError):  # the system doesn't allow it
                now = _capacity(self._own.number)
                fcntl.fcntl(self._own.number, fcntl.F_SETPIPE_SZ, now + size + _PAGES)


def _capacity(number: int) -> int:
    """Bytes that fit into a pipe; 0 for other files, and if the system doesn't report it."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
        return fcntl.fcntl(number, fcntl.F_GETPIPE_SZ) if is_pipe else 0
    except (AttributeError, OSError):
        return 0


def _unblocked(number: int) -> int:
    """A non-blocking descriptor of the same file. The other descriptor stays as it is."""
    own = duplicate(number)
    kind = os.fstat(own).st_mode
    if stat.S_ISREG(kind) or stat.S_ISSOCK(kind):
        return own
    try:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        again = os.open(f"/proc/self/fd/{own}", flags)
    except OSError:
        return own
    os.close(own)
    own = duplicate(again)
    os.close(again)
    return own


_open: weakref.WeakValueDictionary[int, Descriptor] = weakref.WeakValueDictionary()


def _all() -> list[Descriptor]:
    # copied first: other threads open and close outputs meanwhile
    return [output for reference in _open.valuerefs() if (output := reference()) is not None]


def _forget() -> None:
    for output in _all():
        output.forget()


def _pause() -> None:
    for output in _all():
        output.pause()


def _start() -> None:
    for output in _all():
        output.start()


_fork.rest(_pause, _start, lambda: bool(_open))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
