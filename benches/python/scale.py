"""A control over many runtimes of many hosts: the times of its calls, and the costs of each node and each agent.

    python -m benches.python.scale [--nodes 100 300 1000] [--agents 20] [--rounds 100 | --seconds 600] [--coming 5]

Each agent has a folder of sockets and a host's name of its own, and listens on loopback. All connect to the first
one, and learn of each other there: so each ends with a connection to every other. The nodes speak the real protocol
of a listener, each over its own socket, from one process a host; they run no program. The control is on the first
host. For each number of nodes:

* until the first agent knows all nodes; looking for them; adding them; ``tf`` and ``get_status`` on all. Every
  answer is checked.
* memory of the control for a node, resident and of Python's objects; of the agent of its host; of the others; their
  threads and descriptors.
* rounds in which ``--coming`` nodes of each host end and as many begin, for ``--rounds`` or ``--seconds``: sizes of
  control and agents at the start, in the middle and at the end, and their growth.
* the end of an agent: until the control knows that its nodes are gone.

At the end the line through the figures of all numbers of nodes. One line of JSON on standard output for each figure,
with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .agent import agent, free_port, start
from .cluster import checked
from .cluster import tell as tell_one

LIMIT = 120.0
"""Seconds that anything may take."""

LINES = (
    "find", "add", "tf, p50", "get_status, p50", "remove", "control, resident", "agent of the control, resident",
    "agent of the control, descriptors", "another agent, resident",
)  # fmt: skip
"""The figures that a line is laid through."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="how long nodes come and go, in place of --rounds")
    parser.add_argument("--coming", type=int, default=5)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = {nodes: measure(nodes, given.agents, given) for nodes in given.nodes}
    if len(found) < 2:
        return
    for what in LINES:
        units = {unit for figures in found.values() for name, (_, unit) in figures.items() if name == what}
        slope, base = statistics.linear_regression(list(found), [figures[what][0] for figures in found.values()])
        line = {"line": what, "at no node": round(base, 2), "for a node": round(slope, 4), "unit": units.pop()}
        print(json.dumps(line))


def measure(nodes: int, agents: int, given: argparse.Namespace) -> dict[str, tuple[float, str]]:
    """The figures for one number of nodes."""
    figures: dict[str, tuple[float, str]] = {}

    def tell(what: str, value: float, unit: str) -> None:
        figures[what] = value, unit
        tell_one(f"{nodes} nodes, {agents} agents: {what}", value, unit)

    with tempfile.TemporaryDirectory() as folder:
        children: list[subprocess.Popen[bytes]] = []
        try:
            hosts = Hosts(Path(folder), agents, children)
            with control_of(hosts, Path(folder)) as control:
                with_nodes(hosts, control, nodes, tell)
                come_and_go(hosts, control, given, tell)
                objects(hosts, control, tell)
                end_of_an_agent(hosts, control, tell)
        finally:
            for child in children:
                child.kill()
                child.wait()
    return figures


class Hosts:
    """Agents that are connected, each of a host of its own, and the processes that speak for nodes."""

    def __init__(self, place: Path, count: int, children: list[subprocess.Popen[bytes]]) -> None:
        self._place = place
        self._children = children
        first = f"tcp/127.0.0.1:{free_port()}"
        self.names = [f"scale-{number}" for number in range(count)]
        self.agents = [agent(children, place / self.names[0], self.names[0], first)]
        for name in self.names[1:]:
            endpoint = f"tcp/127.0.0.1:{free_port()}"
            self.agents.append(agent(children, place / name, name, endpoint, "--connect", first))
        self._speakers: list[subprocess.Popen[bytes]] = []
        self._shares: list[int] = []
        self._ended: list[int] = [0] * count

    def environment(self, number: int) -> dict[str, str]:
        name = self.names[number]
        return {**os.environ, "INVISO_DIR": str(self._place / name / "sockets"), "INVISO_HOST": name}

    def speak(self, nodes: int) -> None:
        """Begins this number of nodes, spread over the hosts."""
        count = len(self.names)
        self._shares = [nodes // count + (number < nodes % count) for number in range(count)]
        for number, share in enumerate(self._shares):
            words = [sys.executable, "-m", "benches.python.cluster_speaker", str(number), str(share)]
            self._speakers.append(start(self._children, words, self.environment(number)))

    def turn(self, count: int) -> None:
        """Ends this number of nodes on each host, the oldest first, and begins as many."""
        for number, speaker in enumerate(self._speakers):
            assert speaker.stdin is not None and speaker.stdout is not None
            many = min(count, self._shares[number])
            speaker.stdin.write(b"%d\n" % many)
            speaker.stdin.flush()
            assert speaker.stdout.readline() == b"done\n"
            self._ended[number] += many

    def nodes(self, number: int | None = None) -> list[str]:
        """The live nodes of one host, or of all."""
        of = range(len(self.names)) if number is None else [number]
        return [
            f"speaks-{each}-{at}@{self.names[each]}"
            for each in of for at in range(self._ended[each], self._ended[each] + self._shares[each])
        ]  # fmt: skip


@contextmanager
def control_of(hosts: Hosts, place: Path) -> Iterator[Any]:
    """A control on the first host, whose agent is connected to all others."""
    for name, value in hosts.environment(0).items():
        os.environ[name] = value
    from inviso.cli._agent import agents
    from inviso.control._control import Control

    for number in reversed(range(len(hosts.names))):
        os.environ["INVISO_DIR"] = hosts.environment(number)["INVISO_DIR"]
        until(lambda: [each["connections"] for each in agents()] == [len(hosts.names) - 1])
    control = Control(name=f"bench@{hosts.names[0]}", timeout=LIMIT)
    try:
        yield control
    finally:
        control.close()


def with_nodes(hosts: Hosts, control: Any, nodes: int, tell: Callable[[str, float, str], None]) -> None:
    own, others = hosts.agents[0].pid, [each.pid for each in hosts.agents[1:]]
    before_agent, before_others = resident(own), statistics.median(map(resident, others))
    hosts.speak(nodes)
    began = time.perf_counter()
    names = hosts.nodes()
    until(lambda: len(known(control)) == len(names))
    tell("all are known after the last has begun", 1000 * (time.perf_counter() - began), "ms")
    more = statistics.median(map(resident, others)) - before_others
    tell("an agent that only knows them, for a node", more / nodes, "bytes")
    before = resident(os.getpid())
    began = time.perf_counter()
    found = control.find()
    tell("find", 1000 * (time.perf_counter() - began), "ms")
    assert sorted(each.node for each in found) == sorted(names), (len(found), len(names))
    began = time.perf_counter()
    answers = control.add(names, "bench", {})
    tell("add", 1000 * (time.perf_counter() - began), "ms")
    wrong = [each for each in answers if each[1] != ("ok", "new")]
    assert not wrong, (len(wrong), wrong[0])
    for request, arguments in (("tf", [[("all", ["call"])]]), ("get_status", [])):
        took = []
        for _ in range(20):
            began = time.perf_counter()
            checked(control.call(names, request, *arguments), len(names))
            took.append(1000 * (time.perf_counter() - began))
        tell(f"{request}, p50", statistics.median(took), "ms")
        tell(f"{request}, at most", max(took), "ms")
    tell("control, resident", resident(os.getpid()) - before, "bytes")
    tell("control, resident, for a node", (resident(os.getpid()) - before) / nodes, "bytes")
    tell("control, descriptors", descriptors(os.getpid()), "")
    tell("agent of the control, resident", resident(own), "bytes")
    tell("agent of the control, for a node", (resident(own) - before_agent) / nodes, "bytes")
    tell("agent of the control, descriptors", descriptors(own), "")
    tell("agent of the control, threads", threads(own), "")
    tell("another agent, resident", statistics.median(map(resident, others)), "bytes")
    tell("another agent, descriptors", statistics.median(map(descriptors, others)), "")
    tell("another agent, threads", statistics.median(map(threads, others)), "")


def come_and_go(hosts: Hosts, control: Any, given: argparse.Namespace, tell: Callable[[str, float, str], None]) -> None:
    """Rounds in which nodes come and go; the sizes after a tenth of them, after half of them, and after all."""
    pids = {"the control": os.getpid(), "its agent": hosts.agents[0].pid, "another agent": hosts.agents[-1].pid}
    sizes: list[dict[str, tuple[int, int, int]]] = []
    took: list[float] = []
    errors = 0
    control.timeout = 10  # a question takes memory of the agent until that time, also if it is answered
    end = time.monotonic() + (given.seconds or 0)
    while time.monotonic() < end if given.seconds is not None else len(took) < given.rounds:
        began = time.perf_counter()
        hosts.turn(given.coming)
        names = set(hosts.nodes())
        until(lambda names=names: names.issuperset(control.nodes()))
        until(lambda names=names: set(known(control)) == names, 0.05)
        errors += refused(control, names)
        errors += sum(answer[0] != "ok" for _, answer in control.call(None, "get_status"))
        took.append(1000 * (time.perf_counter() - began))
        sizes.append({name: (resident(pid), descriptors(pid), threads(pid)) for name, pid in pids.items()})
    if not took:
        return
    changed = given.coming * len(hosts.names)
    tell(f"{changed} nodes go and as many come, p50", statistics.median(took), "ms")
    tell(f"{changed} nodes go and as many come, rounds", len(took), "")
    tell("answers that were errors", errors, "")
    until(lambda: refused(control, set(hosts.nodes())) == 0)
    checked(control.call(None, "get_status"), len(hosts.nodes()))
    first, last = len(took) // 10, len(took) - 1
    for name in pids:
        for at, (what, unit) in enumerate((("memory", "bytes"), ("descriptors", ""), ("threads", ""))):
            for number in dict.fromkeys((first, len(took) // 2, last)):
                tell(f"{name}, {what}, {changed * (number + 1)} nodes gone", sizes[number][name][at], unit)
            grown = sizes[last][name][at] - sizes[first][name][at]
            tell(f"growth over {last - first} rounds: {name}, {what}", grown, unit)


def refused(control: Any, names: set[str]) -> int:
    """Adds the nodes that are not added; returns how many of them failed. A host that gets no processor for two seconds
    is lost for a moment, with its nodes.
    """
    new = sorted(names.difference(control.nodes()))
    return sum(answer != ("ok", "new") for _, answer in control.add(new, "bench", {}))


def objects(hosts: Hosts, control: Any, tell: Callable[[str, float, str], None]) -> None:
    """The memory of the control's objects for a node, by tracemalloc; and the time to remove all nodes."""
    names = hosts.nodes()
    control.timeout = LIMIT
    began = time.perf_counter()
    control.remove(None, ends=False)
    tell("remove", 1000 * (time.perf_counter() - began), "ms")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        checked(control.add(names, "bench", {}), len(names))
        tell("control, its objects, for a node", (tracemalloc.get_traced_memory()[0] - before) / len(names), "bytes")
    finally:
        tracemalloc.stop()


def end_of_an_agent(hosts: Hosts, control: Any, tell: Callable[[str, float, str], None]) -> None:
    last = len(hosts.names) - 1
    gone = set(hosts.nodes(last))
    hosts.agents[last].kill()
    began = time.perf_counter()
    until(lambda: gone.isdisjoint(control.nodes()))
    tell("an agent ends: its nodes are gone after", 1000 * (time.perf_counter() - began), "ms")
    assert len(control.nodes()) == len(hosts.nodes()) - len(gone)


def known(control: Any) -> list[str]:
    """The nodes of this host, and those of others that its agent knows; no node is asked."""
    return [*control.folder().names(), *(name for _, _, name in control._elsewhere(["*"]))]


def until(holds: Callable[[], Any], every: float = 0.01) -> None:
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(every)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


if __name__ == "__main__":
    main()
