"""The paths between hosts: routers, paths that break for a while, large messages, many messages, addresses."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")

import zenoh
from agent_tools import THERE, Host
from inviso import Cluster, merge
from inviso.agent._engine import Engine
from node_tools import HOST
from waiting import until


class Way:
    """A forwarder of TCP that can be closed and opened. While it is closed, its data and connections are lost."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._pairs: list[socket.socket] = []
        self._is_open = True
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def set(self, is_open: bool) -> None:
        """Opens the path, or cuts all connections over it."""
        self._is_open = is_open
        if not is_open:
            for each in self._pairs:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends it."""
        self._ended = True
        self.set(False)
        self._thread.join(10)
        self._listening.close()

    def _run(self) -> None:
        others: dict[socket.socket, socket.socket] = {}
        while not self._ended:
            ready, _, _ = select.select([self._listening, *others], [], [], 0.05)
            for one in ready:
                if one is self._listening:
                    made, _ = self._listening.accept()
                    if not self._is_open:
                        made.close()
                        continue
                    other = socket.create_connection(("127.0.0.1", self._to))
                    others |= {made: other, other: made}
                    self._pairs += [made, other]
                elif one in others:
                    try:
                        data = one.recv(1 << 16)
                    except OSError:
                        data = b""
                    if data and self._is_open:
                        with suppress(OSError):
                            others[one].sendall(data)
                    else:
                        other = others.pop(one)
                        others.pop(other)
                        one.close()
                        other.close()
        for one in others:
            one.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "here" / "sockets"))
    return tmp_path


@pytest.fixture
def made(place: Path) -> Iterator[list[Host]]:
    """Hosts that are closed at the end."""
    hosts: list[Host] = []
    yield hosts
    for host in reversed(hosts):
        host.close()


def test_hosts_that_reach_each_other_by_a_router_alone(place: Path, made: list[Host]) -> None:
    router = Host("hub", place / "hub", (), "--router")
    made.append(router)
    for name, folder in ((THERE, "there"), (HOST, "here")):
        made.append(Host(name, place / folder, (router.endpoint,)))
    there, here = made[1:]
    # Each agent listens in a folder where no other process finds it. It learns of the other's by gossip, and must not
    # need it.
    nodes = [here.node("one"), there.node("two")]
    until(lambda: here.sees(nodes[1].name) and there.sees(nodes[0].name))
    with Cluster() as cluster:
        cluster.trace("__main__:work", arguments=True, folder="logs").check()
        for number in range(10):
            nodes[number % 2].run(f"work({number})")
        stopped = cluster.stop().check()
    assert [row["records"] for row in stopped.values()] == [5, 5]
    assert sorted(entry.message[3][2][0] for entry in merge.read("logs", clock="wall")) == [*range(10)]
    assert here.status()["routers"] == 1
    router.end()
    until(lambda: here.status()["routers"] == 0)


@pytest.mark.parametrize("window", [30.0, 3.0])
def test_a_path_that_breaks(place: Path, made: list[Host], window: float) -> None:
    port = free_port()
    there = Host(THERE, place / "there", endpoint=f"tcp/127.0.0.1:{port}")
    made.append(there)
    way = Way(port)
    try:
        here = Host(HOST, place / "here", (f"tcp/127.0.0.1:{way.port}",), "--window", str(window))
        made.append(here)
        node = there.node("two")
        until(lambda: here.sees(node.name))
        heard: queue.Queue[Any] = queue.Queue()
        with Cluster() as cluster:
            assert cluster.nodes == [node.name]
            cluster.events(lambda event: heard.put(event[3]))
            way.set(False)
            until(lambda: here.status()["connections"] == 0)
            told = ("disconnected", node.name, "noconnection")
            # it may come back; then it reports that it has left its control, which was out of reach for it, too
            if window > 10:
                time.sleep(1.5)
                assert heard.empty() and cluster.nodes == [node.name]
                way.set(True)
                assert heard.get(timeout=60) == told
            else:
                assert heard.get(timeout=60) == told
                way.set(True)
            assert cluster.nodes == []
            until(lambda: here.sees(node.name))
            until(lambda: cluster.add().get(node.name))
            assert cluster.status()[node.name]["state"] == "new"
    finally:
        way.close()


def test_what_is_asked_is_not_dropped(place: Path) -> None:
    """By default zenoh drops data that doesn't fit at once."""
    ends = [f"tcp/127.0.0.1:{free_port()}" for _ in range(2)]
    one, other = Engine(ends[:1], []), Engine(ends[1:], ends[:1])
    try:

        def slowly(key: str, data: bytes, answer: Callable[[bytes], None]) -> None:
            time.sleep(0.002)
            answer(data)

        one.serve("echo/*", slowly)
        found: queue.Queue[bytes | None] = queue.Queue()

        def is_served() -> bool:
            other.ask("echo/x", b"x", 60, found.put)
            return found.get(timeout=60) == b"x"

        until(is_served)
        sizes = [*range(1 << 18, (1 << 18) + 64), 5 << 20, 17 << 20]
        for size in sizes:
            other.ask("echo/x", bytes(size), 60, found.put)
        answers = [found.get(timeout=60) for _ in sizes]
        assert sorted(len(answer or b"") for answer in answers) == sizes
    finally:
        other.close()
        one.close()


class Replies:
    """A session of zenoh that notes the replies to each question as they come, and passes them on."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.found: list[bytes] = []

    def get(self, key: str, callback: Any, **how: Any) -> None:
        def take(reply: Any) -> None:
            self.found.append(reply.ok.payload.to_bytes())
            callback.callback(reply)

        self._session.get(key, zenoh.handlers.Callback(take, callback.drop, indirect=callback.indirect), **how)


def test_answers_come_as_they_were_given(place: Path) -> None:
    """By default zenoh sorts the replies to a question by their times, and leaves out those before the last one."""
    ends = [f"unixsock-stream/{place}/{name}" for name in ("one", "other")]
    one, other = Engine(ends[:1], []), Engine(ends[1:], ends[:1])
    session = other._session
    try:
        early, late = one._session.new_timestamp(), one._session.new_timestamp()

        def take(query: Any) -> None:
            with query:
                query.reply(query.key_expr, b"first", timestamp=late)
                query.reply(query.key_expr, b"second", timestamp=early)
                query.reply(query.key_expr, b"third", timestamp=late)

        one._session.declare_queryable("echo/*", take, complete=True)
        found: queue.Queue[bytes | None] = queue.Queue()

        def answer() -> bytes | None:
            other.ask("echo/x", b"x", 60, found.put)
            return found.get(timeout=60)

        until(lambda: answer() is not None)
        replies = Replies(session)
        other._session = replies
        assert answer() == b"first"
        assert replies.found == [b"first", b"second", b"third"]
    finally:
        other._session = session
        other.close()
        one.close()


def sockets(pid: int) -> list[tuple[str, str]]:
    """The addresses that a process listens at, or gets datagrams at: the kind and the address."""
    own = {os.readlink(f"/proc/{pid}/fd/{each}") for each in os.listdir(f"/proc/{pid}/fd")}
    found = []
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in own and (kind.startswith("udp") or words[3] == "0A"):
                found.append((kind, words[1]))
    return found


def test_an_agent_listens_where_it_was_told_and_searches_for_no_peer(place: Path, made: list[Host]) -> None:
    """By default zenoh listens at all addresses and searches for others by multicast."""
    port = free_port()
    made.append(Host(HOST, place / "here", endpoint=f"tcp/127.0.0.1:{port}"))
    assert sockets(made[0].agent.pid) == [("tcp", f"0100007F:{port:04X}")]


def test_parts_of_logs_are_no_larger_than_they_may_be(place: Path, made: list[Host]) -> None:
    there = Host(THERE, place / "there")
    made.append(there)
    here = Host(HOST, place / "here", (there.endpoint,))
    made.append(here)
    node = there.node("two")
    until(lambda: here.sees(node.name))
    with Cluster() as cluster:
        cluster.trace("__main__:work", folder="logs").check()
        (path,) = cluster.logs().check()[node.name]
        control = cluster._control
        link = control._nodes[node.name]
        ask = [
            (link, request, [path, 0, length])
            for request, most in (("chunk", 4 << 20), ("checksum", 64 << 20))
            for length in (0, most, most + 1)
        ]
        ask += [(link, "chunk", [path, -1, 1]), (link, "chunk", [path]), (link, "checksum", [7, 0, 1])]
        answers = [answer[0] if answer[0] == "ok" else answer for answer in control._hub.call(ask, 20)]
    wrong = ("error", "badarg")
    assert answers == [wrong, "ok", wrong, wrong, "ok", wrong, wrong, wrong, wrong]
