"""A program that traces itself connects to the control that its dependency names, and acts by that dependency."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inviso
import pytest
from autostart_tools import LIMIT, PLAIN, config, make_interpreter, run, standard, write
from inviso._link._folder import CONTROL, Folder
from inviso._link._frame import Frames, greeting, pack, peer_of

WAITS = """
import sys
from inviso import runtime
print(runtime.get_status(), flush=True)
for line in sys.stdin:
    until = line.strip()
    while until and str(runtime.get_status()) != until: pass
    print(runtime.get_status(), flush=True)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_interpreter(tmp_path_factory.mktemp("interpreter") / "env")


class Connection:
    """A control's side, frame by frame."""

    def __init__(self, made: socket.socket) -> None:
        made.settimeout(LIMIT)
        self._socket = made
        self._frames = Frames()
        self._terms: list[Any] = []

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def term(self) -> Any:
        while not self._terms:
            data = self._socket.recv(1 << 16)
            assert data, "it has gone"
            self._terms += self._frames.feed(data)
        return self._terms.pop(0)

    def ask(self, name: str, *arguments: Any) -> Any:
        self.send(pack(("call", 7, name, list(arguments))))
        while True:
            match self.term():
                case ("answer", 7, answer):
                    return answer

    def is_over(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


@contextmanager
def control(folder: Path, node: str) -> Iterator[Any]:
    """A listener in a control's place; yields a function that accepts the next connection."""
    with Folder.open(str(folder)) as above, above.below(CONTROL) as place:
        listening = place.listen(os.getpid())
        listening.settimeout(LIMIT)

        def accept() -> Connection:
            made, _ = listening.accept()
            connection = Connection(made)
            connection.send(greeting(node=node, pid=os.getpid()))
            return connection

        yield accept
        listening.close()


@contextmanager
def program(python: Path, folder: Path, *pairs: Any) -> Iterator[subprocess.Popen[str]]:
    write(folder, "prog.py", WAITS)
    path = config(folder, *pairs, ("node", "shop@here"), standard(tracerdata=("file", "t.log")))
    env = {**PLAIN, "INVISO_DIR": str(folder / "sockets"), "INVISO_AUTOSTART": str(path)}
    running = subprocess.Popen(
        [python, "prog.py"],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
        assert running.communicate("", timeout=LIMIT)[1] == ""
        assert running.returncode == 0
    finally:
        running.kill()
        running.wait()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().rstrip("\n")


def status(running: subprocess.Popen[str], until: str = "") -> str:
    """The program's view of itself, perhaps after an `exec`."""
    assert running.stdin is not None
    running.stdin.write(f"{until}\n")
    running.stdin.flush()
    return line(running)


TRACING, ALONE, OVER = "('ok', ('tracing', 'running'))", "('ok', ('tracing', 'running'))", "('error', 'not_started')"


@pytest.mark.parametrize("named", ["ctl", "ctl@here"])
def test_it_announces_itself_and_is_adopted(python: Path, tmp_path: Path, named: str) -> None:
    options = ("options", [("dependency", (0, named))])
    with (
        control(tmp_path / "sockets", "ctl@here") as accept,
        program(python, tmp_path, options, ("tag", "mine")) as running,
    ):
        connection = accept()
        about = peer_of(connection.term())
        assert (about["node"], about["pid"]) == ("shop@here", running.pid)
        kind, node, pid, version, tag = connection.term()
        assert (kind, node, pid, tag) == ("connect", "shop@here", running.pid, "mine")
        assert isinstance(version, str)
        assert line(running) == TRACING
        assert connection.ask("get_status") == ("error", "not_an_added_node")
        assert connection.ask("confirm") == ("ok", ("tracing", "running", "mine"))
        assert connection.ask("suspend", "hot") == "ok"
        assert status(running) == "('ok', ('tracing', ('suspended', 'hot')))"
        connection.close()  # dependency 0: it ends with its control
        assert status(running, OVER) == OVER


def test_a_control_that_refuses(python: Path, tmp_path: Path) -> None:
    options = ("options", [("dependency", (0, "ctl"))])
    with control(tmp_path / "sockets", "ctl@here") as accept, program(python, tmp_path, options) as running:
        connection = accept()
        connection.term(), connection.term()
        assert line(running) == TRACING
        connection.close()
        assert status(running, OVER) == OVER


def test_another_control_is_not_told(python: Path, tmp_path: Path) -> None:
    options = ("options", [("dependency", ("infinity", "ctl"))])
    with control(tmp_path / "sockets", "other@here") as accept, program(python, tmp_path, options) as running:
        connection = accept()
        assert peer_of(connection.term())["node"] == "shop@here"
        assert connection.is_over()
        assert line(running) == ALONE


@pytest.mark.parametrize(
    ("dependency", "said"),
    [(0, OVER), ((0, "ctl"), OVER), ("infinity", ALONE), (("infinity", "ctl"), ALONE), (60_000, ALONE)],
)
def test_without_a_control(python: Path, tmp_path: Path, dependency: Any, said: str) -> None:
    with program(python, tmp_path, ("options", [("dependency", dependency)])) as running:
        assert line(running) == said


def test_a_control_adopts_it_later(python: Path, tmp_path: Path) -> None:
    with program(python, tmp_path, ("tag", "nightly")) as running:
        assert line(running) == TRACING
        with Folder.open(str(tmp_path / "sockets")) as folder:
            connection = Connection(folder.connect(running.pid))
        connection.send(greeting(node="ctl@here", pid=os.getpid()))
        assert peer_of(connection.term())["node"] == "shop@here"
        assert connection.ask("add", "new", {}, False) == ("ok", ("adopted", "tracing", "running", "nightly"))
        connection.close()


def test_what_a_control_names_is_below_the_log_folder(python: Path, tmp_path: Path) -> None:
    """The config file may name any file, the control that adopts the component may not."""
    outside = tmp_path / "outside.log"
    with program(python, tmp_path) as running:
        assert line(running) == TRACING
        with Folder.open(str(tmp_path / "sockets")) as folder:
            connection = Connection(folder.connect(running.pid))
        connection.send(greeting(node="ctl@here", pid=os.getpid()))
        connection.term()
        connection.ask("add", "new", {}, False)
        assert connection.ask("stop_tracing")[0] == "ok"
        assert connection.ask("init_tracing", ("file", str(outside))) == ("error", ("not_allowed", str(outside)))
        assert connection.ask("init_tracing", ("file", "inside.log"))[0] == "ok"
        connection.close()
    assert not outside.exists() and (tmp_path / "inviso-logs" / "inside.log").exists()


def test_the_node_is_in_use_already(python: Path, tmp_path: Path) -> None:
    with program(python, tmp_path) as running:
        assert line(running) == TRACING
        text = "from inviso import runtime; import os; print(runtime.listening().node == f'shop-{os.getpid()}@here')"
        done = run(python, "-c", text, cwd=tmp_path, INVISO_AUTOSTART=str(tmp_path / "auto.config"))
        assert done.stdout == "True\n"
        assert "a process has the name shop@here already" in done.stderr


CONTROL_PROGRAM = """
import inviso
from inviso import control
inviso.set_node("ctl@here")
control.start([("subscribe", inviso.self())])
print("ready", flush=True)
def event():
    name, pid, when, message = inviso.receive(timeout=60)
    return message
print(event()[:2], flush=True)
input()
print(control.get_status(), flush=True)
print(control.stop_nodes(), flush=True)
"""


def test_the_control_component_takes_it(python: Path, tmp_path: Path) -> None:
    """Both sides are unchanged: no add_nodes, and the tag of the config file."""
    env = {**PLAIN, "INVISO_DIR": str(tmp_path / "sockets"), "PYTHONPATH": str(Path(inviso.__file__).parents[1])}
    words = [sys.executable, "-c", CONTROL_PROGRAM]
    options = ("options", [("dependency", (0, "ctl@here"))])
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ctl:
        assert ctl.stdout is not None and ctl.stdin is not None
        assert ctl.stdout.readline() == "ready\n"
        with program(python, tmp_path, options, ("tag", "nightly")) as running:
            assert line(running) == TRACING
            assert ctl.stdout.readline() == "('connected', 'shop@here')\n"
            ctl.stdin.write("\n")
            ctl.stdin.flush()
            assert ctl.stdout.readline() == "('ok', [('shop@here', ('ok', ('tracing', 'running')))])\n"
            assert ctl.stdout.readline() == "('ok', [('shop@here', 'ok')])\n"
            assert status(running, OVER) == OVER
        ctl.stdout.read()
        assert ctl.wait(LIMIT) == 0
