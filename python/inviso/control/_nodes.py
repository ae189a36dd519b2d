"""Adds nodes, and changes their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _arguments as given
from ._component import current_control, only_names, shaped, split

__all__ = ["add_node", "add_node_if_ref", "add_nodes", "add_nodes_if_ref", "change_options"]


def add_node(tag: Any, options: Any = ()) -> Any:
    """Add this process itself. Arguments and answers as :func:`add_nodes`, for one node.

    >>> _ = start()
    >>> add_node("mine", [("dependency", 0)])
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_node", [current_control("add_node").own], tag, options, if_ref=False)


def add_nodes(nodes: Iterable[str], tag: Any, options: Any = ()) -> Any:
    """Add nodes. Each gets a new runtime component, or its present one is adopted.

    Args:
        nodes: names.
        tag: any term. A control that adopts a component later gets its earlier tag.
        options: of new components, a list of items or a dict. ``("dependency", ms)``: how long it lives without its
            control: not at all (0), so many milliseconds, or forever (``"infinity"``, the default).
            ``("overload", ms)``: built-in checks every so many milliseconds. ``("overload", (load, ms))`` and
            ``("overload", (load, ms, init, remove))``: a check of your own. ``"overload"``: no check.
            ``("protect", {...})``: limits of the built-in checks: ``queue`` and ``lost`` (records), ``cpu`` (percent of
            a processor), ``lag`` (milliseconds of an event loop), ``disk`` (MiB that stay free).
            ``("resume_after", ms)``: a suspension by overload ends by itself. ``("limits", {...})``: tracing ends by
            itself after ``ms``, or by ``limit``, ``rate`` or ``lost`` of :func:`inviso.tracing.begin`.

    Returns:
        For each node ``("ok", "new")``, ``("ok", ("adopted", state, status, previous_tag))``,
        ``("ok", "already_added")``, ``("error", ("refused", control, pid))`` if a living control has it,
        ``("error", "nodedown")`` if it is not there, ``("error", ("noconnection", why))``;
        ``("error", "not_distributed")`` if the control's own process has no name (:func:`inviso.set_node`).
        ``("error", ("unknown_option", item))`` for all nodes: then nothing was started.

    >>> _ = start()
    >>> add_nodes(["nobody"], "mine")
    ('error', 'not_distributed')
    >>> _ = stop()
    """
    return _add("add_nodes", given.nodes("add_nodes", nodes) or [], tag, options, if_ref=False)


def add_node_if_ref(tag: Any, options: Any = ()) -> Any:
    """As :func:`add_node`, but a present component is adopted only if it has this tag.

    >>> _ = start()
    >>> add_node_if_ref("mine")
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_node_if_ref", [current_control("add_node_if_ref").own], tag, options, if_ref=True)


def add_nodes_if_ref(nodes: Iterable[str], tag: Any, options: Any = ()) -> Any:
    """As :func:`add_nodes`, but a present component is adopted only if it has this tag; else the answer is
    ``("error", ("wrong_reference", its_tag))``.

    >>> _ = start()
    >>> add_nodes_if_ref([inviso.node()], "mine")
    ('ok', 'new')
    >>> stop_all()
    """
    return _add("add_nodes_if_ref", given.nodes("add_nodes_if_ref", nodes) or [], tag, options, if_ref=True)


def _add(where: str, names: list[str], tag: Any, options: Any, *, if_ref: bool) -> Any:
    control = current_control(where)
    settings = given.settings(where, options)
    if isinstance(settings, tuple):
        return settings
    only_names(where, "options", settings, control, names)
    return shaped(control, control.add(names, tag, settings, if_ref=if_ref))


def change_options(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Change options of runtime components: ``(options)``, or ``(nodes, options)``. For each node ``"ok"``.

    A changed ``overload`` ends the old check and starts the new one, which runs for the first time at once.

    >>> _ = start(), add_node("mine")
    >>> change_options([("overload", 500)])
    >>> change_options([("overload", "often")])
    ('error', ('unknown_option', ('overload', 'often')))
    >>> stop_all()
    """
    control, chosen, (options,) = split("change_options", words, 1, nodes)
    settings = given.settings("change_options", options)
    if isinstance(settings, tuple):
        return settings
    only_names("change_options", "options", settings, control, chosen)
    return shaped(control, control.call(chosen, "change_options", settings))
