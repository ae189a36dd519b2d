"""A node that serves HTTP behind the middleware: it returns each request's token, and all events at ``/output``."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any

import inviso
from inviso import seq_trace
from inviso.propagate import asgi, wsgi


def answer(path: str, collector: seq_trace.Collector) -> bytes:
    """The answer of both applications."""
    if path == "/output":
        seq_trace.set_token(None)
        return collector.output().to_json().encode()
    token = seq_trace.get_token()
    seq_trace.print("handled")
    return json.dumps(token and [token[1], [token[4], token[2]], token[3].node]).encode()


class Handler(BaseHTTPRequestHandler):
    """A server of WSGI that keeps connections: the thread of a connection serves all of its requests."""

    protocol_version = "HTTP/1.1"
    application: Any = None

    def do_GET(self) -> None:
        begun: list[Any] = []
        environ = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in self.headers.items()}
        body = type(self).application({**environ, "PATH_INFO": self.path}, lambda *said: begun.append(said))
        data = b"".join(body)
        if hasattr(body, "close"):
            body.close()
        assert seq_trace.get_token() is None, "left over after a request"
        status, headers = begun[0]
        self.send_response(int(status.split()[0]))
        for name, value in [*headers, ("content-length", str(len(data))), ("x-client", str(self.client_address[1]))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing."""


class Threads(ThreadingMixIn, HTTPServer):
    daemon_threads = True


def serve_wsgi(collector: seq_trace.Collector) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Any:
        body = answer(environ["PATH_INFO"], collector)
        start_response("200 OK", [("content-type", "application/json")])
        yield body

    Handler.application = staticmethod(wsgi.Middleware(application))
    server = Threads(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def serve_asgi(collector: seq_trace.Collector) -> None:
    import uvicorn

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = answer(scope["path"], collector)
        headers = [(b"content-length", b"%d" % len(body)), (b"x-client", b"%d" % scope["client"][1])]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(asgi.Middleware(application), log_level="error", lifespan="off", http="h11")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    inviso.set_node("server@here")
    with seq_trace.Collector() as kept:
        {"wsgi": serve_wsgi, "asgi": serve_asgi}[sys.argv[1]](kept)
