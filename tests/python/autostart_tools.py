"""An interpreter in which the start files are installed, and programs that it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
from inviso import log

ROOT = Path(__file__).parents[2]
START_FILES = ROOT / "packaging" / "data" / "purelib"
LIMIT = 60

PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("INVISO_") and name != "PYTHONPATH"}


def make_interpreter(folder: Path) -> Path:
    """A virtual environment with the start files, and this package on the path."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    (site,) = folder.glob("lib/python3*/site-packages")
    for file in START_FILES.iterdir():
        if file.is_file():
            shutil.copy(file, site)
    (site / "inviso_path.pth").write_text(f"{Path(inviso.__file__).parents[1]}\n")
    return folder / "bin" / "python"


def run(python: Path, *words: object, cwd: Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a program. Its sockets are in a folder of the test's own."""
    command = [str(python), *map(str, words)]
    settings = {**PLAIN, "INVISO_DIR": str(cwd / "sockets"), **env}
    done = subprocess.run(command, cwd=cwd, env=settings, capture_output=True, text=True, timeout=LIMIT, check=False)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def write(folder: Path, name: str, text: str) -> Path:
    """A file that only its owner may write."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def config(folder: Path, *pairs: tuple[str, Any], name: str = "auto.config") -> Path:
    """A config file."""
    return write(folder, name, "".join(f"{pair!r}\n" for pair in pairs))


def standard(**parameters: Any) -> tuple[str, Any]:
    """The pair that names the standard initiator."""
    return "mfa", ("inviso_autostart_server", "init", [list(parameters.items())])


def calls(path: Path) -> list[tuple[str, str, Any]]:
    """The calls of a log, in order."""
    return [message[3] for message in _messages(path) if message[2] == "call"]


def _messages(path: Path) -> Iterator[Any]:
    for message in log.read(str(path)):
        if isinstance(message, tuple) and message[0] in ("trace", "trace_ts"):
            yield message
