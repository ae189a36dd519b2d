"""Splits a command line into options and a program, and reports wrong ones; for all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._runner import Program

if TYPE_CHECKING:
    import argparse

__all__ = ["USAGE_STATUS", "Given", "Options", "Usage", "absolute", "number", "parsed", "refuse", "say"]

USAGE_STATUS = 2


class Usage(Exception):
    """A command line that can't be carried out; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Given:
    """The options as they were written; ``program`` is None for ``--help``."""

    options: dict[str, str]
    lists: dict[str, list[str]]
    program: Program | None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one command, by their full names. Every command has ``--help``.

    >>> known = Options(short={"-n": "--limit"}, with_value=("--limit",), without_value=("--json",))
    >>> given = known.split(["-n3", "--json", "job.py", "--fast"])
    >>> given.options, given.program
    ({'--limit': '3', '--json': ''}, Program(name='job.py', args=('--fast',), is_module=False))
    """

    short: dict[str, str]
    with_value: tuple[str, ...]
    without_value: tuple[str, ...] = ()
    several: tuple[str, ...] = field(default=())
    """Options with a value that may be given more than once."""

    def split(self, words: Iterable[str]) -> Given:
        """Splits a command line into options and program. ``--name=value`` and ``-nvalue`` are one word."""
        options: dict[str, str] = {}
        lists: dict[str, list[str]] = {name: [] for name in self.several}
        rest = iter(words)
        for word in rest:
            if word == "--":
                return Given(options, lists, _program(list(rest), False))
            if not word.startswith("-") or word == "-":
                return Given(options, lists, _program([word, *rest], False))
            name, value = self._option(word, rest)
            if name == "--help":
                return Given(options, lists, None)
            if name == "-m":
                return Given(options, lists, _program([value, *rest], True))
            if name in self.several:
                lists[name].append(value)
            else:
                options[name] = value
        raise Usage("no program was given; name a script, or a module with -m")

    def split_files(self, words: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Splits a command line into options and files, in any order."""
        options: dict[str, str] = {}
        files: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                files += rest
            elif not word.startswith("-") or word == "-":
                files.append(word)
            else:
                name, value = self._option(word, rest)
                options[name] = value
        return options, files

    def _option(self, word: str, rest: Iterator[str]) -> tuple[str, str]:
        """An option's full name and its value, which may be the next word; "" for an option without a value."""
        name, value = self._split(word)
        if value is None and name not in self._alone:
            value = next(rest, None)
            if value is None:
                raise Usage(f"option {word} needs a value")
        return name, value or ""

    def _split(self, word: str) -> tuple[str, str | None]:
        """An option's full name, and its value if that is in the same word."""
        if word.startswith("--"):
            name, equals, text = word.partition("=")
            value = text if equals else None
        else:
            name, value = {"-h": "--help", **self.short}.get(word[:2], word), word[2:] or None
        if name not in (*self.with_value, *self.several, *self._alone):
            raise Usage(f"unknown option {word!r}")
        if name in self._alone and value is not None:
            raise Usage(f"option {name} takes no value")
        return name, value

    @property
    def _alone(self) -> tuple[str, ...]:
        return *self.without_value, "--help"


def number(text: str | None, option: str, what: str) -> int | None:
    """Reads a number from 1; None if the option was not given."""
    if text is not None and not (text.isdecimal() and int(text) > 0):
        raise Usage(f"{option}: {text!r} is not a number of {what}; give a number from 1")
    return None if text is None else int(text)


def absolute(path: str | None, option: str, *, dash: bool) -> str | None:
    """The full path of a file, because the program may change its working directory."""
    if path is None or (dash and path == "-"):
        return path
    if not path:
        raise Usage(f"{option}: the file has no name")
    return os.path.abspath(path)


def say(text: str) -> int:
    """Prints a text to standard output. Returns the exit status."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone; the interpreter must not fail at its end, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace | int:
    """Parses a command line. Returns the exit status if the parser has printed its help or an error."""
    try:
        return parser.parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)


def refuse(command: str, why: Any) -> int:
    """Prints the error of a command line. Returns the exit status."""
    print(f"inviso{command}: {why}\nSee 'inviso{command} --help'.", file=sys.stderr)
    return USAGE_STATUS


def _program(words: list[str], is_module: bool) -> Program:
    if not words or not words[0]:
        raise Usage("no program was given; name a script, or a module with -m")
    return Program(words[0], tuple(words[1:]), is_module)
