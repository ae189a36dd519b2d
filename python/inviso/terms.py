"""Types of terms that Python doesn't have."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, final

from . import _native

__all__ = ["Atom", "BitString", "Cut", "Fun", "ImproperList", "LocalFun", "Map", "Opaque", "Port", "Record", "Ref"]


@final
class Atom(str):
    """An atom: an interned ``str``, so a plain ``str`` compares equal to it.

    ``Atom("true")``, ``Atom("false")`` and ``Atom("undefined")`` are ``True``, ``False`` and ``None``.

    >>> Atom("call") is Atom("call"), Atom("call") == "call", Atom("true")
    (True, True, True)
    """

    __slots__ = ()
    _all: ClassVar[dict[str, Atom]] = {}

    def __new__(cls, name: str) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        atom = cls._all.get(name)
        if atom is None:
            atom = cls._all.setdefault(str(name), super().__new__(cls, name))
        return atom

    def __reduce__(self) -> tuple[type[Atom], tuple[str]]:
        return Atom, (str(self),)


_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "undefined": None}


class Ref:
    """A reference: equal only to itself, and to its copy in a message.

    >>> Ref() == Ref()
    False
    """

    __slots__ = ("_node", "_number")
    _numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        self._number = next(Ref._numbers)
        self._node: tuple[int, str, int] | None = None

    @staticmethod
    def _of(number: int, node: tuple[int, str, int] | None = None) -> Ref:
        """A reference by its number. ``node`` is for another node's: the bits above 64, its name and creation."""
        reference = Ref.__new__(Ref)
        reference._number = number
        reference._node = node
        return reference

    @property
    def node(self) -> str:
        """The name of the node that made it."""
        return _native.process.node_name() if self._node is None else self._node[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and (self._number, self._node) == (other._number, other._node)

    def __hash__(self) -> int:
        return hash(("ref", self._number, self._node))

    def __repr__(self) -> str:
        if self._node is None:
            return f"#Ref<0.{self._number}>"
        rest, _, creation = self._node
        return f"#Ref<{creation}.{rest << 64 | self._number}>"


@final
@functools.total_ordering
class Port:
    """The id of a socket, subprocess or transport. A port equals its copy in a message, and ports have an order.

    :func:`inviso.port` returns the port of an object. A port that this constructor makes belongs to no object and is
    not open.

    >>> Port(), Port().is_open()
    (#Port<0...>, False)
    """

    __slots__ = ("_number", "_origin")

    def __init__(self) -> None:
        self._number = _native.port.new_port()
        self._origin = _native.process.origin()

    @staticmethod
    def _of(number: int) -> Port:
        port = Port.__new__(Port)
        port._number = number
        port._origin = _native.process.origin()
        return port

    @property
    def name(self) -> str:
        """Its kind: ``"tcp_inet"``, ``"udp_inet"``, ``"sctp_inet"`` or ``"inet"`` for a socket, ``"spawn"`` for a
        subprocess, ``"fd"`` for a pipe; ``""`` for a closed port, and for a port of another node.
        """
        return _native.port.port_name(self._number) or "" if self.is_local() else ""

    @property
    def node(self) -> str:
        """The name of its node."""
        return _native.process.origin_is(self._origin)[1]

    def is_local(self) -> bool:
        """Whether it is a port of this node, which is this program."""
        return self._origin == _native.process.origin()

    def is_open(self) -> bool:
        """Whether it is an open port of this node."""
        return self.is_local() and _native.port.port_name(self._number) is not None

    def is_alive(self) -> bool:
        """As :meth:`is_open`; a Pid has a method with this name."""
        return self.is_open()

    def __repr__(self) -> str:
        return f"#Port<{_native.process.origin_is(self._origin)[0]}.{self._number}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Port) and (self._origin, self._number) == (other._origin, other._number)

    def __lt__(self, other: Port) -> bool:
        if not isinstance(other, Port):
            return NotImplemented
        return (self._origin, self._number) < (other._origin, other._number)

    def __hash__(self) -> int:
        return hash(("port", self._origin, self._number))

    def __reduce__(self) -> tuple[Any, tuple[int, str, int]]:
        """Unpickles as the same port in its own program, and as a port of another node in any other one."""
        _, name, creation = _native.process.origin_is(self._origin)
        return _port_of_node, (self._number, name, creation)


def _port_of_node(number: int, name: str, creation: int) -> Port:
    port = Port._of(number)
    port._origin = _native.process.origin_of(name, creation)
    return port


class Opaque:
    """Stands for an object that was not copied into a message: the name of its type, and its ``id`` at that moment.

    >>> Opaque("app.Order", 4711)
    <app.Order at 0x1267>
    """

    __match_args__ = ("type", "id", "text")
    __slots__ = ("id", "text", "type")

    def __init__(self, type: str, id: int, text: str | None = None) -> None:
        self.type = type
        self.id = id
        self.text = text

    def __repr__(self) -> str:
        return f"<{self.type} at {self.id:#x}>" if self.text is None else f"<{self.type} {self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and (self.type, self.id) == (other.type, other.id)

    def __hash__(self) -> int:
        return hash((self.type, self.id))


class Cut:
    """Marks a place where a capture limit cut a value; ``what`` names the limit: ``depth``, ``items``, ``bytes`` ….

    >>> Cut("items")
    <cut: items>
    """

    __match_args__ = ("what",)
    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<cut: {self.what}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cut) and self.what == other.what

    def __hash__(self) -> int:
        return hash(("cut", self.what))


class Map:
    """A map as pairs, for keys that are equal in a ``dict`` (1, 1.0 and True).

    >>> Map([(1, "int"), (1.0, "float")])
    Map([(1, 'int'), (1.0, 'float')])
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self.pairs = list(pairs)

    def __repr__(self) -> str:
        return f"Map({self.pairs!r})"

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self.pairs == other.pairs

    __hash__ = None  # type: ignore[assignment]


class BitString:
    """A bit string whose last byte has only ``bits`` (1 to 7) bits, the high ones; the other bits are 0.

    >>> BitString(b"\\xbf", 3)
    BitString(b'\\xa0', 3)
    """

    __slots__ = ("bits", "data")

    def __init__(self, data: bytes, bits: int) -> None:
        if isinstance(data, bytes) and data and isinstance(bits, int) and 0 < bits < 8:
            # clear the bits that are not part of it
            data = data[:-1] + bytes([data[-1] & 0xFF00 >> bits])
        self.data = data
        self.bits = bits

    def __repr__(self) -> str:
        return f"BitString({self.data!r}, {self.bits})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BitString) and (self.data, self.bits) == (other.data, other.bits)

    def __hash__(self) -> int:
        return hash((self.data, self.bits))


class ImproperList:
    """A list whose tail is not a list: ``[a, b | tail]``.

    >>> ImproperList([1], 2)
    ImproperList([1], 2)
    """

    __slots__ = ("elements", "tail")

    def __init__(self, elements: Iterable[Any], tail: Any) -> None:
        self.elements = list(elements)
        self.tail = tail

    def __repr__(self) -> str:
        return f"ImproperList({self.elements!r}, {self.tail!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImproperList) and (self.elements, self.tail) == (other.elements, other.tail)

    __hash__ = None  # type: ignore[assignment]


class Record:
    """A native record of Erlang (since OTP 29): named values in the order of their definition.

    ``exported`` is True if other modules may read its fields.

    >>> Record("shop", "item", {"name": "tea", "price": 3})
    #shop:item{name = 'tea', price = 3}
    """

    __match_args__ = ("module", "name", "fields")
    __slots__ = ("exported", "fields", "module", "name")

    def __init__(self, module: str, name: str, fields: dict[str, Any], exported: bool = False) -> None:
        self.module = module
        self.name = name
        self.fields = fields
        self.exported = exported

    def _key(self) -> tuple[Any, ...]:
        return self.module, self.name, self.exported, tuple(self.fields.items())

    def __repr__(self) -> str:
        fields = ", ".join(f"{_named(name)} = {value!r}" for name, value in self.fields.items())
        return f"#{_named(self.module)}:{_named(self.name)}{{{fields}}}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _named(name: str) -> str:
    return name if name.isprintable() else repr(name)


class Fun:
    """A function by its name: an external fun of Erlang, ``fun Module:Name/Arity`` (erlang.md, ``fun_info/2``).

    >>> Fun("lists", "map", 2)
    fun lists:map/2
    """

    __match_args__ = ("module", "name", "arity")
    __slots__ = ("arity", "module", "name")

    def __init__(self, module: str, name: str, arity: int) -> None:
        self.module = module
        self.name = name
        self.arity = arity

    def __repr__(self) -> str:
        return f"fun {self.module}:{self.name}/{self.arity}"

    def __eq__(self, other: object) -> bool:
        same = (other.module, other.name, other.arity) if isinstance(other, Fun) else None
        return (self.module, self.name, self.arity) == same

    def __hash__(self) -> int:
        return hash(("fun", self.module, self.name, self.arity))


@final
class LocalFun:
    """A function that an Erlang node made at run time. It can't be called here; it goes back to Erlang unchanged.

    ``arity`` is None for a fun of a very old node, which doesn't send it. ``index`` and ``unique`` are the numbers in
    Erlang's ``#Fun<module.index.unique>``.

    >>> LocalFun()
    Traceback (most recent call last):
    ...
    TypeError: a LocalFun comes from an Erlang node only
    """

    __slots__ = ("_encoded", "arity", "index", "module", "unique")
    module: str
    arity: int | None
    index: int
    unique: int
    _encoded: bytes

    def __init__(self) -> None:
        raise TypeError("a LocalFun comes from an Erlang node only")

    @staticmethod
    def _of(module: str, arity: int | None, index: int, unique: int, encoded: bytes) -> LocalFun:
        fun = LocalFun.__new__(LocalFun)
        fun.module, fun.arity, fun.index, fun.unique, fun._encoded = module, arity, index, unique, encoded
        return fun

    def __repr__(self) -> str:
        return f"#Fun<{self.module}.{self.index}.{self.unique}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFun) and self._encoded == other._encoded

    def __hash__(self) -> int:
        return hash(self._encoded)
