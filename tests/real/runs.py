"""One run of a program, and how it differs from an untraced one."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .modes import Mode

LIMIT = 120
"""Seconds for one run. A run that takes longer is ended, and its threads are shown."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program under one interpreter."""

    python: Path
    version: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.removesuffix("_program")


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has ended."""

    status: int | str
    out: str
    err: str
    seconds: float
    wrong: list[str]
    again: str
    """How to repeat it by hand."""

    @property
    def crashed(self) -> bool:
        return isinstance(self.status, str) or self.status < 0

    def dump(self) -> str:
        """The end of standard error after a crash or time-out: faulthandler shows the threads there."""
        return "".join(f"\n  {line[:300]}" for line in self.err.splitlines()[-60:]) if self.crashed else ""


def run(program: Program, mode: Mode) -> Done:
    """Runs a program in a folder and a process group of its own."""
    folder = Path(tempfile.mkdtemp(prefix="real-"))
    try:
        return _run(program, mode, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(program: Program, mode: Mode, folder: Path) -> Done:
    (folder / "seen").mkdir()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "COLUMNS": "80", "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE",  # a spinning thread keeps a core
        "PYTHONFAULTHANDLER": "1", "PYTHONHASHSEED": "0",
        "INVISO_REAL_SEEN": str(folder / "seen"), **mode.env,
    }  # fmt: skip
    words = [str(program.python), *mode.words, str(program.path)]
    began = time.monotonic()
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        child = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        status = _status(child)
    seconds = time.monotonic() - began
    with suppress(FileNotFoundError):
        (folder / "seen" / f"{child.pid}.json").rename(folder / "seen.json")
    text = _settled(folder / "out", folder)
    again = " ".join([*(f"{name}={value!r}" for name, value in mode.env.items()), *words])
    wrong = _facts(program, mode, folder, text)
    err = _settled(folder / "err", folder)
    err = "".join(line for line in err.splitlines(keepends=True) if not line.startswith(mode.says))
    return Done(status, text, err, seconds, wrong, again)


def run_service(python: Path, script: Path, *words: str) -> tuple[int | str, str, float]:
    """Runs a service's script in its own folder and process group. Returns exit status, output and seconds."""
    folder = Path(tempfile.mkdtemp(prefix="real-"))
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "INVISO"))}
    env = {**plain, "PYTHONFAULTHANDLER": "1", "INVISO_DIR": str(folder / "sockets"), "HOME": str(folder)}
    began = time.monotonic()
    try:
        with open(folder / "said", "wb") as said:
            child = subprocess.Popen(
                [python, script, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
            status = _status(child)
        return status, (folder / "said").read_text(errors="replace"), time.monotonic() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _status(child: subprocess.Popen[bytes]) -> int | str:
    """Waits for the program's end, then ends the processes that it has left running."""
    try:
        return child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)  # faulthandler shows all threads
        with suppress(subprocess.TimeoutExpired):
            child.wait(10)
        return f"(did not end in {LIMIT} s)"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _facts(program: Program, mode: Mode, folder: Path, text: str) -> list[str]:
    steps = re.findall(r"\bsteps (\d+)$", text, re.MULTILINE)
    if not steps:
        return ["the program does not say how many steps it made"]
    try:
        return mode.facts(program.python, folder, int(steps[-1]))
    except (OSError, ValueError, KeyError) as error:
        return [f"what the tool wrote can't be read: {error!r}"]


def _settled(path: Path, folder: Path) -> str:
    """A program's output, without parts that differ from run to run: addresses, times of day, its folder."""
    plain = path.read_text(errors="replace").replace(str(folder), "FOLDER")
    plain = re.sub(r"\b0x[0-9a-f]+", "ADDRESS", plain)
    return re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", plain)


def differences(plain: Done, traced: Done) -> str:
    """The faults of a traced run; empty if there are none."""
    parts = [*traced.wrong]
    if traced.status != plain.status:
        parts.insert(0, f"exit status {traced.status}, untraced {plain.status}")
    for name, a, b in (("standard output", plain.out, traced.out), ("standard error", plain.err, traced.err)):
        if a != b:
            lines = difflib.unified_diff(a.splitlines(), b.splitlines(), "untraced", "traced", lineterm="", n=1)
            parts.append("\n    ".join([f"{name} differs:", *(line[:300] for line in [*lines][:60])]))
    return "\n  ".join(parts)
