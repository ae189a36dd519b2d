"""Tracing from the keyboard, by the short names of OTP's ``dbg``.

Three steps: start a tracer, choose the processes, choose the functions.

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

Results are OTP's: ``("ok", [("matched", node, number), ...])`` or ``("error", reason)``; ``ok`` alone is None. Where
OTP crashes, :class:`inviso.BadArg` is raised.

dbg has its own session: it doesn't affect other tracing, and :func:`stop` removes all of it. It ends by itself when its
limit is reached, when the reader of its output has gone, and when more messages were lost than ``lost`` allows. The
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
    """Starts a tracer, which gets the messages (dbg.md, ``tracer/0``, ``tracer/2``, ``tracer/3``).

    Args:
        arguments: nothing for lines on the present standard output. Or a kind and its data:

            ``"process", (handler, state)``
                A process calls ``handler(message, state)`` with each message; the result is the next state. An
                exception ends the tracing.
            ``"file", name``
                Lines in a file that only its owner can read.
            ``"port", generator``
                A trace port, or a function that opens one (:func:`trace_port`).
            ``"module", (tracer_module, state)``
                A tracer module, or a function that returns such a pair.

            The name of this node may stand before the kind.
        limit: ends the tracing after so many messages.
        rate: ends it at more messages than this in a second; ``(messages, milliseconds)`` for another span.
        lost: ends it when more messages than this were lost. The default is :data:`LOST`, and no end for a trace port.

    Returns:
        ``("ok", tracer)``: the tracer's Pid, the port, or the pair; with a node the node's name.
        ``("error", "already_started")``; or ``("error", reason)`` for a file that can't be opened.

    Raises:
        BadArg: a wrong argument; or a limit for a tracer module, whose messages nothing counts.

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
            raise BadArg(where, "node", f"{shown(name)} is not a node; pass the name of this one, {inviso.node()!r}")
        if name != inviso.node():
            return ("error", ("nodedown", name))
        answer = tracer(*rest, limit=limit, rate=rate, lost=lost)
        return ("ok", name) if answer[0] == "ok" else answer
    if len(arguments) != 2:
        raise BadArg(where, "arguments", "pass nothing, or a kind and its data: 'process', (handler, state)")
    kind, data = arguments
    if kind == "process":
        if not (isinstance(data, tuple) and len(data) == 2 and callable(data[0])):
            raise BadArg(where, "data", f"{shown(data)} is not a handler; pass (function of message and state, state)")
    elif kind == "file":
        data = path_of(where, "data", data)
    elif kind not in ("port", "module"):
        kinds = "'process', 'file', 'port' or 'module'"
        raise BadArg(where, "type", f"{shown(kind)} is not a kind of tracer; pass {kinds}")
    elif kind == "module" and (limit, rate, lost) != (None, None, None):
        why = "a tracer module counts nothing; leave it out, or start a tracer of another kind"
        raise BadArg(where, "limit" if limit is not None else "lost" if rate is None else "rate", why)
    elif kind == "port" and not callable(data) and not hasattr(data, "flush"):
        raise BadArg(where, "data", f"{shown(data)} is not a trace port; pass what dbg.trace_port() returned")
    elif kind == "module" and not callable(data) and not (isinstance(data, tuple) and len(data) == 2):
        raise BadArg(where, "data", f"{shown(data)} is not a tracer module; pass (module, state)")
    traced.add(server)
    return server.start(kind, data, limit, rate, lost)


def get_tracer(node: str | None = None) -> Answer:
    """Returns the tracer, which gets the messages (dbg.md, ``get_tracer/0``, ``get_tracer/1``).

    Returns:
        ``("ok", tracer)``, where the tracer is a Pid, trace port or ``(module, state)``; or
        ``("error", ("no_tracer_on_node", node))``.

    >>> get_tracer()
    ('error', ('no_tracer_on_node', 'nonode@nohost'))
    """
    found = server_of("get_tracer/0").tracer() if node in (None, inviso.node()) else None
    return ("error", ("no_tracer_on_node", node or inviso.node())) if found is None else ("ok", found)


def stop() -> None:
    """Ends tracing (dbg.md, ``stop/0``).

    All earlier messages are handled; it waits at most 5 seconds for a handler. Then the session, its patterns, flags
    and tracer are removed, trace clients and ports are closed, and saved match specifications are forgotten.

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
        limit, rate: as for :func:`tracer`; limits of the running tracer.

    Returns:
        ``("ok", [("matched", node, number)])``, with ``("no_proc", Pid, Port or name)`` as a fourth element if the item
        doesn't exist; ``("error", "no_tracers")``, ``("error", ("no_tracer_on_node", node))``,
        ``("error", ("bad_flags", flags))``, ``("error", ("badpid", item))``.

    Raises:
        BadArg: the flag ``call`` for all processes while a pattern matches every function, without a limit.

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
    """Calls a function in a new thread, with these flags and a tracer that prints (dbg.md, ``c/3``, ``c/4``).

    Patterns of other sessions have no effect. If the call raises, the thread ends by the exception: the flag ``procs``
    shows the reason, ``exiting`` with ``running`` shows that it is scheduled out, and :func:`threading.excepthook` is
    called, as OTP informs its logger.

    Args:
        module: its name, or the module.
        function: its qualified name.
        args: its positional arguments.
        flags: as for :func:`p`.

    Returns:
        The function's result; ``("error", exception)`` if it raised; ``("error", ("bad_flags", flags))``.

    Raises:
        BadArg: there is no such function, or ``args`` is not a list.

    >>> c("json", "loads", ["[1, 2]"], "c")
    [1, 2]
    """
    where = "c/4"
    called = _function(where, module, function)
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes, bytearray, memoryview)):
        raise BadArg(where, "args", f"{shown(args)} is not a list of arguments; pass one such as [1, 2]")
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
        while made[0].is_alive():  # the thread has been joined; its process still emits its end
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
        raise  # the flags stay, so the end of the process is shown
    if session is not None and session.is_alive():
        session.process(me, False, ["all"])


def i() -> None:
    """Prints the traced processes and ports with their flags (dbg.md, ``i/0``).

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
    """Adds a node. Other nodes can't be added yet (dbg.md, ``n/1``).

    >>> n(inviso.node()), n("other@host")
    (('error', 'cant_add_local_node'), ('error', ('nodedown', 'other@host')))
    """
    return ("error", "cant_add_local_node" if node == inviso.node() else ("nodedown", node))


def cn(node: str) -> None:
    """Removes a node from the traced ones; this node can't be removed (dbg.md, ``cn/1``).

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
    """Prints the items that have help, or the help for one item (dbg.md, ``h/0``, ``h/1``).

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
        raise BadArg(where, "module", f"{shown(module)} is not a module; pass its name")
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


for _name in __all__:  # errors and the documentation name this module
    if _name not in ("LINE", "LOST", "fun2ms"):
        globals()[_name].__module__ = __name__
del _name
