"""Tracer modules: your own code that is called at each trace event, in the thread of the event (OTP's ``erl_tracer``).

A tracer module is any object, an instance or a module, with two callbacks, ``enabled(tag, state, tracee)`` and
``trace(tag, state, tracee, term, opts)``. With a state it is the tracer of a session, or of sequential tracing:

>>> class Names:
...     def enabled(self, tag, state, tracee):
...         return "trace"
...     def trace(self, tag, state, tracee, term, opts):
...         state.append((tag, term[1]))
>>> seen = []
>>> with inviso.trace.session_create("names", (Names(), seen)) as session:
...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
...     _ = session.process(inviso.self(), True, ["call"])
...     _ = json.loads("1")
>>> seen
[('call', 'JSONDecoder.decode')]

No event waits in a ring: the traced program continues after the callback has returned, and so waits for it. An event
costs the program a tenth of a microsecond if the tracer is a pid or a callable.

:func:`load` loads a tracer module in C: a shared library that includes ``inviso_tracer.h``, which is in the folder
:func:`inviso.include_dir`.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from .errors import BadArg, shown

if TYPE_CHECKING:
    from typing import TypeAlias

    from ._native.process import Pid
    from .terms import Port

    Answer: TypeAlias = Literal["trace", "discard", "remove"]

__all__ = ["NativeTracer", "Tracer", "load"]


class Tracer(ABC):
    """The callbacks of a tracer module (erl_tracer.md). A tracer module needn't derive from this class: any object with
    :meth:`enabled` and :meth:`trace` is one.

    Tags and their pairs of callbacks:

    ================================================================================  =======================
    call, return_to, return_from, exception_from                                       ``_call``
    send, send_to_non_existing_process                                                 ``_send``
    receive                                                                            ``_receive``
    spawn, spawned, exit, register, unregister, link, unlink, getting_linked,
    getting_unlinked (of processes)                                                    ``_procs``
    open, closed, register, unregister, link, unlink, getting_linked,
    getting_unlinked (of ports)                                                        ``_ports``
    in, out, in_exiting, out_exiting, out_exited (of processes)                        ``_running_procs``
    in, out (of ports)                                                                 ``_running_ports``
    gc_minor_start, gc_minor_end, gc_major_start, gc_major_end, gc_max_heap_size       ``_garbage_collection``
    seq_trace, trace_status                                                            the general pair
    ================================================================================  =======================

    The general pair replaces a callback that is missing. Callbacks run in the tracee's thread; if several threads are
    traced, at the same time. Callbacks are looked up once, when the tracer is set.

    * While a callback runs, its thread is not traced: no session sees its calls, and no tracer module its messages.
    * An exception of a callback is counted (``info(session, "session", "tracer_errors")``), and the first one of a
      session goes to :func:`sys.unraisablehook`; the tracee never sees it. The same holds for an answer other than
      ``"trace"``, ``"discard"`` and ``"remove"``, which means ``"discard"``.

    >>> class Senders(Tracer):
    ...     def enabled(self, tag, state, tracee):
    ...         return "trace" if tag in ("send", "trace_status") else "discard"
    ...     def trace(self, tag, state, tracee, term, opts):
    ...         state.append((tracee, opts["extra"]))
    >>> pairs, me = [], inviso.self()
    >>> with inviso.trace.session_create("senders", (Senders(), pairs)) as session:
    ...     _ = session.process(me, True, ["send", "receive"])
    ...     _ = inviso.send(me, "hello")
    >>> pairs == [(me, me)], inviso.receive("hello")
    (True, 'hello')
    """

    @abstractmethod
    def enabled(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """Decides whether an event is traced. Called before the match specification runs and before the event's terms
        are made; maybe more than once for one event.

        Args:
            tag: the event's tag; ``"seq_trace"``; or ``"trace_status"``, which asks whether this still is a tracer,
                when trace flags are switched on or read.
            state: the state that was given with the module.
            tracee: the process or port; None without one.

        Returns:
            ``"trace"``: yes. ``"discard"``: no. ``"remove"``: no, and the session removes the tracee's flags.
        """

    @abstractmethod
    def trace(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """Handles an event.

        Args:
            tag: the event's tag.
            state: the state that was given with the module.
            tracee: the process or port; for ``"seq_trace"`` the label.
            term: the fourth element of the trace message; for ``"seq_trace"`` the third.
            opts: a dict with some of ``extra`` (the fifth element, if there is one), ``match_spec_result`` (the term
                that a match specification adds), ``scheduler_id``, and ``timestamp``: the kind of the timestamp,
                ``"timestamp"``, ``"cpu_timestamp"``, ``"monotonic"`` or ``"strict_monotonic"``. The tracer has to
                read the clock itself.

        Returns:
            Anything; the value is ignored.
        """

    def enabled_call(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for calls."""
        return self.enabled(tag, state, tracee)

    def trace_call(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for calls."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_send(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for messages that are sent."""
        return self.enabled(tag, state, tracee)

    def trace_send(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for messages that are sent."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_receive(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for messages that arrive."""
        return self.enabled(tag, state, tracee)

    def trace_receive(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for messages that arrive."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_procs(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for spawns, ends, names and links of processes."""
        return self.enabled(tag, state, tracee)

    def trace_procs(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for spawns, ends, names and links of processes."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_ports(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for openings, ends, names and links of ports."""
        return self.enabled(tag, state, tracee)

    def trace_ports(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for openings, ends, names and links of ports."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_running_procs(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for processes that start or stop running."""
        return self.enabled(tag, state, tracee)

    def trace_running_procs(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for processes that start or stop running."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_running_ports(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for ports that start or stop running."""
        return self.enabled(tag, state, tracee)

    def trace_running_ports(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for ports that start or stop running."""
        return self.trace(tag, state, tracee, term, opts)

    def enabled_garbage_collection(self, tag: str, state: Any, tracee: Pid | Port | None) -> Answer:
        """As :meth:`enabled`, for collections of garbage."""
        return self.enabled(tag, state, tracee)

    def trace_garbage_collection(self, tag: str, state: Any, tracee: Any, term: Any, opts: dict[str, Any]) -> object:
        """As :meth:`trace`, for collections of garbage."""
        return self.trace(tag, state, tracee, term, opts)


class NativeTracer:
    """A tracer module in a shared library that :func:`load` has loaded. ``inviso_tracer.h`` describes the library's
    interface.

    The state that is given with it must be a term: numbers, text, bytes, atoms, pids, ports, references, and tuples,
    lists and dicts of these. Its callbacks run with the interpreter's lock held, if the interpreter has one.

    >>> import pathlib, shutil, subprocess, tempfile
    >>> source = '''
    ... #include <inviso_tracer.h>
    ... static inviso_answer enabled(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
    ... {
    ...     return INVISO_TRACE;
    ... }
    ... static void trace(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term,
    ...                   inviso_term opts)
    ... {
    ...     inviso_pid to;
    ...     if (inviso_get_local_pid(env, state, &to))
    ...         inviso_send(env, &to, tag);
    ... }
    ... static const inviso_tracer table = {
    ...     .abi = INVISO_TRACER_ABI, .size = sizeof table, .name = "tags", .enabled = enabled, .trace = trace};
    ... INVISO_TRACER(table)
    ... '''
    >>> def compiled(source):
    ...     folder = pathlib.Path(tempfile.mkdtemp())
    ...     (folder / "tags.c").write_text(source)
    ...     flags = ["-shared", "-fPIC", "-I", inviso.include_dir(), "-o", folder / "tags.so"]
    ...     subprocess.run(["cc", *flags, folder / "tags.c"], check=True)
    ...     return folder / "tags.so"
    >>> if shutil.which("cc"):
    ...     tags = load(compiled(source))
    ...     with inviso.trace.session_create("tags", (tags, inviso.self())) as session:
    ...         _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
    ...         _ = session.process(inviso.self(), True, ["call"])
    ...         _ = json.loads("1")
    ...     assert (tags.name, inviso.receive("call"), tags.unload()) == ("tags", "call", True)
    """

    __slots__ = ("_native", "_path")

    def __init__(self, path: str, native: _native.trace.Library) -> None:
        self._path = path
        self._native = native

    @property
    def path(self) -> str:
        """The file from which it was loaded."""
        return self._path

    @property
    def name(self) -> str | None:
        """The name in the library's table; None after it was unloaded."""
        return self._native.name

    def upgrade(self, path: str | os.PathLike[str] | None = None, info: Any = None) -> None:
        """Replaces the library by a new build, whose ``upgrade`` gets the data of the old one. Sessions use the new one
        from then on.

        Args:
            path: the file; None for the file from which it was loaded.
            info: a term for ``upgrade``.

        Raises:
            BadArg: the library is refused; the old one stays in use.
        """
        where = "upgrade/3"
        file = self._path if path is None else _file(where, path)
        _refusing(where, file, lambda alias: self._native.upgrade(alias, info))
        self._path = file

    def unload(self) -> bool:
        """Unloads the library after all running callbacks have returned; False if it had been unloaded before.

        Inside a callback it doesn't wait. For sessions with this tracer it is dead: at the next event of a tracee, they
        remove its flags.
        """
        return self._native.unload()

    def __repr__(self) -> str:
        name = self.name
        return f"<tracer {name!r} of {self._path}>" if name is not None else f"<unloaded tracer of {self._path}>"


def load(path: str | os.PathLike[str], info: Any = None) -> NativeTracer:
    """Loads a shared library that is a tracer module; see :class:`NativeTracer`.

    Args:
        path: the file.
        info: a term for the library's ``load``.

    Raises:
        BadArg: there is no such file, or it is refused: it was built for another machine or another version of the
            header, it lacks a symbol or callback, or its ``load`` refuses.

    >>> load("./no_such_tracer.so")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: load/2, path: there is no file './no_such_tracer.so'; pass a shared library
    """
    where = "load/2"
    file = _file(where, path)
    return NativeTracer(file, _refusing(where, file, lambda alias: _native.trace.Library(alias, info)))


def _file(where: str, path: Any) -> str:
    try:
        file = os.fsdecode(path)
    except TypeError:
        raise BadArg(where, "path", f"{shown(path)} is not a path; pass the file of a shared library") from None
    if not os.path.isfile(file):
        raise BadArg(where, "path", f"there is no file {shown(file)}; pass a shared library")
    return os.path.abspath(file)


_loads = itertools.count()


def _spelled(file: str, number: int) -> str:
    """The same path, spelled differently for each number."""
    folder, name = os.path.split(file)
    return os.path.join(folder, "".join("./" if digit == "1" else "/" for digit in f"{number + 1:b}") + name)


def _refusing(where: str, file: str, load: Any) -> Any:
    # glibc's loader identifies a library by its path, even if the file has changed, so each load gets its own spelling
    alias = _spelled(file, next(_loads))
    try:
        return load(alias)
    except OSError as error:
        raise BadArg(where, "path", f"{file} {str(error).replace(alias, file)}") from None
    except TypeError as error:
        raise BadArg(where, "info", f"{error}; pass a term") from None
    except _native.trace.LimitReached:
        raise BadArg(where, "info", "it is too large, or nests too deep; pass a smaller term") from None


def _own(module: Any, name: str) -> Any:
    """A callback of the module; None if it is only the base class's fallback, which needs no call."""
    found = getattr(module, name, None)
    return None if getattr(found, "__func__", None) is getattr(Tracer, name) else found


def _checked(where: str, module: NativeTracer, state: Any) -> Any:
    if module.name is None:
        raise BadArg(where, "tracer", f"{shown(module)} is gone; load it anew")
    try:
        _native.etf.term_to_binary(state)
    except (TypeError, _native.trace.LimitReached) as error:
        raise BadArg(where, "tracer", f"the state of {shown(module)} is not a term: {error}; pass one") from None
    return state


def given(where: str, tracer: tuple[Any, ...]) -> tuple[Any, Any, list[Any]]:
    """Checks a tracer, and returns the module, the state and the callbacks for the native half.

    Raises:
        BadArg: it is not a pair, or a callback is missing or can't be called.
    """
    if len(tracer) != 2:
        raise BadArg(where, "tracer", f"{shown(tracer)} is not a tracer module; pass (module, state)")
    module, state = tracer
    if isinstance(module, NativeTracer):
        return module, _checked(where, module, state), [module._native]
    callbacks = []
    for pair in _native.trace.tracer_pairs():
        names = ("enabled" + pair, "trace" + pair)
        found = [_own(module, name) for name in names]
        for name, callback in zip(names, found, strict=True):
            if callback is not None and not callable(callback):
                raise BadArg(where, "tracer", f"{name} of {shown(module)} is not callable; make it a function")
        if not pair:
            missing = [f"{name}()" for name, callback in zip(names, found, strict=True) if callback is None]
            if missing:
                why = (
                    f"{shown(module)} is not a tracer module: it has no {' and no '.join(missing)}; add what is missing"
                )
                raise BadArg(where, "tracer", why)
        callbacks += found
    return module, state, callbacks
