"""Settings and counters of a session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from inviso import trace_ports
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.process._objects import is_gone, tracee_of
from inviso.terms import Atom, Port

from ._arguments import check_process, mfa_of, one_of
from ._handle import alive
from ._tables import FLAGS, GLOBAL, ITEMS, KINDS, LATENCY, LOCAL, META

if TYPE_CHECKING:
    from ._session import Session
    from ._types import Mfa

__all__ = ["info"]


def info(session: Session, what: Pid | Port | Mfa | str | Any, item: str) -> Any:
    """Returns a setting or counter of a session (trace.md, ``info/3``).

    Args:
        what: a Pid, thread or task; a Port, socket, subprocess or transport; ``"new"``, ``"new_processes"``,
            ``"new_ports"``; a function name (MFA) without wildcards, or ``"on_load"``; ``"send"`` or ``"receive"``;
            ``"system"``; or ``"session"``.
        item: depends on ``what``:

            processes, ports
                flags; tracer (the Pid, trace port, or session).
            messages
                match_spec.
            the system
                all: the limits that are set (trace.md, ``system/3``).
            functions
                traced, match_spec, meta, meta_match_spec, call_count (calls), call_time
                (``[(pid, calls, seconds, microseconds)]``), call_memory (``[(pid, calls, words of 8 bytes)]``),
                call_latency (a :class:`dict` of nanoseconds), all. While ``"on_load"`` has no pattern, it has flags and
                tracer, too: both are False.
            the session
                dropped (messages lost); tracer_errors (failed callbacks of its tracer module); dumps (of a flight
                recorder: ``(number of dumps, path of the last one, error of one)``).

    Returns:
        ``(item, value)``. The value is None if ``what`` doesn't exist, and False if the item is not set. For a process
        that has ended the result is just None. For a function with a meta pattern, meta is ``[]`` after a call whose
        tracer had ended, or whose tracer module answered ``remove``.

    Raises:
        BadArg: a wrong argument.

    >>> with session_create("info") as session:
    ...     info(session, ("json", "dumps", 11), "traced"), info(session, ("json", "no", 7), "traced")
    (('traced', False), ('traced', None))
    """
    where = "info/3"
    native = alive(where, session)
    what = tracee_of(what)
    if isinstance(what, Pid):
        check_process(where, "what", what)
        one_of(where, "item", "item of a process", item, ("flags", "tracer"))
        bits = native.flags_of(what)
        return None if bits is None else _flags_info(session, item, bits)
    if isinstance(what, Port):
        if not what.is_local():
            raise BadArg(where, "what", f"{shown(what)} is a port of another node; pass one of this node")
        bits = native.flags_of(what)
        if bits is None:
            return None  # for any item, as in OTP
        one_of(where, "item", "item of a port", item, ("flags", "tracer"))
        return _flags_info(session, item, bits)
    if isinstance(what, str):
        if what in ("new", "new_processes", "new_ports"):
            kind = "ports" if what == "new_ports" else "processes"
            one_of(where, "item", f"item of {kind}", item, ("flags", "tracer"))
            return _flags_info(session, item, native.new_flags(what == "new_ports"))
        if what in ("send", "receive"):
            one_of(where, "item", "item of a message", item, ("match_spec",))
            return (Atom(item), native.messages_of(what == "receive"))
        if what == "system":
            one_of(where, "what", "item of the system", item, ("all",))  # OTP blames "what"
            return (Atom("system"), [_monitored(*limit) for limit in native.monitored()])
        if what == "session":
            one_of(where, "item", "item of a session", item, ("dropped", "dumps", "tracer_errors"))
            if item == "dropped":
                return (Atom(item), native.dropped())
            if item == "tracer_errors":
                return (Atom(item), native.tracer_errors())
            count, path, error = native.dumps()
            return (Atom(item), (count, None if path is None else os.fspath(path), error))
        if what == "on_load":
            loading = native.on_load_kinds()
            others = () if loading else ("flags", "tracer")  # OTP answers these two while nothing is set
            one_of(where, "item", "item of functions", item, (*ITEMS, "call_latency", "all", *others))
            return _on_load_info(session, item, loading)
    if is_gone(what):
        one_of(where, "item", "item of a process or port", item, ("flags", "tracer"))
        return None
    if not isinstance(what, tuple):
        why = (
            f"{shown(what)} is nothing to ask about; pass a Pid, a Port, an MFA, 'new', 'send', 'on_load', 'system' or "
            "'session'"
        )
        raise BadArg(where, "what", why)
    mfa = mfa_of(where, "item", what, wildcards=False)  # OTP blames the item
    one_of(where, "item", "item of functions", item, (*ITEMS, "call_latency", "all"))
    kinds = native.kinds_of(mfa)
    if kinds is None:
        return (Atom(item), None)
    if item == "all":
        if not kinds[0]:
            return (Atom(item), False)
        items = (*ITEMS, "call_latency") if kinds[0] & LATENCY else ITEMS
        values = {i: _value(session, mfa, i, kinds[0]) for i in items}
        if values["meta"] == []:
            values["meta"] = False  # as in OTP
        return (Atom(item), [(Atom(i), value) for i, value in values.items()])
    return (Atom(item), _value(session, mfa, item, kinds[0]))


def _monitored(event: str, limit: int, short: int) -> Any:
    if event in ("busy_port", "busy_dist_port"):
        return Atom(event)
    return (Atom(event), (short, limit) if event == "long_message_queue" else limit)


def _tracer(session: Session) -> Any:
    if (port := session._native.port) is not None:
        return trace_ports.of(port)
    return session._native.module or session._native.tracer or session._weak()


def _flags_info(session: Session, item: str, bits: int) -> tuple[Any, Any]:
    if item == "flags":
        return (Atom(item), [Atom(name) for name, bit in FLAGS.items() if bits & bit])
    return (Atom(item), _tracer(session) if bits else [])


def _on_load_info(session: Session, item: str, kinds: int) -> tuple[Any, Any]:
    if not kinds:
        return (Atom(item), False)

    def value(item: str) -> Any:
        if item in ("call_count", "call_time", "call_memory", "call_latency"):
            return bool(kinds & KINDS[item])
        return _setting(session, None, item, kinds)

    if item != "all":
        return (Atom(item), value(item))
    return (Atom(item), [(Atom(i), value(i)) for i in ITEMS if i not in ("call_memory", "call_time")])


def _setting(session: Session, mfa: Any, item: str, kinds: int) -> Any:
    """``mfa`` is None for on_load."""
    traced = kinds & (LOCAL | GLOBAL)
    if item == "traced":
        return Atom("global" if traced & GLOBAL else "local") if traced else False
    if item == "match_spec":
        return session._native.spec_of(mfa, False) or [] if traced else False
    if item == "meta":
        if not kinds & META:
            return False
        gone: Any = False if mfa is None else []
        return gone if session._native.has_lost_meta(mfa) else _tracer(session)
    return session._native.spec_of(mfa, True) or [] if kinds & META else False


def _value(session: Session, mfa: Any, item: str, kinds: int) -> Any:
    native = session._native
    if item not in KINDS or not item.startswith("call_"):
        return _setting(session, mfa, item, kinds)
    if not kinds & KINDS[item]:
        return False
    if item == "call_count":
        return native.count_of(mfa) or 0
    if item == "call_time":
        return [(pid, calls, ns // 10**9, ns % 10**9 // 1000) for pid, calls, ns in native.time_of(mfa)]
    if item == "call_memory":
        return [(pid, calls, (size + 7) // 8) for pid, calls, size in native.memory_of(mfa)]
    return _latency(native.latency_of(mfa))


def _latency(buckets: list[tuple[int, int]]) -> dict[str, Any]:
    count = sum(n for _, n in buckets)
    if not count:
        return {"count": 0, "buckets": []}
    answer: dict[str, Any] = {
        "count": count,
        "min": buckets[0][0],
        "max": buckets[-1][0],
        "mean": sum(value * n for value, n in buckets) / count,
        "percentiles": {},
        "buckets": buckets,
    }
    for percent in (50.0, 90.0, 99.0, 99.9):
        passed = 0
        for value, n in buckets:
            passed += n
            if passed * 100 >= percent * count:
                answer["percentiles"][percent] = value
                break
    return answer
