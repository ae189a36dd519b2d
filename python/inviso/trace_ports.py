"""Trace ports: tracers that write to files and sockets (``dbg:trace_port/2``).

A thread of the port takes the messages of its session; it doesn't need the interpreter. Erlang reads the files and
sockets by ``dbg:trace_client/3``.

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
    """An open trace port. Calling the result of :func:`trace_port` opens one; it closes with the last session that it
    serves.

    Messages that can't be written (to a full disk) are lost and counted. The thread tries again each time it wakes.
    When writing works again, a drop record stands at the place of the loss. :attr:`error` has the system's message. The
    traced program gets no error and never waits.

    A port that is closed by hand while its session lives is a dead tracer: the session's flags are gone, as in OTP.

    >>> with trace_port("ip", 0)() as port:
    ...     port.kind, port.address[0], port.is_open()
    ('ip', '127.0.0.1', True)
    >>> port
    <trace port #... ip 127.0.0.1:..., closed>
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _native.trace_port.LogPort) -> None:
        self._native = native
        _known[native.number] = self

    @property
    def kind(self) -> str:
        """``"file"``, ``"wrap"`` or ``"ip"``."""
        return self._native.kind

    @property
    def path(self) -> str | None:
        """The file; for a wrap set the beginning of its files' names; None for a socket."""
        path = self._native.path
        return None if path is None else os.fspath(path)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port number on which it listens; the real number if 0 was given; None for a file."""
        return self._native.address

    @property
    def written(self) -> int:
        """Messages that were written, or that wait for a client."""
        return self._native.counts()[0]

    @property
    def dropped(self) -> int:
        """Messages that were lost: in full rings, by a slow client, by errors. Drop records mark the places."""
        return self._native.counts()[1]

    @property
    def bytes(self) -> int:
        """Bytes that the operating system has accepted."""
        return self._native.counts()[2]

    @property
    def errors(self) -> int:
        """Writes that the operating system has refused."""
        return self._native.counts()[3]

    @property
    def error(self) -> str | None:
        """The system's message at the last refusal; None without one."""
        return self._native.error

    def limit(self, limit: int | None = None, *, rate: Rate | None = None, lost: int | None = None) -> None:
        """Sets the limits at which the port closes by itself. At first it has none; None leaves a limit as it is.

        Args:
            limit: closes after so many messages, counted from this call; later ones are not written.
            rate: closes at more messages than this in a second; ``(messages, milliseconds)`` for another span.
                Messages are counted when they are written, some milliseconds after their events.
            lost: closes when more messages than this were lost in full rings.

        Raises:
            BadArg: a limit that is not such a number.

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
        """Whether a limit or a rate is set."""
        return self._native.is_limited()

    @property
    def ended(self) -> str | None:
        """The reason if the port closes, or has closed, by itself; else None."""
        ended = self._native.ended()
        return None if ended is None else _limits.why(*ended)

    def is_open(self) -> bool:
        """Whether it accepts messages."""
        return self._native.is_open()

    def flush(self) -> None:
        """Writes all earlier messages (dbg.md, ``flush_trace_port/1``).

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, trace_port("file", folder + "/t")() as port:
        ...     port.flush()
        ...     os.path.getsize(port.path)
        0
        """
        self._native.flush()

    def close(self) -> None:
        """Writes the messages that wait, and closes; a second call does nothing. The client of a socket has one second
        to take the rest.
        """
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
    """Opens a new trace port at each call (dbg.md, ``trace_port/2``: a trace port generator)."""

    __slots__ = ("_open", "_what")

    def __init__(self, what: str, opens: Callable[[], TracePort]) -> None:
        self._what = what
        self._open = opens

    def __call__(self) -> TracePort:
        """Opens the port. An existing file is emptied, an existing wrap set is deleted.

        Raises:
            OSError: the operating system refuses.
        """
        return self._open()

    def __repr__(self) -> str:
        return f"<trace port generator: {self._what}>"


def trace_port(kind: str, parameters: Any, *, host: str = "127.0.0.1", compress: bool = False) -> PortGenerator:
    """Describes a trace port (dbg.md, ``trace_port/2``).

    Args:
        kind: ``"file"`` or ``"ip"``.
        parameters: for a file its name, or ``(name, "wrap", suffix)``, ``(name, "wrap", suffix, size)``,
            ``(name, "wrap", suffix, size, count)`` for a set of at most ``count`` files (8), of which the oldest is
            overwritten. Each file has about ``size`` bytes (131,072), or is written for ``("time", milliseconds)``. The
            names are ``name + number + suffix``. For a socket the number of the port on which it listens, 0 for any; or
            ``(number, queue_size)``, with the number of messages that may wait for the client (200).
        host: the interface on which a socket listens. Messages are not encrypted; anyone who connects can read them.
        compress: True for a plain file in a smaller form that only :mod:`inviso` reads, not Erlang.

    Returns:
        A function without arguments that opens the port. Only their owner can read the files.

    Raises:
        BadArg: a wrong argument.

    >>> trace_port("ip", (4711, 100))
    <trace port generator: ip 127.0.0.1:4711, queue of 100>
    >>> trace_port("file", ("calls", "wrap", ".log", 1000, 4))
    <trace port generator: wrap set calls*.log, 4 files of 1000 bytes>
    """
    if not isinstance(kind, str) or kind not in ("file", "ip"):
        raise BadArg(_WHERE, "kind", f"{shown(kind)} is not a kind of trace port; pass 'file' or 'ip'")
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
    """Raises BadArg if a file's name is that of a pipe or socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # opening it raises the error
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise BadArg(where, argument, f"{shown(path)} is a pipe, which may make its writer wait; pass a file's name")


def _file(path: str, compress: bool) -> PortGenerator:
    def opens() -> TracePort:
        no_pipe(_WHERE, "parameters", path)
        _native.trace_port.set_program(_program.name())
        return TracePort(_native.trace_port.port_to_file(path, compress))

    return PortGenerator(f"file {path}" + (", compressed" if compress else ""), opens)


def _wrap_set(parameters: tuple[Any, ...]) -> PortGenerator:
    if not 3 <= len(parameters) <= 5 or parameters[1] != "wrap":
        why = (
            f"{shown(parameters)} is not a wrap set; pass (name, 'wrap', suffix), with a size and a count after that "
            "or not"
        )
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
            raise BadArg(
                _WHERE, "parameters", f"{shown(size)} is not a time; pass ('time', milliseconds), an int from 1"
            )
        milliseconds = size[1]
    elif not _is_number(size, 0, 1 << 62):
        why = f"the size {shown(size)} is not a number of bytes; pass an int from 0, or ('time', ms)"
        raise BadArg(_WHERE, "parameters", why)
    count = rest[1] if len(rest) > 1 else _COUNT
    if not _is_number(count, 1, (1 << 32) - 1):
        raise BadArg(_WHERE, "parameters", f"the count {shown(count)} is not a number of files; pass an int from 1")

    bytes_: int | None = None if milliseconds else size
    whole = os.path.abspath(path)  # the program may change its working directory before the next file is made

    def opens() -> TracePort:
        _native.trace_port.set_program(_program.name())
        return TracePort(_native.trace_port.port_to_set(whole, suffix, bytes_, milliseconds, count))

    limit = f"{milliseconds} ms" if milliseconds else f"{size} bytes"
    return PortGenerator(f"wrap set {path}*{suffix}, {count} files of {limit}", opens)


def _socket(parameters: Any, host: Any) -> PortGenerator:
    number, queue = parameters if isinstance(parameters, tuple) and len(parameters) == 2 else (parameters, _QUEUE)
    if not _is_number(number, 0, 65_535):
        why = f"{shown(parameters)} is not a port to listen on; pass a number from 0 to 65535, or (number, queue_size)"
        raise BadArg(_WHERE, "parameters", why)
    if not _is_number(queue, 0, 1 << 32):
        raise BadArg(
            _WHERE, "parameters", f"the queue's size {shown(queue)} is not a number of messages; pass an int from 0"
        )
    if not isinstance(host, str) or not host or "\0" in host:
        raise BadArg(
            _WHERE, "host", f"{shown(host)} is not a host to listen on; pass a name or address such as '127.0.0.1'"
        )

    def opens() -> TracePort:
        try:
            return TracePort(_native.trace_port.port_to_socket(host, number, queue))
        except OSError as error:
            if error.errno is None:
                look_up(host, number)
            raise

    return PortGenerator(f"ip {host}:{number}, queue of {queue}", opens)


def look_up(host: str, number: int) -> None:
    """Raises Python's error for an unknown host, which has an error number."""
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
    """Checks a file's name. The number of a descriptor is not allowed."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise BadArg(where, argument, f"{shown(path)} is not a file's name; pass a str" + _OR_SET * (where == _WHERE))
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise BadArg(where, argument, f"{shown(name)} can't be a file's name; pass a path")
    return name


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def of(native: _native.trace_port.LogPort) -> TracePort:
    """The object of a port; there is one for each port."""
    return _known.get(native.number) or TracePort(native)


def checked(where: str, argument: str, port: TracePort) -> _native.trace_port.LogPort:
    """The native port, if the port is open."""
    if not port.is_open():
        raise BadArg(where, argument, f"{shown(port)} can't be a tracer; open another one")
    return port._native


atexit.register(_native.trace_port.ports_end)
_fork.rest(_native.trace_port.ports_pause, _native.trace_port.ports_resume, _native.trace_port.ports_rest)
