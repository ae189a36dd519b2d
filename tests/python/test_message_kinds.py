"""The table of messages names the kind of each: item, call, result or exception; in sessions and logs of both forms."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import analysis, trace, trace_ports

FLAGS = ["send", "receive", "monotonic_timestamp"]


def fails() -> None:
    raise ValueError("planted")


def program() -> None:
    """Sends messages of all kinds; ``expected`` has the kind of each."""
    box: queue.Queue[str] = queue.Queue()
    box.put("an item")
    assert box.get() == "an item"
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(len, "three").result() == 5
        assert isinstance(executor.submit(fails).exception(), ValueError)
    kept: Future[str] = Future()
    kept.set_result("a future's")
    assert kept.result() == "a future's"
    inviso.send(inviso.self(), "a message")
    assert inviso.receive(timeout=30) == "a message"

    async def service() -> None:
        loop = asyncio.get_running_loop()
        done, broken = loop.create_future(), loop.create_future()
        caller = threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set_result, "a result"))
        caller.start()
        assert await done == "a result"
        caller.join()
        loop.call_soon(broken.set_exception, KeyError("planted"))
        with pytest.raises(KeyError):
            await broken

    asyncio.run(service())


def expected(rows: list[dict[str, Any]]) -> None:
    """Checks that each message of ``program`` is there with its kind."""
    kinds = {(row["kind"], row["content"]) for row in rows}
    for kind, content in [
        ("item", "an item"),
        ("call", "('builtins', 'len', ['three'])"),
        ("result", "5"),
        ("call", f"('{__name__}', 'fails', [])"),
        ("exception", "('ValueError', ('planted',))"),
        ("result", "a future's"),
        ("message", "a message"),
        ("result", "a result"),
        ("exception", "('KeyError', ('planted',))"),
    ]:
        found = [of for of, what in kinds if what.strip("'\"") == content]
        assert found == [kind], (content, found, sorted(kinds))
    counted = Counter(row["kind"] for row in rows)
    assert counted["call"] >= 3 and set(counted) <= {"item", "call", "result", "exception", "message"}, counted


def traced(session: inviso.Session) -> None:
    session.process("all", True, FLAGS)
    session.process("new", True, FLAGS)
    program()


def test_of_a_session() -> None:
    with trace.session_create("kinds") as session:
        traced(session)
        expected(analysis.tables(session).messages.rows())


def test_a_session_of_objects_has_no_tables() -> None:
    refused = pytest.raises(inviso.BadArg, match=r"source: .*capture 'ref'.*drop that option")
    with trace.session_create("kinds", None, {"capture": "ref"}) as session, refused:
        analysis.tables(session)


@pytest.mark.parametrize("form", ["erlang", "blocks"])
def test_of_a_log(tmp_path: Path, form: str) -> None:
    path = tmp_path / "kinds.log"
    port = trace_ports.trace_port("file", str(path), compress=form == "blocks")()
    with trace.session_create("kinds", port) as session:
        traced(session)
    port.close()
    expected(analysis.tables(path).messages.rows())


def test_a_receipt_alone_says_nothing_of_its_kind() -> None:
    with trace.session_create("kinds") as session:
        session.process("all", True, ["receive", "monotonic_timestamp"])
        session.process("new", True, ["receive", "monotonic_timestamp"])
        program()
        rows = analysis.tables(session).messages.rows()
    assert {row["kind"] for row in rows} <= {"item", "message"} and len(rows) > 5
