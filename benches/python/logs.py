"""How fast logs are read into Python objects, merged, converted and counted: CPU seconds of one thread.

    python -m benches.python.logs ROUNDS

The log is of call and return messages with time stamps and two arguments. The last line is JSON: millions of messages
a second, each the best of the rounds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import inviso
from inviso import Atom, etf, log

from .tools import Wrong

_PAIRS = 200_000


def written(path: str) -> None:
    """Writes the log."""
    me = inviso.self()
    stamped, call, back, module, function = map(Atom, ("trace_ts", "call", "return_from", "shop.orders", "Order.total"))
    with open(path, "wb") as file:
        for n in range(_PAIRS):
            for message in (
                (stamped, me, call, (module, function, [n, "text"]), 10**18 + 2 * n),
                (stamped, me, back, (module, function, 2), n, 10**18 + 2 * n + 1),
            ):
                data = etf.dumps(message)
                file.write(bytes(1) + len(data).to_bytes(4) + data)


def main(rounds: str) -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        path, blocks, out = (os.path.join(folder, name) for name in ("erlang", "blocks", "out"))
        written(path)
        log.convert(path, blocks, "blocks")
        work: dict[str, tuple[int, Callable[[], Any]]] = {
            "read": (1, lambda: sum(1 for _ in log.read(path))),
            "read blocks": (1, lambda: sum(1 for _ in log.read(blocks))),
            "merge two": (2, lambda: sum(1 for _ in log.merge([path, blocks]))),
            "merge two into a file": (2, lambda: log.convert([path, blocks], out, merged=True).records),
            "convert to blocks": (1, lambda: log.convert(path, out, "blocks").records),
            "stats": (1, lambda: log.stats(path).messages),
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
        print(f"{name:<24} {rate:5.2f} million messages/s")
    print(json.dumps({"rates": best, "bytes a pair": sizes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
