"""Prepares the processes of servers and task queues for tracing, if they are not started by ``inviso run``.

* :mod:`inviso.integrations.gunicorn`: a hook for its configuration; each worker listens.
* :mod:`inviso.integrations.uvicorn`: an application around another one; each worker listens.
* :mod:`inviso.integrations.celery`: workers and their pools listen, and tasks carry tokens of sequential tracing.
* :mod:`inviso.integrations.dask`: a plugin; workers listen, and graphs of tasks and their results carry tokens.
* :mod:`inviso.integrations.ray`: a hook; workers listen, and tasks and calls of actors carry tokens.

Under ``inviso run`` all processes listen already, and these integrations don't change them. For tokens over HTTP see
:mod:`inviso.propagate`. Settings come from the environment: ``INVISO_NODE``, ``INVISO_LOG_DIR``, ``INVISO_ALLOW``.
"""

__all__: list[str] = []
