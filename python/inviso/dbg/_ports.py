"""Trace ports, and the clients that read from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import inviso
from inviso import Pid, trace_ports
from inviso._stream import put
from inviso.errors import BadArg, shown

from ._lines import line
from ._session import server_of

__all__ = ["dhandler", "flush_trace_port", "stop_trace_client", "trace_client", "trace_port", "trace_port_control"]


def trace_port(type: Literal["file", "ip"], parameters: Any, **options: Any) -> Callable[[], Any]:
    """Returns a function that opens a trace port, for ``tracer("port", ...)`` (dbg.md, ``trace_port/2``); see
    :func:`inviso.trace_ports.trace_port`.
    """
    return trace_ports.trace_port(type, parameters, **options)


def flush_trace_port(node: str | None = None) -> Any:
    """Makes the trace port write all earlier messages (dbg.md, ``flush_trace_port/0``).

    Returns:
        None, ``("error", "no_trace_driver")`` if the tracer is not a trace port, or
        ``("error", "not_supported_by_trace_driver")``.

    >>> flush_trace_port()
    ('error', 'no_trace_driver')
    """
    return trace_port_control("flush", node)


def trace_port_control(operation: str, node: str | None = None) -> Any:
    """Controls the trace port (dbg.md, ``trace_port_control/1``).

    Args:
        operation: ``"flush"``; or ``"get_listen_port"``, for the number of an IP port.

    Returns:
        None, ``("ok", number)``, or ``("error", reason)`` as from :func:`flush_trace_port`.

    Raises:
        BadArg: ``operation`` is unknown.

    >>> trace_port_control("get_listen_port")
    ('error', 'no_trace_driver')
    """
    where = "trace_port_control/1"
    if operation not in ("flush", "get_listen_port"):
        raise BadArg(where, "operation", f"{shown(operation)} is not an operation; pass 'flush' or 'get_listen_port'")
    server = server_of(where)
    port = server.tracer() if node in (None, inviso.node()) else None
    if port is None or isinstance(port, (Pid, tuple)):
        return ("error", "no_trace_driver")
    # as in OTP, a file has no number, and a socket has nothing to flush
    if (operation == "flush") != (port.address is None):
        return ("error", "not_supported_by_trace_driver")
    if operation == "get_listen_port":
        return ("ok", port.address[1])
    port.flush()
    return None


def trace_client(type: Literal["file", "follow_file", "ip"], parameters: Any, handler: Any = None) -> Any:
    """Starts a process that reads the messages of a trace port: from a file, from a file that is still written, or from
    an IP port (dbg.md, ``trace_client/2``, ``trace_client/3``); see :func:`inviso.log.trace_client`.

    Args:
        handler: ``(function of message and state, state)``; without it lines are printed.

    Returns:
        The client's Pid, for :func:`stop_trace_client`.
    """
    from inviso import log

    def show(message: Any, out: Any) -> Any:
        if isinstance(message, log.Damage):
            put(out, f"*** {message}\n")
            return out
        return dhandler(message, out)

    return server_of("trace_client/3").client(log.trace_client(type, parameters, handler or (show, sys.stdout)))


def stop_trace_client(client: Any) -> None:
    """Ends a trace client (dbg.md, ``stop_trace_client/1``)."""
    from inviso import log

    log.stop_trace_client(client)


def dhandler(message: Any, out: Any) -> Any:
    """The handler that prints a line for each message (dbg.md, ``tracer/2``). Other handlers may call it.

    Args:
        message: a trace message; other values are not printed.
        out: a text stream, or any object with ``write``.

    Returns:
        ``out``.

    >>> _ = dhandler(("trace", inviso.self(), "return_from", ("shop", "order", 2), 7), sys.stdout)
    (<0...>) returned from shop:order/2 -> 7
    """
    text = line(message)
    if text is not None:
        put(out, text + "\n")
    return out
