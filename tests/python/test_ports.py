"""Ports: sockets, subprocesses and asyncio's transports."""

from __future__ import annotations

import array
import asyncio
import contextlib
import gc
import io
import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import Port, trace
from trace_tools import child, good
from waiting import until, until_blocked

EVENTS = ["ports", "send", "receive"]
CAT = [sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read())"]


def of(messages: list[Any], port: Port) -> list[Any]:
    """A port's messages: tags and elements."""
    return [message[2:] for message in messages if message[1] == port]


def data(messages: list[Any], port: Port) -> list[Any]:
    """The data through a port: direction and bytes."""
    return [(tag, more[0][1][1]) for tag, *more in of(messages, port) if tag in ("send", "receive")]


def stands(name: str) -> bool:
    """Whether a method of sockets is the original."""
    return socket.socket.__mro__[1].__dict__[name] is ORIGINAL[name] and getattr(socket.socket, name) is ORIGINAL[name]


ORIGINAL = {name: getattr(socket.socket, name) for name in ("send", "sendall", "recv", "recv_into", "bind")}


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


# identity


def test_a_port_is_a_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = map(inviso.port, pair)
    assert one == inviso.port(pair[0]) == inviso.port(one) != other
    assert hash(one) == hash(inviso.port(pair[0]))
    assert repr(one) == f"#Port<0.{one._number}>"
    assert (one < other) is not (one > other)
    assert sorted([other, one]) == sorted([one, other])
    assert (one.name, one.node, one.is_open(), one.is_alive()) == ("tcp_inet", inviso.node(), True, True)
    assert {one, other} <= set(inviso.ports())
    assert inviso.process.object_of(one) is pair[0]
    pair[0].close()
    assert (one.name, one.is_open()) == ("", False)
    assert one not in inviso.ports()
    assert inviso.process.object_of(one) in (None, pair[0])


def test_a_new_port_is_not_among_the_existing_ones(pair: tuple[socket.socket, socket.socket]) -> None:
    made = [Port() for _ in range(10)]
    assert len(set(made)) == 10
    assert not set(made) & set(inviso.ports())
    assert not any(port.is_open() for port in made)
    with socket.socket() as later:
        assert inviso.port(later) not in made
    assert pickle.loads(pickle.dumps(made[0])) == made[0]


ELSEWHERE = """
import pickle, socket, sys, inviso
from inviso import trace
with socket.socket() as one:
    own = inviso.port(one)
    while own._number < 50:
        own = inviso.Port()
    print(pickle.dumps([inviso.Port(), own]).hex())
"""


def test_a_port_of_another_node(session: trace.Session) -> None:
    _, there = pickle.loads(bytes.fromhex(good(ELSEWHERE)))
    here = Port._of(there._number)
    assert there != here
    assert hash(there) != hash(here)
    assert there in sorted([there, here])
    assert repr(there) != repr(here)
    assert (there.is_local(), there.is_open(), there.name) == (False, False, "")
    for call in (
        lambda: session.port(there, True, ["send"]),
        lambda: session.info(there, "flags"),
        lambda: trace.session_info(there),
        lambda: inviso.register("there", there),
        lambda: inviso.link(there),
    ):
        with pytest.raises(inviso.BadArg):
            call()


@pytest.mark.parametrize("odd", [None, 1, "x", b"", object(), socket, socket.socket, Port, inviso.self(), io.BytesIO()])
def test_what_is_no_port(odd: Any) -> None:
    with pytest.raises(inviso.BadArg, match=r"port/1, object: .* is no open port"):
        inviso.port(odd)


def test_a_closed_socket_is_no_port() -> None:
    gone = socket.socket()
    gone.close()
    with pytest.raises(inviso.BadArg, match=r"is no open port"):
        inviso.port(gone)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(socket.SOCK_STREAM, "tcp_inet"), (socket.SOCK_DGRAM, "udp_inet"), (socket.SOCK_SEQPACKET, "sctp_inet")],
)
def test_what_a_port_is(kind: socket.SocketKind, name: str) -> None:
    with socket.socket(socket.AF_UNIX, kind) as one:
        assert inviso.port(one).name == name
    with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as one:
        assert inviso.port(one).name == name


# messages


def test_a_socket_opens_and_closes_once(session: trace.Session) -> None:
    assert session.port("new", True, ["ports"]) == 0
    one = socket.socket()
    port = inviso.port(one)
    one.close()
    one.close()
    assert of(session.drain(), port) == [
        ("open", inviso.self(), "tcp_inet"), ("getting_linked", inviso.self()), ("closed", "normal")
    ]  # fmt: skip


def test_detach_closes(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    one = socket.socket()
    port = inviso.port(one)
    with socket.socket(fileno=one.detach()) as other:
        assert of(session.drain(), port)[-1] == ("closed", "normal")
        assert inviso.port(other) != port


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_socket_that_is_dropped_closes(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    one = socket.socket()
    port = inviso.port(one)
    del one
    gc.collect()
    assert of(session.drain(), port)[-1] == ("closed", "normal")
    assert not port.is_open()


def test_messages_at_both_ends(session: trace.Session) -> None:
    session.port("new", True, ["send", "receive"])
    me = inviso.self()
    session.process(me, True, ["send", "receive"])
    one, other = socket.socketpair()
    here, there = inviso.port(one), inviso.port(other)
    with one, other:
        assert one.send(b"hello") == 5
        assert other.recv(10) == b"hello"
    command, arrived = (me, ("command", b"hello")), (there, ("data", b"hello"))
    assert [message[1:] for message in session.drain()] == [
        (me, "send", command, here),
        (here, "receive", command),
        (there, "send", arrived, me),
        (me, "receive", arrived),
    ]


def test_a_process_hears_of_ports_only_while_somebody_asks_for_ports(
    session: trace.Session, make: Callable[..., trace.Session], pair: tuple[socket.socket, socket.socket]
) -> None:
    session.process(inviso.self(), True, ["send", "receive"])
    pair[0].send(b"1")
    pair[1].recv(1)
    assert session.drain() == []
    asks = make("ports")
    asks.port("new", True, ["ports"])
    pair[0].send(b"2")
    assert [message[2] for message in session.drain()] == ["send"]
    asks.destroy()
    pair[0].send(b"3")
    assert session.drain() == []


WAYS: list[tuple[str, Callable[[socket.socket, socket.socket], Any]]] = [
    ("send", lambda a, b: (a.send(b"abc"), b.recv(9))),
    ("sendall", lambda a, b: (a.sendall(bytearray(b"abc")), b.recv(9))),
    ("memoryview", lambda a, b: (a.send(memoryview(b"xabcx")[1:4]), b.recv(9))),
    ("sendmsg", lambda a, b: (a.sendmsg([b"a", bytearray(b"bc")]), b.recvmsg(9))),
    ("recv_into", lambda a, b: (a.send(b"abc"), b.recv_into(bytearray(9)))),
    ("recv_into keywords", lambda a, b: (a.send(b"abc"), b.recv_into(bytearray(9), nbytes=9))),
    ("recvfrom", lambda a, b: (a.send(b"abc"), b.recvfrom(9))),
    ("recvfrom_into", lambda a, b: (a.send(b"abc"), b.recvfrom_into(bytearray(9)))),
    ("recvmsg_into", lambda a, b: (a.send(b"abc"), b.recvmsg_into([bytearray(1), bytearray(9)]))),
    ("bound methods", lambda a, b: (list(map(a.send, [b"abc"])), list(map(b.recv, [9])))),
    ("files", lambda a, b: (a.makefile("wb", 0).write(b"abc"), b.makefile("rb", 0).read(3))),
    ("peek", lambda a, b: (a.send(b"abc"), b.recv(9, socket.MSG_PEEK), b.recv(9))),
]


@pytest.mark.parametrize(("name", "way"), WAYS, ids=[name for name, _ in WAYS])
def test_ways_to_write_and_read(session: trace.Session, name: str, way: Callable[..., Any]) -> None:
    session.port("new", True, ["send", "receive"])
    one, other = socket.socketpair()
    here, there = inviso.port(one), inviso.port(other)
    with one, other:
        way(one, other)
    messages = session.drain()
    assert data(messages, here) == [("receive", b"abc")]
    assert data(messages, there) == [("send", b"abc")]


def test_an_unknown_buffer_is_not_looked_into(session: trace.Session) -> None:
    session.port("new", True, ["receive"])
    one, other = socket.socketpair()
    with one, other:
        one.send(array.array("b", [1, 2, 3]))
        (found,) = data(session.drain(), inviso.port(one))
    assert found[1].type == "array.array"


def test_what_is_long_is_cut(make: Callable[..., trace.Session]) -> None:
    session = make(capture={"bytes": 4})
    session.port("new", True, ["receive"])
    one, other = socket.socketpair()
    with one, other:
        one.sendall(bytearray(b"0123456789"))
        assert data(session.drain(), inviso.port(one)) == [("receive", [b"0123", inviso.Cut("bytes")])]


def test_the_end_of_a_stream_is_no_message(session: trace.Session) -> None:
    session.port("new", True, ["send"])
    one, other = socket.socketpair()
    with other:
        port = inviso.port(other)
        one.close()
        assert other.recv(5) == b""
        assert session.drain() == [], port


def test_errors_reach_the_program_and_are_no_messages(session: trace.Session) -> None:
    session.port("new", True, [*EVENTS, "running_ports"])
    one, other = socket.socketpair()
    with one, other:
        port = inviso.port(other)
        other.setblocking(False)
        session.drain()
        with pytest.raises(BlockingIOError):
            other.recv(5)
        with pytest.raises(TypeError, match="bytes-like"):
            other.send("text")  # type: ignore[arg-type]
        assert of(session.drain(), port) == [("in", 0), ("out", 0), ("in", "command"), ("out", "command")]


def test_commands(session: trace.Session) -> None:
    session.port("new", True, ["running_ports"])
    with socket.socket() as listener, socket.socket() as client:
        here, there = inviso.port(listener), inviso.port(client)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        client.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        accepted, _ = listener.accept()
        client.sendall(b"x")
        accepted.recv(1)
        accepted.shutdown(socket.SHUT_RDWR)
        third = inviso.port(accepted)
        accepted.close()
    messages = session.drain()
    assert [what for tag, what in of(messages, here) if tag == "in"] == [
        "open", "control", "control", "control", "info", 0, "close"
    ]  # fmt: skip
    assert [what for tag, what in of(messages, there) if tag == "in"] == ["open", "connect", "info", "command", "close"]
    assert of(messages, third) == [
        (tag, what) for what in ("open", 0, "control", "close") for tag in ("in", "out")
    ]  # fmt: skip


def test_datagrams(session: trace.Session) -> None:
    session.port("new", True, ["send", "receive"])
    kind = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*kind) as one, socket.socket(*kind) as other:
        other.bind(("127.0.0.1", 0))
        here, there = inviso.port(one), inviso.port(other)
        one.sendto(b"abc", other.getsockname())
        one.sendto(b"", 0, other.getsockname())
        other.recvfrom(9)
        other.recvfrom(9)
        messages = session.drain()
    assert data(messages, here) == [("receive", b"abc"), ("receive", b"")]
    assert data(messages, there) == [("send", b"abc"), ("send", b"")]


def test_match_specs_look_at_messages_of_ports(session: trace.Session) -> None:
    session.port("new", True, ["send", "receive"])
    one, other = socket.socketpair()
    here, there = inviso.port(one), inviso.port(other)
    session.recv([(["_", inviso.self(), ("_", (inviso.Atom("command"), b"b"))], [], [("message", "$_")])])
    session.send([([inviso.self(), (there, "$1")], [("==", "$1", ((inviso.Atom("data"), b"a"),))], [])])
    with one, other:
        for letter in (b"a", b"b"):
            one.send(letter)
            other.recv(1)
    messages = session.drain()
    assert data(messages, here) == [("receive", b"b")]
    assert data(messages, there) == [("send", b"a")]


def test_a_match_spec_that_a_port_runs_knows_itself_as_a_port(session: trace.Session) -> None:
    one, other = socket.socketpair()
    there = inviso.port(other)
    session.port(there, True, ["send"])
    session.send([(["_", "_"], [("==", ("self",), there)], [("message", ["$$", ("self",), ("process_dump",)])])])
    with one, other:
        one.send(b"a")
        other.recv(1)
        [[*head, (_, itself, text)]] = session.drain()
        assert (head[1], itself) == (there, there)
        assert text.startswith("=port:#Port<0.")
        # by that it is found
        session.send([(["_", "_"], [], [("trace", ("self",), ["send"], [])])])
        one.send(b"b")
        other.recv(1)
        assert session.info(there, "flags") == ("flags", [])


# which ports


def test_existing_new_and_all(make: Callable[..., trace.Session], pair: tuple[socket.socket, socket.socket]) -> None:
    existing, new, every, one = (make(name) for name in ("existing", "new", "all", "one"))
    known = len(inviso.ports())
    assert existing.port("existing", True, ["receive"]) == known
    assert new.port("new", True, ["receive"]) == 0
    assert every.port("all", True, ["receive"]) == known
    assert one.port(pair[0], True, ["receive"]) == 1
    first, second = socket.socketpair()
    with first, second:
        pair[0].send(b"old")
        pair[1].send(b"other")
        first.send(b"new")
    seen = [[message[3][1][1] for message in session.drain()] for session in (existing, new, every, one)]
    assert seen == [[b"old", b"other"], [b"new"], [b"old", b"other", b"new"], [b"old"]]


def test_a_port_that_was_there_is_not_new(session: trace.Session, pair: tuple[socket.socket, socket.socket]) -> None:
    session.port("new", True, EVENTS)
    pair[0].send(b"x")
    pair[1].recv(1)
    pair[0].close()
    assert session.drain() == []


def test_flags_info_and_session_info(session: trace.Session, pair: tuple[socket.socket, socket.socket]) -> None:
    one = inviso.port(pair[0])
    assert trace.session_info(one) == trace.session_info(pair[0]) == []
    assert session.port(pair[0], True, ["send", "ports"]) == 1
    assert session.info(one, "flags") == session.info(pair[0], "flags") == ("flags", ["send", "ports"])
    assert session.info(pair[0], "tracer")[0] == "tracer"
    assert trace.session_info(pair[0]) == [session]
    assert session.port(one, False, ["send", "ports"]) == 1
    assert session.info(one, "flags") == ("flags", [])
    pair[0].close()
    assert session.info(one, "flags") is None
    assert trace.session_info(one) is None
    with pytest.raises(inviso.BadArg, match="is closed"):
        session.port(one, True, ["send"])


def test_threads_and_tasks_stand_for_themselves(session: trace.Session) -> None:
    me = threading.current_thread()
    assert session.process(me, True, ["call"]) == 1
    assert session.info(me, "flags") == session.info(inviso.self(), "flags") == ("flags", ["call"])
    assert trace.session_info(me) == [session]

    async def main() -> None:
        task = asyncio.current_task()
        assert session.process(task, True, ["send"]) == 1  # type: ignore[arg-type]
        assert session.info(task, "flags") == ("flags", ["send"])

    asyncio.run(main())


def test_an_error_asks_no_port(session: trace.Session) -> None:
    refused = (
        lambda s: inviso.send(s, 1),
        inviso.monitor,
        lambda s: inviso.exit(s, "bye"),
        lambda s: inviso.register(1, s),
    )
    with socket.socket() as plain:
        of_a_transport = asyncio.trsock.TransportSocket(plain)
        session.port(plain, True, ["ports", "running_ports"])
        for call in refused:
            for given in (plain, of_a_transport):
                with pytest.raises(inviso.BadArg):
                    call(given)
        assert session.drain() == []


@pytest.mark.parametrize("odd", [None, 1, b"", object(), "processes", socket.socket])
def test_bad_arguments(session: trace.Session, odd: Any) -> None:
    with pytest.raises(inviso.BadArg, match=r"port/4, ports: .* is not an open port"):
        session.port(odd, True, ["send"])
    with pytest.raises(inviso.BadArg, match="register/2"):
        inviso.register("odd", odd)
    with pytest.raises(inviso.BadArg, match="link/1"):
        inviso.link(odd)


# names and links


def test_names(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    one = socket.socket()
    port = inviso.port(one)
    inviso.register("listener", one)
    assert inviso.whereis("listener") == port
    inviso.unregister("listener")
    inviso.register("again", port)
    one.close()
    assert of(session.drain(), port)[2:] == [
        ("register", "listener"),
        ("unregister", "listener"),
        ("register", "again"),
        ("closed", "normal"),
        ("unregister", "again"),
    ]
    assert inviso.whereis("again") is None


def test_a_name_is_lost_without_a_session() -> None:
    one = socket.socket()
    inviso.register("lonely", one)
    assert not stands("send") or "lonely" in inviso.registered()
    one.close()
    assert inviso.whereis("lonely") is None


def test_links_of_an_opener(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    session.process(inviso.self(), True, ["procs"])
    me = inviso.self()
    one = socket.socket()
    port = inviso.port(one)
    assert port in inviso.links()
    inviso.unlink(one)
    assert port not in inviso.links()
    one.close()
    assert [message[1:] for message in session.drain()] == [
        (port, "open", me, "tcp_inet"),
        (me, "link", port),
        (port, "getting_linked", me),
        (me, "unlink", port),
        (port, "getting_unlinked", me),
        (port, "closed", "normal"),
    ]


def test_opening_tells_nobody_of_the_end(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    before = inviso.process.trap_exit(True)
    try:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"])
        assert inviso.peek() == []
    finally:
        inviso.process.trap_exit(before)
    assert inviso.links() == []


def test_a_link_that_was_asked_for_tells_of_the_end() -> None:
    before = inviso.process.trap_exit(True)
    try:
        one = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
        port = inviso.port(one)
        inviso.link(one)
        assert inviso.links() == [port]
        one.wait()
        assert inviso.receive(timeout=30) == ("EXIT", port, ("exit_status", 3))
        with pytest.raises(inviso.BadArg, match="link/1"):
            inviso.link(one)
        assert inviso.link(port)
        assert inviso.receive(timeout=30) == ("EXIT", port, "noproc")
    finally:
        inviso.process.trap_exit(before)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*words, "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl to make a certificate with")
    with path.open("a") as both:
        both.write(Path(f"{path}.crt").read_text())
    return path


def contexts(certificate: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    return server, client


def test_tls_is_seen_before_it_is_encrypted(session: trace.Session, certificate: Path) -> None:
    session.port("new", True, EVENTS)
    server, client = contexts(certificate)
    one, other = socket.socketpair()
    plain = inviso.port(one)
    answers: list[bytes] = []

    def serve() -> None:
        with server.wrap_socket(other, server_side=True) as connection:
            answers.append(connection.recv(100))
            connection.sendall(b"answer")

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(one) as connection:
        port = inviso.port(connection)
        connection.write(b"question")
        buffer = bytearray(100)
        assert connection.recv_into(buffer) == 6
    thread.join()
    messages = session.drain()
    assert answers == [b"question"]
    assert of(messages, plain)[-1] == ("closed", "normal")
    assert data(messages, plain) == []
    assert data(messages, port) == [("receive", b"question"), ("send", b"answer")]
    assert of(messages, port)[-1] == ("closed", "normal")


def test_sendall_over_tls_is_told_as_it_begins(session: trace.Session, certificate: Path) -> None:
    server, client = contexts(certificate)
    one, other = socket.socketpair()
    size, go = 300_000, threading.Event()
    seen: list[int] = []

    def serve() -> None:
        with server.wrap_socket(other, server_side=True) as connection:
            go.wait()
            while sum(seen) < size + 9:
                seen.append(len(connection.recv(size)))

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(one) as connection:
        port = inviso.port(connection)
        session.port("all", True, ["send", "receive"])
        go.set()
        connection.sendall(b"z" * size)
        connection.sendall(array.array("B", b"array"))
        assert connection.send(b"part") == 4
        thread.join()
        messages = session.drain()
    # the writer's is first, and single, in any case
    assert messages[0][1:3] == (port, "receive")
    parts = [what for tag, what in data(messages, port) if tag == "receive"]
    assert [len(parts), *parts[1:]] == [3, b"array", b"part"]
    assert len(messages) == 3 + len(seen)


# asyncio


def test_streams(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    pids: list[inviso.Pid] = []
    ports: dict[str, Port] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports["accepted"] = inviso.port(writer)
        writer.write((await reader.read(100)).upper())
        writer.close()

    async def main() -> None:
        pids.append(inviso.self())
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            ports["client"], ports["listener"] = map(inviso.port, (writer, server.sockets[0]))
            same = [inviso.port(writer.transport), inviso.port(writer.get_extra_info("socket"))]
            writer.writelines([b"he", b"llo"])
            writer.write_eof()
            assert await reader.read() == b"HELLO"
            writer.close()
            await writer.wait_closed()
            assert same == [ports["client"]] * 2

    asyncio.run(main())
    client, listener, accepted = (ports[name] for name in ("client", "listener", "accepted"))
    messages = session.drain()
    assert {message[1] for message in messages} == set(ports.values())
    assert of(messages, client)[0] == ("open", pids[0], "tcp_inet")
    assert of(messages, client)[2] == ("receive", (pids[0], ("command", b"hello")))
    assert data(messages, client) == [("receive", b"hello"), ("send", b"HELLO")]
    assert data(messages, accepted) == [("send", b"hello"), ("receive", b"HELLO")]
    assert data(messages, listener) == []
    for port in ports.values():
        assert [event for event in of(messages, port) if event[0] == "closed"] == [("closed", "normal")]


def test_what_writelines_is_given_may_be_any_iterable(session: trace.Session) -> None:
    class Own(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"own"])

    given: list[Callable[[], Any]] = [
        lambda: [b"li", b"st"],
        lambda: (b"tuple",),
        lambda: (part for part in [b"gen", b"erator"]),
        lambda: {b"dict": 1},
        lambda: iter([bytearray(b"bytearray"), memoryview(b"view")]),
        lambda: [array.array("B", b"array")],
        lambda: Own([b"other"]),
    ]
    told: list[Any] = []

    async def main() -> bytes:
        one, other = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=one)
        port = inviso.port(one)
        session.port(port, True, ["receive"])
        for make in given:
            writer.writelines(make())
            # it can't have been read before
            told.append([m[3][1][1] for m in session.drain()])
        writer.writelines([])
        with pytest.raises(TypeError):
            writer.writelines(iter([b"x", 1]))  # type: ignore[list-item]
        writer.writelines(iter([b"more" * 100_000]))
        writer.writelines(iter([b"behind"]))
        told.append([m[3][1][1] for m in session.drain()])
        writer.transport.abort()
        with other:
            return other.recv(1000)

    read = asyncio.run(main())
    expected = [b"list", b"tuple", b"generator", b"dict", b"bytearrayview", b"array", b"own"]
    assert told[:-1] == [[data] for data in expected]
    assert [len(told[-1]), told[-1][1]] == [2, b"behind"]
    assert read.startswith(b"".join(expected))


def test_a_write_is_one_message_whatever_becomes_of_it(session: trace.Session) -> None:
    session.port("new", True, ["receive"])
    size = 4_000_000
    got = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        while chunk := await reader.read(65536):
            got += len(chunk)
        writer.close()

    async def main() -> Port:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            port = inviso.port(writer)
            writer.write(b"x" * size)
            await writer.drain()
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
        return port

    port = asyncio.run(main())
    assert got == size
    (message,) = data(session.drain(), port)
    assert message[1][1] == inviso.Cut("bytes")


def test_what_can_not_be_written(session: trace.Session) -> None:
    released, flat = memoryview(b"x"), memoryview(b"x").cast("B", ())
    released.release()

    async def main() -> None:
        async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for data, error in ((released, ValueError), ("text", TypeError), (None, TypeError)):
                with pytest.raises(error):
                    writer.transport.write(data)  # type: ignore[arg-type]
            with contextlib.suppress(TypeError):  # from 3.12 on it has no length
                writer.transport.write(flat)
            writer.close()

    session.port("all", True, ["send", "receive"])
    asyncio.run(main())


def test_transports_that_exist_already(session: trace.Session) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            port = inviso.port(writer)
            session.port("existing", True, EVENTS)
            writer.write(b"echo")
            assert await reader.read() == b"echo"
            writer.close()
            await writer.wait_closed()
            messages = session.drain()
            assert data(messages, port) == [("receive", b"echo"), ("send", b"echo")]
            assert of(messages, port)[-1] == ("closed", "normal")

    asyncio.run(main())


@pytest.mark.parametrize("early", [True, False])
def test_tls_over_asyncio(session: trace.Session, certificate: Path, early: bool) -> None:
    if early:
        session.port("new", True, ["send", "receive"])
    server_side, client_side = contexts(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def main() -> Port:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side)
        async with server:
            address = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*address, ssl=client_side)
            port = inviso.port(writer)
            if not early:
                session.port(port, True, ["send", "receive"])
            writer.write(b"hello\n")
            assert await reader.read() == b"HELLO\n"
            writer.close()
            with contextlib.suppress(ssl.SSLError):
                await writer.wait_closed()
        return port

    port = asyncio.run(main())
    assert data(session.drain(), port) == [("receive", b"hello\n"), ("send", b"HELLO\n")]


def test_datagrams_of_asyncio(session: trace.Session) -> None:
    session.port("new", True, ["send", "receive"])

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            self.transport.sendto(data.upper(), address)

    class Once(asyncio.DatagramProtocol):
        def __init__(self) -> None:
            self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def datagram_received(self, data: bytes, address: Any) -> None:
            self.answer.set_result(data)

    async def main() -> list[Port]:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
        address = server.get_extra_info("sockname")
        client, once = await loop.create_datagram_endpoint(Once, remote_addr=address)
        ports = [inviso.port(server), inviso.port(client)]
        client.sendto(b"abc")
        assert await once.answer == b"ABC"
        server.close()
        client.close()
        return ports

    server, client = asyncio.run(main())
    messages = session.drain()
    assert data(messages, client) == [("receive", b"abc"), ("send", b"ABC")]
    assert data(messages, server) == [("send", b"abc"), ("receive", b"ABC")]


def test_datagrams_of_asyncio_that_are_empty_or_refused(session: trace.Session) -> None:
    session.port("new", True, ["send", "receive"])

    async def main() -> Port:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
        address = server.get_extra_info("sockname")
        client, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
        port = inviso.port(client)
        client.sendto(b"")
        with pytest.raises(ValueError):
            client.sendto(b"elsewhere", ("127.0.0.1", 1))
        with pytest.raises(TypeError):
            client.sendto("text")  # type: ignore[arg-type]
        client.sendto(b"here", address)
        client.close()
        client.sendto(b"late")
        server.close()
        return port

    port = asyncio.run(main())
    empty = [("receive", b"")] if sys.version_info >= (3, 13) else []  # before it, asyncio sends none
    assert data(session.drain(), port) == [*empty, ("receive", b"here")]


def test_a_write_beside_sendfile_is_refused(session: trace.Session, tmp_path: Path) -> None:
    session.port("new", True, ["receive"])
    (tmp_path / "file").write_bytes(b"x")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        one, other = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=one)
        with other, (tmp_path / "file").open("rb") as file:
            sending = asyncio.ensure_future(loop.sendfile(writer.transport, file))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError):
                writer.transport.write(b"refused")
            await sending
        writer.close()

    asyncio.run(main())
    assert "refused" not in repr(session.drain())


def test_pipes_of_asyncio(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    below, above = os.pipe()

    async def main() -> list[Port]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), io.FileIO(below, "rb"))
        outgoing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, io.FileIO(above, "wb"))
        ports = [inviso.port(incoming), inviso.port(outgoing)]
        outgoing.write(b"through")
        outgoing.close()
        assert await reader.read() == b"through"
        await asyncio.sleep(0)
        return ports

    incoming, outgoing = asyncio.run(main())
    messages = session.drain()
    assert of(messages, outgoing)[0][2] == "fd"
    assert data(messages, outgoing) == [("receive", b"through")]
    assert data(messages, incoming) == [("send", b"through")]
    assert of(messages, outgoing)[-1] == of(messages, incoming)[-1] == ("closed", "normal")


def test_loops_in_c_are_left_alone(session: trace.Session) -> None:
    uvloop = pytest.importorskip("uvloop")
    session.port("new", True, EVENTS)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        with pytest.raises(inviso.BadArg, match="is no open port"):
            inviso.port(writer)
        writer.write(b"echo")
        assert await reader.read() == b"echo"
        writer.close()
        server.close()

    uvloop.run(main())
    assert not [message for message in session.drain() if message[2] in ("send", "receive")]


def test_what_a_loop_wakes_itself_with_is_no_port(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    loop = asyncio.new_event_loop()
    try:
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,))
        thread.start()
        loop.run_forever()
        thread.join()
        with pytest.raises(inviso.BadArg):
            inviso.port(loop._ssock)  # type: ignore[attr-defined]
    finally:
        loop.close()
    assert session.drain() == []


def test_a_loop_that_exists_already(session: trace.Session) -> None:
    loop = asyncio.new_event_loop()
    try:
        session.port("all", True, EVENTS)
        loop.call_soon_threadsafe(loop.stop)
        loop.run_forever()
    finally:
        loop.close()
    assert session.drain() == []


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_collected(session: trace.Session, before: bool) -> None:
    loops = [asyncio.new_event_loop()] if before else []
    session.port("all", True, EVENTS)
    if not before:
        loops.append(asyncio.new_event_loop())
    loops.clear()
    gc.collect()
    assert session.drain() == []


def test_a_socket_that_a_finaliser_closes_is_closed_once(session: trace.Session) -> None:
    class Client:
        def __init__(self) -> None:
            self.me, self.sockets = self, socket.socketpair()

        def __del__(self) -> None:
            for one in self.sockets:
                one.close()

    session.port("new", True, ["ports"])
    client = Client()
    ports = [inviso.port(one) for one in client.sockets]
    del client
    gc.collect()
    messages = session.drain()
    assert [m[1] for m in messages if m[2] == "open"] == ports
    assert sorted(m[1] for m in messages if m[2] == "closed") == sorted(ports)


def list_ports() -> None:
    """Lists the ports in every possible way."""
    inviso.ports()
    with trace.session_create("other") as other:
        other.port("existing", True, ["ports"])
    with trace.session_create("other") as other:
        other.port("all", True, ["ports"])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("collected", [False, True])
def test_ports_are_listed_while_a_socket_is_in_close(session: trace.Session, collected: bool) -> None:
    if collected and not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("an object that another thread lets go of is freed by the thread that made it")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one, (other, _) = socket.create_connection(listener.getsockname()), listener.accept()
    with other:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.send(b"x" * 65536)
        one.setblocking(True)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\2\0\0\0")  # it waits two seconds
        port, number = inviso.port(one), one.fileno()
        session.port(one, True, ["ports"])
        inviso.register("conn", one)
        before = inviso.trap_exit(True)
        try:
            inviso.link(one)
            held = [one]
            closing = threading.Thread(target=held.clear if collected else one.close)
            del one
            closing.start()
            until(lambda: not Path(f"/proc/self/fd/{number}").exists())
            list_ports()
            assert closing.is_alive()
            assert port not in inviso.ports()
            assert inviso.whereis("conn") == port
            closing.join()
            assert inviso.receive(timeout=30) == ("EXIT", port, "normal")
        finally:
            inviso.trap_exit(before)
        assert [tag for tag, *_ in of(session.drain(), port)] == ["register", "getting_linked", "closed", "unregister"]


# subprocesses


def test_ports_are_listed_while_a_subprocess_is_started_and_waited_for(session: trace.Session) -> None:
    class Listing(subprocess.Popen[bytes]):
        def _execute_child(self, *args: Any) -> None:
            super()._execute_child(*args)  # type: ignore[misc]
            assert self.pid
            list_ports()

        def _handle_exitstatus(self, *args: Any) -> None:
            super()._handle_exitstatus(*args)  # type: ignore[misc]
            list_ports()

    session.port("new", True, ["ports"])
    with Listing([sys.executable, "-c", "raise SystemExit(3)"]) as process:
        port = inviso.port(process)
        process.wait()
    assert of(session.drain(), port) == [
        ("open", inviso.self(), "spawn"),
        ("getting_linked", inviso.self()),
        ("closed", ("exit_status", 3)),
    ]


def test_a_subprocess_that_does_not_start_was_never_a_port(session: trace.Session) -> None:
    listed: list[Port] = []

    class Failing(subprocess.Popen[bytes]):
        def _execute_child(self, *args: Any) -> None:
            super()._execute_child(*args)  # type: ignore[misc]
            listed.extend(inviso.ports())
            self.wait()
            raise OSError

    before = inviso.ports()
    session.port("new", True, ["ports"])
    with pytest.raises(OSError):
        Failing([sys.executable, "-c", ""])
    assert (listed, session.drain()) == (before, [])


def test_a_subprocess_is_one_port(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    me = inviso.self()
    one = subprocess.Popen(CAT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = inviso.port(one)
    assert port.name == "spawn"
    assert port in inviso.ports()
    assert one.communicate(b"text") == (b"text", None)
    one.wait()
    one.poll()
    assert not port.is_open()
    assert of(session.drain(), port) == [
        ("open", me, "spawn"),
        ("getting_linked", me),
        ("receive", (me, ("command", b"text"))),
        ("send", (port, ("data", b"text")), me),
        ("closed", "normal"),
    ]


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("streams", [{"stdout": -1}, {"stdout": -1, "stderr": -1}])
def test_run(session: trace.Session, streams: dict[str, int], text: bool) -> None:
    session.port("new", True, ["send", "ports"])
    code = "import sys; print('out', end=''); print('err', end='', file=sys.stderr); sys.exit(7)"
    streams.setdefault("stderr", subprocess.DEVNULL)
    subprocess.run([sys.executable, "-c", code], text=text, **streams)  # type: ignore[call-overload]
    messages = session.drain()
    (port,) = {message[1] for message in messages}
    expected = [b"out", b"err"] if streams["stderr"] == -1 else [b"out"]
    assert data(messages, port) == [("send", each) for each in expected]
    assert of(messages, port)[-1] == ("closed", ("exit_status", 7))


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("streams", [{"stdout": -1}, {"stdout": -1, "stderr": -1}])
def test_each_call_that_serves_communicate_is_in_and_out(
    session: trace.Session, streams: dict[str, int], text: bool
) -> None:
    me, said = inviso.self(), "h\u00e9\n"
    session.port("new", True, ["send", "receive", "running_ports"])
    code = r"import sys; sys.stdout.buffer.write(b'\xc3\xa9\r\n' + sys.stdin.buffer.read())"
    options = {"text": True, "encoding": "utf-8"} if text else {}
    command: Any = {"args": [sys.executable, "-c", code], "input": said if text else said.encode()}
    done = subprocess.run(**command, **options, **streams)  # type: ignore[call-overload]
    assert done.stdout == ("\u00e9\n" + said if text else b"\xc3\xa9\r\n" + said.encode())
    messages = session.drain()
    (port,) = {message[1] for message in messages}
    told = [each for each in of(messages, port) if each[1] != "open"]
    written = ("receive", (me, ("command", said.encode())))
    come = ("send", (port, ("data", b"\xc3\xa9\r\n" + said.encode())), me)
    for message in (written, come):
        at = told.index(message)
        what = "command" if message[0] == "receive" else 0
        assert [told[at - 1], told[at + 1]] == [("in", what), ("out", what)]


def test_input_that_is_sent_on_after_a_time_out_is_told_once(session: trace.Session, tmp_path: Path) -> None:
    session.port("new", True, ["send", "receive"])
    go = tmp_path / "go"
    code = (
        "import os, sys, time; text = sys.stdin.read()\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "sys.stdout.write(text)"
    )
    slow = [sys.executable, "-c", code, str(go)]
    one = subprocess.Popen(slow, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port, text = inviso.port(one), "x" * 1000
    with pytest.raises(subprocess.TimeoutExpired):
        one.communicate(text, timeout=0.5)
    go.touch()
    assert one.communicate() == (text, "")
    assert data(session.drain(), port) == [("receive", text.encode()), ("send", text.encode())]


@pytest.mark.parametrize("text", [False, True])
def test_what_a_time_out_of_communicate_has_is_told(session: trace.Session, text: bool) -> None:
    session.port("new", True, ["send", "ports"])
    code = "import sys; print('one', flush=True); sys.stdin.readline(); print('two'); print('three', file=sys.stderr)"
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text
    ) as one:
        port, seen = inviso.port(one), None
        while not seen:
            with pytest.raises(subprocess.TimeoutExpired) as caught:
                one.communicate(timeout=0.1)
            seen = caught.value.output
        os.write(write, b"\n")
        one.communicate()
    os.close(read)
    os.close(write)
    assert data(session.drain(), port) == [("send", b"one\n"), ("send", b"two\n"), ("send", b"three\n")]


def test_a_subprocess_that_was_not_waited_for(session: trace.Session) -> None:
    session.port("new", True, ["ports"])
    one = subprocess.Popen([sys.executable, "-c", ""])
    port = inviso.port(one)
    until(lambda: one.poll() is not None)
    assert of(session.drain(), port)[-1] == ("closed", "normal")


@pytest.mark.parametrize("options", [{}, {"bufsize": 0}, {"text": True}, {"text": True, "bufsize": 1}])
def test_files_of_pipes(session: trace.Session, options: dict[str, Any]) -> None:
    session.port("new", True, ["send", "receive", "ports"])
    code = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, **options) as one:
        port = inviso.port(one)
        assert one.stdin is not None
        assert one.stdout is not None
        for line in ("one\n", "two\n"):
            one.stdin.write(line if "text" in options else line.encode())
            one.stdin.flush()
            assert one.stdout.readline() == (line.upper() if "text" in options else line.upper().encode())
    messages = session.drain()
    passed = {tag: b"".join(each for way, each in data(messages, port) if way == tag) for tag in ("receive", "send")}
    assert passed == {"receive": b"one\ntwo\n", "send": b"ONE\nTWO\n"}
    assert of(messages, port)[-1] == ("closed", "normal")


def test_other_files_are_no_ports(session: trace.Session, tmp_path: Path) -> None:
    session.port("new", True, EVENTS)
    one = subprocess.Popen(CAT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert (tmp_path / "file").read_bytes() == b"x" * 100
    assert {str(message[2]) for message in session.drain()} == {"open", "getting_linked"}
    one.communicate()


def test_a_subprocess_that_exists_already(session: trace.Session) -> None:
    with subprocess.Popen(CAT, stdin=-1, stdout=-1) as one:
        port = inviso.port(one)
        session.port("existing", True, EVENTS)
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b"text")
        one.stdin.close()
        assert one.stdout.read() == b"text"
    assert of(session.drain(), port) == [
        ("receive", (inviso.self(), ("command", b"text"))),
        ("send", (port, ("data", b"text")), inviso.self()),
        ("closed", "normal"),
    ]


def test_a_time_out_closes_nothing(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    one = subprocess.Popen(CAT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = inviso.port(one)
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    assert port.is_open()
    one.kill()
    one.communicate()
    assert of(session.drain(), port)[-1] == ("closed", ("exit_status", -9))


def test_subprocesses_of_asyncio(session: trace.Session) -> None:
    session.port("new", True, EVENTS)

    async def main() -> tuple[inviso.Pid, Port]:
        one = await asyncio.create_subprocess_exec(*CAT, stdin=-1, stdout=-1)
        port = inviso.port(one)
        assert one.stdin is not None
        assert port == inviso.port(one.stdin) == inviso.port(one.stdin.transport)
        assert await one.communicate(b"text") == (b"text", None)
        return inviso.self(), port

    pid, port = asyncio.run(main())
    messages = session.drain()
    assert of(messages, port)[0] == ("open", pid, "spawn")
    assert data(messages, port) == [("receive", b"text"), ("send", b"text")]
    assert of(messages, port)[-1] == ("closed", "normal")


# busy ports


def test_a_transport_that_is_full(session: trace.Session) -> None:
    trace.system(session, "busy_port", True)

    async def main() -> tuple[inviso.Pid, Port]:
        go = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            while await reader.read(65536):
                pass
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            port = inviso.port(writer)
            for _ in range(3):
                writer.write(b"x" * 5_000_000)
            go.set()
            await writer.drain()
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
        return inviso.self(), port

    pid, port = asyncio.run(main())
    assert session.drain() == [("monitor", pid, "busy_port", port)]


def test_a_socket_that_blocks(session: trace.Session, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    size = 4_000_000
    left = size

    def count(source: socket.socket) -> int:
        nonlocal left
        left -= len(source.recv(65536))
        return left

    def read() -> None:
        busy.wait()
        while count(other):
            pass

    busy = threading.Event()
    thread = threading.Thread(target=read)
    one.settimeout(0.05)
    with pytest.raises(TimeoutError):
        while True:
            left += one.send(b"x" * 65536)
    # only now: a call that found room, but got no processor for a millisecond, counts as one that waits
    trace.system(session, "busy_port", True)
    with pytest.raises(TimeoutError):
        one.send(b"x")
    message = ("monitor", inviso.self(), "busy_port", inviso.port(one))
    assert session.drain() == [message]
    one.settimeout(None)
    thread.start()
    # the reader begins once the writer is known to wait
    watch = threading.Thread(target=lambda: (until_blocked(threading.main_thread()), busy.set()))
    watch.start()
    one.sendall(b"x" * size)
    thread.join()
    watch.join()
    assert session.drain() == [message]


def test_a_socket_that_does_not_wait_is_not_busy(
    session: trace.Session, pair: tuple[socket.socket, socket.socket]
) -> None:
    trace.system(session, "busy_port", True)
    pair[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            pair[0].send(b"x" * 65536)
    assert session.drain() == []


# beside the program


def test_the_original_methods_stand_after_the_session() -> None:
    held = socket.socket.send
    doc = held.__doc__
    with trace.session_create("ports") as session:
        session.port("all", True, EVENTS)
        assert socket.socket.send is held
        assert repr(held) == "<method 'send' of '_socket.socket' objects>"
        assert held.__doc__ == doc
    assert all(map(stands, ORIGINAL))


class Special(socket.socket):
    __slots__ = ("sent",)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.sent = 0

    def send(self, data: Any, *args: Any) -> int:
        self.sent += 1
        return super().send(data, *args)


def test_classes_of_the_program(session: trace.Session) -> None:
    session.port("new", True, EVENTS)
    one, other = socket.socketpair()
    with Special(fileno=one.detach()) as special, other:
        port = inviso.port(special)
        assert isinstance(special, socket.socket)
        assert special.send(b"x") == 1
        assert special.sent == 1
        assert data(session.drain(), port) == [("receive", b"x")]
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(special)


class Hostile(socket.socket):
    """An object whose attributes are traps."""

    def __getattribute__(self, name: str) -> Any:
        if name in TRAPS:
            raise AssertionError(name)
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    def __hash__(self) -> int:
        raise AssertionError("hash")

    def __repr__(self) -> str:
        raise AssertionError("repr")


TRAPS: set[str] = set()


def test_none_of_the_programs_code_runs(session: trace.Session) -> None:
    session.port("new", True, [*EVENTS, "running_ports"])
    trace.system(session, "busy_port", True)
    one, other = socket.socketpair()
    hostile = Hostile(fileno=one.detach())
    send, close = hostile.send, hostile.close
    with other:
        port = inviso.port(hostile)
        TRAPS.update({"fileno", "type", "family", "gettimeout", "_closed", "timeout", "__class__", "_sock"})
        try:
            send(b"x")
        finally:
            TRAPS.clear()
        close()
    assert data(session.drain(), port) == [("receive", b"x")]


def test_threads(session: trace.Session) -> None:
    session.port("new", True, ["receive", "ports"])
    ports: list[Port] = []

    def work() -> None:
        for n in range(50):
            one, other = socket.socketpair()
            with one, other:
                ports.append(inviso.port(one))
                one.sendall(b"%d" % n)
                other.recv(9)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = session.drain()
    by_port: dict[Port, list[Any]] = {}
    for message in messages:
        by_port.setdefault(message[1], []).append(str(message[2]))
    assert len(set(ports)) == 200
    assert all(by_port[port] == ["open", "getting_linked", "receive", "closed"] for port in ports)


FORK = """
import os, socket, inviso
from inviso import trace
session = trace.session_create("parent")
session.port("all", True, ["ports", "send", "receive", "running_ports"])
one, other = socket.socketpair()
before = inviso.port(one)
child = os.fork()
if not child:
    assert not before.is_local() and not before.is_open() and inviso.port(one) != before
    one.send(b"from the child")
    with trace.session_create("child") as own:
        own.port("new", True, ["receive"])
        a, b = socket.socketpair()
        a.send(b"x")
        assert [m[3][1][1] for m in own.drain()] == [b"x"], own.drain()
        a.close(), b.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert other.recv(99) == b"from the child"
assert [m[2] for m in session.drain() if m[1] == before] == ["in", "open", "getting_linked", "out"]
one.close(), other.close()
print("well")
"""


def test_fork() -> None:
    assert good(FORK, flags=["-W", "ignore"]) == "well\n"


EXIT = """
import asyncio, socket, subprocess, sys, threading, inviso
from inviso import trace
session = trace.session_create("all", lambda message: None)
session.port("all", True, ["all"])
session.process("all", True, ["all"])
trace.system(session, "busy_port", True)
one, other = socket.socketpair()
for _ in range(3):
    threading.Thread(target=other.recv, args=(1,), daemon=True).start()
sub = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
loop = asyncio.new_event_loop()
loop.run_until_complete(asyncio.sleep(0))
sub.communicate(b"x")
print("well")
"""


def test_exit_with_everything_on() -> None:
    done = child(EXIT, flags=["-W", "ignore"])
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
