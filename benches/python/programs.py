"""Measures the costs of tracing for six real workloads: templates, algebra, graphs, a linter, generators, coroutines.

    python -m benches.python.programs [ROUNDS [NAMES]]

A workload takes some 100 ms untraced, does the same work in each run, and checks its result. Workloads are subjects of the runner: each
tool of ``COLUMNS`` has a process of its own, and the rounds of all tools are interleaved. The output is two tables, and a last line of
JSON with the slow-down of each workload and tool. ``best`` is the best of the rounds over the best of ``none``, which traces nothing.
``median`` is the median of the rounds' own ratios.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import report, runner, tools
from .subjects import Subject
from .tools import want

COLUMNS = ("count", "time", "messages", "exceptions", "messages_file", "cprofile_python", "viztracer_python")
"""The tools that are measured, in the order of the table."""

_HERE = sys.modules[__name__]

_TEMPLATES = {
    "base": """<!doctype html>
<title>{% block title %}Shop{% endblock %}</title>
{% macro link(page) %}<a href="/{{ page.name|lower }}">{{ page.name }}</a>{% endmacro -%}
<nav>{% for page in pages %}{{ link(page) }}{{ " | " if not loop.last }}{% endfor %}</nav>
{% block content %}{% endblock %}
""",
    "parts": """
{% macro price(cents) %}{{ "%.2f"|format(cents / 100) }}{% endmacro %}
{% macro row(n, kind) %}<tr class="{{ kind }}"><th>{{ n }}{{ caller() }}{% endmacro %}
""",
    "order": """{% extends "base" %}
{% from "parts" import price, row %}
{% block title %}{{ super() }}: order {{ order.number }}{% endblock %}
{% block content %}
<h1>{{ order.customer|title }}</h1>
<table>
{% for line in order.lines %}
{% call row(loop.index, loop.cycle("odd", "even")) %}<td>{{ line.name|truncate(12) }}<td>{{ price(line.total) }}{% endcall %}
{% endfor %}
</table>
<p>{{ price(order.lines|sum(attribute="total")) }}
{{ order.lines|selectattr("total", "gt", 2000)|map(attribute="name")|map("upper")|join(", ") }}
{% for group in order.lines|groupby("kind") %}
<h2>{{ group.grouper }}</h2>
{% for line in group.list|sort(attribute="name") %}{{ line.name|replace("&", "and") }} {% endfor %}
{% endfor %}
{% endblock %}
""",
}


class Line:
    """One line of an order."""

    def __init__(self, n: int) -> None:
        self.name = f"article & part {n * 7919 % 1000}"
        self.amount = n % 5 + 1
        self.cents = 100 + n * 37 % 900
        self.kind = "abcd"[n % 4]

    @property
    def total(self) -> int:
        return self.amount * self.cents


def _jinja2() -> Subject:
    """Renders pages with inheritance, macros, filters and escaping. The templates are compiled before the first run."""
    jinja2: Any = importlib.import_module("jinja2")
    environment = jinja2.Environment(loader=jinja2.DictLoader(_TEMPLATES), autoescape=True)
    template = environment.get_template("order")
    pages = [{"name": f"Page {n}"} for n in range(12)]

    def work(orders: int) -> None:
        for n in range(orders):
            lines = [Line(n + i) for i in range(40)]
            order = {"number": n, "customer": f"customer <{n}>", "lines": lines}
            text = template.render(order=order, pages=pages)
            want("rows", text.count("<tr class="), 40)
            if (
                f"<p>{sum(line.total for line in lines) / 100:.2f}\n" not in text
                or f"<h1>Customer &lt;{n}&gt;</h1>" not in text
            ):
                want("the page of an order", text, "its sum and customer")

    return Subject("jinja2", lambda: work(40), lambda: work(2), jinja2.Environment.getattr, jinja2.Environment)


def _sympy() -> Subject:
    """Expands, factors, differentiates, integrates, solves. Each run begins with an empty cache."""
    sympy: Any = importlib.import_module("sympy")
    clear_cache = importlib.import_module("sympy.core.cache").clear_cache
    seed = importlib.import_module("sympy.core.random").seed
    x, y = sympy.symbols("x y")

    def work(n: int) -> None:
        clear_cache()
        seed(1)
        power = (x + y + 2) ** n
        want("factors", sympy.factor(sympy.expand(power)), power)
        slope = sympy.diff(sympy.sin(x * y) * sympy.exp(x**2) / (1 + x), x)
        want("the slope at 0", slope.subs(x, 0), y)
        product = x**n * sympy.exp(x)
        want("the integral's slope", sympy.expand(sympy.diff(sympy.integrate(product, x), x)), product)
        want("roots", sympy.solve(x**3 - 7 * x + 6, x), [-3, 1, 2])

    return Subject("sympy", lambda: work(6), lambda: work(2), sympy.Pow.as_base_exp, sympy.Pow)


def _networkx() -> Subject:
    """Finds trees, paths, colours, cores, centrality and a flow in a random graph."""
    networkx: Any = importlib.import_module("networkx")
    union = importlib.import_module("networkx.utils.union_find").UnionFind

    def work(nodes: int) -> None:
        graph = networkx.gnm_random_graph(nodes, 4 * nodes, seed=7)
        for n, (one, other) in enumerate(graph.edges):
            graph.edges[one, other]["weight"] = n * 7919 % 100 + 1
        parts = list(networkx.connected_components(graph))
        want("nodes of the parts", sum(map(len, parts)), nodes)
        tree = networkx.minimum_spanning_tree(graph)
        want("edges of the tree", tree.number_of_edges(), nodes - len(parts))
        colours = networkx.greedy_color(graph)
        want("edges of one colour", [edge for edge in graph.edges if colours[edge[0]] == colours[edge[1]]], [])
        want("paths", len(networkx.single_source_dijkstra_path_length(graph, 0)), max(map(len, parts)))
        want("central nodes", len(networkx.betweenness_centrality(graph, k=10, seed=1)), nodes)
        want("cores", max(networkx.core_number(graph).values()) >= 4, True)
        arcs = networkx.DiGraph(graph)
        ends = 0, nodes - 1
        flow = networkx.maximum_flow_value(arcs, *ends, capacity="weight")
        want("the flow", flow, networkx.minimum_cut_value(arcs, *ends, capacity="weight"))

    return Subject("networkx", lambda: work(400), lambda: work(60), union.union, union)


_SOURCE = '''
import os, sys
from collections import OrderedDict as Ordered{n}, deque

class Shape{n}(Base):
    """A docstring, and a doctest: ``area``."""
    sides: int = {n}

    @property
    def area(self) -> "float":
        return self.width * self.height if self.sides == 4 else math.pi * self.radius ** 2

    def scaled(self, by: float = 1.0, *rest: int, name: str | None = None, **more: object) -> "Shape{n}":
        found = [side * by for side in self if side not in rest]
        try:
            total = sum(found) / len(found)
        except (ZeroDivisionError, TypeError) as error:
            print(f"{{name!r}}: {{by:>{{len(found)}}}} %s" % total)
        else:
            unused = {{key: value for key, value in more.items() if key}}
        return Shape{n}(*found, name=name or "{n}")

def walk{n}(tree, seen=frozenset()):
    global counter{n}
    counter{n} = len(seen)
    for child, *others in tree:
        with open(child) as file, lock:
            yield from (line.strip() for line in file if line)
        if (size := len(others)) > 3 and not isinstance(child, Shape{n}):
            yield lambda value, *, size=size: (value, size, missing{n})
    while counter{n}:
        counter{n} -= 1
        assert counter{n} >= 0, "below"
'''


def _pyflakes() -> Subject:
    """Parses a long module and finds its flaws."""
    pyflakes: Any = importlib.import_module("pyflakes.checker")

    def work(parts: int) -> None:
        text = "Base, lock = object, None\n" + "".join(_SOURCE.format(n=n) for n in range(parts))
        checker = pyflakes.Checker(ast.parse(text), "shapes.py")
        found = Counter(type(message).__name__ for message in checker.messages)
        each = {"UndefinedName": 2 * parts, "UnusedVariable": 2 * parts}  # `math` and `missing`; `error` and `unused`
        want("flaws", {name: found[name] for name in each}, each)

    return Subject("pyflakes", lambda: work(40), lambda: work(2), pyflakes.Checker.handleNode, pyflakes.Checker)


def _words(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from line.split()


def _known(words: Iterable[str], stops: set[str]) -> Iterator[str]:
    for word in words:
        if word not in stops:
            yield word.strip(".,")


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    before = ""
    for word in words:
        if before:
            yield before, word
        before = word


def _walk(tree: Any) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
        return
    for branch in tree:
        yield from _walk(branch)


def _grown(depth: int) -> Any:
    return depth if depth == 0 else [_grown(depth - 1), depth, _grown(depth - 1)]


def _is_free(placed: tuple[int, ...], column: int) -> bool:
    return all(column != other and abs(column - other) != len(placed) - row for row, other in enumerate(placed))


def _queens(size: int, placed: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(placed) == size:
        yield placed
        return
    for column in range(size):
        if _is_free(placed, column):
            yield from _queens(size, (*placed, column))


def _generators() -> Subject:
    """A pipeline over text, a walk of a tree, and a search with backtracking."""

    def work(lines: int, depth: int, size: int, solutions: int) -> None:
        text = (f"The quick fox {n % 50} jumps over the lazy dog, and rests." for n in range(lines))
        pairs = Counter(_pairs(_known(_words(text), {"The", "the", "and"})))
        want("pairs", (pairs["over", "lazy"], sum(pairs.values())), (lines, 8 * lines - 1))
        want("leaves", sum(1 for leaf in _walk(_grown(depth)) if leaf == 0), 2**depth)
        want("solutions", sum(1 for _ in _queens(size)), solutions)

    return Subject("generators", lambda: work(9000, 13, 8, 92), lambda: work(20, 3, 4, 2), _is_free, _HERE)


def parsed(number: int, text: str) -> tuple[int, int]:
    """A page's number and length."""
    if not text:
        raise LookupError(number)
    return number, len(text)


async def _reply(number: int) -> str:
    for _ in range(number % 3):
        await asyncio.sleep(0)
    return "word " * (number % 10)


async def _fetched(number: int, room: asyncio.Semaphore) -> str:
    async with room, asyncio.timeout(60):
        return await _reply(number)


async def _visit(number: int, room: asyncio.Semaphore, pages: asyncio.Queue[tuple[int, int]]) -> bool:
    for step in range(3):
        text = await _fetched(number + step, room)
        try:
            page = parsed(number, text)
        except LookupError:
            continue
        await pages.put(page)
    return True


async def _visits(visitors: int) -> None:
    room, pages = asyncio.Semaphore(100), asyncio.Queue[tuple[int, int]](20)
    tasks = [asyncio.create_task(_visit(n, room, pages)) for n in range(visitors)]
    expected = [5 * (number % 10) for n in range(visitors) for number in range(n, n + 3) if number % 10]
    lengths = [(await pages.get())[1] for _ in expected]
    want("visitors", sum(await asyncio.gather(*tasks)), visitors)
    want("lengths", sorted(lengths), sorted(expected))


def _coroutines() -> Subject:
    """900 asyncio tasks that share a semaphore and a queue, with time limits and exceptions."""
    return Subject("coroutines", lambda: asyncio.run(_visits(900)), lambda: asyncio.run(_visits(30)), parsed, _HERE)


_MAKERS = {
    "jinja2": _jinja2,
    "sympy": _sympy,
    "networkx": _networkx,
    "pyflakes": _pyflakes,
    "generators": _generators,
    "coroutines": _coroutines,
}
NAMES = tuple(_MAKERS)


def make(name: str) -> Subject:
    """A workload by its name in ``NAMES``."""
    return _MAKERS[name]()


def measured(
    rounds: int, say: Callable[[str], None], names: Iterable[str] = NAMES, columns: Iterable[str] = COLUMNS
) -> tuple[dict[str, Any], dict[str, str]]:
    """Measures each workload, one after the other.

    Returns:
        The results of :func:`runner.interleaved` by workload, and the errors of the workloads that can't be measured.
    """
    found, failed = {}, {}
    for name in names:
        try:
            found[name] = runner.interleaved(name, columns, rounds, say)
        except runner.Failed as error:
            failed[name] = str(error)
    return found, failed


def main(rounds: str = "9", names: str = ",".join(NAMES)) -> int:
    """Returns the exit status: 1 if a tool was wrong, or if a workload is void or can't be measured."""
    found, failed = measured(
        int(rounds), lambda words: print(f"# {words}", file=sys.stderr, flush=True), names.split(",")
    )
    every = {name: {"about": tool.about, "versus": tool.versus} for name, tool in tools.every().items()}
    print("\n".join(report.programs(found, every)))
    for name, why in failed.items():
        print(f"- {name} failed: {why}")
    figures = {
        name: {tool: {"best": one["ratio"], "median": one["median"]} for tool, one in workload["tools"].items()}
        for name, workload in found.items()
    }
    print(json.dumps(figures))
    return int(bool(failed) or any(workload["wrong"] or workload["void"] for workload in found.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
