"""Shared by the tests of meta tracing: a component in this process, a program that it watches, and a reader of ti
files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inviso import etf
from inviso.runtime._component import Component
from inviso.runtime._resolver import Resolver


class Runtime:
    """A runtime component without a listener: its requests, and its events."""

    def __init__(self, folder: Path, resolver: Resolver | None = None, **settings: Any) -> None:
        self.folder = folder
        self.events: list[Any] = []
        self.component = Component("tag", settings, self.events.append, resolver or Resolver())

    @property
    def ti(self) -> Path:
        return self.folder / "t.ti"

    def ask(self, request: str, *arguments: Any) -> Any:
        return self.component.call(request, arguments)

    def begin(self, spec: Any = None, *, log: bool = False) -> Any:
        """Begins tracing with a meta tracer, and with a log if that is asked for."""
        part: Any = ("file", str(self.ti)) if spec is None else ("file", str(self.ti), spec)
        both = [("trace", ("file", str(self.folder / "t.log")))] if log else []
        return self.ask("init_tracing", [*both, ("ti", part)])

    def settle(self) -> dict[str, Any]:
        """The status, after all earlier calls and a check of the names."""
        tracer = self.component._meta
        assert tracer is not None
        tracer._request(tracer._names.look)
        return tracer.status()

    @property
    def data(self) -> Any:
        """The public loop data, after all earlier calls."""
        tracer = self.component._meta
        assert tracer is not None
        return tracer._request(lambda: tracer._data)

    def entries(self) -> list[Any]:
        """The messages of the ti file."""
        if self.component._meta is not None:
            self.settle()
        return entries(self.ti)

    def patterns(self, function: Any) -> Any:
        """The meta match specification of a function; False for none."""
        tracer = self.component._meta
        assert tracer is not None
        return tracer._session.info(mfa(function), "meta_match_spec")[1]


def mfa(function: Any) -> tuple[str, str, int]:
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return function.__module__, function.__qualname__, parameters


def entries(path: str | os.PathLike[str]) -> list[Any]:
    """The terms of a ti file, read by its definition."""
    data, found = Path(path).read_bytes(), []
    while data:
        assert data[0] == 0
        length = int.from_bytes(data[1:5])
        assert len(data) >= 5 + length
        found.append(etf.loads(data[5 : 5 + length]))
        data = data[5 + length :]
    return found


def aliases(found: list[Any], word: type) -> list[Any]:
    """Entries of registered names (``inviso.Atom``) or of threads and tasks (``str``), without their times."""
    return [entry[:3] for entry in found if type(entry[1]) is word]


def record(seen: list[Any], output: Any = None) -> Callable[..., Any]:
    """A call-back that notes its arguments except the loop data, and counts in the loop data."""

    def callback(*arguments: Any) -> Any:
        seen.append(arguments[:-1])
        return "ok", (*arguments[-1][:1], arguments[-1][1] + [len(seen)]), output

    return callback


# the functions with meta tracing


def assoc_id(pid: Any, reference: Any) -> Any:
    return reference


def work(a: int, b: int = 0) -> int:
    if a < 0:
        raise ValueError("less than nothing")
    return a + b


def other() -> str:
    return "done"


def on() -> None:
    pass


def off() -> None:
    pass


# call-backs by name


def named_call(pid: Any, what: Any, data: Any) -> Any:
    return "ok", data, etf.dumps(("named", what[1]))
