"""Children of a program under `inviso run` can be traced from outside, too: each listens by a name of its own."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from autostart_tools import LIMIT, PLAIN, make_interpreter, write
from inviso import Cluster, log
from inviso_tools import HOST

PROGRAM = """
import multiprocessing, os, subprocess, sys
def work(n): return n
def child():
    # says who it is, works when it is told to, and ends with an empty line
    os.write(1, f"{os.getpid()}\\n".encode())
    with open("jobs") as jobs:
        while line := jobs.readline().strip():
            work(int(line))
            os.write(1, b"worked\\n")
"""
FORK = """
pid = os.fork()
if not pid:
    child()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) + 7)
"""
MULTIPROCESSING = """
if __name__ == "__main__":
    running = multiprocessing.get_context({method!r}).Process(target=child)
    running.start()
    running.join()
    sys.exit(running.exitcode + 7)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_interpreter(tmp_path_factory.mktemp("interpreter") / "env")


class Running:
    """A program and all that it starts; nothing of it is left when the test ends."""

    def __init__(self, python: Path, folder: Path, *words: str, **env: str) -> None:
        os.mkfifo(folder / "jobs")
        self._jobs = os.open(folder / "jobs", os.O_RDWR | os.O_CLOEXEC)
        command = [str(python), "-m", "inviso", "run", *words]
        settings = {**PLAIN, "INVISO_DIR": str(folder / "sockets"), **env}
        self._program = subprocess.Popen(
            command, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._data = b""

    def line(self) -> str:
        """The next line that one of them prints."""
        assert self._program.stdout is not None
        while b"\n" not in self._data:
            assert select.select([self._program.stdout], [], [], LIMIT)[0], "no process prints a line"
            data = os.read(self._program.stdout.fileno(), 1 << 16)
            assert data, self._program.communicate(timeout=LIMIT)[1].decode()
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return line.decode()

    def work(self, number: int) -> None:
        """Gives a job to a child that waits for jobs."""
        os.write(self._jobs, f"{number}\n".encode())
        assert self.line() == "worked"

    def end(self) -> tuple[int, str]:
        """Status and standard error of the program; its child gets the end of the jobs."""
        os.write(self._jobs, b"\n")
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Status and standard error of a program that ends by itself."""
        out, err = self._program.communicate(timeout=LIMIT)
        assert self._data + out == b""
        return self._program.returncode, err.decode()

    def close(self) -> None:
        """Ends all of its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.communicate()
        os.close(self._jobs)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    return tmp_path


@contextmanager
def running(python: Path, folder: Path, program: str, *words: str, **env: str) -> Iterator[Running]:
    write(folder, "prog.py", PROGRAM + program)
    write(folder, "ten.py", PROGRAM + "child()\n")
    made = Running(python, folder, *words, "prog.py", **env)
    try:
        yield made
    finally:
        made.close()


def nodes() -> dict[str, int]:
    """Traceable processes: names without the host, and their pids."""
    with Cluster() as cluster:
        return {each.node.removesuffix(f"@{HOST}"): each.pid for each in cluster.found()}


STARTS = {
    **{method: (MULTIPROCESSING.format(method=method), "shop") for method in ("fork", "spawn", "forkserver")},
    "os.fork": (FORK, "shop"),
    "subprocess": ("sys.exit(subprocess.run([sys.executable, 'ten.py']).returncode + 7)\n", "shop"),
    "an environment of its own": (
        "sys.exit(subprocess.run([sys.executable, 'ten.py'], env={'INVISO_DIR': os.environ['INVISO_DIR']}).returncode "
        "+ 7)\n",
        "shop",
    ),
    "os.system": ("sys.exit(os.waitstatus_to_exitcode(os.system(sys.executable + ' ten.py')) + 7)\n", "shop"),
}


@pytest.mark.parametrize("how", STARTS)
def test_a_child_is_found_and_traced(python: Path, folder: Path, how: str) -> None:
    program, name = STARTS[how]
    with running(python, folder, program, "--node", name) as shop:
        pid = int(shop.line())
        found = nodes()
        assert set(found) == {"shop", f"shop-{pid}"}
        assert found[f"shop-{pid}"] == pid != found["shop"]
        module = "__mp_main__" if how in ("spawn", "forkserver") else "__main__"
        with Cluster(f"shop-{pid}") as cluster:
            assert cluster.nodes == [f"shop-{pid}@{HOST}"]
            assert dict(cluster.trace(f"{module}:work", arguments=True, folder=folder / "logs").check()) == {
                cluster.nodes[0]: 1
            }
            shop.work(5)
            stopped = cluster.stop().check()
        (result,) = stopped.values()
        assert [message[3] for message in log.read(result["log"])] == [(module, "work", [5])]
        assert shop.end() == (7, "")
        assert nodes() == {}


def one_line(python: Path, folder: Path, program: str, *words: str, **env: str) -> str:
    """The output of a program whose child prints one line."""
    write(folder, "who.py", "import os, sys\nfrom inviso import runtime\nfound = runtime.listening()\n"
          "print(found and found.node.partition('@')[0], sorted(name for name in os.environ if 'INVISO' in name), "
          "flush=True)\n")  # fmt: skip
    write(folder, "prog.py", PROGRAM + program)
    command = [str(python), "-m", "inviso", "run", "--node", "shop", *words, "prog.py"]  # the last of a kind counts
    settings = {**PLAIN, "INVISO_DIR": str(folder / "sockets"), **env}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_program_gets_no_variables_of_ours(python: Path, folder: Path) -> None:
    """Neither in its own environment nor in a grandchild's."""
    program = (
        "print([name for name in os.environ if 'INVISO' in name], flush=True)\n"
        "subprocess.run([sys.executable, '-c', \"import os, sys, subprocess; subprocess.run([sys.executable, "
        "'who.py'])\"])\n"
        "print([name for name in os.environ if 'INVISO' in name])\n"
    )
    first, child, last = one_line(python, folder, program).splitlines()
    assert first == last == "['INVISO_DIR']"
    assert child.startswith("shop-") and child.endswith(" ['INVISO_DIR']")


@pytest.mark.parametrize("how", ["--no-children", "INVISO_FOLLOW", "pyproject.toml", "the program says so"])
def test_children_that_are_not_to_be_traced(python: Path, folder: Path, how: str) -> None:
    words = ["--no-children"] if how == "--no-children" else []
    env = {"INVISO_FOLLOW": "no"} if how == "INVISO_FOLLOW" else {}
    if how == "pyproject.toml":
        write(folder, how, "[tool.inviso]\nfollow = false\n")
    own = ", env={**os.environ, 'INVISO_AUTOSTART': 'no'}" if how == "the program says so" else ""
    said = one_line(python, folder, f"subprocess.run([sys.executable, 'who.py']{own})\n", *words, **env)
    assert said.startswith("None ")


def test_a_child_with_a_name_of_its_own(python: Path, folder: Path) -> None:
    program = "subprocess.run([sys.executable, '-m', 'inviso', 'run', '--node', 'other', 'who.py'])\n"
    assert one_line(python, folder, program) == "other ['INVISO_DIR']\n"


def test_a_child_becomes_another_program(python: Path, folder: Path) -> None:
    """The process is the same, and has one name."""
    program = (
        "pid = os.fork()\nif not pid: os.execv(sys.executable, [sys.executable, 'who.py'])\n"
        "os.waitpid(pid, 0)\nprint(pid)\n"
    )
    child, pid = one_line(python, folder, program).splitlines()
    assert child == f"shop-{pid} ['INVISO_DIR']"


def test_a_template_is_of_each_process(python: Path, folder: Path) -> None:
    program = (
        "from inviso import runtime\npid = os.fork()\n"
        "if not pid:\n    print(runtime.listening().node, os.getpid(), flush=True)\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    node, pid = one_line(python, folder, program, "--node", "{program}.{pid}").split()
    assert node == f"prog.{pid}@{HOST}"


@pytest.mark.parametrize("way", ["the end", "kill -9"])
def test_the_end_of_a_traced_child_is_said(python: Path, folder: Path, way: str) -> None:
    """The control gets an event, and `stop` answers for it from its log."""
    with running(python, folder, FORK, "--node", "shop") as shop:
        pid = int(shop.line())
        name = f"shop-{pid}@{HOST}"
        events: queue.Queue[Any] = queue.Queue()
        with Cluster("shop*") as cluster:
            cluster.events(lambda event: events.put(event[3]))
            cluster.trace("__main__:work", folder=folder / "logs").check()
            for n in range(5):
                shop.work(n)
            if way == "the end":
                assert shop.end() == (7, "")
            else:
                cluster._control.call(None, "flush")
                os.kill(pid, signal.SIGKILL)
                assert shop.end() == ((7 - 9) & 0xFF, "")
            ended: set[str] = set()
            while len(ended) < 2:
                event = events.get(timeout=LIMIT)
                ended |= {event[1]} if event[0] == "disconnected" else set()
            assert ended == {name, f"shop@{HOST}"} and cluster.nodes == []
            stopped = cluster.stop().check()
            assert set(stopped) == ended
            assert stopped[name] == {
                "records": 5, "lost": 0, "ended": "its process has ended", "log": str(folder / "logs" / f"{name}.log")
            }  # fmt: skip
            assert len(list(log.read(stopped[name]["log"]))) == 5
            assert len(cluster.stop()) == 0  # it is said once


def command(*words: str, status: int = 0) -> list[list[str]]:
    """The output of a command, a line for each node."""
    done = subprocess.run(
        [sys.executable, "-m", "inviso", *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr == "") == (status, not status), done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("way", ["the end", "kill -9"])
def test_the_end_of_a_child_is_said_to_who_comes_later(python: Path, folder: Path, way: str) -> None:
    """`inviso start` has ended before the child: `inviso fetch` and `inviso stop` know of it, the latter once."""
    with running(python, folder, FORK, "--node", "shop") as shop:
        pid = int(shop.line())
        name = f"shop-{pid}@{HOST}"
        assert [row[0] for row in command("start", "shop*", "-p", "__main__:work")] == [name, f"shop@{HOST}"]
        for n in range(3):
            shop.work(n)
        with Cluster("shop*") as cluster:
            cluster._control.call(None, "flush")
            cluster.leave()
        if way == "the end":
            shop.end()
        else:
            os.kill(pid, signal.SIGKILL)
            shop.end()
        assert command("fetch", "shop*", "-o", str(folder / "fetched"))[0] == [
            name,
            str(folder / "fetched" / f"{name}.log"),
        ]
        assert command("nodes", "shop*", status=1) == []
        ended, other = command("stop", "shop*", "-o", str(folder / "logs"))
        log_of = folder / "logs" / f"{name}.log"
        assert ended == [name, "3", "0", "its process has ended", str(log_of)]
        assert other[:4] == [f"shop@{HOST}", "0", "0", "its process has ended"]
        assert len(list(log.read(log_of))) == len(list(log.read(folder / "fetched" / f"{name}.log"))) == 3
        assert command("stop", "shop*", status=1) == []


def test_a_later_start_says_nothing_of_what_was_before(python: Path, folder: Path) -> None:
    """That is left for `inviso stop`. A node that was stopped is not reported as ended later, either."""
    with running(python, folder, FORK, "--node", "shop") as shop:
        shop.line()
        with Cluster("shop*") as cluster:
            cluster.trace("__main__:work").check()
            cluster.leave()
        with Cluster("shop*") as cluster:
            assert set(cluster.stop().check()) == set(cluster.nodes)
        shop.end()
    os.unlink(folder / "jobs")
    with running(python, folder, FORK, "--node", "shop") as shop:
        shop.line()
        with Cluster("shop*") as cluster:
            cluster.trace("__main__:work").check()
            assert len(cluster.nodes) == 2
            cluster.leave()
        shop.end()
    os.unlink(folder / "jobs")
    with running(python, folder, "child()\n", "--node", "shop-2") as shop:
        shop.line()
        with Cluster("shop*") as cluster:
            assert cluster.trace("__main__:work").check().keys() == {f"shop-2@{HOST}"}
            assert cluster.stop().check().keys() == {f"shop-2@{HOST}"}
        with Cluster("shop*") as cluster:
            stopped = cluster.stop().check()
            assert (
                len(stopped) == 3 and [each["ended"] for each in stopped.values()].count("its process has ended") == 2
            )
        shop.end()


def test_settings_are_those_of_the_parent(python: Path, folder: Path) -> None:
    """The folder of logs is the same, wherever the child runs."""
    write(folder, "what.py",
    "from inviso import runtime\nfound = runtime.listening()\n"
    "print(found.node, found.log_dir, found.host.resolver._allow)\n")  # fmt: skip
    program = f"subprocess.run([sys.executable, {str(folder / 'what.py')!r}], cwd='/')\n"
    words = ("--log-dir", "logs", "--allow", "shop.handlers", "--node", "web")
    found = one_line(python, folder, program, *words)
    assert found.startswith("web-") and found.endswith(f"@{HOST} {folder}/logs ('shop.handlers',)\n")


@pytest.mark.parametrize("ends", ["the program", "its child"])
def test_sigterm_leaves_the_log_whole(python: Path, folder: Path, ends: str) -> None:
    """The status is the signal's, and each call is in the log that was made before."""
    program = "child()\n" if ends == "the program" else FORK.replace(" + 7", "")
    with running(python, folder, program, "--node", "shop") as shop:
        pid = int(shop.line())
        (name,) = (node for node, number in nodes().items() if number == pid)
        with Cluster(name) as cluster:
            cluster.trace("__main__:work", folder=folder / "logs").check()
            for n in range(200):
                shop.work(n % 10)
            os.kill(pid, signal.SIGTERM)
            status, errors = shop.ended()
            assert errors == "" and status == (-signal.SIGTERM if ends == "the program" else -signal.SIGTERM & 0xFF)
            stopped = cluster.stop().check()
        assert [(each["records"], each["ended"]) for each in stopped.values()] == [(200, "its process has ended")]
