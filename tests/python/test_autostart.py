"""A program that is started with INVISO_AUTOSTART is traced from its first line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from autostart_tools import LIMIT, PLAIN, START_FILES, calls, config, make_interpreter, run, standard, write

PROGRAM = """
import sys
def work(n): return leaf(n) + 1
def leaf(n): return n
if __name__ == "__main__":
    print(work(41))
"""
CASE = """
# what is traced
inviso_rt.tpl("__main__", "_", "_", [])
inviso_rt.tf("all", ["call", "timestamp"])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_interpreter(tmp_path_factory.mktemp("interpreter") / "env")


def prepared(folder: Path, *pairs: object, **parameters: object) -> Path:
    """A program, a trace case for all of its functions, and a config file that names it."""
    write(folder, "prog.py", PROGRAM)
    write(folder, "all.case", CASE)
    given = {"tracerdata": ("file", "t.log"), "cmdfiles": [["all.case"]], **parameters}
    return config(folder, *pairs, standard(**given))


def test_a_program_writes_its_log(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert calls(tmp_path / "t.log") == [
        ("__main__", "<module>", []),
        ("__main__", "work", [41]),
        ("__main__", "leaf", [41]),
    ]


@pytest.mark.parametrize("value", ["no", ""])
def test_nothing_is_done_if_the_variable_says_no(python: Path, tmp_path: Path, value: str) -> None:
    prepared(tmp_path)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=value)
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert not (tmp_path / "t.log").exists()


def test_nothing_is_imported_without_the_variable(python: Path, tmp_path: Path) -> None:
    write(tmp_path, "inviso_autostart.config", "('mfa', None)\n")
    text = "import sys; print([name for name in sys.modules if 'inviso' in name])"
    done = run(python, "-c", text, cwd=tmp_path)
    assert done.stdout in ("[]\n", "['_inviso_start']\n")  # from 3.15 on the start file is a call
    assert done.stderr == ""


def test_without_the_environment_there_is_no_autostart(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path)
    done = run(python, "-E", "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert not (tmp_path / "t.log").exists()


def test_two_starts_are_two(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, ("repeat", 2), ("tag", "nightly"))
    found = []
    for _ in range(3):
        run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART="auto.config")
        log = tmp_path / "t.log"
        found.append(log.exists())
        log.unlink(missing_ok=True)
    assert found == [True, True, False]
    assert path.read_text().splitlines()[:2] == ["('repeat', 0)", "('tag', 'nightly')"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_processes_that_race_for_the_counter(python: Path, tmp_path: Path) -> None:
    write(tmp_path, "prog.py", "")
    path = config(tmp_path, ("repeat", 5), standard(tracerdata=("file", "{pid}.log")))
    env = {**PLAIN, "INVISO_AUTOSTART": str(path), "INVISO_DIR": str(tmp_path / "sockets")}
    running = [
        subprocess.Popen([python, "prog.py"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    said = [process.communicate(timeout=LIMIT)[1] for process in running]
    assert said == [""] * 8
    assert len(list(tmp_path.glob("*.log"))) == 5
    assert path.read_text().splitlines()[0] == "('repeat', 0)"


WRONG = {
    "no such file": (None, "No such file"),
    "no literal": ("('repeat', open('x'))", "is no literal"),
    "no pair": ("42", "is no pair"),
    "unknown key": ("('repaet', 1)", "unknown key 'repaet'"),
    "repeat": ("('repeat', 'often')", "write a number"),
    "mfa": ("('mfa', ('a', 'b'))", 'write ("module"'),
    "wait": ("('wait', -1)", "write a number of seconds"),
    "an option": ("('options', [('dependancy', 1)])", "there is no option"),
    "no text": ("", "can't decode"),
    "node": ("('node', 'a b')", "is no name"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_one_line(python: Path, tmp_path: Path, what: str) -> None:
    text, why = WRONG[what]
    path = tmp_path / "auto.config"
    if text is not None:
        write(tmp_path, "auto.config", text)
    if what == "no text":
        path.write_bytes(b"\xff")
    write(tmp_path, "prog.py", PROGRAM)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stdout == "42\n"
    assert why in done.stderr
    assert done.stderr.startswith("inviso: autostart: ") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("; this process is not traced\n")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_write_is_not_read(python: Path, tmp_path: Path, what: str) -> None:
    path = prepared(tmp_path)
    (path if what == "file" else tmp_path).chmod(0o770 if what == "folder" else 0o620)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path), INVISO_DIR=str(tmp_path / "s"))
    assert done.stdout == "42\n"
    assert "others may write it; chmod go-w it" in done.stderr
    assert not (tmp_path / "t.log").exists()


NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
@pytest.mark.parametrize("what", ["another user's", "unreadable"])
def test_another_users_file(tmp_path: Path, what: str) -> None:
    """A child with another user id reads the file, by the code that reads it at a start."""
    path = config(tmp_path, ("repeat", 1))
    os.chown(tmp_path, NOBODY, NOBODY)
    if what == "another user's":
        path.chmod(0o644)
        os.chown(path, NOBODY - 1, NOBODY)
    text = f"""
import os
import re
from inviso.autostart import _file
os.chdir({str(tmp_path)!r})
above = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
os.setgid({NOBODY}); os.setuid({NOBODY})
from inviso.autostart._trust import Place
try:
    print(Place(above, {str(path)!r}).read())
except OSError as error:
    print(type(error).__name__, error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=LIMIT, check=True)
    expected = (
        "it is another user's; chown it, or name a file of yours" if what == "another user's" else "Permission denied"
    )
    assert done.stdout == f"PermissionError {expected}\n"


@needs_root
def test_no_autostart_with_more_rights_than_the_caller(tmp_path: Path) -> None:
    text = f"""
import os
import re
from inviso.autostart._trust import environment_counts
print(environment_counts())
os.seteuid({NOBODY})
print(environment_counts())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stdout == "True\nFalse\n"


def test_a_counter_that_cannot_be_written_is_no_autostart(python: Path, tmp_path: Path) -> None:
    """For example on a full or read-only disk. Here a folder is in the place of the new file."""
    path = prepared(tmp_path, ("repeat", 1))
    text = f"""
import os
import re
os.mkdir(f".auto.config.{{os.getpid()}}")
os.environ["INVISO_AUTOSTART"] = {str(path)!r}
os.execv({str(python)!r}, [{str(python)!r}, "prog.py"])
"""
    done = run(python, "-c", text, cwd=tmp_path)
    assert done.stdout == "42\n"
    assert "File exists; this process is not traced" in done.stderr
    assert not (tmp_path / "t.log").exists()
    assert path.read_text().startswith("('repeat', 1)")


FUNCTIONS = """
def autostart(arg):
    options = [("tracerdata", ("file", arg)), ("cmdfiles", [[("inviso_rt_calls", "set", [])]])]
    return (("inviso.autostart", "init", [options]), [], "mine")
def nothing(arg):
    return "not today"
def fails(arg):
    raise LookupError("no arg")
def where(node):
    return "auto.config" if node.startswith("prog-") else "no_autostart"
def nowhere(node):
    return "no_autostart"
def wrong(node):
    return 42
"""
SET = """
from inviso import runtime
def set():
    assert runtime.tpl("__main__", "_", "_", []) == ("ok", [0])
    assert runtime.tf("all", ["call"])[0] == "ok"
"""


@pytest.mark.parametrize(
    ("value", "log", "said"),
    [
        ("my_start:autostart", True, ""),
        ("my_start:nothing", False, ""),
        ("my_start:fails", False, "my_start:fails failed: LookupError: no arg"),
        ("my_start:missing", False, "my_start:missing failed: AttributeError"),
        ("conf=my_start:where", True, ""),
        ("conf=my_start:nowhere", False, ""),
        ("conf=my_start:wrong", False, "my_start:wrong answered 42"),
        ("conf=a/b", False, "names no function"),
    ],
)
def test_functions(python: Path, tmp_path: Path, value: str, log: bool, said: str) -> None:
    prepared(tmp_path)
    (tmp_path / "lib").mkdir()
    write(tmp_path / "lib", "my_start.py", FUNCTIONS)
    write(tmp_path / "lib", "inviso_rt_calls.py", SET)
    env = {"INVISO_AUTOSTART": value, "INVISO_AUTOSTART_ARG": "t.log", "PYTHONPATH": str(tmp_path / "lib")}
    done = run(python, "prog.py", cwd=tmp_path, **env)
    assert done.stdout == "42\n"
    assert said in done.stderr and done.stderr.count("\n") == (1 if said else 0)
    assert (tmp_path / "t.log").exists() is log
    if log:
        assert ("__main__", "leaf", [41]) in calls(tmp_path / "t.log")


def test_bindings_and_translations(python: Path, tmp_path: Path) -> None:
    """The example of Inviso's guide: `Nodes` is dropped and needs no binding, `MS` has one."""
    write(
        tmp_path,
        "a_trace_case.txt",
        "inviso.tpl(Nodes, M, F, '_', MS)\ninviso.tf(Nodes, 'all', ['call', 'timestamp'])\n",
    )
    path = prepared(
        tmp_path,
        cmdfiles=[("a_trace_case.txt", [("F", "leaf")])],
        bindings=[("M", "__main__"), ("F", "_"), ("MS", [])],
        translations=[
            (("inviso", "tpl", 5), ("inviso_rt", "tpl", ("erlang", "tl"))),
            (("inviso", "tf", 3), ("inviso_rt", "tf", ("inviso.case", "drop_first"))),
        ],
    )
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stderr == ""
    assert calls(tmp_path / "t.log") == [("__main__", "leaf", [41])]


def test_items_of_cmdfiles(python: Path, tmp_path: Path) -> None:
    """Calls that are translated, calls that are not; lists in threads of their own, a flat list, errors by line."""
    write(tmp_path, "bad.case", "import os\n\nX = 1 +\ninviso_rt.nothing()\ninviso_rt.tf('all', ['call'])\n")
    path = prepared(
        tmp_path,
        cmdfiles=[
            [("inviso", "tpl", ["nodes", "__main__", "leaf", "_", []]), "bad.case"],
            [("inviso.runtime", "tpl", ["__main__", "work", "_", []]), "missing.case", 7],
        ],
        translations=[(("inviso", "tpl", 5), ("inviso_rt", "tpl", ("erlang", "tl")))],
    )
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert sorted(calls(tmp_path / "t.log")) == [("__main__", "leaf", [41]), ("__main__", "work", [41])]
    said = sorted(line.removeprefix("inviso: autostart: ") for line in done.stderr.splitlines())
    assert [line.partition(": ")[0] for line in said] == [
        *(f"{tmp_path}/bad.case, line {number}" for number in (1, 3, 4)),
        f"{tmp_path}/missing.case can't be read",
        "7 is no item of cmdfiles; it is skipped",
    ]


def test_debug_shows_what_is_carried_out(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, debug="on")
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    first = done.stderr.splitlines()[0]
    assert first.endswith("all.case:3: inviso_rt.tpl('__main__', '_', '_', []) -> ('ok', [0])")


def test_tracer_data_that_is_refused(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, tracerdata="nonsense")
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stdout == "42\n"
    assert done.stderr == "inviso: autostart: RuntimeError: tracing was not initiated: ('bad_log_td', 'nonsense')\n"


def test_tracer_data_of_a_function(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, tracerdata=("mfa", ("json", "loads", ['["file", "t.log"]'])))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert "tracing was not initiated" in done.stderr  # here a list is not tracer data
    path = prepared(tmp_path, tracerdata=("mfa", ("json", "nothing", [])))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert "json:nothing gave no tracer data: AttributeError" in done.stderr


def test_main_waits_for_the_initiation_but_not_for_ever(python: Path, tmp_path: Path) -> None:
    """An item waits for the program's work. Without a limit neither would go on."""
    write(tmp_path, "later.py", "import os\ndef wait():\n    while not os.path.exists('go'): os.stat('.')\n")
    write(tmp_path, "prog.py", "open('go', 'w').close()\nprint('ran')\n")
    path = config(tmp_path, ("wait", 0.2), standard(tracerdata=("file", "t.log"), cmdfiles=[("later", "wait", [])]))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path), PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("ran\n", "")


STOPS = """
import os
import re
from inviso import runtime
from inviso._system import Flag
print(runtime.stop_tracing())
open("go", "w").close()
runtime.listening().host.initiator.done.wait(20)
print(runtime.get_status(), os.path.exists("after"))
"""
LATER = """
import os
import re
from inviso import runtime
def wait():
    while not os.path.exists("go"): os.stat(".")
    runtime.get_status()
    open("after", "w").close()
"""


def test_stopping_ends_the_initiation(python: Path, tmp_path: Path) -> None:
    write(tmp_path, "later.py", LATER)
    write(tmp_path, "prog.py", STOPS)
    path = config(tmp_path, ("wait", 0), standard(tracerdata=("file", "t.log"), cmdfiles=[("later", "wait", [])]))
    text = "import time\nwhile __import__('inviso').runtime.get_status()[1][0] != 'tracing': pass\n" + STOPS
    write(tmp_path, "prog.py", "import inviso.runtime\n" + text)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path), PYTHONPATH=str(tmp_path))
    assert done.stdout.splitlines() == ["('ok', 'idle')", "('ok', ('idle', 'running')) False"]
    assert done.stderr == ""


def test_settings_of_the_environment_count_before_the_file(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, ("node", "of-the-file"), ("log_dir", "logs"), tracerdata=("file", "{node}.log"))
    write(tmp_path, "prog.py", "from inviso import runtime\nprint(runtime.listening().node.partition('@')[0])")
    run_ = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path), INVISO_NODE="mine-{pid}")
    assert run_.stdout.startswith("mine-")
    assert [each.name.partition("@")[0] for each in (tmp_path / "logs").iterdir()] == [run_.stdout.strip()]


def test_start_files_name_one_module() -> None:
    assert (START_FILES / "inviso_start.start").read_text() == "_inviso_start:begin\n"
    line = (START_FILES / "inviso_start.pth").read_text()
    assert line.startswith("import ") and line.count("\n") == 1 and "_inviso_start" in line


def test_the_page(python: Path, tmp_path: Path) -> None:
    """Its three files are run as it says, and the output is as shown."""
    page = (START_FILES.parents[2] / "docs" / "autostart.md").read_text()
    texts = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    for name, text in zip(("shop.py", "shop.case", "shop.config"), texts, strict=True):
        write(tmp_path, name, text)
    (shown,) = re.findall(
        r"\$ INVISO_AUTOSTART=shop.config python shop.py\n(.*?)\$ inviso log print shop.log\n(.*?)```", page, re.DOTALL
    )
    done = run(python, "shop.py", cwd=tmp_path, INVISO_AUTOSTART="shop.config")
    assert (done.stdout, done.stderr) == (shown[0], "")
    said = run(python, "-m", "inviso", "log", "print", "shop.log", cwd=tmp_path).stdout

    def settled(text: str) -> str:
        return re.sub(r"^\S+@\S+ |<[\d.]+>|\d{4}-\d\d-.*", "…", text, flags=re.MULTILINE)

    assert settled(said) == settled(shown[1])


def test_commands_of_ours_are_not_traced(python: Path, tmp_path: Path) -> None:
    """They do not change the counter. A command that runs a program counts as that program."""
    path = prepared(tmp_path, ("repeat", 1))
    assert "inviso" in run(python, "-m", "inviso", "--version", cwd=tmp_path, INVISO_AUTOSTART=str(path)).stdout
    assert path.read_text().startswith("('repeat', 1)") and not (tmp_path / "t.log").exists()
    run(python, "-m", "inviso", "tprof", "-p", "__main__", "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert path.read_text().startswith("('repeat', 0)")
    assert ("__main__", "leaf", [41]) in calls(tmp_path / "t.log")


def test_the_programs_own_modules_are_found(python: Path, tmp_path: Path) -> None:
    """Also those with names of standard modules that this package has imported."""
    names = ("struct", "socket", "fcntl", "datetime", "tempfile", "ast", "json", "dataclasses")
    prepared(tmp_path)
    for name in names:
        write(tmp_path, f"{name}.py", "mine = True\n")
    text = "".join(f"import {name}; print({name}.__name__, getattr({name}, 'mine', False))\n" for name in names)
    write(tmp_path, "prog.py", "def leaf(n): return n\nleaf(41)\n" + text)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(tmp_path / "auto.config"))
    assert done.stderr == ""
    plain = run(python, "prog.py", cwd=tmp_path).stdout  # built-in names come first there, too
    assert done.stdout == plain and plain.count("True") >= len(names) - 1
    assert ("__main__", "leaf", [41]) in calls(tmp_path / "t.log")
