"""One event in three forms: a tuple in a session's mailbox, a record of a file, the arguments of a tracer module."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import trace
from inviso.trace_ports import trace_port
from port_tools import read
from trace_tools import mfa

TAGS = {
    "call", "return_from", "exception_from", "return_to", "send", "send_to_non_existing_process", "receive", "spawn",
    "spawned",
    "exit", "register", "unregister", "link", "unlink", "getting_linked", "getting_unlinked", "in", "out", "out_exited",
    "gc_major_start", "gc_major_end", "open", "closed",
}  # fmt: skip
FLAGS = ["call", "return_to", "send", "receive", "procs", "running", "running_procs", "exiting", "garbage_collection"]


class Told:
    """A tracer module that builds a message from each event."""

    def enabled(self, tag: str, state: Any, tracee: Any) -> str:
        return "trace"

    def trace(self, tag: str, state: list[Any], tracee: Any, term: Any, opts: dict[str, Any]) -> None:
        more = [opts[name] for name in ("extra", "match_spec_result") if name in opts]
        state.append(("trace", tracee, tag, term, *more))


def work(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return number


def program() -> None:
    me = inviso.self()
    work(1)
    with pytest.raises(ValueError, match="-1"):
        work(-1)
    inviso.send(me, "hello")
    inviso.receive()
    inviso.register("somebody", me)
    inviso.send("somebody", "named")
    inviso.receive()
    inviso.unregister("somebody")
    child = inviso.spawn(lambda: inviso.receive())
    inviso.link(child)
    inviso.unlink(child)
    inviso.send(child, "end")
    thread = threading.Thread(target=work, args=(2,))
    thread.start()
    thread.join()
    while child.is_alive():
        pass
    inviso.send(child, "late")
    one, other = socket.socketpair()
    one.close(), other.close()

    async def sleeps() -> None:
        await asyncio.sleep(0)

    asyncio.run(sleeps())
    gc.collect()


def by_process(messages: list[Any]) -> dict[Any, list[Any]]:
    """The messages of each tracee. The counts of a collection differ by session."""
    found = defaultdict(list)
    for message in messages:
        found[message[1]].append(message[:3] if message[2].startswith("gc_") else message)
    return found


def test_a_mailbox_a_file_and_a_tracer_module_are_told_the_same(tmp_path: Path) -> None:
    told: list[Any] = []
    port = trace_port("file", tmp_path / "log")()
    with (
        trace.session_create("own") as own,
        trace.session_create("logged", port) as logged,
        trace.session_create("module", (Told(), told)) as module,
    ):
        sessions = (own, logged, module)
        spec = [("_", [], [("return_trace",), ("exception_trace",), ("message", ("caller",))])]
        for session in sessions:
            session.function(mfa(work), spec, ["local"])
            session.process("all", True, FLAGS)
            session.port("all", True, ["ports", "running_ports", "send", "receive"])
        gc.disable()
        try:
            program()
        finally:
            gc.enable()
            for session in sessions:
                session.process("all", False, ["all"])
                session.port("all", False, ["all"])
        assert logged.delivered().wait(30)
        messages, there = own.drain(), read(tmp_path / "log")
    assert TAGS - {message[2] for message in messages} == set()
    assert by_process(messages) == by_process(there)
    assert by_process(messages) == by_process(told)
