"""Many nodes of other hosts: none is missed, no call waits for longer than its time, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")

from agent_tools import THERE, Host, joined
from inviso.agent._keys import Keys
from inviso.agent._near import Near
from inviso.control._control import Control
from inviso_tools import Peer, descriptors, resident
from node_tools import HOST
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("INVISO_STRESS_SECONDS", "5"))
MANY = 200
"""More than wait at a socket at once."""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    monkeypatch.chdir(tmp_path)
    with joined(tmp_path, HOST) as found:
        monkeypatch.setenv("INVISO_DIR", str(found[0].folder))
        yield found


@pytest.fixture
def speaker(hosts: tuple[Host, Host]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the other host that speaks for many nodes, which this one's agent knows."""
    words = [sys.executable, "-m", "benches.python.cluster_speaker", "0", str(MANY)]
    environment = {**os.environ, **hosts[1].environment}
    made = subprocess.Popen(words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert made.stdout is not None and made.stdout.readline() == b"ready\n"
        until(lambda: hosts[0].sees(*names()))
        yield made
    finally:
        made.kill()
        made.communicate()


def names(ended: int = 0) -> list[str]:
    """The nodes that live after this number of nodes have ended and as many begun."""
    return [f"speaks-0-{number}@{THERE}" for number in range(ended, ended + MANY)]


def test_many_nodes_at_once(hosts: tuple[Host, Host], speaker: subprocess.Popen[bytes]) -> None:
    with closing(Control(name=f"control@{HOST}", timeout=60)) as control:
        assert sorted(each.node for each in control.find()) == sorted(names())
        assert control.silent == []
        assert control.add(names(), "tag", {}) == [(name, ("ok", "new")) for name in names()]
        for _ in range(5):
            assert {answer for _, answer in control.call(None, "get_status")} == {("ok", ("new", "running"))}
        for host in hosts:
            assert len(os.listdir(f"/proc/{host.agent.pid}/task")) < 50  # no thread for a node, or for a question
        assert control.remove(None, ends=False) == [(name, "ok") for name in names()]


def test_nodes_that_come_and_go(hosts: tuple[Host, Host], speaker: subprocess.Popen[bytes]) -> None:
    """For some seconds, or INVISO_STRESS_SECONDS: ended nodes leave nothing in the control or an agent."""
    assert speaker.stdin is not None and speaker.stdout is not None
    pids = [os.getpid(), *(host.agent.pid for host in hosts)]
    end, ended, before, memory = time.monotonic() + SECONDS, 0, [0], [0]
    with closing(Control(name=f"control@{HOST}", timeout=20)) as control:
        control.add(names(), "tag", {})
        while ended < 100 or time.monotonic() < end:
            speaker.stdin.write(b"20\n")
            speaker.stdin.flush()
            assert speaker.stdout.readline() == b"done\n"
            ended += 20
            until(lambda: set(control.nodes()) <= set(names(ended)))  # noqa: B023
            until(lambda: hosts[0].sees(*names(ended)))  # noqa: B023
            new = sorted(set(names(ended)).difference(control.nodes()))
            assert control.add(new, "tag", {}) == [(name, ("ok", "new")) for name in new]
            assert {answer for _, answer in control.call(None, "get_status")} == {("ok", ("new", "running"))}
            if ended == 60:
                before, memory = [descriptors(pid) for pid in pids], [resident(pid) for pid in pids]
        until(lambda: [descriptors(pid) for pid in pids] == before)
        grown = [resident(pid) - was for pid, was in zip(pids, memory, strict=True)]
        assert grown[0] < 4 << 20, grown
        # zenoh keeps 1.4 KB of each name, and 0.75 KB of each question until its time is over
        rounds = (ended - 60) // 20
        assert max(grown[1:]) < rounds * (20 * 3000 + MANY * 1000) + (4 << 20), grown


def test_an_agent_that_hangs(hosts: tuple[Host, Host], speaker: subprocess.Popen[bytes]) -> None:
    """The wait for all nodes together is as long as that for one."""
    with closing(Control(name=f"control@{HOST}", timeout=1)) as control:
        hosts[0].agent.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        answers = control.add(names(), "tag", {})
        assert time.monotonic() - began < 20
        assert {answer for _, answer in answers} == {("error", "timeout"), ("error", "busy")}
        began = time.monotonic()
        assert control.find() == [] and time.monotonic() - began < 20
        hosts[0].agent.send_signal(signal.SIGCONT)
        control.timeout = 60
        until(lambda: {answer[0] for _, answer in control.add(names(), "tag", {})} == {"ok"})


def test_a_question_is_given_up_when_nobody_waits_for_it(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    until(lambda: here.sees(node.name))
    node.kill(signal.SIGSTOP)
    with closing(Peer(here.folder / "agent", here.agent.pid, greets=False)) as peer:
        peer.send(("inviso", (1, 0), {"node": f"peer@{HOST}", "pid": os.getpid(), "to": node.name}))
        peer.send(("call", 1, "get_status", [], 100))
        assert peer.next()[0] == "inviso"
        assert peer.next()[:2] == ("answer", 1)  # the agent's own process has no such wait
        peer.send(("call", 2, "get_status", [], -1))
        assert peer.next() == ("refused", "it is no request")


def test_an_agent_may_have_as_many_files_as_the_system_lets_it(hosts: tuple[Host, Host]) -> None:
    soft, hard = resource.prlimit(hosts[0].agent.pid, resource.RLIMIT_NOFILE)
    assert soft == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.mark.parametrize("at", [0, 1])
def test_a_control_learns_that_a_node_has_let_it_go(hosts: tuple[Host, Host], at: int) -> None:
    """One host has lost sight of the other, which comes back so soon that the node was never missed there."""
    here, there = hosts
    node = there.node("shop-2")
    until(lambda: here.sees(node.name))
    with closing(Control(name=f"control@{HOST}", timeout=60)) as control:
        assert control.add([node.name], "tag", {})[0][1] == ("ok", "new")
        hosts[at].agent.send_signal(signal.SIGSTOP)
        until(lambda: hosts[1 - at].status()["connections"] == 0)
        hosts[at].agent.send_signal(signal.SIGCONT)
        until(lambda: control.nodes() == [])
        until(lambda: control.add([node.name], "tag", {})[0][1] == ("ok", ("adopted", "new", "running", "tag")))
        assert control.call(None, "get_status") == [(node.name, ("ok", ("new", "running")))]


def test_a_control_that_has_gone_before_its_request_is_carried_out(hosts: tuple[Host, Host]) -> None:
    """The agent finds the request and the end of its control at the same time, and leaves no connection open."""
    here, there = hosts
    node = there.node("shop-2")
    until(lambda: here.sees(node.name))
    with closing(Control(name=f"control@{HOST}", timeout=0.5)) as control:
        for _ in range(3):
            there.agent.send_signal(signal.SIGSTOP)
            assert control.add([node.name], "tag", {}) == [(node.name, ("error", "timeout"))]
            there.agent.send_signal(signal.SIGCONT)
            control.timeout = 60
            until(lambda: control.add([node.name], "tag", {})[0][1][0] == "ok", 20)
            assert control.remove(None, ends=False) == [(node.name, "ok")]
            control.timeout = 0.5


def test_names_that_change_twice_in_one_tick() -> None:
    """The time of a folder stays the same then, so it is looked at again."""

    class Folder:
        def __init__(self) -> None:
            self.looks = 0

        def names_changed(self) -> int:
            return now

        def names(self) -> dict[str, int]:
            self.looks += 1
            return {} if self.looks == 1 else {f"late@{HOST}": 1}

        def connect(self, pid: int) -> Any:
            reached.set()
            raise ConnectionRefusedError

    class Engine:
        def serve(self, *_: Any) -> None: ...

        watch = serve

    async def look() -> None:
        near: Any = Near
        task = asyncio.create_task(near(Folder(), Engine(), Keys("test", HOST)).run())
        await asyncio.wait_for(reached.wait(), 20)
        task.cancel()

    now, reached = time.time_ns(), asyncio.Event()
    asyncio.run(look())
