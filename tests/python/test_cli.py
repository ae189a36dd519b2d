"""The command runs a program as the interpreter does, and refuses what it can't run."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from cli_tools import WORK, both_ways, command, execute, programs, row, script, tprof

PROGRAMS = programs()
NO_REPORT = {"signal default"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_is_run_as_the_interpreter_runs_it(name: str, tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAMS[name])
    _, report = both_ways(tmp_path, path.name, "-x", "--json", "a b", stdin="one\ntwo\n")
    assert (report is None) == (name in NO_REPORT)
    if report is not None:
        assert report.count("inviso tprof: ") == 1


@pytest.mark.parametrize("how", ["", "-m inviso tprof -o report", "-m inviso trace -p __main__ -o log"])
def test_interrupts_that_are_ignored_stay_ignored(how: str, tmp_path: Path) -> None:
    script(tmp_path, "import os, signal\nprint(signal.getsignal(2))\nos.kill(os.getpid(), 2)\nprint('goes on')\n")
    done = execute(["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, *how.split(), "prog.py"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\ngoes on\n", "")


@pytest.mark.parametrize(
    "name", ["globals", "argv", "error", "exit 3", "interrupt", "hook", "fork", "at exit", "pickle"]
)
def test_a_module_is_run_as_the_interpreter_runs_it(name: str, tmp_path: Path) -> None:
    script(tmp_path, "print('package', __name__)", "pkg/__init__.py")
    script(tmp_path, "from . import __name__ as package\nprint(package)\n" + PROGRAMS[name], "pkg/inner.py")
    _, report = both_ways(tmp_path, "-m", "pkg.inner", "-m", "--help")
    assert report is not None and "__main__:<module>/0" in report


@pytest.mark.parametrize(
    "flags", [("-P",), ("-X", "dev"), ("-O",), ("-u",), ("-W", "error"), ("-B", "-q")], ids=lambda f: " ".join(f)
)
@pytest.mark.parametrize("name", ["argv", "warning", "globals"])
def test_the_interpreters_options_keep_their_meaning(flags: tuple[str, ...], name: str, tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAMS[name] + "\nassert not print('asserts')")
    both_ways(tmp_path, path, flags=flags)


@pytest.mark.parametrize("where", ["plain.py", "./plain.py", "sub/../plain.py", "link.py", "no_suffix"])
def test_however_the_script_is_named(where: str, tmp_path: Path) -> None:
    text = "import sys, friend; print(__file__, sys.argv, sys.path[0], friend.x)"
    (tmp_path / "sub").mkdir()
    script(tmp_path, "x = 1", "friend.py")
    script(tmp_path, "x = 2", "real/friend.py")
    script(tmp_path, text, "plain.py")
    script(tmp_path, text, "no_suffix")
    (tmp_path / "link.py").symlink_to(script(tmp_path, text, "real/target.py"))
    both_ways(tmp_path, where)


def test_a_directory_a_zip_file_and_a_compiled_file(tmp_path: Path) -> None:
    import py_compile

    text = "import sys\nfrom other import x\nprint(x, __file__, sys.argv, sys.path[0], __spec__ and __spec__.name)\n"
    main, other = script(tmp_path, text, "app/__main__.py"), script(tmp_path, "x = 5", "app/other.py")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(main, "__main__.py")
        archive.write(other, "other.py")
    py_compile.compile(str(main), cfile=str(tmp_path / "app" / "run.pyc"))
    shutil.copy(tmp_path / "app" / "run.pyc", tmp_path / "app" / "run.dat")
    for what in ("app", "app/", "app.zip", "app/run.pyc", "app/run.dat"):
        _, report = both_ways(tmp_path, what, "arg")
        assert report is not None, what


NOT_PROGRAMS = {
    "missing": ["nope.py"],
    "missing directory": ["no/where/nope.py"],
    "directory": ["empty"],
    "zip file": ["empty.zip"],
    "syntax": ["syntax.py"],
    "indentation": ["indent.py"],
    "return": ["return.py"],
    "null bytes": ["null.py"],
    "not UTF-8": ["latin.py"],
    "unknown encoding": ["cookie.py"],
    "binary": ["binary"],
    "no module": ["-m", "no_such_module"],
    "no inner module": ["-m", "json.no_such_module"],
    "package that is none": ["-m", "syntax.sub"],
    "package without main": ["-m", "pack"],
    "module of wrong syntax": ["-m", "syntax"],
    "module that fails": ["-m", "failing.inner"],
}


@pytest.mark.parametrize("name", NOT_PROGRAMS)
def test_what_is_no_program_gets_the_interpreters_message_and_status(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("other.py", "")
    script(tmp_path, "x = 1\ndef f(:\n", "syntax.py")
    script(tmp_path, "if 1:\nx = 1\n", "indent.py")
    script(tmp_path, "return 1\n", "return.py")
    (tmp_path / "null.py").write_bytes(b"x = 1\n\0\n")
    (tmp_path / "latin.py").write_bytes(b"# text\nx = '\xe4'\n")
    (tmp_path / "cookie.py").write_bytes(b"# -*- coding: no-such-code -*-\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\x01\x01\0\0" + bytes(range(256)))
    script(tmp_path, "", "pack/__init__.py")
    script(tmp_path, "", "failing/inner.py")
    script(tmp_path, "1 / 0", "failing/__init__.py")
    run, report = both_ways(tmp_path, *NOT_PROGRAMS[name])
    assert run.returncode == (2 if name.startswith("missing") else 1)
    assert run.stderr
    assert (report is None) == (name != "module that fails"), "the program's package runs before the error"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = script(tmp_path, "")
    path.chmod(0)
    run, _ = both_ways(tmp_path, path)
    assert run.returncode == 2


MULTIPROCESSING = """
import multiprocessing as mp, sys
from concurrent.futures import ProcessPoolExecutor

class Thing:
    def __init__(self, n): self.n = n

def work(thing):
    return Thing(thing.n * 2)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print([t.n for t in pool.map(work, map(Thing, range(4)))])
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        print([t.n for t in pool.map(work, map(Thing, range(4)))])
    process = context.Process(target=print, args=("child",))
    process.start(); process.join(); print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True], ids=["script", "module"])
def test_multiprocessing_finds_the_programs_main(method: str, as_module: bool, tmp_path: Path) -> None:
    path = script(tmp_path, MULTIPROCESSING, "parallel.py")
    run, report = both_ways(tmp_path, *(("-m", "parallel") if as_module else (path,)), method)
    assert run.returncode == 0, run.stderr
    assert report is not None and report.count("inviso tprof: ") == 1


USAGE = {
    (): "no command was given",
    ("frobnicate",): "unknown command 'frobnicate'",
    ("--frobnicate",): "unknown option '--frobnicate'",
    ("job.py",): "did you mean 'inviso tprof'?",
    ("tprof",): "no program was given",
    ("tprof", "-m"): "option -m needs a value",
    ("tprof", "-t"): "option -t needs a value",
    ("tprof", "--frobnicate", "x.py"): "unknown option '--frobnicate'",
    ("tprof", "-z", "x.py"): "unknown option '-z'",
    ("tprof", "--per-process=1", "x.py"): "takes no value",
    ("tprof", "-t", "call_tim", "x.py"): "'call_tim' is not known; use one of 'call_count', 'call_time', 'call_memory'",
    ("tprof", "--sort", "size", "x.py"): "'size' is not known; use one of 'measurement'",
    ("tprof", "--limit", "0", "x.py"): "'0' is not a number of rows",
    ("tprof", "--limit=many", "x.py"): "'many' is not a number of rows",
    ("tprof", "-p", "", "x.py"): "lacks a module",
    ("tprof", "-p", "a:b:c:d", "x.py"): "has 4 parts",
    ("tprof", "-p", "_:f:_", "x.py"): "has a function but any module",
    ("tprof", "-p", "m:_:1", "x.py"): "has an arity but any function",
    ("tprof", "-p", "m:f:-1", "x.py"): "is not an arity",
    ("tprof", "--json=", "x.py"): "the file has no name",
}


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_wrong_command_line_runs_nothing_and_names_the_remedy(words: tuple[str, ...], tmp_path: Path) -> None:
    script(tmp_path, "print('ran')", "x.py")
    run = execute(command(*words), tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert USAGE[words] in run.stderr
    assert "--help" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "words", [("--help",), ("-h",), ("tprof", "--help"), ("tprof", "-t", "call_time", "-h", "x.py")]
)
def test_help(words: tuple[str, ...]) -> None:
    run = execute(command(*words))
    assert run.returncode == 0 and run.stdout.startswith("usage: inviso") and run.stderr == ""
    assert all(len(line) <= 80 for line in run.stdout.splitlines())


def test_version() -> None:
    run = execute(command("--version"))
    assert run.returncode == 0 and run.stderr == ""
    assert run.stdout.split()[0] == "inviso" and f"{sys.version_info.major}.{sys.version_info.minor}" in run.stdout


def test_options_in_one_word_and_the_double_dash(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys; print(sys.argv[1:])", "-odd.py")
    run = tprof("-tcall_time", "-p__main__", "--", path.name, "--", "-t", cwd=tmp_path)
    assert run.stdout == "['--', '-t']\n" and "call_time of -odd.py" in run.stderr


def test_the_installed_command_is_the_same() -> None:
    installed = Path(sys.executable).with_name("inviso")
    if not installed.exists():
        pytest.skip("the package is not installed beside this interpreter")
    run = execute([str(installed), "tprof", "-p", "__main__", WORK])
    assert run.returncode == 0 and row(run.stderr, "__main__:leaf/1")[0] == "18"
    plain = execute([sys.executable, "-c", "import sys; print(sys.executable)"])
    assert plain.returncode == 0


TIMER = """
import signal, time
n = 0
def handler(*args):
    global n
    n += 1
signal.signal(signal.{0}, handler)
signal.setitimer(signal.{1}, .002, .002)
end = time.process_time() + .2
while time.process_time() < end: pass
print(n > 5)
"""


@pytest.mark.parametrize("timer", ["SIGVTALRM ITIMER_VIRTUAL", "SIGALRM ITIMER_REAL", "SIGPROF ITIMER_PROF"])
@pytest.mark.parametrize("tool", [["tprof"], ["tprof", "-t", "call_time"], ["trace", "-p", "__main__:f"]])
def test_a_timer_that_the_program_leaves_running_ends_nothing(tmp_path: Path, tool: list[str], timer: str) -> None:
    (tmp_path / "program.py").write_text(TIMER.format(*timer.split()))
    for _ in range(3):
        done = execute(command(*tool, "program.py"), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
