"""Nodes that a cluster and the commands leave alone, and their messages on unreachable nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from inviso import BadArg, Cluster, log
from node_tools import HOST, Node
from waiting import until

INVISO = [sys.executable, "-m", "inviso"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INVISO, *words], capture_output=True, text=True, timeout=60, check=False)


def test_a_refused_start_does_not_change_running_tracing(shop: list[Node]) -> None:
    assert command("start", "shop-1", "-p", "__main__:work").returncode == 0
    shop[0].run("work(1)")
    refused = command("start", "shop-*", "-p", "__main__:fails", "--for", "10ms")
    assert refused.returncode == 1 and "already_initiated" in refused.stdout
    shop[0].run("work(2)")
    stopped = command("stop", "shop-1", "-o", "logs")
    assert stopped.returncode == 0, stopped
    assert [message[2] for message in log.read(f"logs/shop-1@{HOST}.log")] == ["call", "call"]


def test_a_look_does_not_change_running_tracing(shop: list[Node]) -> None:
    assert command("start", "shop-1", "-p", "__main__:work").returncode == 0
    with Cluster("shop-*") as cluster:
        assert cluster.status()[f"shop-1@{HOST}"]["state"] == "tracing"
    shop[0].run("work(1)")
    with Cluster("shop-1") as cluster:
        assert cluster.stop()[f"shop-1@{HOST}"]["records"] == 1
    with Cluster("shop-1") as cluster:
        assert cluster.status()[f"shop-1@{HOST}"]["state"] == "new", "the stop ends the component"


def test_a_start_that_fails_leaves_nothing_open(shop: list[Node]) -> None:
    with Cluster("shop-1") as cluster:
        assert cluster.trace("__main__:work", processes="nobody").errors
        assert cluster.trace("__main__:work").check()


def test_a_stopped_process_is_said_to_be_silent(shop: list[Node]) -> None:
    shop[0].kill(signal.SIGSTOP)
    try:
        with Cluster("shop-*", timeout=3.0) as cluster:
            assert cluster.nodes == [shop[1].name]
            assert [str(error) for error in cluster.refused.errors.values()] == [f"{shop[0].name}: timeout"]
            assert list(cluster.status().errors) == [shop[0].name] == list(cluster.silent)
        for name in ("nodes", "status"):
            done = command(name, "shop-*", "--timeout", "3s")
            assert done.returncode == 1 and f"{shop[0].name}\ttimeout" in done.stdout and shop[1].name in done.stdout
    finally:
        shop[0].kill(signal.SIGCONT)


def test_the_counts_of_a_process_that_ended_are_missed(shop: list[Node]) -> None:
    with Cluster("shop-*") as cluster:
        cluster.count("__main__:work").check()
        ended = threading.Event()
        cluster.events(lambda event: ended.set() if event[3][0] == "disconnected" else None)
        shop[0].kill()
        assert ended.wait(20)
        counts = cluster.counts()
        assert list(counts) == [shop[1].name]
        assert str(counts.errors[shop[0].name]) == f"{shop[0].name}: its process has ended, and its counts with it"


def test_a_command_that_is_told_to_end_fetches_the_logs(shop: list[Node]) -> None:
    words = [*INVISO, "start", "shop-*", "-p", "__main__:work", "--for", "60s", "-o", "logs"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:

        def records() -> int:
            assert running.poll() is None
            shop[0].run("work(1)")
            return looked("shop-1")[0]["records"] or 0

        until(records)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, ""), err
    one, two = (int(row.split("\t")[2]) for row in out.splitlines())
    assert one > 0 and two == 0
    assert Path(f"logs/shop-1@{HOST}.log").exists()


def looked(*patterns: str) -> list[dict[str, Any]]:
    """The states of nodes, without adding one."""
    cluster = Cluster(*patterns)
    try:
        return list(cluster.status().values())
    finally:
        cluster.close()


def test_a_node_that_hangs_delays_the_others_once(shop: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster("shop-*", timeout=3.0) as cluster:
        hub, asked = cluster._control._hub, []
        call = hub.call

        def counted(requests: list[Any], timeout: float) -> list[Any]:
            asked.extend(name for link, name, _ in requests if link.pid == shop[0].pid)
            return call(requests, timeout)

        monkeypatch.setattr(hub, "call", counted)
        shop[0].kill(signal.SIGSTOP)
        try:
            answers = cluster.trace("__main__:work", messages=True)
            assert list(answers) == [shop[1].name] and list(answers.errors) == [shop[0].name]
            assert asked == ["change_options"]
        finally:
            shop[0].kill(signal.SIGCONT)


@pytest.mark.parametrize("number", range(5))
def test_a_process_that_ends_while_it_is_stopped_is_answered_for(shop: list[Node], number: int) -> None:
    with Cluster("shop-*") as cluster:
        cluster.trace("__main__:work", folder="logs").check()
        shop[0].kill()  # its control may not know it yet
        stopped = cluster.stop().check()
        assert stopped[shop[0].name]["ended"].startswith("its process has ended") and len(stopped) == 2


def test_names_and_patterns_that_match_nothing_are_reported(shop: list[Node]) -> None:
    done = command("start", "shop-1", "shpo", "-p", "__main__:wrok", "--for", "10ms")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"inviso start: __main__:wrok: matches no function of shop-1@{HOST} that is loaded now",
        "inviso start: shpo: nobody of that name listens; start programs by 'inviso run'",
    ]


@pytest.mark.parametrize("name", ["seconds", "limit", "rate"])
@pytest.mark.parametrize("value", ["5s", 0, -1, True, float("inf"), float("nan")])
def test_numbers_are_checked(shop: list[Node], name: str, value: object) -> None:
    with Cluster("shop-1") as cluster, pytest.raises(BadArg, match=f"{name}.* is no number above 0"):
        cluster.trace("__main__", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [["nodes"], ["--help"], ["completion", "bash"], ["status", "--json"]])
def test_nobody_reads_the_output(shop: list[Node], words: list[str]) -> None:
    with subprocess.Popen([*INVISO, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.wait(60) == 0
        assert running.stderr.read() == ""


def test_a_node_that_is_suspended_at_once_says_why(shop: list[Node]) -> None:
    with Cluster("shop-1", options=[("protect", {"disk": 1 << 40})]) as cluster:
        begun = cluster.trace("__main__", folder="logs")
        assert str(begun.errors[shop[0].name]).endswith(" MiB are free where the log is")
        with pytest.raises(ExceptionGroup, match=shop[0].name):
            begun.check()


def test_a_command_that_stops_a_suspended_node_fails(shop: list[Node]) -> None:
    assert command("start", "shop-1", "-p", "__main__", "-o", "logs").returncode == 0
    shop[0].run("runtime.suspend('hot')")
    done = command("tp", "shop-1", "-p", "json")
    assert (done.returncode, done.stdout.split("\t")[1].strip()) == (1, "suspended: hot")
    done = command("stop", "shop-1")
    assert done.returncode == 1 and "suspended: hot" in done.stdout
