"""Celery: workers and processes of their pools can be traced from outside, and tasks carry sequential trace tokens. ::

    from inviso.integrations.celery import install

    install()       # in the module of the tasks, so in the processes that send them and run them

A worker is the node ``NAME``: the part of its host name before ``@`` (``celery``, or set by ``-n``). A process of its
pool is the node ``NAME-PID``. Sending a task sends a message. The task has the message's token while it runs; then its
thread has its own token again.
"""

from __future__ import annotations

from typing import Any

from inviso.seq._nodes import HEADER, inject, take

from .. import _native
from ..propagate._needs import needs
from ._listening import listen

with needs("celery"):
    from celery import signals

__all__ = ["install"]

_ASIDE = "_inviso_aside"
"""The attribute of a request that stores the token of the thread that runs it."""


def install() -> None:
    """Makes this process's tasks carry tokens, and its workers listen. A second call changes nothing.

    >>> install()
    """
    for signal, handler in (
        (signals.celeryd_after_setup, _worker_begins),
        (signals.worker_process_init, _child_begins),
        (signals.before_task_publish, _send),
        (signals.task_prerun, _take),
        (signals.task_postrun, _give_back),
    ):
        signal.connect(handler, weak=False, dispatch_uid=f"inviso {handler.__name__}")


def _worker_begins(sender: str, **_: Any) -> None:
    listen(sender.partition("@")[0], is_worker=False)


def _child_begins(sender: str, **_: Any) -> None:
    listen(sender.partition("@")[0])


def _send(headers: dict[str, Any], **_: Any) -> None:
    inject(headers)


def _take(task: Any, **_: Any) -> None:
    request = task.request
    if not request.is_eager:  # an eager task is a plain call
        value = vars(request).get(HEADER)
        setattr(request, _ASIDE, _native.seq.exchange(None))
        take([] if value is None else [value], "clear")


def _give_back(task: Any, **_: Any) -> None:
    if _ASIDE in vars(task.request):
        _native.seq.exchange(vars(task.request).pop(_ASIDE))
