"""Settings. The command line has precedence, then the environment, then ``[tool.inviso]`` of a ``pyproject.toml``.

==============  =====================  =====================================================================
setting         variable
==============  =====================  =====================================================================
``patterns``    ``INVISO_PATTERNS``    the functions to measure or trace, separated by commas
``type``        ``INVISO_TYPE``        the measurement of ``inviso tprof`` and ``%%tprof``
``limit``       ``INVISO_LIMIT``       rows of a table
``messages``    ``INVISO_MESSAGES``    the number of messages after which ``inviso trace`` stops
``events``      ``INVISO_EVENTS``      the number of last events in the report of a failed test
``returns``     ``INVISO_RETURNS``     whether a recorder has returns and exceptions, too: ``yes`` or ``no``
``ring_bytes``  ``INVISO_RING_BYTES``  bytes that a flight recorder keeps for each thread
``node``        ``INVISO_NODE``        the node's name; ``{pid}`` and ``{program}`` are replaced
``dir``         ``INVISO_DIR``         the private folder with the sockets of this user's processes
``log_dir``     ``INVISO_LOG_DIR``     the folder of logs
``allow``       ``INVISO_ALLOW``       modules whose functions a control may name, separated by commas
``follow``      ``INVISO_FOLLOW``      whether child processes are measured and traced, too: ``yes`` or ``no``
``wait``        ``INVISO_WAIT``        seconds that a program waits until its tracing is initiated
``timeout``     ``INVISO_TIMEOUT``     seconds that a command waits for each answer
``cases``       ``INVISO_CASES``       the file that lists trace cases; relative to its ``pyproject.toml``
``agent``       ``INVISO_AGENT``       options of the agent that is started to reach another host
==============  =====================  =====================================================================

A command, a run of tests or a magic reads the nearest ``pyproject.toml`` in the working directory or above it, or the
file that INVISO_CONFIG names. A program that is traced from its start reads neither: only the file that it was given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BadArg, shown

__all__ = ["CALL_TYPES", "FILE", "NAMES", "Setting", "effective", "from_environment", "pyproject"]

CALL_TYPES = ("call_count", "call_time", "call_memory")
"""The measurements of calls."""

FILE = "INVISO_CONFIG"
"""The variable that names a file to read in place of the nearest ``pyproject.toml``."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its source: ``"command line"``, a variable's name, a file's path or ``"default"``."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class _Kind:
    is_good: Callable[[Any], bool]
    what: str
    of_text: Callable[[str], Any]
    """The value of a variable's text; raises ValueError for a wrong text."""
    why: Callable[[Any], str] = lambda value: ""
    """The mistake in a part of a wrong value, and the remedy; "" if there are no details."""


def _seconds(text: str) -> float:
    return float(text)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _yes_or_no(text: str) -> bool:
    words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) and name for name in value)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_pattern(text: str) -> bool:
    return _wrong_pattern(text) == ""


def _wrong_pattern(text: str) -> str:
    from ._pattern import parse

    try:
        parse(text, "config, patterns")
    except BadArg as wrong:
        return wrong.why
    return ""


def _number(least: int) -> _Kind:
    def is_good(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31

    return _Kind(is_good, f"a number from {least}", int)


_PATTERNS = _Kind(
    lambda value: _is_names(value) and bool(value) and all(map(_is_pattern, value)),
    "a list of patterns, such as ['shop.**', 'json:loads']",
    _names,
    lambda value: next(filter(None, map(_wrong_pattern, value)), "") if _is_names(value) else "",
)
_TEXT = _Kind(lambda value: isinstance(value, str) and value != "", "a text", str)
_BOOL = _Kind(lambda value: isinstance(value, bool), "true or false", _yes_or_no)
_SECONDS = _Kind(_is_seconds, "a number of seconds", _seconds)

_SETTINGS: dict[str, tuple[_Kind, Any]] = {
    "patterns": (_PATTERNS, ()),
    "type": (_Kind(lambda value: value in CALL_TYPES, f"one of {', '.join(CALL_TYPES)}", str), CALL_TYPES[0]),
    "limit": (_number(1), None),
    "messages": (_number(1), None),
    "events": (_number(1), 200),
    "returns": (_BOOL, False),
    "ring_bytes": (_number(4096), 65_536),
    "node": (_TEXT, None),
    "dir": (_TEXT, None),
    "log_dir": (_TEXT, "inviso-logs"),
    "allow": (_Kind(_is_names, "a list of names of modules", _names), ()),
    "follow": (_BOOL, None),
    "wait": (_SECONDS, 2.0),
    "timeout": (_SECONDS, 5.0),
    "cases": (_TEXT, None),
    "agent": (_TEXT, None),
}
NAMES = tuple(_SETTINGS)


def effective(
    given: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> dict[str, Setting]:
    """Returns all settings with their values for a command.

    Args:
        given: the settings of the command line; None for a setting that was not given.
        environ: the environment variables; None for those of this process.
        folder: the folder in which, and above which, the file is searched; None for the working directory.

    Raises:
        BadArg: a value is wrong (the error names its source), or the file can't be used.

    >>> found = effective({"node": "shop-1"}, environ={"INVISO_NODE": "web", "INVISO_WAIT": "0.5"}, folder="/")
    >>> found["node"], found["wait"].source, found["timeout"]
    (Setting(value='shop-1', source='command line'), 'INVISO_WAIT', Setting(value=5.0, source='default'))
    """
    env = os.environ if environ is None else environ
    found = {name: Setting(default, "default") for name, (_, default) in _SETTINGS.items()}
    path = env.get(FILE) or pyproject(folder)
    if path is not None:
        for name, value in _of_file(path).items():
            value = _checked(name, value, path)
            found[name] = Setting(os.path.join(os.path.dirname(path), value) if name == "cases" else value, path)
    found.update(from_environment(env))
    for name, value in (given or {}).items():
        if value is not None:
            found[name] = Setting(_checked(name, value, "command line"), "command line")
    return found


def from_environment(environ: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """The settings of environment variables; an empty variable is ignored.

    >>> from_environment({"INVISO_FOLLOW": "yes", "INVISO_NODE": ""})
    {'follow': Setting(value=True, source='INVISO_FOLLOW')}
    """
    env = os.environ if environ is None else environ
    found: dict[str, Setting] = {}
    for name, (kind, _) in _SETTINGS.items():
        variable = f"INVISO_{name.upper()}"
        text = env.get(variable)
        if not text:
            continue
        try:
            value = kind.of_text(text)
        except ValueError:
            value = text
        found[name] = Setting(_checked(name, value, variable), variable)
    return found


def pyproject(folder: str | None = None) -> str | None:
    """The nearest ``pyproject.toml`` in a folder or above it; None without one.

    >>> pyproject("/") is None
    True
    """
    try:
        here = os.path.abspath(os.getcwd() if folder is None else folder)
    except OSError:
        return None
    while True:
        path = os.path.join(here, "pyproject.toml")
        if os.path.isfile(path):
            return path
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _of_file(path: str) -> dict[str, Any]:
    """Reads ``[tool.inviso]`` of a file, which must belong to this user or root."""
    try:
        with open(path, "rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            text = file.read()
        if b"inviso" not in text:
            return {}  # no section of ours: importing the parser takes time, and errors in other sections don't matter
        import tomllib

        content = tomllib.loads(text.decode())
    except (OSError, ValueError) as error:
        raise BadArg("config", "file", f"{path} can't be read: {error}; correct it, or set {FILE} to another") from None
    table = content.get("tool", {})
    table = table.get("inviso", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise BadArg("config", "file", f"{path}: tool.inviso is not a table; write [tool.inviso]")
    if table and owner not in (os.geteuid(), 0):
        raise BadArg("config", "file", f"{path} is another user's; set {FILE} to a file of yours")
    return table


def _checked(name: str, value: Any, source: str) -> Any:
    if name not in _SETTINGS:
        raise BadArg("config", name, f"there is no such setting ({source}); there are {', '.join(NAMES)}")
    kind, _ = _SETTINGS[name]
    if not kind.is_good(value):
        why = kind.why(value)
        raise BadArg("config", name, f"{shown(value)} ({source}) is wrong{': ' * bool(why)}{why}; give {kind.what}")
    return tuple(value) if isinstance(value, list) else value
