"""Runs the command in a process of its own, alone or beside the bare interpreter."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

SUBJECTS = Path(__file__).parent / "subjects"
WORK = str(SUBJECTS / "tprof_work.py")
PLAIN = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR")}
LIMIT = 60


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "inviso", *map(str, words)]


def execute(words: list[str], cwd: Path | None = None, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=LIMIT, env={**PLAIN, **env}, check=False
    )


def tprof(*words: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return execute(command("tprof", *words), cwd, **env)


def both_ways(
    tmp_path: Path, *program: str | Path, options: tuple[str, ...] = (), stdin: str = "", flags: tuple[str, ...] = ()
) -> tuple[subprocess.CompletedProcess[str], str | None]:
    """Runs it by the interpreter and by the command, compares both, and returns the run and the report."""
    report = tmp_path / "report.txt"
    words = [str(w) for w in program]
    without = execute([sys.executable, *flags, *words], tmp_path, stdin)
    with_ = execute(
        [sys.executable, *flags, "-m", "inviso", "tprof", *options, "-o", str(report), *words], tmp_path, stdin
    )
    assert settled(with_.stdout) == settled(without.stdout)
    assert settled(with_.stderr) == settled(without.stderr)
    assert with_.returncode == without.returncode
    text = report.read_text() if report.exists() else None
    return with_, text or None


def settled(text: str) -> str:
    """The text without parts that differ from run to run: addresses and thread numbers."""
    return re.sub(r"0x[0-9a-f]+|started \d+", "N", text)


def script(tmp_path: Path, text: str, name: str = "prog.py") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def programs() -> dict[str, str]:
    """The programs of ``subjects/programs.txt`` by name."""
    parts = (SUBJECTS / "programs.txt").read_text().split("\n=== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def row(text: str, label: str) -> list[str]:
    """The figures of a row, without brackets."""
    lines = [line for line in text.splitlines() if line.startswith(label + " ")]
    assert len(lines) == 1, text
    return lines[0][len(label) :].replace("[", " ").replace("]", " ").split()


def opened_terminal() -> tuple[int, int]:
    """Both ends of a terminal. The test is skipped if there can be none."""
    try:
        return pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal is available here: {error}")


class Terminal:
    """A program whose standard streams are a terminal."""

    def __init__(self, words: list[str], **env: str) -> None:
        self.master, slave = opened_terminal()
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, close_fds=True, env={**PLAIN, "TERM": "xterm", **env}
        )
        os.close(slave)
        self.seen = ""

    def until(self, text: str) -> None:
        end = time.monotonic() + LIMIT
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], end - time.monotonic())
            assert ready, f"{text!r} did not come: {self.seen!r}"
            self.seen += os.read(self.master, 4096).decode()

    def rest(self) -> str:
        try:
            while data := os.read(self.master, 4096):
                self.seen += data.decode()
        except OSError:
            pass  # the terminal's other side is closed
        os.close(self.master)
        self.process.wait(LIMIT)
        return self.seen
