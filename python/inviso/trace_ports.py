"""Trace ports: tracers that write to files and sockets, as ``dbg:trace_port/2`` makes them.

A session whose tracer is a trace port is drained by a thread of the port's own, which needs no interpreter; what it
writes a real Erlang reads, by ``dbg:trace_client/3``.

>>> import json, tempfile
>>> from inviso import trace, trace_ports
>>> folder = tempfile.TemporaryDirectory()
>>> tracer = trace_ports.trace_port("file", folder.name + "/calls")
>>> port = tracer()
>>> with trace.session_create("logged", port) as session:
...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
...     _ = session.process(inviso.self(), True, ["call"])
...     _ = json.loads("[1]"), json.loads("[2]")
...     _ = session.delivered().wait(5)
...     port.written
2
>>> port.is_open(), port.dropped
(False, 0)
>>> folder.cleanup()
"""

from __future__ import annotations

import atexit
import os
import stat
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _fork, _limits, _native, _program
from .errors import BadArg, shown

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TypeAlias

    from ._limits import Rate

    Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

__all__ = ["PortGenerator", "TracePort", "trace_port"]

_SIZE = 128 << 10
_COUNT = 8
_QUEUE = 200
_WHERE = "trace_port/2"
_OR_SET = ", or a tuple for a wrap set"

_known: weakref.WeakValueDictionary[int, TracePort] = weakref.WeakValueDictionary()


class TracePort:
    """An open trace port. What :func:`trace_port` returned makes it; it is closed with the last session that it serves.

    What can't be written (a full disk) is counted, a drop record stands at its place where writing works again, and
    each wake-up of the thread tries again; :attr:`error` says what the system said. The traced program is never told,
    and never waits.

    Closed by hand under a living session it is a dead tracer: the session's flags are gone, as in OTP.

    >>> with trace_port("ip", 0)() as port:
    ...     port.kind, port.address[0], port.is_open()
    ('ip', '127.0.0.1', True)
    >>> port
    <trace port #... ip 127.0.0.1:..., closed>
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _native.LogPort) -> None:
        self._native = native
        _known[native.number] = self

    @property
    def kind(self) -> str:
        """``"file"``, ``"wrap"`` or ``"ip"``."""
        return self._native.kind

    @property
    def path(self) -> str | None:
        """The file; of a wrap set what its files' names begin with; None of a socket."""
        path = self._native.path
        return None if path is None else os.fspath(path)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port number that it listens on, the real one where 0 was asked for; None of a file."""
        return self._native.address

    @property
    def written(self) -> int:
        """Messages that were written, or wait for a client."""
        return self._native.counts()[0]

    @property
    def dropped(self) -> int:
        """Messages that were lost: in full rings, for a client that is too slow, by errors. Drop records tell where."""
        return self._native.counts()[1]

    @property
    def bytes(self) -> int:
        """Bytes that the operating system has taken."""
        return self._native.counts()[2]

    @property
    def errors(self) -> int:
        """How often the operating system has refused to write."""
        return self._native.counts()[3]

    @property
    def error(self) -> str | None:
        """What it said the last time; None if it never did."""
        return self._native.error

    def limit(self, limit: int | None = None, *, rate: Rate | None = None, lost: int | None = None) -> None:
        """Says when it closes by itself; what is None stays as it was, at first without end.

        Args:
            limit: after so many messages, counted from here on; those after it are not written.
            rate: when there are more than so many messages in a second; ``(messages, milliseconds)`` for another span.
                They are counted where they are written, some milliseconds after they were told.
            lost: when more than so many were lost in full rings.

        Raises:
            BadArg: no such number.

        >>> import json, tempfile
        >>> from inviso import trace
        >>> with tempfile.TemporaryDirectory() as folder, trace_port("file", folder + "/t")() as port:
        ...     port.limit(2, rate=(1000, 100))
        ...     with trace.session_create("few", port) as session:
        ...         _ = session.function(("json", "loads", "_"), True, ["local"])
        ...         _ = session.process(inviso.self(), True, ["call"])
        ...         _ = [json.loads("1") for _ in range(10)]
        ...         _ = session.delivered().wait(5)
        ...     port.written, port.ended
        (2, 'the limit of 2 messages was reached')
        """
        _limits.checked("TracePort.limit", limit, rate, lost)
        self._native.limit(limit, _limits.window(rate), lost)

    @property
    def is_limited(self) -> bool:
        """Whether it has a limit or a rate."""
        return self._native.is_limited()

    @property
    def ended(self) -> str | None:
        """Why it closes, or closed, by itself; None if it does not."""
        ended = self._native.ended()
        return None if ended is None else _limits.why(*ended)

    def is_open(self) -> bool:
        """Whether it takes messages."""
        return self._native.is_open()

    def flush(self) -> None:
        """Hands everything that was traced before to the operating system (dbg.md, ``flush_trace_port/1``).

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, trace_port("file", folder + "/t")() as port:
        ...     port.flush()
        ...     os.path.getsize(port.path)
        0
        """
        self._native.flush()

    def close(self) -> None:
        """Writes what there is, and takes nothing more; a second time does nothing. A client of a socket has a second
        to take what is left."""
        self._native.close()

    def __enter__(self) -> TracePort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracePort) and self._native.number == other._native.number

    def __hash__(self) -> int:
        return hash(self._native.number)

    def __repr__(self) -> str:
        place = self.path if self.address is None else f"{self.address[0]}:{self.address[1]}"
        return f"<trace port #{self._native.number} {self.kind} {place}{'' if self.is_open() else ', closed'}>"


class PortGenerator:
    """Opens a trace port when it is called, each time a new one (dbg.md, ``trace_port/2``: a trace port generator)."""

    __slots__ = ("_open", "_what")

    def __init__(self, what: str, opens: Callable[[], TracePort]) -> None:
        self._what = what
        self._open = opens

    def __call__(self) -> TracePort:
        """Opens the port; a file that is there already is emptied, a wrap set deleted.

        Raises:
            OSError: the operating system refuses.
        """
        return self._open()

    def __repr__(self) -> str:
        return f"<trace port generator: {self._what}>"


def trace_port(kind: str, parameters: Any, *, host: str = "127.0.0.1", compress: bool = False) -> PortGenerator:
    """Says what a trace port is to be opened as (dbg.md, ``trace_port/2``).

    Args:
        kind: ``"file"`` or ``"ip"``.
        parameters: of a file: its name, or ``(name, "wrap", suffix)``, ``(name, "wrap", suffix, size)``,
            ``(name, "wrap", suffix, size, count)`` for a set of at most ``count`` files (8), which are written round
            and round. Each has about ``size`` bytes (131,072), or is written for ``("time", milliseconds)``. The names
            are ``name + number + suffix``. Of a socket: the number of the port that it listens on, 0 for any, or
            ``(number, queue_size)``, how many messages wait for the client (200).
        host: the interface that a socket listens on. What is sent is not encrypted, and whoever connects may read it.
        compress: a plain file in the smaller form of :mod:`inviso`'s own readers, which Erlang doesn't read.

    Returns:
        A function without arguments that opens the port. Files are for their owner only.

    Raises:
        BadArg: a wrong argument.

    >>> trace_port("ip", (4711, 100))
    <trace port generator: ip 127.0.0.1:4711, queue of 100>
    >>> trace_port("file", ("calls", "wrap", ".log", 1000, 4))
    <trace port generator: wrap set calls*.log, 4 files of 1000 bytes>
    """
    if not isinstance(kind, str) or kind not in ("file", "ip"):
        raise BadArg(_WHERE, "kind", f"{shown(kind)} is no kind of trace port; pass 'file' or 'ip'")
    if not isinstance(compress, bool):
        raise BadArg(_WHERE, "compress", f"{shown(compress)} is not a bool; pass True or False")
    if kind == "ip":
        if compress:
            raise BadArg(_WHERE, "compress", "a socket is not compressed; drop compress, or pass 'file'")
        return _socket(parameters, host)
    if not isinstance(parameters, tuple):
        return _file(_path(parameters), compress)
    if compress:
        raise BadArg(_WHERE, "compress", "a wrap set is not compressed; drop compress, or pass a plain file's name")
    return _wrap_set(parameters)


def no_pipe(where: str, argument: str, path: str) -> None:
    """BadArg where a file's name is that of a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # what is wrong with it is said where it is opened
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise BadArg(where, argument, f"{shown(path)} is a pipe, which may make its writer wait; pass a file's name")


def _file(path: str, compress: bool) -> PortGenerator:
    def opens() -> TracePort:
        no_pipe(_WHERE, "parameters", path)
        _native.set_program(_program.name())
        return TracePort(_native.port_to_file(path, compress))

    return PortGenerator(f"file {path}" + (", compressed" if compress else ""), opens)


def _wrap_set(parameters: tuple[Any, ...]) -> PortGenerator:
    if not 3 <= len(parameters) <= 5 or parameters[1] != "wrap":
        why = f"{shown(parameters)} is no wrap set; pass (name, 'wrap', suffix), with a size and a count after that or not"
        raise BadArg(_WHERE, "parameters", why)
    name, _, suffix, *rest = parameters
    path = _path(name)
    if not os.path.basename(path):
        raise BadArg(_WHERE, "parameters", f"{shown(name)} is a folder; pass what the names of the files begin with")
    if not isinstance(suffix, str) or not suffix or "/" in suffix or "\0" in suffix:
        raise BadArg(
            _WHERE, "parameters", f"the suffix {shown(suffix)} can't end a file's name; pass one such as '.log'"
        )
    size: Any = rest[0] if rest else _SIZE
    milliseconds: int | None = None
    if isinstance(size, tuple):
        if not (len(size) == 2 and size[0] == "time" and _is_number(size[1], 1, 1 << 48)):
            raise BadArg(_WHERE, "parameters", f"{shown(size)} is no time; pass ('time', milliseconds), an int from 1")
        milliseconds = size[1]
    elif not _is_number(size, 0, 1 << 62):
        why = f"the size {shown(size)} is no number of bytes; pass an int from 0, or ('time', ms)"
        raise BadArg(_WHERE, "parameters", why)
    count = rest[1] if len(rest) > 1 else _COUNT
    if not _is_number(count, 1, (1 << 32) - 1):
        raise BadArg(_WHERE, "parameters", f"the count {shown(count)} is no number of files; pass an int from 1")

    bytes_: int | None = None if milliseconds else size
    whole = os.path.abspath(path)  # the program may go elsewhere while files are begun

    def opens() -> TracePort:
        _native.set_program(_program.name())
        return TracePort(_native.port_to_set(whole, suffix, bytes_, milliseconds, count))

    limit = f"{milliseconds} ms" if milliseconds else f"{size} bytes"
    return PortGenerator(f"wrap set {path}*{suffix}, {count} files of {limit}", opens)


def _socket(parameters: Any, host: Any) -> PortGenerator:
    number, queue = parameters if isinstance(parameters, tuple) and len(parameters) == 2 else (parameters, _QUEUE)
    if not _is_number(number, 0, 65_535):
        why = f"{shown(parameters)} is no port to listen on; pass a number from 0 to 65535, or (number, queue_size)"
        raise BadArg(_WHERE, "parameters", why)
    if not _is_number(queue, 0, 1 << 32):
        raise BadArg(
            _WHERE, "parameters", f"the queue's size {shown(queue)} is no number of messages; pass an int from 0"
        )
    if not isinstance(host, str) or not host or "\0" in host:
        raise BadArg(
            _WHERE, "host", f"{shown(host)} is no host to listen on; pass a name or address such as '127.0.0.1'"
        )

    def opens() -> TracePort:
        try:
            return TracePort(_native.port_to_socket(host, number, queue))
        except OSError as error:
            if error.errno is None:
                look_up(host, number)
            raise

    return PortGenerator(f"ip {host}:{number}, queue of {queue}", opens)


def look_up(host: str, number: int) -> None:
    """Raises what Python says where a host is not known, which has a number."""
    import socket

    try:
        socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)
    except UnicodeError:
        return
    except socket.gaierror as error:
        raise error from None


def _path(path: Any) -> str:
    return path_of(_WHERE, "parameters", path)


def path_of(where: str, argument: str, path: Any) -> str:
    """A file's name, checked: a descriptor's number is none."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise BadArg(where, argument, f"{shown(path)} is no file's name; pass a str" + _OR_SET * (where == _WHERE))
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise BadArg(where, argument, f"{shown(name)} can't be a file's name; pass a path")
    return name


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def of(native: _native.LogPort) -> TracePort:
    """The one object of a port."""
    return _known.get(native.number) or TracePort(native)


def checked(where: str, argument: str, port: TracePort) -> _native.LogPort:
    """The port, if it may be a tracer."""
    if not port.is_open():
        raise BadArg(where, argument, f"{shown(port)} can't be a tracer; open another one")
    return port._native


atexit.register(_native.ports_end)
_fork.rest(_native.ports_pause, _native.ports_resume, _native.ports_rest)
