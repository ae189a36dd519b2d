"""The end of the interpreter with everything on: the program's finalisers call the hooks, some for the first time."""

from __future__ import annotations

import sys
from pathlib import Path

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


TOLD = """
import atexit, sys, time
import inviso
from inviso import dbg, trace

def f(x):
    return x

def calls():
    f(1)
    f(2)

def show(message, _=None):
    print(message[3][1:], flush=True)

{on}
calls()
"""

TRACER = """
s = trace.session_create("x", {tracer})
s.process("all", True, ["call"]); s.function(("__main__", "f", 1), True, ["local"])
"""

DBG = """
s = dbg.session_create("mine")
def on():
    assert dbg.tracer({tracer})[0] == "ok"
    dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
dbg.session(s, on)
"""

CALLS = "('f', [1])\n('f', [2])\n"


def test_a_tracer_is_called_with_what_was_sent_before_the_end() -> None:
    done = child(TOLD.format(on=TRACER.format(tracer="show")))
    assert (done.returncode, done.stdout, done.stderr) == (0, CALLS, "")
    # and with the events of a function that runs at the end
    done = child(TOLD.format(on=TRACER.format(tracer="show") + "atexit.register(f, 3)"))
    assert (done.returncode, done.stdout, done.stderr) == (0, CALLS + "('f', [3])\n", "")


def test_a_tracer_that_handles_nothing_holds_the_end_up_for_some_seconds_only() -> None:
    done = child(TOLD.format(on=TRACER.format(tracer="lambda message: time.sleep(1000)")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_session_of_dbg_has_its_last_lines_too(tmp_path: Path) -> None:
    done = child(TOLD.format(on=DBG.format(tracer='"process", (show, 0)')))
    assert (done.returncode, done.stdout, done.stderr) == (0, CALLS, "")
    lines = ["__main__:f(1)", "__main__:f(2)"]
    done = child(TOLD.format(on=DBG.format(tracer="")))
    assert done.returncode == 0 and [line.split()[-1] for line in done.stdout.splitlines()] == lines, done.stderr
    done = child(TOLD.format(on=DBG.format(tracer=f'"file", {str(tmp_path / "lines")!r}')))
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in (tmp_path / "lines").read_text().splitlines()] == lines
