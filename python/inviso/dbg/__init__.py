"""Tracing from the keyboard, by the short names of OTP's ``dbg``.

Three steps: a tracer, whom to trace, which functions.

>>> from inviso import dbg
>>> import json
>>> _ = dbg.tracer()
>>> _ = dbg.p(inviso.self(), "c")
>>> dbg.tp("json", "loads", "x")
('ok', [('matched', 'nonode@nohost', 1), ('saved', 'x')])
>>> json.loads("[1]"); dbg.stop()
[1]
(<0...>) call json:loads('[1]',None,None,None,None,None,None,{})
(<0...>) returned from json:loads/8 -> [1]

Results are OTP's: ``("ok", [("matched", node, number), ...])`` or ``("error", reason)``; ``ok`` alone is None. What OTP
answers with a crash is :class:`inviso.BadArg`.

dbg has a session of its own, so it touches nobody else's tracing, and :func:`stop` leaves nothing. It ends by itself
when its limit is reached, when nobody reads it any more, and when more messages were lost than ``lost`` allows. The
traced program never waits for it.
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import inviso
from inviso import Pid, Port, trace, trace_ports
from inviso._limits import LOST, Rate, checked
from inviso._literal import NotLiteral, written
from inviso._pattern import parse
from inviso._stream import put
from inviso.errors import BadArg, shown
from inviso.match_spec import match_spec_test
from inviso.match_spec import ms as fun2ms

from ._help import HELP, ITEMS
from ._items import BadFlags, BadPid, flags_of, short
from ._lines import LINE, _safe, line
from ._server import Server, optional

if TYPE_CHECKING:
    from typing import TypeAlias

    Answer: TypeAlias = tuple[str, Any]

__all__ = [
    "LINE",
    "LOST",
    "Session",
    "c",
    "cn",
    "ctp",
    "ctpe",
    "ctpg",
    "ctpl",
    "dhandler",
    "dtp",
    "flush_trace_port",
    "fun2ms",
    "get_tracer",
    "h",
    "i",
    "ln",
    "ltp",
    "n",
    "p",
    "rtp",
    "session",
    "session_create",
    "session_destroy",
    "stop",
    "stop_trace_client",
    "tp",
    "tpe",
    "tpl",
    "trace_client",
    "trace_port",
    "trace_port_control",
    "tracer",
    "wtp",
]

_default = Server("dbg")


class Session:
    """A dbg of its own, which :func:`session_create` makes.

    >>> session_create("mine")
    <dbg session 'mine'>
    """

    __slots__ = ("__weakref__", "_server")

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def name(self) -> str:
        """The name that its maker gave it."""
        return self._server.name

    def __repr__(self) -> str:
        return f"<{'ended ' if self._server.destroyed else ''}dbg session {self.name!r}>"


_current: ContextVar[Session | None] = ContextVar("inviso.dbg", default=None)


def _server(where: str) -> Server:
    current = _current.get()
    if current is None:
        return _default
    if current._server.destroyed:
        raise BadArg(where, "session", f"{shown(current)} can't be used any more; make one with dbg.session_create()")
    return current._server


# the tracer


def tracer(*arguments: Any, limit: int | None = None, rate: Rate | None = None, lost: int | None = None) -> Any:
    """Starts a tracer: where the messages go (dbg.md, ``tracer/0``, ``tracer/2``, ``tracer/3``).

    Args:
        arguments: nothing: lines on standard output, as it is now. Or a kind and its data:

            ``"process", (handler, state)``
                ``handler(message, state)`` is called with each message, and returns the next state; in a process of its
                own. One that raises ends the tracing.
            ``"file", name``
                lines, in a file that only its owner may read.
            ``"port", generator``
                a trace port, or what opens one (:func:`trace_port`).
            ``"module", (tracer_module, state)``
                a tracer module, or a function that returns such a pair.

            Before the kind a node may be named: this one.
        limit: ends the tracing after so many messages.
        rate: ends it when there are more messages than that: in a second, or as ``(messages, milliseconds)``.
        lost: ends it when more than so many messages were lost; :data:`LOST`, and of a port any number, if not given.

    Returns:
        ``("ok", where the messages go)``: the tracer's Pid, the port, or the pair (a node's name, if one was named);
        ``("error", "already_started")``; or ``("error", reason)`` for a file that can't be opened.

    Raises:
        BadArg: a wrong argument; or a limit for a module, which counts nothing.

    >>> seen = []
    >>> _ = tracer("process", (lambda message, number: seen.append(message[2:]) or number + 1, 0), limit=1)
    >>> _, _ = tp("json", "loads", []), p(inviso.self(), ["c", "arity"])
    >>> _ = json.loads("1"), json.loads("2")
    >>> stop(); seen
    *** dbg stopped: the limit of 1 message was reached.
    [('call', ('json', 'loads', 8))]
    """
    where = f"tracer/{len(arguments)}"
    checked(where, limit, rate, lost)
    server = _server(where)
    if not arguments:
        _traced.add(server)
        return server.start_default(limit, rate, lost)
    if len(arguments) == 3:
        name, *rest = arguments
        if not isinstance(name, str):
            raise BadArg(where, "node", f"{shown(name)} is no node; pass the name of this one, {inviso.node()!r}")
        if name != inviso.node():
            return ("error", ("nodedown", name))
        answer = tracer(*rest, limit=limit, rate=rate, lost=lost)
        return ("ok", name) if answer[0] == "ok" else answer
    if len(arguments) != 2:
        raise BadArg(where, "arguments", "pass nothing, or a kind and its data: 'process', (handler, state)")
    kind, data = arguments
    if kind == "process":
        if not (isinstance(data, tuple) and len(data) == 2 and callable(data[0])):
            raise BadArg(where, "data", f"{shown(data)} is no handler; pass (function of message and state, state)")
    elif kind == "file":
        data = _path(where, "data", data)
    elif kind not in ("port", "module"):
        kinds = "'process', 'file', 'port' or 'module'"
        raise BadArg(where, "type", f"{shown(kind)} is no kind of tracer; pass {kinds}")
    elif kind == "module" and (limit, rate, lost) != (None, None, None):
        why = "a tracer module counts nothing; leave it out, or start a tracer of another kind"
        raise BadArg(where, "limit" if limit is not None else "lost" if rate is None else "rate", why)
    elif kind == "port" and not callable(data) and not hasattr(data, "flush"):
        raise BadArg(where, "data", f"{shown(data)} is no trace port; pass what dbg.trace_port() returned")
    elif kind == "module" and not callable(data) and not (isinstance(data, tuple) and len(data) == 2):
        raise BadArg(where, "data", f"{shown(data)} is no tracer module; pass (module, state)")
    _traced.add(server)
    return server.start(kind, data, limit, rate, lost)


def get_tracer(node: str | None = None) -> Answer:
    """Where the messages go (dbg.md, ``get_tracer/0``, ``get_tracer/1``).

    Returns:
        ``("ok", Pid, trace port or (module, state))``, or ``("error", ("no_tracer_on_node", node))``.

    >>> get_tracer()
    ('error', ('no_tracer_on_node', 'nonode@nohost'))
    """
    found = _server("get_tracer/0").tracer() if node in (None, inviso.node()) else None
    return ("error", ("no_tracer_on_node", node or inviso.node())) if found is None else ("ok", found)


def stop() -> None:
    """Ends tracing: everything that was sent before is handled, then the session, its patterns, flags and tracer are
    gone, trace clients and ports are closed, and saved match specifications are forgotten (dbg.md, ``stop/0``). A
    handler that hasn't handled it within 5 seconds is not waited for any longer.

    >>> stop()
    """
    _server("stop/0").stop()


# whom


def p(item: Any, flags: Any = "m", *, limit: int | None = None, rate: Rate | None = None) -> Answer:
    """Switches trace flags on, or with ``"clear"`` all of them off (dbg.md, ``p/1``, ``p/2``).

    Args:
        item: a Pid or Port, or the thread, task, socket, subprocess or transport itself; ``"all"``, ``"processes"``,
            ``"ports"``, each of these ``"existing"`` or ``"new"`` only (``"existing_processes"`` …); a registered name;
            ``"<0.1.0>"``, ``(0, 1, 0)`` or ``1`` for that process.
        flags: one or a list of ``s`` (send), ``r`` (receive), ``m`` (both), ``c`` (call), ``p`` (procs), ``sos``,
            ``sol`` (set on spawn, on link), ``sofs``, ``sofl`` (on the first only), ``all`` (but silent and running),
            ``clear``, and the flags of :func:`inviso.trace.process`.
        limit, rate: as for :func:`tracer`, of the one that runs.

    Returns:
        ``("ok", [("matched", node, number)])``, with ``("no_proc", Pid, Port or name)`` as a fourth element if there is
        none such;
        ``("error", "no_tracers")``, ``("error", ("no_tracer_on_node", node))``, ``("error", ("bad_flags", flags))``,
        ``("error", ("badpid", item))``.

    Raises:
        BadArg: the flag ``call`` for all processes while a pattern takes every function, and there is no limit.

    >>> _ = tracer()
    >>> p(inviso.self(), ["c", "sos"])
    ('ok', [('matched', 'nonode@nohost', 1)])
    >>> p("nobody", "c")
    ('ok', [('matched', 'nonode@nohost', 0, ('no_proc', 'nobody'))])
    >>> p(inviso.self(), ["c", "sofa"])
    ('error', ('bad_flags', ['sofa']))
    >>> stop()
    """
    checked("p/2", limit, rate)
    server = _server("p/2")
    try:
        names = flags_of(flags)
        server.may_limit("p/2", limit, rate)
        return server.process("p/2", item, names, limit, rate)
    except BadFlags as error:
        return ("error", ("bad_flags", error.args[0]))
    except BadPid as error:
        return ("error", ("badpid", error.args[0]))


def c(module: str | types.ModuleType, function: str, args: Sequence[Any], flags: Any = "all") -> Any:
    """Calls a function in a thread of its own, with these flags and a tracer of its own, which prints (dbg.md, ``c/3``,
    ``c/4``). Patterns of other sessions don't count. Of a call that fails its process ends: the flag ``procs`` shows
    how, ``exiting`` with ``running`` that it is scheduled out, and :func:`threading.excepthook` is told, as OTP's
    logger.

    Args:
        module: its name, or the module.
        function: its qualified name.
        args: its positional arguments.
        flags: as for :func:`p`.

    Returns:
        What it returned; ``("error", exception)`` if it raised; ``("error", ("bad_flags", flags))``.

    Raises:
        BadArg: there is no such function, or ``args`` is no list.

    >>> c("json", "loads", ["[1, 2]"], "c")
    [1, 2]
    """
    where = "c/4"
    called = _function(where, module, function)
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes, bytearray, memoryview)):
        raise BadArg(where, "args", f"{shown(args)} is no list of arguments; pass one such as [1, 2]")
    try:
        names = flags_of(flags)
    except BadFlags as error:
        return ("error", ("bad_flags", error.args[0]))
    if names is None:
        return ("error", ("bad_flags", ["clear"]))
    server = Server("dbg_temp_session")
    server.start_default(None, None, LOST)
    made: list[Any] = []
    thread = threading.Thread(target=_call, args=(server, called, args, names, made), name="dbg c", daemon=True)
    thread.start()
    try:
        thread.join()
        while made[0].is_alive():  # it has ended for the program, and tells of its end
            time.sleep(0.001)
    finally:
        server.stop()
    return made[1]


def _call(server: Server, called: Callable[..., Any], args: Sequence[Any], flags: list[str], made: list[Any]) -> None:
    session = server.session
    me = inviso.self()
    made.append(me)
    if session is not None:
        session.process(me, True, flags)
    try:
        made.append(called(*args))
    except BaseException as error:
        made.append(("error", error))
        raise  # and the flags stay, so that the process's end is shown
    if session is not None and session.is_alive():
        session.process(me, False, ["all"])


def i() -> None:
    """Prints whom dbg traces, and how (dbg.md, ``i/0``).

    >>> _, _ = tracer(), p(inviso.self(), ["c", "m"])
    >>> i()
    <BLANKLINE>
    Node nonode@nohost:
    Pid          Initial call          Trace
    <0...MainThread            c | s | r
    >>> stop()
    """
    server = _server("i/0")
    session = server.session
    if session is None:
        return
    print(f"\nNode {inviso.node()}:")
    print(f"{'Pid':<12} {'Initial call':<21} Trace")
    everyone: list[Pid | Port] = [*inviso.processes(), *inviso.ports()]
    for who in everyone:
        found = trace.info(session, who, "flags")
        if found is not None and found[1]:
            print(f"{who!r:<12} {_safe(who.name):<21} {short(found[1])}")


# which functions


def tp(*target: Any, limit: int | None = None, rate: Rate | None = None) -> Answer:
    """Traces global calls: of exported functions, from other modules (dbg.md, ``tp/2``, ``tp/3``, ``tp/4``).

    Args:
        target: which functions, and a match specification. ``tp(module, spec)``, ``tp(module, function, spec)``,
            ``tp(module, function, arity, spec)``, ``tp((module, function, arity), spec)``, or
            ``tp("module:function:arity", spec)``, with ``"_"`` for any; the module is imported, or is a module object.
            The specification is a list, ``[]`` for every call; a lambda (:func:`fun2ms`); the number that one was
            saved by; or ``"x"`` (returns and exceptions), ``"c"`` (the caller), ``"cx"`` (both). Without one it is
            ``[]``.
        limit, rate: as for :func:`tracer`, of the one that runs.

    Returns:
        ``("ok", [("matched", node, number)])``, then ``("saved", number or name)`` if there is a specification;
        ``("error", "unknown_pattern")``; or ``("error", problems)``, as :func:`inviso.match_spec_test` tells them.
        Without a tracer nothing matches.

    Raises:
        BadArg: every function, while the calls of all processes are traced, and there is no limit; or a target that is
            none.

    >>> _ = tracer()
    >>> tp("json", "loads", [("_", [], [("return_trace",)])])
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)])
    >>> tp("json:dumps:_", 1)
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)])
    >>> tp("json", "loads", 8, "no"), tp("json", "nothing", [])
    (('error', 'unknown_pattern'), ('ok', [('matched', 'nonode@nohost', 0)]))
    >>> tp("_", []), p("all", "c")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: p/2, item: 'all' with calls, while a pattern takes every function, traces everything; ...
    >>> stop()
    """
    return _tp("tp", target, "global", limit, rate)


def tpl(*target: Any, limit: int | None = None, rate: Rate | None = None) -> Answer:
    """As :func:`tp`, for all calls of all functions, local ones too (dbg.md, ``tpl/2``).

    >>> _ = tracer()
    >>> tpl("json.decoder", "JSONDecoder.decode", "cx")
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 'cx')])
    >>> stop()
    """
    return _tp("tpl", target, "local", limit, rate)


def _tp(name: str, target: tuple[Any, ...], flag: str, limit: int | None, rate: Rate | None) -> Answer:
    where = f"{name}/{len(target)}"
    checked(where, limit, rate)
    if not 1 <= len(target) <= 4:
        raise BadArg(where, "module", f"there are {len(target)} arguments; pass (module, function, arity) and a spec")
    *parts, spec = target if len(target) > 1 else (*target, [])
    mfa = _mfa(where, parts)
    server = _server(where)
    server.may_limit(where, limit, rate)
    found, error = _spec(where, server, spec)
    if error is not None:
        return error
    if mfa[0] != "_" and mfa[0].removesuffix(".**") not in sys.modules:
        _load(mfa[0].removesuffix(".**"))
    return _set(server, where, mfa, found, flag, limit, rate)


def tpe(event: Literal["send", "receive"], match_spec: Any) -> Answer:
    """Which messages are traced, of processes with the flag ``send`` or ``receive`` (dbg.md, ``tpe/2``).

    Args:
        event: ``"send"``: the specification looks at ``[receiver, message]``; ``"receive"``: at
            ``[node, sender, message]``.
        match_spec: as for :func:`tp`.

    Raises:
        BadArg: ``event`` is none.

    >>> _ = tracer()
    >>> tpe("send", [(["_", ("order", "_")], [], [])]), ctpe("send")
    (('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)]), ('ok', [('matched', 'nonode@nohost', 1)]))
    >>> stop()
    """
    where = "tpe/2"
    if event not in ("send", "receive"):
        raise BadArg(where, "event", f"{shown(event)} is no event; pass 'send' or 'receive'")
    server = _server(where)
    found, error = _spec(where, server, match_spec)
    return error if error is not None else _set(server, where, str(event), found, "")


def ctp(*target: Any) -> Answer:
    """Takes patterns away, global and local ones (dbg.md, ``ctp/0`` to ``ctp/3``).

    Args:
        target: as for :func:`tp`, without a specification; nothing means every function.

    >>> _ = tracer()
    >>> _ = tp("json", "loads", "x")
    >>> ctp("json", "loads"), ctp("json:dumps")
    (('ok', [('matched', 'nonode@nohost', 1)]), ('ok', [('matched', 'nonode@nohost', 1)]))
    >>> stop()
    """
    return _ctp("ctp", target, "global", "local")


def ctpl(*target: Any) -> Answer:
    """As :func:`ctp`, what :func:`tpl` has set only (dbg.md, ``ctpl/1``).

    >>> ctpl("json", "loads")
    ('ok', [])
    """
    return _ctp("ctpl", target, "local")


def ctpg(*target: Any) -> Answer:
    """As :func:`ctp`, what :func:`tp` has set only (dbg.md, ``ctpg/1``).

    >>> ctpg("json", "loads")
    ('ok', [])
    """
    return _ctp("ctpg", target, "global")


def ctpe(event: Literal["send", "receive"]) -> Answer:
    """Traces all messages again (dbg.md, ``ctpe/1``).

    Raises:
        BadArg: ``event`` is none.

    >>> ctpe("receive")
    ('ok', [])
    """
    where = "ctpe/1"
    if event not in ("send", "receive"):
        raise BadArg(where, "event", f"{shown(event)} is no event; pass 'send' or 'receive'")
    return ("ok", _server(where).clear(str(event), [""]))


def _ctp(name: str, target: tuple[Any, ...], *flags: str) -> Answer:
    where = f"{name}/{len(target)}"
    if len(target) > 3:
        raise BadArg(where, "module", f"there are {len(target)} arguments; pass (module, function, arity)")
    mfa = _mfa(where, list(target)) if target else ("_", "_", "_")
    return ("ok", _server(where).clear(mfa, flags))


# saved specifications


def ltp() -> None:
    """Prints the saved match specifications, and the built-in ones (dbg.md, ``ltp/0``).

    >>> ltp()
    c: [('_', [], [('message', ('caller_line',))])]
    caller_exception_trace: cx
    caller_trace: c
    cx: [('_', [], [('exception_trace',), ('message', ('caller_line',))])]
    exception_trace: x
    x: [('_', [], [('exception_trace',)])]
    """
    for key, value in _server("ltp/0").saved:
        print(f"{key}: {value if isinstance(value, str) else _spec_text(value)}")


def _spec_text(spec: list[Any]) -> str:
    try:
        return written(spec)
    except (NotLiteral, RecursionError):  # it has a pid, or the like
        return shown(spec)


def dtp(number: int | None = None) -> None:
    """Forgets the saved match specification of that number, or all; built-in ones stay (dbg.md, ``dtp/0``, ``dtp/1``).

    >>> dtp()
    """
    saved = _server("dtp/1").saved
    if number is None:
        saved.clear()
    elif isinstance(number, int):
        saved.delete(number)


def wtp(name: str) -> Any:
    """Writes the match specifications to a file that only its owner may read, one a line, as Python values (dbg.md,
    ``wtp/1``).

    Returns:
        None, or ``("error", "enoent")`` and the like; ``("error", ("write_error", reason))`` if one of them has a pid or
        a port, which no file can hold: then nothing is written.

    Raises:
        BadArg: ``name`` is no file's name; an int is none.

    >>> wtp("/nowhere/patterns")
    ('error', 'enoent')
    """
    return _server("wtp/1").saved.write(_path("wtp/1", "name", name))


def rtp(name: str) -> Any:
    """Reads match specifications from a file and saves those that are new; all of them or none (dbg.md, ``rtp/1``).
    Nothing in the file is run.

    Returns:
        None, ``("error", ("read_error", reason))`` or ``("error", ("file_format_error", "bad_match_spec"))``.

    Raises:
        BadArg: ``name`` is no file's name; an int is none.

    >>> rtp("/nowhere/patterns")
    ('error', ('read_error', 'enoent'))
    """
    return _server("rtp/1").saved.read(_path("rtp/1", "name", name))


# sessions


def session_create(name: str) -> Session:
    """Makes a dbg of its own, beside the default one and isolated from it (dbg.md, ``session_create/1``).

    Raises:
        BadArg: ``name`` is no str.

    >>> mine = session_create("mine")
    >>> session(mine, lambda: tracer("process", (print, None)))[0]
    'ok'
    >>> get_tracer()[0], session(mine, get_tracer)[0]
    ('error', 'ok')
    >>> session_destroy(mine)
    """
    if not isinstance(name, str):
        raise BadArg("session_create/1", "name", f"{shown(name)} is no name; pass a str")
    return Session(Server(name))


def session_destroy(session: Session) -> None:
    """Ends a session and all that it has set (dbg.md, ``session_destroy/1``).

    Raises:
        BadArg: ``session`` is none of dbg's.
    """
    server = _of("session_destroy/1", session)._server
    server.stop()
    server.destroyed = True


@overload
def session(session: Session | str, function: Callable[[], Any]) -> Any: ...
@overload
def session(session: Session | str) -> Any: ...
def session(session: Session | str, function: Callable[[], Any] | None = None) -> Any:
    """Runs dbg's functions in a session (dbg.md, ``session/2``).

    Args:
        session: what :func:`session_create` made; or a name: of a session for this one call.
        function: is called without arguments, in the caller's process; the functions of dbg that it calls belong to the
            session. Without it the result is a context manager, for a ``with`` block, which may await and yield.

    Returns:
        What ``function`` returned.

    Raises:
        BadArg: ``session`` is none, or has been destroyed; ``function`` can't be called, or is a coroutine function or
            a generator function, whose code would run when the session has been left.

    >>> with session("short") as mine:
    ...     _ = tracer("process", (print, None))
    >>> mine
    <ended dbg session 'short'>
    """
    if not isinstance(session, str):
        _of("session/2", session)
    if function is not None and not callable(function):
        raise BadArg("session/2", "function", f"{shown(function)} can't be called; pass a function without arguments")
    if any(is_one(function) for is_one in _RUN_LATER):
        why = f"{shown(function)} would run when the session has been left; use `with dbg.session(...):` around its code"
        raise BadArg("session/2", "function", why)
    entered = _entered(session)
    if function is None:
        return entered
    with entered:
        return function()


_RUN_LATER: Final = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction


@contextmanager
def _entered(given: Session | str) -> Iterator[Session]:
    made = session_create(given) if isinstance(given, str) else given
    before = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(before)
        if made is not given:
            session_destroy(made)


def _of(where: str, session: Any) -> Session:
    if not isinstance(session, Session):
        raise BadArg(where, "session", f"{shown(session)} is no session of dbg; dbg.session_create() makes one")
    if session._server.destroyed:
        raise BadArg(where, "session", f"{shown(session)} can't be used any more; make one with dbg.session_create()")
    return session


# trace ports


def trace_port(type: Literal["file", "ip"], parameters: Any, **options: Any) -> Callable[[], Any]:
    """What opens a trace port, for ``tracer("port", ...)`` (dbg.md, ``trace_port/2``); see
    :func:`inviso.trace_ports.trace_port`.
    """
    return optional("trace_ports").trace_port(type, parameters, **options)  # type: ignore[no-any-return]


def flush_trace_port(node: str | None = None) -> Any:
    """Has the trace port written all that was sent before (dbg.md, ``flush_trace_port/0``).

    Returns:
        None, ``("error", "no_trace_driver")`` if the tracer is no port, or
        ``("error", "not_supported_by_trace_driver")``.

    >>> flush_trace_port()
    ('error', 'no_trace_driver')
    """
    return trace_port_control("flush", node)


def trace_port_control(operation: str, node: str | None = None) -> Any:
    """Asks something of the trace port (dbg.md, ``trace_port_control/1``).

    Args:
        operation: ``"flush"``; or ``"get_listen_port"``, for the number of an IP port.

    Returns:
        None, ``("ok", number)``, or ``("error", reason)`` as :func:`flush_trace_port`.

    Raises:
        BadArg: ``operation`` is none.

    >>> trace_port_control("get_listen_port")
    ('error', 'no_trace_driver')
    """
    where = "trace_port_control/1"
    if operation not in ("flush", "get_listen_port"):
        raise BadArg(where, "operation", f"{shown(operation)} is no operation; pass 'flush' or 'get_listen_port'")
    server = _server(where)
    port = server.tracer() if node in (None, inviso.node()) else None
    if port is None or isinstance(port, (Pid, tuple)):
        return ("error", "no_trace_driver")
    if (operation == "flush") != (
        port.address is None
    ):  # as in OTP, a file has no number, and a socket nothing to flush
        return ("error", "not_supported_by_trace_driver")
    if operation == "get_listen_port":
        return ("ok", port.address[1])
    port.flush()
    return None


def trace_client(type: Literal["file", "follow_file", "ip"], parameters: Any, handler: Any = None) -> Any:
    """Reads what a trace port wrote, a file, a file that is still written, or an IP port, in a process of its own
    (dbg.md, ``trace_client/2``, ``trace_client/3``); see :func:`inviso.log.trace_client`.

    Args:
        handler: ``(function of message and state, state)``; without it lines are printed.

    Returns:
        The client, for :func:`stop_trace_client`.
    """
    log = optional("log")

    def show(message: Any, out: Any) -> Any:
        if isinstance(message, log.Damage):
            put(out, f"*** {message}\n")
            return out
        return dhandler(message, out)

    return _server("trace_client/3").client(log.trace_client(type, parameters, handler or (show, sys.stdout)))


def stop_trace_client(client: Any) -> None:
    """Ends a trace client (dbg.md, ``stop_trace_client/1``)."""
    optional("log").stop_trace_client(client)


def dhandler(message: Any, out: Any) -> Any:
    """The handler that prints: a line for each message (dbg.md, ``tracer/2``); to be called by other handlers.

    Args:
        message: a trace message; what is none is left out.
        out: a text stream, or anything with ``write``.

    Returns:
        ``out``.

    >>> _ = dhandler(("trace", inviso.self(), "return_from", ("shop", "order", 2), 7), sys.stdout)
    (<0...>) returned from shop:order/2 -> 7
    """
    text = line(message)
    if text is not None:
        put(out, text + "\n")
    return out


# other nodes


def n(node: str) -> Answer:
    """Adds a node. There is no other node to be had here yet (dbg.md, ``n/1``).

    >>> n(inviso.node()), n("other@host")
    (('error', 'cant_add_local_node'), ('error', ('nodedown', 'other@host')))
    """
    return ("error", "cant_add_local_node" if node == inviso.node() else ("nodedown", node))


def cn(node: str) -> None:
    """Removes a node from those that are traced; this one can't be (dbg.md, ``cn/1``).

    >>> cn("other@host")
    """


def ln() -> None:
    """Prints the nodes that are traced (dbg.md, ``ln/0``).

    >>> _ = tracer()
    >>> ln(); stop()
    nonode@nohost
    """
    if _server("ln/0").session is not None:
        print(inviso.node())


def h(item: str | None = None) -> None:
    """Prints what there is help for, or the help for one of these (dbg.md, ``h/0``, ``h/1``).

    Raises:
        BadArg: there is no such item.

    >>> h("ltp")
    ltp() -> None
     - Prints the saved match specifications, and the built-in ones.
    """
    if item is None:
        print(HELP, end="")
        return
    if not isinstance(item, str) or item not in ITEMS:
        raise BadArg("h/1", "item", f"there is no help for {shown(item)}; dbg.h() prints what there is")
    print(ITEMS[item], end="")


# arguments


def _path(where: str, argument: str, given: Any) -> str:
    """A file's name, checked; of an empty one the system says what OTP says."""
    return "" if isinstance(given, str) and not given else trace_ports.path_of(where, argument, given)


def _mfa(where: str, parts: list[Any]) -> Any:
    if isinstance(parts[0], types.ModuleType):
        parts = [parts[0].__name__, *parts[1:]]
    if len(parts) == 1:
        return (
            parse(parts[0], f"{where}, module")[0]
            if isinstance(parts[0], (str, tuple))
            else _no_target(where, parts[0])
        )
    if not isinstance(parts[0], str):
        _no_target(where, parts[0])
    return parse((*parts, "_")[:3], f"{where}, module")[0]


def _no_target(where: str, given: Any) -> Any:
    why = f"{shown(given)} names no functions; pass a module's name, (module, function, arity) or 'module:function:arity'"
    raise BadArg(where, "module", why)


def _spec(where: str, server: Server, given: Any) -> tuple[list[Any], Answer | None]:
    """The specification that was meant, or the error to return."""
    if given is True:
        return [], None
    if isinstance(given, (int, str)) and not isinstance(given, bool):
        found = server.saved.find(given)
        return (found, None) if found is not None else ([], ("error", "unknown_pattern"))
    if callable(given):
        with _as_of(where):
            given = fun2ms(given)
    if not isinstance(given, list):
        why = f"{shown(given)} is no match specification; pass a list, a lambda, a saved number, or 'x', 'c' or 'cx'"
        raise BadArg(where, "match_spec", why)
    if given:
        with _as_of(where):
            result = match_spec_test([], given, "trace")
        if result[0] == "error":
            return [], result
    return given, None


@contextmanager
def _as_of(where: str) -> Iterator[None]:
    """What is wrong with a specification is told of the function that it was given to."""
    try:
        yield
    except BadArg as error:
        raise BadArg(where, "match_spec", error.why) from None


def _set(
    server: Server,
    where: str,
    target: Any,
    spec: list[Any],
    flag: str,
    limit: int | None = None,
    rate: Rate | None = None,
) -> Answer:
    matched = server.function(where, target, spec, flag, limit, rate)
    saved = server.saved.save(spec)
    return ("ok", matched if saved is None else [*matched, ("saved", saved)])


def _load(module: str) -> None:
    """As OTP loads a module that it is to trace."""
    try:
        importlib.import_module(module)
    except (Exception, SystemExit):
        return  # then nothing matches


def _function(where: str, module: Any, name: str) -> Callable[..., Any]:
    if not isinstance(module, (str, types.ModuleType)):
        raise BadArg(where, "module", f"{shown(module)} is no module; pass its name")
    try:
        found: Any = module
        if isinstance(module, str):
            found = sys.modules.get(module) or importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise BadArg(where, "module", f"{shown(module)} can't be imported: {error}") from None
    for part in name.split(".") if isinstance(name, str) else [""]:
        found = getattr(found, part, None)
    if not callable(found):
        raise BadArg(where, "function", f"{shown(module)} has no function {shown(name)}; pass its qualified name")
    return found  # type: ignore[no-any-return]


_traced: weakref.WeakSet[Server] = weakref.WeakSet()
"""That have had a tracer, while somebody has them."""


@atexit.register
def _stop_all() -> None:
    """A program that ends without :func:`stop` has its last lines printed, and written."""
    for server in list(_traced):
        server.stop("program")
