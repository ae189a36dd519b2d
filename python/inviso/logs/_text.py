"""Messages as lines of text."""

from __future__ import annotations

import time
from typing import Any

from ._read import Damage, Drop

COLOURS = {
    "call": "36", "return_from": "32", "return_to": "2;32", "exception_from": "31", "send": "35", "receive": "34",
    "drop": "1;33", "damage": "1;31", "time": "2",
}  # fmt: skip


def format(message: Any, *, colour: bool = False) -> str:
    """Formats a message, a drop record or damage as one line, like OTP's ``dbg``. The line has no line feed.

    Args:
        colour: True adds escape sequences of a terminal. Control characters in the message itself are always escaped.

    >>> from inviso import log
    >>> log.format(("trace", inviso.self(), "call", ("json", "loads", ["[1]"])))  # doctest: +ELLIPSIS
    "(<0...>) call json:loads('[1]')"
    >>> log.format(("drop", 3))
    '*** 3 messages were dropped'
    """
    paint = _painted if colour else _plain
    if isinstance(message, Damage):
        return paint(f"*** damage: {name(str(message))}", "damage")
    if isinstance(message, Drop) or (type(message) is tuple and len(message) == 2 and message[0] == "drop"):
        return paint(f"*** {message[1]} message{' was' if message[1] == 1 else 's were'} dropped", "drop")
    match message if isinstance(message, tuple) else ():
        case ("trace", tracee, str(tag), *rest):
            return f"({tracee!r}) " + _event(tag, rest, paint)
        case ("trace_ts", tracee, str(tag), *rest, stamp):
            return f"({tracee!r}) {_event(tag, rest, paint)} {paint('at ' + moment(stamp), 'time')}"
        case ("seq_trace", label, info):
            return f"seq_trace {show(label)}: {_items([info])}"
        case ("seq_trace", label, info, stamp):
            return f"seq_trace {show(label)}: {_items([info])} {paint('at ' + moment(stamp), 'time')}"
    return show(message)


def _event(tag: str, rest: list[Any], paint: Any) -> str:
    match tag, rest:
        case "call", [mfa, *extra]:
            return f"{paint('call', tag)} {function(mfa)}{_extra(extra)}"
        case "return_from", [mfa, value, *extra]:
            return f"{paint('returned from', tag)} {function(mfa)} -> {show(value)}{_extra(extra)}"
        case "exception_from", [mfa, tuple((str(kind), value)), *extra]:
            return f"{paint('exception from', tag)} {function(mfa)}: {name(kind)} {show(value)}{_extra(extra)}"
        case "return_to", [mfa, *extra]:
            return f"{paint('returned to', tag)} {function(mfa)}{_extra(extra)}"
        case "send", [value, to, *extra]:
            return f"{show(to)} {paint('!', tag)} {show(value)}{_extra(extra)}"
        case "send_to_non_existing_process", [value, to, *extra]:
            return f"{show(to)} {paint('!', 'send')} {show(value)} (no such process){_extra(extra)}"
        case "receive", [value, *extra]:
            return f"{paint('<<', tag)} {show(value)}{_extra(extra)}"
        case "spawn" | "spawned", [who, mfa, *extra]:
            return f"{paint(tag, tag)} {show(who)} as {function(mfa)}{_extra(extra)}"
        case "in" | "out" | "in_exiting" | "out_exiting", [mfa, *extra]:
            return f"{paint(tag, tag)} {function(mfa)}{_extra(extra)}"
    return f"{paint(name(tag), tag)} {_items(rest)}".rstrip()


def _items(values: list[Any]) -> str:
    return ", ".join(map(show, values))


def _extra(extra: list[Any]) -> str:
    return f" ({_items(extra)})" if extra else ""


def function(mfa: Any) -> str:
    """A function name of a message, with its arguments or its number of parameters.

    >>> function(("m", "f", 2)), function(("m", "f", [1, "a"])), function(None), function(["m", "f", 2])
    ('m:f/2', "m:f(1, 'a')", 'None', "['m', 'f', 2]")
    """
    match mfa if isinstance(mfa, tuple) else ():
        case (str(module), str(of), int(arity)) if not isinstance(arity, bool) and -1 << 31 <= arity < 1 << 31:
            return f"{name(module)}:{name(of)}/{arity}"
        case (str(module), str(of), list(arguments)):
            return f"{name(module)}:{name(of)}({_items(arguments)})"
    return show(mfa)


def show(value: Any) -> str:
    """The ``repr`` of a value; integers that are too long for it in hexadecimal.

    >>> show([1, "a"]), show([1 << 20000])[:9]
    ("[1, 'a']", '[0x100000')
    """
    try:
        return repr(value)
    except ValueError:
        pass
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, list):
        return f"[{_items(value)}]"
    if isinstance(value, tuple):
        return f"({_items([*value])})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{show(key)}: {show(item)}' for key, item in value.items())}}}"
    return f"<{type(value).__name__}>"


def name(text: str) -> str:
    """A name; its ``repr`` if it has characters that could change a terminal's state.

    >>> name("Class.method"), name("a\\x1b[2J")
    ('Class.method', "'a\\\\x1b[2J'")
    """
    return text if text.isprintable() else repr(text)


def moment(stamp: Any) -> str:
    """A timestamp as text: the local time, or nanoseconds.

    >>> moment(1700), moment((1700, 2)), moment(None), moment(False), moment([1700, 2])
    ('1700 ns', '1700 ns (2)', 'None', 'False', '[1700, 2]')
    """
    parts = stamp if isinstance(stamp, tuple) else (stamp,)
    if isinstance(stamp, list) or any(isinstance(part, bool) or _is_long(part) for part in parts):
        return show(stamp)  # lists, atoms and integers of over 64 bits are not timestamps
    match stamp:
        case (int(megas), int(seconds), int(micros)):
            try:
                local = time.localtime(megas * 1_000_000 + seconds)
            except (OverflowError, ValueError, OSError):
                return show(stamp)
            return f"{time.strftime('%Y-%m-%d %H:%M:%S', local)}.{micros:06}"
        case (int(ns), int(unique)):
            return f"{ns} ns ({unique})"
        case int():
            return f"{stamp} ns"
    return show(stamp)


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not -1 << 63 <= value < 1 << 63


def _plain(text: str, _: str) -> str:
    return text


def _painted(text: str, tag: str) -> str:
    colour = COLOURS.get(tag)
    return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"
