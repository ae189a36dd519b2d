"""Checks of options."""

from __future__ import annotations

from typing import Any

from inviso._pattern import bad
from inviso.errors import shown

__all__ = ["bad", "check_tree", "one_of", "rows", "seconds"]


def one_of(where: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Returns the value, if it is allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise bad(where, f"{shown(value)} is not known", f"use one of {', '.join(map(repr, allowed))}")
    return value


def rows(where: str, limit: object) -> None:
    """Refuses a limit that is neither None nor a number of rows."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise bad(where, f"{shown(limit)} is not a number of rows", "give an int from 1, or None for all")


def seconds(where: str, timeout: object) -> float | None:
    """Returns the time as a float, or None."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise bad(where, f"{shown(timeout)} is not a time", "give seconds above 0, or None for no limit")
    return float(timeout)


def check_tree(where: str, tree: object, kind: str) -> None:
    """Refuses a value that is not a bool, and a tree for a type that has no tree."""
    if not isinstance(tree, bool):
        raise bad(where, f"{shown(tree)} is neither True nor False", "give True to measure a call tree")
    if tree and kind == "call_count":
        raise bad(where, "call_count has no call tree", "give type='call_time' or type='call_memory'")
