"""Makes terms in the form of the case files, and has the small pool that cases are made of."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from .erlang import Case
from .etf import Term

__all__ = [
    "ATOMS",
    "BYTES",
    "FLOATS",
    "FUNCTION",
    "INTEGERS",
    "KEY_ATOMS",
    "a",
    "as_line",
    "exact_key",
    "improper",
    "parts",
    "t",
]


def a(name: str) -> Term:
    """An atom."""
    return {"a": name}


def t(*elements: Term) -> Term:
    """A tuple."""
    return {"t": list(elements)}


def integer(n: int) -> Term:
    """An integer."""
    return n if -(2**53) <= n <= 2**53 else {"i": str(n)}


def binary(data: bytes, bits: int = 0) -> Term:
    """A binary, or a bit string whose last byte has this number of bits."""
    if not bits:
        return {"b": b64encode(data).decode()}
    data = data[:-1] + bytes([data[-1] & (0xFF << 8 - bits) & 0xFF])
    return {"bits": b64encode(data).decode(), "n": 8 * (len(data) - 1) + bits}


def improper(elements: list[Term], tail: Term) -> Term:
    """A list with a tail, which may be a list too."""
    if not elements:
        return tail
    if isinstance(tail, list):
        return elements + tail
    if isinstance(tail, dict) and "il" in tail:
        return {"il": elements + tail["il"], "tail": tail["tail"]}
    return {"il": elements, "tail": tail}


def exact_key(term: Term) -> str:
    """Text that two terms share exactly if they are one key of a map."""
    if isinstance(term, list):
        return "[" + ",".join(map(exact_key, term)) + "]"
    if not isinstance(term, dict):
        return repr(term)
    if "m" in term:
        return "#" + ",".join(sorted(exact_key(k) + "=" + exact_key(v) for k, v in term["m"]))
    return "{" + ",".join(f"{k}:{exact_key(v)}" for k, v in sorted(term.items())) + "}"


def mapping(pairs: list[list[Term]]) -> Term:
    """A map; of equal keys the first counts."""
    seen: dict[str, list[Term]] = {}
    for pair in pairs:
        seen.setdefault(exact_key(pair[0]), pair)
    return {"m": list(seen.values())}


FUNCTION: Term = {"fun": True, "arity": 1}

KEY_ATOMS = ("key_a", "key_b", "key_c", "key_d")
"""Atoms as keys of maps: Erlang makes them in this order, so that it is their order in a map too."""

ATOMS = ("a", "b", "foo", "true", "false", "undefined", "EXIT", "", "$", "$a", "$01", "known_name", "+", "[]", "é")

ODD_ATOMS = ("_", "$_", "$$", "$0", "$1", "$2", "$999", "const", "message")
"""Atoms that mean something in a specification."""

INTEGERS = (0, 1, -1, 2, 3, 5, 7, 255, 256, -256, 2**27 - 1, 2**27, 2**31, 2**32 - 1, 2**53, 2**53 + 1, -(2**53) - 1)
LARGE = (2**59 - 1, 2**59, -(2**59), -(2**59) - 1, 2**60, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**64 - 1)
HUGE = (2**128, -(2**128), 10**30, 2**200 + 1, -(2**200), 2**1023, 2**1024, 10**308, 10**400)

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 1.5, 2.5, -2.5, 0.5, 0.1, 1e10, 1e100, -1e300, 5e-324, 1.7976931348623157e308)
ROUND = (2.0**53, 2.0**59, 2.0**60, 2.0**63, -(2.0**63), 2.0**64, 1e15 + 0.5, 4503599627370497.5, 0.49999999999999994)

BYTES = (b"", b"a", b"b", b"ab", b"abc", b"\x00", b"\xff", b"\x80", b"abcdefgh", bytes(70))

NAMES = ("_", "$0", "$1", "$2", "$3", "$7", "$10", "$42")


def parts(term: Term) -> list[Term]:
    """A term and everything in it."""
    found, left = [], [term]
    while left:
        part = left.pop()
        found.append(part)
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            left += part.get("t") or part.get("il") or []
            left += [part["tail"]] if "tail" in part else []
            left += [x for pair in part.get("m", ()) for x in pair]
    return found


def as_line(case: Case, result: dict[str, Any]) -> str:
    """A case in the form of the case files."""
    return json.dumps({"mode": case.mode, "spec": case.spec, "subject": case.subject, "result": result})
