"""The command line: ``inviso tprof|trace [options] script.py args…`` and others, also as ``python -m inviso …``.

Options end at the script's name, or at ``-m module``; all later words belong to the program. The program runs as in the
interpreter (``_runner``). A profile is written after everything else of the program has ended (``_report``). Each
command is a module that is imported at its call.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ._options import refuse, say

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
               tp and tf change patterns and flags meanwhile
  top          show their present activity
  case         switch trace cases on and off in processes that are traced
  log          print, convert and merge trace logs, and count messages
  merge        merge the logs of several nodes
  export       write logs for Perfetto, flame graphs, tables, OpenTelemetry
  attach       make a running process traceable from outside
  agent        connect the processes of this host with those of other hosts
  about        show what the package uses here, and what it costs
  config       show the settings and the source of each
  completion   write the completions of this command for a shell

options:
  -h, --help   show this text; 'inviso tprof --help' has the command's own
  --version    show the version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Carries out a command line (default: this process's own), and returns the exit status.

    ``tprof`` and ``trace`` run the program in this process: its exceptions, also ``SystemExit``, reach the caller, and
    a profile is written at the interpreter's end.

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
            from . import _tprof

            return _tprof.main(rest)
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
        case ["about", *rest]:
            from . import _about

            return _about.main(rest)
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
