"""Pools of processes under `inviso run`. One control traces all workers; nothing is lost when the pool ends them."""

import subprocess
import sys
from pathlib import Path

from inviso import Cluster
from service_tools import HERE, HOST, LIMIT, by_node, calls, merged, nodes, until

KINDS = {"fork": "__main__", "spawn": "__mp_main__", "executor": "__mp_main__"}
NUMBER = 1000
TOTAL = sum(number * number for number in range(NUMBER))


def run(kind: str, module: str) -> None:
    words = [sys.executable, "-m", "inviso", "run", "--node", kind, HERE / "pools_program.py", kind]
    with (
        Path(f"{kind}.err").open("w") as errors,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as program,
    ):
        try:
            look(kind, module, program)
        finally:
            program.kill()
    assert Path(f"{kind}.err").read_text() == ""


def look(kind: str, module: str, program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    # one may have done all so far
    workers = until(lambda: len(found := nodes(f"{kind}-*")) == 2 and found, "not all workers listen")
    assert all(name == f"{kind}-{pid}" for name, pid in workers.items()), workers
    with Cluster(f"{kind}*") as cluster:
        cluster.trace(f"{module}:square", folder=f"{kind}-logs").check()
        out, _ = program.communicate(f"{NUMBER}\n", timeout=LIMIT)
        assert (out, program.returncode) == (f"{TOTAL}\n", 3), (out, program.returncode)
        until(lambda: cluster.nodes == [], "not all have ended")
        stopped = cluster.stop().check()
    assert set(stopped) == {f"{name}@{HOST}" for name in (kind, *workers)}
    assert all(result["ended"] == "its process has ended" for result in stopped.values()), stopped
    counted = {name: calls(stopped[f"{name}@{HOST}"]["log"], f"{module}:square") for name in workers}
    assert sum(counted.values()) == NUMBER, counted
    assert by_node(merged(f"{kind}-logs")) == {name: number for name, number in counted.items() if number}


for each, place in KINDS.items():
    run(each, place)
