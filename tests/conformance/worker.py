"""One interpreter that executes cases: a case a line on stdin, its result a line on stdout."""

from __future__ import annotations

import gc
import json
import os
import sys

from .cases import Case
from .scenario import run

__all__ = ["serve"]


def serve() -> None:
    """Executes cases until stdin ends, or until one leaves the interpreter in a state that no other case should see."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()
    for line in sys.stdin:
        difference, healthy = run(Case(**json.loads(line)))
        results.write(json.dumps({"difference": difference, "healthy": healthy}) + "\n")
        results.flush()
        if not healthy:
            os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    serve()
