"""Tokens of sequential tracing over HTTP, both ways: servers' middleware and clients' hooks.

* :mod:`inviso.propagate.wsgi`, :mod:`inviso.propagate.asgi`: middleware around any application.
* :mod:`inviso.propagate.httpx`, :mod:`inviso.propagate.requests`, :mod:`inviso.propagate.aiohttp`: hooks of a client. Each needs the
  package that it is named after.
* :mod:`inviso.propagate.opentelemetry`: a propagator beside others.

A request is a message to the server, and its response one back: the serials go through both, as through a call and its reply in
Erlang. A response carries a token only if its request did; one without a token, from a server that knows nothing of tokens, leaves
the caller's as it is. Whoever can send a request can set a token: put these where peers are trusted.
"""

__all__: list[str] = []
