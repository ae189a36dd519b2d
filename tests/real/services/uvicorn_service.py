"""Uvicorn with two workers, which it spawns: each listens by the adapter."""

from collections import Counter

from inviso import Cluster
from service_tools import HOST, by_node, calls, end, get, merged, nodes, service, until

WORDS = ("-m", "uvicorn", "--log-level", "error", "--workers", "2", "--uds", "web.sock", "price_asgi:application")

with service(*WORDS) as uvicorn:
    get("web.sock", "/?0")
    workers = until(lambda: len(found := nodes("prices-*")) == 2 and found, "not all workers listen")
    answers: Counter[int] = Counter()
    with Cluster("prices-*") as cluster:
        cluster.trace("price_asgi:price", folder="logs").check()
        while not set(workers.values()) <= set(answers):
            number = answers.total()
            pid, price = map(int, get("web.sock", f"/?{number}").split())
            assert price == number + 1 and number < 10_000, answers
            answers[pid] += 1
        stopped = cluster.stop().check()
    for name, pid in workers.items():
        assert calls(stopped[f"{name}@{HOST}"]["log"], "price_asgi:price") == answers[pid] > 0
    assert by_node(merged("logs")) == {f"prices-{pid}": number for pid, number in answers.items()}
    end(uvicorn)
    assert nodes("prices-*") == {}
