"""Services and pools like those of real programs, each with its own load and a check of every answer."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any


def answer(path: str) -> str:
    """The services' answer to a path."""
    return path[::-1]


async def ask(port: int, n: int, times: int) -> None:
    """One client: repeats requests over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for k in range(times):
        writer.write(f"GET /{n}/{k} HTTP/1.1\r\nhost: here\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(int(length.partition(b":")[2]))
        assert body.decode() == answer(f"/{n}/{k}"), body
    writer.close()
    await writer.wait_closed()


async def load(port: int, clients: int, times: int) -> None:
    """All clients at once."""
    async with asyncio.TaskGroup() as group:
        for n in range(clients):
            group.create_task(ask(port, n, times))


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := (await reader.readline()).strip():
            while (await reader.readline()).strip():
                pass
            body = answer(line.split()[1].decode()).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
    finally:
        writer.close()


def streams(clients: int, times: int) -> None:
    """A server of asyncio's own streams."""

    async def main() -> None:
        async with await asyncio.start_server(_serve, "127.0.0.1", 0) as server:
            await load(server.sockets[0].getsockname()[1], clients, times)

    asyncio.run(main())


def aiohttp(clients: int, times: int) -> None:
    """A server of aiohttp, and its own client besides."""
    from aiohttp import ClientSession, web

    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=answer(request.path))

    async def main() -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        await load(port, clients, times)
        async with ClientSession() as session:
            for n in range(times):
                async with session.get(f"http://127.0.0.1:{port}/own/{n}") as response:
                    assert await response.text() == answer(f"/own/{n}")
        await runner.cleanup()

    asyncio.run(main())


def starlette(clients: int, times: int, loop: str = "asyncio") -> None:
    """An application of starlette behind uvicorn, on asyncio's loop or on uvloop."""
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def on_loop(request: Request) -> PlainTextResponse:
        return PlainTextResponse(answer(request.url.path))

    def in_thread(request: Request) -> PlainTextResponse:
        return PlainTextResponse(answer(request.url.path))

    async def main() -> None:
        application = Starlette(routes=[Route("/0/{rest:path}", in_thread), Route("/{rest:path}", on_loop)])
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(application, log_level="warning", http="h11", lifespan="off"))
            serving = asyncio.create_task(server.serve([listener]))
            while not server.started:
                await asyncio.sleep(0.001)
            await load(listener.getsockname()[1], clients, times)
            server.should_exit = True
            await serving

    before = set(threading.enumerate())
    if loop == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
    for thread in set(threading.enumerate()) - before:  # starlette's own; nothing waits for it
        thread.join(30)


def threads(workers: int, items: int) -> None:
    """Threads that take from a queue, compute in an executor, and put the results into another queue."""
    work: queue.Queue[int | None] = queue.Queue(16)
    results: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def worker(executor: concurrent.futures.Executor) -> None:
        while (n := work.get()) is not None:
            results.put((n, executor.submit(pow, n, 2).result()))
            work.task_done()

    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        crew = [threading.Thread(target=worker, args=(executor,)) for _ in range(workers)]
        for thread in crew:
            thread.start()
        for n in range(items):
            work.put(n)
        work.join()
        for _ in crew:
            work.put(None)
        for thread in crew:
            thread.join()
        assert list(executor.map(abs, range(-items, 0))) == list(range(items, 0, -1))
    assert sorted(results.get() for _ in range(items)) == [(n, n * n) for n in range(items)]


def pool(method: str, items: int) -> None:
    """A pool of processes, and an executor of them."""
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(abs, range(-items, 0), chunksize=3) == list(range(items, 0, -1))
        assert [pool.apply(pow, (n, 2)) for n in range(items // 4)] == [n * n for n in range(items // 4)]
        assert sorted(pool.imap_unordered(abs, range(items))) == list(range(items))
        pool.close()
        pool.join()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(abs, range(-items, 0))) == list(range(items, 0, -1))


def blocking(clients: int, times: int) -> None:
    """Coroutines that send work to threads, and threads that send work to the loop."""

    def compute(loop: asyncio.AbstractEventLoop, n: int) -> int:
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, n * n), loop).result(30)

    async def one(n: int) -> None:
        loop = asyncio.get_running_loop()
        for k in range(times):
            assert await asyncio.to_thread(compute, loop, n + k) == (n + k) ** 2

    async def main() -> None:
        await asyncio.gather(*(one(n) for n in range(clients)))

    asyncio.run(main())


def ring(tasks: int, messages: int) -> int:
    """Tasks in pairs with two queues between them, with this many messages in all. Returns the number of puts."""
    rounds = messages // tasks

    async def one(mine: asyncio.Queue[int], theirs: asyncio.Queue[int], first: bool) -> None:
        for n in range(rounds):
            if first:
                theirs.put_nowait(n)
            assert await mine.get() == n
            if not first:
                theirs.put_nowait(n)

    async def main() -> None:
        both: list[Awaitable[None]] = []
        for _ in range(tasks // 2):
            here, there = asyncio.Queue[int](), asyncio.Queue[int]()
            both += [one(here, there, True), one(there, here, False)]
        await asyncio.gather(*both)

    asyncio.run(main())
    return rounds * (tasks // 2) * 2


SERVICES: dict[str, Callable[..., Any]] = {
    "streams": streams, "aiohttp": aiohttp, "starlette": starlette, "threads": threads, "blocking": blocking
}  # fmt: skip
