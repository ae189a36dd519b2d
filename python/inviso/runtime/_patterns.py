"""Trace patterns of a runtime component: which functions they name, and the list that is in force."""

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
    """One pattern: functions, what is wanted of their calls (False: nothing any more), and how they are traced."""

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
    """The patterns in the order in which they were set. A session gets all of them when it begins."""

    def __init__(self) -> None:
        self._set: list[Pattern] = []

    def __bool__(self) -> bool:
        return bool(self._set)

    def clear(self) -> None:
        """Forget all of them."""
        self._set.clear()

    def put(self, session: trace.Session, pattern: Pattern) -> int:
        """Set one in a session, and for functions that are loaded later; how many functions it matches now."""
        found = session.function(pattern.mfa, pattern.match_spec, [pattern.flag])
        self._set = [one for one in self._set if one.flag != pattern.flag or not covers(pattern.mfa, one.mfa)]
        if pattern.match_spec is not False:
            self._set.append(pattern)
        self._load(session, pattern.flag)
        return found

    def put_all(self, session: trace.Session) -> None:
        """Set all of them in a new session."""
        for pattern in self._set:
            session.function(pattern.mfa, pattern.match_spec, [pattern.flag])
        for flag in (LOCAL, GLOBAL):
            if any(pattern.flag == flag for pattern in self._set):
                self._load(session, flag)

    def take_all(self, session: trace.Session) -> None:
        """Take all of them away."""
        for flag in (LOCAL, GLOBAL):
            session.function(("_", "_", "_"), False, [flag])
            on_load(session, flag, [])
        self._set.clear()

    def _load(self, session: trace.Session, flag: str) -> None:
        """Functions that are loaded later get the newest specification of those that name them."""
        ours = [pattern for pattern in self._set if pattern.flag == flag]
        newest = ours[-1].match_spec if ours else True
        on_load(session, flag, [one.mfa for one in ours if one.match_spec == newest], newest)


def expand(given: Any, flag: str) -> list[Pattern]:
    """The patterns that ``(module, function, arity, match_spec)`` stands for: one for each module of a regular expression, which is
    ``("re", module)`` or ``("re", folder, module)``. BadArg for anything else.

    >>> import json.decoder
    >>> [one.module for one in expand((("re", "json\\.de.*"), "_", "_", True), "local")]
    ['json.decoder']
    """
    match given:
        case [str(module), function, arity, match_spec, *_]:
            return [Pattern(module, function, arity, match_spec, flag)]
        case [["re", str(name)], function, arity, match_spec, *_]:
            modules = _loaded(_compiled(name), None)
        case [["re", str(folder), str(name)], function, arity, match_spec, *_]:
            modules = _loaded(_compiled(name), _compiled(folder))
        case _:
            why = f"{shown(given)} is no pattern; pass (module, function, arity, match specification)"
            raise BadArg("tp", "patterns", why)
    return [Pattern(each, function, arity, match_spec, flag) for each in sorted(modules)]


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadArg("tp", "patterns", f"{shown(text)} is no regular expression: {error}") from None


def _loaded(name: re.Pattern[str], folder: re.Pattern[str] | None) -> list[str]:
    """The modules whose whole name matches, and whose folder's path has a match, if that is asked for."""
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
