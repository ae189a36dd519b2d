"""``python -m tests.differential.flags --erl COMMAND``: random scenarios of flags and ``info``, here and on a real
Erlang.

Sessions switch flags of existing and future processes and ports. These start, link and end; match specifications
change flags; tracers end. ``info`` and ``session_info`` are called between the steps and, for everything, at the end.
The command prints each difference, shrunk, and the sums. ``--to FILE`` records scenarios with Erlang's answers, a line
each; ``tests/data/live/flags.jsonl`` has some of an Erlang/OTP 29.

Status 0: nothing differs. 1: something does. 2: the command starts no Erlang.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conformance.terms import text

from .erlang import Crashed, Node
from .world import PROGRAM, World, a, call, same, t

__all__ = ["Maker", "difference", "looks", "shrunk"]

Term = Any

FLAGS = (
    *("call", "return_to", "arity", "silent", "procs", "send", "receive", "running", "running_procs", "running_ports"),
    *("exiting", "garbage_collection", "ports", "set_on_spawn", "set_on_first_spawn", "set_on_link"),
    *("set_on_first_link", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp", "scheduler_id"),
)
HANDED = ("set_on_spawn", "set_on_first_spawn", "set_on_link", "set_on_first_link")
PROCESSES = ("all", "existing", "new", "processes", "existing_processes", "new_processes")
PORTS = ("all", "existing", "new", "ports", "existing_ports", "new_ports")
SUBJECT = t("world", "subject", 0)
KINDS = (["meta"], ["local"], ["meta"], ["local", "meta"], ["global"], [], ["call_count"], ["call_count", "meta"])
ITEMS = ("traced", "match_spec", "meta", "meta_match_spec", "call_count", "call_time", "call_memory", "all")
BATCH = 100
SHOWN = 20


class Maker:
    """Makes scenarios. It tracks the state of the world, so that its steps are possible."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def scenario(self) -> list[Term]:
        """A scenario."""
        self.numbers = Counter[str]()
        self.sessions: list[Term] = []
        self.living: list[Term] = []
        self.dead: list[Term] = []
        self.open: list[tuple[Term, Term]] = []
        self.closed: list[Term] = []
        self.collectors: list[Term] = [{"pid": "t1"}, {"pid": "t2"}]
        steps = [self.create(), self.spawn(by=None), self.spawn(by=None)]
        for _ in range(self.random.randint(4, 18)):
            steps += self.step()
        return [*steps, *looks(self.sessions, self.living + self.dead, [p for p, _ in self.open] + self.closed)]

    def pick(self, values: Any) -> Any:
        """One of the values."""
        return self.random.choice(list(values))

    def name(self, letter: str) -> str:
        """The next name of a kind."""
        self.numbers[letter] += 1
        return f"{letter}{self.numbers[letter]}"

    def create(self) -> Term:
        """A new session."""
        name = self.name("s")
        self.sessions.append({"session": name})
        tracers = self.collectors * 4 + [p for p in (*self.living, *self.dead, {"pid": "t1"})]
        return t("create", name, name, self.pick(tracers), [])

    def spawn(self, *, by: Term | None) -> Term:
        """A new process."""
        name = self.name("p")
        self.living.append({"pid": name})
        return t("spawn", name) if by is None else t("spawn", name, by, self.pick(["true", "false"]))

    def step(self) -> list[Term]:
        """The next step, or none."""
        makers = [
            *[self.switch] * 8, *[self.look] * 5, *[self.start] * 5, *[self.pattern] * 4, *[self.run] * 4, self.join,
            self.join,
            self.end, self.open_port, self.open_port, self.close_port, self.create_one, self.destroy, self.messages,
            self.end_collector,
        ]  # fmt: skip
        return list(self.pick(makers)())

    def start(self) -> list[Term]:
        return [self.spawn(by=self.pick([None, *self.living, *self.living]))]

    def create_one(self) -> list[Term]:
        return [self.create()] if len(self.sessions) < 3 else []

    def destroy(self) -> list[Term]:
        return [call("session_destroy", self.pick(self.sessions))]

    def end_collector(self) -> list[Term]:
        if not self.collectors or self.random.random() < 0.5:
            return []
        return [t("end_collector", self.collectors.pop())]

    def flags(self) -> list[Term]:
        if self.random.random() < 0.1:  # flags that only ports have, or only processes
            only = self.pick([("ports", "running_ports"), ("call", "procs", "set_on_spawn", "set_on_link")])
            return [a(flag) for flag in self.random.sample(only, self.random.randint(1, 2))]
        some = self.random.sample(FLAGS, self.random.randint(0, 4))
        some += self.random.sample(HANDED, self.random.randint(0, 1))
        return [a(flag) for flag in (["all"] if self.random.random() < 0.15 else dict.fromkeys(some))]

    def switch(self) -> list[Term]:
        session, how = self.pick(self.sessions), self.pick(["true", "true", "true", "false"])
        if self.random.random() < 0.3:
            who = self.pick([*map(a, PORTS), *(p for p, _ in self.open * 3), *self.closed])
            return [call("port", session, who, a(how), self.flags())]
        groups = [*map(a, PROCESSES)] if self.random.random() < 0.4 else []
        who = self.pick(groups or [*self.living * 4, *self.dead, *(p for p, _ in self.open), a("ports")])
        return [call("process", session, who, a(how), self.flags())]

    def pattern(self) -> list[Term]:
        session, kinds = self.pick(self.sessions), [a(kind) for kind in self.pick(KINDS)]
        spec = self.pick([a("true"), a("true"), a("false"), a("pause"), a("restart"), [], *[self.spec()] * 8])
        what = self.pick([SUBJECT, SUBJECT, SUBJECT, SUBJECT, a("on_load")])
        if what == a("on_load") and isinstance(spec, list) and kinds in ([], [a("global")]):
            spec = a("true")  # OTP still shows the specification of a removed global pattern
        steps = [call("function", session, what, spec, kinds)]
        if spec in (a("pause"), a("restart")) and a("call_count") in kinds:
            # on a counter that is off they follow no rule: OTP begins it if anything else is set on the function
            steps.insert(0, call("function", session, what, a("true"), [a("call_count")]))
        return steps

    def spec(self) -> list[Term]:
        flag, other = a(self.pick(FLAGS)), a(self.pick(FLAGS))
        who = self.pick([t("self"), *self.living])
        actions = [
            t("silent", "true"), t("silent", "false"), t("enable_trace", flag), t("disable_trace", flag),
            t("trace", [flag], [other]),
            t("enable_trace", who, flag), t("disable_trace", who, flag), t("trace", who, [flag], [other]),
            t("return_trace"), t("message", "false"),
        ]  # fmt: skip
        return [t(a("_"), [], self.random.sample(actions, self.random.randint(1, 2)))]

    def messages(self) -> list[Term]:
        spec = self.pick([a("true"), a("false"), [], [t(a("_"), [], [t("message", "true")])]])
        return [call(self.pick(["send", "recv"]), self.pick(self.sessions), spec, [])]

    def run(self) -> list[Term]:
        return [t("run", self.pick(self.living))]

    def join(self) -> list[Term]:
        one, other = self.pick(self.living), self.pick(self.living)
        return [t(self.pick(["link", "link", "unlink"]), one, other)] if one != other else []

    def end(self) -> list[Term]:
        if len(self.living) < 3:
            return []
        one = self.pick(self.living)
        own = [(port, by) for port, by in self.open if by == one]
        self.living.remove(one)
        self.dead.append(one)
        self.open = [pair for pair in self.open if pair not in own]
        self.closed += [port for port, _ in own]
        return [*(t("close", by, port) for port, by in own), t("end", one)]

    def open_port(self) -> list[Term]:
        by, name = self.pick(self.living), self.name("o")
        self.open.append(({"port": name}, by))
        return [t("open", name, by)]

    def close_port(self) -> list[Term]:
        if not self.open:
            return []
        port, by = self.open.pop(self.random.randrange(len(self.open)))
        self.closed.append(port)
        return [t("close", by, port)]

    def look(self) -> list[Term]:
        everything = looks(self.sessions, self.living + self.dead, [p for p, _ in self.open] + self.closed)
        return self.random.sample(
            [step for step in everything if step["t"][1:2] != [a("session_info")] and step["t"][2][-1] != a("tracer")],
            2,
        )


def looks(sessions: list[Term], processes: list[Term], ports: list[Term]) -> list[Term]:
    """All possible questions."""
    asked = []
    for what in (*processes, *ports, a("new"), a("new_processes"), a("new_ports")):
        asked += [call("info", session, what, item) for session in sessions for item in ("flags", "tracer")]
    for session in sessions:
        asked += [call("info", session, SUBJECT, item) for item in ITEMS]
        asked += [call("info", session, "on_load", item) for item in (*ITEMS, "flags", "tracer")]
        asked += [call("info", session, event, "match_spec") for event in ("send", "receive")]
    words = ("all", "new", "new_processes", "new_ports", "send", "receive", "on_load")
    asked += [call("session_info", what) for what in (*processes, *ports, SUBJECT, *words)]
    return asked


def difference(steps: list[Term], there: list[Term], here: list[Term]) -> int | None:
    """The first step with a different answer.

    In OTP a process keeps its tracer when its last flags go by ``set_on_first_spawn`` or the like, or by a match
    specification. The manual says that an untraced process has no tracer. So the tracer counts only where there are
    flags.
    """
    bare: list[tuple[Term, Term]] = []
    for n, (step, one, other) in enumerate(zip(steps, there, here, strict=True)):
        match step, one:
            case {"t": [_, {"a": "info"}, [session, what, {"a": "flags"}]]}, {"t": [_, {"t": [_, flags]}]}:
                bare = [pair for pair in bare if pair != (session, what)] + [(session, what)] * (flags == [])
            case {"t": [_, {"a": "session_info"}, [what]]}, {"t": [ok, list(sessions)]}:
                one = {"t": [ok, [s for s in sessions if (s, what) not in bare]]}
            case {"t": [_, {"a": "info"}, [session, what, {"a": "tracer"}]]}, _ if (session, what) in bare:
                if other == t("ok", t("tracer", [])):
                    continue
        if not same(step, one, other):
            return n
    return None


def shrunk(steps: list[Term], node: Node, world: World) -> list[Term]:
    """A part of a scenario that still differs at its end. No step of it can be left out."""

    def fails(some: list[Term]) -> int | None:
        try:
            here = world.play(some)
        except (KeyError, TimeoutError):  # the object of a step does not exist any more
            return None
        (there,) = node.ask([some])
        return difference(some, there, here) if isinstance(there, list) else None

    at = fails(steps)
    if at is None:
        return steps
    steps = steps[: at + 1]
    n = len(steps) - 2
    while n >= 0:
        less = steps[:n] + steps[n + 1 :]
        if (at := fails(less)) is not None:
            steps = less[: at + 1]
            n = min(n, len(steps) - 1)
        n -= 1
    return steps


class Run:
    """A run over many scenarios."""

    def __init__(self, node: Node, maker: Maker) -> None:
        self.node, self.maker, self.world = node, maker, World()
        self.sums: Counter[str] = Counter()
        self.shown: set[str] = set()

    def over(self, count: int) -> None:
        """Compares this number of scenarios."""
        while count > 0:
            scenarios = [self.maker.scenario() for _ in range(min(count, BATCH))]
            count -= len(scenarios)
            for steps, there in zip(scenarios, self.node.ask(scenarios), strict=True):
                self.compare(steps, there)

    def compare(self, steps: list[Term], there: Any) -> None:
        """Counts a scenario, and shows its difference."""
        self.sums["compared"] += 1
        self.sums["steps"] += len(steps)
        if not isinstance(there, list):
            self.sums["left out"] += 1
            print(f"LEFT OUT, it ends Erlang or stops it: {there}", flush=True)
        elif difference(steps, there, self.world.play(steps)) is not None:
            self.sums["different"] += 1
            if len(self.shown) < SHOWN:
                self.show(shrunk(steps, self.node, self.world))

    def show(self, steps: list[Term]) -> None:
        """Prints a scenario that differs, once."""
        shown = "\n".join(text(step) for step in steps)
        if shown not in self.shown:
            self.shown.add(shown)
            (there,) = self.node.ask([steps])
            here = self.world.play(steps)
            print(f"DIFFERENT\n{shown}\n   Erlang {text(there[-1])}\n     here {text(here[-1])}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.flags", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--erl", default="erl", metavar="COMMAND", help="starts an Erlang node (default: erl)")
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="how many scenarios (default: 10000)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="repeats a run (default: any)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="records them instead, with Erlang's answers")
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    maker = Maker(seed)
    try:
        node = Node(options.erl, program=PROGRAM)
    except (OSError, Crashed) as error:
        print(f"{options.erl!r} starts no Erlang: {error}", file=sys.stderr)
        return 2
    try:
        if options.to is not None:
            scenarios = [maker.scenario() for _ in range(options.cases)]
            lines = [json.dumps({"steps": s, "answers": node.ask([s])[0]}, separators=(",", ":")) for s in scenarios]
            options.to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            return 0
        run = Run(node, maker)
        run.over(options.cases)
    finally:
        node.close()
    sums = ", ".join(f"{run.sums[word]} {word}" for word in ("compared", "steps", "different", "left out"))
    print(f"OTP {node.release}, seed {seed}: {sums}")
    return 1 if run.sums["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
