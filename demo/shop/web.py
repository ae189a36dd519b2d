"""The web process: python -m shop.web SOCKET... A thread plays its clients, and each order goes to the next worker."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
import time
from multiprocessing.connection import Client, Connection

from inviso import seq_trace


def order(workers: list[Connection], number: int, item: str, count: int) -> int:
    """The price of an order, which a worker computes."""
    worker = workers[number % len(workers)]
    worker.send((number, item, count))
    _, amount = worker.recv()
    return int(amount)


def clients(requests: queue.Queue[tuple[str, int]]) -> None:
    """Sends 100 orders a second."""
    threading.current_thread().name = "clients"
    for count, item in zip(itertools.cycle(range(1, 24)), itertools.cycle(("tea", "coffee", "cup"))):
        requests.put((item, count))
        time.sleep(0.01)


def main(paths: list[str]) -> None:
    """Takes requests and passes them on. Each has a token with its number."""
    requests: queue.Queue[tuple[str, int]] = queue.Queue()
    workers = [Client(path, "AF_UNIX") for path in paths]
    threading.Thread(target=clients, args=(requests,), daemon=True).start()
    for number in itertools.count():
        item, count = requests.get()
        seq_trace.set_token("label", f"order {number}")
        seq_trace.set_token("timestamp", True)
        seq_trace.set_token("send", True)
        seq_trace.set_token("receive", True)
        order(workers, number, item, count)
        seq_trace.set_token([])


if __name__ == "__main__":
    main(sys.argv[1:])
