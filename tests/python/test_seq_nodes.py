"""Tokens across nodes: headers, middleware, clients' hooks, environments; and harmless headers from outside."""

from __future__ import annotations

import asyncio
import base64
import copy
import importlib
import os
import pickle
import queue
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import inviso
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inviso import Atom, _native, seq_trace
from inviso.propagate import asgi, wsgi
from trace_tools import SUBJECTS

PATIENCE = 30.0
HEADER = "inviso-seq-trace"


@pytest.fixture(autouse=True)
def collector() -> Iterator[seq_trace.Collector]:
    """The system tracer; afterwards there is neither token nor tracer."""
    seq_trace.reset_trace()
    with seq_trace.Collector() as collector:
        yield collector
        seq_trace.reset_trace()
    inviso.set_node("nonode@nohost")


def begin(label: Any = 17, *flags: str) -> None:
    seq_trace.set_token("label", label)
    for flag in flags or ("send", "receive", "print"):
        seq_trace.set_token(flag, True)


def infos(collector: seq_trace.Collector, label: Any = 17) -> list[Any]:
    return [event[2] for event in collector.output().events if event[1] == label]


def in_process(body: Callable[..., Any], *args: Any) -> Any:
    """Runs a process of its own to its end; returns its result."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append((body(*args), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=run)
    seq_trace.set_token(None)
    thread.start()
    thread.join(PATIENCE * 2)
    value, error = done[0]
    if error is not None:
        raise error
    return value


def header(term: Any) -> dict[str, str]:
    """A header that holds any term."""
    return raw(_native.etf.term_to_binary(term))


def raw(data: bytes) -> dict[str, str]:
    """A header that holds any bytes."""
    return {HEADER: "01-" + base64.urlsafe_b64encode(data).decode().rstrip("=")}


def child(program: str, **env: str) -> str:
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- headers


def test_a_header_is_a_message_by_the_serial_algorithm(collector: seq_trace.Collector) -> None:
    headers: dict[str, str] = {}

    def client() -> inviso.Pid:
        begin()
        assert seq_trace.inject(headers) is headers
        return inviso.self()

    def server() -> tuple[inviso.Pid, Any, Any]:
        had = seq_trace.extract({"HOST": "here", HEADER.upper(): headers[HEADER]})
        seq_trace.print("here")
        return inviso.self(), had, seq_trace.get_token()

    sender = in_process(client)
    taker, had, token = in_process(server)
    assert had and token == (7, 17, 2, taker, 1)
    sent, taken, printed = infos(collector)
    assert sent[:3] == ("send", (0, 1), sender) and taken[:4] == ("receive", (0, 1), sender, taker)
    assert printed == ("print", (1, 2), taker, [], "here")
    carrier = sent[3]
    assert carrier.kind == "queue" and sent[4] == taken[4] == ("headers", carrier)


def test_a_header_is_ascii_and_safe() -> None:
    seq_trace.set_token("label", {"größe": [1.5, b"\xff", ("a", None)]})
    value = seq_trace.inject({})[HEADER]
    assert re.fullmatch("01-[A-Za-z0-9_-]+", value) and len(value) < seq_trace.LIMIT


def test_another_process_has_the_label_and_the_sender_s_node() -> None:
    inviso.set_node("client@here")
    label = (Atom("order"), 1 << 70, {"größe": [1.5, b"\xff", None, True]}, frozenset({1}), inviso.self())
    begin(label)
    value = seq_trace.inject({})[HEADER]
    told = child(
        "import pickle, sys, os, inviso; from inviso import seq_trace;"
        "assert seq_trace.extract({'Inviso-Seq-Trace': os.environ['VALUE']});"
        "sys.stdout.write(pickle.dumps(seq_trace.get_token()).hex())",
        VALUE=value,
    )
    flags, told_label, serial, sender, previous = pickle.loads(bytes.fromhex(told))
    assert (flags, told_label, serial, sender, previous) == (7, label, 1, inviso.self(), 0)
    assert (
        child(
            "import os; from inviso import seq_trace; seq_trace.extract({'inviso-seq-trace': os.environ['VALUE']});"
            "_, label, _, pid, _ = seq_trace.get_token();"
            "print(pid.node, pid.is_local(), label[4] == pid, label[4].kind)",
            VALUE=value,
        )
        == "client@here False True thread"
    )


def test_pids_of_other_nodes_stay_what_they_are() -> None:
    far = _native.process.pid_of_node("far@there", 5 << 40 | 123, 44)
    begin((far, inviso.self()), "send", "print")
    assert seq_trace.get_token()[1] == (far, inviso.self()) and seq_trace.get_token()[1][0].node == "far@there"
    value = seq_trace.inject({})[HEADER]
    assert (
        child(
            "import os; from inviso import seq_trace; seq_trace.extract({'inviso-seq-trace': os.environ['VALUE']});"
            "print(*(pid.node for pid in seq_trace.get_token()[1]))",
            VALUE=value,
        )
        == f"far@there {inviso.node()}"
    )


def test_a_carrier_without_a_token_clears_and_a_malformed_one_too() -> None:
    for carrier in ({}, {HEADER: "01-"}, [], [("accept", "*/*")]):
        begin()
        assert not seq_trace.extract(carrier)
        assert seq_trace.get_token() is None
        begin()
        assert not seq_trace.extract(carrier, without="keep")
        assert seq_trace.get_token("label") == ("label", 17)


def test_a_carrier_can_be_anything() -> None:
    begin()
    value = seq_trace.inject({})[HEADER]
    several = {"name": []}
    seq_trace.inject(several, lambda carrier, name, header: carrier["name"].append((name, header)))
    assert several["name"][0][0] == HEADER
    carriers: list[Any] = [
        {HEADER: value}, {HEADER: [value]}, {HEADER.title(): value.encode()},
        [(HEADER, value)], ((HEADER.encode(), value.encode()),),
    ]  # fmt: skip
    for carrier in carriers:
        seq_trace.set_token(None)
        assert seq_trace.extract(carrier), carrier
    assert seq_trace.extract(None, lambda _, name: [value] if name == HEADER else None)
    assert not seq_trace.extract(None, lambda _, name: None)


def test_a_header_of_another_time_goes() -> None:
    begin()
    headers = {"Inviso-Seq-Trace": "old", "accept": "*/*"}
    seq_trace.inject(headers)
    assert list(headers) == ["accept", HEADER]
    seq_trace.set_token(None)
    assert seq_trace.inject(headers) == {"accept": "*/*"}


def test_a_label_that_fits_into_no_header_stays_and_is_counted() -> None:
    inviso.set_node("n" * 200 + "@here")
    begin([inviso.self()] * 100)
    before = seq_trace.rejected()
    assert seq_trace.inject({}) == {}
    assert seq_trace.rejected() == before + 1
    assert seq_trace.get_token("serial") == ("serial", (0, 0))


class ReadOnly(dict[str, str]):
    def __setitem__(self, name: str, value: str) -> None:
        raise KeyError(name)


def refuse(*_: Any) -> None:
    raise KeyError(HEADER)


def wsgi_request(start_response: Any) -> None:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        token = seq_trace.get_token()
        try:
            start_response("200 OK", [])
        finally:
            assert seq_trace.get_token() == token
        return []

    headers = seq_trace.inject({})
    wsgi.Middleware(application)({"HTTP_INVISO_SEQ_TRACE": headers[HEADER]}, start_response)


@pytest.mark.parametrize(
    ("sent", "fails"),
    [
        (0, lambda: seq_trace.inject({}, refuse)),
        (0, lambda: seq_trace.inject(ReadOnly())),
        (1, lambda: wsgi_request(refuse)),
    ],
)
def test_what_raises_has_sent_nothing(sent: int, fails: Any, collector: seq_trace.Collector) -> None:
    def client() -> None:
        begin()
        with pytest.raises(KeyError):
            fails()

    in_process(client)
    headers = [info for info in infos(collector) if info[0] == "send" and info[4][0] == "headers"]
    assert len(headers) == sent


@pytest.mark.parametrize("fails", [False, True])
def test_a_response_of_asgi_is_sent_before_it_is_on_the_wire(fails: bool, collector: seq_trace.Collector) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    def client(headers: Any) -> None:
        assert seq_trace.extract(headers)

    async def send(message: Any) -> None:
        if fails:
            raise KeyError(HEADER)
        await asyncio.get_running_loop().run_in_executor(None, client, message["headers"])

    async def server() -> None:
        begin()
        headers = [(HEADER.encode(), seq_trace.inject({})[HEADER].encode())]
        with pytest.raises(KeyError) if fails else nullcontext():
            await asgi.Middleware(application)({"type": "http", "headers": headers}, None, send)  # type: ignore[arg-type]

    in_process(asyncio.run, server())
    told = [info for info in infos(collector) if type(info[4]) is tuple and info[4][0] == "headers"]
    assert [info[0] for info in told] == ["send", "receive", "send", "receive"][: 3 if fails else 4]
    assert fails or told[2][1] == told[3][1]


def test_what_a_setter_sends_itself_comes_after(collector: seq_trace.Collector) -> None:
    def client() -> None:
        begin()
        found = queue.SimpleQueue[Any]()

        def fails(carrier: Any, name: str, value: str) -> None:
            found.put(value)
            refuse()

        seq_trace.inject({}, lambda carrier, name, value: found.put(value))
        with pytest.raises(KeyError):
            seq_trace.inject({}, fails)
        assert seq_trace.get_token("serial") == ("serial", (0, 4))

    in_process(client)
    assert [info[1] for info in infos(collector)] == [(0, 2), (0, 1), (0, 4)]


# -- hostile headers


def good_parts() -> list[Any]:
    """The header of the calling process."""
    aside = seq_trace.set_token(None)
    seq_trace.set_token("label", 1)
    token = seq_trace.inject({})[HEADER][3:]
    term = _native.etf.binary_to_term(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), 64, 8192)
    seq_trace.set_token(aside)
    return list(term)


def changed(**parts: Any) -> dict[str, str]:
    names = ["flags", "label", "serial", "sender", "previous", "carrier"]
    return header(tuple(parts.get(name, part) for name, part in zip(names, good_parts(), strict=True)))


def deep(levels: int) -> Any:
    term: Any = []
    for _ in range(levels):
        term = [term]
    return term


HOSTILE: dict[str, Callable[[], Any]] = {
    "empty": lambda: {HEADER: ""},
    "no version": lambda: {HEADER: header(1)[HEADER][3:]},
    "another version": lambda: {HEADER: "02" + changed()[HEADER][2:]},
    "no base64": lambda: {HEADER: "01-g2=="},
    "spaces": lambda: {HEADER: changed()[HEADER] + " "},
    "a line more": lambda: {HEADER: changed()[HEADER] + "\n"},
    "not ascii": lambda: {HEADER: changed()[HEADER] + "é"},
    "arabic digits": lambda: {HEADER: "٠١-" + changed()[HEADER][3:]},
    "cut off": lambda: {HEADER: changed()[HEADER][:-8]},
    "two of them": lambda: [(HEADER, changed()[HEADER])] * 2,
    "joined": lambda: {HEADER: ", ".join([changed()[HEADER]] * 2)},
    "no text": lambda: {HEADER: 17},
    "too long": lambda: changed(label="x" * 7000),
    "a megabyte": lambda: {HEADER: "01-" + "A" * (1 << 20)},
    "deep": lambda: changed(label=deep(100)),
    "no tuple": lambda: header([1, 2, 3]),
    "five parts": lambda: header((1, 2, 3, 4, 5)),
    "unknown flags": lambda: changed(flags=64),
    "negative flags": lambda: changed(flags=-1),
    "huge flags": lambda: changed(flags=1 << 80),
    "a serial of 63 bits": lambda: changed(serial=(1 << 63) - 1),
    "a serial of 62 bits": lambda: changed(serial=1 << 62),
    "a huge serial": lambda: changed(previous=1 << 100),
    "a negative serial": lambda: changed(serial=-1),
    "a serial that is none": lambda: changed(serial=1.0),
    "no sender": lambda: changed(sender="me"),
    "a queue as sender": lambda: changed(sender=good_parts()[5]),
    "a process as carrier": lambda: changed(carrier=inviso.self()),
    "bytes after it": lambda: raw(_native.etf.term_to_binary(tuple(good_parts())) + b"a" * 3),
    "compressed": lambda: raw(b"\x83P\x7f\xff\xff\xff" + b"x" * 30),
    "a tuple of very many": lambda: raw(b"\x83i\xff\xff\xff\xff"),
    "a pid of no node": lambda: raw(nodeless()),
}  # fmt: skip


def nodeless() -> bytes:
    """A token whose sender claims to be on the reading node."""
    creation = _native.process.origin_is(_native.process.origin())[2] & 0xFFFFFFFF
    return bytes(_native.etf.term_to_binary(tuple(good_parts()))).replace(creation.to_bytes(4, "big"), bytes(4))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_header_is_none_and_counted(what: str, collector: seq_trace.Collector) -> None:
    def server() -> None:
        carrier = HOSTILE[what]()
        begin("mine")
        seq_trace.set_token("serial", (3, 7))
        before, token = seq_trace.rejected(), seq_trace.get_token()
        assert not seq_trace.extract(carrier, without="keep")
        assert seq_trace.get_token() == token
        assert seq_trace.rejected() == before + 1
        assert not seq_trace.extract(carrier)
        assert seq_trace.get_token() is None
        assert seq_trace.rejected() == before + 2

    in_process(server)
    assert infos(collector, "mine") == []


def test_the_parts_of_a_hostile_header_are_right_otherwise() -> None:
    def server() -> None:
        for carrier in (changed(), changed(label=deep(40)), changed(serial=(1 << 62) - 1), changed(flags=63)):
            assert seq_trace.extract(carrier)

    in_process(server)


FAR, END = 1 << 61, 1 << 62


def through(services: list[ThreadPoolExecutor], headers: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Makes nested requests, each inside the one before. Returns the label in the last one, and its answer."""

    def serve(headers: dict[str, str]) -> dict[str, str]:
        seq_trace.extract(headers)
        return seq_trace.inject({})

    for service in services:
        headers = service.submit(serve, headers).result(PATIENCE)
    seq_trace.extract(headers)
    return seq_trace.get_token("label"), headers


@pytest.mark.parametrize("serial", [FAR - 2, FAR - 1, FAR, FAR + 1, END - 3, END - 2, END - 1])
@pytest.mark.parametrize("ways", ["the first", "all"])
def test_a_hostile_serial_does_no_harm_to_later_requests(serial: int, ways: str) -> None:
    hostile = changed(label="evil", serial=serial)
    services = [ThreadPoolExecutor(1) for _ in range(4)]
    try:
        through(services[:1] if ways == "the first" else services, hostile)
        rejected = seq_trace.rejected()
        for n in range(3):
            label = ("order", n)

            def client(label: Any = label) -> Any:
                begin(label)
                return through(services, seq_trace.inject({}))[0]

            assert in_process(client) == ("label", label)
        assert seq_trace.rejected() == rejected
    finally:
        for service in services:
            service.shutdown()


def test_a_client_s_next_sequence_goes_on_after_a_hostile_answer() -> None:
    hostile = changed(label="evil", serial=END - 1)

    def client() -> list[dict[str, str]]:
        begin("mine")
        assert seq_trace.extract(hostile)
        sent = [seq_trace.inject({})]
        seq_trace.set_token("label", "the next")
        assert seq_trace.get_token("serial") == ("serial", (0, 0))
        sent.append(seq_trace.inject({}))
        assert seq_trace.extract(hostile)
        seq_trace.set_token(None)
        begin("one more")
        assert seq_trace.get_token("serial") == ("serial", (0, 0))
        return [*sent, seq_trace.inject({})]

    assert [in_process(seq_trace.extract, headers) for headers in in_process(client)] == [False, True, True]


def test_a_thread_has_its_own_counter_again_after_a_hostile_request() -> None:
    application = wsgi.Middleware(lambda environ, start_response: [b""])

    def server() -> None:
        begin("mine")
        seq_trace.set_token("serial", (3, 7))
        application({"HTTP_INVISO_SEQ_TRACE": changed(serial=END - 1)[HEADER]}, lambda *_: None)
        seq_trace.print("further")
        assert seq_trace.get_token("serial") == ("serial", (3, 8))

    in_process(server)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda data: b"\x83h\x06" + data)), st.data())
def test_no_bytes_do_harm(data: bytes, more: Any) -> None:
    if more.draw(st.booleans()):
        whole = bytearray(_native.etf.term_to_binary(tuple(good_parts())))
        for at, byte in more.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
            whole[at] = byte
        data = bytes(whole)
    had = seq_trace.extract(raw(data))
    token = seq_trace.get_token()
    assert had == (token is not None)
    if had:
        assert 0 <= token[0] <= 63 and 0 <= token[2] < 1 << 62 and isinstance(token[3], inviso.Pid)
    seq_trace.reset_trace()


def test_atoms_of_others_are_not_kept() -> None:
    name = "nobody_has_made_this_atom"
    whole = bytes(_native.etf.term_to_binary(tuple(good_parts())))
    # its label, 1, becomes an atom
    at = whole.index(b"\x61\x01", 3)
    text = name.encode()
    made = whole[:at] + b"w" + bytes([len(text)]) + text + whole[at + 2 :]
    assert seq_trace.extract(raw(made))
    label = seq_trace.get_token("label")[1]
    assert label == name and type(label) is str and name not in Atom._all
    known = Atom("somebody_has_made_this_atom")
    assert seq_trace.extract(changed(label=known)) and seq_trace.get_token("label")[1] is known


def test_nodes_of_others_don_t_fill_the_memory() -> None:
    program = """
import inviso, base64
from inviso import seq_trace, _native
seq_trace.set_token("label", 1)
token = seq_trace.inject({})["inviso-seq-trace"][3:]
raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
creation = (_native.process.origin_is(_native.process.origin())[2] & 0xffffffff).to_bytes(4, "big")
for n in range(1, 20_000):
    made = raw.replace(creation, n.to_bytes(4, "big"))
    assert seq_trace.extract({"inviso-seq-trace": "01-" + base64.urlsafe_b64encode(made).decode().rstrip("=")})
    last = seq_trace.get_token()[3]
print(last.node)
"""
    assert child(program) == "toomany@nohost"


# -- environments


def test_a_child_gets_the_token_by_its_environment(collector: seq_trace.Collector) -> None:
    program = """
import os, subprocess, sys, inviso
from inviso import seq_trace
with seq_trace.Collector() as collector:
    assert seq_trace.from_environment()
    assert "INVISO_SEQ_TRACE" not in os.environ and not seq_trace.from_environment()
    assert "INVISO_SEQ_TRACE" in seq_trace.to_environment()
    seq_trace.print("in the child")
    seq_trace.set_token(None)
    assert "INVISO_SEQ_TRACE" not in seq_trace.to_environment({"INVISO_SEQ_TRACE": "old"})
    print(collector.output().to_json())
"""
    begin("job")
    env = seq_trace.to_environment()
    assert set(env) == {*os.environ, "INVISO_SEQ_TRACE"} and "INVISO_SEQ_TRACE" not in os.environ
    output = seq_trace.Output.from_json(child(program, **env))
    entries = seq_trace.merge(collector.output(), output)
    assert [(entry.tag, entry.serial) for entry in entries] == [
        ("send", (0, 1)), ("receive", (0, 1)), ("send", (1, 2)), ("print", (1, 3)),
    ]  # fmt: skip
    assert entries[1].sender == inviso.self() and entries[1].after == 0 and entries[2].by == "serial"


# -- middleware, called as servers do


def test_wsgi_leaves_the_server_s_thread_as_it_was() -> None:
    seen: list[Any] = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            seen.append(seq_trace.get_token("label"))
            yield b"a"
            seen.append(seq_trace.get_token("label"))
            yield b"b"

        def close(self) -> None:
            seen.append(seq_trace.get_token("label"))

    def application(environ: Any, start_response: Any) -> Body:
        seen.append(seq_trace.get_token("label"))
        start_response("200 OK", [])
        return Body()

    def server() -> None:
        begin("request")
        environ = {"HTTP_INVISO_SEQ_TRACE": seq_trace.inject({})[HEADER]}
        begin("server's own")
        said: list[Any] = []
        body: Any = wsgi.Middleware(application)(environ, lambda *args: said.append(args))
        for part in body:
            assert part in (b"a", b"b") and seq_trace.get_token("label") == ("label", "server's own")
        body.close()
        assert seq_trace.get_token("label") == ("label", "server's own")
        assert [name for name, _ in said[0][1]] == [HEADER]
        # a request without a token, and one that fails, leave it too
        assert list(wsgi.Middleware(lambda *_: [repr(seq_trace.get_token()).encode()])({}, None)) == [b"None"]
        with pytest.raises(ZeroDivisionError):
            wsgi.Middleware(lambda *_: 1 // 0)(environ, None)
        assert seq_trace.get_token("label") == ("label", "server's own")

    in_process(server)
    assert seen == [("label", "request")] * 4


def test_asgi_leaves_the_server_s_task_as_it_was() -> None:
    seen: list[Any] = []
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(seq_trace.get_token("label"))
        await asyncio.sleep(0)
        await send({"type": scope.get("answers", "http.response.start"), "headers": [(b"a", b"b")]})
        if scope.get("fails"):
            raise ZeroDivisionError

    async def keep(message: Any) -> None:
        sent.append([name for name, _ in message["headers"]])

    async def server() -> None:
        begin("request")
        headers = [(HEADER.encode(), seq_trace.inject({})[HEADER].encode())]
        begin("server's own")
        app = asgi.Middleware(application)
        await app({"type": "http", "headers": headers}, None, keep)
        await app({"type": "websocket", "headers": headers, "answers": "websocket.accept"}, None, keep)
        await app({"type": "http", "headers": []}, None, keep)
        with pytest.raises(ZeroDivisionError):
            await app({"type": "http", "headers": headers, "fails": True}, None, keep)
        assert seq_trace.get_token("label") == ("label", "server's own")

    in_process(asyncio.run, server())
    assert seen == [("label", "request")] * 2 + [None, ("label", "request")]
    assert sent == [[b"a", HEADER.encode()]] * 2 + [[b"a"], [b"a", HEADER.encode()]]


def test_an_answer_that_is_passed_on_has_one_header() -> None:
    def backend() -> dict[str, str]:
        begin("backend")
        return seq_trace.inject({"a": "b"})

    foreign = in_process(backend)
    heads: list[Any] = []

    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [(name.title(), value) for name, value in foreign.items()])
        return []

    async def aapplication(scope: Any, receive: Any, send: Any) -> None:
        headers = [[name.title().encode(), value.encode()] for name, value in foreign.items()]
        await send({"type": "http.response.start", "headers": iter(headers)})

    async def keep(message: Any) -> None:
        heads.append([(name.decode(), value.decode()) for name, value in message["headers"]])

    def client() -> None:
        begin("gateway")
        for carried in (True, False):
            mine = seq_trace.inject({})[HEADER]
            wsgi.Middleware(application)(
                {"HTTP_INVISO_SEQ_TRACE": mine} if carried else {}, lambda status, headers: heads.append(headers)
            )
            given = [(HEADER.encode(), mine.encode())] if carried else []
            asyncio.run(asgi.Middleware(aapplication)({"type": "http", "headers": given}, None, keep))  # type: ignore[arg-type]

    before = seq_trace.rejected()
    in_process(client)
    assert [[name for name, _ in head] for head in heads] == [["A", HEADER]] * 2 + [["A"]] * 2
    for head in heads[:2]:
        assert in_process(lambda head=head: (seq_trace.extract(head), seq_trace.get_token("label"))) == (
            True,
            ("label", "gateway"),
        )
    assert seq_trace.rejected() == before


def test_a_body_that_the_server_knows_goes_there_as_it_is(tmp_path: Path) -> None:
    from wsgiref.util import FileWrapper

    path = tmp_path / "body"
    path.write_bytes(b"whole")

    def client() -> None:
        begin("request")
        for environ in ({"HTTP_INVISO_SEQ_TRACE": seq_trace.inject({})[HEADER]}, {}):
            with path.open("rb") as file:
                wrapped = FileWrapper(file)
                environ["wsgi.file_wrapper"] = FileWrapper
                for body in (wrapped, file):
                    assert wsgi.Middleware(lambda *_, body=body: body)(environ, None) is body  # type: ignore[misc]
                other = wsgi.Middleware(lambda *_: iter([b"a"]))(environ, None)
                assert list(other) == [b"a"] and not isinstance(other, FileWrapper)

    in_process(client)


def test_a_reply_has_a_token_only_if_its_request_had_one() -> None:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        begin("the handler's own")
        start_response("200 OK", [])
        return [b""]

    said: list[Any] = []
    wsgi.Middleware(application)({}, lambda *args: said.append(args))
    assert said == [("200 OK", [])]


# -- whole services


@pytest.fixture(scope="module", params=["wsgi", "asgi"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Another node, which serves; its address."""
    words = [sys.executable, str(SUBJECTS / "seq_server.py"), request.param]
    serving = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(serving.stdout.readline())}"
    finally:
        serving.kill()
        serving.wait()
        serving.stdout.close()


# the server's answer, the client's end of the connection, whether a token came back
Told = tuple[Any, str, bool]
# yields addresses, and gets the events of each
Plan = Generator[str, Told, None]


def run(plan: Plan, ask: Callable[[str], Told]) -> None:
    try:
        url = next(plan)
        while True:
            url = plan.send(ask(url))
    except StopIteration:
        pass


async def arun(plan: Plan, ask: Callable[[str], Any]) -> None:
    try:
        url = next(plan)
        while True:
            url = plan.send(await ask(url))
    except StopIteration:
        pass


def by_requests(plan: Plan) -> None:
    import requests
    from inviso.propagate.requests import attach

    with attach(attach(requests.Session())) as session:

        def ask(url: str) -> Told:
            answer = session.get(url, timeout=PATIENCE)
            return answer.json(), answer.headers["x-client"], HEADER in answer.headers

        run(plan, ask)


def by_httpx(plan: Plan) -> None:
    import httpx
    from inviso.propagate.httpx import attach

    with attach(attach(httpx.Client(timeout=PATIENCE, trust_env=False))) as client:

        def ask(url: str) -> Told:
            answer = client.get(url)
            return answer.json(), answer.headers["x-client"], HEADER in answer.headers

        run(plan, ask)


def by_httpx_async(plan: Plan) -> None:
    import httpx
    from inviso.propagate.httpx import attach

    async def main() -> None:
        async with attach(httpx.AsyncClient(timeout=PATIENCE, trust_env=False)) as client:

            async def ask(url: str) -> Told:
                answer = await client.get(url)
                return answer.json(), answer.headers["x-client"], HEADER in answer.headers

            await arun(plan, ask)

    asyncio.run(main())


def by_aiohttp(plan: Plan) -> None:
    import aiohttp
    from inviso.propagate.aiohttp import trace_config

    async def main() -> None:
        async with aiohttp.ClientSession(trace_configs=[trace_config()]) as session:

            async def ask(url: str) -> Told:
                async with session.get(url) as answer:
                    return await answer.json(content_type=None), answer.headers["x-client"], HEADER in answer.headers

            await arun(plan, ask)

    asyncio.run(main())


CLIENTS = {
    "requests": by_requests,
    "httpx": by_httpx,
    "httpx, asynchronous": by_httpx_async,
    "aiohttp": pytest.param(by_aiohttp, marks=pytest.mark.skipif(sys.version_info >= (3, 15), reason="no aiohttp")),
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_call_and_its_reply_are_one_sequence(
    client: Callable[[Plan], None], server: str, collector: seq_trace.Collector
) -> None:
    connections = set()
    label = ["order", client.__name__, server]

    def plan() -> Plan:
        begin(label)
        answer, connection, replied = yield server + "/a"
        connections.add(connection)
        assert answer == [label, [0, 1], inviso.node()] and replied
        token = seq_trace.get_token()
        assert token[1:3] == (label, 3) and token[3].node == "server@here" and token[4] == 1
        # another request over the same connection has another label, or none
        seq_trace.set_token(None)
        answer, connection, replied = yield server + "/b"
        connections.add(connection)
        assert answer is None and not replied and seq_trace.get_token() is None
        begin("another")
        answer, connection, replied = yield server + "/c"
        connections.add(connection)
        label_there, (previous, current), _ = answer
        # a client may have started tasks to connect, and counted on with each
        assert (label_there, previous) == ("another", 3) and current > 3 and replied
        assert seq_trace.get_token()[1:3] == ("another", current + 2)
        seq_trace.set_token(None)

    in_process(client, plan())
    assert len(connections) == 1
    with urllib.request.urlopen(server + "/output", timeout=PATIENCE) as answer:
        remote = seq_trace.Output.from_json(answer.read().decode())
    entries = [entry for entry in seq_trace.merge(remote, collector.output()) if entry.label == label]
    # without the tasks that a client starts to connect
    entries = [entry for entry in entries if entry.content[0] == "headers" or entry.tag == "print"]
    assert [(entry.node, entry.tag, entry.serial) for entry in entries] == [
        (inviso.node(), "send", (0, 1)),
        ("server@here", "receive", (0, 1)),
        ("server@here", "print", (1, 2)),
        ("server@here", "send", (1, 3)),
        (inviso.node(), "receive", (1, 3)),
    ]
    assert None not in [entry.after for entry in entries[1:]]
    assert entries[0].process == entries[4].process and entries[1].process == entries[2].process == entries[3].sender


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_server_that_knows_nothing_of_tokens(client: Callable[[Plan], None]) -> None:
    """The server gets an unknown header; the caller keeps its token."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    headers: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(self.headers[HEADER])
            self.send_response(200)
            self.send_header("x-client", "1")
            self.send_header("content-length", "4")
            self.end_headers()
            self.wfile.write(b"null")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    def plan(url: str) -> Plan:
        begin("kept")
        yield url
        assert seq_trace.get_token()[1] == "kept"

    with HTTPServer(("127.0.0.1", 0), Handler) as strange:
        serving = threading.Thread(target=strange.handle_request)
        serving.start()
        in_process(client, plan(f"http://127.0.0.1:{strange.server_address[1]}/"))
        serving.join(PATIENCE)
    assert len(headers) == 1 and headers[0].startswith("01-")


def test_an_adapter_passes_for_the_one_within(server: str) -> None:
    import requests
    from inviso.propagate.requests import Adapter, attach
    from requests.adapters import HTTPAdapter

    class Own(HTTPAdapter):
        asked = 0

        def greet(self) -> str:
            return f"{type(self).__name__} {self.asked}"

    session = attach(requests.Session())
    session.mount("http://own", Adapter(Own(max_retries=2)))
    own: Any = session.get_adapter("http://own/x")
    own.asked = 5
    assert isinstance(own, Own) and (own.max_retries.total, own.greet(), own.adapter.asked) == (2, "Own 5", 5)
    del own.asked
    assert own.greet() == "Own 0"
    with pytest.raises(AttributeError, match="nothing"):
        _ = own.nothing
    session.adapters.pop("http://own")
    for copied in (pickle.loads(pickle.dumps(session)), copy.deepcopy(session)):
        adapter: Any = copied.get_adapter("https://x")
        within = adapter.adapter
        assert type(adapter) is Adapter and isinstance(adapter, HTTPAdapter) and type(within) is HTTPAdapter
        assert adapter.max_retries.total == 0 and adapter.poolmanager is within.poolmanager and adapter.config == {}
        assert adapter.proxy_manager_for("http://proxy:1") is within.proxy_manager["http://proxy:1"]
        begin(7, "print")
        assert copied.get(server + "/x", timeout=PATIENCE).json()[0] == 7
        copied.close()
    session.close()


def test_many_requests_at_once_keep_apart(server: str) -> None:
    """Threads share one session, and so its connections."""
    import requests
    from inviso.propagate.requests import attach

    session = attach(requests.Session())

    def caller(n: int) -> None:
        for k in range(20):
            label = n * 1000 + k if (n + k) % 3 else None
            seq_trace.set_token(None) if label is None else begin(label, "print")
            answer = session.get(server + "/x", timeout=PATIENCE).json()
            assert (answer and answer[0]) == label
            assert seq_trace.get_token("label") == (None if label is None else ("label", label))

    failed: list[BaseException] = []

    def kept(n: int) -> None:
        try:
            caller(n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=kept, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 2)
    session.close()
    assert not failed, failed[0]


# -- OpenTelemetry


def test_a_propagator_beside_others() -> None:
    from inviso.propagate.opentelemetry import SeqTracePropagator
    from opentelemetry import context
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    both = CompositePropagator([TraceContextTextMapPropagator(), SeqTracePropagator()])
    begin()
    carrier: dict[str, str] = {}
    both.inject(carrier)
    assert list(carrier) == [HEADER] and HEADER in both.fields

    def server() -> None:
        given = context.set_value("k", "v")
        found = both.extract(carrier, context=given)
        assert context.get_value("k", found) == "v" and seq_trace.get_token("label") == ("label", 17)
        assert both.extract({}) == context.get_current() and seq_trace.get_token() is None

    in_process(server)


# -- bad input, and missing packages


@pytest.mark.parametrize("kind", ["httpx", "requests"])
def test_what_is_no_client_is_refused(kind: str) -> None:
    pytest.importorskip(kind)
    attach = importlib.import_module(f"inviso.propagate.{kind}").attach
    for client in (None, 5, object()):
        with pytest.raises(inviso.BadArg, match=f"is no client; pass one of {kind}."):
            attach(client)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("carrier", lambda: seq_trace.inject(5)),
        ("carrier", lambda: seq_trace.inject([("a", "b")])),
        ("setter", lambda: seq_trace.inject({}, 5)),
        ("carrier", lambda: seq_trace.extract(5)),
        ("carrier", lambda: seq_trace.extract("text")),
        ("carrier", lambda: seq_trace.extract(["text"])),
        ("getter", lambda: seq_trace.extract({}, 5)),
        ("without", lambda: seq_trace.extract({}, without="leave")),
        ("env", lambda: seq_trace.to_environment(5)),
    ],
)
def test_wrong_arguments(argument: str, call: Any) -> None:
    begin()
    before = seq_trace.get_token(), seq_trace.rejected()
    with pytest.raises(inviso.BadArg) as refused:
        call()
    assert refused.value.argument == argument and "; pass" in refused.value.why
    assert (seq_trace.get_token(), seq_trace.rejected()) == before


@pytest.mark.parametrize(
    ("module", "package"),
    [("requests", "requests"), ("httpx", "httpx"), ("aiohttp", "aiohttp"), ("opentelemetry", "opentelemetry-api")],
)
def test_a_missing_package_is_named(module: str, package: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
try:
    import inviso.propagate.{module}
except ImportError as error:
    print(error)
"""
    assert child(program) == f"inviso.propagate.{module} needs the package {package}; install {package}"


def test_the_package_itself_imports_no_other() -> None:
    program = """
import sys, inviso.seq_trace, inviso.propagate.wsgi, inviso.propagate.asgi
print({"requests", "httpx", "aiohttp", "opentelemetry"} & set(sys.modules))
"""
    assert child(program) == "set()"


def test_the_answer_to_a_challenge_is_a_request_of_its_own(server: str, collector: seq_trace.Collector) -> None:
    import requests
    from inviso.propagate.requests import attach

    def again(response: requests.Response, **options: Any) -> requests.Response:
        # as HTTPDigestAuth does
        answer: requests.Response = response.connection.send(response.request.copy(), **options)  # type: ignore[attr-defined]
        return answer

    def body() -> None:
        begin("challenged")
        with attach(requests.Session()) as session:
            answer = session.get(server + "/a", timeout=PATIENCE, hooks={"response": again})
        label, [previous, current], _ = answer.json()
        assert (label, previous, current) == ("challenged", 3, 4)
        assert seq_trace.get_token()[1:3] == ("challenged", 6)
        seq_trace.set_token(None)

    in_process(body)
