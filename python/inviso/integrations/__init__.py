"""Servers and task queues whose processes are traced together, where they are not started by ``inviso run``.

* :mod:`inviso.integrations.gunicorn`: a hook of its configuration, by which each worker listens.
* :mod:`inviso.integrations.uvicorn`: an application around another one, by which each worker listens.
* :mod:`inviso.integrations.celery`: workers and their pools listen, and tasks carry tokens of sequential tracing.
* :mod:`inviso.integrations.dask`: a plugin by which workers listen; graphs of tasks carry tokens, and so do results.
* :mod:`inviso.integrations.ray`: a hook by which workers listen; tasks and calls of actors carry tokens.

Under ``inviso run`` all processes listen already, and these leave them as they are. Of tokens over HTTP see :mod:`inviso.propagate`.
Settings are those of the environment: ``INVISO_NODE``, ``INVISO_LOG_DIR``, ``INVISO_ALLOW``.
"""

__all__: list[str] = []
