"""Merging: Inviso's calls, readers and handlers; names of processes by time; logs that name their nodes."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inviso import Atom, BadArg, etf, log, merge
from otp import erl, needs_otp
from test_log import dropped, record

DATA = Path(__file__).parents[1] / "data" / "merge"
TRACE_TS, TRACE, CALL = Atom("trace_ts"), Atom("trace"), Atom("call")
ME = inviso.self()


def wall(second: int, micro: int = 0) -> tuple[int, int, int]:
    return (0, second, micro)


def wall_ns(second: int) -> int:
    megas, seconds, micros = wall(second)
    return ((megas * 1_000_000 + seconds) * 1_000_000 + micros) * 1000


def called(n: Any, second: int | None, pid: Any = ME) -> tuple[Any, ...]:
    message = (pid, CALL, (Atom("m"), Atom("f"), [n]))
    return (TRACE, *message) if second is None else (TRACE_TS, *message, wall(second))


def entry(pid: Any, alias: Any, what: str, second: int) -> bytes:
    data = etf.dumps((pid, alias, Atom(what), wall(second)))
    return bytes(1) + struct.pack(">I", len(data)) + data


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(name: str, *parts: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(b"".join(parts))
        return str(path)

    return write


def trace_log(*names: str, ti: str | None = None) -> list[Any]:
    return [("trace_log", list(names)), *([("ti_log", [ti])] if ti else [])]


def kept(node: str, term: Any, names: list[Any], data: list[Any]) -> Any:
    return "ok", [*data, (node, term, names)]


def taken(files: list[Any], **options: Any) -> list[Any]:
    """The arguments of a work handler."""
    found: list[Any] = []
    answer = merge.merge(files, lambda *given: found.append(given[:3]) or ("ok", None), None, **options)
    assert answer == ("ok", len(found))
    return found


# the names of wrap sets


@pytest.mark.parametrize(
    ("numbers", "order"),
    [
        ([10, 11, 12, 13, 15], [15, 10, 11, 12, 13]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 3], [3, 0, 1]),
        ([1, 2, 3], [1, 2, 3]),
        ([8, 9, 10, 0], [8, 9, 10, 0]), ([9, 19], [19, 9]), ([5], [5]), ([], []), ([100, 200, 201], [200, 201, 100]),
    ],
)  # fmt: skip
def test_a_wrap_set_is_sorted_by_number_and_begins_after_the_hole(numbers: list[int], order: list[int]) -> None:
    names = [f"dir2/t1_{number}.log2" for number in reversed(numbers)]
    assert merge.handle_logfile_sort_wrapset(names) == [f"dir2/t1_{number}.log2" for number in order]


def test_names_without_numbers_stay_as_they_are() -> None:
    assert merge.handle_logfile_sort_wrapset(["b.log", "a.log"]) == ["b.log", "a.log"]


def test_the_files_of_a_wrap_set_are_read_from_the_oldest(write: Callable[..., str]) -> None:
    names = [write(f"t{number}.log", record(called(number, None))) for number in (10, 11, 12, 13, 15)]
    found = taken([("n@h", trace_log(*reversed(names)))])
    assert [term[2 + 1][2] for _, term, _ in found] == [[15], [10], [11], [12], [13]]


def test_log_files_of_a_list_are_read_one_after_the_other(write: Callable[..., str]) -> None:
    old = [write(f"old{n}.log", record(called(n, 50 + n))) for n in (0, 1)]
    new = write("new.log", record(called(2, 1)))
    found = taken([("n@h", [trace_log(*old), trace_log(new)])])
    assert [term[3][2] for _, term, _ in found] == [[0], [1], [2]]


# the order of messages


PROGRAM = """\
import inviso, sys
from inviso import trace, trace_ports

def call(n):
    return n

if len(sys.argv) > 2:
    inviso.set_node(sys.argv[2])
session = trace.session_create("s", trace_ports.trace_port("file", sys.argv[1])(), [])
trace.function(session, ("__main__", "call", 1), True, ["local"])
trace.process(session, "all", True, ["call", "timestamp"])
print("ready", flush=True)
for line in sys.stdin:
    call(int(line))
    print("done", flush=True)
trace.session_destroy(session)
"""


@pytest.mark.parametrize("named", [False, True])
def test_six_calls_of_three_nodes_come_in_the_order_of_time(named: bool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    nodes = {
        name: subprocess.Popen(
            [sys.executable, str(program), str(tmp_path / f"{name}.log"), *([name] if named else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one@h", "two@h", "three@h")
    }  # fmt: skip
    order = ["two@h", "one@h", "three@h", "three@h", "one@h", "two@h"]
    try:
        assert all(node.stdout is not None and node.stdout.readline() == "ready\n" for node in nodes.values())
        for n, name in enumerate(order):
            node = nodes[name]
            assert node.stdin is not None and node.stdout is not None
            node.stdin.write(f"{n}\n")
            node.stdin.flush()
            assert node.stdout.readline() == "done\n"
        for node in nodes.values():
            assert node.stdin is not None
            node.stdin.close()
            assert node.wait(60) == 0
    finally:
        for node in nodes.values():
            node.kill()
            node.wait()
    found = list(merge.read(tmp_path))
    assert [(each.node, each.message[3][2]) for each in found] == [(name, [n]) for n, name in enumerate(order)]
    # and their pids belong to three nodes
    merge.logs(tmp_path, tmp_path / "all", "erlang")
    pids = [message[1] for message in log.read(tmp_path / "all")]
    assert [pid.node for pid in pids] == order and len(set(pids)) == 3


def stamps() -> st.SearchStrategy[Any]:
    second = st.integers(0, 6)
    return st.none() | second.map(wall) | st.tuples(second, second) | second | st.just("drop")


@given(st.lists(st.lists(stamps(), max_size=6), min_size=1, max_size=5), st.sampled_from(["follow", "inviso"]))
def test_readers_in_python_come_in_the_same_order(logs: list[list[Any]], order: str) -> None:
    def message(number: int, place: int, stamp: Any) -> Any:
        if stamp == "drop":
            return log.Drop(number * 100 + place)
        head = (ME, CALL, (Atom("m"), Atom("f"), [number * 100 + place]))
        return (TRACE, *head) if stamp is None else (TRACE_TS, *head, stamp)

    with tempfile.TemporaryDirectory() as folder:
        native, python, mixed = [], [], []
        for number, given_stamps in enumerate(logs):
            messages = [message(number, place, stamp) for place, stamp in enumerate(given_stamps)]
            path = os.path.join(folder, str(number))
            parts = [dropped(m.n) if isinstance(m, log.Drop) else record(m) for m in messages]
            Path(path).write_bytes(b"".join(parts))
            stamped = [
                ([], None if stamp in (None, "drop") else stamp, m)
                for m, stamp in zip(messages, given_stamps, strict=True)
            ]
            native.append((f"n{number}", trace_log(path)))
            python.append(("reader", stamped, native[-1]))
            mixed.append(python[-1] if number % 2 else native[-1])
        expected = taken(native, order=order)
        assert taken(python, order=order) == expected == taken(mixed, order=order)


def test_in_invisos_order_only_five_or_six_elements_have_a_time(write: Callable[..., str]) -> None:
    token = (Atom("seq_trace"), 7, (Atom("print"), (0, 1), ME, None, 1), wall(100))
    one = write("one", record(called(1, 1)), record(token), record(called(3, 101)))
    two = write("two", record(called(2, 50)))
    files = [("a@h", trace_log(one)), ("b@h", trace_log(two))]
    assert [term[0] + str(term[3][2]) if term[0] != "seq_trace" else "token" for _, term, _ in taken(files)] == [
        "trace_ts[1]", "trace_ts[2]", "token", "trace_ts[3]",
    ]  # fmt: skip
    in_order = [term for _, term, _ in taken(files, order="inviso")]
    assert in_order == [called(1, 1), token, called(2, 50), called(3, 101)]


# the names of processes


def names_at(write: Callable[..., str], *ti: bytes, seconds: range = range(8), pid: Any = ME) -> list[list[Any]]:
    path = write("a.log", *(record(called(second, second, pid)) for second in seconds))
    return [names for _, _, names in taken([("n@h", trace_log(path, ti=write("a.ti", *ti)))])]


def test_a_name_is_there_after_its_entry_and_up_to_its_end(write: Callable[..., str]) -> None:
    there = names_at(write, entry(ME, "db", "alias", 2), entry(None, "db", "unalias", 5))
    assert there == [[], [], [], ["db"], ["db"], ["db"], [], []]


def test_an_end_with_a_pid_is_of_that_process_alone(write: Callable[..., str]) -> None:
    other = inviso.spawn(lambda: None)
    assert names_at(write, entry(ME, "db", "alias", 2), entry(other, "db", "unalias", 5))[6:] == [["db"], ["db"]]
    assert names_at(write, entry(ME, "db", "alias", 2), entry(ME, "db", "unalias", 5))[5:] == [["db"], [], []]
    assert names_at(write, entry(other, "db", "alias", 2)) == [[]] * 8


def test_names_come_in_the_order_of_the_file_and_are_any_terms(write: Callable[..., str]) -> None:
    there = names_at(
        write, entry(ME, ("request", 7), "alias", 3), entry(ME, "db", "alias", 1), entry(ME, "x", "unalias", 4)
    )
    assert there == [[], [], ["db"], ["db"], *[[("request", 7), "db"]] * 4]


def test_messages_without_a_time_and_drop_records_have_no_name(write: Callable[..., str]) -> None:
    path = write("a.log", record(called(1, 5)), record(called(2, None)), dropped(3))
    ti = write("a.ti", entry(ME, "db", "alias", 1))
    found = taken([("n@h", trace_log(path, ti=ti))])
    assert [names for _, _, names in found] == [["db"], [], []] and found[2][1] == ("drop", 3)


def test_names_are_those_of_the_log_that_they_stand_beside(write: Callable[..., str]) -> None:
    one, two = (write(name, record(called(1, second))) for name, second in (("a", 5), ("b", 6)))
    ti = write("a.ti", entry(ME, "db", "alias", 1))
    found = taken([("a@h", trace_log(one, ti=ti)), ("b@h", trace_log(two))])
    assert [names for _, _, names in found] == [["db"], []]


def test_a_ti_file_that_is_damaged_or_absent_is_told(write: Callable[..., str], tmp_path: Path) -> None:
    path = write("a.log", record(called(1, 5)))
    bad = b"\0\0\0\0\2\x83\xff"
    ti = write("a.ti", bad, entry(ME, "db", "alias", 1), entry(ME, "x", "alias", 1)[:-3])
    _, count = merge.merge([("n@h", trace_log(path, ti=ti))], tmp_path / "out")
    assert (tmp_path / "out").read_text().startswith("n@h [<<100,98>>] {trace_ts,<0.")
    assert count == 1 and count.merged.ti_damaged == 2
    _, count = merge.merge([("n@h", trace_log(path, ti=str(tmp_path / "none")))], tmp_path / "out")
    assert count == 1 and list(count.merged.absent) == [str(tmp_path / "none")]


# Inviso's forms and answers


def test_the_lines_are_invisos(write: Callable[..., str], tmp_path: Path) -> None:
    path = write("a.log", record(called([Atom("Up"), "ab", 1.5, None], 1)), dropped(4), record(called(2, 2)))
    ti = write("a.ti", entry(ME, Atom("db"), "alias", 1))
    out = tmp_path / "out"
    assert merge.merge([("node-1@h", trace_log(path, ti=ti))], out) == ("ok", 3)
    me = repr(ME)
    assert out.read_text() == (
        f"'node-1@h' [] {{trace_ts,{me},call,{{m,f,[['Up',<<97,98>>,1.5,undefined]]}},{{0,1,0}}}}\n"
        "'node-1@h' [] {drop,4}\n"
        f"'node-1@h' [db] {{trace_ts,{me},call,{{m,f,[2]}},{{0,2,0}}}}\n"
    )
    # the same from a reader in Python, and with Inviso's argument ``Dbg``
    files = [("reader", [([], None, log.Drop(4)), ([Atom("db")], wall(2), called(2, 2))], ("node-1@h", []))]
    assert merge.merge(files, out, "Dbg") == ("ok", 2)
    assert out.read_text().splitlines() == [
        "'node-1@h' [] {drop,4}",
        f"'node-1@h' [db] {{trace_ts,{me},call,{{m,f,[2]}},{{0,2,0}}}}",
    ]


def test_handlers_are_called_with_what_they_answer(write: Callable[..., str]) -> None:
    path = write("a.log", record(called(1, 1)), record(called(2, 2)))
    files = [("a@h", trace_log(path)), ("a@h", trace_log(path))]
    calls: list[Any] = []

    def begin(data: Any) -> Any:
        calls.append(("begin", data))
        return "ok", data + 1

    def work(node: str, term: Any, names: Any, data: Any) -> Any:
        calls.append((node, term[3][2], data))
        return "ok", data + 1

    def end(data: Any) -> Any:
        calls.append(("end", data))
        return "error", "nobody looks at it"

    assert merge.merge(files, begin, work, end, 0) == ("ok", 4)
    first, second = [("a@h", [1]), ("a@h", [1])], [("a@h", [2]), ("a@h", [2])]
    assert calls == [("begin", 0), *[(*each, n) for n, each in enumerate([*first, *second], 1)], ("end", 5)]
    for nothing in (None, "void", 7):
        assert merge.merge(files, nothing, work, nothing, 0) == merge.merge(files, work, 0, "Dbg") == ("ok", 4)


def test_errors_of_handlers_end_the_merge(write: Callable[..., str], tmp_path: Path) -> None:
    files = [("a@h", trace_log(write("a.log", record(called(1, 1)), record(called(2, 2)))))]
    ended: list[Any] = []

    def never(*_: Any) -> Any:
        raise AssertionError("it is not called")

    assert merge.merge(files, lambda _: ("error", "no"), never, never, 0) == ("error", ("begin_handler", "no"))
    assert merge.merge(files, lambda _: 7, never, never, 0) == ("error", ("begin_handler", 7))
    failed = merge.merge(files, None, lambda *_: ("error", "full"), ended.append, "data")
    assert failed == ("error", ("writing_output_file", "full")) and ended == ["data"]
    with pytest.raises(ZeroDivisionError):
        merge.merge(files, None, lambda *_: 1 / 0, ended.append, "data")
    assert ended == ["data"] * 2
    nowhere = tmp_path / "nowhere" / "out"
    assert merge.merge(files, nowhere) == ("error", ("begin_handler", ("open", "enoent")))
    assert merge.merge([("reader", [], files[0])], nowhere) == ("error", ("begin_handler", ("open", "enoent")))


@pytest.mark.parametrize(
    "bad",
    [
        7, "a@h", ("a@h",), ("a@h", "file"), ("a@h", [("trace_log", "file")]), ("a@h", [("trace_log", [7])]), ("", []),
        ("a@h", [("other", ["x"])]), ("reader", [], ("a@h",)), ("reader", "m", "f", 7), (7, []),
        ("a@h", [("trace_log", ["a\0"])]),
    ],
)  # fmt: skip
def test_a_bad_file_set_is_answered(bad: Any, tmp_path: Path) -> None:
    assert merge.merge([bad], tmp_path / "out") == ("error", ("files", ("bad_reader_spec", bad)))
    assert not (tmp_path / "out").exists()


def test_custom_readers(write: Callable[..., str]) -> None:
    def numbers(files: Any) -> Iterator[Any]:
        assert files == ["anything"]
        yield ["x"], 3, "three"
        yield "error", "an entry that can't be read"
        yield (), False, "no time"
        yield [], (0, 0, 9), "another clock"
        raise OSError("the disk is gone")

    path = write("a.log", record((TRACE_TS, ME, CALL, (Atom("m"), Atom("f"), 1), 2)))
    files = [("a@h", trace_log(path)), ("reader", numbers, ("b@h", ["anything"]))]
    found: list[Any] = []
    answer, count = merge.merge(files, lambda *given: found.append(given[:3]) or ("ok", None), None)
    assert answer == "ok" and count == 4
    assert [(node, names) for node, _, names in found] == [("a@h", []), ("b@h", ["x"]), ("b@h", []), ("b@h", [])]
    assert [term for _, term, _ in found[1:]] == ["three", "no time", "another clock"]
    assert count.merged.nodes["b@h"].damaged == 2 and "can't be read" in count.merged.absent["b@h"]
    by_name = [("reader", "test_merge", "of_module", ("c@h", 5))]
    assert taken(by_name) == [("c@h", 5, [])]
    with pytest.raises(BadArg, match=r"a reader gave 7; a reader gives"):
        merge.merge([("reader", [7], ("c@h", []))], kept, [])


def of_module(files: Any) -> list[Any]:
    return [([], None, files)]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (({}, "out"), "files: {} is not a list"), (([],), "work: .* are not handlers"),
        (([], 1, 2, 3), "are not handlers"),
        (([], 7), "out: 7 is not a path"), (([], ""), "out: '' is not a path"), (([], "a\0b"), "is not a path"),
    ],
)  # fmt: skip
def test_bad_arguments_of_merge(arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(BadArg, match=why):
        merge.merge(*arguments)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"to": "zip"}, "to: 'zip' is not a form"), ({"clock": "aligned"}, "there is no NODE.clock"),
        ({"clock": "causal", "order": "inviso"}, "'inviso' has no causal order"),
        ({"clock": "sun"}, "clock: 'sun' is unknown"),
        ({"order": "any"}, "order: 'any' is unknown"), ({"ti": 7}, "ti: 7 is not a mapping"),
        ({"ti": {"z": "x"}}, "none of the nodes"),
    ],
)  # fmt: skip
def test_bad_arguments_of_logs(options: dict[str, Any], why: str, write: Callable[..., str], tmp_path: Path) -> None:
    path = write("a.log", record(called(1, 1)))
    with pytest.raises(BadArg, match=why):
        merge.logs({"a@h": path}, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_bad_sources(write: Callable[..., str], tmp_path: Path) -> None:
    path = write("a.log", record(called(1, 1)))
    for sources, why in (
        (7, "is not a mapping"), ({}, "names no log"), ({7: path}, "is not a node's name"),
        ({"": path}, "is not a node's name"),
        (path, "is not a folder"), ({"a@h": []}, "names no log"),
        ({"a@h": [path, (str(tmp_path / "x"), "wrap", ".l")]}, "no file|wrap set"),
    ):  # fmt: skip
        with pytest.raises((BadArg, FileNotFoundError), match=why):
            merge.logs(sources, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadArg, match=r"no NODE.log is in"):
        merge.logs(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        merge.logs({"a@h": tmp_path / "none"}, tmp_path / "out")
    with pytest.raises(BadArg, match="is the log itself"):
        merge.logs({"a@h": path}, path)
    ti = write("a.ti", entry(ME, "db", "alias", 1))
    with pytest.raises(BadArg, match="is the log itself"):
        merge.logs({"a@h": path}, tmp_path / "a.other", "erlang")
    assert Path(ti).read_bytes() == entry(ME, "db", "alias", 1)


# unreadable records


def test_damage_is_counted_by_node(write: Callable[..., str], tmp_path: Path) -> None:
    bad_term = b"\0\0\0\0\2\x83\xff"
    one = write("one", record(called(1, 1)), bad_term, dropped(7), record(called(3, 3))[:-2])
    two = write("two", record(called(2, 2)), b"\7")
    done = merge.logs({"a@h": one, "b@h": two}, tmp_path / "out")
    assert done.nodes == {"a@h": merge.Node(2, 7, 2), "b@h": merge.Node(1, 0, 1)}
    assert (done.records, done.lost, done.damaged) == (3, 7, 3)
    assert [(node, damage.kind, damage.path) for node, damage in done.damage] == [
        ("a@h", "term", one), ("a@h", "cut", one), ("b@h", "op", two),
    ]  # fmt: skip
    lines = (tmp_path / "out").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["a@h", f"({ME!r})"],
        *[["a@h", "***"]] * 3,
        ["b@h", f"({ME!r})"],
        ["b@h", "***"],
    ]
    assert "unknown tag 255" in lines[1] and lines[2] == "a@h *** 7 messages were dropped"
    _, count = merge.merge([("a@h", trace_log(one)), ("c@h", trace_log(str(tmp_path / "none")))], kept, [])
    assert (count, count.merged.damaged, list(count.merged.absent)) == (2, 2, [str(tmp_path / "none")])


def test_a_node_whose_log_is_absent_costs_the_others_nothing(write: Callable[..., str], tmp_path: Path) -> None:
    path = write("a.log", record(called(1, 1)))
    for out in (tmp_path / "out", None):
        files = [("gone@h", trace_log(str(tmp_path / "none"))), ("a@h", trace_log(path))]
        answer, count = merge.merge(files, out) if out else merge.merge(files, kept, [])
        assert (answer, count) == ("ok", 1) and count.merged.absent == {
            str(tmp_path / "none"): "No such file or directory"
        }
    assert merge.merge([], tmp_path / "out") == ("ok", 0) and merge.merge([], kept, []) == ("ok", 0)
    assert merge.merge([("a@h", [])], kept, []) == ("ok", 0)


def test_a_message_that_is_too_deep_for_python_is_damage(write: Callable[..., str], tmp_path: Path) -> None:
    deep = b"\x83" + b"h\1" * 1000 + b"j"  # a node reads that
    path = write("a.log", record(called(1, 1)), struct.pack(">BI", 0, len(deep)) + deep, record(called(2, 2)))
    found: list[Any] = []
    answer, count = merge.merge([("a@h", trace_log(path))], lambda *given: found.append(given) or ("ok", None), None)
    assert (answer, count, len(found)) == ("ok", 2, 2)
    [(node, damage)] = count.merged.damage
    assert (node, damage.kind, damage.at, count.merged.damaged) == ("a@h", "term", len(record(called(1, 1))), 1)
    # as it is where no objects are made
    assert merge.logs({"a@h": path}, tmp_path / "out", "erlang").damaged == 0


# logs that name their nodes


def of_node(pid_id: int, creation: int) -> Any:
    """A pid of a node without a name, as a port of another run writes it."""
    data = b"\x83X" + etf.dumps(Atom("nonode@nohost"))[1:] + struct.pack(">III", pid_id, 0, creation)
    return data


def raw(second: int, tracee: bytes, other: bytes) -> bytes:
    """``{trace_ts, Tracee, send, hello, Other, Stamp}`` from the bytes of two pids."""
    parts = [
        etf.dumps(TRACE_TS),
        tracee,
        etf.dumps(Atom("send")),
        etf.dumps(Atom("hello")),
        other,
        etf.dumps(wall(second)),
    ]
    data = b"\x83h\6" + b"".join(part[1:] for part in parts)
    return struct.pack(">BI", 0, len(data)) + data


def test_pids_get_the_names_of_their_nodes_and_names_stay_theirs(tmp_path: Path) -> None:
    one, two = of_node(4, 11), of_node(4, 22)
    (tmp_path / "a@h.log").write_bytes(raw(2, one, two) + raw(9, one, of_node(8, 33)))
    (tmp_path / "b@h.log").write_bytes(raw(3, two, one) + raw(5, two, one))

    def of(pid: bytes, alias: str, what: str, second: int) -> bytes:
        parts = [pid, etf.dumps(alias), etf.dumps(Atom(what)), etf.dumps(wall(second))]
        data = b"\x83h\4" + b"".join(part[1:] for part in parts)
        return bytes(1) + struct.pack(">I", len(data)) + data

    # without a creation, as the file's writer may have it; both have the same alias, and one of them loses it
    (tmp_path / "a@h.ti").write_bytes(of(of_node(4, 0), "db", "alias", 1) + of(etf.dumps(None), "db", "unalias", 4))
    (tmp_path / "b@h.ti").write_bytes(of(two, "db", "alias", 1))
    for form in ("erlang", "blocks"):
        out = tmp_path / f"all.{form}"
        done = merge.logs(tmp_path, out, form)
        assert (done.records, done.ti, list(done.nodes)) == (4, 3, ["a@h", "b@h"])
        nodes = [(message[1].node, message[4].node) for message in log.read(out)]
        assert nodes == [("a@h", "b@h"), ("b@h", "a@h"), ("b@h", "a@h"), ("a@h", "nonode@nohost")]
        shown = subprocess.run(
            [sys.executable, "-m", "inviso", "log", "print", str(out)], capture_output=True, text=True, timeout=60
        ).stdout.splitlines()
        assert [line.partition(" at ")[0] for line in shown] == [
            "a@h (db) <db@b@h> ! 'hello'", "b@h (db) <db@a@h> ! 'hello'", "b@h (db) <a@h.4.0> ! 'hello'",
            "a@h (<0.4.0>) <0.8.0> ! 'hello'",
        ]  # fmt: skip
        # a merged log can be merged again: it keeps its names, and the new one is for pids without a name
        again = [(each.node, each.names) for each in merge.read({"again@h": out})]
        assert again == [("again@h", ["db"]), ("again@h", ["db"]), ("again@h", ["db"]), ("again@h", [])]
        os.remove(out)
        os.remove(tmp_path / "all.ti")


def test_a_folder_has_logs_wrap_sets_and_names_of_processes(tmp_path: Path) -> None:
    for name, second in (
        ("shop@10.0.0.5.log", 1), ("web@h.0.log", 2), ("web@h.2.log", 3), ("web@h.3.log", 4), ("pay@10.0.0.5.7.log", 5),
        ("x.txt", 6),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(record(called(second, second)))
    (tmp_path / "dir.log").mkdir()
    (tmp_path / "web@h.ti").write_bytes(entry(ME, "w", "alias", 0))
    found = [(each.node, each.names, each.message[3][2]) for each in merge.read(tmp_path)]
    # the wrap set begins after its hole; the record that goes back in time follows
    assert found == [
        ("shop@10.0.0.5", [], [1]), ("web@h", ["w"], [3]), ("web@h", ["w"], [4]), ("web@h", ["w"], [2]),
        ("pay@10.0.0.5", [], [5]),
    ]  # fmt: skip


def test_a_log_of_a_real_erlang_node_merges_with_ours(write: Callable[..., str], tmp_path: Path) -> None:
    times = [message[-1] for message in log.read(DATA / "otp25.log")]
    between = (times[0][0], times[0][1], times[0][2] + 1)
    message = (TRACE_TS, ME, CALL, (Atom("m"), Atom("f"), 1), between)
    ours = write("ours.log", record(message))
    sources = {"erl@h": DATA / "otp25.log", "py@h": ours}
    found = list(merge.read(sources))
    assert (
        len(found) == 1 + len(times) and found[1].node == "py@h" and {each.node for each in found} == {"erl@h", "py@h"}
    )
    calls = [each.names for each in found if each.node == "erl@h" and each.message[2] == "call"]
    assert calls == [[], ["db"], ["db"], []], "the second and the third call came while it was called db"
    out = tmp_path / "all.log"
    done = merge.logs(sources, out, "erlang")
    assert done.ti == 2 and {message[1].node for message in log.read(out)} == {"erl@h", "py@h"}
    assert [each.names for each in merge.read({"all": out}) if each.message[2] == "call"] == [
        [],
        [],
        ["db"],
        ["db"],
        [],
    ]
    merge.logs(sources, tmp_path / "all.txt")
    text = (tmp_path / "all.txt").read_text()
    assert text.count("erl@h (db) call lists:seq(1, ") == 2 and text.count("erl@h (<0.80.0>) call lists:seq(1, ") == 2


@needs_otp
def test_a_merged_log_is_read_by_a_real_erlang_node(tmp_path: Path) -> None:
    (tmp_path / "a@h.log").write_bytes(raw(2, of_node(4, 11), of_node(5, 11)) + dropped(3))
    (tmp_path / "b@h.log").write_bytes(raw(3, of_node(4, 22), of_node(4, 11)))
    merge.logs(tmp_path, tmp_path / "all", "erlang")
    code = """
        [File] = init:get_plain_arguments(),
        Self = self(),
        dbg:trace_client(file, File, {fun(end_of_trace, N) -> Self ! {seen, N};
                                         (Message, N) -> io:format("~w~n", [case Message of
                                             {trace_ts, P, send, M, Q, _} -> {node(P), M, node(Q)};
                                             Other -> Other end]), N + 1 end, 0}),
        receive {seen, 3} -> halt() after 20000 -> halt(1) end."""
    assert erl(textwrap.dedent(code), str(tmp_path / "all")).split() == [
        "{a@h,hello,a@h}", "{drop,3}", "{b@h,hello,a@h}",
    ]  # fmt: skip


# memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("form", ["erlang", "blocks", "text"])
def test_memory_does_not_grow_with_the_records(form: str, tmp_path: Path) -> None:
    program = textwrap.dedent("""\
        import sys
        from inviso import merge
        folder, out, form = sys.argv[1:]
        merge.logs(folder, out, form)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """)
    peaks: dict[int, int] = {}
    for size in (2_000, 60_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        data = b"".join(record(called(n, n)) for n in range(2_000))
        for node in range(4):
            (folder / f"n{node}@h.log").write_bytes(data * (size // 2_000))
        words = [sys.executable, "-c", program, str(folder), str(tmp_path / "out"), form]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        peaks[size] = int(done.stdout)
    assert peaks[60_000] < peaks[2_000] + 1024, peaks


# helpers


def test_arguments_are_made_readable() -> None:
    def of_seven(term: Any, options: Any) -> Any:
        return ("ok", f"seven {options}") if term == (7,) else False

    def crashes(term: Any, options: Any) -> Any:
        raise RuntimeError

    arguments = [[104, 105], (7,), [(7,), {"a": 1}, b"\0"], 7, Atom("a"), "it"]
    both = [crashes, of_seven, ("inviso.merge", "format_argument_string")]
    assert merge.format_arguments(arguments, "o", both) == [
        '"hi"',
        "seven o",
        ["seven o", {"a": 1}, b"\0"],
        7,
        "a",
        '"it"',
    ]
    assert merge.format_arguments(arguments, "o", []) == arguments
    with pytest.raises(BadArg, match="is not a list"):
        merge.format_arguments("x", "o", [])
    with pytest.raises(BadArg, match="is not a translator"):
        merge.format_arguments([], "o", [7])


def test_the_standard_handlers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer, file = merge.outfile_opener(out)
    assert answer == "ok" and merge.outfile_opener(tmp_path) == ("error", ("open", "eisdir"))
    assert merge.outfile_writer("a@h", {"k": [1, 2]}, [Atom("Db"), "x"], file) == ("ok", file)
    assert merge.outfile_closer(file) is None
    assert out.read_text() == "a@h ['Db',<<120>>] #{<<107>> => [1,2]}\n"
    shutil.copy(out, tmp_path / "copy")
    assert merge.outfile_closer(open("/dev/null")) is None  # noqa: SIM115


def test_nodes_without_a_creation_are_told_apart_by_their_names() -> None:
    one, two = (inviso._native.process.pid_of_node(name, 0, 5) for name in ("one@h", "two@h"))
    assert one != two and (one.node, two.node) == ("one@h", "two@h")


def test_messages_that_could_not_be_compared_are_reported(write: Callable[..., str], tmp_path: Path) -> None:
    one = write("a.log", record(called(1, 1)))
    other = write(
        "b.log",
        record((TRACE_TS, ME, CALL, (Atom("m"), Atom("f"), []), 5)),
        record((TRACE_TS, ME, CALL, (Atom("m"), Atom("f"), []), 6)),
    )
    assert merge.logs({"a@h": one, "b@h": other}, tmp_path / "all.txt").other_clock == 2
    logs = [("a@h", trace_log(one)), ("b@h", trace_log(other))]
    assert merge.merge(logs, str(tmp_path / "all.txt"))[1].merged.other_clock == 2


SENT, TAKEN = Atom("send"), Atom("receive")


def token(what: str, serial: int, second: int | None, label: Any = 1) -> bytes:
    event = (Atom("seq_trace"), label, (what, (serial - 1, serial), ME, ME, "x"))
    return record(event if second is None else (*event, wall(second)))


@pytest.mark.parametrize("to", ["text", "erlang", "blocks"])
def test_no_token_is_received_before_it_was_sent(to: Any, write: Callable[..., str], tmp_path: Path) -> None:
    one = write("a.log", token(TAKEN, 1, 3), record(called("after", 4)), token(SENT, 3, 5))
    other = write("b.log", token(SENT, 1, 9), record(called("mean", 9)), token(TAKEN, 3, 8))
    files = {"a@h": one, "b@h": other}
    done = merge.logs(files, tmp_path / "all", to, clock="causal")
    second = 1_000_000_000
    assert done.moved == {
        "a@h": merge.Moved(1, 6 * second, [(wall_ns(3), 6 * second)]),
        "b@h": merge.Moved(1, second, [(wall_ns(8), second)]),
    }
    assert [each.node for each in merge.read(files, clock="causal")] == ["b@h", "a@h", "a@h", "a@h", "b@h", "b@h"]
    assert not merge.logs(files, tmp_path / "all", to).moved
    found = merge.merge([("a@h", trace_log(one)), ("b@h", trace_log(other))], str(tmp_path / "lines"), clock="causal")
    assert found == ("ok", 6) and found[1].merged.moved == done.moved
    nodes = [line.split()[0] for line in (tmp_path / "lines").read_text().splitlines()]
    assert nodes == ["b@h", "a@h", "a@h", "a@h", "b@h", "b@h"]
    taken: list[str] = []
    merge.merge(
        [("a@h", trace_log(one)), ("b@h", trace_log(other))],
        lambda node, *rest: ("ok", taken.append(node)),
        None,
        clock="causal",
    )
    assert taken == ["b@h", "a@h", "a@h", "a@h", "b@h", "b@h"]


def test_tokens_without_a_time_are_in_order_too(write: Callable[..., str]) -> None:
    files = {
        "a@h": write("a.log", token(TAKEN, 1, None)),
        "b@h": write("b.log", record(called(1, 5)), token(SENT, 1, None)),
    }
    assert [each.node for each in merge.read(files)] == ["a@h", "b@h", "b@h"]
    assert [each.node for each in merge.read(files, clock="causal")] == ["b@h", "b@h", "a@h"]


def test_names_hold_by_the_clock_of_their_own_host(tmp_path: Path, write: Callable[..., str]) -> None:
    one = write("a@h.log", record(called(1, 10)), record(called(2, 30)))
    write("a@h.ti", entry(ME, "db", "alias", 5), entry(ME, "db", "unalias", 20))
    offsets = [[wall_ns(10), 100 * 10**9, 1]]
    (tmp_path / "a@h.clock").write_text(json.dumps({"version": 1, "host": "a", "to": "b", "points": offsets}))
    for clock in ("wall", "aligned"):
        found = [each.names for each in merge.read({"a@h": one}, clock=clock)]
        assert found == [["db"], []], clock
