"""gevent: greenlets that take turns, pools, queues, timeouts, kills, a server with clients, native threads."""

from gevent import monkey

monkey.patch_all()

import queue  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
from gevent import event, pool, server, subprocess  # noqa: E402

steps = 0


def step(value: Any) -> Any:
    global steps
    steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def turns(name: str, number: int) -> list[str]:
    seen = []
    for n in range(number):
        seen.append(step(f"{name}{n}"))
        gevent.sleep(0)
    return seen


def fails(number: int) -> None:
    gevent.sleep(0)
    raise KeyError(number)


def greenlets() -> None:
    jobs = [gevent.spawn(turns, name, 20) for name in "abc"]
    gevent.joinall(jobs)
    print([job.value[-1] for job in jobs])
    print(sorted(pool.Pool(3).imap_unordered(lambda n: step(n * n), range(10))))
    print(refused(lambda: pool.Pool(1).map(fails, [0])))
    one = gevent.spawn(fails, 1)
    print(refused(one.get), one.successful())
    waiting = gevent.spawn(event.Event().wait)
    gevent.sleep(0)
    waiting.kill(ValueError("killed"))
    print(refused(waiting.get))
    print(refused(lambda: gevent.with_timeout(0.01, event.Event().wait)))
    with gevent.Timeout(0.01, False):
        event.Event().wait()
    result: event.AsyncResult[Any] = event.AsyncResult()
    gevent.spawn(lambda: result.set_exception(OSError("from another greenlet")))
    print(refused(result.get))
    generator = (step(n) for n in range(10))
    print([gevent.spawn(next, generator).get() for _ in range(5)], gevent.spawn(list, generator).get())


def queues() -> None:
    jobs: queue.Queue[Any] = queue.Queue(2)
    done: list[int] = []

    def worker() -> None:
        while (job := jobs.get()) is not None:
            done.append(step(job))

    workers = [threading.Thread(target=worker) for _ in range(3)]
    for thread in workers:
        thread.start()
    for n in range(30):
        jobs.put(n)
    for _ in workers:
        jobs.put(None)
    for thread in workers:
        thread.join()
    print(sorted(done) == list(range(30)))


def sockets() -> None:
    def serve(connection: socket.socket, address: Any) -> None:
        file = connection.makefile("rb")
        for line in file:
            connection.sendall(step(line).upper())
        file.close()

    listening = server.StreamServer(("127.0.0.1", 0), serve)
    listening.start()

    def ask(number: int) -> bytes:
        with socket.create_connection(("127.0.0.1", listening.server_port)) as connection:
            connection.sendall(b"hello %d\nbye\n" % number)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(4), b""))

    print([gevent.spawn(ask, n).get() for n in range(3)], sorted(pool.Pool(4).map(ask, range(6)))[-1])
    listening.stop()
    print(refused(lambda: socket.create_connection(("127.0.0.1", listening.server_port or 1))).split(":")[0])


def native() -> None:
    hub = gevent.get_hub()
    print(hub.threadpool.apply(sum, ([1, 2, 3],)), refused(lambda: hub.threadpool.apply(divmod, (1, 0))))
    start, allocate = (monkey.get_original("_thread", name) for name in ("start_new_thread", "allocate_lock"))
    seen: list[str] = []
    done = allocate()
    done.acquire()
    start(lambda: (seen.append(step("native")), done.release()), ())
    done.acquire()
    print(seen, subprocess.run(["sh", "-c", "cat; exit 3"], input=b"child", capture_output=True))
    began = time.monotonic()
    time.sleep(0.01)
    print(time.monotonic() - began >= 0.01)


def main() -> int:
    greenlets()
    queues()
    sockets()
    native()
    print("steps", steps)
    return 8


if __name__ == "__main__":
    sys.exit(main())
