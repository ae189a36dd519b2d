"""Settings: the command line counts before the environment, that before the file; a wrong one says where it is from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from inviso import BadArg
from inviso._config import NAMES, effective, from_environment, pyproject

TABLE = """
[project]
name = "shop"
[tool.inviso]
node = "of-the-file"
allow = ["shop", "my_ovl"]
wait = 1
follow = true
"""


def test_the_nearest_file_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert pyproject(str(below)) == str(tmp_path / "pyproject.toml")
    found = effective(environ={}, folder=str(below))
    assert (found["node"].value, found["allow"].value, found["wait"].value) == ("of-the-file", ("shop", "my_ovl"), 1)
    assert found["follow"].value is True and found["node"].source == str(tmp_path / "pyproject.toml")
    assert found["timeout"].source == "default"


def test_order(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    environ = {"INVISO_NODE": "of-the-environment", "INVISO_ALLOW": "a, b.c,", "INVISO_FOLLOW": "no"}
    found = effective({"node": "given", "wait": None}, environ=environ, folder=str(tmp_path))
    assert {name: (each.value, each.source) for name, each in found.items() if name in ("node", "allow", "follow")} == {
        "node": ("given", "command line"),
        "allow": (("a", "b.c"), "INVISO_ALLOW"),
        "follow": (False, "INVISO_FOLLOW"),
    }
    assert found["wait"].value == 1


def test_a_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[tool.inviso]\nnode = "other"\n')
    found = effective(environ={"INVISO_CONFIG": str(tmp_path / "other.toml")}, folder=str(tmp_path))
    assert found["node"].value == "other"
    with pytest.raises(BadArg, match="can't be read"):
        effective(environ={"INVISO_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[tool.inviso]\nnode = 1", "node: 1 .*pyproject.toml. is wrong; give a text"),
        ("[tool.inviso]\nnodes = 'a'", "nodes: there is no such setting"),
        ("[tool]\ninviso = 1", "tool.inviso is no table"),
        ("[tool.inviso", "can't be read"),
        ("[tool.inviso]\nallow = 'shop'", "give a list of names of modules"),
        ("[tool.inviso]\nwait = true", "give a number of seconds"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BadArg, match=why):
        effective(environ={}, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"), [("INVISO_WAIT", "soon"), ("INVISO_WAIT", "-1"), ("INVISO_WAIT", "nan"), ("INVISO_FOLLOW", "perhaps")]
)
def test_wrong_variables(name: str, text: str) -> None:
    with pytest.raises(BadArg, match=name):
        from_environment({name: text})


def test_wrong_on_the_command_line() -> None:
    with pytest.raises(BadArg, match="command line"):
        effective({"timeout": "soon"}, environ={}, folder="/")
    with pytest.raises(BadArg, match="no such setting"):
        effective({"colour": "red"}, environ={}, folder="/")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(TABLE)
    os.chown(path, 65534, 65534)
    with pytest.raises(BadArg, match="is another user's"):
        effective(environ={}, folder=str(tmp_path))


def test_each_setting_has_a_variable() -> None:
    values = {"follow": "yes", "wait": "1", "timeout": "1"}
    environ = {f"INVISO_{name.upper()}": values.get(name, "x") for name in NAMES}
    assert set(from_environment(environ)) == set(NAMES)


def test_the_page(tmp_path: Path) -> None:
    """Its example sets each setting but one, which has no place in a project's file."""
    page = (Path(__file__).parents[2] / "docs" / "autostart.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(text)
    found = effective(environ={}, folder=str(tmp_path))
    assert [name for name, each in found.items() if each.source == "default"] == ["dir"]
    for name in NAMES:
        assert name == "dir" or f"INVISO_{name.upper()}" in text
