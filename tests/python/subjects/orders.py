"""Orders that are packed: functions for workers in the tests of Dask and Ray, and their results."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

from inviso import seq_trace


def weigh(number: int) -> int:
    return 2 * number


def pack(number: int) -> tuple[int, int]:
    """Twice the number, and the process that has packed it."""
    seq_trace.print(number)
    return weigh(number), os.getpid()


async def pack_later(number: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return pack(number)


def pack_each(numbers: int) -> Iterator[int]:
    for number in range(numbers):
        yield pack(number)[0]


def load(packed: list[tuple[int, int]]) -> int:
    seq_trace.print("loaded")
    return sum(weight for weight, _ in packed)


def label(*_: Any) -> Any:
    """The label of the caller's token."""
    return (seq_trace.get_token("label") or (None, None))[1]


def refuse(number: int) -> None:
    seq_trace.print("refused")
    raise KeyError(number)


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Shelf:
    """The class of an actor."""

    def __init__(self, first: int = 0) -> None:
        self.total = first

    def put(self, number: int, *, times: int = 1) -> int:
        self.total += times * pack(number)[0]
        return self.total

    def each(self, numbers: int) -> Iterator[int]:
        yield from pack_each(numbers)

    @staticmethod
    def place() -> int:
        return os.getpid()


class Desk:
    """An actor whose methods are coroutines."""

    async def put(self, number: int) -> int:
        return (await pack_later(number))[0]

    async def each(self, numbers: int) -> AsyncIterator[int]:
        for number in range(numbers):
            yield await self.put(number)
