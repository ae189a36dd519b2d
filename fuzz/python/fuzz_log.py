"""Any bytes as a log to `inviso.log`, in the long form, by hand:

    pip install atheris; PYTHONPATH=tests/python python fuzz/python/fuzz_log.py -max_total_time=3600 CORPUS

The short form is `test_changed_logs_are_read_or_told_as_damage` in tests/python/test_log.py; a crash becomes a case
there. Without atheris, `--by-chance SECONDS` changes logs of OTP at random.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from test_log import PORTS, check_log, mutated


def by_chance(seconds: float, folder: Path) -> None:
    seed = time.time_ns()
    chance, end, count = random.Random(seed), time.monotonic() + seconds, 0
    seeds = [path.read_bytes()[:3000] for path in PORTS.glob("*/*") if path.suffix != ".json"]
    while time.monotonic() < end:
        data = mutated(chance, seeds)
        try:
            check_log(data, folder)
        except BaseException:
            print(f"seed {seed}, number {count}: {data.hex()}", file=sys.stderr)
            raise
        count += 1
    print(f"{count} logs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        if sys.argv[1:2] == ["--by-chance"]:
            by_chance(float(sys.argv[2]), Path(name))
        else:
            import atheris

            atheris.Setup(sys.argv, lambda data: check_log(data, Path(name)))
            atheris.Fuzz()
