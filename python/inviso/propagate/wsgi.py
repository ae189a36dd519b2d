"""Middleware for WSGI applications: a request's token is the handler's, and the response carries it back.

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
    """A WSGI application around another one. The thread that serves has the request's token while the application runs, and its own
    before, between the parts of the body, and afterwards. A body that is a file, or what the server's ``wsgi.file_wrapper`` made, goes
    to the server as it is, which sends it by its own means: what reads it has no token. The response has one header at most, the
    handler's token; one that comes with a response of another service is left out.

    Args:
        application: the application within.

    Raises:
        BadArg: it can't be called.

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
    """Whether a server may look for such a body, to send it without asking for its parts."""
    wrapper = environ.get("wsgi.file_wrapper")
    return (isinstance(wrapper, type) and isinstance(body, wrapper)) or type(body).__module__ == "_io"


class _Request:
    """The token of a request, while the thread that serves it has it, and while it hasn't."""

    __slots__ = ("_aside", "carried")

    def __init__(self) -> None:
        self.carried = False
        self._aside: _native.SeqAside | None = None

    def __enter__(self) -> None:
        self._aside = _native.seq_exchange(self._aside)

    def __exit__(self, *_: object) -> None:
        self._aside = _native.seq_exchange(self._aside)


class _Body:
    """A body, each part of which is made with the request's token."""

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
