"""Match specifications over hostile objects: none of the program's code runs, and nothing leaks."""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import inviso
import pytest
from inviso import Opaque, match_spec_test, trace
from trace_tools import good, local, mfa, own

RAN: list[str] = []

DUNDERS = """
abs add aiter and anext await bool buffer bytes call ceil complex contains delattr delete delitem dir div divmod
enter eq exit float floor floordiv format ge get getattr getattribute getitem getstate gt hash iadd index int
invert iter le len length_hint lt matmul missing mod mul ne neg next or pos pow radd rand reduce reduce_ex repr
reversed ror round rxor set setattr setitem sizeof str sub truediv trunc xor
""".split()  # noqa: SIM905


def records(name: str) -> Callable[..., Any]:
    def dunder(*arguments: Any, **named: Any) -> Any:
        RAN.append(name)
        raise RuntimeError(name)

    return dunder


def hostile_space() -> dict[str, Any]:
    space = {f"__{name}__": records(f"__{name}__") for name in DUNDERS}
    for name in ("__class__", "owner", "args", "elements"):
        space[name] = property(records(name))
    return space


Meta = type("Meta", (type,), {f"__{name}__": records(f"meta __{name}__") for name in DUNDERS if name != "set"} | {
    "__instancecheck__": records("__instancecheck__"), "__subclasscheck__": records("__subclasscheck__"),
    "__subclasses__": records("__subclasses__"), "mro": type.mro,
})  # fmt: skip


def hostile(base: type, *value: Any) -> Any:
    """An instance of a class that derives from ``base`` and overrides everything."""
    of_type = type(base)
    meta = Meta if of_type is type else of_type
    cls = type.__new__(meta, f"Hostile_{base.__name__}", (base,), hostile_space())
    made = base.__new__(cls, *value)
    if base in (list, dict, set):
        base.__init__(made, *value)
    return made


class Key:
    """A key whose hash and equality work until it is armed."""

    armed = False

    def __hash__(self) -> int:
        return records("hash")() if Key.armed else 1  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return records("eq")() if Key.armed else self is other  # type: ignore[no-any-return]


class TextKey(Key, str):
    __slots__ = ()


def with_dict() -> Any:
    made = hostile(object)
    object.__getattribute__(made, "__dict__").update({TextKey("owner"): 1, Key(): 2, "owner": 3})
    Key.armed = True
    return made


def with_keys() -> Any:
    made = {Key(): 1, TextKey("owner"): 2, Key(): 3, 1: 4}
    Key.armed = True
    return made


class Slotted:
    __slots__ = ("owner", "unset")


def slotted() -> Any:
    space = {name: value for name, value in hostile_space().items() if name != "owner"}
    cls = type.__new__(Meta, "HostileSlots", (Slotted,), {**space, "__slots__": ()})
    made = object.__new__(cls)
    Slotted.owner.__set__(made, 1)  # type: ignore[attr-defined]
    return made


def hostile_error() -> Any:
    # of a plain metaclass: the interpreter itself asks that about subclasses
    return ValueError.__new__(type("HostileError", (ValueError,), hostile_space()), "x")


VALUES: dict[str, Callable[[], Any]] = {
    "object": lambda: hostile(object),
    "int": lambda: hostile(int, 5),
    "big int": lambda: hostile(int, 1 << 100),
    "float": lambda: hostile(float, 1.5),
    "str": lambda: hostile(str, "text"),
    "str of others": lambda: hostile(str, "t\u20ac\U0001f600"),
    "bytes": lambda: hostile(bytes, b"text"),
    "tuple": lambda: hostile(tuple, (1, hostile(int, 2))),
    "list": lambda: hostile(list, [1, hostile(list, [])]),
    "dict": lambda: hostile(dict, {1: hostile(dict, {}), "owner": 2}),
    "set": lambda: hostile(set, {1, 2}),
    "frozenset": lambda: hostile(frozenset, {1, 2}),
    "error": hostile_error,
    "class": lambda: type.__new__(Meta, "HostileClass", (), hostile_space()),
    "with a dict": with_dict,
    "with slots": slotted,
    "with keys": with_keys,
    "in a list": lambda: [hostile(object), {"owner": hostile(object)}, (hostile(str, "x"),)],
}


UNARY = """
is_atom is_boolean is_float is_integer is_list is_number is_pid is_port is_reference is_tuple is_map is_binary
is_bitstring is_function + - bnot abs round trunc floor ceil float not hd tl length size byte_size bit_size
tuple_size map_size node
""".split()  # noqa: SIM905
BINARY = """
< =< > >= == /= =:= =/= + - * / div rem band bor bxor bsl bsr min max xor map_get is_map_key element
""".split()  # noqa: SIM905
OTHERS: list[Any] = [1, 1.5, "text", b"text", ("const", None), (((1, 2),)), [1], {1: 2}, "$1", ("self",)]


def expressions() -> list[Any]:
    found: list[Any] = [(op, "$1") for op in UNARY]
    for op in BINARY:
        found += [(op, "$1", other) for other in OTHERS] + [(op, other, "$1") for other in OTHERS]
    found += [("is_function", "$1", 1), ("is_integer", "$1", 0, 9), ("is_record", "$1", ("const", "x"), 2)]
    found += [("binary_part", "$1", 0, 1), ("andalso", "$1", True), ("orelse", "$1", True), ("and", "$1", True)]
    found += [("attr", "$1", "owner"), ("attr", "$1", "unset"), ("attr", "$1", "__class__"), ("attr", "$1", "args")]
    found += [("is_instance", "$1", f"builtins.{n}") for n in ("int", "object", "dict")] + [
        ("arg", "value"),
        "$_",
        "$$",
    ]
    return found


HEADS: list[Any] = [
    "_",
    "$1",
    ["_"],
    ["$1"],
    [1],
    ["text"],
    [(1, "_")],
    [["$1", "_"]],
    [{1: "$1"}],
    [{"owner": "$1"}],
    [["_"]],
]


def same(value: Any) -> Any:
    return value


def raises(value: Any) -> Any:
    raise value


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    RAN.clear()
    yield
    Key.armed = False
    assert RAN == []


@pytest.fixture(params=VALUES)
def value(request: pytest.FixtureRequest) -> list[Any]:
    # in a box: a fixture's value is compared and shown by others
    return [VALUES[request.param]()]


def run(session: trace.Session, spec: list[Any], box: list[Any]) -> int:
    """The number of messages of a call."""
    session.function(mfa(same), spec, ["local", "meta"])
    own(session, ["call"])
    same(*box)
    ran = list(RAN)
    messages = session.drain()
    assert ran == []
    return len(messages)


def test_heads_run_nothing(session: trace.Session, value: list[Any]) -> None:
    for head in HEADS:
        run(session, [(head, [], [])], value)
    run(session, [(head, [False], []) for head in HEADS], value)


def test_guards_run_nothing(session: trace.Session, value: list[Any]) -> None:
    clauses = [(["$1"], [("=:=", ("const", "never"), expression)], []) for expression in expressions()]
    assert run(session, clauses, value) == 0


def test_bodies_run_nothing(session: trace.Session, value: list[Any]) -> None:
    body = [("message", expression) for expression in expressions()]
    for n in range(0, len(body), 20):
        assert run(session, [(["$1"], [], [*body[n : n + 20], ("message", ["$1", "$_"])])], value) == 2


def test_captures_and_results_run_nothing(make: Callable[..., trace.Session], value: list[Any]) -> None:
    for options in (
        {},
        {"capture": "ref"},
        {"capture": {"depth": 2, "items": 1, "bytes": 3}},
        {"capture": {"total": 64}},
    ):
        session = make(**options)
        assert run(session, [(["$1"], [], [("return_trace",), ("message", ["$1", "$_"])])], value) == 4
        session.destroy()


def test_a_subclass_counts_as_its_base(session: trace.Session) -> None:
    tests = {"int": "is_integer", "float": "is_float", "str": "is_binary", "bytes": "is_binary", "tuple": "is_tuple",
             "list": "is_list", "dict": "is_map"}  # fmt: skip
    for name, test in tests.items():
        assert run(session, [(["$1"], [(test, "$1")], [])], [VALUES[name]()]) == 2
    for guard in (("==", "$1", 5), ("is_instance", "$1", "builtins.int"), ("=:=", ("+", "$1", 1), 6)):
        assert run(session, [(["$1"], [guard], [])], [hostile(int, 5)]) == 2
    assert run(session, [([{"owner": 2}], [], [])], [VALUES["dict"]()]) == 2
    assert run(session, [(["text"], [], [])], [hostile(str, "text")]) == 2


def test_attributes_come_out_of_dicts_and_slots(session: trace.Session) -> None:
    for make, found in ((slotted, 1), (with_dict, 3)):
        made = make()
        assert run(session, [(["$1"], [("=:=", ("attr", "$1", "owner"), found)], [])], [made]) == 2
        assert run(session, [(["$1"], [("=:=", ("attr", "$1", "unset"), 1)], [])], [made]) == 0
        assert run(session, [(["$1"], [("=:=", ("attr", "$1", "__class__"), 1)], [])], [made]) == 0


def test_hostile_exceptions(session: trace.Session) -> None:
    session.function(mfa(raises), [("_", [], [("exception_trace",), ("message", "$_")])], ["local", "meta"])
    own(session)
    error = hostile_error()
    with contextlib.suppress(ValueError):
        raises(error)
    ran = list(RAN)
    messages = session.drain()
    assert ran == []
    assert [m[2] for m in messages].count("exception_from") == 2
    assert next(m for m in messages if m[2] == "exception_from")[4][1][1] == ("x",)


def test_a_spec_test_runs_nothing_either(value: list[Any]) -> None:
    for expression in expressions():
        match_spec_test(value, [(["$1"], [], [("message", expression)])])
    match_spec_test(value[0], [("$1", [], ["$1"])], "table")
    assert RAN == []


# lifetimes of arguments


def test_arguments_die_when_the_program_lets_go(session: trace.Session) -> None:
    log: list[str] = []

    class Dying:
        def __del__(self) -> None:
            log.append("dead")

    def takes(value: Any) -> None:
        log.append("entered")
        watch.append(weakref.ref(value, lambda _: log.append("watched")))
        del value
        log.append("over")

    watch: list[Any] = []
    session.function(mfa(takes), [("_", [], [("message", "$_"), ("return_trace",)])], ["local", "meta"])
    own(session)
    takes(Dying())
    log.append("returned")
    assert [entry for entry in log if entry != "watched"] in (
        ["entered", "over", "dead", "returned"], ["entered", "dead", "over", "returned"]
    )  # fmt: skip
    assert log.count("watched") == 1
    assert len(session.drain()) == 4


def test_reference_counts_stay(session: trace.Session) -> None:
    values: list[Any] = [
        object(),
        [object()],
        {"k": object()},
        (1, object()),
        "text" * 9,
        b"b" * 40,
        1 << 80,
        1.25,
        {object()},
    ]
    parts = [*values, values[1][0], values[2]["k"], values[3][1]]
    spec = [
        ([["$1"]], [("==", "$1", 5)], []), ([{"k": "$1"}], [("is_integer", ("attr", "$1", "x"))], []),
        (["$1"], [("<", 0, "$1")], [("message", ["$1", "$_", ("caller",)]), ("return_trace",)]), ("_", [], []),
    ]  # fmt: skip
    session.function(mfa(same), spec, ["local", "meta"])
    own(session)
    same(1)
    session.drain()
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(1000):
        collections.deque(map(same, values), maxlen=0)
    session.drain()
    assert [sys.getrefcount(part) for part in parts] == before


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def growth(step: Callable[[], object]) -> int:
    """Memory blocks that ten more steps leak, at best of three."""
    least = 1 << 60
    for _ in range(3):
        step()
        before = blocks()
        for _ in range(10):
            step()
        least = min(least, blocks() - before)
    return least


SPECS: dict[str, list[Any]] = {
    "head": [([5], [], [])],
    "guard": [(["$1"], [("andalso", ("is_tuple", "$1"), ("<", ("element", 1, "$1"), 0))], [])],
    "map": [([{"k": "$1"}], [("==", "$1", 2)], [])],
    "attr": [(["$1"], [("==", ("attr", "$1", "owner"), "bob")], [])],
    "instance": [(["$1"], [("is_instance", "$1", "nowhere.Nothing")], [])],
    "name": [("_", [("==", ("arg", "value"), 77)], [])],
    "big": [(["$1"], [("<", "$1", -(1 << 90))], [])],
    "many": [([n], [], []) for n in range(10, 40)],
}


def subjects() -> list[Any]:
    owner = Slotted()
    owner.owner = "ann"  # type: ignore[attr-defined]
    return [(1, 2), {"k": 1}, owner, 1 << 100, "t" * 100, 1.5, [1, [2, [3]]], None]


def drained(session: trace.Session, values: list[Any]) -> None:
    for value in values:
        collections.deque(map(same, [value] * 125), maxlen=0)
        assert len(session.drain()) == 250


@pytest.mark.parametrize("name", SPECS)
def test_rejected_calls_leave_nothing(session: trace.Session, name: str) -> None:
    values = subjects() * 1250
    session.function(mfa(same), SPECS[name], ["local"])
    own(session)
    assert growth(lambda: collections.deque(map(same, values), maxlen=0)) <= 20
    assert session.drain() == []


def test_accepted_calls_leave_nothing(session: trace.Session) -> None:
    spec = [(["$1"], [], [("return_trace",), ("message", ["$1", ("caller",), ("attr", "$1", "owner")])])]
    session.function(mfa(same), spec, ["local"])
    own(session)
    values = subjects()
    # 11000 calls a time
    assert growth(lambda: drained(session, values)) <= 50


def peak(calls: Iterator[Any]) -> int:
    """The largest growth of allocated memory during these calls."""
    tracemalloc.reset_peak()
    now, _ = tracemalloc.get_traced_memory()
    collections.deque(calls, maxlen=0)
    return tracemalloc.get_traced_memory()[1] - now


# attr makes a text to look a slot up, and drops it
@pytest.mark.parametrize("name", [name for name in SPECS if name != "attr"])
def test_a_rejected_call_allocates_nothing(session: trace.Session, name: str) -> None:
    values = subjects()
    tracemalloc.start()
    try:
        peak(map(same, values))
        plain = min(peak(map(same, values)) for _ in range(3))
        session.function(mfa(same), SPECS[name], ["local"])
        own(session)
        peak(map(same, values))
        traced = min(peak(map(same, values)) for _ in range(3))
    finally:
        tracemalloc.stop()
    assert session.drain() == []
    assert traced <= plain


# values that never end


def self_containing() -> list[Any]:
    a: list[Any] = []
    a.append(a)
    b: dict[Any, Any] = {}
    b["k"] = b
    c: list[Any] = [1]
    d = (c, 2)
    c.append(d)
    e: list[Any] = []
    e += [e] * 50
    return [a, b, c, d, e, [a, b, c, d, e]]


def shared(depth: int) -> Any:
    value: Any = [1]
    for _ in range(depth):
        value = [value, value]
    return value


def deep(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def endless() -> list[Any]:
    wraps: list[Callable[[Any], Any]] = [lambda v: [v], lambda v: (v,), lambda v: {1: v}, lambda v: {"k": [v]}]
    return [
        *self_containing(),
        shared(60),
        *(deep(50_000, wrap) for wrap in wraps),
        list(range(1 << 18)),
        "x" * (1 << 22),
    ]


def pair(left: Any, right: Any) -> Any:
    return right


def test_endless_arguments_come_to_an_end(session: trace.Session) -> None:
    ops = ["==", "max", "map_get"]
    specs: list[Any] = [
        [(["$1", "$1"], [], [])],
        [(["$1", "$2"], [], [("message", [(op, "$1", "$2") for op in ops]), ("return_trace",)])],
        [(["$1", "$2"], [("==", "$1", "$2")], []), (["$1", "$2"], [("<", ["$1"], ["$2"])], []), ("_", [], [])],
    ]
    own(session)
    began = time.monotonic()
    for spec in specs:
        session.function(mfa(pair), spec, ["local"])
        for left, right in zip(endless(), endless(), strict=True):
            pair(left, right)
        session.drain()
    assert time.monotonic() - began < 30


def test_patterns_of_some_depth_fit_themselves(session: trace.Session) -> None:
    value = deep(100, lambda v: [v])
    session.function(mfa(same), [([value], [], [])], ["local"])
    own(session)
    same(value), same(deep(100, lambda v: [v])), same(deep(99, lambda v: [v]))
    assert len(session.drain()) == 2


def test_the_c_stack_of_a_small_thread_is_enough() -> None:
    out = good(
        """
import threading
import inviso
from inviso import trace
def pair(a, b): return a
def deep(v=1):
    for _ in range(1000): v = [v]
    return v
s = trace.session_create("t")
spec = [(["$1", "$1"], [], []), (["$1", "$2"], [], [("message", ("max", "$1", "$2")), ("return_trace",)])]
s.function(("__main__", "pair", 2), spec, ["local"])
s.process("all", True, ["call"])
threading.stack_size(512 * 1024)
t = threading.Thread(target=pair, args=(deep(), deep()))
t.start(); t.join()
print(len(s.drain()))
"""
    )
    assert out == "2\n"


def test_objects_are_told_by_class_and_number(session: trace.Session) -> None:
    made = hostile(object)
    session.function(mfa(same), [(["$1"], [], [("message", "$1")])], ["local"])
    own(session)
    same(made)
    assert session.drain()[0][4] == Opaque(f"{__name__}.Hostile_object", id(made))


def test_calls_out_of_destructors_are_matched_too(session: trace.Session) -> None:
    class Dying:
        def __del__(self) -> None:
            same("dead")

    session.function(mfa(same), [(["dead"], [], [("message", ("caller",))])], ["local"])
    own(session)
    Dying()
    assert [m[4][1].rsplit(".", 1)[-1] for m in session.drain()] == ["__del__"]
    local(session, same)
    assert inviso.self().is_alive()
