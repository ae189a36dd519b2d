"""Services for the scripts beside this file: started, requested, traced, and always ended."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inviso import Cluster, log, merge

LIMIT = 60.0
"""Seconds that anything may take."""

HERE = Path(__file__).parent
HOST = socket.gethostname()

Words = Sequence[str | Path]


@contextmanager
def service(*words: str | Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of this interpreter's in a process group of its own, of which nothing is left afterwards."""
    settings = {"PYTHONPATH": str(HERE), "HOME": os.getcwd(), **env}
    made = subprocess.Popen([sys.executable, *words], env={**os.environ, **settings}, start_new_session=True)
    try:
        yield made
    finally:
        with suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGKILL)
        made.wait()


def end(started: subprocess.Popen[bytes], status: int = 0) -> None:
    """Ends a service as its supervisor does."""
    started.terminate()
    assert started.wait(LIMIT) == status, started.returncode


def until(holds: Callable[[], Any], what: str) -> Any:
    """Waits until the function returns a true value, and returns that."""
    last = time.monotonic() + LIMIT
    while not (found := holds()):
        assert time.monotonic() < last, what
        time.sleep(0.02)
    return found


def nodes(pattern: str) -> dict[str, int]:
    """Prepared processes by a pattern: names without the host, and process ids."""
    cluster = Cluster(pattern)
    try:
        return {each.node.removesuffix(f"@{HOST}"): each.pid for each in cluster.found()}
    finally:
        cluster.close()


def get(address: str, path: str, headers: Mapping[str, str] | None = None) -> str:
    """The answer of a server at a socket in the file system; the request is repeated until the socket is there."""

    def ask() -> str | None:
        connection = http.client.HTTPConnection("localhost", timeout=LIMIT)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(LIMIT)
        try:
            connection.sock.connect(address)
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            return response.read().decode()
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        finally:
            connection.close()

    answer: str = until(ask, f"nobody listens at {address}")
    return answer


def calls(path: str, function: str) -> int:
    """The number of calls of ``module:function`` in a log."""
    wanted = tuple(function.split(":"))
    return sum(
        message[2] == "call" and message[3][:2] == wanted for message in log.read(path) if message[0] == "trace_ts"
    )


def merged(folder: str) -> list[Any]:
    """The messages of all logs in a folder, merged in the order of time."""
    merge.logs(folder, f"{folder}/all", to="erlang")
    messages = [message for message in log.read(f"{folder}/all") if message[0] in ("trace_ts", "seq_trace")]
    stamps = [message[-1] for message in messages]
    assert stamps == sorted(stamps)
    return messages


def by_node(messages: list[Any]) -> Counter[str]:
    """The number of messages of each node."""
    return Counter(message[1].node.removesuffix(f"@{HOST}") for message in messages)
