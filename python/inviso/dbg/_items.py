"""The items and flags of ``p``: translates dbg's words to the trace module's."""

from __future__ import annotations

from typing import Any, Final

import inviso
from inviso import Pid, Port, _native

__all__ = ["CALLS", "GROUPS", "BadFlags", "BadPid", "flags_of", "item_of", "short"]

CALLS: Final = "call"
GROUPS: Final[dict[str, tuple[str | None, str | None]]] = {
    "all": ("all", "all"),
    "processes": ("all", None),
    "ports": (None, "all"),
    "new": ("new", "new"),
    "new_processes": ("new", None),
    "new_ports": (None, "new"),
    "existing": ("existing", "existing"),
    "existing_processes": ("existing", None),
    "existing_ports": (None, "existing"),
}
"""For each group of tracees, its processes and its ports."""

_SHORT: Final = {
    "s": ["send"],
    "r": ["receive"],
    "m": ["send", "receive"],
    "c": ["call"],
    "p": ["procs"],
    "sos": ["set_on_spawn"],
    "sol": ["set_on_link"],
    "sofs": ["set_on_first_spawn"],
    "sofl": ["set_on_first_link"],
}
_ALL: Final = [
    "send", "receive", "call", "procs", "ports", "garbage_collection", "running", "set_on_spawn", "set_on_first_spawn",
    "set_on_link", "set_on_first_link", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp", "arity",
    "return_to", "silent", "running_procs", "running_ports", "exiting",
]  # fmt: skip
_LETTERS: Final = {names[0]: letter for letter, names in _SHORT.items() if len(names) == 1}


class BadFlags(Exception):
    """Unknown flags. Its argument is the list from the first unknown one on."""


class BadPid(Exception):
    """An item that can't be a tracee."""


def flags_of(given: Any) -> list[str] | None:
    """The trace flags for dbg's flags; None for ``clear``.

    >>> flags_of("m"), flags_of(["c", "sos"]), flags_of("clear")
    (['send', 'receive'], ['call', 'set_on_spawn'], None)
    """
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple, set, frozenset)):
        raise BadFlags(given)
    names = list(names)
    if names == ["clear"]:
        return None
    made: list[str] = []
    for place, name in enumerate(names):
        if isinstance(name, str) and name == "all":
            return [flag for flag in _ALL if flag not in ("silent", "running")]
        if isinstance(name, str) and name in _SHORT:
            made += _SHORT[name]
        elif isinstance(name, str) and name in _ALL:
            made.append(name)
        else:
            raise BadFlags(names[place:])
    return made


def short(flags: list[str]) -> str:
    """Flags as :func:`inviso.dbg.i` shows them.

    >>> short(["call", "set_on_spawn", "timestamp"])
    'c | sos | timestamp'
    """
    return " | ".join(_LETTERS.get(flag, flag) for flag in flags)


def item_of(item: Any) -> Pid | Port | None:
    """The tracee of an item that is not a group; None for a name that isn't registered. A tracee may have ended, or may
    never have existed.

    A number ``n`` means ``<0.n.0>``. ``(x, y, z)`` and ``"<x.y.z>"`` mean that process. Any other str is a registered
    name. A thread, task, socket, subprocess or transport stands for itself.
    """
    match item:
        case Pid() | Port():
            return item
        case bool() | float() | None:
            raise BadPid(item)
        case int(number):
            return _by_text(f"<0.{number}.0>")
        case (int(x), int(y), int(z)):
            return _by_text(f"<{x}.{y}.{z}>")
        case str() if item.startswith("<"):
            return _by_text(item)
        case str() if item.startswith("#Port<"):
            return next((port for port in inviso.ports() if repr(port) == item), None)
        case str():
            found: Pid | Port | None = inviso.whereis(item)
            return found
    for stands_for in (inviso.pid, inviso.port):
        try:
            return stands_for(item)
        except ValueError:
            continue
    raise BadPid(item)


def _by_text(text: str) -> Pid:
    """The pid with this text, even if there is no such process."""
    parts = text[1:-1].split(".") if text.endswith(">") else []
    numbers = [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) <= 10]
    if len(parts) != 3 or len(numbers) != 3 or numbers[0] or max(numbers) >= 1 << 32:
        raise BadPid(text)
    _, number, serial = numbers
    creation = _native.process.origin_is(_native.process.origin())[2]
    return _native.process.pid_of_node(inviso.node(), creation, serial << 32 | number)
