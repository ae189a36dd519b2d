"""An ASGI application whose processes listen."""

import os

from inviso.integrations.uvicorn import Listening


def price(number):
    return number + 1


async def serve(scope, receive, send):
    if scope["type"] == "http":
        body = f"{os.getpid()} {price(int(scope['query_string']))}".encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    else:
        raise RuntimeError("no lifespan")


application = Listening(serve, "prices")
