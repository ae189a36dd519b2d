"""Work for the processes of ``multiprocessing``; importable by the started ones."""

from __future__ import annotations

import inviso
from inviso import trace


def work(n):
    return n + 1


def other(n):
    return [i for i in range(n)]


def measured(n):
    """Sessions in the child work as in any process."""
    assert trace.session_info("all") == [], trace.session_info("all")
    with trace.session_create("child") as session:
        session.function((__name__, "work", 1), True, ["call_count", "local"])
        session.process("all", True, ["call", "arity"])
        for i in range(n):
            work(i)
        counted = session.info((__name__, "work", 1), "call_count")[1]
        assert len(session.drain()) == counted
        inviso.send(inviso.self(), "own mail")
        assert inviso.receive(timeout=10) == "own mail"
        return counted


def untraced(n):
    """Makes calls in a child whose parent traces."""
    for i in range(n):
        work(i)
    return n
