"""Every example in the docstrings, the README and the docs runs."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
import io
import json
import pathlib
import re
import subprocess
import sys
import threading
import types

import inviso
import pytest

ROOT = pathlib.Path(__file__).parents[2]
GLOBALS = {"inviso": inviso, "json": json, "asyncio": asyncio, "threading": threading, "io": io}
SEQ = ["inviso.seq_trace", *(f"inviso.seq._{part}" for part in ("tokens", "nodes", "merge", "chart", "text", "label"))]
GUESTS = ["wsgi", "asgi", "httpx", "requests", "opentelemetry", *(["aiohttp"] if sys.version_info < (3, 15) else [])]
DBG = [
    "_limits",
    "_literal",
    "cli._options",
    "_pattern",
    "dbg",
    *(f"dbg._{part}" for part in ("items", "lines", "saved")),
]
NEED_A_LOG = {"stop_trace_client", "trace_client", "trace_port"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def of(page: pathlib.Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", as_here(page.read_text()), re.DOTALL)


def as_here(text: str) -> str:
    """The page's output of `json.loads`, which has one parameter more from 3.15 on."""
    if sys.version_info >= (3, 15):
        text = text.replace('"json", "loads", 8', '"json", "loads", 9').replace("json:loads/8", "json:loads/9")
        text = text.replace("'json', 'loads', 8", "'json', 'loads', 9").replace(
            f"{',None' * 6},{{}})", f"{',None' * 7},{{}})"
        )
    return text


def names(pages: list[pathlib.Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


MODULES = [
    *("errors", "terms", "match_spec", "process", "trace", "tracer", "tracing", "trace_ports"),
    *("tprof", "cli", "etf", "export", "log", "meta", "autostart", "case"),
    *("ttb", "ttb._config", "ttb._format", "ttb._run"),
    *("logs._read", "logs._client", "logs._files", "logs._stats", "logs._text", "cli._log"),
    *("merge", "merge._files", "merge._text", "cli._merge"),
    *("runtime", "control", "cluster", "cli._cluster"),
    *(f"tool._{part}" for part in ("base", "cases", "config", "generators", "history", "jobs", "nodes")),
    *(f"tool._{part}" for part in ("return", "running", "saved", "sessions", "tool")),
    *DBG,
    *(f"propagate.{guest}" for guest in GUESTS),
    *("integrations._listening", "integrations.gunicorn", "integrations.uvicorn"),
    *("_table", "seq._table"),
    *(
        "_attach",
        "cli._attach",
        "_config",
        "cli._config",
        "_pytest._settings",
        "_pytest._recorder",
        "_pytest._measured",
        "_pytest._limits",
        "runtime._initiator",
        "runtime._local",
    ),
    *(f"autostart._{part}" for part in ("file", "library", "names", "standard", "start")),
    *("case._parse", "case._translate", "_children._interpreter"),
    *("picture", *(f"picture._{part}" for part in ("page", "text", "svg", "histogram"))),
    *("export._files", "export._table", "cli._export", "_program", "_traceparent"),
]


class Finder(doctest.DocTestFinder):
    """Also finds examples in methods of a class that a package exports from one of its modules."""

    def _from_module(self, module: types.ModuleType, object: object) -> bool:
        written = getattr(object, "__module__", None) or ""
        is_own = super()._from_module(module, object)  # type: ignore[misc]
        return is_own or (
            inspect.isfunction(object) and "." in object.__qualname__ and written.startswith(f"{module.__name__}._")
        )


@pytest.mark.parametrize("name", ["inviso", *(f"inviso.{module}" for module in MODULES), *SEQ])
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in Finder().find(module, extraglobs=dict(GLOBALS)):
        for example in test.examples:
            example.want = as_here(example.want)
        runner.run(test)
    result = runner.summarize()
    assert result.attempted > 0
    assert result.failed == 0


WITH_EXAMPLES = [
    *("trace", "tracer", "tracing", "trace_ports", "match_spec", "process", "terms", "errors", "seq_trace"),
    *("etf", "log", "merge", "dbg", "meta", "ttb", "autostart", "case", "runtime", "control", "cluster", "tool"),
    *("integrations.gunicorn", "integrations.uvicorn", "picture"),
]
BARE = {
    *("Pid", "Delivered", "Dump", "PortGenerator", "Chart", "FLAGS", "HEADER", "LIMIT", "VARIABLE", "DEPTH", "SIZE"),
    *("Reader", "Stats", "Written"),
}
BARE_OF_DBG = {*NEED_A_LOG, "LINE", "LOST", "session_destroy"}


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_public_functions_have_an_example(module: str) -> None:
    found = importlib.import_module(f"inviso.{module}")
    bare = {name for name in found.__all__ if ">>>" not in (getattr(found, name).__doc__ or "")}
    assert bare <= (BARE | BARE_OF_DBG if module == "dbg" else BARE)


@pytest.mark.parametrize("page", names([page for page in PAGES if of(page, "python")]))
def test_pages(page: str, tmp_path: pathlib.Path) -> None:
    text = "\n".join(of(ROOT / page, "python"))
    for extra in re.findall(r"^import (duckdb|pandas|polars|pyarrow)\b", text, re.MULTILINE):
        pytest.importorskip(extra)  # not every interpreter has these packages
    program = tmp_path / "page.py"
    program.write_text(text)
    words = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["docs/dbg.md", "docs/from-erlang.md"])
def test_pages_show_what_is_printed(page: str, tmp_path: pathlib.Path) -> None:
    """The program prints the lines that stand as comments on the page, and no others. Lines of two processes may change
    places.
    """

    def settled(line: str) -> str:
        line = re.sub(r"<0\.\d+\.\d+>", "<pid>", line)
        line = re.sub(r"0x([0-9a-f]+|…)", "0x", line)
        return re.sub(r"Timestamp: \(.*?\)\)|\('[^']*', [\d…]+\)\)\)$", "…", line)

    text = "\n".join(of(ROOT / page, "python"))
    program = tmp_path / "page.py"
    program.write_text(text)
    words = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^# ((?:\(<0|\*\*\*|SeqTrace).*)", text, re.MULTILINE)
    assert len(shown) > 4
    assert sorted(map(settled, done.stdout.splitlines())) == sorted(map(settled, shown))


COMMANDS = [
    (page, command)
    for page in PAGES
    for command in ("tprof", "tprof diff", "trace")
    if f"inviso {command} " in "".join(of(page, "console"))
]


@pytest.mark.parametrize(("page", "command"), [(*names([page]), command) for page, command in COMMANDS])
def test_options_on_pages_exist(page: str, command: str) -> None:
    words = [sys.executable, "-m", "inviso", *command.split(), "--help"]
    text = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
    known = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", text))
    lines = [
        line for line in "".join(of(ROOT / page, "console")).splitlines() if line.startswith(f"$ inviso {command} ")
    ]
    if command == "tprof":
        lines = [line for line in lines if not line.startswith("$ inviso tprof diff ")]
    assert lines
    for line in lines:
        assert set(re.findall(r" (--?[a-z][a-z-]*)", line.partition("#")[0])) <= known, line


def test_pages_name_only_what_exists() -> None:
    targets = (ROOT / "Makefile").read_text()
    for page in PAGES:
        text = page.read_text()
        for path in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / path).exists(), f"{page.name}: {path}"
        for target in re.findall(r"^\$ make ([a-z-]+)|`make ([a-z-]+)", text, re.MULTILINE):
            assert re.search(rf"^{''.join(target)}:", targets, re.MULTILINE), f"{page.name}: {target}"


def test_every_page_can_be_found_from_the_readme() -> None:
    front = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in front, page.name


PARTS = {"inviso.logs", "inviso.seq"}
"""The parts of ``inviso.log`` and ``inviso.seq_trace``; they have no names for users."""


def test_the_api_reference_has_every_public_module() -> None:
    listed = set(re.findall(r"^   (inviso[\w.]*)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    package = ROOT / "python" / "inviso"
    files = [path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")]
    files = [path.parent if path.name == "__init__" else path for path in files]
    public = {".".join(path.parts) for path in files if not any(part.startswith("_") for part in path.parts)}
    assert listed == public - PARTS


def test_headings_that_pages_link_to_exist() -> None:
    for page in PAGES:
        for path, heading in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", page.read_text()):
            headings = re.findall(r"^#+ (.+)$", (page.parent / path if path else page).read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
            assert heading in slugs, f"{page.name}: {path}#{heading}"


def test_decisions_say_why() -> None:
    listed = (ROOT / "docs" / "decisions.md").read_text()
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        assert f"(decisions/{page.name})" in listed, f"docs/decisions.md: {page.name}"
        for heading in ("Context", "Decision", "Rejected", "Consequences"):
            assert f"**{heading}.**" in text, f"{page.name}: {heading}"
