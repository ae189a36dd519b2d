"""Match specifications in traced calls: the messages, their order, and their contents."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import inviso
import pytest
from inviso import Atom, BadArg, Cut, Opaque, Prefix, trace
from subjects import ladder
from trace_tools import count, good, in_threads, local, mfa, own, short
from waiting import until

RETURN = [("_", [], [("return_trace",)])]
EXCEPTION = [("_", [], [("exception_trace",)])]
BOTH = [("_", [], [("return_trace",), ("exception_trace",)])]


def leaf(n: int = 0) -> int:
    if n < 0:
        raise ValueError(n)
    return n


def middle(n: int = 0) -> int:
    return leaf(n) + 1


def outer(n: int = 0) -> int:
    return middle(n) + 1


def catcher(n: int) -> int:
    try:
        return middle(n)
    except ValueError:
        return leaf(0)


def recursive(n: int) -> int:
    return 0 if n == 0 else 1 + recursive(n - 1)


def same(value: Any) -> Any:
    return value


def rich(a: Any, b: Any = 2, *rest: Any, key: Any = "k", **more: Any) -> None:
    pass


def says(value: Any) -> list[Any]:
    """A spec for all calls whose messages carry this."""
    return [("_", [], [("message", value)])]


def spec(session: trace.Session, what: list[Any], *functions: Any, kind: str = "local") -> None:
    for function in functions:
        assert session.function(mfa(function), what, [kind]) == 1


def told(session: trace.Session) -> list[Any]:
    return short(session.drain())


def extra(session: trace.Session, value: Any, call: Callable[[], object] = leaf) -> Any:
    """The contents of a call's message."""
    spec(session, says(value), leaf)
    own(session)
    call()
    (message,) = [m for m in session.drain() if m[1] == inviso.self()]
    assert message[2] == "call"
    return message[4]


# kinds and sessions


def test_local_calls_that_a_head_takes(session: trace.Session) -> None:
    spec(session, [([1], [], []), (["$1"], [(">", "$1", 5)], [])], leaf)
    own(session)
    for n in range(8):
        leaf(n)
    assert told(session) == [("call", ("leaf", [n])) for n in (1, 6, 7)]


def test_global_calls_come_from_other_modules_only(session: trace.Session) -> None:
    place = ("subjects.ladder", "top", "_")
    assert session.function(place, says("$_"), ["global"]) == 1
    own(session)
    ladder.top(1)
    (message,) = session.drain()
    assert message[4] == message[3][2]


def test_meta_needs_no_process_and_has_its_own_results(session: trace.Session) -> None:
    spec(session, [([1], [], [("message", "one"), ("return_trace",)])], leaf, kind="meta")
    leaf(1), leaf(2)
    call, back = session.drain()
    assert call[:5] == ("trace_ts", inviso.self(), "call", (__name__, "leaf", [1]), "one")
    assert back[:5] == ("trace_ts", inviso.self(), "return_from", mfa(leaf), 1)
    assert [len(message) for message in (call, back)] == [6, 6]
    assert call[5] <= back[5]


def test_meta_and_local_specs_of_one_function_are_apart(session: trace.Session) -> None:
    spec(session, says("meta"), leaf, kind="meta")
    spec(session, RETURN, leaf)
    own(session, ["call", "arity"])
    leaf()
    assert sorted((m[0], m[2], len(m)) for m in session.drain()) == [
        ("trace", "call", 4), ("trace", "return_from", 5), ("trace_ts", "call", 6)
    ]  # fmt: skip
    assert session.info(mfa(leaf), "meta_match_spec") == ("meta_match_spec", says("meta"))
    assert session.info(mfa(leaf), "match_spec") == ("match_spec", RETURN)
    session.function(mfa(leaf), False, ["local"])
    leaf()
    assert [m[0] for m in session.drain()] == ["trace_ts"]


def test_one_spec_may_be_local_and_meta(session: trace.Session) -> None:
    assert session.function(mfa(leaf), EXCEPTION, ["local", "meta"]) == 1
    own(session)
    with pytest.raises(ValueError):
        leaf(-1)
    assert sorted((m[0], m[2]) for m in session.drain()) == [
        ("trace", "call"), ("trace", "exception_from"), ("trace_ts", "call"), ("trace_ts", "exception_from")
    ]  # fmt: skip


def test_sessions_have_each_their_own_spec(make: Callable[..., trace.Session]) -> None:
    plain, takes, drops, counts = (make(name) for name in ("plain", "takes", "drops", "counts"))
    local(plain, leaf)
    spec(takes, [([1], [], [("return_trace",)])], leaf)
    spec(drops, [("_", [False], [])], leaf)
    counts.function(mfa(leaf), True, ["call_count"])
    for each in (plain, takes, drops):
        own(each)
    leaf(1), leaf(2)
    assert told(plain) == [("call", ("leaf", [1])), ("call", ("leaf", [2]))]
    assert told(takes) == [("call", ("leaf", [1])), ("return_from", "leaf", 1)]
    assert told(drops) == []
    assert count(counts, leaf) == 2


# results


def test_return_from_comes_before_return_to(session: trace.Session) -> None:
    spec(session, RETURN, leaf)
    own(session, ["call", "return_to"])
    middle(3)
    assert told(session) == [("call", ("leaf", [3])), ("return_from", "leaf", 3), ("return_to", "middle")]


def test_return_trace_alone_is_silent_about_exceptions(session: trace.Session) -> None:
    spec(session, RETURN, leaf)
    own(session)
    catcher(-1)
    assert told(session) == [("call", ("leaf", [-1])), ("call", ("leaf", [0])), ("return_from", "leaf", 0)]


@pytest.mark.parametrize("what", [EXCEPTION, BOTH])
def test_exception_trace_tells_both_ends(session: trace.Session, what: list[Any]) -> None:
    spec(session, what, leaf, middle)
    own(session, ["call", "return_to"])
    catcher(-1)
    assert told(session) == [
        ("call", ("middle", [-1])), ("call", ("leaf", [-1])),
        ("exception_from", "leaf", ("error", ("ValueError", (-1,)))),
        ("exception_from", "middle", ("error", ("ValueError", (-1,)))),
        ("return_to", "catcher"), ("call", ("leaf", [0])), ("return_from", "leaf", 0), ("return_to", "catcher"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("x"), "error"), (SystemExit(3), "exit"), (KeyboardInterrupt(), "exit"), (BaseException(1), "throw")],
)
def test_classes_of_exceptions(session: trace.Session, error: BaseException, kind: str) -> None:
    def raises() -> None:
        raise error

    spec(session, EXCEPTION, raises)
    own(session)
    with pytest.raises(type(error)):
        raises()
    assert told(session)[1] == ("exception_from", "raises", (kind, (type(error).__name__, error.args)))


def test_recursion_returns_inner_first(session: trace.Session) -> None:
    spec(session, RETURN, recursive)
    own(session, ["call", "arity"])
    recursive(3)
    assert [(m[0], *m[2:]) for m in told(session)] == [("call",)] * 4 + [("return_from", n) for n in range(4)]


def test_only_some_depths_of_a_recursion(session: trace.Session) -> None:
    spec(session, [(["$1"], [("==", ("rem", "$1", 2), 0)], [("return_trace",)])], recursive)
    own(session)
    recursive(3)
    assert told(session) == [
        ("call", ("recursive", [2])), ("call", ("recursive", [0])),
        ("return_from", "recursive", 0), ("return_from", "recursive", 2),
    ]  # fmt: skip


def test_a_message_kept_back_leaves_the_results(session: trace.Session) -> None:
    spec(session, [("_", [], [("message", False), ("exception_trace",)])], leaf)
    own(session, ["call", "return_to"])
    leaf(1)
    assert told(session) == [("return_from", "leaf", 1)]


def test_the_last_message_counts(session: trace.Session) -> None:
    spec(session, [("_", [], [("message", False), ("message", 1), ("message", True)])], leaf)
    own(session)
    leaf(1)
    assert told(session) == [("call", ("leaf", [1]))]


# generators and coroutines


def numbers(n: int) -> Iterator[int]:
    got = 0
    for i in range(n):
        try:
            got = (yield i) or got
        except KeyError:
            got = 100
    return got


def test_a_generator_returns_once_at_its_end(session: trace.Session) -> None:
    spec(session, BOTH, numbers)
    own(session)
    items = numbers(2)
    next(items)
    assert told(session) == [("call", ("numbers", [2]))]
    list(items)
    assert told(session) == [("return_from", "numbers", 0)]


def test_a_generator_that_is_closed_tells_neither(session: trace.Session) -> None:
    spec(session, BOTH, numbers)
    own(session)
    items = numbers(2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    del items
    assert [m[0] for m in told(session)] == ["call"]
    list(numbers(1))
    assert [m[0] for m in told(session)] == ["call", "return_from"]


def test_throw_is_caught_or_leaves(session: trace.Session) -> None:
    spec(session, BOTH, numbers)
    own(session)
    items: Any = numbers(2)
    next(items)
    items.throw(KeyError("caught"))
    assert [m[0] for m in told(session)] == ["call"]
    with pytest.raises(LookupError):
        items.throw(LookupError("leaves"))
    assert told(session) == [("exception_from", "numbers", ("error", ("LookupError", ("leaves",))))]


def test_a_generator_that_was_never_resumed_was_not_called(session: trace.Session) -> None:
    spec(session, BOTH, numbers)
    own(session)
    items: Any = numbers(2)
    with pytest.raises(LookupError):
        items.throw(LookupError)
    numbers(1).close()  # type: ignore[attr-defined]
    assert [m[0] for m in told(session)] == []


def test_many_suspended_generators_keep_their_results_apart(session: trace.Session) -> None:
    spec(session, [(["$1"], [("<", 2, "$1")], [("return_trace",)])], numbers)
    own(session, ["call", "arity"])
    all_of_them: list[Any] = [numbers(n) for n in range(1, 6)]
    for items in all_of_them:
        next(items)
    for n, items in reversed(list(enumerate(all_of_them, 1))):
        with pytest.raises(StopIteration):
            items.send(n)
            for _ in range(9):
                items.send(None)
    assert [m[2:] for m in told(session) if m[0] == "return_from"] == [(5,), (4,), (3,)]


def test_coroutines_and_async_generators(session: trace.Session) -> None:
    async def waits(n: int) -> int:
        await asyncio.sleep(0)
        if n < 0:
            raise ValueError(n)
        return n

    async def ticks(n: int) -> AsyncIterator[int]:
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def main() -> None:
        assert await asyncio.gather(waits(1), waits(-1), return_exceptions=True)
        assert [i async for i in ticks(2)] == [0, 1]
        stopped = ticks(5)
        await anext(stopped)
        await stopped.aclose()  # type: ignore[attr-defined]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(9), 0)

    spec(session, BOTH, waits, ticks)
    session.process("all", True, ["call"])
    asyncio.run(main())
    assert told(session) == [
        ("call", ("waits", [1])), ("call", ("waits", [-1])), ("return_from", "waits", 1),
        ("exception_from", "waits", ("error", ("ValueError", (-1,)))),
        ("call", ("ticks", [2])), ("return_from", "ticks", None), ("call", ("ticks", [5])),
    ]  # fmt: skip


def test_a_cancelled_coroutine_is_left_by_an_exit(session: trace.Session) -> None:
    async def waits() -> None:
        await asyncio.sleep(9)

    async def main() -> None:
        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    spec(session, EXCEPTION, waits)
    session.process("all", True, ["call"])
    asyncio.run(main())
    error = ("exit", ("asyncio.exceptions.CancelledError", ()))
    assert told(session) == [("call", ("waits", [])), ("exception_from", "waits", error)]


# arguments


def test_parameters_by_position_and_by_name(session: trace.Session) -> None:
    names = ["a", "b", "key", "rest", "more"]
    spec(session, says([("arg", name) for name in names]), rich)
    own(session, ["call"])
    rich(1)
    rich(1, 5, 6, 7, key=8, z=9)
    first, second = session.drain()
    assert first[4] == [1, 2, "k", (), {}]
    assert second[4] == [1, 5, 8, (6, 7), {"z": 9}]
    assert first[3][2] == [1, 2, (), "k", {}]


def test_a_head_has_all_parameters_in_the_order_of_the_signature(session: trace.Session) -> None:
    spec(session, [(["$1", "$2", (5,), "$3", {}], [], [("message", [["$1", "$2", "$3"]])])], rich)
    own(session, ["call"])
    rich(0, 1, 5, key="x")
    rich(0, 1, key="x")
    assert [m[4] for m in session.drain()] == [[[0, 1, "x"]]]


def test_a_prefix_takes_the_first_parameters(session: trace.Session) -> None:
    spec(session, [(Prefix(1, "$1"), [], [("message", "$1")])], rich)
    own(session, ["call"])
    rich(1, "yes"), rich(2, "no")
    assert [m[4] for m in session.drain()] == ["yes"]


def test_a_head_of_another_length_takes_nothing(session: trace.Session) -> None:
    spec(session, [(["_"], [], []), ([], [], [])], rich)
    own(session, ["call"])
    rich(1)
    assert session.drain() == []


def test_an_unknown_name_fails_the_guard_and_is_exit_in_a_body(session: trace.Session) -> None:
    spec(session, [("_", [("==", ("arg", "nobody"), 1)], [])], leaf)
    own(session)
    leaf()
    assert session.drain() == []
    assert extra(session, ("arg", "nobody")) == "EXIT"


def test_methods_and_closures(session: trace.Session) -> None:
    class Account:
        def __init__(self, owner: str) -> None:
            self.owner = owner

        def pay(self, sum: int) -> int:
            return sum

        @classmethod
        def of(cls, sum: int) -> int:
            return sum

    def maker(cell: int) -> Callable[[int], Any]:
        def closure(n: int) -> Any:
            return cell, n, lambda: n

        return closure

    closure = maker(7)
    spec(session, [(["$1", "$2"], [("==", ("attr", "$1", "owner"), "ann")], [("message", "$2")])], Account.pay)
    spec(session, says(("arg", "sum")), Account.of)
    spec(session, [([3], [], [("message", ("arg", "n"))])], closure)
    own(session)
    Account("ann").pay(5), Account("bob").pay(6), Account.of(8), closure(3), closure(4)
    assert [m[4] for m in session.drain()] == [5, 8, 3]


def test_is_instance_looks_at_the_class(session: trace.Session) -> None:
    classes = ["builtins.int", f"{__name__}.Odd"]
    spec(session, [(["$1"], [("is_instance", "$1", name)], [("message", name)]) for name in classes], same)
    own(session)
    for value in (1, "x", True, Odd(), OddChild(), None):
        same(value)
    assert [classes.index(m[4]) for m in session.drain()] == [0, 0, 1, 1]


class Odd:
    pass


class OddChild(Odd):
    pass


# silence, flags and other processes


def test_silence_counts_for_this_very_call(session: trace.Session) -> None:
    spec(session, [([1], [], [("silent", True)]), ([2], [], [("silent", False)]), ("_", [], [])], leaf)
    own(session)
    for n in (0, 1, 0, 2, 0):
        leaf(n)
    assert [m[1][1] for m in told(session)] == [[0], [2], [0]]
    assert session.info(inviso.self(), "flags") == ("flags", ["call"])


def test_results_of_calls_begun_before_silence_still_come(session: trace.Session) -> None:
    spec(session, RETURN, middle, outer)
    spec(session, [("_", [], [("silent", True), ("return_trace",)])], leaf)
    own(session, ["call", "return_to"])
    outer(1)
    here = test_results_of_calls_begun_before_silence_still_come.__name__
    assert told(session) == [
        ("call", ("outer", [1])), ("call", ("middle", [1])), ("return_from", "middle", 2), ("return_to", "outer"),
        ("return_from", "outer", 3), ("return_to", here),
    ]  # fmt: skip


def test_results_of_calls_begun_in_silence_do_not_come(session: trace.Session) -> None:
    spec(session, BOTH, middle)
    spec(session, [("_", [], [("silent", False), ("return_trace",)])], leaf)
    own(session, ["call", "silent"])
    middle(1)
    assert told(session) == [("call", ("leaf", [1])), ("return_from", "leaf", 1)]


def test_flags_of_oneself_take_effect_on_this_message(session: trace.Session) -> None:
    spec(session, [("_", [], [("enable_trace", "arity"), ("enable_trace", "timestamp")])], leaf)
    own(session)
    leaf(5)
    (message,) = session.drain()
    assert message[0] == "trace_ts"
    assert message[3] == mfa(leaf)
    assert len(message) == 5
    assert session.info(inviso.self(), "flags")[1] == ["call", "arity", "timestamp"]


def test_disabling_calls_lets_this_message_out_but_not_its_return(session: trace.Session) -> None:
    spec(session, [("_", [], [("disable_trace", "call"), ("return_trace",)])], leaf)
    spec(session, RETURN, middle)
    own(session, ["call", "arity"])
    middle(1)
    assert [m[0] for m in told(session)] == ["call", "call"]
    assert session.info(inviso.self(), "flags") == ("flags", ["arity"])


def test_trace_answers_whether_something_changed(session: trace.Session) -> None:
    assert extra(session, [("trace", [], ["arity"]), ("trace", ["arity"], []), ("trace", [], [])]) == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("by", ["pid", "name"])
def test_flags_of_another_thread(session: trace.Session, by: str) -> None:
    go, ready, stop = threading.Event(), threading.Event(), threading.Event()
    pids: list[inviso.Pid] = []

    def other() -> None:
        pids.append(inviso.self())
        inviso.register("someone", inviso.self())
        ready.set()
        go.wait(30)
        leaf(7)
        stop.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert ready.wait(30)
        who = pids[0] if by == "pid" else "someone"
        assert extra(session, [("enable_trace", who, "call")]) == [True]
        assert session.info(pids[0], "flags") == ("flags", ["call"])
        go.set()
        until(lambda: [m for m in session.drain() if m[1] == pids[0] and m[3][2] == [7]])
        assert extra(session, [("trace", who, ["call"], ["arity"])]) == [True]
        assert session.info(pids[0], "flags") == ("flags", ["arity"])
        assert extra(session, [("disable_trace", who, "arity")]) == [True]
        assert session.info(pids[0], "flags") == ("flags", [])
    finally:
        go.set(), stop.set()
        thread.join()
    assert extra(session, ("enable_trace", pids[0], "call")) == "EXIT"
    assert extra(session, ("enable_trace", "someone", "call")) == "EXIT"


def test_flags_of_a_task(session: trace.Session) -> None:
    async def task(n: int) -> None:
        leaf(n)

    async def main() -> None:
        one = asyncio.ensure_future(task(1))
        await asyncio.sleep(0)
        two = asyncio.ensure_future(task(2))
        second = inviso.pid(two)
        spec(session, says(("enable_trace", inviso.pid(two), "call")), middle)
        own(session)
        middle(5)
        await one, await two
        assert [(m[1], m[3][2]) for m in session.drain() if m[3][1] == "leaf"][1:] == [(second, [2])]

    local(session, leaf)
    asyncio.run(main())


@pytest.mark.parametrize("flag", ["nonsense", 5, "cpu_timestamp", ("a",), None])
def test_a_bad_flag_is_exit(session: trace.Session, flag: Any) -> None:
    value = [("enable_trace", ("const", flag)), ("disable_trace", ("const", flag)), ("trace", [("const", flag)], [])]
    assert extra(session, value) == ["EXIT"] * 3
    assert session.info(inviso.self(), "flags") == ("flags", ["call"])


@pytest.mark.parametrize("who", ["nobody", 17, "undefined"])
def test_an_invalid_process_is_exit(session: trace.Session, who: Any) -> None:
    assert extra(session, [("enable_trace", who, "call"), ("trace", who, [], [])]) == ["EXIT", "EXIT"]


# the control word


def test_the_control_word(session: trace.Session) -> None:
    assert trace.control_word() == 0
    try:
        assert extra(session, [("get_tcw",), ("set_tcw", 9), ("get_tcw",)]) == [0, 0, 9]
        assert trace.control_word(3) == 9
        spec(session, [("_", [("==", ("get_tcw",), 3)], [])], leaf)
        leaf(1)
        trace.control_word(4)
        leaf(2)
        assert told(session) == [("call", ("leaf", [1]))]
    finally:
        trace.control_word(0)


def test_the_control_word_is_one_for_all_threads(session: trace.Session) -> None:
    spec(session, [(["$1"], [], [("set_tcw", ("+", "$1", 1))])], leaf)
    session.process("all", True, ["call"])
    try:
        in_threads(4, lambda n: [leaf(n) for _ in range(100)])
        assert trace.control_word() in (1, 2, 3, 4)
        assert len(session.drain()) == 400
    finally:
        trace.control_word(0)


@pytest.mark.parametrize("word", [-1, 1 << 32, 1.0, True, "1"])
def test_no_control_word(word: Any) -> None:
    with pytest.raises(BadArg, match="control_word"):
        trace.control_word(word)
    assert trace.control_word() == 0


# callers


def calls_leaf() -> int:
    return leaf(1)


def test_the_caller(session: trace.Session) -> None:
    assert extra(session, ("caller",), calls_leaf) == mfa(calls_leaf)


def test_the_caller_with_its_line(session: trace.Session) -> None:
    module, name, arity, (file, line) = extra(session, ("caller_line",), calls_leaf)
    assert (module, name, arity) == mfa(calls_leaf)
    assert (file, line) == (calls_leaf.__code__.co_filename, calls_leaf.__code__.co_firstlineno + 1)


def test_a_thread_has_no_caller(session: trace.Session) -> None:
    out = good(
        """
import _thread
from inviso import trace
def leaf(done): done.append(1)
s = trace.session_create("t")
message = ("message", [("caller",), ("caller_line",), ("current_stacktrace",)])
s.function(("__main__", "leaf", 1), [("_", [], [message])], ["local"])
s.process("all", True, ["call"])
done = []
_thread.start_new_thread(leaf, (done,))
print(s.receive(30)[4])
"""
    )
    assert out == "[None, None, []]\n"


def test_the_stack(session: trace.Session) -> None:
    stack = extra(session, ("current_stacktrace",), lambda: calls_leaf())
    assert len(stack) == 8
    assert stack[0][:3] == mfa(calls_leaf)
    assert stack[0][3][0] == ("file", calls_leaf.__code__.co_filename)
    assert stack[0][3][1] == ("line", calls_leaf.__code__.co_firstlineno + 1)
    assert stack[1][1].endswith("<lambda>")
    assert len(extra(session, ("current_stacktrace", 2), calls_leaf)) == 2
    assert extra(session, ("current_stacktrace", 0), calls_leaf) == []
    with pytest.raises(BadArg, match="number of calls"):
        spec(session, says(("current_stacktrace", -1)), leaf)


def test_a_dump_of_the_process(session: trace.Session) -> None:
    dump = extra(session, ("process_dump",), calls_leaf)
    lines = dump.splitlines()
    assert lines[0] == f"=proc:{inviso.self()}"
    stack = lines[lines.index("Stack:") + 1 :]
    assert [name in line for name, line in zip(["leaf", "calls_leaf", "extra"], stack[:3], strict=True)] == [True] * 3
    assert stack[0].endswith(f":{leaf.__code__.co_firstlineno}")


def test_display_writes_to_standard_error(session: trace.Session, capfd: pytest.CaptureFixture[str]) -> None:
    spec(session, [("_", [], [("display", [1, ("self",)])])], leaf)
    own(session)
    leaf()
    assert capfd.readouterr().err.count("\n") == 1
    assert len(session.drain()) == 1


# contents of messages


OBJECT = object()
TERMS: list[Any] = [
    None, True, 0, -1, 1 << 70, 1.5, "", "text", "\u20ac", b"\0bytes", (), (1, (2,)), [], [[1], "x"], {}, {"a": [1]},
    {1, 2}, Atom("word"),
]  # fmt: skip


@pytest.mark.parametrize("value", TERMS, ids=repr)
def test_arguments_and_constants_come_as_they_are(session: trace.Session, value: Any) -> None:
    spec(session, [(["$1"], [], [("message", ["$1", ("const", value)]), ("return_trace",)])], same)
    own(session)
    same(value)
    call, back = session.drain()
    for copy in (*call[4], *call[3][2], back[4]):
        assert copy == value
        assert type(copy) is (frozenset if isinstance(value, set) else type(value))


def test_objects_are_opaque(session: trace.Session) -> None:
    spec(session, [(["$1"], [], [("message", ["$1"]), ("return_trace",)])], same)
    own(session)
    same(OBJECT)
    call, back = session.drain()
    assert call[4] == [Opaque("object", id(OBJECT))]
    assert back[4] == Opaque("object", id(OBJECT))


def test_limits_of_capture_hold_for_extras_and_results(make: Callable[..., trace.Session]) -> None:
    session = make(capture={"items": 2, "bytes": 4, "depth": 1})
    spec(session, [(["$1"], [], [("message", "$1"), ("return_trace",)])], same)
    own(session)
    same([1, 2, 3])
    same("abcdefgh")
    same([[1]])
    one, one_back, two, two_back, three, three_back = session.drain()
    assert one[4] == one_back[4] == [1, 2, Cut("items")]
    assert two[4] == two_back[4] != "abcdefgh"
    assert three[4] == three_back[4] == [Cut("depth")]


def test_an_extra_too_large_is_cut_and_the_call_still_told(make: Callable[..., trace.Session]) -> None:
    session = make(capture={"total": 64})
    spec(session, [(["$1"], [], [("message", [[f"part {n}" for n in range(100)]]), ("return_trace",)])], same)
    own(session)
    same(1)
    call, back = session.drain()
    assert call[3][2] == [1]
    assert call[4] == Cut("message")
    assert back[4] == 1


def test_the_objects_themselves(make: Callable[..., trace.Session]) -> None:
    session = make(capture="ref")
    spec(session, [(["$1"], [], [("message", "extra"), ("return_trace",)])], same)
    own(session)
    value = Odd()
    same(value)
    call, back = session.drain()
    assert call[3][2][0] is value
    assert call[4] == "extra"
    assert back[4] is value


@pytest.mark.parametrize("options", [{"repr": True}, {"capture": "ref"}], ids=str)
def test_each_call_that_a_filter_takes_comes_with_its_own_arguments(
    make: Callable[..., trace.Session], options: Any
) -> None:
    session = make(**options)
    spec(session, [(["$1"], [("/=", "$1", 2)], [])], same)
    own(session)
    for value in range(5):
        same(value)
        assert [message[3][2] for message in session.drain()] == ([] if value == 2 else [[value]])


def test_texts_of_objects(make: Callable[..., trace.Session]) -> None:
    session = make(repr=True)
    spec(session, [(["$1"], [], [("message", "extra"), ("return_trace",)])], same)
    own(session)
    same(OBJECT)
    call, back = session.drain()
    assert call[3][2][0].text == back[4].text == repr(OBJECT)
    assert call[4] == "extra"


@pytest.mark.parametrize("stamp", ["timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"])
@pytest.mark.parametrize("arity", [True, False])
def test_the_extra_stands_before_the_stamp(session: trace.Session, stamp: str, arity: bool) -> None:
    spec(session, [("_", [], [("message", "extra"), ("exception_trace",)])], leaf)
    own(session, ["call", stamp, *(["arity"] if arity else [])])
    catcher(-1)
    for message in session.drain():
        assert message[0] == "trace_ts"
        assert message[3] == (mfa(leaf) if arity or message[2] != "call" else (__name__, "leaf", message[3][2]))
        assert len(message) == 6
        assert message[4] == "extra" or message[2] != "call"
        assert isinstance(message[5], int if stamp == "monotonic_timestamp" else tuple)


def test_with_all_flags_the_scheduler_stands_between(session: trace.Session) -> None:
    spec(session, says("extra"), leaf)
    own(session, ["all"])
    session.process(inviso.self(), False, ["silent"])
    leaf()
    call = next(m for m in session.drain() if m[2] == "call")
    assert call[4] == "extra"
    assert isinstance(call[5], int)
    assert len(call) == 7


# setting and asking


def test_info_gives_back_what_was_set(session: trace.Session) -> None:
    what = [
        (["$1", {"k": "$2"}, ("const", (1.0, b"x"))], [("is_integer", "$1"), True], [("message", (("$1", "_"),))]),
        (Prefix("$1"), [], []),
        ("_", [("==", "$_", ("const", None))], [("return_trace",), ("set_tcw", 1 << 20)]),
    ]
    spec(session, what, leaf)
    assert session.info(mfa(leaf), "match_spec")[1] == what
    assert dict(session.info(mfa(leaf), "all")[1])["match_spec"] == what
    assert session.info(mfa(leaf), "meta_match_spec") == ("meta_match_spec", False)


def test_info_is_false_or_empty_without_a_spec(session: trace.Session) -> None:
    for item in ("match_spec", "meta_match_spec"):
        assert session.info(mfa(leaf), item) == (item, False)
    for how in (True, [], "restart", "pause"):
        session.function(mfa(leaf), how, ["local", "meta"])
        for item in ("match_spec", "meta_match_spec"):
            assert session.info(mfa(leaf), item) == (item, [])
    session.function(mfa(leaf), False, ["local", "meta"])
    for item in ("match_spec", "meta_match_spec"):
        assert session.info(mfa(leaf), item) == (item, False)


def test_a_spec_is_replaced_by_another_and_by_true(session: trace.Session) -> None:
    own(session)
    for what, wanted in [
        (says(1), [(1,)]),
        (says(2), [(2,)]),
        (True, [()]),
        (says(3), [(3,)]),
        ([], [()]),
        (False, []),
    ]:
        session.function(mfa(leaf), what, ["local"])
        leaf()
        assert [m[2:] for m in told(session)] == wanted


def test_a_spec_is_changed_by_nobody_after_it_was_set(session: trace.Session) -> None:
    what = says("before")
    spec(session, what, leaf)
    what[0][2].clear()
    own(session)
    leaf()
    assert session.drain()[0][4] == "before"
    session.info(mfa(leaf), "match_spec")[1].clear()
    assert session.info(mfa(leaf), "match_spec")[1] == says("before")


def test_a_bad_spec_changes_nothing(session: trace.Session) -> None:
    spec(session, says("good"), leaf)
    for bad in ([("_", [("nonsense",)], [])], [1], [("_", [])], [("_", ["$1"], [])], 5, "on", None):
        with pytest.raises(BadArg, match="match_spec"):
            session.function(mfa(leaf), bad, ["local"])  # type: ignore[arg-type]
    assert session.info(mfa(leaf), "match_spec")[1] == says("good")


def test_counters_count_what_a_spec_refuses(session: trace.Session) -> None:
    assert session.function(mfa(leaf), [([1], [], [])], ["local", "call_count", "call_time"]) == 1
    own(session)
    for n in range(5):
        leaf(n)
    assert count(session, leaf) == 5
    assert session.info(mfa(leaf), "call_time")[1][0][1] == 5
    assert told(session) == [("call", ("leaf", [1]))]


@pytest.mark.parametrize("kind", ["call_count", "call_time", "call_memory", "call_latency"])
def test_a_spec_for_counters_alone_is_refused(session: trace.Session, kind: str) -> None:
    with pytest.raises(BadArg, match="match_spec"):
        session.function(mfa(leaf), RETURN, [kind])
    assert session.function(mfa(leaf), [], [kind]) == 1


def test_functions_that_come_later(session: trace.Session) -> None:
    assert session.function("on_load", [([1], [], [("message", "new")])], ["local"]) == 0
    assert session.info("on_load", "match_spec")[1] == [([1], [], [("message", "new")])]
    own(session)
    space: dict[str, Any] = {"__name__": "of_later"}
    exec("def later(n): return n", space)
    space["later"](1), space["later"](2)
    assert [(m[3], m[4]) for m in session.drain()] == [(("of_later", "later", [1]), "new")]
    assert session.info(("of_later", "later", 1), "match_spec")[1] == [([1], [], [("message", "new")])]
    session.function("on_load", False, ["local"])


def test_wildcards_with_a_spec(session: trace.Session) -> None:
    what = [(["$1"], [("==", "$1", 3)], [("message", ("caller",))])]
    assert session.function((__name__, "leaf", "_"), what, ["local"]) == 1
    assert session.function((__name__, "_", "_"), what, ["local"]) > 10
    own(session)
    outer(3), outer(4)
    assert [m[3][1] for m in session.drain()] == ["outer", "middle", "leaf"]
    assert session.info(mfa(middle), "match_spec")[1] == what
    session.function((__name__, "_", "_"), False, ["local"])


def test_functions_written_in_c(session: trace.Session) -> None:
    place = ("builtins", "len", "_")
    assert session.function(place, [("_", [], [("return_trace",), ("message", ("caller",))])], ["local"]) == 1
    own(session)
    calls_len()
    call, back = session.drain()
    assert call[4] == mfa(calls_len)
    assert (back[2], back[4]) == ("return_from", Cut("result"))


def calls_len() -> int:
    return len("abc")


# ends of calls whose pattern was removed


@pytest.mark.parametrize("also", [False, True])
def test_a_pattern_removed_during_the_call_tells_no_end(make: Callable[..., trace.Session], also: bool) -> None:
    session, other = make(), make("other")

    def removes() -> int:
        session.function(mfa(removes), False, ["local"])
        return 1

    spec(session, BOTH, removes)
    if also:
        local(other, removes)
    own(session), own(other)
    removes()
    assert [m[0] for m in told(session)] == ["call"]
    session.function(mfa(removes), BOTH, ["local"])
    removes()
    assert [m[0] for m in told(session)] == ["call"]


def test_a_spec_replaced_during_the_call_leaves_what_it_asked_for(session: trace.Session) -> None:
    second = [("_", [], [("message", 2), ("exception_trace",)])]

    def replaces(n: int) -> int:
        spec(session, second, replaces)
        return n

    spec(session, RETURN, replaces)
    own(session)
    replaces(1), replaces(1)
    assert [(m[0], m[2:]) for m in told(session)] == [
        ("call", ()), ("return_from", (1,)), ("call", (2,)), ("return_from", (1,))
    ]  # fmt: skip


def test_a_session_destroyed_during_the_call(make: Callable[..., trace.Session]) -> None:
    session, other = make(), make("other")

    def destroys() -> Iterator[int]:
        session.destroy()
        yield 1

    for each in (session, other):
        spec(each, BOTH, destroys)
        own(each)
    assert list(destroys()) == [1]
    assert [m[0] for m in told(session)] == ["call"]
    assert [m[0] for m in told(other)] == ["call", "return_from"]


def test_specs_are_replaced_while_threads_call(session: trace.Session) -> None:
    calls = 3000
    one = [(["$1"], [], [("message", [["one", "$1"]]), ("return_trace",)])]
    two = [(["$1"], [], [("message", [["two", "$1"]]), ("exception_trace",)])]
    session.function(mfa(leaf), one, ["local"])
    session.process("all", True, ["call"])
    done = threading.Event()

    def replaces() -> None:
        while not done.is_set():
            for what in (two, one):
                session.function(mfa(leaf), what, ["local"])

    thread = threading.Thread(target=replaces)
    thread.start()
    try:
        in_threads(3, lambda n: [leaf(i) for i in range(calls)])
    finally:
        done.set()
        thread.join()
    messages = session.drain()
    assert session.info("session", "dropped")[1] == 0
    calls_told = 0
    for message in messages:
        if message[2] == "call":
            ((by, n),) = message[4]
            assert [n] == message[3][2]
            assert by in ("one", "two")
            calls_told += 1
    assert calls_told == 3 * calls
    assert sum(m[2] == "return_from" for m in messages) == 3 * calls


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_specs_work_in_a_child(session: trace.Session) -> None:
    out = good(
        """
import os
from inviso import trace
import inviso
def leaf(n): return n
s = trace.session_create("t")
s.function(("__main__", "leaf", 1), [([1], [], [("return_trace",)])], ["local"])
s.process("all", True, ["call"])
child = os.fork()
leaf(1), leaf(2)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print([str(m[2]) for m in s.drain()])
"""
    )
    assert out == "['call', 'return_from']\n"


def test_a_pid_of_another_node_is_a_pid(session: trace.Session) -> None:
    far, other = (inviso._native.process.pid_of_node("far@there", 5, number << 2) for number in (44, 45))
    own(session)
    session.function((__name__, "same", 1), [(["$1"], [("is_pid", "$1"), ("==", "$1", far)], [])], ["local"])
    for value in (far, other, "far", inviso.self()):
        same(value)
    assert [message[3][2] for message in session.drain()] == [[far]]
