"""The command ``inviso config``: the settings in this folder, with the source of each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from inviso._config import Setting, effective
from inviso.errors import BadArg

from ._options import parsed, refuse, say

__all__ = ["main", "parser", "table"]


def parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments.

    >>> parser().parse_args(["--json"]).json
    True
    """
    made = argparse.ArgumentParser(
        prog="inviso config",
        description="Show the settings in this folder and the source of each. A command's option has precedence, then "
        "an environment variable, then [tool.inviso] of the nearest pyproject.toml (or of the file that INVISO_CONFIG "
        "names).",
    )
    made.add_argument("--json", action="store_true", help="an object of settings, each with value and source")
    return made


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status: 2 if the file or a variable is wrong.

    >>> main(["--json"])  # doctest: +ELLIPSIS
    {
      "patterns": {
    ...
    0
    """
    given = parsed(parser(), words)
    if isinstance(given, int):
        return given
    try:
        settings = effective()
    except BadArg as wrong:
        return refuse(" config", f"{wrong.argument}: {wrong.why}")
    if given.json:
        plain = {name: {"value": each.value, "source": each.source} for name, each in settings.items()}
        return say(json.dumps(plain, indent=2) + "\n")
    return say(table(settings))


def table(settings: Mapping[str, Setting]) -> str:
    """Formats a line for each setting.

    >>> print(table({"node": Setting(None, "default"), "allow": Setting(("shop", "db"), "INVISO_ALLOW")}), end="")
    SETTING  VALUE     FROM
    node     -         default
    allow    shop, db  INVISO_ALLOW
    """
    rows = [("SETTING", "VALUE", "FROM"), *((name, _text(each.value), each.source) for name, each in settings.items())]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "".join(f"{name:{wide[0]}}  {value:{wide[1]}}  {source}\n" for name, value, source in rows)


def _text(value: object) -> str:
    match value:
        case None | ():
            return "-"
        case bool():
            return "yes" if value else "no"
        case tuple():
            return ", ".join(map(str, value))
    return str(value)
