"""Traces several nodes and shows their logs together: OTP's ``ttb`` (Trace Tool Builder), by Inviso's control
component.

:func:`tracer` begins in some nodes of this host. :func:`p` and :func:`tp` select processes and functions. :func:`stop`
fetches the logs into one folder, and :func:`format` prints them as one, with names in place of pids.

>>> import os, tempfile
>>> from inviso import ttb
>>> folder = tempfile.mkdtemp()
>>> ttb.tracer(None, [("file", f"{folder}/ttb")])
('ok', ['nonode@nohost'])
>>> ttb.p(inviso.self(), "call")
('ok', [(<0...>, [('matched', 'nonode@nohost', 1)])])
>>> ttb.tp("json", "loads", [])
('ok', [('matched', 'nonode@nohost', 1)])
>>> _ = json.loads("1")
>>> _ = ttb.stop([("fetch_dir", f"{folder}/fetched"), "format"])
Stored logs in ...
((<0...>, 'MainThread', 'nonode@nohost')) call json:loads('1',None,None,None,None,None,None,{}) (Timestamp: ...)

It lacks these functions of OTP: ``get_et_handler/0``, ``tpe/2``, ``ctpe/1``. Configuration files contain Python values.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from inviso import etf
from inviso._background import Timer
from inviso._system import RLock
from inviso.dbg._items import BadFlags, flags_of
from inviso.errors import BadArg, shown
from inviso.match_spec import ms
from inviso.runtime._component import FLAGS
from inviso.terms import Atom

from ._config import RUNNABLE, list_config, list_history, remember, run_config, run_history, write_config
from ._format import INFO, format
from ._options import check_file, check_handler, pairs, stop_options, timer
from ._run import Run, begin, fetch, fetch_dir, matched, meant

__all__ = [
    "ctp",
    "ctpg",
    "ctpl",
    "format",
    "list_config",
    "list_history",
    "p",
    "run_config",
    "run_history",
    "seq_trigger_ms",
    "start_trace",
    "stop",
    "tp",
    "tpl",
    "tracer",
    "write_config",
    "write_trace_info",
]

OK, ERROR = Atom("ok"), Atom("error")
NOT_TRACING = (ERROR, Atom("not_tracing"))
FILE = "ttb"
"""The default name of logs; the node's name and ``-`` stand before it."""

_TOKEN_FLAGS = ("send", "receive", "print", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp")


_run: Run | None = None
_changing = RLock()


def _now() -> Run | None:
    return _run if _run is not None and _run.control.is_open else None


# beginning


def tracer(nodes: Any = None, opts: Any = ()) -> Any:
    """Begins tracing in nodes: each opens a log, with a file of names beside it. :func:`p` and :func:`tp` select
    processes and functions.

    Args:
        nodes: a name or a list of names, also with ``*`` and ``?``; ``"all"`` for every prepared program of this host;
            None for this program itself. ``inviso run`` or :func:`inviso.runtime.listen` prepares a program.
        opts: a list of options:

            ``("file", name)``
                The name of logs, ``"ttb"`` by default. A node's log is ``NODE-name`` in its folder of logs. For this
                program it is in the working directory. A path leads to another folder. For a wrap set
                ``("file", ("wrap", name))`` or ``("wrap", name, size, count)``.
            ``("handler", handler)``
                The handler for formatting by :func:`stop`, see :func:`format`.
            ``("process_info", on)``
                Whether names of processes are collected; True by default.
            ``("timer", ms)``, ``("timer", (ms, stop_opts))``
                Calls :func:`stop` after so many milliseconds.

    Returns:
        ``("ok", nodes)`` with the nodes that trace. If none does, ``("error", [(node, reason)])``; if no process
        matches, ``("error", "no_nodes")``. ``("error", "already_started")``.

    Raises:
        BadArg: a malformed argument.

    >>> tracer("no-such-node"), tracer(["no-such-*"])
    (('error', [('no-such-node@...', 'nodedown')]), ('error', 'no_nodes'))
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> tracer(None, [("file", f"{folder}/mine")]), tracer()
    (('ok', ['nonode@nohost']), ('error', 'already_started'))
    >>> stop("nofetch"), sorted(os.listdir(folder))
    ('stopped', ['nonode@nohost-mine', 'nonode@nohost-mine.ti'])
    """
    given = pairs("tracer/2", opts, ("file", "handler", "process_info", "timer"))
    file = given.get("file", FILE)
    check_file(file)
    names = given.get("process_info", True)
    if not isinstance(names, bool):
        raise BadArg("tracer/2", "opts", f"process_info {shown(names)} is not a bool; pass True or False")
    if "handler" in given:
        check_handler("tracer/2", given["handler"])
    wait, at_end = timer(given.get("timer"))
    global _run
    with _changing:
        if _now() is not None:
            return ERROR, Atom("already_started")
        run = begin(nodes, file, names=names, handler=given.get("handler"))
        if not isinstance(run, Run):
            return run
        _run = run
        if wait is not None:
            _start_timer(run, wait, at_end)
    remember("tracer", nodes, opts)
    return OK, run.control.nodes()


def start_trace(nodes: Any, patterns: Iterable[Any], flags: tuple[Any, Any], opts: Any = ()) -> Any:
    """Calls :func:`tracer`, :func:`tpl` for each pattern, and :func:`p`. Returns the answer of :func:`tracer`.

    Args:
        patterns: the arguments of :func:`tpl`, each a tuple.
        flags: the arguments of :func:`p`.

    >>> import tempfile
    >>> start_trace(None, [("json", "loads", [])], ("all", "call"), [("file", f"{tempfile.mkdtemp()}/ttb")])
    ('ok', ['nonode@nohost'])
    >>> stop("nofetch")
    'stopped'
    """
    answer = tracer(nodes, opts)
    if answer[0] == OK:
        for pattern in patterns:
            tpl(*pattern)
        p(*flags)
    return answer


# flags and patterns


def p(item: Any, flags: Any) -> Any:
    """Sets trace flags of processes in all nodes, and timestamps with them; ``"clear"`` removes all flags.

    Args:
        item: ``"all"``, ``"existing"``, ``"new"``, also with ``_processes`` after it; a Pid of any node; a registered
            name.
        flags: one flag or a list: ``"call"``, ``"send"`` …, or short ones of :func:`inviso.dbg.p`, such as ``"c"``,
            ``"m"``, ``"sos"``.

    Returns:
        ``("ok", [(item, [("matched", node, number)])])``; a node that fails has ``("matched", node, 0, reason)``.

    >>> p("all", "call")
    ('error', 'not_tracing')
    """
    try:
        words = flags_of(flags)
    except BadFlags as wrong:
        raise BadArg(
            "p/2", "flags", f"{shown(wrong.args[0])} are not trace flags; pass 'call', 'm', ['c', 'sos'] …"
        ) from None
    who = meant(item)
    run = _now()
    if run is None:
        return NOT_TRACING
    nodes = run.nodes_of(who)
    if words is None:
        answers = run.control.call(nodes, "ctf", [(who, list(FLAGS))])
    else:
        flagged = [flag for flag in words if flag in FLAGS]
        answers = run.control.call(nodes, "tf", [(who, list(dict.fromkeys([*flagged, "timestamp"])))])
    remember("p", item, flags)
    return OK, [(item, [matched(node, answer) for node, answer in answers])]


def tp(*words: Any) -> Any:
    """Traces global calls of functions, in all nodes.

    Args:
        words: ``(module, match_spec)``, ``(module, function, match_spec)``, ``(module, function, arity, match_spec)``,
            or ``((module, function, arity), match_spec)``. The match specification is a list, a lambda as for
            :func:`inviso.ms`, ``"x"``, ``"c"`` or ``"cx"``, or the number of a saved one.

    Returns:
        ``("ok", [("matched", node, number)])``, with ``("saved", number or name)`` in the list if the match
        specification was saved.

    >>> tp("json", "loads", "x")
    ('error', 'not_tracing')
    """
    return _pattern("tp", words)


def tpl(*words: Any) -> Any:
    """As :func:`tp`, for all calls, also local ones.

    >>> tpl("json", [])
    ('error', 'not_tracing')
    """
    return _pattern("tpl", words)


def _pattern(where: str, words: tuple[Any, ...]) -> Any:
    if len(words) < 2:
        raise BadArg(f"{where}/2", "arguments", f"{shown(words)} lacks a match specification; pass [] for all calls")
    mfa = _mfa(where, words[:-1])
    run = _now()
    if run is None:
        return NOT_TRACING
    spec = words[-1]
    if callable(spec):
        spec = ms(spec)
    found = run.saved.find(spec) if isinstance(spec, (int, str)) else spec
    if not isinstance(found, list):
        why = f"{shown(spec)} is not a match specification; pass a list, a lambda, 'x', 'c', 'cx' or a saved number"
        raise BadArg(f"{where}/2", "match_spec", why)
    answers = run.control.call(None, where, [(*mfa, found)])
    remember(where, *words)
    key = run.saved.save(found) if all(answer[0] == OK for _, answer in answers) else None
    saved = [] if key is None else [(Atom("saved"), key)]
    return OK, [*(matched(node, answer) for node, answer in answers), *saved]


def ctp(*words: Any) -> Any:
    """Removes patterns of :func:`tp` and :func:`tpl`: ``()`` for all, ``(module)``, ``(module, function)``,
    ``(module, function, arity)``. Returns as :func:`tp`.

    >>> ctp("json")
    ('error', 'not_tracing')
    """
    return _clear("ctp", words, ("ctp", "ctpl"))


def ctpl(*words: Any) -> Any:
    """As :func:`ctp`, only for patterns of :func:`tpl`.

    >>> ctpl()
    ('error', 'not_tracing')
    """
    return _clear("ctpl", words, ("ctpl",))


def ctpg(*words: Any) -> Any:
    """As :func:`ctp`, only for patterns of :func:`tp`.

    >>> ctpg()
    ('error', 'not_tracing')
    """
    return _clear("ctpg", words, ("ctp",))


def _clear(where: str, words: tuple[Any, ...], requests: tuple[str, ...]) -> Any:
    mfa = _mfa(where, words)
    run = _now()
    if run is None:
        return NOT_TRACING
    answers: list[Any] = []
    for request in requests:
        answers = run.control.call(None, request, [mfa])
    remember(where, *words)
    return OK, [matched(node, answer) for node, answer in answers]


def _mfa(where: str, words: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    given = words[0] if len(words) == 1 and isinstance(words[0], tuple) else words
    match (*given, "_", "_", "_")[:3]:
        case (str(module), str(function), int() | "_" as arity) if len(given) <= 3 and module and function:
            return module, function, arity
    raise BadArg(
        f"{where}/{len(words)}", "arguments", f"{shown(words)} names no functions; pass (module, function, arity)"
    )


def seq_trigger_ms(flags: Any = "all") -> list[Any]:
    """Returns a match specification for :func:`tp` with which a call begins sequential tracing.

    Args:
        flags: the token's flags: ``"all"``, one flag, or a list of ``"send"``, ``"receive"``, ``"print"``,
            ``"timestamp"`` …

    >>> seq_trigger_ms("send")
    [('_', [], [('set_seq_token', 'send', True)])]
    """
    words = _TOKEN_FLAGS[:4] if flags == "all" else (flags,) if isinstance(flags, str) else tuple(flags)
    wrong = [flag for flag in words if flag not in _TOKEN_FLAGS]
    if wrong:
        raise BadArg(
            "seq_trigger_ms/1", "flags", f"{shown(wrong[0])} is not a flag of a token; pass {', '.join(_TOKEN_FLAGS)}"
        )
    return [("_", [], [("set_seq_token", flag, True) for flag in words])]


def write_trace_info(key: Any, info: Any) -> Any:
    """Writes a value of your own into each node's file of names; a handler of :func:`format` gets it under ``key``.

    Args:
        key, info: any terms. ``info`` may be a function without parameters, which is called here for the value.

    Returns:
        None; ``("error", "not_tracing")``, ``("error", [(node, reason)])``.

    >>> write_trace_info("release", "1.4")
    ('error', 'not_tracing')
    """
    entry = etf.dumps((INFO, key, info() if callable(info) else info))
    run = _now()
    if run is None:
        return NOT_TRACING
    failed = [(node, answer[1]) for node, answer in run.control.call(None, "write_ti", entry) if answer != OK]
    return (ERROR, failed) if failed else None


# the end


def stop(opts: Any = ()) -> Any:
    """Stops tracing in all nodes, and moves their logs into one folder.

    Args:
        opts: one or a list of:

            ``"nofetch"``
                Leaves the logs where they are.
            ``("fetch_dir", folder)``
                The folder, which must be empty if it exists. The default is ``ttb_upload_NAME-DATE-TIME``.
            ``"format"``, ``("format", format_opts)``
                Calls :func:`format` for the folder afterwards.
            ``"return_fetch_dir"``
                Returns ``("stopped", folder)``.

    Returns:
        ``"stopped"``, ``("stopped", folder)``, or ``("error", "not_tracing")``. Prints where the logs are.

    >>> stop()
    ('error', 'not_tracing')
    """
    given = stop_options(opts)
    global _run
    with _changing:
        run = _now()
        if run is None:
            return NOT_TRACING
        folder = None if given["nofetch"] else fetch_dir(given["fetch_dir"], run.name)
        _run = None
        if run.timer is not None:
            run.timer.cancel()
        try:
            run.control.call(None, "stop_tracing", timeout=60.0)
            if folder is not None:
                fetch(run.control, folder)
            run.control.remove(None, ends=True)
        finally:
            run.control.close()
    if folder is None:
        return Atom("stopped")
    print(f"Stored logs in {folder}")
    if given["format"] is not None:
        options = given["format"]
        if run.handler is not None and "handler" not in options:
            options = {**options, "handler": run.handler}
        format(folder, options)
    return (Atom("stopped"), folder) if given["return_fetch_dir"] else Atom("stopped")


def _start_timer(run: Run, wait: float, at_end: Any) -> None:
    def end() -> None:
        if _run is run:
            run.timer = None
            with suppress(OSError, BadArg):  # there is no caller for the error
                stop(at_end)

    run.timer = Timer(end)
    run.timer.start(wait)


RUNNABLE.update(
    {
        **{"tracer": tracer, "p": p, "tp": tp, "tpl": tpl, "ctp": ctp, "ctpl": ctpl, "ctpg": ctpg},
        **{"start_trace": start_trace, "stop": stop, "write_trace_info": write_trace_info},
    }
)
