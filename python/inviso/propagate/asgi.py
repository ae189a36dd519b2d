"""Middleware for ASGI applications: the handler gets the request's token, and the response carries it back.

>>> import asyncio
>>> from inviso import seq_trace
>>> async def application(scope, receive, send):
...     await send({"type": "http.response.start", "status": 200, "headers": []})
>>> async def send(message):
...     print(message["headers"])
>>> asyncio.run(Middleware(application)({"type": "http", "headers": []}, None, send))
[]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import nullcontext
from typing import Any

from inviso.seq._nodes import HEADER, apart, current, others, take

from ._needs import check_application

__all__ = ["Middleware"]

_NAME = HEADER.encode()
_REPLIES = ("http.response.start", "websocket.accept", "websocket.http.response.start")

_Message = MutableMapping[str, Any]
_Application = Callable[[_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Any]


class Middleware:
    """An ASGI application around another one.

    The serving task has the request's token while the application runs, and its own afterwards. The response has at
    most one such header, with the handler's token; a header that the application copied from another service is
    removed. The send event comes before the server gets the response; if the server raises, the message has no
    receiver. For a websocket the opening request and its acceptance carry a token; later messages don't.

    Args:
        application: the inner application.

    Raises:
        BadArg: the application is not callable.

    >>> Middleware(print).application is print
    True
    """

    def __init__(self, application: _Application) -> None:
        check_application(application)
        self.application = application

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return

        async def answered(message: _Message) -> None:
            if message["type"] not in _REPLIES:
                await send(message)
                return
            headers = others(message.get("headers") or ())
            with current() if carried else nullcontext() as reply:
                if reply is not None:
                    headers.append((_NAME, reply.encode("ascii")))
            # the event is emitted already: the server sends here, and its receiver may be faster than this task
            await send({**message, "headers": headers})

        with apart():
            carried = take([value for name, value in scope.get("headers", ()) if name.lower() == _NAME], "clear")
            await self.application(scope, receive, answered)
