"""Settings: the command line wins over the environment, the environment over the file. An error names the source."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from cli_tools import command, execute
from cli_tools import tprof as tprof_command
from inviso import BadArg, tprof
from inviso._config import CALL_TYPES, NAMES, effective, from_environment, pyproject
from inviso.cli import _config

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
        ("[tool]\ninviso = 1", "tool.inviso is not a table"),
        ("[tool.inviso", "can't be read"),
        ("[tool.inviso]\nallow = 'shop'", "give a list of names of modules"),
        ("[tool.inviso]\nwait = true", "give a number of seconds"),
        ("[tool.inviso]\npatterns = 'shop'", "patterns: 'shop' .*pyproject.toml. is wrong; give a list of patterns"),
        (
            "[tool.inviso]\npatterns = ['sh*p']",
            "patterns: .* is wrong: 'sh.p' has a '.' that stands for nothing; .*; give a list",
        ),
        ("[tool.inviso]\npatterns = []", "give a list of patterns"),
        ("[tool.inviso]\ntype = 'calls'", "type: 'calls' .* is wrong; give one of call_count, call_time, call_memory"),
        ("[tool.inviso]\nlimit = 0", "give a number from 1"),
        ("[tool.inviso]\nring_bytes = 1", "give a number from 4096"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BadArg, match=why):
        effective(environ={}, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("INVISO_LIMIT", "all"),
        ("INVISO_TYPE", "time"),
        ("INVISO_PATTERNS", "a:b:c"),
        ("INVISO_WAIT", "soon"),
        ("INVISO_WAIT", "-1"),
        ("INVISO_WAIT", "nan"),
        ("INVISO_FOLLOW", "perhaps"),
    ],
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
    values = {
        **dict.fromkeys(("limit", "messages", "events", "wait", "timeout"), "1"),
        "follow": "yes",
        "returns": "no",
        "ring_bytes": "4096",
    }
    values["type"] = "call_time"
    environ = {f"INVISO_{name.upper()}": values.get(name, "x") for name in NAMES}
    assert set(from_environment(environ)) == set(NAMES)


def test_the_page(tmp_path: Path) -> None:
    """Its example sets each setting but one, which doesn't belong in a project's file."""
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(text)
    found = effective(environ={}, folder=str(tmp_path))
    assert [name for name, each in found.items() if each.source == "default"] == ["dir"]
    for name in NAMES:
        assert name == "dir" or f"INVISO_{name.upper()}" in text


def test_the_types_are_those_of_profiles() -> None:
    assert set(CALL_TYPES) == set(tprof.UNITS)


def test_a_file_without_settings_is_not_read_further(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other")
    assert effective(environ={}, folder=str(tmp_path))["node"].source == "default"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with settings; the machine's variables are not used."""
    for name in NAMES:
        monkeypatch.delenv(f"INVISO_{name.upper()}", raising=False)
    monkeypatch.delenv("INVISO_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    text = '[tool.inviso]\npatterns = ["json.decoder"]\ntype = "call_time"\nlimit = 1\nmessages = 2\nfollow = false\n'
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "job.py").write_text("import json\nfor n in range(5): json.loads('[1]')\n")
    return tmp_path


def test_the_command_shows_values_and_sources(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INVISO_LIMIT", "7")
    assert _config.main([]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["patterns"] == ["json.decoder", str(project / "pyproject.toml")]
    assert rows["limit"] == ["7", "INVISO_LIMIT"] and rows["events"] == ["200", "default"] and rows["follow"][0] == "no"
    assert _config.main(["--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["limit"] == {"value": 7, "source": "INVISO_LIMIT"} and list(shown) == list(NAMES)
    monkeypatch.setenv("INVISO_LIMIT", "x")
    assert _config.main([]) == 2
    assert capsys.readouterr().err.startswith(
        "inviso config: limit: 'x' (INVISO_LIMIT) is wrong; give a number from 1\n"
    )


def test_profiles_and_traces_read_them(project: Path) -> None:
    (project / "pool.py").write_text(
        "import os, sys, subprocess\nsubprocess.run([sys.executable, 'job.py'], check=True)\n"
    )
    done = tprof_command("job.py", cwd=project)
    assert "call_time of job.py" in done.stderr and "smaller rows not shown" in done.stderr, done.stderr
    assert (
        "json.decoder:JSONDecoder.decode/3"
        in tprof_command("-t", "call_count", "--limit", "9", "job.py", cwd=project).stderr
    )
    assert "child process" not in tprof_command("pool.py", cwd=project).stderr  # follow is false
    done = execute(command("trace", "job.py"), cwd=project)
    assert "the limit of 2 messages was reached" in done.stderr and "call json.decoder" in done.stderr
    (project / "pyproject.toml").write_text("[tool.inviso]\npattern = ['shop']\n")
    for name in ("tprof", "trace"):
        done = execute(command(name, "job.py"), cwd=project)
        first = done.stderr.splitlines()[0]
        assert done.returncode == 2
        assert first.startswith(f"inviso {name}: pattern: there is no such setting ({project / 'pyproject.toml'})")
