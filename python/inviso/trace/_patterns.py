"""Patterns: which calls are traced or measured, and which messages are traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from inviso import _native
from inviso.errors import BadArg, shown
from inviso.match_spec._compile import compiled, derives, word

from ._arguments import list_of, mfa_of, one_of, spec_of
from ._handle import alive, dead
from ._tables import GLOBAL, KINDS, MESSAGES

if TYPE_CHECKING:
    from ._session import Session
    from ._types import Mfa, Spec

__all__ = ["control_word", "function", "on_load", "recv", "send"]


def function(session: Session, mfa: Mfa | str, match_spec: Spec, flags: Iterable[str] = ()) -> int:
    """Sets or removes a pattern: traces or measures calls of functions (trace.md, ``function/4``).

    Args:
        mfa: ``(module, qualified name, number of parameters)``, with ``"_"`` (any) as the number, as the last two or as
            all three; ``("package.**", "_", "_")`` for a module and all below it; or ``"on_load"`` for functions that
            are made later. A function written in C matches only by module, name and ``"_"``, and is seen where Python
            code calls it.
        match_spec: True (on; counters start from zero), False (off), ``"pause"``, ``"restart"`` (counters), or a match
            specification (:mod:`inviso.match_spec`), which decides about each message; ``[]`` is the same as True.
            A match specification needs ``global``, ``local`` or ``meta`` among the flags: counters count every call.
        flags: ``global`` (alone; the default), ``local``, ``meta``, ``call_count``, ``call_time``, ``call_memory``,
            ``call_latency``.

    Returns:
        The number of functions that matched; 0 for ``"on_load"``.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("count") as session:
    ...     function(session, ("json.decoder", "JSONDecoder.decode", "_"), True, ["call_count"])
    ...     _ = json.loads("0")
    ...     info(session, ("json.decoder", "JSONDecoder.decode", 3), "call_count")
    1
    ('call_count', 1)

    >>> spec = inviso.ms(lambda self, s, where: s == "2")
    >>> with session_create("few") as session:
    ...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), spec, ["local"])
    ...     _ = session.process(inviso.self(), True, ["call"])
    ...     _ = json.loads("1"), json.loads("2")
    ...     [message[3][2][1] for message in session.drain()]
    ['2']
    """
    where = "function/4"
    native = alive(where, session)
    on_load = isinstance(mfa, str) and mfa == "on_load"
    names = list_of(where, "flags", flags)
    kinds = 0
    for name in names:
        if isinstance(name, tuple) and name and name[0] in ("tracer", "meta"):
            raise BadArg(where, "flags", f"{shown(name)} is an option of the old interface; the session has the tracer")
        kinds |= one_of(where, "flags", "flag", name, KINDS)
    kinds = kinds or GLOBAL
    # checks are in OTP's order, so the error names the same argument
    if kinds & GLOBAL and kinds != GLOBAL:
        other = next(name for name in names if name != "global")
        raise BadArg(where, "flags", f"'global' can't be combined with {shown(other)}; drop one of them")
    if isinstance(mfa, str) and mfa in ("send", "receive"):
        if word(match_spec) in ("pause", "restart"):
            raise BadArg(where, "mfa", f"{shown(mfa)} has no counters; pass True, False or a list of clauses for it")
        counted = names and not kinds & MESSAGES and derives(match_spec, list) and list.__len__(match_spec)  # type: ignore[arg-type]
        return _messages(where, str(mfa), session, match_spec, names, "flags" if counted else "mfa")
    how, program = spec_of(where, match_spec)
    if program is not None and not kinds & MESSAGES:
        why = "counters count every call; pass True as match_spec, or 'local' or 'meta' among the flags"
        raise BadArg(where, "flags", why)
    target = None if on_load else mfa_of(where, "mfa", mfa, wildcards=True)
    try:
        if target is None:
            native.on_load(kinds, how, None, program)
            return 0
        return native.function(target, kinds, how, program)
    except _native.trace.SessionDead:
        raise dead(where) from None


def on_load(session: Session, flag: str, patterns: Iterable[Mfa], match_spec: Spec = True) -> None:
    """As ``function(session, "on_load", match_spec, [flag])``, but only for functions that match one of these patterns.
    For tprof and the command line.
    """
    native = alive("function/4", session)
    only = [mfa_of("function/4", "mfa", pattern, wildcards=True) for pattern in patterns]
    how, program = spec_of("function/4", match_spec)
    try:
        native.on_load(KINDS[flag], how, only, program)
    except _native.trace.SessionDead:
        raise dead("function/4") from None


def send(session: Session, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
    """Selects the messages that are traced when processes with the flag ``send`` send them (trace.md, ``send/3``).

    Args:
        match_spec: True or ``[]`` for all (the default), False for none, or a match specification, which gets the list
            ``[receiver, message]``. It may use all guards and actions except ``caller``, ``caller_line`` and
            ``current_stacktrace``.
        flags: must be empty.

    Returns:
        1.

    Raises:
        BadArg: a wrong argument; nothing has changed.
        SystemLimit: the match specification is nested too deep.

    Messages of a kind only:

    >>> session = session_create("replies")
    >>> send(session, [(["_", (inviso.Atom("reply"), "_")], [], [])], [])
    1
    >>> session.destroy()
    True
    """
    return _messages("send/3", "send", session, match_spec, flags)


def recv(session: Session, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
    """Selects the messages that are traced when processes with the flag ``receive`` get them (trace.md, ``recv/3``).

    Args:
        match_spec: True or ``[]`` for all (the default), False for none, or a match specification, which gets the list
            ``[node, sender, message]``; the sender is None if it isn't known. It may use all guards, and the actions
            that trace.md allows.
        flags: must be empty.

    Returns:
        1.

    Raises:
        BadArg: a wrong argument; nothing has changed.
        SystemLimit: the match specification is nested too deep.

    Messages of one sender only:

    >>> session = session_create("from_me")
    >>> recv(session, [(["_", inviso.self(), "_"], [], [])], [])
    1
    >>> session.destroy()
    True
    """
    return _messages("recv/3", "receive", session, match_spec, flags)


def _messages(where: str, context: str, session: Session, spec: Any, flags: Any, argument: str = "flags") -> int:
    """Sets a pattern of messages. If a flag is one of functions, the error names ``argument``."""
    native = alive(where, session)
    given = list_of(where, "flags", flags)
    why = f"{shown(flags)} is not empty; messages have no flags: pass []"
    if not all(isinstance(flag, str) and flag in KINDS for flag in given):
        raise BadArg(where, "flags", why)
    program = None
    if derives(spec, list):
        program = compiled(where, spec, context) if list.__len__(spec) else None
    elif spec is not True and spec is not False:
        reason = f"{shown(spec)} is not a match specification; pass True, False or a list of clauses"
        raise BadArg(where, "match_spec", reason)
    if given:
        raise BadArg(where, argument, why)
    try:
        native.messages(context == "receive", spec is not False, program)
    except _native.trace.SessionDead:
        raise dead(where) from None
    return 1


def control_word(value: int | None = None) -> int:
    """The node's trace control word, which match specifications read and set (trace.md, ``get_tcw``, ``set_tcw``).

    Args:
        value: the new word, 32 bits; None only reads the word.

    Returns:
        The word; with ``value`` the previous one.

    Raises:
        BadArg: ``value`` is not an int of 32 bits.

    >>> control_word(7), control_word(0)
    (0, 7)
    """
    if value is None:
        return _native.match_spec.control_word()
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise BadArg(
            "control_word/1", "value", f"{shown(value)} is not an int of 32 bits; pass one from 0 to 4294967295"
        )
    return _native.match_spec.set_control_word(value)
