"""Trace and profile a running Python program: calls, messages, tasks. The model is Erlang's.

Start here:

* :mod:`inviso.trace`: sessions, patterns, process flags, messages (OTP's ``trace`` module).
* :mod:`inviso.tracing`: a session with its tracer, patterns and limits as one object, and why it ended.
* :mod:`inviso.match_spec`: which calls are wanted, and what their messages carry.
* :mod:`inviso.dbg`: tracing from the keyboard (OTP's ``dbg``).
* :mod:`inviso.tprof`: how often each function was called, and its own time and memory (OTP's ``tprof``).
* :mod:`inviso.tracer`: code that is called where an event happens (OTP's ``erl_tracer``), in Python or C.
* :mod:`inviso.seq_trace`: a token that follows a message wherever it goes (OTP's ``seq_trace`` module).
* :mod:`inviso.export`: traces for Perfetto, Chrome, speedscope, flame graphs, pstats, pandas and others.
* :mod:`inviso.cluster`: many processes of this host, traced together.
* :mod:`inviso.control`, :mod:`inviso.runtime`: the same by the functions of OTP's ``inviso``, and what prepares a process.
* :mod:`inviso.propagate`: such tokens over HTTP.
* :mod:`inviso.log`: trace logs, of this package and of a real Erlang node.
* :mod:`inviso.etf`: Erlang's external term format.
* :mod:`inviso.process`: threads and tasks as processes, with pids and mailboxes.

>>> import inviso
>>> inviso.self().is_alive()
True

(For pytest, which rewrites the asserts of a plugin's package, and warns if that is imported already: PYTEST_DONT_REWRITE.)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._native import Pid
from .errors import BadArg, SystemLimit
from .terms import Atom, BitString, Cut, ImproperList, Map, Opaque, Port, Record, Ref

if TYPE_CHECKING:
    from . import (
        cluster,
        control,
        dbg,
        etf,
        export,
        log,
        match_spec,
        process,
        runtime,
        seq_trace,
        tprof,
        trace,
        tracer,
        tracing,
    )
    from .cluster import Cluster
    from .cluster._async import AsyncCluster
    from .match_spec import MatchSpec, Prefix, match_spec_test, ms
    from .process import (
        areceive,
        demonitor,
        exit,
        link,
        links,
        monitor,
        node,
        peek,
        pid,
        port,
        ports,
        process_flag,
        processes,
        receive,
        register,
        registered,
        self,
        send,
        send_after,
        set_node,
        spawn,
        trap_exit,
        unlink,
        unregister,
        whereis,
    )
    from .trace import Session

__version__ = "0.1.0"

__all__ = [
    "AsyncCluster",
    "Atom",
    "BadArg",
    "BitString",
    "Cluster",
    "Cut",
    "ImproperList",
    "Map",
    "MatchSpec",
    "Opaque",
    "Pid",
    "Port",
    "Prefix",
    "Record",
    "Ref",
    "Session",
    "SystemLimit",
    "areceive",
    "cluster",
    "control",
    "dbg",
    "demonitor",
    "etf",
    "exit",
    "export",
    "include_dir",
    "link",
    "links",
    "log",
    "match_spec",
    "match_spec_test",
    "monitor",
    "ms",
    "node",
    "peek",
    "pid",
    "port",
    "ports",
    "process",
    "process_flag",
    "processes",
    "receive",
    "register",
    "registered",
    "runtime",
    "self",
    "send",
    "send_after",
    "seq_trace",
    "set_node",
    "spawn",
    "tprof",
    "trace",
    "trace_ports",
    "tracer",
    "tracing",
    "trap_exit",
    "unlink",
    "unregister",
    "whereis",
]

_MODULES = frozenset({
    *("cluster", "control", "dbg", "etf", "export", "log", "match_spec", "process", "runtime", "seq_trace"),
    *("tprof", "trace", "trace_ports", "tracer", "tracing"),
})
_OF = {
    "AsyncCluster": "cluster._async",
    "Cluster": "cluster",
    "Session": "trace",
    "MatchSpec": "match_spec",
    "Prefix": "match_spec",
    "match_spec_test": "match_spec",
    "ms": "match_spec",
}


def include_dir() -> str:
    """The folder of ``inviso_tracer.h``, for the compiler of a tracer module in C (:func:`inviso.tracer.load`).

    >>> import pathlib
    >>> (pathlib.Path(inviso.include_dir()) / "inviso_tracer.h").is_file()
    True
    """
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext inviso`` calls: adds the magics ``%%tprof``, ``%%trace``, ``%%messages`` and ``%%tokens``."""
    from . import _magics

    _magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext inviso`` calls: takes them away."""
    from . import _magics

    _magics.unload(shell)


def __getattr__(name: str) -> Any:
    # An import costs what is used: modules come in at their first mention.
    if name in _MODULES:
        return _module(name)
    if name in __all__:
        found = getattr(_module(_OF.get(name, "process")), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _module(name: str) -> Any:
    # not by importlib, which runs Python code that may be traced, even where the module is there
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __dir__() -> list[str]:
    return sorted(__all__)
