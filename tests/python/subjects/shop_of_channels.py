"""A program that traces itself into a log, with messages through channels of each kind."""

from __future__ import annotations

import asyncio
import queue
import sys
from concurrent.futures import Future, ThreadPoolExecutor

from inviso import trace, trace_ports

FLAGS = ["send", "receive", "monotonic_timestamp"]


class Box(queue.Queue[int]):
    """A class of the program's own, with a name."""

    def __init__(self, maxsize: int, name: str) -> None:
        super().__init__(maxsize)
        self.name = name


class Odd(queue.Queue[int]):
    """A tracer must not read its limit and name."""

    @property
    def name(self) -> str:
        raise AssertionError("code of the program's ran")


async def with_asyncio() -> None:
    box: asyncio.Queue[int] = asyncio.Queue(5)
    await box.put(1)
    await box.get()


def run(path: str) -> None:
    port = trace_ports.trace_port("file", path)()
    with trace.session_create("shop", port) as session:
        session.process("all", True, FLAGS)
        session.process("new", True, FLAGS)
        for box in (Box(3, "parcels"), Odd(2), queue.SimpleQueue[int]()):
            box.put(1)
            assert box.get() == 1
        asyncio.run(with_asyncio())
        with ThreadPoolExecutor(1, thread_name_prefix="packers") as pool:
            pool.submit(abs, -1).result()
        future: Future[int] = Future()
        future.set_result(7)
        future.result()
        port.flush()


if __name__ == "__main__":
    run(sys.argv[1])
