"""``python -m tests.differential --erl COMMAND``: generated cases, run here and on the Erlang that the command starts.

Prints each difference, shrunk, in the form of the case files, with this system's answer beside it; then the
sums. Any Erlang answers, but the cases are for OTP 29: an older one knows fewer functions, and before 27 only one zero.
Status 0: nothing differs. 1: something does. 2: the command starts no Erlang.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter

from .erlang import Case, Crashed, Node
from .generate import Maker
from .outcome import Here, differs, there
from .parts import KEY_ATOMS, as_line
from .shrink import shrunk

BATCH = 250
SHOWN = 20


class Run:
    """A run over many cases."""

    def __init__(self, node: Node, maker: Maker, here: Here) -> None:
        self.node = node
        self.maker = maker
        self.here = here
        self.sums: Counter[str] = Counter()
        self.shown: set[str] = set()

    def over(self, count: int) -> None:
        """Compares this number of cases. Called in the process that is ``SELF``."""
        while count > 0:
            cases = [self.maker.case() for _ in range(min(count, BATCH))]
            count -= len(cases)
            for case, answer in zip(cases, self.node.answers(cases), strict=True):
                self.compare(case, answer)

    def compare(self, case: Case, answer: object) -> None:
        """Counts a case, and shows its difference."""
        if answer is None:
            self.sums["left out"] += 1
            print(f"LEFT OUT, it ends Erlang or stops it: {as_line(case, {})}", flush=True)
            return
        wanted = there(answer)
        self.sums["compared"] += 1
        self.sums[next(iter(wanted))] += 1
        self.sums["matched"] += wanted.get("ok", {"a": "false"}) != {"a": "false"}
        if not differs(wanted, self.here.outcome(case)):
            return
        self.sums["different"] += 1
        if len(self.shown) < SHOWN:
            self.show(shrunk(case, self.fails))

    def fails(self, case: Case) -> bool:
        """Whether a case differs."""
        (answer,) = self.node.answers([case])
        return answer is not None and differs(there(answer), self.here.outcome(case))

    def show(self, case: Case) -> None:
        """Prints a case that differs, once."""
        (answer,) = self.node.answers([case])
        line = as_line(case, there(answer))
        if line not in self.shown:
            self.shown.add(line)
            print(f"DIFFERENT {line}\n     here {json.dumps(self.here.outcome(case))}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--erl", default="erl", metavar="COMMAND", help="starts an Erlang node (default: erl)")
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="how many cases (default: 10000)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="repeats a run (default: any)")
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    try:
        node = Node(options.erl, KEY_ATOMS)
    except (OSError, Crashed) as error:
        print(f"{options.erl!r} starts no Erlang: {error}", file=sys.stderr)
        return 2
    here = Here()
    run = Run(node, Maker(seed), here)
    try:
        here.call(lambda: run.over(options.cases))
    finally:
        here.close()
        node.close()
    sums = ", ".join(f"{run.sums[word]} {word}" for word in ("compared", "different", "left out", "matched", "error"))
    print(f"OTP {node.release}, seed {seed}: {sums}")
    return 1 if run.sums["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
