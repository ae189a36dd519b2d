"""Makes the boxes of a flame graph from stacks with values: a tree, its layout, with the smallest boxes combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BadArg, shown
from ._boxes import MERGED, Box, Boxes
from ._rows import Number, Rows, number, read
from ._text import GROWTH, STEPS, amount, clean, plural, share

__all__ = ["Flame", "Function", "flame_boxes"]

_COLUMNS = (("stack", "stacks"), ("value", "own", "self", "count"))
_STACK = "pass a tuple of names, outermost first, or 'a;b;c'"


@dataclass(slots=True)
class Function:
    """The sums of one function in all stacks."""

    name: str
    own: Number = 0
    inclusive: Number = 0
    """Its value with all that it called. A call inside another call of the same function counts once."""
    own_before: Number = 0
    boxes: int = 0


@dataclass(slots=True)
class Flame:
    """A flame graph: its boxes, its functions, and notes on omitted parts."""

    boxes: Boxes
    functions: list[Function]
    notes: list[str]
    total: Number
    before: Number


class _Tree:
    """Frames under their callers. Node 0 is the root; a node's number is larger than its caller's."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.name: list[int] = [-1]
        self.parent: list[int] = [-1]
        self.own: list[Number] = [0]
        self.before: list[Number] = [0]
        self.inner: list[dict[int, int] | None] = [None]

    def add(self, frames: list[str], value: Number, before: bool) -> None:
        names, inner, node = self.names, self.inner, 0
        for frame in frames:
            name = names.setdefault(frame, len(names))
            below = inner[node]
            if below is None:
                below = inner[node] = {}
            child = below.get(name)
            if child is None:
                child = below[name] = len(self.name)
                self.name.append(name)
                self.parent.append(node)
                self.own.append(0)
                self.before.append(0)
                inner.append(None)
            node = child
        (self.before if before else self.own)[node] += value

    def inclusive(self, own: list[Number]) -> list[Number]:
        sums = list(own)
        for node in range(len(sums) - 1, 0, -1):
            sums[self.parent[node]] += sums[node]
        return sums


def flame_boxes(where: str, rows: Rows, before: Rows | None, view: str, unit: str, limit: int) -> Flame:
    """The boxes of ``rows``: at most ``limit``, and one more for the omitted boxes under each of them.

    Raises:
        BadArg: see :func:`inviso.picture.flame`.
    """
    tree, notes = _Tree(), []
    for argument, given in (("rows", rows), ("before", before)):
        if given is not None:
            notes += _fill(where, argument, given, tree, view == "own")
    sums = tree.inclusive(tree.own)
    was = tree.inclusive(tree.before)
    kept = sorted((node for node in range(1, len(sums)) if sums[node] > 0), key=lambda node: (-sums[node], node))
    chosen = set(kept[:limit])
    flame = Flame(Boxes(sums[0], unit, growth=before is not None), [], notes, sums[0], was[0])
    _lay_out(tree, sums, was, chosen, view, flame)
    if left := len(kept) - len(chosen):
        largest = max(sums[node] for node in kept[limit:])
        what = plural(left, "smaller box", "smaller boxes")
        notes.append(f"{what} stand together as “… smaller”: none has more than {amount(largest, unit)}")
    gone = sum(1 for node in range(1, len(sums)) if sums[node] == 0 and was[node] > 0)
    if gone:
        lost = amount(_gone(tree, sums, was), unit)
        notes.append(f"gone since before: {plural(gone, 'box', 'boxes')}, {lost} in all; the table has the functions")
    if nothing := sum(1 for node in range(1, len(sums)) if sums[node] == 0 and was[node] == 0):
        notes.append(f"{plural(nothing, 'stack')} of value 0 can't be seen")
    return flame


def _gone(tree: _Tree, sums: list[Number], was: list[Number]) -> Number:
    return sum(
        was[node]
        for node in range(1, len(sums))
        if sums[node] == 0 and (sums[tree.parent[node]] > 0 or tree.parent[node] == 0)
    )


def _fill(where: str, argument: str, rows: Rows, tree: _Tree, turned: bool) -> list[str]:
    missing = negative = 0
    cleaned: dict[Any, str] = {}
    for at, (stack, value) in enumerate(_stacks(where, argument, rows)):
        size = number(where, argument, value, f"row {at}, value")
        if size is None:
            missing += 1
        elif size < 0:
            negative += 1
        else:
            frames = _frames(where, argument, stack, at, cleaned)
            tree.add(frames[::-1] if turned else frames, size, argument == "before")
    notes = [(missing, "without a value"), (negative, "with a value below 0")]
    of = " of before" if argument == "before" else ""
    return [f"{plural(count, 'row')}{of} {what}: left out" for count, what in notes if count]


def _stacks(where: str, argument: str, rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Stacks and values of rows. Rows of a collapsed file are lines ``a;b;c 12``."""
    if isinstance(rows, (str, bytes)):
        raise BadArg(
            where,
            argument,
            f"{shown(rows)} is not a sequence of rows; pass text.splitlines(), or an open file of collapsed stacks",
        )
    as_they_are = hasattr(rows, "__arrow_c_stream__") or isinstance(rows, Mapping) or not isinstance(rows, Iterable)
    yield from read(where, argument, rows if as_they_are else _split(where, argument, rows), _COLUMNS, 2)


def _split(where: str, argument: str, rows: Iterable[Any]) -> Iterator[Any]:
    for at, row in enumerate(rows):
        if isinstance(row, bytes):
            row = row.decode("utf-8", "replace")
        if not isinstance(row, str):
            yield row
        elif row.strip():
            stack, _, value = row.rstrip().rpartition(" ")
            try:
                yield stack, int(value) if value.isdecimal() else float(value)
            except ValueError:
                raise BadArg(where, argument, f"line {at} is {shown(row)}; pass lines like 'a;b;c 12'") from None


def _frames(where: str, argument: str, stack: Any, at: int, cleaned: dict[Any, str]) -> list[str]:
    if isinstance(stack, str):
        stack = stack.split(";") if stack else ()
    elif not isinstance(stack, (tuple, list)):
        raise BadArg(where, argument, f"row {at}, stack: {shown(stack)} is not a stack; {_STACK}")
    try:
        return [cleaned[frame] if frame in cleaned else cleaned.setdefault(frame, _name(frame)) for frame in stack]
    except TypeError:
        raise BadArg(where, argument, f"row {at}, stack: {shown(stack)} is not a stack; {_STACK}") from None


def _name(frame: Any) -> str:
    if isinstance(frame, tuple) and len(frame) == 3:
        return clean("{}:{}/{}".format(*frame))
    return clean(frame) or "(no name)"


def _lay_out(tree: _Tree, sums: list[Number], was: list[Number], chosen: set[int], view: str, flame: Flame) -> None:
    """Fills rows and functions, in one walk from each caller to its callees, the largest first.

    In a turned tree, a function's own value is the sum of its boxes in the first row.
    """
    boxes, own = flame.boxes, view != "own"
    boxes.names = list(tree.names)
    functions = [Function(name) for name in boxes.names]
    active = [0] * len(boxes.names)
    others: dict[int, int] = {}
    todo: list[tuple[int, Number, int]] = [(0, 0, -1)]
    while todo:
        node, x, depth = todo.pop()
        if node < 0:
            active[tree.name[~node]] -= 1
            continue
        name = tree.name[node]
        if node:
            function = functions[name]
            if own:
                function.own += tree.own[node]
                function.own_before += tree.before[node]
                function.inclusive += 0 if active[name] else sums[node]
            elif depth == 0:
                function.own += sums[node]
                function.own_before += was[node]
            active[name] += 1
            todo.append((~node, 0, 0))
            if node in chosen:
                while len(boxes.rows) <= depth:
                    boxes.rows.append([])
                before = was[node] if boxes.growth else None
                boxes.rows[depth].append(
                    Box(x, sums[node], name, 0, tree.own[node] if own else None, before, _tint(sums[node], was[node]))
                )
                function.boxes += 1
        inner = sorted(
            (tree.inner[node] or {}).values(),
            key=lambda child: (child not in chosen, -sums[child], boxes.names[tree.name[child]]),
        )
        at, many = x, 0
        rest: Number = 0
        for child in inner:
            todo.append((child, at, depth + 1))
            if child not in chosen and sums[child] > 0:
                rest, many = rest + sums[child], many + 1
            at += sums[child]
        if many and (node in chosen or node == 0):
            label = others.setdefault(many, len(boxes.names))
            if label == len(boxes.names):
                boxes.names.append(f"… {many:,} smaller")
            while len(boxes.rows) <= depth + 1:
                boxes.rows.append([])
            old = sum(was[child] for child in inner if child not in chosen) if boxes.growth else None
            boxes.rows[depth + 1].append(
                Box(at - rest, rest, label, MERGED, rest if own else None, old, _tint(rest, old or 0))
            )
    for row in boxes.rows:
        row.sort()
    _drop_unused(boxes)
    flame.functions = functions


def _drop_unused(boxes: Boxes) -> None:
    """Drops names that no box uses."""
    used = {name: at for at, name in enumerate(sorted({box.name for row in boxes.rows for box in row}))}
    boxes.names = [boxes.names[name] for name in used]
    boxes.rows = [[box._replace(name=used[box.name]) for box in row] for row in boxes.rows]


def _tint(now: Number, before: Number) -> int:
    """The index of a colour in ``GROWTH``: 0 is less by half or more, 4 is equal, 8 is more by half or more, or new."""
    change = (now - before) / before if before else 1 if now else 0
    steps = sum(1 for step in STEPS if abs(change) >= step)
    return len(GROWTH) // 2 + (steps if change > 0 else -steps)


def _change(function: Function) -> str:
    if not function.own_before:
        return "new"
    return f"{100 * (function.own - function.own_before) / function.own_before:+.1f} %" if function.own else "gone"


def table(flame: Flame, view: str, most: int) -> tuple[list[str], list[list[str]]]:
    """A table of the functions with the largest own values; for a difference, with the largest changes."""
    unit, total = flame.boxes.unit, flame.total
    if flame.boxes.growth:
        ranked = sorted(flame.functions, key=lambda f: (-abs(f.own - f.own_before), f.name))
        heads = ["function", "own before", "own now", "change", ""]
        changed = [f for f in ranked if f.own != f.own_before][:most]
        amounts = [(f, [amount(value, unit) for value in (f.own_before, f.own, f.own - f.own_before)]) for f in changed]
        return heads, [[f.name, *texts, _change(f)] for f, texts in amounts]
    ranked = sorted(flame.functions, key=lambda f: (-f.own, -f.inclusive, f.name))[:most]
    if view == "own":
        return ["function", "own", ""], [[f.name, amount(f.own, unit), share(f.own, total)] for f in ranked]
    return ["function", "own", "", "inclusive", ""], [
        [f.name, amount(f.own, unit), share(f.own, total), amount(f.inclusive, unit), share(f.inclusive, total)]
        for f in ranked
    ]
