"""Merges several profiles: of child processes, runs or nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from posixpath import normpath
from typing import TypeAlias

from inviso.errors import shown

from ._check import bad
from ._model import Calls, Function, Node, Process, Profile, SavedProcess
from ._tree import measured

__all__ = ["merge", "together"]

Key: TypeAlias = "tuple[str, str, int, str, int]"
Place: TypeAlias = "tuple[int | None, int | None]"


def merge(*profiles: Profile | Mapping[str, Profile]) -> Profile:
    """Adds profiles of one type, of several runs or nodes: calls and measurements, and call trees path by path.

    A mapping gives the names of nodes: then processes of different nodes stay apart, even if their pids are equal. Two
    functions are the same if module, name, arity, file and line are equal. ``elapsed_ns`` is the longest time of the
    named nodes, and the sum of the times of profiles without a name. ``result`` is None.

    Raises:
        BadArg: types differ, or only some profiles have a call tree.

    >>> p = Profile("call_count", (Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),)),), ())
    >>> merge(p, p)["shop:total"].calls, merge({"web": p, "db": p}).calls
    (8, 8)
    """
    runs: list[Profile] = []
    for given in profiles:
        if isinstance(given, Mapping):
            runs.append(_nodes(given))
        elif isinstance(given, Profile):
            runs.append(given)
        else:
            raise bad(
                "tprof.merge, profiles",
                f"{shown(given)} is not a profile",
                "give profiles, or a dict of node to profile",
            )
    return _one(runs, sum(run.elapsed_ns for run in runs))


def _nodes(profiles: Mapping[str, Profile]) -> Profile:
    named = []
    for node, profile in profiles.items():
        if not isinstance(node, str) or not isinstance(profile, Profile):
            raise bad(
                "tprof.merge, profiles",
                f"{shown(node)}: {shown(profile)}",
                "give a dict of the node's name to its profile",
            )
        named.append(_of_node(profile, node))
    return _one(named, max((profile.elapsed_ns for profile in named), default=0))


def _of_node(profile: Profile, node: str) -> Profile:
    def calls(each: Iterable[Calls]) -> tuple[Calls, ...]:
        return tuple(replace(c, process=_saved(c.process, node)) for c in each)

    return replace(
        profile,
        functions=tuple(replace(f, processes=calls(f.processes)) for f in profile.functions),
        nodes=tuple(replace(n, processes=calls(n.processes)) for n in profile.nodes),
    )


def _saved(process: Process | None, node: str) -> SavedProcess | None:
    if process is None:
        return None
    if isinstance(process, SavedProcess):
        return process if process.node else replace(process, node=node)
    return SavedProcess(repr(process), str(process.kind), str(process.name or ""), node)


def _one(runs: list[Profile], elapsed_ns: int) -> Profile:
    if not runs:
        raise bad("tprof.merge, profiles", "there is none", "give at least one profile")
    first = runs[0]
    for run in runs[1:]:
        if run.type != first.type:
            raise bad(
                "tprof.merge, profiles", f"one is of {first.type}, one of {run.type}", "merge profiles of one type"
            )
    functions, nodes = together(runs)
    return replace(
        first,
        functions=functions,
        nodes=nodes,
        patterns=tuple(dict.fromkeys(pattern for run in runs for pattern in run.patterns)),
        elapsed_ns=elapsed_ns,
        result=None,
        timed_out=any(run.timed_out for run in runs),
        children=sum(run.children for run in runs),
        missing=" ".join(dict.fromkeys(run.missing for run in runs if run.missing)),
    )


def together(runs: list[Profile]) -> tuple[tuple[Function, ...], tuple[Node, ...]]:
    """The functions and the call tree of all profiles. Raises ``BadArg`` if only some have a tree."""
    with_tree = [bool(run.nodes) for run in runs if run.functions]
    if any(with_tree) and not all(with_tree):
        raise bad("tprof.merge, profiles", "only some have a call tree", "measure all of them with tree=True, or none")
    rows: dict[Key, Function] = {}
    for run in runs:
        for f in run.functions:
            known = rows.get(_key(f))
            rows[_key(f)] = f if known is None else replace(known, processes=_sum((*known.processes, *f.processes)))
    keys = sorted(rows)
    functions = [rows[key] for key in keys]
    if not any(with_tree):
        return tuple(functions), ()
    number = {key: n for n, key in enumerate(keys)}
    places: dict[Place, int] = {}
    found: list[list[Calls]] = []
    for run in runs:
        own = [number[_key(f)] for f in run.functions]
        at: list[int] = []
        for node in run.nodes:
            place = (
                None if node.parent is None else at[node.parent],
                None if node.function is None else own[node.function],
            )
            if place not in places:
                places[place] = len(found)
                found.append([])
            at.append(places[place])
            found[at[-1]].extend(node.processes)
    nodes = [Node(parent, function, _sum(each)) for (parent, function), each in zip(places, found, strict=True)]
    return measured(functions, nodes)


def _key(f: Function) -> Key:
    return f.module, f.function, f.arity, normpath(f.filename), f.line


def _sum(each: Iterable[Calls]) -> tuple[Calls, ...]:
    """Adds up the entries of each process, in their order."""
    sums: dict[Process | None, Calls] = {}
    for more in each:
        known = sums.get(more.process)
        if known is not None:
            more = Calls(
                more.process,
                known.calls + more.calls,
                known.measurement + more.measurement,
                None,
                known.waiting + more.waiting,
            )
        sums[more.process] = more
    return tuple(sums.values())
