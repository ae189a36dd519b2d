"""Options of a runtime component, for ``start``, ``add_node`` and ``change_options``.

=====================================================  =====================================================
``("dependency", ms)``, ``"infinity"``, ``(ms, node)``  how long the component lives without a control
``"overload"``                                          no checks
``("overload", ms)``                                    the built-in checks, every so many milliseconds
``("overload", (load, ms))``                            a user's check
``("overload", (load, ms, init, remove))``              the same with set-up and clean-up; each may be None
``("protect", {...})``                                  limits of the built-in checks (:data:`PROTECT`)
``("resume_after", ms)``                                a suspension by overload ends by itself; doubled each time
``("limits", {...})``                                   when tracing ends by itself: ``ms`` after its start, and
                                                        ``limit``, ``rate`` and ``lost`` of :func:`inviso.tracing.begin`
=====================================================  =====================================================

A list of these, or a dict of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from inviso.terms import Atom

__all__ = ["BUILT_IN", "PROTECT", "Settings", "Unknown", "dependency_ms", "dependency_node", "merged", "read"]

Settings: TypeAlias = dict[str, Any]

PROTECT: dict[str, int | None] = {"queue": 1000, "lost": 10_000, "cpu": 80, "lag": 2000, "disk": 64}
"""Limits of the built-in checks: messages that wait for the runtime component, records lost since the last check,
percent of one processor for the threads of this package, milliseconds of an event loop to its next callback, and MiB
that stay free on the log's file system. None: not checked.
"""

EVERY = 1000
"""Milliseconds between two built-in checks, by default."""

BUILT_IN: Settings = {
    "dependency": "infinity",
    "overload": EVERY,
    "protect": PROTECT,
    "resume_after": None,
    "limits": {},
}


class Unknown(Exception):
    """An invalid option; ``option`` is the item."""

    def __init__(self, option: Any) -> None:
        super().__init__(repr(option))
        self.option = option


def read(given: Any) -> Settings:
    """The options that are set, checked. ``Unknown`` names the first invalid one.

    >>> read(["overload", ("dependency", 0)])
    {'overload': None, 'dependency': 0}
    >>> read({"dependency": -1})
    Traceback (most recent call last):
    ...
    inviso.runtime._settings.Unknown: ('dependency', -1)
    """
    settings: Settings = {}
    for item in _items(given):
        match item:
            case "overload":
                settings["overload"] = None
            case (str(name), value) if name in _CHECKS:
                if not _CHECKS[name](value):
                    raise Unknown(item)
                settings[str(name)] = value
            case _:
                raise Unknown(item)
    return settings


def _items(given: Any) -> Iterable[Any]:
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (list, tuple)):
        return list(given)
    raise Unknown(given)


def merged(*layers: Settings) -> Settings:
    """All options: later layers replace earlier ones, and those the built-in ones."""
    result = dict(BUILT_IN)
    for layer in layers:
        result.update(layer)
    result["protect"] = {**PROTECT, **result["protect"]}
    return result


def dependency_ms(settings: Settings) -> int | None:
    """Milliseconds that the component lives without a control; None means forever."""
    value = settings["dependency"]
    wait = value[0] if isinstance(value, tuple) else value
    return wait if isinstance(wait, int) else None


def dependency_node(settings: Settings) -> str | None:
    """The node whose control an autostarted component connects to, or None."""
    value = settings["dependency"]
    return value[1] if isinstance(value, tuple) else None


def _is_ms(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_dependency(value: Any) -> bool:
    match value:
        case (wait, str()):
            return _is_ms(wait) or wait == "infinity"
    return _is_ms(value) or value == "infinity"


def _is_overload(value: Any) -> bool:
    match value:
        case None:
            return True
        case (load, wait):
            return _is_function(load) and (_is_ms(wait) or wait == "infinity")
        case (load, wait, init, remove):
            return _is_overload((load, wait)) and _is_call(init) and _is_call(remove)
    return _is_ms(value)


def _is_function(value: Any) -> bool:
    return callable(value) or (isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, str) for x in value))


def _is_call(value: Any) -> bool:
    """``(module, function, arguments)``, or None."""
    match value:
        case None | Atom("void"):
            return True
        case (str(), str(), list()):
            return True
    return False


def _is_protect(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name in PROTECT and (limit is None or _is_ms(limit)) for name, limit in value.items()
    )


def _is_limits(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= {"ms", "limit", "rate", "lost"}:
        return False
    rate = value.get("rate")
    numbers = [limit for name, limit in value.items() if name != "rate"]
    return all(map(_is_ms, numbers)) and (
        rate is None or _is_ms(rate) or (isinstance(rate, tuple) and all(map(_is_ms, rate)))
    )


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "limits": _is_limits,
    "dependency": _is_dependency,
    "overload": _is_overload,
    "protect": _is_protect,
    "resume_after": lambda value: value is None or _is_ms(value),
}
