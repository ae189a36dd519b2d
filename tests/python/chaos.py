"""Random faults of hosts, agents and traced programs: logs stay right, and nothing waits for ever.

    python -m tests.python.chaos --seconds 600 [--seed 7] [--agents 4] [--runtimes 40]

Some agents, each on a host of its own, reach each other through a proxy. The programs call ``step(0)``, ``step(1)``,
... and their calls are logged, to plain files and to wrap sets. A control on the first host has all programs.
Meanwhile, in sequence and at the same time:

* A program or an agent is killed with SIGKILL, and another begins; or it is stopped with SIGSTOP for a while.
* The connection of two hosts is cut, or delayed, for a while.
* A program can't write to its log, as on a full disk.
* A program makes more calls than can be logged; a log ends, and another one begins; nodes are asked for their state.

At the end all faults are repaired, and this is checked:

* Every log is readable to its last whole record. Each call is read once, in order, or a drop record at its place counts
  it. The oldest calls of a wrap set may be gone. The last record may be cut only if the program was killed, or had a
  full disk.
* A program that lives and is traced has all of its calls in its log: read + lost = produced. A killed program has at
  most these.
* The control reports the right state of each program, and has no other program.
* No call of the control took longer than it may, every process answers, and programs end as without tracing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from agent_tools import Host
from inviso import log
from inviso.agent._engine import LEASE
from inviso.agent._far import WINDOW
from inviso.control._control import Control
from waiting import until

SETTINGS = {"dependency": "infinity", "overload": None}
TIMEOUT = 2.0
"""Seconds that a node has to answer while anything may happen."""

SLACK = 10.0
"""Seconds that a call may take beside that: processes wait for a processor."""

LIMIT = 120.0
"""Seconds that anything may take when all is mended."""

CLOSED = 5_000
"""Bytes that a log may still grow on a disk that becomes full."""

PROGRAM = """
import mmap, os, select, signal, struct, sys
from inviso import runtime

signal.alarm(int(sys.argv[4]))  # whatever becomes of who started it
made = os.open(sys.argv[3], os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(made, 8)
number = mmap.mmap(made, 8)

def step(n):
    return n

def steps(count):
    global begun
    number[:] = struct.pack("q", begun + count)  # before: who is killed has not made more
    for n in range(begun, begun + count):
        step(n)
    begun += count

begun = each = 0
listener = runtime.listen(sys.argv[1], log_dir=sys.argv[2])
print("ready", flush=True)
while True:
    if not select.select([0], [], [], 0.1)[0]:
        steps(each)
        continue
    line = os.read(0, 100).decode()
    if not line:
        break
    for word in line.split():
        if word == "go":
            each = 10
        elif word == "halt":
            each = 0
        elif word == "state":
            component = listener.host.component
            print(begun, None if component is None else component.machine.both(), flush=True)
        else:
            steps(int(word))
"""


class Way:
    """A proxy between one host and the agent of another: a TCP port in front of its socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Path) -> None:
        self._loop = loop
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self.endpoint = asyncio.run_coroutine_threadsafe(self._listen(), loop).result(LIMIT)

    def cut(self) -> None:
        """Ends all connections, and refuses new ones."""
        self._loop.call_soon_threadsafe(self._cut)

    def hold(self) -> None:
        """Holds all data back. Neither side learns of it."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def mend(self) -> None:
        """Passes data again."""
        self._loop.call_soon_threadsafe(self._mend)

    def _cut(self) -> None:
        self._is_cut = True
        for task in self._tasks:
            task.cancel()

    def _mend(self) -> None:
        self._is_cut = False
        self._flows.set()

    async def _listen(self) -> str:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return "tcp/127.0.0.1:" + str(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        other = None
        try:
            if self._is_cut:
                return
            back, other = await asyncio.open_unix_connection(str(self._target))
            ways = [asyncio.create_task(self._pass(reader, other)), asyncio.create_task(self._pass(back, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for each in (writer, other):
                if each is not None:
                    each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


class Apart(Host):
    """A host whose agent is reached through proxies only: its socket is not at the announced place."""

    def start(self) -> None:
        super().start()
        os.replace(self.place / "zenoh", self.place / "hidden")


@dataclass
class Log:
    """A log that a program has to write."""

    path: Path
    is_wrapped: bool
    is_first: bool
    """Whether the program had made no call before it."""
    may_be_cut: bool = False
    """Whether its writer was killed, or had no space."""

    @property
    def source(self) -> Any:
        return (str(self.path), "wrap", ".log", 16_384, 4) if self.is_wrapped else str(self.path)


@dataclass
class Read:
    """The messages of a log."""

    calls: int = 0
    lost: int = 0
    first: int | None = None
    """The number of the first call, less the lost calls before it."""
    after: int = 0
    """The number after the last call, and after the lost calls there."""
    faults: list[str] = field(default_factory=list)


class Program:
    """A traced program."""

    def __init__(self, name: str, host: Host, life: float) -> None:
        self.host = host
        self.name = f"{name}@{host.name}"
        self.folder = host.place / name
        self.folder.mkdir()
        self.errors = self.folder / "errors"
        self.logs: list[Log] = []
        self.is_armed = False
        """Whether its calls surely go to its last log."""
        self.is_stopped = self.calls = False
        self._progress = self.folder / "progress"
        words = [name, str(self.folder / "logs"), str(self._progress), str(int(life))]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, **host.environment}, bufsize=0,
            )  # fmt: skip

    def answer(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], LIMIT)[0], f"{self.name} does not answer"
        return self.process.stdout.readline().decode().strip()

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it was killed just now
            self.process.stdin.write(word.encode() + b"\n")

    def go(self) -> None:
        """Makes it call ``step`` from now on."""
        self.calls = True
        self.tell("go")

    def state(self) -> tuple[int, Any]:
        """The number of calls that it has made, and the state of its component."""
        self.tell("state")
        produced, _, both = self.answer().partition(" ")
        return int(produced), both

    def has_file(self) -> bool:
        """Whether its last log is a plain file that exists."""
        return bool(self.logs) and self.logs[-1].path.is_file()

    def at_most(self) -> int:
        """An upper bound of its number of calls."""
        return int.from_bytes(self._progress.read_bytes(), "little")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def room(self, more: int | None) -> None:
        """The number of bytes by which its log may still grow; None: without a limit."""
        most = resource.RLIM_INFINITY if more is None else self.logs[-1].path.stat().st_size + more
        with suppress(ProcessLookupError):
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def read(one: Log) -> Read:
    """Reads a log, and checks that each call is there once, or counted as lost."""
    found, lost, last = Read(), 0, None
    for message in log.read(one.source):
        if last is not None:
            found.faults.append(f"{one.path}: {last}, and more comes after it")
        match message:
            case log.Damage():
                if message.kind != "cut" or not one.may_be_cut:
                    found.faults.append(f"{one.path}: {message}")
                last = message
            case ("drop", int(number)):
                lost += number
            case ("trace", _, "call", (_, "step", [int(number)])):
                if found.first is None:
                    found.first = number - lost
                elif number != found.after + lost:
                    why = f"{number} comes after {found.after - 1}, and {lost} are told as lost"
                    found.faults.append(f"{one.path}: {why}")
                found.after = number + 1
                found.calls += 1
                found.lost, lost = found.lost + lost, 0
            case _:
                found.faults.append(f"{one.path}: {message}")
    found.lost += lost
    found.after += lost
    return found


class Chaos:
    """One run."""

    def __init__(self, place: Path, seed: int, seconds: float, agents: int, runtimes: int) -> None:
        self._dice = random.Random(seed)
        """Random numbers for requests; faults have others."""
        self._ill = random.Random(seed + 1)
        self._place = place
        self._seconds = seconds
        self._began = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._count = 0
        self._mends: list[tuple[float, Callable[[], None]]] = []
        """Repairs, each with its time."""
        self._lock = threading.Lock()
        self.faults: list[str] = []
        self.done: Counter[str] = Counter()
        self.hosts: list[Host] = []
        self.ways: list[Way] = []
        self.programs: list[Program] = []
        self.ended: list[Program] = []
        self._busy: set[int] = set()
        """Hosts whose agent, or proxies, are disturbed."""
        for number in range(agents):
            targets = [host.place / "hidden" for host in self.hosts]
            ways = [Way(self._loop, target) for target in targets]
            self.ways += ways
            endpoint = f"unixsock-stream/{place}/host-{number}/zenoh"
            connect = tuple(way.endpoint for way in ways)
            self.hosts.append(Apart(f"host-{number}", place / f"host-{number}", connect, endpoint=endpoint))
        os.environ.update(self.hosts[0].environment)
        self.control = Control(name="chaos@host-0", timeout=LIMIT)
        self.events: deque[tuple[float, Any]] = deque(maxlen=1000)
        self.control.subscribe(lambda event: self.note(event[3]))
        until(lambda: all(host.status()["connections"] == agents - 1 for host in self.hosts), LIMIT)
        self._begin(runtimes)
        self.control.timeout = TIMEOUT

    def note(self, what: Any) -> None:
        """Notes an event. The last events are printed if something was wrong."""
        self.events.append((time.monotonic() - self._began, what))

    # programs

    def _more(self, count: int) -> list[Program]:
        """Begins this many more programs, on the hosts in turns."""
        new = []
        for _ in range(count):
            host = self.hosts[self._count % len(self.hosts)]
            new.append(Program(f"p{self._count}", host, self._seconds + 10 * LIMIT))
            self._count += 1
        for program in new:
            assert program.answer() == "ready"
        self.programs += new
        return new

    def _begin(self, count: int) -> None:
        """Begins this many programs, and traces them before they call anything."""
        new = self._more(count)
        names = [program.name for program in new]
        until(lambda: set(names) <= self._known(), LIMIT)
        self._reach(new)
        self._trace(new)
        for program in new:
            program.go()

    def _known(self) -> set[str]:
        return {*self.control.folder().names(), *(name for _, _, name in self.control._elsewhere(["*"]))}

    def _reach(self, programs: list[Program]) -> list[Any]:
        """Adds these programs to the control, if they can be reached."""
        names = [program.name for program in programs if program.name not in self.control.nodes()]
        # until its agent has it, and until the node answers
        return self._timed("add", 2 * self.control.timeout, lambda: self.control.add(names, "chaos", SETTINGS))

    def _trace(self, programs: list[Program]) -> None:
        """Has them write new logs."""
        for program in programs:
            is_first = not program.calls
            is_wrapped = self._dice.random() < 0.3
            program.logs.append(Log(program.folder / "logs" / f"log-{len(program.logs)}", is_wrapped, is_first))
            program.is_armed = False
        specs = [(program.name, [("file", self._spec(program.logs[-1]))]) for program in programs]
        begin = partial(self.control.call_each, specs, "init_tracing")
        begun = dict(self._timed("init_tracing", self.control.timeout, begin))
        names = [name for name, answer in begun.items() if answer[0] == "ok"]
        patterns = dict(self._call(names, "tpl", [("__main__", "step", "_", True)]))
        flags = dict(self._call(names, "tf", [("all", ["call"])]))
        for program in programs:
            program.is_armed = patterns.get(program.name) == ("ok", [1]) and flags[program.name][0] == "ok"
            if not program.is_armed:
                self.done["a log that was not begun in order"] += 1

    def _spec(self, one: Log) -> Any:
        return (one.path.name, "wrap", ".log", 16_384, 4) if one.is_wrapped else one.path.name

    def _call(self, names: list[str], request: str, *arguments: Any) -> list[Any]:
        return self._timed(request, self.control.timeout, lambda: self.control.call(names, request, *arguments))

    def _timed(self, what: str, most: float, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        result = work()
        took = time.monotonic() - began
        if took > most + SLACK:
            self.faults.append(f"{what} took {took:.1f} s, and may take {most} s")
        return result

    # events

    def run(self) -> None:
        """Causes events until the time is over: one thread breaks and repairs, this one makes the control's
        requests.
        """
        end = time.monotonic() + self._seconds
        breaks = threading.Thread(target=self._break, args=(end,))
        breaks.start()
        self._happen(end, self._dice, [(3, self._burst), (3, self._renew), (2, self._fill_disk), (4, self._ask)])
        breaks.join(self._seconds + LIMIT)
        assert not breaks.is_alive()
        self._mend(float("inf"))

    def _break(self, end: float) -> None:
        kinds = [
            (3, self._kill_program), (3, self._stop_program), (2, self._kill_agent), (2, self._stop_agent),
            (3, self._part),
        ]  # fmt: skip
        try:
            self._happen(end, self._ill, kinds)
        except BaseException as error:
            self.faults.append(f"{type(error).__name__}: {error}")
            raise

    def _happen(self, end: float, dice: random.Random, kinds: list[tuple[int, Callable[[], None]]]) -> None:
        weights, works = zip(*kinds, strict=True)
        while time.monotonic() < end:
            if dice is self._ill:
                self._mend(time.monotonic())
            (work,) = dice.choices(works, weights)
            work()
            time.sleep(dice.uniform(0, 1.0 if dice is self._ill else 0.3))

    def _mend(self, now: float) -> None:
        with self._lock:
            due = [work for when, work in self._mends if when <= now]
            self._mends = [each for each in self._mends if each[0] > now]
        for work in due:
            work()
            self.note(f"mended: {getattr(work, '__qualname__', work)}")

    def _later(self, dice: random.Random, most: float, work: Callable[[], None]) -> None:
        with self._lock:
            self._mends.append((time.monotonic() + dice.uniform(0.1, most), work))

    def _some(self, dice: random.Random) -> Program | None:
        """A program that is not stopped; None if all are."""
        return dice.choice([program for program in list(self.programs) if not program.is_stopped] or [None])

    def _kill_program(self) -> None:
        program = self._ill.choice(self.programs)
        program.signal(signal.SIGKILL)
        program.process.wait(LIMIT)
        self.programs.remove(program)
        self.ended.append(program)
        self._more(1)[0].go()  # it is traced from the moment that it begins a log
        self.done["programs killed"] += 1
        self.note(f"programs killed: program {program.name}")

    def _stop_program(self) -> None:
        program = self._some(self._ill)
        if program is None:
            return
        program.is_stopped = True
        program.signal(signal.SIGSTOP)

        def go_on() -> None:
            program.is_stopped = False
            program.signal(signal.SIGCONT)

        self._later(self._ill, 4, go_on)
        self.done["programs stopped"] += 1
        self.note(f"programs stopped: program {program.name}")

    def _host(self) -> int | None:
        """Chooses a host whose agent is undisturbed, to disturb it."""
        number = self._ill.choice([number for number in range(len(self.hosts)) if number not in self._busy] or [None])
        if number is not None:
            self._busy.add(number)
        return number

    def _kill_agent(self) -> None:
        number = self._host()
        if number is None:
            return
        host = self.hosts[number]
        host.end(signal.SIGKILL)

        def start() -> None:
            host.start()
            self._busy.discard(number)

        self._later(self._ill, 3, start)
        self.done["agents killed"] += 1
        self.note(f"agents killed: {host.name}")

    def _stop_agent(self) -> None:
        number = self._host()
        if number is None:
            return
        host = self.hosts[number]
        host.agent.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            host.agent.send_signal(signal.SIGCONT)
            self._busy.discard(number)

        self._later(self._ill, 5, go_on)
        self.done["agents stopped"] += 1
        self.note(f"agents stopped: {host.name}")

    def _part(self) -> None:
        way = self._ill.choice(self.ways)
        if self._ill.random() < 0.5:
            way.cut()
            self.done["ways cut"] += 1
            self.note(f"way {self.ways.index(way)} cut")
        else:
            way.hold()
            self.done["ways held"] += 1
            self.note(f"way {self.ways.index(way)} held")
        self._later(self._ill, 5, way.mend)

    def _fill_disk(self) -> None:
        program = self._some(self._dice)
        if program is None or not program.is_armed or program.logs[-1].is_wrapped:
            return
        program.logs[-1].may_be_cut = True
        program.is_armed = False
        program.room(CLOSED)
        self._later(self._dice, 4, lambda: program.room(None))
        self.done["disks filled"] += 1

    def _burst(self) -> None:
        program = self._some(self._dice)
        if program is not None:
            program.tell("20000")
            self.done["bursts"] += 1

    def _renew(self) -> None:
        program = self._some(self._dice)
        if program is None:
            return
        program.is_armed = False
        self._reach([program])
        if dict(self._call([program.name], "stop_tracing"))[program.name][0] == "ok":
            self._trace([program])
            self.done["logs begun"] += 1

    def _ask(self) -> None:
        for _, answer in self._call([program.name for program in list(self.programs)], "get_status"):
            why = answer[1] if isinstance(answer[1], str) else answer[1][0]
            self.done[f"status: {'ok' if answer[0] == 'ok' else why}"] += 1
        if self._dice.random() < 0.7:
            self._reach([program for program in list(self.programs) if not program.is_stopped])

    # the end

    def check(self) -> None:
        """Checks that everything is right at the end; ``faults`` gets the errors."""
        self.note("all is mended")
        self.control.timeout = LIMIT
        names = {program.name for program in self.programs}
        for way in self.ways:
            way.mend()
        time.sleep(LEASE / 1000 + WINDOW + 1)  # a peer that was silent for longer is given up by then
        until(lambda: all(host.status()["connections"] == len(self.hosts) - 1 for host in self.hosts), LIMIT)
        until(lambda: names <= self._known(), LIMIT)

        def has_all() -> bool:
            answers = self._reach(self.programs)
            self.note([each for each in answers if each[1][0] != "ok"])
            return set(self.control.nodes()) == names

        until(has_all, LIMIT)
        self.note("the control has all")
        self._compare()
        for program in self.programs:
            program.tell("halt")
        produced = {program.name: program.state()[0] for program in self.programs}
        stopped = dict(self._call(sorted(names), "stop_tracing"))
        wrong = [(name, answer) for name, answer in stopped.items() if answer[0] != "ok"]
        self.faults += [f"{name}: stop_tracing answers {answer}" for name, answer in wrong]
        self._compare()
        self._check_logs(produced)
        self._copy()
        for program in self.programs:
            program.process.communicate(timeout=LIMIT)
            if program.process.returncode or program.errors.read_bytes():
                why = program.errors.read_text(errors="replace")
                self.faults.append(f"{program.name} has ended with {program.process.returncode}: {why}")
        self._timed("close", 1.0, self.control.close)

    def _compare(self) -> None:
        """The control's view of each program, and its own."""
        for name, answer in self._call(sorted(self.control.nodes()), "get_status"):
            (program,) = (each for each in self.programs if each.name == name)
            own = program.state()[1]
            if answer[0] != "ok" or repr(answer[1]) != own:
                self.faults.append(f"{name} is {own}, and the control says {answer}")

    def _check_logs(self, produced: dict[str, int]) -> None:
        for program in [*self.programs, *self.ended]:
            for one in program.logs[-1:] if program in self.ended else []:
                one.may_be_cut = True
            for number, one in enumerate(program.logs):
                files = list(one.path.parent.glob(one.path.name + ("*" if one.is_wrapped else "")))
                if not files:  # it was not begun
                    continue
                found = read(one)
                self.faults += found.faults
                self.done["logs read"] += 1
                self.done["calls read"] += found.calls
                self.done["calls lost"] += found.lost
                if one.is_first and not one.is_wrapped and found.first:
                    self.faults.append(f"{one.path}: the first call is {found.first}")
                if found.after > program.at_most():
                    self.faults.append(f"{one.path}: it has more calls than were made")
                if number == len(program.logs) - 1 and program.is_armed and program.name in produced:
                    self.done["programs whose calls are all there"] += 1
                    if found.after != produced[program.name]:
                        why = f"it ends with {found.after - 1} of {produced[program.name]} calls"
                        self.faults.append(f"{one.path}: {why}")

    def _copy(self) -> None:
        """Checks that the copy of a log from each host equals the original."""
        for host in self.hosts:
            for program in [each for each in self.programs if each.host is host and each.has_file()][:1]:
                path, data = program.logs[-1].path, b""
                source = self.control.sources(program.name)(str(path))
                while part := source.read():
                    data += part
                if data != path.read_bytes():
                    self.faults.append(f"{path} came as something else")
                self.done["logs copied"] += 1

    def show(self) -> None:
        """Prints the last events, and the output of agents and programs."""
        for when, what in list(self.events)[-200:]:
            print(f"{when:8.3f} {what}")
        for host in self.hosts:
            print(f"{host.name}: {host.errors.read_text(errors='replace')[-2000:]}")

    def end(self) -> None:
        """Ends all processes."""
        for program in [*self.programs, *self.ended]:
            if program.process.poll() is None:
                program.process.kill()
            program.process.communicate()
        for host in self.hosts:
            host.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)


def run(place: Path, seed: int, seconds: float, agents: int = 4, runtimes: int = 40) -> tuple[list[str], Counter[str]]:
    """One run: returns its faults, and how often each event happened."""
    chaos = Chaos(place, seed, seconds, agents, runtimes)
    try:
        chaos.run()
        chaos.check()
    except BaseException:
        chaos.show()
        raise
    finally:
        chaos.end()
    if chaos.faults:
        chaos.show()
    return chaos.faults, chaos.done


def main() -> int:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--runtimes", type=int, default=40)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        faults, done = run(Path(folder), given.seed, given.seconds, given.agents, given.runtimes)
    for what, number in sorted(done.items()):
        print(f"{number:9,d}  {what}")
    for fault in faults:
        print(f"WRONG: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
