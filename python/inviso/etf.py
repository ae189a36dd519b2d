"""Erlang's external term format: Python values as bytes that any Erlang node reads, and back (erl_ext_dist.md).

============================  =====================================================================================
Erlang                        Python
============================  =====================================================================================
integer, float                int, float; what isn't finite is written as ``nan``, ``infinity``, ``'-infinity'``
atom                          :class:`~inviso.Atom`; true, false and undefined are ``True``, ``False`` and ``None``
binary                        str if it is UTF-8, else bytes
bit string                    :class:`~inviso.BitString`
tuple, list                   tuple, list; a list with a tail that is no list is an :class:`~inviso.ImproperList`
map                           dict; a :class:`~inviso.Map` where Python takes keys for equal (1, 1.0) or can't hash one
pid, port, reference          :class:`~inviso.Pid`, :class:`~inviso.Port`, :class:`~inviso.Ref`, of any node
native record                 :class:`~inviso.Record`
``fun M:F/A``                 :class:`Fun`
a fun made at run time        :class:`LocalFun`, which goes back as it came
============================  =====================================================================================

Bytes are written as a bit string whose last byte has 8 bits: for Erlang the same binary, while here bytes that are
UTF-8 come back as bytes, not as str. What Erlang has itself written is a plain binary, and so is str. A set is
``{'$inviso.set', [Element]}``, read as a frozenset; :class:`~inviso.Opaque` and :class:`~inviso.Cut` likewise. A dict
in which a str and the same bytes are keys is no map to Erlang: it becomes a list of pairs.

Names of atoms that begin with ``$inviso.`` are this package's own. Terms can be nested :data:`DEPTH` deep.

Pids, ports and references of this node are written as Erlang does it: with the node's name (``inviso.set_node``) and
creation, without a name as of ``nonode@nohost``. Those of ``nonode@nohost`` that are read are this node's.

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
"""Terms in terms, at most."""

SIZE = 64 << 20
"""Bytes of a term, at most, unless ``loads`` is told otherwise."""


def dumps(term: Any, *, compressed: int = 0) -> bytes:
    """The bytes of a term, with the version byte 131 (erlang.md, ``term_to_binary/2``).

    Subclasses count as what they derive from (a namedtuple is a tuple), without their own code being run. Names of
    atoms are cut to 255 characters; a str with lone surrogates becomes bytes.

    Args:
        compressed: 0 for none, 1 (fast) to 9 (small) for zlib's levels. As in Erlang, what compression
            doesn't make smaller is not compressed.

    Raises:
        BadArg: something in it is no term, or it is nested deeper than :data:`DEPTH` (also if it contains itself).

    >>> dumps([1, 2.5, {"a": None}])[:8]
    b'\\x83l\\x00\\x00\\x00\\x03a\\x01'
    >>> len(dumps([0] * 1000)), len(dumps([0] * 1000, compressed=9)) < 40
    (2007, True)
    """
    if not isinstance(compressed, int) or isinstance(compressed, bool) or not 0 <= compressed <= 9:
        raise BadArg(
            "dumps/2", "compressed", f"{shown(compressed)} is no level of compression; pass an int from 0 to 9"
        )
    try:
        data = _native.etf_dumps(term)
    except TypeError as wrong:
        raise BadArg("dumps/2", "term", f"{wrong}; pass what Erlang has a type for, or its repr") from None
    except _native.LimitReached as wrong:
        raise BadArg("dumps/2", "term", f"it is {_limit(wrong)}; pass one of up to {DEPTH - 1} levels") from None
    if compressed:
        import zlib

        packed = zlib.compress(data[1:], compressed)
        if len(packed) + 6 < len(data):
            return b"\x83P" + (len(data) - 1).to_bytes(4) + packed
    return data


def loads(data: bytes | bytearray | memoryview, *, depth: int = DEPTH, size: int = SIZE) -> Any:
    """The term that bytes are (erlang.md, ``binary_to_term/1``), whatever node wrote them.

    Bytes may come from anywhere: whatever they are, the answer is a term or an error, and memory is taken in
    proportion to them (up to some sixty bytes for one). As in Erlang, bytes behind the term are nothing, and a float that
    is not finite or a map with a key twice is no term. Atoms stay for ever, as in Erlang; there is room for 1,048,576.

    Args:
        depth: terms in terms, at most; no more than :data:`DEPTH` in any case.
        size: bytes, at most; of a compressed term also when it no longer is.

    Raises:
        BadArg: they are no term, with the place; or beyond a limit.
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
            raise BadArg("loads/2", name, f"{shown(limit)} is no limit; pass an int from 1")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise BadArg("loads/2", "data", f"{type(data).__name__} is not bytes; pass what dumps or term_to_binary made")
    whole = data if isinstance(data, bytes) else bytes(data)
    try:
        return _native.etf_loads(whole, min(depth, DEPTH), min(size, 1 << 62))
    except _native.LimitReached as wrong:
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
