"""Attaching to living processes, detaching, and why it can't be done."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg
from inviso._attach import (
    AnotherUser,
    CannotAttach,
    NoProcess,
    NotPython,
    OtherBuild,
    RemoteDebugDisabled,
    StillPending,
    TooOld,
    attach,
    detach,
)
from waiting import until

LIMIT = 60
PATH = str(Path(inviso.__file__).parents[1])
can_attach = pytest.mark.skipif(sys.version_info < (3, 14), reason="Python can be attached to from 3.14 on")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

BUSY = """
import sys
def work(n): return n
print("ready", flush=True)
while True: work(1)
"""
NATIVE = """
import hashlib, sys
print("ready", flush=True)
while True: hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)
"""
SLEEPS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
print("awake", flush=True)
signal.sigwait([signal.SIGUSR1])
print("over", flush=True)
"""


TOLD = """
import select, sys
def work(n): return n
print("ready", flush=True)
while True:
    if select.select([sys.stdin], [], [], 0.01)[0]:
        for n in range(int(sys.stdin.readline())): work(n)
        print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sockets and scripts are in folders of the test's own."""
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    (tmp_path / "scripts").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scripts"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def program(text: str, *flags: str, path: str | None = PATH, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A running program that has said that it's ready."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | env
    if path is not None:
        settings["PYTHONPATH"] = path
    words = [sys.executable, *flags, "-c", text]
    running = subprocess.Popen(
        words, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert line(running) == "ready"
        yield running
    finally:
        running.kill()
        with suppress(ValueError):
            running.communicate()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().rstrip("\n")


def held(pid: int) -> tuple[list[str], int]:
    """A process's open descriptors, and its number of threads."""
    names = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    return sorted(re.sub(r"\d+", "N", name) for name in names), len(os.listdir(f"/proc/{pid}/task"))


def ask(pid: int, folder: Path, requests: Iterable[tuple[Any, ...]]) -> list[Any]:
    """A listener's answers to a control's requests."""
    from inviso._link._folder import Folder
    from inviso._link._frame import Frames, greeting, pack

    answers: list[Any] = []
    with Folder.open(str(folder / "sockets")) as place, place.connect(pid) as made:
        made.settimeout(LIMIT)
        made.sendall(greeting(node="ctl@here", pid=os.getpid()))
        frames = Frames()
        for number, (name, *arguments) in enumerate(requests):
            made.sendall(pack(("call", number, name, arguments)))
            while len(answers) <= number:
                answers += [term[2] for term in frames.feed(made.recv(1 << 16)) if term[0] == "answer"]
    return answers


@can_attach
def test_a_busy_program_is_traced_and_left_as_it_was(folder: Path) -> None:
    with program(BUSY) as running:
        before = held(running.pid)
        found = attach(running.pid, node="busy", log_dir=str(folder / "logs"), timeout=LIMIT)
        assert (found.node.partition("@")[0], found.is_new) == ("busy", True)
        assert attach(running.pid) == type(found)(found.node, running.pid, False)
        log = folder / "logs" / "t.log"

        def requests() -> Iterator[tuple[Any, ...]]:
            yield from [("add", "test", {}, False), ("init_tracing", ("file", "t.log"))]
            yield from [("tpl", [("__main__", "work", 1, [])]), ("tf", [("all", ["call"])])]
            until = time.monotonic() + LIMIT
            while not log.stat().st_size:
                assert time.monotonic() < until
                yield ("flush",)
            yield from [("stop_tracing",), ("stop_node",)]

        answers = ask(running.pid, folder, requests())
        assert answers[2:4] == [("ok", [1]), ("ok", [1])]
        assert detach(running.pid) == found.node
        until_gone(running.pid, len(before[0]), before[1])
        assert held(running.pid) == before
        assert os.listdir(folder / "scripts") == []
        assert [name for name in os.listdir(folder / "sockets") if name.endswith(".sock")] == []
        with pytest.raises(NoProcess, match="it has no listener"):
            detach(running.pid)
        assert attach(running.pid, timeout=LIMIT).is_new  # and again


def until_gone(pid: int, files: int, threads: int) -> None:
    """The listener's thread ends just after it has answered."""
    for _ in range(LIMIT * 1000):
        if len(os.listdir(f"/proc/{pid}/task")) == threads and len(os.listdir(f"/proc/{pid}/fd")) == files:
            return
        os.sched_yield()
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


@can_attach
@pytest.mark.parametrize("text", [NATIVE, SLEEPS], ids=["in native code", "waiting"])
def test_a_main_thread_that_runs_no_python(folder: Path, text: str) -> None:
    with program(text) as running:
        before = held(running.pid)
        with pytest.raises(StillPending, match="the attempt was withdrawn"):
            attach(running.pid, timeout=0.3)
        (name,) = os.listdir(folder / "scripts")
        assert os.listdir(folder / "scripts" / name) == ["attach.py"]
        assert (folder / "scripts" / name / "attach.py").read_text() == ""
        assert (folder / "scripts" / name).stat().st_mode & 0o777 == 0o700
        if text is SLEEPS:
            running.send_signal(10)
            assert line(running) == "awake"  # it has read the empty script on its way
            assert held(running.pid) == before
            running.send_signal(10)
            assert line(running) == "over"
    assert not os.path.exists(folder / "sockets" / f"{running.pid}.sock")


@can_attach
def test_what_an_attempt_left_goes_with_a_later_one(folder: Path) -> None:
    with program(SLEEPS) as running, pytest.raises(StillPending):
        attach(running.pid, timeout=0.2)
    assert len(os.listdir(folder / "scripts")) == 1
    with program(BUSY) as running:
        attach(running.pid, timeout=LIMIT)
    assert os.listdir(folder / "scripts") == []


@can_attach
@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_program_that_lets_nobody_attach(how: str) -> None:
    flags = ("-X", "disable-remote-debug") if how == "flag" else ()
    env = {} if how == "flag" else {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}
    with program(BUSY, *flags, **env) as running, pytest.raises(RemoteDebugDisabled, match="lets nobody attach"):
        attach(running.pid, timeout=LIMIT)


@can_attach
def test_a_program_without_the_package_on_its_path(folder: Path) -> None:
    """The same build loads it from here; nothing of that is left on its path."""
    text = (
        "import sys\nprint('ready', flush=True)\nwhile 'inviso' not in sys.modules: pass\n"
        "while 'inviso.runtime' not in sys.modules: pass\nprint(sys.path, flush=True)\nwhile True: pass"
    )
    with program(text, "-S", path=None) as running:  # nor in a folder that site would find
        assert attach(running.pid, timeout=LIMIT).is_new
        assert PATH not in line(running)


@can_attach
def test_a_package_that_cannot_be_loaded(folder: Path) -> None:
    (folder / "inviso.py").write_text("raise ImportError('not for this build')\n")
    with program(BUSY, path=str(folder)) as running, pytest.raises(OtherBuild, match="not for this build"):
        attach(running.pid, timeout=LIMIT)
    assert os.listdir(folder / "scripts") == []


NOBODY = 65534


@needs_root
def test_another_users_process(folder: Path) -> None:
    """The request is from another user than the owner of the process."""
    folder.chmod(0o755)
    text = f"""
import os
os.setgid({NOBODY}); os.setuid({NOBODY})
from inviso._attach import CannotAttach, attach
try:
    attach({os.getpid()})
except CannotAttach as why:
    print(type(why).__name__, why)
"""
    env = {**os.environ, "PYTHONPATH": PATH, "INVISO_DIR": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", "import inviso._attach\n" + text], env=env, capture_output=True, text=True, timeout=LIMIT
    )
    expected = f"AnotherUser process {os.getpid()} belongs to user 0; attach as that user, or as root\n"
    assert done.stdout == expected, done.stderr
    assert issubclass(AnotherUser, CannotAttach)


def others_can_read(path: str) -> bool:
    place = Path(path).resolve()
    return all(each.stat().st_mode & 0o001 for each in (place, *place.parents))


@can_attach
@needs_root
@pytest.mark.skipif(not (others_can_read(sys.base_prefix) and others_can_read(PATH)), reason="in root's own folder")
def test_root_attaches_to_another_users_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its listener is in that user's folder; the script was readable for it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    text = f"import inviso.runtime, os; os.setgid({NOBODY}); os.setuid({NOBODY})\n" + BUSY
    place = folder / "theirs"
    place.mkdir(mode=0o700)
    os.chown(place, NOBODY, NOBODY)
    with program(text, INVISO_DIR=str(place)) as running:
        found = attach(running.pid, timeout=LIMIT)
        assert found.is_new and os.listdir(place) != []
    shutil.rmtree(folder)


def test_what_is_no_process_or_no_python() -> None:
    with pytest.raises(NoProcess, match="there is no process"):
        attach(2**22 + 1)
    other = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(NotPython, match="is no Python"):
            attach(other.pid)
    finally:
        other.kill()
        other.wait()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it can be attached to")
def test_an_older_python_without_a_listener() -> None:
    with program(BUSY) as running, pytest.raises(TooOld, match="start it with 'inviso run', or with INVISO_AUTOSTART"):
        attach(running.pid)


def test_a_listener_that_is_there_is_enough(folder: Path) -> None:
    """On any version; detaching ends it, but not while a control has it."""
    text = (
        "from inviso import runtime; runtime.listen('prepared')\nprint('ready', flush=True)\ninput()\n"
        "print(runtime.listening())"
    )
    with program(text, INVISO_DIR=str(folder / "sockets")) as running:
        found = attach(running.pid)
        assert (found.node.partition("@")[0], found.is_new) == ("prepared", False)
        from inviso._link._folder import Folder
        from inviso._link._frame import greeting, pack

        with Folder.open(str(folder / "sockets")) as place, place.connect(running.pid) as made:
            made.settimeout(LIMIT)
            made.sendall(greeting(node="ctl@here", pid=os.getpid()) + pack(("call", 1, "add", ["t", {}, False])))
            while not made.recv(1 << 16).endswith(b"new"):
                pass
            with pytest.raises(CannotAttach, match=rf"belongs to the control ctl@here \(process {os.getpid()}\)"):
                detach(running.pid)
        while True:
            try:
                assert detach(running.pid) == found.node
                break
            except CannotAttach as why:  # the listener has not yet noticed the control's end
                assert "belongs to the control" in str(why)
        assert running.communicate("\n", timeout=LIMIT)[0] == "None\n"


@pytest.mark.parametrize("pid", [0, -1, True, "7", 1.5])
def test_malformed_numbers(pid: Any) -> None:
    with pytest.raises(BadArg, match="is no number of a process"):
        attach(pid)
    with pytest.raises(BadArg):
        detach(1, timeout=0)


def command(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "inviso", "attach", *map(str, words)]
    return subprocess.run(
        line, env={**os.environ, "PYTHONPATH": PATH}, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def test_the_command(folder: Path) -> None:
    text = "from inviso import runtime; runtime.listen('prepared')\nprint('ready', flush=True)\ninput()"
    with program(text) as running:
        done = command(running.pid)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"prepared@\S+  already there\n", done.stdout)
        done = command("--json", "--detach", running.pid)
        assert json.loads(done.stdout)["what"] == "detached" and done.returncode == 0
    done = command(2**22 + 1, "--json")
    assert json.loads(done.stdout)["error"] == "NoProcess" and done.returncode == 1
    assert command(2**22 + 1).stderr == f"inviso attach: there is no process {2**22 + 1}\n"
    assert command("x").returncode == 2 and command().returncode == 2
    assert "--timeout" in command("--help").stdout and command("--help").returncode == 0
    assert command("--timeout", "-1", 1).returncode == 2


@can_attach
def test_a_program_that_sigterm_ends_has_written_its_log(folder: Path) -> None:
    with program(TOLD) as running:
        found = attach(running.pid, node="told", log_dir=str(folder / "logs"), timeout=LIMIT)
        with inviso.Cluster(found.node) as cluster:
            cluster.trace("__main__:work", folder=folder / "copies").check()
            assert running.stdin is not None
            running.stdin.write("500\n")
            running.stdin.flush()
            assert line(running) == "done"
            running.terminate()
            assert running.wait(LIMIT) == -signal.SIGTERM
            until(lambda: not cluster.nodes)
            result = cluster.stop().check()[found.node]
    assert (result["records"], result["lost"], result["ended"]) == (500, 0, "its process has ended")
