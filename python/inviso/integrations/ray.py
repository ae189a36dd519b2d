"""Ray: workers can be traced from outside, and tasks and calls of actors carry tokens of sequential tracing. ::

    from inviso.integrations.ray import SETUP, carries

    ray.init(runtime_env={"worker_process_setup_hook": SETUP})     # each worker listens, later ones too

    @ray.remote
    @carries                                                       # a function, or a class of actors
    def work(order): ...

A worker is the node ``ray-PID``. A call of ``work.remote(...)`` sends a message, which the task receives. The task has
the token while it runs; then its worker's thread has its own token again. Tasks of Ray have no headers, so the token is
an argument ``_inviso_seq_trace``, which the function itself does not get. Results carry no token, as Ray stores only
the values of objects.
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
    """Ray's hook of this name: called in a worker's process before its first task.

    >>> from inviso import runtime
    >>> runtime.stop_listening()
    >>> setup()
    >>> runtime.listening().node.startswith("ray-")
    True
    >>> runtime.stop_listening()
    """
    listen("ray")


def carries(target: Any) -> Any:
    """Makes calls of a function, or of a class's methods, carry the caller's token. Write it below ``@ray.remote``.

    Static methods, class methods, and methods with two underscores such as ``__init__`` don't change.

    Args:
        target: a function (also a generator, coroutine or asynchronous generator), or a class.

    Returns:
        A function around it; for a class a subclass of the same name.

    Raises:
        BadArg: it is neither a function nor a class, or it is a result of ``ray.remote``.

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
    """The function that Ray calls to submit a task, around its own."""

    def sends(arguments: Any, options: Any) -> Any:
        headers: dict[str, str] = inject({})
        token = headers.get(HEADER)
        return submit(arguments, options if token is None else {**options, _ARGUMENT: token})

    return sends


def _taking(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same kind, with the same attributes. For Ray it has one more argument."""
    if hasattr(function, "_inviso"):  # inherited from a class that carries tokens
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
    if token is None:  # a call in this process, or by a caller without a token
        yield
        return
    with apart():
        take([token], "clear")
        yield
