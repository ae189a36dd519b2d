"""``inviso top``: a node's answers, its rates, and the view over nodes that die, hang, or are another control's."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from cli_tools import opened_terminal
from inviso import BadArg
from inviso._link._rights import class_of
from inviso.control._control import Control
from inviso.control._looks import Looks
from inviso.runtime import _sample as runtime_sample
from inviso.runtime._host import Host
from inviso.runtime._lengths import length
from inviso.runtime._live_counts import LiveCounts
from inviso.runtime._resolver import Resolver
from inviso.runtime._sample import Sampler
from inviso.top._live import Live
from inviso.top._sample import MOST, Node, Process, Rates, ordered
from inviso.top._table import record
from node_tools import HOST
from node_tools import Node as Child
from waiting import until

INVISO = [sys.executable, "-m", "inviso"]
LIMIT = 60.0

ASYNC = """
import asyncio, queue
box = queue.Queue()
begun = threading.Event()
async def consumer():
    global waiting, waits
    waiting, waits = asyncio.Queue(), asyncio.get_running_loop()
    begun.set()
    while await waiting.get() is not None: pass
threading.Thread(target=lambda: asyncio.run(consumer()), name="looping").start()
begun.wait()
"""


def command(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INVISO, "top", *words], capture_output=True, text=True, timeout=LIMIT, check=False, **more)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))  # as of the nodes
    with Live(["shop-*"], timeout=10) as made:
        yield made


def asked(name: str, *arguments: Any) -> dict[str, Any]:
    """A node's answer to a peer that only watches."""
    control = Control(name=f"looks@{HOST}", timeout=10)
    looks = Looks(control, [name], "sample")
    try:
        answer = looks.look(10, {name: list(arguments)})[name]
        assert answer[0] == "ok", answer
        found: dict[str, Any] = answer[1]
        return found
    finally:
        looks.close()
        control.close()


# one node's answers


class Peer:
    node, pid = "control@here", 1

    def publish(self, event: Any) -> None:
        pass


def test_a_look_needs_no_component_and_makes_none() -> None:
    host = Host(Resolver())
    status, answer = host.request(Peer(), "sample", ())
    assert status == "ok" and host.component is None
    assert (answer["state"], answer["control"], answer["patterns"], answer["messages"]) == (None, None, [], False)
    assert (str(inviso.self()), "thread") in [row[:2] for row in answer["counts"]["processes"]]


def test_who_looks_may_watch_and_who_counts_may_trace() -> None:
    assert (class_of("sample"), class_of("count_live")) == ("watch", "trace")
    host = Host(Resolver())
    owner = Peer()
    assert host.request(Peer(), "count_live", ("call_time", ["json:loads"], False)) == ("error", "not_an_added_node")
    assert host.request(owner, "add", ("mine", {}, False))[0] == "ok"
    assert host.request(Peer(), "count_live", ("call_time", ["json:loads"], False)) == ("error", "not_an_added_node")
    assert host.request(owner, "count_live", ("call_time", ["json:loads"], False)) == ("ok", 1)
    json.loads("1")
    functions = host.request(Peer(), "sample", ())[1]["counts"]["functions"]
    assert [(module, name, calls) for module, name, _, calls, _ in functions] == [("json", "loads", 1)]
    host.end()


@pytest.mark.parametrize("request_name", ["let_go", None])
def test_counting_ends_with_its_control_and_tracing_goes_on(request_name: str | None, tmp_path: Path) -> None:
    host, owner = Host(Resolver()), Peer()
    host.request(owner, "add", ("mine", {}, False))
    assert host.request(owner, "init_tracing", (("file", str(tmp_path / "log")),))[0] == "ok"
    assert host.request(owner, "count_live", ("call_count", ["json"], True))[0] == "ok"
    if request_name is None:
        host.left(owner)
    else:
        assert host.request(owner, request_name, ()) == "ok"
    answer = host.request(Peer(), "sample", ())[1]
    assert (answer["patterns"], answer["messages"], answer["control"]) == ([], False, None)
    assert answer["state"] == ("tracing", "running")
    host.end()


def test_what_somebody_else_counts_is_shown() -> None:
    host, owner = Host(Resolver()), Peer()
    host.request(owner, "add", ("mine", {}, False))
    assert host.request(owner, "count", ("call_count", [("json", "loads", "_")]))[0] == "ok"
    json.loads("1")
    answer = host.request(Peer(), "sample", ())[1]
    assert (answer["kind"], answer["patterns"]) == ("call_count", ["json:loads:_"])
    assert [row[3:] for row in answer["counts"]["functions"]] == [(1, None)]
    host.end()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("often", ["json"], False), "kind"), ((5, ["json"], False), "kind"),
        (("call_time", "json", False), "patterns"),
        (("call_time", ["json:loads:many"], False), "json:loads:many"), (("call_time", [5], False), "5"),
        (("call_time", ["json"], 1), "messages"),
    ],
)  # fmt: skip
def test_wrong_counting_is_refused_and_changes_nothing(wrong: tuple[Any, ...], named: str) -> None:
    host, owner = Host(Resolver()), Peer()
    host.request(owner, "add", ("mine", {}, False))
    assert host.request(owner, "count_live", ("call_count", ["json:loads"], False))[0] == "ok"
    match host.request(owner, "count_live", wrong):
        case ("error", ("badarg", str(why))):
            assert named in why
        case other:
            pytest.fail(f"not refused: {other}")
    answer = host.request(owner, "sample", ())[1]
    assert (answer["kind"], answer["patterns"], answer["messages"]) == ("call_count", ["json:loads:_"], False)
    host.end()


def test_patterns_come_and_go_and_the_others_count_on() -> None:
    counts = LiveCounts()

    def calls() -> dict[str, int]:
        found = counts.profiler.collect().functions if counts.profiler else ()
        return {each.function: each.calls for each in found}

    assert counts.set("call_count", ["json:loads"], messages=False) == 1
    json.loads("1")
    assert counts.set("call_count", ["json:loads", "json:dumps"], messages=False) == 1
    json.loads("1")
    json.dumps(1)
    assert calls() == {"loads": 2, "dumps": 1}
    counts.set("call_count", ["json:dumps"], messages=False)
    json.loads("1")
    json.dumps(1)
    assert calls() == {"dumps": 2}
    counts.set("call_count", ["json", "json:dumps"], messages=False)
    counts.set("call_count", ["json:dumps"], messages=False)
    json.dumps(1)
    json.loads("1")
    assert calls() == {"dumps": 1}, "functions of a removed pattern that others match are set again"
    counts.stop()
    assert counts.profiler is None and counts.patterns == []


def test_an_expensive_answer_is_given_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**15, 10**9))  # each reading takes a second
    monkeypatch.setattr(runtime_sample.time, "thread_time_ns", lambda: next(times))
    sampler = Sampler()
    first = sampler.sample(None, None)
    second = sampler.sample(None, None)
    assert second["counts"] is first["counts"] and second["at"] > first["at"]
    host = Host(Resolver())
    component = host.start("mine", {})
    assert sampler.sample(component, None)["counts"] is not first["counts"], "something else is counted"
    host.end()


def test_lengths_are_read_without_code_of_the_program() -> None:
    class Own(queue.Queue[int]):
        def qsize(self) -> int:
            raise AssertionError

        def __getattribute__(self, name: str) -> Any:
            if name == "__dict__":
                raise AssertionError
            return super().__getattribute__(name)

    class Hidden:
        @property
        def queue(self) -> list[int]:
            raise AssertionError

    own: queue.Queue[int] = Own()
    own.put(1)
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    simple.put(1)
    simple.put(2)
    with own.mutex:
        assert length(own) == 1
    assert [length(each) for each in (simple, Hidden(), object(), 5)] == [2, None, None, None]


# rates


def answer(at: int, **counts: Any) -> dict[str, Any]:
    own = {
        "at": at,
        "processes": [],
        "process_count": 0,
        "queues": [],
        "functions": [],
        "total": None,
        "unattributed": None,
    }
    whole = {"at": at, "state": ("new", "running"), "control": None, "written": 0, "lost": 0, "lag": None}
    return {
        **whole,
        "kind": "call_time",
        "patterns": ["shop:_:_"],
        "messages": False,
        "own": None,
        "counts": {**own, **counts},
    }


SECOND = 1_000_000_000


def row(pid: str, *totals: int | None) -> tuple[Any, ...]:
    return (pid, "task", pid, 0, *totals)


def test_rates_of_processes() -> None:
    rates = Rates()
    first = rates.add(answer(0, processes=[row("a", 10, 5, 3, SECOND)], process_count=1, total=15))
    assert (first.messages, first.processes[0].sent, first.processes[0].time) == (None, None, None)
    rows = [row("a", 14, 7, 7, 2 * SECOND), row("b", 2, 0, 0, 0)]
    second = rates.add(answer(2 * SECOND, processes=rows, process_count=2, total=25))
    one, new = second.processes
    assert (one.sent, one.received, one.messages, one.calls, one.time) == (2.0, 1.0, 3.0, 2.0, 0.5)
    assert (new.sent, second.messages) == (1.0, 5.0), "it began with nothing"
    same = rates.add({**answer(2 * SECOND, processes=rows, process_count=2, total=25), "at": 3 * SECOND})
    assert same.processes == second.processes, "no new reading was made"


def test_a_process_that_was_left_out_before_has_no_rate() -> None:
    rates = Rates()
    rates.add(answer(0, processes=[], process_count=MOST + 1))
    node = rates.add(answer(SECOND, processes=[row("a", 5, 5, 5, 5)], process_count=MOST + 1))
    assert (node.processes[0].sent, node.processes[0].calls) == (None, None)


def test_counting_that_begins_anew_has_no_rate_once() -> None:
    rates = Rates()
    rates.add(answer(0, functions=[("m", "f", 0, 100, 100)]))
    less = rates.add(answer(SECOND, functions=[("m", "f", 0, 10, 10)]))
    assert (less.functions[0].calls, less.functions[0].time) == (None, None)
    other = {**answer(2 * SECOND, functions=[("m", "f", 0, 30, 30)]), "patterns": ["m:f:_"]}
    assert rates.add(other).functions[0].calls is None, "other functions are counted"
    again = {**answer(3 * SECOND, functions=[("m", "f", 0, 35, 35)]), "patterns": ["m:f:_"]}
    assert rates.add(again).functions[0].calls == 5.0


def test_functions_of_the_process_that_is_asked_for() -> None:
    rates = Rates()
    first = rates.add({**answer(0), "own": [("m", "f", 0, 1, 0)]}, "a")
    second = rates.add({**answer(SECOND), "own": [("m", "f", 0, 4, SECOND // 4)]}, "a")
    other = rates.add({**answer(2 * SECOND), "own": [("m", "f", 0, 9, 0)]}, "b")
    found = [node.own[0] for node in (first, second, other) if node.own]
    assert [(each.calls, each.time) for each in found] == [(None, None), (3.0, 0.25), (None, None)]


@pytest.mark.parametrize(
    "wrong", [None, 5, {}, {"at": 1}, {**answer(0), "counts": {}}, {**answer(0), "lag": "x"}, answer(0, queues=[1])]
)
def test_what_is_no_answer(wrong: Any) -> None:
    with pytest.raises(ValueError, match="no sample"):
        Rates().add(wrong)


@pytest.mark.parametrize(
    ("by", "order"), [("queue", "bca"), ("messages", "cab"), ("calls", "abc"), ("time", "bac"), ("name", "abc")]
)
def test_orders(by: str, order: str) -> None:
    rows = [
        Process("1", "task", "a", 0, 2.0, 0.0, 9.0, 0.2), Process("2", "task", "b", 5, 0.0, 1.0, 3.0, 0.3),
        Process("3", "task", "c", 3, 1.0, 2.0, None, None),
    ]  # fmt: skip
    assert "".join(each.name for each in ordered(rows, by)) == order


# nodes


def test_threads_tasks_and_queues(shop: list[Child], live: Live) -> None:
    shop[0].run(f"exec({ASYNC!r})")
    live.messages = True
    until(lambda: live.refresh().nodes[shop[0].name].messages is not None)
    before = {each[0]: each for each in asked(shop[0].name)["counts"]["processes"]}
    shop[0].run("for n in range(5): box.put(n)")
    shop[0].run("inviso.send(inviso.self(), 'hello')")
    shop[0].run("for n in range(3): waits.call_soon_threadsafe(waiting.put_nowait, n)")

    def counted() -> Any:
        counts = asked(shop[0].name)["counts"]
        rows = {
            pid: (kind, name, queued, sent, received)
            for pid, kind, name, queued, sent, received, *_ in counts["processes"]
        }
        main = next(row for row in rows.values() if row[1] == "MainThread")
        task = next(row for row in rows.values() if row[0] == "task")
        return (counts, rows, main, task) if task[4] >= 3 and main[3] >= 9 else None

    counts, rows, main, _ = until(counted)
    assert before.keys() == rows.keys()
    # 5 to the queue, 1 to itself, 3 to the loop
    assert main[2:4] == (1, 9)
    assert {(name, queued) for _, name, queued in counts["queues"]} >= {("queue.Queue", 5)}
    assert counts["unattributed"] == 0
    assert counts["total"] == sum(each[3] + each[4] for each in rows.values())
    shop[0].run("waits.call_soon_threadsafe(waiting.put_nowait, None)")


def test_messages_beyond_the_rings_are_counted(shop: list[Child], live: Live) -> None:
    live.messages = True
    until(lambda: live.refresh().nodes[shop[0].name].messages is not None)
    before = asked(shop[0].name)["counts"]["total"]
    shop[0].run("import queue; box = queue.Queue(); [box.put(n) for n in range(50_000)]")
    counts = until(lambda: (found := asked(shop[0].name)["counts"])["total"] >= before + 50_000 and found)
    assert counts["total"] == before + 50_000
    assert 0 < counts["unattributed"] < 50_000


def test_functions_are_counted_by_process_and_node(shop: list[Child], live: Live) -> None:
    live.start("__main__:work")
    until(lambda: all(node.counted == ("__main__:work:_",) for node in live.refresh().nodes.values()))
    shop[0].run("for n in range(10): work(n)")
    found = until(lambda: (answer := asked(shop[0].name))["counts"]["functions"] and answer)
    (function,) = found["counts"]["functions"]
    assert function[:4] == ("__main__", "work", 1, 10) and function[4] > 0
    pid = next(each[0] for each in found["counts"]["processes"] if each[6] == 10)
    assert [each[:4] for each in asked(shop[0].name, pid)["own"]] == [("__main__", "work", 1, 10)]
    assert asked(shop[1].name)["counts"]["functions"] == []
    live.stop("__main__:work")
    until(lambda: all(node.state == "-" for node in live.refresh().nodes.values()))
    assert asked(shop[0].name)["state"] is None, "the component that was made for it is gone"


def test_a_node_that_dies_is_a_row_and_the_others_go_on(shop: list[Child], live: Live) -> None:
    live.start("__main__:work")
    assert len(live.refresh().nodes) == 2
    shop[0].kill()
    refresh = until(lambda: (found := live.refresh()).errors and found)
    assert refresh.errors == {shop[0].name: "its process has ended"}
    assert [*live.refresh().nodes] == [shop[1].name]
    assert live.refresh().errors == {shop[0].name: "its process has ended"}, "it stays"


def test_a_node_that_ended_before_is_left_out(shop: list[Child], live: Live) -> None:
    shop[0].kill()
    shop[0].close()
    for _ in range(3):
        refresh = live.refresh()
        assert ([*refresh.nodes], refresh.errors) == ([shop[1].name], {})


def test_a_node_that_hangs_is_waited_for_once(shop: list[Child]) -> None:
    with Live(["shop-*"], timeout=3.0) as live:
        assert len(live.refresh().nodes) == 2
        shop[0].kill(signal.SIGSTOP)
        try:
            refresh = live.refresh()
            assert [*refresh.nodes] == [shop[1].name]
            assert refresh.errors[shop[0].name].startswith("timeout")
            began = time.monotonic()
            for _ in range(20):
                assert [*live.refresh().nodes] == [shop[1].name]
            assert time.monotonic() - began < 20 * 3.0, "it has a request that it has not answered"
        finally:
            shop[0].kill(signal.SIGCONT)
        until(lambda: len(live.refresh().nodes) == 2)


def test_a_node_that_another_control_has_is_seen_and_not_counted(shop: list[Child], live: Live) -> None:
    other = Control(name=f"other@{HOST}", timeout=10)
    assert other.add([shop[0].name], "other", {"dependency": 0})[0][1][0] == "ok"
    live.start("__main__:work")
    live.refresh()
    refresh = live.refresh()
    assert refresh.refused == {shop[0].name: f"refused: it belongs to the control other@{HOST}, process {os.getpid()}"}
    assert refresh.nodes[shop[0].name].counted == () and refresh.nodes[shop[1].name].counted == ("__main__:work:_",)
    other.close()
    until(lambda: not (found := live.refresh()).refused and found.nodes[shop[0].name].counted)


def test_a_node_that_comes_later_counts_too(shop: list[Child], live: Live, tmp_path: Path) -> None:
    live.start("__main__:work")
    live.refresh()
    late = Child("shop-3", tmp_path)
    try:
        until(lambda: (node := live.refresh().nodes.get(late.name)) and node.counted)
    finally:
        late.close()


def test_a_component_that_traces_for_somebody_is_left_as_it_was(shop: list[Child]) -> None:
    begun = subprocess.run(
        [*INVISO, "start", "shop-1", "-p", "__main__:work"], capture_output=True, timeout=LIMIT, check=False
    )
    assert begun.returncode == 0
    with Live(["shop-1"], patterns=["__main__:fails"], timeout=10) as live:
        until(lambda: live.refresh().nodes[shop[0].name].counted)
        shop[0].run("work(1)")
        assert live.refresh().nodes[shop[0].name].state == "tracing"
    found = asked(shop[0].name)
    assert (found["state"], found["patterns"], found["control"]) == (("tracing", "running"), [], None)


@pytest.mark.parametrize("traces", [False, True])
def test_after_kill_9_nothing_counts(shop: list[Child], traces: bool) -> None:
    if traces:
        assert (
            subprocess.run(
                [*INVISO, "start", "shop-1", "-p", "__main__:work"], capture_output=True, timeout=LIMIT, check=False
            ).returncode
            == 0
        )
    words = [*INVISO, "top", "shop-1", "-p", "__main__:fails", "--messages", "--json", "--every", "100ms"]
    top = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        until(lambda: (found := asked(shop[0].name))["patterns"] == ["__main__:fails:_"] and found["messages"])
    finally:
        top.kill()
        top.wait()
    until(lambda: not (found := asked(shop[0].name))["patterns"] and not found["messages"])
    until(lambda: asked(shop[0].name)["state"] == (("tracing", "running") if traces else None))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_view_that_is_told_to_end_leaves_nothing(shop: list[Child], number: int) -> None:
    words = [*INVISO, "top", "shop-*", "-p", "__main__", "--json", "--every", "100ms"]
    top = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert top.stdout is not None
        records = [json.loads(top.stdout.readline()) for _ in range(3)]
        top.send_signal(number)
        top.communicate(timeout=LIMIT)
    finally:
        top.kill()
        top.wait()
    assert top.returncode == 0
    assert [sorted(each["nodes"]) for each in records] == [sorted(each.name for each in shop)] * 3
    assert asked(shop[0].name)["state"] is None


# the command


def test_once(shop: list[Child]) -> None:
    done = command("shop-*", "--once", "--for", "10ms", "-p", "__main__:work")
    assert done.returncode == 0, done
    head, *rows = done.stdout.split("\n\n")[0].splitlines()
    assert head.split() == ["node", "status", "processes", "queue", "records/s", "lost", "control"]
    assert [each.split()[0] for each in rows] == [each.name for each in shop]
    assert "MainThread" in done.stdout and "\x1b" not in done.stdout


def test_once_with_a_node_that_hangs_and_one_that_is_nobody(shop: list[Child]) -> None:
    shop[0].kill(signal.SIGSTOP)
    try:
        done = command("shop-*", "nobody", "--once", "--for", "10ms", "--timeout", "1s")
    finally:
        shop[0].kill(signal.SIGCONT)
    assert done.returncode == 1
    assert "timeout: it did not answer in time" in done.stdout and f"{shop[1].name}  -" in done.stdout
    assert done.stderr == "inviso top: nobody: nobody of that name listens; start programs by 'inviso run'\n"


def test_json_has_its_keys(shop: list[Child]) -> None:
    done = command("shop-1", "--once", "--json", "--for", "10ms")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert set(found) == {"time", "nodes", "errors", "refused", "absent"}
    (node,) = found["nodes"].values()
    assert set(node) == {
        *(
            "state",
            "status",
            "control",
            "counted",
            "messages",
            "unattributed",
            "records",
            "lost",
            "lag_ms",
            "process_count",
        ),
        *("processes", "queues", "functions"),
    }
    assert {each["name"] for each in node["processes"]} >= {"MainThread"}


def test_a_record_is_json(live: Live) -> None:
    assert json.loads(json.dumps(record(live.refresh())))["absent"] == ["shop-*"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-p", "_", "--once"], "pattern: every function is too many"), (["-p", "a:b:c:d", "--once"], "pattern"),
        (["--sort", "size"], "invalid choice: 'size'"), (["--every", "0"], "'0' is no time"),
        (["--rows", "0"], "'0' is no number"),
        ([], "output: it is no terminal; use --once or --json"),
    ],
)  # fmt: skip
def test_a_wrong_command_line(words: list[str], why: str) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr


def test_the_screen_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError(\"No module named 'textual'\", name='textual')\n")
    outer, inner = opened_terminal()
    try:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        words = [*INVISO, "top"]
        done = subprocess.run(
            words,
            stdout=inner,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    finally:
        os.close(outer)
        os.close(inner)
    assert (done.returncode, done.stderr) == (
        1,
        "inviso top: textual is missing: pip install 'inviso[top]', or use --once or --json\n",
    )


@pytest.mark.parametrize("wrong", [{"kind": "often"}, {"patterns": ["_"]}, {"patterns": ["a:b:c:d"]}])
def test_a_wrong_view(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArg, match="top"):
        Live(**wrong)


def test_a_closed_view_has_nothing(live: Live) -> None:
    live.close()
    live.close()
    assert live.refresh().nodes == {}


def test_the_longest_queue_of_a_node() -> None:
    rows = (Process("1", "task", "a", 4, None, None, None, None),)
    assert Node("new", "running", "-", (), None, None, 0.0, 0, None, 1, rows, (), ()).queue == 4
