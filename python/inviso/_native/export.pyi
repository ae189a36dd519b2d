"""Logs and messages in the formats of other tools, and in tables."""

from collections.abc import Callable
from typing import Any, final

from ..terms import Port
from .log import LogMerge
from .process import Pid

__all__ = ["ArrowRows", "Exporter", "table_stream"]

@final
class Exporter:
    def __new__(
        cls,
        format: str,
        names: dict[Pid | Port, str],
        threads: list[tuple[Pid, int]],
        own: tuple[int, str],
        programs: list[tuple[str, int, str]],
        is_log: bool,
        erlang: bool,
        most: int,
        temporary: str,
    ) -> Exporter: ...
    def open(self, path: str, suffix: str | None = None) -> None: ...
    def read(self) -> bool: ...
    def read_merged(self, logs: LogMerge) -> bool: ...
    def push(self, messages: list[Any]) -> None: ...
    def end(self) -> bool: ...
    def take(self) -> bytes: ...
    def summary(self) -> tuple[int, int, int, int, int, list[str]]: ...

@final
class ArrowRows:
    def __new__(
        cls,
        values: str,
        logs: list[tuple[str, str | None]],
        messages: tuple[Callable[[], list[Any] | None], Callable[[TypeError], Exception]] | None = None,
    ) -> ArrowRows: ...
    @staticmethod
    def analysis(
        table: str,
        logs: list[tuple[str, str | None]],
        messages: tuple[Callable[[], list[Any] | None], Callable[[TypeError], Exception]] | None,
        names: dict[Any, str],
        is_log: bool,
        erlang: bool,
        values: int,
        wall: int | None = None,
        label: str | None = None,
        of: int | None = None,
        shortest: int = 0,
    ) -> ArrowRows: ...
    def columns(self) -> list[str]: ...
    def tuples(self, most: int) -> list[tuple[Any, ...]]: ...
    def schema(self) -> object: ...
    def stream(self) -> object: ...
    def error(self) -> BaseException | None: ...
    def summary(self) -> tuple[int, int, int, int, int, list[str]]: ...

def table_stream(table: str, columns: list[list[Any]]) -> Any: ...
