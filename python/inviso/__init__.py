"""Trace and profile a running Python program: calls, messages, tasks. The model is Erlang's.

Start here:

* :mod:`inviso.trace`: sessions, patterns, process flags, messages (OTP's ``trace`` module).
* :mod:`inviso.tracing`: a session with its tracer, patterns and limits as one object, which knows why it ended.
* :mod:`inviso.match_spec`: filters that decide which calls give a message, and what it carries.
* :mod:`inviso.dbg`: tracing from the keyboard (OTP's ``dbg``).
* :mod:`inviso.tprof`: counts, own time and memory of functions (OTP's ``tprof``).
* :mod:`inviso.tracer`: your own code that is called at each event (OTP's ``erl_tracer``), in Python or C.
* :mod:`inviso.seq_trace`: a token that follows a request through messages and processes (OTP's ``seq_trace`` module).
* :mod:`inviso.export`: traces for Perfetto, Chrome, speedscope, flame graphs, pstats, pandas and others.
* :mod:`inviso.cluster`: traces many programs of this host together.
* :mod:`inviso.control`, :mod:`inviso.runtime`: the same by the functions of OTP's ``inviso``, and the preparation of a
  program.
* :mod:`inviso.propagate`: the tokens of ``seq_trace`` over HTTP.
* :mod:`inviso.log`: trace logs, of this package and of a real Erlang node.
* :mod:`inviso.etf`: Erlang's external term format.
* :mod:`inviso.process`: threads and tasks as processes, with pids and mailboxes.
* :func:`inviso.about`: what the package uses in this process, and what it costs.

>>> import inviso
>>> inviso.self().is_alive()
True

(For pytest, which rewrites the asserts of a plugin's package, and warns if that is imported already:
PYTEST_DONT_REWRITE.)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

try:
    from ._native.process import Pid
except ImportError as error:
    import platform

    here = f"{platform.python_implementation()} {platform.python_version()} ({platform.machine()} {sys.platform})"
    raise ImportError(
        f"inviso has no native module for this interpreter, {here}: it needs CPython 3.11 or later. "
        f"With such a one run 'python -m pip install --force-reinstall inviso'. The cause: {error}",
        name=error.name,
        path=error.path,
    ) from error
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
    from ._about import About, about
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

__version__ = "0.2.0"

__all__ = [
    "About",
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
    "about",
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

_MODULES = frozenset(
    {
        *("cluster", "control", "dbg", "etf", "export", "log", "match_spec", "process", "runtime", "seq_trace"),
        *("tprof", "trace", "trace_ports", "tracer", "tracing"),
    }
)
_OF = {
    "About": "_about",
    "AsyncCluster": "cluster._async",
    "Cluster": "cluster",
    "Session": "trace",
    "about": "_about",
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
    """Adds the magics ``%%tprof``, ``%%trace``, ``%%messages`` and ``%%tokens``, for ``%load_ext inviso``."""
    from . import _magics

    _magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Removes the magics, for ``%unload_ext inviso``."""
    from . import _magics

    _magics.unload(shell)


def __getattr__(name: str) -> Any:
    # Modules are imported at first use, so importing the package is fast.
    if name in _MODULES:
        return _module(name)
    if name in __all__:
        found = getattr(_module(_OF.get(name, "process")), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _module(name: str) -> Any:
    # not by importlib, whose Python code may be traced, even for a loaded module
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __dir__() -> list[str]:
    return sorted(__all__)
