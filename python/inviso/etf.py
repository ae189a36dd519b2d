"""Erlang's external term format: Python values as bytes that Erlang reads, and back (erl_ext_dist.md).

============================  =====================================================================================
Erlang                        Python
============================  =====================================================================================
integer, float                int, float; other floats are written as ``nan``, ``infinity``, ``'-infinity'``
atom                          :class:`~inviso.Atom`; true, false and undefined are ``True``, ``False`` and ``None``
binary                        str if it is UTF-8, else bytes
bit string                    :class:`~inviso.BitString`
tuple, list                   tuple, list; a list whose tail is not a list is an :class:`~inviso.ImproperList`
map                           dict; a :class:`~inviso.Map` if keys are equal in Python (1, 1.0) or can't be hashed
pid, port, reference          :class:`~inviso.Pid`, :class:`~inviso.Port`, :class:`~inviso.Ref`, of any node
native record                 :class:`~inviso.Record`
``fun M:F/A``                 :class:`Fun`
a fun made at run time        :class:`LocalFun`, which goes back unchanged
============================  =====================================================================================

Bytes are written as a bit string whose last byte has 8 bits. For Erlang that is the same binary; here bytes that are
valid UTF-8 come back as bytes, not as str. Erlang itself writes plain binaries, and a str is written as one. A set is
written as ``{'$inviso.set', [Element]}`` and read as a frozenset; :class:`~inviso.Opaque` and :class:`~inviso.Cut` have
such tuples, too. In Erlang a str and the same bytes are the same key: a dict that has both becomes a list of pairs.

Names of atoms that begin with ``$inviso.`` belong to this package. Terms can be nested :data:`DEPTH` deep.

Pids, ports and references of this node are written as in Erlang: with the node's name (``inviso.set_node``) and
creation, and as those of ``nonode@nohost`` if it has no name. When they are read, those of ``nonode@nohost`` belong to
this node.

>>> from inviso import etf
>>> etf.dumps(("ok", 7))
b'\\x83h\\x02m\\x00\\x00\\x00\\x02oka\\x07'
>>> etf.loads(bytes([131, 104, 2, 119, 2, 111, 107, 107, 0, 1, 9]))
('ok', [9])
"""

from __future__ import annotations

from typing import Any

from . import _native
from .errors import BadArg, SystemLimit, shown
from .terms import Fun, LocalFun

__all__ = ["DEPTH", "SIZE", "Fun", "LocalFun", "dumps", "loads"]

DEPTH = 200
"""The largest number of terms inside each other."""

SIZE = 64 << 20
"""The largest number of bytes of a term, unless ``loads`` gets another limit."""


def dumps(term: Any, *, compressed: int = 0) -> bytes:
    """Encodes a term as bytes, with the version byte 131 (erlang.md, ``term_to_binary/2``).

    An instance of a subclass counts as one of its base (a namedtuple is a tuple); the subclass's code doesn't run.
    Names of atoms are cut to 255 characters. A str with lone surrogates becomes bytes.

    Args:
        compressed: 0 for no compression, 1 (fast) to 9 (small) for zlib's levels. As in Erlang, a term that compression
            doesn't make smaller is not compressed.

    Raises:
        BadArg: a part is not a term, or the term is nested deeper than :data:`DEPTH` (for example because it contains
            itself).

    >>> dumps([1, 2.5, {"a": None}])[:8]
    b'\\x83l\\x00\\x00\\x00\\x03a\\x01'
    >>> len(dumps([0] * 1000)), len(dumps([0] * 1000, compressed=9)) < 40
    (2007, True)
    """
    if not isinstance(compressed, int) or isinstance(compressed, bool) or not 0 <= compressed <= 9:
        raise BadArg(
            "dumps/2", "compressed", f"{shown(compressed)} is not a level of compression; pass an int from 0 to 9"
        )
    try:
        data = _native.etf.dumps(term)
    except TypeError as wrong:
        raise BadArg("dumps/2", "term", f"{wrong}; pass what Erlang has a type for, or its repr") from None
    except _native.trace.LimitReached as wrong:
        raise BadArg("dumps/2", "term", f"it is {_limit(wrong)}; pass one of up to {DEPTH - 1} levels") from None
    if compressed:
        import zlib

        packed = zlib.compress(data[1:], compressed)
        if len(packed) + 6 < len(data):
            return b"\x83P" + (len(data) - 1).to_bytes(4) + packed
    return data


def loads(data: bytes | bytearray | memoryview, *, depth: int = DEPTH, size: int = SIZE) -> Any:
    """Decodes bytes of any node to a term (erlang.md, ``binary_to_term/1``).

    Bytes from untrusted sources are safe: the result is a term or an error, and the memory is proportional to the
    input (up to about sixty bytes for one). As in Erlang, bytes after the term are ignored, and a float that is not
    finite or a map with the same key twice is an error. Atoms are never freed, as in Erlang; 1,048,576 are possible.

    Args:
        depth: the largest number of terms inside each other; at most :data:`DEPTH`.
        size: the largest number of bytes; for a compressed term also after decompression.

    Raises:
        BadArg: the bytes are not a term (the error has the place), or a limit is exceeded.
        SystemLimit: there are too many atoms.

    >>> loads(b"\\x83m\\x00\\x00\\x00\\x02hi"), loads(b"\\x83m\\x00\\x00\\x00\\x01\\xff")
    ('hi', b'\\xff')
    >>> loads(b"\\x83l\\x00\\x00")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: loads/2, data: at byte 2: the bytes end in the middle of a term; pass what ...
    """
    for name, limit in (("depth", depth), ("size", size)):
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise BadArg("loads/2", name, f"{shown(limit)} is not a limit; pass an int from 1")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise BadArg("loads/2", "data", f"{type(data).__name__} is not bytes; pass what dumps or term_to_binary made")
    whole = data if isinstance(data, bytes) else bytes(data)
    try:
        return _native.etf.loads(whole, min(depth, DEPTH), min(size, 1 << 62))
    except _native.trace.LimitReached as wrong:
        raise SystemLimit(f"loads/2: {_limit(wrong)}; nothing more can be read with names that are new here") from None
    except ValueError as wrong:
        text = str(wrong)
        mend = "pass what dumps or term_to_binary made"
        if text.endswith("too deeply"):
            at_most = f"terms of Erlang's that are nested deeper than {DEPTH} can't be read"
            mend = f"pass a depth that is larger, up to {DEPTH}" if depth < DEPTH else at_most
        elif text.endswith("too large"):
            mend = "pass a size that is larger"
        raise BadArg("loads/2", "data", f"{text}; {mend}") from None


def _limit(reached: Exception) -> str:
    return str(reached).removeprefix("system limit: ")
