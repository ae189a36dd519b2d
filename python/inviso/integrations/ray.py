"""Ray: workers can be traced from outside, and tasks and calls of actors carry tokens of sequential tracing. ::

    from inviso.integrations.ray import SETUP, carries

    ray.init(runtime_env={"worker_process_setup_hook": SETUP})     # each worker listens, also one that is started later

    @ray.remote
    @carries                                                       # a function, or a class of actors
    def work(order): ...

A worker is the node ``ray-PID``. To call ``work.remote(...)`` is to send a message, which the task receives: it has the
token while it runs, and its worker's thread has its own again afterwards. Ray has no headers of a task, so the token is
an argument ``_inviso_seq_trace``, which the function itself does not get. Results carry none: of an object Ray keeps
its value only.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import update_wrapper
from typing import Any

from inviso.seq._nodes import HEADER, apart, inject, take

from ..errors import BadArg, shown
from ._listening import listen

__all__ = ["SETUP", "carries", "setup"]

SETUP = "inviso.integrations.ray.setup"
"""The name of :func:`setup`, for ``ray.init(runtime_env={"worker_process_setup_hook": SETUP})``."""

_ARGUMENT = "_inviso_seq_trace"


def setup() -> None:
    """The hook of this name: called in a worker's process before its first task.

    >>> from inviso import runtime
    >>> runtime.stop_listening()
    >>> setup()
    >>> runtime.listening().node.startswith("ray-")
    True
    >>> runtime.stop_listening()
    """
    listen("ray")


def carries(target: Any) -> Any:
    """Below ``@ray.remote``: a function whose calls carry the caller's token, or a class whose methods' calls do.

    Static methods, class methods and those with two underscores, ``__init__`` too, stay as they are.

    Args:
        target: a function, also a generator or a method that is a coroutine or an asynchronous generator; or a class.

    Returns:
        A function around it; of a class one derived from it, of the same name.

    Raises:
        BadArg: it is neither, or what ``ray.remote`` has made.

    >>> @carries
    ... def work(order):
    ...     return order
    >>> work(7)
    7
    """
    if inspect.isclass(target):
        methods = {name: inspect.getattr_static(target, name) for name in dir(target) if not name.startswith("__")}
        names = {name: getattr(target, name) for name in ("__module__", "__qualname__", "__doc__")}
        names |= {name: _taking(method) for name, method in methods.items() if inspect.isfunction(method)}
        return types.new_class(target.__name__, (target,), exec_body=lambda body: body.update(names))
    if not inspect.isfunction(target):
        why = f"{shown(target)} is neither a function nor a class; put @carries below @ray.remote"
        raise BadArg("carries/1", "target", why)
    return _taking(target)


def _sending(submit: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """What Ray calls in place of its own submitting of a task."""

    def sends(arguments: Any, options: Any) -> Any:
        headers: dict[str, str] = inject({})
        token = headers.get(HEADER)
        return submit(arguments, options if token is None else {**options, _ARGUMENT: token})

    return sends


def _taking(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same kind and attributes, which has one argument more for Ray."""
    if hasattr(function, "_inviso"):  # inherited
        return function
    made: Any = update_wrapper(_around(function), function)
    del made.__wrapped__  # Ray asks the innermost function for arguments and attributes
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    place = len(parameters) - (bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    parameters.insert(place, inspect.Parameter(_ARGUMENT, inspect.Parameter.KEYWORD_ONLY, default=None))
    made.__signature__ = signature.replace(parameters=parameters)
    made.__ray_invocation_decorator__ = _sending
    made._inviso = True
    return made  # type: ignore[no-any-return]


def _around(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        async def waits(*arguments: Any, _inviso_seq_trace: Any = None, **options: Any) -> Any:
            with _received(_inviso_seq_trace):
                return await function(*arguments, **options)

        return waits
    if inspect.isasyncgenfunction(function):

        async def yields_later(*arguments: Any, _inviso_seq_trace: Any = None, **options: Any) -> Any:
            with _received(_inviso_seq_trace):
                async with aclosing(function(*arguments, **options)) as items:
                    async for item in items:
                        yield item

        return yields_later
    if inspect.isgeneratorfunction(function):

        def yields(*arguments: Any, _inviso_seq_trace: Any = None, **options: Any) -> Any:
            with _received(_inviso_seq_trace):
                return (yield from function(*arguments, **options))

        return yields

    def calls(*arguments: Any, _inviso_seq_trace: Any = None, **options: Any) -> Any:
        with _received(_inviso_seq_trace):
            return function(*arguments, **options)

    return calls


@contextmanager
def _received(token: Any) -> Iterator[None]:
    if token is None:  # a call in this process, or by one that has no token
        yield
        return
    with apart():
        take([token], "clear")
        yield
