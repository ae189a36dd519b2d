"""`inviso merge`: its output, files and exit status."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import pytest
from cli_tools import Terminal, command, execute
from inviso import Atom, etf, log
from test_log import dropped, record
from test_merge import called, entry, of_node, raw


def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return execute(command("merge", *words), TZ="UTC", **env)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "shop@h.log").write_bytes(
        raw(2, of_node(4, 11), of_node(4, 22)) + dropped(3) + raw(9, of_node(4, 11), of_node(5, 11))
    )
    (folder / "web@h.0.log").write_bytes(raw(3, of_node(4, 22), of_node(4, 11)))
    (folder / "web@h.1.log").write_bytes(raw(4, of_node(4, 22), of_node(6, 22)))
    ti = entry("none", "db", "unalias", 1)
    (folder / "shop@h.ti").write_bytes(ti.replace(ti, entry_of(of_node(4, 0), "db", 1)))
    return folder


def test_a_registered_name_is_shown_before_that_of_a_thread(tmp_path: Path) -> None:
    (tmp_path / "a@h.log").write_bytes(raw(5, of_node(4, 11), of_node(5, 11)))
    pid = of_node(4, 11)
    names = [entry_of(pid, name, 1) for name in ("old", Atom("db"), Atom("db2"), "worker")]
    (tmp_path / "a@h.ti").write_bytes(
        b"".join(names) + entry_of(of_node(5, 11), "one", 1) + entry_of(of_node(5, 11), "two", 1)
    )
    assert run(tmp_path).stdout == "a@h (db2) <two> ! 'hello' at 1970-01-01 00:00:05.000000\n"


def entry_of(pid: bytes, alias: str, second: int) -> bytes:
    """An entry with the bytes of a pid, where `entry` has one of this process."""
    parts = [pid, etf.dumps(alias), etf.dumps(Atom("alias")), etf.dumps((0, second, 0))]
    data = b"\x83h\4" + b"".join(part[1:] for part in parts)
    return bytes(1) + struct.pack(">I", len(data)) + data


LINES = """\
shop@h (db) <web@h.4.0> ! 'hello' at 1970-01-01 00:00:02.000000
shop@h *** 3 messages were dropped
web@h (<0.4.0>) <db@shop@h> ! 'hello' at 1970-01-01 00:00:03.000000
web@h (<0.4.0>) <0.6.0> ! 'hello' at 1970-01-01 00:00:04.000000
shop@h (db) <0.5.0> ! 'hello' at 1970-01-01 00:00:09.000000
"""


def test_a_folder_is_printed_as_one_story(folder: Path) -> None:
    done = run(folder)
    assert (done.stdout, done.returncode) == (LINES, 0)
    assert done.stderr == "shop@h  3 records  3 lost\nweb@h  2 records\n"
    assert run(folder, "-n", "2").stdout == "".join(LINES.splitlines(True)[:2])
    shown = Terminal(command("merge", folder), TZ="UTC", TERM="xterm").rest()
    assert "\x1b[35m!\x1b[0m" in shown and "\x1b[1mshop@h\x1b[0m" in shown
    assert "\x1b[3" not in Terminal(command("merge", "--color=never", folder), TERM="xterm").rest()


def test_a_merged_log_is_printed_with_nodes_and_names(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.log"
    done = run(folder, "-o", out)
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr.endswith(f"inviso merge: 5 records of 2 nodes to {out}, with names in {tmp_path / 'all.ti'}\n")
    shown = execute(command("log", "print", out), TZ="UTC")
    # a drop record does not name its node
    assert (shown.stdout, shown.returncode) == (LINES.replace("shop@h ***", "***"), 0)
    limited = execute(command("log", "print", "-n1", out), TZ="UTC").stdout
    assert limited == LINES.splitlines(True)[0]


@pytest.mark.parametrize("form", ["erlang", "blocks", "text", "inviso"])
def test_forms(form: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.out"
    assert run(folder, "--to", form, "-o", out).returncode == 0
    if form == "text":
        assert out.read_text() == LINES
    elif form == "inviso":
        first = out.read_text().splitlines()[0]
        assert first == "shop@h [<<100,98>>] {trace_ts,<0.4.0>,send,hello,<22.4.0>,{0,2,0}}"
    else:
        assert len(list(log.read(out))) == 5 and (tmp_path / "all.ti").exists()


def test_logs_may_be_named_one_by_one(folder: Path) -> None:
    words = [f"shop@h={folder / 'shop@h.log'}", f"web@h={folder / 'web@h.0.log'}", f"web@h={folder / 'web@h.1.log'}"]
    assert run(*words).stdout == LINES


def test_what_could_not_be_read_is_said(folder: Path, tmp_path: Path) -> None:
    with (folder / "web@h.1.log").open("ab") as file:
        file.write(b"\7")
    with (folder / "shop@h.ti").open("ab") as file:
        file.write(b"\0\0")
    done = run(folder, "-o", tmp_path / "all.log")
    assert done.returncode == 1
    assert "web@h  2 records  1 damaged\n" in done.stderr
    assert "inviso merge: web@h: " in done.stderr and "no record begins with 7" in done.stderr
    assert "inviso merge: 1 entry of .ti files could not be read\n" in done.stderr
    assert run(folder).returncode == 1
    assert json.loads(run(folder, "--json").stderr)["output"] is None
    told = json.loads(run(folder, "--json", "-o", tmp_path / "all.log").stdout)
    assert told["nodes"]["web@h"] == {"records": 2, "lost": 0, "damaged": 1} and told["records"] == 5
    assert (told["ti"], told["ti_damaged"], told["absent"], told["output"]) == (1, 1, {}, str(tmp_path / "all.log"))


def test_a_command_line_that_is_wrong(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for words, why in (
        ([], "no log was given"), (["nowhere"], "'nowhere' is not a folder"), (["a=b", "c"], "'c' is not NODE=LOG"),
        (["--to", "text", str(folder)], "--to: it needs a file"),
        (["--to", "zip", "-o", "x", str(folder)], "'zip' is not a form"),
        (["-n", "0", str(folder)], "is not a number of lines"),
        (["-n", "1", "-o", "x", str(folder)], "--limit: it is for lines"),
        (["--clock", "sun", str(folder)], "'sun' is unknown"), (["--what", str(folder)], "unknown option"),
        ([str(empty)], "no NODE.log is in"), (["--color", "red", str(folder)], "'red' is unknown"),
    ):  # fmt: skip
        done = run(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert why in done.stderr and "See 'inviso merge --help'" in done.stderr
    done = run("a@h=nowhere.log")
    assert done.returncode == 1 and "nowhere.log" in done.stderr
    assert run("--help").stdout.startswith("usage: inviso merge")
    assert "merge " in execute(command("--help")).stdout


def test_names_stand_beside_a_log_that_is_printed(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_bytes(raw(2, of_node(4, 11), of_node(4, 22)))
    (tmp_path / "set0.log").write_bytes(raw(2, of_node(4, 11), of_node(4, 11)) + record(called(1, None)))
    for name in ("shop.ti", "set.ti"):
        (tmp_path / name).write_bytes(entry_of(of_node(4, 0), "db", 1) + entry(None, "x", "unalias", 1))
    shown = execute(command("log", "print", tmp_path / "shop.log"), TZ="UTC").stdout
    assert shown == "(db) <65.4.0> ! 'hello' at 1970-01-01 00:00:02.000000\n"
    shown = execute(command("log", "print", "-w", ".log", tmp_path / "set"), TZ="UTC").stdout
    assert shown.startswith("(db) <db> ! 'hello' at")
