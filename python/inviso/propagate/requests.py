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
    """A transport adapter around another one, by which each request carries the caller's token, and the caller takes that of the
    response, also where an authentication repeats it. For everything else it is the one within: its attributes are that one's, and so is its class to ``isinstance``.

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
        if name == "adapter":  # not made yet
            raise AttributeError(name)
        return getattr(self.adapter, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.adapter, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.adapter, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Adapter, (self.adapter,)

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Sends the request by the adapter within."""
        inject(request.headers)
        response = self.adapter.send(request, *args, **options)
        if getattr(response, "connection", None) is self.adapter:
            response.connection = self  # type: ignore[assignment]  # an answer to a challenge goes by it
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

    Raises:
        BadArg: it is none.

    >>> import requests
    >>> type(attach(requests.Session()).get_adapter("https://example.org")).__name__
    'Adapter'
    """
    check_client("session", session, Session)
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, Adapter):
            session.mount(prefix, Adapter(adapter))
    return session
