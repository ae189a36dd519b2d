"""Writes the shell completions of the command ``inviso`` with shtab: run it after a change of the options.

    .venv/bin/python scripts/completions.py

Two forms of options are read: parsers of argparse, and ``inviso.cli._options.Options``, described in the help texts.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from typing import Any

import shtab
from inviso.cli import (
    _about,
    _agent,
    _attach,
    _case,
    _cluster,
    _completion,
    _config,
    _export,
    _log,
    _merge,
    _run,
    _top,
    _tprof,
    _trace,
)
from inviso.cli._options import Options

FOLDER = pathlib.Path(_completion.__file__).parent / "completion"
CHOICES = {
    ("tprof", "--type"): ["call_count", "call_time", "call_memory"],
    ("tprof", "--sort"): ["measurement", "measurement_per_call", "calls", "cumulative", "function", "module"],
    ("merge", "--to"): ["erlang", "blocks", "text", "inviso"],
    ("print", "--color"): ["auto", "always", "never"],
    ("merge", "--color"): ["auto", "always", "never"],
}
WITH_FILE = {"--output", "--json", "--log-dir"}
SHELLS = ("bash", "zsh")


def described(text: str) -> dict[str, str]:
    """The options of a help text, each with the first line of its description.

    >>> described("options:\\n  -n, --limit N          at most N lines\\n")
    {'--limit': 'at most N lines'}
    """
    return dict(re.findall(r"^  (?:-\w, )?(--?[\w-]+)(?: [A-Z.]+)* {2,}(.*)$", text, re.MULTILINE))


def add(parser: argparse.ArgumentParser, name: str, options: Options, text: str, *, is_program: bool) -> None:
    """Adds a command's options to a parser. The parser is read for completion only, and never parses."""
    about, short = described(text), {full: letter for letter, full in options.short.items() if letter != full}
    for full in (*options.with_value, *options.several, *options.without_value):
        names = [short[full], full] if full in short else [full]
        action: Any = parser.add_argument(*names, help=about.get(full, "").replace("%", "%%"), **(
            {"action": "store_true"} if full in options.without_value else {"choices": CHOICES.get((name, full))}
        ))  # fmt: skip
        if full in WITH_FILE and full not in options.without_value:
            action.complete = shtab.FILE
    words: Any = parser.add_argument("script" if is_program else "log", nargs="*")
    words.complete = shtab.FILE


def parts(parser: argparse.ArgumentParser) -> tuple[Any, dict[str, str | None]]:
    """The commands of a parser, and the description of each."""
    (found,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return found, {each.dest: each.help for each in found._choices_actions}


def whole() -> argparse.ArgumentParser:
    """A parser of all commands."""
    top = argparse.ArgumentParser(prog="inviso", description="Exact tracing and profiling of Python programs")
    top.add_argument("--version", action="store_true", help="show the version")
    commands = top.add_subparsers(dest="command")

    def options(name: str, about: str, known: Options, text: str, *, is_program: bool) -> None:
        add(commands.add_parser(name, help=about), name, known, text, is_program=is_program)

    options("tprof", "run a program and count its calls", _tprof.TPROF, _tprof.HELP, is_program=True)
    options("trace", "run a program and show calls", _trace.TRACE, _trace.HELP, is_program=True)
    options("run", "run a program that can be traced from outside", _run.RUN, _run.HELP, is_program=True)
    options("merge", "put the logs of several nodes together", _merge.KNOWN, _merge.HELP, is_program=False)
    options("export", "write logs for other tools", _export.KNOWN, _export.HELP, is_program=False)
    log = commands.add_parser("log", help="print, convert, merge and count trace logs").add_subparsers(dest="part")
    for name, (_, text, known) in _log.COMMANDS.items():
        about = next(line for line in text.splitlines() if line and not line.startswith(("usage:", " ")))
        add(log.add_parser(name, help=about), name, known, text, is_program=False)
    nodes, abouts = parts(_cluster.parser())
    cases, about_cases = parts(_case.parser())
    case = commands.add_parser("case", help="switch trace cases on and off").add_subparsers(dest="part")
    for name, parser in cases.choices.items():
        case.add_parser(name, help=about_cases[name], parents=[parser], add_help=False)
    modules = {
        "about": _about,
        "agent": _agent,
        "attach": _attach,
        "completion": _completion,
        "config": _config,
        "top": _top,
    }
    own = [*nodes.choices.items(), *((name, module.parser()) for name, module in modules.items())]
    for name, parser in own:
        commands.add_parser(name, help=abouts.get(name) or parser.description, parents=[parser], add_help=False)
    return top


def written() -> dict[pathlib.Path, str]:
    """The files and their contents."""
    return {FOLDER / shell: shtab.complete(whole(), shell=shell).rstrip("\n") + "\n" for shell in SHELLS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text)
        print(path.relative_to(pathlib.Path.cwd()) if path.is_relative_to(pathlib.Path.cwd()) else path)
    sys.exit(0)
