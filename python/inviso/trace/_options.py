"""Options of a new session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inviso.errors import BadArg, shown

from ._arguments import one_of
from ._tables import CAPTURE, OPTIONS

__all__ = ["check_share", "options_of", "taking"]


_CAPTURE_RANGE = {"depth": (0, 64), "items": (0, 1 << 20), "bytes": (0, 60_000), "total": (64, 60_000)}
_NUMBERS = {"ring_bytes": "bytes", "ended_processes": "processes", "block_ms": "milliseconds"}


def options_of(where: str, opts: Any) -> dict[str, Any]:
    try:
        given = dict(opts)
    except (TypeError, ValueError):
        raise BadArg(where, "opts", f"{shown(opts)} is not a list of options; pass [] or a dict") from None
    options = dict(OPTIONS, given=frozenset(given))
    for key, value in given.items():
        one_of(where, "opts", "option", key, OPTIONS)
        options[key] = value
    for key, unit in _NUMBERS.items():
        value = options[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
            raise BadArg(where, "opts", f"{key} {shown(value)} is not a number of {unit}; pass an int from 0")
    one_of(where, "opts", "overflow policy", options["overflow"], ("drop", "overwrite", "block"))
    one_of(where, "opts", "clock", options["clock"], ("fast", "system"))
    if not isinstance(options["repr"], bool):
        raise BadArg(where, "opts", f"repr {shown(options['repr'])} is not a bool; pass True or False")
    _check_capture(where, options["capture"], options["repr"])
    return options


def _check_capture(where: str, capture: Any, texts: bool) -> None:
    if isinstance(capture, str) and capture == "ref":
        if texts:
            raise BadArg(where, "opts", "capture 'ref' hands over objects, and repr hands over texts; drop one of them")
        return
    if capture is None:
        return
    if not isinstance(capture, Mapping):
        raise BadArg(
            where, "opts", f"capture {shown(capture)} is not a set of limits; pass {{'items': 10}}, say, or 'ref'"
        )
    for key, value in capture.items():
        one_of(where, "opts", "limit of capture", key, CAPTURE)
        least, most = _CAPTURE_RANGE[key]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            why = f"capture, {key}: {shown(value)} is out of range; pass an int from {least} to {most}"
            raise BadArg(where, "opts", why)


def check_share(where: str, options: dict[str, Any], is_called: bool) -> None:
    share = options["share"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise BadArg(where, "opts", f"share {shown(share)} is not a share; pass a number above 0 up to 1, such as 0.1")
    if share < 1 and not is_called:
        raise BadArg(
            where,
            "opts",
            "share limits the time of a callable tracer; pass a callable as the tracer, or drop the option",
        )
    if share < 1 and options["overflow"] == "block":
        raise BadArg(where, "opts", "overflow 'block' waits for the tracer, and share makes it rest; drop one of them")


def taking(options: dict[str, Any]) -> tuple[tuple[int, int, int, int], str]:
    """The limits of a copy of arguments, and its contents: objects, texts or values."""
    capture = options["capture"]
    limits = CAPTURE | (dict(capture) if isinstance(capture, Mapping) else {})
    takes = "objects" if isinstance(capture, str) else "texts" if options["repr"] else "values"
    return (limits["depth"], limits["items"], limits["bytes"], limits["total"]), takes
