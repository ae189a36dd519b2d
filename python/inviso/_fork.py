"""What is done in the child of a fork, whichever part of the package a program has imported: nothing of the parent's is traced
there, and a child that ``multiprocessing`` starts takes the token that it was given along."""

from __future__ import annotations

import os
import sys

from . import _native


def _after_in_child() -> None:
    _native.after_fork_in_child()
    if (pickles := sys.modules.get("inviso._pickles")) is not None:
        pickles.forked()


os.register_at_fork(after_in_child=_after_in_child)
