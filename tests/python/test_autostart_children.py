"""Children of a program that traces itself do so too, if its config file says so. Each has its own name and log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from autostart_tools import calls, config, make_interpreter, run, standard, write
from cli_tools import row

CASE = """
inviso_rt.tpl("__main__", "work", 1, [])
inviso_rt.tpl("__mp_main__", "work", 1, [])
inviso_rt.tpl("ten", "work", 1, [])
inviso_rt.tf("all", ["call", "timestamp"])
"""
PROGRAM = """
import multiprocessing, os, subprocess, sys
def work(n): return n
def child(n):
    work(n)
    from inviso import runtime
    found = runtime.listening()
    os.write(1, (f"{os.getpid()} {found.node.partition('@')[0] if found else None}" + chr(10)).encode())
"""
FORK = """
pid = os.fork()
if not pid:
    child(1)
    os._exit(0)
os.waitpid(pid, 0)
"""
MULTIPROCESSING = """
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    running = [context.Process(target=child, args=(1,)) for _ in range(2)]
    for each in running: each.start()
    for each in running: each.join()
    print([each.exitcode for each in running])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_interpreter(tmp_path_factory.mktemp("interpreter") / "env")


def prepared(folder: Path, program: str, *pairs: object, **parameters: object) -> Path:
    write(folder, "prog.py", PROGRAM + program)
    write(folder, "all.case", CASE)
    given = {"tracerdata": ("file", "logs/t.log"), "cmdfiles": ["all.case"], **parameters}
    (folder / "logs").mkdir()
    return config(folder, *pairs, standard(**given))


def children_of(said: str) -> dict[int, str]:
    """The nodes of the children that printed their names."""
    return {int(pid): node for pid, node in re.findall(r"^(\d+) (\S+)$", said, re.MULTILINE)}


def check_logs(folder: Path, nodes: dict[int, str], function: tuple[str, str, list[int]]) -> None:
    """Each child has a name of its own, and a log with its one call."""
    assert len(set(nodes.values())) == len(nodes) > 0
    for pid, node in nodes.items():
        assert node.endswith(f"-{pid}")
        assert calls(folder / "logs" / f"t-{pid}.log") == [function]


def test_fork(python: Path, tmp_path: Path) -> None:
    path = prepared(tmp_path, FORK + "work(0)\n", ("repeat", 1), ("follow", True))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stderr == ""
    nodes = children_of(done.stdout)
    assert len(nodes) == 1 and all(node.startswith("prog-") for node in nodes.values())
    check_logs(tmp_path, nodes, ("__main__", "work", [1]))
    assert calls(tmp_path / "logs" / "t.log") == [("__main__", "work", [0])]
    assert len(list((tmp_path / "logs").iterdir())) == 2
    assert path.read_text().startswith("('repeat', 0)")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(python: Path, tmp_path: Path, method: str) -> None:
    path = prepared(tmp_path, MULTIPROCESSING.format(method=method), ("follow", True), ("node", "shop"))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stderr == ""
    assert done.stdout.endswith("[0, 0]\n")
    nodes = children_of(done.stdout)
    assert len(nodes) == 2 and all(node.startswith("shop-") for node in nodes.values())
    check_logs(tmp_path, nodes, ("__main__" if method == "fork" else "__mp_main__", "work", [1]))
    assert len(list((tmp_path / "logs").iterdir())) == 3  # a server has none, nor has a tracker of resources


STARTS = {
    "subprocess": "subprocess.run([sys.executable, 'ten.py'], check=True)",
    "a shell": "subprocess.run(sys.executable + ' ten.py; true', shell=True, check=True)",
    "an environment of its own": (
        "subprocess.run([sys.executable, 'ten.py'], env={'INVISO_DIR': os.environ['INVISO_DIR']}, check=True)"
    ),
    "preexec_fn": "subprocess.run([sys.executable, 'ten.py'], preexec_fn=lambda: None, check=True)",
    "os.system": "os.system(sys.executable + ' ten.py')",
    "posix_spawn": "os.waitpid(os.posix_spawn(sys.executable, [sys.executable, 'ten.py'], os.environ), 0)",
    "a new program": "os.execv(sys.executable, [sys.executable, 'ten.py'])",
}


@pytest.mark.parametrize("how", STARTS)
def test_other_interpreters(python: Path, tmp_path: Path, how: str) -> None:
    path = prepared(tmp_path, f"work(0)\n{STARTS[how]}\n", ("follow", True))
    write(tmp_path, "ten.py", PROGRAM + "child(1)\n")
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert done.stderr == ""
    nodes = children_of(done.stdout)
    assert len(nodes) == 1 and all(node.startswith("ten-") for node in nodes.values())
    check_logs(tmp_path, nodes, ("__main__", "work", [1]))
    assert calls(tmp_path / "logs" / "t.log") == [("__main__", "work", [0])]


@pytest.mark.parametrize("how", ["fork", "subprocess"])
def test_without_the_key_children_are_not_traced(python: Path, tmp_path: Path, how: str) -> None:
    path = prepared(tmp_path, FORK if how == "fork" else STARTS["subprocess"])
    write(tmp_path, "ten.py", PROGRAM + "child(1)\n")
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert list(children_of(done.stdout).values()) == ["None"]
    assert done.stderr == ""
    assert [each.name for each in (tmp_path / "logs").iterdir()] == ["t.log"]


def test_a_child_that_is_told_not_to(python: Path, tmp_path: Path) -> None:
    text = "subprocess.run([sys.executable, 'ten.py'], env={'INVISO_AUTOSTART': 'no'}, check=True)\n"
    path = prepared(tmp_path, text, ("follow", True))
    write(tmp_path, "ten.py", PROGRAM + "child(1)\n")
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert list(children_of(done.stdout).values()) == ["None"]


def test_names_in_place_of_numbers(python: Path, tmp_path: Path) -> None:
    pairs = (("follow", True), ("node", "{program}_{pid}"))
    path = prepared(tmp_path, FORK, *pairs, tracerdata=("file", ("logs/{node}-", "wrap", ".log", 1 << 20, 4)))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    ((pid, node),) = children_of(done.stdout).items()
    assert node == f"prog_{pid}"
    files = [each for each in (tmp_path / "logs").iterdir() if each.name.startswith(f"{node}@")]
    assert [calls(each) for each in files] == [[("__main__", "work", [1])]]


def test_a_pool_that_the_program_ends(python: Path, tmp_path: Path) -> None:
    """Its workers end by `os._exit`, or by a signal: their logs have all calls before an answered request."""
    text = """
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        print(sum(pool.map(work, range(20))))
"""
    path = prepared(tmp_path, text, ("follow", True))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert (done.stdout, done.stderr) == ("190\n", "")
    found = [call for each in (tmp_path / "logs").glob("t-*.log") for call in calls(each)]
    assert sorted(arguments[0] for _, _, arguments in found) == list(range(20))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_are_told_to_end(python: Path, tmp_path: Path, method: str) -> None:
    """The pool sends them SIGTERM as soon as it has its answers."""
    text = f"""
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(sum(pool.map(work, range(20))))
"""
    path = prepared(tmp_path, text, ("follow", True))
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert (done.stdout, done.stderr) == ("190\n", "")
    found = [call for each in (tmp_path / "logs").glob("t-*.log") for call in calls(each)]
    assert sorted(arguments[0] for _, _, arguments in found) == list(range(20))


def test_a_program_that_is_told_to_end(python: Path, tmp_path: Path) -> None:
    """The signal's action follows. If the program handles the signal, nothing else happens."""
    text = (
        "import signal\nwork(1)\nassert signal.getsignal(15) is signal.SIG_DFL\nos.kill(os.getpid(), 15)\n"
        "signal.pause()\n"
    )
    path = prepared(tmp_path, text)
    done = run(python, "prog.py", cwd=tmp_path, check=False, INVISO_AUTOSTART=str(path))
    assert (done.returncode, done.stderr) == (-15, "")
    assert calls(tmp_path / "logs" / "t.log") == [("__main__", "work", [1])]
    handled = "import signal\nsignal.signal(15, lambda *_: print('handled'))\nos.kill(os.getpid(), 15)\nwork(2)\n"
    write(tmp_path, "prog.py", PROGRAM + handled)
    done = run(python, "prog.py", cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert (done.stdout, done.stderr) == ("handled\n", "")
    assert calls(tmp_path / "logs" / "t.log") == [("__main__", "work", [2])]


def test_only_the_path_has_the_package(tmp_path: Path) -> None:
    """An interpreter without start files follows if its parent was started by hand."""
    import sys

    path = prepared(tmp_path, STARTS["subprocess"], ("follow", True))
    write(tmp_path, "ten.py", PROGRAM + "child(1)\n")
    text = (
        "from inviso import _begin; _begin.begin(set()); import runpy; runpy.run_path('prog.py', run_name='__main__')"
    )
    folder = str(Path(sys.modules["inviso"].__file__ or "").parents[1])
    done = run(Path(sys.executable), "-c", text, cwd=tmp_path, INVISO_AUTOSTART=str(path), PYTHONPATH=folder)
    nodes = children_of(done.stdout)
    assert done.stderr == ""
    check_logs(tmp_path, nodes, ("__main__", "work", [1]))


def test_a_profile_is_taken_meanwhile(python: Path, tmp_path: Path) -> None:
    """Both follow the children."""
    path = prepared(tmp_path, STARTS["subprocess"], ("follow", True))
    write(tmp_path, "ten.py", PROGRAM + "child(1)\n")
    words = ("-m", "inviso", "tprof", "-p", "__main__:work", "prog.py")
    done = run(python, *words, cwd=tmp_path, INVISO_AUTOSTART=str(path))
    assert row(done.stderr, "__main__:work/1")[0] == "1"
    check_logs(tmp_path, children_of(done.stdout), ("__main__", "work", [1]))
