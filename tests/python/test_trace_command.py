"""``inviso trace`` runs a program as the interpreter does, and shows its calls."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cli_tools import LIMIT, PLAIN, Terminal, command, execute, programs, script, settled
from inviso import log
from trace_tools import mfa
from waiting import until

PROGRAMS = programs()
WORK = """
import json, sys

def fact(n):
    return 1 if n < 2 else n * fact(n - 1)

def bad(x):
    raise ValueError(x)

class Shop:
    def order(self, what, *, count=1):
        return fact(count)

if __name__ == "__main__":
    print("begin", sys.argv[1:])
    Shop().order("tea", count=3)
    try:
        bad("no")
    except ValueError:
        pass
    json.loads("[1]")
    print("end")
"""


def trace(*words: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return execute(command("trace", *words), cwd, **env)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return script(tmp_path, WORK, "work.py")


def lines(text: str) -> list[str]:
    """Without the pid, which all lines have."""
    found = [re.fullmatch(r"\(<0\.\d+\.\d+>\) (.*)", line) for line in text.splitlines()]
    assert all(found), text
    return [match[1] for match in found if match]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_is_run_as_the_interpreter_runs_it(name: str, tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAMS[name])
    report = tmp_path / "lines.txt"
    words = [path.name, "-x", "--json", "a b"]
    without = execute([sys.executable, *words], tmp_path, "one\ntwo\n")
    with_ = execute(command("trace", "-p", "__main__", "-o", report, *words), tmp_path, "one\ntwo\n")
    assert settled(with_.stdout) == settled(without.stdout)
    assert settled(with_.stderr) == settled(without.stderr)
    assert with_.returncode == without.returncode
    if name not in ("exit at once", "signal default"):
        assert " call __main__:<module>()\n" in report.read_text()


def test_lines_go_to_standard_error(work: Path) -> None:
    done = trace("-p", "__main__", "-p", "json:loads", work, "-p", "x")
    assert done.returncode == 0 and done.stdout == "begin ['-p', 'x']\nend\n"
    found = lines(done.stderr)
    assert found[0] == "call __main__:<module>()" and found[1] == "call __main__:Shop()"
    assert re.fullmatch(r"call __main__:Shop\.order\(<__main__\.Shop at 0x[0-9a-f]+>,'tea',3\)", found[2])
    assert found[3:] == [
        "call __main__:fact(3)", "call __main__:fact(2)", "call __main__:fact(1)", "call __main__:bad('no')",
        f"call json:loads('[1]',{'None,' * (mfa(json.loads)[2] - 2)}{{}})",
    ]  # fmt: skip


def test_returns_exceptions_and_callers(work: Path) -> None:
    done = trace("-p", "__main__:bad", "-p", "__main__:fact:1", "--return", work)
    assert lines(done.stderr) == [
        "call __main__:fact(3)", "call __main__:fact(2)", "call __main__:fact(1)", "returned from __main__:fact/1 -> 1",
        "returned from __main__:fact/1 -> 2", "returned from __main__:fact/1 -> 6", "call __main__:bad('no')",
    ]  # fmt: skip
    done = trace("-p", "__main__:bad", "--exceptions", work)
    raised = "exception_from ('__main__', 'bad', 1) ('error', ('ValueError', ('no',)))"
    assert lines(done.stderr) == ["call __main__:bad('no')", raised]
    done = trace("-p", "__main__:bad", "--caller", work)
    assert lines(done.stderr) == [f"call __main__:bad('no') (('__main__', '<module>', 0, ({str(work)!r}, 18)))"]


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ("lambda n: n > 1", [3, 2]),
        ("lambda n: n == 1 and message(n)", [1]),
        ("[(['$1'], [('<', '$1', 3)], [])]", [2, 1]),
        ("  [([2], [], []), ([3], [], [])]", [3, 2]),
        ("c", [3, 2, 1]),
        ("caller_trace", [3, 2, 1]),
    ],
)
def test_a_match_specification(spec: str, numbers: list[int], work: Path) -> None:
    done = trace("-p", "__main__:fact", "--ms", spec, work)
    assert [int(n) for n in re.findall(r"call __main__:fact\((\d)\)", done.stderr)] == numbers
    done = trace("-p", "__main__:fact", "--ms", spec, "--return", work)
    assert done.stderr.count("returned from") == len(numbers)


def test_functions_that_come_later(tmp_path: Path) -> None:
    script(tmp_path, "def f(): pass\n", "later.py")
    path = script(tmp_path, "import later\nlater.f()\nexec('def f(): pass\\nf()')\n")
    done = trace("-p", "later", path)
    assert lines(done.stderr) == ["call later:<module>()", "call later:f()"]
    done = trace("-p", "__main__:f", "-m", path.stem, cwd=tmp_path)
    assert lines(done.stderr) == ["call __main__:f()"]


def test_the_time_of_day(work: Path) -> None:
    done = trace("-p", "__main__:fact", "--time", "--return", work)
    assert len(done.stderr.splitlines()) == 6
    for line in done.stderr.splitlines():
        assert re.match(r"[0-2]\d:[0-5]\d:[0-6]\d\.\d{6} \(<0\.\d+\.\d+>\) (call|returned)", line)


def test_a_limit_and_a_rate(tmp_path: Path) -> None:
    path = script(tmp_path, "def f(n): pass\nfor n in range(10_000): f(n)\nprint('done')\n")
    for words in (("--limit", "5"), ("--limit=5",), ("--rate", "4/s"), ("--rate", "4/10s"), ("--rate=4/60000ms",)):
        done = trace("-p", "_", *words, path)
        assert done.returncode == 0 and done.stdout == "done\n"
        out = done.stderr.splitlines()
        assert len(out) == 6, out
        assert out[5].startswith("*** inviso trace stopped: "), out
    assert out[5] == "*** inviso trace stopped: there were more than 4 messages in 60 s."


def test_into_a_file(work: Path, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("old\n" * 100)
    path.chmod(0o644)
    done = trace("-p", "__main__:bad", "-o", "lines.txt", work, cwd=tmp_path, CLICOLOR_FORCE="1")
    assert done.stderr == ""
    assert lines(path.read_text()) == ["call __main__:bad('no')"]
    assert path.stat().st_mode & 0o777 == 0o600
    done = trace("-p", "__main__:bad", "-o", "-", work, cwd=tmp_path)
    assert done.returncode == 2 and "write ./- for a file of that name" in done.stderr and done.stdout == ""
    os.mkfifo(tmp_path / "pipe")
    done = trace("-p", "__main__:bad", "-o", "pipe", work, cwd=tmp_path)
    assert (
        done.returncode == 2
        and "pipe: No such device or address; start who reads the pipe before" in done.stderr
        and done.stdout == ""
    )
    os.mkfifo(tmp_path / "pipe.log")
    done = trace("-p", "__main__:bad", "-o", "pipe.log", work, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("inviso trace: --output: ") and done.stdout == ""
    assert "is a pipe, which may make its writer wait" in done.stderr and "Traceback" not in done.stderr


def test_a_pattern_that_matches_no_function_is_named(work: Path, tmp_path: Path) -> None:
    script(tmp_path, "def gone():\n    pass\ndef idle():\n    pass\ngone()\n", "later.py")
    path = script(tmp_path, "import runpy\nrunpy.run_module('later')\nraise SystemExit(3)\n", "job.py")
    patterns = ["-p", "later:gone", "-p", "later:gone:1", "-p", "nowhere", "-p", "_:_:_", "-p", "json:loads"]
    done = trace(*patterns, "--limit", "100000", path, cwd=tmp_path)
    assert done.returncode == 3
    named = [line for line in done.stderr.splitlines() if line.startswith("***")]
    missing = ("later:gone:1", "nowhere:_:_", "json:loads:_")
    assert named == [f"*** inviso trace: {pattern} matches no function." for pattern in missing]
    # calls that go into a log are not known here
    for out, still in (("lines.txt", ""), ("calls.log", " that is there at the end")):
        done = trace("-p", "__main__:fact", "-p", "__main__:nosuch", "-o", out, work, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (
            0,
            f"*** inviso trace: __main__:nosuch:_ matches no function{still}.\n",
        )
    done = trace("-p", "__main__:nosuch", "--ms", "lambda n: n > 5", work, cwd=tmp_path)
    assert done.stderr == "*** inviso trace: __main__:nosuch:_ matches no function that is there at the end.\n"
    done = trace("-p", "json:nosuch", "-m", "no_such_module", cwd=tmp_path)
    assert "matches no function" not in done.stderr
    done = trace("-p", "__main__:fact", "-p", "nowhere", "--limit", "1", work, cwd=tmp_path)
    assert "matches no function" not in done.stderr, "it has ended before"


def test_into_a_log(work: Path, tmp_path: Path) -> None:
    pytest.importorskip("inviso.trace_ports")
    log = pytest.importorskip("inviso.log")
    done = trace("-p", "__main__:fact", "--return", "-o", "calls.log", work, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    messages = list(log.read(str(tmp_path / "calls.log")))
    assert [message[2] for message in messages] == ["call"] * 3 + ["return_from"] * 3
    assert messages[0][3] == ("__main__", "fact", [3])
    done = trace("-p", "__main__:fact", "--limit", "2", "-o", "few.log", work, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "*** inviso trace stopped: the limit of 2 messages was reached.\n"
    assert [message[2:] for message in log.read(str(tmp_path / "few.log"))] == [message[2:] for message in messages[:2]]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["job.py"], "no pattern was given; name functions with -p, such as -p json:loads"),
        (["-p", "json"], "no program was given; name a script, or a module with -m"),
        (["-p", "json", "-m"], "option -m needs a value"),
        (["-p"], "option -p needs a value"),
        (["--what", "job.py"], "unknown option '--what'"),
        (["--return=yes", "job.py"], "option --return takes no value"),
        (["-p", "_", "job.py"], "--pattern: '_' traces everything; say how much of it with --limit or --rate"),
        (["-p", "json", "-p", "_:_:_", "job.py"], "--pattern: '_' traces everything"),
        (["-p", "a:b:c", "job.py"], "--pattern: 'c' in 'a:b:c' is not an arity; give the number of declared"),
        (["-p", "a:b:c:d", "job.py"], "--pattern: 'a:b:c:d' has 4 parts; write module:function:arity"),
        (["-p", "json", "--limit", "0", "job.py"], "--limit: '0' is not a number of messages; give a number from 1"),
        (["-p", "json", "--rate", "x/s", "job.py"], "--rate: 'x/s' is not a rate; give messages in a time"),
        (["-p", "json", "--rate", "0/s", "job.py"], "--rate: '0/s' is not a rate"),
        (["-p", "json", "--ms", "lambda x: print(x)", "job.py"], "a call of 'print' can't be expressed"),
        (["-p", "json", "--ms", "lambda", "job.py"], "--ms: 'lambda', column 7: invalid syntax; write a lambda"),
        (
            ["-p", "json", "--ms", "open('x')", "job.py"],
            "is not a literal; write values, lists, tuples, dicts, Atom('a')",
        ),
        (["-p", "json", "--ms", "[1]", "job.py"], "--ms: clause 1"),
        (
            ["-p", "json", "--ms", "[]", "job.py"],
            "--ms: '[]' is not a match specification; write [(head, guards, body)]",
        ),
        (["-p", "json", "--ms", "[('_', [('foo',)], [])]", "job.py"], "--ms: clause 1, guard 1: "),
        (["-p", "json", "--ms", "(" * 3000, "job.py"], "--ms: line 1: "),
        (["-p", "json", "-o", "", "job.py"], "--output: the file has no name"),
        (["-p", "json", "-o", "no/where", "job.py"], "no/where: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], text: str, tmp_path: Path) -> None:
    script(tmp_path, "print('it runs')", "job.py")
    done = trace(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "", done
    first, *others = done.stderr.splitlines()
    assert first.startswith("inviso trace: ") and text in first, done.stderr
    assert others == ["See 'inviso trace --help'."]


def test_help() -> None:
    for words in (["--help"], ["-p", "json", "-h"]):
        done = trace(*words)
        assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage: inviso trace -p PATTERN")
        assert max(map(len, done.stdout.splitlines())) < 80
    assert "  trace        run a program and show" in execute(command("--help")).stdout


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = trace("-p", "json", "nothing.py", cwd=tmp_path)
    assert done.returncode == 2 and "can't open file" in done.stderr
    done = trace("-p", "json", script(tmp_path, "def"))
    assert done.returncode == 1 and "SyntaxError" in done.stderr
    assert trace("-p", "_", "--limit", "9", script(tmp_path, "")).returncode == 0


def test_a_program_that_forks(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
import os, sys, threading
def f(who): pass
f("before")
for n in range(20):
    child = os.fork()
    if child == 0:
        f("child")
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    f("parent")
print(threading.active_count())
""",
    )
    done = execute([sys.executable, "-W", "error", *command("trace", "--no-children", "-p", "__main__:f", path)[1:]])
    assert done.returncode == 0 and done.stdout == "1\n", done.stderr
    assert lines(done.stderr) == ["call __main__:f('before')", *["call __main__:f('parent')"] * 20]
    done = execute([sys.executable, "-W", "error", *command("trace", "-p", "__main__:f", path)[1:]])
    assert done.returncode == 0 and done.stdout == "1\n", done.stderr
    assert re.findall(r"f\('(.*)'\)", done.stderr) == ["before", *["child", "parent"] * 20]


def test_a_child_of_multiprocessing(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
import multiprocessing
def f(who): return who
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(pool.map(f, [how]))
    f("parent")
""",
    )
    done = trace("--no-children", "-p", "__main__:f", path)
    assert done.stdout == "['fork']\n['spawn']\n"
    assert done.returncode == 0 and lines(done.stderr) == ["call __main__:f('parent')"]


def test_threads_and_tasks_have_their_pids(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
import asyncio, threading
def f(who): pass
async def task(): f("task")
async def main(): await asyncio.gather(task(), task())
thread = threading.Thread(target=f, args=("thread",)); thread.start(); thread.join()
asyncio.run(main())
f("main")
""",
    )
    done = trace("-p", "__main__:f", path)
    pids = re.findall(r"\((<0\.\d+\.\d+>)\) call __main__:f\('(\w+)'\)", done.stderr)
    assert sorted(who for _, who in pids) == ["main", "task", "task", "thread"]
    assert len({pid for pid, _ in pids}) == 4


def test_a_reader_that_goes_away_is_no_trouble(tmp_path: Path) -> None:
    text = "import sys\ndef f(n): pass\nprint('begin', flush=True)\nsys.stdin.read()\n"
    text += "for n in range(50_000): f(n)\nprint('end')\n"
    for how in ("", "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"):
        words = command("trace", "-p", "__main__:f", script(tmp_path, how + text))
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN
        )
        assert process.stdout and process.stderr and process.stdin
        assert process.stdout.readline() == "begin\n"
        process.stderr.close()
        process.stdin.close()
        assert process.stdout.read() == "end\n"
        assert process.wait(LIMIT) == 0
        process.stdout.close()


def test_a_reader_that_stands_still_stops_nobody(tmp_path: Path) -> None:
    text = "def f(text): pass\nfor n in range(60_000): f('x' * 100)\nprint('end', flush=True)\nf('last')\n"
    path = script(tmp_path, text)
    process = subprocess.Popen(
        command("trace", "-p", "__main__:f", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN
    )
    assert process.stdout and process.stderr
    assert process.stdout.readline() == "end\n"  # no line has been read yet
    text = process.stderr.read()
    assert process.wait(LIMIT) == 0
    process.stdout.close()
    process.stderr.close()
    assert re.search(r"^\*\*\* inviso trace stopped: it fell behind, and \d+ messages were lost\.$", text, re.MULTILINE)
    assert all(re.match(r"\(<0|\*\*\* (inviso|Dropped)", line) for line in text.splitlines())


def test_no_standard_error(work: Path) -> None:
    words = " ".join(f"'{word}'" for word in command("trace", "-p", "__main__", work))
    done = subprocess.run(["sh", "-c", f"{words} 2>&-"], stdout=subprocess.PIPE, text=True, timeout=LIMIT, env=PLAIN)
    assert done.returncode == 0 and done.stdout == "begin []\nend\n"


def test_interrupt_and_termination(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\ndef f(): pass\nf()\nprint('begin', flush=True)\ntime.sleep(100)\n")
    for number, status in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM)):
        process = subprocess.Popen(
            command("trace", "-p", "__main__:f", path),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN,
        )  # fmt: skip
        assert process.stdout and process.stderr
        assert process.stdout.readline() == "begin\n"
        first = process.stderr.readline()  # it comes while the program runs
        assert first.endswith(" call __main__:f()\n")
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(LIMIT) == status
        assert ("KeyboardInterrupt" in rest) == (number == signal.SIGINT)
        process.stdout.close()
        process.stderr.close()


def test_colours_on_a_terminal_only(work: Path) -> None:
    terminal = Terminal(command("trace", "-p", "__main__:bad", "--exceptions", work))
    seen = terminal.rest().replace("\r\n", "\n")
    assert terminal.process.returncode == 0
    assert "\x1b[36mcall \x1b[0m\x1b[1m__main__:bad\x1b[0m('no')" in seen and "\x1b[31m ('error'" in seen
    assert re.sub(r"\x1b\[[\d;]*m", "", seen).count("call __main__:bad('no')\n") == 1
    assert "\x1b" not in Terminal(command("trace", "-p", "__main__:bad", work), NO_COLOR="1").rest()
    assert "\x1b" not in trace("-p", "__main__:bad", work).stderr
    assert "\x1b[36m" in trace("-p", "__main__:bad", work, CLICOLOR_FORCE="1").stderr


def test_a_terminal_that_is_stopped_or_gone(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
import sys
def f(text): pass
out = open(sys.argv[1], "w", buffering=1)
f("one")
print("begin", file=out)
while not open(sys.argv[2]).read(): pass
for n in range(30_000): f("x" * 100)
print("end", file=out)
""",
    )
    for what in ("stopped", "gone"):
        out, go = script(tmp_path, "", "out.txt"), script(tmp_path, "", "go.txt")
        terminal = Terminal(["setsid", *command("trace", "-p", "__main__:f", path, out, go)])
        terminal.until("f\x1b[0m('one')")
        if what == "gone":
            os.close(terminal.master)
        go.write_text("go")
        until(lambda out=out: out.read_text().endswith("end\n"), what=what)
        if what == "stopped":
            assert "inviso trace stopped: it fell behind" in terminal.rest()
        assert terminal.process.wait(LIMIT) == 0, what


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("name", ["full.txt", "full.log"])
def test_an_output_that_is_full_is_told_of(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    program = script(tmp_path, "def f(n): pass\nfor n in range(300): f(n)\nprint('done')")
    done = trace("-p", "__main__:f", "-o", tmp_path / name, program)
    assert (done.returncode, done.stdout) == (0, "done\n")
    told = re.fullmatch(rf"\*\*\* inviso trace.*{name}: No space left on device; (\d+) messages? w.+\.\n", done.stderr)
    assert told is not None and int(told[1]) >= 1, done.stderr


@pytest.mark.parametrize("words", [["o.py"], ["./o.py"], ["-m", "o"], ["-m", "pkg.o"], ["-m", "pkg"], ["folder"]])
@pytest.mark.parametrize("command_name", ["trace", "tprof"])
def test_an_output_that_is_the_program_is_refused(command_name: str, words: list[str], tmp_path: Path) -> None:
    files = {"o.py": "o.py", "./o.py": "o.py", "o": "o.py", "pkg.o": "pkg/o.py", "pkg": "pkg/__main__.py"}
    name = files.get(words[-1], "folder/__main__.py")
    for folder in ("pkg", "folder"):
        (tmp_path / folder).mkdir()
    for file in (*files.values(), "folder/__main__.py"):
        (tmp_path / file).write_text("print('it ran')\n")
    (tmp_path / "link.log").symlink_to(name)
    for option in [["-o", name], ["--output=link.log"], *([["--json", name]] if command_name == "tprof" else [])]:
        done = execute(command(command_name, "-p", "json", *option, *words), tmp_path)
        assert done.returncode == 2 and done.stdout == "", done
        assert f"{option[-1].partition('=')[2] or name} is the program itself" in done.stderr
        assert (tmp_path / name).read_text() == "print('it ran')\n"
    (tmp_path / "other.py").touch()
    done = execute(command(command_name, "-p", "json", "-o", "other.py", *words), tmp_path)
    assert (done.returncode, done.stdout) == (0, "it ran\n"), done


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
@pytest.mark.parametrize("command_name", ["trace", "tprof"])
def test_few_descriptors_are_enough(command_name: str, tmp_path: Path) -> None:
    import resource

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    program = script(tmp_path, "def f(n): pass\nf(1)\nprint('done')")
    for option in [], ["-o", tmp_path / "out.txt"]:
        words = [*command(command_name, "-p", "__main__:f", *option, program)]
        done = subprocess.run(words, preexec_fn=few, capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, done.stdout) == (0, "done\n"), done
        shown = (tmp_path / "out.txt").read_text() if option else done.stderr
        assert "__main__:f" in shown, done


@pytest.mark.parametrize("name", ["keep.txt", "keep.log"])
def test_an_output_is_kept_where_there_is_no_script(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("of the last run")
    done = trace("-p", "json", "-o", name, "missing.py", cwd=tmp_path)
    assert done.returncode == 2 and "can't open file" in done.stderr
    assert (tmp_path / name).read_text() == "of the last run"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's pipes grow")
def test_a_reader_that_is_slow_at_the_end_finds_every_line(tmp_path: Path) -> None:
    program = script(tmp_path, "def f(n): pass\nfor n in range(5000): f(n)")
    with subprocess.Popen(command("trace", "-p", "__main__:f", program), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None and running.wait(30) == 0  # it has ended, and nothing is read yet
        text = running.stderr.read()
    assert text.count(" call __main__:f(") == 5000


@pytest.mark.skipif(not hasattr(os, "closerange") or sys.platform == "win32", reason="handles are not numbered so")
def test_a_program_that_closes_every_descriptor_keeps_its_own_files(tmp_path: Path) -> None:
    program = """
    import os, sys
    import inviso  # so that its files are open
    def f(n): pass
    f(0)
    os.closerange(3, 256)
    files = [open(f"{n}.bin", "wb") for n in range(12)]
    for n in range(50): f(n)
    for session in inviso.trace.session_info("all"): session.delivered()
    for file in files: file.write(b"DATA"); file.close()
    """
    path = script(tmp_path, textwrap.dedent(program))
    done = trace("-p", "__main__:f", "-o", "d.log", path.name, cwd=tmp_path)
    assert done.returncode == 0 and "the program closed its descriptor; " in done.stderr, done
    assert [(tmp_path / f"{n}.bin").read_bytes() for n in range(12)] == [b"DATA"] * 12


RECORDED = """
import os, signal, sys, threading, time
def price(n):
    if n == 300:
        raise LookupError(n)
    return n
def main():
    worker = threading.Thread(target=price, args=(-1,), name="worker")
    worker.start()
    worker.join()
    for n in range(400):
        if n == 200 and "signal" in sys.argv:
            os.kill(os.getpid(), signal.SIGUSR2)
            while not os.path.exists("last.log.1"):
                time.sleep(0.01)
        price(n)
main()
"""


def _calls(path: Path) -> list[int]:

    return [message[3][2][0] for message in log.read(path) if message[0] == "trace_ts" and message[2] == "call"]


def test_a_recorder_keeps_the_last_calls_of_a_program_that_raises(tmp_path: Path) -> None:
    run = execute(
        command("trace", "-p", "__main__:price", "--recorder", "last.log", script(tmp_path, RECORDED)), tmp_path
    )
    assert run.returncode == 1 and "LookupError: 300" in run.stderr and "call __main__" not in run.stderr
    assert run.stderr.endswith(f"*** inviso trace: the last 302 events are in {tmp_path}/last.log.\n")
    assert _calls(tmp_path / "last.log") == [-1, *range(301)]


def test_a_recorder_writes_at_a_signal_and_goes_on(tmp_path: Path) -> None:
    path = script(tmp_path, RECORDED)
    run = execute(command("trace", "-p", "__main__:price", "--recorder", "last.log", path, "signal"), tmp_path)
    assert run.returncode == 1 and "the last 101 events" in run.stderr
    assert _calls(tmp_path / "last.log.1") == [-1, *range(200)] and _calls(tmp_path / "last.log") == [*range(200, 301)]


def test_a_recorder_has_the_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.inviso]\npatterns = ['__main__:price']\nring_bytes = 4096\nreturns = true\n"
    )
    path = script(tmp_path, RECORDED)
    run = execute(command("trace", "--recorder", "last.log", path), tmp_path, INVISO_MESSAGES="5")
    assert "older ones were overwritten." in run.stderr and "stopped" not in run.stderr

    messages = list(log.read(tmp_path / "last.log"))
    assert (
        messages[0][0] == "drop"
        and len(messages) < 500
        and messages[-1][2] == "exception_from"
        and "return_from" in {m[2] for m in messages[1:]}
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("-p", "json", "-o", "x"),
            "--output: a recorder keeps the newest calls and writes to its own FILE; drop --output",
        ),
        (("-p", "json", "--limit", "3"), "drop --limit"),
        ((), "no pattern was given"),
        (("-p", "json.*"), "--pattern"),
    ],
)
def test_what_a_recorder_refuses(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    path = script(tmp_path, "print('ran')")
    run = execute(command("trace", *words, "--recorder", "last.log", path), tmp_path)
    assert run.returncode == 2 and why in run.stderr and run.stdout == ""
    for name in ("", "missing/last.log", "prog.py"):
        run = execute(command("trace", "-p", "json", "--recorder", name, path), tmp_path)
        assert run.returncode == 2 and "--recorder: " in run.stderr and run.stdout == "", name


def test_a_recorder_that_saw_nothing_says_so(tmp_path: Path) -> None:
    run = execute(
        command("trace", "-p", "__main__:prize", "--recorder", "last.log", script(tmp_path, RECORDED)), tmp_path
    )
    assert "*** inviso trace: no call of __main__:prize:_ was seen; did you mean '__main__:price'?" in run.stderr
