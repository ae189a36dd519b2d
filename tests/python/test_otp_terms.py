"""Terms that a real node makes by chance: each is read, goes back, and is the same term there."""

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
