"""A worker: python -m shop.worker SOCKET. It computes the price of each order that comes through its socket."""

from __future__ import annotations

import sys
import threading
from multiprocessing.connection import Connection, Listener

from .prices import price


def serve(orders: Connection) -> None:
    """Answers orders until the other side ends the connection."""
    threading.current_thread().name = "orders"
    while True:
        try:
            number, item, count = orders.recv()
        except EOFError:
            return
        orders.send((number, price(item, count)))


def main(path: str) -> None:
    """Accepts connections. Each has its own thread."""
    with Listener(path, "AF_UNIX") as listener:
        while True:
            threading.Thread(target=serve, args=(listener.accept(),), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
