"""Middleware for WSGI applications: the handler gets the request's token, and the response carries it back.

>>> from inviso import seq_trace
>>> def application(environ, start_response):
...     start_response("200 OK", [("content-type", "text/plain")])
...     return [repr(seq_trace.get_token("label")).encode()]
>>> _ = seq_trace.set_token("label", "order 7")
>>> environ = {"HTTP_INVISO_SEQ_TRACE": seq_trace.inject({})["inviso-seq-trace"]}
>>> _ = seq_trace.set_token(None)
>>> b"".join(Middleware(application)(environ, lambda status, headers, exc_info=None: None)), seq_trace.get_token()
(b"('label', 'order 7')", None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

from inviso.seq._nodes import HEADER, current, others, take

from .. import _native
from ._needs import check_application

__all__ = ["Middleware"]

_VARIABLE = "HTTP_" + HEADER.upper().replace("-", "_")


class Middleware:
    """A WSGI application around another one.

    The serving thread has the request's token while the application runs. It has its own token before, between the
    parts of the body, and afterwards. A body that is a file, or a result of the server's ``wsgi.file_wrapper``, is
    passed to the server unchanged: the server sends it by its own means, and reads it without the token. The response
    has at most one such header, with the handler's token; a header that the application copied from another service is
    removed.

    Args:
        application: the inner application.

    Raises:
        BadArg: the application is not callable.

    >>> Middleware(lambda environ, start_response: [b"hello"])({}, None)[0]
    b'hello'
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        check_application(application)
        self.application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = _Request()
        value = environ.get(_VARIABLE)

        def started(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers = others(headers)
            with current() if request.carried else nullcontext() as reply:
                if reply is not None:
                    headers.append((HEADER, reply))
                return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        with request:
            request.carried = take([] if value is None else [value], "clear")
            body = self.application(environ, started)
        if (isinstance(body, (list, tuple)) and not hasattr(body, "close")) or _is_file(body, environ):
            return body
        return _Body(body, request)


def _is_file(body: Any, environ: dict[str, Any]) -> bool:
    """Whether a server may recognize such a body, and send it without iterating over it."""
    wrapper = environ.get("wsgi.file_wrapper")
    return (isinstance(wrapper, type) and isinstance(body, wrapper)) or type(body).__module__ == "_io"


class _Request:
    """Swaps the token of a request with the serving thread's own: inside the ``with`` block the thread has the
    request's.
    """

    __slots__ = ("_aside", "carried")

    def __init__(self) -> None:
        self.carried = False
        self._aside: _native.seq.SeqAside | None = None

    def __enter__(self) -> None:
        self._aside = _native.seq.exchange(self._aside)

    def __exit__(self, *_: object) -> None:
        self._aside = _native.seq.exchange(self._aside)


class _Body:
    """A body whose parts are made with the request's token."""

    def __init__(self, body: Iterable[bytes], request: _Request) -> None:
        self._body = body
        self._parts: Iterator[bytes] | None = None
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._request:
            if self._parts is None:
                self._parts = iter(self._body)
            return next(self._parts)

    def close(self) -> None:
        close = getattr(self._body, "close", None)
        if close is not None:
            with self._request:
                close()
