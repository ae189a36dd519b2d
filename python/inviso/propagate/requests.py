"""Tokens with each request of a ``requests`` session, and with its response."""

from __future__ import annotations

from typing import Any, TypeVar

from inviso.seq._nodes import HEADER, extract, inject

from ._needs import check_client, needs

with needs("requests"):
    from requests import PreparedRequest, Response, Session
    from requests.adapters import BaseAdapter

__all__ = ["Adapter", "attach"]

_Session = TypeVar("_Session", bound=Session)


class Adapter(BaseAdapter):
    """A transport adapter around another one.

    Each request carries the caller's token, and the caller takes the response's token, also if authentication repeats
    the request. In all else it acts as the inner adapter: it has its attributes, and its class for ``isinstance``.

    >>> from requests.adapters import HTTPAdapter
    >>> adapter = Adapter(HTTPAdapter(max_retries=3))
    >>> isinstance(adapter, HTTPAdapter), adapter.max_retries.total
    (True, 3)
    """

    adapter: BaseAdapter

    def __init__(self, adapter: BaseAdapter) -> None:
        object.__setattr__(self, "adapter", adapter)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.adapter)

    def __getattr__(self, name: str) -> Any:
        if name == "adapter":  # not set yet
            raise AttributeError(name)
        return getattr(self.adapter, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.adapter, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.adapter, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Adapter, (self.adapter,)

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Sends the request by the inner adapter."""
        inject(request.headers)
        response = self.adapter.send(request, *args, **options)
        if getattr(response, "connection", None) is self.adapter:
            response.connection = self  # type: ignore[assignment]  # it also sends answers to challenges
        if HEADER in request.headers:
            extract(response.headers, without="keep")
        return response

    def close(self) -> None:
        """Closes the inner adapter."""
        self.adapter.close()


def attach(session: _Session) -> _Session:
    """Makes each request of a session carry the caller's token: wraps the adapters that it has now.

    Returns:
        The session.

    Raises:
        BadArg: it is not a session.

    >>> import requests
    >>> type(attach(requests.Session()).get_adapter("https://example.org")).__name__
    'Adapter'
    """
    check_client("session", session, Session)
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, Adapter):
            session.mount(prefix, Adapter(adapter))
    return session
