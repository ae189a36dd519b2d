"""Forks beside sessions that come and go in other threads, and their children."""

from __future__ import annotations

import asyncio  # noqa: F401  a first import during a fork is a fault of CPython: its hooks run only in part
import faulthandler
import os
import threading
import time
from typing import Any

import inviso
from inviso import trace, trace_ports
from subjects import forked
from waiting import until

WORK = ("subjects.forked", "work", 1)
FORKING = threading.Lock()
"""One at a time: the logging module's hooks don't take several."""


def come(folder: str, name: str, errors: list[str], done: threading.Event) -> None:
    """Makes sessions of all kinds until it is done. Their messages come, and their tracers end."""
    count = 0
    try:
        while not done.is_set():
            count += 1
            seen: list[Any] = []
            ended = [trace.session_create("short", seen.append) for _ in range(2)]
            if count % 8 == 0:
                port = trace_ports.trace_port("file", f"{folder}/{name}{count}")()
                ended += [trace.session_create("port", port), trace.session_create("own")]
                ended += [trace.session_create("box", None, {"dump_to": f"{folder}/{name}"})]
            for session in ended:
                session.process(inviso.self(), True, ["call", "procs"])
                session.function(WORK, True, ["local"])
            forked.work(1)
            if count % 4 == 1:
                assert ended[0].delivered().wait(30), "not delivered"
            workers = [session._worker for session in ended if session._worker]
            for session in ended[: count % 3]:
                session.destroy()
            del session, ended
            if count % 3 == 2:
                assert len(seen) == 2, seen
            until(lambda: not any(worker.pid.is_alive() for worker in workers[: count % 3]))  # noqa: B023
    except BaseException as error:
        errors.append(repr(error))
        raise


def child() -> int:
    """Runs the checks of a child; returns 0 if all are good."""
    assert trace.session_info("all") == []
    seen: list[Any] = []
    with trace.session_create("child", seen.append) as session:
        session.function(WORK, True, ["local"])
        session.process("all", True, ["call"])
        forked.work(1)
    return len(seen) - 1


def fork(errors: list[str]) -> None:
    """Forks once. A child that fails is noted."""
    with FORKING:
        pid = os.fork()
    if pid == 0:
        code = 9
        try:
            faulthandler.dump_traceback_later(20, exit=True)
            code = child()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        errors.append(f"the child ended with {status}")


def main(folder: str, seconds: float, forking: int = 0) -> None:
    """Forks in the main thread, and in this many others."""
    assert child() == 0  # all needed modules are imported: a child can't import a module that its parent was importing
    end, done, errors = time.monotonic() + seconds, threading.Event(), []  # type: ignore[var-annotated]

    def forks() -> None:
        while time.monotonic() < end and not errors:
            fork(errors)

    threads = [threading.Thread(target=come, args=(folder, f"{n}-", errors, done)) for n in range(3)]
    threads += [threading.Thread(target=forks) for _ in range(forking)]
    for thread in threads:
        thread.start()
    forks()
    done.set()
    for thread in threads:
        thread.join()
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("inviso")]
    print(
        "ok" if not errors and not trace.session_info("all") and not left else (errors, trace.session_info("all"), left)
    )
