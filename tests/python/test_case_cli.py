"""`inviso case`, run as people do, over real processes that `inviso start` traces."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from inviso import log
from inviso.cli import _case
from inviso.control._control import Control
from inviso_tools import HOST, Node, Place

CASES = """
("calls", "on_off", ["Function"], "on.case", "off.case")
("flags", "on", [], "flags.case")
("fails", "on_off", [], "fails.case", "fails.case")
"""
FILES = {
    "on.case": 'inviso.tpl(Nodes, "__main__", Function, "_", True)',
    "off.case": 'inviso.ctpl(Nodes, "__main__", Function, "_")',
    "flags.case": 'inviso.tf(Nodes, "all", ["procs"])',
    "fails.case": 'inviso.tpl(Nodes, "__main__", "work", "_", True)\nno_such_module.function()',
}


class Shop:
    """Two nodes that trace the module json, and the command."""

    def __init__(self, place: Place) -> None:
        folder = place.path / "cases"
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "cases").write_text(CASES)
        self.place = place
        self.folder = folder
        self.one, self.two = place.node("shop-1"), place.node("shop-2")

    def run(self, *words: str, status: int = 0) -> list[list[str]]:
        """The cells that a command prints."""
        done = self.command(*words)
        assert done.returncode == status, (done.stdout, done.stderr)
        assert status or not done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def fails(self, *words: str, status: int = 1) -> str:
        """The error output of a failing command."""
        done = self.command(*words)
        assert done.returncode == status and "Traceback" not in done.stderr, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        file = [] if "--cases" in words or words[0] != "case" else ["--cases", str(self.folder / "cases")]
        line = [sys.executable, "-m", "inviso", *words, *file]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def shop(place: Place) -> Iterator[Shop]:
    made = Shop(place)
    assert len(made.run("start", "shop-*", "-p", "json")) == 2
    yield made


def patterns(node: Node) -> set[str]:
    return set(node.ask("[one.function for one in listener.host.component._patterns._set if one.module == '__main__']"))


def test_a_case_is_on_until_it_is_switched_off(shop: Shop) -> None:
    head, *_ = rows = shop.run("case", "list")
    assert head == ["calls", "on_off", "Function", "", str(shop.folder / "on.case")] and len(rows) == 3
    on = shop.run("case", "on", "calls", "Function=work", "-n", "shop-*")
    assert on == [[f"shop-{n}@{HOST}", "calls", "on", "1"] for n in (1, 2)]
    assert shop.run("case", "list")[0][3] == "1"
    assert patterns(shop.one) == patterns(shop.two) == {"work"}
    shop.one.ask("work()")
    text = shop.fails("case", "on", "calls", "Function=step", "-n", "shop-1")
    assert f"calls: it is on already as 1, for shop-1@{HOST}, shop-2@{HOST}; give another --id" in text
    assert len(shop.run("case", "on", "calls", "Function=step", "-n", "shop-1", "--id", "a/b")) == 1
    assert shop.run("case", "list")[0][3] == "1 a/b"
    listed = json.loads(shop.command("case", "list", "--json").stdout)
    assert listed["calls"]["on"] == {"1": [shop.one.node, shop.two.node], "a/b": [shop.one.node]}
    done = shop.command("case", "off", "calls", "--cases", "/nowhere")  # the note has all that is needed
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert (patterns(shop.one), patterns(shop.two)) == ({"step"}, set())
    shop.run("case", "off", "calls", "--id", "a/b")
    assert patterns(shop.one) == set()
    assert shop.run("case", "list")[0][3] == ""
    assert "is not on as 1, as far as is noted here" in shop.fails("case", "off", "calls")
    shop.run("stop", "shop-*")
    (path,) = (shop.place.path / "logs").glob("shop-1*.log")
    calls = [message[3] for message in log.read(path) if message[2] == "call"]
    assert [called[1] for called in calls if called[0] == "__main__"] == ["work"]


def test_a_case_runs_once(shop: Shop) -> None:
    assert [row[3] for row in shop.run("case", "run", "calls", "Function=nothing", "-n", "shop-1")] == ["0"]
    assert shop.run("case", "list")[0][3] == ""
    shop.run("case", "run", "flags", "-n", "shop-1", "-n", "shop-2")
    assert ["procs"] in [flags for _, flags in shop.two.ask("listener.host.component._flags")]
    rows = json.loads(shop.command("case", "run", "calls", "Function=work", "-n", "shop-1", "--json").stdout)
    assert rows == {"nodes": {shop.one.node: {"case": "calls", "is": "run", "answer": [1]}}, "errors": {}}


def test_nodes_that_do_not_trace_are_left_alone(shop: Shop) -> None:
    idle = shop.place.node("shop-3")
    shop.two.ask("runtime.suspend('lunch')")
    assert shop.two.ask("runtime.get_status()[1][1]") == ("suspended", "lunch")  # its request comes after the other
    rows = shop.run("case", "on", "calls", "Function=work", "-n", "shop-*", status=1)
    assert sorted(row[1] for row in rows) == [
        "calls",
        "not_tracing: it does not trace; begin that by 'inviso start'",
        "suspended: lunch",
    ]
    assert idle.ask("listener.about()['state']") is None
    assert "nobody of that name listens" in shop.fails("case", "run", "flags", "-n", "nobody")
    held = Control(name=f"other@{HOST}")
    try:
        held.add([shop.one.node], "other", {})
        assert "refused: it belongs to the control other" in shop.fails("case", "off", "calls")
    finally:
        held.remove(None, ends=False)
        held.close()
    assert shop.run("case", "list")[0][3] == "1"  # it is on there still
    shop.run("case", "off", "calls")
    assert patterns(shop.one) == set()


def test_processes_that_have_ended_and_come_again(shop: Shop) -> None:
    shop.run("case", "on", "calls", "Function=work", "-n", "shop-*")
    shop.two.kill(signal.SIGKILL)
    shop.two.wait()
    again = shop.place.node("shop-2")
    assert again.node == shop.two.node
    shop.run("start", "shop-2", "-p", "json")
    rows = dict((row[0], row[2]) for row in shop.run("case", "off", "calls"))
    assert rows == {shop.one.node: "off", again.node: "its process has ended"}
    shop.run("case", "on", "calls", "Function=work", "-n", "shop-1")
    shop.one.kill(signal.SIGKILL)
    shop.one.wait()
    assert shop.run("case", "list")[0][3] == ""
    shop.run("case", "on", "calls", "Function=step", "-n", "shop-2")  # nothing of it is left
    shop.run("stop", "shop-2")
    assert shop.run("case", "off", "calls") == [[again.node, "calls", "it traces no longer", ""]]


def test_off_by_variables_where_nothing_is_noted(shop: Shop) -> None:
    shop.run("case", "run", "calls", "Function=work", "-n", "shop-*")
    assert patterns(shop.one) == {"work"}
    shop.run("case", "off", "calls", "Function=work", "-n", "shop-1")
    assert (patterns(shop.one), patterns(shop.two)) == (set(), {"work"})
    shop.run("case", "run", "flags", "-n", "shop-1")
    shop.run("case", "on", "flags", "-n", "shop-1")
    assert "it has no file that switches it off" in shop.fails("case", "off", "flags")


def test_a_case_that_fails(shop: Shop) -> None:
    text = shop.fails("case", "on", "fails", "-n", "shop-1")
    assert (
        "fails.case, line 2: there is no function no_such_module.function" in text
        and "stays, until tracing ends" in text
    )
    assert [row[3] for row in shop.run("case", "list")] == ["", "", ""]
    (shop.folder / "fails.case").write_text("import os")
    assert "fails.case, line 1" in shop.fails("case", "run", "fails", "-n", "shop-1", status=2)
    (shop.folder / "fails.case").write_text(f'inviso.ctp_all(["{shop.one.node}", "nobody@x"])')
    assert "fails.case, line 1: the answer was" in shop.fails("case", "run", "fails", "-n", "shop-1")


WRONG = {
    "no variable": (["on", "calls", "-n", "x"], "'calls' needs a value of its variable Function; give Function=VALUE"),
    "other variable": (["run", "calls", "Modul=a", "-n", "x"], "'calls' has no variable 'Modul'; it has Function"),
    "malformed": (["run", "calls", "Function", "-n", "x"], "'Function' is no variable"),
    "no nodes": (["on", "flags"], "-n/--node"),
    "case": (["on", "flag", "-n", "x"], "there is no trace case 'flag'; there are calls, flags, fails"),
    "file": (["list", "--cases", "/nowhere"], "/nowhere can't be read"),
    "command": (["start"], "invalid choice: 'start'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_command_lines(place: Place, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    (place.path / "cases").write_text(CASES)
    for name, text in FILES.items():
        (place.path / name).write_text(text)
    words, why = WRONG[what]
    assert _case.main([*words, *([] if "--cases" in words else ["--cases", "cases"])]) == 2
    assert why in capsys.readouterr().err


def test_no_file_of_cases(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert _case.main(["list"]) == 2
    assert "pass --cases FILE, set INVISO_CASES" in capsys.readouterr().err
    (place.path / "pyproject.toml").write_text('[tool.inviso]\ncases = "cases"\n')
    (place.path / "cases").write_text(CASES)
    assert _case.main(["list"]) == 0
    assert not place.sockets.exists()  # it only reads


VALUES: dict[str, Any] = {
    "A=json.decoder": "json.decoder", "A=json": "json", "A=5": 5, "A='5'": "5", "A=[('a', 1)]": [("a", 1)],
    "A=None": None, "A=": "", "A=a=b": "a=b",
}  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
def test_values_of_variables(text: str) -> None:
    given = _case.parser().parse_args(["run", "calls", text, "-n", "x"])
    assert given.variables == [("A", VALUES[text])]


def test_a_broken_note_is_ignored(shop: Shop) -> None:
    shop.run("case", "on", "calls", "Function=work", "-n", "shop-*")
    (note,) = (shop.place.sockets / "cases").iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    note.write_text("open('x')")
    assert "as far as is noted here" in shop.fails("case", "off", "calls")
    note.unlink()
    note.symlink_to(shop.folder / "cases")  # a link is not followed
    assert shop.run("case", "list")[0][3] == ""
