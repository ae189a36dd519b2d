"""Each part of each request's arguments is replaced by each kind of term: the answer is never a failure of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frame_check import CALLS
from inviso import etf
from inviso.runtime._host import Host
from inviso.runtime._resolver import Remote
from inviso.terms import Atom, BitString, ImproperList, Map

TERMS: list[Any] = [
    *(7, -1, 10**40, 1.5, None, True, "", "_", "re", "x" * 5000, "\udc80", "a\0b", Atom("a"), b"x", b""),
    *((), (1,), ("a", "b"), ("a", "b", "_", True), ("file", "x"), ("file", ()), ("re", "("), ("re", "(", "x")),
    *([], [1], ["x"], [[]], [()], [("a", "b")], [("all", ["call"])], [("_", [], [("x",)])]),
    *({}, {"x": 1}, {1: 2}, {"ms": 1}, Map([([1], 2)]), BitString(b"\x80", 1)),
    *(ImproperList([1], 2), ImproperList(["a", "b"], "c")),
]
LOG = [(Atom("trace"), (Atom("file"), "log")), (Atom("ti"), (Atom("file"), "ti"))]


class Control:
    node, pid = "control@here", 1

    def publish(self, event: Any) -> None:
        etf.dumps(event)


def variants(term: Any) -> Iterator[Any]:
    """The term with each of its parts replaced, and left out."""
    if isinstance(term, (list, tuple)):
        for at, part in enumerate(term):
            for other in [*TERMS, *variants(part)]:
                yield type(term)([*term[:at], other, *term[at + 1 :]])
            yield type(term)([*term[:at], *term[at + 1 :]])
        yield type(term)([*term, *term])
    elif isinstance(term, dict):
        for name, part in term.items():
            yield from ({**term, name: other} for other in [*TERMS, *variants(part)])
            yield from ({Atom("other"): part}, {7: part}, Map([([1], part)]))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.chdir(tmp_path)
    made = Host(Remote(str(tmp_path), ("textwrap",)))
    yield made
    made.end()


def sent(host: Host, name: str, arguments: list[Any]) -> None:
    """Sends a request to a component that exists. Its answer is a term and no failure."""
    if name != "add":
        host.request(CONTROL, "add", ("tag", {}, False))
    given = etf.loads(etf.dumps(arguments))
    answer = host.request(CONTROL, name, tuple(given))
    assert "crashed" not in repr(answer), (name, given, answer)
    etf.dumps(answer)
    if name == "add":
        host.end()


CONTROL = Control()
NAMES = list(dict.fromkeys(name for name, _ in CALLS if name not in ("about", "detach")))
STEP = 23
"""With a log each request takes milliseconds, so one variant of so many is sent."""


@pytest.mark.parametrize("name", NAMES)
def test_no_term_in_a_request_is_a_failure_of_ours(host: Host, name: str) -> None:
    for arguments in (arguments for each, arguments in CALLS if each == name):
        for variant in variants(arguments):
            sent(host, name, variant)
        sent(host, name, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_nor_while_there_are_a_log_and_a_meta_tracer(host: Host, name: str, request: pytest.FixtureRequest) -> None:
    step = 1 if request.config.getoption("--slow") else STEP
    for arguments in (arguments for each, arguments in CALLS if each == name):
        for variant in [*list(variants(arguments))[::step], arguments]:
            host.request(CONTROL, "add", ("tag", {}, False))
            host.request(CONTROL, "cancel_suspension", ())
            host.request(CONTROL, "init_tracing", (LOG,))
            assert name == "add" or host.request(CONTROL, "get_status", ()) == ("ok", ("tracing", "running"))
            sent(host, name, variant)


WRONG: dict[str, tuple[str, list[Any], str]] = {
    "no list of patterns": ("tpl", [7], "tp, patterns: 7 is not a list; pass one"),
    "an improper list": ("ctpl", [ImproperList([1], 2)], "ctp, patterns: ImproperList([1], 2) is not a list; pass one"),
    "no pattern": ("ctp", [[7]], "ctp, patterns: 7 is not a pattern; pass (module, function, arity)"),
    "no pair": ("ctf", [[("all",)]], "ctf, confs: ('all',) is not a process and a list of flags; pass such pairs"),
    "too few": ("tf", [], "tf, arguments: there are 0; pass 1"),
    "too many": ("clear", [[], [], []], "clear, arguments: there are 3; pass 0, 1"),
    "options": ("clear", [7], "clear, options: 7 is not a list; pass one"),
    "functions": ("count", ["call_count", [7]], "count, mfas: 7 is not a pattern"),
    "settings": ("change_options", [], "change_options, arguments: there are 0; pass 1"),
}


@pytest.mark.parametrize(("name", "arguments", "why"), WRONG.values(), ids=WRONG)
def test_the_error_names_the_argument(host: Host, name: str, arguments: list[Any], why: str) -> None:
    host.request(CONTROL, "add", ("tag", {}, False))
    host.request(CONTROL, "init_tracing", (LOG,))
    host.request(CONTROL, "count", ("call_count", [("textwrap", "_", "_")]))
    error, (kind, text) = host.request(CONTROL, name, tuple(arguments))
    assert (error, kind, text[: len(why)]) == ("error", "badarg", why)
    # and nothing has changed
    assert host.request(CONTROL, "get_status", ()) == ("ok", ("tracing", "running"))
    assert host.request(CONTROL, "counts", ())[0] == "ok"


def test_a_name_that_is_not_opened_makes_no_folder(host: Host, tmp_path: Path) -> None:
    for name, spec in (("delete_log", ["a/x"]), ("log_paths", ("file", "b/x")), ("list_logs", ("file", "c/x"))):
        sent(host, name, [spec])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host.request(CONTROL, "add", ("tag", {}, False))
    given = ("file", "file/a.log")
    assert host.request(CONTROL, "init_tracing", (given,)) == ("error", ("trace_port_args", [given, "File exists"]))
    answer = host.request(CONTROL, "init_tracing", ([("ti", ("file", "file/a.ti"))],))
    assert answer == ("ok", [("ti_log", ("error", ("open", [str(tmp_path / "file/a.ti"), "eexist"])))])
