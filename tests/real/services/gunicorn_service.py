"""Gunicorn with three sync workers under `inviso run`. One control traces the arbiter and all workers."""

import os
import signal
from collections import Counter

from inviso import Cluster
from service_tools import HOST, by_node, calls, end, get, merged, nodes, service, until

WORKERS = 3
WORDS = ("-m", "inviso", "run", "--node", "web", "-m", "gunicorn", "--no-control-socket", "--log-level", "error")


def ask(answers: Counter[int], pids: set[int]) -> None:
    """Asks until each worker has answered."""
    number = 0
    while not pids <= set(answers):
        pid, price = map(int, get("web.sock", f"/?{number}").split())
        assert price == number + 1
        answers[pid] += 1
        number += 1
        assert number < 10_000, answers


with service(*WORDS, "-w", str(WORKERS), "-b", "unix:web.sock", "shop_wsgi:application") as gunicorn:
    get("web.sock", "/?0")
    workers = until(lambda: (found := nodes("web-*")) and len(found) == WORKERS and found, "not all workers listen")
    assert all(name == f"web-{pid}" for name, pid in workers.items())
    assert nodes("web") == {"web": gunicorn.pid}
    with Cluster("web") as cluster:
        assert cluster.found()[0].about["program"].startswith("gunicorn --no-control-socket")
    answers: Counter[int] = Counter()
    with Cluster("web*") as cluster:
        found = cluster.trace("shop_wsgi", folder="logs").check()
        assert set(found) == {f"{name}@{HOST}" for name in ("web", *workers)}
        ask(answers, set(workers.values()))
        dead = min(workers.values())
        os.kill(dead, signal.SIGUSR1)  # reopens its logs: the program's own handler is there
        stopped = cluster.stop().check()
    for name, pid in workers.items():
        result = stopped[f"{name}@{HOST}"]
        assert calls(result["log"], "shop_wsgi:price") == answers[pid] and result["lost"] == 0, (name, result, answers)
    messages = merged("logs")
    assert by_node(messages) == {f"web-{pid}": 2 * number for pid, number in answers.items()}

    # a worker is killed while it is traced: that is reported, and its successor can be traced, too
    with Cluster("web*") as cluster:
        cluster.trace("shop_wsgi", folder="again").check()
        os.kill(dead, signal.SIGKILL)
        until(lambda: f"web-{dead}@{HOST}" not in cluster.nodes, "the end is not seen")
        until(lambda: len(cluster.found()) == WORKERS + 1, "there is no successor")
        (new,) = cluster.add().check()
        begun = cluster.trace("shop_wsgi", folder="again")  # those that trace already refuse, each in its place
        assert set(begun) == {new} and len(begun.errors) == WORKERS, begun
        pid = nodes(new)[new.removesuffix(f"@{HOST}")]
        answers = Counter()
        ask(answers, {pid})
        stopped = cluster.stop().check()
        assert stopped[f"web-{dead}@{HOST}"]["ended"] == "its process has ended", stopped
        assert calls(stopped[new]["log"], "shop_wsgi:price") == answers[pid]
    end(gunicorn)
    assert nodes("web*") == {}

# Workers come and go all the time. They don't hinder anything, and leave nothing. (Gunicorn's worker misses a SIGTERM
# that comes between the fork and its own handler for it, and is killed after a time.)
STORM = ("-w", "3", "--max-requests", "2", "--graceful-timeout", "2")
with service(*WORDS, *STORM, "-b", "unix:storm.sock", "shop_wsgi:application") as gunicorn:
    with Cluster("web*") as cluster:
        answers = Counter()
        for number in range(16):
            pid, price = map(int, get("storm.sock", f"/?{number}").split())
            assert price == number + 1
            answers[pid] += 1
            if number % 10 == 0:
                cluster.add()
                cluster.trace("shop_wsgi")
    assert len(answers) >= 8 and max(answers.values()) <= 2, answers
    end(gunicorn)
    assert nodes("web*") == {}
    assert sorted(os.listdir(os.environ["INVISO_DIR"])) == ["began", "lock", "names"]
    assert os.listdir(f"{os.environ['INVISO_DIR']}/began") == []
