"""Tasks of the shop, run by a worker with a pool of processes; the broker is files, or SHOP_BROKER (``redis://…``)."""

import os
import time
import uuid

from celery import Celery
from inviso import seq_trace
from inviso.integrations.celery import install
from kombu.transport import filesystem
from kombu.utils.json import dumps

FOLDER = os.path.join(os.environ["HOME"], "files")


class Whole(filesystem.Channel):
    """Messages appear only when they are complete: else a reader takes one that is being written, and loses it."""

    def _put(self, queue, payload, **kwargs):
        name = uuid.uuid4()
        with open(f"{self.data_folder_out}/{name}.part", "w") as file:
            file.write(dumps(payload))
        os.rename(file.name, f"{self.data_folder_out}/{time.monotonic_ns()}_{name}.{queue}.msg")


class Files(filesystem.Transport):
    """A worker looks every two seconds whether it is to end; with this it comes back sooner."""

    Channel = Whole

    def drain_events(self, connection, timeout=None):
        return super().drain_events(connection, timeout=0.05)


def application() -> Celery:
    for name in ("queue", "control", "processed", "packed"):
        os.makedirs(f"{FOLDER}/{name}", exist_ok=True)
    if broker := os.environ.get("SHOP_BROKER"):
        made = Celery("shop", broker=broker)
    else:
        made = Celery("shop", broker_transport=f"{__name__}:Files")
        made.conf.broker_transport_options = {
            "data_folder_in": f"{FOLDER}/queue",
            "data_folder_out": f"{FOLDER}/queue",
            "control_folder": f"{FOLDER}/control",
            "processed_folder": f"{FOLDER}/processed",
            "polling_interval": 0.01,
        }
    made.conf.update(
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=False,
    )
    return made


install()
app = application()


@app.task(name="pack", bind=True, max_retries=1)
def pack(self, number):
    """The first try of every third order fails. (The state of the first try may overwrite Celery's own result.)"""
    if number % 3 == 0 and not self.request.retries:
        raise self.retry(countdown=0)
    with open(f"{FOLDER}/packed/{number}.part", "w") as file:
        file.write(f"{os.getpid()} {weight(number)}")
    os.rename(file.name, f"{FOLDER}/packed/{number}")


def weight(number):
    seq_trace.print(number)
    return 2 * number
