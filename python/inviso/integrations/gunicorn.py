"""Gunicorn: each worker can be traced from outside. In its configuration file::

    from inviso.integrations.gunicorn import post_fork

A worker is the node ``NAME-PID``, named by the setting ``proc_name``, else by the application: ``shop_app-4711`` for
``shop:app``. It works for every kind of worker: sync, threads and ``uvicorn_worker.UvicornWorker``. The arbiter is not
traced.
"""

from __future__ import annotations

from typing import Any

from ._listening import listen

__all__ = ["post_fork"]


def post_fork(server: Any, worker: Any) -> None:
    """Gunicorn's hook of this name: called in a worker after its fork.

    >>> from types import SimpleNamespace
    >>> from inviso import runtime
    >>> runtime.stop_listening()
    >>> post_fork(None, SimpleNamespace(cfg=SimpleNamespace(proc_name="shop:app")))
    >>> runtime.listening().node.startswith("shop_app-")
    True
    >>> runtime.stop_listening()
    """
    listen(str(worker.cfg.proc_name))
