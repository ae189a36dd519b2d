"""The command's report: its contents. It is written at any end of the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import LIMIT, PLAIN, SUBJECTS, WORK, Terminal, command, execute, row, script, tprof


def test_ctrl_c_shows_what_was_measured_and_ends_by_the_signal(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "def often(): pass\nfor _ in range(5): often()\nprint('ready', flush=True)\nwhile True: pass\n",
    )
    ends = []
    for words in ([sys.executable, str(path)], command("tprof", "-p", "__main__", path)):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT)
        ends.append((process.returncode, stderr))
    (plain_status, plain_text), (status, text) = ends
    assert status == plain_status == -signal.SIGINT
    traceback, _, report = text.partition("inviso tprof: ")
    first, second = traceback.splitlines()[:2]
    assert first == plain_text.splitlines()[0]
    assert second.startswith(f'  File "{path}", line ')
    assert traceback.endswith("\nKeyboardInterrupt\n")
    assert row(report, "__main__:often/0")[0] == "5"


def test_counts_of_a_program(tmp_path: Path) -> None:
    run = tprof("-p", "__main__", WORK, "a")
    assert run.stdout == "done a\n"
    assert run.returncode == 0
    assert row(run.stderr, "__main__:leaf/1")[0] == "18"
    assert row(run.stderr, "__main__:twice/1")[0] == "2"
    assert row(run.stderr, "__main__:step/1")[0] == "2"
    assert row(run.stderr, "__main__:main/0") == ["1", row(run.stderr, "__main__:both/0")[1]]
    lambdas = [
        line.split()[3] for line in run.stderr.splitlines() if line.startswith("__main__:main.<locals>.<lambda>/0")
    ]
    assert sorted(lambdas) == ["1", "7"], "two lambdas of one name, distinguished by line"
    assert row(run.stderr, "total")[-1] == "100.00"
    assert run.stderr.splitlines()[1].split() == ["FUNCTION", "CALLS", "[", "%]"]


@pytest.mark.parametrize(("kind", "heading"), [("call_time", ["TIME", "(us)"]), ("call_memory", ["BYTES"])])
def test_time_and_memory_by_process(kind: str, heading: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = tprof("-t", kind, "--per-process", "--pattern=__main__", "--json", out, WORK)
    lines = run.stderr.splitlines()
    assert lines[2].split() == ["FUNCTION", "CALLS", *heading, "PER", "CALL", "[", "%]"]
    titles = [line for line in lines if line.startswith("****** Process <")]
    assert any("(worker)" in t for t in titles) and len(titles) >= 2
    data = json.loads(out.read_text())
    leaf = next(f for f in data["functions"] if f["function"] == "leaf")
    assert leaf["calls"] == 18
    assert sum(p["calls"] for p in leaf["processes"]) == 18
    worker = next(p["id"] for p in data["processes"] if p["name"] == "worker")
    assert [p["calls"] for p in leaf["processes"] if p["id"] == worker] == [3]


def test_what_is_imported_and_defined_later_is_measured() -> None:
    run = tprof("-p", "json.decoder", "-p", "__main__:made:0", SUBJECTS / "tprof_later.py")
    assert row(run.stderr, "json.decoder:JSONDecoder.decode/3")[0] == "3"
    assert row(run.stderr, "__main__:made/0")[0] == "1"
    assert "textwrap" not in run.stderr


def test_the_package_and_its_command_do_not_show() -> None:
    run = tprof(WORK)
    assert not [line for line in run.stderr.splitlines() if line.startswith("inviso") and ":" in line.split()[0]][1:]
    assert row(run.stderr, "__main__:leaf/1")[0] == "18"


def test_json_form(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = tprof("-p", "__main__", "-p", "json:loads:_", "--json", out, WORK)
    assert run.returncode == 0
    data = json.loads(out.read_text())
    keys = "version type unit patterns elapsed_ns timed_out calls measurement processes functions"
    assert list(data) == keys.split()
    assert (data["version"], data["type"], data["unit"]) == (1, "call_count", "calls")
    assert data["patterns"] == ["__main__:_:_", "json:loads:_"]
    assert data["processes"] == [] and data["timed_out"] is False and data["elapsed_ns"] > 0
    leaf = next(f for f in data["functions"] if f["function"] == "leaf")
    assert leaf["module"] == "__main__" and leaf["arity"] == 1 and leaf["file"] == WORK and leaf["line"] == 11
    assert leaf["calls"] == leaf["measurement"] == 18 and leaf["per_call"] == 1.0 and leaf["processes"] == []
    assert leaf["percent"] == pytest.approx(100 * 18 / data["measurement"])
    assert data["calls"] == sum(f["calls"] for f in data["functions"])
    measurements = [f["measurement"] for f in data["functions"]]
    assert measurements == sorted(measurements, reverse=True)


def test_json_on_standard_output_follows_the_programs(tmp_path: Path) -> None:
    run = tprof("-p", "__main__", "--json", "-", WORK)
    first, _, rest = run.stdout.partition("\n")
    assert first == "done"
    assert json.loads(rest)["version"] == 1
    assert "__main__:leaf/1" in run.stderr


def test_sort_and_limit() -> None:
    run = tprof("-p", "__main__", "--limit", "2", WORK)
    lines = run.stderr.splitlines()
    assert lines[2].startswith("(") and "smaller rows not shown" in lines[2]
    assert lines[-2].startswith("__main__:leaf/1 ") and len(lines) == 6
    run = tprof("-p", "__main__", "--sort", "function", WORK)
    names = [line.split()[0] for line in run.stderr.splitlines()[2:-1]]
    assert names == sorted(names, key=lambda name: name.partition(":")[2].partition("/")[0])


def test_nothing_matched() -> None:
    run = tprof("-p", "no.such.module", "-p", "other:f", WORK)
    assert run.returncode == 0
    assert "No call of a function that matches no.such.module:_:_, other:f:_ was measured." in run.stderr


def test_one_table_where_processes_are_not_known() -> None:
    run = tprof("--per-process", "-p", "__main__", WORK)
    assert "call_count does not know processes" in run.stderr
    assert row(run.stderr, "__main__:leaf/1")[0] == "18"


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit(4)", 4), ("1 / 0", 1), ("import atexit; atexit.register(lambda: f())", 0)],
)
def test_the_report_comes_however_the_program_ends(code: str, status: int, tmp_path: Path) -> None:
    run = tprof("-p", "__main__", script(tmp_path, f"def f(): pass\nf()\n{code}"))
    assert run.returncode == status
    expected = "2" if "atexit" in code else "1"
    assert row(run.stderr, "__main__:f/0")[0] == expected


def test_threads_that_outlive_the_main_thread_are_measured(tmp_path: Path) -> None:
    text = (
        "import threading\ndef f(): pass\ndef run():\n    threading.main_thread().join()\n    for _ in range(6): f()\n"
        "threading.Thread(target=run).start()\n"
    )
    run = tprof("-p", "__main__", script(tmp_path, text))
    assert row(run.stderr, "__main__:f/0")[0] == "6"


def test_the_report_stands_after_everything_the_program_wrote(tmp_path: Path) -> None:
    path = script(tmp_path, "import atexit; atexit.register(print, 'at exit'); print('out')")
    with open(tmp_path / "all.txt", "w") as out:
        subprocess.run(command("tprof", path), stdout=out, stderr=out, env=PLAIN, timeout=LIMIT, check=True)
    lines = (tmp_path / "all.txt").read_text().splitlines()
    assert lines[:2] == ["out", "at exit"]
    assert lines[2].startswith("inviso tprof: ")


@pytest.mark.parametrize("closed", ["stdout", "stdin", "reader gone"])
def test_no_report_is_lost_where_a_stream_is_closed(closed: str, tmp_path: Path) -> None:
    path = script(tmp_path, "def f(): pass\nf()\nprint('x' * 100000)")
    run_words = " ".join(f"'{w}'" for w in command("tprof", "-p", "__main__", "--json", "-", path))
    direct = f"'{sys.executable}' '{path}'"
    wrap = {
        "stdout": "{} >&-; echo $? >&2",
        "stdin": "{} <&-; echo $? >&2",
        "reader gone": "{{ {}; echo $? >&2; }} | true",
    }[closed]
    run = execute(["sh", "-c", wrap.format(run_words)])
    assert row(run.stderr, "__main__:f/0")[0] == "1"
    status = execute(["sh", "-c", wrap.format(direct)]).stderr.split()[-1]
    assert run.stderr.split()[-1] == status
    if closed != "stdin":
        start = run.stderr.index("{")
        data, _ = json.JSONDecoder().raw_decode(run.stderr[start:])
        assert data["version"] == 1, "JSON that can't be written to standard output goes where it can be read"


@pytest.mark.parametrize(
    "how",
    [
        "sys.stderr.close()",
        "sys.stderr = sys.__stderr__ = None",
        "os.close(2)",
        "os.dup2(os.open('/dev/null', os.O_WRONLY), 2)",
        "os.set_blocking(2, False)",
        "os.closerange(3, 1000)",
    ],
)
def test_no_report_is_lost_where_the_program_loses_standard_error(how: str, tmp_path: Path) -> None:
    run = tprof("-p", "__main__", script(tmp_path, f"import os, sys\ndef f(): pass\nf()\n{how}\n"))
    assert row(run.stderr, "__main__:f/0")[0] == "1"
    assert run.returncode == 0


def test_a_report_longer_than_a_pipe_into_a_descriptor_that_does_not_block(tmp_path: Path) -> None:
    text = "import os\nos.set_blocking(2, False)\n" + "\n".join(f"def f{i}(): pass\nf{i}()" for i in range(3000))
    path = script(tmp_path, text)
    process = subprocess.Popen(command("tprof", "-p", "__main__", path), stderr=subprocess.PIPE, env=PLAIN)
    assert process.stderr is not None
    got = b""
    while chunk := os.read(process.stderr.fileno(), 4096):
        got += chunk
    assert process.wait(LIMIT) == 0
    assert sum(line.startswith(b"__main__:f") for line in got.splitlines()) == 3000


def test_a_forked_child_keeps_no_copy_of_standard_error(tmp_path: Path) -> None:
    text = (
        "import os, signal\n"
        "if os.fork() == 0:\n"
        "    os.closerange(0, 3)\n"
        "    signal.pause()\n"
    )  # fmt: skip
    path = script(tmp_path, text)
    process = subprocess.Popen(
        command("tprof", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN, start_new_session=True
    )
    try:
        _, stderr = process.communicate(timeout=LIMIT)  # ends only if no other process holds the pipes
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    assert b"inviso tprof: " in stderr


def test_output_file_and_its_failures(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.txt"
    run = tprof("-o", out, WORK)
    assert run.returncode == 2 and run.stdout == "" and "No such file or directory" in run.stderr
    run = tprof("-o", tmp_path, WORK)
    assert run.returncode == 2 and run.stdout == "" and "is a directory" in run.stderr
    out.parent.mkdir()
    out.touch(0o644)
    run = tprof(
        "-o", "deep/report.txt", "--json", "deep/data.json", script(tmp_path, "import os; os.chdir('/')"), cwd=tmp_path
    )
    assert run.returncode == 0 and run.stderr == ""
    assert out.read_text().startswith("inviso tprof: call_count of prog.py: ")
    assert json.loads((out.parent / "data.json").read_text())["version"] == 1
    assert [path.stat().st_mode & 0o777 for path in sorted(out.parent.iterdir())] == [0o600, 0o600]
    removes = script(tmp_path, f"import shutil; shutil.rmtree({str(out.parent)!r})")
    run = tprof("-o", out, "--json", out.parent / "data.json", removes)
    assert run.returncode == 0
    assert (
        run.stderr.count("No such file or directory") == 2 and "FUNCTION" in run.stderr and '"version": 1' in run.stderr
    )


WAITS = "import sys\nsys.stdin.readline()\nprint('over')\n"


def test_a_long_run_shows_progress_on_a_terminal_and_erases_it(tmp_path: Path) -> None:
    terminal = Terminal(command("tprof", script(tmp_path, WAITS, "slow.py")))
    terminal.until(" inviso tprof: slow.py, 2 s")
    assert terminal.seen.index("\x1b7") < terminal.seen.index(" inviso tprof: slow.py"), "the cursor is saved first"
    assert terminal.seen.endswith("\x1b8"), "the cursor is restored"
    os.write(terminal.master, b"\n")
    seen = terminal.rest()
    drawn, report = seen[: seen.index("FUNCTION")], seen[seen.index("FUNCTION") :]
    last = drawn.rpartition("\x1b7")[2].partition("\x1b8")[0]
    assert last.partition("H")[2].strip() == "", "the last drawing is blank"
    assert "\x1b7" not in report
    assert terminal.process.returncode == 0


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {}], ids=["dumb terminal", "pipe"])
def test_no_progress_where_it_can_not_be_drawn(env: dict[str, str], tmp_path: Path) -> None:
    path = script(
        tmp_path, "import time\nend = time.monotonic() + 2.5\nwhile time.monotonic() < end: time.sleep(0.1)\n"
    )
    seen = Terminal(command("tprof", path), **env).rest() if env else tprof(path).stderr
    assert "FUNCTION" in seen and "\x1b" not in seen


@pytest.mark.parametrize("ending", ["sys.exit(3)", "1 / 0", "raise KeyboardInterrupt"])
def test_a_fork_under_the_progress_line_works_as_usual(ending: str, tmp_path: Path) -> None:
    text = (
        "import os, sys, warnings\nwarnings.simplefilter('always')\nprint('READY', flush=True)\nsys.stdin.readline()\n"
        f"if os.fork() == 0:\n    os._exit(0)\nos.wait()\nprint('FORKED', flush=True)\nsys.stdin.readline()\n{ending}\n"
    )
    path = script(tmp_path, text, "forks.py")
    ends = []
    for words in ([sys.executable, str(path)], command("tprof", path)):
        terminal = Terminal(words)
        terminal.until("READY")
        if len(words) > 2:
            terminal.until("forks.py, 2 s")
        os.write(terminal.master, b"\n")
        terminal.until("FORKED")
        if len(words) > 2:
            terminal.seen = ""
            terminal.until("forks.py, ")
        os.write(terminal.master, b"\n")
        seen = terminal.rest()
        assert "DeprecationWarning" not in seen
        ends.append(terminal.process.returncode)
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("env", "colored"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"CLICOLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
    ],
    ids=str,
)
def test_color_on_a_terminal(env: dict[str, str], colored: bool) -> None:
    seen = Terminal(command("tprof", "-p", "__main__", WORK), **env).rest()
    assert "FUNCTION" in seen
    assert ("\x1b[1m" in seen) == colored


@pytest.mark.parametrize(
    ("env", "colored"), [({}, False), ({"CLICOLOR_FORCE": "1"}, True), ({"CLICOLOR": "1"}, False)], ids=str
)
def test_color_in_a_pipe(env: dict[str, str], colored: bool) -> None:
    assert ("\x1b[1m" in tprof("-p", "__main__", WORK, **env).stderr) == colored
