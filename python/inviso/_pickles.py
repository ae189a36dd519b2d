"""Carries message numbers and tokens of sequential tracing between the processes of ``multiprocessing``. They follow
the pickle, where a plain ``pickle.loads`` ignores them.

Installed while messages are traced or tokens are in use. A child takes part in tokens if they are in use in its parent
when it starts.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

from . import _native
from .seq._nodes import completed, reject

# the token of the thread that starts a process, for the child of a fork
_starting = threading.local()


class _Place:
    """An attribute of a library class, and our replacement, which calls the original.

    If the program has put its own replacement over ours, that stays when we leave, and so does ours below it, which
    then does nothing.
    """

    def __init__(self, owner: type, name: str, make: Callable[[_Place, Any], Any]) -> None:
        self.owner, self.name, self.active = owner, name, True
        self.original = owner.__dict__[name]
        self.ours = make(self, self.original)
        setattr(owner, name, self.ours)

    def is_on_top(self) -> bool:
        return self.owner.__dict__.get(self.name) is self.ours

    def idle(self) -> Any:
        """Called by our replacement after we have left. Removes it, if no other replacement is over it any more."""
        _places[:] = [place for place in _places if place.active or not place.leave()]
        return None

    def leave(self) -> bool:
        """Switches the replacement off, and restores the original if possible; returns whether it was possible."""
        self.active = False
        if self.is_on_top():
            setattr(self.owner, self.name, self.original)
            return True
        return False


_places: list[_Place] = []


def install_pickler(module: Any) -> None:
    """Replaces the pickler of ``multiprocessing`` (the module ``multiprocessing.reduction``)."""

    def make_dumps(place: _Place, original: Any) -> Any:
        function = original.__func__ if type(original) is classmethod else None  # the usual case, saves two calls

        @functools.wraps(getattr(original, "__func__", original))
        def dumps(cls: Any, obj: Any, protocol: Any = None) -> Any:
            try:
                pickle = function(cls, obj, protocol) if function else _bound(original, None, cls)(obj, protocol)
            except BaseException:
                if place.active:
                    _native.seq.pickle_failed(obj)
                raise
            behind = _native.seq.pickled(obj) if place.active else place.idle()
            return pickle if behind is None else memoryview(b"".join((pickle, behind)))

        return classmethod(dumps)

    def make_loads(place: _Place, original: Any) -> Any:
        function = original if type(original) is types.BuiltinFunctionType else None

        @functools.wraps(getattr(original, "__func__", original))
        def loads(data: Any, /, **options: Any) -> Any:
            obj = (function or _bound(original, None, module.ForkingPickler))(data, **options)
            is_ours = _native.seq.unpickled(data, obj) if place.active else place.idle()
            if is_ours is False:
                reject()
            return obj

        return staticmethod(loads)

    _put(module.ForkingPickler, "dumps", make_dumps)
    _put(module.ForkingPickler, "loads", make_loads)


def install_start(module: Any) -> None:
    """Replaces the start of processes (the module ``multiprocessing.process``)."""

    def make_start(place: _Place, original: Any) -> Any:
        @functools.wraps(original)
        def start(self: Any) -> None:
            started = _native.seq.start(self) if place.active else place.idle()
            if started is None:
                return _bound(original, self, type(self))()  # type: ignore[no-any-return]
            token, sending = started
            _starting.token = token
            self.__dict__["_inviso"] = _Arrival(token)
            try:
                with completed(sending):
                    _bound(original, self, type(self))()
            finally:
                _starting.token = None
                self.__dict__.pop("_inviso", None)

        return start

    _put(module.BaseProcess, "start", make_start)


def remove_pickler() -> None:
    """Restores the pickler, unless the program has put a replacement over ours."""
    _remove("dumps", "loads")


def remove_start() -> None:
    """Restores the start of processes in the same way."""
    _remove("start")


def _remove(*names: str) -> None:
    _places[:] = [place for place in _places if place.name not in names or not place.leave()]


def _put(owner: type, name: str, make: Callable[[_Place, Any], Any]) -> None:
    """Installs our replacement, or switches it on again if it is still there."""
    for place in _places:
        if place.owner is owner and place.name == name and place.is_on_top():
            place.active = True
            return
    _places.append(_Place(owner, name, make))


def _bound(attribute: Any, instance: Any, owner: type) -> Any:
    """Binds an attribute of a class to an instance, or to the class."""
    get = getattr(type(attribute), "__get__", None)
    return attribute if get is None else get(attribute, instance, owner)


def forked() -> None:
    """Takes the parent's token, in the child of a fork."""
    token = getattr(_starting, "token", None)
    _starting.token = None
    if token is not None:
        _arrive(token)


class _Arrival:
    """Is pickled with a process object. In the child it sets the token of the main thread."""

    def __init__(self, token: bytes) -> None:
        self.token = token

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.token,)


def _arrive(token: bytes) -> None:
    _native.seq.started(token)
