"""The external term format: terms come back the same, bytes of OTP are read, and no bytes do harm."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import inviso
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inviso import Atom, BadArg, BitString, Cut, ImproperList, Map, Opaque, Record, Ref, etf
from inviso.seq._text import term as erlang_text
from test_properties import exact, examples, snapshot, values

GOLD = [
    [bytes.fromhex(form) for form in line.split()]
    for line in (Path(__file__).parents[1] / "data" / "gold" / "etf" / "terms.txt").read_text().splitlines()
]


def for_erlang(value: Any) -> Any:
    """A snapshot after encoding and decoding, as the docs of inviso.etf describe it."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return Atom({"inf": "infinity", "-inf": "-infinity"}.get(str(value), "nan"))
    if isinstance(value, (tuple, list)):
        return type(value)(map(for_erlang, value))
    if isinstance(value, frozenset):
        items = [for_erlang(item) for item in value]
        return frozenset(items) if len(frozenset(items)) == len(items) else items
    if isinstance(value, (dict, Map)):
        pairs = [(for_erlang(k), for_erlang(v)) for k, v in (value.items() if isinstance(value, dict) else value)]
        keys = [repr(exact(as_binaries(key))) for key, _ in pairs]
        if len(set(keys)) < len(keys):
            return pairs
        try:
            return dict(pairs) if len(dict(pairs)) == len(pairs) else Map(pairs)
        except TypeError:
            return Map(pairs)
    return value


def as_binaries(value: Any) -> Any:
    if type(value) is str:
        return value.encode()
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_binaries, value))
    if isinstance(value, (dict, Map)):
        pairs = value.items() if isinstance(value, dict) else value
        return Map((as_binaries(key), as_binaries(item)) for key, item in pairs)
    if isinstance(value, etf.LocalFun):  # its bytes differ with the age of the form
        return repr(value), value.arity
    if isinstance(value, ImproperList):
        return as_binaries(value.elements), as_binaries(value.tail)
    return frozenset(map(as_binaries, value)) if isinstance(value, frozenset) else value


@examples(300)
@given(values, st.integers(0, 9))
def test_every_value_that_can_be_captured_comes_back(value: Any, compressed: int) -> None:
    captured = snapshot(value)
    data = etf.dumps(captured, compressed=compressed)
    assert exact(etf.loads(data)) == exact(for_erlang(captured))
    assert etf.dumps(etf.loads(data)) == etf.dumps(for_erlang(captured))


ODD = [
    BitString(b"\xa0", 3), ImproperList([1, 2], 3), Map([(1, "a"), (1.0, "b"), (True, "c")]), Map([([], 1)]),
    etf.Fun("lists", "map", 2), etf.Fun("true", "undefined", 0), Opaque("app.Order", 4711), Opaque("a", 1, "text"),
    Record("rr", "p", {"b": 1, "a": [b"x"]}, True), Record("true", "undefined", {}),
    Cut("items"), Ref(), inviso.self(), inviso.Port(), Atom("$inviso.set"), (Atom("$inviso.set"), [1]), b"", "",
    b"text",
    1 << 20000, -(1 << 64), (1 << 63) - 1, -(1 << 63), [*range(256)], (1,) * 300, frozenset([b"a"]), "\U0001f600",
]  # fmt: skip


@pytest.mark.parametrize("term", ODD, ids=range(len(ODD)))
def test_what_python_has_no_type_for_comes_back(term: Any) -> None:
    assert exact(etf.loads(etf.dumps(term))) == exact(term)
    assert exact(etf.loads(etf.dumps([(term, {"k": term})]))) == exact([(term, {"k": term})])


def test_a_node_with_a_name_puts_it_into_its_pids() -> None:
    me, reference, port = inviso.self(), Ref(), inviso.Port()
    assert b"nonode@nohost" in etf.dumps([me, reference, port])
    inviso.set_node("here@there")
    try:
        data = etf.dumps([me, reference, port])
        assert b"nonode@nohost" not in data and data.count(b"here@there") == 3
        assert etf.loads(data) == [me, reference, port]
    finally:
        inviso.set_node("nonode@nohost")


@pytest.mark.parametrize("forms", GOLD, ids=range(len(GOLD)))
def test_what_otp_wrote_is_read_in_every_form(forms: list[bytes]) -> None:
    # whether a binary says that it is bytes differs by the form
    plain, *others = (exact(as_binaries(etf.loads(form))) for form in forms)
    assert all(other == plain for other in others)
    again = etf.loads(etf.dumps(etf.loads(forms[0])))
    assert exact(as_binaries(again)) == plain


@pytest.mark.parametrize(
    ("data", "term"),
    [
        ("83 63" + b"1.50000000000000000000e+00".hex() + "00" * 5, 1.5),
        ("83 64 0002 6f6b", "ok"), ("83 73 02 6f6b", "ok"), ("83 76 0002 c3a4", "ä"), ("83 64 0001 e4", "ä"),
        ("83 6e 01 01 05", -5), ("83 6f 00000001 00 05", 5), ("83 6b 0002 0102", [1, 2]), ("83 69 00000000", ()),
        ("83 4d 00000001 08 61", b"a"), ("83 4d 00000001 03 a0", BitString(b"\xa0", 3)),
        ("83 6c 00000001 6101 6c 00000001 6102 6a", [1, 2]), ("83 74 00000000", {}),
        ("83 6101 63", 1),  # bytes after a term are ignored
        ("83 74 00000002 6101 6102 46 3ff0000000000000 6103", Map([(1, 2), (1.0, 3)])),
        ("83 71 77016d 770166 62 00000002", etf.Fun("m", "f", 2)),
        ("83 71 77016d 770166 62 00000100", etf.Fun("m", "f", 256)),
    ],
)  # fmt: skip
def test_old_and_unusual_forms_are_read(data: str, term: Any) -> None:
    assert exact(etf.loads(bytes.fromhex(data))) == exact(inviso.Atom(term) if "6f6b" in data or term == "ä" else term)


@pytest.mark.parametrize("text", ["1", " 1.5", "1.5 ", "1.", ".5", "1.5e", "1e5", "inf", "nan", "1.0e400", "1.5x"])
def test_old_floats_that_erlang_refuses(text: str) -> None:
    with pytest.raises(BadArg, match="a malformed float"):
        etf.loads(b"\x83c" + text.encode().ljust(31, b"\0"))


@pytest.mark.parametrize("text", ["1.5", "+1.5", "1.5e0", "01.5", "15.0E-1", "1.5\x001"])
def test_old_floats_that_erlang_takes(text: str) -> None:
    assert etf.loads(b"\x83c" + text.encode().ljust(31, b"\0")) == 1.5


# as OTP 29.1.1 wrote and shows them
RECORDS = [
    ("43 00000002 00 77027272 770170 770161 770162 6102 6103", "#rr:p{a = 2,b = 3}"),
    ("43 00000002 01 77027272 770170 770161 770162 6102 6801 770178", "#rr:p{a = 2,b = {x}}"),
    ("43 00000000 00 77027272 770171", "#rr:q{}"),
    ("43 00000002 00 77025272 770150 770141 770162 6102 6103", "#'Rr':'P'{'A' = 2,b = 3}"),
]


@pytest.mark.parametrize(("data", "shown"), RECORDS)
def test_native_records(data: str, shown: str) -> None:
    bytes_ = bytes.fromhex("83" + data)
    term = etf.loads(bytes_)
    assert isinstance(term, Record) and type(term.module) is type(term.name) is Atom
    assert etf.dumps(term) == bytes_ and etf.loads(etf.dumps({term: [term]})) == {term: [term]}
    assert term.exported is (data[12:14] == "01") and len({term, etf.loads(bytes_)}) == 1
    assert erlang_text(term) == shown
    assert term != Record(term.module, term.name, term.fields, not term.exported) and term != 1
    for length in range(1, len(bytes_)):
        with pytest.raises(BadArg):
            etf.loads(bytes_[:length])


@pytest.mark.parametrize(
    "record",
    [Record("m", "r", {1: 2}), Record("m", 1, {}), Record("m", "r", [1]), Record("m" * 256, "r", {}),
    Record("m", "\ud800", {})],
    ids=range(5),
)  # fmt: skip
def test_malformed_records(record: Any) -> None:
    with pytest.raises(BadArg, match="dumps/2, term: "):
        etf.dumps(record)


def test_identifiers_of_other_nodes_go_back_as_they_came() -> None:
    for data in (
        "58 7704 6e406868 0000002a 00000007 00000009",  # NEW_PID_EXT
        "78 7704 6e406868 0000000000000123 00000009",  # V4_PORT_EXT
        "5a 0005 7704 6e406868 00000009 00000001 00000002 00000003 00000004 00000005",  # NEWER_REFERENCE_EXT
        "5a 0003 7704 6e406868 00000009 00000001 00000002 00000003",
    ):
        bytes_ = bytes.fromhex("83" + data)
        term = etf.loads(bytes_)
        assert term.node == "n@hh" and etf.dumps(term) == bytes_
    one, two = (etf.loads(bytes.fromhex("83 58 7704 6e406868 000000" + n + " 00000007 00000009")) for n in ("50", "51"))
    assert one != two and one < two and repr(one).endswith(".80.7>")


def test_pids_are_shown_as_erlang_shows_them() -> None:
    pid = etf.loads(bytes.fromhex("83 58 770d" + b"nonode@nohost".hex() + "00000053 00000001 00000000"))
    assert repr(pid) == "<0.83.1>" and pid.is_local()


def test_compression_is_kept_only_where_it_helps() -> None:
    assert etf.dumps([0] * 99, compressed=1)[1] == 80 and etf.dumps(7, compressed=9) == etf.dumps(7)
    sizes = [len(etf.dumps([*range(300)] * 9, compressed=level)) for level in (1, 9)]
    assert sizes[0] >= sizes[1]


@pytest.mark.parametrize("level", [-1, 10, 1.0, None, True, "6"])
def test_invalid_levels_of_compression(level: Any) -> None:
    with pytest.raises(BadArg, match=r"dumps/2, compressed: .* is no level .*; pass an int from 0 to 9"):
        etf.dumps(1, compressed=level)


@pytest.mark.parametrize(
    "term",
    [object(), [print], {1: {2: open}}, type, bytearray(b"a"), etf.Fun("m", "f", 1 << 59), etf.Fun("m", "f", -1)],
    ids=["object", "list", "dict", "class", "bytearray", "arity too large", "arity below 0"],
)
def test_what_is_no_term_is_refused(term: Any) -> None:
    with pytest.raises(BadArg, match="dumps/2, term: .*; pass what Erlang has a type for"):
        etf.dumps(term)


def test_what_is_too_deep_is_refused_and_never_cut() -> None:
    for count in range(190, 210):
        term: Any = 1
        for _ in range(count):
            term = [term]
        if count < etf.DEPTH:
            assert etf.loads(etf.dumps(term)) == term
        else:
            with pytest.raises(BadArg, match="term: it is nested too deep; pass one of up to 199 levels"):
                etf.dumps(term)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadArg):
        etf.dumps(endless)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "at byte 0: no term begins so"),
        ("61 01", "at byte 0: no term begins so"),
        ("83", "at byte 1: the bytes end in the middle of a term"),
        ("83 00", "at byte 1: unknown tag 0"),
        ("83 6802 6101 01", "at byte 5: unknown tag 1"),
        ("83 6c 7fffffff 6101", "at byte 6: the bytes end"),
        ("83 74 00000002 6101 6102 6101 6103", "at byte 0: a float that is not finite, or a map with a key twice"),
        ("83 74 00000002 6d00000001 61 6102 4d00000001 0861 6103", "at byte 0: a float that is not finite, or a map"),
        ("83 6801 46 7ff0000000000000", "at byte 0: a float that is not finite"),
        ("83 46 fff8000000000001", "at byte 0: a float that is not finite"),
        ("83 43 00000000 02 77016d 770172", "at byte 7: a malformed record"),
        ("83 43 00000002 00 77016d 770172 770161 770161 6101 6102", "a malformed record"),
        ("83 43 00000001 00 77016d 770172 6101 6101", "unknown tag 97"),
        ("83 77 01 ff", "at byte 4: a malformed atom"),
        ("83 50 00000010 789c", "at byte 6: the bytes end"),
        ("83 50 ffffffff 789c", "at byte 6: too large; pass a size that is larger"),
        ("83 4d 00000001 09 00", "at byte 8: a malformed bit string"),
        ("83 67 770178 00000001 00000001 04", "at byte 14: a malformed creation"),
        ("83 72 0000 770178 00", "at byte 8: a malformed reference"),
    ],
)
def test_bytes_that_are_no_term_say_where(data: str, why: str) -> None:
    with pytest.raises(BadArg) as wrong:
        etf.loads(bytes.fromhex(data))
    assert wrong.value.argument == "data" and why in wrong.value.why and "; pass" in wrong.value.why


def test_limits_of_reading() -> None:
    deep = etf.dumps([[[1]]])
    assert etf.loads(deep, depth=4) == [[[1]]]
    with pytest.raises(BadArg, match="nested too deeply; pass a depth that is larger, up to 200"):
        etf.loads(deep, depth=3)
    with pytest.raises(
        BadArg, match="nested too deeply; terms of Erlang's that are nested deeper than 200 can't be read"
    ):
        etf.loads(b"\x83" + b"h\1" * 200 + b"j")
    with pytest.raises(BadArg, match="too large; pass a size"):
        etf.loads(deep, size=len(deep) - 1)
    bomb = b"\x83P" + (1 << 24).to_bytes(4) + zlib.compress(etf.dumps(b"a" * ((1 << 24) - 6))[1:], 9)
    with pytest.raises(BadArg, match="too large"):
        etf.loads(bomb, size=1 << 20)
    for name in ("depth", "size"):
        with pytest.raises(BadArg, match=f"{name}: 0 is no limit; pass an int from 1"):
            etf.loads(deep, **{name: 0})
    with pytest.raises(BadArg, match="data: str is not bytes"):
        etf.loads("text")  # type: ignore[arg-type]
    assert etf.loads(memoryview(deep)) == etf.loads(bytearray(deep)) == [[[1]]]


def test_a_claimed_length_takes_no_memory() -> None:
    claims = [
        "83 6c ffffffff", "83 69 ffffffff", "83 74 ffffffff", "83 6d ffffffff", "83 6f ffffffff 00",
        "83 50 03ffffff 789c",
        "83 70 ffffffff 00" + "00" * 16 + "00000000 ffffffff",
    ]  # fmt: skip
    tracemalloc.start()
    for claim in claims:
        with pytest.raises(BadArg):
            etf.loads(bytes.fromhex(claim) + b"j" * 100)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_the_number_of_foreign_atoms_is_limited() -> None:
    program = """
import inviso
from inviso import etf, terms
limit = 1 << 20
terms.Atom._all.update((f"x{n}", None) for n in range(limit - len(terms.Atom._all)))
assert etf.loads(etf.dumps(True)) is True
try:
    etf.loads(b"\\x83w\\x05other")
except inviso.SystemLimit as wrong:
    print(wrong)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "too many atoms" in done.stdout, done.stderr


def test_changed_bytes_are_a_term_or_refused() -> None:
    """The short form of fuzz/python/fuzz_etf.py. Names that were read stay, so it has its own process."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, "-c", "import test_etf; test_etf.check_changed(6, 20_000)"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=env, check=False)
    assert done.returncode == 0, done.stderr


def check_changed(seed: int, times: int) -> None:
    """Checks this many terms of the gold file, changed at random."""
    chance = random.Random(seed)
    for _ in range(times):
        data = bytearray(chance.choice(chance.choice(GOLD)))
        for _ in range(chance.randrange(1, 4)):
            what = chance.randrange(4)
            at = chance.randrange(len(data)) if data else 0
            if what == 0 and data:
                data[at] = chance.randrange(256)
            elif what == 1:
                del data[at:]
            elif what == 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 5))
            else:
                data[at : at + 4] = chance.choice((b"\0\0\0\1", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"))
        check_bytes(bytes(data))


def check_bytes(data: bytes) -> None:
    """A term comes back the same; any other value is refused with its place."""
    try:
        term = etf.loads(data, size=1 << 20)
    except BadArg as wrong:
        place = re.search(r"at byte (\d+)", str(wrong))
        assert place and int(place[1]) <= max(len(data), 1 << 20)
        return
    try:
        again = etf.dumps(term)
    except BadArg as wrong:
        assert "too deep" in str(wrong)
        return
    assert etf.dumps(etf.loads(again)) == again


def test_bits_that_are_no_part_of_a_bit_string_make_no_difference() -> None:
    assert BitString(b"a\xff", 1) == BitString(b"a\x80", 1) == etf.loads(b"\x83M\0\0\0\2\1a\xff")
    assert hash(BitString(b"\xff", 7)) == hash(BitString(b"\xfe", 7))
    assert etf.dumps(BitString(b"\xff", 3)) == b"\x83M\0\0\0\1\3\xe0"
