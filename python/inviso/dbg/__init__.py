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

import importlib
import sys
import threading
import time
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import inviso
from inviso import Pid, Port, trace
from inviso._limits import LOST, Rate, checked
from inviso.errors import BadArg, shown
from inviso.match_spec import ms as fun2ms

from ._help import HELP, ITEMS
from ._items import BadFlags, BadPid, flags_of, short
from ._lines import LINE, _safe
from ._patterns import ctp, ctpe, ctpg, ctpl, dtp, ltp, path_of, rtp, tp, tpe, tpl, wtp
from ._ports import dhandler, flush_trace_port, stop_trace_client, trace_client, trace_port, trace_port_control
from ._server import Server
from ._session import Session, server_of, session, session_create, session_destroy, traced

if TYPE_CHECKING:
    from ._session import Answer

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
    server = server_of(where)
    if not arguments:
        traced.add(server)
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
        data = path_of(where, "data", data)
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
    traced.add(server)
    return server.start(kind, data, limit, rate, lost)


def get_tracer(node: str | None = None) -> Answer:
    """Where the messages go (dbg.md, ``get_tracer/0``, ``get_tracer/1``).

    Returns:
        ``("ok", Pid, trace port or (module, state))``, or ``("error", ("no_tracer_on_node", node))``.

    >>> get_tracer()
    ('error', ('no_tracer_on_node', 'nonode@nohost'))
    """
    found = server_of("get_tracer/0").tracer() if node in (None, inviso.node()) else None
    return ("error", ("no_tracer_on_node", node or inviso.node())) if found is None else ("ok", found)


def stop() -> None:
    """Ends tracing: everything that was sent before is handled, then the session, its patterns, flags and tracer are
    gone, trace clients and ports are closed, and saved match specifications are forgotten (dbg.md, ``stop/0``). A
    handler that hasn't handled it within 5 seconds is not waited for any longer.

    >>> stop()
    """
    server_of("stop/0").stop()


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
    server = server_of("p/2")
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
    server = server_of("i/0")
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
    if server_of("ln/0").session is not None:
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


for _name in __all__:  # errors and the documentation know them by this module
    if _name not in ("LINE", "LOST", "fun2ms"):
        globals()[_name].__module__ = __name__
del _name
