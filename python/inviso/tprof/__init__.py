"""Exact profiles of running code: how often, how long, how much memory, in which thread or task.

The profiler counts every call; it does not sample. Three types of measurement, each over the functions that a pattern
names:

``call_count``
    calls, in all processes together; the cheapest
``call_time``
    calls and time in each process. Time is a function's own, less that of functions measured inside it
``call_memory``
    calls and memory allocated in each process: bytes in tables, words of 8 bytes in ``measurement``. What is freed is
    not subtracted

Don't use it where an estimate is enough and the program makes many millions of calls a second: a sampling profiler
disturbs less there. Functions written in C have no rows of their own; their time is their caller's.

One call from beginning to end:

>>> from inviso import tprof
>>> import textwrap
>>> p = tprof.profile(textwrap.shorten, "hello  world", 20, pattern="textwrap")
>>> p.result, p["textwrap:shorten/3"].calls
('hello world', 1)

``print(p)`` shows the table, ``p.to_json()`` is for machines. To measure a part of a program use a ``Profiler``, or the
functions of this module that work on one profiler for the whole process:

>>> profiler = tprof.start(type="call_count")
>>> _ = tprof.set_pattern("textwrap", "dedent")
>>> _ = textwrap.dedent(" a")
>>> tprof.collect().calls
1
>>> tprof.stop()

A pattern is ``("module", "function", arity)`` or ``"module:function:arity"``, where the last, the last two or all
parts may be ``_`` or left out. Functions that are defined or imported later count too; what no pattern takes is not
measured, and its time is its caller's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, TextIO

from inviso._pattern import ANY, Pattern, PatternLike, parse
from inviso._stream import put
from inviso.errors import shown

from ._check import bad, check_tree, one_of, seconds
from ._diff import Change, Diff, diff
from ._json import load
from ._merge import merge
from ._model import (
    CALL_TYPES,
    SORTS,
    UNITS,
    VIEWS,
    Calls,
    CallType,
    ChildProcess,
    Function,
    Node,
    Process,
    Profile,
    SavedProcess,
    Sort,
    View,
)
from ._profiler import Procs, Profiler
from ._tree import Caller, Tree
from ._view import Row, Section, format, inspect

__all__ = [
    "UNITS",
    "CallType",
    "Caller",
    "Calls",
    "Change",
    "ChildProcess",
    "Diff",
    "Function",
    "Node",
    "Pattern",
    "PatternLike",
    "Process",
    "Procs",
    "Profile",
    "Profiler",
    "Row",
    "SavedProcess",
    "Section",
    "Sort",
    "Tree",
    "View",
    "aprofile",
    "clear_pattern",
    "collect",
    "continue_",
    "diff",
    "disable_trace",
    "enable_trace",
    "format",
    "inspect",
    "load",
    "merge",
    "pause",
    "profile",
    "restart",
    "set_pattern",
    "start",
    "stop",
]

Report = Literal["return", "total", "process"]

_current: Profiler | None = None


def profile(
    fn: Callable[..., Any],
    /,
    *args: Any,
    type: CallType = "call_count",
    pattern: PatternLike = (ANY, ANY, ANY),
    tree: bool = False,
    per_process: bool = False,
    sort: Sort = "measurement",
    report: Report = "return",
    rootset: Procs | None = None,
    set_on_spawn: bool = True,
    timeout: float | None = None,
    children: bool = False,
    file: TextIO | None = None,
    **kwargs: Any,
) -> Profile:
    """Call ``fn(*args, **kwargs)`` and measure it; the profile's ``result`` is what it returned.

    Measured is the calling process and, with ``set_on_spawn``, what it starts; ``rootset`` names other processes
    (``"all"``, ``"existing"``, ``"new"``, a Pid, thread, task or list). ``call_count`` counts in every process
    anyway. A coroutine function is run to its end in a new event loop. ``report="total"`` or ``"process"`` prints the
    table to ``file`` (default: standard output) too; ``per_process`` makes one table a process the profile's own
    view.

    With ``tree`` the profile has a call tree (``profile.tree()``), with inclusive time, callers, and the time that
    coroutines waited; it costs a little more.

    With ``timeout``, in seconds, ``fn`` runs in a thread of its own; when the time is over the profile so far is
    returned with ``timed_out`` set, and the thread, which Python can't end, goes on unmeasured.

    With ``children`` the processes that ``fn`` starts are measured and merged, as ``inviso tprof`` does it; those that run
    already are not, nor is what a fork server does that runs already. The profile's ``children`` says how many they were,
    ``missing`` which were not measured. One profile at a time may have them.

    An exception of ``fn`` goes through, and the measurement is lost; use a ``Profiler`` to keep it. A parameter of
    ``fn`` whose name is one of the options has to be bound first: ``functools.partial(fn, type=...)``.

    >>> import json
    >>> p = profile(json.loads, "[1, 2]", type="call_time", pattern="json.decoder")
    >>> p.result
    [1, 2]
    >>> [f.function for f in p.functions]
    ['JSONDecoder.decode', 'JSONDecoder.raw_decode']
    """
    if not callable(fn):
        raise bad("tprof.profile, fn", f"{shown(fn)} can't be called", "give the function itself, then its arguments")
    one_of("tprof.profile, type", type, CALL_TYPES)
    check_tree("tprof.profile, tree", tree, type)
    one_of("tprof.profile, sort", sort, SORTS)
    one_of("tprof.profile, report", report, ("return", *VIEWS))
    patterns = parse(pattern, "tprof.profile, pattern")
    limit = seconds("tprof.profile, timeout", timeout)
    from ._run_once import run

    view: View = "process" if per_process or report == "process" else "total"
    measured = run(
        _plain(fn), args, kwargs, type=type, tree=tree, patterns=patterns, rootset=rootset, set_on_spawn=set_on_spawn,
        timeout=limit, view=view, sort=sort, children=children,
    )  # fmt: skip
    if report != "return":
        stream = sys.stdout if file is None else file
        if stream is not None:
            put(stream, format(measured, report))
    return measured


async def aprofile(
    fn: Callable[..., Any],
    /,
    *args: Any,
    type: CallType = "call_time",
    pattern: PatternLike = (ANY, ANY, ANY),
    tree: bool = False,
    **kwargs: Any,
) -> Profile:
    """Await ``fn(*args, **kwargs)`` in the running event loop and measure it; ``result`` is what it returned.

    Measured are the task that awaits this and those that are started meanwhile by what is measured. ``call_count``
    counts everywhere, as ever. Options and errors are :func:`profile`'s.

    >>> import asyncio
    >>> async def work(): return await asyncio.sleep(0, "done")
    >>> asyncio.run(aprofile(work, pattern="asyncio.tasks", type="call_count")).result
    'done'
    """
    if not callable(fn):
        raise bad("tprof.aprofile, fn", f"{shown(fn)} can't be called", "give the function itself, then its arguments")
    check_tree("tprof.aprofile, tree", tree, one_of("tprof.aprofile, type", type, CALL_TYPES))
    patterns = parse(pattern, "tprof.aprofile, pattern")
    from ._run_once import run_here

    return await run_here(fn, args, kwargs, type=type, tree=tree, patterns=patterns)


def start(*, type: CallType = "call_count", tree: bool = False) -> Profiler:
    """Start the profiler that this module's functions work on; ``BadArg`` if there is one already.

    >>> from inviso import tprof
    >>> tprof.start(type="call_time").type
    'call_time'
    >>> tprof.stop()
    """
    global _current
    if _current is not None and _current.running:
        raise bad(
            "tprof.start, profiler",
            "the profiler runs already",
            "tprof.stop() ends it, tprof.Profiler() makes another beside it",
        )
    _current = Profiler(type=type, tree=tree)
    return _current


def stop() -> None:
    """Stop the profiler and forget what it measured; nothing happens if there is none.

    >>> from inviso import tprof
    >>> tprof.stop()
    """
    global _current
    profiler, _current = _current, None
    if profiler is not None:
        profiler.stop()


def enable_trace(procs: Procs = "all", *, set_on_spawn: bool = True) -> int:
    """Measure these processes, and with ``set_on_spawn`` those that they start; returns how many.

    Not needed for ``call_count``.

    >>> import inviso
    >>> from inviso import tprof
    >>> _ = tprof.start(type="call_time")
    >>> tprof.enable_trace(inviso.self())
    1
    >>> tprof.stop()
    """
    return _profiler("enable_trace").enable_trace(procs, set_on_spawn=set_on_spawn)


def disable_trace(procs: Procs = "all") -> int:
    """Measure these processes no longer; what was measured is kept. Returns how many.

    >>> import inviso
    >>> from inviso import tprof
    >>> _ = tprof.start(type="call_time")
    >>> _ = tprof.enable_trace(inviso.self())
    >>> tprof.disable_trace(inviso.self())
    1
    >>> tprof.stop()
    """
    return _profiler("disable_trace").disable_trace(procs)


def set_pattern(pattern: PatternLike, function: str | None = None, arity: int | str = ANY) -> int:
    """Measure these functions from zero, also those that are defined later; returns how many exist now.

    >>> from inviso import tprof
    >>> import textwrap
    >>> _ = tprof.start()
    >>> tprof.set_pattern("textwrap", "dedent", 1)
    1
    >>> tprof.stop()
    """
    return _profiler("set_pattern").set_pattern(pattern, function, arity)


def clear_pattern(pattern: PatternLike, function: str | None = None, arity: int | str = ANY) -> int:
    """Measure these functions no longer and forget what they did; returns how many there are.

    >>> from inviso import tprof
    >>> import textwrap
    >>> _ = tprof.start()
    >>> _ = tprof.set_pattern("textwrap:dedent")
    >>> tprof.clear_pattern("textwrap:dedent")
    1
    >>> tprof.stop()
    """
    return _profiler("clear_pattern").clear_pattern(pattern, function, arity)


def collect() -> Profile:
    """What was measured so far; measuring goes on.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.collect().calls
    0
    >>> tprof.stop()
    """
    return _profiler("collect").collect()


def pause() -> bool:
    """Stop measuring and keep what was measured; False if it was paused already.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.pause(), tprof.pause()
    (True, False)
    >>> tprof.stop()
    """
    return _profiler("pause").pause()


def continue_() -> bool:
    """Go on measuring after ``pause``, adding to what was measured; False if it was not paused.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.continue_(), tprof.pause(), tprof.continue_()
    (False, True, True)
    >>> tprof.stop()
    """
    return _profiler("continue_").continue_()


def restart() -> None:
    """Forget what was measured and go on from zero, also after ``pause``.

    >>> from inviso import tprof
    >>> import textwrap
    >>> _ = tprof.start()
    >>> _ = tprof.set_pattern("textwrap")
    >>> _ = textwrap.dedent(" a")
    >>> tprof.restart()
    >>> tprof.collect().calls
    0
    >>> tprof.stop()
    """
    _profiler("restart").restart()


def _profiler(where: str) -> Profiler:
    if _current is None or not _current.running:
        raise bad(f"tprof.{where}, profiler", "no profiler is started", "call tprof.start() first")
    return _current


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A coroutine function as a function that runs it to its end."""
    import inspect as inspect_

    if not any(map(inspect_.iscoroutinefunction, (fn, type(fn).__call__))):
        return fn
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return lambda *args, **kwargs: asyncio.run(fn(*args, **kwargs))
    raise bad(
        "tprof.profile, fn",
        "a coroutine function can't be run inside a running event loop",
        "await it under a tprof.Profiler",
    )
