"""``inviso.AsyncCluster``: the cluster for a program with an event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ._answers import Answers
from ._cluster import Cluster

__all__ = ["AsyncCluster"]

P = ParamSpec("P")
R = TypeVar("R")


class _Twin(Generic[P, R]):
    """A method of a cluster as a coroutine."""

    def __init__(self, method: Callable[Concatenate[Cluster, P], R]) -> None:
        self._method = method

    def __get__(self, cluster: AsyncCluster | None, kind: type) -> Callable[P, Awaitable[R]]:
        if cluster is None:  # read from the class, for documentation
            return self._method  # type: ignore[return-value]

        @functools.wraps(self._method)
        async def twin(*args: P.args, **named: P.kwargs) -> R:
            call = functools.partial(self._method, cluster._cluster, *args, **named)
            return await asyncio.get_running_loop().run_in_executor(cluster._thread, call)

        return twin


class AsyncCluster:
    """:class:`inviso.Cluster` with coroutines: other tasks run while a call waits for nodes.

    Arguments, answers and errors are those of :class:`inviso.Cluster`. One call runs at a time. A call that is
    cancelled after its start continues, and the next call waits for it.

    >>> async def main():
    ...     async with AsyncCluster("no-such-node-*") as cluster:
    ...         return len(await cluster.status())
    >>> asyncio.run(main())
    0
    """

    def __init__(self, *patterns: str, timeout: float = 5.0, tag: str = "cluster", options: Any = ()) -> None:
        self._cluster = Cluster(*patterns, timeout=timeout, tag=tag, options=options)
        self._thread = ThreadPoolExecutor(1, "inviso-cluster")

    @property
    def nodes(self) -> list[str]:
        """The names of the added nodes that live."""
        return self._cluster.nodes

    @property
    def refused(self) -> Answers:
        """The errors of nodes that match and could not be added."""
        return self._cluster.refused

    def events(self, function: Callable[[Any], object]) -> None:
        """Calls a function with each event, in a thread of the control, not in the event loop's thread."""
        self._cluster.events(function)

    add = _Twin(Cluster.add)
    status = _Twin(Cluster.status)
    trace = _Twin(Cluster.trace)
    patterns = _Twin(Cluster.patterns)
    flags = _Twin(Cluster.flags)
    messages = _Twin(Cluster.messages)
    tokens = _Twin(Cluster.tokens)
    count = _Twin(Cluster.count)
    counts = _Twin(Cluster.counts)
    stop = _Twin(Cluster.stop)
    fetch = _Twin(Cluster.fetch)
    merge = _Twin(Cluster.merge)
    logs = _Twin(Cluster.logs)
    leave = _Twin(Cluster.leave)
    close = _Twin(Cluster.close)

    async def __aenter__(self) -> Self:
        await self.add()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()
