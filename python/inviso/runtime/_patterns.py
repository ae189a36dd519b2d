"""Trace patterns of a runtime component: expands them, and has the list in force."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from inviso import trace
from inviso._pattern import covers
from inviso.errors import BadArg, shown
from inviso.trace._patterns import on_load

__all__ = ["GLOBAL", "LOCAL", "Pattern", "Patterns", "expand"]

LOCAL, GLOBAL = "local", "global"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: functions, their match specification (False clears the pattern), and a flag: local or global."""

    module: str
    function: str
    arity: Any
    match_spec: Any
    flag: str

    @property
    def mfa(self) -> tuple[str, str, Any]:
        """The functions."""
        return self.module, self.function, self.arity


class Patterns:
    """The patterns in force, in the order of setting. A new session gets all of them."""

    def __init__(self) -> None:
        self._set: list[Pattern] = []

    def __bool__(self) -> bool:
        return bool(self._set)

    def clear(self) -> None:
        """Forgets all patterns."""
        self._set.clear()

    def put(self, session: trace.Session, pattern: Pattern) -> int:
        """Sets one in a session, also for functions that are loaded later. Returns how many functions match now."""
        found = session.function(pattern.mfa, pattern.match_spec, [pattern.flag])
        self._set = [one for one in self._set if one.flag != pattern.flag or not covers(pattern.mfa, one.mfa)]
        if pattern.match_spec is not False:
            self._set.append(pattern)
        self._load(session, pattern.flag)
        return found

    def put_all(self, session: trace.Session) -> None:
        """Sets all patterns in a new session."""
        for pattern in self._set:
            session.function(pattern.mfa, pattern.match_spec, [pattern.flag])
        for flag in (LOCAL, GLOBAL):
            if any(pattern.flag == flag for pattern in self._set):
                self._load(session, flag)

    def take_all(self, session: trace.Session) -> None:
        """Clears all patterns in a session, and forgets them."""
        for flag in (LOCAL, GLOBAL):
            session.function(("_", "_", "_"), False, [flag])
            on_load(session, flag, [])
        self._set.clear()

    def _load(self, session: trace.Session, flag: str) -> None:
        """Sets the patterns for functions that are loaded later: those with the newest match specification."""
        ours = [pattern for pattern in self._set if pattern.flag == flag]
        newest = ours[-1].match_spec if ours else True
        on_load(session, flag, [one.mfa for one in ours if one.match_spec == newest], newest)


def expand(given: Any, flag: str, *, clears: bool = False) -> list[Pattern]:
    """The patterns of ``(module, function, arity, match_spec)``; with ``clears`` those that clear
    ``(module, function, arity)``.

    A regular expression as module gives one for each matching module: ``("re", module)`` or ``("re", folder, module)``.

    Raises:
        BadArg: it is not a pattern.

    >>> import json.decoder
    >>> [one.module for one in expand((("re", "json\\.de.*"), "_", "_", True), "local")]
    ['json.decoder']
    """
    match given:
        case [module, function, arity, *rest] if rest or clears:
            match_spec = False if clears else rest[0]
        case _:
            raise _no_pattern(given, clears=clears)
    match module:
        case str():
            return [Pattern(module, function, arity, match_spec, flag)]
        case ["re", str(name)]:
            modules = _loaded(_compiled(name), None)
        case ["re", str(folder), str(name)]:
            modules = _loaded(_compiled(name), _compiled(folder))
        case _:
            raise _no_pattern(given, clears=clears)
    return [Pattern(each, function, arity, match_spec, flag) for each in sorted(modules)]


def _no_pattern(given: Any, *, clears: bool) -> BadArg:
    parts = "(module, function, arity)" if clears else "(module, function, arity, match specification)"
    return BadArg("ctp" if clears else "tp", "patterns", f"{shown(given)} is not a pattern; pass {parts}")


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadArg("tp", "patterns", f"{shown(text)} is not a regular expression: {error}") from None


def _loaded(name: re.Pattern[str], folder: re.Pattern[str] | None) -> list[str]:
    """The loaded modules whose whole name matches; with ``folder``, only if their folder's path has a match."""
    found = []
    for module, loaded in list(sys.modules.items()):
        if not isinstance(module, str) or not name.fullmatch(module):
            continue
        if folder is not None:
            path = vars(loaded).get("__file__") if hasattr(loaded, "__dict__") else None
            if not isinstance(path, str) or not folder.search(os.path.dirname(path)):
                continue
        found.append(module)
    return found
