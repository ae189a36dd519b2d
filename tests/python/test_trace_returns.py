"""``return_to``: the function that continues when a traced function ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import local, mfa, names, own

OLD_WAY = sys.version_info < (3, 12)


def leaf(n: int = 0) -> int:
    if n < 0:
        raise ValueError(n)
    return n


def middle(n: int = 0) -> int:
    return leaf(n) + 1


def handler(n: int) -> int:
    try:
        return middle(n)
    except ValueError:
        return leaf(0)


def wrong_handler(n: int) -> int:
    try:
        return middle(n)
    except KeyError:
        return 1


def finally_(n: int) -> int:
    try:
        return middle(n)
    finally:
        leaf(1)


class Manager:
    def __init__(self, swallow: bool) -> None:
        self.swallow = swallow

    def __enter__(self) -> None:
        pass

    def __exit__(self, *what: object) -> bool:
        leaf(2)
        return self.swallow


def with_(n: int, swallow: bool) -> int:
    with Manager(swallow):
        middle(n)
    return 1


def generator(n: int) -> Iterator[int]:
    for i in range(n):
        leaf(i)
        yield i


def consumer(n: int) -> list[int]:
    return list(generator(n))


def sorter() -> list[int]:
    return sorted([2, 1], key=leaf)


def recursive(n: int) -> int:
    return 0 if n == 0 else recursive(n - 1)


def returns(session: trace.Session, *functions: Any) -> None:
    local(session, *functions)
    own(session, ["call", "return_to", "arity"])


def test_to_the_caller(session: trace.Session) -> None:
    returns(session, leaf, middle)
    middle()
    caller = test_to_the_caller.__name__
    assert names(session.drain()) == ["call middle", "call leaf", "return_to middle", f"return_to {caller}"]


def test_to_a_caller_that_is_not_traced(session: trace.Session) -> None:
    returns(session, leaf)
    middle()
    sent = session.drain()
    assert [m[2:] for m in sent] == [("call", mfa(leaf)), ("return_to", mfa(middle))]


def test_only_where_the_call_was_sent(session: trace.Session) -> None:
    local(session, leaf, middle)
    own(session, ["return_to", "arity"])
    middle()
    assert session.drain() == []
    own(session, ["call"])
    session.function(mfa(middle), True, ["global"])
    session.function(mfa(leaf), False, ["local"])
    middle()
    assert "return_to" not in " ".join(names(session.drain()))


def test_without_the_flag_none_is_sent(session: trace.Session) -> None:
    local(session, leaf, middle)
    own(session, ["call", "arity"])
    middle()
    assert names(session.drain()) == ["call middle", "call leaf"]


def test_meta_and_counters_give_none(session: trace.Session) -> None:
    session.function(mfa(leaf), True, ["meta"])
    session.function(mfa(middle), True, ["call_time", "call_count"])
    own(session, ["call", "return_to", "arity"])
    middle()
    assert names(session.drain()) == ["call leaf"]


def test_an_exception_goes_to_its_handler(session: trace.Session) -> None:
    returns(session, leaf, middle)
    handler(-1)
    assert names(session.drain()) == ["call middle", "call leaf", "return_to handler", "call leaf", "return_to handler"]


def test_a_handler_that_does_not_match_is_entered_all_the_same(session: trace.Session) -> None:
    returns(session, leaf)
    with pytest.raises(ValueError):
        wrong_handler(-1)
    assert names(session.drain())[:2] == ["call leaf", "return_to wrong_handler"]


def test_finally_is_a_handler(session: trace.Session) -> None:
    returns(session, leaf)
    with pytest.raises(ValueError):
        finally_(-1)
    assert names(session.drain()) == ["call leaf", "return_to finally_", "call leaf", "return_to finally_"]


def test_with_is_a_handler(session: trace.Session) -> None:
    returns(session, leaf)
    with_(-1, True)
    expected = ["call leaf", "return_to with_", "call leaf", "return_to Manager.__exit__"]
    assert names(session.drain()) == expected
    with pytest.raises(ValueError):
        with_(-1, False)
    assert names(session.drain()) == expected


def test_a_contextmanager_is_a_handler(session: trace.Session) -> None:
    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        try:
            yield
        except ValueError:
            leaf(5)

    def inside() -> None:
        with manager():
            leaf(-1)

    returns(session, leaf)
    inside()
    assert names(session.drain()) == ["call leaf", "return_to inside", "call leaf", "return_to manager"]


def test_a_handler_far_from_its_try(session: trace.Session) -> None:
    returns(session, leaf)
    space: dict[str, Any] = {"leaf": leaf, "__name__": __name__}
    padding = "    x = x + 1\n" * 3000
    source = f"def far(x):\n{padding}    try:\n        leaf(-1)\n        x = 1\n    except ValueError:\n        pass\n"
    exec(source, space)
    space["far"](1)
    assert names(session.drain()) == ["call leaf", "return_to far"]


def test_an_exception_that_c_swallows(session: trace.Session) -> None:
    class Lazy:
        def __getattr__(self, name: str) -> int:
            return missing(name)

    def missing(name: str) -> int:
        raise AttributeError(name)

    def asks() -> int:
        found = getattr(Lazy(), "x", 1)
        leaf(0)
        return found

    returns(session, missing, leaf)
    asks()
    sent = names(session.drain())
    assert sent == ["call missing", "return_to asks", "call leaf", "return_to asks"]


def test_a_handler_of_another_exception_is_not_where_it_went(session: trace.Session) -> None:
    class Lazy:
        def __getattr__(self, name: str) -> int:
            return missing(name)

    def missing(name: str) -> int:
        raise AttributeError(name)

    def asks() -> bool:
        return hasattr(Lazy(), "x")

    def passes() -> None:
        with contextlib.suppress(KeyError):
            raise KeyError

    def catches() -> None:
        asks()
        try:
            raise KeyError
        except KeyError:
            pass
        asks()
        with contextlib.suppress(KeyError):
            passes()

    returns(session, missing)
    catches()
    assert names(session.drain()) == ["call missing", "return_to asks"] * 2


def test_an_exception_that_ends_a_task_is_not_another_task_s(session: trace.Session) -> None:
    async def fails() -> None:
        raise RuntimeError

    async def other() -> None:
        await asyncio.sleep(0)
        try:
            raise KeyError
        except KeyError:
            pass

    async def main() -> inviso.Pid:
        first, second = asyncio.create_task(fails()), asyncio.create_task(other())
        pid = inviso.pid(first)
        await asyncio.wait([first, second])
        assert isinstance(first.exception(), RuntimeError)
        return pid

    returns(session, fails)
    session.process("all", True, ["call", "return_to", "arity"])
    pid = asyncio.run(main())
    session.process("all", False, ["all"])
    assert [(message[1], message[2], message[3][1]) for message in session.drain()] == [
        (pid, "call", fails.__qualname__),
        (pid, "return_to", "Handle._run"),
    ]


def test_through_frames_without_a_handler(session: trace.Session) -> None:
    def outermost() -> None:
        with contextlib.suppress(ValueError):
            passing()

    def passing() -> None:
        middle(-1)

    returns(session, leaf)
    outermost()
    assert names(session.drain()) == ["call leaf", "return_to outermost"]


def test_out_of_a_thread_the_finally_of_its_run_comes_first() -> None:
    def dying() -> None:
        leaf(-1)

    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        with trace.session_create("uncaught") as session:
            local(session, leaf)
            session.process("all", True, ["call", "return_to", "arity"])
            thread = threading.Thread(target=dying)
            thread.start()
            thread.join()
            sent = session.drain()
    finally:
        threading.excepthook = hook
    assert names(sent)[0] == "call leaf"
    assert names(sent)[1:] == ["return_to Thread.run"]


def test_a_yield_sends_none(session: trace.Session) -> None:
    returns(session, generator)
    assert consumer(3) == [0, 1, 2]
    assert names(session.drain()) == ["call generator", "return_to consumer"]


def test_into_a_generator_and_out_of_it(session: trace.Session) -> None:
    returns(session, generator, leaf)
    consumer(2)
    assert names(session.drain()) == [
        "call generator", "call leaf", "return_to generator", "call leaf", "return_to generator", "return_to consumer"
    ]  # fmt: skip


def test_a_generator_ends_towards_who_resumed_it_last(session: trace.Session) -> None:
    def first(items: Iterator[int]) -> int:
        return next(items)

    def last(items: Iterator[int]) -> list[int]:
        return list(items)

    returns(session, generator)
    items = generator(2)
    first(items)
    last(items)
    assert names(session.drain()) == ["call generator", "return_to last"]


def test_a_generator_that_is_closed_gives_none(session: trace.Session) -> None:
    returns(session, generator)
    items = generator(3)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert names(session.drain()) == ["call generator"]


def test_c_in_between_is_no_one(session: trace.Session) -> None:
    returns(session, leaf)
    sorter()
    list(map(leaf, [1]))
    functools.partial(leaf, 1)()
    here = test_c_in_between_is_no_one.__name__
    assert [n for n in names(session.drain()) if n != "call leaf"] == [
        "return_to sorter", "return_to sorter", f"return_to {here}", f"return_to {here}"
    ]  # fmt: skip


def test_an_exception_through_c(session: trace.Session) -> None:
    def mapping() -> list[int]:
        try:
            return list(map(leaf, [1, -1]))
        except ValueError:
            return []

    returns(session, leaf)
    mapping()
    assert names(session.drain()) == ["call leaf", "return_to mapping"] * 2


def test_recursion_returns_to_itself(session: trace.Session) -> None:
    returns(session, recursive)
    recursive(2)
    assert names(session.drain()) == [
        "call recursive", "call recursive", "call recursive", "return_to recursive", "return_to recursive",
        f"return_to {test_recursion_returns_to_itself.__name__}",
    ]  # fmt: skip


def test_coroutines_return_to_who_awaits(session: trace.Session) -> None:
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def outer(n: int) -> int:
        return await inner(n)

    returns(session, inner)
    session.process("all", True, ["call", "return_to", "arity"])
    assert asyncio.run(outer(1)) == 1
    assert names(session.drain()) == ["call inner", "return_to outer"]


def test_a_cancelled_coroutine_returns_to_the_handler(session: trace.Session) -> None:
    async def waits() -> None:
        await asyncio.sleep(100)

    async def catches() -> str:
        try:
            await waits()
        except asyncio.CancelledError:
            return "caught"
        return "no"

    async def main() -> str:
        task = asyncio.ensure_future(catches())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    returns(session, waits)
    session.process("all", True, ["call", "return_to", "arity"])
    assert asyncio.run(main()) == "caught"
    assert names(session.drain()) == ["call waits", "return_to catches"]


def test_async_generators(session: trace.Session) -> None:
    async def ticks(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def main() -> list[int]:
        return [i async for i in ticks(3)]

    returns(session, ticks)
    session.process("all", True, ["call", "return_to", "arity"])
    assert asyncio.run(main()) == [0, 1, 2]
    # a comprehension is a function in 3.11
    assert names(session.drain()) == ["call ticks", "return_to <listcomp>" if OLD_WAY else "return_to main"]


def test_functions_that_are_not_traced_are_named_rightly(session: trace.Session) -> None:
    class K:
        def __init__(self) -> None:
            leaf(1)

        @property
        def p(self) -> int:
            return leaf(2)

    returns(session, leaf)
    K().p  # noqa: B018
    (lambda: leaf(3))()
    assert [n for n in names(session.drain()) if n != "call leaf"] == [
        "return_to K.__init__", "return_to K.p", "return_to <lambda>"
    ]  # fmt: skip


def test_flag_switched_on_inside_a_call(session: trace.Session) -> None:
    def begins() -> None:
        own(session, ["call", "return_to", "arity"])
        leaf(1)

    local(session, leaf)
    session.function(mfa(begins), True, ["local"])
    begins()
    assert names(session.drain()) == ["call leaf", "return_to begins"]


def test_pattern_taken_away_inside_a_call(session: trace.Session) -> None:
    def ends() -> None:
        session.function(mfa(ends), False, ["local"])
        session.function(mfa(leaf), False, ["local"])
        leaf(1)

    returns(session, leaf, ends)
    ends()
    assert names(session.drain())[0] == "call ends"
    leaf(2)
    assert session.drain() == []


async def interleaved(n: int) -> int:
    """Other tasks run before it returns or raises."""
    await asyncio.sleep(0)
    if n % 3 == 2:
        raise ValueError(n)
    return n


@pytest.mark.parametrize("flags", [[], ["arity"], ["arity", "return_to"], ["arity", "timestamp"]])
@pytest.mark.parametrize("head", ["_", ["_"]])
def test_each_task_gets_the_end_of_its_own_call(session: trace.Session, flags: list[str], head: Any) -> None:
    """The task that called last may be another. One match spec takes all calls alike, one looks at their arguments."""
    session.function(mfa(interleaved), [(head, [], [("exception_trace",)])], ["local"])
    session.process("all", True, ["call", *flags])
    session.process("new", True, ["call", *flags])

    async def main() -> list[inviso.Pid]:
        tasks = [asyncio.create_task(interleaved(n)) for n in range(6)]
        pids = [inviso.pid(task) for task in tasks]
        await asyncio.gather(*tasks, return_exceptions=True)
        return pids

    pids = asyncio.run(main())
    ends = [(m[1], m[2], m[4]) for m in session.drain() if m[2] in ("return_from", "exception_from")]
    assert [(pid, tag) for pid, tag, _ in ends] == [
        (pid, "exception_from" if n % 3 == 2 else "return_from") for n, pid in enumerate(pids)
    ]
    assert [value for _, tag, value in ends if tag == "return_from"] == [0, 1, 3, 4]
