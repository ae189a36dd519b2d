"""A trace client: a process that hands the messages of a log, or of an IP trace port, to a function (dbg.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from inviso import _native
from inviso._native import Pid
from inviso.errors import BadArg, shown
from inviso.process import exit, monitor, receive, spawn
from inviso.trace_ports import look_up

from ._read import PAUSE, Drop, Reader, _damage, _opened, named

KINDS = ("file", "follow_file", "ip")
CONNECT = 10.0
"""Seconds that a host is given to answer."""

BATCH = 256


def trace_client(kind: str, parameters: Any, handler: Any = None) -> Any:
    """Starts a client that reads what a trace port has written, or sends (dbg.md, ``trace_client/2``,
    ``trace_client/3``).

    It runs in a process of its own. Each message goes to the handler; drop records as ``("drop", n)``, damage as
    :class:`Damage`, where OTP's client would end. The process ends at the end of a file, and when the port closes the
    connection or the trace is stopped; what was cut off then is told as damage. A client never connects a second
    time; a port that has lost its client waits for the next one, so that another ``trace_client`` goes on there.

    Args:
        kind: ``"file"`` reads a log to its end; ``"follow_file"`` goes on as it is written; ``"ip"`` connects to a
            trace port.
        parameters: as ``source`` for :func:`read`; for ``"ip"`` a port's number, or ``(host, number)``.
        handler: a callable gets each message. ``(function, state)`` is OTP's: ``function(message, state)`` answers the
            next state, and is called with ``"end_of_trace"`` at last. None: no process, an iterator is returned.

    Returns:
        The client's Pid, for :func:`stop_trace_client`; or a :class:`Reader`.

    Raises:
        BadArg: an argument is of the wrong kind.
        OSError: a file can't be opened; ``ConnectionRefusedError``: nobody listens on that port; ``socket.gaierror``:
            the host is not known.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> with open(path, "wb") as file: _ = file.write(bytes([0, 0, 0, 0, 3, 131, 97, 7, 1, 0, 0, 0, 9]))
    >>> list(trace_client("file", path))
    [7, ('drop', 9)]
    >>> me = inviso.self()
    >>> pid = trace_client("file", path, (lambda message, count: inviso.send(me, (message, count))[1] + 1, 0))
    >>> inviso.receive(("end_of_trace", "_"))
    ('end_of_trace', 2)
    >>> inviso.receive((7, 0)), inviso.receive((("drop", 9), 1))
    ((7, 0), (('drop', 9), 1))
    """
    function, state, is_otps = _handler(handler)
    if kind == "ip":
        reader = _connected(parameters)
    elif kind in KINDS:
        follow = kind == "follow_file"
        reader = Reader(_opened(named("trace_client/3", "parameters", parameters, follow), follow, False), follow)
    else:
        raise BadArg("trace_client/3", "kind", f"{shown(kind)} is unknown; pass 'file', 'follow_file' or 'ip'")
    if handler is None:
        return reader
    return spawn(_serve, reader, function, state, is_otps, name=f"trace_client {kind}")


def stop_trace_client(pid: Pid) -> None:
    """Ends a client, and waits until it has ended (dbg.md, ``stop_trace_client/1``).

    A handler that is at work is left to finish its message.

    Raises:
        BadArg: ``pid`` is no process of this node.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> open(path, "wb").close()
    >>> pid = trace_client("follow_file", path, print)
    >>> stop_trace_client(pid), pid.is_alive()
    (None, False)
    """
    if not isinstance(pid, Pid) or not pid.is_local():
        raise BadArg("stop_trace_client/1", "pid", f"{shown(pid)} is no client; pass what trace_client() returned")
    reference = monitor(pid)
    exit(pid, "shutdown")
    receive(("DOWN", reference, "_", "_", "_"))
    while pid.is_alive():  # it has told of its end, and its thread is about to
        time.sleep(0.001)


def _handler(handler: Any) -> tuple[Callable[..., Any], Any, bool]:
    if callable(handler) or handler is None:
        return handler or print, None, False
    if isinstance(handler, tuple) and len(handler) == 2 and callable(handler[0]):
        return handler[0], handler[1], True
    mend = "pass a callable, (function, state), or None"
    raise BadArg("trace_client/3", "handler", f"{shown(handler)} is no handler; {mend}")


def _connected(parameters: Any) -> Reader:
    host, port = parameters if isinstance(parameters, tuple) and len(parameters) == 2 else ("localhost", parameters)
    if not isinstance(host, str) or not host or "\0" in host:
        raise BadArg("trace_client/3", "parameters", f"{shown(host)} is no host; pass (host, port) with the host's name")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise BadArg("trace_client/3", "parameters", f"{shown(port)} is no port; pass a number from 1 to 65535")
    try:
        return Reader(_native.log_connect(host, port, CONNECT, Drop, _damage))
    except ConnectionRefusedError as wrong:
        mend = "is the trace port open, and is that its number?"
        raise ConnectionRefusedError(wrong.errno, f"nobody listens on {host}:{port}; {mend}") from None
    except OSError as wrong:
        if wrong.errno is None:
            look_up(host, port)
        why = wrong.strerror or wrong
        raise type(wrong)(wrong.errno, f"trace_client/3: can't connect to {host}:{port}: {why}") from None


def _never(_: Any) -> bool:
    return False


def _serve(reader: Reader, function: Callable[..., Any], state: Any, is_otps: bool) -> None:
    native = reader._native
    try:
        while (batch := native.batch(BATCH)) is not None:
            for message in batch:
                _native.mailbox_peek()  # where an exit signal is heard
                state = function(message, state) if is_otps else function(message)
            if not batch:
                # a message that nobody wants is waited for: the wait ends early at an exit signal
                _native.mailbox_receive(_never, PAUSE if reader._follow else 0.0)
    finally:
        native.close()  # a trace port serves the next client when this one has gone
    if is_otps:
        function("end_of_trace", state)
