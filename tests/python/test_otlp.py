"""Spans for OpenTelemetry: their contents, their destinations, and their links to OpenTelemetry's own."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import inviso
import pytest
from cli_tools import command, execute
from export_tools import log, pid
from inviso import BadArg, export, seq_trace

memory_exporter = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
trace_api = pytest.importorskip("opentelemetry.trace")

SECOND = 1_000_000_000


def stamp(at: int) -> tuple[int, int, int]:
    return 0, at, 0


def call(who: Any, name: str, at: int, *arguments: Any) -> Any:
    return "trace_ts", who, "call", ("shop", name, list(arguments)), stamp(at)


def back(who: Any, name: str, at: int, value: Any = "ok", arity: int = 0) -> Any:
    return "trace_ts", who, "return_from", ("shop", name, arity), value, stamp(at)


def seq(word: str, label: Any, serial: tuple[int, int], sender: Any, to: Any, at: int, message: Any = "m") -> Any:
    return "seq_trace", label, (word, serial, sender, to, message), stamp(at)


def spans(messages: Any, **options: Any) -> dict[str, Any]:
    memory = memory_exporter.InMemorySpanExporter()
    sent = export.otlp(messages, exporter=memory, **options)
    found = memory.get_finished_spans()
    assert sent.spans == len(found) and sent.traces == len({span.context.trace_id for span in found})
    return {span.name.removeprefix("shop."): span for span in found}


def parent(span: Any) -> int | None:
    return None if span.parent is None else span.parent.span_id


A, B = pid(0), pid(1)


def test_calls_have_their_callers_as_parents() -> None:
    found = spans([call(A, "order", 1, 7), call(A, "price", 2), back(A, "price", 3, 5), back(A, "order", 5, "done", 1)])
    order, price = found["order"], found["price"]
    assert (order.start_time, order.end_time, parent(order)) == (SECOND, 5 * SECOND, None)
    assert (price.context.trace_id, parent(price)) == (order.context.trace_id, order.context.span_id)
    assert price.attributes["inviso.result"] == "5" and order.attributes["inviso.args"] == "[7]"
    assert order.attributes["code.function.name"] == "shop.order" and order.status.is_unset
    # a repetition is the same
    assert spans([call(A, "order", 1, 7), back(A, "order", 5)])["order"].context.trace_id == order.context.trace_id


def test_an_exception_is_an_event_by_its_conventions() -> None:
    raised = (
        "trace_ts",
        A,
        "exception_from",
        ("shop", "price", 0),
        ("error", ("builtins.ValueError", ("no tea",))),
        stamp(2),
    )
    span = spans([call(A, "price", 1), raised])["price"]
    (event,) = span.events
    assert (event.name, event.timestamp) == ("exception", 2 * SECOND)
    assert dict(event.attributes) == {"exception.type": "builtins.ValueError", "exception.message": "no tea"}
    assert (span.status.status_code.name, span.status.description) == ("ERROR", "builtins.ValueError: no tea")
    assert span.attributes["error.type"] == "builtins.ValueError"


def test_a_receipt_links_to_the_span_that_sent() -> None:
    """A sends within a call; B takes it, and answers; A has the answer within the same call."""
    messages = [
        call(A, "order", 1), seq("send", "order 7", (0, 1), A, B, 2), seq("receive", "order 7", (0, 1), A, B, 3),
        call(B, "price", 4), seq("send", "order 7", (1, 2), B, A, 5), back(B, "price", 6),
        seq("receive", "order 7", (1, 2), B, A, 7), back(A, "order", 8),
    ]  # fmt: skip
    found = spans(messages)
    order, price, receive = found["order"], found["price"], found["receive"]
    assert len({span.context.trace_id for span in found.values()}) == 1
    assert [link.context.span_id for link in receive.links] == [order.context.span_id] == [parent(receive)]
    assert (receive.kind.name, receive.start_time) == ("CONSUMER", 3 * SECOND)
    assert parent(price) == receive.context.span_id
    assert [link.context.span_id for link in order.links] == [price.context.span_id]
    assert [event.name for event in order.events] == ["send", "receive"]
    assert order.events[0].attributes["inviso.label"] == "'order 7'"


def test_each_label_is_a_trace_also_within_one_call() -> None:
    messages = [call(A, "main", 1)]
    for n in (7, 8):
        at = 10 * n
        messages += [call(A, f"order{n}", at), call(A, f"price{n}", at + 1), back(A, f"price{n}", at + 2)]
        messages += [seq("print", n, (0, n), A, [], at + 3), back(A, f"order{n}", at + 4)]
    messages.append(back(A, "main", 200))
    found = spans(messages)
    trace = {name: span.context.trace_id for name, span in found.items()}
    assert trace["order7"] == trace["price7"] == trace["main"] != trace["order8"] == trace["price8"]
    assert parent(found["order7"]) == found["main"].context.span_id and parent(found["order8"]) is None
    assert parent(found["price8"]) == found["order8"].context.span_id
    only = spans(messages, label=8)
    assert set(only) == {"order8", "price8"}
    sent = export.otlp(messages, exporter=memory_exporter.InMemorySpanExporter(), label="nine")
    assert (sent.spans, sent.labels) == (0, ("7", "8"))


def test_losses_and_ends_that_were_not_seen() -> None:
    messages = [
        call(A, "price", 0),
        back(A, "price", 0),
        call(A, "order", 1),
        ("drop", 5),
        call(A, "price", 3),
        back(A, "order", 4),
        call(A, "open", 5),
    ]
    messages += [
        call(B, "ended", 1),
        ("trace_ts", B, "exit", "killed", stamp(6)),
        call(A, "again", 7),
        back(A, "again", 8),
    ]
    memory = memory_exporter.InMemorySpanExporter()
    sent = export.otlp([*messages, call(B, "last", 9), back(B, "last", 9)], exporter=memory)
    found = {span.name.removeprefix("shop."): span for span in memory.get_finished_spans()}
    assert (sent.dropped, sent.open) == (5, 1)
    (lost,) = found["order"].events
    assert (lost.name, lost.attributes["inviso.count"]) == ("lost", 5)
    ends = {name: span.attributes.get("inviso.end") for name, span in found.items()}
    assert ends == {"order": None, "price": "not seen", "open": "open", "ended": "exit", "again": None, "last": None}
    assert found["ended"].end_time == 6 * SECOND and found["open"].end_time == 9 * SECOND, "of the last message"
    (alone,) = spans([("drop", 2), call(A, "f", 1), back(A, "f", 2)])["lost"].events
    assert alone.attributes["inviso.count"] == 2


def test_the_resource_is_the_program() -> None:
    span = spans([call(A, "f", 1), back(A, "f", 2)])["f"]
    about = span.resource.attributes
    assert about["process.pid"] == os.getpid() and about["service.instance.id"] == inviso.node()
    assert about["service.name"] and about["service.name"] != inviso.node()
    given = spans([call(A, "f", 1), back(A, "f", 2)], programs={inviso.node(): (12, "shop.py")})[
        "f"
    ].resource.attributes
    assert (given["process.pid"], given["service.name"]) == (12, "shop.py")


def test_times_are_the_wall_clock_s_or_refused() -> None:
    untimed = [("trace", A, "call", ("shop", "f", []))]
    with pytest.raises(BadArg, match="source: its messages have no time stamps"):
        spans(untimed)
    monotonic = [
        ("trace_ts", A, "call", ("shop", "f", []), -500),
        ("trace_ts", A, "return_from", ("shop", "f", 0), 1, 0),
    ]
    with pytest.raises(BadArg, match="anchor: its time stamps are monotonic"):
        spans(monotonic)
    span = spans(monotonic, anchor=seq_trace.Anchor(monotonic=0, wall=SECOND))["f"]
    assert (span.start_time, span.end_time) == (SECOND - 500, SECOND)


def test_errors_of_arguments_name_the_remedy() -> None:
    for argument, options in (
        ("out", {"out": "ftp://h"}), ("out", {"out": "http://"}),
        ("exporter", {"exporter": 5}), ("values", {"values": -1}),
        ("out", {"out": "x", "exporter": memory_exporter.InMemorySpanExporter()}),
        ("anchor", {"anchor": 3, "out": io.BytesIO()}),
        ("programs", {"programs": {"a@h": 5}, "out": io.BytesIO()}), ("programs", {"programs": 5, "out": io.BytesIO()}),
    ):  # fmt: skip
        with pytest.raises(BadArg) as caught:
            export.otlp([], **options)
        assert caught.value.argument == argument and ";" in caught.value.why


# where they go


def received(data: bytes) -> list[str]:
    request = trace_service.ExportTraceServiceRequest.FromString(data)
    return [span.name for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A receiver of OTLP over HTTP."""
    found: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


MESSAGES = [call(A, "order", 1), back(A, "order", 2)]


def test_to_a_collector_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (address, found):
        assert export.otlp(MESSAGES, address).spans == 1
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        assert export.otlp(MESSAGES).spans == 1
    assert [(path, received(data)) for path, data in found] == [("/v1/traces", ["shop.order"])] * 2
    with collector(status=400) as (address, found), pytest.raises(ConnectionError, match="1 spans were not taken"):
        export.otlp(MESSAGES, address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke")
    with pytest.raises(BadArg, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'smoke'"):
        export.otlp(MESSAGES)


def test_to_a_collector_over_grpc() -> None:
    grpc = pytest.importorskip("grpc")
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    found: list[bytes] = []

    class Receiver(service.TraceServiceServicer):  # type: ignore[misc,name-defined]
        def Export(self, request: Any, context: Any) -> Any:
            found.append(request.SerializeToString())
            return trace_service.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(1))
    service.add_TraceServiceServicer_to_server(Receiver(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert export.otlp(MESSAGES, f"grpc://127.0.0.1:{port}").spans == 1
    finally:
        server.stop(None).wait()
    assert [received(data) for data in found] == [["shop.order"]]


def test_to_a_file_of_json_lines(tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    messages = [
        call(A, "order", 1),
        seq("send", 7, (0, 1), A, B, 2),
        seq("receive", 7, (0, 1), A, B, 3),
        back(A, "order", 4),
    ]
    assert export.FORMATS["otlp"](messages, out).spans == 2
    (line,) = out.read_text().splitlines()
    (of,) = json.loads(line)["resourceSpans"]
    spans = {span["name"]: span for scope in of["scopeSpans"] for span in scope["spans"]}
    order, receive = spans["shop.order"], spans["receive"]
    assert all(re.fullmatch("[0-9a-f]{32}", span["traceId"]) for span in spans.values())
    assert receive["links"][0]["spanId"] == order["spanId"] == receive["parentSpanId"]
    assert (order["startTimeUnixNano"], order["kind"], receive["kind"]) == (str(SECOND), 1, 5)


def test_the_command(tmp_path: Path) -> None:
    path = log(tmp_path / "shop.log", [*MESSAGES, seq("print", "order 7", (0, 1), B, [], 3)])
    done = execute(command("export", "otlp", "-o", tmp_path / "out", path))
    assert (done.returncode, done.stderr) == (
        0,
        f"inviso export: 3 messages, 2 spans of 2 traces to {tmp_path / 'out'}\n",
    )
    done = execute(command("export", "otlp", "-o", tmp_path / "out", "--label", "order 7", path))
    assert done.stderr == f"inviso export: 3 messages, 1 spans of 1 traces to {tmp_path / 'out'}\n"
    done = execute(command("export", "otlp", "-o", tmp_path / "out", "--label", "8", path))
    assert done.stderr.endswith("inviso export: no span is of the label '8'; the labels are: 'order 7'\n")


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    path = log(tmp_path / "shop.log", MESSAGES)
    code = "import sys; sys.modules['opentelemetry'] = None; from inviso.cli import main; sys.exit(main(sys.argv[1:]))"
    done = execute([sys.executable, "-c", code, "export", "otlp", "-o", str(tmp_path / "out"), str(path)])
    assert (done.returncode, done.stderr) == (
        1,
        "inviso export: opentelemetry is missing: pip install 'inviso[otel]'\n",
    )
    assert not (tmp_path / "out").exists()


# with OpenTelemetry's own


def test_a_trace_of_opentelemetry_s_is_a_label_and_back() -> None:
    from inviso._traceparent import label_of
    from inviso.propagate.opentelemetry import SeqTracePropagator, current_label, span_context
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    label = label_of(0xAB, 0xCD)
    both = CompositePropagator([TraceContextTextMapPropagator(), SeqTracePropagator(labels=True)])
    try:
        both.extract({"traceparent": label})
        assert seq_trace.get_token("label") == ("label", label) and seq_trace.get_token("send") == ("send", True)
        carrier: dict[str, str] = {}
        both.inject(carrier)
        assert carrier["traceparent"] == label
        seq_trace.set_token(None)
        # a peer without traceparent has sent the token alone
        context = both.extract({"inviso-seq-trace": carrier["inviso-seq-trace"]})
        assert current_label(context) == label
        SeqTracePropagator().extract({"traceparent": label})
        assert seq_trace.get_token() is None
        assert span_context("order 7") is None and span_context(label_of(0, 1)) is None
    finally:
        seq_trace.reset_trace()
    # and its calls are below that span
    found = spans([call(A, "order", 1), seq("print", label, (0, 1), A, [], 2), back(A, "order", 3)])["order"]
    assert (found.context.trace_id, parent(found)) == (0xAB, 0xCD)


def test_docstrings() -> None:
    module = importlib.import_module("inviso.export._otlp")
    result = doctest.testmod(module, extraglobs={"inviso": inviso}, optionflags=doctest.ELLIPSIS)
    assert not result.failed and result.attempted > 5


def test_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "otel.md").read_text()
    program = tmp_path / "page.py"
    program.write_text("\n".join(re.findall(r"```python otel\n(.*?)```", page, re.DOTALL)))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
