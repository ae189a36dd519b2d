"""The command line: ``inviso tprof [options] script.py args…`` and others, also as ``python -m inviso …``.

Options end at the script's name, or at ``-m module``; everything after it belongs to the program. The program runs as
the interpreter would run it (``_run``); its profile is written when everything else of it has ended (``_report``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._run import Program, run

if TYPE_CHECKING:
    from ._report import Request

__all__ = ["main"]

HELP = """\
usage: inviso COMMAND ...
       python -m inviso COMMAND ...

Exact tracing and profiling of Python programs.

commands:
  tprof        run a program and show how often each function was called,
               how much time or memory of its own it took, in which process
  log          print, convert, merge and count trace logs

options:
  -h, --help   show this text; 'inviso tprof --help' has the command's own
  --version    show the version
"""

TPROF_HELP = """\
usage: inviso tprof [options] SCRIPT [ARG ...]
       inviso tprof [options] -m MODULE [ARG ...]

Run a program and show what each of its functions did. Every call is counted.

options:
  -t, --type TYPE        what to measure: call_count (default), call_time
                         (own time) or call_memory (own allocations, in words
                         of 8 bytes)
  -p, --pattern PATTERN  only these functions: MODULE, MODULE:FUNCTION or
                         MODULE:FUNCTION:ARITY, with _ for any; may be given
                         several times (default: every function)
  --per-process          one table for each thread and task
  --sort ORDER           measurement (default), measurement_per_call, calls,
                         function or module; the largest stand at the end
  --limit N              only the N rows with the largest measurements
  --json FILE            write the profile as JSON too; - is standard output
  -o, --output FILE      write the table to FILE, not to standard error
  -m MODULE              run a module, as python -m does
  -h, --help             show this text

Everything after SCRIPT or MODULE belongs to the program. Its exit status is
the command's. Ctrl-C ends the program, and what was measured is shown.

examples:
  inviso tprof job.py --fast
  inviso tprof -t call_time -p 'json.decoder:_:_' job.py
  inviso tprof -t call_memory --per-process --json job.json -m package.job
"""

USAGE_STATUS = 2
OPTIONS = {"-t": "--type", "-p": "--pattern", "-o": "--output", "-h": "--help", "-m": "-m"}
WITH_VALUE = ("--type", "--pattern", "--sort", "--limit", "--json", "--output", "-m")
WITHOUT_VALUE = ("--per-process", "--help")


class Usage(Exception):
    """A command line that can't be carried out; the text says why."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The options of ``tprof`` as they were written; ``program`` is None where only help was asked for."""

    options: dict[str, str]
    patterns: list[str]
    program: Program | None


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line (default: this process's own) and return the exit status.

    ``tprof`` turns the process into the program that it runs: what that raises, ``SystemExit`` too, goes through, and
    the profile is written when the interpreter ends.

    >>> from inviso.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    inviso ...
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    match words:
        case ["-h" | "--help" | "help", *_]:
            return _say(HELP)
        case ["--version", *_]:
            return _say(_version())
        case ["tprof", *rest]:
            return _tprof(rest)
        case ["log", *rest]:
            from ._log_cli import main as log

            return log(rest)
        case []:
            return _refuse("", "no command was given")
        case [word, *_]:
            kind = "option" if word.startswith("-") else "command"
            mend = "; did you mean 'inviso tprof'?" if _looks_like_a_program(word) else ""
            return _refuse("", f"unknown {kind} {word!r}{mend}")
    raise AssertionError(words)


def _tprof(words: list[str]) -> int:
    try:
        parsed = _parse(words)
        if parsed.program is None:
            return _say(TPROF_HELP)
        request = _request(parsed, parsed.program)
    except Usage as wrong:
        return _refuse(" tprof", str(wrong))
    from ._report import CannotBegin, Measurement

    measurement = Measurement(request)
    try:
        measurement.prepare()
        return run(parsed.program, begin=measurement.begin, cancel=measurement.cancel)
    except CannotBegin as wrong:
        return _refuse(" tprof", str(wrong))


def _parse(words: list[str]) -> Parsed:
    """Split the options from the program. ``--name=value`` and ``-nvalue`` are one word."""
    options: dict[str, str] = {}
    patterns: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return Parsed(options, patterns, _program(list(rest), False))
        if not word.startswith("-") or word == "-":
            return Parsed(options, patterns, _program([word, *rest], False))
        name, value = _split(word)
        if name == "--help":
            return Parsed(options, patterns, None)
        if name in WITH_VALUE and value is None:
            value = next(rest, None)
            if value is None:
                raise Usage(f"option {word} needs a value")
        if name == "-m":
            return Parsed(options, patterns, _program([value or "", *rest], True))
        if name == "--pattern":
            patterns.append(value or "")
        else:
            options[name] = value or ""
    raise Usage("no program was given; name a script, or a module with -m")


def _split(word: str) -> tuple[str, str | None]:
    """An option's full name, and the value that is written in the same word."""
    if word.startswith("--"):
        name, equals, text = word.partition("=")
        value = text if equals else None
    else:
        name, value = OPTIONS.get(word[:2], word), word[2:] or None
    if name not in WITH_VALUE + WITHOUT_VALUE:
        raise Usage(f"unknown option {word!r}")
    if name in WITHOUT_VALUE and value is not None:
        raise Usage(f"option {name} takes no value")
    return name, value


def _program(words: list[str], is_module: bool) -> Program:
    if not words or not words[0]:
        raise Usage("no program was given; name a script, or a module with -m")
    return Program(words[0], tuple(words[1:]), is_module)


def _request(parsed: Parsed, program: Program) -> Request:
    from ._report import Request
    from .errors import BadArg
    from .tprof._check import one_of
    from .tprof._model import CALL_TYPES, SORTS
    from .tprof._pattern import parse

    options = parsed.options
    limit = options.get("--limit")
    if limit is not None and not (limit.isdecimal() and int(limit) > 0):
        raise Usage(f"--limit: {limit!r} is not a number of rows; give a number from 1")
    try:
        return Request(
            type=one_of("tprof, --type", options.get("--type", CALL_TYPES[0]), CALL_TYPES),
            patterns=[p for text in parsed.patterns or ["_"] for p in parse(text, "tprof, --pattern")],
            per_process="--per-process" in options,
            sort=one_of("tprof, --sort", options.get("--sort", SORTS[0]), SORTS),
            limit=None if limit is None else int(limit),
            json=_absolute(options.get("--json"), "--json", dash=True),
            output=_absolute(options.get("--output"), "--output", dash=False),
            title=f"-m {program.name}" if program.is_module else os.path.basename(program.name) or program.name,
        )
    except BadArg as wrong:
        raise Usage(f"{wrong.argument}: {wrong.why}") from None


def _absolute(path: str | None, option: str, *, dash: bool) -> str | None:
    """The file's full path: the program may go to another directory."""
    if path is None or (dash and path == "-"):
        return path
    if not path:
        raise Usage(f"{option}: the file has no name")
    return os.path.abspath(path)


def _version() -> str:
    import platform
    from importlib import metadata

    try:
        version = metadata.version("inviso")
    except metadata.PackageNotFoundError:
        version = "(not installed)"
    return f"inviso {version} ({platform.python_implementation()} {platform.python_version()})\n"


def _looks_like_a_program(word: str) -> bool:
    return word in ("-m", "-t", "-p") or word.endswith(".py") or os.path.exists(word)


def _say(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _refuse(command: str, why: Any) -> int:
    print(f"inviso{command}: {why}\nSee 'inviso{command} --help'.", file=sys.stderr)
    return USAGE_STATUS
