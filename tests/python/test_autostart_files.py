"""Writing and changing config files, and reading them back."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from autostart_tools import calls, make_interpreter, run, write
from inviso import BadArg, autostart
from inviso.autostart import _file
from inviso.autostart._file import Plan, Wrong, load, lock
from inviso.autostart._trust import opened
from inviso.terms import Atom

RULES = [
    (("inviso", "tpl", 5), ("inviso_rt", "tpl", ("erlang", "tl"))),
    (("inviso", "tf", 3), ("inviso_rt", "tf", ("erlang", "tl"))),
]


def test_a_file_that_is_set_up_starts_as_often_as_it_says(tmp_path: Path) -> None:
    """The example of Inviso's guide, from `setup_autostart` to the logs."""
    python = make_interpreter(tmp_path / "env")
    work = tmp_path / "work"
    work.mkdir()
    write(work, "prog.py", "def leaf(): pass\nleaf()\n")
    write(work, "a.case", "inviso.tpl(Nodes, M, '_', '_', MS)\ninviso.tf(Nodes, 'all', ['call'])\n")
    path = work / "auto.config"
    bindings = [("M", "__main__"), ("MS", [("_", [], [("return_trace",)])])]
    given: tuple[Any, ...] = (None, 2, [("dependency", "infinity")], ("file", "t.log"), [["a.case"]], bindings, RULES)
    assert autostart.setup_autostart(*given, file=str(path)) is None
    assert path.stat().st_mode & 0o777 == 0o600
    found = []
    for _ in range(3):
        run(python, "prog.py", cwd=work, INVISO_AUTOSTART="auto.config")
        found.append((work / "t.log").exists() and ("__main__", "leaf", []) in calls(work / "t.log"))
        (work / "t.log").unlink(missing_ok=True)
    assert found == [True, True, False]
    assert autostart.set_repeat(None, 1, file=str(path)) is None
    run(python, "prog.py", cwd=work, INVISO_AUTOSTART="auto.config")
    assert (work / "t.log").exists()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "auto.config")
    tracerdata = [("trace", ("file", ("a", "wrap", ".log"))), ("ti", ("file", 'it\'s "b"'))]
    cmdfiles = [["a"], [("b", [("X", Atom("x"))]), ("inviso", "tf", [1])]]
    assert (
        autostart.setup_autostart(None, None, [], tracerdata, cmdfiles, {"A": b"x"}, RULES, ("t", 1), "on", file=path)
        is None
    )
    parameters = [
        ("tracerdata", tracerdata), ("cmdfiles", cmdfiles), ("bindings", [("A", b"x")]), ("translations", RULES),
        ("debug", "on"),
    ]  # fmt: skip
    plan = load(path, counts=True)
    assert plan == Plan(mfa=("inviso.autostart", "init", [parameters]), options=[], tag=("t", 1), path=path)


def test_other_keys_stay(tmp_path: Path) -> None:
    path = write(tmp_path, "auto.config", "# mine\n('tag', Atom('x'))\n('repeat', 7)  # seven\n('own', [1,\n 2])\n")
    assert autostart.set_repeat(None, 3, file=str(path)) is None
    assert path.read_text() == "('repeat', 3)\n('tag', Atom('x'))\n('own', [1, 2])\n"
    assert autostart.inhibit_autostart(None, file=str(path)) is None
    assert path.read_text().startswith("('repeat', 0)\n('tag'")


def test_errors(tmp_path: Path) -> None:
    path = str(tmp_path / "auto.config")
    setup: Any = autostart.setup_autostart
    for node in ("elsewhere@far", "nonode@elsewhere"):
        assert setup(node, 1, [], "collector", [], [], [], file=path) == ("error", "not_supported")
        assert autostart.set_repeat(node, 1, file=path) == ("error", "not_supported")
        assert autostart.inhibit_autostart(node, file=path) == ("error", "not_supported")
    kind, (what, why) = setup(None, 1, [], "collector", [], [("F", object())], [], file=path)
    assert (kind, what) == ("error", "format") and "can't be written" in why
    assert autostart.set_repeat(None, 1, file=path) == ("error", ("consult", f"{path}: No such file or directory"))
    missing = str(tmp_path / "no" / "auto.config")
    assert setup(None, 1, [], "collector", [], [], [], file=missing) == (
        "error",
        ("write_file", "No such file or directory"),
    )
    write(tmp_path, "auto.config", "('repeat' 1)")
    kind, (what, why) = autostart.set_repeat(None, 1, file=path) or ("", ("", ""))
    assert (kind, what) == ("error", "consult") and why.startswith(f"{path}: line 1: ")
    assert os.listdir(tmp_path) == ["auto.config"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((None, "1"), "repeat"), ((None, 1, "overload"), "options"), ((7, 1), "node")],
)
def test_malformed_arguments(tmp_path: Path, arguments: tuple[Any, ...], name: str) -> None:
    given = (*arguments, [], "collector", [], [], [])[: max(len(arguments), 2)] + ([], "collector", [], [], [])[
        len(arguments) - 2 :
    ]
    with pytest.raises(BadArg) as caught:
        autostart.setup_autostart(*given, file=str(tmp_path / "a"))
    assert caught.value.argument == name
    assert os.listdir(tmp_path) == []


def test_own_node_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, "auto.config", "('tag', 1)\n")
    import inviso

    assert autostart.set_repeat(inviso.node(), 1, file=str(path)) is None
    assert path.read_text() == "('repeat', 1)\n('tag', 1)\n"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "inviso_autostart.config"),
        ("no", "inviso_autostart.config"),
        ("m:f", "inviso_autostart.config"),
        ("sub/my.config", "sub/my.config"),
    ],
)
def test_the_file_in_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INVISO_AUTOSTART", raising=False)
    if value is not None:
        monkeypatch.setenv("INVISO_AUTOSTART", value)
    assert autostart.which_config_file() == ("ok", str(tmp_path / name))


def test_a_link_is_followed_to_its_file(tmp_path: Path) -> None:
    """The counter changes in the link's target, and the link stays."""
    (tmp_path / "real").mkdir()
    path = write(tmp_path / "real", "auto.config", "('repeat', 2)\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    plan = load(str(link), counts=True)
    assert plan is not None and plan.path == str(path)
    assert link.is_symlink() and path.read_text() == "('repeat', 1)\n"


def test_children_spend_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "auto.config", "('repeat', 0)\n")
    assert load(str(path), counts=False) is not None
    assert load(str(path), counts=True) is None
    assert path.read_text() == "('repeat', 0)\n"


def test_a_counter_that_somebody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_file, "PATIENCE", 0.0)
    path = write(tmp_path, "auto.config", "('repeat', 1)\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(Wrong, match="another process holds its folder"):
            load(str(path), counts=True)
        assert autostart.set_repeat(None, 5, file=str(path)) == (
            "error", ("consult", f"{path}: another process holds its folder for 0 s"),
        )  # fmt: skip
    finally:
        os.close(folder)
    assert path.read_text() == "('repeat', 1)\n"
    with opened(str(path)) as place:
        lock(place)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "auto.config", 0o600)
    with pytest.raises(Wrong, match="it is no file"):
        load(str(tmp_path / "auto.config"), counts=True)
