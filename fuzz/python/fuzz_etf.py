"""Fuzzes `inviso.etf.loads` with any bytes: an hour by hand, a minute in `scripts/test.sh`.

    PYTHONPATH=tests/python python fuzz/python/fuzz_etf.py 3600

A finding becomes a case in tests/python/test_etf.py.
"""

from __future__ import annotations

from fuzzing import fuzz, instrumented

with instrumented():
    import inviso.etf  # noqa: F401

from test_etf import GOLD, check_bytes
from test_log import mutated

fuzz(check_bytes, mutated, [form for forms in GOLD for form in forms])
