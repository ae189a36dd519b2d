"""What the package needs of the interpreter and its process."""

from collections.abc import Callable
from types import CodeType
from typing import Any, final

__all__ = [
    "LoopProbe",
    "after_fork_in_child",
    "call_at_bottom",
    "call_soon",
    "cover",
    "descriptor_file",
    "descriptor_write",
    "event_loops",
    "facts",
    "fail_at",
    "is_ready",
    "take_builtin",
]

def descriptor_file(number: int) -> tuple[int, int] | None: ...
def descriptor_write(number: int, data: bytes) -> int: ...
def cover(name: str, module: Any) -> None: ...
def call_at_bottom(what: Callable[..., Any] | CodeType, arguments: tuple[Any, ...]) -> Any: ...
def take_builtin(
    function: Callable[..., Any],
    before: Callable[[tuple[Any, ...], dict[str, Any] | None], tuple[Any, ...] | None] | None,
    after: Callable[[tuple[Any, ...], Any], object] | None,
) -> None: ...
def after_fork_in_child() -> None: ...
def fail_at(code: CodeType) -> None: ...
def event_loops() -> list[Any]: ...

@final
class LoopProbe:
    def __new__(cls) -> LoopProbe: ...
    def __call__(self, *none: Any, **neither: Any) -> None: ...
    @property
    def came(self) -> bool: ...
    @property
    def waited(self) -> int:
        """Nanoseconds until the event loop called it, or since its creation if it has not been called."""

def facts() -> dict[str, Any]: ...
def is_ready() -> bool: ...
def call_soon(function: Callable[[bool], bool]) -> bool: ...
