"""Frames: four bytes of length, then one term in the external term format. Nothing else is ever decoded.

The first frame of each side has its version of the protocol::

    ("inviso", (MAJOR, MINOR), {"node": "shop-1@host", "pid": 4711, ...})

Unknown keys of the dict are ignored. A peer of another major version is refused with an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inviso import etf
from inviso.errors import BadArg, SystemLimit

__all__ = ["DEPTH", "LIMIT", "VERSION", "BadFrame", "Frames", "answer", "greeting", "pack", "peer_of"]

VERSION = (1, 0)
LIMIT = 16 << 20
"""Bytes of a frame's term, at most."""

DEPTH = 64
"""Terms inside terms, at most."""

_HEAD = 4
_ANSWER = b"\x83h\x03" + etf.dumps("answer")[1:]
"""The beginning of a tuple of three, with its first element."""


class BadFrame(Exception):
    """Bytes that are not a valid frame; the text says why. The connection can't be used any more."""


def pack(term: Any) -> bytes:
    """The frame of a term. ``BadArg`` if it is not a term, ``BadFrame`` if it is too long.

    >>> pack(("ok", 1))[:4]
    b'\\x00\\x00\\x00\\x0c'
    """
    data = etf.dumps(term)
    if len(data) > LIMIT:
        raise BadFrame(f"a term of {len(data)} bytes is too long; at most {LIMIT} are sent")
    return len(data).to_bytes(_HEAD) + data


def answer(number: int, data: bytes) -> bytes:
    """The frame of ``("answer", number, term)``, for a term in the external format, which is copied unchecked.

    >>> answer(7, etf.dumps("yes")) == pack(("answer", 7, "yes"))
    True
    """
    if data[:1] != b"\x83":
        raise BadFrame("it is not a term")
    length = len(_ANSWER) + len(number_ := etf.dumps(number)[1:]) + len(data) - 1
    if length > LIMIT:
        raise BadFrame(f"a term of {length} bytes is too long; at most {LIMIT} are sent")
    return b"".join((length.to_bytes(_HEAD), _ANSWER, number_, memoryview(data)[1:]))


class Frames:
    """Decodes the bytes of one connection into terms, as they arrive.

    >>> frames = Frames()
    >>> data = pack(("ok", 1)) + pack("next")
    >>> list(frames.feed(data[:7])), list(frames.feed(data[7:]))
    ([], [('ok', 1), 'next'])
    """

    __slots__ = ("_data", "_limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self._data = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[Any]:
        """The terms that are complete with these bytes. ``BadFrame`` at the first invalid frame."""
        self._data += data
        while len(self._data) >= _HEAD:
            length = int.from_bytes(self._data[:_HEAD])
            if not 0 < length <= self._limit:
                raise BadFrame(f"a frame of {length} bytes; at most {self._limit} are read")
            if len(self._data) < _HEAD + length:
                return
            with memoryview(self._data) as view:
                content = bytes(view[_HEAD : _HEAD + length])
            del self._data[: _HEAD + length]
            yield _term(content)


def _term(content: bytes) -> Any:
    try:
        return etf.loads(content, depth=DEPTH, size=LIMIT)
    except BadArg as error:
        raise BadFrame(f"a frame that is not a term: {error.why}") from None
    except SystemLimit as error:
        raise BadFrame(str(error)) from None


def greeting(**about: Any) -> bytes:
    """The first frame of a connection."""
    return pack(("inviso", VERSION, about))


def peer_of(term: Any) -> dict[str, Any]:
    """The dict of the peer's first frame. ``BadFrame`` if it speaks another protocol.

    >>> peer_of(("inviso", (1, 7), {"node": "a@h", "new": 1}))["node"]
    'a@h'
    >>> peer_of(("inviso", (2, 0), {}))
    Traceback (most recent call last):
    ...
    inviso._link._frame.BadFrame: it speaks version 2 of the protocol, and this is version 1; install the same inviso...
    """
    match term:
        case ("inviso", (int(major), int()), dict(about)) if major == VERSION[0]:
            if not isinstance(about.get("node", ""), str):
                raise BadFrame("its node has no name")
            return about
        case ("inviso", (int(major), int()), dict()):
            other = f"version {major}" if 0 <= major < 10_000 else "another version"
            raise BadFrame(
                f"it speaks {other} of the protocol, and this is version {VERSION[0]}; "
                "install the same inviso on both sides"
            )
    raise BadFrame("it does not speak this protocol")
