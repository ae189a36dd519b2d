"""FastAPI: uvicorn on uvloop with clients, dependencies in threads and tasks, validation in Rust, streams."""

import asyncio
import http.client
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field, field_validator

steps = 0
lock = threading.Lock()
events: list[str] = []


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


class Order(BaseModel):
    items: list[Annotated[int, Field(gt=0)]]
    name: str = "none"

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if step(name) == "nobody":
            raise ValueError("nobody orders")
        return name


class SoldOut(Exception):
    pass


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    events.append("begin")
    yield
    events.append("end")


app = FastAPI(lifespan=lifespan)


@app.middleware("http")
async def counting(request: Request, answer: Any) -> Any:
    step(request.url.path)
    return await answer(request)


@app.exception_handler(SoldOut)
async def sold_out(request: Request, error: SoldOut) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409)


def connection() -> Iterator[str]:
    try:
        yield step("connection")
    except SoldOut:
        step("rolled back")
        raise


async def page(number: Annotated[int, Query(ge=0, le=100)] = 0) -> int:
    await asyncio.sleep(0)
    return step(number)


@app.post("/order")
def order(order: Order, connection: Annotated[str, Depends(connection)], later: BackgroundTasks) -> dict[str, Any]:
    if len(order.items) > 3:
        raise SoldOut(f"{len(order.items)} items for {order.name}")
    later.add_task(step, "background")
    return {"total": sum(order.items), "through": connection}


@app.get("/list")
async def listing(number: Annotated[int, Depends(page)]) -> list[int]:
    return await asyncio.gather(*(asyncio.to_thread(step, n) for n in range(number)))


@app.get("/stream")
async def stream() -> StreamingResponse:
    async def parts() -> AsyncIterator[str]:
        for n in range(4):
            await asyncio.sleep(0)
            yield step(f"part {n};")

    return StreamingResponse(parts())


@app.get("/missing")
async def missing() -> None:
    raise HTTPException(404, "not here")


@app.get("/broken")
def broken() -> None:
    raise KeyError("broken")


def ask(port: int, method: str, where: str, body: Any = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, where, body and json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text[:160]


QUESTIONS: list[tuple[Any, ...]] = [
    ("GET", "/list?number=7"), ("GET", "/list?number=x"), ("GET", "/list?number=101"), ("GET", "/stream"),
    ("GET", "/missing"), ("GET", "/broken"), ("GET", "/nowhere"),
    ("POST", "/order", {"items": [1, 2, 3], "name": "Ann"}), ("POST", "/order", {"items": [1, 1, 1, 1]}),
    ("POST", "/order", {"items": [0, "x"], "name": "nobody"}),
]  # fmt: skip


def main() -> int:
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server = uvicorn.Server(uvicorn.Config(app, port=0, loop="uvloop", log_config=None, access_log=False))
    started = threading.Event()
    startup = server.startup

    async def told(sockets: Any = None) -> None:
        await startup(sockets)
        started.set()

    server.startup = told  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run)
    thread.start()
    started.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda question: ask(port, *question), QUESTIONS * 4))
    server.should_exit = True
    thread.join()
    for question, answer in zip(QUESTIONS, answers, strict=False):
        print(*question, answer)
    print(
        all(answers[n] == answers[n + len(QUESTIONS)] for n in range(3 * len(QUESTIONS))),
        len(app.openapi()["paths"]),
        events,
    )
    print("steps", steps)
    return 14


if __name__ == "__main__":
    sys.exit(main())
