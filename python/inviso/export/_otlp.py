"""Spans for OpenTelemetry: to a collector, to any exporter of its SDK, or to a file of OTLP's JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from inviso import etf
from inviso.errors import BadArg, needed, shown
from inviso.seq._merge import Anchor
from inviso.trace import Session

from . import _out
from ._files import Summary
from ._making import VALUES, Making, checked_values
from ._spans import Place, Span, Spans

if TYPE_CHECKING:
    from inviso._native.process import Pid
    from inviso.terms import Port

    from ._out import Out
    from ._source import Programs, Source

__all__ = ["Sent", "otlp"]

_AT_A_TIME = 512
_SCHEMA = "https://opentelemetry.io/schemas/1.36.0"
_PROTOCOLS = ("grpc", "http/protobuf")


@dataclass(frozen=True, slots=True)
class Sent(Summary):
    """The counts of an export of spans."""

    spans: int = 0
    """The number of spans that were sent."""
    traces: int = 0
    """The number of traces of these spans."""
    open: int = 0
    """The number of calls that had not ended. Their spans end with the log."""
    labels: tuple[str, ...] = ()
    """The labels of all tokens in the trace, selected or not."""


def otlp(
    source: Source,
    out: Out | None = None,
    *,
    exporter: Any = None,
    label: object = None,
    anchor: Anchor | None = None,
    values: int = VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    programs: Programs | None = None,
) -> Sent:
    """Sends spans of OpenTelemetry: calls, with their callers as parents; a trace for each label of a token.

    docs/otel.md describes the mapping. Needs ``inviso[otel]``.

    Args:
        source: see :mod:`inviso.export`.
        out: ``"http://host:4318"`` (or https), a collector by OTLP over HTTP; ``"grpc://host:4317"`` (``grpcs://`` with
            TLS), a collector by gRPC; a path, or a binary file, for files of collectors: a line of OTLP's JSON for each
            batch. None: the collector of ``OTEL_EXPORTER_OTLP_ENDPOINT`` and OpenTelemetry's other variables.
        exporter: a span exporter of its SDK, in place of ``out``. It is flushed, but not shut down.
        label: only spans of tokens with this label.
        anchor: for logs with monotonic timestamps: the two clocks of the writing node at one moment. For a session it
            is taken now.
        values: bytes of text for arguments, results and messages; 0 leaves them out.
        names, programs: as for :func:`perfetto`.

    Raises:
        BadArg: a wrong argument; the messages have no timestamps, or monotonic ones without an ``anchor``.
        ModuleNotFoundError: ``inviso[otel]`` is missing.
        ConnectionError: the collector did not accept the spans.

    >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    >>> memory = InMemorySpanExporter()
    >>> head = "trace_ts", inviso.self()
    >>> messages = [(*head, "call", ("shop", "price", ["tea"]), (0, 1, 0))]
    >>> messages.append((*head, "return_from", ("shop", "price", 1), 3, (0, 2, 0)))
    >>> otlp(messages, exporter=memory).spans
    1
    >>> span, = memory.get_finished_spans()
    >>> span.name, span.end_time - span.start_time, span.attributes["inviso.result"]
    ('shop.price', 1000000000, '3')
    """
    where = "otlp/2"
    needed("opentelemetry.sdk.trace")
    checked_values(where, values)
    if out is not None and exporter is not None:
        raise BadArg(where, "out", "there is an exporter, too; pass one of them")
    if exporter is not None and not callable(getattr(exporter, "export", None)):
        raise BadArg(where, "exporter", f"{shown(exporter)} is not a span exporter; pass one of opentelemetry's SDK")
    if anchor is not None and not isinstance(anchor, Anchor):
        raise BadArg(where, "anchor", f"{shown(anchor)} is not an anchor; pass a seq_trace.Anchor")
    if anchor is None and isinstance(source, Session):
        anchor = Anchor.now()
    making = Making(where, source, values=values, names=names, programs=programs, causal=True)
    wanted = None if label is None else etf.dumps(label)[1:]
    with _target(where, out, exporter, making) as export:
        spans: Spans | None = None
        sent, traces = 0, set[int]()
        give = _Batches(export)
        with making:
            for step in _steps(making.pieces("steps")):
                if spans is None:
                    spans = Spans(_shift(where, step["clock"], anchor), wanted)
                for span in spans.take(step):
                    traces.add(span.trace)
                    sent += give(span)
        for span in spans.end() if spans else ():
            traces.add(span.trace)
            sent += give(span)
        give.flush()
    found = spans or Spans()
    return Sent(*making.summary(), sent, len(traces), found.open, tuple(found.labels))


def _shift(where: str, clock: str, anchor: Anchor | None) -> int:
    if clock == "order":
        raise BadArg(where, "source", "its messages have no time stamps, and a span has a time; trace with 'timestamp'")
    if clock == "timestamp":
        return 0
    if anchor is None:
        why = "its time stamps are monotonic, and spans have the wall clock's; pass anchor=, or trace with 'timestamp'"
        raise BadArg(where, "anchor", why)
    return anchor.wall - anchor.monotonic


def _steps(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    left = b""
    for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        for line in lines:
            yield json.loads(line)


class _Batches:
    """Passes spans to an exporter in batches."""

    def __init__(self, export: Callable[[list[Any]], None]) -> None:
        self._export = export
        self._make = _Made()
        self._waiting: list[Any] = []

    def __call__(self, span: Span) -> int:
        self._waiting.append(self._make(span))
        if len(self._waiting) >= _AT_A_TIME:
            self.flush()
        return 1

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._export(waiting)


class _Made:
    """Makes spans of the SDK."""

    def __init__(self) -> None:
        self._sdk = needed("opentelemetry.sdk.trace")
        self._api = needed("opentelemetry.trace")
        self._resource = needed("opentelemetry.sdk.resources").Resource
        scope = needed("opentelemetry.sdk.util.instrumentation").InstrumentationScope
        self._scope = scope("inviso", schema_url=_SCHEMA)
        self._resources: dict[Any, Any] = {}

    def __call__(self, span: Span) -> Any:
        api = self._api
        status = api.Status() if span.error is None else api.Status(api.StatusCode.ERROR, span.error)
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.trace, span.number, is_remote=False),
            parent=None if span.parent is None else self._context(span.parent.trace, span.parent.span, is_remote=False),
            resource=self._of(span.place),
            attributes={**span.attributes, **self._who(span.place)},
            events=[self._sdk.Event(name, attributes, at) for name, at, attributes in span.events],
            links=[api.Link(self._context(trace, number, is_remote=True)) for trace, number in span.links],
            kind=api.SpanKind[span.kind.upper()],
            status=status,
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=self._scope,
        )

    def _context(self, trace: int, span: int, *, is_remote: bool) -> Any:
        return self._api.SpanContext(trace, span, is_remote, self._api.TraceFlags(1))

    def _who(self, place: Place) -> dict[str, Any]:
        number = {} if place.tid is None else {"thread.id": place.tid}
        return {"inviso.process": place.title} | ({"thread.name": place.title} if number else {}) | number

    def _of(self, place: Place) -> Any:
        resource = self._resources.get(place.node)
        if resource is None:
            node = place.node
            program = node.program or "unknown_service"
            about: dict[str, Any] = {"service.name": program, "service.instance.id": node.name}
            if node.pid is not None:
                about["process.pid"] = node.pid
            resource = self._resources[node] = self._resource(about, _SCHEMA)
        return resource


class _target:
    """Opens the exporter or file for spans, and closes it at the end of the ``with`` block."""

    def __init__(self, where: str, out: Any, exporter: Any, making: Making) -> None:
        self._exporter, self._given = exporter, exporter is not None
        self._file: Any = None
        self._to = shown(out)
        if exporter is not None:
            return
        if out is None or (isinstance(out, str) and "://" in out):
            self._exporter = _collector(where, out)
        else:
            needed("opentelemetry.exporter.otlp.proto.common.trace_encoder")
            target = _out.target(where, out)
            making.apart(target)
            self._file = _out.file(target)

    def __enter__(self) -> Callable[[list[Any]], None]:
        if self._file is not None:
            return _Lines(self._file.__enter__())
        return self._export

    def _export(self, spans: list[Any]) -> None:
        result = self._exporter.export(spans)
        if getattr(result, "name", "SUCCESS") != "SUCCESS":
            raise ConnectionError(f"{self._to}: {len(spans)} spans were not taken; is there a collector?")

    def __exit__(self, *error: Any) -> None:
        if self._file is not None:
            self._file.__exit__(*error)
        elif self._given:
            getattr(self._exporter, "force_flush", bool)()
        else:
            self._exporter.shutdown()


def _collector(where: str, out: str | None) -> Any:
    import os

    scheme, _, host = (out or "").partition("://")
    if out is None:
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        if protocol not in (None, *_PROTOCOLS):
            why = f"OTEL_EXPORTER_OTLP_PROTOCOL is {shown(protocol)}; set it to one of {', '.join(_PROTOCOLS)}"
            raise BadArg(where, "out", why)
        scheme = "grpc" if protocol == "grpc" else "http"
    if scheme not in ("http", "https", "grpc", "grpcs") or (out is not None and not host):
        why = f"{shown(out)} is not a collector; pass http://host:4318, grpc://host:4317, or the path of a file"
        raise BadArg(where, "out", why)
    if scheme in ("grpc", "grpcs"):
        found = needed("opentelemetry.exporter.otlp.proto.grpc.trace_exporter").OTLPSpanExporter
        return found() if out is None else found(endpoint=host, insecure=scheme == "grpc")
    found = needed("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter
    if out is None:
        return found()
    address = out.rstrip("/")
    return found(endpoint=address if "/" in host.rstrip("/") else f"{address}/v1/traces")


class _Lines:
    """Writes spans as OTLP's JSON. It has ids of traces and spans in base 16; protobuf's own JSON has base 64."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encode = needed("opentelemetry.exporter.otlp.proto.common.trace_encoder").encode_spans
        self._dict = needed("google.protobuf.json_format").MessageToDict

    def __call__(self, spans: list[Any]) -> None:
        found = self._dict(self._encode(spans), use_integers_for_enums=True)
        _in_base_16(found)
        self._file.write(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


_IDS = ("traceId", "spanId", "parentSpanId")


def _in_base_16(value: Any) -> None:
    for resource in value.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for of in (span, *span.get("links", ())):
                    for name in _IDS:
                        if name in of:
                            of[name] = base64.b64decode(of[name]).hex()
