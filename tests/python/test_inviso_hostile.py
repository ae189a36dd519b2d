"""A listener and a control get bytes that are not frames, peers that break the protocol, and strange terms."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress
from typing import Any

import pytest
from frame_check import check_frames, seeds
from inviso import etf
from inviso._link._frame import DEPTH, LIMIT, Frames, pack
from inviso.control._control import Control
from inviso.terms import Atom
from inviso_tools import HOST, Node, Peer, Place, descriptors, frame, resident, sets
from test_log import mutated
from waiting import until

GREETING = ("inviso", (1, 0), {"node": "peer@here", "pid": 1})


def goes_on(place: Place, node: Node) -> None:
    """A control gets its answer, and the program runs."""
    with Peer(place.sockets, node.pid) as peer:
        assert peer.call("about")["pid"] == node.pid
    assert node.ask("work(3)") is None


def lines(node: Node) -> list[str]:
    return node.stderr().splitlines()


NO_FRAMES: dict[str, bytes] = {
    "random bytes": random.Random(1).randbytes(5000),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a length of 0": bytes(4),
    "too long": (LIMIT + 1).to_bytes(4),
    "no term": frame(b"\x83\xff"),
    "another format": frame(b"\x80\x04N."),
    "too deep": frame(b"\x83" + b"l\0\0\0\1" * (DEPTH + 1) + b"j" * (DEPTH + 2)),
    "a cut term": frame(etf.dumps(GREETING)[:-3]),
    "a number": frame(etf.dumps(7)),
    "no version": frame(etf.dumps(("inviso", 1, {}))),
    "a version of text": frame(etf.dumps(("inviso", ("1", 0), {}))),
    "a version beyond all": frame(etf.dumps(("inviso", (10**5000, 0), {}))),
    "a list about it": frame(etf.dumps(("inviso", (1, 0), []))),
    "a node that is none": frame(etf.dumps(("inviso", (1, 0), {"node": 10**5000}))),
    "a request before the greeting": frame(etf.dumps((Atom("call"), 1, "about", []))),
}

NO_REQUESTS: dict[str, Any] = {
    "a number": 7,
    "another greeting": GREETING,
    "no list": ("call", 1, "about", "x"),
    "a reference of text": ("call", "1", "about", []),
    "a name of bytes": ("call", 1, b"about", []),
    "an answer": ("answer", 1, "ok"),
    "four words too many": ("call", 1, "about", [], 1, 2, 3, 4),
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_closes_the_connection(place: Place, data: bytes) -> None:
    node = place.node()
    with Peer(place.sockets, node.pid, greets=False) as peer:
        assert peer.next()[0] == "inviso"
        peer.raw(data)
        assert [term[0] for term in peer.rest()] == ["refused"]
    assert len(lines(node)) == 1, node.stderr()
    assert "sent an invalid request" in node.stderr()
    goes_on(place, node)


@pytest.mark.parametrize("term", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_closes_the_connection(place: Place, term: Any) -> None:
    node = place.node()
    with Peer(place.sockets, node.pid) as peer:
        assert peer.next()[0] == "inviso"
        peer.send(term)
        assert [term[0] for term in peer.rest()] == ["refused"]
    assert len(lines(node)) == 1, node.stderr()
    goes_on(place, node)


HUGE = 10**5000
STRANGE: list[tuple[str, list[Any]]] = [
    *[("add", words) for words in ([], ["t"], ["t", {}, False, 1], ["t", 7, False], ["t", [7], False],
    ["t", {"x": 1}, False])],
    *[("add", ["t", {name: HUGE, "": 1}, False]) for name in ("dependency", "overload", "protect", "limits")],
    *[("add", ["t", [(name, value)], False]) for name in ("dependency", "overload", "protect", "limits", "resume_after")
      for value in (-1, "x", {}, {"x": 1}, {1: 2}, {"ms": "x"}, {"rate": (1, "x")}, (), (1,), ("a", 1),
      ("a", 1, 2, 3, 4), [HUGE, ""], b"x", 1.5)],
    ("add", ["t", [HUGE], False]),
    ("get_status", []),
    ("let_go", []),
]  # fmt: skip

MORE: list[tuple[str, list[Any]]] = [
    ("", []), ("x" * 300, []), ("call", []), ("_close", []), ("__init__", []), ("do_clear", []),
    ("change_options", []), ("change_options", [1, 2]), ("change_options", [[HUGE]]),
    ("change_options", [{"limits": {"ms": HUGE}}]),
    ("change_options", [{"limits": {}}]), ("change_options", [{"dependency": HUGE}]),
    ("change_options", [{"dependency": "infinity"}]),
    ("init_tracing", []), ("init_tracing", [HUGE]), ("init_tracing", [{}]), ("init_tracing", [[]]),
    ("init_tracing", [[("trace", HUGE)]]),
    ("init_tracing", [("file", HUGE)]), ("init_tracing", [("file", "")]), ("init_tracing", [("file", "a\0b")]),
    ("init_tracing", [("file", "\udc80")]), ("init_tracing", [("file", "x" * 5000)]), ("init_tracing", [("file", ".")]),
    ("init_tracing", [("file", ("a", "wrap", ".log", -1, HUGE))]),
    ("init_tracing", [("file", ("a", "wrap", "\0", 1, 1))]),
    ("init_tracing", [("ip", -1)]), ("init_tracing", [("ip", HUGE)]), ("init_tracing", [(("os", "system"), "true")]),
    ("init_tracing", [{"trace": ("file", "x"), (1, 2): 3}]), ("init_tracing", [("relayer", "x")]),
    *[(name, words) for name in ("tp", "tpl", "ctp", "ctpl") for words in (
        [], [7], [[7]], [[()]], [[("a",)]], [[("a", "b", "c", "d")]], [[("re", "(", "_", True)]],
        [[(("re", "("), "_", "_", True)]],
        [[(("re",), "_", "_", True)]], [[((1, 2), "_", "_", True)]], [[("json", "loads", HUGE, True)]],
        [[(HUGE, "_", "_", True)]],
        [[("json", "loads", "_", [HUGE])]], [[("json", "loads", "_", [("_", [], [("nonsense",)])])]],
        [[("json", "loads", "_", {"x": 1})]])],
    *[(name, words) for name in ("tf", "ctf") for words in (
        [], [7], [[7]], [[("all",)]], [[("all", 7)]], [[(HUGE, ["call"])]], [[("all", [HUGE])]],
        [[(("local", "x"), ["call"])]], [[({}, [])]])],
    ("suspend", []), ("suspend", [HUGE]), ("cancel_suspension", [1]), ("cancel_suspension", []), ("flush", [1]),
    ("get_tracerdata", [1]), ("list_logs", [1]), ("log_paths", [1]), ("delete_log", [HUGE]), ("delete_log", [[HUGE]]),
    ("delete_log", [["a\0b"]]), ("delete_log", [[("trace_log", "\0", ["x"])]]),
    ("delete_log", [[("trace_log", ".", [HUGE])]]), ("delete_log", [{}]),
    ("trace_tokens", []), ("trace_tokens", [True]), ("count", []), ("count", ["x", []]), ("count", ["call_count", [7]]),
    ("counts", []),
    ("init_tpm", []), ("init_tpm", [1, 2, 3, 4]), ("tpm", ["json", "loads", 8, []]), ("ctpm", [HUGE, 1, 2]),
    ("tpm_localnames", [1]),
    ("clear", [7]), ("clear", [["x", HUGE]]), ("clear", []), ("stop_tracing", [1]), ("stop_tracing", []), ("info", [1]),
    ("info", []),
]  # fmt: skip


def test_strange_arguments_get_answers(place: Place) -> None:
    """For each request and peer: an answer comes, nothing is written outside, and the program notices nothing."""
    node = place.node()
    before = sorted(path.name for path in place.path.iterdir())
    with Peer(place.sockets, node.pid) as peer:
        for name, words in STRANGE:
            answer = peer.call(name, *words)
            assert answer == "ok" or answer[0] in ("ok", "error"), (name, words, answer)
            if answer[0] == "ok":
                assert peer.call("stop_node") in ("ok", ("error", "not_an_added_node"))
        assert peer.call("add", "mine", {}, False) == ("ok", "new")
        for name, words in MORE:
            answer = peer.call(name, *words)
            assert answer == "ok" or answer[0] in ("ok", "error"), (name, words, answer)
        assert peer.call("cancel_suspension") == "ok"
        assert peer.call("get_status") == ("ok", ("new", "running"))
        assert peer.call("stop_node") == "ok"
    assert lines(node) == []
    after = sorted(path.name for path in place.path.iterdir())
    assert [name for name in after if name not in before] in ([], ["logs"])
    goes_on(place, node)


def test_a_control_is_told_of_another_version(place: Place) -> None:
    node = place.node()
    with Peer(place.sockets, node.pid, greets=False) as peer:
        peer.send(("inviso", (2, 0), {"node": "peer@here"}))
        _, refused = peer.rest()
        assert refused[0] == "refused"
        assert "it speaks version 2 of the protocol, and this is version 1; install the same inviso" in refused[1]
    assert "it speaks version 2 of the protocol, and this is version 1" in node.stderr()
    goes_on(place, node)


def test_unknown_fields_of_a_greeting_are_ignored(place: Place) -> None:
    node = place.node()
    with Peer(place.sockets, node.pid, greets=False) as peer:
        peer.send(("inviso", (1, 99), {"node": "peer@here", "later": {"x": [1]}, 7: 8}))
        assert peer.call("about")["node"] == node.node


FALSE = """
import socket, struct
from inviso import etf
from inviso._link._folder import Folder
folder = Folder.open()
listening = folder.listen(os.getpid())
folder.claim({name!r}, os.getpid())
def frame(term):
    data = etf.dumps(term)
    return struct.pack(">I", len(data)) + data
def read(made, until):
    data = b""
    while until not in data:
        data += made.recv(65536)
def serve():
    while True:
        made, _ = listening.accept()
        kept.append(made)
        {body}
kept = []
threading.Thread(target=serve, daemon=True).start()
"""

GREETS = 'made.sendall(frame(("inviso", (1, 0), {"node": "false"})));'
LISTENERS = {
    "says nothing": ("pass", ("error", "timeout")),
    "ends at once": ("made.close()", ("error", ("refused", "it has ended the connection"))),
    "sends random bytes": ("made.sendall(bytes(range(128, 256)) * 9)", ("error", ("refused", "a frame of "))),
    "is of another version": (
        'made.sendall(frame(("inviso", (3, 0), {})))',
        ("error", ("refused", "it speaks version 3 of the protocol")),
    ),
    "greets and ends": (f"{GREETS} made.close()", ("error", ("no_response", "disconnected"))),
    "greets and says nothing": (GREETS, ("error", "timeout")),
    "greets and sends bytes": (f"{GREETS} made.sendall(bytes(999))", ("error", ("refused", "a frame of 0 bytes"))),
    "answers nonsense": (
        f'{GREETS} read(made, b"add"); made.sendall(frame(("answer", 1, 7)))',
        ("error", ("bad_answer", 7)),
    ),
    "refuses": ('made.sendall(frame(("refused", "no")))', ("error", ("refused", "no"))),
}


@pytest.mark.parametrize(("body", "expected"), LISTENERS.values(), ids=LISTENERS)
def test_a_false_listener_has_an_error_in_its_place(place: Place, body: str, expected: Any) -> None:
    node = place.node("good")
    name = f"false@{HOST}"
    false = place.child(FALSE.format(name=name, body=body), name="false")
    false.ask("1")
    control = Control(name=f"tests@{HOST}", timeout=3.0)
    try:
        began = time.monotonic()
        (_, wrong), (_, right) = control.add([name, node.node], "mine", {})
        assert time.monotonic() - began < 20
        assert right == ("ok", "new")
        if isinstance(expected[1], tuple) and expected[1][0] == "refused":
            assert wrong[0] == "error" and wrong[1][0] == "refused" and wrong[1][1].startswith(expected[1][1])
        else:
            assert wrong == expected
        assert control.call(None, "get_status") == [(node.node, ("ok", ("new", "running")))]
        found = {each.node for each in control.find()}
        assert node.node in found
    finally:
        control.close()


def test_random_frames_change_nothing(place: Place, request: pytest.FixtureRequest) -> None:
    """100,000 in the short form; --slow: 1,000,000. Connections that go wrong cost neither memory nor descriptors."""
    count = 1_000_000 if request.config.getoption("--slow") else 100_000
    node = place.node()
    node.ask("os.dup2(os.open(os.devnull, os.O_WRONLY), 2)")  # a line for each connection, but not on the disk
    chance = random.Random(25)
    sent, sizes, opened = 0, [], descriptors(node.pid)
    while sent < count:
        with (
            Peer(place.sockets, node.pid, greets=chance.random() < 0.5) as peer,
            suppress(BrokenPipeError, ConnectionResetError),
        ):
            batch = [random_frame(chance) for _ in range(5)]
            sent += len(batch)
            peer.raw(b"".join(batch))
            peer.socket.shutdown(socket.SHUT_WR)
            peer.rest()
        if sent % (count // 10) == 0:
            sizes.append(resident(node.pid))
    until(lambda: descriptors(node.pid) == opened)
    assert sizes[-1] - sizes[2] < 4 << 20, sizes
    goes_on(place, node)


@pytest.mark.parametrize("which", range(len(seeds())))
def test_rounds_of_calls_that_are_nearly_right(place: Place, which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form of fuzz/python/fuzz_frames.py."""
    monkeypatch.setenv("INVISO_DIR", str(place.sockets))
    monkeypatch.chdir(place.path)
    check_frames(seeds()[which])
    chance = random.Random(which)
    for _ in range(10):
        check_frames(mutated(chance, [seeds()[which]]))


def random_frame(chance: random.Random) -> bytes:
    """A frame that is nearly a request, or any bytes."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 60))
    if kind == 1:
        return frame(b"\x83" + chance.randbytes(chance.randrange(1, 60)))
    data = bytearray(
        etf.dumps(
            (Atom("call"), chance.randrange(9), chance.choice(["about", "get_status", "x"]), [chance.randrange(9)])
        )
    )
    for _ in range(chance.randrange(1, 4) if kind == 2 else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return frame(bytes(data))


@pytest.mark.parametrize("seed", range(20))
def test_frames_come_the_same_in_pieces(seed: int) -> None:
    """Frames depend on the bytes, not on the pieces. Any bytes that are not a frame end the connection."""
    chance = random.Random(seed)
    data = b"".join(pack([chance.randrange(1 << 40), "x" * chance.randrange(99)]) for _ in range(20)) + random_frame(
        chance
    )

    def read(size: int) -> tuple[list[Any], bool]:
        frames, found = Frames(), []
        try:
            for at in range(0, len(data), size):
                found += frames.feed(data[at : at + size])
        except Exception as wrong:
            assert type(wrong).__name__ == "BadFrame"
            return found, False
        return found, True

    expected = read(len(data))
    for size in (1, 2, 3, 7, 64):
        assert read(size) == expected


SOON = sets("GREETING", 2.0)


def test_a_silent_peer_is_disconnected_after_a_time(place: Place) -> None:
    node = place.node(before=SOON)
    with Peer(place.sockets, node.pid, greets=False) as silent, Peer(place.sockets, node.pid, greets=False) as slow:
        slow.raw(b"\0\0")
        began = time.monotonic()
        assert [term[0] for term in silent.rest()] == ["inviso"]
        assert [term[0] for term in slow.rest()] == ["inviso"]
        assert time.monotonic() - began >= 1.0
    assert lines(node) == []
    goes_on(place, node)


def test_a_peer_that_has_greeted_may_be_silent(place: Place) -> None:
    node = place.node(before=SOON)
    with Peer(place.sockets, node.pid) as peer, Peer(place.sockets, node.pid, greets=False) as silent:
        silent.rest()  # so the time is over
        assert peer.call("about")["pid"] == node.pid


def test_more_connections_than_are_taken(place: Place) -> None:
    node = place.node(before=sets("CONNECTIONS", 3))
    peers = [Peer(place.sockets, node.pid) for _ in range(3)]
    assert all(peer.call("about")["pid"] == node.pid for peer in peers)
    with Peer(place.sockets, node.pid, greets=False) as late:
        assert late.rest() == [("refused", "this process has 3 connections already")]
    peers[0].close()
    until(lambda: node.ask("len(listener._connections)") == 2)
    goes_on(place, node)


def test_a_peer_that_never_reads_costs_little_and_delays_nobody(place: Place) -> None:
    """Events that don't fit are counted; the count is sent once there is room. Endless answers end the connection."""
    node = place.node()
    with Peer(place.sockets, node.pid) as peer:
        assert peer.call("add", "mine", {}, False) == ("ok", "new")
        before = resident(node.pid)
        for _ in range(3000):  # each makes an event
            peer.send(("call", 0, "suspend", ["x" * 1000]), ("call", 0, "cancel_suspension", []))
        until(lambda: node.ask("listener.host.owner is None or listener.host.owner.lost_events > 0"))
        goes_on(place, node)
        assert node.ask("len(listener.host.owner.out)") <= (1 << 20) + (1 << 18)  # events, and answers beside them
        assert resident(node.pid) - before < 32 << 20
        # now it reads: the number of missing events comes before the next one
        seen = lost = 0
        for number, request in ((1, ("suspend", ["last"])), (2, ("cancel_suspension", []))):
            peer.send(("call", number, *request))
            while (term := peer.next())[:2] != ("answer", number):
                match term:
                    case ("event", ("lost", count)):
                        lost += count
                    case ("event", _):
                        seen += 1
        assert (seen + lost, lost > 0) == (6002, True)


def test_answers_that_nobody_reads_are_bounded(place: Place) -> None:
    node = place.node(before=sets("ANSWERS", 1 << 20))
    with Peer(place.sockets, node.pid) as peer:
        assert peer.call("add", "mine", [("dependency", 0)], False) == ("ok", "new")
        big = [("dependency", 0), ("x" * 100_000, 1)]  # comes back, as an unknown option
        with suppress(BrokenPipeError, ConnectionResetError):
            peer.socket.settimeout(5)
            for _ in range(200):
                peer.send(("call", 0, "change_options", [big]))
            # and requests after that in the same bytes are not carried out
            peer.send(("call", 0, "add", ["again", {}, False]))
        until(lambda: node.ask("listener._connections") == {})
        until(lambda: node.ask("(listener.host.owner, listener.host.component)") == (None, None))
    goes_on(place, node)


def test_no_descriptor_is_left_for_a_connection(place: Place) -> None:
    """A program without free descriptors spends no time on new connections. It serves them when there are descriptors
    again.
    """
    node = place.node()
    node.ask("import resource")
    node.ask("limits = resource.getrlimit(resource.RLIMIT_NOFILE)")
    node.ask("resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))")
    with Peer(place.sockets, node.pid) as peer:
        until(lambda: node.ask("listener._accept_at is not None"))
        before = node.ask("time.process_time()")
        node.ask("time.sleep(0.6)")
        assert node.ask("time.process_time()") - before < 0.2
        node.ask("resource.setrlimit(resource.RLIMIT_NOFILE, limits)")
        assert peer.call("about")["pid"] == node.pid
