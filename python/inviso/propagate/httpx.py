"""Tokens with each request of an ``httpx`` client, and with its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from inviso.seq._nodes import HEADER, extract, inject

from ._needs import check_client, needs

with needs("httpx"):
    from httpx import AsyncClient, Client, Request, Response

__all__ = ["attach"]

_Client = TypeVar("_Client", Client, AsyncClient)


def attach(client: _Client) -> _Client:
    """Makes each request of a client carry the caller's token, and the caller take the response's token.

    Args:
        client: an ``httpx.Client`` or an ``httpx.AsyncClient``.

    Returns:
        The client.

    Raises:
        BadArg: it is not such a client.

    >>> import httpx
    >>> sorted(attach(httpx.Client()).event_hooks)
    ['request', 'response']
    """
    check_client("client", client, Client, AsyncClient)
    sends: Callable[..., Any] = _sends
    takes: Callable[..., Any] = _takes
    if isinstance(client, AsyncClient):
        sends, takes = _asends, _atakes
    hooks: dict[str, list[Callable[..., Any]]] = client.event_hooks
    if sends not in hooks["request"]:
        client.event_hooks = {"request": [*hooks["request"], sends], "response": [takes, *hooks["response"]]}
    return client


def _sends(request: Request) -> None:
    inject(request.headers)


def _takes(response: Response) -> None:
    if HEADER in response.request.headers:
        extract(response.headers, without="keep")


async def _asends(request: Request) -> None:
    _sends(request)


async def _atakes(response: Response) -> None:
    _takes(response)
