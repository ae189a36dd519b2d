"""A real Erlang/OTP beside the tests: Debian's `erlang-base` and `erlang-runtime-tools`, or any other on PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ERL = shutil.which("erl")

needs_otp = pytest.mark.skipif(ERL is None, reason="no Erlang here: apt-get install erlang-base erlang-runtime-tools")


def command(code: str, *arguments: str) -> list[str]:
    """The command of a node that evaluates `code`. The code gets `arguments` from `init:get_plain_arguments()`."""
    assert ERL is not None
    return [ERL, "-noshell", "-noinput", "-eval", code, "-extra", *arguments]


def erl(code: str, *arguments: str, folder: Path | None = None, seconds: float = 60) -> str:
    """The output of a node that evaluates `code` (its last expression: `halt()`)."""
    done = subprocess.run(
        command(code, *arguments), cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"erl ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
