"""What a measurement holds: plain, immutable data, and its machine-readable form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from inviso._pattern import Pattern, show

if TYPE_CHECKING:
    from inviso import Pid

__all__ = ["UNITS", "CallType", "Calls", "ChildProcess", "Function", "Profile", "Sort", "View"]

CallType: TypeAlias = Literal["call_count", "call_time", "call_memory"]
"""What is measured: calls; own time; own allocations."""

View: TypeAlias = Literal["total", "process"]
"""One table of all processes together, or one table for each."""

Sort: TypeAlias = Literal["measurement", "measurement_per_call", "calls", "function", "module"]
"""The order of a table's rows."""

CALL_TYPES: tuple[CallType, ...] = get_args(CallType)
VIEWS: tuple[View, ...] = get_args(View)
SORTS: tuple[Sort, ...] = get_args(Sort)

UNITS: dict[CallType, str] = {"call_count": "calls", "call_time": "ns", "call_memory": "words"}
"""The unit of ``measurement``, here and in the JSON form. A word is 8 bytes."""

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A thread or task of a child process, as :class:`Calls` and tables name it.

    ``os_pid`` is the number that the system gave the child, ``program`` its name in ``multiprocessing`` or what it ran.
    ``id``, ``kind`` and ``thread`` are what ``repr``, ``kind`` and ``name`` of its ``Pid`` were there.

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
        """The thread's or task's name, and its program's."""
        return f"{self.thread} of {self.program}" if self.thread else self.program

    def __repr__(self) -> str:
        return f"{self.id}@{self.os_pid}"


@dataclass(frozen=True, slots=True)
class Calls:
    """What one process did in one function.

    ``process`` is ``None`` for ``call_count``, which counts for all processes together; ``measurement`` is in the
    unit of the profile's type (``UNITS``).

    >>> Calls(process=None, calls=3, measurement=3).calls
    3
    """

    process: Pid | ChildProcess | None
    calls: int
    measurement: int


@dataclass(frozen=True, slots=True)
class Function:
    """One function that was called, with what each process did in it.

    ``module``, ``function`` and ``arity`` are its name in ``inviso.trace``. Lambdas, the functions of a property and
    redefinitions can share a name: ``filename`` and ``line``, where its code begins, tell them apart.

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

    @property
    def mfa(self) -> tuple[str, str, int]:
        """Module, function and arity, as ``inviso.trace`` takes them."""
        return self.module, self.function, self.arity

    @property
    def calls(self) -> int:
        """Calls in all processes."""
        return sum(c.calls for c in self.processes)

    @property
    def measurement(self) -> int:
        """What was measured in all processes, in the unit of the profile's type."""
        return sum(c.measurement for c in self.processes)


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """A finished measurement: functions that were called at least once, by name.

    ``result`` is what the profiled call returned (``profile`` only), ``elapsed_ns`` the wall time that was measured,
    and ``timed_out`` tells that a time limit ended the measurement first. ``view`` and ``sort`` are how
    ``str(profile)``, ``format`` and ``inspect`` show it unless told otherwise. ``children`` is the number of child processes
    that were measured, ``missing`` a sentence on those that were not, or "".

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

    @property
    def unit(self) -> str:
        """The unit of every ``measurement``: ``"calls"``, ``"ns"`` or ``"words"``."""
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
        """The function of this name, ``"module:function/arity"`` or ``"module:function"``.

        ``KeyError`` where none or several were measured.
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
        measured = "" if self.type == "call_count" else f", {self.measurement:,} {self.unit}"
        return f"<Profile of {self.type}: {text}{measured}{' (timed out)' * self.timed_out}>"

    def __str__(self) -> str:
        from ._view import format as format_

        return format_(self)

    def _repr_html_(self) -> str:
        from ._view import html

        return html(self)

    def records(self) -> list[dict[str, Any]]:
        """One flat dict for each function and process, as data frames take them.

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
        """The machine-readable form, of JSON's types only. Version 1 is:

        ==============  =====================================================================================
        version         ``1``; a later version may add keys under the same number, never change these
        type            ``"call_count"``, ``"call_time"`` or ``"call_memory"``
        unit            of every ``measurement``: ``"calls"``, ``"ns"`` or ``"words"`` (8 bytes)
        patterns        list of ``"module:function:arity"``, ``_`` for any
        elapsed_ns      wall time that was measured
        timed_out       whether a time limit ended it
        calls           of all functions together
        measurement     of all functions together
        processes       list of ``{id, kind, name, calls, measurement}``, largest measurement first; empty for
                        call_count. ``id`` is ``"<0.N.S>"``, with ``@`` and the number of the process in a child, ``kind``
                        ``"thread"`` or ``"task"``, ``name`` may be null
        functions       list of ``{module, function, arity, file, line, calls, measurement, per_call, percent,
                        processes}``, largest measurement first; ``processes`` is a list of ``{id, calls,
                        measurement}``, empty for call_count
        children        child processes that were measured, only where there were any
        missing         a sentence on those that were not, only where there were any
        ==============  =====================================================================================

        >>> Profile("call_count", (), (("_", "_", "_"),)).to_dict()["version"]
        1
        """
        total = self.measurement
        children = {"children": self.children, "missing": self.missing}
        return {
            "version": SCHEMA_VERSION,
            "type": self.type,
            "unit": self.unit,
            "patterns": [show(p) for p in self.patterns],
            "elapsed_ns": self.elapsed_ns,
            "timed_out": self.timed_out,
            "calls": self.calls,
            "measurement": total,
            "processes": self._processes(),
            "functions": [
                _function_dict(f, total) for f in sorted(self.functions, key=lambda f: (-f.measurement, f.mfa, f.line))
            ],
            **{name: value for name, value in children.items() if value},
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """``to_dict`` as JSON text.

        >>> Profile("call_count", (), ()).to_json()[:15]
        '{"version": 1, '
        """
        import json

        return json.dumps(self.to_dict(), indent=indent)

    def _processes(self) -> list[dict[str, Any]]:
        sums: dict[Pid | ChildProcess, list[int]] = {}
        for f in self.functions:
            for c in f.processes:
                if c.process is not None:
                    entry = sums.setdefault(c.process, [0, 0])
                    entry[0] += c.calls
                    entry[1] += c.measurement
        return [
            {"id": repr(pid), "kind": str(pid.kind), "name": _name(pid), "calls": calls, "measurement": measurement}
            for pid, (calls, measurement) in sorted(sums.items(), key=lambda item: (-item[1][1], _order(item[0])))
        ]


def _function_dict(f: Function, total: int) -> dict[str, Any]:
    measurement, calls = f.measurement, f.calls
    return {
        "module": f.module,
        "function": f.function,
        "arity": f.arity,
        "file": f.filename,
        "line": f.line,
        "calls": calls,
        "measurement": measurement,
        "per_call": measurement / calls if calls else 0.0,
        "percent": 100.0 * measurement / total if total else 0.0,
        "processes": [
            {"id": repr(c.process), "calls": c.calls, "measurement": c.measurement}
            for c in f.processes
            if c.process is not None
        ],
    }


def _order(process: Pid | ChildProcess) -> tuple[Any, ...]:
    """Those of this process first."""
    if isinstance(process, ChildProcess):
        return 1, process.os_pid, process.id
    return 0, process


def _name(pid: Pid | ChildProcess) -> str | None:
    return str(pid.name or "") or None
