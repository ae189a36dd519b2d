"""Exact profiles of running code: calls, time and memory of functions, by thread or task.

The profiler counts every call; it does not sample. There are three types of measurement. Each measures the functions
that match a pattern:

``call_count``
    calls, in all processes together; the cheapest type
``call_time``
    calls and time in each process. Time is a function's own time, without that of measured functions that it calls
``call_memory``
    calls and allocated memory in each process: bytes in tables, words of 8 bytes in ``measurement``. Freed memory is
    not subtracted

If an estimate is enough and the program makes many millions of calls a second, use a sampling profiler: its overhead is
smaller there. Functions written in C have no rows of their own; their time counts for their caller.

One call from beginning to end:

>>> from inviso import tprof
>>> import textwrap
>>> p = tprof.profile(textwrap.shorten, "hello  world", 20, pattern="textwrap")
>>> p.result, p["textwrap:shorten/3"].calls
('hello world', 1)

``print(p)`` shows the table, ``p.to_json()`` returns JSON. To measure a part of a program use a ``Profiler``, or the
functions of this module, which use one profiler for the whole program:

>>> profiler = tprof.start(type="call_count")
>>> _ = tprof.set_pattern("textwrap", "dedent")
>>> _ = textwrap.dedent(" a")
>>> tprof.collect().calls
1
>>> tprof.stop()

A pattern is ``("module", "function", arity)`` or ``"module:function:arity"``, where the last, the last two or all
parts may be ``_`` or left out. Functions that are defined or imported later are measured, too. A function that matches
no pattern is not measured, and its time counts for its caller.
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
    """Calls ``fn(*args, **kwargs)`` and measures the call.

    A coroutine function runs to its end in a new event loop. An exception of ``fn`` reaches the caller, and the
    measurement is lost; use a ``Profiler`` to keep it. If a parameter of ``fn`` has the name of an option, bind it
    first: ``functools.partial(fn, type=...)``.

    Args:
        type: the measurement.
        pattern: the functions to measure, as a pattern or a list of patterns.
        tree: True adds a call tree (``profile.tree()``), with inclusive time, callers, and the time that coroutines
            waited; the overhead is a little higher.
        per_process: True makes one table for each process the profile's default view.
        sort: the order of rows in the profile's tables.
        report: ``"total"`` or ``"process"`` also prints the table to ``file``.
        rootset: the processes to measure in place of the calling one: ``"all"``, ``"existing"``, ``"new"``, a Pid,
            thread, task or list. ``call_count`` always counts in every process.
        set_on_spawn: True also measures processes that a measured one starts.
        timeout: seconds. Then ``fn`` runs in a new thread. After that time the profile so far is returned, with
            ``timed_out`` set. Python can't end the thread: it continues without being measured.
        children: True also measures the child processes that ``fn`` starts and merges their profiles, as
            ``inviso tprof`` does. Children, and fork servers, that run already are not measured. The profile's
            ``children`` is the number of measured ones; ``missing`` names the others. Only one profile at a time may
            measure children.
        file: the stream for ``report``; None for the standard output.

    Returns:
        The profile; its ``result`` is the result of the call.

    Raises:
        BadArg: a wrong option.

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
    """Awaits ``fn(*args, **kwargs)`` in the running event loop and measures it; ``result`` of the profile is its
    result.

    It measures the task that awaits it, and the tasks and threads that measured ones start meanwhile. ``call_count``
    always counts in every process. Options and errors are those of :func:`profile`.

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
    """Starts the profiler that this module's functions use. Raises ``BadArg`` if it runs already.

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
    """Stops the profiler and deletes its counters. Does nothing without a profiler.

    >>> from inviso import tprof
    >>> tprof.stop()
    """
    global _current
    profiler, _current = _current, None
    if profiler is not None:
        profiler.stop()


def enable_trace(procs: Procs = "all", *, set_on_spawn: bool = True) -> int:
    """Measures these processes, and with ``set_on_spawn`` those that they start. Returns their number.

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
    """Ends measuring of these processes and keeps their counters. Returns their number.

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
    """Measures these functions from zero, also those that are defined later. Returns the number of existing ones.

    >>> from inviso import tprof
    >>> import textwrap
    >>> _ = tprof.start()
    >>> tprof.set_pattern("textwrap", "dedent", 1)
    1
    >>> tprof.stop()
    """
    return _profiler("set_pattern").set_pattern(pattern, function, arity)


def clear_pattern(pattern: PatternLike, function: str | None = None, arity: int | str = ANY) -> int:
    """Ends measuring of these functions and deletes their counters. Returns their number.

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
    """Returns the profile so far; measuring continues.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.collect().calls
    0
    >>> tprof.stop()
    """
    return _profiler("collect").collect()


def pause() -> bool:
    """Pauses measuring and keeps the counters; False if it was paused already.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.pause(), tprof.pause()
    (True, False)
    >>> tprof.stop()
    """
    return _profiler("pause").pause()


def continue_() -> bool:
    """Continues after ``pause``, with the same counters; False if it was not paused.

    >>> from inviso import tprof
    >>> _ = tprof.start()
    >>> tprof.continue_(), tprof.pause(), tprof.continue_()
    (False, True, True)
    >>> tprof.stop()
    """
    return _profiler("continue_").continue_()


def restart() -> None:
    """Deletes the counters and measures from zero, also after ``pause``.

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
    """Wraps a coroutine function in a function that runs it to its end."""
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
