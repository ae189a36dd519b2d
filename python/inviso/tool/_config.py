"""The settings of a tool: keyword arguments, then a file of Python literals with a pair of key and value a line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from inviso._config import effective
from inviso._literal import NotLiteral, read_all
from inviso.errors import BadArg, shown

__all__ = ["DEFAULTS", "read"]

Kind = tuple[Callable[[Any], bool], str]


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) and name for name in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_generator(value: Any) -> bool:
    """Whether it is a function, or a function's name, perhaps with further arguments as in Inviso."""
    match value:
        case (str(), str()) | (str(), str(), list()):
            return True
    return callable(value)


def _is_cases(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in value)


def _is_backoff(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, (list, tuple)) or len(value) != 3 or not all(map(_is_number, value)):
        return False
    first, factor, longest = value
    return bool(factor >= 1 and longest >= first)


_NAMES: Kind = _is_names, "a list of names of nodes"
_FOLDER: Kind = _is_path, "a folder"
_GENERATOR: Kind = _is_generator, 'a function, ("module", "function"), or ("module", "function", [arguments])'
_BACKOFF: Kind = _is_backoff, "(first seconds, factor from 1, longest seconds), or None"

_KEYS: dict[str, tuple[Kind, Any]] = {
    "nodes": (_NAMES, ("*",)),
    "keep_nodes": (_NAMES, ()),
    "tc_def_file": ((lambda value: value is None or _is_path(value), "a file"), None),
    "dir": ((lambda value: value is None or _is_path(value), "a folder"), None),
    "history_dir": (_FOLDER, "."),
    "tdg": (_GENERATOR, ("inviso.tool", "std_tdg", [])),
    "optg": ((lambda value: value is None or _is_generator(value), f"{_GENERATOR[1]}, or None"), None),
    "initial_tcs": ((_is_cases, "a list of pairs of a trace case and its variables"), ()),
    "debug": ((lambda value: isinstance(value, bool), "True or False"), False),
    "reactivate": (_BACKOFF, (10.0, 2.0, 600.0)),
    "reconnect": (_BACKOFF, (1.0, 2.0, 30.0)),
    "timeout": ((_is_number, "a number of seconds"), 5.0),
}
"""For each key its kind and its default."""

DEFAULTS = {key: default for key, (_, default) in _KEYS.items()}


def read(given: dict[str, Any], path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """All keys with their values. Given values replace those of the file. Names of files in it are relative to its
    folder.

    Raises:
        BadArg: a value has a wrong kind, a key of the file is unknown, or the file can't be read.

    >>> read({"timeout": 2.0}, None)["timeout"], read({}, None)["reactivate"]
    (2.0, (10.0, 2.0, 600.0))
    """
    found = dict(DEFAULTS)
    if path is not None:
        found |= _of_file(os.fspath(path))
    for key, value in given.items():
        found[key] = _checked(key, value, "")
    if found["tc_def_file"] is None:
        found["tc_def_file"] = effective()["cases"].value
    return found


def _of_file(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            terms = read_all(file.read())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadArg("Tool", "config_file", f"{path} can't be read: {why}") from None
    except NotLiteral as error:
        raise BadArg("Tool", "config_file", f"{path}: {error}") from None
    found = {}
    for term in terms:
        match term:
            case (str(key), value) if key in _KEYS:
                found[str(key)] = _checked(key, value, f"{path}: ")
            case (str(key), _):
                raise BadArg("Tool", "config_file", f"{path}: unknown key {key!r}; there are {', '.join(_KEYS)}")
            case _:
                why = f"{path}: {shown(term)} is not a pair; write one a line, such as ('nodes', ['shop-*'])"
                raise BadArg("Tool", "config_file", why)
    for key in ("tc_def_file", "dir", "history_dir"):
        if found.get(key) is not None:
            found[key] = os.path.join(os.path.dirname(os.path.abspath(path)), found[key])
    return found


def _checked(key: str, value: Any, where: str) -> Any:
    (is_good, what), _ = _KEYS[key]
    if not is_good(value):
        raise BadArg("Tool", key, f"{where}{shown(value)} is wrong; pass {what}")
    return value
