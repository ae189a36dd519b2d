"""A service under all parts of the package, for as long as one likes: what it holds does not grow.

    python -m tests.python.soak --seconds 600 [--period 20] [--seed 7] [--leak threads,memory] [--works tokens,ports]

One program (``subjects/soaked.py``) has tasks, threads, queues and sockets, and traces them by sessions that come and
go, tokens, trace ports to files and sockets, flight recorders, and a runtime component. The process of this module
controls it: a control comes, traces, copies the log, and goes.

After each period everything rests, and a line tells what both processes hold: resident memory, Python's and the C
library's memory in use, descriptors, threads, and the program's known processes, ports, sessions and registered names.
The first periods are the warm-up. At the end each number is compared over the periods after it: the growth is the
median of the slopes between two periods, times the number of periods, so one odd period does not count. The status is
1 if a number has grown by more than it may, and the last lines say which, by how much, and what is new.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import inviso
from inviso import Cluster, log
from waiting import until

HERE = str(Path(__file__).parent)
SERVICE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from subjects import soaked; soaked.main()"
LEAKS = ["descriptors", "threads", "memory", "processes", "sessions"]
LIMIT = 120.0
"""Seconds that the service may take to come to rest."""

LEAST = 3
"""Periods that are compared, at least."""

SETTLED = 10.0
"""Seconds that threads and descriptors get to go away after that."""

MIB = 1 << 20


@dataclass(frozen=True)
class Number:
    """A number that stays flat, and by how much it may grow in all: what is allocated jitters, what is counted not."""

    name: str
    may: float
    unit: int = 1
    share: float = 0.0
    """The part of the first value that it may grow by, if that is more."""

    def most(self, first: float) -> float:
        return max(self.may, self.share * first)

    def text(self, value: float) -> str:
        return f"{value / self.unit:.1f} MiB" if self.unit == MIB else f"{value:,.0f}"


NUMBERS = [
    Number("resident", 4 * MIB, MIB, 0.05),
    Number("heap", 1 * MIB, MIB, 0.05),
    Number("blocks", 10_000, 1, 0.05),
    Number("descriptors", 0.5),
    Number("threads", 0.5),
    Number("processes", 0.5),
    Number("ports", 0.5),
    Number("sessions", 0.5),
    Number("registered", 0.5),
]


@dataclass
class Rest:
    """What a process holds at rest."""

    values: dict[str, int]
    files: list[str]
    threads: list[str]


@dataclass
class Grown:
    """The verdict over one process."""

    who: str
    values: dict[str, list[int]] = field(default_factory=dict)
    """The values of each number, and not more: a list of what it held would itself grow."""
    ends: list[Rest] = field(default_factory=list)
    """The first and the last."""

    def add(self, rest: Rest) -> None:
        self.ends = [*self.ends[:1], rest]
        for name, value in rest.values.items():
            self.values.setdefault(name, []).append(value)

    def faults(self) -> list[str]:
        """One text for each number that has grown."""
        return [text for number in NUMBERS if (text := self._fault(number))]

    def _fault(self, number: Number) -> str:
        values = self.values.get(number.name, [])
        grown = growth(values)
        most = number.most(values[0]) if values else 0
        if grown <= most:
            return ""
        text = f"{self.who}: {number.name} grew by {number.text(grown)} in {len(values)} periods, and may grow by "
        text += f"{number.text(most)}: " + ", ".join(number.text(value) for value in values)
        if number.name in ("descriptors", "threads"):
            first, last = (
                collections.Counter(rest.files if number.name == "descriptors" else rest.threads)
                for rest in (self.ends[0], self.ends[-1])
            )
            new = (last - first).most_common(10)
            text += "; new: " + ", ".join(f"{many} of {name}" for name, many in new)
        return text


def growth(values: list[int]) -> float:
    """How much these grow from the first to the last; one value that stands out does not count.

    >>> growth([5, 5, 5, 5]), growth([5, 5, 900, 5, 5]), growth([5, 6, 7, 8])
    (0, 0, 3)
    """
    slopes = [(values[k] - values[n]) / (k - n) for n, k in combinations(range(len(values)), 2)]
    return statistics.median(slopes) * (len(values) - 1) if slopes else 0


# what the system tells


def _files(pid: int | str) -> list[str]:
    """What each descriptor of a process refers to, without numbers of sockets and pipes."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(each).partition(":[")[0])
    return found


def _threads(pid: int | str) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found.append((each / "comm").read_text().strip())
    return found


def _resident(pid: int | str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nVmRSS:")[2].split()[0]) * 1024


def rest_of(pid: int | str, before: Rest | None, more: dict[str, int]) -> Rest:
    """What a process holds, as soon as it has no more threads and descriptors than before; else after a time."""
    with suppress(AssertionError):
        until(
            lambda: (
                before is not None
                and len(_files(pid)) <= len(before.files)
                and len(_threads(pid)) <= len(before.threads)
            ),
            SETTLED if before is not None else 1.0,
        )
    files, threads = _files(pid), _threads(pid)
    values = {"resident": _resident(pid), "descriptors": len(files), "threads": len(threads), **more}
    return Rest(values, files, threads)


# one run


class Soak:
    """The service, and the controls that come and go."""

    def __init__(self, folder: Path, seed: int, leak: str, works: str) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self._controls = 0
        self._is_left = False
        """Whether the last control has left the service tracing."""
        self.counts: dict[str, int] = {}
        self.faults: list[str] = []
        os.environ["INVISO_DIR"] = str(folder / "sockets")
        self._errors = folder / "errors"
        with self._errors.open("wb") as errors:
            self.service = subprocess.Popen(
                [sys.executable, "-c", SERVICE, HERE, "soaked", str(folder), str(seed), leak, works],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                # with an arena for each thread, the memory that glibc keeps grows for an hour before it is flat
                env={**os.environ, "MALLOC_ARENA_MAX": "1"},
            )  # fmt: skip
        assert self._answer() == "ready", self.errors()

    def errors(self) -> str:
        """The service's standard error."""
        return self._errors.read_text(errors="replace")

    def _answer(self) -> str:
        assert self.service.stdout is not None
        ready = select.select([self.service.stdout], [], [], LIMIT)[0]
        assert ready, f"the service does not answer within {LIMIT} s: {self.errors()}"
        line = self.service.stdout.readline().decode().strip()
        assert line, f"the service has ended: {self.errors()}"
        return line

    def _tell(self, word: str) -> None:
        assert self.service.stdin is not None
        self.service.stdin.write(word.encode() + b"\n")

    def period(self, seconds: float) -> dict[str, int]:
        """Everything runs for this time, then rests. Returns what the service says that it holds."""
        end = time.monotonic() + seconds
        self._tell("go")
        while time.monotonic() < end:
            self._control(ends=False)
        self._control(ends=True)
        self._tell("rest")
        told = json.loads(self._answer())
        self.counts = told["counts"] | {"controls": self._controls}
        self.faults = told["faults"]
        return {name: told[name] for name in [number.name for number in NUMBERS] if told.get(name) is not None}

    def _control(self, ends: bool) -> None:
        """A control comes and goes. If it need not end the component, it may leave it to the next."""
        logs = self._folder / "copies"
        with Cluster("soaked", timeout=LIMIT) as cluster:
            assert cluster.nodes, f"the control has no node: {cluster.refused.errors}"
            if self._is_left:
                cluster.stop().check()
                self._is_left = False
            if not ends and self._dice.random() < 0.2:
                cluster.count("subjects.services", "queue", type="call_time").check()
                cluster.counts().check()
            cluster.trace(
                "subjects.soaked:step", arguments=True, messages=self._dice.random() < 0.3, folder=logs
            ).check()
            cluster.status().check()
            time.sleep(self._dice.random() * 0.3)
            if not ends and self._dice.random() < 0.2:
                cluster.leave()
                self._is_left = True
            else:
                for each in cluster.stop().check().values():
                    assert sum(1 for message in log.read(each["log"]) if not isinstance(message, log.Damage)) > 0
        self._controls += 1
        for folder in (logs, self._folder / "logs"):
            shutil.rmtree(folder, ignore_errors=True)

    def end(self) -> None:
        """Ends the service in any case."""
        with suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._tell("end")
            self.service.wait(SETTLED)
        self.service.kill()
        self.service.communicate()


def run(
    folder: Path,
    seconds: float,
    period: float,
    seed: int,
    say: Callable[[str], object],
    leak: str = "",
    works: str = "",
) -> list[str]:
    """One run: returns what has grown, or went wrong; no text if nothing."""
    service, control = Grown("the service"), Grown("the control")
    soak = Soak(folder, seed, leak, works)
    before: tuple[Rest | None, Rest | None] = (None, None)
    began = time.monotonic()
    try:
        while (now := time.monotonic() - began) < seconds or len(service.values.get("resident", [])) < LEAST:
            told = soak.period(period)
            gc.collect()  # as the service does; else the free-threaded collector leaves cycles for hours
            here = {"blocks": sys.getallocatedblocks(), "processes": len(inviso.processes())}
            rests = rest_of(soak.service.pid, before[0], told), rest_of("self", before[1], here)
            is_warm = before[0] is not None and now >= seconds / 4
            if is_warm:
                service.add(rests[0])
                control.add(rests[1])
            else:
                before = rests
            say(f"{time.monotonic() - began:6.0f} s  {'' if is_warm else '(warm-up) '}{_line(rests[0])}")
            say(f"          control: {_line(rests[1])}")
        say("done: " + ", ".join(f"{many:,} {name}" for name, many in soak.counts.items()))
        return [*soak.faults, *service.faults(), *control.faults()]
    finally:
        soak.end()
        if text := soak.errors():
            say(f"errors of the service:\n{text[-4000:]}")


def _line(rest: Rest) -> str:
    shown = [(number, rest.values[number.name]) for number in NUMBERS if number.name in rest.values]
    return ", ".join(f"{number.name} {number.text(value)}" for number, value in shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--hours", type=float, help="in place of --seconds")
    parser.add_argument("--period", type=float, default=20, help="seconds between two lines")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--leak", default="", help=f"the service leaks on purpose, some of {','.join(LEAKS)}")
    parser.add_argument("--works", default="", help="only these works of the service, such as tokens,ports")
    given = parser.parse_args()
    seconds = given.seconds if given.hours is None else given.hours * 3600
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        faults = run(
            Path(folder),
            seconds,
            given.period,
            given.seed,
            lambda text: print(text, flush=True),
            given.leak,
            given.works,
        )
    for fault in faults:
        print(f"GROWN: {fault}" if " grew by " in fault else f"WRONG: {fault}")
    print("it has grown" if faults else "flat")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
