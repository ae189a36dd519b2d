"""Labels of tokens that stand for a span of OpenTelemetry: the text of a ``traceparent`` header."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Link", "label_of", "span_of"]

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class Link(NamedTuple):
    """A span: its trace and its number."""

    trace: int
    span: int


def label_of(trace: int, span: int, flags: int = 1) -> str:
    """The label that stands for a span.

    >>> label_of(1, 2)
    '00-00000000000000000000000000000001-0000000000000002-01'
    """
    return f"00-{trace:032x}-{span:016x}-{flags:02x}"


def span_of(label: object) -> Link | None:
    """The span for which a label stands; None for any other label.

    >>> span_of(label_of(1, 2)), span_of("order 7")
    (Link(trace=1, span=2), None)
    """
    found = _TRACEPARENT.fullmatch(label) if isinstance(label, str) else None
    link = Link(int(found[1], 16), int(found[2], 16)) if found else None
    return link if link and link.trace and link.span else None
