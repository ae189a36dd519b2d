"""Gives a check bytes that nobody has written, for some seconds.

With atheris, what covers more of the package's Python is kept, and its changes take turns with the tests' own; without,
all is by chance. atheris sees nothing of a native module: the coverage that leads into that is in fuzz/fuzz_targets.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None


def instrumented() -> Any:
    """Imports of the package are made in this."""
    return atheris.instrument_imports(include=["inviso"]) if atheris else nullcontext()


def fuzz(
    check: Callable[[bytes], None], change: Callable[[random.Random, list[bytes]], bytes], seeds: list[bytes]
) -> None:
    """`check` gets what `change` makes of `seeds`, for as many seconds as the command line says.

    An exception is told with the bytes, and ends the program with 1.
    """
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} SECONDS")
    seconds = int(sys.argv[1])
    if atheris is None:
        print("no atheris here: by chance", flush=True)
        by_chance(check, change, seeds, seconds)
        return

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.randrange(4) == 0:
            return bytes(atheris.Mutate(data, most))
        return change(chance, [*seeds, data])[:most]

    with tempfile.TemporaryDirectory() as folder:
        words = [f"-max_total_time={seconds}", "-max_len=65536", f"-artifact_prefix={folder}/", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *words], reporting(check), custom_mutator=mutate)
        atheris.Fuzz()


def by_chance(
    check: Callable[[bytes], None],
    change: Callable[[random.Random, list[bytes]], bytes],
    seeds: list[bytes],
    seconds: float,
) -> None:
    chance, end, count = random.Random(time.time_ns()), time.monotonic() + seconds, 0
    check = reporting(check)
    while time.monotonic() < end:
        check(change(chance, seeds))
        count += 1
    print(f"{count} runs")


def reporting(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def checked(data: bytes) -> None:
        try:
            check(data)
        except BaseException:
            print(f"found: {data.hex()}", file=sys.stderr, flush=True)
            raise

    return checked
