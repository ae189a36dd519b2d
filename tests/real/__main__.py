"""Runs real programs untraced and under each tool, and compares output and exit status; and real services under Inviso.

    python -m tests.real [--long] [PYTHON ...]

Each interpreter (this one by default) gets a virtual environment of its own, ``.venv-real-VERSION``, with this package
and the libraries of ``requirements.txt``. The short form runs each program in a sixth of the modes; the number of
commits says which. The long form runs each program in all modes, and untraced once more. Either form runs all services.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .modes import MODES, UNTRACED, Mode
from .runs import Program, differences, run, run_service

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WHOLE = ("3.11", "3.12", "3.13")
"""Versions that have a build of each library: nothing is left out."""
PROGRAMS = [
    "sklearn", "celery", "pandas", "fastapi", "django", "sqlalchemy", "aiohttp", "flask", "gevent", "pydantic", "numpy",
    "orjson", "lxml",
]  # fmt: skip
"""The one that takes longest comes first."""
SERVICES = [("shop",), ("shop", "run"), ("pools",), ("gunicorn",), ("uvicorn",), ("autostart",)]
"""Scripts of the folder ``services``, which end with status 0, and their words."""
VERSION = """
import sys, sysconfig
print("%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter with the libraries, but for the missing ones, which have no build for its version."""

    python: Path
    version: str
    missing: list[str]


def version_of(python: str | Path) -> str:
    return subprocess.run([python, "-c", VERSION], capture_output=True, text=True, check=True).stdout.strip()


def made(python: str) -> Interpreter:
    """Makes the interpreter's virtual environment."""
    version = version_of(python)
    own = ROOT / f".venv-real-{version}" / "bin" / "python"
    subprocess.run([ROOT / "scripts" / "ready.sh", python, own.parent.parent, "."], check=True)
    pip: list[str | Path] = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-compile", "--no-deps", "--only-binary", ":all:"]
    needed = HERE / "requirements.txt"
    if version in WHOLE:
        subprocess.run([*pip, "-r", needed], check=True)
        return Interpreter(own, version, [])
    missing = []
    for requirement in needed.read_text().splitlines():
        if "==" in requirement and subprocess.run([*pip, requirement], capture_output=True, check=False).returncode:
            missing.append(requirement)
    return Interpreter(own, version, missing)


class Stage:
    """The runs of all interpreters, several at a time."""

    def __init__(self, modes: Callable[[int, int], list[Mode]], only: list[str], jobs: int) -> None:
        self._modes = modes
        """Of a program and an interpreter, by their numbers."""
        self._only = only
        self._pool = ThreadPoolExecutor(jobs)
        self._lock = threading.Lock()
        self.passed = self.failed = self.skipped = 0

    def begin(self, number: int, found: Interpreter) -> list[Future[None]]:
        """Queues the runs of one interpreter."""
        jobs = []
        for index, name in enumerate(PROGRAMS):
            program = Program(found.python, found.version, HERE / "programs" / f"{name}_program.py")
            modes = [mode for mode in self._modes(index, number) if self._is_wanted(f"{name} {mode.name}")]
            if modes:
                jobs.append(self._pool.submit(self._look, program, modes, found.missing))
        services = [each for each in SERVICES if self._is_wanted(f"service {' '.join(each)}")]
        return jobs + [self._pool.submit(self._serve, found, *each) for each in services]

    def _is_wanted(self, name: str) -> bool:
        return not self._only or any(words in name for words in self._only)

    def _look(self, program: Program, modes: list[Mode], missing: list[str]) -> None:
        """Runs one program untraced, then in each mode; prints its row."""
        head = f"{program.version:5} {program.name:11}"
        plain = run(program, UNTRACED)
        if missing and "ModuleNotFoundError" in plain.err:
            why = f"{plain.err.splitlines()[-1]} (no build of {', '.join(missing)})"
            self._show(f"{head} left out: {why}", skipped=1)
            return
        if plain.wrong or plain.crashed or plain.status in (0, 1):
            why = f"FAILED untraced, exit status {plain.status} {plain.wrong}"
            self._show(f"{head} {why}\n{plain.err[-4000:]}", failed=1)
            return
        cells, texts = [], []
        for mode in modes:
            traced = run(program, mode)
            wrong = differences(plain, traced)
            cells.append(f"{mode.name} {traced.seconds:.1f}{' FAILED' if wrong else ''}")
            if wrong:
                where = f"{program.name}, {mode.name}, Python {program.version}"
                texts.append(f"\n{where}:\n  {wrong}\n  again: {traced.again}{traced.dump()}\n")
        row = f"{head} {plain.seconds:5.1f} | {' | '.join(cells)}"
        self._show("\n".join([row, *texts]), len(modes) - len(texts), len(texts))

    def _serve(self, found: Interpreter, name: str, *words: str) -> None:
        """Runs the script of one service; prints its row."""
        head = f"{found.version:5} service {' '.join([name, *words]):12}"
        status, said, seconds = run_service(found.python, HERE / "services" / f"{name}_service.py", *words)
        if found.missing and "ModuleNotFoundError" in said:
            self._show(f"{head} left out: no build of {', '.join(found.missing)}", skipped=1)
        elif status:
            again = f"{found.python} {HERE}/services/{name}_service.py {' '.join(words)}"
            self._show(f"{head} FAILED, exit status {status}; again: {again}\n{said[-4000:]}", failed=1)
        else:
            self._show(f"{head} {seconds:5.1f}", passed=1)

    def _show(self, text: str, passed: int = 0, failed: int = 0, skipped: int = 0) -> None:
        with self._lock:
            print(text, flush=True)
            self.passed += passed
            self.failed += failed
            self.skipped += skipped


def chosen(program: int, interpreter: int, turn: int) -> list[Mode]:
    """The short form's modes of a program: others with each interpreter and at each turn, all of them in six."""
    return MODES[(program + interpreter + turn) % 6 :: 6]


def commits() -> int:
    done = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=str(__doc__).partition("\n")[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=[sys.executable], help="default: this one")
    parser.add_argument("--long", action="store_true", help="all modes of each program")
    parser.add_argument("--ready", action="store_true", help="install nothing: each PYTHON has what is needed")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="runs with it in 'PROGRAM MODE'")
    parser.add_argument("--turn", type=int, help="the short form's (default: commits)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    options = parser.parse_args()
    turn = commits() if options.turn is None else options.turn
    began = time.monotonic()
    form = "long form" if options.long else f"short form, turn {turn}"
    print(f"== real programs, {form}: seconds untraced, and in each mode", flush=True)
    every = [*MODES, UNTRACED]
    modes = (lambda *_: every) if options.long else lambda program, number: chosen(program, number, turn)
    stage = Stage(modes, options.only, options.jobs)
    jobs = []
    for number, python in enumerate(options.pythons):
        own = Path(shutil.which(python) or python).absolute()
        jobs += stage.begin(number, Interpreter(own, version_of(own), []) if options.ready else made(python))
    for job in jobs:
        job.result()
    print(f"== {time.monotonic() - began:.0f} s")
    print(f"{stage.passed} passed, {stage.failed} failed" + (f", {stage.skipped} skipped" if stage.skipped else ""))
    return 1 if stage.failed or not stage.passed else 0


if __name__ == "__main__":
    sys.exit(main())
