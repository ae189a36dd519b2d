"""The data of a measurement: plain and immutable; and its form as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from inviso._pattern import Pattern

if TYPE_CHECKING:
    from inviso import Pid

    from ._tree import Caller, Tree

__all__ = [
    "BYTES_OF_A_WORD",
    "UNITS",
    "CallType",
    "Calls",
    "ChildProcess",
    "Function",
    "Node",
    "Process",
    "Profile",
    "SavedProcess",
    "Sort",
    "View",
]

CallType: TypeAlias = Literal["call_count", "call_time", "call_memory"]
"""The measurement: calls; own time; own allocations."""

View: TypeAlias = Literal["total", "process"]
"""One table for all processes together, or one table for each process."""

Sort: TypeAlias = Literal["measurement", "measurement_per_call", "calls", "cumulative", "function", "module"]
"""The order of a table's rows; ``cumulative`` needs a call tree."""

CALL_TYPES: tuple[CallType, ...] = get_args(CallType)
VIEWS: tuple[View, ...] = get_args(View)
SORTS: tuple[Sort, ...] = get_args(Sort)

UNITS: dict[CallType, str] = {"call_count": "calls", "call_time": "ns", "call_memory": "words"}
"""The unit of ``measurement``, here and in the JSON form. Tables have bytes for memory."""

BYTES_OF_A_WORD = 8


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A thread or task of a child process, in :class:`Calls` and tables.

    ``os_pid`` is the child's number in the system, ``program`` its name in ``multiprocessing`` or the program that it
    ran. ``id``, ``kind`` and ``thread`` are the ``repr``, ``kind`` and ``name`` of its ``Pid`` in the child.

    >>> child = ChildProcess(4242, "ForkPoolWorker-1", "<0.1.0>", "thread", "MainThread")
    >>> child, child.name
    (<0.1.0>@4242, 'MainThread of ForkPoolWorker-1')
    """

    os_pid: int
    program: str
    id: str
    kind: str
    thread: str

    @property
    def name(self) -> str:
        """The name of the thread or task and of its program."""
        return f"{self.thread} of {self.program}" if self.thread else self.program

    def __repr__(self) -> str:
        return f"{self.id}@{self.os_pid}"


@dataclass(frozen=True, slots=True)
class SavedProcess:
    """A thread or task of a profile that was loaded, or that was merged under a node's name.

    ``id`` is the ``repr`` of its ``Pid`` or :class:`ChildProcess`; ``node`` is "" unless ``merge`` has set it.

    >>> SavedProcess("<0.1.0>", "thread", "MainThread", "web-1")
    <0.1.0> of web-1
    """

    id: str
    kind: str
    name: str
    node: str = ""

    def __repr__(self) -> str:
        return f"{self.id} of {self.node}" if self.node else self.id


Process: TypeAlias = "Pid | ChildProcess | SavedProcess"
"""A thread or task of this program, of a child process, or of a saved profile."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The figures of one process in one function.

    ``process`` is ``None`` for ``call_count``, which counts all processes together. ``measurement`` is in the unit of
    the profile's type (``UNITS``). ``cumulative``, in the same unit, includes callees in the same process; ``None``
    without a call tree. ``waiting`` is the nanoseconds in which calls of a coroutine function were suspended.

    >>> Calls(process=None, calls=3, measurement=3).calls
    3
    """

    process: Process | None
    calls: int
    measurement: int
    cumulative: int | None = None
    waiting: int = 0


class _Sums:
    """Sums over all processes."""

    __slots__ = ()
    processes: tuple[Calls, ...]

    @property
    def calls(self) -> int:
        """Calls in all processes."""
        return sum(c.calls for c in self.processes)

    @property
    def measurement(self) -> int:
        """The own measurement, without callees, of all processes, in the unit of the profile's type."""
        return sum(c.measurement for c in self.processes)

    @property
    def waiting(self) -> int:
        """Nanoseconds in which calls of coroutines were suspended, in all processes; 0 without a call tree."""
        return sum(c.waiting for c in self.processes)


@dataclass(frozen=True, slots=True)
class Node(_Sums):
    """One place in a call tree: a function, called through one chain of callers.

    ``parent`` is the index of the caller's node in ``Profile.nodes``, always smaller than the node's own index, and
    None at the root. ``function`` is an index in ``Profile.functions``; None stands for unknown callers, where the tree
    had become too deep or too large. ``processes`` has the figures of each process there, with own time or memory.

    >>> Node(None, 0, (Calls(None, 1, 5),)).calls
    1
    """

    parent: int | None
    function: int | None
    processes: tuple[Calls, ...]


@dataclass(frozen=True, slots=True)
class Function(_Sums):
    """A function that was called, with the figures of each process.

    ``module``, ``function`` and ``arity`` are its name in ``inviso.trace``. Lambdas, the functions of a property and
    redefinitions can share a name: they differ in ``filename`` and ``line``, where the code begins.

    >>> f = Function("shop", "Cart.add", 2, "shop.py", 12, (Calls(None, 3, 3),))
    >>> f.calls, f.mfa
    (3, ('shop', 'Cart.add', 2))
    """

    module: str
    function: str
    arity: int
    filename: str
    line: int
    processes: tuple[Calls, ...]
    cumulative: int | None = None
    """The measurement with all callees, in any process; None without a call tree.

    Of a recursive function only the outermost calls count, so nothing is counted twice.
    """

    @property
    def mfa(self) -> tuple[str, str, int]:
        """Module, function and arity, as for ``inviso.trace``."""
        return self.module, self.function, self.arity


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """A finished measurement: the functions that were called at least once, by name.

    ``result`` is the result of the measured call (``profile`` only), ``elapsed_ns`` the measured wall time.
    ``timed_out`` is True if a time limit ended the measurement. ``view`` and ``sort`` are the defaults of
    ``str(profile)``, ``format`` and ``inspect``. ``children`` is the number of measured child processes; ``missing`` is
    a sentence about those that were not measured, or "". ``nodes`` is the call tree, callers first; it is empty without
    ``tree=True``.

    ``pandas.DataFrame``, polars, pyarrow and DuckDB read a profile as a table (Arrow's PyCapsule interface).

    >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
    >>> p = Profile(type="call_count", functions=(f,), patterns=(("shop", "_", "_"),))
    >>> p["shop:total/1"].calls
    4
    >>> p
    <Profile of call_count: 1 function, 4 calls>
    """

    type: CallType
    functions: tuple[Function, ...]
    patterns: tuple[Pattern, ...]
    elapsed_ns: int = 0
    result: Any = None
    timed_out: bool = False
    view: View = "total"
    sort: Sort = "measurement"
    children: int = 0
    missing: str = ""
    nodes: tuple[Node, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of every ``measurement``: ``"calls"``, ``"ns"`` or ``"words"`` of 8 bytes. Tables have bytes."""
        return UNITS[self.type]

    @property
    def calls(self) -> int:
        """Calls of all functions in all processes."""
        return sum(f.calls for f in self.functions)

    @property
    def measurement(self) -> int:
        """The sum over all functions and processes, in ``unit``."""
        return sum(f.measurement for f in self.functions)

    def __getitem__(self, name: str) -> Function:
        """The function with this name, ``"module:function/arity"`` or ``"module:function"``.

        Raises ``KeyError`` if no function, or several ones, with this name were measured.
        """
        found = [
            f for f in self.functions if name in (f"{f.module}:{f.function}/{f.arity}", f"{f.module}:{f.function}")
        ]
        if len(found) != 1:
            raise KeyError(f"{name}: {len(found)} functions of this name were measured")
        return found[0]

    def __repr__(self) -> str:
        functions, calls = len(self.functions), self.calls
        text = f"{functions:,} function{'s' * (functions != 1)}, {calls:,} call{'s' * (calls != 1)}"
        bytes_ = self.measurement * BYTES_OF_A_WORD
        own = {"call_count": "", "call_time": f", {self.measurement:,} ns", "call_memory": f", {bytes_:,} bytes"}
        return f"<Profile of {self.type}: {text}{own[self.type]}{' (timed out)' * self.timed_out}>"

    def __str__(self) -> str:
        from ._view import format as format_

        return format_(self)

    def _repr_html_(self) -> str:
        from ._view import html

        return html(self)

    def show(self, limit: int | None = 30, view: View | None = None, sort: Sort | None = None) -> None:
        """Prints the table to standard output: for each process the ``limit`` rows with the largest measurements.

        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
        >>> Profile("call_count", (f,), ()).show(5)
        FUNCTION      CALLS  [     %]
        shop:total/1      4  [100.00]
        total             4  [100.00]
        """
        import sys

        from inviso._stream import put

        from ._view import format as format_

        put(sys.stdout, format_(self, view, sort, limit=limit))

    def __add__(self, other: object) -> Profile:
        """The sum of both, as by :func:`merge`; processes with equal pids count as one."""
        if not isinstance(other, Profile):
            return NotImplemented
        from ._merge import merge

        return merge(self, other)

    @property
    def cumulative(self) -> dict[str, int]:
        """``Function.cumulative`` by ``"module:function/arity"``, largest first. ``BadArg`` without a call tree.

        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 1, 4),), cumulative=4)
        >>> Profile("call_time", (f,), (), nodes=(Node(None, 0, f.processes),)).cumulative
        {'shop:total/1': 4}
        """
        from ._tree import cumulative

        return cumulative(self)

    def tree(self) -> Tree:
        """The call tree. Its root is not a function; it stands for the whole profile. ``BadArg`` without a tree.

        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 1, 4),), cumulative=4)
        >>> root = Profile("call_time", (f,), (), nodes=(Node(None, 0, f.processes),)).tree()
        >>> root.cumulative, root.children[0].label
        (4, 'shop:total/1')
        """
        from ._tree import tree

        return tree(self)

    def callers(self, function: str | Function) -> tuple[Caller, ...]:
        """The callers of a function, the one with the largest ``cumulative`` first. ``BadArg`` without a call tree.

        ``function`` is a :class:`Function` of the profile, or a name as in ``profile[name]``, with its ``KeyError``.

        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 1, 4),), cumulative=4)
        >>> Profile("call_time", (f,), (), nodes=(Node(None, 0, f.processes),)).callers("shop:total")
        (Caller(label='', calls=1, measurement=4, cumulative=4, waiting=0),)
        """
        from ._tree import callers

        return callers(self, self[function] if isinstance(function, str) else function)

    def flame(self, *, before: Profile | None = None, view: Literal["inclusive", "own"] = "inclusive") -> Any:
        """The call tree as a flame graph, an ``inviso.picture.Picture``. ``BadArg`` without a call tree.

        With ``before``, an earlier profile, functions are colored by their growth. ``view="own"`` shows own time first,
        and callers below.
        """
        from ._tree import flame

        return flame(self, before, view)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The table as an Arrow stream (PyCapsule interface): a row for each function and process.

        Columns: ``function_id``, ``module``, ``name``, ``arity``, ``file``, ``line``, ``process_id`` and ``process``
        (null for call_count), ``calls``, ``own_ns``, ``cumulative_ns``, ``waiting_ns``, ``own_bytes``,
        ``cumulative_bytes``. Figures that were not measured are null.
        """
        from ._table import profile_stream

        return profile_stream(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of ``__arrow_c_stream__``; needs pandas and pyarrow."""
        from ._table import to_pandas

        return to_pandas(self)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with the columns of ``__arrow_c_stream__``; needs polars."""
        from ._table import to_polars

        return to_polars(self)

    def records(self) -> list[dict[str, Any]]:
        """One flat dict for each function and process, for data frames.

        Keys: module, function, arity, file, line, process (``"<0.N.S>"`` or None), calls, measurement.

        >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
        >>> Profile("call_count", (f,), ()).records()[0]["calls"]
        4
        """
        return [
            {
                "module": f.module,
                "function": f.function,
                "arity": f.arity,
                "file": f.filename,
                "line": f.line,
                "process": None if c.process is None else repr(c.process),
                "calls": c.calls,
                "measurement": c.measurement,
            }
            for f in self.functions
            for c in f.processes
        ]

    def to_dict(self) -> dict[str, Any]:
        """The profile as data of JSON's types. Version 1 has these keys:

        ==============  =====================================================================================
        version         ``1``; later keys may be added under the same number, and these never change
        type            ``"call_count"``, ``"call_time"`` or ``"call_memory"``
        unit            the unit of every ``measurement``: ``"calls"``, ``"ns"`` or ``"words"`` (8 bytes)
        patterns        list of ``"module:function:arity"``, ``_`` for any
        elapsed_ns      measured wall time
        timed_out       whether a time limit ended the measurement
        calls           the sum over all functions
        measurement     the sum over all functions
        processes       list of ``{id, kind, name, calls, measurement}``, largest measurement first; empty for
                        call_count. ``id`` is ``"<0.N.S>"``, for a child process with ``@`` and its number. ``kind`` is
                        ``"thread"`` or ``"task"``. ``name`` may be null
        functions       list of ``{module, function, arity, file, line, calls, measurement, per_call, percent,
                        processes}``, largest measurement first; ``processes`` is a list of ``{id, calls,
                        measurement}``, empty for call_count
        children        the number of measured child processes; absent if 0
        missing         a sentence about those that were not measured; absent if empty
        nodes           the call tree, callers first; absent without one. A list of ``{parent, function, processes}``.
                        ``parent`` is an index in this list, ``function`` one in ``functions``; both may be null (see
                        :class:`Node`). ``processes`` has ``{id, calls, measurement}``, and ``waiting``, in
                        nanoseconds, if it is not 0. With a tree, functions have ``cumulative`` and ``waiting``
        ==============  =====================================================================================

        >>> Profile("call_count", (), (("_", "_", "_"),)).to_dict()["version"]
        1
        """
        from ._json import to_dict

        return to_dict(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """``to_dict`` as JSON text.

        >>> Profile("call_count", (), ()).to_json()[:15]
        '{"version": 1, '
        """
        import json

        return json.dumps(self.to_dict(), indent=indent)
