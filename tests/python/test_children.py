"""A program's child processes are measured with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_tools import both_ways, command, execute, row, script, tprof
from inviso import log

METHODS = ("fork", "spawn", "forkserver")

TWO = """
import multiprocessing, sys
def work(n):
    for _ in range(n): leaf()
def leaf(): pass
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    processes = [context.Process(target=work, args=(50,)) for _ in range(2)]
    for process in processes: process.start()
    leaf()
    for process in processes: process.join()
    print([process.exitcode for process in processes])
"""


def profile_of(tmp_path: Path, *words: str | Path, **env: str) -> dict[str, Any]:
    """The profile of a program that ends well, from its JSON form."""
    found = tmp_path / "profile.json"
    run = tprof("-p", "__main__", "--json", found, *words, cwd=tmp_path, **env)
    assert run.returncode == 0, run.stderr
    profile: dict[str, Any] = json.loads(found.read_text())
    profile["report"] = run.stderr
    profile["said"] = run.stdout
    return profile


def calls(profile: dict[str, Any], function: str) -> int:
    return sum(each["calls"] for each in profile["functions"] if each["function"] == function)


@pytest.mark.parametrize("method", METHODS)
def test_two_children_of_multiprocessing(method: str, tmp_path: Path) -> None:
    program = script(tmp_path, TWO)
    _, report = both_ways(tmp_path, program, method, options=("-p", "__main__"))
    assert report is not None
    assert row(report, "__main__:leaf/0")[0] == "101"
    assert row(report, "__main__:work/1")[0] == "2"
    assert report.splitlines()[0].endswith("with 2 child processes")
    assert "not measured" not in report


def test_children_are_left_out_on_request(tmp_path: Path) -> None:
    program = script(tmp_path, TWO)
    run = tprof("--no-children", "-p", "__main__", program, "spawn", cwd=tmp_path)
    assert row(run.stderr, "__main__:leaf/0")[0] == "1"
    assert "child" not in run.stderr


LEAF = """
import os, signal, subprocess, sys
def leaf(): pass
"""
MODULE = """
def leaf(): pass
if __name__ == "__main__":
    for _ in range(10): leaf()
"""
STARTS = {
    "subprocess": "subprocess.run([sys.executable, 'ten.py'], check=True)",
    "a shell": "subprocess.run(sys.executable + ' ten.py; true', shell=True, check=True)",
    "a script by env": "subprocess.run(['./ten'], check=True)",
    "a module": "subprocess.run([sys.executable, '-m', 'ten'], check=True)",
    "its own environment": "subprocess.run([sys.executable, 'ten.py'], env={'A': 'b'}, check=True)",
    "preexec_fn": "subprocess.run([sys.executable, 'ten.py'], preexec_fn=lambda: None, check=True)",
    "os.system": "os.system(sys.executable + ' ten.py')",
    "os.system and more": "os.system(sys.executable + ' ten.py; true')",
    "os.popen": "os.popen(sys.executable + ' ten.py').read()",
    "posix_spawn": "os.waitpid(os.posix_spawn(sys.executable, [sys.executable, 'ten.py'], os.environ), 0)",
    "os.spawnv": "os.spawnv(os.P_WAIT, sys.executable, [sys.executable, 'ten.py'])",
    "os.spawnve": "os.spawnve(os.P_WAIT, sys.executable, [sys.executable, 'ten.py'], {'A': 'b'})",
    "asyncio": """
import asyncio
async def run():
    await (await asyncio.create_subprocess_exec(sys.executable, 'ten.py')).wait()
asyncio.run(run())
""",
}


@pytest.mark.parametrize("how", STARTS)
def test_other_interpreters_are_measured(how: str, tmp_path: Path) -> None:
    script(tmp_path, MODULE, "ten.py")
    script(tmp_path, "#!/usr/bin/env python\n" + MODULE, "ten").chmod(0o755)
    program = script(tmp_path, LEAF + STARTS[how] + "\nleaf()\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    profile = profile_of(tmp_path, program, PATH=path)
    assert calls(profile, "leaf") == 11
    assert (profile["children"], profile.get("missing", "")) == (1, "")


FORKED = {
    "returns": "",
    "leaves": "sys.exit(0)",
    "exits at once": "os._exit(0)",
    "raises": "sys.stderr = None; raise ValueError",
    "is told to end": "os.kill(os.getpid(), signal.SIGTERM)\n    signal.pause()",
    "is told to end in a loop": "os.kill(os.getpid(), signal.SIGTERM)\n    while True: pass",
    "becomes a program": "os.execv(sys.executable, [sys.executable, '-c', 'def leaf(): pass'])",
    "forks again": "pid = os.fork()\n    for _ in range(100): pid or leaf()\n    pid and os.waitpid(pid, 0)",
}


@pytest.mark.parametrize("how", FORKED)
def test_a_forked_child_however_it_ends(how: str, tmp_path: Path) -> None:
    text = f"""{LEAF}
leaf()
pid = os.fork()
if not pid:
    for _ in range(10): leaf()
    {FORKED[how]}
else:
    print(os.waitpid(pid, 0)[1])
"""
    program = script(tmp_path, text)
    expected = execute([sys.executable, str(program)], tmp_path)
    profile = profile_of(tmp_path, program)
    assert profile["said"] == expected.stdout
    assert calls(profile, "leaf") == (111 if how == "forks again" else 11)
    assert profile["children"] == (2 if how == "forks again" else 1)
    assert "missing" not in profile


POOLS = {
    "multiprocessing": "with context.Pool(3) as pool: print(sum(pool.map(work, range(100), chunksize=1)))",
    "concurrent": """
    import concurrent.futures
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool: print(sum(pool.map(work, range(100))))
""",
    "one task each": (
        "with context.Pool(2, maxtasksperchild=5) as pool: print(sum(pool.map(work, range(100), chunksize=5)))"
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool: str, method: str, tmp_path: Path) -> None:
    text = f"""
import multiprocessing
def work(n): leaf(); return n
def leaf(): pass
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    {POOLS[pool]}
    leaf()
"""
    profile = profile_of(tmp_path, script(tmp_path, text))
    assert profile["said"] == "4950\n"
    assert calls(profile, "leaf") == 101
    assert "missing" not in profile


def test_a_master_that_forks_workers_and_ends_them(tmp_path: Path) -> None:
    """As servers do: workers handle signals, one exits at once, one is killed and replaced."""
    text = (
        LEAF
        + """
leaf()
def worker(ending):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for _ in range(10): leaf()
    os.write(writing, b"x")
    while ending == "serve": signal.pause()
    os._exit(0)
reading, writing = os.pipe()
workers = []
for ending in ("serve", "serve", "exit"):
    pid = os.fork()
    if not pid: worker(ending)
    workers.append(pid)
for _ in workers: os.read(reading, 1)
for pid in workers[:2]: os.kill(pid, signal.SIGTERM)
print([os.waitpid(pid, 0)[1] for pid in workers])
"""
    )
    profile = profile_of(tmp_path, script(tmp_path, text))
    assert profile["said"] == "[0, 0, 0]\n"
    assert calls(profile, "leaf") == 31
    assert profile["children"] == 3 and "missing" not in profile


MISSING = {
    "killed": (
        "pid = os.fork() or os.kill(os.getpid(), signal.SIGKILL); os.waitpid(pid, 0)",
        "ended, or became another program, before it wrote",
    ),
    "isolated": ("subprocess.run([sys.executable, '-I', 'ten.py'])", "python"),
    "without the environment": ("subprocess.run([sys.executable, '-E', 'ten.py'])", "python"),
    "without site": ("subprocess.run([sys.executable, '-S', 'ten.py'])", "python"),
    "another program": ("subprocess.run(['true'])", "another program (true)"),
    "a shell": ("os.system('exit 0')", "another program (sh"),
    "exec": ("pid = os.fork() or os.execvp('true', ['true']); os.waitpid(pid, 0)", "went on as another program (true)"),
    "running": ("subprocess.Popen(['sleep', '5'])", "another program (sleep)"),
    "running python": ("subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(5)'])", "still runs"),
}


@pytest.mark.parametrize("how", MISSING)
def test_what_is_not_measured_is_said_in_the_last_line(how: str, tmp_path: Path) -> None:
    code, text = MISSING[how]
    script(tmp_path, MODULE, "ten.py")
    profile = profile_of(tmp_path, script(tmp_path, f"{LEAF}{code}\nleaf()\n"))
    last = profile["report"].splitlines()[-1]
    assert last.startswith("1 child process was not measured: ") and text in last, last
    assert last == profile["missing"]
    assert calls(profile, "leaf") == 1


def test_what_never_ran_is_not_counted(tmp_path: Path) -> None:
    text = (
        LEAF
        + """
for command in ("nothing", "/nothing", "./program.py"):
    try: subprocess.run([command])
    except OSError as error: print(error.errno)
    try: os.execv(command, [command])
    except OSError as error: print(error.errno)
leaf()
"""
    )
    profile = profile_of(tmp_path, script(tmp_path, text, "program.py"))
    assert calls(profile, "leaf") == 1
    assert "missing" not in profile and "children" not in profile


TELLS = """
import json, os, signal, sys, threading
print(json.dumps([
    sorted(os.environ.items()), sorted(os.environb), sys.path, sys.argv, sys.flags[:], threading.active_count(),
    str(signal.getsignal(signal.SIGTERM)), os.getcwd(), repr(os._exit), repr(os.system),
    sorted(sys.path_importer_cache),
]))
"""


@pytest.mark.parametrize("given", [None, "/there"])
def test_a_child_finds_things_as_without(given: str | None, tmp_path: Path) -> None:
    script(tmp_path, TELLS, "tells.py")
    script(tmp_path, "print('theirs')", "sitecustomize.py")
    text = f"""
import os, subprocess, sys
environment = dict(os.environ, PYTHONPATH={str(tmp_path)!r})
for env in (None, environment):
    print(subprocess.run([sys.executable, "tells.py"], env=env, stdout=subprocess.PIPE, text=True).stdout)
os.environ["MORE"] = "1"
sys.stdout.flush()
os.system(sys.executable + " tells.py")
print("PYTHONPATH" in os.environ, "INVISO_CHILDREN" in os.environ)
"""
    program = script(tmp_path, text)
    env = {"PYTHONPATH": given} if given else {}
    without = execute([sys.executable, str(program)], tmp_path, **env)
    with_ = tprof("-p", "__main__", program, cwd=tmp_path, **env)
    assert with_.stdout == without.stdout
    assert "with 3 child processes" in with_.stderr


def test_times_and_memory_by_process(tmp_path: Path) -> None:
    program = script(tmp_path, TWO)
    for kind in ("call_time", "call_memory"):
        profile = profile_of(tmp_path, "-t", kind, "--per-process", program, "fork")
        assert calls(profile, "leaf") == 101
        names = {each["name"] for each in profile["processes"]}
        assert names == {"MainThread", "MainThread of Process-1", "MainThread of Process-2"} or names == {
            "MainThread", "MainThread of ForkProcess-1", "MainThread of ForkProcess-2"
        }  # fmt: skip
        assert profile["report"].count("****** Process") == 3
        assert len({each["id"] for each in profile["processes"]}) == 3
        (leaf,) = [each for each in profile["functions"] if each["function"] == "leaf"]
        assert sorted(each["calls"] for each in leaf["processes"]) == [1, 50, 50]


def test_counts_of_a_child_begin_at_zero(tmp_path: Path) -> None:
    text = (
        LEAF
        + """
for _ in range(1000): leaf()
for _ in range(3):
    pid = os.fork()
    if not pid:
        leaf()
        break
    os.waitpid(pid, 0)
"""
    )
    assert calls(profile_of(tmp_path, script(tmp_path, text)), "leaf") == 1003


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    profile_of(tmp_path, script(tmp_path, TWO), "forkserver", TMPDIR=str(folder))
    assert list(folder.iterdir()) == []


def traced(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    run = execute(command("trace", *words), cwd)
    assert run.returncode == 0, run.stderr
    return run


def shown(text: str) -> list[str]:
    """Calls of lines, with the name of the child in front."""
    found = re.findall(
        r"^(?:[0-9:.]+ )?\(<0\.\d+\.\d+>(?:@\d+ (.*?))?\) call __main__:f\('(.*)'\)$", text, re.MULTILINE
    )
    return [f"{name} {argument}".strip() for name, argument in found]


def test_lines_of_children_stand_in_the_order_of_time(tmp_path: Path) -> None:
    text = """
import multiprocessing, os, sys
def f(who): return who
if __name__ == "__main__":
    f("begin")
    pid = os.fork()
    if not pid: f("forked"); os._exit(0)
    os.waitpid(pid, 0); f("then")
    for how in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(how).Process(target=f, args=(how,), name=f"The {how}")
        process.start(); process.join(); f("then")
    with multiprocessing.get_context("fork").Pool(1) as pool: print(pool.map(f, ["pool"]))
    f("end")
"""
    run = traced("-p", "__main__:f", script(tmp_path, text), cwd=tmp_path)
    assert run.stdout == "['pool']\n"
    *rest, pool, end = shown(run.stderr)
    assert rest == [
        "begin", "prog.py forked", "then", "The fork fork", "then", "The spawn spawn", "then",
        "The forkserver forkserver", "then",
    ]  # fmt: skip
    assert pool.endswith("PoolWorker-4 pool") and end == "end"
    assert "not measured" not in run.stderr and "__mp_main__" not in run.stderr


def test_lines_into_a_file_with_times(tmp_path: Path) -> None:
    text = "import os\ndef f(who): pass\nf('one')\nif not os.fork(): f('two')\nelse: os.wait(); f('three')\n"
    run = traced("-p", "__main__:f", "--time", "-o", "calls.txt", script(tmp_path, text), cwd=tmp_path)
    assert run.stderr == ""
    lines = (tmp_path / "calls.txt").read_text()
    assert shown(lines) == ["one", "prog.py two", "three"]
    assert [line[:15] for line in lines.splitlines()] == sorted(line[:15] for line in lines.splitlines())


def test_a_limit_holds_for_all_processes_together(tmp_path: Path) -> None:
    text = """
import os
def f(who): pass
for _ in range(3):
    f("parent")
    pid = os.fork()
    if not pid: f("child"); os._exit(0)
    os.waitpid(pid, 0)
"""
    run = traced("-p", "__main__:f", "--limit", "4", script(tmp_path, text), cwd=tmp_path)
    assert shown(run.stderr) == ["parent", "prog.py child"] * 2
    assert run.stderr.splitlines()[4:] == ["*** inviso trace stopped: the limit of 4 messages was reached."]


def test_what_is_not_traced_is_said_in_the_last_line(tmp_path: Path) -> None:
    text = f"""{LEAF}
pid = os.fork()
if not pid: os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
subprocess.run(["true"])
leaf()
"""
    run = traced("-p", "__main__:leaf", script(tmp_path, text), cwd=tmp_path)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("*** inviso trace: 2 child processes were not measured: "), run.stderr
    run = traced("--no-children", "-p", "__main__:leaf", script(tmp_path, text), cwd=tmp_path)
    assert len(run.stderr.splitlines()) == 1


def test_a_pattern_that_only_a_child_has(tmp_path: Path) -> None:
    text = "import os\nif not os.fork():\n    import colorsys; colorsys.rgb_to_hsv(0, 0, 0)\nelse: os.wait()\n"
    run = traced("-p", "colorsys", "-p", "nothing.here", script(tmp_path, text), cwd=tmp_path)
    assert "call colorsys:rgb_to_hsv(0,0,0)" in run.stderr
    assert re.findall(r"\*\*\* inviso trace: (.*) matches no function", run.stderr) == ["nothing.here:_:_"]


def test_a_childs_log_is_a_file_beside(tmp_path: Path) -> None:
    text = (
        "import os\ndef f(who): pass\nf('one')\npid = os.fork()\nf(str(pid))\nprint(pid) if pid else os._exit(0)\n"
        "os.wait()\n"
    )
    run = traced("-p", "__main__:f", "-o", "calls.log", script(tmp_path, text), cwd=tmp_path)
    pid = run.stdout.strip()
    assert run.stderr.splitlines()[-1].endswith(f"calls.{pid}.log.")
    own, child = (list(log.read(tmp_path / name)) for name in ("calls.log", f"calls.{pid}.log"))
    assert [message[3][2] for message in own] == [["one"], [pid]]
    assert [message[3][2] for message in child] == [["0"]]


@pytest.mark.parametrize("kind", ["call_count", "call_time"])
def test_a_childs_modules_may_have_names_of_the_librarys(kind: str, tmp_path: Path) -> None:
    for name in ("queue", "logging", "string", "select", "textwrap"):
        script(tmp_path, "mine = True\n", f"inner/{name}.py")
    script(
        tmp_path,
        "import queue, logging, string, select, textwrap\nprint(queue.mine, textwrap.mine, logging.mine)\n",
        "inner/child.py",
    )
    text = """
import os, subprocess, sys
subprocess.run([sys.executable, "inner/child.py"], check=True)
os.chdir("inner")
subprocess.run([sys.executable, "-m", "child"], check=True)
"""
    run = tprof("-t", kind, "-p", "__main__", script(tmp_path, text), cwd=tmp_path)
    assert run.stdout == "True True True\n" * 2, run.stderr
    assert "with 2 child processes" in run.stderr and "not measured" not in run.stderr


def test_a_child_that_lets_nobody_run_python_ends_by_its_signal(tmp_path: Path) -> None:
    text = f"""{LEAF}
import re
reading, writing = os.pipe()
pid = os.fork()
if not pid:
    os.write(writing, b"x")
    re.match("(a+)+$", "a" * 60 + "b")  # for ever, and nobody else gets the interpreter
os.read(reading, 1)
os.kill(pid, signal.SIGTERM)
print(os.waitpid(pid, 0)[1])
"""
    assert profile_of(tmp_path, script(tmp_path, text))["said"] == "15\n"


def test_forks_in_many_threads(tmp_path: Path) -> None:
    text = f"""{LEAF}
import threading
def forks():
    for _ in range(10):
        pid = os.fork()
        if not pid:
            leaf()
            os._exit(0)
        os.waitpid(pid, 0)
threads = [threading.Thread(target=forks) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
leaf()
"""
    profile = profile_of(tmp_path, script(tmp_path, text))
    assert (calls(profile, "leaf"), profile["children"]) == (31, 30)


@pytest.mark.parametrize("method", METHODS)
def test_a_profile_of_one_call_with_its_children(method: str, tmp_path: Path) -> None:
    text = f"""
import multiprocessing, os, subprocess, sys
from inviso import BadArg, tprof
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
def run():
    processes = [multiprocessing.get_context({method!r}).Process(target=work, args=(50,)) for _ in range(2)]
    for process in processes: process.start()
    for process in processes: process.join()
    leaf()
if __name__ == "__main__":
    for _ in range({1 if method == "forkserver" else 2}):  # a server that runs already belongs to the first run
        profile = tprof.profile(run, pattern="__main__", children=True)
        print(profile["__main__:leaf"].calls, profile.children, profile.missing)
    print(tprof.profile(run, pattern="__main__")["__main__:leaf"].calls)
    print(tprof.profile(subprocess.run, ["true"], children=True).missing)
    try: tprof.profile(lambda: tprof.profile(run, children=True), children=True)
    except BadArg as error: print(error)
    pid = os.fork()  # nothing is measured there
    if not pid: os._exit(0)
    print(os.waitpid(pid, 0)[1], "INVISO_CHILDREN" in subprocess.run(["env"], capture_output=True, text=True).stdout)
"""
    run = execute([sys.executable, str(script(tmp_path, text))], tmp_path, TMPDIR=str(tmp_path))
    assert run.returncode == 0 and run.stderr == ""
    assert run.stdout.splitlines() == [
        *["101 2 "] * (1 if method == "forkserver" else 2),
        "1",
        "1 child process was not measured: another program (true).",
        "tprof.profile, children: children of this process are measured already; make one profile of both",
        "0 False",
    ]
    assert not list(tmp_path.glob("inviso-*"))


def test_a_child_that_native_code_starts(tmp_path: Path) -> None:
    """libuv forks, and executes the program, without the interpreter's functions."""
    pytest.importorskip("uvloop")
    (tmp_path / "child.py").write_text("def work(): pass\nwork()\n")
    program = tmp_path / "program.py"
    program.write_text("""
import asyncio, sys, uvloop
def work(): pass
async def main():
    work()
    child = await asyncio.create_subprocess_exec(sys.executable, "child.py")
    await child.wait()
uvloop.run(main())
""")
    command = [sys.executable, "-m", "inviso", "tprof", "-p", "__main__", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "with 1 child process" in done.stderr and "not measured" not in done.stderr, done.stderr
    assert sum(line.startswith("__main__:work/0") for line in done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "where", ["f(1)", "t = threading.Thread(target=lambda: (f(1), os._exit(3))); t.start(); t.join()"]
)
@pytest.mark.parametrize("words", [("tprof",), ("tprof", "-t", "call_time"), ("trace",)], ids=" ".join)
def test_a_program_that_ends_at_once_has_its_report(words: tuple[str, ...], where: str, tmp_path: Path) -> None:
    text = f"""
import os, sys, threading
def f(n): pass
if os.fork() == 0:
    f(2)
    os._exit(0)
os.wait()
sys.stdout.write("in a buffer, and lost as ever")
{where}
os._exit(3)
"""
    path = script(tmp_path, text)
    alone = execute([sys.executable, str(path)], tmp_path, PYTHONUNBUFFERED="")
    done = execute(command(*words, "-p", "__main__:f", path), tmp_path, PYTHONUNBUFFERED="")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) == (3, "")
    if words[0] == "trace":
        assert "call __main__:f(1)" in done.stderr and "call __main__:f(2)" in done.stderr
    else:
        assert "with 1 child process" in done.stderr and re.search(r"^__main__:f/1 +2 ", done.stderr, re.MULTILINE)
