"""Any bytes from a peer to a listener of `inviso.runtime`; an hour by hand, a minute in `scripts/test.sh`:

    PYTHONPATH=tests/python python fuzz/python/fuzz_frames.py 3600

What it finds becomes a case in tests/python/test_inviso_hostile.py.
"""

from __future__ import annotations

import os
import tempfile

from fuzzing import fuzz, instrumented

with instrumented():
    import inviso.runtime  # noqa: F401

from frame_check import check_frames, seeds
from test_log import mutated

with tempfile.TemporaryDirectory() as folder:
    os.environ["INVISO_DIR"] = os.path.join(folder, "sockets")
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a line for each connection that goes wrong
    fuzz(check_frames, mutated, seeds())
