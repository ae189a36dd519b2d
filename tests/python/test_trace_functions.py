"""The functions that a pattern matches, their names, and exact counts of their calls."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import importlib
import json
import math
import sys
import types
from typing import Any

import inviso
import pytest
from inviso import trace
from subjects import shapes
from trace_tools import count, good, local, mfa, names, own, short

SHAPES = "subjects.shapes"
NEW_WAY = sys.version_info >= (3, 12)


def counted(session: trace.Session, name: str, *, of: int = 1, module: str = SHAPES) -> None:
    assert session.function((module, name, "_"), True, ["call_count"]) == of


def value(session: trace.Session, name: str, arity: int, module: str = SHAPES) -> Any:
    return count(session, (module, name, arity))


CALLS: list[tuple[str, int, Any, int]] = [
    ("plain", 1, lambda: shapes.plain(1), 1),
    ("_hidden", 1, lambda: shapes._hidden(1), 1),
    ("many", 7, lambda: shapes.many(1, d=4), 1),
    ("nothing", 0, shapes.nothing, 1),
    ("outer.<locals>.inner", 1, lambda: [shapes.outer(n)(1) for n in range(4)], 4),
    ("Shape.__init__", 2, shapes.Shape, 1),
    ("Shape.__init__", 2, shapes.Child, 1),
    ("Shape.__call__", 2, lambda: shapes.Shape()(1), 1),
    ("Shape.__getitem__", 2, lambda: shapes.Shape()[0], 1),
    ("Shape.__len__", 1, lambda: len(shapes.Shape()), 1),
    ("Shape.__eq__", 2, lambda: shapes.Shape() == 1, 1),
    ("Shape.method", 2, lambda: shapes.Shape().method(1), 1),
    ("Shape.method", 2, lambda: shapes.Child().method(1), 1),
    ("Child.method", 2, lambda: shapes.Child().method(1), 1),
    ("Shape.made", 2, lambda: (shapes.Shape.made(1), shapes.Child().made(1)), 2),
    ("Shape.still", 1, lambda: (shapes.Shape.still(1), shapes.Shape().still(1)), 2),
    ("Shape.kept", 1, lambda: (s := shapes.Shape()).kept + s.kept, 1),
    ("Shape.Inner.deep", 1, lambda: shapes.Shape.Inner().deep(), 1),
    ("Meta.__call__", 3, shapes.Metaed, 1),
    ("Base.act", 1, lambda: shapes.Real().act(), 1),
    ("Slotted.set", 2, lambda: shapes.Slotted().set(1), 1),
    ("Point.__init__", 3, lambda: shapes.Point(1), 1),
    ("Point.__eq__", 2, lambda: shapes.Point(1) == shapes.Point(2), 1),
    ("Point.__post_init__", 1, lambda: shapes.Point(1), 1),
    ("cached", 1, lambda: (shapes.cached.cache_clear(), shapes.cached(1), shapes.cached(1)), 1),
    ("plain", 1, lambda: shapes.partial(), 1),
    ("plain", 1, lambda: list(map(shapes.plain, range(5))), 5),
    ("plain", 1, lambda: sorted(range(6), key=shapes.plain), 6),
    ("recursive", 1, lambda: shapes.recursive(99), 100),
    ("fail", 1, lambda: shapes.catches(3), 4),
    ("catches", 1, lambda: shapes.catches(3), 1),
    ("numbers", 1, lambda: list(shapes.numbers(5)), 1),
    ("delegating", 1, lambda: list(shapes.delegating(5)), 1),
    ("numbers", 1, lambda: list(shapes.delegating(5)), 1),
    ("lazily.<locals>.<genexpr>", 1, lambda: shapes.lazily(5), 1),
    ("coroutine", 1, lambda: asyncio.run(shapes.coroutine(1)), 1),
]


@pytest.mark.parametrize(("name", "arity", "act", "calls"), CALLS, ids=[f"{c[0]}-{i}" for i, c in enumerate(CALLS)])
def test_calls_of_every_shape_are_counted(session: trace.Session, name: str, arity: int, act: Any, calls: int) -> None:
    counted(session, name)
    assert value(session, name, arity) == 0
    act()
    assert value(session, name, arity) == calls


@pytest.mark.parametrize(("name", "arity", "act", "calls"), CALLS, ids=[f"{c[0]}-{i}" for i, c in enumerate(CALLS)])
def test_calls_of_every_shape_send_messages(
    session: trace.Session, name: str, arity: int, act: Any, calls: int
) -> None:
    assert session.function((SHAPES, name, arity), [], ["local"]) == 1
    session.process("all", True, ["call", "arity"])
    act()
    sent = session.drain()
    assert [m[2:] for m in sent] == [("call", (SHAPES, name, arity))] * calls


def test_arguments_are_in_the_order_of_the_signature(session: trace.Session) -> None:
    local(session, shapes.many)
    own(session)
    shapes.many(1, d=4)
    shapes.many(1, 2, 3, 4, 5, d=6, e=7, f=8)
    assert short(session.drain()) == [
        ("call", ("many", [1, 2, 3, (), 4, 5, {}])),
        ("call", ("many", [1, 2, 3, (4, 5), 6, 7, {"f": 8}])),
    ]


def test_captured_arguments_are_values_not_cells(session: trace.Session) -> None:
    def capture(a: int, *b: int, c: int = 3, **d: int) -> Any:
        return lambda: (a, b, c, d)

    local(session, capture)
    own(session)
    capture(1, 2, c=4, e=5)()
    capture(types.CellType(1))  # type: ignore[arg-type]
    calls = short(session.drain())
    assert calls[0] == ("call", ("capture", [1, (2,), 4, {"e": 5}]))
    assert calls[1][1][1][0].type in ("cell", "builtins.cell")


def test_several_functions_of_one_name_are_taken_together(session: trace.Session) -> None:
    counted(session, "<lambda>", of=3)
    assert session.function((SHAPES, "again", 1), True, ["call_count"]) == 2
    counted(session, "Shape.area", of=2)
    for add in shapes.adders:
        add(1)
    shapes.pair(1, 2)
    shapes.again(1)
    shapes.first_again(1)
    shape = shapes.Shape()
    shape.area = shape.area + shape.area
    assert value(session, "again", 1) == 2
    assert value(session, "Shape.area", 1) == 2
    assert value(session, "Shape.area", 2) == 1


def test_lambdas_of_one_arity(session: trace.Session) -> None:
    assert session.function((SHAPES, "<lambda>", 1), True, ["call_count"]) == 2
    assert session.function((SHAPES, "<lambda>", 2), True, ["call_count"]) == 1
    for add in shapes.adders:
        add(1)
    shapes.pair(1, 2)
    assert value(session, "<lambda>", 1) == 2
    assert value(session, "<lambda>", 2) == 1


def test_a_function_that_wraps_goes_by_its_own_code_or_the_name_that_it_was_given(session: trace.Session) -> None:
    counted(session, "wrapped")
    shapes.wrapped(1)
    assert value(session, "wrapped", 1) == 1
    assert session.function((SHAPES, "decorator.<locals>.wrapper", "_"), True, ["call_count"]) >= 1
    shapes.wrapped(1)
    assert value(session, "decorator.<locals>.wrapper", 2) == 1


def test_what_does_not_exist_matches_nothing(session: trace.Session) -> None:
    for pattern in (
        (SHAPES, "no", "_"), (SHAPES, "plain", 2), ("no.such.module", "_", "_"), ("no", "f", 1),
        (SHAPES, "plain", 10**9),
    ):  # fmt: skip
        assert session.function(pattern, True, ["local"]) == 0, pattern
        assert session.function(pattern, False, ["local"]) == 0, pattern
    assert session.info((SHAPES, "no", 0), "traced") == ("traced", None)


def test_module_wildcard_takes_all_functions_of_a_module(session: trace.Session) -> None:
    taken = session.function((SHAPES, "_", "_"), True, ["call_count"])
    assert taken >= 50
    shapes.plain(1)
    shapes.Shape().method(1)
    shapes.outer(1)(1)
    shapes.lazily(3)
    for name, arity in (
        ("plain", 1), ("Shape.__init__", 2), ("Shape.method", 2), ("outer", 1), ("outer.<locals>.inner", 1),
        ("lazily.<locals>.<genexpr>", 1),
    ):  # fmt: skip
        assert value(session, name, arity) == 1, name
    assert session.function((SHAPES, "_", "_"), False, ["call_count"]) == taken
    shapes.plain(1)
    assert value(session, "plain", 1) is False


def test_wildcard_of_everything_counts_what_is_called(session: trace.Session) -> None:
    everything = session.function(("_", "_", "_"), True, ["call_count"])
    assert everything > 1000
    assert json.loads("[1, [2]]") == [1, [2]]
    shapes.plain(1)
    session.function(("_", "_", "_"), "pause", ["call_count"])
    shapes.plain(1)
    assert value(session, "plain", 1) == 1
    assert count(session, json.loads) == 1
    assert count(session, json.JSONDecoder.decode) == 1


def test_wildcard_leaves_this_package_alone(session: trace.Session) -> None:
    session.function(("_", "_", "_"), True, ["local"])
    own(session, ["call", "arity"])
    inviso.self()
    session.info("session", "dropped")
    session.process(inviso.self(), False, ["call"])
    assert not [m for m in session.drain() if m[3][0].partition(".")[0] == "inviso"]


def test_global_calls_come_from_another_module(session: trace.Session) -> None:
    source = "def entry(x):\n    return helper(x)\ndef helper(x):\n    return x\ndef _own(x):\n    return x\n"
    module = types.ModuleType("a_global_one")
    exec(source, module.__dict__)
    assert session.function(("a_global_one", "_", "_"), True, []) == 3 - 1
    assert session.info(("a_global_one", "entry", 1), "traced") == ("traced", "global")
    own(session)
    module.entry(1)
    module.helper(2)
    module._own(3)
    assert short(session.drain()) == [("call", ("entry", [1])), ("call", ("helper", [2]))]


def test_all_says_what_is_exported(session: trace.Session) -> None:
    assert shapes.__all__ == ["Shape", "plain"]
    for name, exported in (
        ("plain", True), ("Shape.method", True), ("Shape._private", False), ("many", False),
        ("_hidden", False), ("outer.<locals>.inner", False), ("Shape.Inner.deep", True),
    ):  # fmt: skip
        assert session.function((SHAPES, name, "_"), True, ["global"]) == (1 if exported else 0), name
    own(session)
    list(map(shapes.plain, [1]))
    shapes.partial()
    shapes.Child().method(1)
    assert names(session.drain()) == ["call plain", "call plain"]


def test_module_and_class_bodies_are_in_wildcards_only(tmp_path: Any, session: trace.Session, monkeypatch: Any) -> None:
    (tmp_path / "bodies_of_mine.py").write_text("class A:\n    class B:\n        x = 1\ndef f(): return A\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    session.function("on_load", True, ["local"])
    own(session, ["call", "arity"])
    module = importlib.import_module("bodies_of_mine")
    module.f()
    sent = [m[3] for m in session.drain() if m[3][0] == "bodies_of_mine"]
    assert ("bodies_of_mine", "f", 0) in sent
    assert session.function(("bodies_of_mine", "<module>", 0), True, ["local"]) == 0


def test_on_load_takes_what_comes_later_once(tmp_path: Any, session: trace.Session, monkeypatch: Any) -> None:
    (tmp_path / "later_module.py").write_text(
        "def f(x):\n    return x\nclass C:\n    def m(self):\n        return lambda: 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert session.function("on_load", True, ["call_count"]) == 0
    assert session.info("on_load", "call_count") == ("call_count", True)
    later = importlib.import_module("later_module")
    later.f(1)
    later.C().m()()
    assert value(session, "f", 1, "later_module") == 1
    assert value(session, "C.m", 1, "later_module") == 1
    assert value(session, "C.m.<locals>.<lambda>", 0, "later_module") == 1
    assert value(session, "plain", 1) is False
    session.function(("later_module", "f", 1), False, ["call_count"])
    later.f(1)
    assert value(session, "f", 1, "later_module") is False
    session.function("on_load", False, ["call_count"])
    assert session.info("on_load", "call_count") == ("call_count", False)
    space: dict[str, Any] = {"__name__": "later_still"}
    exec("def g(): pass", space)
    space["g"]()
    assert value(session, "g", 0, "later_still") is False


def test_on_load_takes_the_first_call_of_execd_code(session: trace.Session) -> None:
    session.function("on_load", True, ["call_count"])
    space: dict[str, Any] = {"__name__": "execd_one"}
    exec("def f(): return [g() for _ in range(3)]\ndef g(): return (lambda: 2)()\nf()", space)
    assert value(session, "f", 0, "execd_one") == 1
    assert value(session, "g", 0, "execd_one") == 3
    assert value(session, "g.<locals>.<lambda>", 0, "execd_one") == 3


def test_reloaded_functions_are_new_ones(tmp_path: Any, session: trace.Session, monkeypatch: Any) -> None:
    (tmp_path / "reloaded_one.py").write_text("def f(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("reloaded_one")
    counted(session, "f", module="reloaded_one")
    session.function("on_load", True, ["call_count"])
    module.f()
    importlib.reload(module)
    module.f()
    assert value(session, "f", 0, "reloaded_one") == 2


def test_code_that_is_exchanged(session: trace.Session) -> None:
    def changing() -> int:
        return 1

    def other() -> int:
        return 2

    session.function(mfa(changing), True, ["call_count"])
    assert changing() == 1
    changing.__code__ = other.__code__
    assert changing() == 2
    assert session.function(mfa(changing), True, ["call_count"]) >= 1
    assert changing() == 2
    assert count(session, changing) == 1


def test_one_code_in_two_modules_is_told_apart_by_globals(session: trace.Session) -> None:
    here = types.FunctionType(shapes.plain.__code__, {"__name__": "another_module"}, "plain")
    local(session, shapes.plain)
    own(session)
    shapes.plain(1)
    here(2)
    assert session.drain()[0][3][1:] == ("plain", [1])


def test_calls_that_never_began_are_not_counted(session: trace.Session) -> None:
    for name in ("plain", "numbers", "coroutine", "asynchronous"):
        counted(session, name)
    with pytest.raises(TypeError):
        shapes.plain()  # type: ignore[call-arg]
    shapes.numbers(1)
    shapes.asynchronous(1)
    shapes.coroutine(1).close()
    assert [value(session, n, 1) for n in ("plain", "numbers", "coroutine", "asynchronous")] == [0, 0, 0, 0]


@pytest.mark.skipif(not NEW_WAY, reason="comprehensions are functions in 3.11 only")
def test_comprehensions_are_no_functions(session: trace.Session) -> None:
    assert session.function((SHAPES, "listed.<locals>.<listcomp>", "_"), True, ["call_count"]) == 0


@pytest.mark.skipif(NEW_WAY, reason="comprehensions are functions in 3.11 only")
def test_comprehensions_are_functions(session: trace.Session) -> None:
    counted(session, "listed.<locals>.<listcomp>")
    shapes.listed(3)
    assert value(session, "listed.<locals>.<listcomp>", 1) == 1


def test_functions_written_in_c_are_seen_where_python_calls_them(session: trace.Session) -> None:
    assert session.function(("math", "factorial", "_"), True, ["call_count", "local"]) == 1
    own(session)

    def measure(n: int) -> int:
        return math.factorial(n) + math.factorial(2)

    for _ in range(50):
        measure(1)
    assert count(session, ("math", "factorial", 1)) == 100
    sent = session.drain()
    assert len(sent) == 100
    assert {m[3][:2] for m in sent} == {("math", "factorial")}
    assert session.function(("math", "factorial", "_"), False, ["call_count", "local"]) == 1
    assert measure(3) == 8
    assert count(session, ("math", "factorial", 1)) is False


def test_functions_written_in_c_that_raise(session: trace.Session) -> None:
    session.function(("math", "factorial", "_"), True, ["call_count", "call_time"])
    me = own(session)
    for _ in range(3):
        with pytest.raises(ValueError):
            math.factorial(-1)
    assert count(session, ("math", "factorial", 1)) == 3
    ((pid, calls, _s, _us),) = session.info(("math", "factorial", 1), "call_time")[1]
    assert (pid, calls) == (me, 3)


def test_recursion_to_the_limit_ends_as_without_tracing() -> None:
    text = """
import inviso, sys
from inviso import trace
from subjects import shapes
def deep(n):
    return 1 + deep(n + 1)
def run():
    try: deep(0)
    except RecursionError as e: return type(e).__name__
s = trace.session_create("deep", None, {"ring_bytes": 1 << 24})
for kinds in (["call_count"], ["call_time"], ["call_memory"], ["local"], ["call_latency"]):
    s.function(("__main__", "deep", 1), True, kinds)
    s.process("all", True, ["call", "return_to", "arity"])
    assert run() == "RecursionError", kinds
    s.function(("__main__", "deep", 1), False, kinds)
    s.drain()
print(shapes.plain(3))
"""
    assert good(text) == "3\n"


def test_functools_stays_itself(session: trace.Session) -> None:
    session.function(("functools", "_", "_"), True, ["call_count"])
    assert functools.reduce(lambda a, b: a + b, range(5)) == 10
    assert shapes.dispatched(1) == "int"
    assert shapes.dispatched("x") == "any"


def test_a_function_that_the_collector_has_cleared_is_left_out(session: trace.Session) -> None:
    """It has no globals any more. On a free-threaded build another thread meets it before it is gone."""

    def cleared() -> None:
        """Never called."""

    def wrapper() -> None:
        cleared()

    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    tp_clear = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(slot(type(cleared), 51))
    assert tp_clear(cleared) == 0
    assert cleared.__globals__ is None
    assert session.function((__name__, "_", "_"), True, ["call_count"]) > 0
    assert session.function(("_", "_", "_"), True, ["call_count"]) > 0
    session.process("all", True, ["call", "send", "receive", "procs", "running"])
