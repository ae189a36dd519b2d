"""A shop: Gunicorn with Uvicorn's workers and a Celery worker with a pool, each by its adapter, or under `inviso run`.

A request has a token. It travels with the request's task to the process that runs the task, also over a retry.
"""

import sys
from collections import defaultdict
from pathlib import Path

from inviso import Cluster, log, seq_trace
from service_tools import HERE, HOST, end, get, merged, nodes, service, until

WORKERS = 2
GUNICORN = ("-m", "gunicorn", "--no-control-socket", "--log-level", "error", "-c", HERE / "gunicorn_conf.py")
WEB = (*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "-w", str(WORKERS), "-b", "unix:web.sock")
CELERY = (
    "-m",
    "celery",
    "-A",
    "shop_tasks",
    "--quiet",
    "worker",
    "-n",
    "tasks@%h",
    "-c",
    str(WORKERS),
    "-l",
    "CRITICAL",
)
TASKS = (*CELERY, "--without-gossip", "--without-mingle", "--without-heartbeat")
ORDERS = 12


def ask(number: int) -> int:
    """The process that took an order."""
    seq_trace.set_token("label", number)
    for flag in ("send", "receive", "print", "timestamp"):
        seq_trace.set_token(flag, True)
    headers = seq_trace.inject({})
    seq_trace.set_token(None)
    return int(get("web.sock", f"/?{number}", headers))


def packed(number: int) -> tuple[int, int]:
    """The process that has packed an order, and the order's weight."""
    path = Path("files/packed", str(number))
    until(path.exists, f"order {number} is not packed")
    pid, weight = map(int, path.read_text().split())
    return pid, weight


def prepared(node: str) -> tuple[str, ...]:
    return ("-m", "inviso", "run", "--node", node) if sys.argv[1:] == ["run"] else ()


with (
    service(*prepared("shop"), *WEB, "shop_asgi:application") as gunicorn,
    service(*prepared("tasks"), *TASKS) as celery,
):
    get("web.sock", f"/?{ORDERS}")
    web = until(lambda: len(found := nodes("shop-*")) == WORKERS and found, "not all workers listen")
    pool = until(lambda: len(found := nodes("tasks-*")) == WORKERS and found, "not all processes of the pool listen")
    assert nodes("tasks") == {"tasks": celery.pid}
    packed(ORDERS)
    with Cluster("shop-*", "tasks*") as cluster:
        cluster.trace("shop_asgi:order", "shop_tasks:weight", tokens=True, folder="logs").check()
        taken = [ask(number) for number in range(ORDERS)]
        runs = [packed(number) for number in range(ORDERS)]
        assert [weight for _, weight in runs] == [2 * number for number in range(ORDERS)]
        stopped = cluster.stop().check()

    events = defaultdict(list)
    for message in merged("logs"):
        if message[0] == "seq_trace":
            what, serial, sender, taker, info = message[2]
            where = (taker if what == "receive" else sender).node.removesuffix(f"@{HOST}")
            events[message[1]].append((what, where, serial))
    assert set(events) == set(range(ORDERS)), events
    for number, (pid, (runner, _)) in enumerate(zip(taken, runs, strict=True)):
        found = [(what, where) for what, where, _ in events[number]]
        assert found[:2] == [("receive", f"shop-{pid}"), ("send", f"shop-{pid}")], (number, found)
        # the answer goes out when the task has begun
        rest = [each for each in found[2:] if each != ("send", f"shop-{pid}")]
        assert len(rest) == len(found) - 3, (number, found)
        if number % 3:
            expected = [("receive", f"tasks-{runner}"), ("print", f"tasks-{runner}")]
            assert rest == expected, (number, rest)
        else:
            assert [what for what, _ in rest] == ["receive", "send", "receive", "print"], (number, rest)
            assert rest[-1] == ("print", f"tasks-{runner}"), (number, rest, runner)
            assert {where for _, where in rest} <= set(pool)
    assert {f"shop-{pid}" for pid in taken} <= set(web)
    for name, result in stopped.items():
        names = [message[3][1] for message in log.read(result["log"]) if message[0] == "trace_ts"]
        pid = int(name.partition("@")[0].rpartition("-")[2]) if "-" in name else 0
        assert names.count("order") == taken.count(pid)
        assert names.count("weight") == sum(runner == pid for runner, _ in runs)
    end(celery)
    end(gunicorn)
    assert nodes("*") == {}
