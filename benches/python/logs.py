"""The speed of reading logs into Python objects, of merging, converting and counting: CPU seconds of one thread.

    python -m benches.python.logs ROUNDS

The log is of call and return messages with time stamps and two arguments; eight of them, whose times interleave, are
merged. `copy` is the comparison: the same bytes from file to file, without a look at them. The last line is JSON:
millions of messages a second, each the best of the rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import inviso
from inviso import Atom, cli, etf, log, merge

from .tools import Wrong

_PAIRS = 200_000


_EIGHT = 8
_BARS = {"merge eight": 5.0, "merge eight blocks": 10.0, "stats": 10.0, "print": 1.0}
"""Millions of messages a second that it is to reach."""


def written(path: str, pairs: int = _PAIRS, first: int = 0, step: int = 1) -> None:
    """Writes a log of calls and returns, whose times begin with `first` and go on by `step`."""
    me = inviso.self()
    stamped, call, back, module, function = map(Atom, ("trace_ts", "call", "return_from", "shop.orders", "Order.total"))
    with open(path, "wb") as file:
        for n in range(pairs):
            for message in (
                (stamped, me, call, (module, function, [n, "text"]), 10**18 + first + 2 * n * step),
                (stamped, me, back, (module, function, 2), n, 10**18 + first + (2 * n + 1) * step),
            ):
                data = etf.dumps(message)
                file.write(bytes(1) + len(data).to_bytes(4) + data)


def printed(path: str, out: str) -> int:
    """Prints a log to a file; returns the number of its lines."""
    with open(out, "w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        if cli.main(["log", "print", path]):
            raise Wrong("print: something could not be read")
    with open(out, "rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))


def main(rounds: str) -> None:
    """Measures as the docstring of the module tells."""
    with tempfile.TemporaryDirectory() as folder:
        path, blocks, out = (os.path.join(folder, name) for name in ("erlang", "blocks", "out"))
        written(path)
        log.convert(path, blocks, "blocks")
        several = {f"n{n}@h": os.path.join(folder, f"n{n}") for n in range(_EIGHT)}
        packed = {node: f"{name}.blocks" for node, name in several.items()}
        for first, (node, name) in enumerate(several.items()):
            written(name, _PAIRS // _EIGHT, first, _EIGHT)
            log.convert(name, packed[node], "blocks")
        eight, eight_packed = list(several.values()), list(packed.values())

        def copied() -> int:
            with open(out, "wb") as to:
                for name in several.values():
                    with open(name, "rb") as file:
                        shutil.copyfileobj(file, to, 1 << 16)
            return 2 * _PAIRS

        work: dict[str, tuple[int, Callable[[], Any]]] = {
            "read": (1, lambda: sum(1 for _ in log.read(path))),
            "read blocks": (1, lambda: sum(1 for _ in log.read(blocks))),
            "merge two": (2, lambda: sum(1 for _ in log.merge([path, blocks]))),
            "copy": (1, copied),
            "merge eight": (1, lambda: log.convert(eight, out, merged=True).records),
            "merge eight blocks": (1, lambda: log.convert(eight_packed, out, "blocks", merged=True).records),
            "merge eight, named": (1, lambda: merge.logs(several, out, "erlang").records),
            "merge eight into lines": (1, lambda: merge.logs(several, out, "text").records),
            "merge eight into Inviso's": (1, lambda: merge.logs(several, out, "inviso").records),
            "convert to blocks": (1, lambda: log.convert(path, out, "blocks").records),
            "stats": (1, lambda: log.stats(path).messages),
            "print": (1, lambda: printed(path, out)),
        }
        best = dict.fromkeys(work, 0.0)
        for _ in range(int(rounds)):
            for name, (logs, run) in work.items():
                begun = time.process_time()
                found = run()
                spent = time.process_time() - begun
                if found != logs * 2 * _PAIRS:
                    raise Wrong(f"{name}: {found} messages, not {logs * 2 * _PAIRS}")
                best[name] = max(best[name], found / spent / 1e6)
        sizes = {name: os.path.getsize(file) / _PAIRS for name, file in (("erlang", path), ("blocks", blocks))}
    for name, rate in best.items():
        bar = f"   (to reach: {_BARS[name]:.0f})" if name in _BARS else ""
        print(f"{name:<26} {rate:6.2f} million messages/s{bar}")
    print(json.dumps({"rates": best, "bars": _BARS, "bytes a pair": sizes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
