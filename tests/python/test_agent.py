"""Several hosts: agents that join them, controls that ask nodes of another host, and failures of each."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")

from agent_tools import THERE, Host, joined
from inviso import Atom, BadArg, Cluster, etf, log
from inviso.agent._engine import Engine
from inviso.agent._keys import Keys
from inviso.agent._near import _ok
from inviso.control._control import Control
from inviso.control._logs import PART, PIECE, RemoteSource, copy_set, fetched
from inviso.top._live import Live
from node_tools import HOST, Node
from waiting import until


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with joined(tmp_path_factory.mktemp("hosts"), HOST) as found:
        yield found


@pytest.fixture
def hosts(pair: tuple[Host, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    """Both hosts. This process is in the first one."""
    monkeypatch.setenv("INVISO_DIR", str(pair[0].folder))
    monkeypatch.chdir(tmp_path)
    yield pair
    for host in pair:
        for node in host.nodes:
            node.close()
        host.nodes.clear()
    until(lambda: pair[0].sees() and pair[1].sees())


@pytest.fixture
def own_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    """Two hosts whose agents a test may end."""
    monkeypatch.chdir(tmp_path)
    with joined(tmp_path, HOST) as found:
        monkeypatch.setenv("INVISO_DIR", str(found[0].folder))
        yield found


def seen(host: Host, *nodes: Node) -> None:
    until(lambda: host.sees(*(node.name for node in nodes)))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "inviso", *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_nodes_of_both_hosts_into_one_log(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    nodes = [here.node("shop-1"), there.node("shop-2"), there.node("web")]
    seen(here, *nodes[1:])
    with Cluster("shop-*") as cluster:
        assert cluster.nodes == [f"shop-1@{HOST}", f"shop-2@{THERE}"]
        found = cluster.trace("__main__:work", folder="logs", arguments=True).check()
        assert dict(found) == {node: 1 for node in cluster.nodes}
        for number, node in enumerate(nodes[:2]):
            node.run(f"work({number})")
        stopped = cluster.stop().check()
        merged = cluster.merge("all.log", "erlang")
    assert {node: each["records"] for node, each in stopped.items()} == {node.name: 1 for node in nodes[:2]}
    assert [message[3] for message in log.read(stopped[f"shop-2@{THERE}"]["log"])] == [("__main__", "work", [1])]
    assert set(merged.nodes) == {node.name for node in nodes[:2]}


def test_the_commands(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    done = command("nodes", "--json")
    assert {name: each["pid"] for name, each in json.loads(done.stdout)["nodes"].items()} == {node.name: str(node.pid)}
    done = command("start", "shop-*", "-p", "__main__", "--for", "100ms", "-o", "logs")
    assert (done.returncode, done.stdout.split("\t")[0]) == (0, node.name), done.stderr
    assert Path("logs", f"{node.name}.log").exists()
    done = command("agent", "--status")
    assert done.stdout.splitlines()[1] == f"\t{node.name}"


def test_a_large_log_comes_whole(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = hosts
    node = there.node("big")
    seen(here, node)
    with Cluster("big") as cluster:
        node.run("def load(data): return data")
        cluster.trace("__main__:load", arguments=True, folder="logs").check()
        for _ in range(50):
            node.run("for n in range(2_000): load(b'x' * 300)")
            cluster._control.call(None, "flush")  # a full ring would lose calls
        row = cluster.stop().check()[node.name]
    own = b"".join(path.read_bytes() for path in sorted((there.place / "big").glob("*.log")))
    assert row["records"] + row["lost"] == 100_000
    assert Path(row["log"]).read_bytes() == own and len(own) > 3 * (4 << 20)


def test_only_logs_of_the_node_are_sent(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with closing(Control(name=f"control@{HOST}")) as control:
        assert control.add([node.name], "tag", {})[0][1] == ("ok", "new")
        assert control.call(None, "init_tracing", ("file", "t.log"))[0][1][0] == "ok"
        node.run("work(1)")
        control.call(None, "stop_tracing")
        ((_, answer),) = control.call(None, "log_paths")
        path = dict(answer[1])["trace_log"][0]
        assert control.call(None, "chunk", path, 0, 100)[0][1][0] == "ok"
        for wrong in (str(secret), "/etc/passwd", f"{os.path.dirname(path)}/../{os.path.basename(path)}"):
            assert control.call(None, "chunk", wrong, 0, 100)[0][1] == ("error", ("not_a_log", wrong))
        os.rename(path, f"{path}.old")
        os.symlink(secret, path)
        assert control.call(None, "chunk", path, 0, 100)[0][1][0] == "error"
        for arguments in ([path], [path, -1, 5], [path, 0, 1 << 30], [path, 0, 0], [7, 0, 1]):
            assert control.call(None, "chunk", *arguments)[0][1] == ("error", "badarg")


def test_a_control_elsewhere_holds_a_node(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    one, two = Control(name=f"one@{HOST}"), Control(name=f"two@{HOST}")
    try:
        assert one.add([node.name], "tag", {})[0][1] == ("ok", "new")
        ((_, (how, (why, who, _))),) = two.add([node.name], "tag", {})
        assert (how, why, who) == ("error", "refused", f"one@{HOST}")
        one.close()
        until(lambda: two.add([node.name], "mine", {})[0][1] == ("ok", ("adopted", "new", "running", "tag")))
    finally:
        one.close()
        two.close()


def test_a_live_view_counts_in_both_hosts(hosts: tuple[Host, Host]) -> None:
    here, there = (host.node(f"shop-{at}") for at, host in enumerate(hosts))
    seen(hosts[0], there)
    with Live(["shop-*"], patterns=["__main__:work"], timeout=10) as live:
        until(lambda: [node.counted for node in live.refresh().nodes.values()] == [("__main__:work:_",)] * 2)
        there.run("work(1)")
        until(lambda: live.refresh().nodes[there.name].functions)
        assert live.refresh().nodes[here.name].functions == ()
        there.kill()
        refresh = until(lambda: (found := live.refresh()).errors and found)
        assert [*refresh.errors] == [there.name] and [*refresh.nodes] == [here.name]
    assert here.name in [each.node for each in Cluster("shop-*").found() if each.about["state"] is None]


def events_of(control: Control) -> queue.Queue[Any]:
    found: queue.Queue[Any] = queue.Queue()
    control.subscribe(lambda event: found.put((time.monotonic(), event[3])))
    return found


def test_events_come_in_their_order(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    with closing(Control(name=f"control@{HOST}")) as control:
        events = events_of(control)
        control.add([node.name], "tag", {})
        assert control.call(None, "init_tracing", ("file", "events.log"))[0][1][0] == "ok"
        assert control.call(None, "suspend", "hot") == [(node.name, "ok")]
        assert control.call(None, "cancel_suspension") == [(node.name, "ok")]
        assert events.get(timeout=20)[1] == ("connected", node.name, ("tag", ("new", "running")))
        changes = [events.get(timeout=20)[1] for _ in range(3)]
        assert [each[0] for each in changes] == ["state_change"] * 3
        assert [each[2] for each in changes] == [
            ("tracing", "running"),
            ("tracing", ("suspended", "hot")),
            ("tracing", "running"),
        ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_ends_is_seen(hosts: tuple[Host, Host], number: int) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    with closing(Control(name=f"control@{HOST}")) as control:
        control.add([node.name], "tag", {})
        events = events_of(control)
        killed = time.monotonic()
        node.kill(number)
        when, event = events.get(timeout=20)
        assert event[:2] == ("disconnected", node.name)
        assert control.nodes() == [] and when - killed < 15
        assert control.call([node.name], "get_status") == [(node.name, ("error", "not_an_added_node"))]
        until(lambda: control.add([node.name], "tag", {})[0][1] == ("error", "nodedown"))


def test_a_request_to_a_process_that_ends_meanwhile_is_answered(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    with closing(Control(name=f"control@{HOST}", timeout=30)) as control:
        control.add([node.name], "tag", {})
        node.kill(signal.SIGSTOP)

        def kill() -> None:
            until(lambda: any(link.pending for link in control._nodes.values()))
            node.kill()

        threading.Thread(target=kill).start()
        begun = time.monotonic()
        ((_, answer),) = control.call(None, "get_status")
        assert answer == ("error", ("no_response", "disconnected")) and time.monotonic() - begun < 20


def test_a_process_that_hangs_costs_its_own_time_only(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    nodes = [there.node("shop-1"), there.node("shop-2")]
    seen(here, *nodes)
    with closing(Control(name=f"control@{HOST}", timeout=3)) as control:
        control.add([node.name for node in nodes], "tag", {})
        nodes[0].kill(signal.SIGSTOP)
        answers = dict(control.call(None, "get_status"))
        assert answers == {nodes[0].name: ("error", "timeout"), nodes[1].name: ("ok", ("new", "running"))}
        nodes[0].kill(signal.SIGCONT)
        until(lambda: dict(control.call(None, "get_status"))[nodes[0].name] == ("ok", ("new", "running")))


def test_what_a_control_leaves_acts_by_its_dependency(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    text = f"""
import os
from inviso.control._control import Control
control = Control(name="child@{HOST}")
print(control.add([{node.name!r}], "tag", {{"dependency": 0}})[0][1], flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "('ok', 'new')\n", done.stderr
    with closing(Control(name=f"control@{HOST}")) as control:
        until(lambda: control.add([node.name], "tag", {})[0][1] == ("ok", "new"))


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_an_agent_that_ends(own_hosts: tuple[Host, Host], at: int, number: int) -> None:
    """The control learns that the node is gone. The node acts by its dependency. A restarted agent serves again."""
    here, there = own_hosts
    node = there.node("shop-2")
    seen(here, node)
    with closing(Control(name=f"control@{HOST}")) as control:
        assert control.add([node.name], "tag", {"dependency": 100})[0][1] == ("ok", "new")
        events = events_of(control)
        agent = own_hosts[at].agent
        agent.send_signal(number)
        if number == signal.SIGSTOP and at == 0:
            # its own agent hangs: no event comes, but each call ends in its time
            assert control.call(None, "get_status", timeout=0.5)[0][1] == ("error", "timeout")
        else:
            assert events.get(timeout=20)[1][:2] == ("disconnected", node.name)
        if number == signal.SIGSTOP:
            agent.send_signal(signal.SIGCONT)
        else:
            agent.wait(60)
            own_hosts[at].start()
        seen(here, node)
        if number == signal.SIGSTOP and at == 0:
            control.remove(None, ends=True)
        until(lambda: control.add([node.name], "again", {"dependency": 100})[0][1][0] == "ok")
        assert control.call(None, "get_status")[0][1] == ("ok", ("new", "running"))


def test_without_an_agent_other_hosts_are_not_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    with closing(Control(name=f"control@{HOST}")) as control:
        ((_, (how, (what, why))),) = control.add(["shop@elsewhere"], "tag", {})
        assert (how, what) == ("error", "noconnection")
        assert why == "elsewhere is another host; start 'inviso agent' on both"
    done = command("agent", "--status")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "inviso agent: none runs on this host\n")


def test_an_agent_is_started_where_one_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    there = Host(THERE, tmp_path / THERE)
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    pid = 0
    try:
        node = there.node("shop-2")
        monkeypatch.setenv("INVISO_AGENT", f"--listen unixsock-stream/{tmp_path}/zenoh --connect '{there.endpoint}'")
        with Cluster() as cluster:  # of this host: nothing is started
            assert cluster.nodes == []
        assert command("agent", "--status").returncode == 1
        with Cluster(f"shop-*@{THERE}") as cluster:
            assert cluster.nodes == [node.name]
        told = capfd.readouterr().err
        (pid,) = [each["pid"] for each in json.loads(command("agent", "--status", "--json").stdout)]
        assert told == f"inviso: agent {pid} was started, as INVISO_AGENT says; it continues after this process ends\n"
        with Cluster(f"shop-*@{THERE}") as cluster:
            assert cluster.nodes == [node.name]
        assert capfd.readouterr().err == ""
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
        there.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [("--listen nowhere", "no agent could be started as INVISO_AGENT says: inviso agent: listen:"), ("'", None)],
)
def test_an_agent_that_can_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: str, why: str | None
) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    monkeypatch.setenv("INVISO_AGENT", words)
    with Cluster() as cluster:
        if why is None:
            with pytest.raises(BadArg, match="INVISO_AGENT: \"'\" can't be split into words"):
                cluster._control.find(["shop@web"])
        else:
            assert [*cluster._control.find(["shop@web"]), *cluster._control.find(["shop@web"])] == []
            assert capfd.readouterr().err.count(why) == 1


def test_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    endpoint = f"unixsock-stream/{tmp_path}/zenoh"
    done = command("agent", "--listen", endpoint, "--host", "web", "--cluster", "mine", "--detach")
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout.split()[1])
    try:
        (found,) = json.loads(command("agent", "--status", "--json").stdout)
        assert found == {
            "pid": pid,
            "cluster": "mine",
            "host": "web",
            "nodes": [],
            "connections": 0,
            "routers": 0,
            "without_rights": [],
            "not_joined": [],
            "refused": {"lines": 0, "last": ""},
        }
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: command("agent", "--status").returncode == 1)


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["--host", "a/b"], 2, "is not a name"), (["--cluster", "*"], 2, "is not a name"),
        (["--listen", "nowhere"], 2, "shows no certificate"),
        (["--connect", "tcp/203.0.113.1:1"], 2, "connect: 'tcp/203.0.113.1:1' shows"),
        (["--insecure", "--listen", "nowhere"], 2, "endpoints"),
        (["--listen", "tcp/0.0.0.0:0"], 2, "shows no certificate"), (["--ca", "a.pem"], 2, "belong together"),
        (["--ca", "a", "--cert", "b", "--key", "c"], 2, "'a' can't be read"),
        (["--rights", "none.toml"], 2, "can't be read"),
        (["--insecure", "--listen", "tcp/203.0.113.1:7447"], 1, "can't reach the network"),
        (["--bad"], 2, "unrecognized"),
        (["--detach", "--insecure", "--listen", "tcp/203.0.113.1:7447"], 1, "can't reach the network"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, why: str
) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    done = command("agent", *words)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert why in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_engine_is_not_for_children(tmp_path: Path) -> None:
    text = f"""
import os, sys
from inviso.agent._engine import Engine
engine = Engine(["unixsock-stream/{tmp_path}/zenoh"], [])
pid = os.fork()
if not pid:
    try:
        engine.publish("a/b", b"")
    except RuntimeError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(pid, 0)
engine.close()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "a process that was forked has no session of its parent's; open one of its own", done.stderr


def test_another_cluster_is_not_heard(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, _ = hosts
    other = Host("other", tmp_path / "other", (here.endpoint,), "--cluster", "foreign")
    try:
        node = other.node("shop-9")
        until(lambda: other.status()["connections"] == 2)
        heard: list[str] = []
        engine = Engine([f"unixsock-stream/{tmp_path}/watch"], [here.endpoint])
        engine.watch(Keys("foreign", "x").alive(), lambda key, is_there: heard.append(key))
        until(lambda: heard == [f"inviso/foreign/other/{node.name.partition('@')[0]}/alive"])
        engine.close()
        assert here.status()["nodes"] == []
        until(lambda: here.status()["not_joined"] == ["cluster foreign, on host other"])
        assert "inviso: agent: not joined: cluster foreign, on host other\n" in here.errors.read_text()
        both = sorted(f"cluster default, on host {host}" for host in (HOST, THERE))
        until(lambda: sorted(other.status()["not_joined"]) == both)
        assert "\tnot joined: cluster foreign, on host other\n" in command("agent", "--status").stdout
    finally:
        other.close()
    until(lambda: here.status()["not_joined"] == [])


LATER = """
from inviso._link import _frame
_frame.VERSION = (2, 0)
import sys
from inviso.cli._agent import main
sys.exit(main(sys.argv[1:]))
"""


def test_another_version_is_not_joined(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, _ = hosts
    environment = {**os.environ, "INVISO_DIR": str(tmp_path / "sockets"), "INVISO_HOST": "later"}
    words = [sys.executable, "-c", LATER, "--listen", f"unixsock-stream/{tmp_path}/zenoh", "--connect", here.endpoint]
    what = "version 2 of the protocol, on host later of cluster default; this one speaks 1"
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as later:
        try:
            assert later.stderr is not None
            # each of the two gets the other's name
            until(lambda: here.status()["not_joined"] == [what])
            told = [later.stderr.readline() for _ in range(2)]
            assert sorted(told) == sorted(
                f"inviso: agent: not joined: version 1 of the protocol, on host {host} of cluster default; this one "
                f"speaks 2\n"
                for host in (HOST, THERE)
            )
            assert here.status()["nodes"] == []
        finally:
            later.terminate()
    until(lambda: here.status()["not_joined"] == [])


def test_a_request_in_the_wrong_class_is_refused(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """A control that may only watch gets nothing if it asks for more."""
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    engine, keys = Engine([f"unixsock-stream/{tmp_path}/zenoh"], [there.endpoint]), Keys("default", HOST)
    try:
        until(lambda: engine.others)
        for right, data in (
            ("watch", etf.dumps(("x/1 me", "add", ["tag", {}, False]))),
            ("read", etf.dumps(("x/1 me", "get_status", []))),
            ("trace", b"nonsense"), ("trace", etf.dumps(7)), ("trace", etf.dumps(("x", 1, 2))),
        ):  # fmt: skip
            found: queue.Queue[bytes | None] = queue.Queue()
            engine.ask(keys.ask(node.name, right), data, 10, found.put)
            answer = found.get(timeout=20)
            assert answer is not None
            assert etf.loads(answer)[0] == "error"
    finally:
        engine.close()


def test_names() -> None:
    with pytest.raises(BadArg, match="agent, host: 'a b' is not a name"):
        Keys("test", "a b")
    with pytest.raises(ValueError):
        Keys("test", "web").parts("inviso/test/web/shop/alive")


class Liar:
    """An agent of a host that gives false answers."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def __call__(self, request: str, path: str, offset: int, length: int) -> Any:
        answer = self._answers.pop(0) if self._answers else "nothing more"
        return lambda: answer


def part(data: bytes, size: int) -> Any:
    return "ok", (data, zlib.crc32(data), size)


def whole(source: RemoteSource) -> bytes:
    return b"".join(iter(source.read, b""))


def test_a_log_that_comes_in_parts() -> None:
    data = os.urandom(2 * PART + 5)
    answers = [part(data[at : at + PART], len(data)) for at in range(0, len(data), PART)]
    assert whole(RemoteSource(Liar(*answers), "/x")) == data
    assert whole(RemoteSource(Liar(part(b"", 0)), "/x")) == b""
    # data that is written meanwhile is not read
    assert whole(RemoteSource(Liar(part(data[:PART], PART)), "/x")) == data[:PART]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([("ok", (b"abc", 1, 3))], "its checksum is wrong"), ([part(b"abc", 1 << 60)], "it has become shorter"),
        ([part(b"abcd", 3)], "it has become shorter"), ([part(bytes(PART + 1), PART + 1)], "its checksum is wrong"),
        ([part(b"", -1)], "its checksum is wrong"), (["what"], "sent an invalid answer"),
        ([("ok", 7)], "its checksum is wrong"),
        ([("error", "gone")], "answered gone"), ([part(bytes(PART), 2 * PART), ("error", "gone")], "answered gone"),
    ],
)  # fmt: skip
def test_a_host_that_lies_about_a_log(answers: list[Any], why: str) -> None:
    with pytest.raises(OSError, match=why):
        whole(RemoteSource(Liar(*answers), "/x"))


def test_a_host_that_lies_about_names(tmp_path: Path) -> None:
    for wrong in ([("trace_log", [7])], 7, [("trace_log", "/x")], [("trace_log", ["/x/"])], [7]):
        assert fetched(wrong, str(tmp_path), "") == ("error", "bad_answer")
    lies = Liar(part(b"abc", 3))
    assert fetched([("trace_log", ["/etc/../a.log"])], str(tmp_path), "p-", lambda path: RemoteSource(lies, path)) == (
        "complete", [("trace_log", [("ok", "p-a.log")]), ("ti_log", [])],
    )  # fmt: skip
    assert os.listdir(tmp_path) == ["p-a.log"]


class Files:
    """An agent that keeps the requests: parts of files by name, request and offset."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.asked: list[tuple[str, str, int]] = []

    def __call__(self, request: str, path: str, offset: int, length: int) -> Any:
        self.asked.append((path, request, offset))
        data = self.contents[path]
        found = data[offset : offset + length]
        answer = "ok", (b"" if request == "checksum" else found, zlib.crc32(found), len(data))
        return lambda: answer


def test_a_copy_goes_on_where_an_earlier_one_was_left(tmp_path: Path) -> None:
    contents = {"/a.0.log": os.urandom(PIECE + PIECE // 2), "/a.1.log": os.urandom(3 * PART + 7)}
    whole = b"".join(contents.values())
    target, part = tmp_path / "a.log", tmp_path / "a.log.part"
    first = len(contents["/a.0.log"])

    def copied(before: bytes | None) -> dict[str, set[int]]:
        files = Files(contents)
        target.unlink(missing_ok=True)
        if before is not None:
            part.write_bytes(before)
        copy_set([*contents], str(target), lambda path: RemoteSource(files, path))
        assert target.read_bytes() == whole
        assert not part.exists()
        return {
            path: {offset for name, request, offset in files.asked if (name, request) == (path, "chunk")}
            for path in contents
        }

    everything = {path: set(range(0, len(content), PART)) for path, content in contents.items()}
    assert copied(None) == everything
    assert copied(whole[: PIECE + 5 * PART]) == {
        "/a.0.log": {0, *range(PIECE + 5 * PART, first, PART)},
        "/a.1.log": everything["/a.1.log"],
    }
    # the first file and a part of the second are there; then a copy that is longer than the log
    assert copied(whole[: first + PART]) == {"/a.0.log": {0}, "/a.1.log": everything["/a.1.log"]}
    assert copied(whole + b"more") == {"/a.0.log": {0}, "/a.1.log": {0}}
    # the copy is of another log with this name: nothing of it stays, nor of the parts after it
    assert copied(b"x" + whole[1:]) == everything
    assert copied(whole[:PIECE] + b"x" + whole[PIECE + 1 :]) == {
        "/a.0.log": {0, *range(PIECE, first, PART)},
        "/a.1.log": everything["/a.1.log"],
    }
    assert copied(b"") == everything


def test_what_was_copied_stays_when_the_other_host_is_gone(tmp_path: Path) -> None:
    data = os.urandom(8 * PART)
    answers = [part(data[at : at + PART], len(data)) for at in range(0, 5 * PART, PART)]
    found = [("trace_log", ["/a.log"])]
    incomplete = fetched(found, str(tmp_path), "", lambda path: RemoteSource(Liar(*answers, ("error", "gone")), path))
    assert incomplete == (
        "incomplete",
        [("trace_log", [("error", ("file_write", ("eremoteio", "a.log")))]), ("ti_log", [])],
    )
    assert (tmp_path / "a.log.part").read_bytes() == data[: 5 * PART]
    files = Files({"/a.log": data})
    assert fetched(found, str(tmp_path), "", lambda path: RemoteSource(files, path)) == (
        "complete",
        [("trace_log", [("ok", "a.log")]), ("ti_log", [])],
    )
    assert (tmp_path / "a.log").read_bytes() == data
    assert [offset for _, request, offset in files.asked if request == "chunk"] == [0, *range(5 * PART, 8 * PART, PART)]


def test_a_control_that_is_killed_while_it_fetches(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = hosts
    node = there.node("shop-2")
    seen(here, node)
    with Cluster() as cluster:
        cluster.trace("__main__:work", folder="logs").check()
        node.run("work(1)")
        (path,) = cluster.logs().check()[node.name]
        cluster.stop()
    data = os.urandom(96 << 20)
    Path(path).write_bytes(data)
    program = f"""
from inviso.control._control import Control
from inviso.control._logs import copy
control = Control(name="fetching@{HOST}", timeout=60)
((_, added),) = control.add([{node.name!r}], "tag", {{}})
assert added[0] == "ok", added
print("begins", flush=True)
print(copy({path!r}, "copies", "", control.sources({node.name!r})))
"""
    os.mkdir("copies")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as fetching:
        assert fetching.stdout is not None
        assert fetching.stdout.readline() == "begins\n"
        copies = Path("copies")
        until(lambda: any(each.stat().st_size > 5 * PART for each in copies.iterdir()))
        fetching.kill()
    (left,) = copies.iterdir()
    assert left.suffix == ".part" and data.startswith(left.read_bytes())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[1:] == [f"('ok', {os.path.basename(path)!r})"], done.stderr
    assert (copies / os.path.basename(path)).read_bytes() == data
    assert len(list(copies.iterdir())) == 1


def test_an_answer_with_bytes_is_the_term() -> None:
    for data, checksum, size in (
        (b"", 0, 0),
        (b"abc", 255, 256),
        (bytes(70_000), 1 << 31, 1 << 40),
        (b"x", (1 << 32) - 1, (1 << 63) - 1),
    ):
        assert _ok(data, checksum, size) == etf.dumps((Atom("ok"), (data, checksum, size)))
