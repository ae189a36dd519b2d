"""Completion in shells: the files are generated from the command's options, and bash completes by them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import inviso
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(inviso.__file__).parent / "cli" / "completion"


def test_the_files_are_made_from_the_options_that_there_are() -> None:
    pytest.importorskip("shtab")
    spec = importlib.util.spec_from_file_location("completions", ROOT / "scripts" / "completions.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for path, text in made.written().items():
        assert path.read_text() == text, "run scripts/completions.py"


def carried_out(shell: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "inviso", "completion", shell]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_command_writes_them(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "inviso", "completion", shell], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, (FOLDER / shell).read_text(), "")


def test_another_shell_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "inviso", "completion", "csh"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "invalid choice: 'csh'" in done.stderr and not done.stdout


COMPLETED = {
    "inviso sta": {"status", "start"},
    "inviso tprof --t": {"--type", "--tree"},
    "inviso tprof --type call_t": {"call_time"},
    "inviso log ": {"print", "convert", "merge", "stats"},
    "inviso log print --f": {"--follow"},
    "inviso start --mess": {"--messages"},
    "inviso case o": {"on", "off"},
    "inviso case on --i": {"--id"},
    "inviso tf --flag re": {"receive", "return_to"},
    "inviso tprof -t call_time jo": {"job.py"},
}


@pytest.mark.parametrize("line", COMPLETED)
def test_bash_completes(line: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "other").touch()
    text = f"""
    source {FOLDER / "bash"}
    words=({line.rpartition(" ")[0]} "{line.rpartition(" ")[2]}")
    COMP_WORDS=("${{words[@]}}") COMP_CWORD=$((${{#words[@]}} - 1)) COMPREPLY=()
    _shtab_inviso inviso "${{words[-1]}}" "${{words[-2]}}"
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) == COMPLETED[line], done.stderr
