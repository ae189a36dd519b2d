"""A trace client: a process that calls a function with the messages of a log, or of an IP trace port (dbg.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from inviso import _native
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.process import exit, monitor, receive, spawn
from inviso.trace_ports import look_up

from ._read import PAUSE, Drop, Reader, _damage, _opened, named

KINDS = ("file", "follow_file", "ip")
CONNECT = 10.0
"""Seconds to wait for a connection."""

BATCH = 256


def trace_client(kind: str, parameters: Any, handler: Any = None) -> Any:
    """Starts a client that reads the messages of a trace port (dbg.md, ``trace_client/2``, ``trace_client/3``).

    The client is a process. It calls the handler with each message, with drop records as ``("drop", n)``, and with
    damage as :class:`Damage`, where OTP's client would end. It ends at the end of a file, and when the port closes the
    connection or the trace is stopped; a record that is cut off then is reported as damage. A client connects only
    once. A port that has lost its client waits for the next one, so another ``trace_client`` continues there.

    Args:
        kind: ``"file"`` reads a log to its end; ``"follow_file"`` also reads what is written later; ``"ip"`` connects
            to a trace port.
        parameters: as ``source`` for :func:`read`; for ``"ip"`` the number of a port, or ``(host, number)``.
        handler: a callable is called with each message. ``(function, state)`` is OTP's form:
            ``function(message, state)`` returns the next state, and is called with ``"end_of_trace"`` at the end. With
            None no process starts, and the result is an iterator.

    Returns:
        The client's Pid, for :func:`stop_trace_client`; or a :class:`Reader`.

    Raises:
        BadArg: an argument has a wrong type or value.
        OSError: a file can't be opened.
        ConnectionRefusedError: no program listens on that port.
        OSError: the host is unknown (``socket.gaierror``).

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

    A running handler finishes its message.

    Raises:
        BadArg: ``pid`` is not a process of this node.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> open(path, "wb").close()
    >>> pid = trace_client("follow_file", path, print)
    >>> stop_trace_client(pid), pid.is_alive()
    (None, False)
    """
    if not isinstance(pid, Pid) or not pid.is_local():
        raise BadArg("stop_trace_client/1", "pid", f"{shown(pid)} is not a client; pass what trace_client() returned")
    reference = monitor(pid)
    exit(pid, "shutdown")
    receive(("DOWN", reference, "_", "_", "_"))
    while pid.is_alive():  # the process has ended, its thread ends soon
        time.sleep(0.001)


def _handler(handler: Any) -> tuple[Callable[..., Any], Any, bool]:
    if callable(handler) or handler is None:
        return handler or print, None, False
    if isinstance(handler, tuple) and len(handler) == 2 and callable(handler[0]):
        return handler[0], handler[1], True
    mend = "pass a callable, (function, state), or None"
    raise BadArg("trace_client/3", "handler", f"{shown(handler)} is not a handler; {mend}")


def _connected(parameters: Any) -> Reader:
    host, port = parameters if isinstance(parameters, tuple) and len(parameters) == 2 else ("localhost", parameters)
    if not isinstance(host, str) or not host or "\0" in host:
        raise BadArg(
            "trace_client/3", "parameters", f"{shown(host)} is not a host; pass (host, port) with the host's name"
        )
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise BadArg("trace_client/3", "parameters", f"{shown(port)} is not a port; pass a number from 1 to 65535")
    try:
        return Reader(_native.log.connect(host, port, CONNECT, Drop, _damage))
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
                _native.mailbox.peek()  # raises at an exit signal
                state = function(message, state) if is_otps else function(message)
            if not batch:
                # no message matches; the wait ends early at an exit signal
                _native.mailbox.receive(_never, PAUSE if reader._follow else 0.0)
    finally:
        native.close()  # the trace port can serve the next client
    if is_otps:
        function("end_of_trace", state)
