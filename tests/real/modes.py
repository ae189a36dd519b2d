"""Modes: how a program is started under a tool, and the tool's expected output."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SITE = Path(__file__).parent / "site"
Facts = Callable[[Path, Path, int], list[str]]
"""The faults of a run, by interpreter, folder of the run, and number of steps that the program reports."""


@dataclass(frozen=True, slots=True)
class Mode:
    """``words`` stand between the interpreter and the program, whose folder is the working directory."""

    name: str
    words: tuple[str, ...]
    facts: Facts
    env: dict[str, str] = field(default_factory=dict)
    says: str = "\0"
    """The beginnings of lines that the tool itself writes to standard error."""


def _counted(python: Path, folder: Path, steps: int) -> list[str]:
    profile = json.loads((folder / "profile.json").read_text())
    calls: Counter[str] = Counter()
    for row in profile["functions"]:
        calls[f"{row['module']}:{row['function']}/{row['arity']}"] += row["calls"]
    expected = {"__main__:step/1": steps}
    for line in (folder / "out").read_text().splitlines():
        if line.startswith("in children "):  # calls of child processes, which are measured, too
            name, number = line.split()[-2:]
            expected[name] = int(number)
    wrong = [f"the profile has {calls[name]} calls of {name}" for name in expected if calls[name] != expected[name]]
    text = (folder / "profile.txt").read_text()
    return wrong + [f"no row of {name} is in the table" for name in expected if name not in text]


BEHIND = "*** inviso trace stopped: it fell behind"
"""The messages of `trace` on a busy machine. A program never waits for its messages; when many are lost, tracing ends.
"""


UNMEASURED = "*** inviso trace: "
"""The last line of `trace` if a child is not Python: uvloop's subprocess is a shell."""


def _shown(python: Path, folder: Path, steps: int) -> list[str]:
    lines, lost = 0, False
    with open(folder / "calls.txt", "rb") as file:
        for line in file:
            lines += b" call __main__:step(" in line
            lost |= line.startswith((b"*** Dropped ", BEHIND.encode()))
    return [] if lost or lines == steps else [f"calls.txt shows {lines} calls of __main__:step"]


def _logged(python: Path, folder: Path, steps: int) -> list[str]:
    words = [python, "-m", "inviso", "log", "print", "calls.log"]
    lines, dropped = 0, BEHIND in (folder / "err").read_text(errors="replace")
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            lines += b" call __main__:step(" in line
            dropped |= line.startswith(b"*** ") and line.endswith(b" dropped\n")
    wrong = [f"inviso log print ends with status {reader.returncode}"] if reader.returncode else []
    return wrong if dropped or lines == steps else [*wrong, f"calls.log has {lines} calls of __main__:step"]


def _seen(what: str) -> Facts:
    def facts(python: Path, folder: Path, steps: int) -> list[str]:
        seen = json.loads((folder / "seen.json").read_text())
        wrong = [f"call_count of __main__:step/1 is {seen['steps']}"] if seen.get("steps", steps) != steps else []
        if seen.get("totals", [steps, steps]) != [steps, steps]:
            wrong.append(f"rows of call_time and call_memory have {seen['totals']} calls")
        wrong += [f"no {tag!r} came" for tag in NEEDED[what] if not seen["tags"].get(tag)]
        wrong += ["not all messages arrived"] if not seen.get("arrived", True) else []
        wrong += [f"the token is {seen['token']}"] if seen.get("token", ["label", "real"]) != ["label", "real"] else []
        return wrong

    return facts


NEEDED = {
    "flags": ["gc_minor_start", "gc_minor_end"],
    "calls": ["call", "return_from", "return_to", "exception_from"],
    "tokens": ["print"],
    "everything": ["print", "call", "return_from", "return_to", "gc_minor_start"],
}
TYPES = ("call_count", "call_time", "call_memory")


def _tprof(kind: str, *more: str) -> Mode:
    name = " ".join(["tprof", kind, *more])
    return Mode(
        name, ("-m", "inviso", "tprof", "-t", kind, *more, "--json", "profile.json", "-o", "profile.txt"), _counted
    )


def _trace(name: str, facts: Facts, *more: str, says: str = "\0") -> Mode:
    return Mode(name, ("-m", "inviso", "trace", "-p", "_", "--limit", "1000000000", *more), facts, says=says)


def _session(name: str) -> Mode:
    return Mode(name, (), _seen(name), {"PYTHONPATH": str(SITE), "INVISO_REAL_MODE": name})


UNTRACED = Mode("untraced", (), lambda python, folder, steps: [])
MODES = [
    *(_tprof(kind) for kind in TYPES),
    *(_tprof(kind, "--per-process") for kind in TYPES),
    _trace("trace", _shown, "-o", "calls.txt", says=UNMEASURED),
    _trace("trace to a log", _logged, "--exceptions", "--caller", "--time", "-o", "calls.log", says="*** inviso trace"),
    *(_session(name) for name in NEEDED),
]
