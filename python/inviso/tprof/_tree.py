"""The call tree of a profile, and results derived from it: inclusive figures, callers, text and picture.

While a program runs, only own time (or memory) is counted at each node. This module derives the rest. ``cumulative`` of
a function adds up the subtrees of its outermost nodes, which have no node of the same function above. So recursion
counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from inviso.errors import BadArg

from ._check import bad, rows
from ._model import BYTES_OF_A_WORD, Calls, Function, Node, Process, Profile

__all__ = ["UNKNOWN", "Caller", "Tree", "callers", "cumulative", "flame", "measured", "tree"]

UNKNOWN = "(callers not known)"
"""The label of a node without a function."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller of a function. The figures are those of the function when this caller called it.

    ``label`` is ``module:function/arity``, or "" if the caller was not measured. ``cumulative`` leaves out calls below
    an outer call of the same function.

    >>> Caller("shop:total/1", 2, 10, 30, 0).calls
    2
    """

    label: str
    calls: int
    measurement: int
    cumulative: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A function that was called through one chain of callers, with its callees; ``str`` shows it as text.

    ``function`` is None at the root (``label`` is "all"), and where callers are unknown. ``measurement`` is the
    function's own, ``cumulative`` includes all ``children``. ``waiting`` is the nanoseconds in which calls of a
    coroutine function were suspended; no other figure includes them.

    >>> f = Tree(None, "m:f/0", 1, 2_000, 2_000, 0, "call_time", ())
    >>> print(Tree(None, "all", 0, 0, 2_000, 0, "call_time", (f,)))
    INCLUSIVE  [     %]   OWN  CALLS  FUNCTION
         2.00  [100.00]  0.00      0  all
         2.00  [100.00]  2.00      1    m:f/0
    """

    function: Function | None
    label: str
    calls: int
    measurement: int
    cumulative: int
    waiting: int
    type: str
    children: tuple[Tree, ...]

    def __str__(self) -> str:
        return self.format(limit=30)

    def __repr__(self) -> str:
        return f"<Tree of {self.label}: {self.calls:,} calls, {len(self.children)} callees>"

    def walk(self) -> Iterator[tuple[int, Tree]]:
        """Iterates over this node and all nodes below, with their depths: callers before callees, the largest first.

        >>> [depth for depth, _ in Tree(None, "all", 0, 0, 0, 0, "call_time", ()).walk()]
        [0]
        """
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting.extend((depth + 1, child) for child in reversed(node.children))

    def format(self, *, limit: int | None = None) -> str:
        """The ``limit`` nodes with the largest ``cumulative`` as text; times in microseconds, memory in bytes."""
        rows("tree.format, limit", limit)
        every = list(self.walk())
        shown = every
        if limit is not None and len(every) > limit:
            # a caller's figure is at least that of each callee, and it comes first: so it stays if a callee stays
            best = sorted(range(len(every)), key=lambda n: (-every[n][1].cumulative, n))[:limit]
            shown = [every[n] for n in sorted(best)]
        waits = any(node.waiting for _, node in shown)
        heading = ["INCLUSIVE", "[     %]", "OWN", *["WAITING"] * waits, "CALLS"]
        lines = [heading, *(self._cells(node, waits) for _, node in shown)]
        widths = [max(len(line[n]) for line in lines) for n in range(len(heading))]
        out = []
        for line, (depth, label) in zip(lines, [(0, "FUNCTION"), *((d, node.label) for d, node in shown)], strict=True):
            out.append(
                "  ".join([*(cell.rjust(w) for cell, w in zip(line, widths, strict=True)), "  " * depth + label])
            )
        if len(shown) < len(every):
            out.append(f"({len(every) - len(shown)} smaller not shown)")
        return "\n".join(out)

    def _cells(self, node: Tree, waits: bool) -> list[str]:
        percent = 100.0 * node.cumulative / self.cumulative if self.cumulative else 0.0
        amounts = [_amount(node.cumulative, self.type), f"[{percent:6.2f}]", _amount(node.measurement, self.type)]
        return [*amounts, *[f"{node.waiting / 1000:.2f}"] * waits, str(node.calls)]


def _amount(number: int, kind: str) -> str:
    return f"{number / 1000:.2f}" if kind == "call_time" else str(number * BYTES_OF_A_WORD)


def tree(profile: Profile) -> Tree:
    """See ``Profile.tree``."""
    nodes = _known(profile, "tprof.tree").nodes
    labels = _labels(profile)
    children: list[list[Tree]] = [[] for _ in nodes]
    top: list[Tree] = []
    for n in range(len(nodes) - 1, -1, -1):
        node = nodes[n]
        below = tuple(sorted(children[n], key=lambda t: (-t.cumulative, t.label)))
        total = node.measurement + sum(child.cumulative for child in below)
        function = None if node.function is None else profile.functions[node.function]
        one = Tree(
            function, labels[node.function], node.calls, node.measurement, total, node.waiting, profile.type, below
        )
        (top if node.parent is None else children[node.parent]).append(one)
    top.sort(key=lambda t: (-t.cumulative, t.label))
    return Tree(None, "all", 0, 0, sum(t.cumulative for t in top), 0, profile.type, tuple(top))


def cumulative(profile: Profile) -> dict[str, int]:
    """See ``Profile.cumulative``."""
    functions, labels = _known(profile, "tprof.cumulative").functions, _labels(profile)
    pairs = sorted(
        ((labels[n], f.cumulative or 0) for n, f in enumerate(functions)), key=lambda pair: (-pair[1], pair[0])
    )
    return dict(pairs)


def callers(profile: Profile, function: Function) -> tuple[Caller, ...]:
    """See ``Profile.callers``."""
    nodes = _known(profile, "tprof.callers").nodes
    if function not in profile.functions:
        raise bad(
            "tprof.callers, function", f"{function!r} is of another profile", "give one of profile.functions, or a name"
        )
    wanted, labels = profile.functions.index(function), _labels(profile)
    whole = _whole(nodes)
    outermost = _outermost(nodes)
    sums: dict[str, list[int]] = {}
    for n, node in enumerate(nodes):
        if node.function == wanted:
            label = "" if node.parent is None else labels[nodes[node.parent].function]
            entry = sums.setdefault(label, [0, 0, 0, 0])
            entry[0] += node.calls
            entry[1] += node.measurement
            if outermost[n]:
                entry[2] += sum(whole[n].values())
                entry[3] += node.waiting
    return tuple(sorted((Caller(label, *each) for label, each in sums.items()), key=lambda c: (-c.cumulative, c.label)))


def flame(profile: Profile, before: Profile | None, view: Literal["inclusive", "own"]) -> Any:
    """See ``Profile.flame``."""
    _known(profile, "tprof.flame")
    if before is not None:
        if not isinstance(before, Profile) or before.type != profile.type:
            raise bad(
                "tprof.flame, before", f"{before!r} is not a profile of {profile.type}", "give one of the same type"
            )
        _known(before, "tprof.flame, before")
    from inviso import picture

    unit, title = ("ns", "Time") if profile.type == "call_time" else ("bytes", "Memory")
    earlier = None if before is None else list(stacks(before))
    return picture.flame(list(stacks(profile)), before=earlier, view=view, unit=unit, title=title)


def stacks(profile: Profile) -> Iterator[tuple[tuple[str, ...], int]]:
    """The rows of a flame graph: for each node the labels of its chain, outermost first, and its own ns or bytes."""
    labels, size = _labels(profile), BYTES_OF_A_WORD if profile.type == "call_memory" else 1
    paths: list[tuple[str, ...]] = []
    for node in profile.nodes:
        paths.append((*(() if node.parent is None else paths[node.parent]), labels[node.function]))
        yield paths[-1], node.measurement * size


def measured(functions: Sequence[Function], nodes: Sequence[Node]) -> tuple[tuple[Function, ...], tuple[Node, ...]]:
    """Functions with figures from the nodes of a tree; without nodes they keep their own."""
    if not nodes:
        return tuple(functions), ()
    whole, outermost = _whole(nodes), _outermost(nodes)
    sums: list[dict[Process | None, list[int]]] = [{} for _ in functions]
    totals = [0] * len(functions)
    for n, (node, is_outermost) in enumerate(zip(nodes, outermost, strict=True)):
        if node.function is None:
            continue
        own = sums[node.function]
        for c in node.processes:
            entry = own.setdefault(c.process, [0, 0, 0, 0])
            entry[0] += c.calls
            entry[1] += c.measurement
            if is_outermost:
                entry[3] += c.waiting
        if is_outermost:
            totals[node.function] += sum(whole[n].values())
    # figures of a process below a node count for the process if it has figures in the function itself
    for n, (node, is_outermost) in enumerate(zip(nodes, outermost, strict=True)):
        if node.function is not None and is_outermost:
            for process, amount in whole[n].items():
                if process in sums[node.function]:
                    sums[node.function][process][2] += amount
    made = tuple(
        replace(f, processes=tuple(Calls(process, *entry) for process, entry in own.items()), cumulative=total)
        for f, own, total in zip(functions, sums, totals, strict=True)
    )
    return made, tuple(nodes)


def _whole(nodes: Sequence[Node]) -> list[dict[Process | None, int]]:
    """For each node the figures of each process at the node and below."""
    whole: list[dict[Process | None, int]] = []
    for node in nodes:
        own: dict[Process | None, int] = {}
        for c in node.processes:
            own[c.process] = own.get(c.process, 0) + c.measurement
        whole.append(own)
    for n in range(len(nodes) - 1, -1, -1):
        parent = nodes[n].parent
        if parent is not None:
            above = whole[parent]
            for process, amount in whole[n].items():
                above[process] = above.get(process, 0) + amount
    return whole


def _outermost(nodes: Sequence[Node]) -> list[bool]:
    """For each node, whether no node above has the same function."""
    below: list[list[int]] = [[] for _ in nodes]
    top: list[int] = []
    for n, node in enumerate(nodes):
        (top if node.parent is None else below[node.parent]).append(n)
    active: dict[int | None, int] = {}
    found = [False] * len(nodes)
    left = [(n, True) for n in reversed(top)]
    while left:
        n, enters = left.pop()
        function = nodes[n].function
        if enters:
            found[n] = not active.get(function, 0)
            active[function] = active.get(function, 0) + 1
            left.append((n, False))
            left.extend((child, True) for child in below[n])
        else:
            active[function] -= 1
    return found


def _known(profile: Profile, where: str) -> Profile:
    if not profile.nodes and profile.functions:
        raise BadArg(where, "self", "the profile has no call tree; measure with type='call_time', tree=True (--tree)")
    return profile


def _labels(profile: Profile) -> dict[int | None, str]:
    from ._view import labels

    return {None: UNKNOWN, **dict(enumerate(labels(profile.functions)))}
