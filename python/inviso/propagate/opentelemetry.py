"""A propagator of tokens for use beside OpenTelemetry's own, and labels that name its spans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inviso.seq._nodes import HEADER, extract, inject

from .. import seq_trace
from .._traceparent import label_of, span_of
from ..errors import BadArg, shown
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
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        get_current_span,
        set_span_in_context,
    )

__all__ = ["SeqTracePropagator", "current_label", "labelled", "span_context"]

_EVENTS = ("send", "receive", "print", "timestamp")
_TRACEPARENT = "traceparent"


def current_label(context: Context | None = None) -> str | None:
    """The label for the current span, or for a context's span. A token with this label belongs to the same trace. None
    without a span.

    >>> from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context
    >>> current_label(set_span_in_context(NonRecordingSpan(SpanContext(1, 2, False))))
    '00-00000000000000000000000000000001-0000000000000002-00'
    """
    of = get_current_span(context).get_span_context()
    return label_of(of.trace_id, of.span_id, of.trace_flags) if of.is_valid else None


def span_context(label: object) -> SpanContext | None:
    """The span that a label names; None if it does not name a span.

    >>> span_context("order 7") is None, span_context("00-00000000000000000000000000000001-0000000000000002-01").span_id
    (True, 2)
    """
    found = span_of(label)
    if found is None:
        return None
    return SpanContext(found.trace, found.span, True, TraceFlags(int(str(label)[-2:], 16)))


@contextmanager
def labelled(*events: str) -> Iterator[str | None]:
    """Inside, the caller's token has the label of the current span. At the end the earlier token is restored. Without a
    span nothing changes.

    Args:
        events: components of the token. Default: ``send``, ``receive``, ``print`` and ``timestamp``.

    >>> with labelled() as label:
    ...     label is None, seq_trace.get_token()
    (True, None)
    """
    label = current_label()
    if label is None:
        yield None
        return
    kept = seq_trace.set_token(None)
    try:
        _begin(label, events or _EVENTS)
        yield label
    finally:
        seq_trace.set_token(kept)


def _begin(label: str, events: tuple[str, ...]) -> None:
    seq_trace.set_token("label", label)
    for event in events:
        seq_trace.set_token(event, True)


class SeqTracePropagator(TextMapPropagator):
    """Carries the token of the calling process wherever the program's instrumentation carries a context.

    A token belongs to a process, not to a context. So ``extract`` sets or clears the token of the calling thread or
    task, and returns the given context. A propagator does not learn the end of a request, so the token stays until the
    next ``extract``. :class:`inviso.propagate.wsgi.Middleware` and the one for ASGI restore the earlier token.

    Args:
        labels: whether OpenTelemetry's traces become labels, and labels become traces. Then a carrier without a token
            sets a token whose label names the context's span (put this propagator after OpenTelemetry's own). A carrier
            with a token of such a label sets the context's span, if it has none. Without a span, a token of such a
            label is also sent as ``traceparent``.
        events: components of such a token. Default: ``send``, ``receive``, ``print``, ``timestamp``.

    >>> from opentelemetry.propagators.composite import CompositePropagator
    >>> from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    >>> both = CompositePropagator([TraceContextTextMapPropagator(), SeqTracePropagator()])
    >>> sorted(both.fields)
    ['inviso-seq-trace', 'traceparent', 'tracestate']
    """

    def __init__(self, labels: bool = False, events: tuple[str, ...] = _EVENTS) -> None:
        if not isinstance(labels, bool):
            raise BadArg("SeqTracePropagator/2", "labels", f"{shown(labels)} is not a bool; pass True or False")
        self._labels = labels
        self._events = tuple(events)

    def extract(self, carrier: Any, context: Context | None = None, getter: Getter[Any] = default_getter) -> Context:
        """Takes the carrier's token, as :func:`inviso.seq_trace.extract` does."""
        took = extract(carrier, getter.get)
        context = get_current() if context is None else context
        if not self._labels:
            return context
        label = current_label(context)
        if not took and label is not None:
            _begin(label, self._events)
        elif took and label is None:
            found = span_context(_own_label())
            if found is not None:
                return set_span_in_context(NonRecordingSpan(found), context)
        return context

    def inject(self, carrier: Any, context: Context | None = None, setter: Setter[Any] = default_setter) -> None:
        """Sends the caller's token, as :func:`inviso.seq_trace.inject` does."""
        inject(carrier, setter.set)
        if self._labels and current_label(context) is None and span_of(label := _own_label()):
            setter.set(carrier, _TRACEPARENT, label)

    @property
    def fields(self) -> set[str]:
        """The names of the headers that it sets."""
        return {HEADER, _TRACEPARENT} if self._labels else {HEADER}


def _own_label() -> Any:
    token = seq_trace.get_token("label")
    return token[1] if isinstance(token, tuple) else None
