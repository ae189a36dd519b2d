"""The one function of Erlang's own module ``erlang`` that the fixture module calls."""

from __future__ import annotations

from typing import Any

from tests.conformance.fixtures import overloaded

__all__ = ["make_tuple"]


@overloaded
def make_tuple(arity: int, value: Any, positions: list[tuple[int, Any]]) -> tuple[Any, ...]:
    """A tuple of one value, with other values at some positions (from 1)."""
    elements = [value] * arity
    for position, other in positions:
        elements[position - 1] = other
    return tuple(elements)


@overloaded  # type: ignore[no-redef]
def make_tuple(arity: int, value: Any) -> tuple[Any, ...]:  # noqa: F811
    """A tuple of one value."""
    return (value,) * arity
