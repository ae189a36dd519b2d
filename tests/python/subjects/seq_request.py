"""Two realistic services: a shop answers an order by means of a queue, a thread, another operating system process and a
second service, the stock. Only middleware, the client's hook and the prints know of tokens.

``python -m subjects.seq_request stock`` and ``shop URL LOOP CLIENT`` serve, and print their port. ``/output`` has
the events of each of their nodes.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import inviso
from inviso import seq_trace
from inviso.propagate import asgi, wsgi

PROCESSES = 2
PATIENCE = 60.0

Jobs = asyncio.Queue[tuple[int, "asyncio.Future[str]"]]
Ask = Callable[[int], Awaitable[Any]]


def begin(label: Any) -> None:
    """A token with all flags."""
    seq_trace.set_token("label", label)
    for flag in ("send", "receive", "print", "strict_monotonic_timestamp"):
        seq_trace.set_token(flag, True)


# the processes of the pool


class Place:
    """The state of a process of the pool."""

    collector: seq_trace.Collector
    everybody: Any


def leave_with_the_parent() -> None:
    """Ends with the parent: a signal may end the shop without its pool."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


def enter(everybody: Any) -> None:
    """A process of the pool is a node of its own."""
    threading.Thread(target=leave_with_the_parent, daemon=True).start()
    inviso.set_node(f"price{multiprocessing.current_process().name.rpartition('-')[2]}@lan")
    Place.collector, Place.everybody = seq_trace.Collector(), everybody
    seq_trace.set_system_tracer(Place.collector.pid)
    # it was started when there were no tokens: it takes part from its first one on
    seq_trace.set_token("label", "begun")
    seq_trace.set_token(None)


def price(order: int) -> str:
    seq_trace.print(("price", order))
    return f"priced {order}"


def leave(_: int) -> str:
    """The events of the process that runs it. Each process runs one, because each waits for the others."""
    Place.everybody.wait(PATIENCE)
    return Place.collector.output().to_json()


# the shop


def reserve(order: int) -> str:
    seq_trace.print(("reserve", order))
    return f"reserved {order}"


async def pack(jobs: Jobs) -> None:
    """A worker of the queue."""
    while True:
        order, done = await jobs.get()
        seq_trace.print(("pack", order))
        done.set_result(f"packed {order}")


def factory(loop: str) -> Any:
    """The factory of such a loop; None for asyncio's own."""
    if loop == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return None


@asynccontextmanager
async def by_httpx(stock: str) -> AsyncIterator[Ask]:
    """Asks the stock over a few connections. The requests wait for them by anyio's locks, which the client uses."""
    import httpx
    from inviso.propagate.httpx import attach

    limits = httpx.Limits(max_connections=3)
    async with attach(httpx.AsyncClient(base_url=stock, timeout=PATIENCE, trust_env=False, limits=limits)) as client:

        async def ask(order: int) -> Any:
            return (await client.get(f"/{order}")).json()

        yield ask


@asynccontextmanager
async def by_aiohttp(stock: str) -> AsyncIterator[Ask]:
    """Asks the stock over a few connections, which the requests wait for."""
    import aiohttp
    from inviso.propagate.aiohttp import trace_config

    connector = aiohttp.TCPConnector(limit=3)
    async with aiohttp.ClientSession(stock, trace_configs=[trace_config()], connector=connector) as session:

        async def ask(order: int) -> Any:
            async with session.get(f"/{order}") as answer:
                return await answer.json()

        yield ask


CLIENTS = {"httpx": by_httpx, "aiohttp": by_aiohttp}


def shop(collector: seq_trace.Collector, stock: str, loop: str, client: str) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    context = multiprocessing.get_context("spawn")
    threads = ThreadPoolExecutor(3)
    processes = ProcessPoolExecutor(
        PROCESSES, mp_context=context, initializer=enter, initargs=(context.Barrier(PROCESSES),)
    )
    jobs: Jobs = asyncio.Queue()

    async def buy(request: Request) -> JSONResponse:
        here, order = asyncio.get_running_loop(), int(request.path_params["order"])
        seq_trace.print(("asked", order))
        packed = here.create_future()
        await jobs.put((order, packed))
        answer = [await packed]
        answer.append(await here.run_in_executor(threads, reserve, order))
        answer.append(await here.run_in_executor(processes, price, order))
        answer.append(await request.app.state.ask(order))
        seq_trace.print(("answered", order))
        return JSONResponse(answer)

    async def output(_: Request) -> JSONResponse:
        calls = [asyncio.wrap_future(processes.submit(leave, n)) for n in range(PROCESSES)]
        texts = await asyncio.gather(*calls)
        return JSONResponse([await asyncio.to_thread(collector.output().to_json), *texts])

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        workers = [asyncio.create_task(pack(jobs), name=f"worker {n}") for n in range(2)]
        async with CLIENTS[client](stock) as application.state.ask:
            yield
        for worker in workers:
            worker.cancel()

    routes = [Route("/output", output), Route("/{order:int}", buy)]
    application = Starlette(routes=routes, middleware=[Middleware(asgi.Middleware)], lifespan=lifespan)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        server = uvicorn.Server(uvicorn.Config(application, log_level="error", http="h11"))
        with asyncio.Runner(loop_factory=factory(loop)) as runner:
            runner.run(server.serve(sockets=[listening]))
    threads.shutdown()
    processes.shutdown()


# the stock


def serve_stock(collector: seq_trace.Collector) -> None:
    from .seq_server import Handler, Threads

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        start = [("content-type", "application/json")]
        if path == "/output":
            start_response("200 OK", start)
            return [json.dumps([collector.output().to_json()]).encode()]
        order = int(path[1:])
        seq_trace.print(("stock", order))
        start_response("200 OK", start)
        return [json.dumps(f"in stock {order}").encode()]

    Handler.application = staticmethod(wsgi.Middleware(application))
    server = Threads(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def main(which: str, *more: str) -> None:
    inviso.set_node(f"{which}@lan")
    with seq_trace.Collector() as collector:
        if which == "shop":
            shop(collector, *more)
        else:
            serve_stock(collector)


if __name__ == "__main__":
    main(*sys.argv[1:])
