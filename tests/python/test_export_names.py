"""Exports of programs with real pids, threads and nodes; several nodes in one file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import inviso
import pytest
from cli_tools import command, execute
from export_tools import log, pid
from inviso import BadArg, export, trace
from inviso.trace_ports import trace_port

PROGRAM = """
import sys, threading, asyncio
import inviso
from inviso import trace
from inviso.trace_ports import trace_port

def work():
    print(threading.get_native_id(), flush=True)

async def main():
    await asyncio.sleep(0)

parameters = (sys.argv[1], "wrap", ".log", 100_000, 3) if sys.argv[2] == "wrap" else sys.argv[1]
session = trace.session_create("x", trace_port("file", parameters, compress=sys.argv[2] == "blocks")())
session.function(("__main__", "_", "_"), [("_", [], [("return_trace",)])], ["local"])
for who in "all", "new":
    session.process(who, True, ["call", "timestamp"])
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
work()
asyncio.run(main())
session.destroy()
"""


def traced(folder: Path, name: str, form: str = "erlang") -> tuple[Path, int, int]:
    """The log of a program, its pid, and the number of its other thread."""
    (folder / "shop.py").write_text(PROGRAM)
    path = folder / name
    words = [sys.executable, str(folder / "shop.py"), str(path), form]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return path, process.pid, int(out.split()[0])


def chrome(source: Any, **options: Any) -> tuple[dict[int, str], dict[tuple[int, int], str], list[Any]]:
    """Names of processes and threads, and the other events."""
    out = io.BytesIO()
    export.chrome(source, out, **options)
    events = json.loads(out.getvalue())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return processes, threads, [event for event in events if event["ph"] != "M"]


@pytest.mark.parametrize("form", ["erlang", "blocks", "wrap"])
def test_a_log_says_whose_it_is(form: str, tmp_path: Path) -> None:
    path, os_pid, os_tid = traced(tmp_path, "log", form)
    processes, threads, events = chrome((path, "wrap", ".log") if form == "wrap" else path)
    assert processes == {os_pid: "shop.py"}
    assert threads[os_pid, os_pid].startswith("MainThread <")
    assert threads[os_pid, os_tid].startswith("worker <")
    (task,) = (tid for _, tid in threads if tid not in (os_pid, os_tid))
    assert task >= 1 << 31, "no thread has such a number"
    assert {(event["pid"], event["tid"]) for event in events} == set(threads)


def test_perfetto_groups_threads_by_their_process(tmp_path: Path) -> None:
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path, os_pid, os_tid = traced(tmp_path, "log")
    out = io.BytesIO()
    export.perfetto(path, out)
    tracks = [
        p.track_descriptor for p in perfetto.Trace.FromString(out.getvalue()).packet if p.HasField("track_descriptor")
    ]
    (process,) = (track for track in tracks if track.HasField("process"))
    assert (process.process.pid, process.process.process_name) == (os_pid, "shop.py")
    assert list(process.process.process_labels) == ["nonode@nohost"]
    threads = {track.thread.tid: track.thread for track in tracks if track.HasField("thread")}
    assert set(threads) == {os_pid, os_tid} and {thread.pid for thread in threads.values()} == {os_pid}
    assert threads[os_tid].thread_name.startswith("worker <")
    assert all(track.parent_uuid == process.uuid for track in tracks if track is not process)


def test_several_nodes_are_processes_of_one_file(tmp_path: Path) -> None:
    logs = {name: traced(tmp_path, f"{name}.log") for name in ("web", "shop")}
    processes, threads, events = chrome({name: path for name, (path, _, _) in logs.items()})
    assert processes == {os_pid: f"shop.py {name}" for name, (_, os_pid, _) in logs.items()}
    assert {pid for pid, _ in threads} == set(processes)
    times = [event["ts"] for event in events]
    assert times == sorted(times), "they are merged"
    # a folder is the same, and the command names the nodes by the files
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, (path, _, _) in logs.items():
        os.link(path, folder / f"{name}.log")
    assert chrome(folder)[0] == processes
    for given in ([folder], [path for path, _, _ in logs.values()]):
        done = execute(command("export", "chrome", "-o", tmp_path / "out", *given))
        assert (done.returncode, done.stderr) == (0, f"inviso export: {2 * 6} messages to {tmp_path / 'out'}\n")
        found = json.loads((tmp_path / "out").read_text())["traceEvents"]
        assert {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"} == processes
    # a merged log still names it
    whole = tmp_path / "all.log"
    inviso.merge.logs(folder, whole, "erlang")
    assert chrome(whole)[0] == processes
    table = io.BytesIO()
    pytest.importorskip("pyarrow")
    assert export.parquet(folder, table).messages == 12


def test_a_session_is_of_this_process() -> None:
    with trace.session_create("own") as session:
        session.function(("json", "dumps", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        json.dumps(1)
        processes, threads, _ = chrome(session)
    assert list(processes) == [os.getpid()] and inviso.node() not in processes.values()
    assert set(threads) == {(os.getpid(), threading.get_native_id())}


def test_a_caller_says_what_a_log_does_not(tmp_path: Path) -> None:
    path = log(tmp_path / "log", [("trace", pid(0), "call", ("m", "f", []))])
    given = {inviso.node(): (77, "shop.py")}
    assert chrome(path, programs=given)[0] == {77: "shop.py"}
    for wrong in (5, {"a": 5}, {"a": (0, "x")}, {"a": (True, "x")}, {5: (1, "x")}, {"a": (1, b"x")}):
        with pytest.raises(BadArg, match=r"programs: .*; pass a dict"):
            export.chrome(path, io.BytesIO(), programs=wrong)  # type: ignore[arg-type]


def test_names_beside_a_log_are_read(tmp_path: Path) -> None:
    (tmp_path / "ti.py").write_text(
        "import sys, inviso, json\n"
        "from inviso import Atom, etf, trace\nfrom inviso.trace_ports import trace_port\n"
        "session = trace.session_create('x', trace_port('file', sys.argv[1] + '.log')())\n"
        "session.function(('json', 'dumps', '_'), True, ['local'])\n"
        "session.process(inviso.self(), True, ['call'])\n"
        "json.dumps(1)\nsession.destroy()\n"
        "data = etf.dumps((inviso.self(), Atom('db'), Atom('alias'), (0, 1, 0)))\n"
        "open(sys.argv[1] + '.ti', 'wb').write(bytes(1) + len(data).to_bytes(4) + data)\n"
    )
    subprocess.run([sys.executable, str(tmp_path / "ti.py"), str(tmp_path / "a")], check=True, timeout=60)
    _, threads, _ = chrome(tmp_path / "a.log")
    assert [name.split()[0] for name in threads.values()] == ["db"]


def test_the_command(tmp_path: Path) -> None:
    path = log(tmp_path / "shop.log", [("trace", pid(0), "call", ("m", "f", [])), ("drop", 2)])
    for form in export.FORMATS:
        if form in ("arrow", "parquet"):
            pytest.importorskip("pyarrow")
        if form == "otlp":
            continue
        done = execute(command("export", form, "-o", tmp_path / form, path))
        text = f"inviso export: 1 messages to {tmp_path / form}, 2 messages were dropped\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, "", text), form
        assert (tmp_path / form).stat().st_size > 0
    with path.open() as stdin:
        words = command("export", "collapsed", "-o", "-", "-")
        done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[2 messages dropped] 1\nm:f/0 1\n"
    for words, why in (
        ([], "no form was given; the forms are perfetto, chrome"),
        (["smoke", path], "unknown form 'smoke'; the forms are"),
        (["chrome", "-o", "x"], "no log was given"),
        (["chrome", path], "option --output is missing"),
        (["chrome", "-o", "x", "--label", "7", path], "--label: chrome has no labels"),
        (["pstats", "-o", "x", "--pids", "erlang", path], "--pids: give inviso or erlang, with perfetto or chrome"),
        (["chrome", "-o", "x", path, path], "another log is of a node shop, too; say NODE=LOG"),
        (["chrome", "-o", "x", "-", path], "-: standard input is one log; give it alone"),
        (["chrome", "-o", "x", tmp_path / "none.log"], "there is no file"),
    ):
        done = execute(command("export", *map(str, words)), tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("inviso export: ") and why in done.stderr, done.stderr
    two = execute(command("export", "chrome", "-o", tmp_path / "x", f"a@h={path}", f"b@h={path}"))
    assert two.returncode == 0


def test_erlang_reads_the_same_messages_as_before(tmp_path: Path) -> None:
    """The first record has more bytes after its term; the messages are the same."""
    with trace.session_create("e", trace_port("file", tmp_path / "log")()) as session:
        session.function(("json", "dumps", "_"), True, ["local"])
        session.process(inviso.self(), True, ["call"])
        json.dumps(1)
    (message,) = inviso.log.read(tmp_path / "log")
    assert message[:3] == ("trace", inviso.self(), "call") and len(message) == 4
    data = (tmp_path / "log").read_bytes()
    assert data.endswith(b"\xb1who") and inviso.log.stats(tmp_path / "log").damaged == 0
    again = tmp_path / "again"
    inviso.log.convert(tmp_path / "log", again, "blocks")
    assert list(inviso.log.read(again)) == [message]
    assert chrome(again)[0] == chrome(tmp_path / "log")[0] != {}
