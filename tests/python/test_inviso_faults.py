"""Control and runtime components when processes, sockets, disks and files fail: nothing hangs, and others go on."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inviso import log
from inviso.control._control import Control
from inviso.control._logs import copy
from inviso_tools import HOST, Node, Place, descriptors
from waiting import until

WORK = ("__main__", "step", "_", True)
FLAGS = ["call", "timestamp"]


@pytest.fixture
def made(place: Place) -> Iterator[Callable[..., Control]]:
    """Makes control components in this process."""
    controls: list[Control] = []

    def make(name: str = "tests", timeout: float = 10.0) -> Control:
        controls.append(Control(name=f"{name}@{HOST}", timeout=timeout))
        return controls[-1]

    yield make
    for control in controls:
        control.close()


@pytest.fixture
def control(made: Callable[..., Control]) -> Control:
    return made()


def heard(control: Control) -> list[tuple[float, Any]]:
    """The events of a control, each with the time when it came."""
    events: list[tuple[float, Any]] = []
    control.subscribe(lambda event: events.append((time.monotonic(), event[3])))
    return events


def trace(control: Control, *nodes: Node, name: str = "log", **settings: Any) -> None:
    """Adds nodes and traces calls of ``step``."""
    names = [node.node for node in nodes]
    assert control.add(names, "mine", settings) == [(name, ("ok", "new")) for name in names]
    for each in names:
        assert control.call([each], "init_tracing", ("file", f"{name}-{each}")) == [
            (each, ("ok", [("trace_log", "ok")]))
        ]
    for each, answer in control.call(names, "tpl", [WORK]):
        assert answer == ("ok", [1]), each
    for each, answer in control.call(names, "tf", [("all", FLAGS)]):
        assert answer[0] == "ok" and answer[1][0] > 0, each


def calls(path: Path) -> int:
    """The number of calls in a log; it is read without damage."""
    return sum(1 for message in log.read(path) if message[0] == "trace_ts" and message[2] == "call")


# processes that are killed


def test_a_killed_node_is_noticed_soon(place: Place, control: Control) -> None:
    """Within 10 ms if the machine has time for it. The test's bound is wider; the figure is printed."""
    events, took = heard(control), []
    for number in range(5):
        node = place.node(f"a{number}")
        assert control.add([node.node], "mine", {}) == [(node.node, ("ok", "new"))]
        began = time.monotonic()
        node.kill()
        until(lambda node=node: any(event[:2] == ("disconnected", node.node) for _, event in events))
        took.append(1000 * (events[-1][0] - began))
        assert events[-1][1][2] in ("killed", "noconnection")
        assert control.nodes() == []
    print(f"kill -9 seen after {statistics.median(took):.1f} ms, at most {max(took):.1f} ms")
    assert statistics.median(took) < 1000


@pytest.mark.parametrize("request_", ["get_status", "init_tracing", "stop_tracing", "info", "suspend", "clear"])
def test_a_node_that_is_killed_in_a_call(place: Place, control: Control, request_: str) -> None:
    """The call ends with an error for that node and an answer for the other. The log can be read."""
    dies, lives = place.node("dies"), place.node("lives")
    trace(control, dies, lives)
    dies.ask("work(100)")
    control.call([dies.node], "flush")
    words = {"init_tracing": [("file", "again")], "suspend": ["x"]}.get(request_, [])
    answers: list[Any] = []
    dies.stop()  # so it stops somewhere in the call
    caller = threading.Thread(target=lambda: answers.extend(control.call(None, request_, *words, timeout=30)))
    began = time.monotonic()
    caller.start()
    until(lambda: any(link.pending for link in control._nodes.values()))
    dies.kill()
    caller.join(30)
    assert time.monotonic() - began < 20
    assert dict(answers)[dies.node] == ("error", ("no_response", "disconnected"))
    assert dict(answers)[lives.node] == "ok" or dict(answers)[lives.node][0] in ("ok", "error")
    assert control.nodes() == [lives.node]
    assert calls(place.path / "logs" / f"log-{dies.node}") == 100


@pytest.mark.parametrize("dependency", [0, 300, "infinity"])
def test_a_killed_control(place: Place, dependency: Any) -> None:
    """The runtime component acts by its dependency. A later control gets its reference."""
    node, first = place.node(), place.control("first")
    first.ask(f"control.add([{node.node!r}], 'tag of the first', {{'dependency': {dependency!r}}})")
    first.ask("control.call(None, 'init_tracing', ('file', 'a'))")
    first.ask(f"control.call(None, 'tpl', [{WORK!r}])")
    first.ask(f"control.call(None, 'tf', [('all', {FLAGS!r})])")
    node.ask("work(5)")
    began = time.monotonic()
    first.kill()
    if dependency == "infinity":
        until(lambda: node.ask("listener.host.owner is None"))
        node.ask("work(5)")
    else:
        until(lambda: node.ask("listener.host.component is None"))
        assert time.monotonic() - began >= dependency / 1000
        until(lambda: calls(place.path / "logs" / "a") == 5)  # the log is closed when it has ended
    later = Control(name=f"later@{HOST}")
    try:
        ((_, answer),) = later.add([node.node], "tag of the later", {})
        if dependency == "infinity":
            assert answer == ("ok", ("adopted", "tracing", "running", "tag of the first"))
            assert later.call(None, "stop_tracing") == [(node.node, ("ok", "idle"))]
            assert calls(place.path / "logs" / "a") == 10
        else:
            assert answer == ("ok", "new")
    finally:
        later.close()


@pytest.mark.parametrize("moment", range(8))
def test_a_control_that_is_killed_in_a_call(place: Place, moment: int) -> None:
    """At any request: the node goes on, and its log can be read."""
    node, first = place.node(), place.control("first")
    first.tell(
        f"control.add([{node.node!r}], 't', {{'dependency': 0}}); "
        f"[control.call(None, 'init_tracing', ('file', 'a')) and control.call(None, 'tpl', [{WORK!r}]) and "
        f"control.call(None, 'tf', [('all', {FLAGS!r})]) and control.call(None, 'clear', ['keep_log_files']) for _ in "
        f"range(1000)]"
    )
    until(lambda: node.ask("listener.host.owner is not None"))
    node.ask(f"[work(1) for _ in range({moment * 40})]")
    first.kill()
    until(lambda: node.ask("listener.host.component is None"))
    node.ask("work(10)")
    if (place.path / "logs" / "a").exists():
        assert calls(place.path / "logs" / "a") <= moment * 40
    later = Control(name=f"later@{HOST}")
    try:
        assert later.add([node.node], "later", {}) == [(node.node, ("ok", "new"))]
    finally:
        later.close()


def test_two_controls_at_once(place: Place, control: Control) -> None:
    node, first = place.node(), place.control("first")
    assert first.ask(f"control.add([{node.node!r}], 't', {{}})") == [(node.node, ("ok", "new"))]
    assert control.add([node.node], "t", {}) == [(node.node, ("error", ("refused", f"first@{HOST}", first.pid)))]
    assert control.nodes() == []
    assert first.ask("control.call(None, 'get_status')") == [(node.node, ("ok", ("new", "running")))]
    first.ask("control.remove(None, ends=False)")
    assert control.add([node.node], "u", {}) == [(node.node, ("ok", ("adopted", "new", "running", "t")))]
    assert control.add([node.node], "u", {}) == [(node.node, ("ok", "already_added"))]


def test_a_reference_decides_who_adopts(place: Place, made: Callable[..., Control]) -> None:
    node, one, other = place.node(), made("one"), made("other")
    assert one.add([node.node], "mine", {}, if_ref=True) == [(node.node, ("ok", "new"))]
    one.remove(None, ends=False)
    assert other.add([node.node], "yours", {}, if_ref=True) == [(node.node, ("error", ("wrong_reference", "mine")))]
    assert one.add([node.node], "mine", {}, if_ref=True) == [(node.node, ("ok", ("adopted", "new", "running", "mine")))]


# processes that don't answer


def test_a_stopped_node_has_a_timeout_in_its_place(place: Place, made: Callable[..., Control]) -> None:
    control = made(timeout=3.0)
    nodes = [place.node(name) for name in ("a", "b", "c")]
    names = [node.node for node in nodes]
    trace(control, *nodes)
    events = heard(control)
    nodes[0].stop()
    for _ in range(3):
        began = time.monotonic()
        assert control.call(None, "get_status") == [
            (names[0], ("error", "timeout")),
            (names[1], ("ok", ("tracing", "running"))),
            (names[2], ("ok", ("tracing", "running"))),
        ]
        assert 2.9 < time.monotonic() - began < 20
    assert control.call([names[0]], "suspend", "late", timeout=0.1) == [(names[0], ("error", "timeout"))]
    until(lambda: control._nodes[names[0]].pending == {})  # nothing waits any more
    nodes[0].kill(signal.SIGCONT)
    # the requests are carried out in their order; their answers are dropped
    until(lambda: [event for _, event in events] == [("state_change", names[0], ("tracing", ("suspended", "late")))])
    assert control.call(None, "get_status", timeout=10)[0] == (names[0], ("ok", ("tracing", ("suspended", "late"))))
    assert control.nodes() == names


def test_a_stopped_node_delays_nobody_who_adds_or_looks(place: Place, made: Callable[..., Control]) -> None:
    """Also if it is the first node of the request."""
    control = made(timeout=3.0)
    nodes = [place.node(name) for name in ("a", "b", "c")]
    nodes[0].stop()
    began = time.monotonic()
    found = [each.node for each in control.find()]
    assert found == [node.node for node in nodes[1:]]
    answers = control.add([node.node for node in nodes], "mine", {})
    assert answers == [(nodes[0].node, ("error", "timeout")), *((node.node, ("ok", "new")) for node in nodes[1:])]
    assert time.monotonic() - began < 30
    nodes[0].kill(signal.SIGCONT)
    # its request is void: the connection has ended
    until(lambda: nodes[0].ask("listener.host.owner is None and not listener._connections"))
    assert control.add([nodes[0].node], "mine", {})[0][1][0] == "ok"


def test_as_many_as_may_wait_for_a_stopped_node(place: Place, made: Callable[..., Control]) -> None:
    control, node = made(timeout=0.2), place.node()
    node.stop()
    links = []
    with pytest.raises(BlockingIOError):
        while len(links) < 1000:
            links.append(control._hub.connect(control.folder(), node.pid))
    assert control.add([node.node], "mine", {}) == [(node.node, ("error", "busy"))]
    for link in links:
        control._hub.leave(link)
    node.kill(signal.SIGCONT)
    until(lambda: control.add([node.node], "mine", {})[0][1] == ("ok", "new"))


# sockets and their folder


def test_the_folder_of_sockets_is_removed(place: Place, control: Control) -> None:
    """Existing connections go on. A control looks into the new folder. The program ends as usual."""
    old, also = place.node("old"), place.node("also")
    assert control.add([old.node], "mine", {}) == [(old.node, ("ok", "new"))]
    shutil.rmtree(place.sockets)
    assert control.call(None, "get_status") == [(old.node, ("ok", ("new", "running")))]
    assert control.add([also.node], "mine", {}) == [(also.node, ("error", "nodedown"))]
    assert control.find() == []
    new = place.node("new")
    assert [each.node for each in control.find()] == [new.node]
    assert control.add([new.node], "mine", {}) == [(new.node, ("ok", "new"))]
    old.ask("runtime.stop_listening()")
    until(lambda: control.nodes() == [new.node])
    for node in (old, also, new):
        node.process.stdin.close()
        assert node.wait() == 0
        assert node.stderr() == ""


def test_stale_sockets_are_removed(place: Place, control: Control) -> None:
    node = place.node()
    node.kill()
    node.wait()
    assert sorted(os.listdir(place.sockets / "names")) == [node.node]
    assert (place.sockets / f"{node.pid}.sock").exists()
    assert control.find() == []
    assert control.add([node.node], "mine", {}) == [(node.node, ("error", "nodedown"))]
    assert sorted(os.listdir(place.sockets / "names")) == []
    assert not (place.sockets / f"{node.pid}.sock").exists()
    # the name is free
    assert place.node("n").node == f"n@{HOST}"


def test_a_listener_leaves_nothing_behind(place: Place) -> None:
    node = place.node()
    opened = descriptors(node.pid)
    node.ask("runtime.stop_listening()")
    assert [each for each in os.listdir(place.sockets) if each.endswith(".sock")] == []
    assert os.listdir(place.sockets / "names") == []
    before = descriptors(node.pid)
    assert before < opened
    for _ in range(3):
        node.ask("runtime.listen('n')")
        node.ask("runtime.stop_listening()")
    assert descriptors(node.pid) == before


# logs and disks


def test_a_log_is_removed_while_it_is_fetched(place: Place, control: Control) -> None:
    node = place.node()
    trace(control, node)
    node.ask("work(100)")
    assert control.call(None, "stop_tracing") == [(node.node, ("ok", "idle"))]
    ((_, (_, [(_, paths)])),) = control.call(None, "log_paths")
    target = place.path / "fetched"
    target.mkdir()
    assert copy(paths[0], str(target), "x-")[0] == "ok"
    os.unlink(paths[0])
    assert copy(paths[0], str(target), "y-") == ("error", ("remote_open", paths[0]))
    assert control.call(None, "list_logs")[0][1] == ("ok", [("trace_log", ".", [])])
    assert os.listdir(target) == [f"x-log-{node.node}"]


def test_only_plain_files_are_fetched(tmp_path: Path) -> None:
    """A pipe in a log's place doesn't keep the control waiting."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "to").mkdir()
    for name in ("pipe", "link", "to"):
        assert copy(str(tmp_path / name), str(tmp_path / "to"), "") == ("error", ("remote_open", str(tmp_path / name)))
    assert os.listdir(tmp_path / "to") == []


def test_the_disk_is_full(place: Place, control: Control) -> None:
    """The log ends, the control gets an event, and the program notices nothing."""
    node = place.node()
    events = heard(control)
    trace(control, node, overload=None)
    node.ask("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))")
    node.tell("while listener.host.component.machine.is_tracing: work(100)")
    until(lambda: ("state_change", node.node, ("idle", "running")) in [event for _, event in events])
    kinds = [event[0] for _, event in events]
    assert kinds.index("port_down") < len(kinds) - 1 and kinds[-1] == "state_change"
    assert node.answer() is None
    assert control.call(None, "get_status") == [(node.node, ("ok", ("idle", "running")))]
    node.ask("resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))")
    assert control.call(None, "init_tracing", ("file", "again")) == [(node.node, ("ok", [("trace_log", "ok")]))]
    assert 0 < calls(place.path / "logs" / f"log-{node.node}")
    assert node.stderr() == ""


def test_there_is_no_room_on_the_disk(place: Place, control: Control, small_disk: Path) -> None:
    """ENOSPC from a file system: for a log, and for a fetched file."""
    node = place.node()
    events = heard(control)
    assert control.add([node.node], "mine", {"overload": None})[0][1] == ("ok", "new")
    (place.path / "logs").symlink_to(small_disk)  # its own folder of logs may be one
    assert control.call(None, "init_tracing", ("file", "a")) == [(node.node, ("ok", [("trace_log", "ok")]))]
    control.call(None, "tpl", [WORK])
    control.call(None, "tf", [("all", FLAGS)])
    node.tell("while listener.host.component.machine.is_tracing: work(100)")
    until(lambda: ("state_change", node.node, ("idle", "running")) in [event for _, event in events])
    assert any(event[0] == "port_down" for _, event in events)
    assert node.answer() is None
    full = small_disk / "full"
    full.mkdir()
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(64))
    answer = copy(str(small_disk / "a"), str(full), "")
    assert answer == ("error", ("file_write", ("enospc", "a"))), answer
    assert os.listdir(full) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a file system of a test's own can't be had here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
