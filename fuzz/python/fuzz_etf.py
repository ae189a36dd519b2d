"""Any bytes to `inviso.etf.loads`, in the long form, by hand:

    pip install atheris; PYTHONPATH=tests/python python fuzz/python/fuzz_etf.py -max_total_time=3600 CORPUS

The short form is `test_changed_bytes_are_a_term_or_refused` in tests/python/test_etf.py; a crash becomes a case there.
Without atheris, `--by-chance SECONDS` changes OTP's own terms at random.
"""

from __future__ import annotations

import random
import sys
import time

from test_etf import GOLD, check_bytes
from test_log import mutated


def by_chance(seconds: float) -> None:
    seed = time.time_ns()
    chance, end, count = random.Random(seed), time.monotonic() + seconds, 0
    seeds = [form for forms in GOLD for form in forms]
    while time.monotonic() < end:
        data = mutated(chance, seeds)
        try:
            check_bytes(data)
        except BaseException:
            print(f"seed {seed}, number {count}: {data.hex()}", file=sys.stderr)
            raise
        count += 1
    print(f"{count} terms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--by-chance"]:
        by_chance(float(sys.argv[2]))
    else:
        import atheris

        atheris.Setup(sys.argv, check_bytes)
        atheris.Fuzz()
