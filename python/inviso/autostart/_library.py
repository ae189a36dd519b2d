"""Writes and changes config files (``inviso_as_lib``) for this process, on its own host only."""

from __future__ import annotations

import os
import sys
from typing import Any

from inviso._literal import NotLiteral
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._file import Wrong, check, lock, pairs, rewritten, written_lines
from ._start import is_file
from ._trust import opened
from ._variables import VARIABLE

__all__ = ["inhibit_autostart", "set_repeat", "setup_autostart", "which_config_file"]

DEFAULT = "inviso_autostart.config"
ERROR = Atom("error")
OFF = Atom("off")
TAG = Atom("inviso_std_ref")
"""The default tag of :func:`setup_autostart`."""


def which_config_file() -> tuple[str, str]:
    """``("ok", path)`` of the config file in use.

    It is the file that this process was started with, else the file in INVISO_AUTOSTART, else
    ``inviso_autostart.config`` in the working directory. (The functions here write that one, but processes read it only
    if the variable names it.)

    >>> import os
    >>> from inviso import autostart
    >>> autostart.which_config_file() == ("ok", os.path.abspath("inviso_autostart.config"))
    True
    """
    process = getattr(sys.modules.get("inviso.autostart._process"), "_this", None)
    if process is not None and process.plan.path is not None:
        return Atom("ok"), process.plan.path
    value = os.environ.get(VARIABLE, "")
    return Atom("ok"), os.path.abspath(value if is_file(value) else DEFAULT)


def setup_autostart(
    node: str | None,
    repeat: int | None,
    options: Any,
    tracerdata: Any,
    cmdfiles: Any,
    bindings: Any,
    translations: Any,
    tag: Any = TAG,
    debug: Any = OFF,
    *,
    file: str | None = None,
) -> tuple[str, Any] | None:
    """Writes a config file for the standard initiator. It replaces an existing file.

    Args:
        node: this process's node, or None for the same. Files of other nodes can't be written.
        repeat: how many processes are traced; None for all.
        options: options of the runtime component.
        tracerdata, cmdfiles, bindings, translations, debug: parameters of :func:`inviso.autostart.init`.
        tag: the incarnation tag.
        file: the file; :func:`which_config_file` by default.

    Returns:
        None; ``("error", ("format", why))`` for a value that can't be written as a literal,
        ``("error", ("write_file", reason))``, ``("error", "not_supported")`` for another node.

    Raises:
        BadArg: a value has a wrong kind.

    >>> import os, tempfile
    >>> from inviso import autostart
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "auto.config")
    ...     autostart.setup_autostart(None, 2, [], ("file", "a.log"), ["a.case"], [("M", "json")], [], file=path)
    ...     print(open(path).readline(), end="")
    ('repeat', 2)
    """
    if not _is_own(node):
        return ERROR, Atom("not_supported")
    parameters = [
        ("tracerdata", tracerdata),
        ("cmdfiles", cmdfiles),
        ("bindings", _listed(bindings)),
        ("translations", translations),
        ("debug", debug),
    ]
    lines: list[tuple[str, Any]] = [] if repeat is None else [("repeat", repeat)]
    lines += [("mfa", ("inviso.autostart", "init", [parameters])), ("options", options), ("tag", tag)]
    for key, value in lines:
        _check("setup_autostart", key, value)
    return _write(file or which_config_file()[1], lines)


def set_repeat(node: str | None, repeat: int, *, file: str | None = None) -> tuple[str, Any] | None:
    """Sets the counter of a config file, in its first line. All other pairs stay; comments are lost.

    Args:
        node: this process's node, or None for the same.
        repeat: how many more processes are traced.
        file: the file; :func:`which_config_file` by default.

    Returns:
        None; ``("error", ("consult", why))`` if the file can't be read, ``("error", ("write_file", reason))``,
        ``("error", "not_supported")`` for another node.

    Raises:
        BadArg: ``repeat`` is not a number.

    >>> from inviso import autostart
    >>> autostart.set_repeat(None, 3, file="/nowhere/auto.config")
    ('error', ('consult', '/nowhere/auto.config: No such file or directory'))
    """
    _check("set_repeat", "repeat", repeat)
    if not _is_own(node):
        return ERROR, Atom("not_supported")
    path = file or which_config_file()[1]
    try:
        with opened(path) as place:
            lock(place)
            text = rewritten(place.read(), repeat, path)
            try:
                place.replace(text)
            except OSError as error:
                return ERROR, (Atom("write_file"), error.strerror or str(error))
    except Wrong as why:
        return ERROR, (Atom("consult"), str(why))
    except (OSError, UnicodeDecodeError) as error:
        return ERROR, (Atom("consult"), f"{path}: {getattr(error, 'strerror', None) or error}")
    return None


def inhibit_autostart(node: str | None, *, file: str | None = None) -> tuple[str, Any] | None:
    """Stops the tracing of further processes: :func:`set_repeat` with 0.

    >>> from inviso import autostart
    >>> autostart.inhibit_autostart("elsewhere@far")
    ('error', 'not_supported')
    """
    return set_repeat(node, 0, file=file)


def _is_own(node: str | None) -> bool:
    """Whether it is this process: its name, or its listener's name."""
    if node is None:
        return True
    if not isinstance(node, str):
        raise BadArg("autostart", "node", f"{shown(node)} is not a node; pass its name, or None for this process")
    from inviso.process import node as own

    listening = getattr(sys.modules.get("inviso.runtime"), "_listener", None)
    return node == own() or (listening is not None and listening.is_open and node == listening.node)


def _listed(bindings: Any) -> Any:
    return list(bindings.items()) if isinstance(bindings, dict) else bindings


def _check(function: str, key: str, value: Any) -> None:
    try:
        check(key, value, key)
    except Wrong as why:
        raise BadArg(function, key, str(why).partition(": ")[2]) from None


def _write(path: str, lines: list[tuple[str, Any]]) -> tuple[str, Any] | None:
    try:
        text = written_lines(lines)
        pairs(text, path)
    except (NotLiteral, Wrong, RecursionError) as error:
        return ERROR, (Atom("format"), str(error))
    try:
        with opened(path) as place:
            place.replace(text)
    except OSError as error:
        return ERROR, (Atom("write_file"), error.strerror or str(error))
    return None
