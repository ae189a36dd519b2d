"""Tokens with each request of a ``requests`` session, and with its response."""

from __future__ import annotations

from typing import Any, TypeVar

from .._seq_nodes import HEADER, extract, inject
from ._needs import needs

with needs("requests"):
    from requests import PreparedRequest, Response, Session
    from requests.adapters import BaseAdapter

__all__ = ["Adapter", "attach"]

_Session = TypeVar("_Session", bound=Session)


class Adapter(BaseAdapter):
    """A transport adapter around another one, by which each request carries the caller's token, and the caller takes that of the
    response.

    >>> from requests.adapters import HTTPAdapter
    >>> Adapter(HTTPAdapter()).close()
    """

    def __init__(self, adapter: BaseAdapter) -> None:
        super().__init__()
        self.adapter = adapter

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Sends the request by the adapter within."""
        inject(request.headers)
        response = self.adapter.send(request, *args, **options)
        if HEADER in request.headers:
            extract(response.headers, without="keep")
        return response

    def close(self) -> None:
        """Closes the adapter within."""
        self.adapter.close()


def attach(session: _Session) -> _Session:
    """Has each request of ``session`` carry the caller's token, with whatever adapters it has now.

    Returns:
        The session.

    >>> import requests
    >>> type(attach(requests.Session()).get_adapter("https://example.org")).__name__
    'Adapter'
    """
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, Adapter):
            session.mount(prefix, Adapter(adapter))
    return session
