"""Fuzzes a listener of `inviso.runtime` with bytes from a peer: an hour by hand, a minute in `scripts/test.sh`.

    PYTHONPATH=tests/python python fuzz/python/fuzz_frames.py 3600

A finding becomes a case in tests/python/test_inviso_hostile.py.
"""

from __future__ import annotations

import os
import sys
import tempfile

from fuzzing import fuzz, instrumented

with instrumented():
    import inviso.runtime._listener  # noqa: F401

from frame_check import check_frames, seeds
from test_log import mutated

with tempfile.TemporaryDirectory() as folder:
    os.environ["INVISO_DIR"] = os.path.join(folder, "sockets")
    os.chdir(folder)
    # a line for each connection that goes wrong
    sys.modules["inviso.runtime._listener"].say = lambda text: None  # type: ignore[attr-defined]
    fuzz(check_frames, mutated, seeds())
