"""Inviso's control component: traces the prepared processes of this host together, by the functions of Erlang's ``inviso``.

A process is prepared by ``inviso run``, by autostart, or by :func:`inviso.runtime.listen`. The control adds it as a
*node*, and a runtime component in it carries out what is asked. Answers are as in Inviso: ``("ok", [(node, result)])``,
where one node's failure, ``("error", reason)``, hides no other's. A control whose own process has no name
(``nonode@nohost``) has that process only, and answers its result alone.

>>> import json
>>> from inviso import control
>>> _ = control.start()
>>> control.add_node("mine")
('ok', 'new')
>>> control.tpl("json", "loads", "_", True)
('ok', [1])
>>> control.get_status()
('ok', ('idle', 'running'))
>>> control.stop_all()

Every function takes ``nodes=``, a list of names, in place of the list that the original has first. A name without
``@host`` is one on this host. :class:`inviso.Cluster` is the same for people who don't know Erlang.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from inviso import process
from inviso._system import RLock
from inviso.errors import BadArg, shown
from inviso.process import Pid
from inviso.runtime._initiator import leave_if_stopped
from inviso.terms import Atom

from . import _arguments as given
from ._control import NOT_ADDED, OK, Control
from ._logs import Source, fetched, in_parallel, shared_names
from ._use import used

__all__ = [
    "NotStarted", "add_node", "add_node_if_ref", "add_nodes", "add_nodes_if_ref", "cancel_suspension", "change_options",
    "clear", "ctf", "ctf_all", "ctp", "ctp_all", "ctpl", "ctpm", "ctpm_globalnames", "ctpm_localnames", "ctpm_ms",
    "delete_log", "fetch_log", "flush", "get_status", "get_tracerdata", "init_tpm", "init_tracing", "list_logs", "start",
    "stop", "stop_all", "stop_nodes", "stop_tracing", "subscribe", "suspend", "tf", "tp", "tpl", "tpm", "tpm_globalnames",
    "tpm_localnames", "tpm_ms", "tpm_ms_tracer", "tpm_tracer", "unsubscribe",
]  # fmt: skip

ERROR = Atom("error")
_control: Control | None = None
_changing = RLock()


class NotStarted(RuntimeError):
    """There is no control component in this process.

    >>> raise NotStarted("control.tp")
    Traceback (most recent call last):
    ...
    inviso.control.NotStarted: control.tp: there is no control component; call control.start() first
    """

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: there is no control component; call control.start() first")


def _here(where: str) -> Control:
    leave_if_stopped()
    found: Control | None = used() or _control
    if found is None or not found.is_open:
        raise NotStarted(f"control.{where}")
    return found


def _shaped(control: Control, pairs: list[Any]) -> Any:
    """Answers of nodes as Inviso gives them: without names where the control has none."""
    if control.is_distributed:
        return OK, pairs
    if not pairs:
        return NOT_ADDED
    return _bare(pairs[0][1]) if len(pairs) == 1 else pairs


def _bare(answer: Any) -> Any:
    return None if answer == OK else answer


# begin and end


def start(options: Any = (), *, timeout: float = 5.0) -> tuple[str, Any]:
    """Start the control component of this process.

    Args:
        options: ``("subscribe", pid)``, and defaults for the runtime components that are added: ``("dependency", ms)``,
            ``("overload", …)`` and others, see :func:`add_nodes`.
        timeout: seconds that a node may take for an answer; then ``("error", "timeout")`` stands in its place.

    Returns:
        ``("ok", pid)``, ``("error", ("already_started", pid))``, ``("error", ("unknown_option", item))``.

    >>> start()
    ('ok', <0...>)
    >>> start()[1][0]
    'already_started'
    >>> stop()
    'shutdown'
    """
    global _control
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise BadArg("control.start", "timeout", f"{shown(timeout)} is no time; pass seconds, more than 0")
    items = list(options.items()) if isinstance(options, dict) else list(options)
    subscribers = []
    for item in [item for item in items if isinstance(item, tuple) and item[:1] in (("subscribe",), ("unsubscribe",))]:
        items.remove(item)
        if item[0] == "subscribe":
            if len(item) != 2 or not _may_subscribe(item[1]):
                return ERROR, (Atom("unknown_option"), item)
            subscribers.append(item[1])
    settings = given.settings("start", items)
    if isinstance(settings, tuple):
        return settings
    with _changing:
        if _control is not None and _control.is_open:
            return ERROR, (Atom("already_started"), _control.pid)
        made = _control = Control(settings=settings, timeout=float(timeout))
    for subscriber in subscribers:
        made.subscribe(subscriber)
    with suppress(OSError):  # then none can announce itself
        made.listen()
    return OK, made.pid


def stop() -> Atom:
    """End the control component, if there is one. Runtime components stay, and act by their dependency.

    >>> stop()
    'shutdown'
    """
    global _control
    with _changing:
        found, _control = _control, None
    if found is not None and found.is_open:
        found.close()
    answer: Atom = Atom("shutdown")
    return answer


def stop_nodes(nodes: Iterable[str] | None = None) -> Any:
    """End the runtime components of nodes: their sessions, flags and patterns go, the programs go on.

    Returns:
        For each node ``"ok"``, or ``("error", "not_an_added_node")``.

    >>> _ = start(), add_node("mine")
    >>> stop_nodes()
    >>> stop_nodes()
    ('error', 'not_an_added_node')
    >>> _ = stop()
    """
    control = _here("stop_nodes")
    pairs = control.remove(given.nodes("stop_nodes", nodes), ends=True)
    return _shaped(control, pairs)


def stop_all() -> Any:
    """End all runtime components, then the control component. Answers as :func:`stop_nodes`.

    >>> _ = start(), add_node("mine")
    >>> stop_all()
    """
    control = _here("stop_all")
    answer = _shaped(control, control.remove(None, ends=True))
    stop()
    return answer


# nodes


def add_node(tag: Any, options: Any = ()) -> Any:
    """Add this process itself. Arguments and answers as :func:`add_nodes`, for one node.

    >>> _ = start()
    >>> add_node("mine", [("dependency", 0)])
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_node", [_here("add_node").own], tag, options, if_ref=False)


def add_nodes(nodes: Iterable[str], tag: Any, options: Any = ()) -> Any:
    """Add nodes: each gets a runtime component, or hands over the one that it has.

    Args:
        nodes: names.
        tag: any term; who adopts a component later is told which tag it had.
        options: of new components, a list of items or a dict. ``("dependency", ms)``: what it does when its control
            ends: it ends at once (0), after so many milliseconds, or never (``"infinity"``, the default).
            ``("overload", ms)``: built-in checks every so many milliseconds, ``("overload", (load, ms))`` and
            ``("overload", (load, ms, init, remove))``: one's own, ``"overload"``: none. ``("protect", {...})``: limits of
            the built-in checks: ``queue`` and ``lost`` (records), ``cpu`` (percent of a processor), ``lag`` (milliseconds of an event loop), ``disk`` (MiB that
            stay free). ``("resume_after", ms)``: a suspension by overload ends by itself. ``("limits", {...})``:
            tracing ends by itself after ``ms``, or by ``limit``, ``rate`` or ``lost`` of :func:`inviso.tracing.begin`.

    Returns:
        For each node ``("ok", "new")``, ``("ok", ("adopted", state, status, previous_tag))``, ``("ok", "already_added")``,
        ``("error", ("refused", control, pid))`` if a living control has it, ``("error", "nodedown")`` if it is not there,
        ``("error", ("noconnection", why))``; ``("error", "not_distributed")`` where the control's own process has no name
        (:func:`inviso.set_node`). ``("error", ("unknown_option", item))`` for all: then nothing was started.

    >>> _ = start()
    >>> add_nodes(["nobody"], "mine")
    ('error', 'not_distributed')
    >>> _ = stop()
    """
    return _add("add_nodes", given.nodes("add_nodes", nodes) or [], tag, options, if_ref=False)


def add_node_if_ref(tag: Any, options: Any = ()) -> Any:
    """As :func:`add_node`, but a component that runs is adopted only if it has this tag.

    >>> _ = start()
    >>> add_node_if_ref("mine")
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_node_if_ref", [_here("add_node_if_ref").own], tag, options, if_ref=True)


def add_nodes_if_ref(nodes: Iterable[str], tag: Any, options: Any = ()) -> Any:
    """As :func:`add_nodes`, but components that run are adopted only if they have this tag; else
    ``("error", ("wrong_reference", its_tag))``.

    >>> _ = start()
    >>> add_nodes_if_ref([process.node()], "mine")
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_nodes_if_ref", given.nodes("add_nodes_if_ref", nodes) or [], tag, options, if_ref=True)


def _add(where: str, names: list[str], tag: Any, options: Any, *, if_ref: bool) -> Any:
    control = _here(where)
    settings = given.settings(where, options)
    if isinstance(settings, tuple):
        return settings
    _only_names(where, "options", settings, control, names)
    return _shaped(control, control.add(names, tag, settings, if_ref=if_ref))


def change_options(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Change options of runtime components: ``(options)``, or ``(nodes, options)``. For each node ``"ok"``.

    A changed ``overload`` ends the old check and begins the new one. The next check is due at once.

    >>> _ = start(), add_node("mine")
    >>> change_options([("overload", 500)])
    >>> change_options([("overload", "often")])
    ('error', ('unknown_option', ('overload', 'often')))
    >>> stop_all()
    """
    control, chosen, (options,) = _split("change_options", words, 1, nodes)
    settings = given.settings("change_options", options)
    if isinstance(settings, tuple):
        return settings
    _only_names("change_options", "options", settings, control, chosen)
    return _shaped(control, control.call(chosen, "change_options", settings))


def _split(where: str, words: tuple[Any, ...], count: int, nodes: Any) -> tuple[Control, list[str] | None, tuple[Any, ...]]:
    """The control, the nodes, and ``count`` words."""
    control = _here(where)
    if len(words) == count + 1:
        return control, given.nodes(where, words[0]), words[1:]
    if len(words) != count:
        raise BadArg(f"control.{where}", "arguments", f"pass {count or 'none'}, after nodes if you like, not {len(words)}")
    return control, given.nodes(where, nodes), words


def _only_names(where: str, argument: str, value: Any, control: Control, nodes: list[str] | None) -> None:
    """Refuses functions that would have to go to other processes."""
    names = control.nodes() if nodes is None else nodes
    if not _holds_function(value) or all(name == control.own for name in names):
        return
    why = "functions go to no other process; name one as ('module', 'function'), which the node has to admit (allow)"
    raise BadArg(f"control.{where}", argument, why)


def _holds_function(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_function, value))
    if isinstance(value, dict):
        return any(map(_holds_function, value.values()))
    return callable(value) and not isinstance(value, Pid)


def _everywhere(where: str, request: str, words: tuple[Any, ...], count: int, nodes: Any) -> Any:
    control, chosen, rest = _split(where, words, count, nodes)
    return _shaped(control, control.call(chosen, request, *rest))


# tracing on and off


def init_tracing(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Open logs and begin: ``(tracer_data)``, ``(nodes, tracer_data)``, or ``([(node, tracer_data)])``.

    Args:
        words: tracer data is where messages go: ``("file", name)``; ``("file", (name, "wrap", suffix, size, count))``;
            ``("ip", port)``, which whoever is on the host can read; ``"collector"`` (printed in the traced process); ``(handler, data)`` with
            ``handler(message, data) -> data``, a function or ``("module", "function")``; ``("relayer", node)``, whose component prints them or has a handler. Or
            ``[("trace", one of these), ("ti", ("file", name))]``: with a file of aliases, and meta tracing.

    Returns:
        For each node ``("ok", [("trace_log", "ok")])``, with ``("ti_log", …)`` if there is one;
        ``("error", "already_initiated")``, ``("error", "suspended")``, ``("error", ("bad_log_td", given))``,
        ``("error", ("not_allowed", name))`` for a file outside the node's folder of logs,
        ``("error", ("trace_port_args", [given, why]))``.

    >>> import os, tempfile
    >>> _ = start(), add_node("mine")
    >>> init_tracing(("file", os.path.join(tempfile.mkdtemp(), "log")))
    ('ok', [('trace_log', 'ok')])
    >>> stop_all()
    """
    control = _here("init_tracing")
    pairs = given.pairs_of_nodes("init_tracing", words[0]) if len(words) == 1 else None
    if not pairs or any(data is None for _, data in pairs):
        control, chosen, (data,) = _split("init_tracing", words, 1, nodes)
        pairs = [(name, data) for name in (control.nodes() if chosen is None else chosen)]
    answers: dict[str, Any] = {}
    asked = []
    for name, data in pairs:
        _only_names("init_tracing", "tracer_data", data, control, [name])
        data, missing = _relayed(control, data)
        if missing is None:
            asked.append((name, [data]))
        else:
            answers[name] = ERROR, (Atom("not_an_added_node"), missing)
    answers |= dict(control.call_each(asked, "init_tracing"))
    return _shaped(control, [(name, answers[name]) for name, _ in pairs])


def _relayed(control: Control, data: Any) -> tuple[Any, str | None]:
    """Tracer data with the full name of the node that messages are relayed to, and that name if it was not added."""
    match data:
        case ("relayer", str(node)):
            name = given.node_name("init_tracing", node)
            return (data[0], name), None if name in control.nodes() else name
        case [("trace", inner), *rest]:
            inner, missing = _relayed(control, inner)
            return [("trace", inner), *rest], missing
    return data, None


def stop_tracing(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop tracing and close logs: ``()`` or ``(nodes)``. Patterns stay. For each node ``("ok", "idle")``, or ``("ok", "new")``
    where nothing was traced.

    >>> _ = start(), add_node("mine")
    >>> stop_tracing()
    ('ok', 'new')
    >>> stop_all()
    """
    return _everywhere("stop_tracing", "stop_tracing", words, 0, nodes)


def clear(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop tracing, drop patterns and delete logs: ``()``, ``(nodes)``, ``(options)``, ``(nodes, options)``.

    Args:
        words: options are ``"keep_trace_patterns"`` and ``"keep_log_files"``.

    Returns:
        For each node ``("ok", ("new", status))``.

    >>> _ = start(), add_node("mine")
    >>> clear(["keep_log_files"])
    ('ok', ('new', 'running'))
    >>> stop_all()
    """
    known = {"keep_trace_patterns", "keep_log_files"}
    if len(words) == 1 and isinstance(words[0], (list, tuple)) and words[0] and set(words[0]) <= known:
        words = (None, words[0])
    control, chosen, rest = _split("clear", words if len(words) == 2 else (*words, []), 1, nodes)
    return _shaped(control, control.call(chosen, "clear", [option for option in rest[0] if option in known]))


def flush(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Have logs written to the disk: ``()`` or ``(nodes)``. For each node ``"ok"``, or ``("error", ("not_tracing", state))``.

    >>> _ = start(), add_node("mine")
    >>> flush()
    ('error', ('not_tracing', 'new'))
    >>> stop_all()
    """
    return _everywhere("flush", "flush", words, 0, nodes)


# patterns


def tp(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Trace global calls of functions: ``(patterns)``, ``(module, function, arity, match_spec[, options])``, each after nodes.

    Args:
        words: ``module`` is a name, ``"package.**"``, ``"_"``, a regular expression that has to match all of a name
            (``re.compile(…)``), or ``(folders, modules)``: two expressions, the first for the folder of the module's file. A
            pattern in a list is ``(module, function, arity, match_spec)``. ``match_spec`` is True, False, or a list.

    Returns:
        For each node ``("ok", [number, …])``: of functions that matched, for each pattern, of an expression for each
        module. A pattern that can't be set has ``("error", ("bad_trace_args", …))`` in its place.

    >>> import json, re
    >>> _ = start(), add_node("mine")
    >>> tp("json", "loads", "_", True)
    ('ok', [1])
    >>> tp([(re.compile("json|json[.]decoder"), "_", "_", False)])[0]
    'ok'
    >>> stop_all()
    """
    return _patterns("tp", words, nodes)


def tpl(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`tp`, of local calls too: those inside a module.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> tpl([("json", "loads", "_", True), ("json", "dumps", "_", True)])
    ('ok', [1, 1])
    >>> stop_all()
    """
    return _patterns("tpl", words, nodes)


def _patterns(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = _here(where)
    chosen, patterns = given.patterns(where, words, nodes)
    return _shaped(control, control.call(chosen, where, patterns))


def ctp(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear what :func:`tp` has set: ``(functions)`` or ``(module, function, arity)``, each after nodes. Answers as :func:`tp`.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> ctp("json", "loads", "_")
    ('ok', [1])
    >>> stop_all()
    """
    return _clear("ctp", words, nodes)


def ctpl(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear what :func:`tpl` has set, as :func:`ctp`.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> ctpl([("json", "loads", "_"), ("json", "dumps", "_")])
    ('ok', [1, 1])
    >>> stop_all()
    """
    return _clear("ctpl", words, nodes)


def _clear(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = _here(where)
    chosen, functions = given.mfas(where, words, nodes)
    return _shaped(control, control.call(chosen, where, functions))


def ctp_all(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear all patterns of the runtime component, local and global: ``()`` or ``(nodes)``. Meta patterns stay. For each node
    ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctp_all()
    >>> stop_all()
    """
    return _everywhere("ctp_all", "ctp_all", words, 0, nodes)


# flags


def tf(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Set trace flags of processes: ``(process, flags)``, ``([(process, flags)])``, each after nodes, or
    ``([(node, [(process, flags)])])``, ``([(node, [(process, flags)], how)])``, which always answers with the names of nodes.

    Args:
        words: a process is ``"all"``, ``"new"``, ``"existing"``, a Pid, or a registered name. Flags are those of
            :data:`inviso.runtime.FLAGS`.

    Returns:
        For each node ``("ok", [number, …])``: of processes, for each pair. ``("error", ("bad_flag", flag))`` and
        ``("error", ("bad_process", …))`` stand in a pair's place; ``("error", "no_tracer")`` and ``("error", "suspended")``
        in a node's.

    >>> _ = start(), add_node("mine")
    >>> tf("all", ["call"])
    ('error', 'no_tracer')
    >>> stop_all()
    """
    return _flags("tf", words, nodes)


def ctf(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear trace flags of processes, as :func:`tf` sets them.

    >>> _ = start(), add_node("mine")
    >>> ctf("all", ["call"])
    ('ok', [0])
    >>> stop_all()
    """
    return _flags("ctf", words, nodes)


def _flags(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = _here(where)
    chosen, confs, of_nodes = given.confs(where, words, nodes)
    if confs is not None:
        return _shaped(control, control.call(chosen, where, confs))
    answers = []
    for name, each, how in of_nodes:
        request = where if how is None else "tf" if how else "ctf"
        answers += control.call([name], request, each)
    return OK, answers


def ctf_all(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear all flags of all processes of the runtime component: ``()`` or ``(nodes)``. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctf_all()
    >>> stop_all()
    """
    return _everywhere("ctf_all", "ctf_all", words, 0, nodes)


# meta tracing


def init_tpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Initiate a function for meta tracing: ``(module, function, arity, call)``, or with ``init, call, returned, remove`` in
    place of ``call``; each after nodes. See :mod:`inviso.meta`.

    Returns:
        For each node ``"ok"``, or an error: ``already_initiated``, ``bad_mfa``, ``no_metatracer``, ``suspended``.

    >>> _ = start(), add_node("mine")
    >>> init_tpm("json", "loads", 8, ("inviso.meta", "write"))
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("init_tpm", words, (4, 7), nodes)


def tpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Set a meta pattern: ``(module, function, arity, match_spec)``, with ``call`` or with ``init, call, returned, remove``
    behind it the function is initiated, too; each after nodes. For each node ``("ok", 1)``, ``("ok", 0)``, or an error.

    >>> _ = start(), add_node("mine")
    >>> tpm("json", "loads", 8, [])
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("tpm", words, (4, 5, 8), nodes)


def tpm_tracer(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`tpm`; a ``trace`` action of the match specification sets flags with the component's log as tracer.

    >>> _ = start(), add_node("mine")
    >>> tpm_tracer("json", "loads", 8, [])
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("tpm_tracer", words, (4, 5, 8), nodes)


def tpm_ms(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Add a named match specification to an initiated function: ``(module, function, arity, name, match_spec)``, after nodes.

    >>> _ = start(), add_node("mine")
    >>> tpm_ms("json", "loads", 8, "all", [])
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("tpm_ms", words, (5,), nodes)


def tpm_ms_tracer(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`tpm_ms`, with the component's log as tracer of ``trace`` actions.

    >>> _ = start(), add_node("mine")
    >>> tpm_ms_tracer("json", "loads", 8, "all", [])
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("tpm_ms_tracer", words, (5,), nodes)


def ctpm_ms(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Remove a named match specification: ``(module, function, arity, name)``, after nodes. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctpm_ms("json", "loads", 8, "all")
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("ctpm_ms", words, (4,), nodes)


def ctpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Remove a meta pattern and what belongs to it: ``(module, function, arity)``, after nodes. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctpm("json", "loads", 8)
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("ctpm", words, (3,), nodes)


def _meta(where: str, words: tuple[Any, ...], counts: tuple[int, ...], nodes: Any) -> Any:
    control = _here(where)
    chosen, rest = given.functions(where, words, counts, nodes)
    _only_names(where, "callbacks", rest[3:], control, chosen)
    return _shaped(control, control.call(chosen, where, *rest))


def tpm_localnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Have registered names written as aliases: ``()`` or ``(nodes)``. For each node ``(("ok", 1), ("ok", 1))``.

    >>> _ = start(), add_node("mine")
    >>> tpm_localnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _everywhere("tpm_localnames", "tpm_localnames", words, 0, nodes)


def ctpm_localnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Have registered names no longer written: ``()`` or ``(nodes)``.

    >>> _ = start(), add_node("mine")
    >>> ctpm_localnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _everywhere("ctpm_localnames", "ctpm_localnames", words, 0, nodes)


def tpm_globalnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`tpm_localnames` for global names, of which this package has none.

    >>> _ = start(), add_node("mine")
    >>> tpm_globalnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _everywhere("tpm_globalnames", "tpm_globalnames", words, 0, nodes)


def ctpm_globalnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`ctpm_localnames` for global names.

    >>> _ = start(), add_node("mine")
    >>> ctpm_globalnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _everywhere("ctpm_globalnames", "ctpm_globalnames", words, 0, nodes)


# suspension, status


def suspend(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop making trace messages: ``(reason)`` or ``(nodes, reason)``. Flags and meta patterns go, patterns and logs stay. For
    each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> suspend("lunch")
    >>> get_status()
    ('ok', ('new', ('suspended', 'lunch')))
    >>> stop_all()
    """
    return _everywhere("suspend", "suspend", words, 1, nodes)


def cancel_suspension(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Let suspended nodes trace again: ``()`` or ``(nodes)``. Nothing is restored. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> cancel_suspension()
    >>> stop_all()
    """
    return _everywhere("cancel_suspension", "cancel_suspension", words, 0, nodes)


def get_status(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """State and status: ``()`` or ``(nodes)``. For each node ``("ok", (state, status))``: ``"new"``, ``"idle"`` or
    ``"tracing"``; ``"running"`` or ``("suspended", reason)``.

    >>> _ = start(), add_node("mine")
    >>> get_status()
    ('ok', ('new', 'running'))
    >>> stop_all()
    """
    return _everywhere("get_status", "get_status", words, 0, nodes)


def get_tracerdata(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """What tracing was initiated with: ``()`` or ``(nodes)``. For each node ``("ok", tracer_data)``, ``("ok", "no_tracerdata")``.

    >>> _ = start(), add_node("mine")
    >>> get_tracerdata()
    ('ok', 'no_tracerdata')
    >>> stop_all()
    """
    return _everywhere("get_tracerdata", "get_tracerdata", words, 0, nodes)


# logs


def list_logs(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """The logs that exist: ``()``, ``([node])``, ``([(node, tracer_data)])``, ``(tracer_data)``.

    Returns:
        For each node ``("ok", [("trace_log", folder, names)])``, with ``("ti_log", …)`` if there is one,
        ``("ok", "no_log")``, ``("error", "no_tracerdata")``.

    >>> _ = start(), add_node("mine")
    >>> list_logs()
    ('error', 'no_tracerdata')
    >>> stop_all()
    """
    control = _here("list_logs")
    if not words:
        return _shaped(control, control.call(given.nodes("list_logs", nodes), "list_logs"))
    if len(words) > 1:
        raise BadArg("control.list_logs", "arguments", "pass nodes, or tracer data, or nothing")
    pairs = given.pairs_of_nodes("list_logs", words[0])
    if pairs is None:
        pairs = [(control.own, words[0])]
    asked = [(name, [] if data is None else [data]) for name, data in pairs]
    return _shaped(control, control.call_each(asked, "list_logs"))


def fetch_log(*words: Any) -> Any:
    """Copy logs into a folder: ``(folder, prefix)``, ``(specs, folder, prefix)``, ``(to_node, folder, prefix)``,
    ``(to_node, specs, folder, prefix)``. The files get the prefix before their names, and replace files of these names.
    Where files of two nodes would have one name, they get the node's name as well, ``PREFIXNODE-NAME``.

    Args:
        words: specs are nodes, ``(node, tracer_data)``, or ``(node, [("trace_log", folder, names)])``. ``to_node`` is this
            process's own.

    Returns:
        For each node ``("complete", [("trace_log", results), ("ti_log", results)])``, or ``"incomplete"``;
        ``("complete", "no_log")``; ``("error", "tracing")``, ``("error", "no_tracerdata")``. A result is ``("ok", name)`` or
        ``("error", …)``; after the first error no more is tried. ``("error", "not_distributed")`` for a control without a
        name.

    >>> _ = start()
    >>> fetch_log(".", "copy_of_")
    ('error', 'not_distributed')
    >>> _ = stop()
    """
    control = _here("fetch_log")
    if not control.is_distributed:
        return ERROR, Atom("not_distributed")
    match words:
        case (str(folder), str(prefix)):
            specs: list[tuple[str, Any]] = [(name, None) for name in control.nodes()]
        case (list() as some, str(folder), str(prefix)):
            specs = given.pairs_of_nodes("fetch_log", some) or []
        case (str(to_node), str(folder), str(prefix)):
            specs = [(name, None) for name in control.nodes()]
            _own_only(control, to_node)
        case (str(to_node), list() as some, str(folder), str(prefix)):
            specs = given.pairs_of_nodes("fetch_log", some) or []
            _own_only(control, to_node)
        case _:
            raise BadArg("control.fetch_log", "arguments", "pass a folder and a prefix, after what to fetch if you like")
    if not os.path.isdir(folder):
        raise BadArg("control.fetch_log", "folder", f"{shown(folder)} is no folder; make it first")
    if os.sep in prefix:
        raise BadArg("control.fetch_log", "prefix", f"{shown(prefix)} has a {os.sep!r}; pass the beginning of a name")
    asked = [(name, [] if spec is None else [spec]) for name, spec in specs]
    answers = control.call_each(asked, "log_paths")
    shared = shared_names(answers)
    prefixes = {name: f"{prefix}{name}-" if name in shared else prefix for name, _ in answers}
    jobs = [_copied(answer, folder, prefixes[name], control.sources(name)) for name, answer in answers]
    return OK, [(name, found) for (name, _), found in zip(answers, in_parallel(jobs), strict=True)]


def _copied(answer: Any, folder: str, prefix: str, opened: Callable[[str], Source]) -> Callable[[], Any]:
    if answer[0] != OK:
        return lambda: answer
    if answer[1] == "no_log":
        return lambda: (Atom("complete"), Atom("no_log"))
    return lambda: fetched(answer[1], folder, prefix, opened)


def _own_only(control: Control, to_node: str) -> None:
    if given.node_name("fetch_log", to_node) not in (control.own, control.node):
        why = f"{shown(to_node)} is another node; this version copies to the control's own process, {control.own}, only"
        raise BadArg("control.fetch_log", "to_node", why)


def delete_log(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Delete logs: ``()``, ``([node])``, ``([(node, spec)])``, ``(spec)``, ``(nodes, spec)``.

    Args:
        words: a spec is a list of paths, of ``("trace_log", folder, names)``, or tracer data.

    Returns:
        For each node ``("ok", [("trace_log", results)])``, ``("ok", results)`` for paths, ``("ok", "no_log")``,
        ``("error", "tracing")``. A result is ``("ok", name)`` or ``("error", (posix, name))``.

    >>> _ = start(), add_node("mine")
    >>> delete_log()
    ('error', ('badarg', None))
    >>> stop_all()
    """
    control = _here("delete_log")
    if not words:
        return _shaped(control, control.call(given.nodes("delete_log", nodes), "delete_log"))
    if len(words) == 2:
        return _shaped(control, control.call(given.nodes("delete_log", words[0]), "delete_log", words[1]))
    known = set(control.nodes())
    pairs = given.pairs_of_nodes("delete_log", words[0])
    if pairs and all(name in known or "/" not in name for name, _ in pairs):
        asked = [(name, [] if spec is None else [spec]) for name, spec in pairs]
        return _shaped(control, control.call_each(asked, "delete_log"))
    return _shaped(control, control.call(given.nodes("delete_log", nodes), "delete_log", words[0]))


# events


def subscribe(who: Any = None) -> Any:
    """Get events: this process, a Pid, or a function that is called with each in a thread of the control's.

    An event is ``("inviso_event", control_pid, ((year, month, day), (hour, minute, second)), what)``, where ``what`` is
    ``("connected", node, (tag, (state, status)))``, ``("disconnected", node, reason)``, None for one that was stopped,
    ``("state_change", node, (state, status))``, ``("port_down", node, reason)`` or ``("lost", node, number)``. Who subscribes
    twice gets two copies.

    >>> import inviso
    >>> _ = start(), subscribe(), add_node("mine")
    >>> inviso.receive(("inviso_event", "_", "_", "_"))[3]
    ('connected', 'local_runtime', ('mine', ('new', 'running')))
    >>> _ = unsubscribe(), stop_all()
    """
    control = _here("subscribe")
    subscriber = process.self() if who is None else who
    if not _may_subscribe(subscriber):
        return ERROR, (Atom("badarg"), subscriber)
    control.subscribe(subscriber)
    return None


def unsubscribe(who: Any = None) -> None:
    """Take one subscription of this process away, of a Pid, or of a function.

    >>> _ = start()
    >>> unsubscribe()
    >>> _ = stop()
    """
    _here("unsubscribe").unsubscribe(process.self() if who is None else who)


def _may_subscribe(who: Any) -> bool:
    return callable(who) or (isinstance(who, Pid) and who.is_local() and who.is_alive())
