"""Checks the options of the functions of ttb."""

from __future__ import annotations

import os
from typing import Any

from inviso.errors import BadArg, shown

__all__ = ["check_file", "check_handler", "format_options", "pairs", "stop_options", "timer"]


def pairs(where: str, opts: Any, known: tuple[str, ...]) -> dict[str, Any]:
    items = list(opts.items()) if isinstance(opts, dict) else opts
    given: dict[str, Any] = {}
    for item in items:
        if not isinstance(item, tuple) or len(item) != 2 or item[0] not in known:
            raise BadArg(where, "opts", f"{shown(item)} is not an option; pass pairs of {', '.join(known)} and a value")
        given[item[0]] = item[1]
    return given


def check_file(file: Any) -> None:
    match file:
        case str() if os.path.basename(file):
            return
        case ("wrap", str(name)) if os.path.basename(name):
            return
        case ("wrap", str(name), int(size), int(count)) if os.path.basename(name) and size > 0 and count > 0:
            return
    raise BadArg("tracer/2", "opts", f"file {shown(file)} is not a log; pass a name, or ('wrap', name, size, count)")


def timer(given: Any) -> tuple[float | None, Any]:
    match given:
        case None:
            return None, ()
        case int() | float() if not isinstance(given, bool) and given >= 0:
            return given / 1000, ()
        case (int() | float() as wait, opts) if not isinstance(wait, bool) and wait >= 0:
            stop_options(opts)
            return wait / 1000, opts
    raise BadArg(
        "tracer/2", "opts", f"timer {shown(given)} is not a time; pass milliseconds, or (milliseconds, options of stop)"
    )


def stop_options(opts: Any) -> dict[str, Any]:
    items = (
        [opts]
        if isinstance(opts, str) or (isinstance(opts, tuple) and opts[:1] in (("fetch_dir",), ("format",)))
        else opts
    )
    given: dict[str, Any] = {"nofetch": False, "fetch_dir": None, "format": None, "return_fetch_dir": False}
    for item in items:
        match item:
            case "nofetch" | "return_fetch_dir":
                given[item] = True
            case "format":
                given["format"] = {}
            case ("format", options):
                given["format"] = format_options(options)
            case ("fetch_dir", str(folder)) if folder:
                given["fetch_dir"] = folder
            case _:
                known = "'nofetch', ('fetch_dir', folder), 'format', 'return_fetch_dir'"
                raise BadArg("stop/1", "opts", f"{shown(item)} is not an option; pass {known}")
    return given


def format_options(opts: Any) -> dict[str, Any]:
    items = opts.items() if isinstance(opts, dict) else [opts] if isinstance(opts, str) else opts
    given: dict[str, Any] = {}
    for item in items:
        match item:
            case "disable_sort" | ("disable_sort", True):
                given["disable_sort"] = True
            case ("out", "standard_io"):
                pass
            case ("out", str() | os.PathLike() as out):
                given["out"] = out
            case ("handler", handler):
                given["handler"] = check_handler("format/2", handler)
            case _:
                known = "('out', name), ('handler', (function, state)), 'disable_sort'"
                raise BadArg("format/2", "opts", f"{shown(item)} is not an option; pass {known}")
    return given


def check_handler(where: str, handler: Any) -> Any:
    if not isinstance(handler, tuple) or len(handler) != 2 or not callable(handler[0]):
        raise BadArg(where, "opts", f"{shown(handler)} is not a handler; pass (function, state)")
    return handler
