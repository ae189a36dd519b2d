"""Rights between hosts: the owner of each certificate, the rights of its name, and the view of other peers."""

from __future__ import annotations

import datetime
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")
trustme = pytest.importorskip("trustme")

from agent_tools import Host
from inviso import BadArg, Cluster
from inviso.agent import read_rights
from inviso.control._control import Control
from node_tools import HOST
from waiting import until

RIGHTS = """
[all]
watch = ["*"]
read = ["*"]
trace = ["*"]
[watcher]
watch = ["*"]
[reader]
watch = ["*"]
read = ["*"]
[shops]
watch = ["shop-*"]
read = ["shop-*"]
trace = ["shop-*"]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Certificates:
    """The signer, and a folder of certificates."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._signer = trustme.CA()
        self._signer.cert_pem.write_to_path(str(place / "ca.pem"))

    def options(self, name: str, **more: Any) -> list[str]:
        """Options of an agent whose certificate has this name."""
        made = self._signer.issue_cert("127.0.0.1", common_name=name, **more)
        made.private_key_pem.write_to_path(str(self.place / f"{name}.key"))
        (self.place / f"{name}.pem").write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        return [
            "--ca",
            f"{self.place}/ca.pem",
            "--cert",
            f"{self.place}/{name}.pem",
            "--key",
            f"{self.place}/{name}.key",
        ]


class World:
    """A host with the rights above and two nodes. Other hosts join it on request."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.certificates = Certificates(place)
        self._others: dict[str, Host] = {}
        rights = place / "rights.toml"
        rights.write_text(RIGHTS)
        self.endpoint = f"tls/127.0.0.1:{free_port()}"
        options = [*self.certificates.options("there"), "--rights", str(rights)]
        self.there = Host("there", place / "there", (), *options, endpoint=self.endpoint)
        self.nodes = [self.there.node("shop-1"), self.there.node("web")]

    def host(self, name: str, options: list[str] | None = None) -> Host:
        """A host whose agent has a certificate of that name."""
        if name not in self._others:
            options = self.certificates.options(name) if options is None else options
            self._others[name] = Host(f"at-{name}", self.place / f"at-{name}", (self.endpoint,), *options)
        return self._others[name]

    def close(self) -> None:
        for host in (*self._others.values(), self.there):
            host.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    try:
        yield made
    finally:
        made.close()


REQUESTS: dict[str, Callable[[Control, str], Any]] = {
    "watch": lambda control, node: control._hub.call([(link_of(control, node), "about", [])], 5)[0],
    "sample": lambda control, node: control._hub.call([(link_of(control, node), "sample", [])], 5)[0],
    "read": lambda control, node: control._hub.call([(link_of(control, node), "log_paths", [])], 5)[0],
    "trace": lambda control, node: control._hub.call([(link_of(control, node), "add", ["tag", {}, False])], 5)[0],
}


def link_of(control: Control, node: str) -> Any:
    link = control._through_agent(node)
    assert not isinstance(link, tuple)
    return link


TABLE = [
    ("all", "shop-1", "watch read trace"), ("all", "web", "watch read trace"), ("watcher", "shop-1", "watch"),
    ("watcher", "web", "watch"),
    ("reader", "shop-1", "watch read"), ("reader", "web", "watch read"), ("shops", "shop-1", "watch read trace"),
]  # fmt: skip


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(("name", "node", "rights"), TABLE)
def test_who_may_do_what(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, node: str, rights: str, request_name: str
) -> None:
    right = "watch" if request_name == "sample" else request_name
    host = world.host(name)
    full = f"{node}@there"
    until(lambda: full in host.status()["nodes"])
    monkeypatch.setenv("INVISO_DIR", str(host.folder))
    control = Control(name=f"control@{HOST}")
    try:
        answer = REQUESTS[request_name](control, full)
        if right in rights.split():
            assert (
                isinstance(answer, dict) or answer[0] == "ok" or answer[1] in ("not_an_added_node", "no_tracerdata")
            ), answer
        else:
            assert answer == ("error", ("no_answer", f"its host may give this one no right to {right} it"))
    finally:
        control.close()


def test_nodes_that_a_name_may_not_watch_are_hidden(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    host = world.host("shops")
    until(lambda: host.status()["nodes"])
    assert host.status()["nodes"] == ["shop-1@there"]
    monkeypatch.setenv("INVISO_DIR", str(host.folder))
    control = Control(name=f"control@{HOST}")
    try:
        assert control.add(["web@there"], "tag", {})[0][1] == ("error", "nodedown")
        assert [each.node for each in control.find()] == ["shop-1@there"]
    finally:
        control.close()


def test_a_name_without_rights_sees_nothing_and_is_reported(world: World) -> None:
    host = world.host("stranger")
    until(lambda: host.status()["connections"])
    until(lambda: any(each.startswith("stranger at ") for each in world.there.status()["without_rights"]))
    assert "agent: stranger at tls/" in world.there.errors.read_text()
    assert host.status()["nodes"] == []


@pytest.mark.parametrize(
    ("is_trusting", "says"),
    [(False, "received fatal alert: UnknownCA"), (True, "invalid peer certificate: UnknownIssuer")],
)
def test_another_signer_is_not_let_in(world: World, tmp_path: Path, is_trusting: bool, says: str) -> None:
    options = Certificates(tmp_path).options("all")
    if is_trusting:  # it would talk with this host
        options[options.index("--ca") + 1] = str(world.place / "ca.pem")
    host = world.host(f"forged-{is_trusting}", options)
    until(lambda: says in world.there.errors.read_text())
    until(lambda: world.there.status()["refused"]["last"] == says)
    assert (host.status()["connections"], host.status()["nodes"]) == (0, [])


def test_a_certificate_that_has_expired_is_not_let_in(world: World) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    before = world.there.errors.read_text().count("certificate expired")
    host = world.host("late", world.certificates.options("all", not_after=past))
    until(lambda: world.there.errors.read_text().count("certificate expired") > before)
    assert (host.status()["connections"], host.status()["nodes"]) == (0, [])
    until(lambda: "certificate expired" in world.there.status()["refused"]["last"])
    # each line that was passed on is counted
    until(lambda: world.there.status()["refused"]["lines"] == world.there.errors.read_text().count("zenoh_link_tls"))
    words = [sys.executable, "-m", "inviso", "agent", "--status"]
    environment = {**os.environ, **world.there.environment}
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r"^\trefused: \d+ lines of zenoh's log on TLS, the last: \S", shown, re.MULTILINE)


def test_lines_of_another_form_are_passed_on_and_not_counted() -> None:
    warning = b"\x1b[2mnow\x1b[0m \x1b[33m WARN\x1b[0m acc-0 zenoh_link_tls::unicast: it has\x1b no name. Hint: none.\n"
    given = b"something else\n" + warning + b"now DEBUG zenoh_link_tls: a detail\nnow WARN zenoh_link_tcp: \xff\nno end"
    program = (
        "import os\nfrom inviso.agent._refusals import Refusals\nwith Refusals() as found:\n"
        f"    os.write(1, {given!r})\nos.write(1, repr((found.lines, found.last)).encode())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == (given + b"(1, 'it has? no name')", b"")


def test_without_a_certificate_nobody_is_let_in(world: World) -> None:
    host = world.host("bare", ["--insecure"])
    assert (host.status()["connections"], host.status()["nodes"]) == (0, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[ops]\nfly = ['*']", "pass a table with watch, read, trace"), ("ops = 1", "pass a table with"),
        ("[ops]\nwatch = '*'", "pass a list of names"), ("[ops]\nwatch = ['a/b']", "pass a list of names"),
        ("[ops", "is no TOML"), ("[ops]\nwatch = [1]", "pass a list of names"),
    ],
)  # fmt: skip
def test_malformed_rights(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "rights.toml"
    path.write_text(text)
    with pytest.raises(BadArg, match=why):
        read_rights(str(path))
    with pytest.raises(BadArg, match="can't be read"):
        read_rights(str(tmp_path / "none"))


def test_who_may_read_copies_logs(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INVISO_DIR", str(world.there.folder))
    monkeypatch.setenv("INVISO_HOST", "there")
    node = world.nodes[0]
    with Cluster("shop-1") as cluster:
        cluster.trace("__main__:work", folder="own").check()
        node.run("work(1)")
        assert cluster.stop().check()[node.name]["records"] == 1
        cluster.leave()
    monkeypatch.delenv("INVISO_HOST")
    for name, may in (("reader", True), ("watcher", False)):
        host = world.host(name)
        until(lambda host=host: node.name in host.status()["nodes"])
        monkeypatch.setenv("INVISO_DIR", str(host.folder))
        with Cluster(node.name) as cluster:
            assert "no right to trace it" in str(cluster.refused.errors[node.name])
            fetched = cluster.fetch(name)
        assert fetched.errors == {}
        if may:
            assert Path(fetched[node.name]["log"]).read_bytes() == Path("own", f"{node.name}.log").read_bytes() != b""
        else:
            assert fetched == {} and os.listdir(name) == []
