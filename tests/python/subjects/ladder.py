"""Three functions, each of which calls the one below."""

from __future__ import annotations


def bottom(n: int) -> int:
    return n


def middle(n: int) -> int:
    return bottom(n)


def top(n: int) -> int:
    return middle(n)
