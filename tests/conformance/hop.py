"""Calls of ``fx`` from a module that is not ``fx``: global calls, see ``fixtures.ThroughModule``."""

from __future__ import annotations

from typing import Any

from tests.conformance.fixtures import load

__all__ = ["id"]

fx = load("fx")


def id(x: Any) -> Any:
    """``fx:id(X)`` as a global call."""
    return fx.id(x)
