"""`inviso log`: its output, files and exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import inviso
import pytest
from cli_tools import PLAIN, Terminal, command, execute
from inviso import Atom, etf, export, log
from test_log import called, dropped, record

ME = repr(inviso.self())


def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return execute(command("log", *words), **env)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    me = inviso.self()
    words = {
        name: Atom(name) for name in ("trace", "return_from", "exception_from", "return_to", "send", "m", "f", "error")
    }
    mfa = (words["m"], words["f"], 1)
    path = tmp_path / "trace"
    path.write_bytes(
        b"".join((
            record(called(1)), record((words["trace"], me, words["return_from"], mfa, "one")),
            record((words["trace"], me, words["exception_from"], mfa, (words["error"], "no"))),
            record((words["trace"], me, words["return_to"], mfa)), dropped(3), dropped(1),
            record((words["trace"], me, words["send"], "a\x1b[2J\nb", me)), record(called(2, 1700)),
            record({"any": "thing"}),
        ))
    )  # fmt: skip
    return path


def on_a_terminal(words: list[str], **env: str) -> str:
    return Terminal(words, **{"TERM": "xterm", **env}).rest()


LINES = f"""\
({ME}) call m:f(1)
({ME}) returned from m:f/1 -> 'one'
({ME}) exception from m:f/1: error 'no'
({ME}) returned to m:f/1
*** 3 messages were dropped
*** 1 message was dropped
({ME}) {ME} ! 'a\\x1b[2J\\nb'
({ME}) call m:f(2) at 1700 ns
{{'any': 'thing'}}
"""


def test_print(path: Path, tmp_path: Path) -> None:
    done = run("print", path)
    assert (done.stdout, done.stderr, done.returncode) == (LINES, "", 0)
    assert run("print", "-n", "2", path, path).stdout == "".join(LINES.splitlines(True)[:2])
    (tmp_path / "set0.log").write_bytes(record(7))
    assert run("print", "--wrap=.log", tmp_path / "set").stdout == "7\n"
    with path.open("ab") as file:
        file.write(b"\0\0")
    done = run("print", path)
    assert done.returncode == 1 and done.stdout.endswith("the last record is cut off after 2 bytes\n")


def test_colours_are_for_terminals(path: Path) -> None:
    assert "\x1b" not in run("print", path).stdout
    assert "\x1b[36mcall\x1b[0m" in run("print", "--color", "always", path).stdout
    assert "\x1b[36mcall" in on_a_terminal(command("log", "print", path))
    assert "\x1b[3" not in on_a_terminal(command("log", "print", path), NO_COLOR="1")
    assert "\x1b[3" not in on_a_terminal(command("log", "print", "--color=never", path))


def test_an_encoding_that_is_too_small(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(record("\u20ac"))
    done = run("print", tmp_path / "t", PYTHONIOENCODING="ascii")
    assert done.stdout == "'\\u20ac'\n" and done.returncode == 0


def test_follow_goes_on_until_it_is_interrupted(path: Path) -> None:
    process = subprocess.Popen(command("log", "print", "-f", path), stdout=subprocess.PIPE, text=True, env=PLAIN)
    assert process.stdout is not None
    for line in LINES.splitlines(True):
        assert process.stdout.readline() == line
    with path.open("ab") as file:
        file.write(record("more"))
    assert process.stdout.readline() == "'more'\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(record("x" * 1000) * 2000)
    process = subprocess.Popen(
        command("log", "print", tmp_path / "t"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0 and process.stderr.read() == ""


def test_convert(path: Path, tmp_path: Path) -> None:
    blocks, back = tmp_path / "blocks", tmp_path / "back"
    done = run("convert", "--to", "blocks", "-o", blocks, path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"inviso log: 9 records to {blocks}, 4 messages were dropped\n"
    assert run("convert", "--to=erlang", f"--output={back}", blocks).returncode == 0
    assert back.read_bytes() == path.read_bytes()
    with path.open("ab") as file:
        file.write(b"\7")
    done = run("convert", "--to", "erlang", "-o", back, path)
    assert done.returncode == 1 and "no record begins with 7" in done.stderr


@pytest.mark.parametrize("form", ["erlang", "blocks", *sorted(set(export.FORMATS) - {"otlp"})])
def test_damage_is_told_whatever_is_written(form: str, path: Path, tmp_path: Path) -> None:
    if form in ("arrow", "parquet"):
        pytest.importorskip("pyarrow")
    whole = run("convert", "--to", form, "-o", tmp_path / "whole", path)
    assert whole.returncode == 0 and "4 messages were dropped" in whole.stderr and whole.stderr.count("\n") == 1
    data = path.read_bytes()
    for tail, why in (
        (record(called(3))[:-2], "the last record is cut off"), (b"\7", "no record begins with 7"),
        (bytes(5), "a record without a term"), (bytes(20), "a hole of 20 zero bytes"),
        (b"\0\0\0\0\2\x83\xff", "unknown tag 255"),
    ):  # fmt: skip
        path.write_bytes(data + tail)
        done = run("convert", "--to", form, "-o", tmp_path / "out", path)
        assert done.returncode == 1 and why in done.stderr and "4 messages were dropped" in done.stderr


def test_pids_of_another_run_are_shown_as_its_own(tmp_path: Path) -> None:
    one, two = (
        b"\x83h\2" + b"w\5traceX" + etf.dumps(Atom("nonode@nohost"))[1:] + bytes([0, 0, 0, 4] + [0] * 7 + [n])
        for n in (7, 8)
    )
    path = tmp_path / "trace"
    path.write_bytes(b"".join(struct.pack(">BI", 0, len(data)) + data for data in (one, two, one)))
    done = run("print", path)
    first, other, again = done.stdout.splitlines()
    # the first node as Erlang shows it; a second one is distinguished
    assert first == again == "('trace', <0.4.0>)" and other.endswith(".4.0>)") and other != first
    pid = next(iter(log.read(path)))[1]
    assert not pid.is_local() and repr(pid) != "<0.4.0>"


def test_merge(tmp_path: Path) -> None:
    for name, times in ("a", (1, 4)), ("b", (2, 3)):
        (tmp_path / name).write_bytes(b"".join(record(called(time, time)) for time in times))
    (tmp_path / "c").write_bytes(record(called(9, (1, 2, 3))))
    done = run("merge", tmp_path / "a", tmp_path / "b")
    assert re.findall(r"m:f\((.)\)", done.stdout) == ["1", "2", "3", "4"] and done.returncode == 0
    done = run("merge", "-o", tmp_path / "out", "--to", "blocks", *(tmp_path / name for name in "abc"))
    assert done.returncode == 0 and "1 time stamps of another clock" in done.stderr
    assert [m[3][2][0] for m in log.read(tmp_path / "out")][-1] == 4


def test_stats(path: Path) -> None:
    done = run("stats", path)
    assert done.returncode == 0
    assert re.search(r"^messages +7$", done.stdout, re.M) and re.search(
        r"^dropped +4 in 2 drop records$", done.stdout, re.M
    )
    assert re.search(r"^ +2  call$", done.stdout, re.M) and re.search(r"^ +2  m:f/1$", done.stdout, re.M)
    assert re.search(rf"^ +6  {ME}$", done.stdout, re.M)
    told = json.loads(run("stats", "--json", path).stdout)
    assert (
        told["functions"] == {"m:f/1": 2}
        and told["bytes"] == path.stat().st_size
        and told["first"] == told["last"] == 1700
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "inviso log: no command was given"),
        (["show"], "inviso log: unknown command 'show'; the commands are print, convert, merge, stats"),
        (["--all"], "inviso log: unknown option '--all'"),
        (["print"], "inviso log print: no log was given; name a file"),
        (["print", "--to", "x", "f"], "inviso log print: unknown option '--to'"),
        (["print", "-n"], "inviso log print: option -n needs a value"),
        (["print", "-n", "0", "f"], "inviso log print: --limit: '0' is not a number of lines"),
        (["print", "--follow=yes", "f"], "inviso log print: option --follow takes no value"),
        (["print", "--color", "red", "{}"], "inviso log print: --color: 'red' is unknown"),
        (["print", "-w", "", "{}"], "inviso log print: '' is no suffix of a wrap set"),
        (["convert", "{}"], "inviso log convert: option --to is missing"),
        (["convert", "--to", "erlang", "{}"], "inviso log convert: option --output is missing"),
        (["convert", "--to", "erlang", "-o", "{}", "{}"], "is the log itself; pass another file"),
        (["convert", "--to", "chrome", "-o", "{}", "{}"], "is the log itself; pass another file"),
        (["merge", "--to", "blocks", "{}"], "inviso log merge: --to: it needs a file; add -o OUT"),
        (["merge", "--to", "zip", "-o", "x", "{}"], "inviso log merge: --to: 'zip' is no form of a log"),
    ],
)
def test_command_lines_that_are_wrong(words: list[str], why: str, path: Path) -> None:
    done = run(*(word.replace("{}", str(path)) for word in words))
    assert done.returncode == 2 and why in done.stderr and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("See 'inviso log")


def test_files_that_cannot_be_read_or_written(path: Path, tmp_path: Path) -> None:
    done = run("print", tmp_path / "nothing")
    assert (done.returncode, done.stderr) == (1, f"inviso log print: {tmp_path / 'nothing'}: {os.strerror(2)}\n")
    done = run("convert", "--to", "erlang", "-o", tmp_path / "no" / "out", path)
    assert done.returncode == 1 and f"{tmp_path / 'no' / 'out'}: {os.strerror(2)}" in done.stderr


@pytest.mark.parametrize("words", [["print"], ["print", "--color", "never"], ["merge"], ["stats"], ["stats", "--json"]])
def test_a_closed_standard_output(words: list[str], path: Path) -> None:
    line = shlex.join([*command("log", *words), str(path)])
    done = subprocess.run(["sh", "-c", f"exec {line} >&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, f"inviso log {words[0]}: standard output: {os.strerror(9)}\n")


@pytest.mark.parametrize(
    "words", [["--help"], ["-h"], *(([name, "--help"]) for name in ("print", "convert", "merge", "stats"))]
)
def test_help(words: list[Any]) -> None:
    done = run(*words)
    assert done.returncode == 0 and done.stdout.startswith("usage: inviso log ") and done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) < 80
    assert all(f"  {name}" in execute(command("--help")).stdout for name in ("tprof", "log"))


def test_a_term_that_python_would_not_print(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(record([1 << 20000, (1 << 20000,), {1: 1 << 20000}]) + record(etf.Fun("m", "f", 1)))
    done = run("print", tmp_path / "t")
    assert done.returncode == 0 and done.stdout.endswith("\nfun m:f/1\n") and done.stdout.startswith("[0x1000")


@pytest.mark.parametrize("to", ["parquet"])
def test_a_form_that_needs_another_package_says_so_in_one_line(path: Path, tmp_path: Path, to: str) -> None:
    text = (
        "import sys; sys.modules.update(pyarrow=None, polars=None); from inviso.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", text, "log", "convert", str(path), "--to", to, "-o", str(tmp_path / "out")]
    done = execute(words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"inviso log convert: pyarrow is missing: pip install 'inviso\[arrow\]'\n", done.stderr)


def test_a_package_that_can_not_be_loaded_is_told_in_one_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").write_text("raise ImportError('its library is broken\\nin many\\nlines')")
    text = "import sys; sys.path.insert(0, sys.argv.pop(1)); from inviso.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [
        sys.executable,
        "-c",
        text,
        str(tmp_path),
        "log",
        "convert",
        str(path),
        "--to",
        "parquet",
        "-o",
        str(tmp_path / "out"),
    ]
    done = execute(words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "inviso log convert: its library is broken\n")
