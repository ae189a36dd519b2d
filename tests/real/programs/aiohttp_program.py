"""aiohttp on uvloop: a server with clients, chunks, a web socket, failing protocols, an executor, a subprocess."""

import asyncio
import sys
from typing import Any

import aiohttp
import multidict
import uvloop
import yarl
from aiohttp import web

steps = 0


def step(value: Any) -> Any:
    global steps
    steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:70]}"


async def failed(waited: Any) -> str:
    try:
        return f"no error: {await waited}"
    except Exception as error:
        return type(error).__name__


@web.middleware
async def counting(request: web.Request, handler: Any) -> web.StreamResponse:
    if request.path != "/slow":  # how far such a request comes before its timeout depends on the clock
        step(request.path)
    try:
        return await handler(request)
    except ZeroDivisionError as error:
        return web.Response(status=418, text=f"{type(error).__name__}")


async def add(request: web.Request) -> web.Response:
    body = await request.json()
    return web.json_response({"sum": sum(body["numbers"]), "who": request.query.getall("who")})


async def divide(request: web.Request) -> web.Response:
    return web.Response(text=str(1 // int(request.match_info["by"])))


async def chunks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    async for line in request.content:
        await response.write(step(line).upper())
        await asyncio.sleep(0)
    await response.write_eof()
    return response


async def talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(step(message.data)[::-1])
        if message.data == "bye":
            await socket.close()
    return socket


async def slow(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


def server() -> web.Application:
    app = web.Application(middlewares=[counting])
    app.add_routes([
        web.post("/add", add), web.get("/divide/{by}", divide), web.post("/chunks", chunks),
        web.get("/talk", talk), web.get("/slow", slow),
    ])  # fmt: skip
    return app


async def lines(number: int) -> Any:
    for n in range(number):
        yield f"line {n}\n".encode()
        await asyncio.sleep(0)


async def client(base: str, number: int) -> list[Any]:
    async with aiohttp.ClientSession(base) as session:
        seen: list[Any] = []
        for k in range(3):
            async with session.post("/add", params={"who": str(number)}, json={"numbers": [number, k]}) as response:
                seen.append((await response.json())["sum"])
        for by in ("1", "0", "x"):
            async with session.get(f"/divide/{by}") as response:
                seen.append(response.status)
        async with session.post("/chunks", data=lines(3)) as response:
            seen.append((await response.read()).decode())
        async with session.ws_connect("/talk") as socket:
            for text in ("hello", "bye"):
                await socket.send_str(text)
                seen.append((await socket.receive()).data)
        return seen


async def errors(base: str) -> None:
    loop = asyncio.get_running_loop()
    print(await failed(loop.create_connection(asyncio.Protocol, host="127.0.0.1", port=1)))
    print(await failed(loop.create_connection(None, host="127.0.0.1", port=1)))
    async with aiohttp.ClientSession(base, timeout=aiohttp.ClientTimeout(0.2)) as session:
        print(await failed(session.get("/slow")))
        print(await failed(session.get("/add", allow_redirects="x", raise_for_status=True)))
    async with aiohttp.ClientSession(base) as session:
        waiting = asyncio.create_task(session.get("/slow"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        print((await asyncio.gather(waiting, return_exceptions=True))[0].__class__.__name__)
    print(await failed(loop.run_in_executor(None, divmod, 1, 0)), await loop.run_in_executor(None, step, "executor"))
    done = loop.create_future()
    loop.call_soon(lambda: done.set_exception(KeyError("from a callback")))
    print(await failed(done))

    class Raising(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise RuntimeError("in the protocol")

    told: list[str] = []
    loop.set_exception_handler(lambda loop, context: told.append(repr(context.get("exception"))))
    listening = await loop.create_server(Raising, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    writer.write(b"x")
    print(await reader.read(), told)
    writer.close()
    listening.close()
    child = await asyncio.create_subprocess_exec("sh", "-c", "cat; exit 3", stdin=-1, stdout=-1)
    print(await child.communicate(b"through a child"), child.returncode)


def parts() -> None:
    print(refused(lambda: yarl.URL(1)), refused(lambda: yarl.URL("http://[x")), yarl.URL("/a?b=ä").raw_query_string)
    many = multidict.CIMultiDict([("A", "1"), ("a", "2")])
    print(
        many.getall("a"), refused(lambda: many["x"]), refused(lambda: many.popone("y")), refused(lambda: many.add(1, 2))
    )


async def main() -> int:
    parts()
    runner = web.AppRunner(server(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    for seen in await asyncio.gather(*(client(base, n) for n in range(5))):
        print(seen)
    await errors(base)
    await runner.cleanup()
    print(type(asyncio.get_running_loop()).__module__, "steps", steps)
    return 7


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
