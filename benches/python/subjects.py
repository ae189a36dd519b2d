"""The programs that are measured: each is a fixed piece of work with one function that one-function tools aim at.

>>> subject = make("calls")
>>> subject.hot.__name__
'fib'
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

Mfa = tuple[str, str, int]
Function = Any  # written in Python; type checkers know no name for it

_SUSPENDS = 0x20 | 0x80 | 0x200  # generator, coroutine, async generator
_STAR, _STARS = 0x04, 0x08


@dataclass(frozen=True)
class Subject:
    """A program.

    Attributes:
        run: does the work once.
        small: does a little of it, with all of its functions: to warm up, and to check tools with.
        hot: the function that one-function tools trace.
        owner: the class or module that ``hot`` is an attribute of, for tools that replace it.
    """

    name: str
    run: Callable[[], object]
    small: Callable[[], object]
    hot: Function
    owner: Any


@dataclass(frozen=True)
class Census:
    """The functions called in one run.

    Attributes:
        calls: events of Python calls: calls, and resumes of generators and coroutines.
        c_calls: calls of C functions by Python code.
        functions: the number of distinct Python functions.
        exact: calls of each function whose calls can be told from resumes, whose name is its own, and that has a module.
    """

    calls: int
    c_calls: int
    functions: int
    exact: dict[Mfa, int]


def unrelated(value: object) -> object:
    """A function that no subject calls."""
    return value


def mfa_of(function: Function) -> Mfa:
    """A function's module, qualified name and number of declared parameters."""
    return function.__module__, function.__qualname__, _arity(function.__code__)


def census(run: Callable[[], object]) -> Census:
    """Counts the calls of two runs with ``sys.setprofile``; exact are those that both agree on."""
    first, second = _counted(run), _counted(run)
    agreed = {mfa: calls for mfa, calls in second.exact.items() if first.exact.get(mfa) == calls}
    return Census(second.calls, second.c_calls, second.functions, agreed)


def _counted(run: Callable[[], object]) -> Census:
    calls: Counter[CodeType] = Counter()
    modules: dict[CodeType, str] = {}
    c_calls = 0

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal c_calls
        if event == "call":
            calls[frame.f_code] += 1
            modules.setdefault(frame.f_code, frame.f_globals.get("__name__", ""))
        elif event == "c_call":
            c_calls += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    names = {code: (modules[code], code.co_qualname, _arity(code)) for code in calls}
    taken = Counter(names.values())
    exact = {
        names[code]: n
        for code, n in calls.items()
        if taken[names[code]] == 1 and not code.co_flags & _SUSPENDS and names[code][0] and "<" not in names[code][1]
    }
    return Census(sum(calls.values()), c_calls - 1, len(calls), exact)  # one c_call is setprofile's own end


def _arity(code: CodeType) -> int:
    stars = bool(code.co_flags & _STAR) + bool(code.co_flags & _STARS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def _calls() -> Subject:
    return Subject("calls", lambda: fib(25), lambda: fib(14), fib, sys.modules[__name__])


METHODS = 20


def meters(module: str) -> tuple[type, Function]:
    """A new class with twenty methods that do next to nothing, and a loop that calls each of them ``times`` times."""
    lines = ["class Meter:", "    def __init__(self):", "        self.last = None"]
    for n in range(METHODS):
        lines += [f"    def put_{n}(self, value):", "        self.last = value", "        return value"]
    lines += ["def loop(meter, times):", "    for value in range(times):"]
    lines += [f"        meter.put_{n}(value)" for n in range(METHODS)]
    names: dict[str, Any] = {"__name__": module}
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return names["Meter"], names["loop"]


def _methods() -> Subject:
    """The loop over the methods; the hot one is every twentieth call."""
    owner, loop = meters(__name__)
    meter, hot = owner(), vars(owner)["put_7"]
    return Subject("methods", lambda: loop(meter, 12_000), lambda: loop(meter, 100), hot, owner)


_REST = """
Section {n}
===========

Here is *one* word and **another**, ``code``, a `link {n} <https://example.org/{n}>`__, a note [#n{n}]_,
and a target_{n}.

.. _target_{n}: https://example.org/t/{n}

* an item
* an item with ``code`` and *stress*

  1. a numbered item
  2. one more

=====  =======
left   right
=====  =======
1      *two*
3      four
=====  =======

.. warning:: Mind the *gap* of section {n}.

A block::

    print({n})

.. [#n{n}] The note's text.

"""
_MARK = """
## Part {n}

Some *stress*, **more of it**, `code`, [a link](https://example.org/{n}) and ~~nothing~~. See https://example.org too.

- a list with `code`
- and a second item
    1. with numbers
    2. in *it*

> quoted **words** and [a link](/{n})

| a | b |
| - | - |
| 1 | `two` |

```
block {n}
```

"""


def _documents() -> Subject:
    """mistune renders Markdown and docutils reStructuredText."""
    import mistune
    from docutils.core import publish_string  # type: ignore[import-untyped]
    from docutils.statemachine import StateMachine  # type: ignore[import-untyped]

    render = mistune.create_markdown(plugins=["strikethrough", "table", "url"])
    settings = {"_disable_config": True, "report_level": 5, "datestamp": None}

    def work(sections: int) -> None:
        render("".join(_MARK.format(n=n) for n in range(3 * sections)))
        text = "".join(_REST.format(n=n) for n in range(sections))
        publish_string(text, writer="html5", settings_overrides=settings)

    work(1)
    return Subject("documents", lambda: work(5), lambda: work(1), StateMachine.check_line, StateMachine)


def note(total: int, item: int) -> int:
    return total + item


async def _produce(queue: asyncio.Queue[int], items: int) -> None:
    for item in range(items):
        await queue.put(item)


async def _consume(queue: asyncio.Queue[int], items: int) -> int:
    total = 0
    for _ in range(items):
        total = note(total, await queue.get())
    return total


async def _pairs(pairs: int, items: int) -> None:
    tasks = []
    for _ in range(pairs):
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        tasks += [asyncio.create_task(_produce(queue, items)), asyncio.create_task(_consume(queue, items))]
    done = await asyncio.gather(*tasks)
    if sum(total or 0 for total in done) != pairs * items * (items - 1) // 2:
        raise AssertionError("a message was lost")


def _tasks() -> Subject:
    """Pairs of asyncio tasks with a queue of one place between them."""
    here = sys.modules[__name__]
    return Subject("tasks", lambda: asyncio.run(_pairs(400, 12)), lambda: asyncio.run(_pairs(15, 4)), note, here)


class _Item:
    def __init__(self, content: dict[str, object], shape: tuple[object, ...]) -> None:
        self.content = content
        self.shape = shape


def build(n: int) -> _Item:
    content = {"number": n, "text": str(n) * 4, "row": [n] * 20}
    return _Item(content, (n, n / 2, b"-" * 50))


def _build_many(items: int) -> int:
    kept: list[_Item] = []
    for n in range(items):
        kept.append(build(n))
        if len(kept) == 1500:
            kept = []
    return len(kept)


def _allocations() -> Subject:
    """Instances, dicts, lists, tuples and strings, most of them short-lived."""
    here = sys.modules[__name__]
    return Subject("allocations", lambda: _build_many(12_000), lambda: _build_many(300), build, here)


_MAKERS = {
    "calls": _calls,
    "methods": _methods,
    "documents": _documents,
    "tasks": _tasks,
    "allocations": _allocations,
}
NAMES = tuple(_MAKERS)


def make(name: str) -> Subject:
    """A subject by its name in ``NAMES``."""
    return _MAKERS[name]()
