"""Making sessions, and which of them affect something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inviso import _native, trace_ports
from inviso._native import Pid
from inviso.errors import BadArg, SystemLimit, is_text, shown
from inviso.process._objects import is_gone, tracee_of
from inviso.terms import Port
from inviso.trace_ports import PortGenerator, TracePort

from ._arguments import check_process, mfa_of
from ._ending import Owner, strong
from ._options import check_share, options_of, taking
from ._recorder import record, recorded
from ._session import Session
from ._worker import Worker

if TYPE_CHECKING:
    from ._types import Mfa, Tracer

__all__ = ["create", "session_create", "session_info"]


_STEP = 256
"""Records that are made messages at a time for a tracer that has a share."""
# The thread of a trace port wakes by a timer.
_PORT_RING = 8 << 20


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
    return create(name, tracer, opts)


def create(
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
    options = options_of(where, opts)
    module: Any = None
    port, recording = None, recorded(where, tracer, options)
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
        tracer = tracee_of(tracer)
    if isinstance(tracer, Pid):
        check_process(where, "tracer", tracer)
    elif isinstance(tracer, tuple):
        module = _module(where, tracer, options)
    elif tracer is not None and not callable(tracer):
        why = f"{shown(tracer)} is not a tracer; pass a Pid, a callable, (module, state), or None for the session itself"
        raise BadArg(where, "tracer", why)
    called = _native.TracerFunction(tracer) if callable(tracer) and not module else None
    check_share(where, options, called is not None)
    worker = Worker(name, called.weak(), options["share"]) if called else None
    pid = tracer if isinstance(tracer, Pid) else worker.pid if worker else None
    try:
        native = _native.session_create(
            str(name), pid, options["ring_bytes"], options["overflow"], options["block_ms"],
            options["ended_processes"], *taking(options), options["clock"], module, port, recording,
            _STEP if options["share"] < 1 else None, None if switched is None else switched._native,
        )  # fmt: skip
    except BaseException as error:
        if worker:
            worker.stop()
        if isinstance(error, _native.LimitReached):
            raise SystemLimit(f"{where}: {error}") from None
        raise
    session = Session(native, worker, recording, Owner(native, worker, called))
    strong.add(session)
    if recording is not None:
        record(session, options)
    return session


def _module(where: str, tracer: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    from inviso.tracer import NativeTracer, given  # what few programs use comes in at its first mention

    if tracer and isinstance(tracer[0], NativeTracer) and options["capture"] == "ref":
        raise BadArg(where, "opts", "capture 'ref' hands over Python objects, and the tracer is a library; drop it")
    return given(where, tracer)


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
    what = tracee_of(what)
    every = [Session(native) for native in _native.sessions()]
    if isinstance(what, Pid):
        check_process(where, "what", what)
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
    if is_gone(what):
        return None
    if not isinstance(what, tuple):
        why = f"{shown(what)} is nothing to ask about; pass a Pid, a Port, an MFA, 'all', 'new', 'send', 'receive' or 'on_load'"
        raise BadArg(where, "what", why)
    mfa = mfa_of(where, "what", what, wildcards=False)
    set_on = [session._native.kinds_of(mfa) for session in every]
    if not any(set_on) and not _native.function_exists(mfa):
        return None
    return [session for session, kinds in zip(every, set_on, strict=True) if kinds and kinds[0]]
