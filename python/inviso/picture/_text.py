"""Texts of pictures: names with any content, amounts with units, colours."""

from __future__ import annotations

import re

__all__ = ["COLOURS", "GROWTH", "STEPS", "amount", "clean", "group", "plural", "share"]

_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_END = re.compile("[.:/]")
_LONGEST = 300
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

COLOURS = ("#ffb207", "#807dff", "#56af6b", "#e5d575", "#c0d6ea", "#f3401e", "#b46cc0", "#888888")
"""Colours of groups of functions, largest group first; the last is for all other groups. They are Okabe and Ito's,
changed until people who lack one kind of cones can distinguish them, and dark text is readable on each.
tests/python/test_picture.py measures both.
"""
GROWTH = ("#5b9bd0", "#7fb3dc", "#a9cfe8", "#d3e6f1", "#e4e4e4", "#fddbc7", "#f6b597", "#ec8f74", "#e2706a")
"""Colours of a difference: from much less (blue) to much more (red), after ColorBrewer's RdBu."""


STEPS = (0.01, 0.05, 0.2, 0.5)
"""The relative changes from which on the further colours of ``GROWTH`` are used."""


def clean(value: object) -> str:
    """A name for HTML and XML: characters that they don't allow become U+FFFD, and a very long name is cut.

    >>> clean("a\\x00b"), clean(None), len(clean("x" * 1000))
    ('a\\ufffdb', '', 300)
    """
    text = "" if value is None else str(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    return text if text.isascii() and text.isprintable() else _BAD.sub("\ufffd", text)


def amount(value: float, unit: str) -> str:
    """A number with its unit. Times and sizes have a suitable unit, others their own.

    >>> amount(1_250_000, "ns"), amount(3 << 20, "bytes"), amount(1234, "calls"), amount(-1500, "ns")
    ('1.25 ms', '3 MiB', '1,234 calls', '-1.5 µs')
    """
    size = abs(value)
    for scale, name in _TIMES if unit == "ns" else _SIZES if unit == "bytes" else ():
        if size >= scale:
            return f"{short(value / scale)} {name}"
    return f"{short(value)} {unit}".rstrip()


def short(value: float) -> str:
    """A number with three digits, or more if it is large: 1.23, 12.3, 123, 1,234."""
    if value == int(value):
        return f"{int(value):,}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    """A part in percent.

    >>> share(1, 8), share(1, 0)
    ('12.5 %', '')
    """
    return f"{100 * part / whole:.1f} %" if whole else ""


def plural(count: int, one: str, many: str = "") -> str:
    """
    >>> plural(1, "call"), plural(2000, "call"), plural(2, "process", "processes")
    ('1 call', '2,000 calls', '2 processes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def group(name: str) -> str:
    """The package of a function, which decides its colour.

    >>> group("shop.db:query/2"), group("main")
    ('shop', 'main')
    """
    return _END.split(name, maxsplit=1)[0] or name
