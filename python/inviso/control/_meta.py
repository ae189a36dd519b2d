"""Meta tracing in nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _arguments as given
from ._component import current_control, everywhere, only_names, shaped

__all__ = [
    *("ctpm", "ctpm_globalnames", "ctpm_localnames", "ctpm_ms", "init_tpm", "tpm", "tpm_globalnames", "tpm_localnames"),
    *("tpm_ms", "tpm_ms_tracer", "tpm_tracer"),
]


def init_tpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Initiate a function for meta tracing: ``(module, function, arity, call)``, or with
    ``init, call, returned, remove`` in place of ``call``. Nodes may come first. See :mod:`inviso.meta`.

    Returns:
        For each node ``"ok"``, or an error: ``already_initiated``, ``bad_mfa``, ``no_metatracer``, ``suspended``.

    >>> _ = start(), add_node("mine")
    >>> init_tpm("json", "loads", 8, ("inviso.meta", "write"))
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("init_tpm", words, (4, 7), nodes)


def tpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Set a meta pattern: ``(module, function, arity, match_spec)``. With ``call``, or
    ``init, call, returned, remove``, at the end the function is initiated, too. Nodes may come first. For each node
    ``("ok", 1)``, ``("ok", 0)``, or an error.

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
    """Add a named match specification to an initiated function: ``(module, function, arity, name, match_spec)``. Nodes
    may come first.

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
    """Remove a named match specification: ``(module, function, arity, name)``. Nodes may come first. For each node
    ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctpm_ms("json", "loads", 8, "all")
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("ctpm_ms", words, (4,), nodes)


def ctpm(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Remove a meta pattern, its named match specifications and its callbacks: ``(module, function, arity)``. Nodes may
    come first. For each node ``"ok"``.

    >>> _ = start(), add_node("mine")
    >>> ctpm("json", "loads", 8)
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return _meta("ctpm", words, (3,), nodes)


def _meta(where: str, words: tuple[Any, ...], counts: tuple[int, ...], nodes: Any) -> Any:
    control = current_control(where)
    chosen, rest = given.functions(where, words, counts, nodes)
    only_names(where, "callbacks", rest[3:], control, chosen)
    return shaped(control, control.call(chosen, where, *rest))


def tpm_localnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Write registered names as aliases: ``()`` or ``(nodes)``. For each node ``(("ok", 1), ("ok", 1))``.

    >>> _ = start(), add_node("mine")
    >>> tpm_localnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return everywhere("tpm_localnames", "tpm_localnames", words, 0, nodes)


def ctpm_localnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """Stop writing registered names: ``()`` or ``(nodes)``.

    >>> _ = start(), add_node("mine")
    >>> ctpm_localnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return everywhere("ctpm_localnames", "ctpm_localnames", words, 0, nodes)


def tpm_globalnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`tpm_localnames`, for global names. This package has no global names.

    >>> _ = start(), add_node("mine")
    >>> tpm_globalnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return everywhere("tpm_globalnames", "tpm_globalnames", words, 0, nodes)


def ctpm_globalnames(*words: Any, nodes: Iterable[str] | None = None) -> Any:
    """As :func:`ctpm_localnames`, for global names.

    >>> _ = start(), add_node("mine")
    >>> ctpm_globalnames()
    ('error', 'no_metatracer')
    >>> stop_all()
    """
    return everywhere("ctpm_globalnames", "ctpm_globalnames", words, 0, nodes)
