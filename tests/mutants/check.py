"""Compares the mutants that lived through scripts/mutants.sh with those that are accepted.

A line of accepted.txt: how many mutants of that name may live, the name without line and column, ` # ` and why.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

Counts = collections.Counter[str]

HERE = pathlib.Path(__file__).parent


def lines(*paths: pathlib.Path) -> set[str]:
    return {line for path in paths if path.exists() for line in path.read_text().splitlines()}


def named(mutants: set[str]) -> Counts:
    return collections.Counter(re.sub(r"^([^:]+):\d+:\d+: ", r"\1: ", line) for line in mutants)


def accepted() -> Counts:
    counts: Counts = collections.Counter()
    for line in (HERE / "accepted.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            count, name, reason = re.fullmatch(r"(\d+) (.+) # (.+)", line).groups()  # type: ignore[union-attr]
            assert reason
            counts[name] += int(count)
    return counts


def outcomes(folder: pathlib.Path) -> tuple[set[str], set[str]]:
    """The mutants that were found, and those that lived."""
    unit, rest = folder / "unit" / "mutants.out", folder / "all" / "mutants.out"
    # the second run has a few more: cargo-mutants doesn't filter those that leave out a field
    lived = lines(unit / "missed.txt") - lines(rest / "caught.txt", rest / "timeout.txt")
    return lines(unit / "caught.txt", unit / "timeout.txt", unit / "missed.txt") - lived, lived


def main(folder: pathlib.Path) -> int:
    found, lived = map(named, outcomes(folder))
    may, all_of_them = accepted(), named(lines(folder / "all.txt"))
    failed = False
    for name, count in sorted((lived - may).items()):
        print(f"lives: {count} {name}")
        failed = True
    for name, count in sorted((may - lived).items()):
        # a shard that had only some mutants of a name says nothing about that name
        if lived[name] + found[name] >= all_of_them[name] > 0:
            print(f"accepted, and is found: {count} {name}")
            failed = True
    run, kept = lived.total() + found.total(), (lived & may).total()
    print(
        f"{found.total()} of {run} found ({found.total() / max(run, 1):.1%}), "
        f"{kept} accepted, {lived.total() - kept} live"
    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
