"""Events as text and as charts: the printout of seq_trace.md, drawings that hostile data can't break."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import inviso
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inviso import Atom, Cut, Opaque, _native, seq_trace
from inviso.seq._text import clipped, term, wide
from inviso.seq_trace import Anchor, Output, chart, merge
from waiting import until

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def over() -> Iterator[None]:
    """Afterwards there is neither token nor tracer."""
    yield
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)


def pid(number: int, node: int = 0) -> inviso.Pid:
    return _native.process.pid_of_node(f"n{node}@far", (node + 9) << 40 | 5 * (node + 9), number << 2)


A, B, C = inviso.self(), pid(31), pid(32, 1)
NAMES = {A: "controller", B: "call_server"}


def told(tag: str, serial: tuple[int, int], a: Any, b: Any, content: Any = "m", label: Any = 17) -> Any:
    return ("seq_trace", label, (tag, serial, a, b, content))


EXAMPLE = [
    told("print", (0, 1), A, [], "**** Trace Started ****"),
    told("receive", (0, 2), A, B, (A, Atom("the_message"))),
    told("print", (2, 3), B, [], "We are here now"),
    told("receive", (2, 4), B, A, (Atom("ack"), (Atom("received"), Atom("the_message")))),
]


# -- text


def test_the_printout_of_the_example() -> None:
    assert "\n".join(map(seq_trace.format, EXAMPLE)) == (
        f"""17:{A} Info {{0,1}} WITH
"**** Trace Started ****"
17:{B} Received {{0,2}} FROM {A} WITH
{{{A},the_message}}
17:{B} Info {{2,3}} WITH
"We are here now"
17:{A} Received {{2,4}} FROM {B} WITH
{{ack,{{received,the_message}}}}"""
    )


def test_what_was_sent_and_when() -> None:
    sent = (*told("send", (0, 1), A, B, [1, 2.5, b"\x01"]), (1, 2, 3))
    assert seq_trace.format(sent) == f"17 {{1,2,3}}:{A!r} Sent {{0,1}} TO {B!r} WITH\n[1,2.5,<<1>>]"
    (entry,) = merge(Output("a@b", Anchor(0, 0), (sent,)))
    assert seq_trace.format(entry) == seq_trace.format(sent)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "undefined"), (True, "true"), (Atom("ok"), "ok"), (Atom("Not ok'\n"), r"'Not ok\'\n'"), (Atom(""), "''"),
        (1e22, "1.0e22"), (1000.0, "1.0e3"), (12345.0, "12345.0"), (1e-7, "1.0e-7"), (-0.001, "-0.001"), (0.05, "0.05"),
        (-0.0, "-0.0"),
        (9007199254740992.0, "9.007199254740992e15"), (Atom("end"), "'end'"),
        ({Atom("and"): 1e16}, "#{'and' => 1.0e16}"),
        ("a\"b\\\n\x1b\u202e", r'"a\"b\\\n\e\x{202e}"'), ("größe", '"größe"'), ("", '""'),
        ({"k": (1, [])}, '#{"k" => {1,[]}}'), (frozenset({2, 1}), "#Set<1,2>"), (b"", "<<>>"),
        (inviso.BitString(b"\x01\xa0", 3), "<<1,5:3>>"), (inviso.ImproperList([1], 2), "[1|2]"),
        (inviso.Map([(1, 2), (1.0, 3)]), "#{1 => 2,1.0 => 3}"), (Cut("items"), "...<items>"),
        (Opaque("app.Order", 16), "#Object<app.Order at 0x10>"), (Opaque("a", 1, "\n"), r"#Object<a \n>"),
        (-1 << 80, str(-1 << 80)),
    ],
)  # fmt: skip
def test_terms_as_the_shell_writes_them(value: Any, text: str) -> None:
    assert term(value) == text


def test_what_is_very_deep_or_very_long_is_written_too() -> None:
    assert term(1 << 40_000) == "0x1" + "0" * 10_000
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert "..." in seq_trace.format(told("print", (0, 1), A, [], deep))


def test_a_printer_is_a_system_tracer() -> None:
    out = io.StringIO()
    seq_trace.reset_trace()
    seq_trace.set_token("label", 17)
    tracer = seq_trace.printer(out)  # it doesn't inherit: its start is not an event
    seq_trace.set_system_tracer(tracer)
    seq_trace.set_token("print", True)
    seq_trace.print(17, "We are here now")
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)
    inviso.send(tracer, ("what", "it", "ignores"))
    inviso.send(tracer, "stop")
    until(lambda: not tracer.is_alive())
    assert out.getvalue() == f'17:{A!r} Info {{0,1}} WITH\n"We are here now"\n'


def printed(file: Any, *messages: Any) -> None:
    """Has a printer print, and end."""
    tracer = seq_trace.printer(file)
    for message in (*messages, "stop"):
        inviso.send(tracer, message)
    until(lambda: not tracer.is_alive())


def test_a_printer_escapes_what_the_encoding_lacks() -> None:
    out = io.BytesIO()
    event = ("seq_trace", "é", ("print", (0, 1), A, [], "ü"))
    file = io.TextIOWrapper(out, encoding="ascii")
    printed(file, event, ("drop", 3), event)
    line = f'"\\xe9":{A!r} Info {{0,1}} WITH\n"\\xfc"\n'
    assert out.getvalue().decode("ascii") == f"{line}*** Dropped 3 messages.\n{line}"


class Failing(io.StringIO):
    """A disk that is full for two lines."""

    left = 2

    def write(self, text: str) -> int:
        if self.left > 0 and text:
            self.left -= 1
            raise OSError("full")
        return super().write(text)


def test_a_printer_outlives_its_file_s_failures(capsys: pytest.CaptureFixture[str]) -> None:
    out = Failing()
    event = ("seq_trace", 1, ("print", (0, 1), A, [], "x"))
    printed(out, event, ("drop", 3), event, ("seq_trace", "no event"), event)
    line = seq_trace.format(event)
    assert out.getvalue() == f"*** Dropped 4 messages.\n{line}\n{line}\n"
    err = capsys.readouterr().err
    assert err.count("reported once") == 1 and err.count("OSError: full") == 1


# -- charts


def test_a_chart_of_the_example() -> None:
    assert chart(EXAMPLE, names=NAMES, width=90).text() == "\n".join(
        [
            "        controller                call_server",
            '             #                         |            {0,1} "**** Trace Started ****"',
            "             |------------------------>|            {0,2} {" + repr(A) + ",the_message}",
            '             |                         #            {2,3} "We are here now"',
            "             |<------------------------|            {2,4} {ack,{received,the_message}}",
        ]
    )


def test_each_kind_of_row() -> None:
    queue = _native.process.pid_of_node("n0@far", 9 << 40 | 45, 50 << 2 | 2)
    events = [
        told("send", (0, 1), A, queue, "by a queue"),
        told("print", (0, 2), A, [], "between"),
        told("receive", (0, 1), A, B, "by a queue"),
        told("send", (1, 2), B, queue, "lost"),
        told("send", (1, 3), B, A, "not told of"),
        told("receive", (7, 8), "nobody", B, "found"),
        told("send", (8, 9), B, B, "to itself"),
        told("receive", (8, 9), B, B, "to itself"),
    ]
    drawn = chart(events, names=NAMES, width=90)
    rows = [line[:52].rstrip() for line in drawn.text().splitlines()[1:]]
    assert rows == [
        "             *                         |",
        "             #                         |",
        "             |------------------------>|",
        "             |                         |------->",
        "             |<------------------------|",
        "             |                         |<-------",
        "             |                         @",
    ]
    root = ElementTree.fromstring(drawn.svg())
    slanted = [
        line for line in root.iter(SVG + "line") if line.get("class") == "a" and line.get("y1") != line.get("y2")
    ]
    assert len(slanted) == 1  # from where it was sent, two rows above
    assert len(list(root.iter(SVG + "rect"))) == 1


def test_nodes_and_labels_are_named_where_there_are_several() -> None:
    outputs = [
        Output("n0@far", Anchor(0, 0), (told("send", (0, 1), B, C, label="x"), told("print", (0, 2), B, [], label=2))),
        Output("n1@far", Anchor(0, 0), (told("receive", (0, 1), B, C, label="x"),)),
    ]
    text = chart(outputs).text()
    assert text == chart(merge(*outputs)).text()
    nodes, names, *rows = text.splitlines()
    assert nodes.split() == ["n0@far", "n1@far"] and names.split() == [repr(B), repr(C)]
    assert [row.split()[-3:-1] for row in rows] == [['"x":', "{0,1}"], ["2:", "{0,2}"], ['"x":', "{0,1}"]]


def test_causes_stand_above_what_they_cause() -> None:
    sent, taken = told("send", (0, 1), A, B), told("receive", (0, 1), A, B)
    assert chart([taken, sent]).text() == chart([sent, taken]).text()


def test_a_chart_is_the_same_each_time() -> None:
    dice = random.Random(7)
    who = [pid(n) for n in range(9)]
    events = [told("print", (0, n), dice.choice(who), [], n) for n in range(50)]
    first = chart(events)
    assert first.text() == chart(list(events)).text() and first.svg() == chart(list(events)).svg()
    assert repr(first) == "<Chart of 50 rows, 9 processes>"


def test_a_drawing_s_style_is_its_own() -> None:
    root = ElementTree.fromstring(chart(EXAMPLE).svg())
    style = root.findtext(SVG + "style") or ""
    assert root.get("class") == "inviso-seq"
    assert all(rule.startswith(".inviso-seq ") for rule in style.split("}") if rule)
    assert not any(element.get("id") for element in root.iter())


def test_many_processes_and_events_fit() -> None:
    events = [told("print", (0, 1), pid(n), [], "x" * 10_000) for n in range(200)]
    drawn = chart(events, width=80, limit=150)
    lines = drawn.text().splitlines()
    assert max(map(len, lines)) <= 80 and "others" in lines[0] and lines[-1] == "(50 more)"
    root = ElementTree.fromstring(drawn.svg())
    assert int(root.get("width", "0")) < 10_000
    assert "(50 more)" in drawn.html() and len(drawn.svg()) < 400_000


HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["</svg><script>alert(1)</script>", "]]>", "<!--", "&lt;", "\x00", "\ud800", "\uffff", "\x1b[2J", "\u202e",
        "\u2028",
         "a\nb", "\r", '"', "'", "\U0001f600" * 50, "漢字" * 40, "e" + "\u0301" * 300]
    ),
    st.binary(max_size=20),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=3) | st.tuples(inner), max_leaves=10),
)  # fmt: skip


TAGS = st.sampled_from(["send", "receive", "print"])
SHAPES = {"svg", "style", "text", "title", "line", "rect", "circle", "polygon"}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(TAGS, HOSTILE, HOSTILE, st.integers(0, 3), st.integers(0, 3)), max_size=8),
    HOSTILE,
    st.integers(50, 130),
)
def test_hostile_data_breaks_no_drawing(events: list[Any], name: Any, width: int) -> None:
    made = []
    for n, (tag, label, content, a, b) in enumerate(events):
        sender = name if (a, n) == (3, 0) else pid(a)
        made.append(told(tag, (0, n), sender, pid(b, 1) if b else name, content, label))
    drawn = chart(made, names={pid(0): str(name), pid(1, 1): "<b>"}, width=width)
    for line in drawn.text().split("\n"):
        assert wide(line) <= width and line.isprintable()
    root = ElementTree.fromstring(drawn.svg().encode())
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= SHAPES
    ElementTree.fromstring(drawn.html())
    assert drawn._repr_svg_() == drawn.svg() and drawn._repr_html_() == drawn.html()
    for event in made:
        assert len(seq_trace.format(event).split("\n")) == 2


@given(st.text(max_size=30), st.integers(0, 20))
def test_a_clipped_text_has_its_columns(text: str, columns: int) -> None:
    assert wide(clipped(text, columns)) <= columns
    assert clipped(text, 200) == text


# -- bad input


def closed() -> io.StringIO:
    file = io.StringIO()
    file.close()
    return file


class ReadOnly(io.BytesIO):
    def writable(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("events", lambda: chart(5)),
        ("events", lambda: chart("text")),
        ("events", lambda: chart([5])),
        ("events", lambda: chart([EXAMPLE[0], Output("a@b", Anchor(0, 0))])),
        ("names", lambda: chart(EXAMPLE, names=["a"])),
        ("names", lambda: chart(EXAMPLE, names={A: 5})),
        ("names", lambda: chart(EXAMPLE, names={A: None})),
        ("names", lambda: chart(EXAMPLE, names={1: "a"})),
        ("width", lambda: chart(EXAMPLE, width=10)),
        ("width", lambda: chart(EXAMPLE, width=80.0)),
        ("limit", lambda: chart(EXAMPLE, limit=0)),
        ("event", lambda: seq_trace.format(5)),
        ("event", lambda: seq_trace.format(("seq_trace", 1, ("print", 1, A, [], "x")))),
        ("file", lambda: seq_trace.printer("file")),
        ("file", lambda: seq_trace.printer(io.BytesIO())),
        ("file", lambda: seq_trace.printer(closed())),
        ("file", lambda: seq_trace.printer(io.TextIOWrapper(ReadOnly()))),
    ],
)
def test_wrong_arguments(argument: str, call: Any) -> None:
    before = set(inviso.processes())
    with pytest.raises(inviso.BadArg) as refused:
        call()
    assert refused.value.argument == argument and "; pass" in refused.value.why
    assert before.issuperset(inviso.processes())  # messages of earlier tests may come meanwhile
