"""``inviso tprof``: runs a program and shows calls, time and memory of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._command import carry_out
from ._options import Given, Options, Usage, absolute, number

if TYPE_CHECKING:
    from ._report import Measurement
    from ._runner import Program

__all__ = ["HELP", "TPROF", "main"]

HELP = """\
usage: inviso tprof [options] SCRIPT [ARG ...]
       inviso tprof [options] -m MODULE [ARG ...]
       inviso tprof diff BEFORE.json AFTER.json

Run a program and show calls, time or memory of each of its functions. Every
call is counted.

options:
  -t, --type TYPE        the measurement: call_count (default), call_time
                         (own time) or call_memory (own allocations, in
                         bytes)
  -p, --pattern PATTERN  only these functions: MODULE, MODULE:FUNCTION or
                         MODULE:FUNCTION:ARITY, with _ for any, PACKAGE.** for
                         all modules of a package; may be given several times
                         (default: every function)
  --tree                 measure the call tree, too: inclusive time (or
                         memory), the time that coroutines waited, and the tree
                         below the table; not with call_count
  --no-children          measure this process only, not those that it starts
  --per-process          one table for each thread and task
  --sort ORDER           measurement (default), measurement_per_call, calls,
                         cumulative (with --tree), function or module; the
                         largest are at the end
  --limit N              only the N rows with the largest measurements
  --json FILE            write the profile as JSON too; - is standard output
  -o, --output FILE      write the table to FILE, not to standard error
  -m MODULE              run a module, as python -m does
  -h, --help             show this text

Everything after SCRIPT or MODULE belongs to the program. Its exit status is
the command's. Ctrl-C ends the program, and the profile so far is shown. The
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


def main(words: list[str]) -> int:
    """Carries out ``inviso tprof …``. Returns the exit status."""
    return carry_out("tprof", TPROF, HELP, words, _measurement)


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
