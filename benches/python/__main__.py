"""Measures the costs of tracing, beside their lower limits and beside other tools: python -m benches.python

All of it takes about a quarter of an hour. --quick takes a minute, to check that it works. Missing peers are left out
(python -m pip install -r benches/python/requirements.txt). Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import sysconfig
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from . import programs, report, runner, subjects, tools

_QUICK = ("calls", "tasks")
_QUICK_PROGRAMS = ("generators", "coroutines")
_ONCE = {
    "imports": (10, 3),
    "start_line": (10, 3),
    "arming": (7, 2),
    "sessions": (100_000, 10_000),
    "tasks": (1_000_000, 20_000),
}
_ROUNDS = {"threads": (9, 2), "passing": (21, 2), "programs": (9, 2)}
_PEERS = ("yappi", "viztracer", "tprof", "mistune", "docutils", "jinja2", "sympy", "networkx", "pyflakes")


def main() -> int:
    """Returns the exit status: 1 if a measurement failed or is void."""
    words = _words()
    every = tools.every()
    started = time.monotonic()
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": _machine(),
        "python": _python(),
        "packages": _packages(),
        "quick": words.quick,
        "rounds": words.rounds,
        "tools": {name: {"about": it.about, "one": it.one, "versus": it.versus} for name, it in every.items()},
        "subjects": {},
        "threads": {},
        "passing": {},
        "programs": {},
        "once": {},
        "failed": {},
    }
    for name in words.subjects:
        chosen = [tool for tool in words.tools if name in (every[tool].subjects or subjects.NAMES)]
        try:
            result["subjects"][name] = runner.interleaved(name, chosen, words.rounds, _say)
        except runner.Failed as error:
            result["failed"][name] = str(error)
    for job in words.once:
        _say(job)
        how_many = str((_ROUNDS.get(job) or _ONCE[job])[words.quick])
        try:
            if job == "programs":
                names = _QUICK_PROGRAMS if words.quick else programs.NAMES
                chosen = [tool for tool in programs.COLUMNS if tool in words.tools]
                result[job], failed = programs.measured(int(how_many), _say, names, chosen)
                result["failed"].update(failed)
            elif job in _ROUNDS:
                result[job] = runner.alone(job, how_many)
            else:
                result["once"][job] = runner.alone("once", job, how_many)
        except (runner.Failed, subprocess.TimeoutExpired) as error:
            result["failed"][job] = str(error)
    result["seconds"] = round(time.monotonic() - started)
    _say(f"took {result['seconds']} s")
    _write(words, result)
    measured = [*result["subjects"].values(), *result["programs"].values()]
    ill = [subject["wrong"] or subject["void"] for subject in measured]
    return int(bool(result["failed"] or any(ill)))


def _write(words: argparse.Namespace, result: dict[str, Any]) -> None:
    words.out.mkdir(parents=True, exist_ok=True)
    python = result["python"]
    stem = f"{'quick-' if words.quick else ''}{python['version']}{'t' if python['free_threaded'] else ''}"
    (words.out / f"{stem}.json").write_text(json.dumps(result, indent=1) + "\n")
    (words.out / f"{stem}.md").write_text(report.page(result))
    _say(f"{words.out / stem}.json and .md")
    print(report.page(result))
    if words.docs:
        full = [json.loads(path.read_text()) for path in words.out.glob("[0-9]*.json")]
        report.put_into(runner.ROOT / "docs" / "costs.md", full)


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benches.python", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    jobs = [*_ROUNDS, *_ONCE]
    parser.add_argument(
        "--quick", action="store_true", help=f"two rounds of {' and '.join(_QUICK)}, and little of the rest"
    )
    parser.add_argument("--rounds", type=int, help="how many count (11; --quick: 2)")
    parser.add_argument("--subjects", type=_list(subjects.NAMES), help=f"out of {','.join(subjects.NAMES)}, or nothing")
    parser.add_argument("--tools", type=_list(tools.every()), help=f"out of {','.join(tools.every())}")
    parser.add_argument("--once", type=_list(jobs), default=jobs, help=f"out of {','.join(jobs)}, or nothing")
    parser.add_argument("--out", type=Path, default=runner.ROOT / "target" / "costs", help="folder of the results")
    parser.add_argument("--docs", action="store_true", help="put all full results of the folder into docs/costs.md")
    words = parser.parse_args()
    if words.docs and words.quick:
        parser.error("a quick run is not for the page: drop --docs or --quick")
    if words.rounds is None:
        words.rounds = 2 if words.quick else 11
    if words.rounds < 1:
        parser.error(f"--rounds: {words.rounds} is too few")
    if words.subjects is None:
        words.subjects = list(_QUICK if words.quick else subjects.NAMES)
    words.tools = words.tools or list(tools.every())
    return words


def _list(known: Any) -> Any:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return parse


def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    release = ".".join(platform.release().split(".")[:2])
    return {"cpu": cpu, "cores": cores, "system": f"{platform.system()} {release}", "load": round(load, 2)}


def _python() -> dict[str, Any]:
    return {
        "version": platform.python_version(),
        "numbers": list(sys.version_info[:3]),
        "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        "flags": " ".join(word for word in str(sysconfig.get_config_var("OPT") or "").split() if word.startswith("-O")),
    }


def _packages() -> dict[str, str]:
    found = {}
    for name in _PEERS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _say(what: str) -> None:
    print(f"# {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
