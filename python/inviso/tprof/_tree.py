"""The call tree of a profile, and what follows from it: inclusive measures, callers, the tree as text and as a picture.

While a program runs only own time (or memory) is counted, at each node; everything else is derived here. A function's
``cumulative`` adds up the subtrees of its outermost nodes, those with no other node of the function above, so that
recursion counts once.
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
    """One caller of a function: the figures are those of the function while this one had called it.

    ``label`` is ``module:function/arity``, or "" where no measured function was the caller. ``cumulative`` leaves out
    what is below an outer call of the same function.

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
    """A function as it was called through one chain of callers, with what it called; ``str`` shows it as text.

    ``function`` is None at the root (``label`` is "all"), and where callers are not known. ``measurement`` is the
    function's own, ``cumulative`` with all of ``children``. ``waiting`` is nanoseconds in which calls of a coroutine
    function were suspended; they are in no other figure.

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
        """Every node below this one and itself, with its depth: a caller comes before what it calls, the largest first.

        >>> [depth for depth, _ in Tree(None, "all", 0, 0, 0, 0, "call_time", ()).walk()]
        [0]
        """
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting.extend((depth + 1, child) for child in reversed(node.children))

    def format(self, *, limit: int | None = None) -> str:
        """As text, of the nodes the ``limit`` with the largest ``cumulative``; times in microseconds, memory in bytes."""
        rows("tree.format, limit", limit)
        every = list(self.walk())
        shown = every
        if limit is not None and len(every) > limit:
            # a caller has at least as much as each of its callees, and comes first: so it stays if one of them does
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
            raise bad("tprof.flame, before", f"{before!r} is no profile of {profile.type}", "give one of the same type")
        _known(before, "tprof.flame, before")
    from inviso import picture

    unit, title = ("ns", "Time") if profile.type == "call_time" else ("bytes", "Memory")
    earlier = None if before is None else list(stacks(before))
    return picture.flame(list(stacks(profile)), before=earlier, view=view, unit=unit, title=title)


def stacks(profile: Profile) -> Iterator[tuple[tuple[str, ...], int]]:
    """The rows of a flame graph: of each node its chain of labels, outermost first, and its own nanoseconds or bytes."""
    labels, size = _labels(profile), BYTES_OF_A_WORD if profile.type == "call_memory" else 1
    paths: list[tuple[str, ...]] = []
    for node in profile.nodes:
        paths.append((*(() if node.parent is None else paths[node.parent]), labels[node.function]))
        yield paths[-1], node.measurement * size


def measured(functions: Sequence[Function], nodes: Sequence[Node]) -> tuple[tuple[Function, ...], tuple[Node, ...]]:
    """Functions with the figures of a tree's nodes, in place of their own; as they are where there are no nodes."""
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
    # what a process did below a node counts for it where it was in the function itself
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
    """Of each node what each process did there and below."""
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
    """Of each node whether no node above is of the same function."""
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
