"""Tokens with each request of an ``aiohttp`` client session, and with its response."""

from __future__ import annotations

from types import SimpleNamespace

from inviso.seq._nodes import HEADER, extract, inject

from ._needs import needs

with needs("aiohttp"):
    from aiohttp import ClientSession, TraceConfig, TraceRequestEndParams, TraceRequestStartParams

__all__ = ["trace_config"]


def trace_config() -> TraceConfig:
    """A trace configuration for ``aiohttp.ClientSession(trace_configs=[trace_config()])``.

    Each request carries the caller's token, and the caller takes the response's token. Redirects carry the token of the
    first request.

    >>> len(trace_config().on_request_start)
    1
    """
    config = TraceConfig()
    config.on_request_start.append(_sends)
    config.on_request_end.append(_takes)
    return config


async def _sends(_: ClientSession, context: SimpleNamespace, request: TraceRequestStartParams) -> None:
    inject(request.headers)
    context.inviso_carried = HEADER in request.headers


async def _takes(_: ClientSession, context: SimpleNamespace, answer: TraceRequestEndParams) -> None:
    if context.inviso_carried:
        extract(answer.response.headers, without="keep")
