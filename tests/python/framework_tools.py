"""Clusters of Dask and Ray for tests: a child process starts one and sends requests; its merged logs are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from inviso import Cluster, log, merge
from inviso_tools import HOST, LIMIT, Child
from waiting import until

HERE = Path(__file__).parent


@contextmanager
def program(body: str, place: Path, ends: str, **env: str) -> Iterator[Child]:
    """A process that has run ``body`` and carries out requests; ``ends`` ends its cluster. No node is left."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    made = Child(body, place, PYTHONPATH=path, **env)
    try:
        made.ask("None")  # the body has run
        yield made
        with suppress(AssertionError):  # a test has failed before
            made.ask(ends, LIMIT)
    finally:
        left = nodes("*")
        made.end()
        until(lambda: not any(_is_alive(pid) for pid in left.values()), what=f"some of {left} are left")


def nodes(pattern: str) -> dict[str, int]:
    """Prepared processes by a pattern: names without the host, and process ids."""
    cluster = Cluster(pattern, timeout=LIMIT)
    try:
        return {each.node.removesuffix(f"@{HOST}"): each.pid for each in cluster.found()}
    finally:
        cluster.close()


def until_nodes(pattern: str, count: int) -> dict[str, int]:
    """The same, as soon as there are this many of them."""
    found: dict[str, int] = until(
        lambda: len(found := nodes(pattern)) == count and found, what=f"no {count} nodes are {pattern}"
    )
    return found


class Event(NamedTuple):
    """An event of a token that crosses nodes, or a print of the program itself."""

    node: str
    tag: str
    serial: tuple[int, int]
    content: Any


def story(folder: Path) -> list[Event]:
    """The merged events of all logs in a folder. Each message of a header is sent before it is received."""
    merge.logs(folder, folder / "all", to="erlang")
    found, sent = [], set()
    for message in log.read(folder / "all"):
        if message[0] != "seq_trace":
            continue
        tag, serial, origin, to, content = message[2]
        if tag != "print" and not (isinstance(content, tuple) and content[0] == "headers"):
            continue  # between threads and tasks of the framework
        if tag == "send":
            sent.add((origin, serial))
        elif tag == "receive":
            assert (origin, serial) in sent, (origin, serial)
        node = (to if tag == "receive" else origin).node.removesuffix(f"@{HOST}")
        found.append(Event(node, str(tag), serial, content))
    return found


@contextmanager
def tokens(*patterns: str, folder: Path) -> Iterator[Callable[[], list[Event]]]:
    """Writes tokens of those nodes to logs in a folder. The function that this yields stops that, and returns the
    merged events.
    """
    with Cluster(*patterns, timeout=LIMIT) as cluster:
        cluster.tokens(folder=str(folder)).check()

        def events() -> list[Event]:
            cluster.stop().check()
            return story(folder)

        yield events


def calls(path: Path, function: str) -> int:
    """The number of calls of ``module:function`` in a log."""
    wanted = tuple(function.split(":"))
    told = [message for message in log.read(path) if message[0] == "trace_ts" and message[2] == "call"]
    return sum(message[3][:2] == wanted for message in told)


def example(framework: str) -> str:
    """The program in ``docs/services.md`` that needs the framework."""
    text = (HERE.parents[1] / "docs/services.md").read_text()
    found: list[str] = re.findall(rf"^```python {framework}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 1
    return found[0]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
