"""Trace sessions: who is traced, which functions, and where the messages go (OTP's ``trace`` module).

All tracing is done in a session. Sessions don't see each other: each has its own patterns, process flags, counters and
tracer, and all of it goes with the session.

>>> from inviso import trace
>>> import json
>>> with trace.session_create("first") as session:
...     _ = trace.function(session, ("json.decoder", "JSONDecoder.decode", "_"), True, ["call_count"])
...     _ = json.loads("[1]"), json.loads("[2]")
...     trace.info(session, ("json.decoder", "JSONDecoder.decode", 3), "call_count")
('call_count', 2)

Functions have the names, argument order and results of trace.md; ``undefined`` is None, ``false`` is False, atoms are
:class:`inviso.Atom`, which compare equal to plain ``str``.
"""

from __future__ import annotations

import atexit
import difflib
import opcode as opcode  # what the native part asks: a file of the program's may have this name later
import os
import signal as signals
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _fork, _native, _program, trace_ports
from ._native import Pid
from ._system import Flag, RLock, allocate_lock, get_ident, get_native_id, start_new_thread
from .errors import BadArg, SystemLimit, check_timeout, is_text, shown
from .match_spec import compiled, derives, word
from .process import _is_gone, _tracee, _why_no_process
from .terms import Atom, Port, Ref
from .trace_ports import PortGenerator, TracePort

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType
    from typing import TypeAlias

    Process: TypeAlias = threading.Thread | asyncio.Task[Any]
    Mfa: TypeAlias = tuple[str, str, int | Literal["_"]]
    Tracer: TypeAlias = Pid | Process | TracePort | Callable[[Any], object] | tuple[Any, Any] | None
    Spec: TypeAlias = bool | Literal["restart", "pause"] | list[Any]

__all__ = [
    "Delivered",
    "Dump",
    "Session",
    "control_word",
    "delivered",
    "dump",
    "function",
    "info",
    "port",
    "process",
    "recv",
    "send",
    "session_create",
    "session_destroy",
    "session_info",
    "system",
]

_COUNT, _TIME, _MEMORY, _LATENCY, _LOCAL, _GLOBAL, _META = (1 << n for n in range(7))
_KINDS = {
    "global": _GLOBAL,
    "local": _LOCAL,
    "meta": _META,
    "call_count": _COUNT,
    "call_time": _TIME,
    "call_memory": _MEMORY,
    "call_latency": _LATENCY,
}
_COUNTERS = _COUNT | _TIME | _MEMORY | _LATENCY
_MESSAGES = _LOCAL | _GLOBAL | _META

_FLAGS = {name: 1 << bit for bit, name in enumerate((
    "call", "return_to", "arity", "silent", "procs", "send", "receive", "running", "running_procs", "running_ports",
    "exiting", "garbage_collection", "ports", "set_on_spawn", "set_on_first_spawn", "set_on_link", "set_on_first_link",
    "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp", "scheduler_id", "cpu_timestamp",
))}  # fmt: skip
_ALL = (1 << 21) - 1
_SETTABLE = _FLAGS | {"all": _ALL}
_ITEMS = ("traced", "match_spec", "meta", "meta_match_spec", "call_memory", "call_time", "call_count")
_OPTIONS: dict[str, Any] = {
    "ring_bytes": 1 << 20,
    "overflow": "drop",
    "block_ms": 1000,
    "ended_processes": 1024,
    "capture": None,
    "repr": False,
    "clock": "fast",
    "share": 1,
    "dump_to": None,
    "dump_signal": None,
    "dump_on": None,
    "dump_slower": None,
    "dump_every": 10.0,
}
# The words for all processes or ports of a kind.
_GROUPS = {
    "procs": {word: word.removesuffix("_processes") for word in ("all", "existing", "new", "existing_processes", "new_processes")}
    | {"processes": "all"},
    "ports": {word: word.removesuffix("_ports") for word in ("all", "existing", "new", "existing_ports", "new_ports")}
    | {"ports": "all"},
}
_NO_DUMP = {signals.SIGKILL, signals.SIGSTOP, signals.SIGSEGV, signals.SIGBUS, signals.SIGFPE, signals.SIGILL}
# What is taken of a call's arguments: containers inside each other, items of one, bytes of one text or int, of all.
_CAPTURE = {"depth": 8, "items": 100, "bytes": 1024, "total": 4096}
_CAPTURE_RANGE = {"depth": (0, 64), "items": (0, 1 << 20), "bytes": (0, 60_000), "total": (64, 60_000)}
# The thread of a trace port wakes by a timer.
_PORT_RING = 8 << 20
_NUMBERS = {"ring_bytes": "bytes", "ended_processes": "processes", "block_ms": "milliseconds"}


class Session:
    """A trace session: a handle with the calls of this module as methods.

    A handle that :func:`session_create` returned is strong: the session ends when the last one is gone, at the end of a
    ``with`` block, or by :meth:`destroy`. Handles out of :func:`session_info` are weak and keep nothing alive.
    A tracer that has its own session goes with it, as any circle of objects.

    A session whose tracer is None is its own tracer: iterate over it, or :meth:`receive`.

    >>> session = session_create("own")
    >>> session
    <session 'own' #...>
    >>> session.destroy(), session.destroy()
    (True, False)
    """

    __slots__ = ("__weakref__", "_kept", "_native", "_owner", "_worker")

    def __init__(
        self,
        native: _native.Session,
        worker: _Worker | None = None,
        kept: object = None,
        owner: _Owner | None = None,
    ) -> None:
        self._native = native
        self._worker = worker
        self._kept = kept
        """What its native half knows by address."""
        self._owner = owner
        """Of a strong handle."""

    @property
    def name(self) -> Atom | bool | None:
        """The name that its maker gave it, an atom."""
        return Atom(self._native.name)  # type: ignore[no-any-return]

    @property
    def id(self) -> int:
        """Its number; no other session of this process ever has it."""
        return self._native.id

    def is_alive(self) -> bool:
        """Whether it has not been destroyed."""
        return self._native.is_alive()

    def destroy(self) -> bool:
        """As :func:`session_destroy`."""
        return session_destroy(self)

    def process(self, procs: Pid | Process | str, how: bool, flags: Iterable[str]) -> int:
        """As :func:`process`."""
        return process(self, procs, how, flags)

    def function(self, mfa: Mfa | str, match_spec: Spec, flags: Iterable[str] = ()) -> int:
        """As :func:`function`."""
        return function(self, mfa, match_spec, flags)

    def port(self, ports: Port | Any, how: bool, flags: Iterable[str]) -> int:
        """As :func:`port`."""
        return port(self, ports, how, flags)

    def send(self, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
        """As :func:`send`."""
        return send(self, match_spec, flags)

    def recv(self, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
        """As :func:`recv`."""
        return recv(self, match_spec, flags)

    def system(self, event: str, value: bool | int | tuple[int, int]) -> None:
        """As :func:`system`."""
        system(self, event, value)

    def info(self, what: Pid | Port | Mfa | str | Any, item: str) -> Any:
        """As :func:`info`."""
        return info(self, what, item)

    def delivered(self, tracee: Pid | Process | str = "all") -> Delivered:
        """As :func:`delivered`."""
        return delivered(self, tracee)

    def dump(self, to: str | os.PathLike[str] | TracePort, *, compress: bool = False) -> Dump:
        """As :func:`dump`."""
        return dump(self, to, compress=compress)

    def receive(self, timeout: float | None = None) -> Any:
        """The next message, oldest first; waits for it.

        Args:
            timeout: seconds; None waits for ever, 0 looks once.

        Raises:
            BadArg: the session has a tracer, which gets its messages.
            TimeoutError: no message came in time.
            EOFError: the session has been destroyed and read to its end.
        """
        self._own("receive/2")
        check_timeout("receive/2", timeout)
        message = self._native.receive(timeout)
        if message is not None:
            return message
        if not self._native.is_alive():
            raise EOFError(f"{self!r} has been destroyed and read to its end")
        raise TimeoutError(f"no trace message came in {timeout} s")

    def drain(self) -> list[Any]:
        """All messages that are there now; does not wait.

        Raises:
            BadArg: the session has a tracer, which gets its messages.
        """
        self._own("drain/1")
        return self._native.drain()

    def __iter__(self) -> Iterator[Any]:
        """Messages as they come; ends when the session has been destroyed and read to its end."""
        self._own("iter/1")
        while True:
            try:
                yield self.receive()
            except EOFError:
                return

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.destroy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._native == other._native

    def __hash__(self) -> int:
        return hash(self._native)

    def __repr__(self) -> str:
        weak = "" if self._native.is_strong else "weak "
        return f"<{weak}session {self.name!r} #{self._native.id}>"

    def _repr_html_(self) -> str:
        from ._table import Table

        native = self._native
        to = native.tracer or native.module or (native.port and "a trace port") or "the session itself"
        alive = native.is_alive()
        row = (repr(self.name), str(self.id), "alive" if alive else "destroyed", str(to), f"{native.dropped():,}")
        return Table(("session", "number", "state", "messages go to", "lost"), [row], numbers=("number", "lost")).html()

    def _takes_objects(self) -> bool:
        return self._native.takes_objects

    def _own(self, function: str) -> None:
        if self._native.has_module:
            why = f"{shown(self)} calls its tracer module, and has no messages; make one with tracer None"
            raise BadArg(function, "session", why)
        if self._native.tracer is not None or self._native.port is not None:
            raise BadArg(function, "session", f"the messages of {shown(self)} go to its tracer; make one with tracer None")


class Dump(NamedTuple):
    """What :func:`dump` has written."""

    path: str | None
    """The file; None of a socket."""
    written: int
    """Messages."""
    dropped: int
    """Messages that were lost or overwritten since the last dump."""


class Delivered(Ref):
    """The reference that :func:`delivered` answers.

    >>> with session_create("d") as session:
    ...     session.delivered().wait(1)
    True
    """

    __slots__ = ("_done",)

    def __init__(self) -> None:
        super().__init__()
        self._done = Flag()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every earlier message has arrived; False if it took longer than ``timeout`` seconds."""
        check_timeout("wait/2", timeout)
        return self._done.wait(timeout)


def session_create(
    name: str | bool | None, tracer: Tracer = None, opts: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
) -> Session:
    """Makes a trace session (trace.md, ``session_create/3``).

    Args:
        name: an atom, so True, False and None, too; shown by :func:`session_info`. Several sessions may have one name.
        tracer: a :class:`inviso.Pid`, thread or task (messages go to its mailbox), a callable (a tracer thread calls it with each
            message), a :class:`inviso.trace_ports.TracePort` (a file or socket gets them; it is closed with the last
            session whose tracer it is), ``(tracer module, state)`` (:mod:`inviso.tracer`: called where the event
            happens), or None (the session itself: iterate over it).
        opts: a dict, or pairs, of:

            ``ring_bytes``
                bytes of one thread's ring, 1 MiB; 8 MiB where the tracer is a trace port.
            ``overflow``
                what a full ring does: ``"drop"``, ``"overwrite"`` (keep the newest), ``"block"`` (wait up to
                ``block_ms`` milliseconds, 1000).
            ``ended_processes``
                how many of them keep their counters apart, 1024.
            ``capture``
                how much of a call's arguments is copied: a dict out of ``depth`` (containers inside each other, 8),
                ``items`` (of one container, 100), ``bytes`` (of one str, bytes or int, 1024) and ``total`` (bytes of
                all arguments, 4096). Or ``"ref"``: the objects themselves, which the session keeps alive until their
                message has been taken.
            ``repr``
                True: an :class:`inviso.Opaque` has its object's ``repr`` as ``text``. That runs the program's own code
                at each such call.
            ``clock``
                where time stamps come from: ``"fast"`` (the processor's counter, kept in line with the system's
                clocks), or ``"system"`` (those clocks themselves, asked at each event).
            ``share``
                the part of the interpreter's time that a callable tracer may take, above 0 and up to 1 (default 1: all). Its
                thread rests when it has used that. Records that come meanwhile wait in the rings; full rings drop records
                and count them at their place.
            ``dump_to``
                makes the session a flight recorder, whose tracer is None: ``overflow`` is ``"overwrite"`` unless told
                otherwise, and what the rings hold is written to a new file of this name, ``{n}`` in it being the dump's
                number (else that is added), the next one that is free, when the match spec action ``("dump",)`` runs and:
            ``dump_signal``
                when this signal comes; who handled it before still does. Where nobody did, what the system does then
                follows the dump: SIGTERM ends the process. SIGUSR1, SIGUSR2 and the real-time signals dump only.
            ``dump_on``
                when an exception_from of the session tells of this exception: a class or a tuple of classes, and those
                derived from them; a class's name, as the message has it; or a match specification that looks at
                ``[class, value]``.
            ``dump_slower``
                ``(mfa, seconds)``: when a call of the function takes so long. It sets call_latency on it;
                ``"module:name:arity"`` is an MFA, too. Functions that are defined later, or defined anew, are not taken:
                ``session.function(mfa, True, ["call_latency"])`` takes them then, and says how many they are.
            ``dump_every``
                the shortest time between two such dumps in seconds, 10; what asks before is ignored.

    Raises:
        BadArg: a wrong argument.
        SystemLimit: too many sessions.

    >>> seen = []
    >>> with session_create("calls", seen.append) as session:
    ...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
    ...     _ = session.process(inviso.self(), True, ["call", "arity"])
    ...     _ = json.loads("1")
    ...     _ = session.delivered().wait(5)
    >>> seen[0][2:]
    ('call', ('json.decoder', 'JSONDecoder.decode', 3))

    >>> with session_create("short", None, {"capture": {"items": 2}}) as session:
    ...     _ = session.function(("json", "dumps", "_"), True, ["local"])
    ...     _ = session.process(inviso.self(), True, ["call"])
    ...     _ = json.dumps([1, 2, 3])
    ...     session.receive(5)[3][2][0]
    [1, 2, <cut: items>]
    """
    return _session_create(name, tracer, opts)


def _session_create(
    name: str | bool | None,
    tracer: Tracer,
    opts: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    switched: Session | None = None,
) -> Session:
    """As :func:`session_create`; match specifications of the new session switch the flags of another one, if that is given."""
    where = "session_create/3"
    for atom, constant in (("true", True), ("false", False), ("undefined", None)):
        name = atom if name is constant else name
    if not is_text(name):
        raise BadArg(where, "name", f"{shown(name)} is not a str without lone surrogates; pass a name such as 'my_session'")
    options = _options(where, opts)
    module: Any = None
    port, recorded = None, _recorded(where, tracer, options)
    if isinstance(tracer, PortGenerator):
        raise BadArg(where, "tracer", f"{shown(tracer)} opens a port when it is called; pass what it returns")
    if isinstance(tracer, TracePort):
        if options["capture"] == "ref":
            why = "capture 'ref' hands over objects, and a trace port writes copies; drop one of them"
            raise BadArg(where, "opts", why)
        port, tracer = trace_ports.checked(where, "tracer", tracer), None
        if "ring_bytes" not in options["given"]:
            options["ring_bytes"] = _PORT_RING
    if tracer is not None and not callable(tracer):
        tracer = _tracee(tracer)
    if isinstance(tracer, Pid):
        _process(where, "tracer", tracer)
    elif isinstance(tracer, tuple):
        module = _module(where, tracer, options)
    elif tracer is not None and not callable(tracer):
        why = f"{shown(tracer)} is not a tracer; pass a Pid, a callable, (module, state), or None for the session itself"
        raise BadArg(where, "tracer", why)
    called = _native.TracerFunction(tracer) if callable(tracer) and not module else None
    _check_share(where, options, called is not None)
    worker = _Worker(name, called.weak(), options["share"]) if called else None
    pid = tracer if isinstance(tracer, Pid) else worker.pid if worker else None
    try:
        native = _native.session_create(
            str(name), pid, options["ring_bytes"], options["overflow"], options["block_ms"],
            options["ended_processes"], *_taking(options), options["clock"], module, port, recorded,
            _STEP if options["share"] < 1 else None, None if switched is None else switched._native,
        )  # fmt: skip
    except BaseException as error:
        if worker:
            worker.stop()
        if isinstance(error, _native.LimitReached):
            raise SystemLimit(f"{where}: {error}") from None
        raise
    session = Session(native, worker, recorded, _Owner(native, worker, called))
    _strong.add(session)
    if recorded is not None:
        _record(session, options)
    return session


def _module(where: str, tracer: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    from .tracer import NativeTracer, given  # what few programs use comes in at its first mention

    if tracer and isinstance(tracer[0], NativeTracer) and options["capture"] == "ref":
        raise BadArg(where, "opts", "capture 'ref' hands over Python objects, and the tracer is a library; drop it")
    return given(where, tracer)
def _recorded(
    where: str, tracer: Any, options: dict[str, Any]
) -> tuple[_native.MatchProgram | list[type[BaseException]] | None, float | None] | None:
    """Checks the options of a flight recorder; what asks for its dumps, None for any other session."""
    asks = [name for name in ("dump_signal", "dump_on", "dump_slower") if options[name] is not None]
    asks += ["dump_every"] * ("dump_every" in options["given"])
    every = options["dump_every"]
    if not isinstance(every, (int, float)) or isinstance(every, bool) or not 0 <= every < 1e9:
        raise BadArg(where, "opts", f"dump_every {shown(every)} is no time; pass seconds, a number from 0")
    if options["dump_to"] is None:
        if asks:
            raise BadArg(where, "opts", f"{asks[0]} needs files to write to; pass dump_to, a path such as 'dump-{{n}}'")
        return None
    path = options["dump_to"]
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in os.fsdecode(path):
        raise BadArg(where, "opts", f"dump_to {shown(options['dump_to'])} is no path; pass one such as 'dump-{{n}}'")
    if tracer is not None:
        raise BadArg(where, "opts", "dump_to is for a session that is its own tracer; pass None as the tracer")
    if options["capture"] == "ref":
        raise BadArg(where, "opts", "capture 'ref' hands over objects, and a dump has copies; drop one of them")
    number = options["dump_signal"]
    if number is not None:
        known = isinstance(number, int) and not isinstance(number, bool) and number in signals.valid_signals()
        if not known or number in _NO_DUMP:
            raise BadArg(where, "opts", f"dump_signal {shown(number)} can't be handled; pass one such as signal.SIGUSR2")
    exceptions = None if options["dump_on"] is None else _exceptions(where, options["dump_on"])
    seconds = None
    if options["dump_slower"] is not None:
        pair = options["dump_slower"]
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise BadArg(where, "opts", f"dump_slower {shown(pair)} is no limit; pass (mfa, seconds)")
        mfa, seconds = pair
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e9:
            raise BadArg(where, "opts", f"dump_slower, {shown(seconds)} is no time; pass seconds, a number from 0")
        if isinstance(mfa, str):
            mfa = tuple(mfa.rsplit(":", 2))
            if len(mfa) == 3 and mfa[2].isdecimal():
                mfa = (*mfa[:2], int(mfa[2]))
        _mfa(where, "opts", mfa, wildcards=True)
        options["dump_slower"] = mfa
    if "overflow" not in options["given"]:
        options["overflow"] = "overwrite"
    return exceptions, seconds


def _exceptions(where: str, asked: Any) -> _native.MatchProgram | list[type[BaseException]]:
    if isinstance(asked, str) and asked:
        return compiled(where, [(["_", (Atom(asked), "_")], [], [])], "receive")
    classes = asked if isinstance(asked, tuple) else (asked,)
    if classes and all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        return list(classes)
    if derives(asked, list) and list.__len__(asked):
        return compiled(where, asked, "receive")
    why = f"dump_on {shown(asked)} is no exception; pass a class, a class's name, or a match specification"
    raise BadArg(where, "opts", why)


def _record(session: Session, options: dict[str, Any]) -> None:
    path = os.path.abspath(os.fsdecode(options["dump_to"]))  # the program may go elsewhere
    template = path if "{n}" in path else path + ".{n}"
    try:
        _native.set_program(_program.name())
        session._native.record(template, options["dump_every"], int(options["dump_signal"] or 0))
        if options["dump_slower"] is not None:
            function(session, options["dump_slower"], True, ["call_latency"])
    except BaseException:
        session.destroy()
        raise


def dump(session: Session, to: str | os.PathLike[str] | TracePort, *, compress: bool = False) -> Dump:
    """Writes to a log what the rings of a session hold now, oldest first; the next dump begins where this one ends.

    Args:
        session: one that is its own tracer. A flight recorder, whose ``overflow`` is ``"overwrite"``, has the newest
            messages in its rings; with ``"drop"`` they are the oldest that fitted. What has been received from it, or was
            brought in by ``delivered``, is not written.
        to: a file's name, or an open trace port.
        compress: as of :func:`inviso.trace_ports.trace_port`.

    Returns:
        A :class:`Dump`. The log begins with a drop record if messages were overwritten since the last dump.

    Raises:
        BadArg: a wrong argument.
        OSError: the operating system refuses. If the file could be made, what it lacks is lost: it is counted, and the
            next dump begins with a drop record of it.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with session_create("black box", None, {"overflow": "overwrite"}) as session:
    ...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
    ...     _ = session.process(inviso.self(), True, ["call"])
    ...     _ = json.loads("[1]"), json.loads("[2]")
    ...     session.dump(folder.name + "/box")[1:]
    (2, 0)
    >>> folder.cleanup()
    """
    where = "dump/2"
    native = _session(where, session)
    if native.tracer is not None or native.port is not None:
        raise BadArg(where, "session", f"the messages of {shown(session)} go to its tracer; make one with tracer None")
    if session._takes_objects():
        raise BadArg(where, "session", f"{shown(session)} has objects (capture 'ref'), which no log takes; drop that option")
    if not isinstance(compress, bool):
        raise BadArg(where, "compress", f"{shown(compress)} is not a bool; pass True or False")
    if isinstance(to, TracePort):
        if compress:
            raise BadArg(where, "compress", "a trace port is compressed or not when it is opened; drop compress")
        if not to.is_open():
            raise BadArg(where, "to", f"{shown(to)} takes nothing more; open another one")
        return Dump(to.path, *native.dump_to_port(to._native))
    path = trace_ports.path_of(where, "to", to)
    trace_ports.no_pipe(where, "to", path)
    _native.set_program(_program.name())
    return Dump(path, *native.dump_to_file(path, compress))


def session_destroy(session: Session) -> bool:
    """Ends a session and everything that it has set; False if it had ended before (trace.md, ``session_destroy/1``).

    Messages that have been sent can still be read; a callable tracer has handled them, or was waited for 5 seconds. No
    callback of a tracer module runs any more, unless this is called inside one.

    Raises:
        BadArg: ``session`` is not a session.

    >>> session_destroy(session_create("short"))
    True
    """
    if not isinstance(session, Session):
        raise BadArg("session_destroy/1", "session", f"{shown(session)} is not a session; session_create() makes one")
    worker = session._worker
    if worker and session._native.is_alive():
        session._native.pump()
    done = session._native.destroy()
    if worker:
        worker.stop()
    return done


def session_info(what: Pid | Port | Mfa | str | Any) -> list[Session] | None:
    """Which sessions affect something, as weak handles; None if it doesn't exist (trace.md, ``session_info/1``).

    Args:
        what: ``"all"``, a Pid, a Port, or the thread, task, socket, subprocess or transport itself; an MFA without
            wildcards, ``"new"``, ``"new_processes"``, ``"new_ports"``, ``"on_load"``, ``"send"``, ``"receive"``.

    Raises:
        BadArg: ``what`` is none of these.

    >>> with session_create("seen") as session:
    ...     session_info("all") == [session]
    True
    """
    where = "session_info/1"
    what = _tracee(what)
    every = [Session(native) for native in _native.sessions()]
    if isinstance(what, Pid):
        _process(where, "what", what)
        if not what.is_alive():
            return None
        return [s for s in every if s._native.flags_of(what)]
    if isinstance(what, Port):
        if not what.is_local():
            raise BadArg(where, "what", f"{shown(what)} is a port of another node; pass one of this node")
        return [s for s in every if s._native.flags_of(what)] if _native.port_exists(what) else None
    if isinstance(what, str):
        if what == "all":
            return every
        if what in ("new", "new_processes"):
            return [s for s in every if s._native.new_flags(False)]
        if what == "new_ports":
            return [s for s in every if s._native.new_flags(True)]
        if what in ("send", "receive"):
            return [s for s in every if s._native.messages_of(what == "receive") is not False]
        if what == "on_load":
            return [s for s in every if s._native.on_load_kinds()]
    if _is_gone(what):
        return None
    if not isinstance(what, tuple):
        why = f"{shown(what)} is nothing to ask about; pass a Pid, a Port, an MFA, 'all', 'new', 'send', 'receive' or 'on_load'"
        raise BadArg(where, "what", why)
    mfa = _mfa(where, "what", what, wildcards=False)
    set_on = [session._native.kinds_of(mfa) for session in every]
    if not any(set_on) and not _native.function_exists(mfa):
        return None
    return [session for session, kinds in zip(every, set_on, strict=True) if kinds and kinds[0]]


def process(session: Session, procs: Pid | Process | str, how: bool, flags: Iterable[str]) -> int:
    """Switches trace flags of processes on or off (trace.md, ``process/4``).

    Args:
        procs: a Pid, a thread or task, or ``"all"`` (those that exist and those to come), ``"existing"``, ``"new"``; or the
            same as ``"processes"``, ``"existing_processes"``, ``"new_processes"``.
        how: True for on. As in OTP, processes to come have no flag at all once any is switched off for them, by ``"new"``
            or ``"all"``: switch on again what they are to have.
        flags: out of call, return_to, arity, silent, send, receive, procs, running, running_procs, exiting,
            garbage_collection, set_on_spawn, set_on_first_spawn, set_on_link, set_on_first_link, timestamp,
            monotonic_timestamp, strict_monotonic_timestamp, scheduler_id, cpu_timestamp, all. Flags of ports are taken and
            mean nothing; processes to come don't keep them. scheduler_id adds the number of the OS thread, an int, before the time stamp. cpu_timestamp is
            no process's: with ``"all"`` only, it turns the stamps of ``timestamp`` into CPU time of the thread, in all
            sessions, while any session has it on.
            ``all`` sets ``silent``, too, as in OTP: such a process sends no ``call``, ``return_to`` or ``return_from``
            message. Name the flags, or switch it off afterwards: ``process(session, procs, False, ["silent"])``.

    Returns:
        How many processes matched; 0 for ``"new"``, and for a group if no flag is one of processes: that changes nothing.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("flags") as session:
    ...     process(session, inviso.self(), True, ["call", "timestamp"])
    ...     info(session, inviso.self(), "flags")
    1
    ('flags', ['call', 'timestamp'])
    """
    procs, why = _tracee(procs), None
    if isinstance(procs, Pid):
        why = _why_not_here(procs)
    elif not (isinstance(procs, str) and procs in _GROUPS["procs"]):
        why = f"{shown(procs)} {_why_no_process(procs)}; pass a living process, 'all', 'existing' or 'new'"
    return _switch("process/4", session, "procs", procs, why, how, flags)


def port(session: Session, ports: Port | Any, how: bool, flags: Iterable[str]) -> int:
    """Switches trace flags of ports on or off (trace.md, ``port/4``).

    Args:
        ports: a :class:`inviso.Port`, a socket, subprocess or transport (:func:`inviso.port`), or ``"all"`` (those that
            are open and those to come), ``"existing"``, ``"new"``; or the same as ``"ports"``, ``"existing_ports"``,
            ``"new_ports"``.
        how: True for on; see :func:`process`.
        flags: out of send, receive, ports, running_ports, timestamp, monotonic_timestamp, strict_monotonic_timestamp,
            scheduler_id, cpu_timestamp (with ``"all"`` only), all. Flags of processes are taken and mean nothing; ports
            to come keep none of them but silent.

    Returns:
        How many ports matched; 0 for ``"new"``, and for a group if no flag is one of ports: that changes nothing.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("ports") as session:
    ...     port(session, "new", True, ["ports", "send"])
    ...     info(session, "new_ports", "flags")
    0
    ('flags', ['send', 'ports'])
    """
    ports, why = _tracee(ports), None
    if isinstance(ports, Port):
        why = None if ports.is_local() else f"{shown(ports)} is a port of another node; pass one of this node"
    elif not (isinstance(ports, str) and ports in _GROUPS["ports"]):
        why = f"{shown(ports)} is not an open port; pass a Port, a socket, 'all', 'existing' or 'new'"
    return _switch("port/4", session, "ports", ports, why, how, flags)


def _switch(
    where: str, session: Session, argument: str, who: Any, why: str | None, how: bool, flags: Iterable[str]
) -> int:
    """``why`` is what is wrong with ``who``. Of several wrong arguments the one that OTP names is blamed."""
    is_bool = isinstance(how, bool)
    if why is not None and is_bool:
        raise BadArg(where, argument, why)
    native = _session(where, session) if is_bool or why is None else None
    if native is None or not is_bool:
        raise BadArg(where, "how", f"{shown(how)} is not a bool; pass True for on or False for off")
    bits = 0
    for flag in _list(where, "flags", flags):
        if isinstance(flag, tuple) and flag and flag[0] in ("tracer", "meta"):
            raise BadArg(where, "flags", f"{shown(flag)} is an option of the old interface; the session has the tracer")
        bits |= _one_of(where, "flags", "flag", flag, _SETTABLE)
    cpu = bits & _FLAGS["cpu_timestamp"]
    if cpu and not (isinstance(who, str) and who == "all"):
        raise BadArg(where, argument, f"'cpu_timestamp' is the whole node's; pass 'all' as {argument}")
    if cpu and not _native.has_cpu_clock():
        raise BadArg(where, "flags", "'cpu_timestamp' needs a clock of CPU time; this system has none: drop it")
    ports = argument == "ports"
    try:
        group = _GROUPS[argument][who] if isinstance(who, str) else who
        return native.process(group, how, bits, ports)
    except _native.ProcessDead:
        what = "is closed; pass an open port" if ports else "has ended; pass a living process"
        raise BadArg(where, argument, f"{shown(who)} {what}") from None
    except _native.SessionDead:
        raise _dead(where) from None


def send(session: Session, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
    """Sets which messages are traced where they are sent, by processes with the flag ``send`` (trace.md, ``send/3``).

    Args:
        match_spec: True for all (the default, as ``[]``), False for none, or a match specification, which looks at the list
            ``[receiver, message]``. All guards and actions but ``caller``, ``caller_line`` and ``current_stacktrace``.
        flags: must be empty.

    Returns:
        1.

    Raises:
        BadArg: a wrong argument; nothing has changed.
        SystemLimit: the match specification is nested too deep.

    Messages of a kind only:

    >>> session = session_create("replies")
    >>> send(session, [(["_", (Atom("reply"), "_")], [], [])], [])
    1
    >>> session.destroy()
    True
    """
    return _messages("send/3", "send", session, match_spec, flags)


def recv(session: Session, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
    """Sets which messages are traced where they arrive, at processes with the flag ``receive`` (trace.md, ``recv/3``).

    Args:
        match_spec: True for all (the default, as ``[]``), False for none, or a match specification, which looks at the list
            ``[node, sender, message]``; the sender is None where it isn't known. All guards, and the actions that trace.md
            allows.
        flags: must be empty.

    Returns:
        1.

    Raises:
        BadArg: a wrong argument; nothing has changed.
        SystemLimit: the match specification is nested too deep.

    Messages of one sender only:

    >>> session = session_create("from_me")
    >>> recv(session, [(["_", inviso.self(), "_"], [], [])], [])
    1
    >>> session.destroy()
    True
    """
    return _messages("recv/3", "receive", session, match_spec, flags)


def _messages(where: str, context: str, session: Session, spec: Any, flags: Any, argument: str = "flags") -> int:
    """``argument`` is blamed for flags that only functions have."""
    native = _session(where, session)
    given = _list(where, "flags", flags)
    why = f"{shown(flags)} is not empty; messages have no flags: pass []"
    if not all(isinstance(flag, str) and flag in _KINDS for flag in given):
        raise BadArg(where, "flags", why)
    program = None
    if derives(spec, list):
        program = compiled(where, spec, context) if list.__len__(spec) else None
    elif spec is not True and spec is not False:
        reason = f"{shown(spec)} is no match specification; pass True, False or a list of clauses"
        raise BadArg(where, "match_spec", reason)
    if given:
        raise BadArg(where, argument, why)
    try:
        native.messages(context == "receive", spec is not False, program)
    except _native.SessionDead:
        raise _dead(where) from None
    return 1


_EVENTS = ("long_gc", "long_message_queue", "long_schedule", "large_heap", "busy_port", "busy_dist_port")
_LEAST = 1


def system(session: Session, event: str, value: bool | int | tuple[int, int]) -> None:
    """Watches for an event of the system; it comes as ``("monitor", pid_or_port, event, info)`` (trace.md, ``system/3``).

    Args:
        event: ``"long_gc"`` (a collection takes at least ``value`` milliseconds), ``"long_schedule"`` (a task's step or a loop's
            callback does; one of a transport's is its port's), ``"large_heap"`` (resident memory after a collection is at least ``value`` words of 8 bytes),
            ``"long_message_queue"`` (``value`` is ``(disable, enable)``, lengths of a mailbox or queue), ``"busy_port"``,
            ``"busy_dist_port"``.
        value: the limit, or True for the last two; False switches the event off. Limits below 1 are adjusted to 1.

    Raises:
        BadArg: a wrong argument; or the session's tracer is no process. Nothing has changed.

    >>> with session_create("slow") as session:
    ...     system(session, "long_schedule", 100)
    ...     info(session, "system", "all")
    ('system', [('long_schedule', 100)])
    """
    where = "system/3"
    native = _session(where, session)
    if native.has_module:
        why = "its tracer is a module; make a session whose tracer is a Pid, a callable or None"
        raise BadArg(where, "session", why)
    if native.port is not None:
        raise BadArg(where, "session", f"the tracer of {shown(session)} is a trace port; system events need a process")
    if not (isinstance(event, str) and event in _EVENTS):
        _one_of(where, "event", "event", event, _EVENTS)
    if value is False:
        native.monitor(str(event), None)
    elif event in ("busy_port", "busy_dist_port"):
        if value is not True:
            raise BadArg(where, "value", f"{shown(value)} is no setting of {shown(event)}; pass True or False")
        native.monitor(str(event), 1)
    elif event == "long_message_queue":
        pair = value if isinstance(value, tuple) and len(value) == 2 and all(map(_is_length, value)) else (0, 0)
        if not 0 <= pair[0] < pair[1]:
            why = f"{shown(value)} is no (disable, enable); pass two ints, 0 or more, the first less than the second"
            raise BadArg(where, "value", why)
        native.monitor(str(event), pair[1], pair[0])
    elif isinstance(value, tuple) or not _is_length(value) or value < 0:
        raise BadArg(where, "value", f"{shown(value)} is no limit of {shown(event)}; pass an int from 0, or False")
    else:
        native.monitor(str(event), max(value, _LEAST))


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < 1 << 63


def function(session: Session, mfa: Mfa | str, match_spec: Spec, flags: Iterable[str] = ()) -> int:
    """Sets what happens at calls of functions (trace.md, ``function/4``).

    Args:
        mfa: ``(module, qualified name, arity)``, with ``"_"`` as the arity, as the last two or as all three;
            ``("package.**", "_", "_")`` for a module and all below it; or ``"on_load"`` for functions that come into being later. Functions written in C are taken by module, name and
            ``"_"`` only, and seen where Python code calls them.
        match_spec: True (on; counters start from zero), False (off), ``"pause"``, ``"restart"`` (counters), or a match
            specification (:mod:`inviso.match_spec`), which decides about each message; ``[]`` is the same as True.
            It needs ``global``, ``local`` or ``meta`` among the flags: counters count every call.
        flags: ``global`` (alone; also what no flag means), ``local``, ``meta``, ``call_count``, ``call_time``,
            ``call_memory``, ``call_latency``.

    Returns:
        How many functions matched; 0 for ``"on_load"``.

    Raises:
        BadArg: a wrong argument; nothing has changed.

    >>> with session_create("count") as session:
    ...     function(session, ("json.decoder", "JSONDecoder.decode", "_"), True, ["call_count"])
    ...     _ = json.loads("0")
    ...     info(session, ("json.decoder", "JSONDecoder.decode", 3), "call_count")
    1
    ('call_count', 1)

    >>> spec = inviso.ms(lambda self, s, where: s == "2")
    >>> with session_create("few") as session:
    ...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), spec, ["local"])
    ...     _ = session.process(inviso.self(), True, ["call"])
    ...     _ = json.loads("1"), json.loads("2")
    ...     [message[3][2][1] for message in session.drain()]
    ['2']
    """
    where = "function/4"
    native = _session(where, session)
    on_load = isinstance(mfa, str) and mfa == "on_load"
    names = _list(where, "flags", flags)
    kinds = 0
    for name in names:
        if isinstance(name, tuple) and name and name[0] in ("tracer", "meta"):
            raise BadArg(where, "flags", f"{shown(name)} is an option of the old interface; the session has the tracer")
        kinds |= _one_of(where, "flags", "flag", name, _KINDS)
    kinds = kinds or _GLOBAL
    # in OTP's order, which decides what is blamed
    if kinds & _GLOBAL and kinds != _GLOBAL:
        other = next(name for name in names if name != "global")
        raise BadArg(where, "flags", f"'global' can't be combined with {shown(other)}; drop one of them")
    if isinstance(mfa, str) and mfa in ("send", "receive"):
        if word(match_spec) in ("pause", "restart"):
            raise BadArg(where, "mfa", f"{shown(mfa)} has no counters; pass True, False or a list of clauses for it")
        counted = names and not kinds & _MESSAGES and derives(match_spec, list) and list.__len__(match_spec)  # type: ignore[arg-type]
        return _messages(where, str(mfa), session, match_spec, names, "flags" if counted else "mfa")
    how, program = _how(where, match_spec)
    if program is not None and not kinds & _MESSAGES:
        why = "counters count every call; pass True as match_spec, or 'local' or 'meta' among the flags"
        raise BadArg(where, "flags", why)
    target = None if on_load else _mfa(where, "mfa", mfa, wildcards=True)
    try:
        if target is None:
            native.on_load(kinds, how, None, program)
            return 0
        return native.function(target, kinds, how, program)
    except _native.SessionDead:
        raise _dead(where) from None


def _on_load(session: Session, flag: str, patterns: Iterable[Mfa], match_spec: Spec = True) -> None:
    """As ``function(session, "on_load", match_spec, [flag])``, for functions that one of these patterns takes; for tprof
    and the command.
    """
    native = _session("function/4", session)
    only = [_mfa("function/4", "mfa", pattern, wildcards=True) for pattern in patterns]
    how, program = _how("function/4", match_spec)
    try:
        native.on_load(_KINDS[flag], how, only, program)
    except _native.SessionDead:
        raise _dead("function/4") from None


def _settle(session: Session, timeout: float) -> bool:
    """Waits until the tracer has handled what was sent before; False if it took longer. Nobody gets a message of it."""
    done = Flag()
    session._native.pump()
    if session._worker:
        session._worker.when_done(done.set)
        return done.wait(timeout)
    return True


def info(session: Session, what: Pid | Port | Mfa | str | Any, item: str) -> Any:
    """What a session has set on something, and what it has counted (trace.md, ``info/3``).

    Args:
        what: a Pid, a Port, or what they stand for (a thread, task, socket, subprocess or transport); ``"new"``,
            ``"new_processes"``, ``"new_ports"``; an MFA without wildcards or ``"on_load"``;
            ``"send"`` or ``"receive"``; ``"system"``; or ``"session"``.
        item: of processes and ports: flags, tracer (the Pid, trace port, or session). Of messages: match_spec. Of the
            system: all, the limits that are set (trace.md, ``system/3``). Of functions: traced, match_spec, meta, meta_match_spec, call_count (calls),
            call_time (``[(pid, calls, seconds, microseconds)]``), call_memory (``[(pid, calls, words of 8 bytes)]``),
            call_latency (a :class:`dict` of nanoseconds), all; of ``"on_load"``, flags and tracer, too, are False as long as it has
            no pattern. Of the session: dropped (messages lost), tracer_errors (how often
            callbacks of its tracer module have failed), dumps (``(how many, the last one's path, what went wrong with
            one)``, of those that were asked for).

    Returns:
        ``(item, value)``; a value is None for what doesn't exist and False for what is not set. For a process that has
        ended just None. Of a function whose meta pattern is set, meta is ``[]`` once a call has found the tracer ended, or
        the tracer module has answered ``remove`` to one.

    Raises:
        BadArg: a wrong argument.

    >>> with session_create("info") as session:
    ...     info(session, ("json", "dumps", 11), "traced"), info(session, ("json", "no", 7), "traced")
    (('traced', False), ('traced', None))
    """
    where = "info/3"
    native = _session(where, session)
    what = _tracee(what)
    if isinstance(what, Pid):
        _process(where, "what", what)
        _one_of(where, "item", "item of a process", item, ("flags", "tracer"))
        bits = native.flags_of(what)
        return None if bits is None else _flags_info(session, item, bits)
    if isinstance(what, Port):
        if not what.is_local():
            raise BadArg(where, "what", f"{shown(what)} is a port of another node; pass one of this node")
        bits = native.flags_of(what)
        if bits is None:
            return None  # whatever the item, as in OTP
        _one_of(where, "item", "item of a port", item, ("flags", "tracer"))
        return _flags_info(session, item, bits)
    if isinstance(what, str):
        if what in ("new", "new_processes", "new_ports"):
            kind = "ports" if what == "new_ports" else "processes"
            _one_of(where, "item", f"item of {kind}", item, ("flags", "tracer"))
            return _flags_info(session, item, native.new_flags(what == "new_ports"))
        if what in ("send", "receive"):
            _one_of(where, "item", "item of a message", item, ("match_spec",))
            return (Atom(item), native.messages_of(what == "receive"))
        if what == "system":
            _one_of(where, "what", "item of the system", item, ("all",))  # OTP blames the thing
            return (Atom("system"), [_monitored(*limit) for limit in native.monitored()])
        if what == "session":
            _one_of(where, "item", "item of a session", item, ("dropped", "dumps", "tracer_errors"))
            if item == "dropped":
                return (Atom(item), native.dropped())
            if item == "tracer_errors":
                return (Atom(item), native.tracer_errors())
            count, path, error = native.dumps()
            return (Atom(item), (count, None if path is None else os.fspath(path), error))
        if what == "on_load":
            loading = native.on_load_kinds()
            others = () if loading else ("flags", "tracer")  # OTP answers about them as long as nothing is set
            _one_of(where, "item", "item of functions", item, (*_ITEMS, "call_latency", "all", *others))
            return _on_load_info(session, item, loading)
    if _is_gone(what):
        _one_of(where, "item", "item of a process or port", item, ("flags", "tracer"))
        return None
    if not isinstance(what, tuple):
        why = f"{shown(what)} is nothing to ask about; pass a Pid, a Port, an MFA, 'new', 'send', 'on_load', 'system' or 'session'"
        raise BadArg(where, "what", why)
    mfa = _mfa(where, "item", what, wildcards=False)  # OTP blames the item
    _one_of(where, "item", "item of functions", item, (*_ITEMS, "call_latency", "all"))
    kinds = native.kinds_of(mfa)
    if kinds is None:
        return (Atom(item), None)
    if item == "all":
        if not kinds[0]:
            return (Atom(item), False)
        items = (*_ITEMS, "call_latency") if kinds[0] & _LATENCY else _ITEMS
        values = {i: _value(session, mfa, i, kinds[0]) for i in items}
        if values["meta"] == []:
            values["meta"] = False  # so does OTP
        return (Atom(item), [(Atom(i), value) for i, value in values.items()])
    return (Atom(item), _value(session, mfa, item, kinds[0]))


def _monitored(event: str, limit: int, short: int) -> Any:
    if event in ("busy_port", "busy_dist_port"):
        return Atom(event)
    return (Atom(event), (short, limit) if event == "long_message_queue" else limit)


def delivered(session: Session, tracee: Pid | Process | str = "all") -> Delivered:
    """Tells when all earlier messages have arrived at the tracer (trace.md, ``delivered/2``).

    Returns:
        A reference with ``wait(timeout)``. When every message of ``tracee`` (or of all) that was sent before this call
        has arrived, the caller's mailbox gets ``("trace_delivered", tracee, reference)``.

    Raises:
        BadArg: a wrong argument.

    >>> with session_create("done") as session:
    ...     ref = delivered(session, "all")
    ...     inviso.receive(("trace_delivered", "all", ref))[:2]
    ('trace_delivered', 'all')
    """
    where = "delivered/2"
    tracee = _tracee(tracee)
    if isinstance(tracee, Pid):
        _process(where, "tracee", tracee)
    elif not (isinstance(tracee, str) and tracee == "all"):
        raise BadArg(where, "tracee", f"{shown(tracee)} is not a process; pass a Pid or 'all'")
    native = _session(where, session)
    caller = _native.self_pid()
    reference = Delivered()
    native.pump()
    message = (Atom("trace_delivered"), tracee if isinstance(tracee, Pid) else Atom("all"), reference)

    def done() -> None:
        reference._done.set()
        _native.mailbox_put(caller, message)

    if session._worker:
        session._worker.when_done(done)
    else:
        done()
    return reference


class _Owner:
    """What a session's strong handles have of it: goes with the last one, by the collector, too, and ends it while what the
    tracer needs is whole.
    """

    __slots__ = ("_function", "_native", "_worker")

    def __init__(
        self, native: _native.Session, worker: _Worker | None, function: _native.TracerFunction | None
    ) -> None:
        self._native = native
        self._worker = worker
        self._function = function

    def __del__(self) -> None:
        if self._worker is not None and self._function is not None:
            self._worker.stop(self._function.get())
        self._native.abandon()


def _is_in_threading() -> bool:
    """Whether the calling thread, which runs a finaliser, has the lock of ``threading``: a tracer function that needs it
    can't end meanwhile.
    """
    lock = getattr(threading, "_active_limbo_lock", None)
    return isinstance(lock, RLock) and bool(lock._is_owned())


class _WorkerThread:
    """A thread of the system's."""

    __slots__ = ("gone", "ident", "native_id", "ready")

    def __init__(self) -> None:
        self.ident = self.native_id = 0
        self.ready = Flag()
        """Set when it is the process, or has nothing to do."""
        self.gone = Flag()
        """Set at its end."""


class _Worker:
    """A tracer process that calls a function with each message of one session.

    The process outlives its thread: before a fork the thread ends, afterwards another one becomes the process. Any thread
    may start one at any time; who takes ``_held`` is the process. So nothing is locked here while Python code can run.
    """

    def __init__(self, name: str, function: _native.TracerFunction, share: float = 1) -> None:
        self._share = share
        self._hurry = Flag()
        """Set at the end: what is there is handled without a rest."""
        self._function = function
        """Its session's."""
        self._last: Callable[[Any], object] | None = None
        """The same, once that session is gone."""
        self._name = name
        self._raised = 0
        self._held = allocate_lock()
        """By the thread that is the process."""
        self._thread: _WorkerThread | None = None
        """The one that is, or was last."""
        self._over = Flag()
        self._left = False
        """Its end was waited for in vain."""
        self.pid = _native.new_process(f"inviso tracer {name}")
        _workers.add(self)
        try:
            self.start()
        except RuntimeError:  # no thread can be had
            _workers.discard(self)
            raise

    def start(self) -> None:
        """Has a thread be the process, if none is, and no fork is under way: then it is started after that."""
        if self._over.is_set() or self._held.locked() or _fork.is_under_way():
            return
        thread = _WorkerThread()
        start_new_thread(self._run, (thread,))
        thread.ready.wait()

    def pause(self) -> None:
        """Has the thread end before a fork; what arrives waits for the next one. A function that takes long goes on."""
        thread = self._thread
        if thread is not None and thread.ident != get_ident() and not thread.gone.is_set():
            _native.mailbox_put(self.pid, _LOOK)
            if thread.gone.wait(_PATIENCE):
                _fork.wait_until_gone(thread.native_id)

    def stop(
        self, last: Callable[[Any], object] | None = None, is_ending: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Has everything that has arrived handled, by ``last`` if nobody else has the function any more, and ends the process."""
        if is_ending():  # its thread has been stopped, and modules may be empty
            return
        self.hurry()
        if not self._over.is_set():
            self._last = last
        if self._over.is_set() or self._left or not _native.mailbox_put(self.pid, _STOP):
            return
        if (self._thread is not None and self._thread.ident == get_ident()) or _fork.is_by_caller():
            return  # it is done later
        end = time.monotonic() + _PATIENCE
        with suppress(RuntimeError):  # no thread can be had
            self.start()
            if _is_in_threading():
                return  # likewise
            while not self._over.wait(0.05) and time.monotonic() < end:
                self.start()
        self._left = not self._over.is_set()
        if not self._left and self._thread is not None:
            self._thread.gone.wait(_PATIENCE)

    def leave(self) -> None:
        """Has it end when its function returns, and nobody wait for that."""
        self.hurry()
        self._left = True
        _native.mailbox_put(self.pid, _STOP)

    def hurry(self) -> None:
        """From here on the thread handles what has arrived without a rest: the end has come."""
        self._hurry.set()

    def when_done(self, job: Callable[[], None]) -> None:
        """Calls ``job`` after all messages that have arrived."""
        self.start()
        if not _native.mailbox_put(self.pid, _Job(job)):
            job()

    def _run(self, thread: _WorkerThread) -> None:
        """What a thread does. The program sees nothing of it in ``threading``."""
        try:
            thread.ident, thread.native_id = get_ident(), get_native_id()
            _native.hide()
            # Once more after each rest: the fork may be over, and nobody have seen that no thread is there.
            while not (self._over.is_set() or _fork.is_under_way()) and self._held.acquire(blocking=False):
                is_over = True
                try:
                    if self._over.is_set():  # the last one ended meanwhile
                        return
                    self._thread = thread
                    _native.become(self.pid)
                    thread.ready.set()
                    is_over = self._handle()
                    if not is_over:
                        _native.resign()
                finally:
                    if is_over:
                        self._last = None
                        _workers.discard(self)
                        self._over.set()
                    self._held.release()
        finally:
            thread.ready.set()
            thread.gone.set()

    def _handle(self) -> bool:
        """Whether it is over, not just that a fork is under way."""
        budget = _Budget(self._share) if self._share < 1 else None
        while True:
            if budget is not None and (rest := budget.rest()):
                self._rest(rest)
            message = _native.mailbox_receive(None, None)[0]
            if message is _STOP:
                return True
            if message is _LOOK:
                if _fork.is_under_way():
                    return False
            elif isinstance(message, _Job):
                message.job()
            else:
                self._call(message)
            message = None  # it may have objects of the program's

    def _rest(self, seconds: float) -> None:
        """Leaves the interpreter to the program for so many seconds; a fork or the end cuts the rest short."""
        end = time.monotonic() + seconds
        while not self._hurry.is_set() and not _fork.is_under_way() and (left := end - time.monotonic()) > 0:
            self._hurry.wait(min(left, _LONGEST_REST))

    def _call(self, message: Any) -> None:
        function = self._function.get() if self._last is None else self._last
        try:
            if function is not None:
                function(message)
        except Exception:
            self._raised += 1
            if self._raised == 1:
                print(f"inviso: the tracer of session {self._name!r} raised (reported once):", file=sys.stderr)
                traceback.print_exc()


class _Budget:
    """The part of the interpreter's time that the calling thread may still use: a share of the elapsed time."""

    __slots__ = ("_last", "_left", "_messages", "_share", "_used")

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = 0.0
        self._messages = 0
        self._last, self._used = time.monotonic_ns(), time.thread_time_ns()

    def rest(self) -> float:
        """Seconds that the thread has to rest now. It reads the clocks at every sixteenth message only."""
        self._messages += 1
        if self._messages % _LOOK_EVERY:
            return 0.0
        now, used = time.monotonic_ns(), time.thread_time_ns()
        earned = self._share * (now - self._last)
        self._left = min(self._left + earned, self._share * _SAVED) - (used - self._used)
        self._last, self._used = now, used
        return max(0.0, -self._left / self._share / 1e9)


_LOOK_EVERY = 16
"""Messages between two looks at the clocks."""
_SAVED = 50_000_000
"""Nanoseconds whose share may be saved up for a burst."""
_LONGEST_REST = 0.01
"""Seconds until it is looked whether a fork waits."""
_STEP = 256
"""Records that are made messages at a time for a tracer that has a share."""


class _Job:
    __slots__ = ("job",)

    def __init__(self, job: Callable[[], None]) -> None:
        self.job = job


_LOOK = object()
"""Whether a fork is under way."""
_STOP = object()
_PATIENCE = 5.0
"""Seconds that are waited for a tracer that handles what has arrived."""
_workers: set[_Worker] = set()
"""Until they end."""
_strong: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """A program that ends has its tracers called with all that was sent before, as far as they do it in time."""
    waiting = []
    for session in list(_strong):
        worker = session._worker
        if worker is not None and session._native.is_alive():
            session._native.pump()
            done = Flag()
            worker.hurry()
            with suppress(RuntimeError):  # no thread can be had
                worker.when_done(done.set)
                waiting.append(done)
    end = time.monotonic() + _PATIENCE
    for done in waiting:
        done.wait(max(0.0, end - time.monotonic()))


_inherited: list[Session] = []
"""Of a forked child's parent. They have ended here, and are never let go of: that would end them a second time."""


def _session(where: str, session: Any) -> _native.Session:
    if not isinstance(session, Session):
        raise BadArg(where, "session", f"{shown(session)} is not a session; session_create() makes one")
    if not session._native.is_alive():
        raise _dead(where)
    return session._native


def _process(where: str, argument: str, pid: Pid) -> None:
    why = _why_not_here(pid)
    if why is not None:
        raise BadArg(where, argument, why)


def _why_not_here(pid: Pid) -> str | None:
    if not pid.is_local():
        return f"{shown(pid)} is a process of another node; pass one of this node"
    if pid.kind == "queue":
        return f"{shown(pid)} is a queue, which doesn't run; pass a thread or task that uses it"
    return None


def _dead(where: str) -> BadArg:
    return BadArg(where, "session", "the session has been destroyed; make a new one with session_create()")


def _list(where: str, argument: str, values: Any) -> list[Any]:
    # by no abstract class, whose code a pattern may trace
    if isinstance(values, (str, bytes, dict)) or not hasattr(type(values), "__iter__"):
        raise BadArg(where, argument, f"{shown(values)} is not a list; pass a list such as ['call']")
    return list(values)


def _one_of(where: str, argument: str, kind: str, value: Any, known: Any) -> Any:
    if isinstance(value, str) and value in known:
        return known[value] if isinstance(known, dict) else value
    near = difflib.get_close_matches(value, list(known), 1) if isinstance(value, str) else []
    mend = f"did you mean {near[0]!r}?" if near else f"pass one of {', '.join(known)}"
    raise BadArg(where, argument, f"unknown {kind} {shown(value)}; {mend}")


def _mfa(where: str, argument: str, mfa: Any, *, wildcards: bool) -> tuple[str | None, str | None, int | None]:
    if not (isinstance(mfa, tuple) and len(mfa) == 3):
        raise BadArg(where, argument, f"{shown(mfa)} is not an MFA; pass (module, qualified name, arity)")
    module, name, arity = mfa
    if not isinstance(module, str):
        raise BadArg(where, argument, f"the module {shown(module)} is not a str; pass its __name__")
    if not isinstance(name, str):
        raise BadArg(where, argument, f"the function {shown(name)} is not a str; pass its __qualname__")
    for part in (module, name):
        if not is_text(part):
            raise BadArg(where, argument, f"{shown(part)} has a lone surrogate, and nothing has such a name; pass one in text")
    if "*" in name or "*" in module.removesuffix(".**") or module == ".**":
        why = f"{shown(module if '*' in module else name)} has a '*' that stands for nothing"
        raise BadArg(where, argument, f"{why}; 'package.**' as the module is a package and all below it, '_' is any")
    any_arity = isinstance(arity, str) and arity == "_"
    if not any_arity and (not isinstance(arity, int) or isinstance(arity, bool)):
        raise BadArg(where, argument, f"the arity {shown(arity)} is not an int; pass the number of parameters, or '_'")
    if not any_arity and not 0 <= arity < 1 << 31:
        arity = -1  # any int may be asked for; no function has it
    wild = module == "_", name == "_", any_arity
    if (any(wild) or module.endswith(".**")) and not wildcards:
        raise BadArg(where, argument, f"{shown(mfa)} has wildcards; name one function, with its arity")
    if module.endswith(".**") and wild != (False, True, True):
        why = f"{shown(mfa)} names a function below a package; 'package.**' takes all its functions, with '_' as the last two"
        raise BadArg(where, argument, why)
    if wild not in ((False, False, False), (False, False, True), (False, True, True), (True, True, True)):
        why = f"{shown(mfa)} is no pattern; wildcards are (m, f, '_'), (m, '_', '_'), ('_', '_', '_')"
        raise BadArg(where, argument, why)
    return (None if wild[0] else module, None if wild[1] else name, None if wild[2] else arity)


def control_word(value: int | None = None) -> int:
    """The node's trace control word, which match specifications read and set (trace.md, ``get_tcw``, ``set_tcw``).

    Args:
        value: the new word, 32 bits; None leaves it as it is.

    Returns:
        What it is, or was before it was set.

    Raises:
        BadArg: ``value`` is no int of 32 bits.

    >>> control_word(7), control_word(0)
    (0, 7)
    """
    if value is None:
        return _native.control_word()
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise BadArg("control_word/1", "value", f"{shown(value)} is no int of 32 bits; pass one from 0 to 4294967295")
    return _native.set_control_word(value)


def _how(where: str, spec: Any) -> tuple[str, _native.MatchProgram | None]:
    if spec is True or spec is False:
        return "on" if spec else "off", None
    name = word(spec)
    if name in ("pause", "restart"):
        return name, None
    if derives(spec, list):
        return "on", compiled(where, spec, "call") if list.__len__(spec) else None
    why = f"{shown(spec)} is no match specification; pass True, False, 'pause', 'restart' or []"
    raise BadArg(where, "match_spec", why)


def _options(where: str, opts: Any) -> dict[str, Any]:
    try:
        given = dict(opts)
    except (TypeError, ValueError):
        raise BadArg(where, "opts", f"{shown(opts)} is no list of options; pass [] or a dict") from None
    options = dict(_OPTIONS, given=frozenset(given))
    for key, value in given.items():
        _one_of(where, "opts", "option", key, _OPTIONS)
        options[key] = value
    for key, unit in _NUMBERS.items():
        value = options[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
            raise BadArg(where, "opts", f"{key} {shown(value)} is not a number of {unit}; pass an int from 0")
    _one_of(where, "opts", "overflow policy", options["overflow"], ("drop", "overwrite", "block"))
    _one_of(where, "opts", "clock", options["clock"], ("fast", "system"))
    if not isinstance(options["repr"], bool):
        raise BadArg(where, "opts", f"repr {shown(options['repr'])} is not a bool; pass True or False")
    _check_capture(where, options["capture"], options["repr"])
    return options


def _check_capture(where: str, capture: Any, texts: bool) -> None:
    if isinstance(capture, str) and capture == "ref":
        if texts:
            raise BadArg(where, "opts", "capture 'ref' hands over the objects, and repr their texts; drop one of them")
        return
    if capture is None:
        return
    if not isinstance(capture, Mapping):
        raise BadArg(where, "opts", f"capture {shown(capture)} is no set of limits; pass {{'items': 10}}, say, or 'ref'")
    for key, value in capture.items():
        _one_of(where, "opts", "limit of capture", key, _CAPTURE)
        least, most = _CAPTURE_RANGE[key]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            why = f"capture, {key}: {shown(value)} is out of range; pass an int from {least} to {most}"
            raise BadArg(where, "opts", why)


def _check_share(where: str, options: dict[str, Any], is_called: bool) -> None:
    share = options["share"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise BadArg(where, "opts", f"share {shown(share)} is no share; pass a number above 0 up to 1, such as 0.1")
    if share < 1 and not is_called:
        raise BadArg(where, "opts", "share is of a callable tracer's time; pass a callable as the tracer, or drop the option")
    if share < 1 and options["overflow"] == "block":
        raise BadArg(where, "opts", "overflow 'block' waits for a tracer that share lets rest; drop one of them")


def _taking(options: dict[str, Any]) -> tuple[tuple[int, int, int, int], str]:
    """The limits of what is taken of arguments, and what that is."""
    capture = options["capture"]
    limits = _CAPTURE | (dict(capture) if isinstance(capture, Mapping) else {})
    takes = "objects" if isinstance(capture, str) else "texts" if options["repr"] else "values"
    return (limits["depth"], limits["items"], limits["bytes"], limits["total"]), takes


def _tracer(session: Session) -> Any:
    if (port := session._native.port) is not None:
        return trace_ports.of(port)
    return session._native.module or session._native.tracer or Session(session._native.weak())


def _flags_info(session: Session, item: str, bits: int) -> tuple[Any, Any]:
    if item == "flags":
        return (Atom(item), [Atom(name) for name, bit in _FLAGS.items() if bits & bit])
    return (Atom(item), _tracer(session) if bits else [])


def _on_load_info(session: Session, item: str, kinds: int) -> tuple[Any, Any]:
    if not kinds:
        return (Atom(item), False)

    def value(item: str) -> Any:
        if item in ("call_count", "call_time", "call_memory", "call_latency"):
            return bool(kinds & _KINDS[item])
        return _setting(session, None, item, kinds)

    if item != "all":
        return (Atom(item), value(item))
    return (Atom(item), [(Atom(i), value(i)) for i in _ITEMS if i not in ("call_memory", "call_time")])


def _setting(session: Session, mfa: Any, item: str, kinds: int) -> Any:
    """``mfa`` is None for on_load."""
    traced = kinds & (_LOCAL | _GLOBAL)
    if item == "traced":
        return Atom("global" if traced & _GLOBAL else "local") if traced else False
    if item == "match_spec":
        return session._native.spec_of(mfa, False) or [] if traced else False
    if item == "meta":
        if not kinds & _META:
            return False
        gone: Any = False if mfa is None else []
        return gone if session._native.has_lost_meta(mfa) else _tracer(session)
    return session._native.spec_of(mfa, True) or [] if kinds & _META else False


def _value(session: Session, mfa: Any, item: str, kinds: int) -> Any:
    native = session._native
    if item not in _KINDS or not item.startswith("call_"):
        return _setting(session, mfa, item, kinds)
    if not kinds & _KINDS[item]:
        return False
    if item == "call_count":
        return native.count_of(mfa) or 0
    if item == "call_time":
        return [(pid, calls, ns // 10**9, ns % 10**9 // 1000) for pid, calls, ns in native.time_of(mfa)]
    if item == "call_memory":
        return [(pid, calls, (size + 7) // 8) for pid, calls, size in native.memory_of(mfa)]
    return _latency(native.latency_of(mfa))


def _latency(buckets: list[tuple[int, int]]) -> dict[str, Any]:
    count = sum(n for _, n in buckets)
    if not count:
        return {"count": 0, "buckets": []}
    answer: dict[str, Any] = {
        "count": count,
        "min": buckets[0][0],
        "max": buckets[-1][0],
        "mean": sum(value * n for value, n in buckets) / count,
        "percentiles": {},
        "buckets": buckets,
    }
    for percent in (50.0, 90.0, 99.0, 99.9):
        passed = 0
        for value, n in buckets:
            passed += n
            if passed * 100 >= percent * count:
                answer["percentiles"][percent] = value
                break
    return answer


def _pause() -> None:
    for worker in list(_workers):
        worker.pause()


def _resume() -> None:
    for worker in list(_workers):
        with suppress(RuntimeError):  # no thread can be had: who needs it tries again
            worker.start()


def _in_child() -> None:
    _inherited.extend(_strong)
    _strong.clear()
    _workers.clear()


_fork.rest(_pause, _resume, lambda: bool(_workers))
os.register_at_fork(after_in_child=_in_child)
