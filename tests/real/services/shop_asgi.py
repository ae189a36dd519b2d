"""An ASGI application that sends a task for each request, which carries the request's token."""

import os

from inviso.propagate.asgi import Middleware
from shop_tasks import pack


def order(number):
    pack.delay(number)


async def serve(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    order(int(scope["query_string"]))
    body = str(os.getpid()).encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


application = Middleware(serve)
