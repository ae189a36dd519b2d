"""The caller's token, the system tracer, and queues that carry tokens."""

from __future__ import annotations

import sys
from typing import Any

from inviso import _native, trace_ports
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.terms import Atom
from inviso.trace_ports import TracePort

__all__ = [
    "carrier",
    "get_system_tracer",
    "get_token",
    "overflows",
    "print",
    "reset_trace",
    "set_system_tracer",
    "set_token",
]

_FLAGS = {
    "send": 1,
    "receive": 2,
    "print": 4,
    "timestamp": 8,
    "strict_monotonic_timestamp": 16,
    "monotonic_timestamp": 32,
}
_ALL = 63
_MISSING = object()


def set_token(component: Any, value: Any = _MISSING) -> Any:
    """Sets the caller's token, or one component of it (seq_trace.md, ``set_token/1``, ``set_token/2``).

    Args:
        component: None empties the token; a token from :func:`get_token` replaces it. Or one of ``"label"`` (any value
            of at most 32,768 bytes in the external term format; it is never cut), ``"serial"`` (a pair of ints; better
            not set by hand), ``"send"``, ``"receive"``, ``"print"``, ``"timestamp"``, ``"monotonic_timestamp"``,
            ``"strict_monotonic_timestamp"`` (True or False).
        value: the component's value.

    Returns:
        For a component its previous value. If the token was empty, that is the value in a new token: False, 0, or
        ``(last, 0)`` with the last serial that the process received. For None the previous token. For a token None.

    Raises:
        BadArg: an unknown component, or a value that it can't have. If a part of a whole token is wrong, the parts
            before it are set.

    >>> set_token("label", "order 7"), set_token("send", True)
    (0, False)
    >>> set_token(None)[:2]
    (1, 'order 7')
    """
    if value is _MISSING:
        return _set_whole(component)
    where = "set_token/2"
    name = _component(where, component)
    if name == "label":
        return _set_label(where, "value", value)
    if name == "serial":
        pair = value if isinstance(value, tuple) and len(value) == 2 and all(map(_is_serial, value)) else None
        if pair is None:
            raise BadArg(
                where, "value", f"{shown(value)} is not a serial; pass (previous, current), two ints of 64 bits"
            )
        return _native.seq.set_serial(*pair)
    if not isinstance(value, bool):
        raise BadArg(where, "value", f"{shown(value)} is not a bool; pass True or False")
    return _native.seq.set_flags(_FLAGS[name], value)


def _set_label(where: str, argument: str, label: Any) -> Any:
    try:
        return _native.seq.set_label(label)
    except _native.trace.LimitReached:
        size, depth = _native.seq.label_limits()
        why = (
            f"a label of type {type(label).__name__} is too long or too deep; pass one of at most {size:,} bytes in the"
        )
        raise BadArg(where, argument, f"{why} external term format, and {depth} containers inside each other") from None


def _set_whole(token: Any) -> Any:
    where = "set_token/1"
    if token is None or (isinstance(token, list) and not token):
        return _native.seq.clear()
    if not (isinstance(token, tuple) and len(token) == 5 and _is_int(token[0])):
        raise BadArg(where, "token", f"{shown(token)} is not a token; pass what get_token() returned, or None")
    flags, label, serial, _, previous = token
    _set_label(where, "token", label)
    if not (_is_serial(serial) and _is_serial(previous)):
        raise BadArg(where, "token", f"{shown(token)} has no serial of two ints; pass what get_token() returned")
    _native.seq.set_serial(previous, serial)
    _native.seq.set_flags(flags & _ALL, True)
    _native.seq.set_flags(~flags & _ALL, False)
    return None


def get_token(component: Any = _MISSING) -> Any:
    """Returns the caller's token, or a component of it (seq_trace.md, ``get_token/0``, ``get_token/1``).

    Returns:
        ``(flags, label, serial, from, previous)``, or None for an empty token. For a component
        ``(component, value)``; None if the token is empty and the component is ``"label"`` or ``"serial"``.

    Raises:
        BadArg: an unknown component.

    >>> get_token(), get_token("send"), get_token("label")
    (None, ('send', False), None)
    """
    token = _native.seq.token()
    if component is _MISSING:
        return token
    name = _component("get_token/1", component)
    if name in _FLAGS:
        return (Atom(name), bool(token is not None and token[0] & _FLAGS[name]))
    if token is None:
        return None
    return (Atom(name), token[1] if name == "label" else (token[4], token[2]))


def print(*arguments: Any) -> None:
    """``print(info)`` emits an event with a value, if the caller has a token with the flag print;
    ``print(label, info)`` does so only if the token has this label (seq_trace.md, ``print/1``, ``print/2``).

    The serial advances even without the flag. Labels are compared as terms: the order of items in dicts and sets
    doesn't matter, and 1 differs from 1.0.

    Raises:
        BadArg: there are not one or two arguments, or the label is an atom.

    >>> print("nobody has a token")
    """
    where = f"print/{len(arguments)}"
    if len(arguments) == 1:
        _native.seq.print(arguments[0], None)
    elif len(arguments) == 2:
        if isinstance(arguments[0], (Atom, bool)) or arguments[0] is None:
            raise BadArg(where, "label", f"{shown(arguments[0])} is an atom; pass a label of another type")
        _native.seq.print(arguments[1], (arguments[0],))
    else:
        raise BadArg(where, "info", f"{len(arguments)} arguments; pass print(info) or print(label, info)")


def reset_trace() -> bool:
    """Empties the tokens of all processes of this node and of all messages that were not received yet, and sets all
    serials to 0 (seq_trace.md, ``reset_trace/0``). Returns True.

    >>> reset_trace()
    True
    """
    _native.seq.reset()
    return True


def overflows() -> int:
    """The number of events without a serial of their own since the program began. A counter that has reached the
    largest number of 64 bits stays there, and later events repeat the last serial. :func:`reset_trace` starts the
    counter again.

    >>> _ = set_token("serial", (0, (1 << 63) - 1)), set_token("print", True)
    >>> before = overflows()
    >>> print("beyond the end")
    >>> get_token("serial"), overflows() - before
    (('serial', (0, 9223372036854775807)), 1)
    >>> _ = set_token(None), reset_trace()
    """
    return _native.seq.overflows()


def set_system_tracer(tracer: Pid | TracePort | tuple[Any, Any] | bool) -> Pid | TracePort | tuple[Any, Any] | bool:
    """Sets the system tracer, which gets the events of sequential tracing (seq_trace.md, ``set_system_tracer/1``).

    Messages are ``("seq_trace", label, info)``, with a timestamp as the fourth element if the token has such a flag.
    ``info`` is ``("send" or "receive", serial, from, to, message)`` or ``("print", serial, from, [], info)``.

    Args:
        tracer: a process (a Pid, thread or task), whose mailbox gets the messages; a trace port, which writes them; a
            tracer module, ``(module, state)`` (:mod:`inviso.tracer`), which is called with them; or False to remove the
            system tracer.

    Returns:
        The previous system tracer; False without one.

    Raises:
        BadArg: ``tracer`` is neither a living process of this node nor an open trace port; or it is a module that lacks
            a callback, or that doesn't answer ``"trace"`` to ``trace_status``.

    >>> set_system_tracer(inviso.self()), set_system_tracer(False) == inviso.self()
    (False, True)
    """
    where = "set_system_tracer/1"
    if not isinstance(tracer, (Pid, TracePort, tuple, bool)):
        tracer = _native.process.pid_of(tracer) or tracer
    if isinstance(tracer, Pid):
        if not tracer.is_local():
            raise BadArg(where, "tracer", f"{shown(tracer)} is a process of another node; pass one of this node")
        if tracer.kind not in ("thread", "task") or not tracer.is_alive():
            raise BadArg(where, "tracer", f"{shown(tracer)} has ended, or doesn't run; pass a living process, or False")
    elif isinstance(tracer, tuple):
        from inviso.tracer import given  # few programs need it

        try:
            return _answer(_native.seq.set_tracer(None, None, given(where, tracer)))
        except _native.process.ProcessDead:
            why = f"{shown(tracer[0])} doesn't answer 'trace' to trace_status; pass one that does, or False"
            raise BadArg(where, "tracer", why) from None
    elif tracer is not False and not isinstance(tracer, TracePort):
        why = f"{shown(tracer)} is not a process; pass a Pid, a trace port, (module, state), or False for none"
        raise BadArg(where, "tracer", why)
    port = trace_ports.checked(where, "tracer", tracer) if isinstance(tracer, TracePort) else None
    return _answer(_native.seq.set_tracer(tracer if isinstance(tracer, Pid) else None, port))


def get_system_tracer() -> Pid | TracePort | tuple[Any, Any] | bool:
    """Returns the system tracer, or False (seq_trace.md, ``get_system_tracer/0``).

    >>> get_system_tracer()
    False
    """
    return _answer(_native.seq.tracer())


def _answer(
    tracer: Pid | _native.trace_port.LogPort | tuple[Any, Any] | None,
) -> Pid | TracePort | tuple[Any, Any] | bool:
    if isinstance(tracer, _native.trace_port.LogPort):
        return trace_ports.of(tracer)
    return False if tracer is None else tracer


def carrier(queue: Any, on: bool) -> None:
    """Sets whether items of a queue carry tokens.

    By default they do, except in queues whose newest item comes first (``LifoQueue``). Most of those are pools of
    objects: taking an object out is not an effect of putting it back. For a queue of ``multiprocessing`` the setting
    holds in this program only. When it is False, items that this program puts have no token, and items that it takes
    leave the taker's token as it is.

    Raises:
        BadArg: ``queue`` has no ``put`` and ``get``, or belongs to a manager; or ``on`` is not a bool.

    >>> import queue
    >>> stack = queue.LifoQueue()
    >>> carrier(stack, True)
    """
    if not isinstance(on, bool):
        raise BadArg("carrier/2", "on", f"{shown(on)} is not a bool; pass True or False")
    if not hasattr(type(queue), "get") or not hasattr(type(queue), "put"):
        raise BadArg("carrier/2", "queue", f"{shown(queue)} is not a queue; pass one that has put and get")
    if "multiprocessing.managers" in sys.modules and isinstance(
        queue, sys.modules["multiprocessing.managers"].BaseProxy
    ):
        why = "belongs to a manager, whose calls always carry the token; pass a queue of this process"
        raise BadArg("carrier/2", "queue", f"a {type(queue).__name__} {why}")
    _native.seq.carrier(queue, on)


def _component(where: str, component: Any) -> str:
    if isinstance(component, str) and component in (*_FLAGS, "label", "serial"):
        return str(component)
    known = ", ".join(("label", "serial", *_FLAGS))
    raise BadArg(where, "component", f"{shown(component)} is not a component of a token; they are {known}")


def _is_serial(value: Any) -> bool:
    return _is_int(value) and -(1 << 63) <= value < 1 << 63


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
