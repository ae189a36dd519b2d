"""An ASGI application that sends a task for each request, which carries the request's token."""

import os

from inviso.propagate.asgi import Middleware
from shop_tasks import pack


def order(number):
    return pack.delay(number).id


async def serve(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = f"{os.getpid()} {order(int(scope['query_string']))}".encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


application = Middleware(serve)
