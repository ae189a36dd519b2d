"""A program that traces itself into a log, and prints names of its tasks and threads by pid, as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import inviso
from inviso import trace, trace_ports

NAMES: dict[str, str] = {}


def serve(n: int) -> int:
    return n + 1


class Shop:
    async def order(self, n: int) -> int:
        await asyncio.sleep(0)
        return serve(n)


def note() -> None:
    task = asyncio.current_task()
    assert task is not None
    NAMES[repr(inviso.self())] = task.get_name()


async def given(n: int) -> None:
    await Shop().order(n)
    note()


async def renamed() -> None:
    await asyncio.sleep(0)
    asyncio.current_task().set_name("renamed in its midst")  # type: ignore[union-attr]
    await asyncio.sleep(0)
    serve(0)
    note()


async def renamed_at_its_end() -> None:
    serve(0)
    asyncio.current_task().set_name("renamed at its end")  # type: ignore[union-attr]
    note()


async def forever(begun: asyncio.Event) -> None:
    note()
    begun.set()
    await asyncio.Event().wait()


def in_thread() -> None:
    time.sleep(0)
    serve(1)
    NAMES[repr(inviso.self())] = threading.current_thread().name


async def main() -> None:
    note()
    begun = asyncio.Event()
    living = asyncio.create_task(forever(begun), name="living at the end")
    await begun.wait()
    for name in ("räuber", "x" * 300, None):
        await asyncio.create_task(given(1), name=name)
    late = asyncio.create_task(renamed())
    late.set_name("soon another")
    await late
    await asyncio.create_task(renamed_at_its_end())
    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(given(n), name=f"of a group {n}")
    thread = threading.Thread(target=in_thread, name="a later thread")
    thread.start()
    await asyncio.to_thread(thread.join)
    serve(0)
    assert not living.done()


def run(flags: list[str], parameters: str | tuple[Any, ...], compress: bool) -> None:
    port = trace_ports.trace_port("file", parameters, compress=compress)()
    with trace.session_create("shop", port) as session:
        session.process("all", True, flags)
        session.process("new", True, flags)
        if "call" in flags:
            session.function((__name__, "_", "_"), True, ["local"])
            session.function(("time", "sleep", "_"), True, ["local"])
        asyncio.run(main())
        port.flush()
    print(json.dumps(NAMES))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    wrap = asked.get("wrap")
    run(asked["flags"], (asked["path"], "wrap", *wrap) if wrap else asked["path"], asked.get("compress", False))
