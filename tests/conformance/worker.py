"""One interpreter that executes cases: a case a line on stdin, its result a line on stdout."""

from __future__ import annotations

import gc
import json
import os
import sys

from . import scenario, specs
from .cases import Case

__all__ = ["serve"]


def serve() -> None:
    """Executes cases until stdin ends, or until one leaves the interpreter in a state that no other case should see."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()
    for line in sys.stdin:
        data = json.loads(line)
        if "spec" in data:
            difference, healthy = specs.run(specs.SpecCase(**data)), True
        else:
            difference, healthy = scenario.run(Case(**data))
        results.write(json.dumps({"difference": difference, "healthy": healthy}) + "\n")
        results.flush()
        if not healthy:
            os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    serve()
