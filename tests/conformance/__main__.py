"""``python -m tests.conformance FILE...``: every case of the files, executed on this system.

Prints each failing case with its first difference, then each case that Python can't express with the reason, then the
sums. Status 0: nothing failed. 1: something failed. 2: a file is missing or malformed; nothing was run then.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cases import Case

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the cases that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="case files, a JSON object a line")
    parser.add_argument("--only", default="", metavar="SUBSTR", help="cases whose id contains this")
    parser.add_argument("--covered", action="store_true", help="cases that use only what is built so far")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("inviso") is None:
        print("inviso is not installed for this Python: pip install .", file=sys.stderr)
        return 2
    from .cases import Malformed, read
    from .covered import covered
    from .inexpressible import reason

    try:
        cases = [case for file in options.files for case in read(file)]
    except Malformed as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [c for c in cases if options.only in c.id and (not options.covered or covered(c))]
    if len(chosen) < len(cases):
        print(f"{len(chosen)} of {len(cases)} cases chosen")
    skipped = [(c, why) for c in chosen if (why := reason(c)) is not None]
    left_out = {id(c) for c, _ in skipped}
    failed = run([c for c in chosen if id(c) not in left_out])
    for case, why in skipped:
        print(f"SKIP {case.id}: {why}")
    print(f"{len(chosen) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


def run(cases: list[Case]) -> list[Case]:
    """Executes cases and names those that fail; returns them."""
    from .pool import Pool

    failed = []
    with Pool() as pool:
        for case in cases:
            difference = pool.run(case)
            if difference is not None:
                failed.append(case)
                print(f"FAIL {case.id}: {difference}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
