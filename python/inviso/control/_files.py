"""Logs of nodes: their names, copies and deletion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from inviso.errors import BadArg, shown
from inviso.terms import Atom

from . import _arguments as given
from ._component import ERROR, current_control, shaped
from ._control import OK, Control
from ._logs import Source, fetched, in_parallel, shared_names

__all__ = ["delete_log", "fetch_log", "list_logs"]


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
    control = current_control("list_logs")
    if not words:
        return shaped(control, control.call(given.nodes("list_logs", nodes), "list_logs"))
    if len(words) > 1:
        raise BadArg("control.list_logs", "arguments", "pass nodes, or tracer data, or nothing")
    pairs = given.pairs_of_nodes("list_logs", words[0])
    if pairs is None:
        pairs = [(control.own, words[0])]
    asked = [(name, [] if data is None else [data]) for name, data in pairs]
    return shaped(control, control.call_each(asked, "list_logs"))


def fetch_log(*words: Any) -> Any:
    """Copy logs into a folder: ``(folder, prefix)``, ``(specs, folder, prefix)``, ``(to_node, folder, prefix)``,
    ``(to_node, specs, folder, prefix)``. The copies have the prefix before their names, and replace files of these
    names. If files of two nodes would have the same name, the node's name is added: ``PREFIXNODE-NAME``.

    Args:
        words: specs are nodes, ``(node, tracer_data)``, or ``(node, [("trace_log", folder, names)])``. ``to_node`` is
            the name of this process.

    Returns:
        For each node ``("complete", [("trace_log", results), ("ti_log", results)])``, or ``"incomplete"``;
        ``("complete", "no_log")``; ``("error", "tracing")``, ``("error", "no_tracerdata")``. A result is
        ``("ok", name)`` or ``("error", …)``; after the first error the rest of the node is not tried.
        ``("error", "not_distributed")`` for a control without a name.

    >>> _ = start()
    >>> fetch_log(".", "copy_of_")
    ('error', 'not_distributed')
    >>> _ = stop()
    """
    control = current_control("fetch_log")
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
            raise BadArg(
                "control.fetch_log", "arguments", "pass a folder and a prefix, after what to fetch if you like"
            )
    if not os.path.isdir(folder):
        raise BadArg("control.fetch_log", "folder", f"{shown(folder)} is not a folder; make it first")
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
        words: a spec is a list of paths, a list of ``("trace_log", folder, names)``, or tracer data.

    Returns:
        For each node ``("ok", [("trace_log", results)])``, ``("ok", results)`` for paths, ``("ok", "no_log")``,
        ``("error", "tracing")``. A result is ``("ok", name)`` or ``("error", (posix, name))``.

    >>> _ = start(), add_node("mine")
    >>> delete_log()
    ('error', ('badarg', None))
    >>> stop_all()
    """
    control = current_control("delete_log")
    if not words:
        return shaped(control, control.call(given.nodes("delete_log", nodes), "delete_log"))
    if len(words) == 2:
        return shaped(control, control.call(given.nodes("delete_log", words[0]), "delete_log", words[1]))
    known = set(control.nodes())
    pairs = given.pairs_of_nodes("delete_log", words[0])
    if pairs and all(name in known or "/" not in name for name, _ in pairs):
        asked = [(name, [] if spec is None else [spec]) for name, spec in pairs]
        return shaped(control, control.call_each(asked, "delete_log"))
    return shaped(control, control.call(given.nodes("delete_log", nodes), "delete_log", words[0]))
