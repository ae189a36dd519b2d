"""Fuzzes `inviso.log` with any bytes as a log: an hour by hand, a minute in `scripts/test.sh`.

    PYTHONPATH=tests/python python fuzz/python/fuzz_log.py 3600

A finding becomes a case in tests/python/test_log.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from fuzzing import fuzz, instrumented

with instrumented():
    import inviso.log  # noqa: F401

from test_log import PORTS, check_log, mutated

SEEDS = [path.read_bytes()[:3000] for path in PORTS.glob("*/*") if path.suffix != ".json"]

with tempfile.TemporaryDirectory() as name:
    fuzz(lambda data: check_log(data, Path(name)), mutated, SEEDS)
