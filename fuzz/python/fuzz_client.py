"""Fuzzes `inviso.log.trace_client` with bytes from an IP port: an hour by hand, a minute in `scripts/test.sh`.

    PYTHONPATH=tests/python python fuzz/python/fuzz_client.py 3600

A finding becomes a case in tests/python/test_log.py.
"""

from __future__ import annotations

from fuzzing import fuzz, instrumented

with instrumented():
    import inviso.log  # noqa: F401

from test_log import PORTS, check_client, mutated

fuzz(check_client, mutated, [path.read_bytes()[:3000] for path in PORTS.glob("*/*") if path.suffix != ".json"])
