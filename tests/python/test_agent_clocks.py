"""Hosts whose clocks differ: agents measure the difference, and logs are merged by it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import inviso
import pytest

pytest.importorskip("zenoh", reason="the extra inviso[cluster]")

from agent_tools import THERE, Host
from inviso import BadArg, Cluster, etf, merge
from inviso.agent._clock import APART, Offsets
from inviso.merge._clocks import Clock, beside, read, write
from node_tools import HOST
from waiting import until

AHEAD = 5.0
DRIFT = 100e-6

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
/* The wall clock of this process: ahead by SHIFT seconds, and faster by DRIFT, since the time BEGAN. */
static double number(const char *name) { const char *text = getenv(name); return text ? atof(text) : 0; }
int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, found);
    if (!status && clock == CLOCK_REALTIME) {
        double more = number("SHIFT") + number("DRIFT") * (found->tv_sec - number("BEGAN") + found->tv_nsec / 1e9);
        long long ns = found->tv_sec * 1000000000LL + found->tv_nsec + (long long)(more * 1e9);
        found->tv_sec = ns / 1000000000LL;
        found->tv_nsec = ns % 1000000000LL;
    }
    return status;
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that replaces a process's wall clock if it is loaded first."""
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    made = folder / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, folder / "shim.c", "-ldl"], check=True)
    return made


@pytest.fixture
def hosts(tmp_path: Path, shim: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    """This host, and one whose clock is ahead and gains."""
    monkeypatch.chdir(tmp_path)
    clock = {"LD_PRELOAD": str(shim), "SHIFT": str(AHEAD), "DRIFT": str(DRIFT), "BEGAN": str(time.time())}
    there = Host(THERE, tmp_path / THERE, environment=clock)
    try:
        here = Host(HOST, tmp_path / "here", (there.endpoint,))
        try:
            monkeypatch.setenv("INVISO_DIR", str(here.folder))
            yield here, there
        finally:
            here.close()
    finally:
        there.close()


def test_alternating_events_are_merged_in_their_order(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    nodes = [here.node("one"), there.node("two")]
    until(lambda: here.sees(nodes[1].name))
    with Cluster() as cluster:
        cluster.trace("__main__:work", arguments=True, folder="logs").check()
        moments = []
        for number in range(40):
            before = time.time()
            nodes[number % 2].run(f"work({number})")
            moments.append((before, time.time()))
        until(lambda: cluster._control.clocks().get(THERE))
        cluster.stop().check()
    order = [message.message[3][2][0] for message in merge.read("logs")]
    by_wall = [message.node for message in merge.read("logs", clock="wall")]
    assert by_wall == [nodes[0].name] * 20 + [nodes[1].name] * 20
    done = merge.logs("logs", "all.txt", "text")
    clock = done.clocks[nodes[1].name]
    assert (clock.host, clock.to, list(done.clocks)) == (THERE, HOST, [nodes[1].name])
    for _, offset, error in clock.points:
        assert abs(offset / 1e9 + AHEAD) <= error / 1e9 + 60 * DRIFT + 1e-3
        assert 0 < error < 1e9
    # only messages that are closer than the clocks' error may stand in the wrong order
    error = 2 * max(error for *_, error in clock.points) / 1e9 + 60 * DRIFT + 1e-3
    assert sorted(order) == [*range(40)]
    wrong = [
        (one, two)
        for at, one in enumerate(order)
        for two in order[at + 1 :]
        if moments[one][0] - moments[two][1] > error
    ]
    assert wrong == []


def test_one_log_is_merged_as_it_is(hosts: tuple[Host, Host]) -> None:
    _, there = hosts
    node = there.node("two")
    until(lambda: hosts[0].sees(node.name))
    with Cluster() as cluster:
        cluster.trace("__main__:work", folder="logs").check()
        for number in range(5):
            node.run(f"work({number})")
        until(lambda: cluster._control.clocks().get(THERE))
        cluster.stop().check()
    log = Path("logs", f"{node.name}.log")
    merge.logs("logs", "all.log", "erlang")
    assert Path("all.log").read_bytes() == log.read_bytes()


def write_clock(path: str, offset: int, to: str = "h") -> None:
    write(path, Clock("web", to, [(0, offset, 1)]))


def test_files_of_offsets(tmp_path: Path) -> None:
    path = str(tmp_path / "a@web.clock")
    assert beside(str(tmp_path / "a@web.log")) == path
    assert read("test", path) is None
    given = Clock("web", "db", [(1, -2, 3), (4, 5, 6)])
    write(path, given)
    assert read("test", path) == given
    write(path, Clock("web", "db"))
    assert not Path(path).exists()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"version": 2, "host": "a", "to": "b", "points": [[1, 2, 3]]}',
        '{"version": 1, "host": "a", "to": "b", "points": []}',
        '{"version": 1, "host": "a", "to": "b", "points": [[1, 2]]}',
        '{"version": 1, "host": "a", "to": "b", "points": [[1, 2, -3]]}',
        '{"version": 1, "host": "a", "to": "b", "points": [[1, 1e30, 3]]}', "[" * 100_000,
        '{"version": 1, "host": "a", "to": "b", "points": [[1, 99999999999999999999999, 3]]}',
    ],
)  # fmt: skip
def test_files_without_offsets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a@web.clock"
    path.write_text(text)
    with pytest.raises(BadArg, match=r"clock: .*a@web\.clock"):
        read("test", str(path))


def test_what_is_refused(tmp_path: Path) -> None:
    for node in ("a@one", "b@two"):
        (tmp_path / f"{node}.log").write_bytes(b"")
    with pytest.raises(BadArg, match=r"there is no NODE\.clock beside a log"):
        merge.logs(tmp_path, tmp_path / "all.txt", clock="aligned")
    write_clock(str(tmp_path / "a@one.clock"), 1)
    assert merge.logs(tmp_path, tmp_path / "all.txt").clocks["a@one"].text() == "+0.000000 s, right to 0.0 ms"
    write_clock(str(tmp_path / "b@two.clock"), 1, to="other")
    with pytest.raises(BadArg, match="aligned with several hosts: h, other"):
        merge.logs(tmp_path, tmp_path / "all.txt")
    with pytest.raises(BadArg, match="is unknown"):
        merge.logs(tmp_path, tmp_path / "all.txt", clock="sun")
    with pytest.raises(BadArg, match="'causal' is for logs, and a reader was given"):
        merge.merge([("reader", iter(()), ("a@h", []))], str(tmp_path / "all.txt"), clock="causal")
    assert not merge.logs(tmp_path, tmp_path / "all.txt", clock="wall").clocks


def test_lines_keep_the_time_of_their_own_host(tmp_path: Path) -> None:
    ts, call = inviso.Atom("trace_ts"), inviso.Atom("call")
    for node, seconds in (("a@one", 4), ("b@two", 3)):
        data = etf.dumps((ts, inviso.self(), call, (inviso.Atom("m"), inviso.Atom("f"), []), (0, seconds, 0)))
        (tmp_path / f"{node}.log").write_bytes(bytes(1) + len(data).to_bytes(4) + data)
    write_clock(str(tmp_path / "b@two.clock"), 10_000_000_000)
    merge.logs(tmp_path, tmp_path / "all.txt")
    lines = (tmp_path / "all.txt").read_text().splitlines()
    assert [(line[:5], line[-9:]) for line in lines] == [("a@one", "04.000000"), ("b@two", "03.000000")]


def test_the_quickest_answer_counts() -> None:
    offsets = Offsets()
    offsets.add(0, 1000 + 900, 1000 + 900, 1000)  # the request is slow
    offsets.add(2000, 3050, 3050, 2100)
    offsets.add(4000, 5000 + 10, 5000 + 10, 5000)
    assert offsets.points() == [(1900, -1400, 500), (3050, -1000, 50)]
    offsets.add(9000, 100, 9000, 9500)  # its clock was set between the two measurements
    assert offsets.points() == [(1900, -1400, 500)]
    for n in range(1, 5):
        now = 1900 + n * APART
        offsets.add(now, now, now, now + 2)
    assert [when for when, _, _ in offsets.points()][-4:] == [1900 + n * APART for n in range(1, 5)]


def test_a_clock_that_goes_back_begins_anew() -> None:
    offsets = Offsets()
    offsets.add(10, 1000, 1000, 20)
    offsets.add(30, 1, 1, 40)
    assert [when for when, _, _ in offsets.points()] == [1000, 1]


def test_the_answers_of_agents_are_json(tmp_path: Path) -> None:
    path = str(tmp_path / "a.clock")
    write_clock(path, 7)
    assert json.loads(Path(path).read_text()) == {"version": 1, "host": "web", "to": "h", "points": [[0, 7, 1]]}


ORDERS = 20


def test_nothing_is_received_before_it_was_sent(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    nodes = [here.node("one"), there.node("two")]
    until(lambda: here.sees(nodes[1].name))
    for node in nodes:
        node.run("from inviso import seq_trace")
    headers = Path("headers").absolute()
    with Cluster() as cluster:
        cluster.tokens(folder="logs").check()
        nodes[0].run("seq_trace.set_token('label', 7)")
        nodes[0].run("for flag in ('send', 'receive', 'print', 'timestamp'): _ = seq_trace.set_token(flag, True)")
        for number in range(ORDERS):
            sender, receiver = nodes[number % 2], nodes[1 - number % 2]
            sender.run(f"open({str(headers)!r}, 'w').write(repr(seq_trace.inject({{}})))")
            receiver.run(f"assert seq_trace.extract(eval(open({str(headers)!r}).read()))")
            receiver.run(f"seq_trace.print({number})")
        until(lambda: cluster._control.clocks().get(THERE))
        cluster.stop().check()

    def order(clock: str | None) -> list[tuple[str, int]]:
        return [(entry.message[2][0], entry.message[2][1][1]) for entry in merge.read("logs", clock=clock)]

    right = [
        event
        for serial in range(1, 2 * ORDERS, 2)
        for event in (("send", serial), ("receive", serial), ("print", serial + 1))
    ]
    assert order("causal") == right
    assert order("wall") != right
    done = merge.logs("logs", "all.txt", clock="causal")
    assert list(done.clocks) == [nodes[1].name] and done.unordered == 0
    # without measurements: the slower clock's receipts are the ones that come too early
    Path("logs", f"{nodes[1].name}.clock").unlink()
    assert order("causal") == right
    done = merge.logs("logs", "all.txt", clock="causal")
    assert list(done.moved) == [nodes[0].name]
    moved = done.moved[nodes[0].name]
    stamps = {entry.message[2][:2]: entry.message[3] for entry in merge.read("logs")}
    early = {
        serial: stamps["send", serial]
        for what, serial in stamps
        if what == "receive" and stamps[what, serial] < stamps["send", serial]
    }
    assert moved.receipts == len(early) == len(moved.first) == ORDERS // 2
    for (when, far), (serial, sent) in zip(moved.first, sorted(early.items()), strict=True):
        found = stamps["receive", serial]
        assert when == ((found[0] * 1_000_000 + found[1]) * 1_000_000 + found[2]) * 1000
        assert when + far == ((sent[0] * 1_000_000 + sent[1]) * 1_000_000 + sent[2]) * 1000
        assert abs(far / 1e9 - AHEAD) < 1
    assert moved.most == max(far for _, far in moved.first)
