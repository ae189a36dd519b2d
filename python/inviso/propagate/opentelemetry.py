"""A propagator of tokens, to be put beside OpenTelemetry's own."""

from __future__ import annotations

from typing import Any

from .._seq_nodes import HEADER, extract, inject
from ._needs import needs

with needs("opentelemetry", "opentelemetry-api"):
    from opentelemetry.context import Context, get_current
    from opentelemetry.propagators.textmap import (
        Getter,
        Setter,
        TextMapPropagator,
        default_getter,
        default_setter,
    )

__all__ = ["SeqTracePropagator"]


class SeqTracePropagator(TextMapPropagator):
    """Carries the token of the calling process wherever the program's instrumentation carries a context.

    A token belongs to a process, not to a context: ``extract`` sets that of the calling thread or task, or empties it, and answers
    the context that it was given. Nothing tells a propagator that a request is over, so the token stays until the next one is
    extracted; :class:`inviso.propagate.wsgi.Middleware` and its sister for ASGI give it back.

    >>> from opentelemetry.propagators.composite import CompositePropagator
    >>> from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    >>> both = CompositePropagator([TraceContextTextMapPropagator(), SeqTracePropagator()])
    >>> sorted(both.fields)
    ['inviso-seq-trace', 'traceparent', 'tracestate']
    """

    def extract(self, carrier: Any, context: Context | None = None, getter: Getter[Any] = default_getter) -> Context:
        """Takes the carrier's token, as :func:`inviso.seq_trace.extract` does."""
        extract(carrier, getter.get)
        return get_current() if context is None else context

    def inject(self, carrier: Any, context: Context | None = None, setter: Setter[Any] = default_setter) -> None:
        """Sends the caller's token, as :func:`inviso.seq_trace.inject` does."""
        inject(carrier, setter.set)

    @property
    def fields(self) -> set[str]:
        """The names of its headers."""
        return {HEADER}
