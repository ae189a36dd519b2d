"""The product's answers as terms of the cases, and their comparison with the expected terms.

Everything is compared exactly, types too (1 is not 1.0 nor true, 0.0 not -0.0). Exceptions: values that the cases leave
open (``any``; time stamps are compared by kind), and values that this system's specification spells otherwise:

- ``undefined`` is ``None``, and so is the empty token, for which Erlang has ``[]``;
- an exception's value is ``(type name, arguments)``;
- a source file ``fx.erl`` is ``fx.py`` here, and names that are no Python names are mapped (``fixtures``);
- the figures of a garbage collection are CPython's: a list of pairs of an atom and an integer.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from typing import Any

from .errors import reason_of_type
from .fixtures import ERLANG_NAMES
from .product import Atom, Pid, Ref
from .terms import Term, is_atom, text

__all__ = ["GC_KEYS", "Names", "as_atoms", "encode", "first_difference", "message", "name_of", "same"]

GC_KEYS = (
    "bin_old_vheap_block_size",
    "bin_old_vheap_size",
    "bin_vheap_block_size",
    "bin_vheap_size",
    "heap_block_size",
    "heap_size",
    "mbuf_size",
    "old_heap_block_size",
    "old_heap_size",
    "recent_size",
    "stack_size",
    "wordsize",
)
"""What Erlang tells of a collection."""

FILE = re.compile(r"([a-z]\w*)\.erl")
LOCATION = ("call", "return_to", "return_from", "exception_from")


class Names:
    """Pids and references by the names of a case: some are given, others are numbers in the order of appearance."""

    def __init__(self) -> None:
        self.pids: dict[Any, str] = {}
        self.sessions: dict[int, str] = {}
        self._others: dict[str, list[Any]] = {"pid": [], "ref": [], "port": []}

    def pid(self, pid: Any) -> Term:
        """A pid by its role."""
        return {"pid": self.pids[pid]} if pid in self.pids else self._numbered("pid", "P", pid)

    def ref(self, ref: Any) -> Term:
        """A reference by its number."""
        return self._numbered("ref", "R", ref)

    def session(self, session: Any, kind: str) -> Term:
        """A session handle by its name in the case."""
        return {kind: self.sessions.get(session.id, f"session {session.id}")}

    def _numbered(self, kind: str, letter: str, value: Any) -> Term:
        seen = self._others[kind]
        if value not in seen:
            seen.append(value)
        return {kind: f"{letter}{seen.index(value) + 1}"}


def encode(value: Any, names: Names) -> Term:
    """A Python value as a term of the cases; ``{"s": ...}`` is a plain str, ``{"value": ...}`` one without a term."""
    for kind, to_term in ENCODERS:
        if type(value) is kind or (kind in (Atom, Pid, Ref) and isinstance(value, kind)):
            return to_term(value, names)
    return odd(value, names)


def odd(value: Any, names: Names) -> Term:
    """The term of one of the product's own classes, or of anything else."""
    kind = type(value).__name__
    match kind:
        case "Map":
            return {"m": [[encode(k, names), encode(v, names)] for k, v in value.pairs]}
        case "ImproperList":
            return {"il": [encode(v, names) for v in value.elements], "tail": encode(value.tail, names)}
        case "Prefix":
            return {"il": [encode(v, names) for v in value.elements], "tail": {"a": "_"}}
        case "BitString":
            return {"bits": base64.b64encode(value.data).decode(), "n": 8 * (len(value.data) - 1) + value.bits}
        case "Session":
            return names.session(value, "session")
        case "function":
            return {"fun": True, "arity": value.__code__.co_argcount}
    return {"value": repr(value)}


def integer(value: int) -> Term:
    """An integer as the cases write it: in digits beyond a float's precision."""
    return value if -(2**53) <= value <= 2**53 else {"i": str(value)}


ENCODERS: tuple[tuple[Any, Callable[[Any, Names], Term]], ...] = (
    (type(None), lambda v, n: {"a": "undefined"}),
    (bool, lambda v, n: {"a": "true" if v else "false"}),
    (int, lambda v, n: integer(v)),
    (float, lambda v, n: {"f": v}),
    (Atom, lambda v, n: {"a": str(v)}),
    (str, lambda v, n: {"s": v}),
    (bytes, lambda v, n: {"b": base64.b64encode(v).decode()}),
    (list, lambda v, n: [encode(e, n) for e in v]),
    (tuple, lambda v, n: renamed({"t": [encode(e, n) for e in v]})),
    (dict, lambda v, n: {"m": [[encode(k, n), encode(e, n)] for k, e in v.items()]}),
    (Pid, lambda v, n: n.pid(v)),
    (Ref, lambda v, n: n.ref(v)),
)


def renamed(term: Term) -> Term:
    """A tuple that names a function, under its Erlang name."""
    elements = term["t"]
    if len(elements) >= 3 and name_of(elements[0]) == "fx" and name_of(elements[1]) in ERLANG_NAMES:
        return {"t": [elements[0], {"a": ERLANG_NAMES[name_of(elements[1])]}, *elements[2:]]}
    return term


def name_of(term: Term) -> str:
    """The text of an atom or a plain str; empty for other terms."""
    return str(term.get("a", term.get("s", ""))) if isinstance(term, dict) else ""


def as_atoms(term: Term) -> Term:
    """A term with every plain str as an atom: a str may stand for an atom where only atoms can be."""
    if isinstance(term, list):
        return [as_atoms(t) for t in term]
    if isinstance(term, dict):
        if "s" in term:
            return {"a": term["s"]}
        return {k: as_atoms(v) if isinstance(v, list | dict) else v for k, v in term.items()}
    return term


def message(received: Any, names: Names) -> Term:
    """A message as a term. The tracer's own words in it may be plain str; the program's terms may not."""
    term = encode(received, names)
    if not isinstance(term, dict) or len(term.get("t", ())) < 3:
        return term
    elements = list(term["t"])
    elements[0] = as_atoms(elements[0])
    if name_of(elements[0]) == "seq_trace":
        if isinstance(elements[2], dict) and elements[2].get("t"):
            event = elements[2]["t"]
            elements[2] = {"t": [as_atoms(event[0]), *event[1:]]}
        return {"t": elements}
    elements[2] = as_atoms(elements[2])
    tag = name_of(elements[2])
    if tag in LOCATION and len(elements) > 3:
        elements[3] = function_name(elements[3])
    if tag in ("spawn", "spawned") and len(elements) > 4:
        elements[4] = function_name(elements[4])
    if tag == "exception_from" and len(elements) > 4 and is_pair(elements[4]):
        kind, value = elements[4]["t"]
        elements[4] = {"t": [as_atoms(kind), carried(value)]}
    if tag == "exit" and len(elements) > 3:
        elements[3] = carried(elements[3])
    if tag == "call" and len(elements) > 4:
        elements[4] = without_start(elements[4])
    if tag.startswith("gc_") and len(elements) > 3 and is_gc_info(elements[3]):
        elements[3] = {"gc": True}
    return {"t": elements}


def function_name(term: Term) -> Term:
    """A function in a message: module and name as atoms, the rest as it is."""
    if isinstance(term, dict) and len(term.get("t", ())) == 3:
        module, name, rest = term["t"]
        return {"t": [as_atoms(module), as_atoms(name), rest]}
    return term


def carried(term: Term) -> Term:
    """The Erlang term that an exception carries, where it is shown as ``(type name, arguments)``."""
    match term:
        case {"t": [{"a": name} | {"s": name}, {"t": [*arguments]} | [*arguments]]}:
            known, reason = reason_of_type(name.rpartition(".")[2], arguments)
            return reason if known else term
    return as_atoms(term) if is_normal(term) else term


def is_pair(term: Term) -> bool:
    """Whether a term is a tuple of two."""
    return isinstance(term, dict) and len(term.get("t", ())) == 2


def is_normal(term: Term) -> bool:
    """Whether this is the reason of a process that ended normally."""
    return name_of(term) == "normal"


def without_start(term: Term) -> Term:
    """A stack without the frames that start a process: nothing is below ``host:loop/4`` in Erlang."""
    if isinstance(term, list) and all(isinstance(f, dict) and len(f.get("t", ())) == 4 for f in term):
        functions = [(name_of(f["t"][0]), name_of(f["t"][1])) for f in term]
        if ("host", "loop") in functions:
            return term[: functions.index(("host", "loop")) + 1]
    return term


def is_gc_info(term: Term) -> bool:
    """Whether this is CPython's information about a collection: pairs of an atom and a number."""
    pairs = term if isinstance(term, list) else []
    return bool(pairs) and all(is_pair(p) and name_of(p["t"][0]) and isinstance(p["t"][1], int | dict) for p in pairs)


def same(expected: Term, got: Term, *, token: bool = False) -> bool:
    """Whether a term is the expected one. Where a token may stand (``token``), ``None`` is ``[]``."""
    if isinstance(expected, dict):
        match expected:
            case {"any": "int" | "line"}:
                return is_integer(got)
            case {"ts": kind}:
                return is_stamp(kind, got)
            case {"t": elements}:
                return isinstance(got, dict) and "t" in got and same_all(elements, got["t"], token=token)
            case {"m": pairs}:
                return isinstance(got, dict) and "m" in got and same_pairs(pairs, got["m"])
            case {"il": elements, "tail": tail}:
                return isinstance(got, dict) and "il" in got and same_all([*elements, tail], [*got["il"], got["tail"]])
            case {"f": number}:
                return isinstance(got, dict) and "f" in got and repr(float(number)) == repr(got["f"])
            case {"pid": "GL"}:
                return isinstance(got, dict) and (is_atom(got, "undefined") or got.get("pid", "").startswith("P"))
        return type(expected) is type(got) and bool(expected == got)
    if isinstance(expected, list):
        if got == {"gc": True}:
            return [name_of(p["t"][0]) for p in expected if isinstance(p, dict) and "t" in p] == list(GC_KEYS)
        if isinstance(got, list):
            return same_all(expected, got, token=token)
        return (token and not expected and is_atom(got, "undefined")) or is_file(expected, got)
    return type(expected) is type(got) and bool(expected == got)


def same_all(expected: list[Term], got: list[Term], *, token: bool = False) -> bool:
    """Whether lists of terms are the same, one by one."""
    return len(expected) == len(got) and all(same(e, g, token=token) for e, g in zip(expected, got, strict=True))


def same_pairs(expected: list[list[Term]], got: list[list[Term]]) -> bool:
    """Whether maps are the same, in any order."""
    left = list(got)
    for pair in expected:
        found = next((n for n, p in enumerate(left) if same_all(pair, p)), None)
        if found is None:
            return False
        del left[found]  # by its index: remove() takes 0.0 and -0.0 as equal
    return not left


def is_stamp(kind: str, got: Term) -> bool:
    """Whether a term is a time stamp of a kind."""
    parts = {"timestamp": 3, "strict_monotonic_timestamp": 2}.get(kind)
    whole = [got] if parts is None else got.get("t", []) if isinstance(got, dict) else []
    return len(whole) == (parts or 1) and all(is_integer(p) for p in whole)


def is_integer(term: Term) -> bool:
    """Whether a term is an integer."""
    return isinstance(term, int) or (isinstance(term, dict) and set(term) == {"i"})


def is_file(expected: list[Term], got: Term) -> bool:
    """Whether the string ``fx.erl`` is expected and a path to ``fx.py`` is there."""
    if not expected or not isinstance(got, dict) or not all(type(c) is int and 32 <= c < 127 for c in expected):
        return False
    erlang = FILE.fullmatch("".join(map(chr, expected)))
    return erlang is not None and os.path.basename(name_of(got)) == f"{erlang[1]}.py"


def first_difference(expected: list[Term], got: list[Term], *, token: bool = False) -> str | None:
    """The first difference of two rows of messages, in words; None if there is none."""
    for number, wanted in enumerate(expected):
        if number >= len(got):
            return f"message {number + 1} of {len(expected)} is missing: {text(wanted)}"
        if not same(wanted, got[number], token=token):
            return f"message {number + 1}: expected {text(wanted)}, got {text(got[number])}"
    if len(got) > len(expected):
        return f"{len(expected)} messages expected, then also got {text(got[len(expected)])}"
    return None
