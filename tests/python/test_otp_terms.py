"""Random terms of a real node: each is read, goes back, and is the same term there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from inviso import BadArg, etf
from otp import erl, needs_otp

pytestmark = needs_otp

PROGRAM = Path(__file__).parent / "subjects" / "random_terms.erl"
LOAD = "{ok, M, B} = compile:file(hd(init:get_plain_arguments()), [binary]), {module, M} = code:load_binary(M, [], B),"
MAKE = (
    LOAD
    + "[_, File | N] = init:get_plain_arguments(), apply(M, make, [File | [list_to_integer(I) || I <- N]]), halt()."
)
COMPARE = LOAD + "[_, Was, Is] = init:get_plain_arguments(), M:compare(Was, Is), halt()."


def pieces(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


@pytest.mark.parametrize("seed", [1, 2])
def test_every_term_of_a_real_node_is_read_and_goes_back(seed: int, tmp_path: Path) -> None:
    was, is_ = tmp_path / "was", tmp_path / "is"
    count = int(erl(MAKE, str(PROGRAM), str(was), str(seed), "1500"))
    back = []
    for data in pieces(was.read_bytes()):
        again = etf.dumps(etf.loads(data), compressed=len(back) % 10)
        back.append(struct.pack(">I", len(again)) + again)
        if len(back) % 10 == 0:
            with pytest.raises(BadArg):
                etf.loads(data[:-1])
    assert len(back) == count > 1500
    is_.write_bytes(b"".join(back))
    assert erl(COMPARE, str(PROGRAM), str(was), str(is_)) == f"0 of {count} differ\n"


def identifiers() -> Iterator[bytes]:
    """Identifiers in all forms, and funs, at the bounds of their numbers."""
    numbers = [0, 1, 3, 4, 255, (1 << 18) - 1, 1 << 18, 1 << 28, (1 << 32) - 1]
    words = [struct.pack(">I", number) for number in numbers]
    bytes_ = [bytes([number]) for number in numbers if number < 256]
    node = b"w\1x"
    for old, new, parts in ((b"g", b"X", 2), (b"f", b"Y", 1)):
        for word in words:
            yield from (old + node + word * parts + creation for creation in bytes_)
            yield from (new + node + word * parts + creation for creation in words)
    for word in words:
        yield from (b"e" + node + word + creation for creation in bytes_)
        yield b"x" + node + word * 2 + words[1]
        for length in range(1, 7):
            size = struct.pack(">H", length)
            yield from (b"r" + size + node + creation + word + words[-1] * (length - 1) for creation in bytes_)
            yield from (b"Z" + size + node + creation + word + words[-1] * (length - 1) for creation in words)
    yield b"r\0\0" + node + b"\0"
    large = [5, 1 << 31, (1 << 59) - 1, 1 << 59, (1 << 59) + 1, (1 << 64) - 1]
    bigs = [number.to_bytes(8, "little") for number in large]
    integers = [
        *(b"a" + number for number in bytes_), *(b"b" + word for word in words),
        *(b"n\x08" + sign + big for big in bigs for sign in (b"\0", b"\1")), *(b"o\0\0\0\x08\0" + big for big in bigs),
        b"n\0\0", b"n\x09\0" + bytes(8) + b"\1", b"w\1a", b"F" + bytes(8),
    ]  # fmt: skip
    for integer in integers:
        yield b"qw\1mw\1f" + integer
        for both in (integer + b"a\0", b"a\0" + integer):
            rest = bytes(25) + b"w\1m" + both + b"Xw\1x" + words[1] * 3
            yield b"p" + struct.pack(">I", len(rest) + 4) + rest


READ = """
{ok, B} = file:read_file(hd(init:get_plain_arguments())),
Read = fun R(<<N:32, T:N/binary, More/binary>>) -> [catch {ok, binary_to_term(T)} | R(More)]; R(<<>>) -> [] end,
Say = fun F([{ok, T}, {ok, T} | L]) -> [$1 | F(L)];
          F([{ok, _}, {ok, _} | L]) -> [$2 | F(L)];
          F([{ok, _}, _ | L]) -> [$3 | F(L)];
          F([_, _ | L]) -> [$0 | F(L)]; F([]) -> [] end,
io:put_chars(Say(Read(B))), halt().
"""


def test_identifiers_and_funs_have_the_bounds_that_erlang_gives_them(tmp_path: Path) -> None:
    pairs = []
    for data in identifiers():
        try:
            back = etf.dumps(etf.loads(b"\x83" + data))
        except BadArg:
            back = b""
        pairs.append((b"\x83" + data, back))
    file = tmp_path / "pairs"
    file.write_bytes(b"".join(struct.pack(">I", len(data)) + data for pair in pairs for data in pair))
    said = erl(READ, str(file))
    wrong = [data for (data, back), what in zip(pairs, said, strict=True) if what != ("1" if back else "0")]
    assert wrong == []
