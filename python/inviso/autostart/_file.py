"""The config file: Python literals, a pair of key and value on each line, with a counter that each process decrements.

>>> text = '("repeat", 2)\\n("tag", "nightly")  # a comment'
>>> read(text, "a file").tag
'nightly'
>>> print(rewritten(text, 1), end="")
('repeat', 1)
('tag', 'nightly')
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from inviso._literal import NotLiteral, read_all, written
from inviso.errors import shown
from inviso.terms import Atom

from ._trust import Place, opened

__all__ = ["KEYS", "Mfa", "Plan", "Wrong", "check", "load", "lock", "pairs", "read", "rewritten", "written_lines"]

Mfa: TypeAlias = tuple[str, str, list[Any]]

PATIENCE = 2.0
"""Seconds to wait for the counter while another process has it."""

DEFAULT_TAG = Atom("default_tag")


class Wrong(Exception):
    """Tracing can't be started. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a process that is traced from its start."""

    repeat: int | None = None
    """How many more processes are traced; None for all."""
    mfa: Mfa | None = None
    """Module, function and arguments of the initiator. None: a runtime component that doesn't begin tracing."""
    options: Any = ()
    tag: Any = DEFAULT_TAG
    node: str | None = None
    allow: tuple[str, ...] = ()
    log_dir: str | None = None
    follow: bool = False
    """Whether children are traced, too."""
    wait: float = 2.0
    """Seconds that ``__main__`` waits for the initiation, at most."""
    path: str | None = None
    """The file that it was read from."""


def _is_mfa(value: Any) -> bool:
    match value:
        case (str(), str(), list()):
            return True
    return value is None


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) and name for name in value)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "repeat": (lambda value: type(value) is int, "a number"),
    "mfa": (_is_mfa, '("module", "function", [arguments])'),
    "options": (lambda value: isinstance(value, (list, tuple, dict)), "a list of options"),
    "tag": (lambda value: True, "any term"),
    "node": (lambda value: isinstance(value, str) and value != "", "a name, such as 'shop-{pid}'"),
    "allow": (_is_names, "a list of names of modules"),
    "log_dir": (lambda value: isinstance(value, str) and value != "", "a folder"),
    "follow": (lambda value: isinstance(value, bool), "True or False"),
    "wait": (_is_seconds, "a number of seconds"),
}
"""The check of each key's value, and its description."""


def pairs(text: str, path: str) -> list[tuple[str, Any]]:
    """All keys with their values, in order. ``Wrong`` if the text has anything else."""
    try:
        terms = read_all(text)
    except NotLiteral as error:
        raise Wrong(f"{path}: {error}") from None
    for term in terms:
        if not (isinstance(term, tuple) and len(term) == 2 and isinstance(term[0], str)):
            raise Wrong(f"{path}: {shown(term)} is not a pair; write one a line, such as ('repeat', 1)")
    return terms


def check(key: str, value: Any, path: str) -> None:
    """Checks a pair. ``Wrong`` if the key is unknown, or the value has a wrong kind."""
    if key not in KEYS:
        raise Wrong(f"{path}: unknown key {key!r}; there are {', '.join(KEYS)}")
    is_good, what = KEYS[key]
    if not is_good(value):
        raise Wrong(f"{path}: {key} is {shown(value)}; write {what}")


def read(text: str, path: str) -> Plan:
    """The plan of a config file. If a key occurs twice, the first one counts."""
    found: dict[str, Any] = {}
    for key, value in pairs(text, path):
        check(key, value, path)
        found.setdefault(key, value)
    if "allow" in found:
        found["allow"] = tuple(found["allow"])
    return Plan(**found, path=path)


def rewritten(text: str, repeat: int, path: str = "") -> str:
    """The text with another number. Other pairs stay, each on a line, without comments.

    >>> rewritten("('tag', 1)", 3)
    "('repeat', 3)\\n('tag', 1)\\n"
    """
    others = [pair for pair in pairs(text, path) if pair[0] != "repeat"]
    return written_lines([("repeat", repeat), *others])


def written_lines(given: list[tuple[str, Any]]) -> str:
    """The text of pairs, in the form of the file."""
    return "".join(f"{written(pair)}\n" for pair in given)


def load(path: str, *, counts: bool) -> Plan | None:
    """The plan of a config file. With ``counts`` it decrements the counter; None if the counter is used up.

    Raises:
        Wrong: the file is malformed, can't be read or written, or others could have written it.
    """
    try:
        with opened(path) as place:
            plan = read(place.read(), place.path)
            if plan.repeat is None or not counts:
                return plan
            lock(place)
            text = place.read()
            plan = read(text, place.path)
            if plan.repeat is None:
                return plan
            if plan.repeat <= 0:
                return None
            place.replace(rewritten(text, plan.repeat - 1))
            return plan
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(_why(path, error)) from None


def _why(path: str, error: OSError | UnicodeDecodeError) -> str:
    return f"{path}: {error.strerror}" if isinstance(error, OSError) and error.strerror else f"{path}: {error}"


def lock(place: Place) -> None:
    """Locks the folder until its descriptor is closed. Other processes hold the lock only while they write."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(place.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(f"another process holds its folder for {PATIENCE:g} s") from None
            time.sleep(0.002)
