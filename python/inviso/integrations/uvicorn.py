"""Uvicorn with several workers: each can be traced from outside. ::

    from inviso.integrations.uvicorn import Listening

    app = Listening(app, "shop")        # uvicorn --workers 4 shop:app

A worker is the node ``NAME-PID``. It listens from the lifespan's start, or, if lifespan is off, from the first request.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from inviso.propagate._needs import check_application

from ._listening import listen

__all__ = ["Listening"]


class Listening:
    """An ASGI application around another one. Its first call makes the process listen.

    Args:
        application: the inner application.
        service: the name of its processes.

    Raises:
        BadArg: the application is not callable.

    >>> import asyncio
    >>> from inviso import runtime
    >>> runtime.stop_listening()
    >>> async def application(scope, receive, send):
    ...     print(runtime.listening().node.startswith("shop-"))
    >>> asyncio.run(Listening(application, "shop")({"type": "lifespan"}, None, None))
    True
    >>> runtime.stop_listening()
    """

    def __init__(self, application: Callable[..., Awaitable[Any]], service: str = "uvicorn") -> None:
        check_application(application)
        self.application = application
        self._service = service
        self._process = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            listen(self._service)
        await self.application(scope, receive, send)
