"""Flight recorders: sessions whose rings are written to a log when something goes wrong."""

from __future__ import annotations

import os
import signal as signals
from typing import TYPE_CHECKING, Any, NamedTuple

from inviso import _native, _program, trace_ports
from inviso.errors import BadArg, shown
from inviso.match_spec._compile import compiled, derives
from inviso.terms import Atom
from inviso.trace_ports import TracePort

from ._arguments import mfa_of
from ._handle import alive
from ._patterns import function

if TYPE_CHECKING:
    from ._session import Session

__all__ = ["Dump", "dump", "record", "recorded"]


_NO_DUMP = {signals.SIGKILL, signals.SIGSTOP, signals.SIGSEGV, signals.SIGBUS, signals.SIGFPE, signals.SIGILL}


class Dump(NamedTuple):
    """The result of :func:`dump`."""

    path: str | None
    """The file; None for a socket."""
    written: int
    """Messages that were written."""
    dropped: int
    """Messages that were lost or overwritten since the last dump."""


def dump(session: Session, to: str | os.PathLike[str] | TracePort, *, compress: bool = False) -> Dump:
    """Writes the messages in a session's rings to a log, oldest first; the next dump begins where this one ends.

    Args:
        session: one that is its own tracer. A flight recorder, whose ``overflow`` is ``"overwrite"``, has the newest
            messages in its rings. With ``"drop"`` the rings have the oldest messages that fitted. Messages that were
            received from it, or delivered by ``delivered``, are not written.
        to: a file's name, or an open trace port.
        compress: as of :func:`inviso.trace_ports.trace_port`.

    Returns:
        A :class:`Dump`. The log begins with a drop record if messages were overwritten since the last dump.

    Raises:
        BadArg: a wrong argument.
        OSError: the operating system refuses. If the file could be made, messages that it lacks are lost. They are
            counted, and the next dump begins with a drop record for them.

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
    native = alive(where, session)
    if native.tracer is not None or native.port is not None:
        raise BadArg(where, "session", f"the messages of {shown(session)} go to its tracer; make one with tracer None")
    if session._takes_objects():
        raise BadArg(
            where, "session", f"{shown(session)} has objects (capture 'ref'), which no log takes; drop that option"
        )
    if not isinstance(compress, bool):
        raise BadArg(where, "compress", f"{shown(compress)} is not a bool; pass True or False")
    if isinstance(to, TracePort):
        if compress:
            raise BadArg(where, "compress", "compression of a trace port is set when it is opened; drop compress")
        if not to.is_open():
            raise BadArg(where, "to", f"{shown(to)} takes nothing more; open another one")
        return Dump(to.path, *native.dump_to_port(to._native))
    path = trace_ports.path_of(where, "to", to)
    trace_ports.no_pipe(where, "to", path)
    _native.trace_port.set_program(_program.name())
    return Dump(path, *native.dump_to_file(path, compress))


def recorded(
    where: str, tracer: Any, options: dict[str, Any]
) -> tuple[_native.match_spec.MatchProgram | list[type[BaseException]] | None, float | None] | None:
    """Checks the options of a flight recorder. Returns the exceptions and the time in seconds that start its dumps.
    None for any other session.
    """
    asks = [name for name in ("dump_signal", "dump_on", "dump_slower") if options[name] is not None]
    asks += ["dump_every"] * ("dump_every" in options["given"])
    every = options["dump_every"]
    if not isinstance(every, (int, float)) or isinstance(every, bool) or not 0 <= every < 1e9:
        raise BadArg(where, "opts", f"dump_every {shown(every)} is not a time; pass seconds, a number from 0")
    if options["dump_to"] is None:
        if asks:
            raise BadArg(where, "opts", f"{asks[0]} needs files to write to; pass dump_to, a path such as 'dump-{{n}}'")
        return None
    path = options["dump_to"]
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in os.fsdecode(path):
        raise BadArg(where, "opts", f"dump_to {shown(options['dump_to'])} is not a path; pass one such as 'dump-{{n}}'")
    if tracer is not None:
        raise BadArg(where, "opts", "dump_to is for a session that is its own tracer; pass None as the tracer")
    if options["capture"] == "ref":
        raise BadArg(where, "opts", "capture 'ref' hands over objects, and a dump has copies; drop one of them")
    number = options["dump_signal"]
    if number is not None:
        known = isinstance(number, int) and not isinstance(number, bool) and number in signals.valid_signals()
        if not known or number in _NO_DUMP:
            raise BadArg(
                where, "opts", f"dump_signal {shown(number)} can't be handled; pass one such as signal.SIGUSR2"
            )
    exceptions = None if options["dump_on"] is None else _exceptions(where, options["dump_on"])
    seconds = None
    if options["dump_slower"] is not None:
        pair = options["dump_slower"]
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise BadArg(where, "opts", f"dump_slower {shown(pair)} is not a limit; pass (mfa, seconds)")
        mfa, seconds = pair
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e9:
            raise BadArg(where, "opts", f"dump_slower, {shown(seconds)} is not a time; pass seconds, a number from 0")
        if isinstance(mfa, str):
            mfa = tuple(mfa.rsplit(":", 2))
            if len(mfa) == 3 and mfa[2].isdecimal():
                mfa = (*mfa[:2], int(mfa[2]))
        mfa_of(where, "opts", mfa, wildcards=True)
        options["dump_slower"] = mfa
    if "overflow" not in options["given"]:
        options["overflow"] = "overwrite"
    return exceptions, seconds


def _exceptions(where: str, asked: Any) -> _native.match_spec.MatchProgram | list[type[BaseException]]:
    if isinstance(asked, str) and asked:
        return compiled(where, [(["_", (Atom(asked), "_")], [], [])], "receive")
    classes = asked if isinstance(asked, tuple) else (asked,)
    if classes and all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        return list(classes)
    if derives(asked, list) and list.__len__(asked):
        return compiled(where, asked, "receive")
    why = f"dump_on {shown(asked)} is not an exception; pass a class, a class's name, or a match specification"
    raise BadArg(where, "opts", why)


def record(session: Session, options: dict[str, Any]) -> None:
    path = os.path.abspath(os.fsdecode(options["dump_to"]))  # the program may change its working directory
    template = path if "{n}" in path else path + ".{n}"
    try:
        _native.trace_port.set_program(_program.name())
        session._native.record(template, options["dump_every"], int(options["dump_signal"] or 0))
        if options["dump_slower"] is not None:
            function(session, options["dump_slower"], True, ["call_latency"])
    except BaseException:
        session.destroy()
        raise
