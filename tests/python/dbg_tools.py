"""What tests of dbg trace where it does not matter what it is."""

from __future__ import annotations

from typing import Any

HERE = __name__


def leaf(x: Any) -> Any:
    return x
