"""The graph of senders and receivers: adds edges up, places processes on a circle for each host, and draws them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from html import escape

from ..errors import BadArg, shown
from ._rows import Number, Rows, number, read
from ._svg import document, tag, text
from ._text import COLOURS, amount, clean, plural

__all__ = ["Graph", "Node", "graph_of", "graph_svg", "table"]

_COLUMNS = (
    ("sender", "sender_id", "source", "from"), ("receiver", "receiver_id", "target", "to"),
    ("count", "messages", "weight", "value"), ("sender_node", "from_node", "node"),
    ("receiver_node", "to_node", "node"),
)  # fmt: skip
_PROCESSES = (("process_id", "process", "pid"), ("name",), ("node",))
_RADIUS = 5
_LABELS = 24  # edges that are drawn with their number
_OTHERS = "(others)"


@dataclass(slots=True)
class Node:
    """A process, with the numbers of messages that it sends and receives."""

    name: str
    host: str
    sent: Number = 0
    received: Number = 0
    x: float = 0
    y: float = 0
    angle: float = 0


@dataclass(slots=True)
class Graph:
    """Processes by their keys, numbers of messages by pairs of keys, and notes on omitted parts."""

    unit: str
    nodes: dict[Hashable, Node] = field(default_factory=dict)
    edges: Counter[tuple[Hashable, Hashable]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    circles: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Centre and radius of each host's circle."""
    size: tuple[int, int] = (1000, 200)


def graph_of(where: str, edges: Rows, processes: Rows | None, unit: str, limit: int) -> Graph:
    """Adds edges up, keeps the ``limit`` busiest processes, and places them.

    Raises:
        BadArg: see :func:`inviso.picture.graph`.
    """
    names: dict[Hashable, tuple[str, str]] = {}
    if processes is not None:
        for id, name, node in read(where, "processes", processes, _PROCESSES, 1):
            names[id] = clean(name) or _named(id), clean(node)
    made = Graph(unit)
    alone = 0
    for at, (sender, receiver, count, sender_node, receiver_node) in enumerate(
        read(where, "edges", edges, _COLUMNS, 2)
    ):
        weight = number(where, "edges", count, f"row {at}, count")
        if weight is not None and weight < 0:
            raise BadArg(where, "edges", f"row {at}: a count of {shown(count)}; pass one of at least 0, or none for 1")
        if sender is None or receiver is None:
            alone += 1
            continue
        try:
            keys = [(end, clean(node)) for end, node in ((sender, sender_node), (receiver, receiver_node))]
            for end, host in keys:
                if (end, host) not in made.nodes:
                    name, known = names.get(end, (_named(end), ""))
                    made.nodes[end, host] = Node(name, host or known)
        except TypeError:
            raise BadArg(
                where, "edges", f"row {at}: {shown((sender, receiver))} can't be names; pass str, int or Pid"
            ) from None
        amount_of = 1 if weight is None else weight
        made.edges[keys[0], keys[1]] += amount_of  # type: ignore[assignment]
        made.nodes[keys[0]].sent += amount_of
        made.nodes[keys[1]].received += amount_of
    if alone:
        made.notes.append(f"{plural(alone, 'row')} without a sender or a receiver: left out")
    _keep(made, limit)
    _place(made)
    return made


def _named(id: object) -> str:
    return f"process {id}" if isinstance(id, int) else clean(id) or "(no name)"


def _keep(made: Graph, limit: int) -> None:
    """Combines all but the busiest processes of a host into one."""
    ranked = sorted(
        made.nodes, key=lambda key: (-made.nodes[key].sent - made.nodes[key].received, made.nodes[key].name)
    )
    left = ranked[limit:]
    if not left:
        return
    made.notes.append(
        f"{plural(len(left), 'process', 'processes')} with the fewest messages stand together as “{_OTHERS}”"
    )
    instead: dict[Hashable, Hashable] = {}
    for key in left:
        node = made.nodes.pop(key)
        other: Hashable = (_OTHERS, node.host)
        instead[key] = other
        together = made.nodes.setdefault(other, Node(_OTHERS, node.host))
        together.sent += node.sent
        together.received += node.received
    edges, made.edges = made.edges, Counter()
    for (a, b), count in edges.items():
        made.edges[instead.get(a, a), instead.get(b, b)] += count


def _place(made: Graph) -> None:
    """Places a circle for each host, side by side. On it, processes with many messages between them are close."""
    hosts: dict[str, list[Hashable]] = {}
    for key, node in made.nodes.items():
        hosts.setdefault(node.host, []).append(key)
    if not hosts:
        return
    columns = math.ceil(math.sqrt(len(hosts) * 1.4)) if len(hosts) > 1 else 1
    least = 100.0 if len(hosts) > 1 else 200.0
    radii = {host: max(least, len(keys) * 26 / math.tau) if len(keys) > 1 else 20.0 for host, keys in hosts.items()}
    label = 7 * min(max(len(node.name) for node in made.nodes.values()), 30) + 24
    cell = 2 * (max(radii.values()) + label)
    tall = 2 * max(radii.values()) + 130
    order = sorted(hosts)
    for at, host in enumerate(order):
        centre = ((at % columns + 0.5) * cell, (at // columns + 0.5) * tall + 24)
        made.circles[host] = (*centre, radii[host])
        keys = _around(hosts[host], made)
        for place, key in enumerate(keys):
            node = made.nodes[key]
            node.angle = math.tau * place / len(keys) - math.pi / 2
            radius = radii[host] if len(keys) > 1 else 0
            node.x, node.y = centre[0] + radius * math.cos(node.angle), centre[1] + radius * math.sin(node.angle)
    made.size = int(columns * cell), int(math.ceil(len(order) / columns) * tall + 30)


def _around(keys: list[Hashable], made: Graph) -> list[Hashable]:
    """An order in which each process is followed by the remaining one with the most messages to and from it."""
    weights: Counter[tuple[Hashable, Hashable]] = Counter()
    for (a, b), count in made.edges.items():
        weights[a, b] += count
        weights[b, a] += count
    left = sorted(keys, key=lambda key: (-made.nodes[key].sent - made.nodes[key].received, made.nodes[key].name))
    order = [left.pop(0)]
    while left:
        nearest = max(range(len(left)), key=lambda at: (weights[order[-1], left[at]], -at))
        order.append(left.pop(nearest))
    return order


def graph_svg(made: Graph, title: str) -> str:
    """Draws circles of hosts, edges as arcs that bend to the right, and processes with their names."""
    width, height = max(made.size[0], 420), made.size[1]
    parts = [text(title, 4, 16, class_="t h heading")]
    if not made.nodes:
        parts.append(text("no rows", 4, 60, class_="d"))
    several = len(made.circles) > 1
    for host, (x, y, radius) in made.circles.items():
        if several or host:
            parts.append(tag("circle", class_="g host", cx=x, cy=y, r=radius + 20, stroke_dasharray="3 4"))
            parts.append(text(host or "(no host)", x, y - radius - 38, class_="d", text_anchor="middle"))
    numbers = {key: at for at, key in enumerate(made.nodes)}
    most = max(made.edges.values(), default=1) or 1
    ranked = sorted(made.edges.items(), key=lambda item: -item[1])
    labels = []
    for at, ((a, b), count) in enumerate(ranked):
        arc, where = _arc(made.nodes[a], made.nodes[b], made.circles, 0.8 + 3.2 * math.log1p(count) / math.log1p(most))
        told = f"{made.nodes[a].name} → {made.nodes[b].name}: {amount(count, made.unit)}"
        parts.append(
            tag(
                "g",
                f"<title>{escape(told)}</title>{arc}",
                class_="item edge",
                data_name=told,
                data_a=numbers[a],
                data_b=numbers[b],
            )
        )
        if at < (_LABELS if len(ranked) <= _LABELS else _LABELS // 3):
            labels.append(text(amount(count, ""), *where, class_="t o", text_anchor="middle"))
    hosts = sorted(made.circles)
    for key, node in made.nodes.items():
        parts.append(_node(node, numbers[key], COLOURS[hosts.index(node.host) % (len(COLOURS) - 1)], made))
    return document(width, height, title, parts + labels)


def _arc(
    a: Node, b: Node, circles: dict[str, tuple[float, float, float]], thick: float
) -> tuple[str, tuple[float, float]]:
    """An edge, and the place of its number. Its tip is a triangle at the middle of the arc, where it is easy to see."""
    if a is b:
        cos, sin = math.cos(a.angle), math.sin(a.angle)
        # a loop inside the circle, where there are no names
        far = [(a.x - 44 * math.cos(a.angle + turn), a.y - 44 * math.sin(a.angle + turn)) for turn in (-0.5, 0.5)]
        shape = (
            f"M{a.x:.1f} {a.y:.1f}C{far[0][0]:.1f} {far[0][1]:.1f} {far[1][0]:.1f} {far[1][1]:.1f} {a.x:.1f} {a.y:.1f}"
        )
        middle = a.x - 29 * cos, a.y - 29 * sin
        along, label = a.angle + math.pi / 2, (a.x - 46 * cos, a.y - 46 * sin + 4)
    else:
        dx, dy = b.x - a.x, b.y - a.y
        bend = (a.x + b.x) / 2 - dy * 0.18, (a.y + b.y) / 2 + dx * 0.18
        shape = f"M{a.x:.1f} {a.y:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {b.x:.1f} {b.y:.1f}"
        middle = (a.x + 2 * bend[0] + b.x) / 4, (a.y + 2 * bend[1] + b.y) / 4
        length = math.hypot(dx, dy) or 1
        along, label = math.atan2(dy, dx), (middle[0] - dy / length * 11, middle[1] + dx / length * 11 + 4)
    size = 4 + thick
    corners = [(size, 0.0), (-size * 0.6, size * 0.7), (-size * 0.6, -size * 0.7)]
    turned = [
        (middle[0] + x * math.cos(along) - y * math.sin(along), middle[1] + x * math.sin(along) + y * math.cos(along))
        for x, y in corners
    ]
    tip = tag("polygon", class_="m", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in turned))
    return tag("path", class_="w", d=shape, style=f"stroke-width:{thick:.1f}", stroke_opacity=0.5) + tip, label


def _node(node: Node, number_of: int, colour: str, made: Graph) -> str:
    place = f"{node.name} on {node.host}" if node.host else node.name
    told = f"{place}: sent {amount(node.sent, made.unit)}, received {amount(node.received, made.unit)}"
    radius = _RADIUS + 2 * math.log10(1 + node.sent + node.received)
    cos, sin = math.cos(node.angle), math.sin(node.angle)
    anchor = "middle" if abs(cos) < 0.2 else "start" if cos > 0 else "end"
    x, y = node.x + cos * (radius + 6), node.y + sin * (radius + 10) + 4
    name = node.name if len(node.name) <= 30 else node.name[:29] + "…"
    shapes = tag("circle", cx=node.x, cy=node.y, r=radius, style=f"fill:{colour}", class_="w") + text(
        name, x, y, class_="t o", text_anchor=anchor
    )
    return tag(
        "g", f"<title>{escape(told)}</title>{shapes}", class_="item node", data_name=told, data_id=number_of, tabindex=0
    )


def table(made: Graph, most: int) -> tuple[list[str], list[list[str]]]:
    """A table of the edges with the largest counts."""
    ranked = sorted(made.edges.items(), key=lambda item: -item[1])[:most]

    def name(key: Hashable) -> str:
        node = made.nodes[key]
        return f"{node.name} · {node.host}" if node.host else node.name

    return ["from", "to", "messages"], [[name(a), name(b), amount(count, made.unit)] for (a, b), count in ranked]
