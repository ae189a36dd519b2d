"""`inviso.Cluster` and the commands over it, with real processes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_tools import Terminal
from inviso import BadArg, Cluster, log
from inviso.cluster import Answers, NodeError
from node_tools import HOST, Node, started


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shop(tmp_path: Path, folder: None) -> Iterator[list[Node]]:
    with started(tmp_path, "shop-1", "shop-2", "web") as found:
        yield found


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """The command, run by itself."""
    return subprocess.run(
        [sys.executable, "-m", "inviso", *words], capture_output=True, text=True, timeout=60, check=False
    )


def rows(*words: str) -> list[list[str]]:
    done = command(*words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_nodes_are_found_by_patterns(shop: list[Node]) -> None:
    with Cluster("shop-*") as cluster:
        assert cluster.nodes == [f"shop-1@{HOST}", f"shop-2@{HOST}"]
        assert [each.pid for each in cluster.found()] == [node.pid for node in shop[:2]]
        status = cluster.status()
        assert {node: each["state"] for node, each in status.items()} == {node: "new" for node in cluster.nodes}
    with Cluster(f"web@{HOST}", "shop-2") as cluster:
        assert cluster.nodes == [f"shop-2@{HOST}", f"web@{HOST}"]
        cluster.add()
        assert len(cluster.nodes) == 2
    with Cluster("nobody") as cluster:
        assert cluster.nodes == [] and len(cluster.trace("json")) == 0


def test_calls_and_messages_into_one_log_a_node(shop: list[Node]) -> None:
    with Cluster("shop-*") as cluster:
        found = cluster.trace("__main__:work", messages=True, returns=True, folder="logs").check()
        assert dict(found) == {node: 1 for node in cluster.nodes}
        for node in shop[:2]:
            node.run("import queue; q = queue.Queue(); q.put(work(1)); q.get()")
        stopped = cluster.stop().check()
    for node in shop[:2]:
        row = stopped[node.name]
        assert row["lost"] == 0 and row["ended"] is None
        path = Path(row["log"])
        assert path == Path("logs") / f"{node.name}.log" and path.stat().st_mode & 0o777 == 0o600
        told = [message[2] for message in log.read(path)]
        assert [tag for tag in told if tag in {"call", "return_from", "send", "receive"}] == [
            "call",
            "return_from",
            "send",
            "receive",
        ]
        assert row["records"] == len(told)


def test_how_much_was_copied_is_told(shop: list[Node]) -> None:
    parts: list[int] = []
    with Cluster("shop-*") as cluster:
        cluster.on_copied = parts.append
        cluster.trace("__main__:work", folder="logs").check()
        for node in shop[:2]:
            node.run("work(1)")
        rows = cluster.stop().check()
    assert sum(parts) == sum(os.path.getsize(row["log"]) for row in rows.values()) > 0


def test_a_terminal_shows_how_much_was_copied(shop: list[Node]) -> None:
    assert command("start", "shop-*", "-p", "__main__:work").returncode == 0
    shop[0].run("work(1)")
    words = [sys.executable, "-m", "inviso", "stop", "shop-*", "-o", "logs"]
    seen = Terminal(words, INVISO_DIR=os.environ["INVISO_DIR"]).rest()
    # on a line that is removed before the table comes
    assert " MB copied\x1b[K\r\x1b[K" in seen and seen.index(" MB copied") < seen.index(shop[1].name), seen


def test_arguments_are_shown_only_if_asked_for(shop: list[Node]) -> None:
    for arguments, shown in ((False, 1), (True, ["secret"])):
        with Cluster("web") as cluster:
            cluster.trace("__main__:work", arguments=arguments, folder="logs")
            shop[2].run("exec('try: work(\"secret\")\\nexcept TypeError: pass')")
            path = cluster.stop()[f"web@{HOST}"]["log"]
        assert [message[3][2] for message in log.read(path) if message[2] == "call"] == [shown]


def test_counts(shop: list[Node]) -> None:
    with Cluster("shop-*") as cluster:
        assert set(cluster.count("__main__:work").check().values()) == {1}
        shop[0].run("for n in range(10): work(n)")
        found = cluster.counts().check()
        assert found[shop[0].name] == {"__main__:work/1": (10, 10)} and found[shop[1].name] == {}
        cluster.count("__main__:work", type="call_memory")
        shop[0].run("work(1)")
        assert cluster.counts()[shop[0].name]["__main__:work/1"][0] == 1


def test_tokens(shop: list[Node]) -> None:
    node = shop[2]
    node.run("from inviso import seq_trace; import queue; q = queue.Queue()")
    with Cluster("web") as cluster:
        cluster.tokens(folder="logs").check()
        node.run(
            "seq_trace.set_token('label', 7); seq_trace.set_token('send', True); q.put(1); seq_trace.set_token([])"
        )
        path = cluster.stop()[node.name]["log"]
    assert [message[:2] for message in log.read(path)] == [("seq_trace", 7)]


def test_it_ends_by_itself(shop: list[Node]) -> None:
    with Cluster("web") as cluster:
        seen: queue.Queue[Any] = queue.Queue()
        cluster.events(seen.put)
        cluster.trace("__main__:work", limit=3)
        shop[2].run("for n in range(100): work(n)")
        while seen.get(timeout=20)[3][0] != "port_down":
            pass
        assert cluster.stop()[shop[2].name]["ended"] == "the limit of 3 messages was reached"


def test_a_node_that_fails_hides_no_other(shop: list[Node]) -> None:
    with Cluster("shop-*") as cluster, Cluster("shop-*") as other:
        assert other.nodes == []
        assert {str(error).partition(": ")[2][:11] for error in other.refused.errors.values()} == {"('refused',"}
        cluster.trace("__main__:work")
        again = cluster.trace("__main__:work")
        assert len(again) == 0 and set(again.errors) == set(cluster.nodes)
        with pytest.raises(ExceptionGroup, match="failed: shop-1@") as caught:
            again.check()
        assert isinstance(caught.value.exceptions[0], NodeError)


def test_what_is_refused() -> None:
    with Cluster("nobody") as cluster:
        for call in (
            lambda: cluster.trace(),
            lambda: cluster.trace("_", seconds=None),
            lambda: cluster.trace("a.*"),
            lambda: cluster.count(),
            lambda: cluster.count("json", type="calls"),
            lambda: Cluster(3),  # type: ignore[arg-type]
            lambda: Cluster("a", options=["nonsense"]),
        ):
            with pytest.raises(BadArg):
                call()


def test_answers_as_tables() -> None:
    answers = Answers(
        {"a@h": {"n": 1234, "x": None, "f": 1.25, "b": True}}, {"b@h": NodeError("b@h", ("refused", "c", 1))}
    )
    assert str(answers).splitlines() == [
        "node  n                                                x  f    b",
        "a@h   1,234                                               1.2  yes",
        "b@h   refused: it belongs to the control c, process 1",
    ]
    assert repr(answers) == "<answers of 1 nodes, 1 errors>"
    assert "b@h" not in answers and answers.get("b@h") is None
    assert "<td>refused: it belongs to the control c, process 1</td>" in answers._repr_html_()
    hostile = Answers({"a@h": "<b>"})
    assert "<td>&lt;b&gt;</td>" in hostile._repr_html_()


def test_the_commands_from_a_shell(tmp_path: Path, shop: list[Node]) -> None:
    assert [row[0] for row in rows("nodes", "shop-*")] == [f"shop-1@{HOST}", f"shop-2@{HOST}"]
    begun = rows("start", "shop-*", "-p", "__main__:work", "--messages")
    assert [row[:2] for row in begun] == [[f"shop-1@{HOST}", "1"], [f"shop-2@{HOST}", "1"]]
    assert [row[3] for row in rows("status", "shop-*")] == ["tracing", "tracing"]
    assert [row[1] for row in rows("tp", "shop-1", "-p", "__main__:fails")] == ["1"]
    assert int(rows("tf", "shop-1", "--flag", "procs")[0][1]) >= 1
    shop[0].run("work(1)")
    stopped = rows("stop", "shop-*", "-o", "logs")
    assert [row[4] for row in stopped] == [f"logs/shop-1@{HOST}.log", f"logs/shop-2@{HOST}.log"]
    assert [message[3][1] for message in log.read(stopped[0][4]) if message[2] == "call"] == ["work"]
    assert [row[2] for row in rows("nodes", "shop-*")] == ["-", "-"]


def test_start_for_a_time(shop: list[Node]) -> None:
    found = rows("start", "shop-1", "-p", "__main__:work", "--for", "100ms", "-o", "logs")
    assert found[0][0] == f"shop-1@{HOST}" and found[0][1] == "0.1 s" and os.path.exists(found[0][5])


def test_json_and_exit_statuses(shop: list[Node]) -> None:
    answer = json.loads(command("nodes", "web", "--json").stdout)
    assert answer["nodes"][f"web@{HOST}"]["pid"] == str(shop[2].pid) and answer["errors"] == {}
    missing = command("start", "nobody", "-p", "json")
    assert missing.returncode == 1 and "nobody of that name listens" in missing.stderr
    wrong = command("start", "web", "-p", "a.*")
    assert wrong.returncode == 2 and wrong.stderr.startswith("inviso start: ")
    assert command("start", "web", "--for", "soon").returncode == 2
    assert command("start", "web").returncode == 2
    with Cluster("web"):
        refused = command("start", "web", "-p", "__main__:work")
        assert refused.returncode == 1 and "refused" in refused.stdout


def test_a_program_run_by_inviso_run(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import sys\nfrom inviso import runtime\nprint(runtime.listening().node, sys.argv[1:])\nsys.exit(3)\n"
    )
    done = command("run", "--node", "n-{pid}", "job.py", "--flag")
    assert done.returncode == 3 and done.stdout.startswith("n-") and done.stdout.endswith(f"@{HOST} ['--flag']\n")
    unnamed = command("run", "job.py")
    assert unnamed.stdout.startswith("job-")
    bad = command("run", "--node", "a b", "job.py")
    assert bad.returncode == 2 and "is not a name" in bad.stderr
    assert command("run", "--help").stdout.startswith("usage: inviso run")


def test_settings_come_from_the_environment_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").write_text("from inviso import runtime\nprint(runtime.listening().node)\n")
    (tmp_path / "pyproject.toml").write_text('[tool.inviso]\nnode = "of-a-file"\n')
    assert command("run", "job.py").stdout == f"of-a-file@{HOST}\n"
    monkeypatch.setenv("INVISO_NODE", "of-a-variable")
    assert command("run", "job.py").stdout == f"of-a-variable@{HOST}\n"
    assert command("run", "--node", "said", "job.py").stdout == f"said@{HOST}\n"
    monkeypatch.setenv("INVISO_TIMEOUT", "soon")
    wrong = command("nodes")
    assert wrong.returncode == 2 and "INVISO_TIMEOUT" in wrong.stderr
