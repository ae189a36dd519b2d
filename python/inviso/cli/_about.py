"""The command ``inviso about``: what the package uses in this interpreter, and what it costs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from inviso._about import about

from ._options import parsed, say

__all__ = ["main", "parser"]


def parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments.

    >>> parser().parse_args(["--json"]).json
    True
    """
    made = argparse.ArgumentParser(
        prog="inviso about",
        description="Show what the package uses of this interpreter and this machine, what is slower than elsewhere, "
        "and what to do about it.",
    )
    made.add_argument("--json", action="store_true", help="an object, as inviso.about() has it")
    return made


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status: 1 if no session can begin in this interpreter.

    >>> main([])  # doctest: +ELLIPSIS
    inviso ...
    0
    """
    given = parsed(parser(), words)
    if isinstance(given, int):
        return given
    found = about()
    say((json.dumps(asdict(found), indent=2) if given.json else str(found)) + "\n")
    return 0 if found.ready else 1
