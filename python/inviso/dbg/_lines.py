"""Trace messages as lines of text, in the words of OTP's dbg.

A line has at most ``LINE`` characters, and no control characters, which would move a terminal's cursor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from inviso.terms import Atom

__all__ = ["LINE", "Paint", "Part", "line", "parts", "plain"]

LINE: Final = 1000
"""The largest number of characters in a line; a longer one is cut and ends in ``…``."""

Part: TypeAlias = tuple[str, str]
"""A piece of a line: its kind (``"who"``, ``"tag"``, ``"call"``, ``"return"``, ``"exception"``, ``"message"``,
``"time"``, ``"note"`` or ``""``) and its text.
"""

Paint: TypeAlias = Callable[[str, str], str]


def plain(kind: str, text: str) -> str:
    """Returns the text unchanged."""
    return text


def line(message: Any, paint: Paint = plain) -> str | None:
    """Formats a message as a line without a line feed; None for a value that is not a message.

    >>> from inviso import Pid
    >>> line(("trace", inviso.self(), "call", ("shop", "order", ["tea", 2])))
    "(<0...>) call shop:order('tea',2)"
    >>> line(("drop", 3))
    '*** Dropped 3 messages.'
    """
    made = parts(message)
    if made is None:
        return None
    room = LINE
    text = ""
    for kind, piece in made:
        piece = _safe(piece)
        if len(piece) > room:
            return text + paint(kind, piece[: room - 1] + "…")
        room -= len(piece)
        text += paint(kind, piece)
    return text


def parts(message: Any) -> list[Part] | None:
    """The pieces of a message's line; None for a value that is not a message."""
    match message:
        case ("trace", who, str(tag), *rest):
            return _trace(who, tag, rest)
        case ("trace_ts", who, str(tag), *rest, stamp):
            return [*_trace(who, tag, rest), ("", " "), ("time", f"(Timestamp: {_shown(stamp)})")]
        case ("drop", number):
            return [("note", f"*** Dropped {_shown(number)} messages.")]
        case ("seq_trace", label, info):
            return [("tag", f"SeqTrace [{_shown(label)}]: "), *_token(info)]
        case ("seq_trace", label, info, stamp):
            return [("tag", f"SeqTrace {_shown(stamp)} [{_shown(label)}]: "), *_token(info)]
    return None


def _trace(who: Any, tag: str, rest: list[Any]) -> list[Part]:
    begin = [("who", f"({_shown(who)})"), ("", " ")]
    match tag, rest:
        case "receive", [message]:
            return [*begin, ("tag", "<< "), ("message", _shown(message))]
        case "send", [message, to]:
            return [*begin, ("", f"{_shown(to)} "), ("tag", "! "), ("message", _shown(message))]
        case "call", [mfa]:
            return [*begin, ("tag", "call "), *_call(mfa)]
        case "call", [mfa, extra]:
            return [*begin, ("tag", "call "), *_call(mfa), ("", f" ({_shown(extra)})")]
        case "return_from", [mfa, value, *more]:
            made = [*begin, ("tag", "returned from "), *_call(mfa), ("", " -> "), ("return", _shown(value))]
            return made + [("", " " + _shown(each)) for each in more]
        case "return_to", [mfa, *_]:
            return [*begin, ("tag", "returning to "), *_call(mfa)]
        case "spawn", [pid, mfa]:
            return [*begin, ("tag", "spawn "), ("", f"{_shown(pid)} as "), *_call(mfa)]
    kind = "exception" if tag == "exception_from" else ""
    return [*begin, ("tag", tag), *((kind, " " + _shown(each)) for each in rest)]


def _token(info: Any) -> list[Part]:
    match info:
        case ("send", serial, sender, to, message):
            text = f"({_shown(sender)}) {_shown(to)} ! {_shown(message)} [Serial: {_shown(serial)}]"
        case ("receive", serial, sender, to, message):
            text = f"({_shown(to)}) << {_shown(message)} [Serial: {_shown(serial)}, From: {_shown(sender)}]"
        case ("print", serial, sender, _, message):
            text = f"-> {_shown(message)} [Serial: {_shown(serial)}, From: {_shown(sender)}]"
        case _:
            text = _shown(info)
    return [("message", text)]


def _call(mfa: Any) -> list[Part]:
    match mfa:
        case (str(module), str(function), list(arguments)):
            return [("call", f"{module}:{function}"), ("", f"({','.join(map(_nested, arguments))})")]
        case (str(module), str(function), int(arity)):
            return [("call", f"{module}:{function}"), ("", f"/{arity}")]
    return [("call", _shown(mfa))]


def _shown(value: Any) -> str:
    """The text of a value. An atom on its own has no quotes."""
    return str(value) if type(value) is Atom else _nested(value)


def _nested(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # an int with too many digits, or an object whose repr raises
        return f"<{type(value).__name__}>"


def _safe(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
