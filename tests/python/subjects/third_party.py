"""Programs that use well-known packages, and the checks of each while it is traced.

Each program runs until it is warm. So all compared runs do the same.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import inviso
from inviso import trace

Name = tuple[str, str, int]
WILD = ("_", "_", "_")
# From 3.13 on the interpreter's own frame below an __init__ counts as its caller.
THROUGH_INIT = sys.version_info >= (3, 13)
TEXT = "\n\n".join(
    f"# Part {n}\n\nSome *emphasis*, `code` and a [link](http://example.org/{n}).\n\n* one\n* two\n\n> quoted\n\n"
    "| a | b |\n| - | - |\n| 1 | 2 |\n"
    for n in range(8)
)
RST = "\n".join(
    f"Part {n}\n========\n\nSome *emphasis*, ``code`` and a `link <http://example.org/{n}>`_.\n\n* one\n* two\n\n"
    ".. note:: noted\n\n===  ===\na    b\n===  ===\n1    2\n===  ===\n"
    for n in range(3)
)


def jinja2() -> Callable[[], str]:
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(
        "{% macro row(x) %}<td>{{ x|upper }}</td>{% endmacro %}"
        "{% for n in names recursive %}{{ loop.index }}{{ row(n) }}{{ n|length|default(1) }}{% endfor %}"
        "{{ names|join(', ') }}{{ names|map('title')|list }}"
    )
    return lambda: template.render(names=[f"<name {n}>" for n in range(30)])


def pygments() -> Callable[[], str]:
    import inspect

    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    source = inspect.getsource(sys.modules[__name__])[:4000]
    return lambda: highlight(source, PythonLexer(), HtmlFormatter(linenos=True))


def docutils() -> Callable[[], str]:
    from docutils.core import publish_string

    return lambda: publish_string(RST, writer="html", settings_overrides={"_disable_config": True}).decode()


def mistune() -> Callable[[], str]:
    import mistune

    markdown = mistune.create_markdown(plugins=["table", "strikethrough"])
    return lambda: markdown(TEXT)


def rich() -> Callable[[], str]:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    def show() -> str:
        out = io.StringIO()
        console = Console(file=out, width=80, force_terminal=True, color_system="truecolor", _environ={})
        table = Table("name", "value", title="table")
        for n in range(5):
            table.add_row(f"[bold]{n}[/bold]", str(n) * n)
        console.print(table, Markdown(TEXT[:300], hyperlinks=False))
        return out.getvalue()

    return show


def attrs() -> Callable[[], str]:
    import attrs

    @attrs.define  # without an order of its own, which would use generators: see nests()
    class Point:
        x: int = attrs.field(converter=int, validator=attrs.validators.instance_of(int))
        y: int = attrs.field(default=0, validator=[attrs.validators.ge(0), attrs.validators.le(100)])
        more: list[Any] = attrs.field(factory=list, repr=False)

    def make() -> str:
        points = [Point(str(n), n % 7) for n in range(50)]
        points[0].x = "5"  # type: ignore[assignment]
        moved = [attrs.evolve(point, y=3, more=[point]) for point in sorted(points, key=lambda point: -point.x)]
        return repr(moved) + repr([attrs.asdict(point) for point in moved])

    return make


PROGRAMS = {program.__name__: program for program in (jinja2, pygments, docutils, mistune, rich, attrs)}


def profiled(program: Callable[[], str]) -> tuple[str, list[Any]]:
    """The program's output and the code objects of the calls that it makes, in order, by sys.setprofile."""
    frames: set[Any] = set()
    calls: list[Any] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame not in frames:  # a generator's further resumptions are not calls
            frames.add(frame)
            calls.append(frame.f_code)

    sys.setprofile(profile)
    try:
        output = program()
    finally:
        sys.setprofile(None)
    return output, calls


def told(program: Callable[[], str], expected: str) -> list[tuple[str, Name]]:
    """The messages of one run: from its first call to its return to here."""
    here = (__name__, "told", 2)
    with trace.session_create("messages", None, {"ring_bytes": 1 << 28}) as session:
        session.function(WILD, True, ["local"])
        session.process(inviso.self(), True, ["call", "return_to", "arity"])
        output = program()
        session.process(inviso.self(), False, ["call"])
        assert session.info("session", "dropped") == ("dropped", 0)
        sent = [(str(m[2]), m[3]) for m in session.drain()]
    assert output == expected
    sent = sent[: sent.index(("return_to", here)) + 1]
    if THROUGH_INIT:
        sent = [message for message in sent if message[0] == "call" or message[1][1:] != ("__init__", 0)]
    return sent


def nests(sent: list[tuple[str, Name]], generators: set[Name]) -> None:
    """Each return_to names an open call, and ends the calls inside it.

    There are no events when a generator yields or is resumed. With generators a return_to only names a called function.
    """
    under_way = [(__name__, "told", 2)]
    for tag, name in sent:
        if tag == "call":
            under_way.append(name)
        elif generators:
            assert name in under_way, name
        else:
            assert name in under_way[:-1], (name, under_way[-5:])
            while under_way.pop() != name:
                pass
            under_way.append(name)
    assert generators or len(under_way) == 1


def rows(session: trace.Session, kind: str) -> list[tuple[Name, int, int]]:
    """Name, calls and nanoseconds of each called function; several codes of one name together."""
    summed: dict[Name, list[int]] = {}
    for module, function, arity, _, _, _, calls, ns in session._native.counters(kind):
        row = summed.setdefault((module, function, arity), [0, 0])
        row[0] += calls
        row[1] += ns
    return [(name, calls, ns) for name, (calls, ns) in summed.items() if calls]


def check(name: str) -> None:
    """Runs a program with and without tracing, and compares."""
    program = PROGRAMS[name]()
    for _ in range(3):
        expected = program()
    gc.collect()
    gc.disable()
    output, codes = profiled(program)
    assert output == expected

    sent = told(program, expected)
    calls = [name for tag, name in sent if tag == "call"]
    assert len(calls) == len(codes) > 300
    names = dict(zip(codes, calls, strict=True))
    assert all(names[code] == name for code, name in zip(codes, calls, strict=True)), "one name for one code"
    same = [code.co_qualname == function for code, (_, function, _) in names.items()]
    assert sum(same) > 0.8 * len(same), "few functions are renamed"
    nests(sent, {name for code, name in names.items() if code.co_flags & 0x2A0})
    counts = Counter(calls)

    with trace.session_create("count") as session:
        session.function(WILD, True, ["call_count"])
        output = program()
        session.function(WILD, "pause", ["call_count"])
        counted = Counter({name: count for name, count, _ in rows(session, "call_count") if name in counts})
        for called in calls[:10]:
            assert session.info(called, "call_count") == ("call_count", counts[called])
    assert output == expected
    assert counted == counts, {name: (counted[name], n) for name, n in counts.items() if counted[name] != n}

    for attempt in range(5):
        with trace.session_create("time") as session:
            session.process(inviso.self(), True, ["call"])
            session.function(WILD, True, ["call_time"])
            start = time.perf_counter()
            output = program()
            wall = time.perf_counter() - start
            session.function(WILD, "pause", ["call_time"])
            timed = [row for row in rows(session, "call_time") if row[0] in counts]
        assert output == expected
        assert Counter({name: count for name, count, _ in timed}) == counts
        seconds = sum(ns for *_, ns in timed) / 1e9
        assert seconds <= wall
        if seconds >= 0.9 * wall:  # or another program had the processor before the first call, or after the last one
            break
        assert attempt < 4, (seconds, wall)
    print(name, len(calls))
