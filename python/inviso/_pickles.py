"""Tokens of sequential tracing between the operating system processes of ``multiprocessing``: they stand behind the pickles, where
whoever only unpickles does not look.

In place while tokens are in use. A child takes part if tokens are in use where it is started.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from . import _native
from ._seq_nodes import reject, told

# what the thread that is starting a process gives it along, for the child of a fork
_starting = threading.local()

# what was in the place of ours
_originals: list[tuple[type, str, Any]] = []

_END = b"\x00inviso seq_trace 1\x00"
_LENGTH = 4


def install_pickler(module: Any) -> None:
    """Takes what ``multiprocessing`` pickles with (the module ``multiprocessing.reduction``)."""
    pickler = module.ForkingPickler
    dump, load = pickler.__dict__["dumps"].__func__, pickler.loads

    @functools.wraps(dump)
    def dumps(cls: Any, obj: Any, protocol: Any = None) -> Any:
        pickle = dump(cls, obj, protocol)
        token = _native.seq_depart(obj)
        if token is None:
            return pickle
        return memoryview(b"".join((pickle, token, len(token).to_bytes(_LENGTH, "big"), _END)))

    @functools.wraps(load)
    def loads(data: Any, /, **options: Any) -> Any:
        obj = load(data, **options)
        if not _native.seq_arrive(_behind(data), obj):
            reject()
        return obj

    _put(pickler, "dumps", classmethod(dumps))
    _put(pickler, "loads", staticmethod(loads))


def install_start(module: Any) -> None:
    """Takes the starting of processes (the module ``multiprocessing.process``)."""
    original = module.BaseProcess.start

    @functools.wraps(original)
    def start(self: Any) -> None:
        started = _native.seq_start(self)
        if started is None:
            return original(self)  # type: ignore[no-any-return]
        token, sending = started
        _starting.token = token
        self._inviso = _Arrival(token)
        try:
            with told(sending):
                original(self)
        finally:
            _starting.token = None
            self.__dict__.pop("_inviso", None)

    _put(module.BaseProcess, "start", start)


def remove() -> None:
    """Gives everything back."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)


def forked() -> None:
    """In the child of a fork: takes what the parent gave along."""
    token = getattr(_starting, "token", None)
    _starting.token = None
    if token is not None:
        _arrive(token)


def _put(owner: type, name: str, value: Any) -> None:
    _originals.append((owner, name, owner.__dict__[name]))
    setattr(owner, name, value)


def _behind(data: Any) -> bytes | None:
    """The token behind a pickle."""
    view = memoryview(data)
    end = view.nbytes - len(_END)
    if end < _LENGTH or view[end:] != _END:
        return None
    at = end - _LENGTH
    size = int.from_bytes(view[at:end], "big")
    return bytes(view[at - size : at]) if size <= at else b""


class _Arrival:
    """Goes along with a process object to the child, where it sets the token of the main thread."""

    def __init__(self, token: bytes) -> None:
        self.token = token

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.token,)


def _arrive(token: bytes) -> None:
    _native.seq_started(token)
