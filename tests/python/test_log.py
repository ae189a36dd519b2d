"""Logs are read as OTP reads them, also damaged ones; converted, merged, counted; and clients of them."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import ipaddress
import json
import os
import pickle
import random
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import inviso
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inviso import Atom, BadArg, BitString, ImproperList, Map, Pid, _native, etf, log, trace
from inviso.logs import _text as log_text
from inviso.trace_ports import trace_port
from otp import erl, needs_otp
from test_properties import examples

PORTS = Path(__file__).parents[1] / "data" / "gold" / "ports"
SAMPLES = sorted(PORTS.iterdir())


def record(term: Any) -> bytes:
    data = etf.dumps(term)
    return struct.pack(">BI", 0, len(data)) + data


def dropped(n: int) -> bytes:
    return struct.pack(">BI", 1, n)


def called(n: int, ts: Any = None) -> tuple[Any, ...]:
    message = (inviso.self(), Atom("call"), (Atom("m"), Atom("f"), [n]))
    return (Atom("trace"), *message) if ts is None else (Atom("trace_ts"), *message, ts)


@pytest.fixture(autouse=True)
def _empty_mailbox() -> None:
    while inviso.peek():
        inviso.receive(timeout=0)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(*parts: bytes, name: str = "trace") -> str:
        path = tmp_path / name
        path.write_bytes(b"".join(parts))
        return str(path)

    return write


# bytes that OTP has written


def plain(value: Any) -> Any:
    """A form in which messages and the samples' terms can be compared."""
    match value:
        case Atom() | bool() | None:
            return "atom", {True: "true", False: "false", None: "undefined"}.get(value, value)
        case str() | bytes():
            return "binary", value.encode() if isinstance(value, str) else value
        case Pid():
            return "pid", repr(value)
        case etf.Fun() | etf.LocalFun():
            return "fun", value.arity
        case tuple():
            return "tuple", [plain(item) for item in value]
        case list():
            return "list", [plain(item) for item in value]
        case ImproperList():
            return "improper", [plain(item) for item in value.elements], plain(value.tail)
        case BitString():
            return "bits", value.data, 8 * len(value.data) - 8 + value.bits
        case dict() | Map():
            pairs = value.items() if isinstance(value, dict) else value
            return "map", sorted(([plain(k), plain(v)] for k, v in pairs), key=repr)
    return type(value).__name__, value


def told(value: Any) -> Any:
    match value:
        case {"a": name}:
            return "atom", name
        case {"b": data}:
            return "binary", base64.b64decode(data)
        case {"pid": name}:
            return "pid", name
        case {"fun": True, "arity": arity}:
            return "fun", arity
        case {"t": items}:
            return "tuple", [told(item) for item in items]
        case {"il": items, "tail": tail}:
            return "improper", [told(item) for item in items], told(tail)
        case {"bits": data, "n": n}:
            return "bits", base64.b64decode(data), n
        case {"m": pairs}:
            return "map", sorted(([told(k), told(v)] for k, v in pairs), key=repr)
        case {"i": digits}:
            return "int", int(digits)
        case {"f": number}:
            return "float", float(number)
        case list():
            return "list", [told(item) for item in value]
    return type(value).__name__, value


def source_of(sample: Path, files: list[str]) -> Any:
    if not sample.name.startswith("wrap"):
        return sample / files[0]
    suffix = files[0].lstrip("trace").lstrip("0123456789")
    return (str(sample / "trace"), "wrap", suffix)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_logs_of_a_real_node_are_read_as_that_reads_them(sample: Path) -> None:
    about = json.loads((sample / "terms.json").read_text())
    terms = about["terms"]
    whole = about.get("exit") in (None, {"a": "normal"})
    expected = [told(term) for term in (terms[:-1] if whole else terms)]
    assert not whole or terms[-1] == {"a": "end_of_trace"}
    files = about.get("read_order") or [path.name for path in sample.iterdir() if path.suffix != ".json"]
    found = list(log.read(source_of(sample, files)))
    damage = [message for message in found if isinstance(message, log.Damage)]
    # OTP's reader ends at damage; this one continues after a record without a term
    assert [plain(m) for m in found if m not in damage][: len(expected)] == expected
    assert bool(damage) == (not whole)


def test_drops_of_a_real_node_are_drop_records() -> None:
    *_, last = log.read(PORTS / "ip-late-q5-12" / "stream.bin")
    assert last == ("drop", 7) and type(last) is log.Drop and last.n == 7
    assert pickle.loads(pickle.dumps(last)) == last and type(pickle.loads(pickle.dumps(last))) is log.Drop


# sources


def test_several_logs_are_read_one_after_the_other(write: Callable[..., str], tmp_path: Path) -> None:
    one, two = write(record(1), b"\0", name="one"), write(record(2), name="two")
    (tmp_path / "set0.w").write_bytes(record(3))
    (tmp_path / "set1.w").write_bytes(record(4) + struct.pack(">BI", 0, 3) + b"\x83a")
    found = list(log.read([one, Path(two), (tmp_path / "set", "wrap", ".w", 100, 5)]))
    assert [m for m in found if not isinstance(m, log.Damage)] == [1, 2, 3, 4]
    places = [(m.kind, m.at, os.path.basename(m.path)) for m in found if isinstance(m, log.Damage)]
    assert places == [("cut", 8, "one"), ("cut", 8, "set1.w")]


def test_damage_is_reported_with_its_file_and_place(write: Callable[..., str]) -> None:
    bad = struct.pack(">BI", 0, 2) + b"\x83\x01"
    path = write(record(1), bad, record(2), struct.pack(">BI", 0, 2) + b"xx", dropped(0), b"\x07", record(9))
    one, first, two, second, drop, last = log.read(path)
    assert (one, two, drop) == (1, 2, ("drop", 0))
    assert (first.kind, first.at, second.kind, second.at, last.kind, last.at) == ("term", 8, "term", 23, "op", 35)
    assert first.path == path and "unknown tag 1" in str(first) and str(last).startswith(f"{path}, at byte 35: ")
    with pytest.raises(log.Damaged) as wrong:
        list(log.read(path, damage="raise"))
    assert wrong.value.damage == first and pickle.loads(pickle.dumps(wrong.value)).damage == first


@pytest.mark.parametrize("length", [6, 7, 8, 9, 10, 25_339, 300_001])
def test_a_hole_is_one_damage(write: Callable[..., str], tmp_path: Path, length: int) -> None:
    parts = (
        record(called(1)),
        bytes(length),
        record(called(2)),
        dropped(7),
        bytes(length),
        dropped(3),
        record(called(3)),
    )
    path = write(*parts)
    places = [len(parts[0]), sum(map(len, parts[:4]))]
    kinds = [m.kind if isinstance(m, log.Damage) else m[-1] for m in log.read(path)]
    assert [kind[2][0] if isinstance(kind, tuple) else kind for kind in kinds] == [1, "hole", 2, 7, "hole", 3, 3]
    damage = [m for m in log.read(path) if isinstance(m, log.Damage)]
    assert [(one.at, one.what) for one in damage] == [(at, f"a hole of {length} zero bytes") for at in places]
    with log.read(path, follow=True) as reader:
        assert [m.kind if isinstance(m, log.Damage) else m[-1] for m in islice(reader, len(kinds))] == kinds
    assert log.stats(path).damaged == 2
    for merged in False, True:
        done = log.convert(path, tmp_path / "out", "erlang", merged=merged)
        assert (done.damaged, done.records, list(done.damage)) == (2, 5, damage)
        assert (tmp_path / "out").read_bytes() == b"".join(part for part in parts if any(part))


def test_a_compressed_log_is_read_before_and_after_damage(write: Callable[..., str], tmp_path: Path) -> None:
    chance = random.Random(1)
    path = write(*(record(chance.randbytes(900)) for _ in range(5000)))
    blocks = str(tmp_path / "blocks")
    done = log.convert(path, blocks, "blocks")
    assert (done.records, done.damaged) == (5000, 0) and os.stat(blocks).st_mode & 0o777 == 0o600
    whole = list(log.read(path))
    assert list(log.read(blocks)) == whole
    data = bytearray(Path(blocks).read_bytes())
    data[2_000_000] ^= 1
    Path(blocks).write_bytes(data)
    found = list(log.read(blocks))
    (at,) = [n for n, m in enumerate(found) if isinstance(m, log.Damage)]
    assert found[at].kind == "block" and found[:at] == whole[:at] and at > 0
    assert len(found) - at - 1 > 0 and found[at + 1 :] == whole[-(len(found) - at - 1) :]


@pytest.mark.parametrize(
    ("source", "argument", "why"),
    [
        (7, "source", "7 is no log; pass a path"),
        ([], "source", "it names no log"),
        ("", "source", "'' is no path"),
        (("name", "wrap"), "source", "'' is no suffix of a wrap set"),
        (("name", "wrap", 1), "source", "1 is no suffix"),
        (["a", None], "source", "None is no log"),
    ],
)
def test_what_is_no_log(source: Any, argument: str, why: str) -> None:
    for function in (log.read, log.merge, log.stats):
        with pytest.raises(BadArg) as wrong:
            function(source)
        assert wrong.value.argument == argument and wrong.value.why.startswith(why)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        log.read(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        log.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="set0.log"):
        log.read((tmp_path / "set", "wrap", ".log"))
    with pytest.raises(BadArg, match="follow: 1 is not a bool"):
        log.read(tmp_path, follow=1)  # type: ignore[arg-type]
    with pytest.raises(BadArg, match="damage: 'ignore' is unknown; pass 'tell' or 'raise'"):
        log.read(tmp_path, damage="ignore")  # type: ignore[arg-type]


# logs that are written meanwhile


def test_errors_of_the_system_have_its_number_and_the_file(write: Callable[..., str], tmp_path: Path) -> None:
    path, out = write(record(1)), str(tmp_path / "no" / "out")
    (tmp_path / "file").write_bytes(b"")
    for call, number, name in [
        (lambda: log.convert(path, out), errno.ENOENT, out),
        (lambda: log.convert(path, out, "blocks"), errno.ENOENT, out),
        (lambda: log.convert(path, "/dev/full"), errno.ENOSPC, "/dev/full"),
        (lambda: log.convert(str(tmp_path / "none"), out), errno.ENOENT, str(tmp_path / "none")),
        (lambda: log.read((tmp_path / "file" / "x", "wrap", ".log"), follow=True), errno.ENOTDIR, None),
        (lambda: trace_port("file", out)(), errno.ENOENT, out),
    ]:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == number and name in (None, caught.value.filename), caught.value
        assert caught.value.strerror == os.strerror(number)


def test_a_log_is_followed_as_it_is_written(write: Callable[..., str]) -> None:
    path = write(record(0))
    with log.read(path, follow=True) as reader, open(path, "ab", buffering=0) as file:
        assert next(reader) == 0
        for n in range(1, 50):
            data = record(n)
            file.write(data[: n % len(data)])
            file.write(data[n % len(data) :])
            assert next(reader) == n
    assert list(reader) == []


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(("before", "after"), [(5, 5), (5, 2), (5, 300), (300, 5), (3000, 3000), (1, 1)])
def test_a_followed_log_that_is_begun_anew_is_read_from_its_beginning(
    write: Callable[..., str], tmp_path: Path, before: int, after: int, blocks: bool
) -> None:
    def content(first: int, count: int) -> bytes:
        path = write(*(record(n) for n in range(first, first + count)), name="made")
        if blocks:
            log.convert(path, path + ".blocks", "blocks")
            path += ".blocks"
        return Path(path).read_bytes()

    followed = tmp_path / "followed"
    followed.write_bytes(content(1000, before))
    with log.read(followed, follow=True) as reader:
        assert [next(reader) for _ in range(before)] == list(range(1000, 1000 + before))
        followed.write_bytes(content(20_000, after))
        damage, *messages = (next(reader) for _ in range(1 + after))
        assert (damage.kind, damage.path) == ("anew", str(followed)) and "started again" in str(damage)
        assert messages == list(range(20_000, 20_000 + after))
        # the reason that ended one file doesn't end the next one, and a part of a record doesn't begin one
        for part in b"\7", record("half")[:-2]:
            followed.write_bytes(content(40_000, 2) + part)
            assert [m if isinstance(m, int) else m.kind for m in islice(reader, 3)] == ["anew", 40_000, 40_001]
            if blocks or part == b"\7":
                assert next(reader).kind == ("block" if blocks else "op")
        followed.write_bytes(content(50_000, 1))
        assert [m if isinstance(m, int) else m.kind for m in islice(reader, 2)] == ["anew", 50_000]


def test_a_trace_port_begins_a_followed_log_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for n in range(3):
        port = trace_port("file", path)()
        with trace.session_create("anew", port) as session:
            if n == 0:
                reader = log.read(path, follow=True)
            session.process(inviso.self(), True, ["send"])
            for value in range(2):
                inviso.send(inviso.self(), (n, value))
                inviso.receive()
            session.process(inviso.self(), False, ["all"])
            port.flush()
            assert [m[3] if isinstance(m, tuple) else m.kind for m in islice(reader, 2 + (n > 0))] == [
                *["anew"] * (n > 0), (n, 0), (n, 1)
            ]  # fmt: skip
    reader.close()


def test_closing_ends_a_reader_that_waits(write: Callable[..., str]) -> None:
    reader = log.read(write(), follow=True)
    threading.Timer(0.1, reader.close).start()
    assert list(reader) == []


def test_wrap_sets_and_several_logs_are_followed(write: Callable[..., str], tmp_path: Path) -> None:
    other = write(name="other")
    with log.read([(tmp_path / "w", "wrap", ".log"), other], follow=True) as reader:
        (tmp_path / "w0.log").write_bytes(record("a"))
        assert next(reader) == "a"
        Path(other).write_bytes(record("b"))
        assert next(reader) == "b"
        (tmp_path / "w0.log").open("ab").write(record("c"))
        (tmp_path / "w1.log").write_bytes(record("d"))
        assert [next(reader), next(reader)] == ["c", "d"]


# merging and converting


def stamps() -> st.SearchStrategy[Any]:
    time = st.integers(-50, 50)
    wall = st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 5))
    return st.one_of(st.none(), time, st.tuples(time, st.integers(1, 3)), wall)


@examples(60)
@given(st.lists(st.lists(st.one_of(stamps(), st.just("drop")), max_size=8), min_size=1, max_size=5), st.booleans())
def test_merging_agrees_with_a_slow_model(logs: list[list[Any]], to_file: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        paths, expected = [], []
        # the clock of the first timestamp that a merge sees: it looks at the head of each log, then further
        clock = next((kind(stamps[0]) for stamps in logs if stamps and kind(stamps[0])), None)
        if clock is None and len({kind(s) for stamps in logs for s in stamps} - {None}) > 1:
            return
        for number, stamps in enumerate(logs):
            paths.append(os.path.join(folder, str(number)))
            latest = None
            parts = []
            for place, stamp in enumerate(stamps):
                message = called(number * 100 + place, stamp)
                parts.append(dropped(number + 1) if stamp == "drop" else record(message))
                if kind(stamp) and kind(stamp) == (clock or kind(stamp)):
                    latest = max(latest or key(stamp), key(stamp))
                what = log.Drop(number + 1) if stamp == "drop" else message
                expected.append((latest is not None, latest or (0, 0), number, place, what))
            Path(paths[-1]).write_bytes(b"".join(parts))
        if to_file:
            out = os.path.join(folder, "out")
            done = log.convert(paths, out, merged=True)
            assert done.records == len(expected)
            found = list(log.read(out))
        else:
            found = list(log.merge(paths))
        assert found == [message for *_, message in sorted(expected, key=lambda entry: entry[:4])]


def kind(stamp: Any) -> str | None:
    if stamp is None or stamp == "drop":
        return None
    return "wall" if isinstance(stamp, tuple) and len(stamp) == 3 else "monotonic"


def key(stamp: Any) -> tuple[int, int]:
    match stamp:
        case (megas, seconds, micros):
            return ((megas * 10**6 + seconds) * 10**6 + micros) * 1000, 0
        case (ns, unique):
            return ns, unique
    return stamp, 0


def test_a_merge_tells_of_damage_and_of_other_clocks(write: Callable[..., str], tmp_path: Path) -> None:
    one = write(record(called(1, 5)), record(called(2, (1, 2, 3))), b"\0\0", name="one")
    two = write(record(called(3, 6)), name="two")
    merged = log.merge([one, two])
    found = list(merged)
    assert [m[3][2] for m in found if isinstance(m, tuple)] == [[1], [2], [3]] and merged.other_clock == 1
    assert [(m.kind, m.path) for m in found if isinstance(m, log.Damage)] == [("cut", one)]
    done = log.convert([one, two], tmp_path / "out", merged=True)
    assert (done.records, done.damaged, done.other_clock) == (3, 1, 1) and done.damage[0].path == one


def test_converting_there_and_back_is_the_same_file(write: Callable[..., str], tmp_path: Path) -> None:
    path = write(*(record(called(n, n)) for n in range(3000)), dropped(4), record("end"))
    blocks, back = tmp_path / "blocks", tmp_path / "back"
    done = log.convert(path, blocks, "blocks")
    assert (done.records, done.dropped) == (3002, 4)
    log.convert(blocks, back)
    assert back.read_bytes() == Path(path).read_bytes() and blocks.stat().st_size < back.stat().st_size / 4
    with pytest.raises(BadArg, match="out: .* is the log itself; pass another file"):
        log.convert(path, path)
    with pytest.raises(BadArg, match="to: 'zip' is no form"):
        log.convert(path, back, "zip")
    with pytest.raises(OSError, match="nowhere"):
        log.convert(path, tmp_path / "nowhere" / "out")
    for out in (7, None, "", "a\0"):
        with pytest.raises(BadArg, match=r"convert/3, out: .* is no path; pass"):
            log.convert(path, out)


@pytest.mark.parametrize("to", ["erlang", "blocks"])
@pytest.mark.parametrize("merged", [False, True])
def test_what_cannot_be_read_is_not_written_either(
    to: str, merged: bool, write: Callable[..., str], tmp_path: Path
) -> None:
    deep = b"\x83" + b"h\1" * 1000 + b"j"  # a node reads that
    bad = (b"\x83\xff", b"\x83l\0\0\0\2j", b"\x83" + b"h\1" * 1000, b"\x83P\0\0\0\2xx")
    records = [struct.pack(">BI", 0, len(data)) + data for data in (*bad, deep)]
    path = write(record(called(1)), *records, dropped(0), record(called(2)), b"\7")
    out = tmp_path / "out"
    done = log.convert(path, out, to, merged=merged)
    assert (done.records, done.dropped, done.damaged) == (4, 0, 5)
    at = len(record(called(1)))
    assert done.damage[0] == log.Damage(at, "term", "unknown tag 255", path)
    assert done.damage[0] in [*log.read(path)] and [damage.kind for damage in done.damage] == ["term"] * 4 + ["op"]
    first, cut, none, second = log.read(out)
    assert (first, none, second) == (called(1), ("drop", 0), called(2)) and "nested too deeply" in str(cut)
    if to == "erlang":
        assert out.read_bytes() == b"".join((record(called(1)), records[-1], dropped(0), record(called(2))))


@needs_otp
def test_a_node_reads_all_of_what_is_written(write: Callable[..., str], tmp_path: Path) -> None:
    bad = struct.pack(">BI", 0, 2) + b"\x83\xff"
    path, out = write(record(called(1)), bad, record(called(2))), tmp_path / "out"
    assert log.convert(path, out).records == 2
    code = '[F] = init:get_plain_arguments(), S = self(), H = fun(M, N) -> S ! {M, N}, N + 1 end, \
        dbg:trace_client(file, F, {H, 0}), receive {end_of_trace, N} -> io:format("~p", [N]) end, halt().'
    assert erl(code, str(out)) == "2"


def test_stats_count_everything(write: Callable[..., str]) -> None:
    me = inviso.self()
    path = write(
        record(called(1, (1, 0, 0))), record(called(2, (1, 2, 0))), dropped(5), dropped(2),
        record(("seq_trace", 1, "x")),
        record((Atom("trace"), me, Atom("return_from"), (Atom("m"), Atom("f"), 1), 7)), record("odd"), b"\1",
    )  # fmt: skip
    found = log.stats(path)
    assert found.tags == {"call": 2, "seq_trace": 1, "return_from": 1, "other": 1} or found.messages == 5
    assert found.functions == {("m", "f", 1): 2} and found.processes == {me: 3}
    assert (found.drops, found.dropped, found.damaged, found.seconds, found.clock) == (2, 7, 1, 2.0, "wall")
    assert found.bytes == os.path.getsize(path) - 1


# clients


def collect(source: Any, kind: str = "file") -> list[Any]:
    me = inviso.self()
    pid = log.trace_client(kind, source, (lambda message, seen: inviso.send(me, [*seen, message]), []))
    assert isinstance(pid, Pid) and pid.is_local()
    found: list[Any] = []
    while "end_of_trace" not in found:
        found = inviso.receive(timeout=30)
    return found


def test_a_client_of_a_file(write: Callable[..., str]) -> None:
    path = write(record(1), dropped(3), b"\0")
    *messages, damage, end = collect(path)
    assert messages == [1, ("drop", 3)] and damage.kind == "cut" and end == "end_of_trace"
    me = inviso.self()
    pid = log.trace_client("file", path, lambda message: inviso.send(me, message))
    assert [inviso.receive(timeout=30) for _ in range(3)] == [1, ("drop", 3), damage]
    reference = inviso.monitor(pid)
    assert inviso.receive(("DOWN", reference, "_", "_", "_"), timeout=30) and inviso.peek() == []


def test_a_client_that_follows_is_stopped(write: Callable[..., str]) -> None:
    path = write(record(1))
    me = inviso.self()
    pid = log.trace_client("follow_file", path, lambda message: inviso.send(me, message))
    assert inviso.receive(timeout=30) == 1
    with open(path, "ab") as file:
        file.write(record(2))
    assert inviso.receive(timeout=30) == 2 and pid.is_alive()
    log.stop_trace_client(pid)
    assert not pid.is_alive()


def test_a_handler_that_fails_ends_its_client(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    path = write(record(1))
    go = threading.Event()
    pid = log.trace_client("file", path, lambda _: go.wait(30) and 1 / 0)
    reference = inviso.monitor(pid)
    go.set()
    reason = inviso.receive(("DOWN", reference, "_", "_", "_"), timeout=30)[4]
    assert "ZeroDivisionError" in repr(reason)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("tcp", 1), "kind: 'tcp' is unknown; pass 'file', 'follow_file' or 'ip'"),
        (("ip", "1"), "parameters: '1' is no port"),
        (("ip", ("", 1)), "parameters: '' is no host"),
        (("ip", 65536), "parameters: 65536 is no port"),
        (("file", "x", 7), "handler: 7 is no handler; pass a callable, (function, state), or None"),
        (("file", "x", (7, 7)), "no handler"),
        (("file", 7), "parameters: 7 is no log"),
    ],
)
def test_clients_that_cannot_be(arguments: Any, why: str) -> None:
    with pytest.raises(BadArg) as wrong:
        log.trace_client(*arguments)
    assert why in str(wrong.value)
    with pytest.raises(BadArg, match="is no client; pass what trace_client"):
        log.stop_trace_client(7)  # type: ignore[arg-type]


def test_a_port_where_nobody_listens_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError, match=rf"nobody listens on 127\.0\.0\.1:{port}; is the trace port open"):
        log.trace_client("ip", ("127.0.0.1", port))


def test_a_host_that_is_not_known_has_python_s_error() -> None:
    with pytest.raises(socket.gaierror) as wrong:
        log.trace_client("ip", ("no such host", 1))
    assert wrong.value.errno is not None
    with pytest.raises(BadArg, match="parameters: .* is no host"):
        log.trace_client("ip", ("a\0b", 1))


def test_a_stream_comes_in_pieces_and_may_be_cut() -> None:
    stream = b"".join(record(called(n)) for n in range(200)) + dropped(9) + record("last")[:-2]

    def serve(server: socket.socket) -> None:
        for _ in range(2):  # a second client is a connection of its own
            peer, _ = server.accept()
            with peer:
                for at in range(0, len(stream), 700):
                    peer.sendall(stream[at : at + 700])

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        address = server.getsockname()
        found = list(log.trace_client("ip", address))
        assert found[:-1] == [*(called(n) for n in range(200)), ("drop", 9)]
        assert found[-1].kind == "cut" and found[-1].path is None
        again = collect(address, "ip")
        assert again[:-1] == found
        thread.join()


def test_messages_of_a_stream_come_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = log.trace_client("ip", server.getsockname())
        peer, _ = server.accept()
        with peer:
            for n in range(5):
                peer.sendall(record(n))
                assert next(reader) == n
        assert list(reader) == []


# any bytes


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(4):
            case 0 if data:
                data[at] = chance.randrange(256)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 6))
            case 3:
                data[at : at + 4] = chance.choice((b"\0\0\0\1", b"\xff\xff\xff\xff", b"\0\1\0\0"))
    return bytes(data)


def check_log(data: bytes, folder: Path) -> None:
    """It is read to its end, the same in both ways. The records that were read are a log without damage except deep
    terms.
    """
    path, out = folder / "any", folder / "out"
    path.write_bytes(data)
    found = list(log.read(path))
    done = log.convert(path, out)
    again = list(log.read(out))
    terms = [m for m in again if not isinstance(m, log.Damage)]
    kept = [m for m in found if not isinstance(m, log.Damage)]
    assert len(terms) == len(kept) and done.records == len(again)
    assert all("deeply" in m.what or "atoms" in m.what for m in again if isinstance(m, log.Damage))
    for message in found:
        assert "\n" not in log.format(message)
    log.stats(path)


def check_client(data: bytes) -> None:
    """A connection gives the same messages as a log of the same bytes."""

    def serve(server: socket.socket) -> None:
        peer, _ = server.accept()
        with peer, contextlib.suppress(OSError):  # the reader that has enough closes
            peer.sendall(data)

    # Any loopback address: a minute of this would use up the ports of one, and each is kept for another minute.
    address = str(ipaddress.IPv4Address("127.0.0.0") + random.randrange(1, 2**24 - 1))
    with tempfile.NamedTemporaryFile() as file, socket.create_server((address, 0)) as server:
        file.write(data)
        file.flush()
        expected = list(log.read(file.name))
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        found = list(log.trace_client("ip", server.getsockname()))
        thread.join()
    plain = [dataclasses.replace(m, path=None) if isinstance(m, log.Damage) else m for m in expected]
    assert list(map(repr, found)) == list(map(repr, plain))


PROGRAM = """
import random, sys
from pathlib import Path
from test_log import PORTS, check_client, check_log, mutated

chance = random.Random(int(sys.argv[2]))
seeds = [path.read_bytes()[:3000] for path in PORTS.glob("*/*") if path.suffix != ".json"]
for n in range(int(sys.argv[3])):
    data = mutated(chance, seeds)
    check_log(data, Path(sys.argv[1]))
    if n % 5 == 0:
        check_client(data)
"""


def test_changed_logs_are_read_or_told_as_damage(tmp_path: Path) -> None:
    """The short form of fuzz/python/fuzz_log.py and fuzz_client.py. Names that were read stay, so it has its own
    process.
    """
    import subprocess

    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "6", "1500"]
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert done.returncode == 0, done.stderr


def read_all(paths: Iterable[str]) -> int:
    return sum(1 for _ in log.read(list(paths)))


def test_readers_in_several_threads(write: Callable[..., str]) -> None:
    path = write(*(record(called(n, n)) for n in range(2000)))
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(read_all([path]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2000] * 4


# Rust shows and counts the same as Python


# printable characters differ between versions of Unicode
texts = st.text(
    st.characters(max_codepoint=0x17F) | st.sampled_from("\u20ac\u2028\u202e\u200b\u3000\ue000\U0001f600\u0301")
)
shown = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.integers(-(1 << 90), 1 << 90), texts, st.binary(max_size=20),
        st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(("ok", "", "a b", "ö\n")).map(Atom),
        st.builds(inviso.self),
        st.sampled_from([inviso.Ref(), etf.Fun("m", "f", 2), inviso.Opaque("app.Order", 4711), inviso.Cut("items"),
        inviso.Port()]),
        st.sampled_from([BitString(b"\1\xa0", 3), ImproperList([1, "a"], 2),
        inviso.Record("shop", "item", {"name": "tea", "n": 3})]),
        st.sampled_from([frozenset(), frozenset([1]), frozenset(["it's"])]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.lists(inner, max_size=5).map(tuple), st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
WORDS = [*sorted(log_text.COLOURS), "spawn", "in", "register", "send_to_non_existing_process", "odd\n"]


@pytest.mark.parametrize("colour", [False, True])
@examples(100)
@given(st.lists(shown, min_size=1, max_size=4), st.sampled_from(WORDS), st.data())
def test_lines_are_those_of_format(colour: bool, terms: list[Any], tag: str, data: Any) -> None:
    names = [("m", "f", 2), ("m", "f", terms), (Atom("m"), Atom("ö\x1b"), []), (Atom("error"), 7)]
    names += [["m", "f", 2], ["m", "f", terms], ("m", "f", True), [Atom("error"), 7]]  # no names
    mfa = data.draw(st.sampled_from([*names, *terms]))
    stamp = data.draw(st.sampled_from([(1700, 5, 6), (1700, 2), 1700, -1, (1, 2, "x"), (1 << 60, 1, 1), None, *terms]))
    rest = data.draw(st.permutations([mfa, *terms]))
    head = (inviso.self(), Atom(tag))
    messages = [
        (Atom("trace"), *head, *rest), (Atom("trace_ts"), *head, *rest, stamp), (Atom("trace"), *head), terms[0],
        (Atom("seq_trace"), terms[0], mfa), (Atom("seq_trace"), terms[0], mfa, stamp),
        (Atom("trace"), terms[0], Atom(tag), *rest), [Atom("trace"), *head, *rest],
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t")
        Path(path).write_bytes(b"".join(map(record, messages)) + dropped(1) + dropped(2) + b"\7")
        # messages as a log gives them back
        expected = [log.format(message, colour=colour) for message in log.read(path)]
        native = _native.log.LogMerge([(None, [(path, None)], [])], False, False, "follow", False, *log.Reader._made)
        text = b""
        while (part := native.text("text", colour, 1 << 60)) is not None:
            text += part
    assert text.decode().split("\n") == [*expected, ""]


@examples(100)
@given(st.lists(shown, min_size=1, max_size=4), st.data())
def test_stats_are_those_of_python(terms: list[Any], data: Any) -> None:
    names = st.sampled_from(["call", "send", Atom("call"), Atom("ö"), Atom("true"), 7])
    heads = st.sampled_from(["trace", "trace_ts", "seq_trace", "drop", "x"]).map(Atom)
    mfa = st.sampled_from([("m", "f", 2), (Atom("m"), Atom("f"), [1, 2]), (Atom("m"), Atom("f"), terms), ("m", 7, 7)])
    stamp = st.sampled_from([(1700, 5, 6), (1700, 2), 1700, -1, "x"])
    message = st.tuples(heads, st.sampled_from([inviso.self(), 7, *terms]), names, mfa, stamp)
    messages = [*data.draw(st.lists(message, max_size=8)), *terms, terms, tuple(terms)]
    lengths = [data.draw(st.integers(1, 5)) for _ in messages]
    parts = [record(m[:n] if isinstance(m, tuple) else m) for m, n in zip(messages, lengths, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t")
        Path(path).write_bytes(b"".join([*parts, dropped(3), b"\0\0\0\0\2\x83\xff", b"\7"]))
        expected = log.Stats()
        reader = log.read(path)
        for each in reader:
            expected.add(each)
        expected.bytes = reader.bytes
        assert log.stats(path) == expected
