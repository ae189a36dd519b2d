"""The command line: ``inviso tprof|trace [options] script.py args…`` and others, also as ``python -m inviso …``.

Options end at the script's name, or at ``-m module``; everything after it belongs to the program. The program runs as
the interpreter would run it (``_runner``); a profile is written when everything else of it has ended (``_report``).
Each command is a module that is imported when it is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._command import carry_out
from ._options import Given, Options, Usage, absolute, number, refuse, say

if TYPE_CHECKING:
    from ._report import Measurement
    from ._runner import Program

__all__ = ["main"]

HELP = """\
usage: inviso COMMAND ...
       python -m inviso COMMAND ...

Exact tracing and profiling of Python programs.

commands:
  tprof        run a program and show how often each function was called,
               how much time or memory of its own it took, in which process
  trace        run a program and show the calls of some of its functions
  run          run a program that can be traced from outside
  nodes        list the processes that can be traced from outside
  status       show their state, and what they have traced
  start, stop  trace them together; fetch copies their logs;
               tp and tf change what is traced meanwhile
  top          show what they do at the moment
  case         switch trace cases on and off in processes that are traced
  log          print, convert, merge and count trace logs
  merge        put the logs of several nodes together
  export       write logs for Perfetto, flame graphs, tables, OpenTelemetry
  attach       have a running process traced from outside
  agent        join the processes of this host with those of other hosts
  config       show the settings that are in force, and where each is from
  completion   write what a shell completes of this command

options:
  -h, --help   show this text; 'inviso tprof --help' has the command's own
  --version    show the version
"""

TPROF_HELP = """\
usage: inviso tprof [options] SCRIPT [ARG ...]
       inviso tprof [options] -m MODULE [ARG ...]
       inviso tprof diff BEFORE.json AFTER.json

Run a program and show what each of its functions did. Every call is counted.

options:
  -t, --type TYPE        what to measure: call_count (default), call_time
                         (own time) or call_memory (own allocations, in
                         bytes)
  -p, --pattern PATTERN  only these functions: MODULE, MODULE:FUNCTION or
                         MODULE:FUNCTION:ARITY, with _ for any, PACKAGE.** for
                         all modules of a package; may be given several times
                         (default: every function)
  --tree                 measure who called whom, too: inclusive time (or
                         memory), time that coroutines waited, and below the
                         table the tree; not with call_count
  --no-children          measure this process only, not those that it starts
  --per-process          one table for each thread and task
  --sort ORDER           measurement (default), measurement_per_call, calls,
                         cumulative (with --tree), function or module; the
                         largest stand at the end
  --limit N              only the N rows with the largest measurements
  --json FILE            write the profile as JSON too; - is standard output
  -o, --output FILE      write the table to FILE, not to standard error
  -m MODULE              run a module, as python -m does
  -h, --help             show this text

Everything after SCRIPT or MODULE belongs to the program. Its exit status is
the command's. Ctrl-C ends the program, and what was measured is shown. The
type, the patterns, the limit and whether children are measured are settings,
too: 'inviso config' shows them.

examples:
  inviso tprof job.py --fast
  inviso tprof -t call_time -p 'json.decoder:_:_' job.py
  inviso tprof -t call_memory --per-process --json job.json -m package.job
  inviso tprof -t call_time --tree --sort cumulative job.py
"""

TPROF = Options(
    short={"-m": "-m", "-t": "--type", "-p": "--pattern", "-o": "--output"},
    with_value=("-m", "--type", "--sort", "--limit", "--json", "--output"),
    without_value=("--tree", "--no-children", "--per-process"),
    several=("--pattern",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line (default: this process's own) and return the exit status.

    ``tprof`` and ``trace`` turn the process into the program that they run: what that raises, ``SystemExit`` too, goes
    through, and a profile is written when the interpreter ends.

    >>> from inviso.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    inviso ...
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    match words:
        case ["-h" | "--help" | "help", *_]:
            return say(HELP)
        case ["--version", *_]:
            return say(_version())
        case ["tprof", "diff", *rest]:
            from . import _diff

            return _diff.main(rest)
        case ["tprof", *rest]:
            return carry_out("tprof", TPROF, TPROF_HELP, rest, _measurement)
        case ["trace", *rest]:
            from . import _trace

            return _trace.main(rest)
        case ["nodes" | "status" | "start" | "stop" | "fetch" | "tp" | "tf", *_]:
            from . import _cluster

            return _cluster.main(words)
        case ["top", *rest]:
            from . import _top

            return _top.main(rest)
        case ["case", *rest]:
            from . import _case

            return _case.main(rest)
        case ["run", *rest]:
            from . import _run

            return _run.main(rest)
        case ["agent", *rest]:
            from . import _agent

            return _agent.main(rest)
        case ["attach", *rest]:
            from . import _attach

            return _attach.main(rest)
        case ["config", *rest]:
            from . import _config

            return _config.main(rest)
        case ["completion", *rest]:
            from . import _completion

            return _completion.main(rest)
        case ["log", *rest]:
            from . import _log

            return _log.main(rest)
        case ["export", *rest]:
            from . import _export

            return _export.main(rest)
        case ["merge", *rest]:
            from . import _merge

            return _merge.main(rest)
        case []:
            return refuse("", "no command was given")
        case [word, *_]:
            kind = "option" if word.startswith("-") else "command"
            mend = "; did you mean 'inviso tprof'?" if _looks_like_a_program(word) else ""
            return refuse("", f"unknown {kind} {word!r}{mend}")
    raise AssertionError(words)


def _measurement(given: Given, program: Program) -> Measurement:
    from inviso._config import effective
    from inviso._pattern import parse
    from inviso.tprof._check import check_tree, one_of
    from inviso.tprof._model import CALL_TYPES, SORTS

    from ._report import Measurement, Request

    options, settings = given.options, effective()
    limit = number(options.get("--limit"), "--limit", "rows")
    patterns = given.lists["--pattern"] or settings["patterns"].value or ["_"]
    follow = settings["follow"]
    kind = one_of("tprof, --type", options.get("--type", settings["type"].value), CALL_TYPES)
    sort = one_of("tprof, --sort", options.get("--sort", SORTS[0]), SORTS)
    tree = "--tree" in options
    check_tree("tprof, --tree", tree, kind)
    if sort == "cumulative" and not tree:
        raise Usage("--sort: cumulative needs --tree")
    return Measurement(
        Request(
            type=kind,
            tree=tree,
            patterns=[p for text in patterns for p in parse(text, "tprof, --pattern")],
            per_process="--per-process" in options,
            sort=sort,
            limit=limit or settings["limit"].value,
            json=absolute(options.get("--json"), "--json", dash=True),
            output=absolute(options.get("--output"), "--output", dash=False),
            children="--no-children" not in options and (follow.value or follow.source == "default"),
            title=program.title(),
            beside=program.place(),
        )
    )


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
