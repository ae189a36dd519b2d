"""Options of a magic, in the form of IPython's own magics. An error has one line. Settings give defaults."""

from __future__ import annotations

import argparse
import keyword
from collections.abc import Iterable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.process import arg_split

from inviso._config import effective
from inviso._pattern import Pattern, outermost, parse
from inviso._table import LIMIT
from inviso.errors import BadArg

__all__ = ["Options", "from_setting", "patterns_of"]


class Options:
    """The options of one magic. All have ``-o``, ``--limit`` and ``--help``."""

    def __init__(self, name: str, description: str) -> None:
        self._name = name
        self._flags = {"-h", "--help"}
        self._settings: dict[str, tuple[str, Any]] = {}
        # prefixes of options are not accepted
        self._parser: Any = MagicArgumentParser(
            prog=f"%%{name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self._parser.allow_abbrev = False
        self._parser.color = False

    def value(self, *names: str, setting: str = "", default: Any = None, **how: Any) -> None:
        """Adds an option with a value, as ``argparse`` does.

        Its default is the setting of this name, or ``default`` if that is not set.
        """
        action = self._parser.add_argument(*names, default=None if setting else default, **how)
        if setting:
            self._settings[action.dest] = setting, default

    def flag(self, name: str, what: str) -> None:
        """Adds an option without a value."""
        self._flags.add(name)
        self._parser.add_argument(name, action="store_true", help=what)

    def finish(self) -> Options:
        """Adds the options of every magic."""
        self.value(
            "--limit",
            type=_rows,
            setting="limit",
            default=LIMIT,
            metavar="ROWS",
            help=f"rows of the table (default: the setting limit, or {LIMIT})",
        )
        self.value("-o", "--output", type=_variable, metavar="NAME", help="the variable that gets the result, too")
        self._parser.add_argument("-h", "--help", action="store_true", help="show this text, and run nothing")
        return self

    def help(self) -> str:
        """The text of ``--help``."""
        return str(self._parser.format_help())

    def read(self, line: str) -> Any:
        """The options of a cell's first line. UsageError if an option or a setting is wrong.

        ``sources`` of the result has the source of the value of each option that has a setting.
        """
        try:
            given = self._parser.parse_args(arg_split(line, posix=True))
            if not given.help:
                self._set(given)
            return given
        except BadArg as error:
            raise UsageError(f"%%{self._name}: {error}") from None
        except ValueError as error:  # a quotation that is not closed
            raise UsageError(f"%%{self._name}: {error}") from None
        except UsageError as error:
            raise UsageError(f"%%{self._name}: {error}; %%{self._name} --help lists the options") from None

    def _set(self, given: Any) -> None:
        settings, given.sources = effective(), {}
        for name, (setting, default) in self._settings.items():
            found = settings[setting]
            is_set = found.source != "default"
            given.sources[name] = found.source if is_set else "default"
            if getattr(given, name) is not None:
                given.sources[name] = "command line"
            else:
                setattr(given, name, found.value if is_set else default)

    def split(self, line: str) -> tuple[str, str]:
        """The options of a line magic, and the code after them."""
        words = arg_split(line, posix=False, strict=False)
        place = count = 0
        while count < len(words) and words[count].startswith("-"):
            count += 1 if words[count] in self._flags or "=" in words[count] else 2
        for word in words[:count]:
            place = line.index(word, place) + len(word)
        return line[:place], line[place:].strip()


def from_setting(options: Any) -> str:
    """The file or variable that has set the patterns, for a note; "" if there is none."""
    source = options.sources["pattern"]
    return "" if source in ("command line", "default") else f" (patterns, {source})"


def patterns_of(name: str, given: Iterable[str]) -> list[Pattern]:
    """Patterns of ``-p``. UsageError if one is wrong."""
    try:
        return outermost([pattern for text in given for pattern in parse(text, f"%%{name}, -p")])
    except BadArg as error:
        raise UsageError(str(error)) from None


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; give one from 1 on")
    return int(text)


def _variable(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} can't be a variable's name; give one as you would assign to")
    return text
