"""The end of the interpreter with everything on: what the program's finalisers do then comes to our hooks, for the first time too."""

from __future__ import annotations

import sys

import pytest
from trace_tools import child

ON = {
    "messages": 's = trace.session_create("x"); s.process("all", True, ["send", "receive"])',
    "all": 's = trace.session_create("x"); s.process("all", True, ["all"])',
    "queues": 's = trace.session_create("x"); s.system("long_message_queue", (1, 5))',
    "token": 'seq_trace.set_token("label", 1)',
}

DOES = {
    "queue": "q = queue.Queue(); q.put(1); assert q.get() == 1",
    "simple queue": "q = queue.SimpleQueue(); q.put(1); assert q.get() == 1",
    "future": "f = Future(); f.set_result(1); assert f.result() == 1",
    "thread": "threading.Thread(target=int).start()",
    "event loop": "asyncio.new_event_loop().close()",
    "socket": "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'; a.close(); b.close()",
}

TEXT = """
import asyncio, queue, socket, sys, threading
from concurrent.futures import Future
import inviso
from inviso import seq_trace, trace

class Late:
    def __init__(self, cycle):
        self.own = self if cycle else None
    def __del__(self):
        try:
            {does}
        except (RuntimeError, AttributeError, ImportError):  # Python's own: no new threads, modules that are gone
            pass
        sys.stdout.write("late\\n")

late = Late({cycle})
{on}
"""


@pytest.mark.parametrize("does", DOES)
@pytest.mark.parametrize("on", ON)
def test_a_finaliser_at_the_very_end(on: str, does: str) -> None:
    if does == "thread" and sys.version_info < (3, 12):
        pytest.skip("Python itself waits for ever")
    for cycle in (False, True):
        done = child(TEXT.format(does=DOES[does], on=ON[on], cycle=cycle))
        assert (done.returncode, done.stdout) == (0, "late\n"), done.stderr
        assert "panicked" not in done.stderr
