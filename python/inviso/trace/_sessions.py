"""Makes sessions, and lists those that affect something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inviso import _native, trace_ports
from inviso._native.process import Pid
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
"""Records that are turned into messages at a time, for a tracer that has a share."""
_PORT_RING = 8 << 20
"""Bytes of a ring whose tracer is a trace port: larger, because the port's thread wakes by a timer only."""


def session_create(
    name: str | bool | None, tracer: Tracer = None, opts: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
) -> Session:
    """Makes a trace session (trace.md, ``session_create/3``).

    Args:
        name: an atom, so True, False and None are allowed, too. Several sessions may have the same name.
        tracer: one of:

            a :class:`inviso.Pid`, thread or task
                Messages go to its mailbox.
            a callable
                A tracer thread calls it with each message.
            a :class:`inviso.trace_ports.TracePort`
                A file or socket gets the messages. The port closes with the last session whose tracer it is.
            ``(tracer module, state)``
                See :mod:`inviso.tracer`: the module is called where the event happens.
            None
                The session itself: iterate over it.
        opts: a dict, or pairs, of:

            ``ring_bytes``
                Bytes of one thread's ring, 1 MiB; 8 MiB if the tracer is a trace port.
            ``overflow``
                The action of a full ring: ``"drop"`` (keep the oldest), ``"overwrite"`` (keep the newest), ``"block"``
                (wait up to ``block_ms`` milliseconds, 1000).
            ``ended_processes``
                The number of ended processes whose counters are kept apart, 1024.
            ``capture``
                Limits for copies of a call's arguments: a dict of ``depth`` (containers inside each other, 8),
                ``items`` (of one container, 100), ``bytes`` (of one str, bytes or int, 1024) and ``total`` (bytes of
                all arguments, 4096). Or ``"ref"``: the objects themselves, which the session keeps alive until their
                message is taken.
            ``repr``
                True: an :class:`inviso.Opaque` has its object's ``repr`` as ``text``. That runs the program's own code
                at each such call.
            ``clock``
                The source of timestamps: ``"fast"`` (the processor's counter, adjusted to the system's clocks), or
                ``"system"`` (the system's clocks, read at each event).
            ``share``
                The part of the interpreter's time that a callable tracer may use, above 0 and up to 1 (default 1: all).
                Its thread rests after using that. Meanwhile records wait in the rings; full rings drop records and
                count them at their place.
            ``dump_to``
                Makes the session a flight recorder; its tracer must be None, and ``overflow`` defaults to
                ``"overwrite"``. A dump writes the rings' messages to a new file with this name. ``{n}`` in the name is
                replaced by the dump's number; without it ``.`` and the number are appended. A number whose file exists
                is skipped. The match specification action ``("dump",)`` starts a dump, and so do:
            ``dump_signal``
                This signal. A handler that was installed before still runs. Without one, the system's default action
                follows the dump: SIGTERM ends the program. SIGUSR1, SIGUSR2 and the real-time signals only dump.
            ``dump_on``
                An exception_from message of the session with this exception: a class or a tuple of classes, with their
                subclasses; a class's name, as in the message; or a match specification that gets ``[class, value]``.
            ``dump_slower``
                ``(mfa, seconds)``: a call of the function that takes at least so long. Sets call_latency on the
                function; the MFA may be ``"module:name:arity"``, too. It doesn't take functions that are defined, or
                defined anew, later: ``session.function(mfa, True, ["call_latency"])`` takes them then, and returns
                their number.
            ``dump_every``
                The shortest time between two such dumps in seconds, 10; causes that come earlier are ignored.

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
    """As :func:`session_create`. Match specifications of the new session switch flags of the session ``switched``, if
    that is given.
    """
    where = "session_create/3"
    for atom, constant in (("true", True), ("false", False), ("undefined", None)):
        name = atom if name is constant else name
    if not is_text(name):
        raise BadArg(
            where, "name", f"{shown(name)} is not a str without lone surrogates; pass a name such as 'my_session'"
        )
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
        why = (
            f"{shown(tracer)} is not a tracer; pass a Pid, a callable, (module, state), or None for the session itself"
        )
        raise BadArg(where, "tracer", why)
    called = _native.trace.TracerFunction(tracer) if callable(tracer) and not module else None
    check_share(where, options, called is not None)
    worker = Worker(name, called.weak(), options["share"]) if called else None
    pid = tracer if isinstance(tracer, Pid) else worker.pid if worker else None
    try:
        native = _native.trace.session_create(
            str(name), pid, options["ring_bytes"], options["overflow"], options["block_ms"],
            options["ended_processes"], *taking(options), options["clock"], module, port, recording,
            _STEP if options["share"] < 1 else None, None if switched is None else switched._native,
        )  # fmt: skip
    except BaseException as error:
        if worker:
            worker.stop()
        if isinstance(error, _native.trace.LimitReached):
            raise SystemLimit(f"{where}: {error}") from None
        raise
    session = Session(native, worker, recording, Owner(native, worker, called))
    strong.add(session)
    if recording is not None:
        record(session, options)
    return session


def _module(where: str, tracer: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    from inviso.tracer import NativeTracer, given  # few programs need it

    if tracer and isinstance(tracer[0], NativeTracer) and options["capture"] == "ref":
        raise BadArg(where, "opts", "capture 'ref' hands over Python objects, and the tracer is a library; drop it")
    return given(where, tracer)


def session_info(what: Pid | Port | Mfa | str | Any) -> list[Session] | None:
    """Lists the sessions that affect something (trace.md, ``session_info/1``).

    Args:
        what: ``"all"``, a Pid, a Port, or the thread, task, socket, subprocess or transport itself; a function name
            (MFA) without wildcards, ``"new"``, ``"new_processes"``, ``"new_ports"``, ``"on_load"``, ``"send"``,
            ``"receive"``.

    Returns:
        Weak handles; None if ``what`` doesn't exist.

    Raises:
        BadArg: ``what`` is none of these.

    >>> with session_create("seen") as session:
    ...     session_info("all") == [session]
    True
    """
    where = "session_info/1"
    what = tracee_of(what)
    every = [Session(native) for native in _native.trace.sessions()]
    if isinstance(what, Pid):
        check_process(where, "what", what)
        if not what.is_alive():
            return None
        return [s for s in every if s._native.flags_of(what)]
    if isinstance(what, Port):
        if not what.is_local():
            raise BadArg(where, "what", f"{shown(what)} is a port of another node; pass one of this node")
        return [s for s in every if s._native.flags_of(what)] if _native.trace.port_exists(what) else None
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
        why = (
            f"{shown(what)} is nothing to ask about; pass a Pid, a Port, an MFA, 'all', 'new', 'send', 'receive' or "
            "'on_load'"
        )
        raise BadArg(where, "what", why)
    mfa = mfa_of(where, "what", what, wildcards=False)
    set_on = [session._native.kinds_of(mfa) for session in every]
    if not any(set_on) and not _native.trace.function_exists(mfa):
        return None
    return [session for session, kinds in zip(every, set_on, strict=True) if kinds and kinds[0]]
