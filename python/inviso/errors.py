"""Errors of the package. Their texts have the place, the mistake and the remedy."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeGuard

__all__ = ["BadArg", "SystemLimit"]


class BadArg(ValueError):
    """An argument was wrong; nothing has changed (Erlang's ``badarg``).

    Attributes:
        function: the function with OTP's name for it, such as ``"function/4"``.
        argument: the argument's name, such as ``"flags"``.
        why: the mistake and the remedy.

    >>> str(BadArg("function/4", "flags", "unknown flag 'loco'; did you mean 'local'?"))
    "function/4, flags: unknown flag 'loco'; did you mean 'local'?"
    """

    def __init__(self, function: str, argument: str, why: str) -> None:
        super().__init__(f"{function}, {argument}: {why}")
        self.function = function
        self.argument = argument
        self.why = why

    def __reduce__(self) -> tuple[type[BadArg], tuple[str, str, str]]:
        return type(self), (self.function, self.argument, self.why)


class SystemLimit(RuntimeError):
    """A limit of the implementation was reached (Erlang's ``system_limit``).

    >>> raise SystemLimit("session_create/3: too many sessions")
    Traceback (most recent call last):
    ...
    inviso.errors.SystemLimit: session_create/3: too many sessions
    """


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a str without lone surrogates. ``os.fsdecode`` makes those of bytes that are not UTF-8.

    >>> is_text("a"), is_text("\\udc80"), is_text(b"a")
    (True, False, False)
    """
    try:
        return isinstance(value, str) and str.encode(value) is not None
    except UnicodeEncodeError:
        return False


def shown(value: object) -> str:
    """A value for an error's text: the beginning of its ``repr``.

    If the ``repr`` fails, or nests too deep, that is not the caller's mistake: ``object``'s ``repr`` is used. It is
    used for a socket, too, whose own ``repr`` makes calls that sessions would trace.

    >>> shown("a"), shown(10**5000).partition(" at ")[0], shown([0] * 1000)[-8:]
    ("'a'", '<int object', ', 0, 0 …')
    """
    try:
        text = object.__repr__(value) if _asks(type(value)) else repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


_SHOWN = 500


_ASKING = (("_socket", "socket"), ("asyncio.trsock", "TransportSocket"))


def _asks(kind: type) -> bool:
    return any(getattr(sys.modules.get(module), name, None) in kind.__mro__ for module, name in _ASKING)


_EXTRAS = {"opentelemetry": "otel", "pyarrow": "arrow", "textual": "top", "zenoh": "cluster"}
"""The extra of this package that installs another package."""


def missing(package: str) -> str:
    """The error text for a package that is not installed, and that only some functions need.

    >>> missing("pyarrow"), missing("polars")
    ("pyarrow is missing: pip install 'inviso[arrow]'", 'polars is missing: pip install polars')
    """
    extra = _EXTRAS.get(package)
    return f"{package} is missing: pip install " + (f"'inviso[{extra}]'" if extra else package)


def needed(name: str) -> Any:
    """Imports a module of another package.

    Raises:
        ModuleNotFoundError: it is not installed; the text is one line with the command that installs it.

    >>> needed("json.decoder").JSONDecoder.__name__
    'JSONDecoder'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing((error.name or name).partition(".")[0]), name=error.name) from None


def check_timeout(function: str, timeout: object) -> None:
    """Refuses a timeout that is neither None nor a number of seconds. A negative number means no wait."""
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and (not number or timeout != timeout):
        raise BadArg(function, "timeout", f"{shown(timeout)} is not a number of seconds; pass an int or float, or None")
