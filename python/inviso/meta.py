"""Meta tracing: callbacks for calls anywhere in the process. They write the names that a merge uses.

A runtime component whose tracer data has a ``ti`` part has a meta tracer: one more trace session, and a thread that
calls *callbacks*. :func:`inviso.control.tpm` and its relatives set them. This module has functions for callbacks. A
callback gets the event and the *public loop data*, which it may replace::

    call_function(pid, ("call", arguments, ts), data)                     -> ("ok", data, output)
    return_function(pid, ("return_from", value, ts), data)                -> ("ok", data, output)
    return_function(pid, ("exception_from", (class, value), ts), data)    -> ("ok", data, output)
    init_function(module, function, arity, data)                          -> ("ok", data, output)
    remove_function(module, function, arity, data)                        -> ("ok", data)

``output`` is bytes, or a list of bytes: each is one entry of the trace information file. Anything else writes nothing.
If a callback raises, or returns anything else, nothing changes, and it is counted (:func:`status`).

>>> from inviso import meta
>>> def call_assoc_id(pid, call, data):
...     _, (who, reference), ts = call
...     return "ok", data, meta.alias(who, reference, ts)
>>> call_assoc_id(None, ("call", [inviso.self(), "id-1"], meta.now()), meta.init_std_publld(2, []))[0]
'ok'
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from . import etf, process
from .errors import BadArg, shown
from .terms import Atom

__all__ = [
    "alias",
    "bare",
    "clean_std_publld",
    "ctpm_ms",
    "get_tracer",
    "init_std_publld",
    "list_tpm_ms",
    "metacast_call",
    "metacast_return_from",
    "now",
    "status",
    "tpm_ms",
    "tpm_ms_tracer",
    "unalias",
    "write_ti",
]

Stamp: TypeAlias = tuple[int, int, int]

ABANDONED = 30
"""Seconds after which an entry of the loop data is dropped."""

NO_METATRACER = (Atom("error"), Atom("no_metatracer"))


class _Tracer(Protocol):
    """The meta tracer of this process's runtime component."""

    def write_ti(self, output: Any) -> None: ...
    def cast(self, message: tuple[Any, ...]) -> None: ...
    def tpm_ms(self, mfa: tuple[Any, Any, Any], name: Any, match_spec: Any, *, switches: bool) -> Any: ...
    def ctpm_ms(self, mfa: tuple[Any, Any, Any], name: Any) -> Any: ...
    def list_tpm_ms(self, mfa: tuple[Any, Any, Any]) -> Any: ...
    def get_tracer(self) -> Any: ...
    def status(self) -> dict[str, Any]: ...


_tracer: _Tracer | None = None
"""The meta tracer; set by the runtime component while it has one."""


def now() -> Stamp:
    """A now-stamp: ``(megaseconds, seconds, microseconds)`` since 1970, as in trace messages.

    >>> mega, seconds, micro = now()
    >>> mega > 1700, 0 <= seconds < 1_000_000, 0 <= micro < 1_000_000
    (True, True, True)
    """
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return seconds // 10**6, seconds % 10**6, nanoseconds // 1000


def alias(pid: Any, name: Any, ts: Stamp | None = None) -> bytes:
    """An entry of the trace information file: from ``ts`` on the process has the name ``name``, which may be any term.

    Args:
        ts: a now-stamp; None for now.

    >>> etf.loads(alias(inviso.self(), ("order", 7), (1, 2, 3)))[1:]
    (('order', 7), 'alias', (1, 2, 3))
    """
    return _entry("alias/3", pid, name, Atom("alias"), ts)


def unalias(pid: Any, name: Any, ts: Stamp | None = None) -> bytes:
    """An entry that ends an alias. With None as the pid it ends the alias of all processes of that name.

    >>> etf.loads(unalias(None, "id-1", (1, 2, 3)))
    (None, 'id-1', 'unalias', (1, 2, 3))
    """
    return _entry("unalias/3", pid, name, Atom("unalias"), ts)


def _entry(where: str, pid: Any, name: Any, what: Any, ts: Stamp | None) -> bytes:
    if ts is not None and not is_stamp(ts):
        raise BadArg(where, "ts", f"{shown(ts)} is not a now-stamp; pass (megaseconds, seconds, microseconds), or None")
    return etf.dumps((pid, name, what, now() if ts is None else ts))


def is_stamp(value: Any) -> bool:
    """Whether it is ``(megaseconds, seconds, microseconds)``."""
    return isinstance(value, tuple) and len(value) == 3 and all(type(part) is int for part in value)


# public loop data


def init_std_publld(size: int, global_data: Any = ()) -> tuple[tuple[list[Any], ...], Any]:
    """Makes public loop data: ``(lists, global_data)`` with ``size`` empty lists. A TiSpec has it as
    ``("inviso.meta", "init_std_publld", [size, global_data])``.

    An entry of a list is a call that has not returned: a tuple whose last element is a now-stamp. Once a minute,
    entries that are older than 30 seconds are dropped. :func:`inviso.control.tpm_localnames` uses the first list.
    ``global_data`` is never cleaned.

    Raises:
        BadArg: ``size`` is not an int from 1.

    >>> init_std_publld(3, {"orders": 0})
    (([], [], []), {'orders': 0})
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BadArg("init_std_publld/2", "size", f"{shown(size)} is not a number of lists; pass an int from 1")
    return tuple([] for _ in range(size)), global_data


def clean_std_publld(data: Any, at: Stamp | None = None) -> Any:
    """The loop data without entries that are older than 30 seconds. It is the default clean function.

    It accepts ``(lists, global_data)``, and the form of older releases: a tuple of lists.

    Args:
        at: the time, as a now-stamp; None for now.

    Raises:
        BadArg: the data has neither form.

    >>> old, new = ("call", (0, 10, 0)), ("call", (0, 11, 0))
    >>> clean_std_publld((([old, new], []), "kept"), (0, 41, 0))
    (([('call', (0, 11, 0))], []), 'kept')
    >>> clean_std_publld(([old], [new], []), (0, 41, 0))
    ([], [('call', (0, 11, 0))], [])
    """
    lists, again = parts(data)
    mega, seconds, _ = now() if at is None else at
    oldest = mega * 10**6 + seconds - ABANDONED
    return again(tuple([entry for entry in one if _begun(entry) >= oldest] for one in lists))


def _begun(entry: Any) -> int:
    if not isinstance(entry, tuple) or not entry or not is_stamp(entry[-1]):
        why = f"{shown(entry)} has no now-stamp as its last element; make it (…, (megaseconds, seconds, microseconds))"
        raise BadArg("clean_std_publld/1", "data", why)
    mega, seconds, _ = entry[-1]
    return int(mega * 10**6 + seconds)


def parts(data: Any) -> tuple[tuple[list[Any], ...], Callable[[tuple[list[Any], ...]], Any]]:
    """The lists of loop data, and a function that makes loop data of other lists. ``BadArg`` if it has neither form."""
    match data:
        case (tuple(lists), rest) if _are_lists(lists):
            return lists, lambda others: (others, rest)
        case tuple(lists) if _are_lists(lists):
            return lists, lambda others: others
    why = f"{shown(data)} is not (lists, global_data) with a tuple of lists; init_std_publld() makes one"
    raise BadArg("clean_std_publld/1", "data", why)


def _are_lists(lists: tuple[Any, ...]) -> bool:
    return bool(lists) and all(isinstance(one, list) for one in lists)


def bare(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Adapts a call or return function of Inviso's first releases: it gets the bare arguments, or the bare value.

    As there, it is not called for exceptions. It can be used as a decorator.

    >>> @bare
    ... def call_assoc_id(pid, arguments, data):
    ...     who, reference = arguments
    ...     return "ok", data, alias(who, reference, (1, 2, 3))
    >>> answer = call_assoc_id(None, ("call", [inviso.self(), "id-1"], (1, 2, 3)), "data")
    >>> answer[:2], etf.loads(answer[2])[1]
    (('ok', 'data'), 'id-1')
    >>> call_assoc_id(None, ("exception_from", ("error", "reason"), (1, 2, 3)), "data")
    ('ok', 'data', None)
    """

    @functools.wraps(function)
    def adapted(pid: Any, what: Any, data: Any) -> Any:
        kind, value, _ = what
        return (Atom("ok"), data, None) if kind == "exception_from" else function(pid, value, data)

    return adapted


# around the meta tracer


def write_ti(output: bytes | list[Any]) -> Any:
    """Writes entries to the trace information file, after all earlier messages to the meta tracer. Any thread may call
    it.

    Args:
        output: bytes, or a list of bytes, also nested: each is one entry.

    Returns:
        None, or ``("error", "no_metatracer")``.

    Raises:
        BadArg: ``output`` is something else.

    >>> write_ti(alias(inviso.self(), "main"))
    ('error', 'no_metatracer')
    """
    if entries(output) is None:
        raise BadArg("write_ti/1", "output", f"{shown(output)} is not output; pass bytes, or a list of bytes")
    if _tracer is None:
        return NO_METATRACER
    return _tracer.write_ti(output)


def entries(output: Any) -> list[bytes] | None:
    """The entries of a callback's output; None if it has another form."""
    found: list[bytes] = []
    left = [output]
    while left:
        match left.pop():
            case bytes(entry):
                found.append(entry)
            case list(inner):
                left += reversed(inner)
            case _:
                return None
    return found


def tpm_ms(module: str, function: str, arity: int, name: Any, match_spec: list[Any]) -> Any:
    """Puts a named match specification before the others of an initiated function. It replaces one of the same name.
    This is for callbacks, which can't call the control component.

    Returns:
        ``("ok", n)`` with the number of functions, 0 if it was not stored; ``("error", "not_initiated")`` or
        ``("error", "no_metatracer")``.

    >>> tpm_ms("shop", "order", 2, "mine", [("_", [], [("return_trace",)])])
    ('error', 'no_metatracer')
    """
    if _tracer is None:
        return NO_METATRACER
    return _tracer.tpm_ms((module, function, arity), name, match_spec, switches=False)


def tpm_ms_tracer(module: str, function: str, arity: int, name: Any, match_spec: list[Any]) -> Any:
    """As :func:`tpm_ms`; in each clause the first action ``("trace", off, on)`` sets flags of the regular trace.

    >>> tpm_ms_tracer("shop", "order", 2, "mine", [("_", [], [("trace", [], ["call", "timestamp"])])])
    ('error', 'no_metatracer')
    """
    if _tracer is None:
        return NO_METATRACER
    return _tracer.tpm_ms((module, function, arity), name, match_spec, switches=True)


def ctpm_ms(module: str, function: str, arity: int, name: Any) -> Any:
    """Removes a named match specification. Without any the function is not traced, but stays initiated.

    Returns:
        None, also if the name is unknown; or ``("error", "no_metatracer")``.

    >>> ctpm_ms("shop", "order", 2, "mine")
    ('error', 'no_metatracer')
    """
    if _tracer is None:
        return NO_METATRACER
    answer = _tracer.ctpm_ms((module, function, arity), name)
    return None if answer == "ok" else answer


def list_tpm_ms(module: str, function: str, arity: int) -> Any:
    """``("ok", names)`` of the match specifications of an initiated function, in their order.

    >>> list_tpm_ms("shop", "order", 2)
    ('error', 'no_metatracer')
    """
    if _tracer is None:
        return NO_METATRACER
    return _tracer.list_tpm_ms((module, function, arity))


def get_tracer() -> Any:
    """The regular tracer for ``("trace", off, [(("tracer", it),), …])``: the number of the regular trace session. None
    if the tracer data has no ``trace`` part, or there is no meta tracer.

    >>> get_tracer() is None
    True
    """
    return None if _tracer is None else _tracer.get_tracer()


def status() -> dict[str, Any] | None:
    """Counts of the meta tracer; None if there is no meta tracer.

    ``functions`` that are initiated; ``messages`` that were handled, and ``lost`` ones; ``entries`` that were written,
    and ``unwritten`` ones; ``exceptions`` and ``wrong_answers`` of callbacks; ``error``, the last error as text.

    >>> status() is None
    True
    """
    return None if _tracer is None else _tracer.status()


def metacast_call(nodes: Iterable[str], pid: Any, module: str, function: str, arguments: list[Any]) -> Any:
    """Makes the meta tracer act as if a call had happened, with the time None. It works for this node only.

    Raises:
        BadArg: a node is not this one.

    >>> metacast_call([inviso.node()], inviso.self(), "shop", "order", [1, 2])
    ('error', 'no_metatracer')
    """
    _check_nodes("metacast_call/5", nodes)
    return _cast((Atom("trace_ts"), pid, Atom("call"), (module, function, list(arguments)), None))


def metacast_return_from(nodes: Iterable[str], pid: Any, module: str, function: str, arity: int, value: Any) -> Any:
    """As :func:`metacast_call`, for a return.

    >>> metacast_return_from([inviso.node()], inviso.self(), "shop", "order", 2, "done")
    ('error', 'no_metatracer')
    """
    _check_nodes("metacast_return_from/6", nodes)
    return _cast((Atom("trace_ts"), pid, Atom("return_from"), (module, function, arity), value, None))


def _cast(message: tuple[Any, ...]) -> Any:
    return NO_METATRACER if _tracer is None else _tracer.cast(message)


def _check_nodes(where: str, nodes: Iterable[str]) -> None:
    for node in nodes:
        if node != process.node():
            why = (
                f"{shown(node)} is another node, and meta tracers of others can't be reached yet; "
                f"pass {process.node()!r} only"
            )
            raise BadArg(where, "nodes", why)
