"""Events of sequential tracing as text: terms as Erlang's shell writes them, in the layout of OTP's own example."""

from __future__ import annotations

import math
import sys
import traceback
import unicodedata
from contextlib import suppress
from typing import Any, TextIO

from inviso._native.process import Pid
from inviso._stream import put
from inviso.errors import BadArg, shown
from inviso.process import receive, spawn
from inviso.terms import Atom, BitString, Cut, ImproperList, Map, Opaque, Record

from ._nodes import apart

__all__ = ["checked", "clipped", "dropped", "format", "printer", "term", "wide"]

_DEPTH = 100
_VERBS = {"send": "Sent", "receive": "Received", "print": "Info"}
# erl_scan:reserved_word/1
_RESERVED = frozenset(
    [
        "after",
        "and",
        "andalso",
        "band",
        "begin",
        "bnot",
        "bor",
        "bsl",
        "bsr",
        "bxor",
        "case",
        "catch",
        "cond",
        "div",
        "end",
        "fun",
        "if",
        "let",
        "not",
        "of",
        "or",
        "orelse",
        "receive",
        "rem",
        "try",
        "when",
        "xor",
    ]
)
_ESCAPES = {"\x1b": "\\e", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


def format(event: Any) -> str:
    """Formats an event as the tracer in seq_trace.md's example prints it: always two lines. A drop record is one line.

    Terms are written as by ``~p``, but each on one line, binaries and lists as numbers, and maps in their own order.

    Args:
        event: a message of the system tracer: ``("seq_trace", label, info)``, maybe with a timestamp as the fourth
            element, or ``("drop", number)`` for lost messages; or an entry of a merge.

    Raises:
        BadArg: ``event`` is neither.

    >>> from inviso import seq_trace
    >>> me = inviso.self()
    >>> print(seq_trace.format(("seq_trace", 17, ("print", (0, 1), me, [], "**** Trace Started ****"))))
    17:<0...> Info {0,1} WITH
    "**** Trace Started ****"
    >>> print(seq_trace.format(("seq_trace", 17, ("receive", (0, 2), me, me, ("port", "message")), (1, 2, 3))))
    17 {1,2,3}:<0...> Received {0,2} FROM <0...> WITH
    {"port","message"}
    >>> seq_trace.format(("drop", 3))
    '*** Dropped 3 messages.'
    """
    lost = dropped(event)
    if lost:
        return f"*** Dropped {lost} messages."
    message = checked("format/1", "event", getattr(event, "event", event))
    label, (tag, serial, sender, receiver, content) = message[1], message[2]
    stamp = f" {term(message[3])}" if len(message) == 4 else ""
    if tag == "send":
        who, other = sender, f" TO {term(receiver)}"
    elif tag == "receive":
        who, other = receiver, f" FROM {term(sender)}"
    else:
        who, other = sender, ""
    return f"{term(label)}{stamp}:{term(who)} {_VERBS[tag]} {term(serial)}{other} WITH\n{term(content)}"


def printer(file: TextIO | None = None) -> Pid:
    """Starts a process that prints the events of sequential tracing (seq_trace.md, the example's ``tracer/0``).

    Make it the system tracer. It prints each event as :func:`format` writes it, and ends at the message ``"stop"``.
    Characters that the file's encoding lacks are escaped. If the file fails, a message goes to the standard error
    output, once. Later events are counted, and reported as dropped when the file accepts text again.

    Args:
        file: the file to print to; None for the standard output.

    Returns:
        The process's Pid.

    Raises:
        BadArg: ``file`` can't be written to: it is closed, read-only or binary, or it is not a file.

    >>> from inviso import seq_trace
    >>> import io
    >>> out = io.StringIO()
    >>> tracer = seq_trace.printer(out)
    >>> _ = seq_trace.set_system_tracer(tracer)
    >>> _ = seq_trace.set_token("print", True)
    >>> seq_trace.print("We are here now")
    >>> _ = seq_trace.reset_trace(), seq_trace.set_system_tracer(False)
    >>> ended = inviso.monitor(tracer)
    >>> _ = inviso.send(tracer, "stop"), inviso.receive(("DOWN", ended, "_", "_", "_"), timeout=5)
    >>> print(out.getvalue())
    0:<0...> Info {0,1} WITH
    "We are here now"
    <BLANKLINE>
    """
    out = sys.stdout if file is None else file
    with apart():
        if not _takes_text(out):
            raise BadArg("printer/1", "file", f"{shown(out)} can't be written to; pass an open file of text, or None")
        pid: Pid = spawn(_print_all, out, name="seq_trace printer")
    return pid


def _takes_text(file: Any) -> bool:
    """Whether a file takes text: it is not closed, read-only or binary. A full disk may have room later."""
    try:
        file.write("")
    except (AttributeError, TypeError, ValueError):
        return False
    except Exception:
        pass
    return True


def _print_all(file: TextIO) -> None:
    lost, is_reported = 0, False
    flush = getattr(file, "flush", lambda: None)
    while True:
        message = receive()
        if message == "stop":
            return
        try:
            text = format(message)
        except BadArg:  # a message that is not an event
            continue
        try:
            if lost:
                put(file, f"{format(('drop', lost))}\n")
                lost = 0
            put(file, f"{text}\n")
            flush()
        except Exception as error:
            lost += dropped(message) or 1
            if not is_reported:
                is_reported = True
                with suppress(Exception):
                    print("inviso: the seq_trace printer's file fails (reported once):", file=sys.stderr)
                    traceback.print_exception(error)


def dropped(message: Any) -> int:
    """The number of lost messages in a drop record; 0 for any other message."""
    if type(message) is tuple and len(message) == 2 and message[0] == "drop" and type(message[1]) is int:
        return max(message[1], 0)
    return 0


def checked(where: str, argument: str, message: Any) -> tuple[Any, ...]:
    """Returns the message, if it is a message of a system tracer."""
    if isinstance(message, tuple) and len(message) in (3, 4) and message[0] == "seq_trace":
        info = message[2]
        if isinstance(info, tuple) and len(info) == 5 and isinstance(info[0], str) and info[0] in _VERBS:
            serial = info[1]
            if isinstance(serial, tuple) and len(serial) == 2 and all(type(n) is int for n in serial):
                return message
    raise BadArg(where, argument, f"{clipped(shown(message), 80)} is not an event; pass what the system tracer got")


def term(value: Any, depth: int = _DEPTH) -> str:
    """A value as Erlang's shell writes it, on one line."""
    if depth == 0:
        return "..."
    if value is None or isinstance(value, (bool, Atom)):
        return _atom("undefined" if value is None else str(value).lower() if isinstance(value, bool) else value)
    if isinstance(value, str):
        return f'"{"".join(_character(c) for c in value)}"'
    if isinstance(value, int):
        # Python refuses to print longer ints as decimals
        return str(int(value)) if value.bit_length() < 2_000 else hex(value)
    if isinstance(value, float) and math.isfinite(value):
        return _float(value)
    if isinstance(value, (bytes, BitString)):
        return _binary(value)
    inner = depth - 1
    if isinstance(value, tuple):
        return f"{{{_commas(value, inner)}}}"
    if isinstance(value, list):
        return f"[{_commas(value, inner)}]"
    if isinstance(value, ImproperList):
        return f"[{_commas(value.elements, inner)}|{term(value.tail, inner)}]"
    if isinstance(value, (dict, Map)):
        pairs = value.items() if isinstance(value, dict) else value
        return f"#{{{','.join(f'{term(key, inner)} => {term(item, inner)}' for key, item in pairs)}}}"
    if isinstance(value, Record):
        fields = ",".join(f"{_atom(name)} = {term(item, inner)}" for name, item in value.fields.items())
        return f"#{_atom(value.module)}:{_atom(value.name)}{{{fields}}}"
    if isinstance(value, (set, frozenset)):
        return f"#Set<{','.join(sorted(term(item, inner) for item in value))}>"
    if isinstance(value, Cut):
        return f"...<{value.what}>"
    if isinstance(value, Opaque):
        return "".join(_character(c, '\\"') for c in f"#Object{value!r}")
    return "".join(_character(c, '\\"') for c in repr(value))


def _commas(values: Any, depth: int) -> str:
    return ",".join(term(value, depth) for value in values)


def _float(value: float) -> str:
    """Its shortest digits, with an exponent where that is shorter (io_lib_format:fwrite_g/1)."""
    mantissa, _, exponent = float.__repr__(value).partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    whole, _, rest = mantissa.lstrip("-").partition(".")
    digits, place = (whole + rest).lstrip("0"), len(whole) + int(exponent or 0)
    place -= len(whole + rest) - len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    count = len(digits)
    if 0 <= place < count:
        return f"{sign}{digits[:place] or '0'}.{digits[place:]}"
    cost = len(str(place - 1)) + (3 if count == 1 else 2)
    if place < 0 and 2 - place <= cost:
        return f"{sign}0.{'0' * -place}{digits}"
    if place >= count and place - count + 2 <= cost and abs(value) < 1 << 53:
        return f"{sign}{digits}{'0' * (place - count)}.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}e{place - 1}"


def _atom(name: str) -> str:
    if (
        name not in _RESERVED
        and name[:1].isascii()
        and name[:1].islower()
        and all(c.isascii() and (c.isalnum() or c in "_@") for c in name)
    ):
        return str(name)
    return "'" + "".join(f"\\{c}" if c in "'\\" else _character(c, '"') for c in name) + "'"


def _binary(value: bytes | BitString) -> str:
    data, bits = (value.data, value.bits) if isinstance(value, BitString) else (value, 8)
    numbers = [str(byte) for byte in data]
    if bits < 8 and data:
        numbers[-1] = f"{data[-1] >> (8 - bits)}:{bits}"
    return f"<<{','.join(numbers)}>>"


def _character(c: str, plain: str = "") -> str:
    """A character; or its escape, if it ends a line, changes the direction of text, or is invisible."""
    if c in plain:
        return c
    if c in _ESCAPES:
        return _ESCAPES[c]
    return f"\\x{{{ord(c):x}}}" if c != " " and unicodedata.category(c) in _UNSEEN else c


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def wide(text: str) -> int:
    """The columns of a terminal that a text needs, at most."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clipped(text: str, columns: int) -> str:
    """The text, cut to a number of columns."""
    if wide(text) <= columns:
        return text
    taken, left = [], max(columns - 1, 0)
    for c in text:
        left -= wide(c)
        if left < 0:
            break
        taken.append(c)
    return "".join(taken) + "…" if columns > 0 else ""
