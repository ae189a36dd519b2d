"""Tracing on and off, patterns and flags, suspension and status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inviso.terms import Atom

from . import _arguments as given
from ._component import ERROR, current_control, everywhere, only_names, shaped, split
from ._control import OK, Control

__all__ = [
    *(
        "cancel_suspension",
        "clear",
        "ctf",
        "ctf_all",
        "ctp",
        "ctp_all",
        "ctpl",
        "flush",
        "get_status",
        "get_tracerdata",
    ),
    *("init_tracing", "stop_tracing", "suspend", "tf", "tp", "tpl"),
]


def init_tracing(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Open logs and begin tracing: ``(tracer_data)``, ``(nodes, tracer_data)``, or ``([(node, tracer_data)])``.

    Args:
        words: tracer data says where messages go: ``("file", name)``;
            ``("file", (name, "wrap", suffix, size, count))``; ``("ip", port)``, which any user of the host can read;
            ``"collector"`` (printed in the traced process); ``(handler, data)`` with
            ``handler(message, data) -> data``, a function or ``("module", "function")``; ``("relayer", node)``: that
            node's component prints them or has a handler. Or ``[("trace", one of these), ("ti", ("file", name))]``:
            with a file of aliases, and meta tracing.

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
    control = current_control("init_tracing")
    pairs = given.pairs_of_nodes("init_tracing", words[0]) if len(words) == 1 else None
    if not pairs or any(data is None for _, data in pairs):
        control, chosen, (data,) = split("init_tracing", words, 1, nodes)
        pairs = [(name, data) for name in (control.nodes() if chosen is None else chosen)]
    answers: dict[str, Any] = {}
    asked = []
    for name, data in pairs:
        only_names("init_tracing", "tracer_data", data, control, [name])
        data, missing = _relayed(control, data)
        if missing is None:
            asked.append((name, [data]))
        else:
            answers[name] = ERROR, (Atom("not_an_added_node"), missing)
    answers |= dict(control.call_each(asked, "init_tracing"))
    return shaped(control, [(name, answers[name]) for name, _ in pairs])


def _relayed(control: Control, data: Any) -> tuple[Any, str | None]:
    """Tracer data with the full name of the relaying node, and that name if the node was not added, else None."""
    match data:
        case ("relayer", str(node)):
            name = given.node_name("init_tracing", node)
            return (data[0], name), None if name in control.nodes() else name
        case [("trace", inner), *rest]:
            inner, missing = _relayed(control, inner)
            return [("trace", inner), *rest], missing
    return data, None


def stop_tracing(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop tracing and close logs: ``()`` or ``(nodes)``. Patterns stay. For each node ``("ok", "idle")``, or
    ``("ok", "new")`` if nothing was traced.

    >>> _ = start(), add_node("mine")
    >>> stop_tracing()
    ('ok', 'new')
    >>> stop_all()
    """
    return everywhere("stop_tracing", "stop_tracing", words, 0, nodes)


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
    control, chosen, rest = split("clear", words if len(words) == 2 else (*words, []), 1, nodes)
    return shaped(control, control.call(chosen, "clear", [option for option in rest[0] if option in known]))


def flush(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Write logs to the disk: ``()`` or ``(nodes)``. For each node ``"ok"``, or ``("error", ("not_tracing", state))``.

    >>> _ = start(), add_node("mine")
    >>> flush()
    ('error', ('not_tracing', 'new'))
    >>> stop_all()
    """
    return everywhere("flush", "flush", words, 0, nodes)


def tp(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Trace global calls of functions: ``(patterns)``, ``(module, function, arity, match_spec[, options])``. Nodes may
    come first.

    Args:
        words: ``module`` is a name, ``"package.**"``, ``"_"``, a regular expression that has to match a whole name
            (``re.compile(…)``), or ``(folders, modules)``: two expressions, the first for the folder of the module's
            file. A pattern in a list is ``(module, function, arity, match_spec)``. ``match_spec`` is True, False, or a
            list.

    Returns:
        For each node ``("ok", [number, …])``: the number of functions that matched each pattern; an expression has one
        number for each module. A pattern that can't be set has ``("error", ("bad_trace_args", …))`` in its place.

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
    """As :func:`tp`, for all calls: local ones, inside a module, too.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> tpl([("json", "loads", "_", True), ("json", "dumps", "_", True)])
    ('ok', [1, 1])
    >>> stop_all()
    """
    return _patterns("tpl", words, nodes)


def _patterns(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = current_control(where)
    chosen, patterns = given.patterns(where, words, nodes)
    return shaped(control, control.call(chosen, where, patterns))


def ctp(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear patterns of :func:`tp`: ``(functions)`` or ``(module, function, arity)``. Nodes may come first. Answers as
    :func:`tp`.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> ctp("json", "loads", "_")
    ('ok', [1])
    >>> stop_all()
    """
    return _clear("ctp", words, nodes)


def ctpl(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear patterns of :func:`tpl`. Arguments and answers as :func:`ctp`.

    >>> import json
    >>> _ = start(), add_node("mine")
    >>> ctpl([("json", "loads", "_"), ("json", "dumps", "_")])
    ('ok', [1, 1])
    >>> stop_all()
    """
    return _clear("ctpl", words, nodes)


def _clear(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = current_control(where)
    chosen, functions = given.mfas(where, words, nodes)
    return shaped(control, control.call(chosen, where, functions))


def ctp_all(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear all patterns of the runtime component, local and global: ``()`` or ``(nodes)``. Meta patterns stay. For
    each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctp_all()
    >>> stop_all()
    """
    return everywhere("ctp_all", "ctp_all", words, 0, nodes)


def tf(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Set trace flags of processes: ``(process, flags)``, ``([(process, flags)])``; nodes may come first. Or
    ``([(node, [(process, flags)])])``, ``([(node, [(process, flags)], how)])``; these always answer with names of
    nodes.

    Args:
        words: a process is ``"all"``, ``"new"``, ``"existing"``, a Pid, or a registered name. Flags are those of
            :data:`inviso.runtime.FLAGS`.

    Returns:
        For each node ``("ok", [number, …])``: the number of processes of each pair. ``("error", ("bad_flag", flag))``
        and ``("error", ("bad_process", …))`` stand in the place of a pair's number; ``("error", "no_tracer")`` and
        ``("error", "suspended")`` in the place of a node's answer.

    >>> _ = start(), add_node("mine")
    >>> tf("all", ["call"])
    ('error', 'no_tracer')
    >>> stop_all()
    """
    return _flags("tf", words, nodes)


def ctf(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Clear trace flags of processes. Arguments and answers as :func:`tf`.

    >>> _ = start(), add_node("mine")
    >>> ctf("all", ["call"])
    ('ok', [0])
    >>> stop_all()
    """
    return _flags("ctf", words, nodes)


def _flags(where: str, words: tuple[Any, ...], nodes: Any) -> Any:
    control = current_control(where)
    chosen, confs, of_nodes = given.confs(where, words, nodes)
    if confs is not None:
        return shaped(control, control.call(chosen, where, confs))
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
    return everywhere("ctf_all", "ctf_all", words, 0, nodes)


def suspend(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop trace messages: ``(reason)`` or ``(nodes, reason)``. Flags and meta patterns are removed, patterns and logs
    stay. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> suspend("lunch")
    >>> get_status()
    ('ok', ('new', ('suspended', 'lunch')))
    >>> stop_all()
    """
    return everywhere("suspend", "suspend", words, 1, nodes)


def cancel_suspension(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Let suspended nodes trace again: ``()`` or ``(nodes)``. Nothing is restored. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> cancel_suspension()
    >>> stop_all()
    """
    return everywhere("cancel_suspension", "cancel_suspension", words, 0, nodes)


def get_status(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """State and status: ``()`` or ``(nodes)``. For each node ``("ok", (state, status))``. A state is ``"new"``,
    ``"idle"`` or ``"tracing"``; a status ``"running"`` or ``("suspended", reason)``.

    >>> _ = start(), add_node("mine")
    >>> get_status()
    ('ok', ('new', 'running'))
    >>> stop_all()
    """
    return everywhere("get_status", "get_status", words, 0, nodes)


def get_tracerdata(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """The tracer data of :func:`init_tracing`: ``()`` or ``(nodes)``. For each node ``("ok", tracer_data)``, or
    ``("ok", "no_tracerdata")``.

    >>> _ = start(), add_node("mine")
    >>> get_tracerdata()
    ('ok', 'no_tracerdata')
    >>> stop_all()
    """
    return everywhere("get_tracerdata", "get_tracerdata", words, 0, nodes)
