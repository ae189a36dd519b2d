"""Dask: workers can be traced from outside, and tasks carry tokens of sequential tracing. ::

    from inviso.integrations.dask import Plugin, install

    install()                            # in the process that submits tasks
    client.register_plugin(Plugin())     # for each worker, later ones too

A worker is the node ``dask-NAME-PID`` (``dask-PID`` if its name is its address). A graph that a client submits is one
message, sent as an annotation; each task of the graph receives it. A task has the token while it runs; then its
worker's thread has its own token again. Calls of an actor carry no token.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from inviso.seq._nodes import HEADER, apart, extract, inject, take

from .._link._bell import say
from ..errors import BadArg, shown
from ..propagate._needs import needs
from ._listening import listen

with needs("dask", "dask[distributed]"):
    from dask import annotate
    from dask.distributed import Client, WorkerPlugin

__all__ = ["Plugin", "install", "result"]


def install() -> None:
    """Makes the graphs of this process's clients carry the token of the thread or task that submits them.

    A second call changes nothing. Workers with the plugin call it by themselves.

    >>> install()
    """
    submit = getattr(Client, "_graph_to_futures", None)
    if submit is None:
        say("tasks of this version of dask.distributed carry no tokens")
    elif not hasattr(submit, "_inviso"):
        Client._graph_to_futures = _sending(submit)


def _sending(submit: Any) -> Any:
    @wraps(submit)
    def sends(*arguments: Any, **options: Any) -> Any:
        with annotate(**inject({})), apart():  # Dask's own threads get no token
            return submit(*arguments, **options)

    sends._inviso = True  # type: ignore[attr-defined]
    return sends


class Plugin(WorkerPlugin):
    """The plugin of a worker: its process listens, its tasks receive tokens, and clients within tasks send them.

    Args:
        service: the name of nodes in place of ``dask``.

    >>> Plugin("etl").name
    'inviso'
    """

    name = "inviso"
    idempotent = True

    def __init__(self, service: str = "dask") -> None:
        self._service = service

    def setup(self, worker: Any) -> None:
        """Called in a worker's process."""
        self._tasks = worker.state.tasks
        listen(self._service if worker.name == worker.address else f"{self._service}-{worker.name}")
        install()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Called when a task's state has changed."""
        if finish == "executing":
            task = self._tasks[key]
            token = (task.annotations or {}).get(HEADER)
            is_new = hasattr(task.run_spec, "is_coro") and not isinstance(task.run_spec, _Task)
            if token is not None and is_new:
                task.run_spec = _Task(task.run_spec, token, task.metadata)


class _Task:
    """A task around the worker's: it sets the token while the task runs, and stores one with the result."""

    def __init__(self, task: Any, token: Any, metadata: dict[str, Any]) -> None:
        self._task, self._token, self._metadata = task, token, metadata

    def __reduce__(self) -> tuple[Any, ...]:  # for an executor of processes, which returns no metadata
        return _Task, (self._task, self._token, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def __repr__(self) -> str:
        return repr(self._task)

    def __call__(self, values: Any = ()) -> Any:
        if self._task.is_coro:
            return self._later(values)
        with self._received():
            return self._task(values)

    async def _later(self, values: Any) -> Any:
        with self._received():
            return await self._task(values)

    @contextmanager
    def _received(self) -> Iterator[None]:
        with apart():
            take([self._token], "clear")
            yield
            inject(self._metadata)


def result(future: Any, timeout: Any = None) -> Any:
    """``future.result(timeout)``. The caller takes the token that the task had at its end, if the task was sent one.

    It needs one more request to the scheduler. A result that is read in another way doesn't change the caller's token.

    Args:
        future: a future of a synchronous client.
        timeout: as for Dask.

    Raises:
        BadArg: it is not such a future.

    Exceptions of the task, and ``TimeoutError``, are passed on, and the caller keeps its token.

    >>> from types import SimpleNamespace
    >>> client = SimpleNamespace(asynchronous=False, run_on_scheduler=lambda function, key: {})
    >>> result(SimpleNamespace(client=client, key="total", result=lambda timeout: 42))
    42
    """
    if getattr(getattr(future, "client", None), "asynchronous", True):
        why = f"{shown(future)} is not a future of a client that waits; pass what submit returned"
        raise BadArg("result/2", "future", why)
    with apart():
        made = future.result(timeout)
        try:
            found = future.client.run_on_scheduler(_metadata, future.key)
        except Exception as error:  # the result is valid without a token
            say(f"the token of the result of {future.key!r} can't be had: {error}")
            found = {}
    extract(found, without="keep")
    return made


def _metadata(key: Any, dask_scheduler: Any) -> dict[str, Any]:
    task = dask_scheduler.tasks.get(key)
    return task.metadata or {} if task is not None else {}
