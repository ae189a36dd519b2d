"""Arguments of the control's functions: Inviso's forms, distinguished and checked before any request is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from inviso._link._names import full
from inviso.errors import BadArg, shown
from inviso.runtime._settings import Settings, Unknown, read

__all__ = ["ALL", "confs", "functions", "mfas", "node_name", "nodes", "pairs_of_nodes", "patterns", "settings"]

ALL = "all"

Nodes = list[str] | None


def nodes(where: str, given: Any) -> Nodes:
    """Full names of nodes; None for all that were added.

    >>> nodes("tp", ["a@h", "b@h"]), nodes("tp", "all")
    (['a@h', 'b@h'], None)
    """
    if given is None or given == ALL:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadArg(f"control.{where}", "nodes", f"{shown(given)} is not a list of names; pass one such as ['shop-1']")
    return [node_name(where, each) for each in given]


def node_name(where: str, given: Any) -> str:
    """The full name of a node. A name without a host belongs to this host."""
    if not isinstance(given, str) or not given or given.count("@") > 1:
        raise BadArg(f"control.{where}", "nodes", f"{shown(given)} is not a name of a node; pass one such as 'shop-1'")
    return full(given)


def settings(where: str, given: Any) -> Settings | tuple[str, Any]:
    """Options of runtime components, or the answer if one is unknown."""
    try:
        return read(given)
    except Unknown as wrong:
        return "error", ("unknown_option", wrong.option)


def patterns(where: str, words: tuple[Any, ...], given_nodes: Any) -> tuple[Nodes, list[Any]]:
    """Nodes and patterns of ``tp`` and ``tpl``."""
    chosen = nodes(where, given_nodes)
    match words:
        case (list() | tuple() as items,) if not isinstance(items, tuple) or not _is_module(items):
            return chosen, [_pattern(where, one) for one in items]
        case (list() as some, list() as items):
            return nodes(where, some), [_pattern(where, one) for one in items]
        case (list() as some, module, function, arity, match_spec):
            return nodes(where, some), [_pattern(where, (module, function, arity, match_spec))]
        case (list() as some, module, function, arity, match_spec, options):
            return nodes(where, some), [_pattern(where, (module, function, arity, match_spec, options))]
        case (_, _, _, _) | (_, _, _, _, _):
            return chosen, [_pattern(where, words)]
    raise _forms(
        where, "pass (module, function, arity, match_spec), or a list of such patterns, after nodes if you like"
    )


def mfas(where: str, words: tuple[Any, ...], given_nodes: Any) -> tuple[Nodes, list[Any]]:
    """Nodes and functions of ``ctp`` and ``ctpl``."""
    chosen = nodes(where, given_nodes)
    match words:
        case (list() as items,):
            return chosen, [_mfa(where, one) for one in items]
        case (list() as some, list() as items):
            return nodes(where, some), [_mfa(where, one) for one in items]
        case (list() as some, module, function, arity):
            return nodes(where, some), [_mfa(where, (module, function, arity))]
        case (_, _, _):
            return chosen, [_mfa(where, words)]
    raise _forms(where, "pass (module, function, arity), or a list of such functions, after nodes if you like")


def functions(where: str, words: tuple[Any, ...], counts: tuple[int, ...], given_nodes: Any) -> tuple[Nodes, list[Any]]:
    """Nodes, and a function with its further words, of the calls of meta tracing. ``counts``: the allowed numbers of
    words.
    """
    chosen = nodes(where, given_nodes)
    if len(words) - 1 in counts and isinstance(words[0], list):
        chosen, words = nodes(where, words[0]), words[1:]
    if len(words) not in counts:
        raise _forms(where, "pass a function and what belongs to it, after nodes if you like; see its description")
    module, function, arity = words[:3]
    if not isinstance(module, str) or not isinstance(function, str):
        raise BadArg(
            f"control.{where}", "function", f"{shown(words[:2])} is not a name of a function; pass two strings"
        )
    if isinstance(arity, bool) or not (arity == "_" or (isinstance(arity, int) and 0 <= arity <= 255)):
        raise BadArg(
            f"control.{where}", "arity", f"{shown(arity)} is not a number of parameters; pass 0 to 255, or '_'"
        )
    return chosen, list(words)


def confs(where: str, words: tuple[Any, ...], given_nodes: Any) -> tuple[Nodes, list[Any] | None, list[Any]]:
    """Nodes, ``[(process, flags)]`` and ``[(node, confs, how)]`` of ``tf`` and ``ctf``.

    The second is None for the forms that have nodes inside; for the others the third is empty.
    """
    chosen = nodes(where, given_nodes)
    match words:
        case (list() as items,) if items and all(_is_of_node(one) for one in items):
            found = []
            for name, each, *how in items:
                found.append((node_name(where, name), [_conf(where, one) for one in each], how[0] if how else None))
            return chosen, None, found
        case (list() as items,):
            return chosen, [_conf(where, one) for one in items], []
        case (list() as some, list() as items):
            return nodes(where, some), [_conf(where, one) for one in items], []
        case (list() as some, process, flags):
            return nodes(where, some), [_conf(where, (process, flags))], []
        case (process, flags):
            return chosen, [_conf(where, (process, flags))], []
    raise _forms(where, "pass (process, flags), or a list of such pairs, after nodes if you like")


def pairs_of_nodes(where: str, given: Any) -> list[tuple[str, Any]] | None:
    """``[(node, x)]`` and ``[node]`` as pairs, the latter with None. None if it is not a list of nodes.

    >>> pairs_of_nodes("list_logs", [("a@h", 1), "b@h"])
    [('a@h', 1), ('b@h', None)]
    >>> pairs_of_nodes("list_logs", [("trace", ("file", "a.log"))]) is None
    True
    """
    if not isinstance(given, list):
        return None
    found = []
    for one in given:
        match one:
            case str():
                found.append((node_name(where, one), None))
            case (str(name), value) if name not in ("trace", "ti"):
                found.append((node_name(where, name), value))
            case _:
                return None
    return found


def _pattern(where: str, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, (tuple, list)) or len(given) not in (4, 5):
        raise _forms(where, f"{shown(given)} is not a pattern; pass (module, function, arity, match_spec)")
    module, function, arity, match_spec, *options = given
    if not (isinstance(match_spec, (bool, list))):
        why = f"{shown(match_spec)} is not a match specification; pass True, False, or a list of (head, guards, body)"
        raise BadArg(f"control.{where}", "match_spec", why)
    return (*_mfa(where, (module, function, arity)), match_spec, *options)


def _mfa(where: str, given: Any) -> tuple[Any, Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) < 3:
        raise _forms(where, f"{shown(given)} names no functions; pass (module, function, arity)")
    module, function, arity = given[:3]
    if isinstance(module, re.Pattern):
        module = ("re", module.pattern)
    elif isinstance(module, tuple):
        module = ("re", *_expressions(where, module))
    elif not isinstance(module, str) or not module:
        why = f"{shown(module)} names no modules; pass a name, 'package.**', '_', or a regular expression by re.compile"
        raise BadArg(f"control.{where}", "module", why)
    if not isinstance(function, str) or not function:
        raise BadArg(f"control.{where}", "function", f"{shown(function)} is not a name; pass a name, or '_' for any")
    if isinstance(arity, bool) or not (arity == "_" or (isinstance(arity, int) and 0 <= arity <= 255)):
        raise BadArg(
            f"control.{where}", "arity", f"{shown(arity)} is not a number of parameters; pass 0 to 255, or '_'"
        )
    return module, function, arity


def _expressions(where: str, given: tuple[Any, ...]) -> list[str]:
    """One regular expression for modules, or one for folders and one for modules."""
    words = list(given[1:]) if given and given[0] == "re" else list(given)
    texts = [word.pattern if isinstance(word, re.Pattern) else word for word in words]
    if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
        why = f"{shown(given)} names no modules; pass ('re', modules), or (folders, modules)"
        raise BadArg(f"control.{where}", "module", why)
    for text in texts:
        try:
            re.compile(text)
        except re.error as error:
            raise BadArg(f"control.{where}", "module", f"{text!r} is not a regular expression: {error}") from None
    return texts


def _conf(where: str, given: Any) -> tuple[Any, list[str]]:
    match given:
        case (process, list() | tuple() as flags) if all(isinstance(flag, str) for flag in flags):
            return process, list(flags)
    why = f"{shown(given)} is not a pair of a process and its flags; pass one such as ('all', ['call'])"
    raise BadArg(f"control.{where}", "confs", why)


def _is_of_node(one: Any) -> bool:
    match one:
        case (str(), list() as inner) | (str(), list() as inner, bool()):
            return all(isinstance(each, tuple) for each in inner) and (len(one) == 3 or bool(inner))
    return False


def _is_module(items: tuple[Any, ...]) -> bool:
    return bool(items) and isinstance(items[0], (str, re.Pattern))


def _forms(where: str, why: str) -> BadArg:
    return BadArg(f"control.{where}", "arguments", why)
