"""Logs, read and merged."""

from collections.abc import Callable
from typing import Any, final

__all__ = ["LogMerge", "LogReader", "connect", "stats", "write"]

@final
class LogReader:
    def __new__(
        cls,
        logs: list[tuple[str, str | None]],
        follow: bool,
        merge: bool,
        drop: Callable[[int], object],
        damage: Callable[[int, str, str, Any], object],
    ) -> LogReader: ...
    def batch(self, n: int) -> list[Any] | None: ...
    def close(self) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def other_clock(self) -> int: ...

def connect(
    host: str,
    port: int,
    seconds: float,
    drop: Callable[[int], object],
    damage: Callable[[int, str, str, Any], object],
) -> LogReader: ...
def write(
    logs: list[tuple[str, str | None]], merge: bool, out: str, blocks: bool
) -> tuple[int, int, list[tuple[int, str, str, Any]], int, int]: ...

@final
class LogMerge:
    def __new__(
        cls,
        logs: list[tuple[str | None, list[tuple[str, str | None]], list[str]]],
        merge: bool,
        follow: bool,
        order: str,
        named: bool,
        drop: Callable[[int], object],
        damage: Callable[[int, str, str, Any], object],
        shifts: list[list[tuple[int, int]]] = ...,
        causal: bool = ...,
    ) -> LogMerge: ...
    def text(self, form: str, colour: bool, n: int) -> bytes | None: ...
    def write_text(self, out: str, form: str) -> None: ...
    def write(self, out: str, blocks: bool) -> None: ...
    def batch(self, n: int) -> list[tuple[int, list[Any], Any, Any]] | None: ...
    def told(
        self,
    ) -> tuple[
        list[tuple[int, int, int]],
        list[tuple[int, tuple[int, str, str, Any]]],
        int,
        list[tuple[int, int]],
        list[tuple[int, int, int, list[tuple[int, int]]]],
        int,
    ]: ...
    def write_ti(self, out: str) -> int: ...
    def close(self) -> None: ...

def stats(
    logs: list[tuple[str, str | None]],
) -> tuple[
    tuple[int, int, int, int, int, int, int],
    list[tuple[str, int]],
    list[tuple[tuple[str, str, int], int]],
    list[tuple[Any, int]],
    list[tuple[int, str, str, Any]],
    str | None,
    int | None,
    int | None,
]: ...
