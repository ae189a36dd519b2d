"""Compares the mutants that lived through a run of cargo-mutants with those that are accepted.

A line of accepted.txt: how many mutants of that name may live, the name without line and column, ` # ` and why.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

Counts = collections.Counter[str]

HERE = pathlib.Path(__file__).parent


def named(path: pathlib.Path) -> Counts:
    lines = path.read_text().splitlines() if path.exists() else []
    return collections.Counter(re.sub(r"^([^:]+):\d+:\d+: ", r"\1: ", line) for line in lines)


def accepted() -> Counts:
    counts: Counts = collections.Counter()
    for line in (HERE / "accepted.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            count, name, reason = re.fullmatch(r"(\d+) (.+) # (.+)", line).groups()  # type: ignore[union-attr]
            assert reason
            counts[name] += int(count)
    return counts


def main(folder: pathlib.Path) -> int:
    lived, found = named(folder / "missed.txt"), named(folder / "caught.txt") + named(folder / "timeout.txt")
    may, all_of_them = accepted(), named(folder / "all.txt")
    failed = False
    for name in sorted(lived):
        if lived[name] > may[name]:
            print(f"lives: {lived[name] - may[name]} {name}")
            failed = True
    for name, count in sorted(may.items()):
        # of a name that a shard had only in part nothing is known
        if lived[name] < count and lived[name] + found[name] >= all_of_them[name] > 0:
            print(f"accepted, and is found: {count - lived[name]} {name}")
            failed = True
    run, kept = lived.total() + found.total(), (lived & may).total()
    print(f"{found.total()} of {run} found ({found.total() / max(run, 1):.1%}), {kept} accepted, {lived.total() - kept} live")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
