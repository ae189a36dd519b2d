"""Shared by the tests of ``inviso.trace``: names, readings, and children with a watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import inviso
from inviso import trace

HERE = Path(__file__).parent
SUBJECTS = HERE / "subjects"
ROOT = HERE.parent.parent
LIMIT = 60

# A signal and no thread: a forked process could not join the thread, and fork warns of several threads.
WATCHDOG = f"""
import faulthandler, signal, sys
if sys.platform != "win32":
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm({LIMIT - 5})
"""


def mfa(function: Any) -> tuple[str, str, int]:
    """The MFA of a Python function, counted from its code object."""
    function = getattr(function, "__func__", function)
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return function.__globals__["__name__"], function.__qualname__, parameters


def count(session: trace.Session, function: Any) -> Any:
    """call_count of a function or MFA."""
    item, value = session.info(function if isinstance(function, tuple) else mfa(function), "call_count")
    assert item == "call_count"
    return value


def own(session: trace.Session, flags: Iterable[str] = ("call",)) -> inviso.Pid:
    """Traces the calling process in the session."""
    me = inviso.self()
    assert session.process(me, True, list(flags)) == 1
    return me


def local(session: trace.Session, *functions: Any) -> None:
    """Local call messages of these functions."""
    for function in functions:
        assert session.function(mfa(function), True, ["local"]) >= 1


def short(messages: Iterable[Any]) -> list[Any]:
    """Messages without ``trace`` and the pid, MFAs as names, arguments kept."""
    return [tuple(_name(part) for part in message[2:]) for message in messages]


def _name(part: Any) -> Any:
    if isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], str) and isinstance(part[1], str):
        name = part[1].rsplit("<locals>.")[-1]
        return (name, part[2]) if isinstance(part[2], list) else name
    return part


def names(messages: Iterable[Any]) -> list[str]:
    """``tag function`` of each call and return_to message."""
    return [f"{message[2]} {message[3][1].rsplit('<locals>.')[-1]}" for message in messages]


def in_threads(number: int, body: Callable[[int], Any]) -> None:
    """Runs ``body(n)`` in threads that begin together, and raises their exceptions here."""
    barrier = threading.Barrier(number)
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            barrier.wait(LIMIT)
            body(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def child(
    text: str, *arguments: str, flags: Iterable[str] = (), limit: float = LIMIT, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program text in a process of its own. One that hangs prints its stacks, and fails."""
    path = os.pathsep.join([str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, *flags, "-c", WATCHDOG + text, *arguments]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **env},
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += f"\nkilled after {limit} s"
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Computing:
    """A thread that computes and never waits: it takes a step only if another thread releases the GIL."""

    def __init__(self) -> None:
        self.steps = 0
        self._stop = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._compute)

    def _compute(self) -> None:
        self._begun.set()
        while not self._stop.is_set():
            self.steps += 1

    def __enter__(self) -> Computing:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(0.5)
        self._thread.start()
        assert self._begun.wait(LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        sys.setswitchinterval(self._interval)
        self._thread.join()


def good(text: str, *arguments: str, **options: Any) -> str:
    """The output of such a program; it must end with status 0 and nothing on standard error."""
    done = child(text, *arguments, **options)
    assert (done.returncode, done.stderr) == (0, ""), f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
