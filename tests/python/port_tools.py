"""Logs as tests read them: the frames of OTP's trace ports, one by one."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inviso import _native


class Cut(Exception):
    """The log ends inside a record."""


def term_of(payload: bytes) -> bytes:
    """The payload without the bytes after the term in a record that names the log's owner."""
    if not payload.endswith(b"\xb1who"):
        return payload
    return payload[: -8 - int.from_bytes(payload[-8:-4])]


def frames(data: bytes) -> Iterator[Any]:
    """The messages and ``("drop", n)`` of a log's bytes."""
    at = 0
    while at < len(data):
        head = data[at : at + 5]
        if len(head) < 5:
            raise Cut(at)
        number = int.from_bytes(head[1:], "big")
        at += 5
        if head[0] == 1:
            yield ("drop", number)
            continue
        assert head[0] == 0, f"operation {head[0]} at {at - 5}"
        payload = data[at : at + number]
        if len(payload) < number:
            raise Cut(at - 5)
        yield _term(term_of(payload))
        at += number


def _term(payload: bytes) -> Any:
    """The term of a payload. A number follows the term of a message that was sent or received."""
    for mark, size in ((b"\xb1", 9), (b"\xb2", 13)):  # the latter names the sender, too
        if payload[-size : 1 - size] == mark:
            with contextlib.suppress(ValueError):
                return _native.etf.binary_to_term(_of_a_node(payload[:-size]), 200, 1 << 30)
    return _native.etf.binary_to_term(_of_a_node(payload), 200, 1 << 30)


def _of_a_node(payload: bytes) -> bytes:
    """A node without a name gives its pids no creation, so they belong to no node. Here they get one."""
    head = rb"(?s)(X(?:w|s|d\0)\rnonode@nohost.{8})\0\0\0\0"
    return re.sub(head, lambda found: found[1] + b"\0\0\0\1", payload)


def read(path: str | Path) -> list[Any]:
    return list(frames(Path(path).read_bytes()))


def python(code: str, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a process of its own, which can import the modules of this folder."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code, *arguments],
        capture_output=True, text=True, timeout=seconds, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
