"""A shop: Gunicorn with Uvicorn's workers, and a Celery worker with its pool of processes, each by its adapter; or under `inviso run`.

A request has a token, which goes with the task that it sends to the process that runs it, also over a retry.
"""

import os
import sys
from collections import defaultdict

from inviso import Cluster, log, seq_trace
from service_tools import HERE, HOST, LIMIT, end, get, merged, nodes, service, until

WORKERS = 2
GUNICORN = ("-m", "gunicorn", "--no-control-socket", "--log-level", "error", "-c", HERE / "gunicorn_conf.py")
WEB = (*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "-w", str(WORKERS), "-b", "unix:web.sock")
CELERY = ("-m", "celery", "-A", "shop_tasks", "--quiet", "worker", "-n", "tasks@%h", "-c", str(WORKERS), "-l", "CRITICAL")
TASKS = (*CELERY, "--without-gossip", "--without-mingle", "--without-heartbeat")
ORDERS = 12


def ask(number: int) -> tuple[int, str]:
    """Who took an order, and which task it has sent."""
    seq_trace.set_token("label", number)
    for flag in ("send", "receive", "print", "timestamp"):
        seq_trace.set_token(flag, True)
    headers = seq_trace.inject({})
    seq_trace.set_token(None)
    pid, task = get("web.sock", f"/?{number}", headers).split()
    return int(pid), task




def prepared(node: str) -> tuple[str, ...]:
    return ("-m", "inviso", "run", "--node", node) if sys.argv[1:] == ["run"] else ()


with (
    service(*prepared("shop"), *WEB, "shop_asgi:application") as gunicorn,
    service(*prepared("tasks"), *TASKS) as celery,
):
    get("web.sock", "/?1")
    web = until(lambda: len(found := nodes("shop-*")) == WORKERS and found, "not all workers listen")
    pool = until(lambda: len(found := nodes("tasks-*")) == WORKERS and found, "not all processes of the pool listen")
    assert nodes("tasks") == {"tasks": celery.pid}
    os.environ["HOME"] = os.getcwd()
    from shop_tasks import app

    with Cluster("shop-*", "tasks*") as cluster:
        cluster.trace("shop_asgi:order", "shop_tasks:weight", tokens=True, folder="logs").check()
        taken = [ask(number) for number in range(ORDERS)]
        packed = [app.AsyncResult(task).get(LIMIT, interval=0.01) for _, task in taken]
        assert [weight for _, weight in packed] == [2 * number for number in range(ORDERS)]
        stopped = cluster.stop().check()

    events = defaultdict(list)
    for message in merged("logs"):
        if message[0] == "seq_trace":
            what, serial, sender, taker, info = message[2]
            where = (taker if what == "receive" else sender).node.removesuffix(f"@{HOST}")
            events[message[1]].append((what, where, serial))
    assert set(events) == set(range(ORDERS)), events
    for number, ((pid, _), (runner, _)) in enumerate(zip(taken, packed, strict=True)):
        found = [(what, where) for what, where, _ in events[number]]
        assert found[:2] == [("receive", f"shop-{pid}"), ("send", f"shop-{pid}")], (number, found)
        # the answer goes out when the task is under way
        rest = [each for each in found[2:] if each != ("send", f"shop-{pid}")]
        assert len(rest) == len(found) - 3, (number, found)
        if number % 3:
            expected = [("receive", f"tasks-{runner}"), ("print", f"tasks-{runner}")]
            assert rest == expected, (number, rest)
        else:
            assert [what for what, _ in rest] == ["receive", "send", "receive", "print"], (number, rest)
            assert rest[-1] == ("print", f"tasks-{runner}"), (number, rest, runner)
            assert {where for _, where in rest} <= set(pool)
    assert {f"shop-{pid}" for pid, _ in taken} <= set(web)
    for name, result in stopped.items():
        names = [message[3][1] for message in log.read(result["log"]) if message[0] == "trace_ts"]
        pid = int(name.partition("@")[0].rpartition("-")[2]) if "-" in name else 0
        assert names.count("order") == sum(taker == pid for taker, _ in taken)
        assert names.count("weight") == sum(runner == pid for runner, _ in packed)
    end(celery)
    end(gunicorn)
    assert nodes("*") == {}
