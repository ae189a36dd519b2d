"""Celery: workers in this process with a broker in memory; a worker that forks, with a broker of files."""

import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Retry
from kombu.transport import filesystem, memory
from kombu.utils.json import dumps

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:70]}"


class Quick:
    """Workers look every two seconds whether they are to end; these broker connections come back sooner."""

    def drain_events(self, connection: Any, timeout: float | None = None) -> Any:
        return super().drain_events(connection, timeout=0.05)  # type: ignore[misc]


class Memory(Quick, memory.Transport):
    pass


class Whole(filesystem.Channel):
    """Messages appear only when they are complete: else a reader takes one that is being written, and loses it."""

    def _put(self, queue: str, payload: Any, **options: Any) -> None:
        name = f"{self.data_folder_out}/{time.monotonic_ns()}_{uuid.uuid4()}.{queue}"
        Path(f"{name}.part").write_text(dumps(payload))
        os.rename(f"{name}.part", f"{name}.msg")


class Files(Quick, filesystem.Transport):
    Channel = Whole


def make() -> Celery:
    """In memory here; in the forking worker, files hold the tasks and their results."""
    folder = os.environ.get("CELERY_FILES")
    if folder is None:
        app = Celery("shop", broker_transport=f"{__name__}:Memory", backend="cache+memory://")
        app.conf.broker_transport_options = {"polling_interval": 0.01}
    else:
        app = Celery("shop", broker_transport=f"{__name__}:Files", backend=f"file://{folder}/results")
        folders = {f"{kind}_folder": f"{folder}/{kind}" for kind in ("control", "processed")}
        app.conf.broker_transport_options = {
            "data_folder_in": f"{folder}/queue",
            "data_folder_out": f"{folder}/queue",
            "polling_interval": 0.01,
            **folders,
        }
        app.conf.worker_cancel_long_running_tasks_on_connection_loss = False
    app.conf.update(
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        result_extended=False,
        task_track_started=False,
    )
    return app


app = make()


@app.task(name="add")
def add(a: int, b: int) -> int:
    return step(a + b)


@app.task(name="total")
def total(values: list[int]) -> int:
    return step(sum(values))


@app.task(name="fails")
def fails(number: int) -> int:
    step(number)
    return {}[number]


@app.task(name="again", bind=True, max_retries=2)
def again(self: Any, number: int) -> int:
    step(number)
    try:
        return 1 // (self.request.retries - 1) + number
    except ZeroDivisionError as error:
        raise self.retry(exc=error, countdown=0) from error


@app.task(name="child")
def child(number: int) -> int:
    """Runs in a child process only: its calls are no steps of ours."""
    if number == 3:
        raise LookupError("in a child")
    return number * number


def work(pool: str, concurrency: int) -> None:
    with start_worker(
        app, pool=pool, concurrency=concurrency, perform_ping_check=False, loglevel="CRITICAL", shutdown_timeout=60
    ):
        print(pool, [add.delay(n, n).get(60, interval=0.01) for n in range(10)])
        print(
            group(add.s(n, 1) for n in range(5))().get(60, interval=0.01),
            chain(add.s(1, 2), add.s(3))().get(60, interval=0.01),
        )
        print(chord((add.s(n, n) for n in range(4)), total.s())().get(60, interval=0.01))
        print(
            refused(lambda: fails.delay(3).get(60, interval=0.01)),
            refused(lambda: again.delay(1).get(60, interval=0.01)),
        )
        print(refused(lambda: app.send_task("add", (1, "x")).get(60, interval=0.01)))


def prefork() -> None:
    folder = Path("files").resolve()
    for name in ("queue", "results", "control", "processed"):
        (folder / name).mkdir(parents=True)
    environment = {
        **os.environ,
        "CELERY_FILES": str(folder),
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]),
    }
    words = [
        "-m",
        "celery",
        "-A",
        "celery_program",
        "--quiet",
        "worker",
        "--pool",
        "prefork",
        "-c",
        "2",
        "-l",
        "CRITICAL",
    ]
    worker = subprocess.Popen(
        [sys.executable, *words, "--without-gossip", "--without-mingle", "--without-heartbeat"], env=environment
    )
    os.environ["CELERY_FILES"] = str(folder)
    with make() as own:
        results = [own.send_task("child", (n,)) for n in range(6)]
        print("prefork", [refused(lambda: result.get(60, interval=0.01)) for result in results])  # noqa: B023
    worker.terminate()
    print("worker", worker.wait(60))
    print("in children celery_program:child/1", len(results))


def main() -> int:
    logging.getLogger("celery").setLevel(logging.CRITICAL + 1)
    work("solo", 1)
    work("threads", 2)
    prefork()
    print(issubclass(Retry, Exception), "steps", steps)
    return 15


if __name__ == "__main__":
    sys.exit(main())
