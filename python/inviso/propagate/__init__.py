"""Tokens of sequential tracing over HTTP, both ways: servers' middleware and clients' hooks.

* :mod:`inviso.propagate.wsgi`, :mod:`inviso.propagate.asgi`: middleware around any application.
* :mod:`inviso.propagate.httpx`, :mod:`inviso.propagate.requests`, :mod:`inviso.propagate.aiohttp`: hooks of a client.
  Each needs the package of its name.
* :mod:`inviso.propagate.opentelemetry`: a propagator beside others.

A request is a message to the server, and its response is a message back. Serials continue through both, as through a
call and its reply in Erlang. A response carries a token only if its request did. A response without a token, for
example from a server without this package, doesn't change the caller's token. Anyone who can send a request can set a
token: use these modules only between trusted peers.
"""

__all__: list[str] = []
