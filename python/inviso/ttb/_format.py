"""Prints logs as text, a line for each message, with names in place of pids; or calls a handler with each message."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from inviso import log
from inviso.dbg._lines import line
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._options import format_options

__all__ = ["INFO", "format"]

OK, ERROR = Atom("ok"), Atom("error")
INFO = Atom("trace_info")
"""The first element of an entry from ``write_trace_info``."""


def format(files: Any, opts: Any = ()) -> Any:
    """Prints logs as one, in the order of time.

    Args:
        files: a folder of :func:`stop`, a log in it, or a list of logs. For a wrap set pass the beginning of its files'
            names, ``NODE-name``. The file of names is beside each log.
        opts: a list of options:

            ``("out", file)``
                The name of a file to print to; the default is standard output.
            ``("handler", (function, state))``
                Calls ``function(out, message, info, state)`` with the text file, each message, information, and the
                state; it returns the next state. ``info`` is a dict with ``"node"``, ``"names"`` (of the process at
                that time) and the values of :func:`write_trace_info`, each a list.
            ``"disable_sort"``
                Prints one log after the other.

    Returns:
        None, or ``("error", reason)``.

    Raises:
        BadArg: a malformed argument.
        OSError: a file can't be read or written.

    >>> import tempfile
    >>> from inviso import ttb
    >>> folder = tempfile.mkdtemp()
    >>> begun = ttb.tracer(None, [("file", f"{folder}/ttb")]), ttb.p(inviso.self(), "call"), ttb.tp("json", "dumps", [])
    >>> ended = json.dumps({}), ttb.stop([("fetch_dir", f"{folder}/fetched")])
    Stored logs in ...fetched
    >>> def count(out, message, info, state):
    ...     print(state, message[2], info["names"], file=out)
    ...     return state + 1
    >>> ttb.format(f"{folder}/fetched", [("handler", (count, 1))])
    1 call ['MainThread']
    """
    given = format_options(opts)
    logs = _logs(files)
    if not logs:
        return ERROR, Atom("no_files")
    handler, state = given.get("handler") or (_print, None)
    out = given.get("out")
    stream: TextIO = sys.stdout if out is None else open(out, "w", encoding="utf-8")  # noqa: SIM115
    try:
        known = {node: _infos(names) for node, _, names in logs}
        for node, names, message in _messages(logs, is_sorted=not given.get("disable_sort", False)):
            state = handler(stream, message, {**known.get(node, {}), "node": node, "names": names}, state)
    finally:
        if out is not None:
            stream.close()
    return None


_Log = tuple[str, Any, str | None]
"""A node, its log as for :func:`inviso.log.read`, and its file of names."""


def _messages(logs: list[_Log], *, is_sorted: bool) -> Iterable[tuple[str, list[Any], Any]]:
    from inviso import merge

    groups = [logs] if is_sorted else [[one] for one in logs]
    for group in groups:
        named = {node: names for node, _, names in group if names is not None}
        yield from merge.read({node: files for node, files, _ in group}, ti=named)


def _infos(names: str | None) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for entry in [] if names is None else log.read(names):
        match entry:
            case (word, key, info) if word == INFO:
                found.setdefault(key, []).append(info)
    return found


def _print(out: TextIO, message: Any, info: dict[Any, Any], state: None) -> None:
    if isinstance(message, tuple) and len(message) > 2 and message[0] in ("trace", "trace_ts"):
        name = info["names"][0] if info["names"] else Atom("")
        message = (message[0], (message[1], name, info["node"]), *message[2:])
    text = line(message)
    print(f"*** {message}" if text is None else text, file=out)


def _logs(files: Any) -> list[_Log]:
    if isinstance(files, (str, os.PathLike)):
        path = os.fspath(files)
        paths = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
    elif isinstance(files, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in files):
        paths = [os.fspath(one) for one in files]
    else:
        raise BadArg("format/2", "files", f"{shown(files)} are not logs; pass a folder, a log, or a list of logs")
    found: dict[str, _Log] = {}
    for path in paths:
        base = path[: -len(".wrp")].rpartition(".")[0] if path.endswith(".wrp") else path.removesuffix(".ti")
        is_set = path.endswith(".wrp") or not os.path.exists(base)
        source: Any = (f"{base}.", "wrap", ".wrp") if is_set else base
        names = f"{base}.ti"
        node = os.path.basename(base).rpartition("-")[0] or os.path.basename(base)
        found[base] = (node, source, names if os.path.exists(names) else None)
    return list(found.values())
