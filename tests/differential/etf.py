"""The terms of the cases in Erlang's external term format, as far as cases need it.

Only a node can make processes, references, ports and functions. They are written as ``{'$named', Kind, Name}``.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

__all__ = ["Damaged", "atom_name", "pack", "unpack"]

Term = Any
"""A term as the case files have it."""

VERSION = 131
NAMED = {"a": "$named"}
SMALL = 2**53


class Damaged(Exception):
    """These bytes are no term."""


def pack(term: Term) -> bytes:
    """The bytes of a term, after the byte of the version."""
    out = bytearray([VERSION])
    put(out, term)
    return bytes(out)


def put(out: bytearray, term: Term) -> None:
    """Appends a term."""
    if isinstance(term, int):
        return put_integer(out, term)
    if isinstance(term, list):
        return put_list(out, term, [])
    match term:
        case {"a": name}:
            text = name.encode()
            out += bytes([119, len(text)]) + text
        case {"i": digits}:
            put_integer(out, int(digits))
        case {"f": number}:
            out += struct.pack(">Bd", 70, number)
        case {"b": data}:
            octets = base64.b64decode(data)
            out += struct.pack(">BI", 109, len(octets)) + octets
        case {"bits": data, "n": bits}:
            octets = base64.b64decode(data)
            out += struct.pack(">BIB", 77, len(octets), bits % 8 or 8) + octets
        case {"il": elements, "tail": tail}:
            put_list(out, elements, tail)
        case {"t": elements}:
            put_tuple(out, elements)
        case {"m": pairs}:
            out += struct.pack(">BI", 116, len(pairs))
            for key, value in pairs:
                put(out, key)
                put(out, value)
        case {"pid": name} | {"ref": name} | {"port": name} | {"session": name}:
            put_tuple(out, [NAMED, {"a": next(iter(term))}, {"a": name}])
        case {"fun": True, "arity": arity}:
            put_tuple(out, [NAMED, {"a": "fun"}, arity])
        case _:
            raise ValueError(f"not a term: {term!r}")
    return None


def put_integer(out: bytearray, n: int) -> None:
    """Appends an integer in the shortest of its forms."""
    if 0 <= n < 256:
        out += bytes([97, n])
    elif -(2**31) <= n < 2**31:
        out += struct.pack(">Bi", 98, n)
    else:
        digits = abs(n).to_bytes((abs(n).bit_length() + 7) // 8, "little")
        sized = bytes([110, len(digits)]) if len(digits) < 256 else struct.pack(">BI", 111, len(digits))
        out += sized + bytes([n < 0]) + digits


def put_list(out: bytearray, elements: list[Term], tail: Term) -> None:
    """Appends a list; the empty one is its tail."""
    if elements:
        out += struct.pack(">BI", 108, len(elements))
        for element in elements:
            put(out, element)
    if tail == []:
        out.append(106)
    else:
        put(out, tail)


def put_tuple(out: bytearray, elements: list[Term]) -> None:
    """Appends a tuple."""
    out += bytes([104, len(elements)]) if len(elements) < 256 else struct.pack(">BI", 105, len(elements))
    for element in elements:
        put(out, element)


def unpack(data: bytes) -> Term:
    """The term of these bytes."""
    if data[:1] != bytes([VERSION]):
        raise Damaged(f"no version at the start: {data[:8]!r}")
    reader = Reader(data)
    try:
        term = reader.term()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Damaged(f"at byte {reader.at}: {error}") from None
    if reader.at != len(data):
        raise Damaged(f"{len(data) - reader.at} bytes too many")
    return term


class Reader:
    """Bytes, and the position of the reader."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 1

    def take(self, form: str) -> Any:
        """The next number of this form."""
        form = ">" + form
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def octets(self, count: int) -> bytes:
        """This number of bytes."""
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise IndexError(f"{count} bytes wanted, {len(taken)} left")
        self.at += count
        return taken

    def terms(self, count: int) -> list[Term]:
        """This number of terms."""
        return [self.term() for _ in range(count)]

    def term(self) -> Term:
        """The next term."""
        match self.take("B"):
            case 97:
                return self.take("B")
            case 98:
                return self.take("i")
            case 110 | 111 as tag:
                return self.big(self.take("B" if tag == 110 else "I"))
            case 70:
                return {"f": self.take("d")}
            case 118 | 119 as tag:
                return {"a": self.octets(self.take("H" if tag == 118 else "B")).decode()}
            case 100 | 115 as tag:
                return {"a": self.octets(self.take("H" if tag == 100 else "B")).decode("latin-1")}
            case 109:
                return {"b": base64.b64encode(self.octets(self.take("I"))).decode()}
            case 77:
                size, last = self.take("I"), self.take("B")
                return {"bits": base64.b64encode(self.octets(size)).decode(), "n": 8 * (size - 1) + last}
            case 106:
                return []
            case 107:
                return list(self.octets(self.take("H")))
            case 108:
                elements = self.terms(self.take("I"))
                tail = self.term()
                return elements if tail == [] else {"il": elements, "tail": tail}
            case 104 | 105 as tag:
                return named({"t": self.terms(self.take("B" if tag == 104 else "I"))})
            case 116:
                return {"m": [self.terms(2) for _ in range(self.take("I"))]}
            case tag:
                raise IndexError(f"unknown tag {tag}")

    def big(self, size: int) -> Term:
        """An integer of this number of bytes."""
        sign = self.take("B")
        n = int.from_bytes(self.octets(size), "little")
        n = -n if sign else n
        return n if -SMALL <= n <= SMALL else {"i": str(n)}


def named(term: Term) -> Term:
    """The value that only a node can make, if the tuple stands for one."""
    match term:
        case {"t": [{"a": "$named"}, {"a": "fun"}, arity]}:
            return {"fun": True, "arity": arity}
        case {"t": [{"a": "$named"}, {"a": kind}, {"a": name}]}:
            return {kind: name}
    return term


def atom_name(term: Term) -> str:
    """The text of an atom; empty for another term."""
    return str(term["a"]) if isinstance(term, dict) and set(term) == {"a"} else ""
