"""The selection of ``--covered``: cases that use only what is built so far. Their steps show that."""

from __future__ import annotations

import json

from .cases import Case
from .specs import SpecCase

__all__ = ["covered"]

LATER = ("tracer_mod", "open_port")
"""Words of what other parts of the system bring: tracer modules, ports of Erlang's own."""


def covered(case: Case | SpecCase) -> bool:
    """Whether everything in a case belongs to what is built so far."""
    if isinstance(case, SpecCase):
        return True
    words = json.dumps(case.steps)
    return not any(f'"{word}"' in words for word in LATER)
