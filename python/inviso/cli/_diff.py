"""The command ``inviso tprof diff``: compares two profiles, with a table and an exit status."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inviso.errors import BadArg

from ._options import Options, Usage, number, refuse, say

if TYPE_CHECKING:
    from inviso.tprof import Diff

__all__ = ["HELP", "KNOWN", "OVER", "main"]

OVER = 1
"""The exit status if a figure has grown by more than ``--fail-over`` allows."""

HELP = """\
usage: inviso tprof diff [options] BEFORE.json AFTER.json

Compare two profiles that 'inviso tprof --json' wrote. Functions are compared
by name, even if their lines have moved.

options:
  --by FIGURE            the figure to compare: measurement (default: own time,
                         memory or calls, as it was measured), calls, or
                         cumulative (profiles with --tree)
  --fail-over PERCENT    exit with status 1 if a function, or the total, has
                         grown by more, or if a function is new
  --least PERCENT        for --fail-over, ignore growth of less than this part
                         of the total before (default: 0)
  --limit N              only the N largest changes
  --json FILE            write the changes as JSON too; - is standard output,
                         in place of the table
  -h, --help             show this text

The exit status is 2 if the profiles can't be compared. To measure a program
with the name diff, write ./diff.

examples:
  inviso tprof diff main.json branch.json
  inviso tprof diff --by calls --fail-over 0% main.json branch.json
  inviso tprof diff --fail-over 20% --least 1% main.json branch.json
"""

KNOWN = Options(short={}, with_value=("--by", "--fail-over", "--least", "--limit", "--json"))


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status."""
    try:
        options, files = KNOWN.split_files(words)
        if "--help" in options:
            return say(HELP)
        limit = number(options.get("--limit"), "--limit", "changes")
        over, least = _percent(options, "--fail-over"), _percent(options, "--least") or 0.0
        if len(files) != 2:
            raise Usage(f"two profiles are needed, and {len(files)} {'was' if len(files) == 1 else 'were'} given")
        from inviso import tprof

        by = tprof._check.one_of("tprof diff, --by", options.get("--by", "measurement"), tprof._diff.BYS)
        changes = tprof.diff(tprof.load(files[0]), tprof.load(files[1]), by=by)
    except Usage as wrong:
        return refuse(" tprof diff", wrong)
    except BadArg as wrong:
        return refuse(
            " tprof diff", wrong.why if wrong.argument in ("a", "b", "path") else f"{wrong.argument}: {wrong.why}"
        )
    except OSError as error:
        return refuse(" tprof diff", f"{error.filename}: {error.strerror}")
    path = options.get("--json")
    if path is not None:
        text = json.dumps(changes.to_dict(), indent=2) + "\n"
        if path == "-":
            say(text)
        else:
            try:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                return refuse(" tprof diff", f"{path}: {error.strerror}")
    if path != "-":
        say(changes.format(limit=limit))
    return 0 if over is None else _judged(changes, over, least)


def _judged(changes: Diff, over: float, least: float) -> int:
    grown, whole = changes.grown(over, least=least), changes.percent
    reasons = []
    if grown:
        reasons.append(f"{len(grown)} function{'s' * (len(grown) != 1)}, most of all {grown[0].label}")
    if changes.after > changes.before and (whole is None or whole > over):
        reasons.append("the total" if whole is None else f"the total by {whole:.2f}%")
    if reasons:
        print(f"inviso tprof diff: grown by more than {over:g}%: {'; '.join(reasons)}", file=sys.stderr)
    return OVER if reasons else 0


def _percent(options: dict[str, str], name: str) -> float | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise Usage(f"{name}: {text!r} is not a percentage; give a number from 0, such as 5%")
    return value
